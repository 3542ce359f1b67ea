//! Malicious clients: the receiver still works after each.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use standpipe::receiver::{Answer, Receiver};

use super::client::{Client, SOON, WAITED, ask, post, post_with, traces};
use crate::support::size_within;

const HEAD: &str = "POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n";

/// Enough time for a client that is not scheduled between two steps.
const PATIENCE: Duration = Duration::from_secs(1);

fn impatient() -> Receiver {
    Receiver::builder().read_timeout(PATIENCE).start().unwrap()
}

fn assert_still_serving(receiver: &Receiver) {
    let before = receiver.span_count();
    assert_eq!(ask(receiver, &post(&traces(1))).status, 200);
    assert_eq!(receiver.span_count(), before + 1);
}

/// Sends `byte` every few milliseconds until an answer arrives.
fn drip(client: &mut Client, byte: u8) -> u16 {
    client.stream().set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut first = [0];
    for _ in 0..10_000 {
        match client.stream().peek(&mut first) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), WAITED),
        }
        client.write(&[byte]);
    }
    client.stream().set_read_timeout(Some(SOON)).unwrap();
    client.reply().unwrap().status
}

#[test]
fn a_head_that_drips_in_is_cut_off_in_time() {
    let receiver = impatient();
    let mut client = Client::connect(&receiver);
    client.write(HEAD.as_bytes());
    let start = Instant::now();
    assert_eq!(drip(&mut client, b'x'), 408);
    assert!(start.elapsed() < SOON);
    assert_still_serving(&receiver);
}

#[test]
fn a_body_that_drips_in_is_cut_off_in_time() {
    let receiver = impatient();
    thread::scope(|scope| {
        for framing in ["Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n10000\r\n"] {
            let mut client = Client::connect(&receiver);
            client.write(format!("{HEAD}{framing}").as_bytes());
            scope.spawn(move || assert_eq!(drip(&mut client, b'x'), 408));
        }
    });
    assert_still_serving(&receiver);
}

#[test]
fn a_silent_client_is_sent_away_in_time() {
    let receiver = impatient();
    let mut client = Client::connect(&receiver);
    assert_eq!(client.ask(&post(b"")).status, 200);
    assert!(Client::connect(&receiver).is_closed());
    assert!(client.is_closed());
}

#[test]
fn a_client_that_reads_no_answer_is_sent_away_in_time() {
    let receiver = Receiver::builder()
        .read_timeout(PATIENCE)
        .first_answers([Answer::oversized(1 << 40)])
        .start()
        .unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&post(b""));
    assert!(receiver.wait_for_requests(1, SOON));
    assert!(receiver.wait_for_disconnection(SOON));
    let received = std::io::copy(&mut client.reader, &mut std::io::sink()).unwrap_or(0);
    assert!(received < 1 << 30);
    assert_still_serving(&receiver);
}

#[test]
fn endless_headers_are_cut_off() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    client.write(HEAD.as_bytes());
    client.write(format!("X-Endless: {}\r\n", "x".repeat(1000)).repeat(1000).as_bytes());
    assert_eq!(client.reply().unwrap().status, 431);
    assert!(client.is_closed());
    assert!(receiver.wait_for_disconnection(SOON), "it waits for the end of something endless");
    assert_still_serving(&receiver);
}

#[test]
fn a_huge_length_is_refused_before_anything_is_sent() {
    let receiver = Receiver::start().unwrap();
    for length in ["67108865", "18446744073709551615", "99999999999999999999999999"] {
        let request = format!("{HEAD}Content-Length: {length}\r\n\r\n");
        assert_eq!(ask(&receiver, request.as_bytes()).status, 413, "{length}");
    }
    let request = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n");
    assert_eq!(ask(&receiver, request.as_bytes()).status, 413);
    assert_still_serving(&receiver);
}

#[test]
fn a_refused_client_that_goes_on_sending_still_gets_its_answer() {
    let receiver = Receiver::builder().max_body_bytes(1000).start().unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&post(&vec![b'x'; 4 << 20]));
    assert_eq!(client.reply().unwrap().status, 413);
}

#[test]
fn a_gzip_bomb_is_defused() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // At least twice as long as a body may be.
    for _ in 0..size_within(2..=16) {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let receiver = Receiver::builder().max_body_bytes(1 << 20).start().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert_eq!(ask(&receiver, &post_with("Content-Encoding: gzip\r\n", &bomb)).status, 413);
    assert_still_serving(&receiver);
}

#[test]
fn a_body_of_countless_empty_spans_is_refused() {
    let receiver = Receiver::builder().max_body_bytes(10_000).start().unwrap();
    let spans = [0x12, 0x00].repeat(4000);
    let scope = [&[0x12, 0xc0, 0x3e][..], &spans].concat();
    let body = [&[0x0a, 0xc3, 0x3e][..], &scope].concat();
    let reply = ask(&receiver, &post(&body));
    assert_eq!(reply.status, 413);
    assert!(String::from_utf8_lossy(&reply.body).contains("too many messages"));
    let sparse = [0x0a, 0x04, 0x12, 0x02, 0x12, 0x00];
    assert_eq!(ask(&receiver, &post(&sparse)).status, 200);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn bad_chunks_are_refused() {
    let receiver = Receiver::start().unwrap();
    for chunks in
        ["\r\n", "g\r\n", "-1\r\n", "0x2\r\n", "1\r\nab\r\n", "2\r\na\nb\r\n", "11111111111111111\r\n"]
    {
        let request = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{chunks}");
        assert_eq!(ask(&receiver, request.as_bytes()).status, 400, "{chunks:?}");
    }
    assert_still_serving(&receiver);
}

#[test]
fn smuggled_requests_are_refused_and_the_connection_closed() {
    let receiver = Receiver::start().unwrap();
    let hidden = String::from_utf8_lossy(&post(b"")).into_owned();
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length : 5\r\n",
        "Content-Length:\r\n 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "X: a\rContent-Length: 5\r\n",
        "X: a\nContent-Length: 5\r\n",
    ] {
        let mut client = Client::connect(&receiver);
        client.write(format!("{HEAD}{fields}\r\n0\r\n\r\n{hidden}").as_bytes());
        assert_eq!(client.reply().unwrap().status, 400, "{fields:?}");
        assert!(client.is_closed(), "a second request was answered after {fields:?}");
    }
    assert_eq!(receiver.requests().iter().filter(|request| request.decoded).count(), 0);
}

#[test]
fn noise_is_refused_at_once() {
    let receiver = Receiver::start().unwrap();
    let tls_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for noise in
        [&[0; 100][..], &tls_hello, &[0xff; 100], b"\r\n\r\n", b"hello\r\n", b"POST /\0 HTTP/1.1\r\n"]
    {
        let start = Instant::now();
        assert_eq!(ask(&receiver, noise).status, 400, "{noise:?}");
        assert!(start.elapsed() < SOON);
    }
    assert_eq!(receiver.request_count(), 0);
    assert_still_serving(&receiver);
}

#[test]
fn a_client_that_vanishes_leaves_no_trace() {
    let receiver = Receiver::start().unwrap();
    let request = post(&traces(10));
    for sent in (0..request.len()).step_by(17) {
        Client::connect(&receiver).write(&request[..sent]);
    }
    assert_still_serving(&receiver);
    assert_eq!((receiver.request_count(), receiver.span_count()), (1, 1));
}

#[test]
fn a_client_that_vanishes_before_its_answer_does_no_harm() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    for _ in 0..10 {
        Client::connect(&receiver).write(&post(&traces(1)));
    }
    assert!(receiver.wait_for_held(10, SOON));
    receiver.resume();
    assert!(receiver.wait_for_spans(10, SOON));
    assert_still_serving(&receiver);
}

#[test]
fn connections_above_the_limit_are_closed_at_once_while_all_others_wait_for_an_answer() {
    let receiver = Receiver::builder().max_connections(4).start().unwrap();
    receiver.pause();
    let mut admitted: Vec<Client> = (0..4).map(|_| Client::connect(&receiver)).collect();
    for client in &mut admitted {
        client.write(&post(&traces(1)));
    }
    assert!(receiver.wait_for_held(4, SOON));
    for _ in 0..2000 {
        assert!(Client::connect(&receiver).is_closed());
    }
    assert_eq!(receiver.connection_count(), 4);
    receiver.resume();
    for client in &mut admitted {
        assert_eq!(client.reply().unwrap().status, 200);
    }
    let mut leaving = admitted.remove(0);
    assert_eq!(leaving.ask(&post_with("Connection: close\r\n", b"")).status, 200);
    assert!(leaving.is_closed());
    assert_still_serving(&receiver);
}

#[test]
fn random_requests_never_bring_it_down() {
    let receiver = Receiver::start().unwrap();
    let pattern = post(&traces(2));
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..300 {
        let mut request = pattern.clone();
        for _ in 0..=random(8) {
            let position = random(request.len());
            request[position] = random(256) as u8;
        }
        let mut client = Client::connect(&receiver);
        client.write(&request);
        // Ends the input, so that a receiver that waits for more sees the end. Fails if the connection is closed
        // already.
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
        let mut reply = Vec::new();
        let _ = client.reader.read_to_end(&mut reply);
        assert!(reply.is_empty() || reply.starts_with(b"HTTP/1.1 "), "{reply:?}");
    }
    assert_still_serving(&receiver);
}
