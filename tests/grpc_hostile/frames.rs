//! Frames that no server may send: the connection ends, and the reason is sent to the server and reported to the
//! program.

use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const PROTOCOL: u32 = 1;
const FRAME_SIZE: u32 = 6;
const FIRST_FRAME: &str = "the first frame is not SETTINGS";
const SOMETHING_ELSE: &str = "the peer speaks neither HTTP/2 nor HTTP/1: check the port";
const NEVER_OPENED: &str = "a frame on a stream that was never opened";
const WITHIN_A_BLOCK: &str = "another frame within a header block";
const NEEDS_A_STREAM: &str = "a stream frame on stream 0";
const FOR_THE_CONNECTION: &str = "a connection frame on a stream";

#[test]
fn a_connection_begins_with_settings() {
    for (case, words, code, what) in [
        ("a ping", ping(), PROTOCOL, FIRST_FRAME),
        ("an answer", well(FIRST), PROTOCOL, FIRST_FRAME),
        ("an update", update(0, 1), PROTOCOL, FIRST_FRAME),
        ("an acknowledgement", frame(SETTINGS, ACK, 0, &[]), PROTOCOL, FIRST_FRAME),
        ("an unknown frame", frame(0xbe, 0, 0, &[]), PROTOCOL, SOMETHING_ELSE),
        ("garbage", b"\0\0\x04garbage that goes on".to_vec(), PROTOCOL, SOMETHING_ELSE),
        ("long garbage", b"220 mail.example.com ESMTP".to_vec(), PROTOCOL, SOMETHING_ELSE),
        ("too long settings", head_only(SETTINGS, 16_385), FRAME_SIZE, "a frame longer than 16 KiB"),
        (
            "HTTP/1",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            PROTOCOL,
            "the peer speaks HTTP/1: is this the HTTP port, 4318?",
        ),
        (
            "a TLS alert",
            vec![0x15, 3, 3, 0, 2, 2, 70],
            PROTOCOL,
            "the peer speaks TLS: write https:// in the endpoint",
        ),
    ] {
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            peer.say(&words)?;
            peer.until_gone()
        });
        outcome.is(Fate::Refused, &format!("the server broke the HTTP/2 protocol: {what}"));
        assert_eq!(heard.farewells(), [code], "{case}");
    }
}

#[test]
fn frames_of_wrong_lengths_end_the_connection() {
    let cases = [
        ("priority", frame(PRIORITY, 0, FIRST, &[0; 4]), "PRIORITY with a wrong length"),
        ("long priority", frame(PRIORITY, 0, FIRST, &[0; 6]), "PRIORITY with a wrong length"),
        ("reset", frame(RESET, 0, FIRST, &[0; 3]), "RST_STREAM with a wrong length"),
        ("long reset", frame(RESET, 0, FIRST, &[0; 5]), "RST_STREAM with a wrong length"),
        ("settings", frame(SETTINGS, 0, 0, &[0; 5]), "SETTINGS with a wrong length"),
        ("long settings", frame(SETTINGS, 0, 0, &[0; 13]), "SETTINGS with a wrong length"),
        ("acknowledgement", frame(SETTINGS, ACK, 0, &[0; 6]), "SETTINGS with a wrong length"),
        ("ping", frame(PING, 0, 0, &[0; 7]), "PING with a wrong length"),
        ("long ping", frame(PING, ACK, 0, &[0; 9]), "PING with a wrong length"),
        ("farewell", frame(GO_AWAY, 0, 0, &[0; 7]), "GOAWAY with a wrong length"),
        ("update", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), "WINDOW_UPDATE with a wrong length"),
        ("long update", frame(WINDOW_UPDATE, 0, FIRST, &[0; 5]), "WINDOW_UPDATE with a wrong length"),
        (
            "priority in headers",
            frame(HEADERS, END_HEADERS | WITH_PRIORITY, FIRST, &[0; 4]),
            "HEADERS without the announced priority",
        ),
        ("too long data", head_only(DATA, 16_385), "a frame longer than 16 KiB"),
        ("too long headers", head_only(HEADERS, 1 << 20), "a frame longer than 16 KiB"),
        ("too long for ever", head_only(0xbe, (1 << 24) - 1), "a frame longer than 16 KiB"),
    ];
    for (case, words, what) in cases {
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, &format!("the server broke the HTTP/2 protocol: {what}"));
        assert_eq!(heard.farewells(), [FRAME_SIZE], "{case}");
    }
}

#[test]
fn frames_on_streams_where_they_cannot_be_end_the_connection() {
    let head_block = block(&HEAD);
    let cases = [
        ("data of none", data(0, b"x"), NEEDS_A_STREAM),
        ("headers of none", frame(HEADERS, END_HEADERS, 0, &head_block), NEEDS_A_STREAM),
        ("continuation of none", frame(CONTINUATION, END_HEADERS, 0, &head_block), NEEDS_A_STREAM),
        ("priority of none", frame(PRIORITY, 0, 0, &[0; 5]), NEEDS_A_STREAM),
        ("reset of none", reset(0, 0), NEEDS_A_STREAM),
        ("settings of a stream", frame(SETTINGS, 0, FIRST, &[]), FOR_THE_CONNECTION),
        ("ping of a stream", frame(PING, 0, FIRST, &[0; 8]), FOR_THE_CONNECTION),
        ("farewell of a stream", frame(GO_AWAY, 0, FIRST, &[0; 8]), FOR_THE_CONNECTION),
        ("data of an even stream", data(2, b"x"), NEVER_OPENED),
        ("headers of an even stream", head(2), NEVER_OPENED),
        ("reset of an even stream", reset(2, 0), NEVER_OPENED),
        ("update of an even stream", update(2, 1), NEVER_OPENED),
        ("data of an idle stream", data(3, b"x"), NEVER_OPENED),
        ("headers of an idle stream", head(3), NEVER_OPENED),
        ("reset of an idle stream", reset(3, 7), NEVER_OPENED),
        ("update of an idle stream", update(3, 1), NEVER_OPENED),
        ("headers of the last stream", head(MAX_31_BITS), NEVER_OPENED),
    ];
    for (case, words, what) in cases {
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, &format!("the server broke the HTTP/2 protocol: {what}"));
        assert_eq!((heard.farewells(), heard.requests()), (vec![PROTOCOL], 1), "{case}");
    }
}

#[test]
fn nothing_may_come_within_a_header_block() {
    let begun = frame(HEADERS, 0, FIRST, &block(&HEAD));
    let cases = [
        ("headers", head(FIRST), WITHIN_A_BLOCK),
        ("data", data(FIRST, b"x"), WITHIN_A_BLOCK),
        ("ping", ping(), WITHIN_A_BLOCK),
        ("settings", settings(&[]), WITHIN_A_BLOCK),
        ("unknown", frame(0xbe, 0, 0, &[]), WITHIN_A_BLOCK),
        ("reset", reset(FIRST, 8), WITHIN_A_BLOCK),
        ("another stream's", frame(CONTINUATION, END_HEADERS, 3, &[]), "CONTINUATION on another stream"),
    ];
    for (case, words, what) in cases {
        let words = [begun.clone(), words].concat();
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, what);
        assert_eq!(heard.farewells(), [PROTOCOL], "{case}");
    }
    let (outcome, heard) =
        export("no block", Setting::default(), saying(frame(CONTINUATION, END_HEADERS, FIRST, &[])));
    outcome.is(Fate::Refused, "CONTINUATION without HEADERS");
    assert_eq!(heard.farewells(), [PROTOCOL]);
}

#[test]
fn a_header_block_in_pieces_is_one() {
    let block = block(&HEAD);
    let (first, rest) = block.split_at(13);
    let words = [
        frame(HEADERS, 0, FIRST, first),
        frame(CONTINUATION, 0, FIRST, &[]),
        frame(CONTINUATION, END_HEADERS, FIRST, rest),
        data(FIRST, &message(&[])),
        trailers(FIRST, &[("grpc-status", "0")]),
    ];
    let (outcome, _) = export("in pieces", Setting::default(), saying(words.concat()));
    outcome.is(Fate::Delivered, "");
}

#[test]
fn a_push_ends_the_connection() {
    for (case, stream) in [("of our stream", FIRST), ("of none", 0)] {
        let words = frame(PUSH_PROMISE, END_HEADERS, stream, &[&[0, 0, 0, 2][..], &block(&HEAD)].concat());
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, "PUSH_PROMISE, although push is disabled");
        assert_eq!(heard.farewells(), [PROTOCOL], "{case}");
    }
}

#[test]
fn a_bit_that_is_reserved_means_nothing() {
    let words = well(FIRST | 1 << 31);
    let (outcome, _) = export("reserved", Setting::default(), saying(words));
    outcome.is(Fate::Delivered, "");
}

#[test]
fn an_answer_out_of_order_ends_the_call_only() {
    let cases = [
        ("data before the head", data(FIRST, b"x"), "DATA before HEADERS"),
        ("a second header block", [head(FIRST), head(FIRST)].concat(), "a second header block"),
        ("no status", headers(FIRST, &[("content-type", "application/grpc")]), "a response without a status"),
        ("a word for a status", headers(FIRST, &[(":status", "ok!")]), "a response without a status"),
        ("a short status", headers(FIRST, &[(":status", "20")]), "a response without a status"),
        ("a status of 99", headers(FIRST, &[(":status", "099")]), "a response without a status"),
        ("a status of 600", headers(FIRST, &[(":status", "600")]), "a response without a status"),
        ("an interim end", trailers(FIRST, &[(":status", "100")]), "a response without a status"),
        ("nothing at all", frame(HEADERS, END_HEADERS, FIRST, &[]), "a response without a status"),
    ];
    for (case, words, what) in cases {
        let mut stage = Stage::set(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            peer.say(&words)?;
            peer.behave()
        });
        stage.export(1).is(Fate::Refused, what);
        stage.export(1).is(Fate::Delivered, "");
        let heard = stage.end();
        let expected = (1, vec![(FIRST, PROTOCOL)], vec![]);
        assert_eq!((heard.0.len(), heard.resets(), heard.farewells()), expected, "{case}");
    }
}

#[test]
fn flags_that_mean_nothing_are_passed_over() {
    let mut words = [update(0, 1), ping(), settings(&[])].concat();
    words[4] = 0xff;
    words[update(0, 1).len() + 4] = 0xfe;
    words[update(0, 1).len() + ping().len() + 4] = 0xfe;
    let answer = [
        frame(HEADERS, END_HEADERS | 0xd2, FIRST, &block(&HEAD)),
        frame(DATA, 0xf6, FIRST, &message(&[])),
        frame(HEADERS, END_HEADERS | END_STREAM | 0xd2, FIRST, &block(&[("grpc-status", "0")])),
    ];
    let words = [words, answer.concat()].concat();
    let (outcome, _) = export("flags", Setting::default(), saying(words));
    outcome.is(Fate::Delivered, "");
}

#[test]
fn an_answer_said_twice_is_one() {
    let mut stage = Stage::set("twice", Setting::default(), |peer| {
        peer.greet(&[])?;
        loop {
            let request = peer.request()?;
            let refusal = status(request.stream, &[("grpc-status", "3")]);
            peer.say(&[well(request.stream), refusal].concat())?;
        }
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests(), heard.farewells()), (1, 2, vec![]));
}

/// Frames after a complete answer do not affect the answer.
#[test]
fn an_answer_stands_even_if_garbage_follows_it() {
    let mut stage = Stage::set("garbage behind", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&[well(request.stream), data(0, b"garbage")].concat())?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.farewells()), (2, vec![PROTOCOL; 2]));
}
