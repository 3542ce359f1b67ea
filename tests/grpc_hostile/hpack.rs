//! Header blocks that violate HPACK: later blocks could not be decoded, so the connection ends.

use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const COMPRESSION: u32 = 9;

#[test]
fn a_block_that_breaks_a_rule_ends_the_connection() {
    // Each block contains `:status: 200` from the static table, so that it has only the named fault.
    let cases: [(&'static str, &[u8]); 19] = [
        ("index 0", &[0x88, 0x80]),
        ("an index that nothing has", &[0x88, 0xbe]),
        ("an index far beyond", &[0x88, 0xff, 0xff, 0x01]),
        ("a name that nothing has", &[0x88, 0x7f, 0x10, 0x01, b'x']),
        ("an integer of too many bytes", &[0x88, 0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
        ("an integer that is too large", &[0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ("an integer cut off", &[0x88, 0xff]),
        ("an integer cut off later", &[0x88, 0xff, 0x80]),
        ("a name cut off", &[0x88, 0x00, 0x05, b'x']),
        ("a value cut off", &[0x88, 0x00, 0x01, b'x', 0x05, b'y']),
        ("no value", &[0x88, 0x00, 0x01, b'x']),
        ("a length of 4 GiB", &[0x88, 0x00, 0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f]),
        ("the end of a string within it", &[0x88, 0x00, 0x01, b'x', 0x84, 0xff, 0xff, 0xff, 0xff]),
        ("padding of eight bits", &[0x88, 0x00, 0x01, b'x', 0x82, 0x1f, 0xff]),
        ("padding that is not all ones", &[0x88, 0x00, 0x01, b'x', 0x81, 0x18]),
        ("padding of zeros", &[0x88, 0x00, 0x01, b'x', 0x81, 0x00]),
        ("a late size update", &[0x88, 0x20]),
        ("a size update above the limit", &[0x3f, 0xe2, 0x1f, 0x88]),
        ("a size update of 4 GiB", &[0x3f, 0xe0, 0xff, 0xff, 0xff, 0x0f, 0x88]),
    ];
    for (case, block) in cases {
        let words = [frame(HEADERS, END_HEADERS, FIRST, block), well(FIRST)].concat();
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, "the server broke the HTTP/2 protocol");
        assert_eq!(heard.farewells(), [COMPRESSION], "{case}");
    }
}

#[test]
fn whatever_the_rules_allow_is_read() {
    let cases: [(&'static str, Vec<u8>); 5] = [
        ("size updates up to the limit", [&[0x20, 0x3f, 0xe1, 0x1f][..], &[0x88]].concat()),
        ("a field that is never to be kept", [&[0x88][..], &[0x10, 1, b'x', 1, b'y']].concat()),
        ("a field in Huffman code", [&[0x88][..], &[0x00, 0x81, 0xf3, 0x81, 0xf5]].concat()),
        ("a field larger than the table", [vec![0x88], kept("x", &"y".repeat(5000))].concat()),
        ("an empty name and value", vec![0x88, 0x00, 0x00, 0x00]),
    ];
    for (case, block) in cases {
        let words = [
            frame(HEADERS, END_HEADERS, FIRST, &block),
            data(FIRST, &message(&[])),
            trailers(FIRST, &[("grpc-status", "0")]),
        ];
        let (outcome, heard) = export(case, Setting::default(), saying(words.concat()));
        outcome.is(Fate::Delivered, "");
        assert_eq!(heard.farewells(), [0; 0], "{case}");
    }
}

/// Each block depends on the ones before it, even on those of canceled calls.
#[test]
fn a_head_that_comes_late_on_a_cancelled_stream_is_decoded() {
    let mut stage = Stage::set("late head", Setting::default(), |peer| {
        peer.greet(&[])?;
        peer.request()?;
        peer.say(&data(FIRST, b"x"))?;
        // The client has canceled the call.
        assert_eq!(peer.hear_of(RESET)?.stream, FIRST);
        let late = [block(&HEAD), kept("grpc-message", "from the table"), kept("grpc-status", "3")].concat();
        let (begun, rest) = late.split_at(20);
        peer.say(&frame(HEADERS, 0, FIRST, begun))?;
        peer.say(&frame(CONTINUATION, END_HEADERS, FIRST, rest))?;
        let next = peer.request()?;
        // `:status: 200`, and the two entries that the late head has added.
        peer.say(&frame(HEADERS, END_HEADERS | END_STREAM, next.stream, &[0x88, 0xbe, 0xbf]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Refused, "DATA before HEADERS");
    let outcome = stage.export(1);
    // Only the first problem of each kind is reported. The refusal of the batch shows that the status was decoded.
    outcome.is(Fate::Refused, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests(), heard.farewells()), (1, 2, vec![]));
}

#[test]
fn a_late_head_that_breaks_a_rule_ends_the_connection() {
    let mut stage = Stage::set("late and broken", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&well(request.stream))?;
        if peer.number > 0 {
            return peer.behave();
        }
        peer.request()?;
        peer.say(&frame(HEADERS, END_HEADERS, FIRST, &[0x80]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Refused, "the server broke the HTTP/2 protocol");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.farewells()), (2, vec![COMPRESSION]));
}
