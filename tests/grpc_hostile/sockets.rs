//! Connections that end without a GOAWAY, at unfavorable times.

use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const CLOSED: &str = "the server closed the connection";

#[test]
fn a_connection_closed_before_an_answer_is_for_trying_again() {
    let answer = well(FIRST);
    for (case, bytes) in [
        ("before anything", None),
        ("behind the greeting", Some(0)),
        ("in an answer", Some(answer.len() - 1)),
    ] {
        let part = bytes.map(|bytes| answer[..bytes].to_vec());
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            if let Some(part) = &part {
                peer.greet(&[])?;
                peer.request()?;
                peer.say(part)?;
            }
            peer.hush()?;
            peer.until_gone()
        });
        outcome.is(Fate::Later, CLOSED);
        assert_eq!(heard.0.len(), 1, "{case}");
    }
}

#[test]
fn a_connection_reset_in_the_middle_is_for_trying_again() {
    let mut stage = Stage::set("reset", Setting::retrying(), |peer| {
        if peer.number < 2 {
            // Unread bytes of the client turn the end into a reset.
            peer.greet(&[])?;
            peer.hear()?;
            return Ok(());
        }
        peer.greet(&[])?;
        loop {
            let stream = peer.hear_head()?;
            let mut has_ended = false;
            while !has_ended {
                let frame = peer.hear_of(DATA)?;
                has_ended = frame.ends_stream();
                let room = frame.length as u32;
                if room > 0 && !has_ended {
                    peer.say(&[update(0, room), update(stream, room)].concat())?;
                }
            }
            peer.say(&well(stream))?;
        }
    });
    stage.export_large(2, 100_000).is(Fate::Delivered, "");
    assert_eq!(stage.attempts(), 3);
    stage.end();
}

#[test]
fn an_answer_before_a_connection_is_closed_is_read() {
    let mut stage = Stage::set("answer and close", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&well(request.stream))?;
        peer.hush()?;
        peer.until_gone()
    });
    for _ in 0..3 {
        stage.export(1).is(Fate::Delivered, "");
    }
    assert_eq!(stage.attempts(), 3);
    assert_eq!(stage.end().0.len(), 3);
}

#[test]
fn a_connection_closed_while_idle_costs_no_attempt() {
    let mut stage = Stage::set("closed while idle", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&well(request.stream))
    });
    for _ in 0..4 {
        stage.export(1).is(Fate::Delivered, "");
    }
    assert_eq!(stage.attempts(), 4);
    assert_eq!(stage.end().0.len(), 4);
}

/// The server closes a connection that was used before, after a request was sent. The connection may have been dead
/// before the request, so the request is sent once more.
#[test]
fn a_request_that_an_old_connection_swallows_is_sent_again_once() {
    let mut stage = Stage::set("swallowed", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        if peer.number == 0 {
            peer.say(&well(request.stream))?;
            peer.request()?;
        }
        peer.hush()?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Later, CLOSED);
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests()), (2, 3));
}

#[test]
fn a_request_whose_answer_has_begun_is_not_sent_again_by_itself() {
    let mut stage = Stage::set("begun", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&well(request.stream))?;
        let request = peer.request()?;
        peer.say(&head(request.stream))?;
        peer.hush()?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Later, CLOSED);
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests()), (1, 2));
}

#[test]
fn a_ping_while_idle_is_answered_before_the_next_request() {
    let mut stage = Stage::set("idle ping", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&[well(request.stream), frame(PING, 0, 0, b"still on")].concat())?;
        let next = peer.request()?;
        peer.say(&well(next.stream))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!(heard.0.len(), 1);
    let frames = &heard.0[0];
    let answered =
        frames.iter().position(|frame| frame.kind == PING && frame.payload == b"still on").unwrap();
    let asked = frames.iter().rposition(|frame| frame.kind == HEADERS).unwrap();
    assert!(frames[answered].is_ack() && answered < asked, "{frames:?}");
}

#[test]
fn a_fault_while_idle_costs_no_attempt() {
    let mut stage = Stage::set("idle fault", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&[well(request.stream), data(2, b"nonsense")].concat())?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    assert_eq!(stage.attempts(), 2);
    assert_eq!(stage.end().0.len(), 2);
}

#[test]
fn a_server_that_hangs_up_on_everybody_is_for_trying_again() {
    let (outcome, heard) = export("hangs up", Setting::default(), |_| Ok(()));
    assert_eq!(outcome.fate, Fate::Later, "{outcome:?}");
    assert_eq!(heard.0.len(), 1);
}
