//! The exact bytes, as received by a minimal server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use standpipe::Compression;

use super::{export, exporter_to};
use crate::support::scene::LONG;

const HEADERS: u8 = 1;
const DATA: u8 = 0;
/// Settings, a head, an empty message, and trailers with status OK.
const ANSWER: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x05\0\0\0\0\0\x01\0\0\0\0\0\
    \0\0\x0f\x01\x05\0\0\0\x01\0\x0bgrpc-status\x010";

/// The header block and the message of the first request.
struct Seen {
    block: Vec<u8>,
    message: Vec<u8>,
}

/// Serves one call on one connection.
fn serve(listener: &TcpListener) -> Seen {
    let (mut client, _) = listener.accept().expect("someone comes");
    client.set_read_timeout(Some(LONG)).expect("it is a time");
    let mut preface = [0; 24];
    client.read_exact(&mut preface).expect("a preface");
    let mut seen = Seen { block: Vec::new(), message: Vec::new() };
    loop {
        let (kind, flags, payload) = next_frame(&mut client);
        match kind {
            HEADERS => seen.block = payload,
            DATA => seen.message.extend_from_slice(&payload),
            _ => {}
        }
        if kind == DATA && flags & 1 != 0 {
            client.write_all(ANSWER).expect("the client listens");
            // Reads until the client has closed the connection.
            let _ = client.read_to_end(&mut Vec::new());
            return seen;
        }
    }
}

fn next_frame(client: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    client.read_exact(&mut head).expect("a frame");
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    client.read_exact(&mut payload).expect("all of the frame");
    (head[3], head[4], payload)
}

/// Returns the bytes that a server receives for one span. Asserts that the span was delivered.
fn seen(with: impl FnOnce(standpipe::Exporter) -> standpipe::Exporter) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    let (report, reported) = mpsc::channel();
    let server = thread::spawn(move || report.send(serve(&listener)));
    let (ledger, problems) = export(with(exporter_to(&endpoint)));
    assert_eq!((ledger.total().delivered, problems.len()), (1, 0), "{ledger}, {problems:?}");
    let seen = reported.recv_timeout(LONG).expect("the server has seen it");
    server.join().expect("the server has not panicked").expect("someone listens");
    seen
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn metadata_is_lower_case_and_no_table_on_its_way_may_keep_it() {
    let seen = seen(|exporter| exporter.header("Authorization", "Bearer 123").header("X-Tenant", "seven"));
    // Both fields begin with the bits 0001, "never indexed". The name follows: entry 23 of the static table, or a
    // literal.
    assert!(contains(&seen.block, b"\x1f\x08\x0aBearer 123"), "{:?}", seen.block);
    assert!(contains(&seen.block, b"\x10\x08x-tenant\x05seven"), "{:?}", seen.block);
    assert!(!contains(&seen.block, b"X-Tenant"));
    // The first block begins by setting the size of the dynamic table to zero.
    assert_eq!(seen.block[0], 0x20);
}

#[test]
fn a_plain_message_is_flagged_as_plain_and_its_length_is_true() {
    let seen = seen(|exporter| exporter.compression(Compression::None));
    assert!(!contains(&seen.block, b"grpc-encoding"));
    assert!(contains(&seen.block, b"\x14grpc-accept-encoding\x08identity"), "{:?}", seen.block);
    assert!(!contains(&seen.block, b"gzip"), "{:?}", seen.block);
    assert_eq!(seen.message[0], 0);
    let length = u32::from_be_bytes(seen.message[1..5].try_into().unwrap());
    assert_eq!(length as usize, seen.message.len() - 5);
}

#[test]
fn a_compressed_message_is_flagged_and_its_encoding_named() {
    let seen = seen(|exporter| exporter.compression(Compression::Gzip));
    assert!(contains(&seen.block, b"\x0dgrpc-encoding\x04gzip"), "{:?}", seen.block);
    assert_eq!(seen.message[0], 1);
    assert_eq!(seen.message[5..7], [0x1f, 0x8b], "what follows is gzip");
    // The client accepts gzip as well, because some servers answer with the encoding of the request.
    assert!(contains(&seen.block, b"\x14grpc-accept-encoding\x0didentity,gzip"), "{:?}", seen.block);
}
