//! Invariants of a real receiver on loopback, for any client.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use standpipe::receiver::Receiver;

use crate::http2::frame::{HEAD_BYTES, Head, PREFACE, flag, kind};

/// Far more than an answer on loopback takes.
const PATIENCE: Duration = Duration::from_secs(2);
/// Larger than all answers to one input.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// Number of inputs between two valid requests, which must be answered.
const INTERVAL: usize = 100;

static RECEIVER: LazyLock<Receiver> = LazyLock::new(|| {
    let builder = Receiver::builder().max_body_bytes(64 << 10).keep_bytes(1 << 20);
    builder.start().expect("loopback has ports")
});
static INPUTS: AtomicUsize = AtomicUsize::new(0);

/// An input is the bytes that a client sends to the HTTP port.
pub fn check_http(input: &[u8]) {
    let answered = exchange(RECEIVER.address(), &[input]);
    assert!(answered.is_empty() || answered.starts_with(b"HTTP/1.1 "), "{}", answered.escape_ascii());
    if INPUTS.fetch_add(1, Ordering::Relaxed) % INTERVAL == 0 {
        let request = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n\
                       Content-Length: 0\r\n\r\n";
        let answered = exchange(RECEIVER.address(), &[request.as_bytes()]);
        assert!(answered.starts_with(b"HTTP/1.1 200 "), "serves no more: {}", answered.escape_ascii());
    }
}

/// The first byte of an input tells whether the client begins with a valid preface; the other bytes are what the client
/// sends after that.
pub fn check_grpc(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let empty_settings = [0, 0, 0, kind::SETTINGS, 0, 0, 0, 0, 0];
    let begins_well = choice & 1 == 0;
    let answered = match begins_well {
        true => exchange(RECEIVER.grpc_address(), &[PREFACE, &empty_settings, rest]),
        false => exchange(RECEIVER.grpc_address(), &[rest]),
    };
    if !answered.starts_with(b"HTTP/1.1 505 ") {
        check_frames(&answered);
    }
    if INPUTS.fetch_add(1, Ordering::Relaxed) % INTERVAL == 0 {
        let ping = [0, 0, 8, kind::PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let answered = exchange(RECEIVER.grpc_address(), &[PREFACE, &empty_settings, &ping]);
        let mut pong = ping;
        pong[4] = flag::ACK;
        let is_answered = answered.windows(pong.len()).any(|window| window == pong);
        assert!(is_answered, "serves no more: {}", answered.escape_ascii());
    }
}

/// Sends everything and reads to the end.
fn exchange(address: SocketAddr, pieces: &[&[u8]]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    // The receiver may close the connection before it has all bytes.
    let _ = pieces.iter().try_for_each(|piece| socket.write_all(piece));
    let _ = socket.shutdown(Shutdown::Write);
    let mut answered = Vec::new();
    match socket.take(MAX_ANSWER_BYTES).read_to_end(&mut answered) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("the connection stays open after {}", answered.escape_ascii())
        }
        _ => answered,
    }
}

/// Asserts that the answer consists of whole frames, unless the connection was reset in the middle of one.
fn check_frames(mut rest: &[u8]) {
    while let Some(head) = rest.first_chunk::<HEAD_BYTES>() {
        let head = Head::read(head);
        assert!(head.kind <= kind::CONTINUATION, "a frame of kind {}", head.kind);
        rest = rest.get(HEAD_BYTES + head.length..).unwrap_or_default();
    }
}
