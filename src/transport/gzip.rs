//! Compression of request bodies, and of responses that a server compressed.

/// Of 9. A request of spans becomes 15 % smaller than at the least effort; beyond this one every byte is dearly bought.
#[cfg(feature = "gzip")]
const EFFORT: u32 = 2;

/// Fills `compressed` with the body, smaller.
pub(super) fn compress(body: &[&[u8]], compressed: &mut Vec<u8>) {
    compressed.clear();
    #[cfg(feature = "gzip")]
    if crate::config::demand::GZIP.is_raised() {
        use std::io::Write;

        let mut encoder = flate2::write::GzEncoder::new(&mut *compressed, flate2::Compression::new(EFFORT));
        for piece in body {
            // writing to memory cannot fail
            let _ = encoder.write_all(piece);
        }
        return;
    }
    // not met: start() refuses gzip without the feature, and what sets it raises the demand
    body.iter().for_each(|piece| compressed.extend_from_slice(piece));
}

/// Why there is nothing unpacked.
#[cfg_attr(
    not(all(feature = "grpc", feature = "gzip")),
    allow(dead_code, reason = "which of them there are depends on the features")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// This build has no way to unpack.
    Unknown,
    Broken,
}

/// Unpacks the first `limit` bytes, and never more than one byte beyond them; of what is not whole, as many as there are. The
/// second value is whether they are all.
#[cfg(feature = "gzip")]
pub(super) fn decompress(compressed: &[u8], is_whole: bool, limit: usize) -> Result<(Vec<u8>, bool), Fault> {
    use std::io::Read;

    let mut body = Vec::new();
    let decoder = flate2::read::MultiGzDecoder::new(compressed);
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut body);
    if read.is_err() && (is_whole || body.is_empty()) {
        return Err(Fault::Broken);
    }
    let is_all = read.is_ok() && body.len() <= limit;
    body.truncate(limit);
    Ok((body, is_all))
}

#[cfg(not(feature = "gzip"))]
pub(super) fn decompress(_: &[u8], _: bool, _: usize) -> Result<(Vec<u8>, bool), Fault> {
    Err(Fault::Unknown)
}

#[cfg(all(test, feature = "grpc", feature = "gzip"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_is_unpacked_up_to_the_limit() {
        crate::config::demand::GZIP.raise();
        let mut compressed = Vec::new();
        compress(&[b"ab", b"cd"], &mut compressed);
        assert_eq!(decompress(&compressed, true, 4), Ok((b"abcd".to_vec(), true)));
        assert_eq!(decompress(&compressed, true, 3), Ok((b"abc".to_vec(), false)));
        for end in 0..compressed.len() {
            let cut = &compressed[..end];
            assert_eq!(decompress(cut, true, 4), Err(Fault::Broken), "cut at {end}");
            match decompress(cut, false, 4) {
                Ok((body, is_all)) => assert!(b"abcd".starts_with(&body) && !is_all, "cut at {end}"),
                Err(fault) => assert_eq!(fault, Fault::Broken, "cut at {end}"),
            }
        }
    }
}
