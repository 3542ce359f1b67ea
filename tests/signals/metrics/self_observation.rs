//! The ledger as metrics.

#[cfg(target_os = "linux")]
mod spool;

use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Application, Config, Exporter, FlushOutcome, Signal};

use crate::support::points::{attributes, int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, emit, exporter, gathering, start, start_with};

#[test]
fn the_ledger_is_exported_only_if_asked_for() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert!(receiver.metrics().is_empty());
}

#[test]
fn the_ledger_is_exported_by_the_names_that_opentelemetry_has_for_it() {
    let receiver = Receiver::start().unwrap();
    let config = Config::new()
        .self_observation(true)
        .exporter(exporter(&receiver).named("main").interval(FOR_EVER).queue_records(1000));
    let telemetry = start_with(config);
    emit(&telemetry.tracer("shop"), 10);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    receiver.always_for(Signal::Traces, Answer::status(400));
    emit(&telemetry.tracer("shop"), 4);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);

    let values = |name: &str| -> Vec<_> {
        newest(&receiver, name).iter().map(|p| (attributes(&p.attributes), int(p))).collect()
    };
    let exporter = "otel.component.name=main,otel.component.type=otlp_http_span_exporter";
    let refused = format!("error.type=refused,{exporter}");
    assert_eq!(values("otel.sdk.exporter.span.exported"), [(exporter.to_owned(), 10), (refused, 4)]);
    let processor = "otel.component.name=main,otel.component.type=batching_span_processor".to_owned();
    assert_eq!(values("otel.sdk.processor.span.processed"), [(processor.clone(), 14)]);
    assert_eq!(values("otel.sdk.processor.span.queue.size"), [(processor.clone(), 0)]);
    assert_eq!(values("otel.sdk.processor.span.queue.capacity"), [(processor, 1000)]);
    for name in ["otel.sdk.exporter.log.exported", "otel.sdk.exporter.metric_data_point.exported"] {
        assert!(!named(&receiver, name).is_empty(), "{name}");
    }
    let units: Vec<_> = receiver.metrics().iter().map(|received| received.metric.unit.clone()).collect();
    assert!(units.contains(&"{span}".to_owned()) && units.contains(&"{data_point}".to_owned()));
    let received = &receiver.metrics()[0];
    assert_eq!(
        (received.scope.name.as_str(), received.scope.version.as_str()),
        ("standpipe", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn an_exporter_over_grpc_is_of_the_type_that_opentelemetry_has_for_it() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::grpc(receiver.grpc_endpoint()).named("main").interval(FOR_EVER);
    let telemetry = start_with(Config::new().self_observation(true).exporter(exporter));
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let exported = newest(&receiver, "otel.sdk.exporter.span.exported");
    let of_type = "otel.component.name=main,otel.component.type=otlp_grpc_span_exporter";
    assert_eq!(exported.iter().map(|p| attributes(&p.attributes)).collect::<Vec<_>>(), [of_type]);
}

#[test]
fn what_was_not_enqueued_is_counted_by_its_reason() {
    let (spans, metrics) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .self_observation(true)
        .exporter(exporter(&spans).named("spans").signals([Signal::Traces]).batch_bytes(1024))
        .exporter(exporter(&metrics).named("metrics").signals([Signal::Metrics]).interval(FOR_EVER));
    let telemetry = start_with(config);
    telemetry.tracer("shop").span(&"x".repeat(5000)).end();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let processed = numbers(&named(&metrics, "otel.sdk.processor.span.processed").pop().unwrap());
    let too_large =
        processed.iter().find(|point| attributes(&point.attributes).contains("error.type=too_large"));
    assert_eq!(too_large.map(int), Some(1), "{processed:?}");
    let of_metrics = processed.iter().filter(|point| attributes(&point.attributes).contains("name=metrics"));
    assert_eq!(of_metrics.count(), 0, "an exporter without spans has nothing to say of them");
    assert!(spans.metrics().is_empty());
}

#[test]
fn the_program_observes_the_exporters_of_both_routes_and_tells_it_on_its_own() {
    let (own, theirs) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let application = Application::new().exporter(exporter(&theirs).interval(FOR_EVER));
    let config = Config::new().self_observation(true).exporter(exporter(&own).interval(FOR_EVER));
    let telemetry = start_with(config.application(application));
    emit(&telemetry.tracer("t"), 1);
    emit(&telemetry.application().tracer("t"), 2);
    assert!(own.wait_for_spans(1, LONG) && theirs.wait_for_spans(2, LONG));
    // Received records are settled with the first export, and reported with the second.
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let exported = newest(&own, "otel.sdk.exporter.span.exported");
    let of = |id: &str| {
        let name = format!("otel.component.name={id},");
        exported.iter().find(|point| attributes(&point.attributes).starts_with(&name)).map(int)
    };
    assert_eq!((of("otlp"), of("application/otlp")), (Some(1), Some(2)), "{exported:?}");
    assert!(theirs.metrics().is_empty());
}

/// The metrics contain the outcome of all records, even if the worker has used much of its time for the records.
#[test]
fn a_flush_and_a_shutdown_collect_metrics_after_the_records_were_sent() {
    let receiver = Receiver::start().unwrap();
    receiver.script_for(Signal::Traces, [Answer::ok().delay(Duration::from_millis(200))]);
    let config = Config::new().self_observation(true).exporter(gathering(&receiver).interval(FOR_EVER));
    let telemetry = start_with(config);
    let exported = || newest(&receiver, "otel.sdk.exporter.span.exported").iter().map(int).sum::<i64>();
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    emit(&telemetry.tracer("shop"), 4);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(exported(), 5, "after a flush");
    emit(&telemetry.tracer("shop"), 2);
    telemetry.shutdown(LONG);
    assert_eq!(exported(), 7, "after a shutdown");
}
