//! The ledger as metrics, for exporters with a spool.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Signal, Telemetry};

use crate::support::points::{attributes, int, newest};
use crate::support::scene::{FOR_EVER, LONG, closed_address, emit, exporter, exporter_to, start, start_with};
use crate::support::scratch::Scratch;

fn spooling(endpoint: &str, spool: &Path) -> Exporter {
    // The spans of a test are one batch, which a flush or a shutdown sends.
    let exporter = exporter_to(endpoint).named("spans").signals([Signal::Traces]).linger(FOR_EVER);
    exporter.queue_bytes(1 << 20).spool(spool)
}

/// Leaves 5 spans in the spool, and starts a successor that observes itself at another receiver.
fn start_with_5_recovered(
    spool: &Path,
    metrics: &Receiver,
    spans: impl FnOnce(Exporter) -> Exporter,
    collector: &Receiver,
) -> Telemetry {
    let before = start(spooling(&format!("http://{}", closed_address()), spool));
    emit(&before.tracer("shop"), 5);
    let ledger = before.shutdown(LONG);
    assert_eq!(ledger.total().spooled, 5, "{ledger}");
    collector.always(Answer::status(503));
    let config = Config::new()
        .service_name("shop")
        .self_observation(true)
        .exporter(spans(spooling(&collector.endpoint(), spool)))
        .exporter(exporter(metrics).named("metrics").signals([Signal::Metrics]).interval(FOR_EVER));
    start_with(config)
}

#[test]
fn what_goes_to_a_spool_is_processed_and_in_flight_once_it_is_loaded() {
    let (collector, metrics) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let scratch = Scratch::new();
    let telemetry =
        start_with_5_recovered(&scratch.path().join("spool"), &metrics, |exporter| exporter, &collector);
    let values = |name: &str| newest(&metrics, name).iter().map(int).collect::<Vec<_>>();
    let (processed, exported) = ("otel.sdk.processor.span.processed", "otel.sdk.exporter.span.exported");
    // A flush does not wait for records that another process has left.
    assert!(collector.wait_for_requests(1, LONG));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((values(processed), values(exported)), (vec![0], vec![0]), "{}", telemetry.ledger());
    assert_eq!(values("otel.sdk.exporter.span.inflight"), [5], "the other process has processed them");
    emit(&telemetry.tracer("shop"), 3);
    collector.always(Answer::ok());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((values(processed), values(exported)), (vec![3], vec![8]), "{}", telemetry.ledger());
    assert_eq!(values("otel.sdk.exporter.span.inflight"), [0]);
}

#[test]
fn what_became_too_old_in_a_spool_is_among_the_lost() {
    let (collector, metrics) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let scratch = Scratch::new();
    let with_age = |exporter: Exporter| exporter.spool_age(Duration::from_millis(1));
    let telemetry = start_with_5_recovered(&scratch.path().join("spool"), &metrics, with_age, &collector);
    let by = Instant::now() + LONG;
    while telemetry.ledger().total().dropped.expired < 5 {
        assert!(Instant::now() < by, "{}", telemetry.ledger());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let exported = newest(&metrics, "otel.sdk.exporter.span.exported");
    let expired = exported.iter().find(|point| attributes(&point.attributes).contains("error.type=expired"));
    assert_eq!(expired.map(int), Some(5), "{exported:?}");
}
