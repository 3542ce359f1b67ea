//! Servers that stop sending: the deadline ends the call, and the next call uses a new connection.

use std::io;
use std::time::Duration;

use crate::cases::size_within;
use crate::server::Peer;
use crate::stage::{Fate, HASTY, Setting, Stage};
use crate::wire::*;

/// Pause between two frames of a slow server.
const A_MOMENT: Duration = Duration::from_millis(5);
/// Budget of a shutdown while the server stalls.
fn budget() -> Duration {
    Duration::from_millis(size_within(150..=400).into())
}

type Stall = fn(&mut Peer) -> io::Result<()>;

/// Only the first connection stalls: a stalled connection is not used again.
fn stalls(case: &'static str, stall: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) {
    let mut stage = Stage::set(case, Setting::hasty(), move |peer| {
        if peer.number == 0 {
            return stall(peer);
        }
        peer.greet(&[])?;
        peer.behave()
    });
    let outcome = stage.export(1);
    outcome.is(Fate::Later, "no answer in time");
    assert!(outcome.took >= HASTY, "{case}: {outcome:?}");
    assert_eq!(stage.attempts(), 1, "{case}");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.farewells()), (2, vec![]), "{case}");
}

#[test]
fn a_server_that_never_sends_a_byte() {
    stalls("silence", |peer| peer.until_gone());
}

#[test]
fn a_server_that_never_answers() {
    stalls("no answer", |peer| {
        peer.greet(&[])?;
        peer.until_gone()
    });
}

#[test]
fn a_server_that_stops_somewhere_in_its_answer() {
    let answer = well(FIRST);
    let head_bytes = head(FIRST).len();
    let stops = [
        ("in the head of a frame", 4),
        ("behind the head of a frame", 9),
        ("in a header block", 20),
        ("behind the head", head_bytes),
        ("in a message", head_bytes + 11),
        ("behind the message", head_bytes + 14),
        ("before the last byte", answer.len() - 1),
    ];
    for (case, end) in stops {
        let part = answer[..end].to_vec();
        stalls(case, move |peer| {
            peer.greet(&[])?;
            peer.request()?;
            peer.say(&part)?;
            peer.until_gone()
        });
    }
}

#[test]
fn a_server_that_stops_in_its_greeting() {
    stalls("half a greeting", |peer| {
        peer.say(&settings(&[(MAX_STREAMS, 100)])[..7])?;
        peer.until_gone()
    });
}

#[test]
fn a_server_that_stops_between_the_pieces_of_a_header_block() {
    stalls("half a block", |peer| {
        peer.greet(&[])?;
        peer.request()?;
        peer.say(&frame(HEADERS, 0, FIRST, &block(&HEAD)))?;
        peer.say(&frame(CONTINUATION, 0, FIRST, &block(&[("x", "y")])))?;
        peer.until_gone()
    });
}

#[test]
fn a_server_that_sends_pings_all_the_time_and_never_an_answer() {
    stalls("pings", |peer| {
        peer.greet(&[])?;
        peer.request()?;
        loop {
            peer.say(&ping())?;
            peer.hear_of(PING)?;
            peer.pause(A_MOMENT);
        }
    });
}

#[test]
fn an_answer_of_one_byte_at_a_time_is_one() {
    let mut stage = Stage::set("byte by byte", Setting::default(), |peer| {
        let words = [settings(&[(MAX_STREAMS, 100)]), ping(), well(FIRST)].concat();
        peer.hear_head()?;
        words.iter().try_for_each(|byte| peer.say(&[*byte]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.end();
}

#[test]
fn an_answer_that_takes_longer_than_the_deadline_byte_by_byte_is_none() {
    stalls("an endless answer", |peer| {
        peer.greet(&[])?;
        peer.request()?;
        peer.say(&head(FIRST))?;
        loop {
            peer.say(&data(FIRST, b"x"))?;
            peer.pause(A_MOMENT);
        }
    });
}

#[test]
fn a_server_that_never_reads() {
    let mut stage = Stage::set("never reads", Setting::hasty().large(), |peer| {
        // Large windows, so that only the socket delays the client.
        peer.greet(&[(INITIAL_WINDOW, MAX_31_BITS)])?;
        peer.say(&update(0, MAX_31_BITS - WINDOW))?;
        if peer.number > 0 {
            return peer.behave();
        }
        peer.hear_head()?;
        peer.rest();
        Ok(())
    });
    // More than the buffers of both sides can hold.
    stage.export_large(1, 3 << 20).is(Fate::Later, "no answer in time");
    stage.export(1).is(Fate::Delivered, "");
    stage.end();
}

/// The client closes the connection at the deadline, so that the rest of the answer cannot reach the next call.
#[test]
fn what_a_server_says_after_the_deadline_is_ignored() {
    let mut stage = Stage::set("too late", Setting::hasty(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        if peer.number == 0 {
            peer.say(&head(request.stream))?;
            // The client closes the connection at its deadline.
            peer.until_gone().unwrap_err();
            let _ = peer.say(&trailers(request.stream, &[("grpc-status", "0")]));
            return Ok(());
        }
        peer.say(&status(request.stream, &[("grpc-status", "3"), ("grpc-message", "the second")]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Later, "no answer in time");
    stage.export(1).is(Fate::Refused, "the second");
    stage.end();
}

#[test]
fn retries_go_on_after_a_stall() {
    let retrying = Setting { timeout: HASTY, ..Setting::retrying() };
    let mut stage = Stage::set("stall, then answer", retrying, |peer| {
        if peer.number < 2 {
            return peer.until_gone();
        }
        peer.greet(&[])?;
        peer.behave()
    });
    stage.export(3).is(Fate::Delivered, "");
    assert_eq!(stage.attempts(), 3);
    assert_eq!(stage.end().0.len(), 3);
}

#[test]
fn a_window_of_nothing_for_ever() {
    let mut stage = Stage::set("no window", Setting::hasty(), |peer| {
        peer.greet(&[(INITIAL_WINDOW, 0)])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        peer.until_gone()
    });
    // The first request is sent before the settings are known.
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Later, "no answer in time");
    let heard = stage.end();
    let sent = heard.0[0].iter().filter(|frame| frame.kind == DATA && frame.stream == 3);
    assert_eq!((heard.0.len(), sent.count()), (1, 0));
}

#[test]
fn a_connection_that_gives_no_window_back_is_not_used_again() {
    let mut stage = Stage::set("starved", Setting::default(), |peer| {
        peer.greet(&[(INITIAL_WINDOW, MAX_31_BITS)])?;
        if peer.number > 0 {
            return peer.behave();
        }
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        let second = peer.hear_head()?;
        let mut sent = 0;
        while sent + first.body.len() < WINDOW as usize {
            sent += peer.hear_of(DATA)?.length;
        }
        // The client has used up the connection's window. An answer ends the call, but does not enlarge the window.
        peer.say(&status(second, &[("grpc-status", "3"), ("grpc-message", "enough")]))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export_large(1, 100_000).is(Fate::Refused, "enough");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.resets()), (2, vec![(3, 8)]));
}

#[test]
fn a_server_that_stalls_holds_no_shutdown_up() {
    let stalls: [(&'static str, Stall); 5] = [
        ("silence", |peer| peer.until_gone()),
        ("half an answer", |peer| {
            peer.greet(&[])?;
            peer.hear_head()?;
            peer.say(&head(FIRST))?;
            peer.until_gone()
        }),
        ("no window", |peer| {
            peer.greet(&[(INITIAL_WINDOW, 0)])?;
            peer.until_gone()
        }),
        ("a trickle", |peer| {
            peer.greet(&[])?;
            peer.hear_head()?;
            peer.say(&head(FIRST))?;
            loop {
                peer.say(&data(FIRST, b"x"))?;
                peer.pause(A_MOMENT);
            }
        }),
        ("a flood", |peer| {
            peer.greet(&[])?;
            peer.hear_head()?;
            peer.say(&head(FIRST))?;
            peer.flood(update(FIRST, 1).repeat(1000), usize::MAX)
        }),
    ];
    for (case, script) in stalls {
        let stage = Stage::set(case, Setting::default(), script);
        stage.emit(1, 100_000);
        stage.end_within(budget());
    }
}
