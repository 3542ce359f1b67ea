//! Padding is not part of the contents, but padding of DATA frames counts against the flow-control window.

use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

#[test]
fn an_answer_with_as_much_padding_as_there_can_be_is_one() {
    let words = [
        padded(HEADERS, END_HEADERS, FIRST, &block(&HEAD), 255),
        padded(DATA, 0, FIRST, &message(&[])[..2], 255),
        padded(DATA, 0, FIRST, &message(&[])[2..], 0),
        padded(HEADERS, END_HEADERS | END_STREAM, FIRST, &block(&[("grpc-status", "0")]), 255),
    ];
    let (outcome, _) = export("padded", Setting::default(), saying(words.concat()));
    outcome.is(Fate::Delivered, "");
}

#[test]
fn padding_and_a_priority_go_together() {
    let head = [&[0, 0, 0, 0, 15][..], &block(&HEAD)].concat();
    let words = [
        padded(HEADERS, END_HEADERS | WITH_PRIORITY, FIRST, &head, 17),
        data(FIRST, &message(&[])),
        trailers(FIRST, &[("grpc-status", "0")]),
    ];
    let (outcome, _) = export("priority", Setting::default(), saying(words.concat()));
    outcome.is(Fate::Delivered, "");
}

#[test]
fn more_padding_than_frame_ends_the_connection() {
    for (case, words, code) in [
        ("data", frame(DATA, PADDED, FIRST, &[3, 0, 0]), 1),
        ("data of nothing", frame(DATA, PADDED, FIRST, &[]), 6),
        ("headers", frame(HEADERS, PADDED | END_HEADERS, FIRST, &[200, 0x88]), 1),
        ("headers of nothing", frame(HEADERS, PADDED | END_HEADERS, FIRST, &[]), 6),
        ("a priority of padding", padded(HEADERS, END_HEADERS | WITH_PRIORITY, FIRST, &[0; 4], 9), 6),
    ] {
        let words = if words[3] == DATA { [head(FIRST), words].concat() } else { words };
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, "the server broke the HTTP/2 protocol");
        assert_eq!(heard.farewells(), [code], "{case}");
    }
}

/// A server that respects its windows would stall if padding were not returned to them.
#[test]
fn room_is_given_back_for_padding_too() {
    const CALLS: usize = 1000;
    let mut stage =
        Stage::set("padded answers", Setting { batch_records: 1, ..Setting::default() }, |peer| {
            peer.takes_notes = false;
            peer.greet(&[])?;
            loop {
                let request = peer.request()?;
                let frame = padded(DATA, 0, request.stream, &message(&[]), 255);
                let flow = frame.len() as i64 - 9;
                while peer.window < flow {
                    peer.hear()?;
                }
                peer.window -= flow;
                let status = trailers(request.stream, &[("grpc-status", "0")]);
                let room = update(0, request.body.len() as u32);
                peer.say(&[room, head(request.stream), frame, status].concat())?;
            }
        });
    for _ in 0..10 {
        stage.export(CALLS as u64 / 10).is(Fate::Delivered, "");
    }
    assert_eq!(stage.attempts(), CALLS as u64);
    assert_eq!(stage.end().0.len(), 1);
}
