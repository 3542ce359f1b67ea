//! Compressed bodies.

/// Fills `compressed` with the body, smaller.
#[cfg(feature = "gzip")]
pub(super) fn compress(body: &[&[u8]], compressed: &mut Vec<u8>) {
    use std::io::Write;

    compressed.clear();
    // telemetry repeats itself so much that more effort than the least gains little
    let mut encoder = flate2::write::GzEncoder::new(&mut *compressed, flate2::Compression::fast());
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
