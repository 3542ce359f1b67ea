//! Compressed bodies.

/// Of 9. A request of spans becomes 15 % smaller than at the least effort; beyond this one every byte is dearly bought.
#[cfg(feature = "gzip")]
const EFFORT: u32 = 2;

/// Fills `compressed` with the body, smaller.
#[cfg(feature = "gzip")]
pub(super) fn compress(body: &[&[u8]], compressed: &mut Vec<u8>) {
    use std::io::Write;

    compressed.clear();
    let mut encoder = flate2::write::GzEncoder::new(&mut *compressed, flate2::Compression::new(EFFORT));
    for piece in body {
        // writing to memory cannot fail
        let _ = encoder.write_all(piece);
    }
}

#[cfg(not(feature = "gzip"))]
pub(super) fn compress(body: &[&[u8]], compressed: &mut Vec<u8>) {
    // start() refuses gzip without the feature
    compressed.clear();
    body.iter().for_each(|piece| compressed.extend_from_slice(piece));
}
