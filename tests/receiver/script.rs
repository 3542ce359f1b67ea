//! Scripted answers, as a client sees them.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use standpipe::receiver::{Answer, Receiver};

use super::client::{Client, SOON, WAITED, ask, assert_reset, post, traces};
use crate::support::size_within;

/// A delay that is short for a person and long for a machine.
const SHORT: Duration = Duration::from_millis(30);
/// A delay that is longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);

fn scripted(answer: Answer) -> Receiver {
    Receiver::builder().first_answers([answer]).start().unwrap()
}

#[test]
fn a_script_is_followed_in_order_and_then_the_receiver_behaves() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503), Answer::status(429)]);
    receiver.script([Answer::ok(), Answer::status(400)]);
    let mut client = Client::connect(&receiver);
    let statuses: Vec<u16> = (0..5).map(|_| client.ask(&post(&traces(1))).status).collect();
    assert_eq!(statuses, [503, 429, 200, 400, 200]);
    assert_eq!((receiver.span_count(), receiver.request_count()), (2, 5));
    let remembered: Vec<_> = receiver.requests().iter().map(|request| request.status.unwrap()).collect();
    assert_eq!(remembered, statuses);
}

#[test]
fn always_lasts_until_it_behaves_again_and_the_script_goes_first() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    receiver.script([Answer::status(502)]);
    let mut client = Client::connect(&receiver);
    let statuses: Vec<u16> = (0..3).map(|_| client.ask(&post(b"")).status).collect();
    assert_eq!(statuses, [502, 503, 503]);
    receiver.script([Answer::status(500)]);
    receiver.behave();
    assert_eq!(client.ask(&post(b"")).status, 200);
}

#[test]
fn a_refused_request_uses_up_no_answer() {
    let receiver = scripted(Answer::status(503));
    assert_eq!(ask(&receiver, &post(b"nonsense")).status, 400);
    assert_eq!(ask(&receiver, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 404);
    assert_eq!(ask(&receiver, &post(b"")).status, 503);
}

#[test]
fn status_headers_and_body_are_sent_as_ordered() {
    let receiver = scripted(Answer::status(503).retry_after("2").header("x-mood", "bad").message("busy"));
    let reply = ask(&receiver, &post(&traces(1)));
    assert_eq!(reply.status, 503);
    assert_eq!((reply.header("retry-after"), reply.header("x-mood")), (Some("2"), Some("bad")));
    assert_eq!(reply.body, [0x08, 14, 0x12, 4, b'b', b'u', b's', b'y']);
}

#[test]
fn partial_success_accepts_all_but_the_rejected() {
    let receiver = scripted(Answer::partial(2, "too old"));
    let reply = ask(&receiver, &post(&traces(5)));
    let partial = ExportTraceServiceResponse::decode(&reply.body[..]).unwrap().partial_success.unwrap();
    assert_eq!((partial.rejected_spans, partial.error_message.as_str()), (2, "too old"));
    assert_eq!((receiver.span_count(), receiver.spans().len()), (3, 3));
    assert_eq!(receiver.requests()[0].records, 5);
}

#[test]
fn an_empty_partial_success_is_two_bytes() {
    let receiver = scripted(Answer::empty_partial());
    assert_eq!(ask(&receiver, &post(&traces(1))).body, [0x0a, 0x00]);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_redirect_names_its_location() {
    let receiver = scripted(Answer::redirect(307, "http://127.0.0.1:1/v1/traces"));
    let reply = ask(&receiver, &post(&traces(1)));
    assert_eq!((reply.status, reply.header("location")), (307, Some("http://127.0.0.1:1/v1/traces")));
    assert_eq!(receiver.span_count(), 0);
}

#[test]
fn a_delayed_answer_counts_the_request_at_once_and_its_spans_when_answered() {
    let receiver = scripted(Answer::ok().delay(SHORT));
    let start = Instant::now();
    assert_eq!(ask(&receiver, &post(&traces(1))).status, 200);
    assert!(start.elapsed() >= SHORT);

    receiver.script([Answer::ok().delay(FOREVER)]);
    Client::connect(&receiver).write(&post(&traces(1)));
    assert!(receiver.wait_for_requests(2, SOON));
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_hanging_request_is_read_and_never_answered() {
    let receiver = scripted(Answer::hang());
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    assert!(receiver.wait_for_requests(1, SOON));
    client.stream().set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(client.reply().unwrap_err().kind(), WAITED);
    assert_eq!((receiver.span_count(), receiver.requests()[0].status), (0, None));
}

#[test]
fn a_hanging_connection_ends_with_its_client() {
    let receiver = Receiver::builder().max_connections(1).first_answers([Answer::hang()]).start().unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&post(b""));
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.is_closed());
    assert_eq!(ask(&receiver, &post(b"")).status, 200);
}

#[test]
fn a_request_that_is_never_read_blocks_its_writer() {
    let receiver = scripted(Answer::never_read());
    let mut client = Client::connect(&receiver);
    client.stream().set_write_timeout(Some(SHORT)).unwrap();
    client.write(b"x");
    assert!(receiver.wait_for_held(1, SOON));
    let blocked = (0..4096).find_map(|_| client.reader.get_mut().write(&[b'x'; 65536]).err());
    assert_eq!(blocked.map(|error| error.kind()), Some(WAITED));
    assert_eq!((receiver.request_count(), receiver.connection_count()), (0, 1));
    assert_eq!(ask(&receiver, &post(b"")).status, 200);
}

#[test]
fn a_reset_meets_the_client_while_it_writes() {
    let receiver = scripted(Answer::reset());
    let mut client = Client::connect(&receiver);
    let request = post(&traces(1));
    client.write(&request[..20]);
    assert_reset(&client.reply().unwrap_err());
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn a_reset_on_a_kept_connection_meets_the_next_request() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    assert_eq!(client.ask(&post(&traces(1))).status, 200);
    receiver.script([Answer::reset()]);
    client.write(&post(&traces(1)));
    assert_reset(&client.reply().unwrap_err());
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_reset_after_the_request_has_seen_all_of_it() {
    let chunked = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n\
                    Transfer-Encoding: chunked\r\n\r\n2\r\n\x0a\x00\r\n0\r\n\r\n";
    for request in [post(&traces(3)), post(&traces(3000)), chunked.to_vec(), post(b"")] {
        let receiver = scripted(Answer::reset_after_request());
        let mut client = Client::connect(&receiver);
        let (front, last) = request.split_at(request.len() - 1);
        client.write(front);
        client.write(last);
        assert_reset(&client.reply().unwrap_err());
        assert_eq!((receiver.request_count(), receiver.span_count()), (1, 0));
        assert!(receiver.requests()[0].decoded);
    }
}

#[test]
fn a_close_instead_of_an_answer_is_in_good_order() {
    let receiver = scripted(Answer::close());
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    assert!(client.is_closed());
    assert_eq!((receiver.request_count(), receiver.span_count()), (1, 0));
}

#[test]
fn an_answer_cut_short_is_missing_some_of_what_it_announced() {
    let receiver = scripted(Answer::ok().body("some of it").cut_short());
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    let text = String::from_utf8(client.rest().unwrap()).unwrap();
    assert!(text.contains("content-length: 1034\r\n") && text.ends_with("\r\n\r\nsome of it"), "{text}");
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn slow_answers_come_byte_by_byte_and_whole_in_the_end() {
    let receiver = Receiver::start().unwrap();
    let pace = Duration::from_micros(100);
    receiver.script([Answer::ok().slow_headers(pace), Answer::status(503).body("abc").slow_body(pace)]);
    let mut client = Client::connect(&receiver);
    let start = Instant::now();
    assert_eq!(client.ask(&post(&traces(1))).status, 200);
    assert!(start.elapsed() >= pace * 60);
    assert_eq!(client.ask(&post(&traces(1))).body, b"abc");
}

#[test]
fn a_slow_body_lets_the_head_through() {
    let receiver = scripted(Answer::ok().slow_body(FOREVER));
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    let mut received = Vec::new();
    let mut byte = [0];
    while !received.ends_with(b"\r\n\r\n") {
        client.reader.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
    }
    client.reader.read_exact(&mut byte).unwrap();
    client.stream().set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(client.reader.read(&mut byte).unwrap_err().kind(), WAITED);
}

#[test]
fn oversized_answers_are_as_large_as_ordered() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::oversized(3_000_001), Answer::oversized_headers(3_000_000)]);
    let mut client = Client::connect(&receiver);
    assert_eq!(client.ask(&post(b"")).body.len(), 3_000_001);
    let headers = client.ask(&post(b"")).headers;
    assert!(headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() >= 3_000_000);
}

#[test]
fn a_gzip_bomb_is_small_until_it_is_unpacked() {
    let unpacked = u64::from(size_within(2..=16)) << 20;
    let receiver = scripted(Answer::gzip_bomb(unpacked));
    let reply = ask(&receiver, &post(b""));
    assert_eq!(reply.header("content-encoding"), Some("gzip"));
    assert!(reply.body.len() < 100_000);
    let length = std::io::copy(&mut GzDecoder::new(&reply.body[..]), &mut std::io::sink()).unwrap();
    assert_eq!(length, unpacked);
}

#[test]
fn garbage_is_sent_as_it_is() {
    let receiver = scripted(Answer::garbage([0, 1, 2, 255]));
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    assert_eq!(client.rest().unwrap(), [0, 1, 2, 255]);
    assert_eq!(receiver.span_count(), 0);
}

#[test]
fn a_connection_can_be_closed_after_an_answer_that_does_not_say_so() {
    let receiver = scripted(Answer::ok().then_close());
    let mut client = Client::connect(&receiver);
    let reply = client.ask(&post(&traces(1)));
    assert_eq!((reply.status, reply.header("connection")), (200, None));
    assert!(client.is_closed());
}

#[test]
fn paused_requests_are_held_and_then_answered_as_scripted_meanwhile() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let mut clients = [Client::connect(&receiver), Client::connect(&receiver)];
    for client in &mut clients {
        client.write(&post(&traces(2)));
    }
    assert!(receiver.wait_for_held(2, SOON));
    assert_eq!((receiver.request_count(), receiver.span_count()), (0, 0));
    receiver.always(Answer::partial(1, "one"));
    receiver.resume();
    for client in &mut clients {
        assert_eq!(client.reply().unwrap().status, 200);
    }
    assert_eq!((receiver.request_count(), receiver.span_count(), receiver.held_count()), (2, 2, 0));
}
