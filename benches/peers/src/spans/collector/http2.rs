//! Serves gRPC requests over HTTP/2. Of the frames, only data, settings and pings are processed.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
/// Length of the prefix of a gRPC message: the compression flag and the message length.
const PREFIX_BYTES: usize = 5;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const INITIAL_WINDOW_SIZE: u16 = 4;
/// Largest possible window, so that a client never waits for the collector.
const MAX_WINDOW: u32 = (1 << 31) - 1;
const WINDOW_AT_START: u32 = 65_535;

/// HPACK block: `:status: 200` from the static table, and the content type as a literal.
const ANSWER: &[u8] = b"\x88\x00\x0ccontent-type\x10application/grpc";
const TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";
const EMPTY_MESSAGE: [u8; PREFIX_BYTES] = [0; PREFIX_BYTES];

pub(super) fn serve(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    take: impl Fn(&[u8], bool) -> io::Result<()>,
) -> io::Result<()> {
    let mut preface = [0; PREFACE_BYTES];
    reader.read_exact(&mut preface)?;
    writer.write_all(&greeting())?;
    let (mut head, mut payload, mut messages) = ([0; HEAD_BYTES], Vec::new(), HashMap::new());
    while !reader.fill_buf()?.is_empty() {
        reader.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        payload.resize(u32::from_be_bytes([0, a, b, c]) as usize, 0);
        reader.read_exact(&mut payload)?;
        match kind {
            DATA => {
                let stream = u32::from_be_bytes(stream);
                let message: &mut Vec<u8> = messages.entry(stream).or_default();
                message.extend_from_slice(without_padding(&payload, flags)?);
                if flags & END_STREAM != 0 {
                    let message = messages.remove(&stream).unwrap_or_default();
                    let body = message.get(PREFIX_BYTES..).ok_or(io::ErrorKind::InvalidData)?;
                    take(body, message[0] != 0)?;
                    writer.write_all(&answer(stream, message.len() as u32))?;
                }
            }
            SETTINGS if flags & ACK == 0 => writer.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            PING if flags & ACK == 0 => writer.write_all(&frame(PING, ACK, 0, &payload))?,
            _ => {}
        }
    }
    Ok(())
}

fn greeting() -> Vec<u8> {
    let mut window = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
    window.extend_from_slice(&MAX_WINDOW.to_be_bytes());
    let widened = (MAX_WINDOW - WINDOW_AT_START).to_be_bytes();
    [frame(SETTINGS, 0, 0, &window), frame(WINDOW_UPDATE, 0, 0, &widened)].concat()
}

/// Returns the frames of a response, and a window update for the received bytes.
fn answer(stream: u32, received: u32) -> Vec<u8> {
    [
        frame(WINDOW_UPDATE, 0, 0, &received.to_be_bytes()),
        frame(HEADERS, END_HEADERS, stream, ANSWER),
        frame(DATA, 0, stream, &EMPTY_MESSAGE),
        frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS),
    ]
    .concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn without_padding(payload: &[u8], flags: u8) -> io::Result<&[u8]> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(io::ErrorKind::InvalidData)?;
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(io::ErrorKind::InvalidData)?;
    Ok(&rest[..length])
}
