//! Servers that reset calls.

use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const REFUSED_STREAM: u32 = 7;

#[test]
fn each_code_of_a_reset_has_its_verdict() {
    for (case, code, fate, words) in [
        ("NO_ERROR", 0, Fate::Refused, "INTERNAL: the server reset the call: NO_ERROR"),
        ("PROTOCOL_ERROR", 1, Fate::Refused, "INTERNAL: the server reset the call: PROTOCOL_ERROR"),
        ("INTERNAL_ERROR", 2, Fate::Refused, "INTERNAL: the server reset the call: INTERNAL_ERROR"),
        ("FLOW_CONTROL_ERROR", 3, Fate::Refused, "INTERNAL: the server reset the call: FLOW_CONTROL_ERROR"),
        ("SETTINGS_TIMEOUT", 4, Fate::Refused, "INTERNAL: the server reset the call: SETTINGS_TIMEOUT"),
        ("STREAM_CLOSED", 5, Fate::Refused, "INTERNAL: the server reset the call: STREAM_CLOSED"),
        ("FRAME_SIZE_ERROR", 6, Fate::Refused, "INTERNAL: the server reset the call: FRAME_SIZE_ERROR"),
        ("CANCEL", 8, Fate::Later, "CANCELLED: the server reset the call: CANCEL"),
        ("COMPRESSION_ERROR", 9, Fate::Refused, "INTERNAL: the server reset the call: COMPRESSION_ERROR"),
        ("CONNECT_ERROR", 10, Fate::Refused, "INTERNAL: the server reset the call: CONNECT_ERROR"),
        ("ENHANCE_YOUR_CALM", 11, Fate::Refused, "RESOURCE_EXHAUSTED: the server reset the call"),
        ("INADEQUATE_SECURITY", 12, Fate::Refused, "PERMISSION_DENIED: the server reset the call"),
        ("HTTP_1_1_REQUIRED", 13, Fate::Refused, "INTERNAL: the server reset the call: HTTP_1_1_REQUIRED"),
        ("a code that nobody knows", 4711, Fate::Refused, "INTERNAL: the server reset the call: code 4711"),
    ] {
        let mut stage = Stage::set(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            let request = peer.request()?;
            peer.say(&reset(request.stream, code))?;
            peer.behave()
        });
        stage.export(1).is(fate, words);
        assert_eq!(stage.attempts(), 1, "{case}");
        // Only the call was reset, so the next call uses the same connection.
        stage.export(1).is(Fate::Delivered, "");
        let heard = stage.end();
        assert_eq!((heard.0.len(), heard.resets(), heard.farewells()), (1, vec![], vec![]), "{case}");
    }
}

#[test]
fn a_refused_stream_is_asked_again_over_a_new_connection() {
    let (outcome, heard) = export("refused once", Setting::default(), |peer| {
        peer.greet(&[])?;
        if peer.number == 0 {
            peer.request()?;
            peer.say(&reset(FIRST, REFUSED_STREAM))?;
            return peer.until_gone();
        }
        peer.behave()
    });
    outcome.is(Fate::Delivered, "");
    assert_eq!((heard.0.len(), heard.requests()), (2, 2));
}

#[test]
fn a_stream_refused_for_ever_is_left_to_the_retries() {
    let (outcome, heard) =
        export("refused for ever", Setting::default(), saying(reset(FIRST, REFUSED_STREAM)));
    outcome.is(Fate::Later, "the server accepts no calls");
    assert_eq!((heard.0.len(), heard.requests()), (3, 3));
}

#[test]
fn a_reset_behind_a_whole_answer_changes_nothing() {
    for (case, code) in [("NO_ERROR", 0), ("CANCEL", 8), ("REFUSED_STREAM", REFUSED_STREAM)] {
        let words = [well(FIRST), reset(FIRST, code)].concat();
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Delivered, "");
        assert_eq!((heard.requests(), heard.farewells()), (1, vec![]), "{case}");
    }
}

#[test]
fn a_reset_within_an_answer_ends_it() {
    for (case, words) in [
        ("behind the head", head(FIRST)),
        ("within the message", [head(FIRST), data(FIRST, &message(b"")[..3])].concat()),
        ("behind the message", [head(FIRST), data(FIRST, &message(b""))].concat()),
    ] {
        let words = [words, reset(FIRST, 2)].concat();
        let (outcome, _) = export(case, Setting::default(), saying(words));
        outcome.is(Fate::Refused, "INTERNAL: the server reset the call: INTERNAL_ERROR");
    }
}

#[test]
fn a_cancelled_call_is_tried_again() {
    let mut stage = Stage::set("cancelled twice", Setting::retrying(), |peer| {
        peer.greet(&[])?;
        for _ in 0..2 {
            let request = peer.request()?;
            peer.say(&reset(request.stream, 8))?;
        }
        peer.behave()
    });
    stage.export(2).is(Fate::Delivered, "");
    assert_eq!(stage.attempts(), 3);
    assert_eq!(stage.end().0.len(), 1);
}

#[test]
fn a_reset_during_an_upload_stops_it() {
    let mut stage = Stage::set("upload", Setting::default(), |peer| {
        peer.greet(&[])?;
        let stream = peer.hear_head()?;
        peer.hear_of(DATA)?;
        peer.say(&[reset(stream, 2), update(0, 1 << 20)].concat())?;
        peer.behave()
    });
    stage.export_large(1, 300_000).is(Fate::Refused, "INTERNAL_ERROR");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    let sent = heard.0[0].iter().filter(|frame| frame.kind == DATA && frame.stream == FIRST);
    assert!(sent.map(|frame| frame.length).sum::<usize>() <= WINDOW as usize);
    assert_eq!((heard.0.len(), heard.resets()), (1, vec![]));
}
