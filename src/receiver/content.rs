//! Decompression and decoding of a request's body, within memory limits.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::budget::Share;
use super::json;
use super::records::Records;
use super::refusal::Refusal;
use crate::record::{Signal, message};

/// Maximum memory of a decoded body, as a multiple of the maximum body length. Spans of typical programs take five
/// times their encoded length.
const UNFOLDING: usize = 16;
/// Number of copies of a message during decoding: the output of the decoder, and the records that are made from it.
const WHILE_DECODING: usize = 2;
/// Bytes of one step of decompression. Memory is reserved before each step.
const STEP: usize = 64 * 1024;

/// Compression of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

/// Encoding of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Protobuf,
    Json,
}

/// Format and signal of a request, which determine the form of its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) format: Format,
    pub(super) signal: Option<Signal>,
}

impl Form {
    pub(super) const PROTOBUF: Self = Self { format: Format::Protobuf, signal: None };
}

/// The decoded content of a request.
pub(super) struct Content {
    pub(super) signal: Signal,
    pub(super) records: Records,
    /// Memory of the records.
    pub(super) weight: usize,
    /// Reserved memory.
    pub(super) share: Share,
}

impl Content {
    /// Decompresses and decodes a message of at most `limit` bytes. `share` has already reserved the memory of `bytes`.
    pub(super) fn read(
        signal: Signal,
        format: Format,
        coding: Coding,
        bytes: &[u8],
        limit: usize,
        mut share: Share,
    ) -> Result<Self, Refusal> {
        let body = match coding {
            Coding::Identity => Cow::Borrowed(bytes),
            Coding::Gzip => Cow::Owned(gunzip(bytes, limit, &mut share)?),
        };
        if format == Format::Protobuf {
            return Self::decode(signal, &body, limit, share);
        }
        let reserved = share.bytes();
        // The upper bound is reserved first; the actual length is known only after the conversion.
        share.grow(json::max_protobuf_bytes(body.len()))?;
        let message = json::to_protobuf(signal, &body)
            .map_err(|error| Refusal::undecodable(format!("cannot decode the body: {error}")))?;
        share.shrink_to(reserved + message.len());
        Self::decode(signal, &message, limit, share)
    }

    fn decode(signal: Signal, body: &[u8], limit: usize, mut share: Share) -> Result<Self, Refusal> {
        // The memory is estimated before decoding: two bytes can be a whole span, so the records may take far more
        // memory than the body.
        let weight = message::decoded_bytes(signal, body);
        let fits = weight <= limit.saturating_mul(UNFOLDING);
        Refusal::unless(fits, 413, "request body too large: it contains too many messages")?;
        share.grow(weight.saturating_mul(WHILE_DECODING))?;
        let records = Records::decode(signal, body)
            .map_err(|error| Refusal::undecodable(format!("cannot decode the body: {error}")))?;
        Ok(Self { signal, records, weight, share })
    }
}

/// Decompresses step by step, and stops at `limit` bytes or when `share` cannot grow.
fn gunzip(compressed: &[u8], limit: usize, share: &mut Share) -> Result<Vec<u8>, Refusal> {
    let failed = |error| Refusal::undecodable(format!("cannot decompress the body: {error}"));
    let mut body = Vec::new();
    let mut decoder = MultiGzDecoder::new(compressed);
    while body.len() < limit {
        let step = STEP.min(limit - body.len());
        share.make_room(&mut body, step, limit)?;
        if decoder.by_ref().take(step as u64).read_to_end(&mut body).map_err(failed)? < step {
            return Ok(body);
        }
    }
    // Exactly `limit` bytes are allowed, so an attempt to read one more byte shows whether the body is too long.
    match decoder.read(&mut [0]).map_err(failed)? {
        0 => Ok(body),
        _ => Err(Refusal::too_large(limit)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::budget::Budget;
    use super::*;

    #[test]
    fn decompression_stops_at_the_limit() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; 100_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        let gunzip = |bytes: &[u8], limit| gunzip(bytes, limit, &mut Budget::new(100_000).share());
        assert_eq!(gunzip(&bomb, 100_000).unwrap().len(), 100_000);
        assert_eq!(gunzip(&bomb, 99_999).unwrap_err().status, 413);
        assert_eq!(gunzip(&bomb[..bomb.len() - 1], 100_000).unwrap_err().status, 400);
        assert_eq!(gunzip(b"not gzip", 100).unwrap_err().status, 400);
    }

    #[test]
    fn decompression_stops_where_there_is_no_room() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; 1_000_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        let budget = Budget::new(300_000);
        let mut other = budget.share();
        assert_eq!(gunzip(&bomb, 1_000_000, &mut budget.share()).unwrap_err().status, 413);
        other.grow(200_000).unwrap();
        assert_eq!(gunzip(&bomb, 1_000_000, &mut budget.share()).unwrap_err().status, 503);
    }

    #[test]
    fn the_capacity_of_an_unpacked_message_is_reserved_and_not_its_length() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; 150_000]).unwrap();
        let packed = encoder.finish().unwrap();
        let mut share = Budget::new(1_000_000).share();
        let message = gunzip(&packed, 1_000_000, &mut share).unwrap();
        assert_eq!((message.len(), message.capacity()), (150_000, share.bytes()));
    }
}
