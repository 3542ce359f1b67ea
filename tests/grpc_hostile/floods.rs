//! Endless frames: useless ones end the connection, useful ones do not.

use crate::cases::share_of;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const ENHANCE_YOUR_CALM: u32 = 11;
const FLOOD: &str = "too many frames without effect";
/// Frames per write.
const PIECE: usize = 500;
/// Number of writes: more frames than any valid server needs for a call.
const MANY: usize = 40;

fn piece(frame: &[u8]) -> Vec<u8> {
    frame.repeat(PIECE)
}

#[test]
fn frames_that_say_nothing_end_the_connection_when_there_is_no_end_to_them() {
    let floods = [
        ("pings", vec![], ping()),
        ("acknowledgements of pings", vec![], frame(PING, ACK, 0, b"are you ")),
        ("settings", vec![], settings(&[])),
        ("settings that change", vec![], settings(&[(INITIAL_WINDOW, 1), (INITIAL_WINDOW, MAX_31_BITS)])),
        ("acknowledgements of settings", vec![], frame(SETTINGS, ACK, 0, &[])),
        ("priorities", vec![], frame(PRIORITY, 0, FIRST, &[0, 0, 0, 0, 1])),
        ("unknown frames", vec![], frame(0xbe, 0xff, FIRST, b"what is this")),
        ("empty data", head(FIRST), data(FIRST, &[])),
        ("data that is all padding", head(FIRST), padded(DATA, 0, FIRST, &[], 255)),
        ("interim answers", vec![], headers(FIRST, &[(":status", "103")])),
    ];
    for (case, before, words) in floods {
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            peer.say(&before)?;
            peer.flood(piece(&words), MANY)
        });
        outcome.is(Fate::Refused, FLOOD);
        let farewells = heard.farewells();
        // The client's replies to the flood may still be in flight, and then the GOAWAY behind them is lost with the
        // connection.
        let is_answered = heard.0[0].iter().filter(|frame| frame.is_ack()).count() > 1;
        let may_be_lost = is_answered && farewells.is_empty();
        assert!(farewells == [ENHANCE_YOUR_CALM] || may_be_lost, "{case}: {farewells:?}");
        assert_eq!(heard.requests(), 1, "{case}");
    }
}

#[test]
fn resets_of_old_streams_end_the_connection_when_there_is_no_end_to_them() {
    let mut stage = Stage::set("resets", Setting::default(), |peer| {
        peer.greet(&[])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        peer.request()?;
        peer.flood(piece(&reset(first.stream, 0)), MANY)
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Refused, FLOOD);
    assert_eq!(stage.end().farewells(), [ENHANCE_YOUR_CALM]);
}

#[test]
fn farewells_end_the_connection_when_there_is_no_end_to_them() {
    let (outcome, heard) = export("farewells", Setting::default(), |peer| {
        peer.greet(&[])?;
        peer.request()?;
        peer.flood(piece(&go_away(MAX_31_BITS, 0, "soon")), MANY)
    });
    outcome.is(Fate::Refused, FLOOD);
    assert_eq!(heard.farewells(), [ENHANCE_YOUR_CALM]);
}

#[test]
fn heads_on_an_old_stream_end_the_connection_when_there_is_no_end_to_them() {
    let mut stage = Stage::set("heads", Setting::default(), |peer| {
        peer.greet(&[])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        peer.request()?;
        peer.flood(piece(&head(first.stream)), MANY)
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Refused, FLOOD);
    stage.end();
}

#[test]
fn a_header_block_has_an_end() {
    let begun = frame(HEADERS, 0, FIRST, &block(&HEAD));
    let goes_on = |piece: &[u8]| frame(CONTINUATION, 0, FIRST, piece);
    let cases = [
        ("in empty pieces", goes_on(&[])),
        ("in pieces of a byte", goes_on(&[0x88])),
        ("in the largest pieces", goes_on(&vec![0x88; 16_384])),
    ];
    for (case, piece) in cases {
        let begun = begun.clone();
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            peer.say(&begun)?;
            peer.flood(piece.repeat(4), 2500)
        });
        outcome.is(Fate::Refused, "a header block that is too long");
        assert_eq!(heard.farewells(), [ENHANCE_YOUR_CALM], "{case}");
    }
}

#[test]
fn window_updates_are_no_flood_however_many() {
    let (outcome, heard) = export("window updates", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        let updates = [update(0, 1), update(request.stream, 1)].concat();
        for _ in 0..2 * MANY {
            peer.say(&piece(&updates))?;
        }
        peer.say(&well(request.stream))?;
        peer.until_gone()
    });
    outcome.is(Fate::Delivered, "");
    assert_eq!(heard.farewells(), [0; 0]);
}

#[test]
fn as_much_noise_as_an_honest_server_makes_is_none() {
    let mut stage = Stage::set("noise", Setting::default(), |peer| {
        peer.greet(&[])?;
        loop {
            let request = peer.request()?;
            let noise = [ping(), settings(&[]), frame(0xbe, 0, 0, b"?"), data(request.stream, &[])].concat();
            peer.say(&head(request.stream))?;
            peer.say(&noise.repeat(1000))?;
            peer.say(&data(request.stream, &message(&[])))?;
            peer.say(&trailers(request.stream, &[("grpc-status", "0")]))?;
        }
    });
    for _ in 0..5 {
        stage.export(1).is(Fate::Delivered, "");
    }
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.farewells()), (1, vec![]));
}

/// The client does not count these frames as useless, so only the deadline ends the call. That includes frames that
/// arrive where the client only checks for input: between two pieces of a request, or before it reuses a connection.
#[test]
fn a_flood_that_is_no_noise_ends_at_the_deadline() {
    // The next test has a flood of updates, too.
    for (case, words) in
        [("data of an old stream", data(FIRST, b"x")), ("updates of an old stream", update(FIRST, 1))]
            .into_iter()
            .take(share_of(2) as usize)
    {
        let mut stage = Stage::set(case, Setting::hasty(), move |peer| {
            peer.greet(&[])?;
            if peer.number > 0 {
                return peer.until_gone();
            }
            let first = peer.request()?;
            peer.say(&well(first.stream))?;
            peer.flood(piece(&words).repeat(10), usize::MAX)
        });
        stage.export(1).is(Fate::Delivered, "");
        stage.export(1).is(Fate::Later, "no answer in time");
        stage.end();
    }
}

#[test]
fn a_flood_during_an_upload_ends_at_the_deadline() {
    let mut stage = Stage::set("upload", Setting::hasty().large(), |peer| {
        peer.greet(&[(INITIAL_WINDOW, MAX_31_BITS)])?;
        peer.say(&update(0, MAX_31_BITS - WINDOW))?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        let stream = peer.hear_head()?;
        peer.takes_notes = false;
        let _ = peer.say(&head(stream));
        peer.flood(piece(&update(FIRST, 1)).repeat(10), usize::MAX)
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export_large(4, 700 << 10).is(Fate::Later, "no answer in time");
    stage.end();
}
