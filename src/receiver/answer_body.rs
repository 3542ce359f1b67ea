//! Bodies of answers, and the mapping between HTTP status and gRPC code.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use flate2::{Compress, Compression, Crc, FlushCompress};

use super::answer::{Answer, Body};
use super::content::{Form, Format};
use super::json;
use crate::record::wire::{encode_field, encode_varint};

const BLOCK: usize = 1 << 20;
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty final deflate block.
const END_OF_STREAM: [u8; 2] = [3, 0];
pub(super) const PIECE: usize = 64 * 1024;
/// Bytes that a cut-short answer announces, but does not send.
pub(super) const CUT_SHORT_BYTES: u64 = 1024;

/// A body whose length is known before its bytes are generated.
pub(super) enum Sendable<'a> {
    Bytes(Cow<'a, [u8]>),
    Zeros(u64),
}

impl<'a> Sendable<'a> {
    /// Encodes the body of an answer in the format of the request.
    pub(super) fn of(answer: &'a Answer, form: Form) -> Self {
        let encoded = match (&answer.body, form.format) {
            (Body::Zeros(length), _) => return Sendable::Zeros(*length),
            (Body::GzipBomb(unpacked), _) => gzip_bomb(*unpacked),
            (Body::Empty, Format::Json) => b"{}".to_vec(),
            (Body::Empty, Format::Protobuf) => Vec::new(),
            (Body::Bytes(bytes), _) => return Sendable::Bytes(Cow::Borrowed(bytes)),
            (Body::Partial { rejected, message }, Format::Protobuf) => encode_partial(*rejected, message),
            (Body::Partial { rejected, message }, Format::Json) => {
                json::partial(*rejected, message, form.signal)
            }
            (Body::Status, Format::Protobuf) => {
                encode_status(answer.grpc_code(), answer.status_message(), None)
            }
            (Body::Status, Format::Json) => json::status(answer.grpc_code(), answer.status_message()),
        };
        Sendable::Bytes(Cow::Owned(encoded))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Sendable::Bytes(bytes) => bytes.len() as u64,
            Sendable::Zeros(length) => *length,
        }
    }

    pub(super) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Sendable::Bytes(bytes) => out.write_all(bytes),
            Sendable::Zeros(length) => send_repeated(out, &[0; PIECE], *length),
        }
    }
}

pub(super) fn send_repeated(out: &mut impl Write, piece: &[u8], total: u64) -> io::Result<()> {
    let mut left = total;
    while left > 0 {
        let length = left.min(piece.len() as u64);
        out.write_all(&piece[..length as usize])?;
        left -= length;
    }
    Ok(())
}

/// Writes byte by byte. `pause` waits after each byte, and returns whether to continue.
pub(super) fn send_slowly(
    mut out: impl Write,
    bytes: &[u8],
    mut pause: impl FnMut() -> bool,
) -> io::Result<()> {
    for byte in bytes {
        out.write_all(&[*byte])?;
        out.flush()?;
        if !pause() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(())
}

/// Returns a gzip stream with a single member, which decompresses to a whole number of mebibytes of zeros, at least
/// `unpacked` bytes. The receiver itself never decompresses it.
fn gzip_bomb(unpacked: u64) -> Vec<u8> {
    let zeros = vec![0; BLOCK];
    let mut block = Vec::with_capacity(BLOCK / 64);
    // A full flush ends at a byte boundary and resets the window, so the same bytes can be repeated. The call cannot
    // fail: the output has sixteen times the room that these zeros need when compressed.
    let _ = Compress::new(Compression::best(), false).compress_vec(&zeros, &mut block, FlushCompress::Full);
    let (mut block_checksum, mut checksum) = (Crc::new(), Crc::new());
    block_checksum.update(&zeros);
    let mut stream = HEADER.to_vec();
    for _ in 0..unpacked.div_ceil(BLOCK as u64) {
        stream.extend_from_slice(&block);
        // The checksum of the repeated block is combined arithmetically, instead of hashing all zeros again.
        checksum.combine(&block_checksum);
    }
    stream.extend_from_slice(&END_OF_STREAM);
    stream.extend_from_slice(&checksum.sum().to_le_bytes());
    stream.extend_from_slice(&checksum.amount().to_le_bytes());
    stream
}

/// Returns the gRPC code of an HTTP status.
pub(super) fn code_of(status: u16) -> u32 {
    match status {
        200..300 => 0,
        400 | 411 | 412 | 414 | 417 => 3,
        408 | 504 => 4,
        403 => 7,
        413 | 429 | 431 => 8,
        404 | 405 | 415 | 501 | 505 => 12,
        500 => 13,
        502 | 503 => 14,
        401 => 16,
        _ => 2,
    }
}

/// Returns the HTTP status of a gRPC code.
pub(super) fn status_of(code: u32) -> u16 {
    match code {
        0 => 200,
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

/// Returns a response message, which is the same for every signal: field 1 is the partial success with the rejected
/// count (1) and a message (2).
pub(super) fn encode_partial(rejected: u64, message: &str) -> Vec<u8> {
    let (mut partial_success, mut response) = (Vec::new(), Vec::new());
    if rejected > 0 {
        encode_number(1 << 3, rejected, &mut partial_success);
    }
    if !message.is_empty() {
        encode_field(2 << 3 | 2, message.as_bytes(), &mut partial_success);
    }
    encode_field(1 << 3 | 2, &partial_success, &mut response);
    response
}

/// Returns a `google.rpc.Status`, with a `google.rpc.RetryInfo` if `retry` is set.
pub(super) fn encode_status(code: u32, message: &str, retry: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    encode_number(1 << 3, code.into(), &mut status);
    encode_field(2 << 3 | 2, message.as_bytes(), &mut status);
    if let Some(delay) = retry {
        let mut any = Vec::new();
        encode_field(1 << 3 | 2, b"type.googleapis.com/google.rpc.RetryInfo", &mut any);
        encode_field(2 << 3 | 2, &encode_retry_info(delay), &mut any);
        encode_field(3 << 3 | 2, &any, &mut status);
    }
    status
}

fn encode_retry_info(delay: Duration) -> Vec<u8> {
    let (mut duration, mut info) = (Vec::new(), Vec::new());
    encode_number(1 << 3, delay.as_secs(), &mut duration);
    encode_number(2 << 3, delay.subsec_nanos().into(), &mut duration);
    encode_field(1 << 3 | 2, &duration, &mut info);
    info
}

fn encode_number(tag: u8, number: u64, out: &mut Vec<u8>) {
    out.push(tag);
    encode_varint(number, out);
}

/// Percent-encodes a message for `grpc-message`: printable ASCII except `%` stays.
pub(super) fn percent_encoded(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_bomb_is_valid_gzip_a_thousand_times_smaller_than_its_content() {
        let wire = gzip_bomb(3 * BLOCK as u64 - 1);
        assert!(wire.len() < 3 * BLOCK / 500);
        let mut unpacked = Vec::new();
        GzDecoder::new(&wire[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked.len(), 3 * BLOCK);
    }

    #[test]
    fn a_status_keeps_its_meaning_on_the_way_there_and_back() {
        for code in [0, 2, 3, 4, 7, 8, 14, 16] {
            let back = code_of(status_of(code));
            // HTTP has no status for UNKNOWN (2): it is sent as 500, which is read as INTERNAL (13).
            assert_eq!(back, if code == 2 { 13 } else { code }, "{code}");
        }
        assert_eq!((code_of(404), code_of(501), status_of(12)), (12, 12, 501));
        assert_eq!((code_of(302), code_of(299), status_of(99)), (2, 0, 500));
    }

    #[test]
    fn messages_go_percent_encoded() {
        assert_eq!(percent_encoded("100 % süß\n"), "100 %25 s%C3%BC%C3%9F%0A");
    }

    #[test]
    fn a_status_says_how_long_to_wait() {
        let status = encode_status(8, "no", Some(Duration::from_millis(1500)));
        let (front, any) = status.split_at(6);
        assert_eq!(front, [0x08, 8, 0x12, 2, b'n', b'o']);
        assert_eq!(any[0], 0x1a);
        assert!(any.ends_with(&[0x12, 10, 0x0a, 8, 0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]), "{any:?}");
    }
}
