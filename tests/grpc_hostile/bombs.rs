//! Answers that are far larger than what is worth hearing.

use std::io;
use std::sync::mpsc;

use crate::server::{Peer, saying};
use crate::stage::{Fate, LONG, Setting, Stage, export};
use crate::wire::*;

const CANCEL: u32 = 8;
/// The largest that every client takes.
const LARGEST_FRAME: usize = 16_384;

/// Says data without end, as fast as the client's windows allow.
fn say_data(peer: &mut Peer, stream: u32, bytes: usize) -> io::Result<()> {
    let piece = data(stream, &vec![0; LARGEST_FRAME]);
    for _ in 0..bytes.div_ceil(LARGEST_FRAME) {
        while peer.window < LARGEST_FRAME as i64 {
            peer.hear()?;
        }
        peer.window -= LARGEST_FRAME as i64;
        peer.say(&piece)?;
    }
    Ok(())
}

#[test]
fn a_block_of_references_to_one_long_field_is_not_unpacked() {
    let bomb = [kept("x", &"y".repeat(4000)), vec![0xbe; 12_000]].concat();
    let bomb = frame(HEADERS, END_HEADERS, FIRST, &bomb);
    let (outcome, heard) = export("bomb", Setting::default(), saying(bomb));
    outcome.is(Fate::Refused, "the head of the answer is too long");
    assert_eq!(heard.resets(), [(FIRST, CANCEL)]);
    assert_eq!(heard.farewells(), []);
}

#[test]
fn what_follows_a_head_that_is_too_long_can_still_be_read() {
    let mut stage = Stage::set("after a bomb", Setting::default(), |peer| {
        peer.greet(&[])?;
        peer.request()?;
        let bomb = [kept("grpc-status", "0"), kept("x", &"y".repeat(3000)), vec![0xbe; 12_000]].concat();
        peer.say(&frame(HEADERS, END_HEADERS, FIRST, &bomb))?;
        let next = peer.request()?;
        // the status is the entry before the last
        let block = [block(&HEAD), vec![0xbf]].concat();
        peer.say(&head(next.stream))?;
        peer.say(&data(next.stream, &message(&[])))?;
        peer.say(&frame(HEADERS, END_HEADERS | END_STREAM, next.stream, &block[block.len() - 1..]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Refused, "the head of the answer is too long");
    stage.export(1).is(Fate::Delivered, "");
    assert_eq!(stage.end().0.len(), 1);
}

#[test]
fn a_head_above_the_limit_is_refused_and_one_below_it_is_not() {
    for (case, bytes, fate, words) in [
        ("below", 30_000, Fate::Delivered, ""),
        ("above", 32_700, Fate::Refused, "the head of the answer is too long"),
    ] {
        let (outcome, _) = export(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            let long = "y".repeat(bytes / 2);
            let block = block(&[HEAD[0], HEAD[1], ("x", &long), ("z", &long)]);
            let (first, rest) = block.split_at(LARGEST_FRAME);
            peer.say(&frame(HEADERS, 0, FIRST, first))?;
            let (second, third) = rest.split_at(rest.len().min(LARGEST_FRAME));
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
    outcome.is(Fate::Refused, "the head of the answer is too long");
}

#[test]
fn an_answer_of_5_mebibytes_is_broken_off_and_its_connection_is_good() {
    let mut stage = Stage::set("5 MiB", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        say_data(peer, request.stream, 5 << 20)?;
        peer.say(&trailers(request.stream, &[("grpc-status", "0")]))?;
        // the last mebibyte found room only when the next call had come
        peer.say(&well(3))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Refused, "the answer is longer than 4 MiB");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.resets()), (1, vec![(FIRST, CANCEL)]));
    // all of it but what no update is worth, also what came after the reset
    assert!(heard.given_back(0) > (5 << 20) - WINDOW / 2, "{}", heard.given_back(0));
    assert!(heard.given_back(FIRST) <= (4 << 20) + WINDOW, "{}", heard.given_back(FIRST));
}

#[test]
fn an_answer_of_4_mebibytes_is_heard_to_its_end() {
    let (outcome, _) = export("4 MiB", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        say_data(peer, request.stream, 4 << 20)?;
        peer.say(&trailers(request.stream, &[("grpc-status", "0")]))?;
        peer.until_gone()
    });
    // it begins with a message of nothing
    outcome.is(Fate::Delivered, "");
}

#[test]
fn an_endless_answer_is_broken_off() {
    let (broken_off, was_broken_off) = mpsc::channel();
    let mut stage = Stage::set("endless", Setting::default(), move |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        // so much is heard, and with the last of it that it is too much
        say_data(peer, request.stream, (4 << 20) + LARGEST_FRAME)?;
        while !peer.has_heard(RESET) {
            peer.hear()?;
        }
        let _ = broken_off.send(());
        say_data(peer, request.stream, usize::MAX)
    });
    stage.export(1).is(Fate::Refused, "the answer is longer than 4 MiB");
    // a socket that is closed with something unread takes back what was said on it
    was_broken_off.recv_timeout(LONG).unwrap();
    assert_eq!(stage.end().resets(), [(FIRST, CANCEL)]);
}

#[test]
fn an_answer_without_regard_for_windows_costs_no_memory() {
    let (outcome, _) = export("no windows", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        let words = data(request.stream, &vec![0; LARGEST_FRAME]);
        peer.flood(words, 1 << 14)
    });
    outcome.is(Fate::Refused, "");
}

#[test]
fn a_compressed_answer_is_not_unpacked_and_the_records_are_not_sent_again() {
    // what it says it is does not matter
    let packed = [&[1][..], &1000_u32.to_be_bytes(), &[0x1f, 0x8b, 8, 0], &[0; 996]].concat();
    let words = [
        headers(FIRST, &[HEAD[0], HEAD[1], ("grpc-encoding", "gzip")]),
        data(FIRST, &packed),
        trailers(FIRST, &[("grpc-status", "0")]),
    ];
    let (outcome, heard) = export("compressed", Setting::default(), saying(words.concat()));
    outcome.is(Fate::Warned, "the answer is compressed, which was not asked for");
    assert_eq!(heard.requests(), 1);
}

#[test]
fn a_long_reason_is_cut() {
    let long = "no ".repeat(5000);
    let words = status(FIRST, &[("grpc-status", "3"), ("grpc-message", &long)]);
    let (outcome, _) = export("long reason", Setting::default(), saying(words));
    outcome.is(Fate::Refused, "INVALID_ARGUMENT: no no");
    assert!(outcome.words.len() < 800, "{} bytes", outcome.words.len());
}
