//! Flow-control windows and settings, which both sides respect.

use standpipe::Signal;
use standpipe::receiver::{Answer, Receiver};

use super::client::{
    ACK, DATA, END_HEADERS, END_STREAM, Grpc, HEADERS, PADDED, PING, SETTINGS, WINDOW_UPDATE, block, fields,
    frame, packed, settings_frame, unblock,
};
use crate::client::{SOON, traces};

#[test]
fn settings_come_first_and_are_acknowledged() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect_with(&receiver, &[(3, 1), (4, 70_000), (77, 1)]);
    let settings = client.frame().unwrap();
    assert_eq!((settings.kind, settings.flags), (SETTINGS, 0));
    let acknowledged = client.frame().unwrap();
    assert_eq!((acknowledged.kind, acknowledged.flags, acknowledged.payload.len()), (SETTINGS, ACK, 0));
}

#[test]
fn pings_are_answered_with_what_they_carry() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    client.write_frame(PING, 0, 0, b"standpip");
    let pong = client.frame_of(PING).unwrap();
    assert_eq!((pong.flags, pong.payload.as_slice()), (ACK, &b"standpip"[..]));
}

#[test]
fn a_body_may_be_larger_than_any_window() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let message = traces(20_000);
    assert!(message.len() > 1_000_000);
    let stream = client.new_stream();
    client.write_frame(HEADERS, END_HEADERS, stream, &block(&fields(Signal::Traces)));
    let body = packed(&message);
    let (mut of_connection, mut of_stream) = (65_535_i64, 65_535_i64);
    let mut pieces = body.chunks(10_000).peekable();
    while let Some(piece) = pieces.next() {
        // Padding counts as well.
        let padded = [&[200], piece, &[0; 200]].concat();
        while of_connection.min(of_stream) < padded.len() as i64 {
            let update = client.frame_of(WINDOW_UPDATE).unwrap();
            let window = if update.stream == 0 { &mut of_connection } else { &mut of_stream };
            *window += i64::from(update.number(0));
        }
        let flags = if pieces.peek().is_none() { PADDED | END_STREAM } else { PADDED };
        client.write_frame(DATA, flags, stream, &padded);
        of_connection -= padded.len() as i64;
        of_stream -= padded.len() as i64;
    }
    assert_eq!(client.reply(stream).unwrap().code(), 0);
    assert_eq!(receiver.span_count(), 20_000);
}

#[test]
fn the_window_comes_back_also_for_what_nobody_reads() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    // These calls are refused because of their heads, so their data is discarded.
    let mut unknown = fields(Signal::Traces);
    unknown[2].1 = "/unknown".to_owned();
    for _ in 0..20 {
        let stream = client.send(&unknown, &[0; 16_384]);
        assert_eq!(client.reply(stream).unwrap().code(), 12);
    }
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    // All bytes are returned, except at most half a window, which is not worth an update yet.
    assert!(client.given_back() > 20 * 16_384 - 32_768, "{}", client.given_back());
}

#[test]
fn an_answer_waits_for_the_windows_of_the_client() {
    let receiver = Receiver::builder().first_answers([Answer::ok().body(vec![7; 100_000])]).start().unwrap();
    // Three bytes at first: less than the prefix of the message.
    let mut client = Grpc::connect_with(&receiver, &[(4, 3)]);
    client.gives_back = false;
    let stream = client.export(Signal::Traces, &traces(1));
    assert_eq!(client.frame_of(DATA).unwrap().payload.len(), 3);
    client.write_frame(WINDOW_UPDATE, 0, stream, &2_u32.to_be_bytes());
    assert_eq!(client.frame_of(DATA).unwrap().payload.len(), 2);
    // Settings first make the window negative, then restore it.
    client.write(&settings_frame(&[(4, 0)]));
    client.write(&settings_frame(&[(4, 65_535)]));
    let mut received = 5;
    while received < 65_535 {
        received += client.frame_of(DATA).unwrap().payload.len();
    }
    assert_eq!(received, 65_535);
    let more = 200_000_u32.to_be_bytes();
    client.write(&[frame(WINDOW_UPDATE, 0, 0, &more), frame(WINDOW_UPDATE, 0, stream, &more)].concat());
    let reply = client.reply(stream).unwrap();
    assert_eq!((received + reply.data.len(), reply.code()), (100_005, 0));
}

#[test]
fn an_answer_that_waits_keeps_no_other_waiting() {
    let receiver = Receiver::builder().first_answers([Answer::ok().body(vec![7; 100])]).start().unwrap();
    let mut client = Grpc::connect_with(&receiver, &[(4, 10)]);
    client.gives_back = false;
    let waiting = client.export(Signal::Traces, &traces(1));
    assert_eq!(client.frame_of(DATA).unwrap().payload.len(), 10);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    client.write_frame(WINDOW_UPDATE, 0, waiting, &1000_u32.to_be_bytes());
    assert_eq!(client.reply(waiting).unwrap().code(), 0);
    assert_eq!(receiver.span_count(), 2);
}

#[test]
fn frames_are_no_longer_than_everyone_takes() {
    let receiver = Receiver::builder().first_answers([Answer::ok().body(vec![7; 60_000])]).start().unwrap();
    let mut client = Grpc::connect_with(&receiver, &[(5, 1 << 20)]);
    client.export(Signal::Traces, &traces(1));
    let frames: Vec<usize> = (0..4).map(|_| client.frame_of(DATA).unwrap().payload.len()).collect();
    assert!(frames.iter().all(|length| *length <= 16_384), "{frames:?}");
}

#[test]
fn a_client_without_a_table_learns_that_none_is_used() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect_with(&receiver, &[(1, 0)]);
    client.export(Signal::Traces, &traces(1));
    let head = client.frame_of(HEADERS).unwrap();
    assert_eq!(head.payload[0], 0x20);
    assert_eq!(unblock(&head.payload)[0].0, ":status");
    assert_eq!(client.frame_of(HEADERS).unwrap().payload[0] & 0xe0, 0);
}

#[test]
fn ten_thousand_calls_fit_on_one_connection() {
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    let mut client = Grpc::connect(&receiver);
    for _ in 0..100 {
        let streams: Vec<u32> = (0..100).map(|_| client.export(Signal::Traces, &traces(1))).collect();
        for stream in streams {
            assert_eq!(client.reply(stream).unwrap().code(), 0);
        }
    }
    assert!(receiver.wait_for_spans(10_000, SOON));
    assert_eq!(receiver.connection_count(), 1);
}
