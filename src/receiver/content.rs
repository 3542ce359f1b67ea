//! What the message of a request says.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::records::Records;
use super::refusal::Refusal;
use super::weight;
use crate::record::Signal;

/// How much more memory than the largest body a decoded one may take. Spans as programs make them take five times
/// their length.
const UNFOLDING: usize = 16;

/// How a message was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

/// The content of a request.
pub(super) struct Content {
    pub(super) signal: Signal,
    pub(super) records: Records,
    /// The memory it takes.
    pub(super) weight: usize,
}

impl Content {
    /// Decompresses and decodes a message of at most `limit` bytes.
    pub(super) fn read(signal: Signal, coding: Coding, bytes: &[u8], limit: usize) -> Result<Self, Refusal> {
        match coding {
            Coding::Identity => Self::decode(signal, bytes, limit),
            Coding::Gzip => Self::decode(signal, &gunzip(bytes, limit)?, limit),
        }
    }

    fn decode(signal: Signal, message: &[u8], limit: usize) -> Result<Self, Refusal> {
        let weight = weight::of(signal, message);
        if weight > limit.saturating_mul(UNFOLDING) {
            return Err(Refusal::new(413, "request body too large: it unfolds to too many messages"));
        }
        let records = Records::decode(signal, message)
            .map_err(|error| Refusal::new(400, format!("cannot decode the body: {error}")))?;
        Ok(Self { signal, records, weight })
    }
}

/// Decompresses, counting while it does: a bomb is defused at `limit` bytes.
fn gunzip(compressed: &[u8], limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    let mut decoder = MultiGzDecoder::new(compressed).take(limit as u64 + 1);
    decoder
        .read_to_end(&mut body)
        .map_err(|error| Refusal::new(400, format!("cannot decompress the body: {error}")))?;
    if body.len() > limit {
        return Err(Refusal::too_large(limit));
    }
    Ok(body)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn decompression_stops_at_the_limit() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; 100_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert_eq!(gunzip(&bomb, 100_000).unwrap().len(), 100_000);
        assert_eq!(gunzip(&bomb, 99_999).unwrap_err().status, 413);
        assert_eq!(gunzip(&bomb[..bomb.len() - 1], 100_000).unwrap_err().status, 400);
        assert_eq!(gunzip(b"not gzip", 100).unwrap_err().status, 400);
    }
}
