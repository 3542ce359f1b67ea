//! The session alone: no socket, and a clock that the test sets.

use std::mem;
use std::time::{Duration, Instant};

use super::session::{Call, End, Event, Gone, Limits, Outcome, Session};
use crate::http2::frame::{self, Code, Frame, Head, flag, kind, setting};
use crate::http2::hpack;
use crate::receiver::budget::Budget;
use crate::receiver::refusal::Hosts;

const TIME: Duration = Duration::from_secs(30);

struct Bench {
    session: Session,
    start: Instant,
}

impl Bench {
    /// Creates a session whose client has sent preface and settings.
    fn new() -> Self {
        let start = Instant::now();
        let limits = Limits { header_bytes: 4096, body_bytes: 100_000, hosts: Hosts::default(), time: TIME };
        let mut bench = Self { session: Session::new(limits, Budget::new(1_000_000), start), start };
        let mut greeting = frame::PREFACE.to_vec();
        frame::write_settings(&[], &mut greeting);
        assert!(bench.receive(&greeting).unwrap().is_empty());
        bench.session.take_out();
        bench
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Event>, End> {
        let received = self.session.receive(bytes);
        let events = mem::take(&mut self.session.events);
        received.map(|()| events)
    }

    fn expire_after(&mut self, time: Duration) -> Result<Vec<Event>, End> {
        self.session.now = self.start + time;
        let expired = self.session.expire();
        let events = mem::take(&mut self.session.events);
        expired.map(|()| events)
    }

    /// Returns the kinds and streams of the frames that go out.
    fn out(&mut self) -> Vec<(u8, u32)> {
        let out = self.session.take_out();
        let mut rest = out.as_slice();
        let mut frames = Vec::new();
        while let Some((head, after)) = rest.split_first_chunk() {
            let head = Head::read(head);
            Frame::read(head, &after[..head.length]).unwrap();
            frames.push((head.kind, head.stream));
            rest = &after[head.length..];
        }
        frames
    }
}

fn headers(stream: u32) -> Vec<u8> {
    headers_with(stream, &[])
}

/// Returns the head of a call with these fields at its end.
fn headers_with(stream: u32, added: &[(&str, &str)]) -> Vec<u8> {
    let request = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
        ("content-type", "application/grpc"),
    ];
    block(stream, &[&request, added].concat(), false)
}

fn block(stream: u32, fields: &[(&str, &str)], ends_stream: bool) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::encode(name, value.as_bytes(), &mut block));
    let mut out = Vec::new();
    frame::write_headers(stream, &block, ends_stream, 50, &mut out);
    out
}

fn data(stream: u32, content: &[u8], ends_stream: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let flags = if ends_stream { flag::END_STREAM } else { 0 };
    frame::write_head(kind::DATA, flags, stream, content.len(), &mut out);
    out.extend_from_slice(content);
    out
}

fn whole(stream: u32) -> Vec<u8> {
    [headers(stream), data(stream, &[0; 5], true)].concat()
}

fn only_call(events: Vec<Event>) -> Call {
    let mut calls = events.into_iter().filter_map(|event| match event {
        Event::Call(call) => Some(call),
        Event::Begun(_) => None,
    });
    let call = calls.next().unwrap();
    assert!(calls.next().is_none());
    call
}

#[test]
fn a_call_is_the_same_however_its_bytes_come() {
    let mut bench = Bench::new();
    let mut events = Vec::new();
    for byte in whole(1) {
        events.extend(bench.receive(&[byte]).unwrap());
    }
    assert!(matches!(events[..], [Event::Begun(1), Event::Call(_)]), "{events:?}");
    let Call { stream: 1, outcome: Outcome::Whole { head, body, .. } } = only_call(events) else { panic!() };
    assert_eq!((head.method.as_str(), body.as_slice()), ("POST", &[0; 5][..]));
}

#[test]
fn something_else_than_http2_is_known_at_its_first_wrong_byte() {
    let limits = Limits { header_bytes: 4096, body_bytes: 100, hosts: Hosts::default(), time: TIME };
    for (bytes, is_wrong) in [(&b"P"[..], false), (b"PO", true), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", false)] {
        let mut session = Session::new(limits, Budget::new(1_000_000), Instant::now());
        let result = session.receive(bytes);
        assert_eq!(result, if is_wrong { Err(End::NotHttp2) } else { Ok(()) });
        // No frames are sent to a client that may not speak HTTP/2.
        assert!(session.take_out().is_empty());
    }
}

#[test]
fn the_clock_of_a_call_starts_with_its_headers_and_that_of_silence_with_the_last_answer() {
    let mut bench = Bench::new();
    assert_eq!(bench.session.deadline(), Some(bench.start + TIME));
    bench.session.now = bench.start + TIME / 2;
    bench.receive(&headers(1)).unwrap();
    assert_eq!(bench.session.deadline(), Some(bench.start + TIME / 2 + TIME));
    assert!(bench.expire_after(TIME).unwrap().is_empty());
    let late = only_call(bench.expire_after(TIME * 2).unwrap());
    assert!(matches!(late.outcome, Outcome::Refused { refusal, .. } if refusal.status == 408));
    // There is no deadline while the answer is pending.
    assert_eq!(bench.session.deadline(), None);
    assert!(bench.expire_after(TIME * 9).unwrap().is_empty());
    bench.session.send_headers(1, &vec![], true).unwrap();
    assert_eq!(bench.session.deadline(), Some(bench.start + TIME * 10));
    assert_eq!(bench.expire_after(TIME * 10).unwrap_err(), End::Idle);
}

#[test]
fn an_answer_to_a_call_that_is_still_coming_stops_it() {
    let mut bench = Bench::new();
    bench.receive(&[headers(1), data(1, &[0, 0xff, 0, 0, 0], false)].concat()).unwrap();
    bench.session.send_headers(1, &vec![], true).unwrap();
    assert_eq!(bench.out(), [(kind::HEADERS, 1), (kind::RESET, 1)]);
    // Frames of the call that the client sent before it saw the reset are ignored.
    assert!(bench.receive(&data(1, b"more", false)).unwrap().is_empty());
    assert!(bench.out().is_empty());
}

#[test]
fn a_call_that_was_given_up_is_not_answered() {
    let mut bench = Bench::new();
    bench.receive(&whole(1)).unwrap();
    let mut reset = Vec::new();
    frame::write_reset(1, Code::CANCEL, &mut reset);
    bench.receive(&reset).unwrap();
    assert_eq!(bench.session.send_headers(1, &vec![], false), Err(Gone));
    assert_eq!(bench.session.send_data(1, b"x"), Err(Gone));
    assert!(bench.out().is_empty());
    assert_eq!(bench.session.streams.len(), 1);
    bench.session.release(1);
    assert_eq!(bench.session.streams.len(), 0);
}

#[test]
fn what_begins_after_the_last_call_is_not_heard() {
    let mut bench = Bench::new();
    bench.receive(&headers(1)).unwrap();
    bench.session.is_leaving = true;
    assert!(matches!(bench.receive(&whole(3)).unwrap()[..], []));
    let call = only_call(bench.receive(&data(1, b"\0\0\0\0\0", true)).unwrap());
    assert_eq!(call.stream, 1, "what had begun goes on");
}

#[test]
fn a_place_is_free_as_soon_as_its_answer_is_out() {
    let mut bench = Bench::new();
    for stream in (1..=2001).step_by(2) {
        only_call(bench.receive(&whole(stream)).unwrap());
        bench.session.send_headers(stream, &vec![], true).unwrap();
    }
    assert!(bench.out().iter().all(|(kind, _)| *kind != kind::RESET));
}

#[test]
fn settings_move_the_windows_of_open_streams_below_nothing_and_back() {
    let mut bench = Bench::new();
    bench.receive(&whole(1)).unwrap();
    assert_eq!(bench.session.send_data(1, &[0; 1000]), Ok(1000));
    let shrink = |bench: &mut Bench, bytes| {
        let mut settings = Vec::new();
        frame::write_settings(&[(setting::INITIAL_WINDOW_SIZE, bytes)], &mut settings);
        bench.receive(&settings).unwrap();
    };
    shrink(&mut bench, 900);
    assert_eq!(bench.session.send_data(1, &[0; 1000]), Ok(0));
    shrink(&mut bench, 1001);
    assert_eq!(bench.session.send_data(1, &[0; 1000]), Ok(1));
    // The connection's own window is the next limit.
    shrink(&mut bench, 1_000_000);
    assert_eq!(bench.session.send_data(1, &[0; 100_000]), Ok(65_535 - 1001));
}

#[test]
fn each_block_after_a_table_size_setting_begins_with_an_update_to_zero_and_no_other() {
    let mut bench = Bench::new();
    let fields = vec![(":status".to_owned(), "200".to_owned())];
    assert_eq!(bench.session.encode(&fields), [0x88]);
    for size in [0, 100, 9000] {
        let mut settings = Vec::new();
        frame::write_settings(&[(setting::HEADER_TABLE_SIZE, size)], &mut settings);
        bench.receive(&settings).unwrap();
        assert_eq!(bench.session.encode(&fields), [0x20, 0x88]);
        assert_eq!(bench.session.encode(&fields), [0x88]);
    }
}

#[test]
fn a_table_size_update_is_not_lost_with_an_answer_to_a_cancelled_call() {
    let mut bench = Bench::new();
    bench.receive(&whole(1)).unwrap();
    let mut frames = Vec::new();
    frame::write_settings(&[(setting::HEADER_TABLE_SIZE, 0)], &mut frames);
    frame::write_reset(1, Code::CANCEL, &mut frames);
    bench.receive(&frames).unwrap();
    let fields = vec![(":status".to_owned(), "200".to_owned())];
    assert_eq!(bench.session.send_headers(1, &fields, true), Err(Gone));
    assert_eq!(bench.session.encode(&fields), [0x20, 0x88]);
}

#[test]
fn calls_that_wait_for_their_answers_take_room_from_further_ones() {
    let mut bench = Bench::new();
    let large = |stream| {
        let mut message = vec![0; 90_005];
        message[1..5].copy_from_slice(&90_000u32.to_be_bytes());
        let frames = message.chunks(15_001).enumerate().map(|(index, piece)| data(stream, piece, index == 5));
        [headers(stream), frames.collect::<Vec<_>>().concat()].concat()
    };
    let is_whole = |bench: &mut Bench, stream| {
        matches!(only_call(bench.receive(&large(stream)).unwrap()).outcome, Outcome::Whole { .. })
    };
    assert!(is_whole(&mut bench, 1) && is_whole(&mut bench, 3));
    let refused = only_call(bench.receive(&large(5)).unwrap()).outcome;
    assert!(matches!(refused, Outcome::Refused { refusal, .. } if refusal.status == 503));
    bench.session.release(1);
    assert!(is_whole(&mut bench, 7));
}

#[test]
fn heads_of_refused_calls_take_memory_until_they_are_answered() {
    let mut bench = Bench::new();
    bench.session.budget = Budget::new(10_000);
    let value = "x".repeat(200);
    let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/nowhere"), ("x", value.as_str())];
    let mut refused = |stream| match only_call(bench.receive(&block(stream, &fields, true)).unwrap()).outcome
    {
        Outcome::Refused { head, refusal } => (head, refusal.status),
        whole @ Outcome::Whole { .. } => panic!("{whole:?}"),
    };
    let waiting: Vec<_> = (0..90).map(|number| refused(2 * number + 1)).collect();
    let kept = waiting.iter().filter(|(head, _)| head.is_some());
    assert!(kept.map(|(head, _)| head.as_ref().unwrap().0.weight()).sum::<usize>() <= 10_000);
    let statuses: Vec<u16> = waiting.iter().map(|(_, status)| *status).collect();
    assert!(statuses.is_sorted() && statuses[0] == 415 && statuses[89] == 503, "{statuses:?}");
    drop(waiting);
    assert!(matches!(refused(181), (Some(_), 415)));
}

#[test]
fn ends_the_connection_when_a_stream_is_opened_below_an_earlier_one() {
    for id in [3, 4] {
        let mut bench = Bench::new();
        bench.receive(&headers(5)).unwrap();
        let Err(End::Fault(fault)) = bench.receive(&headers(id)) else { panic!("stream {id} was opened") };
        assert_eq!(fault.code, Code::PROTOCOL, "{id}");
    }
}

#[test]
fn ignores_trailers_of_a_stream_that_was_just_closed() {
    let mut bench = Bench::new();
    bench.receive(&headers(1)).unwrap();
    bench.session.send_headers(1, &vec![], true).unwrap();
    bench.out();
    assert!(bench.receive(&block(1, &[("x", "y")], true)).unwrap().is_empty());
    assert!(bench.out().is_empty());
}

#[test]
fn resets_a_stream_with_connection_specific_headers() {
    for (name, value) in [
        ("connection", "keep-alive"),
        ("proxy-connection", "keep-alive"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
    ] {
        let mut bench = Bench::new();
        assert!(bench.receive(&headers_with(1, &[(name, value)])).unwrap().is_empty(), "{name}");
        assert_eq!(bench.out(), [(kind::RESET, 1)], "{name}");
    }
    let mut bench = Bench::new();
    assert!(matches!(bench.receive(&headers_with(1, &[("te", "trailers")])).unwrap()[..], [Event::Begun(1)]));
}

#[test]
fn resets_a_stream_whose_content_length_is_wrong() {
    for (length, is_right) in [("5", true), ("4", false), ("6", false), ("+5", false), ("", false)] {
        let mut bench = Bench::new();
        let head = headers_with(1, &[("content-length", length)]);
        let events = bench.receive(&[head, data(1, &[0; 5], true)].concat()).unwrap();
        let calls = events.iter().filter(|event| matches!(event, Event::Call(_))).count();
        assert_eq!(calls, usize::from(is_right), "{length:?}");
        let out = bench.out();
        assert_eq!(out, if is_right { vec![] } else { vec![(kind::RESET, 1)] }, "{length:?}");
    }
}
