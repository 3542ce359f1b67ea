//! Lower bound of the cost: writes prepared bytes to a socket and waits for the response.

use std::io::{Read, Write};
use std::net::TcpStream;

use prost::Message;

use super::spent::Spent;
use super::{Contender, Order, SMALL, ready};
use crate::support::Error;

pub(super) const CONTENDER: Contender = Contender {
    name: "bare socket",
    cases: &[SMALL],
    note: "no client: writes prepared bytes and reads until the stream of the response ends; no deadline, no decoding, \
           no checks",
    send,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Largest possible increment of the initial window, so that the server never waits for the client.
const MAX_WINDOW_INCREMENT: u32 = (1 << 31) - 1 - 65_535;

fn send(order: &Order) -> Result<Spent, Error> {
    let authority = order.endpoint.strip_prefix("http://").ok_or("an endpoint without http://")?;
    let body = ready::request(order.spans)?.encode_to_vec();
    let (mut request, places) = frames(authority, &body);
    let mut socket = TcpStream::connect(authority)?;
    socket.set_nodelay(true)?;
    let mut greeting = PREFACE.to_vec();
    frame(SETTINGS, 0, 0, &[], &mut greeting);
    frame(WINDOW_UPDATE, 0, 0, &MAX_WINDOW_INCREMENT.to_be_bytes(), &mut greeting);
    frame(SETTINGS, ACK, 0, &[], &mut greeting);
    socket.write_all(&greeting)?;
    let mut answers = Answers { bytes: Vec::new(), buffer: [0; 4096] };
    Spent::on(|| {
        for number in 0..order.requests {
            let stream = u32::try_from(number * 2 + 1)?;
            for place in places {
                request[place..place + 4].copy_from_slice(&stream.to_be_bytes());
            }
            socket.write_all(&request)?;
            answers.wait_for(stream, &mut socket)?;
        }
        Ok(())
    })
}

/// Returns a HEADERS and a DATA frame, and the offsets of their stream ids.
fn frames(authority: &str, body: &[u8]) -> (Vec<u8>, [usize; 2]) {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "10S"),
    ] {
        // Literal field that is not added to the dynamic table.
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut message = vec![0];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(body);
    let mut out = Vec::new();
    frame(HEADERS, END_HEADERS, 0, &block, &mut out);
    let second = out.len();
    frame(DATA, END_STREAM, 0, &message, &mut out);
    (out, [HEAD_BYTES - 4, second + HEAD_BYTES - 4])
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

struct Answers {
    /// Received bytes that have not been parsed.
    bytes: Vec<u8>,
    buffer: [u8; 4096],
}

impl Answers {
    /// Reads until the stream has ended.
    fn wait_for(&mut self, stream: u32, socket: &mut TcpStream) -> Result<(), Error> {
        loop {
            while let Some((length, kind, flags, on)) = self.next_head() {
                let end = HEAD_BYTES + length;
                if self.bytes.len() < end {
                    break;
                }
                self.bytes.drain(..end);
                if on == stream && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                    return Ok(());
                }
            }
            match socket.read(&mut self.buffer)? {
                0 => return Err("the server closed the connection".into()),
                count => self.bytes.extend_from_slice(&self.buffer[..count]),
            }
        }
    }

    /// Returns length, type, flags and stream id of the next frame.
    fn next_head(&self) -> Option<(usize, u8, u8, u32)> {
        let &[a, b, c, kind, flags, s, t, u, v] = self.bytes.first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some((length, kind, flags, u32::from_be_bytes([s, t, u, v])))
    }
}
