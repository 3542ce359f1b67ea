//! The throttle: when it delays requests, and when it does not.

use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;
use standpipe::{Exporter, FlushOutcome, Telemetry, WhenFull};

use crate::support::scene::{A_WHILE, FOR_EVER, LONG, emit, emit_in_time, exporter, start};

/// Starts a program and lets it complete its first round. The throttle permits no other round during a test.
fn after_first_round(receiver: &Receiver, exporter: Exporter) -> Telemetry {
    let telemetry = start(exporter.throttle(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    assert!(receiver.wait_for_spans(1, LONG), "the first record did not go");
    telemetry
}

#[test]
fn the_first_record_goes_at_once() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).throttle(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    assert!(receiver.wait_for_spans(1, LONG));
}

#[test]
fn rounds_start_no_closer_than_the_throttle() {
    let throttle = Duration::from_millis(60);
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).throttle(throttle));
    let tracer = telemetry.tracer("shop");
    let begun = Instant::now();
    for round in 1..=5 {
        emit(&tracer, 1);
        assert!(receiver.wait_for_spans(round, LONG));
    }
    // The measured times begin before the first round, so network delays can only make them longer.
    for (round, request) in receiver.requests().iter().enumerate() {
        let earliest = throttle * u32::try_from(round).unwrap();
        let arrived = request.received_at - begun;
        assert!(arrived >= earliest, "round {round} after {arrived:?}, not {earliest:?}");
    }
}

#[test]
fn a_round_sends_all_that_was_gathered_meanwhile() {
    let receiver = Receiver::start().unwrap();
    let telemetry = after_first_round(&receiver, exporter(&receiver).batch_records(40));
    emit(&telemetry.tracer("shop"), 100);
    assert!(!receiver.wait_for_requests(2, A_WHILE), "a full batch must not break the throttle");
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let sizes: Vec<usize> = receiver.requests().iter().map(|request| request.records).collect();
    assert_eq!(sizes, [1, 40, 40, 20]);
}

#[test]
fn a_flush_cuts_the_throttle_short() {
    let receiver = Receiver::start().unwrap();
    let telemetry = after_first_round(&receiver, exporter(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    assert!(!receiver.wait_for_requests(2, A_WHILE), "it was not throttled");
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((receiver.span_count(), receiver.request_count()), (6, 2));
    assert_eq!(telemetry.ledger().total().delivered, 6);
}

#[test]
fn a_flush_cuts_the_linger_short() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).linger(FOR_EVER));
    emit(&telemetry.tracer("shop"), 5);
    assert!(!receiver.wait_for_requests(1, A_WHILE), "it did not linger");
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((receiver.span_count(), receiver.request_count()), (5, 1));
}

#[test]
fn a_shutdown_cuts_throttle_and_linger_short() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).throttle(FOR_EVER).linger(FOR_EVER));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 2);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    emit(&tracer, 5);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (7, 0), "{ledger}");
}

#[test]
fn a_queue_three_quarters_full_of_records_cuts_the_throttle_short() {
    let receiver = Receiver::start().unwrap();
    let telemetry = after_first_round(&receiver, exporter(&receiver).queue_records(100));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 74);
    assert!(!receiver.wait_for_requests(2, A_WHILE), "74 of 100 are not three quarters");
    emit(&tracer, 1);
    assert!(receiver.wait_for_spans(76, LONG));
    assert_eq!(receiver.request_count(), 2);
}

#[test]
fn a_queue_three_quarters_full_of_bytes_cuts_throttle_and_linger_short() {
    let receiver = Receiver::start().unwrap();
    let telemetry = after_first_round(&receiver, exporter(&receiver).queue_bytes(10_000));
    let tracer = telemetry.tracer("shop");
    let text = "x".repeat(1000);
    for _ in 0..6 {
        tracer.span("large").set("text", text.as_str());
    }
    assert!(!receiver.wait_for_requests(2, A_WHILE), "six of ten are not three quarters");
    for _ in 0..2 {
        tracer.span("large").set("text", text.as_str());
    }
    assert!(receiver.wait_for_spans(8, LONG));
}

/// Emits a span with this many bytes of text.
fn emit_large(telemetry: &Telemetry, bytes: usize) {
    telemetry.tracer("shop").span("large").set("text", "x".repeat(bytes).as_str());
}

/// Waits until all records are settled. The receiver and the ledger count a record before its room in the queue is
/// released, so their counts do not show that there is room.
fn until_settled(telemetry: &Telemetry) {
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete, "{}", telemetry.ledger());
}

#[test]
fn large_records_are_not_lost_to_the_throttle() {
    for (queue_bytes, at_a_time) in [(1 << 20, 1), (4 << 20, 4)] {
        let receiver = Receiver::start().unwrap();
        let lossy = exporter(&receiver).queue_bytes(queue_bytes).when_full(WhenFull::DropNewest);
        let telemetry = after_first_round(&receiver, lossy);
        for number in 1..=5 {
            until_settled(&telemetry);
            (0..at_a_time).for_each(|_| emit_large(&telemetry, 700 << 10));
            assert!(
                receiver.wait_for_spans(1 + number * at_a_time, LONG / 4),
                "the worker sleeps although one more would be lost: {}",
                telemetry.ledger()
            );
        }
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (1 + 5 * at_a_time, 0), "{ledger}");
    }
}

#[test]
fn a_record_that_finds_no_room_makes_room_for_the_next() {
    let receiver = Receiver::start().unwrap();
    let lossy = exporter(&receiver).queue_bytes(1 << 20).when_full(WhenFull::DropNewest);
    let telemetry = after_first_round(&receiver, lossy);
    until_settled(&telemetry);
    (0..60).for_each(|_| emit_large(&telemetry, 10 << 10));
    assert!(!receiver.wait_for_requests(2, A_WHILE), "600 of 1024 KiB are not three quarters");
    // The caller wakes the worker and then looks for room. The receiver is paused so that the worker cannot make room
    // in between.
    receiver.pause();
    emit_large(&telemetry, 700 << 10);
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 1);
    receiver.resume();
    assert!(receiver.wait_for_spans(61, LONG / 4), "the worker sleeps on: {}", telemetry.ledger());
    until_settled(&telemetry);
    emit_large(&telemetry, 700 << 10);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (62, 1), "{ledger}");
}

#[test]
fn callers_that_wait_for_room_do_not_wait_for_the_throttle() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).throttle(FOR_EVER).linger(FOR_EVER).queue_records(1));
    emit_in_time(&telemetry.tracer("shop"), 20);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (20, 0), "{ledger}");
}

#[test]
fn an_incomplete_batch_lingers_and_a_full_one_does_not() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).linger(FOR_EVER).batch_records(10));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 9);
    assert!(!receiver.wait_for_requests(1, A_WHILE), "it did not linger");
    emit(&tracer, 1);
    assert!(receiver.wait_for_spans(10, LONG));
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn an_incomplete_batch_lingers_no_longer_than_it_may() {
    let linger = Duration::from_millis(80);
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).linger(linger));
    let begun = Instant::now();
    emit(&telemetry.tracer("shop"), 3);
    assert!(receiver.wait_for_spans(3, LONG));
    assert!(receiver.requests()[0].received_at - begun >= linger);
}
