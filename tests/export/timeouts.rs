//! An attempt ends within its timeout plus 100 ms, whatever the collector does.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use standpipe::ledger::ExporterLedger;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, Problem, ProblemKind, Telemetry};

use crate::support::figures;
use crate::support::scene::NOISE;
use crate::support::stubborn::{SlowReader, Unanswered};
use crate::support::tls::{TestCa, TlsFront};

const TIMEOUT: Duration = Duration::from_millis(400);
const PROMISED: Duration = Duration::from_millis(100);
/// Time between two bytes: less than the timeout. A whole answer takes far longer than the timeout plus the noise.
const STEP: Duration = Duration::from_millis(200);
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than the socket buffers of a loopback connection can hold.
const LARGE: usize = 12 << 20;

/// Asserts that the first attempt to send a span with an attribute of `attribute_bytes` ends at its timeout, with a
/// problem.
fn ends_in_time(exporter: Exporter, timeout: Duration, attribute_bytes: usize) -> (Problem, ExporterLedger) {
    let (reported, problems) = mpsc::channel();
    let exporter = exporter
        .timeout(timeout)
        // The batch is given up when the first attempt ends, so there is no second attempt.
        .give_up_after(timeout)
        .queue_bytes(2 * LARGE)
        .batch_bytes(2 * LARGE);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        let _ = reported.send((problem.clone(), Instant::now()));
    });
    let telemetry = Telemetry::start(config).unwrap();
    let filling = "x".repeat(attribute_bytes);
    let mut span = telemetry.tracer("shop").span("checkout");
    span.set("filling", &filling);
    let ended = Instant::now();
    span.end();
    // A large record needs some time until it reaches the worker.
    let began = wait_for_attempt(&telemetry, ended + PATIENCE);
    let (problem, end) = problems.recv_timeout(PATIENCE).expect("the attempt never ended");
    let took = end - began;
    println!("{took:?} for a time-out of {timeout:?}: {problem}");
    figures::show_most(took.as_millis(), format!("ms for a time-out of {timeout:?}"));
    // Socket timeouts are whole milliseconds, so an attempt may end slightly early.
    assert!(end - ended >= timeout - Duration::from_millis(10), "too early: {:?}: {problem}", end - ended);
    assert!(took <= timeout + PROMISED + NOISE, "too late: {took:?}: {problem}");
    let ledger = telemetry.shutdown(PATIENCE).exporters.remove(0);
    assert_eq!(ledger.attempts, 1, "{ledger:?}");
    (problem, ledger)
}

/// Waits until the first attempt is under way, and returns the time at which this was seen.
fn wait_for_attempt(telemetry: &Telemetry, deadline: Instant) -> Instant {
    while telemetry.ledger().exporters[0].attempts == 0 {
        assert!(Instant::now() < deadline, "the attempt never began");
        thread::yield_now();
    }
    Instant::now()
}

fn is_given_up_in_time(exporter: Exporter, attribute_bytes: usize) {
    let (problem, ledger) = ends_in_time(exporter, TIMEOUT, attribute_bytes);
    assert_eq!(problem.kind, ProblemKind::Unavailable, "{problem}");
    assert_eq!((ledger.traces.accepted, ledger.traces.dropped.gave_up), (1, 1), "{ledger:?}");
}

fn receiver_that(answer: Answer) -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.always(answer);
    receiver
}

#[test]
fn a_collector_that_hangs_is_left_in_time() {
    let receiver = receiver_that(Answer::hang());
    is_given_up_in_time(Exporter::http(receiver.endpoint()), 0);
}

#[test]
fn a_connection_that_never_comes_about_is_left_in_time() {
    let unanswered = Unanswered::start();
    is_given_up_in_time(Exporter::http(unanswered.url()), 0);
}

#[test]
fn headers_one_byte_at_a_time_do_not_stretch_the_time_out() {
    let receiver = receiver_that(Answer::ok().slow_headers(STEP));
    is_given_up_in_time(Exporter::http(receiver.endpoint()), 0);
}

#[test]
fn an_error_body_one_byte_at_a_time_does_not_stretch_the_time_out() {
    let body = [b'x'; 100];
    let receiver = receiver_that(Answer::status(503).body(body).slow_body(STEP));
    is_given_up_in_time(Exporter::http(receiver.endpoint()), 0);
}

#[test]
fn a_success_whose_body_comes_too_slowly_is_delivered_with_a_warning_in_time() {
    let receiver = receiver_that(Answer::ok().slow_body(STEP));
    // The head of the answer must arrive before this timeout, even on a busy machine.
    let timeout = Duration::from_secs(3);
    let (problem, ledger) = ends_in_time(Exporter::http(receiver.endpoint()), timeout, 0);
    assert_eq!(problem.kind, ProblemKind::PartialSuccess, "{problem}");
    assert_eq!((ledger.traces.delivered, receiver.span_count()), (1, 1), "{ledger:?}");
}

#[test]
fn a_collector_that_accepts_and_never_reads_is_left_in_time() {
    let receiver = receiver_that(Answer::never_read());
    is_given_up_in_time(Exporter::http(receiver.endpoint()), LARGE);
}

#[test]
fn a_collector_that_reads_a_sip_at_a_time_is_left_in_time() {
    let reader = SlowReader::start(64 << 10, Duration::from_millis(20));
    is_given_up_in_time(Exporter::http(reader.url()), LARGE);
}

#[test]
fn a_tls_handshake_that_stalls_is_left_in_time() {
    let front = TlsFront::stalling();
    is_given_up_in_time(Exporter::http(front.url()), 0);
}

#[test]
fn a_collector_that_hangs_behind_tls_is_left_in_time() {
    let ca = TestCa::new();
    let receiver = receiver_that(Answer::hang());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    is_given_up_in_time(Exporter::http(front.url()).ca_pem(ca.pem()), 0);
}

#[test]
fn a_collector_that_never_reads_behind_tls_is_left_in_time() {
    let ca = TestCa::new();
    let receiver = receiver_that(Answer::never_read());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    is_given_up_in_time(Exporter::http(front.url()).ca_pem(ca.pem()), LARGE);
}
