//! Start, callback, stop.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Receiver};

use super::client::{Client, SOON, ask, post, traces};
use super::support::scene::open_at;

const FOREVER: Duration = Duration::from_secs(3600);
/// Stopping waits two seconds for a client that does not read. The rest is for a busy machine.
const PROMPTLY: Duration = Duration::from_secs(15);

/// A receiver with clients in every state that can delay stopping.
fn beset() -> (Receiver, Vec<Client>) {
    let receiver = Receiver::start().unwrap();
    let mut clients = Vec::new();
    for (answer, arrived) in [
        (Answer::hang(), 1),
        (Answer::ok().delay(FOREVER), 2),
        (Answer::ok().slow_headers(FOREVER), 3),
        (Answer::oversized(1 << 40), 4),
    ] {
        receiver.script([answer]);
        let mut client = Client::connect(&receiver);
        client.write(&post(&traces(1)));
        assert!(receiver.wait_for_requests(arrived, SOON));
        clients.push(client);
    }
    let mut in_the_middle = Client::connect(&receiver);
    in_the_middle.write(b"POST /v1/tra");
    clients.extend([in_the_middle, Client::connect(&receiver)]);
    receiver.pause();
    let mut held = Client::connect(&receiver);
    held.write(&post(&traces(1)));
    assert!(receiver.wait_for_held(1, SOON));
    receiver.script([Answer::never_read()]);
    let mut unread = Client::connect(&receiver);
    unread.write(&post(&traces(1)));
    assert!(receiver.wait_for_held(2, SOON));
    clients.extend([held, unread]);
    (receiver, clients)
}

#[test]
fn the_endpoint_is_the_address_as_a_url() {
    let receiver = Receiver::start().unwrap();
    assert!(receiver.address().ip().is_loopback());
    assert_eq!(receiver.endpoint(), format!("http://{}", receiver.address()));
}

#[test]
fn an_address_in_use_is_an_error() {
    let receiver = Receiver::start().unwrap();
    let error = Receiver::builder().address(receiver.address()).start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(Receiver::builder().address("no port").start().is_err());
}

#[test]
fn dropping_is_prompt_whatever_the_clients_do() {
    let (receiver, mut clients) = beset();
    let start = Instant::now();
    drop(receiver);
    assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());
    for client in &mut clients {
        // No client waits for an answer that cannot arrive: each sees the end or a reset, but no timeout.
        if let Err(error) = client.rest() {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
}

#[test]
fn what_was_counted_is_answered_though_the_receiver_stops() {
    for _ in 0..20 {
        let receiver = Receiver::start().unwrap();
        let mut client = Client::connect(&receiver);
        client.write(&post(&traces(1)));
        assert!(receiver.wait_for_spans(1, SOON));
        drop(receiver);
        assert_eq!(client.reply().unwrap().status, 200);
    }
}

#[test]
fn dropping_ends_all_threads() {
    let held_by_threads = Arc::new(());
    let seen = Arc::downgrade(&held_by_threads);
    let receiver = Receiver::builder()
        .on_batch(move |_| assert!(Arc::strong_count(&held_by_threads) > 0))
        .first_answers([Answer::hang()])
        .start()
        .unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    assert!(receiver.wait_for_requests(1, SOON));
    assert!(seen.upgrade().is_some());
    drop(receiver);
    assert!(seen.upgrade().is_none(), "a thread still holds the callback");
}

#[test]
fn after_stopping_the_port_is_free_and_what_arrived_can_be_read() {
    let (receiver, _clients) = beset();
    receiver.stop_listening();
    receiver.stop_listening();
    assert!(TcpStream::connect(receiver.address()).is_err());
    assert_eq!(receiver.request_count(), 4);
    let next = open_at(receiver.address());
    assert_eq!(ask(&next, &post(&traces(1))).status, 200);
    assert_eq!(next.span_count(), 1);
}

#[test]
fn a_busy_callback_delays_stopping_only_a_little() {
    // Only the fastest of five stops counts, because a machine does not stall each time.
    let fastest = (0..5).map(|_| time_to_stop_beside_a_busy_callback()).min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

fn time_to_stop_beside_a_busy_callback() -> Duration {
    let (release, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let (entered, has_entered) = channel();
    let receiver = Receiver::builder()
        .on_batch(move |_| {
            entered.send(()).unwrap();
            let _ = gate.lock().unwrap().recv_timeout(FOREVER);
        })
        .start()
        .unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    has_entered.recv_timeout(SOON).unwrap();
    let start = Instant::now();
    drop(receiver);
    let took = start.elapsed();
    drop(release);
    took
}

#[test]
fn the_callback_sees_each_batch_before_it_is_answered() {
    let (show, shown) = channel();
    let show = Mutex::new(show);
    let receiver = Receiver::builder()
        .on_batch(move |batch| show.lock().unwrap().send(batch.clone()).unwrap())
        .first_answers([Answer::partial(1, "one"), Answer::status(503)])
        .start()
        .unwrap();
    ask(&receiver, &post(&traces(3)));
    ask(&receiver, &post(b"nonsense"));
    ask(&receiver, &post(&traces(1)));
    let batches: Vec<_> = shown.try_iter().collect();
    let seen: Vec<_> =
        batches.iter().map(|batch| (batch.spans.len(), batch.accepted, batch.request.status)).collect();
    assert_eq!(seen, [(3, 2, Some(200)), (1, 0, Some(503))]);
    assert_eq!(batches[0].signal, standpipe::Signal::Traces);
}

#[test]
fn a_panicking_callback_costs_one_connection() {
    let panicked = AtomicBool::new(false);
    let receiver = Receiver::builder()
        .on_batch(move |_| assert!(panicked.swap(true, Ordering::SeqCst), "this panic is part of the test"))
        .start()
        .unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&post(&traces(1)));
    assert!(client.is_closed());
    assert_eq!(ask(&receiver, &post(&traces(1))).status, 200);
    assert_eq!(receiver.span_count(), 1);
}
