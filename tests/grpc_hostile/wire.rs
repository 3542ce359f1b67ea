//! Hand-written HTTP/2 frames, valid and invalid.

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

// Identifiers of settings.
pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const ENABLE_PUSH: u16 = 2;
pub(crate) const MAX_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW: u16 = 4;
pub(crate) const MAX_FRAME: u16 = 5;
pub(crate) const MAX_HEADER_LIST: u16 = 6;

/// Initial size of windows.
pub(crate) const WINDOW: u32 = 65_535;
/// The largest window, stream id and window increment.
pub(crate) const MAX_31_BITS: u32 = (1 << 31) - 1;

/// The first stream of a client.
pub(crate) const FIRST: u32 = 1;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the head of a frame of this length, without a payload.
pub(crate) fn head_only(kind: u8, length: u32) -> Vec<u8> {
    let mut head = length.to_be_bytes()[1..].to_vec();
    head.extend([kind, 0, 0, 0, 0, FIRST as u8]);
    head
}

pub(crate) fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let entries =
        entries.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(SETTINGS, 0, 0, &entries.collect::<Vec<u8>>())
}

pub(crate) fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"are you ")
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RESET, 0, stream, &code.to_be_bytes())
}

pub(crate) fn go_away(last_stream: u32, code: u32, text: &str) -> Vec<u8> {
    frame(GO_AWAY, 0, 0, &[&last_stream.to_be_bytes(), &code.to_be_bytes(), text.as_bytes()].concat())
}

pub(crate) fn update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn data(stream: u32, content: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, content)
}

/// Returns a frame whose content is followed by this much padding.
pub(crate) fn padded(kind: u8, flags: u8, stream: u32, content: &[u8], padding: u8) -> Vec<u8> {
    let payload = [&[padding], content, &vec![0; usize::from(padding)]].concat();
    frame(kind, flags | PADDED, stream, &payload)
}

/// Returns literal fields that are not added to the table.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// Returns a field that is added to the table.
pub(crate) fn kept(name: &str, value: &str) -> Vec<u8> {
    [vec![0x40], text(name), text(value)].concat()
}

fn text(text: &str) -> Vec<u8> {
    let mut encoded = integer(text.len());
    encoded.extend(text.as_bytes());
    encoded
}

/// Encodes a number with a prefix of seven bits, after a 0 bit.
fn integer(value: usize) -> Vec<u8> {
    let Some(mut rest) = value.checked_sub(127) else { return vec![value as u8] };
    let mut bytes = vec![127];
    while rest >= 128 {
        bytes.push(rest as u8 | 128);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

pub(crate) fn headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &block(fields))
}

/// The fields of an answer's head.
pub(crate) const HEAD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

pub(crate) fn head(stream: u32) -> Vec<u8> {
    headers(stream, &HEAD)
}

pub(crate) fn trailers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(fields))
}

/// A message as gRPC frames it.
pub(crate) fn message(content: &[u8]) -> Vec<u8> {
    [&[0][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

/// Returns an answer with status OK and an empty message.
pub(crate) fn well(stream: u32) -> Vec<u8> {
    [head(stream), data(stream, &message(&[])), trailers(stream, &[("grpc-status", "0")])].concat()
}

/// Returns an answer that consists of a head only.
pub(crate) fn status(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    trailers(stream, &[&HEAD, fields].concat())
}
