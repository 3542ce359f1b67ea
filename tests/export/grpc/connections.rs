//! A connection is kept while it works, replaced when it fails, and abandoned at the deadline.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Exporter, FlushOutcome, ProblemKind, Telemetry};

use super::{assert_refused_at_once, export, exporter, exporter_to};
use crate::support::scene::{
    A_WHILE, FOR_EVER, LONG, NOISE, Problems, closed_address, closed_endpoint, emit, start,
};
use crate::support::stubborn::{SlowReader, Unanswered};

const BUDGET: Duration = Duration::from_millis(300);
const PROMISED: Duration = Duration::from_millis(50);

fn receiver_that(answer: Answer) -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.always(answer);
    receiver
}

/// Emits one span, and returns once it is delivered.
fn deliver_one(telemetry: &Telemetry) {
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
}

/// Starts a receiver at an address that was used before. Another test's connection may hold the port for a moment.
fn open_at(address: SocketAddr) -> Receiver {
    let deadline = Instant::now() + LONG;
    loop {
        match Receiver::builder().grpc_address(address).start() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::yield_now()
            }
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn one_connection_carries_many_requests() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    for _ in 0..300 {
        deliver_one(&telemetry);
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (300, 300), "{ledger}");
    assert_eq!((receiver.request_count(), receiver.connection_count()), (300, 1));
}

#[test]
fn a_server_that_was_restarted_is_connected_to_again_and_nothing_is_reported() {
    let problems = Problems::default();
    let receiver = Receiver::start().unwrap();
    let address = receiver.grpc_address();
    let telemetry = problems.start(exporter(&receiver));
    deliver_one(&telemetry);
    drop(receiver);
    let receiver = open_at(address);
    deliver_one(&telemetry);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (2, 1), "{ledger}");
    assert_eq!(ledger.exporters[0].attempts, 2, "no attempt failed");
    assert_eq!(problems.reported(), []);
}

#[test]
fn a_server_that_leaves_after_every_answer_is_connected_to_again_and_nothing_is_reported() {
    for answer in [Answer::ok().go_away_after(), Answer::ok().go_away_before(), Answer::ok().then_close()] {
        let problems = Problems::default();
        let receiver = receiver_that(answer.clone());
        let telemetry = problems.start(exporter(&receiver));
        for _ in 0..5 {
            deliver_one(&telemetry);
        }
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, receiver.span_count()), (5, 5), "{answer:?}: {ledger}");
        assert_eq!(ledger.exporters[0].attempts, 5, "{answer:?}");
        assert_eq!(problems.reported(), [], "{answer:?}");
    }
}

#[test]
fn a_server_that_is_down_is_reported_and_tried_again() {
    let problems = Problems::default();
    let address = closed_address();
    let telemetry = problems.start(exporter_to(&format!("http://{address}")));
    emit(&telemetry.tracer("shop"), 1);
    let problem = problems.wait_for(ProblemKind::Unavailable);
    assert!(problem.message.contains("connection refused"), "{problem}");
    assert!(problem.message.contains(&format!("http://{address}")), "{problem}");
    let receiver = open_at(address);
    assert!(receiver.wait_for_spans(1, LONG));
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn the_port_of_http_is_named_as_such() {
    let receiver = Receiver::start().unwrap();
    let outcome = export(exporter_to(&receiver.endpoint()));
    assert_refused_at_once(&outcome, "the peer speaks HTTP/1: is this the HTTP port, 4318?");
}

#[test]
fn an_answer_counts_though_the_server_breaks_a_rule_right_behind_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        // Settings, trailers with status OK, then a push, which is forbidden.
        let answer = b"\0\0\0\x04\0\0\0\0\0\0\0\x10\x01\x05\0\0\0\x01\x88\0\x0bgrpc-status\x010\
            \0\0\x04\x05\x04\0\0\0\x01\0\0\0\0";
        client.write_all(answer).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        std::io::copy(&mut client, &mut std::io::sink()).ok();
    });
    let (ledger, problems) = export(exporter_to(&endpoint));
    server.join().unwrap();
    assert_eq!((ledger.total().delivered, ledger.exporters[0].attempts), (1, 1), "{ledger}, {problems:?}");
}

#[test]
fn a_flush_waits_for_the_answer() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    assert!(receiver.wait_for_held(1, LONG));
    assert_ne!(telemetry.flush(A_WHILE), FlushOutcome::Complete);
    receiver.resume();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(telemetry.ledger().total().delivered, 5);
}

#[test]
fn a_throttle_holds_and_a_flush_cuts_it_short() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).throttle(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    assert!(receiver.wait_for_spans(1, LONG), "the first record goes at once");
    emit(&telemetry.tracer("shop"), 5);
    assert!(!receiver.wait_for_requests(2, A_WHILE), "it was not throttled");
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((receiver.span_count(), receiver.request_count()), (6, 2));
}

/// Asserts that the shutdown of this exporter, which can deliver nothing, is in time and counts all spans as lost.
fn loses_all_in_time(exporter: Exporter) {
    let telemetry = start(exporter.timeout(Duration::from_secs(10)));
    // More than a socket's buffers can hold.
    let picture = "0123456789abcdef".repeat(4096);
    for _ in 0..10 {
        telemetry.tracer("shop").span("work").set("picture", &picture);
    }
    let deadline = Instant::now() + LONG;
    while telemetry.ledger().exporters[0].attempts == 0 {
        assert!(Instant::now() < deadline, "no attempt was made");
        thread::yield_now();
    }
    let begun = Instant::now();
    let counts = telemetry.shutdown(BUDGET).total();
    let took = begun.elapsed();
    assert!(took <= BUDGET + PROMISED + NOISE, "{took:?} for a budget of {BUDGET:?}");
    assert_eq!((counts.accepted, counts.delivered, counts.dropped.shutdown), (10, 0, 10), "{counts}");
}

#[test]
fn a_server_that_hangs_costs_a_shutdown_no_more_than_its_budget() {
    loses_all_in_time(exporter(&receiver_that(Answer::hang())));
}

#[test]
fn a_server_that_never_reads_costs_a_shutdown_no_more_than_its_budget() {
    loses_all_in_time(exporter(&receiver_that(Answer::never_read())));
}

#[test]
fn a_server_that_reads_a_sip_at_a_time_costs_a_shutdown_no_more_than_its_budget() {
    let slow = SlowReader::start(64, Duration::from_millis(20));
    loses_all_in_time(exporter_to(&slow.url()));
}

#[test]
fn a_server_that_is_down_costs_a_shutdown_no_more_than_its_budget() {
    loses_all_in_time(exporter_to(&closed_endpoint()));
}

#[test]
fn a_server_that_answers_no_connect_costs_a_shutdown_no_more_than_its_budget() {
    loses_all_in_time(exporter_to(&Unanswered::start().url()));
}

/// The server sends window updates of a completed call, as fast as possible.
#[test]
fn a_server_that_never_stops_talking_cannot_hold_up_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let answer = b"\0\0\0\x04\0\0\0\0\0\0\0\x10\x01\x05\0\0\0\x01\x88\0\x0bgrpc-status\x010";
        client.write_all(answer).unwrap();
        let flood = b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\x01".repeat(1_000);
        while client.write_all(&flood).is_ok() {}
    });
    let telemetry = start(exporter_to(&endpoint).timeout(Duration::from_millis(200)).give_up_after(BUDGET));
    deliver_one(&telemetry);
    let begun = Instant::now();
    deliver_one(&telemetry);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(telemetry);
    server.join().unwrap();
}
