//! Servers that change their settings during a call.

use prost::Message as _;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use crate::server::{Peer, Request};
use crate::stage::{Fate, HASTY, Setting, Stage, export};
use crate::wire::*;

const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Returns the number of spans in a request, which must contain exactly one message.
fn spans(request: &Request) -> usize {
    let (prefix, message) = request.body.split_first_chunk::<5>().unwrap();
    assert_eq!(prefix[0], 0);
    assert_eq!(u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize, message.len());
    let request = ExportTraceServiceRequest::decode(message).unwrap();
    request.resource_spans.iter().flat_map(|spans| &spans.scope_spans).map(|spans| spans.spans.len()).sum()
}

/// Reads a request whose data gets window updates of `step` bytes at a time, in both windows.
fn take_slowly(peer: &mut Peer, step: u32) -> std::io::Result<Request> {
    let stream = peer.hear_head()?;
    let mut body = Vec::new();
    loop {
        let frame = peer.hear()?;
        if frame.kind != DATA {
            continue;
        }
        assert!(frame.length <= step as usize, "{} bytes in a window of {step}", frame.length);
        body.extend(&frame.payload);
        if frame.ends_stream() {
            return Ok(Request { stream, body });
        }
        peer.say(&[update(stream, step), update(0, step)].concat())?;
    }
}

#[test]
fn a_window_of_a_few_bytes_splits_even_the_prefix_of_a_message() {
    for (case, window) in [("1 byte", 1), ("3 bytes", 3), ("4 bytes", 4), ("5 bytes", 5), ("100 bytes", 100)]
    {
        let mut stage = Stage::set(case, Setting::default(), move |peer| {
            peer.takes_notes = false;
            peer.greet(&[(INITIAL_WINDOW, window)])?;
            let first = peer.request()?;
            peer.say(&well(first.stream))?;
            loop {
                let request = take_slowly(peer, window)?;
                assert_eq!(spans(&request), 3, "{case}");
                peer.say(&well(request.stream))?;
            }
        });
        // The first request is sent before the window is known.
        stage.export(1).is(Fate::Delivered, "");
        stage.export(3).is(Fate::Delivered, "");
        stage.export(3).is(Fate::Delivered, "");
        assert_eq!(stage.end().0.len(), 1, "{case}");
    }
}

#[test]
fn a_window_that_shrinks_below_nothing_is_waited_for() {
    let mut stage = Stage::set("negative window", Setting::default(), |peer| {
        peer.greet(&[])?;
        let stream = peer.hear_head()?;
        let mut body = Vec::new();
        while body.len() < WINDOW as usize {
            body.extend(peer.hear_of(DATA)?.payload);
        }
        // The stream's first window is used up, so a new initial window of 1000 makes it −64,535.
        peer.say(&[settings(&[(INITIAL_WINDOW, 1000)]), update(0, MAX_31_BITS - WINDOW)].concat())?;
        // Waits for the acknowledgements of the first settings and of the new ones.
        for _ in 0..2 {
            while !peer.hear_of(SETTINGS)?.is_ack() {}
        }
        // The window becomes 0: no byte may follow, and the answer to a ping shows that none did.
        peer.say(&[update(stream, WINDOW - 1000), ping()].concat())?;
        assert_eq!(peer.hear()?.kind, PING);
        // The window becomes 1.
        peer.say(&update(stream, 1))?;
        let frame = peer.hear_of(DATA)?;
        assert_eq!(frame.length, 1);
        body.extend(frame.payload);
        // Settings enlarge the window in the middle of the request.
        peer.say(&settings(&[(INITIAL_WINDOW, 100_000)]))?;
        loop {
            let frame = peer.hear_of(DATA)?;
            let is_last = frame.ends_stream();
            body.extend(frame.payload);
            if is_last {
                break;
            }
        }
        assert_eq!(spans(&Request { stream, body }), 2);
        peer.say(&well(stream))?;
        peer.until_gone()
    });
    stage.export_large(2, 60_000).is(Fate::Delivered, "");
    assert_eq!(stage.end().resets(), []);
}

#[test]
fn frames_grow_as_the_server_allows_and_shrink_when_it_does_not() {
    let mut stage = Stage::set("frame sizes", Setting::default(), |peer| {
        peer.greet(&[(INITIAL_WINDOW, MAX_31_BITS), (MAX_FRAME, 40_000)])?;
        peer.say(&update(0, MAX_31_BITS - WINDOW))?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        let mut longest = Vec::new();
        for next_size in [16_384, 16_384, 40_000] {
            let stream = peer.hear_head()?;
            let mut most = 0;
            loop {
                let frame = peer.hear_of(DATA)?;
                most = most.max(frame.length);
                if frame.ends_stream() {
                    break;
                }
            }
            longest.push(most);
            peer.say(&[well(stream), settings(&[(MAX_FRAME, next_size)])].concat())?;
            while !peer.hear_of(SETTINGS)?.is_ack() {}
        }
        assert!(longest[0] <= 40_000 && longest[1] <= 16_384 && longest[2] <= 16_384, "{longest:?}");
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    for _ in 0..3 {
        stage.export_large(1, 200_000).is(Fate::Delivered, "");
    }
    stage.end();
}

/// A server that allows frames of 16 MiB must not determine the client's memory use.
#[test]
fn the_largest_frames_cost_no_memory() {
    let cost = |entries: &'static [(u16, u32)]| {
        let mut stage = Stage::set("largest frames", Setting::default().large(), move |peer| {
            peer.takes_notes = false;
            peer.greet(entries)?;
            peer.say(&update(0, MAX_31_BITS - WINDOW))?;
            let first = peer.request()?;
            peer.say(&well(first.stream))?;
            let stream = peer.hear_head()?;
            loop {
                let frame = peer.hear_of(DATA)?;
                assert!(frame.length <= 1 << 17, "a frame of {} bytes", frame.length);
                if frame.ends_stream() {
                    break;
                }
            }
            peer.say(&well(stream))?;
            peer.until_gone()
        });
        stage.export(1).is(Fate::Delivered, "");
        stage.export_large(3, 1 << 20).is(Fate::Delivered, "");
        stage.end();
    };
    cost(&[(INITIAL_WINDOW, MAX_31_BITS), (MAX_FRAME, (1 << 24) - 1)]);
}

#[test]
fn a_block_after_a_change_of_the_table_says_that_ours_is_empty() {
    let mut stage = Stage::set("table size", Setting::default(), |peer| {
        peer.greet(&[(HEADER_TABLE_SIZE, 0)])?;
        for number in 0..4 {
            let request = peer.request()?;
            if number == 2 {
                peer.say(&settings(&[(HEADER_TABLE_SIZE, 4096), (HEADER_TABLE_SIZE, 0)]))?;
            }
            peer.say(&well(request.stream))?;
        }
        peer.until_gone()
    });
    for _ in 0..4 {
        stage.export(1).is(Fate::Delivered, "");
    }
    let heard = stage.end();
    let first_bytes = heard.0[0].iter().filter(|frame| frame.kind == HEADERS).map(|frame| frame.payload[0]);
    let says_so: Vec<bool> = first_bytes.map(|byte| byte == 0x20).collect();
    // The first block always says that the table is empty. The second block says so because the first settings have
    // arrived, and the fourth because the settings have changed.
    assert_eq!(says_so, [true, true, false, true]);
}

#[test]
fn a_call_waits_until_the_server_allows_one() {
    let mut stage = Stage::set("no streams", Setting::default(), |peer| {
        peer.greet(&[(MAX_STREAMS, 0)])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        // The server cannot see that the next call waits. The answer to a ping shows that no head was sent before it.
        for _ in 0..3 {
            peer.say(&ping())?;
            let frame = peer.hear_of(PING)?;
            assert!(frame.is_ack());
        }
        peer.say(&settings(&[(MAX_STREAMS, 1)]))?;
        peer.behave()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Delivered, "");
    assert_eq!(stage.end().0.len(), 1);
}

#[test]
fn a_server_that_never_allows_a_call_ends_at_the_deadline() {
    let mut stage = Stage::set("never a stream", Setting::hasty(), |peer| {
        peer.greet(&[(MAX_STREAMS, 0)])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    let outcome = stage.export(1);
    outcome.is(Fate::Later, "no answer in time");
    assert!(outcome.took >= HASTY, "{outcome:?}");
    assert_eq!(stage.end().requests(), 1);
}

#[test]
fn a_head_longer_than_the_server_takes_is_not_sent() {
    let mut stage = Stage::set("short heads", Setting::default(), |peer| {
        peer.greet(&[(MAX_HEADER_LIST, 100)])?;
        let first = peer.request()?;
        peer.say(&well(first.stream))?;
        peer.until_gone()
    });
    stage.export(1).is(Fate::Delivered, "");
    stage.export(1).is(Fate::Refused, "the request headers are too long: the server accepts 100 bytes");
    let heard = stage.end();
    assert_eq!((heard.0.len(), heard.requests()), (1, 1));
}

/// The first head is sent before the server has announced its limit.
#[test]
fn a_head_that_turns_out_to_be_too_long_is_not_sent_again() {
    for (case, is_reset) in [("farewell", false), ("reset", true)] {
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            peer.greet(&[(MAX_HEADER_LIST, 100)])?;
            let stream = peer.hear_head()?;
            let refusal =
                if is_reset { reset(stream, REFUSED_STREAM) } else { go_away(0, ENHANCE_YOUR_CALM, "") };
            peer.say(&refusal)?;
            peer.until_gone()
        });
        outcome.is(Fate::Refused, "the request headers are too long: the server accepts 100 bytes");
        assert_eq!((heard.0.len(), heard.requests()), (1, 1), "{case}");
    }
}

#[test]
fn settings_that_nobody_may_ask_for_end_the_connection() {
    for (case, entry, code, words) in [
        ("push", (ENABLE_PUSH, 1), 1, "a server that enables push"),
        ("push of 2", (ENABLE_PUSH, 2), 1, "neither 0 nor 1"),
        ("window", (INITIAL_WINDOW, 1 << 31), 3, "SETTINGS_INITIAL_WINDOW_SIZE above"),
        ("small frames", (MAX_FRAME, 16_383), 1, "SETTINGS_MAX_FRAME_SIZE out of range"),
        ("large frames", (MAX_FRAME, 1 << 24), 1, "SETTINGS_MAX_FRAME_SIZE out of range"),
    ] {
        let (outcome, heard) = export(case, Setting::default(), move |peer| {
            peer.greet(&[(0x99, 7), entry])?;
            peer.until_gone()
        });
        outcome.is(Fate::Refused, words);
        assert_eq!(heard.farewells(), [code], "{case}");
    }
}

#[test]
fn settings_that_nobody_knows_are_passed_over_and_acknowledged() {
    let (outcome, heard) = export("unknown settings", Setting::default(), |peer| {
        peer.greet(&[(0x99, 7), (0, 0), (u16::MAX, u32::MAX), (ENABLE_PUSH, 0)])?;
        peer.behave()
    });
    outcome.is(Fate::Delivered, "");
    assert_eq!(heard.0[0].iter().filter(|frame| frame.is_ack()).count(), 1);
}
