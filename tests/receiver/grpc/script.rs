//! Scripted answers, as a gRPC client sees them.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use standpipe::Signal;
use standpipe::receiver::{Answer, Receiver};

use super::client::{
    DATA, END_HEADERS, END_STREAM, GO_AWAY, Grpc, HEADERS, PING, RESET, block, fields, packed,
};
use crate::client::{SOON, WAITED, ask, assert_reset, logs, post, traces};
use crate::support::size_within;

/// A delay that is short for a person and long for a machine.
const SHORT: Duration = Duration::from_millis(30);
/// A delay that is longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);

fn scripted(answer: Answer) -> (Receiver, Grpc) {
    let receiver = Receiver::builder().first_answers([answer]).start().unwrap();
    let client = Grpc::connect(&receiver);
    (receiver, client)
}

#[test]
fn one_script_serves_both_transports() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503), Answer::status(503), Answer::grpc(14), Answer::grpc(14)]);
    let mut client = Grpc::connect(&receiver);
    for _ in 0..2 {
        assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 14);
        assert_eq!(ask(&receiver, &post(&traces(1))).status, 503);
    }
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    let remembered: Vec<_> =
        receiver.requests().iter().map(|request| (request.status, request.grpc_status)).collect();
    let expected = [(503, Some(14)), (503, None), (503, Some(14)), (503, None), (200, Some(0))];
    assert_eq!(remembered, expected.map(|(status, code)| (Some(status), code)));
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn what_is_ordered_for_a_signal_is_for_that_signal() {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Logs, Answer::grpc(12));
    receiver.script_for(Signal::Traces, [Answer::grpc(5)]);
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Logs, &logs(1)).code(), 12);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 5);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    receiver.behave();
    assert_eq!(client.ask(Signal::Logs, &logs(1)).code(), 0);
}

#[test]
fn an_error_is_one_block_with_a_code_a_message_and_metadata() {
    let answer = Answer::grpc(8).message("50 % full\u{2014}wait").header("X-Mood", "bad").retry_after("2");
    let (receiver, mut client) = scripted(answer);
    let reply = client.ask(Signal::Traces, &traces(1));
    assert!(reply.trailers.is_none() && reply.data.is_empty());
    assert_eq!((reply.header(":status"), reply.code()), (Some("200"), 8));
    assert_eq!(reply.trailer("grpc-message"), Some("50 %25 full%E2%80%94wait"));
    assert_eq!((reply.trailer("x-mood"), reply.trailer("retry-after")), (Some("bad"), None));
    // Code 8, the message, then RetryInfo with two seconds.
    let details = reply.trailer("grpc-status-details-bin").unwrap();
    assert!(details.starts_with("CAgS") && !details.contains('='), "{details}");
    assert_eq!(receiver.span_count(), 0);
}

#[test]
fn a_delay_for_the_client_is_sent_over_both_transports() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::grpc(14).retry_delay(Duration::from_millis(1500)));
    assert_eq!(ask(&receiver, &post(&traces(1))).header("retry-after"), Some("2"));
    let reply = Grpc::connect(&receiver).ask(Signal::Traces, &traces(1));
    // google.rpc.Status with code 14, no message, and RetryInfo of 1 s and 500,000,000 ns
    let details = "CA4SABo2Cih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgoKCAgBEIDKte4B";
    assert_eq!(reply.trailer("grpc-status-details-bin"), Some(details));
}

#[test]
fn a_success_can_be_partial() {
    let (receiver, mut client) = scripted(Answer::partial(2, "too old"));
    let reply = client.ask(Signal::Traces, &traces(5));
    let partial = ExportTraceServiceResponse::decode(reply.message()).unwrap().partial_success.unwrap();
    assert_eq!((partial.rejected_spans, partial.error_message.as_str()), (2, "too old"));
    assert_eq!((reply.code(), receiver.span_count()), (0, 3));
    receiver.script([Answer::empty_partial().header("x-mood", "good")]);
    let reply = client.ask(Signal::Traces, &traces(1));
    assert_eq!((reply.message(), reply.header("x-mood")), (&[0x0a, 0x00][..], Some("good")));
}

#[test]
fn an_answer_can_have_other_shapes() {
    let receiver = Receiver::start().unwrap();
    receiver.script([
        Answer::ok().header("x-mood", "good").trailers_only(),
        Answer::grpc(13).headers_first(),
        Answer::status(502).header("content-type", "text/html").body("<p>").without_grpc_status(),
        Answer::redirect(307, "http://127.0.0.1:1/").without_grpc_status(),
    ]);
    let mut client = Grpc::connect(&receiver);
    let reply = client.ask(Signal::Traces, &traces(1));
    assert_eq!((reply.code(), reply.trailers.is_none(), reply.data.len()), (0, true, 0));
    assert_eq!(reply.header("x-mood"), Some("good"));
    let reply = client.ask(Signal::Traces, &traces(1));
    assert_eq!((reply.code(), reply.trailers.is_some(), reply.header("grpc-status")), (13, true, None));
    let reply = client.ask(Signal::Traces, &traces(1));
    assert_eq!((reply.header(":status"), reply.header("content-type")), (Some("502"), Some("text/html")));
    assert_eq!((reply.data.as_slice(), reply.trailer("grpc-status")), (&b"<p>"[..], None));
    let reply = client.ask(Signal::Traces, &traces(1));
    assert_eq!(
        (reply.header(":status"), reply.header("location")),
        (Some("307"), Some("http://127.0.0.1:1/"))
    );
    assert_eq!(receiver.requests()[2].grpc_status, None);
}

#[test]
fn a_delayed_answer_keeps_no_other_waiting() {
    let (receiver, mut client) = scripted(Answer::ok().delay(FOREVER));
    let start = Instant::now();
    client.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_requests(1, SOON));
    receiver.script([Answer::ok().delay(SHORT)]);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    assert!(start.elapsed() >= SHORT);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_hanging_call_is_read_and_never_answered_until_its_client_gives_it_up() {
    let (receiver, mut client) = scripted(Answer::hang());
    let hanging = client.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_requests(1, SOON));
    assert_eq!((receiver.span_count(), receiver.requests()[0].grpc_status), (0, None));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    client.write_frame(RESET, 0, hanging, &8_u32.to_be_bytes());
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(receiver.span_count(), 2);
}

#[test]
fn a_call_that_is_never_read_blocks_its_writer() {
    let (receiver, mut client) = scripted(Answer::never_read());
    client.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_held(1, SOON));
    client.socket.set_write_timeout(Some(SHORT)).unwrap();
    let blocked = (0..4096).find_map(|_| client.socket.write(&[0; 65536]).err());
    assert_eq!(blocked.map(|error| error.kind()), Some(WAITED));
    assert_eq!(receiver.request_count(), 0);
    assert_eq!(Grpc::connect(&receiver).ask(Signal::Traces, &traces(1)).code(), 0);
}

#[test]
fn a_reset_meets_the_client_while_it_writes() {
    let (receiver, mut client) = scripted(Answer::reset());
    let stream = client.new_stream();
    client.write_frame(HEADERS, END_HEADERS, stream, &block(&fields(Signal::Traces)));
    assert_reset(&client.reply(stream).unwrap_err());
    assert_eq!((receiver.request_count(), receiver.connection_count()), (0, 1));
}

#[test]
fn a_reset_on_a_kept_connection_meets_the_next_call() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    receiver.script([Answer::reset()]);
    // A PING is not a call, so it leaves the scripted answer to the next call.
    client.write_frame(PING, 0, 0, &[0; 8]);
    client.frame_of(PING).unwrap();
    let stream = client.export(Signal::Traces, &traces(1));
    assert_reset(&client.reply(stream).unwrap_err());
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_reset_after_the_request_has_seen_all_of_it() {
    for spans in [1, 3000] {
        let (receiver, mut client) = scripted(Answer::reset_after_request());
        let stream = client.new_stream();
        client.write_frame(HEADERS, END_HEADERS, stream, &block(&fields(Signal::Traces)));
        let body = packed(&traces(spans));
        let (front, last) = body.split_at(body.len() - 1);
        for piece in front.chunks(16_384) {
            client.write_frame(DATA, 0, stream, piece);
        }
        client.write_frame(DATA, END_STREAM, stream, last);
        assert_reset(&client.reply(stream).unwrap_err());
        assert_eq!((receiver.request_count(), receiver.span_count()), (1, 0));
        assert!(receiver.requests()[0].decoded);
    }
}

#[test]
fn a_close_instead_of_an_answer_is_in_good_order() {
    let (receiver, mut client) = scripted(Answer::close());
    client.export(Signal::Traces, &traces(1));
    let frames = client.frames_to_end().unwrap();
    assert!(frames.iter().all(|frame| !matches!(frame.kind, HEADERS | DATA | GO_AWAY)), "{frames:?}");
    assert_eq!((receiver.request_count(), receiver.span_count()), (1, 0));
    drop(client);
    assert!(receiver.wait_for_disconnection(SOON));
}

#[test]
fn a_connection_can_be_closed_after_an_answer_without_a_farewell() {
    let (receiver, mut client) = scripted(Answer::ok().then_close());
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    let frames = client.frames_to_end().unwrap();
    assert!(frames.iter().all(|frame| frame.kind != GO_AWAY), "{frames:?}");
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_farewell_can_come_before_the_answer_or_after_it() {
    for (answer, announced) in
        [(Answer::ok().go_away_before(), vec![(1 << 31) - 1, 1]), (Answer::grpc(14).go_away_after(), vec![1])]
    {
        let (_receiver, mut client) = scripted(answer);
        client.export(Signal::Traces, &traces(1));
        let frames = client.frames_to_end().unwrap();
        let farewells = frames.iter().filter(|frame| frame.kind == GO_AWAY);
        let said: Vec<_> = farewells.map(|frame| (frame.number(0), frame.number(4))).collect();
        assert_eq!(said, announced.iter().map(|last| (*last, 0)).collect::<Vec<_>>());
        let first = frames.iter().find(|frame| matches!(frame.kind, HEADERS | GO_AWAY)).unwrap();
        assert_eq!(first.kind == GO_AWAY, announced.len() == 2);
        assert!(frames.iter().any(|frame| frame.kind == HEADERS && frame.flags & END_STREAM != 0));
    }
}

#[test]
fn a_farewell_can_leave_the_call_out() {
    let (receiver, mut client) = scripted(Answer::go_away(11));
    client.export(Signal::Traces, &traces(1));
    let farewell = client.frame_of(GO_AWAY).unwrap();
    assert_eq!((farewell.number(0), farewell.number(4)), (0, 11));
    assert!(client.frames_to_end().unwrap().iter().all(|frame| frame.kind != HEADERS));
    assert_eq!(receiver.requests()[0].grpc_status, None);
}

#[test]
fn a_stream_can_be_reset_without_the_connection() {
    let (receiver, mut client) = scripted(Answer::reset_stream(7));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).reset, Some(7));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!((receiver.request_count(), receiver.connection_count()), (2, 1));
    // HTTP/1 has no streams, so the connection is closed.
    receiver.script([Answer::reset_stream(7), Answer::go_away(0)]);
    for _ in 0..2 {
        let mut client = crate::client::Client::connect(&receiver);
        client.write(&post(&traces(1)));
        assert!(client.is_closed());
    }
}

#[test]
fn garbage_is_sent_as_it_is() {
    let (_receiver, mut client) = scripted(Answer::garbage(*b"no frame at all"));
    client.export(Signal::Traces, &traces(1));
    let mut all = Vec::new();
    client.socket.read_to_end(&mut all).unwrap();
    assert!(all.ends_with(b"no frame at all"));
}

#[test]
fn a_slow_head_comes_byte_by_byte() {
    let (receiver, mut client) = scripted(Answer::ok().body("abc").slow_headers(FOREVER));
    client.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_spans(1, SOON));
    // The settings and their acknowledgement, then the first byte of a frame.
    client.frame().unwrap();
    client.frame().unwrap();
    client.socket.read_exact(&mut [0]).unwrap();
    client.socket.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(client.socket.read(&mut [0]).unwrap_err().kind(), WAITED);

    receiver.script([Answer::ok().body("abc").slow_headers(Duration::ZERO)]);
    assert_eq!(Grpc::connect(&receiver).ask(Signal::Traces, &traces(1)).message(), b"abc");
}

#[test]
fn a_slow_body_lets_the_head_through_and_others_too() {
    let (receiver, mut client) = scripted(Answer::ok().slow_body(FOREVER));
    client.export(Signal::Traces, &traces(1));
    client.frame_of(HEADERS).unwrap();
    assert_eq!(client.frame_of(DATA).unwrap().payload.len(), 5);
    assert_eq!(client.frame_of(DATA).unwrap().payload.len(), 1);
    receiver.script([Answer::ok().body("abc").slow_body(Duration::ZERO)]);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).message(), b"abc");
}

#[test]
fn an_answer_cut_short_announces_more_than_it_sends() {
    let (_receiver, mut client) = scripted(Answer::ok().body("abc").cut_short());
    client.export(Signal::Traces, &traces(1));
    let frames = client.frames_to_end().unwrap();
    let data: Vec<u8> =
        frames.iter().filter(|frame| frame.kind == DATA).flat_map(|f| f.payload.clone()).collect();
    assert_eq!(data, [&[0, 0, 0, 4, 3], &b"abc"[..]].concat());
    assert!(
        frames.iter().all(|frame| !matches!(frame.kind, DATA | HEADERS) || frame.flags & END_STREAM == 0)
    );
}

#[test]
fn oversized_answers_are_as_large_as_ordered() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::oversized(3_000_001), Answer::oversized_headers(300_000), Answer::ok()]);
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).message().len(), 3_000_001);
    let reply = client.ask(Signal::Traces, &traces(1));
    let length: usize = reply.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!((300_000..320_000).contains(&length), "{length}");
    assert_eq!((reply.code(), client.ask(Signal::Traces, &traces(1)).code()), (0, 0));
}

#[test]
fn a_gzip_bomb_is_small_until_it_is_unpacked() {
    let unpacked = u64::from(size_within(2..=16)) << 20;
    let (_receiver, mut client) = scripted(Answer::gzip_bomb(unpacked));
    let reply = client.ask(Signal::Traces, &traces(1));
    assert_eq!((reply.header("grpc-encoding"), reply.header("content-encoding")), (Some("gzip"), None));
    assert!(reply.data[0] == 1 && reply.data.len() < 100_000);
    let length = std::io::copy(&mut GzDecoder::new(&reply.data[5..]), &mut std::io::sink()).unwrap();
    assert_eq!((length, reply.code()), (unpacked, 0));
}
