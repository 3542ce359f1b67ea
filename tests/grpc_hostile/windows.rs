//! Flow-control windows in both directions.

use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

const FLOW_CONTROL: u32 = 3;

#[test]
fn fifteen_thousand_answers_fit_into_one_connection() {
    const CALLS: u64 = 15_000;
    let setting = Setting { batch_records: 1, ..Setting::default() };
    let mut stage = Stage::set("15,000 calls", setting, |peer| {
        peer.takes_notes = false;
        peer.greet(&[])?;
        loop {
            let request = peer.request()?;
            let message = message(&[]);
            // This server respects its window, so it would wait here forever if the client never enlarged the window.
            while peer.window < message.len() as i64 {
                peer.hear()?;
            }
            peer.window -= message.len() as i64;
            peer.say(&[update(0, request.body.len() as u32), well(request.stream)].concat())?;
        }
    });
    for _ in 0..CALLS / 500 {
        stage.export(500).is(Fate::Delivered, "");
    }
    assert_eq!(stage.attempts(), CALLS);
    assert_eq!(stage.end().0.len(), 1);
}

#[test]
fn a_window_of_the_connection_that_is_too_large_ends_it() {
    let (outcome, heard) = export("connection", Setting::default(), saying(update(0, MAX_31_BITS)));
    outcome.is(Fate::Refused, "a flow-control window above 2^31-1");
    assert_eq!(heard.farewells(), [FLOW_CONTROL]);
}

#[test]
fn a_window_of_a_stream_that_is_too_large_ends_the_call() {
    let mut stage = Stage::set("stream", Setting::default(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&update(request.stream, MAX_31_BITS))?;
        peer.behave()
    });
    stage.export(1).is(Fate::Refused, "a flow-control window above 2^31-1");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.resets(), heard.farewells()), (1, vec![(FIRST, FLOW_CONTROL)], vec![]));
}

#[test]
fn settings_that_make_a_window_too_large_end_the_connection() {
    let words = [update(FIRST, 1 << 20), settings(&[(INITIAL_WINDOW, MAX_31_BITS)])].concat();
    let (outcome, heard) = export("settings", Setting::default(), saying(words));
    outcome.is(Fate::Refused, "a flow-control window above 2^31-1");
    assert_eq!(heard.farewells(), [FLOW_CONTROL]);
}

#[test]
fn an_update_of_nothing_is_an_error_as_far_as_it_reaches() {
    let (outcome, heard) = export("connection", Setting::default(), saying(update(0, 0)));
    outcome.is(Fate::Refused, "WINDOW_UPDATE with an increment of 0");
    assert_eq!((heard.farewells(), heard.resets()), (vec![1], vec![]));
    let (outcome, heard) = export("stream", Setting::default(), saying(update(FIRST, 0)));
    outcome.is(Fate::Refused, "WINDOW_UPDATE with an increment of 0");
    assert_eq!((heard.farewells(), heard.resets()), (vec![], vec![(FIRST, 1)]));
}

#[test]
fn updates_of_an_old_stream_change_nothing() {
    let mut stage = Stage::set("old stream", Setting::default(), |peer| {
        peer.greet(&[])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        let second = peer.request()?;
        peer.say(
            &[update(first.stream, 0), update(first.stream, MAX_31_BITS), well(second.stream)].concat(),
        )?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.resets(), heard.farewells()), (1, vec![], vec![]));
}
