//! The state of the SDK as metrics, one test per row of OpenTelemetry's table of `otel.sdk.*` metrics.

#[cfg(target_os = "linux")]
mod spool;

use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::proto::HistogramDataPoint;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{
    Application, Config, Exporter, FlushOutcome, Sampler, Severity, Signal, SpanContext, Telemetry, WhenFull,
};

use crate::support::points::{attributes, histograms, int, named, newest, numbers};
use crate::support::scene::{
    FOR_EVER, LONG, closed_endpoint, emit, exporter, exporter_to, gathering, start, start_with,
};

/// The values of the newest snapshot of a metric, each after its attributes. Ports are left out.
fn values(receiver: &Receiver, name: &str) -> Vec<(String, i64)> {
    let shown = |text: String| {
        let shown = text.split(',').filter(|attribute| !attribute.starts_with("server.port="));
        shown.collect::<Vec<_>>().join(",")
    };
    newest(receiver, name).iter().map(|point| (shown(attributes(&point.attributes)), int(point))).collect()
}

/// The attributes of a component of the exporter with this number.
fn component(kind: &str, number: usize) -> String {
    let server = if kind.ends_with("exporter") { ",server.address=127.0.0.1" } else { "" };
    format!("otel.component.name={kind}/{number},otel.component.type={kind}{server}")
}

/// A program with one exporter of all signals, which observes itself.
fn observed(receiver: &Receiver) -> Config {
    Config::new().self_observation(true).exporter(exporter(receiver).interval(FOR_EVER))
}

/// A program with two exporters: the first one sends `signals`, and the second one sends the metrics about the first,
/// every 10 ms.
fn watched(first: Exporter, signals: impl IntoIterator<Item = Signal>, metrics: &Receiver) -> Telemetry {
    let often = exporter(metrics).named("metrics").signals([Signal::Metrics]);
    let first = first.named("first").signals(signals);
    let exporters = Config::new().exporter(first).exporter(often.interval(Duration::from_millis(10)));
    start_with(exporters.self_observation(true))
}

#[track_caller]
fn wait_for(receiver: &Receiver, name: &str, expected: &[(String, i64)]) {
    wait_until(receiver, name, |values| values == expected);
}

/// Waits until `is_it` returns true for the newest snapshot of a metric.
#[track_caller]
fn wait_until(receiver: &Receiver, name: &str, is_it: impl Fn(&[(String, i64)]) -> bool) {
    let deadline = Instant::now() + LONG;
    while named(receiver, name).is_empty() || !is_it(&values(receiver, name)) {
        assert!(Instant::now() < deadline, "{name}: {:?}", values(receiver, name));
        thread::sleep(Duration::from_millis(5));
    }
}

fn flush(telemetry: &Telemetry) {
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
}

#[test]
fn nothing_is_observed_unless_asked_for() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    flush(&telemetry);
    assert!(receiver.metrics().is_empty());
}

#[test]
fn started_spans_are_counted_by_the_origin_of_their_parent_and_the_decision_of_the_sampler() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(observed(&receiver));
    let tracer = telemetry.tracer("shop");
    {
        let _root = tracer.span("root");
        tracer.span("child").end();
        tracer.span_builder("detached child").detached().end();
        let mut moved = tracer.span_builder("moved").root().detached();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        assert!(moved.set_parent(&SpanContext::from_traceparent(&format!("{parent}-01")).unwrap()));
        moved.end();
        let unsampled = SpanContext::from_traceparent(&format!("{parent}-00")).unwrap();
        let _unsampled = tracer.span_builder("unsampled").parent(&unsampled).start();
        tracer.span("unsampled child").end();
        tracer.span("unsampled child").end();
    }
    flush(&telemetry);
    let of = |origin: &str, result: &str| {
        format!("otel.span.parent.origin={origin},otel.span.sampling_result={result}")
    };
    let expected = [
        (of("none", "RECORD_AND_SAMPLE"), 1),
        (of("local", "DROP"), 2),
        (of("local", "RECORD_AND_SAMPLE"), 2),
        (of("remote", "DROP"), 1),
        (of("remote", "RECORD_AND_SAMPLE"), 1),
    ];
    assert_eq!(values(&receiver, "otel.sdk.span.started"), expected);
}

#[test]
fn spans_are_live_from_their_start_to_their_end() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(observed(&receiver).sampler(Sampler::default()));
    let tracer = telemetry.tracer("shop");
    let live = || {
        flush(&telemetry);
        values(&receiver, "otel.sdk.span.live")
    };
    let of = |sampled| {
        let of = |result: &str| format!("otel.span.sampling_result={result}");
        [(of("RECORD_AND_SAMPLE"), sampled), (of("RECORD_ONLY"), 0)]
    };
    let spans = [tracer.span_builder("one").root().detached(), tracer.span_builder("two").root().detached()];
    assert_eq!(live(), of(2));
    let [one, two] = spans;
    drop(one);
    assert_eq!(live(), of(1));
    drop(two);
    assert_eq!(live(), of(0));
}

#[test]
fn log_records_are_counted_before_the_levels_of_exporters_filter_them() {
    let receiver = Receiver::start().unwrap();
    let others = exporter(&receiver).named("warnings").signals([Signal::Logs]).level(Severity::Warn);
    let telemetry = start_with(observed(&receiver).exporter(others));
    let logger = telemetry.logger("shop");
    logger.info("below the level of one exporter").emit();
    logger.error("for both").emit();
    flush(&telemetry);
    assert_eq!(values(&receiver, "otel.sdk.log.created"), [(String::new(), 2)]);
}

#[test]
fn records_are_queued_until_they_are_handed_over_and_in_flight_until_their_export_ends() {
    let (collector, metrics) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let gathers = gathering(&collector).queue_records(1000);
    let telemetry = watched(gathers, [Signal::Traces, Signal::Logs], &metrics);
    for (record, signal) in [("span", Signal::Traces), ("log", Signal::Logs)] {
        let (processor, exporter) =
            (format!("batching_{record}_processor"), format!("otlp_http_{record}_exporter"));
        let (processor, exporter) = (component(&processor, 0), component(&exporter, 0));
        let queue = |name: &str| format!("otel.sdk.processor.{record}.{name}");
        let export = |name: &str| format!("otel.sdk.exporter.{record}.{name}");
        collector.always_for(signal, Answer::status(503));
        match signal {
            Signal::Traces => emit(&telemetry.tracer("shop"), 5),
            _ => (0..5).for_each(|_| telemetry.logger("shop").info("paid").emit()),
        }
        wait_for(&metrics, &queue("queue.size"), &[(processor.clone(), 5)]);
        assert_eq!(values(&metrics, &queue("queue.capacity")), [(processor.clone(), 1000)]);
        assert_eq!(values(&metrics, &queue("processed")), [(processor.clone(), 0)]);
        thread::scope(|scope| {
            let flushed = scope.spawn(|| telemetry.flush(LONG));
            wait_for(&metrics, &queue("processed"), &[(processor.clone(), 5)]);
            wait_for(&metrics, &queue("queue.size"), &[(processor.clone(), 0)]);
            wait_for(&metrics, &export("inflight"), &[(exporter.clone(), 5)]);
            assert_eq!(values(&metrics, &export("exported")), [(exporter.clone(), 0)]);
            collector.always_for(signal, Answer::ok());
            assert_eq!(flushed.join().unwrap(), FlushOutcome::Complete);
        });
        wait_for(&metrics, &export("inflight"), &[(exporter.clone(), 0)]);
        wait_for(&metrics, &export("exported"), &[(exporter.clone(), 5)]);
    }
}

#[test]
fn records_that_are_not_enqueued_are_processed_with_an_error() {
    let (collector, metrics) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let small = gathering(&collector).queue_records(4).when_full(WhenFull::DropNewest);
    collector.always(Answer::status(503));
    let telemetry = watched(small.batch_bytes(1 << 10), [Signal::Traces], &metrics);
    emit(&telemetry.tracer("shop"), 20);
    telemetry.tracer("shop").span(&"x".repeat(5000)).end();
    let lost = telemetry.ledger().total().not_enqueued.queue_full as i64;
    let processor = component("batching_span_processor", 0);
    let failed = |reason: &str, count| (format!("error.type={reason},{processor}"), count);
    wait_until(&metrics, "otel.sdk.processor.span.processed", |values| {
        values.get(1..) == Some(&[failed("queue_full", lost), failed("too_large", 1)])
    });
    assert!(lost >= 16, "{lost}");
}

#[test]
fn exports_fail_with_the_cause_of_their_last_attempt() {
    let receiver = Receiver::start().unwrap();
    let config = Config::new().self_observation(true).exporter(gathering(&receiver).interval(FOR_EVER));
    let telemetry = start_with(config);
    let tracer = telemetry.tracer("shop");
    let send = |spans, answers: &[Answer]| {
        receiver.script_for(Signal::Traces, answers.iter().cloned());
        emit(&tracer, spans);
        flush(&telemetry);
    };
    send(1, &[Answer::ok()]);
    send(2, &[Answer::status(503), Answer::status(400)]);
    send(8, &[Answer::status(503), Answer::partial(3, "no")]);
    let exporter = component("otlp_http_span_exporter", 0);
    let expected = [
        (exporter.clone(), 6),
        (format!("error.type=400,{exporter}"), 2),
        (format!("error.type=rejected,{exporter}"), 3),
    ];
    flush(&telemetry);
    assert_eq!(values(&receiver, "otel.sdk.exporter.span.exported"), expected);
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
fn an_export_is_measured_once_from_its_first_attempt_to_its_last() {
    let receiver = Receiver::start().unwrap();
    let config = Config::new().self_observation(true).exporter(gathering(&receiver).interval(FOR_EVER));
    let lost = exporter_to(&closed_endpoint()).named("lost").signals([Signal::Logs]);
    let telemetry = start_with(config.exporter(lost.give_up_after(Duration::from_millis(1))));
    receiver.script_for(Signal::Traces, [Answer::status(503), Answer::status(503), Answer::ok()]);
    emit(&telemetry.tracer("shop"), 5);
    flush(&telemetry);
    receiver.script_for(Signal::Traces, [Answer::partial(1, "no")]);
    emit(&telemetry.tracer("shop"), 2);
    telemetry.logger("shop").info("lost").emit();
    flush(&telemetry);
    flush(&telemetry);
    let durations = named(&receiver, "otel.sdk.exporter.operation.duration");
    let newest = durations.last().unwrap();
    assert_eq!(newest.unit, "s");
    let of = |kind: &str, status: &str| {
        let points = histograms(newest);
        let is_it = |point: &&HistogramDataPoint| {
            let shown = attributes(&point.attributes);
            shown.contains(&format!("otel.component.type={kind},")) && shown.contains(status)
        };
        points.iter().filter(is_it).map(|point| (point.count, point.bucket_counts.len())).collect::<Vec<_>>()
    };
    // One bucket: no bounds.
    assert_eq!(of("otlp_http_span_exporter", "http.response.status_code=200"), [(1, 1), (1, 1)]);
    assert_eq!(of("otlp_http_span_exporter", "503"), []);
    assert_eq!(of("otlp_http_span_exporter", "error.type=rejected"), [(1, 1)]);
    // "unreachable", or "timeout" if the millisecond passes before the connection is refused.
    assert_eq!(of("otlp_http_log_exporter", "error.type="), [(1, 1)]);
    assert!(of("otlp_http_metric_exporter", "status_code=200").iter().all(|(count, _)| *count > 0));
}

#[test]
fn a_collection_is_measured_and_fails_if_a_callback_panics() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(observed(&receiver));
    flush(&telemetry);
    let meter = telemetry.meter("shop");
    meter.build("broken").observe_gauge(|_| std::panic::resume_unwind(Box::new("on purpose")));
    flush(&telemetry);
    flush(&telemetry);
    let durations = named(&receiver, "otel.sdk.metric_reader.collection.duration");
    let shown = histograms(durations.last().unwrap());
    let shown: Vec<_> = shown.iter().map(|point| (attributes(&point.attributes), point.count)).collect();
    let reader = component("periodic_metric_reader", 0);
    let expected = [(reader.clone(), 1), (format!("error.type=callback_panicked,{reader}"), 1)];
    assert_eq!(shown, expected);
}

#[test]
fn an_exporter_over_grpc_is_of_the_type_that_opentelemetry_has_for_it() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::grpc(receiver.grpc_endpoint()).named("main").interval(FOR_EVER);
    let telemetry = start_with(Config::new().self_observation(true).exporter(exporter));
    // gRPC does not define the codes above 16.
    for code in [3, 17, 4711] {
        receiver.script_for(Signal::Traces, [Answer::grpc(code)]);
        emit(&telemetry.tracer("shop"), 1);
        flush(&telemetry);
    }
    let exporter = component("otlp_grpc_span_exporter", 0);
    let failed = |error: &str, count| (format!("error.type={error},{exporter}"), count);
    let expected = [(exporter.clone(), 0), failed("INVALID_ARGUMENT", 1), failed("UNKNOWN", 2)];
    assert_eq!(values(&receiver, "otel.sdk.exporter.span.exported"), expected);
    let durations = named(&receiver, "otel.sdk.exporter.operation.duration");
    let shown = attributes(&histograms(durations.last().unwrap())[0].attributes);
    assert!(shown.contains("rpc.status_code=INVALID_ARGUMENT"), "{shown}");
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
    flush(&telemetry);
    let processed = numbers(&named(&metrics, "otel.sdk.processor.span.processed").pop().unwrap());
    let too_large =
        processed.iter().find(|point| attributes(&point.attributes).contains("error.type=too_large"));
    assert_eq!(too_large.map(int), Some(1), "{processed:?}");
    let of_metrics = processed.iter().filter(|point| attributes(&point.attributes).contains("/1"));
    assert_eq!(of_metrics.count(), 0, "an exporter without spans has nothing to say of them");
    assert!(spans.metrics().is_empty());
}

#[test]
fn the_program_observes_the_exporters_of_both_routes_and_tells_it_on_its_own() {
    let (own, theirs) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let application = Application::new().exporter(exporter(&theirs).interval(FOR_EVER));
    let telemetry = start_with(observed(&own).application(application));
    emit(&telemetry.tracer("t"), 1);
    emit(&telemetry.application().tracer("t"), 2);
    assert!(own.wait_for_spans(1, LONG) && theirs.wait_for_spans(2, LONG));
    // The first flush settles the received records. The second flush exports metrics that count them.
    flush(&telemetry);
    flush(&telemetry);
    let of = |number| component("otlp_http_span_exporter", number);
    assert_eq!(values(&own, "otel.sdk.exporter.span.exported"), [(of(0), 1), (of(1), 2)]);
    let started = values(&own, "otel.sdk.span.started");
    assert_eq!(started.iter().map(|(_, count)| count).sum::<i64>(), 3, "{started:?}");
    assert!(theirs.metrics().is_empty());
}

/// The metrics contain the outcome of all records, even if it took long to send the records.
#[test]
fn a_flush_and_a_shutdown_collect_metrics_after_the_records_were_sent() {
    let receiver = Receiver::start().unwrap();
    receiver.script_for(Signal::Traces, [Answer::ok().delay(Duration::from_millis(200))]);
    let config = Config::new().self_observation(true).exporter(gathering(&receiver).interval(FOR_EVER));
    let telemetry = start_with(config);
    let exported = || newest(&receiver, "otel.sdk.exporter.span.exported").iter().map(int).sum::<i64>();
    emit(&telemetry.tracer("shop"), 1);
    flush(&telemetry);
    emit(&telemetry.tracer("shop"), 4);
    flush(&telemetry);
    assert_eq!(exported(), 5, "after a flush");
    emit(&telemetry.tracer("shop"), 2);
    telemetry.shutdown(LONG);
    assert_eq!(exported(), 7, "after a shutdown");
}
