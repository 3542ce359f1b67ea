//! Start, pause, callback, stop.

use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use standpipe::Signal;
use standpipe::receiver::{Answer, Protocol, Receiver};

use super::client::{
    DATA, END_HEADERS, END_STREAM, GO_AWAY, Grpc, HEADERS, PREFACE, SETTINGS, block, fields, frame, packed,
    settings_frame,
};
use crate::client::{Client, SOON, ask, post, traces};
use crate::support::scene::open;

const FOREVER: Duration = Duration::from_secs(3600);
/// Stopping waits two seconds for a client that does not read. The rest is for a busy machine.
const PROMPTLY: Duration = Duration::from_secs(15);

/// A receiver with clients in every state that can delay stopping.
fn beset() -> (Receiver, Vec<Grpc>) {
    let receiver = Receiver::start().unwrap();
    let mut clients = Vec::new();
    for (answer, arrived) in [
        (Answer::hang(), 1),
        (Answer::ok().delay(FOREVER), 2),
        (Answer::ok().slow_headers(FOREVER), 3),
        (Answer::ok().slow_body(FOREVER), 4),
        (Answer::oversized(1 << 40), 5),
    ] {
        receiver.script([answer]);
        let mut client = Grpc::connect(&receiver);
        client.export(Signal::Traces, &traces(1));
        assert!(receiver.wait_for_requests(arrived, SOON));
        clients.push(client);
    }
    let mut in_the_middle = Grpc::connect(&receiver);
    in_the_middle.write_frame(HEADERS, END_HEADERS, 1, &block(&fields(Signal::Traces)));
    clients.extend([in_the_middle, Grpc::connect(&receiver), Grpc::dial(&receiver)]);
    receiver.pause();
    let mut held = Grpc::connect(&receiver);
    held.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_held(1, SOON));
    receiver.script([Answer::never_read()]);
    let mut unread = Grpc::connect(&receiver);
    unread.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_held(2, SOON));
    clients.extend([held, unread]);
    (receiver, clients)
}

#[test]
fn the_endpoint_of_grpc_is_its_address_as_a_url() {
    let receiver = Receiver::start().unwrap();
    assert!(receiver.grpc_address().ip().is_loopback());
    assert_eq!(receiver.grpc_endpoint(), format!("http://{}", receiver.grpc_address()));
    assert_ne!(receiver.grpc_address(), receiver.address());
}

#[test]
fn an_address_in_use_is_an_error() {
    let receiver = Receiver::start().unwrap();
    let error = Receiver::builder().grpc_address(receiver.grpc_address()).start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(Receiver::builder().grpc_address("no port").start().is_err());
}

#[test]
fn dropping_is_prompt_whatever_the_clients_do() {
    let (receiver, mut clients) = beset();
    let start = Instant::now();
    drop(receiver);
    assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());
    for client in &mut clients {
        // No client waits for an answer that cannot arrive: each sees the end or a reset, but no timeout.
        if let Err(error) = client.frames_to_end() {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
}

#[test]
fn a_client_gets_a_goaway_when_the_receiver_stops() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    receiver.stop_listening();
    let farewell = client.frame_of(GO_AWAY).unwrap();
    assert_eq!((farewell.number(0), farewell.number(4)), (1, 0));
    assert!(client.frames_to_end().unwrap().iter().all(|frame| frame.kind == SETTINGS));
}

#[test]
fn what_was_counted_is_answered_though_the_receiver_stops() {
    for _ in 0..20 {
        let receiver = Receiver::start().unwrap();
        let mut client = Grpc::connect(&receiver);
        let stream = client.export(Signal::Traces, &traces(1));
        assert!(receiver.wait_for_spans(1, SOON));
        drop(receiver);
        assert_eq!(client.reply(stream).unwrap().code(), 0);
    }
}

#[test]
fn after_stopping_both_ports_are_free() {
    let (receiver, _clients) = beset();
    receiver.stop_listening();
    receiver.stop_listening();
    assert!(TcpStream::connect(receiver.address()).is_err());
    assert!(TcpStream::connect(receiver.grpc_address()).is_err());
    assert_eq!(receiver.request_count(), 5);
    let (http, grpc) = (receiver.address(), receiver.grpc_address());
    let next = open(|| Receiver::builder().address(http).grpc_address(grpc));
    assert_eq!(Grpc::connect(&next).ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(ask(&next, &post(&traces(1))).status, 200);
    assert_eq!(next.span_count(), 2);
}

#[test]
fn connections_of_both_protocols_share_one_limit() {
    let receiver = Receiver::builder().max_connections(2).start().unwrap();
    receiver.pause();
    let mut http = Client::connect(&receiver);
    let mut grpc = Grpc::connect(&receiver);
    http.write(&post(&traces(1)));
    let stream = grpc.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_held(2, SOON));
    assert!(Client::connect(&receiver).is_closed());
    // The receiver closes this connection before it reads the preface, or before the client has written it.
    let mut one_too_many = Grpc::dial(&receiver);
    assert_eq!(one_too_many.frames_to_end().unwrap(), []);
    receiver.resume();
    assert_eq!(http.reply().unwrap().status, 200);
    assert_eq!(grpc.reply(stream).unwrap().code(), 0);
    let connections: Vec<_> = receiver.requests().iter().map(|request| request.connection).collect();
    assert_ne!(connections[0], connections[1]);
}

#[test]
fn paused_calls_are_held_whatever_they_came_by() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let mut http = Client::connect(&receiver);
    let mut grpc = Grpc::connect(&receiver);
    http.write(&post(&traces(1)));
    let streams = [grpc.export(Signal::Traces, &traces(1)), grpc.export(Signal::Traces, &traces(1))];
    assert!(receiver.wait_for_held(3, SOON));
    assert_eq!(receiver.request_count(), 0);
    receiver.resume();
    assert_eq!(http.reply().unwrap().status, 200);
    for stream in streams {
        assert_eq!(grpc.reply(stream).unwrap().code(), 0);
    }
    assert_eq!((receiver.span_count(), receiver.held_count()), (3, 0));
}

#[test]
fn the_callback_sees_each_batch_before_it_is_answered() {
    let (show, shown) = channel();
    let show = Mutex::new(show);
    let receiver = Receiver::builder()
        .on_batch(move |batch| show.lock().unwrap().send(batch.clone()).unwrap())
        .first_answers([Answer::partial(1, "one"), Answer::grpc(14)])
        .start()
        .unwrap();
    let mut client = Grpc::connect(&receiver);
    client.ask(Signal::Traces, &traces(3));
    client.ask(Signal::Traces, b"nonsense");
    client.ask(Signal::Traces, &traces(1));
    let seen: Vec<_> = shown
        .try_iter()
        .map(|batch| (batch.spans.len(), batch.accepted, batch.request.protocol, batch.request.grpc_status))
        .collect();
    assert_eq!(seen, [(3, 2, Protocol::Grpc, Some(0)), (1, 0, Protocol::Grpc, Some(14))]);
}

#[test]
fn a_panicking_callback_costs_one_connection() {
    let panicked = AtomicBool::new(false);
    let receiver = Receiver::builder()
        .on_batch(move |_| assert!(panicked.swap(true, Ordering::SeqCst), "this panic is part of the test"))
        .start()
        .unwrap();
    let mut client = Grpc::connect(&receiver);
    client.export(Signal::Traces, &traces(1));
    assert!(client.frames_to_end().unwrap().iter().all(|frame| frame.kind == SETTINGS));
    assert_eq!(Grpc::connect(&receiver).ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_callback_that_panics_before_a_reset_costs_the_connection_all_the_same() {
    let is_second = AtomicBool::new(false);
    let receiver = Receiver::builder()
        .on_batch(move |_| assert!(!is_second.swap(true, Ordering::SeqCst), "this panic is part of the test"))
        .start()
        .unwrap();
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    receiver.script([Answer::reset_after_request()]);
    client.export(Signal::Traces, &traces(1));
    assert!(receiver.wait_for_disconnection(SOON));
}

#[test]
fn a_client_that_stays_is_left_even_if_its_time_ran_out_after_the_hang_up() {
    // Less than the time that a client has to disconnect by itself.
    let receiver = Receiver::builder().read_timeout(Duration::from_millis(900)).start().unwrap();
    receiver.script([Answer::ok().then_close()]);
    let call = [
        PREFACE,
        &settings_frame(&[]),
        &frame(HEADERS, END_HEADERS, 1, &block(&fields(Signal::Traces))),
        &frame(DATA, END_STREAM, 1, &packed(&traces(1))),
    ];
    let mut client = Grpc::dial(&receiver);
    client.write(&call.concat());
    assert_eq!(client.reply(1).unwrap().code(), 0);
    assert!(receiver.wait_for_disconnection(SOON));
}
