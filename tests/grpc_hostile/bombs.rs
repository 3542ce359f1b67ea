//! Answers that are far larger than a client needs.

use std::io;
use std::sync::mpsc;

use crate::server::{Peer, saying};
use crate::stage::{Fate, LONG, Setting, Stage, export};
use crate::wire::*;

const CANCEL: u32 = 8;
/// The largest frame that every client accepts.
const MAX_FRAME_BYTES: usize = 16_384;

/// Sends data as fast as the client's windows allow.
fn say_data(peer: &mut Peer, stream: u32, bytes: usize) -> io::Result<()> {
    let piece = data(stream, &vec![0; MAX_FRAME_BYTES]);
    for _ in 0..bytes.div_ceil(MAX_FRAME_BYTES) {
        while peer.window < MAX_FRAME_BYTES as i64 {
            peer.hear()?;
        }
        peer.window -= MAX_FRAME_BYTES as i64;
        peer.say(&piece)?;
    }
    Ok(())
}

#[test]
fn a_block_of_references_to_one_long_field_is_not_unpacked() {
    let bomb = [kept("x", &"y".repeat(4000)), vec![0xbe; 12_000]].concat();
    let bomb = frame(HEADERS, END_HEADERS, FIRST, &bomb);
    let (outcome, heard) = export("bomb", Setting::default(), saying(bomb));
    outcome.is(Fate::Refused, "the response headers are too long");
    assert_eq!(heard.resets(), [(FIRST, CANCEL)]);
    assert_eq!(heard.farewells(), [0; 0]);
}

#[test]
fn what_follows_a_head_that_is_too_long_can_still_be_read() {
    let mut stage = Stage::set("after a bomb", Setting::default(), |peer| {
        peer.greet(&[])?;
        peer.request()?;
        let bomb = [kept("grpc-status", "0"), kept("x", &"y".repeat(3000)), vec![0xbe; 12_000]].concat();
        peer.say(&frame(HEADERS, END_HEADERS, FIRST, &bomb))?;
        let next = peer.request()?;
        // The status is the second newest entry of the dynamic table.
        let block = [block(&HEAD), vec![0xbf]].concat();
        peer.say(&head(next.stream))?;
        peer.say(&data(next.stream, &message(&[])))?;
        peer.say(&frame(HEADERS, END_HEADERS | END_STREAM, next.stream, &block[block.len() - 1..]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Refused, "the response headers are too long");
    stage.export(1).is(Fate::Delivered, "");
    assert_eq!(stage.end().0.len(), 1);
}

#[test]
fn a_head_above_the_limit_is_refused_and_one_below_it_is_not() {
    for (case, bytes, fate, words) in [
        ("below", 30_000, Fate::Delivered, ""),
        ("above", 32_700, Fate::Refused, "the response headers are too long"),
    ] {
        let (outcome, _) = export(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            let long = "y".repeat(bytes / 2);
            let block = block(&[HEAD[0], HEAD[1], ("x", &long), ("z", &long)]);
            let (first, rest) = block.split_at(MAX_FRAME_BYTES);
            peer.say(&frame(HEADERS, 0, FIRST, first))?;
            let (second, third) = rest.split_at(rest.len().min(MAX_FRAME_BYTES));
            peer.say(&frame(CONTINUATION, 0, FIRST, second))?;
            peer.say(&frame(CONTINUATION, END_HEADERS, FIRST, third))?;
            peer.say(&data(FIRST, &message(&[])))?;
            peer.say(&trailers(FIRST, &[("grpc-status", "0")]))?;
            peer.until_gone()
        });
        outcome.is(fate, words);
    }
}

#[test]
fn trailers_above_the_limit_are_refused() {
    let bomb = [block(&[("grpc-status", "0")]), kept("x", &"y".repeat(3000)), vec![0xbe; 12]].concat();
    let words = [head(FIRST), frame(HEADERS, END_HEADERS | END_STREAM, FIRST, &bomb)].concat();
    let (outcome, _) = export("trailers", Setting::default(), saying(words));
    outcome.is(Fate::Refused, "the response headers are too long");
}

#[test]
fn an_answer_of_5_mebibytes_is_broken_off_and_its_connection_is_good() {
    let mut stage = Stage::set("5 MiB", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        say_data(peer, request.stream, 5 << 20)?;
        peer.say(&trailers(request.stream, &[("grpc-status", "0")]))?;
        // The client enlarged the window for the last MiB only during its next call, so stream 3 is already open.
        peer.say(&well(3))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Refused, "the response is longer than response-bytes");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.resets()), (1, vec![(FIRST, CANCEL)]));
    // All bytes are returned to the window, including those after the reset, except a remainder that is too small for
    // an update.
    assert!(heard.given_back(0) > (5 << 20) - WINDOW / 2, "{}", heard.given_back(0));
    assert!(heard.given_back(FIRST) <= (4 << 20) + WINDOW, "{}", heard.given_back(FIRST));
}

#[test]
fn an_answer_of_4_mebibytes_is_read_to_its_end() {
    let (outcome, _) = export("4 MiB", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        say_data(peer, request.stream, 4 << 20)?;
        peer.say(&trailers(request.stream, &[("grpc-status", "0")]))?;
        peer.until_gone()
    });
    // The data begins with an empty message.
    outcome.is(Fate::Delivered, "");
}

#[test]
fn an_endless_answer_is_broken_off() {
    let (broken_off, was_broken_off) = mpsc::channel();
    let mut stage = Stage::set("endless", Setting::default(), move |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        // The client reads these frames, and the last frame exceeds the limit.
        say_data(peer, request.stream, (4 << 20) + MAX_FRAME_BYTES)?;
        while !peer.has_heard(RESET) {
            peer.hear()?;
        }
        let _ = broken_off.send(());
        say_data(peer, request.stream, usize::MAX)
    });
    stage.export(1).is(Fate::Refused, "the response is longer than response-bytes");
    // If the client closed its socket with unread input now, the RESET that it has sent might be lost.
    was_broken_off.recv_timeout(LONG).unwrap();
    assert_eq!(stage.end().resets(), [(FIRST, CANCEL)]);
}

#[test]
fn an_answer_without_regard_for_windows_costs_no_memory() {
    let (outcome, _) = export("no windows", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        let words = data(request.stream, &vec![0; MAX_FRAME_BYTES]);
        peer.flood(words, 1 << 14)
    });
    outcome.is(Fate::Refused, "");
}

/// Returns an answer with a compressed message, a head that names the compression, and status OK.
fn packed(encoding: &str, content: &[u8]) -> Vec<u8> {
    let message = [&[1][..], &(content.len() as u32).to_be_bytes(), content].concat();
    let frames = message.chunks(MAX_FRAME_BYTES).map(|piece| data(FIRST, piece));
    [headers(FIRST, &[HEAD[0], HEAD[1], ("grpc-encoding", encoding)])]
        .into_iter()
        .chain(frames)
        .chain([trailers(FIRST, &[("grpc-status", "0")])])
        .collect::<Vec<_>>()
        .concat()
}

const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Returns a gzip file that stores the bytes without compression.
fn gzip(content: &[u8]) -> Vec<u8> {
    let checksum = !content.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
    });
    let length = u16::try_from(content.len()).expect("one block is enough");
    [
        &GZIP_HEAD[..],
        &[1],
        &length.to_le_bytes(),
        &(!length).to_le_bytes(),
        content,
        &checksum.to_le_bytes(),
        &u32::from(length).to_le_bytes(),
    ]
    .concat()
}

/// Returns 40 KB that decompress to more than 6 MB: a zero, then again and again 258 copies of the last byte.
fn gzip_bomb() -> Vec<u8> {
    // One last block with fixed codes: a literal 0, then length 258 and distance 1 repeatedly, in bit order.
    let bits = "110".chars().chain("00110000".chars()).chain("1100010100000".chars().cycle());
    let bits: Vec<u8> = bits.take(40_000 * 8).map(|bit| u8::from(bit == '1')).collect();
    let bytes = bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, bit| byte << 1 | bit));
    GZIP_HEAD.into_iter().chain(bytes).collect()
}

/// grpc-go, and so the official Collector, compresses its answer if the request was compressed, whatever the client
/// accepts.
#[test]
fn a_compressed_answer_is_read_and_what_it_rejects_is_counted() {
    for (case, content, fate, words) in [
        ("nothing", gzip(b""), Fate::Delivered, ""),
        ("an empty partial success", gzip(b"\x0a\x00"), Fate::Delivered, ""),
        ("a warning", gzip(b"\x0a\x05\x12\x03old"), Fate::Warned, "the collector warns: old"),
        ("a rejected record", gzip(b"\x0a\x07\x08\x01\x12\x03bad"), Fate::Rejected, "1 record rejected: bad"),
        ("nonsense", gzip(b"\xff\xff\xff"), Fate::Warned, "the answer cannot be read"),
    ] {
        for encoding in ["gzip", "GZIP"] {
            let (outcome, heard) = export(case, Setting::default(), saying(packed(encoding, &content)));
            outcome.is(fate, words);
            assert_eq!(heard.requests(), 1, "{case}");
        }
    }
}

#[test]
fn a_compressed_answer_that_cannot_be_unpacked_is_delivered_with_a_warning_and_within_bounds() {
    let whole = gzip(b"\x0a\x07\x08\x01\x12\x03bad");
    let mut wrong = whole.clone();
    wrong[20] ^= 1;
    for (case, encoding, content, words) in [
        ("no gzip", "gzip", [&GZIP_HEAD[..4], &[0; 996]].concat(), "the answer cannot be unpacked"),
        ("no content", "gzip", Vec::new(), "the answer cannot be unpacked"),
        ("cut", "gzip", whole[..whole.len() - 1].to_vec(), "the answer cannot be unpacked"),
        ("another checksum", "gzip", wrong, "the answer cannot be unpacked"),
        ("a bomb", "gzip", gzip_bomb(), "the answer is longer than 64 KiB when it is unpacked"),
        ("another way", "br", whole.clone(), "the answer is compressed in a way that was not asked for"),
        ("in no way", "identity", whole, "the answer is compressed in a way that was not asked for"),
    ] {
        let (outcome, heard) = export(case, Setting::default(), saying(packed(encoding, &content)));
        outcome.is(Fate::Warned, words);
        assert_eq!(heard.requests(), 1, "{case}");
    }
}

#[test]
fn a_long_reason_is_cut() {
    let long = "no ".repeat(5000);
    let words = status(FIRST, &[("grpc-status", "3"), ("grpc-message", &long)]);
    let (outcome, _) = export("long reason", Setting::default(), saying(words));
    outcome.is(Fate::Refused, "INVALID_ARGUMENT: no no");
    assert!(outcome.words.len() < 800, "{} bytes", outcome.words.len());
}
