//! A failure of one signal does not affect the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Exporter, FlushOutcome, Logger, ProblemKind, Signal, WhenFull};

use super::patient;
use crate::support::scene::{
    FOR_EVER, LONG, NOISE, Problems, SetWhenDropped, emit, emit_in_time, exporter, gathering, start,
};
use crate::support::size_within;

/// Enough time for a request on any machine, even if another signal uses up its own share of the time.
const BUDGET: Duration = Duration::from_secs(8);

fn log(logger: &Logger, records: u64) {
    (0..records).for_each(|_| logger.info("paid").emit());
}

/// A collector that temporarily accepts no log records.
fn without_logs(answer: Answer) -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Logs, answer);
    receiver
}

/// An exporter that may wait for an answer for as long as a test lasts.
fn unhurried(endpoint: String, is_grpc: bool) -> Exporter {
    let exporter = if is_grpc { Exporter::grpc(endpoint) } else { Exporter::http(endpoint) };
    exporter.proxy(Proxy::Off).throttle(Duration::ZERO).timeout(LONG)
}

#[test]
fn one_signals_outage_loses_nothing_of_the_others() {
    let receiver = without_logs(Answer::status(503));
    let interval = Duration::from_millis(20);
    let exporter = patient(&receiver).queue_records(100).when_full(WhenFull::DropNewest).interval(interval);
    let telemetry = start(exporter);
    log(&telemetry.logger("shop"), 1);
    assert!(receiver.wait_for_requests(1, LONG));
    log(&telemetry.logger("shop"), 200);
    telemetry.meter("shop").counter("orders").add(1, ());
    for round in 1..=20 {
        emit(&telemetry.tracer("shop"), 50);
        assert!(receiver.wait_for_spans(50 * round, LONG), "{}", telemetry.ledger());
    }
    assert!(receiver.wait_for_points(5, LONG), "{}", telemetry.ledger());
    let ledger = telemetry.ledger();
    let exporter = &ledger.exporters[0];
    assert_eq!(
        (exporter.traces.accepted, exporter.traces.lost(), exporter.metrics.lost()),
        (1000, 0, 0),
        "{ledger}"
    );
    assert_eq!((exporter.logs.in_flight, exporter.logs.not_enqueued.queue_full), (100, 101), "{ledger}");
    receiver.behave();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].logs.delivered, ledger.lost()), (100, 101), "{ledger}");
}

#[test]
fn one_signals_outage_blocks_no_caller_of_the_others() {
    let receiver = without_logs(Answer::status(503));
    let telemetry = start(patient(&receiver).queue_records(10));
    log(&telemetry.logger("shop"), 10);
    emit_in_time(&telemetry.tracer("shop"), 200);
    assert!(receiver.wait_for_spans(200, LONG));
    receiver.behave();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (210, 0), "{ledger}");
}

#[test]
fn a_flush_that_one_signal_holds_up_sends_the_others() {
    let receiver = without_logs(Answer::status(503).retry_after("60"));
    let telemetry = start(gathering(&receiver));
    log(&telemetry.logger("shop"), 1);
    thread::scope(|scope| {
        for flush in 1..=2 {
            emit(&telemetry.tracer("shop"), 5);
            let flushed = scope.spawn(|| telemetry.flush(LONG));
            assert!(receiver.wait_for_spans(5 * flush, LONG), "flush {flush}: {}", telemetry.ledger());
            assert!(!flushed.is_finished(), "flush {flush}: the log record is not delivered");
        }
        receiver.behave();
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (11, 0), "{ledger}");
    });
}

#[test]
fn each_signal_is_tried_at_shutdown_though_another_uses_up_its_time() {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Traces, Answer::hang());
    let exporter = unhurried(receiver.endpoint(), false).linger(FOR_EVER).interval(FOR_EVER);
    let telemetry = start(exporter);
    emit(&telemetry.tracer("shop"), 3);
    log(&telemetry.logger("shop"), 4);
    telemetry.meter("shop").counter("orders").add(1, ());
    let ledger = telemetry.shutdown(BUDGET);
    let exporter = &ledger.exporters[0];
    assert_eq!((exporter.traces.dropped.shutdown, exporter.logs.delivered), (3, 4), "{ledger}");
    assert_eq!(
        (exporter.metrics.delivered, receiver.log_count(), receiver.point_count()),
        (1, 4, 1),
        "{ledger}"
    );
}

#[test]
fn an_attempt_that_hangs_when_the_shutdown_begins_leaves_time_for_the_other_signals() {
    let leaves_time = |is_grpc| {
        let receiver = without_logs(Answer::hang());
        let endpoint = if is_grpc { receiver.grpc_endpoint() } else { receiver.endpoint() };
        let telemetry = start(unhurried(endpoint, is_grpc).interval(FOR_EVER));
        telemetry.meter("shop").counter("orders").add(1, ());
        log(&telemetry.logger("shop"), 1);
        assert!(receiver.wait_for_requests(1, LONG));
        emit(&telemetry.tracer("shop"), 3);
        let ledger = telemetry.shutdown(BUDGET);
        let exporter = &ledger.exporters[0];
        let delivered = (exporter.traces.delivered, exporter.metrics.delivered);
        assert_eq!((delivered, exporter.logs.dropped.shutdown), ((3, 1), 1), "gRPC: {is_grpc}: {ledger}");
        assert_eq!((receiver.span_count(), receiver.point_count()), (3, 1), "gRPC: {is_grpc}");
    };
    // Both runs use up their budget, so they run at the same time.
    thread::scope(|scope| {
        scope.spawn(|| leaves_time(true));
        leaves_time(false);
    });
}

/// Asserts that spans and log records for many requests are delivered while no metrics are answered.
fn delivers_spans_and_logs_beside_metrics_that_hang(budget: Duration, hangs_before: bool) {
    let records = u64::from(size_within(6000..=30_000));
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Metrics, Answer::hang());
    let interval = if hangs_before { Duration::from_millis(1) } else { FOR_EVER };
    let exporter = unhurried(receiver.endpoint(), false).throttle(FOR_EVER).interval(interval);
    let telemetry = start(exporter.queue_records(2 * records as usize).queue_bytes(64 << 20));
    telemetry.meter("shop").counter("orders").add(1, ());
    if hangs_before {
        assert!(receiver.wait_for_requests(1, LONG));
    }
    let tracer = telemetry.tracer("shop");
    (0..records).for_each(|_| tracer.span("work").end());
    log(&telemetry.logger("shop"), records);
    let begun = Instant::now();
    let ledger = telemetry.shutdown(budget);
    let took = begun.elapsed();
    let exporter = &ledger.exporters[0];
    let delivered = (exporter.traces.delivered, exporter.logs.delivered);
    assert_eq!(delivered, (records, records), "{ledger}");
    assert_eq!((receiver.span_count(), receiver.log_count()), delivered);
    assert!(exporter.metrics.dropped.shutdown > 0, "{ledger}");
    assert!(took <= budget + Duration::from_millis(50) + NOISE, "{took:?} for a budget of {budget:?}");
}

#[test]
fn delivers_all_spans_and_logs_at_shutdown_though_metrics_hang() {
    delivers_spans_and_logs_beside_metrics_that_hang(BUDGET, false);
}

#[test]
fn delivers_all_spans_and_logs_at_shutdown_though_a_push_of_metrics_hung_before() {
    delivers_spans_and_logs_beside_metrics_that_hang(BUDGET, true);
}

#[test]
fn a_slow_signal_with_much_to_send_does_not_starve_the_others() {
    // Sending the log records takes longer than the test waits.
    let receiver = without_logs(Answer::ok().delay(Duration::from_millis(100)));
    let telemetry = start(exporter(&receiver).batch_records(1).interval(Duration::from_millis(20)));
    log(&telemetry.logger("shop"), 1000);
    assert!(receiver.wait_for_requests(1, LONG));
    emit(&telemetry.tracer("shop"), 5);
    telemetry.meter("shop").counter("orders").add(1, ());
    assert!(receiver.wait_for_spans(5, LONG), "{}", telemetry.ledger());
    assert!(receiver.wait_for_points(5, LONG), "{}", telemetry.ledger());
    receiver.behave();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].logs.delivered, ledger.lost()), (1000, 0), "{ledger}");
}

#[test]
fn a_slow_signal_gets_its_share_of_the_time() {
    let receiver = without_logs(Answer::ok().delay(Duration::from_millis(50)));
    let telemetry = start(exporter(&receiver).batch_records(1).queue_records(100));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends_callers = SetWhenDropped(&is_over);
        scope.spawn(|| {
            let tracer = telemetry.tracer("shop");
            while !is_over.load(Ordering::SeqCst) {
                tracer.span("one of many").end();
            }
        });
        assert!(receiver.wait_for_spans(size_within(50..=200).into(), LONG));
        let logs = size_within(5..=20).into();
        log(&telemetry.logger("shop"), logs);
        assert!(receiver.wait_for_logs(logs, LONG), "{}", telemetry.ledger());
    });
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(ledger.lost(), 0, "{ledger}");
}

#[test]
fn a_refusal_is_reported_for_each_signal() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(400).message("no such tenant"));
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver));
    emit(&telemetry.tracer("shop"), 1);
    log(&telemetry.logger("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let mut signals: Vec<_> = problems
        .reported()
        .iter()
        .filter(|problem| problem.kind == ProblemKind::Refused)
        .map(|problem| problem.signal.map(Signal::name))
        .collect();
    signals.sort();
    assert_eq!(signals, [Some("logs"), Some("traces")]);
}
