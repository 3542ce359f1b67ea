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
    /// It is longer than the limit; the rest was not looked at.
    TooLong,
}

/// Unpacks what holds at most `limit` bytes, and never more than one byte beyond it.
#[cfg(feature = "gzip")]
pub(super) fn decompress(compressed: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    use std::io::Read;

    let mut body = Vec::new();
    let decoder = flate2::read::MultiGzDecoder::new(compressed);
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut body);
    if body.len() > limit {
        return Err(Fault::TooLong);
    }
    read.map(|_| body).map_err(|_| Fault::Broken)
}

#[cfg(not(feature = "gzip"))]
pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, Fault> {
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
        assert_eq!(decompress(&compressed, 4), Ok(b"abcd".to_vec()));
        assert_eq!(decompress(&compressed, 3), Err(Fault::TooLong));
        for end in 0..compressed.len() {
            assert_eq!(decompress(&compressed[..end], 4), Err(Fault::Broken), "cut at {end}");
        }
    }
}
