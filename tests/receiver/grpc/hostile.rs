//! Malicious clients: the receiver still works after each.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use standpipe::Signal;
use standpipe::receiver::{Answer, Receiver};

use super::client::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Fields, GO_AWAY, Grpc, HEADERS, PADDED, PING, RESET,
    SETTINGS, WINDOW_UPDATE, block, fields, fields_with, flagged, frame, packed, settings_frame,
};
use crate::client::{SOON, traces};
use crate::support::size_within;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Enough time for a client that is not scheduled between two steps.
const PATIENCE: Duration = Duration::from_secs(1);

fn impatient() -> Receiver {
    Receiver::builder().read_timeout(PATIENCE).start().unwrap()
}

fn assert_still_serving(receiver: &Receiver) {
    let before = receiver.span_count();
    assert_eq!(Grpc::connect(receiver).ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(receiver.span_count(), before + 1);
}

/// Writes as many bytes as the receiver accepts.
fn flood(client: &mut Grpc, bytes: &[u8], times: usize) {
    for _ in 0..times {
        if client.socket.write_all(bytes).is_err() {
            return;
        }
    }
}

#[test]
fn a_connection_ends_with_the_code_of_the_rule_that_was_broken() {
    let head = block(&fields(Signal::Traces));
    let receiver = Receiver::start().unwrap();
    for (what, frames, code) in [
        ("no settings at first", frame(PING, 0, 0, &[0; 8]), PROTOCOL_ERROR),
        ("SETTINGS with a wrong length", frame(SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE_ERROR),
        ("a flow-control window above 2^31-1", settings_frame(&[(4, u32::MAX)]), FLOW_CONTROL_ERROR),
        ("a frame longer than 16 KiB", [0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1].to_vec(), FRAME_SIZE_ERROR),
    ] {
        let mut client = Grpc::dial(&receiver);
        client.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.write(&frames);
        assert_eq!(client.farewell(), code, "{what}");
    }
    let begun = frame(HEADERS, END_HEADERS, 1, &head);
    for (what, frames, code) in [
        ("data of no stream", frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
        ("data of a stream that was never begun", frame(DATA, 0, 1, b"x"), PROTOCOL_ERROR),
        ("a reset of one", frame(RESET, 0, 9, &[0; 4]), PROTOCOL_ERROR),
        ("an even stream", frame(HEADERS, END_HEADERS, 2, &head), PROTOCOL_ERROR),
        (
            "a stream below an earlier one",
            [frame(HEADERS, END_HEADERS, 5, &head), frame(HEADERS, END_HEADERS, 3, &head)].concat(),
            PROTOCOL_ERROR,
        ),
        ("padding longer than its frame", frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0]), PROTOCOL_ERROR),
        ("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, &head), PROTOCOL_ERROR),
        (
            "a header block that is broken off",
            [frame(HEADERS, 0, 1, &head), frame(PING, 0, 0, &[0; 8])].concat(),
            PROTOCOL_ERROR,
        ),
        (
            "one that goes on elsewhere",
            [frame(HEADERS, 0, 1, &head), frame(CONTINUATION, END_HEADERS, 3, &head)].concat(),
            PROTOCOL_ERROR,
        ),
        ("headers twice", [begun.clone(), begun.clone()].concat(), PROTOCOL_ERROR),
        ("a promise", frame(5, END_HEADERS, 1, &[0; 4]), PROTOCOL_ERROR),
        ("WINDOW_UPDATE with an increment of 0", frame(WINDOW_UPDATE, 0, 0, &[0; 4]), PROTOCOL_ERROR),
        (
            "a window that overflows",
            frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()),
            FLOW_CONTROL_ERROR,
        ),
        ("an index beyond the tables", frame(HEADERS, END_HEADERS, 1, &[0xff, 0x00]), COMPRESSION_ERROR),
        ("index 0", frame(HEADERS, END_HEADERS, 1, &[0x80]), COMPRESSION_ERROR),
    ] {
        let mut client = Grpc::connect(&receiver);
        client.write(&frames);
        assert_eq!(client.farewell(), code, "{what}");
    }
    assert!(receiver.wait_for_disconnection(SOON));
    assert_eq!(receiver.request_count(), 0);
    assert_still_serving(&receiver);
}

#[test]
fn a_malformed_call_costs_its_stream_and_not_the_connection() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let without = |name: &str| -> Fields {
        fields(Signal::Traces).into_iter().filter(|(field, _)| field != name).collect()
    };
    let mut late = fields(Signal::Traces);
    late.push((":method".into(), "POST".into()));
    for fields in [
        without(":path"),
        without(":method"),
        without(":scheme"),
        late,
        fields_with(Signal::Traces, ":strange", "x"),
        fields_with(Signal::Traces, "X-Upper", "x"),
        fields_with(Signal::Traces, "", "x"),
        fields_with(Signal::Traces, "x y", "x"),
        fields_with(Signal::Traces, "x", "a\r\nb"),
        fields_with(Signal::Traces, "x", "a\0b"),
    ] {
        let stream = client.send(&fields, &packed(&traces(1)));
        assert_eq!(client.reply(stream).unwrap().reset, Some(PROTOCOL_ERROR), "{fields:?}");
    }
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn floods_are_cut_off() {
    let receiver = Receiver::start().unwrap();
    let head = block(&fields(Signal::Traces));
    let opened = frame(HEADERS, END_HEADERS, 1, &head);
    let trailers = block(&vec![("x".to_owned(), "y".to_owned())]);
    let closed = [opened.clone(), frame(RESET, 0, 1, &[0; 4])].concat();
    let endless = [frame(HEADERS, 0, 1, &[]), frame(CONTINUATION, 0, 1, &[]).repeat(100)].concat();
    let long = [frame(HEADERS, 0, 1, &[]), frame(CONTINUATION, 0, 1, &[0; 16_384]).repeat(3)].concat();
    for (what, first, repeated) in [
        ("pings", vec![], frame(PING, 0, 0, &[0; 8])),
        ("settings", vec![], settings_frame(&[(4, 1), (4, 2)])),
        ("acknowledgements", vec![], frame(SETTINGS, ACK, 0, &[])),
        ("priorities", vec![], frame(2, 0, 1, &[0; 5])),
        ("unknown frames", vec![], frame(99, 0, 0, &[])),
        ("empty data", opened.clone(), frame(DATA, 0, 1, &[])),
        ("farewells", vec![], frame(GO_AWAY, 0, 0, &[0; 8])),
        ("window updates of a closed stream", closed.clone(), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        (
            "trailers of a closed stream",
            closed.clone(),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers),
        ),
        ("ends of a closed stream", closed.clone(), frame(DATA, END_STREAM, 1, &[])),
        ("data of a closed stream", closed, frame(DATA, 0, 1, b"x")),
        ("window updates of the connection", vec![], frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("window updates of an open stream", opened.clone(), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        ("an endless header block", endless, vec![]),
        ("a long header block", long, vec![]),
    ] {
        let mut client = Grpc::connect(&receiver);
        client.write(&first);
        flood(&mut client, &repeated.repeat(50), 21);
        assert_eq!(client.farewell(), ENHANCE_YOUR_CALM, "{what}");
    }
    assert!(receiver.wait_for_disconnection(SOON));
    assert_still_serving(&receiver);
}

#[test]
fn late_frames_of_answered_calls_cost_no_client_its_connection() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    for _ in 0..600 {
        let stream = client.export(Signal::Traces, &traces(1));
        assert_eq!(client.reply(stream).unwrap().code(), 0);
        let late = [frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]), frame(DATA, END_STREAM, stream, &[])];
        client.write(&late.concat());
    }
    assert_eq!(receiver.connection_count(), 1);
}

#[test]
fn calls_that_are_begun_and_reset_without_end_are_cut_off() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let head = block(&fields(Signal::Traces));
    let frames: Vec<u8> = (0..1100)
        .flat_map(|number| {
            let stream = 2 * number + 1;
            [frame(HEADERS, END_HEADERS, stream, &head), frame(RESET, 0, stream, &8_u32.to_be_bytes())]
                .concat()
        })
        .collect();
    flood(&mut client, &frames, 1);
    assert_eq!(client.farewell(), ENHANCE_YOUR_CALM);
    assert_still_serving(&receiver);
}

#[test]
fn calls_that_are_reset_count_until_no_thread_works_on_them_any_more() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let mut client = Grpc::connect(&receiver);
    for _ in 0..100 {
        let stream = client.export(Signal::Traces, &traces(1));
        client.write_frame(RESET, 0, stream, &8_u32.to_be_bytes());
    }
    assert!(receiver.wait_for_held(100, SOON));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).reset, Some(REFUSED_STREAM));
    receiver.resume();
    assert!(receiver.wait_for_spans(100, SOON));
    assert_still_serving(&receiver);
}

#[test]
fn more_calls_at_a_time_than_announced_are_refused() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let mut client = Grpc::connect(&receiver);
    let settings = client.frame_of(SETTINGS).unwrap();
    let announced = settings.payload.chunks(6).find(|entry| entry[..2] == [0, 3]).unwrap();
    assert_eq!(announced[2..], 100_u32.to_be_bytes());
    let streams: Vec<u32> = (0..100).map(|_| client.export(Signal::Traces, &traces(1))).collect();
    assert!(receiver.wait_for_held(100, SOON));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).reset, Some(REFUSED_STREAM));
    receiver.resume();
    for stream in streams {
        assert_eq!(client.reply(stream).unwrap().code(), 0);
    }
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(receiver.span_count(), 101);
}

#[test]
fn too_many_headers_are_refused_and_the_table_stays_right() {
    let receiver = Receiver::builder().max_header_bytes(1000).start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let reply = {
        let stream =
            client.send(&fields_with(Signal::Traces, "x-long", &"x".repeat(1000)), &packed(&traces(1)));
        client.reply(stream).unwrap()
    };
    assert_eq!(reply.code(), 8);
    // A field that is added to the table in a block that is too long, and then referred to by its index.
    let stream = client.new_stream();
    let mut long = block(&fields_with(Signal::Traces, "x-long", &"x".repeat(1000)));
    long.extend_from_slice(b"\x40\x06x-kept\x04mine");
    client.write(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &long));
    assert_eq!(client.reply(stream).unwrap().code(), 8);
    let stream = client.new_stream();
    let mut short = block(&fields(Signal::Traces));
    short.push(0x80 | 62);
    client.write(&frame(HEADERS, END_HEADERS, stream, &short));
    client.write(&frame(DATA, END_STREAM, stream, &packed(&traces(1))));
    assert_eq!(client.reply(stream).unwrap().code(), 0);
    assert_eq!(receiver.requests()[0].header("x-kept"), Some("mine"));
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn the_calls_of_one_connection_share_a_bound_of_memory() {
    let receiver = Receiver::builder().max_body_bytes(10_000).start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let head = block(&fields(Signal::Traces));
    let streams: Vec<u32> = (0..5).map(|_| client.new_stream()).collect();
    for stream in &streams {
        client.write_frame(HEADERS, END_HEADERS, *stream, &head);
        client.write_frame(DATA, 0, *stream, &packed(&[0; 6000]));
    }
    // Three calls fit into the limit. The others are refused as UNAVAILABLE, which is retryable.
    for stream in &streams[3..] {
        let reply = client.reply(*stream).unwrap();
        assert_eq!(reply.code(), 14);
        assert!(reply.trailer("grpc-message").unwrap().contains("exceed the memory limit"));
    }
    assert_still_serving(&receiver);
}

#[test]
fn a_bomb_is_defused() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // At least twice as long as a body may be.
    for _ in 0..size_within(2..=16) {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let receiver = Receiver::builder().max_body_bytes(1 << 20).start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let stream = client.send(&fields_with(Signal::Traces, "grpc-encoding", "gzip"), &flagged(1, &bomb));
    assert_eq!(client.reply(stream).unwrap().code(), 8);
    assert_still_serving(&receiver);
}

#[test]
fn a_call_that_drips_in_is_cut_off_in_time() {
    let receiver = impatient();
    let mut client = Grpc::connect(&receiver);
    let stream = client.new_stream();
    client.write_frame(HEADERS, END_HEADERS, stream, &block(&fields(Signal::Traces)));
    client.write_frame(DATA, 0, stream, &packed(&traces(1))[..20]);
    let reply = client.reply(stream).unwrap();
    assert_eq!(
        (reply.code(), reply.trailer("grpc-message")),
        (4, Some("the request took too long to arrive"))
    );
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
}

#[test]
fn a_silent_client_is_sent_away_in_time() {
    let receiver = impatient();
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    let halves = [&b"PRI * HT"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"].map(|half| {
        let mut client = Grpc::dial(&receiver);
        client.write(half);
        client
    });
    let mut silent = Grpc::dial(&receiver);
    let mut rest = Vec::new();
    silent.socket.read_to_end(&mut rest).unwrap();
    for mut half in halves {
        half.frames_to_end().unwrap();
    }
    assert_eq!(client.farewell(), 0);
    assert!(receiver.wait_for_disconnection(SOON));
}

#[test]
fn pings_alone_keep_no_connection_open() {
    let receiver = impatient();
    let mut client = Grpc::connect(&receiver);
    let started = Instant::now();
    while started.elapsed() < SOON {
        if client.socket.write_all(&frame(PING, 0, 0, &[0; 8])).is_err() || client.frame_of(PING).is_err() {
            break;
        }
    }
    assert!(started.elapsed() < SOON);
}

#[test]
fn a_client_that_takes_in_no_answer_loses_it_in_time() {
    let receiver = Receiver::builder()
        .read_timeout(PATIENCE)
        .first_answers([Answer::oversized(1 << 40)])
        .start()
        .unwrap();
    let mut client = Grpc::connect(&receiver);
    client.gives_back = false;
    let stream = client.export(Signal::Traces, &traces(1));
    let reply = client.reply(stream).unwrap();
    assert_eq!((reply.data.len(), reply.reset), (65_535, Some(8)));
    assert_eq!(client.farewell(), 0);
    assert_still_serving(&receiver);
}

#[test]
fn noise_is_refused_at_once() {
    let receiver = Receiver::start().unwrap();
    let tls_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for noise in [&[0; 100][..], &tls_hello, &[0xff; 100], b"\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX"] {
        let mut client = Grpc::dial(&receiver);
        client.write(noise);
        let mut answer = String::new();
        client.socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
    }
    assert_still_serving(&receiver);
}

#[test]
fn a_client_that_vanishes_leaves_no_trace() {
    let receiver = Receiver::start().unwrap();
    let whole = [
        frame(HEADERS, END_HEADERS, 1, &block(&fields(Signal::Traces))),
        frame(DATA, END_STREAM, 1, &packed(&traces(2))),
    ]
    .concat();
    for sent in (0..whole.len()).step_by(17) {
        Grpc::connect(&receiver).write(&whole[..sent]);
    }
    assert!(receiver.wait_for_disconnection(SOON));
    assert_still_serving(&receiver);
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn random_frames_never_bring_it_down() {
    let receiver = Receiver::start().unwrap();
    let pattern = [
        frame(HEADERS, END_HEADERS, 1, &block(&fields(Signal::Traces))),
        frame(DATA, END_STREAM, 1, &packed(&traces(2))),
    ]
    .concat();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..300 {
        let mut frames = pattern.clone();
        for _ in 0..=random(8) {
            let position = random(frames.len());
            frames[position] = random(256) as u8;
        }
        let mut client = Grpc::connect(&receiver);
        client.write(&frames);
        client.stop_writing();
        let _ = client.frames_to_end();
    }
    assert_still_serving(&receiver);
}
