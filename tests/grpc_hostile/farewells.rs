//! Servers that close the connection with GOAWAY: before, during and after a call, with and without an error.

use std::time::Duration;

use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const INTERNAL: u32 = 2;

#[test]
fn a_farewell_before_the_greeting_is_no_http2() {
    let (outcome, heard) = export("first frame", Setting::default(), |peer| {
        peer.say(&go_away(0, 0, ""))?;
        peer.until_gone()
    });
    outcome.is(Fate::Refused, "the server broke the HTTP/2 protocol: the first frame is not SETTINGS");
    assert_eq!(heard.farewells(), [1]);
}

#[test]
fn what_a_leaving_server_has_not_looked_at_is_asked_again_elsewhere() {
    let (outcome, heard) = export("not looked at", Setting::default(), |peer| {
        peer.greet(&[])?;
        if peer.number < 2 {
            peer.request()?;
            peer.say(&go_away(0, 0, "restart"))?;
            return peer.until_gone();
        }
        peer.behave()
    });
    outcome.is(Fate::Delivered, "");
    assert_eq!((heard.0.len(), heard.requests()), (3, 3));
}

#[test]
fn that_is_done_twice_and_then_left_to_the_retries() {
    for (case, code, name) in
        [("without an error", 0, "NO_ERROR"), ("with an error", INTERNAL, "INTERNAL_ERROR")]
    {
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            peer.say(&go_away(0, code, "the disk is full"))?;
            peer.until_gone()
        });
        outcome.is(Fate::Later, &format!("the server accepts no calls: {name}: the disk is full"));
        assert_eq!((heard.0.len(), heard.requests()), (3, 3), "{case}");
    }
}

#[test]
fn a_server_that_leaves_with_an_error_gets_a_second_for_its_last_frames() {
    let (outcome, _) = export("error and silence", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&go_away(request.stream, INTERNAL, "the disk is full"))?;
        peer.until_gone()
    });
    outcome.is(Fate::Later, "the server closed the connection: INTERNAL_ERROR: the disk is full");
    assert!((Duration::from_millis(900)..Duration::from_secs(9)).contains(&outcome.took), "{outcome:?}");
}

#[test]
fn the_last_words_of_a_server_that_leaves_with_an_error_are_heard() {
    let mut stage = Stage::set("error and answer", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        if peer.number == 0 {
            peer.say(&go_away(request.stream, INTERNAL, ""))?;
        }
        peer.say(&well(request.stream))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    assert_eq!(stage.end().0.len(), 2, "a connection that was left is not used again");
}

#[test]
fn a_server_that_is_about_to_leave_finishes_the_call_and_is_called_no_more() {
    let mut stage = Stage::set("graceful", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&go_away(MAX_31_BITS, 0, ""))?;
        // The client receives the GOAWAY before the answer.
        peer.say(&ping())?;
        peer.hear_of(PING)?;
        peer.say(&[well(request.stream), go_away(request.stream, 0, "")].concat())?;
        peer.until_gone()
    });
    for _ in 0..3 {
        stage.export(1).is(Fate::Delivered, "");
    }
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests()), (3, 3));
}

#[test]
fn the_second_of_two_farewells_counts() {
    let (outcome, heard) = export("two farewells", Setting::default(), |peer| {
        peer.greet(&[])?;
        peer.request()?;
        if peer.number > 0 {
            peer.say(&well(FIRST))?;
            return peer.until_gone();
        }
        peer.say(&go_away(MAX_31_BITS, 0, "soon"))?;
        peer.say(&ping())?;
        peer.hear_of(PING)?;
        peer.say(&go_away(0, 0, "now"))?;
        peer.until_gone()
    });
    outcome.is(Fate::Delivered, "");
    assert_eq!(heard.0.len(), 2);
}

/// Whatever follows an answer, the server has processed the request.
#[test]
fn an_answer_stands_even_if_the_server_then_says_it_never_looked() {
    let words = [well(FIRST), go_away(0, 0, "")].concat();
    let (outcome, heard) = export("answer, then none", Setting::default(), saying(words));
    outcome.is(Fate::Delivered, "");
    assert_eq!((heard.0.len(), heard.requests()), (1, 1));
}

#[test]
fn a_server_that_closes_after_its_farewell_is_quoted() {
    for (case, text, words) in [
        ("a text", "too_many_pings", "the server closed the connection: ENHANCE_YOUR_CALM: too_many_pings"),
        ("no text", "", "the server closed the connection: ENHANCE_YOUR_CALM"),
        ("an evil text", "\u{1b}[31mred\r\n", "ENHANCE_YOUR_CALM:  [31mred  "),
    ] {
        let (outcome, _) = export(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            peer.say(&go_away(FIRST, 11, text))?;
            peer.hush()?;
            peer.until_gone()
        });
        outcome.is(Fate::Later, words);
        assert!(!outcome.words.contains(|c: char| c.is_control()), "{case}: {outcome:?}");
    }
}

#[test]
fn a_farewell_of_16_kibibytes_is_cut() {
    let text = "a".repeat(16_000);
    let (outcome, _) = export("long text", Setting::default(), move |peer| {
        peer.greet(&[])?;
        peer.request()?;
        peer.say(&go_away(FIRST, 2, &text))?;
        peer.hush()?;
        peer.until_gone()
    });
    outcome.is(Fate::Later, "INTERNAL_ERROR: aaa");
    assert!(outcome.words.len() < 400, "{} bytes", outcome.words.len());
}

#[test]
fn a_farewell_while_idle_costs_no_attempt() {
    let mut stage = Stage::set("idle farewell", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&[well(request.stream), go_away(request.stream, 0, "idle")].concat())?;
        peer.until_gone()
    });
    for _ in 0..3 {
        stage.export(1).is(Fate::Delivered, "");
    }
    assert_eq!(stage.attempts(), 3);
    assert_eq!(stage.end().0.len(), 3);
}

#[test]
fn a_farewell_that_comes_while_a_call_waits_for_its_turn_moves_it_elsewhere() {
    let mut stage = Stage::set("waiting", Setting::default(), |peer| {
        if peer.number > 0 {
            peer.greet(&[])?;
            return peer.behave();
        }
        peer.greet(&[(MAX_STREAMS, 0)])?;
        let request = peer.request()?;
        peer.say(&well(request.stream))?;
        // The client answers this ping only when its next call waits.
        peer.say(&ping())?;
        peer.hear_of(PING)?;
        peer.say(&go_away(request.stream, 0, ""))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests()), (2, 2));
}
