//! Answers to a request that is still being sent.

use std::io;

use crate::server::{Frame, Heard, Peer};
use crate::stage::{Fate, Setting, Stage};
use crate::wire::*;

const TOO_LARGE: [(&str, &str); 2] =
    [("grpc-status", "8"), ("grpc-message", "grpc: received message larger than max (9 vs. 4)")];
/// Larger than the first window.
const LARGE: usize = 300_000;

/// Waits until the client has used up its window, and returns the stream of its request.
fn hear_all_it_may(peer: &mut Peer) -> io::Result<u32> {
    let stream = peer.hear_head()?;
    let mut heard = 0;
    while heard < WINDOW as usize {
        heard += peer.hear_of(DATA)?.length;
    }
    Ok(stream)
}

/// Returns the frames of this stream after the client's reset.
fn behind_reset(heard: &Heard, stream: u32) -> Vec<Frame> {
    let frames = heard.0[0].iter().filter(|frame| frame.stream == stream);
    frames.skip_while(|frame| frame.kind != RESET).skip(1).cloned().collect()
}

#[test]
fn an_early_answer_stops_the_upload() {
    for (case, fields, fate, words) in [
        (
            "refused",
            &[("grpc-status", "7"), ("grpc-message", "who are you")][..],
            Fate::Refused,
            "who are you",
        ),
        ("not taken", &[("grpc-status", "12")], Fate::NotTaken, "UNIMPLEMENTED"),
        ("too large", &TOO_LARGE, Fate::TooLarge, "larger than max"),
        ("later", &[("grpc-status", "14")], Fate::Later, "UNAVAILABLE"),
        // The server cannot have received the end of the request, but answers nevertheless.
        ("well", &[("grpc-status", "0")], Fate::Warned, "the answer has no message"),
    ] {
        let mut stage = Stage::set(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            let stream = hear_all_it_may(peer)?;
            // The window has room for the rest of the request, but after this answer the client must not send the rest.
            let room = [update(stream, MAX_31_BITS - WINDOW), update(0, MAX_31_BITS - WINDOW)].concat();
            peer.say(&[status(stream, fields), room].concat())?;
            peer.behave()
        });
        stage.export_large(1, LARGE).is(fate, words);
        stage.export(1).is(Fate::Delivered, "");
        let heard = stage.end();
        assert_eq!((heard.0.len(), heard.resets()), (1, vec![(FIRST, 8)]), "{case}");
        assert_eq!(behind_reset(&heard, FIRST).len(), 0, "{case}");
    }
}

#[test]
fn an_early_answer_is_read_while_there_is_room_for_more() {
    let mut stage = Stage::set("early answer", Setting::default().large(), |peer| {
        peer.takes_notes = false;
        peer.greet(&[(INITIAL_WINDOW, MAX_31_BITS)])?;
        peer.say(&update(0, MAX_31_BITS - WINDOW))?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        let stream = peer.hear_head()?;
        peer.say(&status(stream, &[("grpc-status", "3"), ("grpc-message", "no more")]))?;
        peer.takes_notes = true;
        peer.behave()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export_large(3, 1 << 20).is(Fate::Refused, "no more");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!(heard.0.len(), 1);
    assert_eq!(behind_reset(&heard, 3).len(), 0);
}

/// When the client checks for input in the middle of its request, both the answer and the end of the connection have
/// arrived.
#[test]
fn an_early_answer_is_read_even_if_the_server_hangs_up_behind_it() {
    let mut stage = Stage::set("answer and hang up", Setting::default().large(), |peer| {
        peer.takes_notes = false;
        peer.greet(&[(INITIAL_WINDOW, MAX_31_BITS)])?;
        peer.say(&update(0, MAX_31_BITS - WINDOW))?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        if peer.number > 0 {
            return peer.behave();
        }
        let stream = peer.hear_head()?;
        peer.say(&status(stream, &[("grpc-status", "3"), ("grpc-message", "no more")]))?;
        peer.hush()?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export_large(3, 1 << 20).is(Fate::Refused, "no more");
    stage.export(1).is(Fate::Delivered, "");
    stage.end();
}

#[test]
fn the_head_of_an_answer_does_not_stop_the_upload() {
    let mut stage = Stage::set("early head", Setting::default(), |peer| {
        peer.greet(&[])?;
        let stream = hear_all_it_may(peer)?;
        peer.say(&[head(stream), update(stream, 1 << 20), update(0, 1 << 20)].concat())?;
        while !peer.hear_of(DATA)?.ends_stream() {}
        peer.say(&data(stream, &message(&[])))?;
        peer.say(&trailers(stream, &[("grpc-status", "0")]))?;
        peer.until_gone()
    });
    stage.export_large(1, LARGE).is(Fate::Delivered, "");
    assert_eq!(stage.end().resets(), []);
}

#[test]
fn an_answer_and_a_friendly_reset_stop_the_upload() {
    let mut stage = Stage::set("friendly reset", Setting::default(), |peer| {
        peer.greet(&[])?;
        let stream = hear_all_it_may(peer)?;
        peer.say(&[status(stream, &TOO_LARGE), reset(stream, 0), update(0, 1 << 20)].concat())?;
        peer.behave()
    });
    stage.export_large(1, LARGE).is(Fate::TooLarge, "larger than max");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    let sent = heard.0[0].iter().filter(|frame| frame.kind == DATA && frame.stream == FIRST);
    assert_eq!(sent.map(|frame| frame.length).sum::<usize>(), WINDOW as usize);
    assert_eq!(heard.0.len(), 1);
}
