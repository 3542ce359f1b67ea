//! Received spans and log records, from each processor of the SDK.

use std::time::{Duration, SystemTime};

use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, LoggerProvider, Severity};
use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanKind, Status, TraceContextExt, TraceFlags, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanLimits};
use standpipe::bridge::opentelemetry::{LogExporter, SpanExporter};
use standpipe::receiver::{ReceivedLog, ReceivedSpan, Receiver};
use standpipe::{Config, Exporter, Severity as Level, Telemetry};

use crate::support::scene::{LONG, exporter, gathering, start, start_with};

fn bank() -> Resource {
    let attributes = [KeyValue::new("service.name", "bank"), KeyValue::new("host.cores", 8)];
    Resource::builder_empty().with_schema_url(attributes, "https://schema.example/1").build()
}

/// Runs a program with a tracer of the SDK. Returns the received spans.
fn spans_of(program: impl FnOnce(&SdkTracerProvider)) -> Vec<ReceivedSpan> {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let exporter = SpanExporter::new(&telemetry);
    let provider = SdkTracerProvider::builder().with_resource(bank()).with_span_processor(exporter).build();
    program(&provider);
    provider.shutdown().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(ledger.lost(), 0, "{ledger}");
    receiver.spans()
}

/// Like [`spans_of`], with a logger.
fn logs_of(program: impl FnOnce(&SdkLoggerProvider)) -> Vec<ReceivedLog> {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let exporter = LogExporter::new(&telemetry);
    let provider = SdkLoggerProvider::builder().with_resource(bank()).with_log_processor(exporter).build();
    program(&provider);
    provider.shutdown().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(ledger.lost(), 0, "{ledger}");
    receiver.logs()
}

#[test]
fn a_span_arrives_with_all_that_was_set() {
    let scope = InstrumentationScope::builder("till")
        .with_version("1.2")
        .with_attributes([KeyValue::new("part", "front")])
        .build();
    let state: TraceState = "rojo=1".parse().unwrap();
    let remote = SpanContext::new(7.into(), 8.into(), TraceFlags::SAMPLED, true, state);
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let spans = spans_of(|provider| {
        let parent = Context::new().with_remote_span_context(remote.clone());
        let tracer = provider.tracer_with_scope(scope);
        let links = vec![Link::new(remote.clone(), vec![KeyValue::new("why", "batch")], 0)];
        let builder = tracer.span_builder("checkout").with_kind(SpanKind::Server).with_links(links);
        let mut span = builder.with_start_time(start).start_with_context(&tracer, &parent);
        span.set_attribute(KeyValue::new("order.id", 4711));
        span.set_attribute(KeyValue::new("items", opentelemetry::Value::Array(vec![1, 2].into())));
        let event = vec![KeyValue::new("attempt", 2)];
        span.add_event_with_timestamp("retry", start + Duration::from_secs(1), event);
        span.set_status(Status::error("card declined"));
        span.end_with_timestamp(start + Duration::from_secs(2));
    });
    let [received] = &spans[..] else { panic!("{spans:?}") };
    let span = &received.span;
    assert_eq!((span.name.as_str(), span.kind), ("checkout", 2));
    assert_eq!((span.trace_id[15], span.parent_span_id[7], span.flags), (7, 8, 0x301), "a remote parent");
    assert_eq!((span.trace_state.as_str(), span.links[0].trace_state.as_str()), ("rojo=1", "rojo=1"));
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 2_000_000_000);
    assert_eq!(received.attribute("order.id"), 4711);
    assert_eq!(received.attribute("items").items().len(), 2);
    assert_eq!(
        (span.events[0].name.as_str(), span.events[0].attributes[0].key.as_str()),
        ("retry", "attempt")
    );
    assert_eq!((span.links[0].span_id[7], span.links[0].attributes[0].key.as_str()), (8, "why"));
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (StatusCode::Error as i32, "card declined"));
    let scope = &received.scope;
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("till", "1.2"));
    assert_eq!(scope.attributes[0].key, "part");
    assert_eq!(received.resource_attribute("service.name"), "bank");
    assert_eq!(received.resource_attribute("host.cores"), 8);
    assert_eq!(received.resource.attributes.len(), 2, "nothing is mixed in: {:?}", received.resource);
}

#[test]
fn what_the_sdks_limits_dropped_is_reported_and_ours_drop_nothing() {
    let receiver = Receiver::start().unwrap();
    let tight = standpipe::config::SpanLimits::default().attributes(1).events(1);
    let telemetry = start_with(Config::new().span_limits(tight).exporter(gathering(&receiver)));
    let limits = SpanLimits { max_attributes_per_span: 3, max_events_per_span: 2, ..Default::default() };
    let provider = SdkTracerProvider::builder()
        .with_span_limits(limits)
        .with_span_processor(SpanExporter::new(&telemetry))
        .build();
    let mut span = provider.tracer("till").start("checkout");
    for number in 0..5 {
        span.set_attribute(KeyValue::new(format!("key {number}"), number));
        span.add_event("event", Vec::new());
    }
    drop(span);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let span = &receiver.spans()[0].span;
    assert_eq!((span.attributes.len(), span.dropped_attributes_count), (3, 2));
    assert_eq!((span.events.len(), span.dropped_events_count), (2, 3));
}

#[test]
fn a_log_arrives_with_all_that_was_set() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let logs = logs_of(|provider| {
        let logger = provider.logger("till");
        let mut log = logger.create_log_record();
        log.set_body(AnyValue::from_iter([
            ("order", AnyValue::from(4711)),
            ("raw", (&[0u8, 255][..]).into()),
        ]));
        log.set_severity_number(Severity::Warn2);
        log.set_severity_text("WARNING");
        log.set_event_name("stock.low");
        log.set_timestamp(time);
        log.set_trace_context(7.into(), 8.into(), Some(TraceFlags::SAMPLED));
        log.set_target("till::stock");
        log.add_attribute("left", 3);
        log.add_attribute("tags", AnyValue::from_iter(["a", "b"]));
        logger.emit(log);
    });
    let [received] = &logs[..] else { panic!("{logs:?}") };
    let log = &received.log;
    assert_eq!(received.body().entries().len(), 2);
    assert_eq!((log.severity_number, log.severity_text.as_str()), (14, "WARNING"));
    assert_eq!((log.event_name.as_str(), log.time_unix_nano), ("stock.low", 1_000_000_000_000));
    assert!(log.observed_time_unix_nano > log.time_unix_nano);
    assert_eq!((log.trace_id[15], log.span_id[7], log.flags), (7, 8, 1));
    assert_eq!(received.attribute("left"), 3);
    assert_eq!(received.attribute("tags").items().len(), 2);
    assert_eq!(received.scope.name, "till::stock", "the target is the scope's name");
    assert_eq!(received.resource_attribute("service.name"), "bank");
}

#[test]
fn the_usual_exporter_is_swapped_for_ours_whatever_processor_it_was_in() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let exporter = || SpanExporter::new(&telemetry);
    for builder in [
        SdkTracerProvider::builder().with_simple_exporter(exporter()),
        SdkTracerProvider::builder().with_batch_exporter(exporter()),
        SdkTracerProvider::builder().with_span_processor(exporter()),
    ] {
        let provider = builder.build();
        for _ in 0..100 {
            provider.tracer("till").start("work").end();
        }
        provider.shutdown().unwrap();
    }
    assert_eq!(receiver.span_count(), 300, "a shutdown of the provider is a flush");
    let exporter = || LogExporter::new(&telemetry);
    for builder in [
        SdkLoggerProvider::builder().with_simple_exporter(exporter()),
        SdkLoggerProvider::builder().with_batch_exporter(exporter()),
        SdkLoggerProvider::builder().with_log_processor(exporter()),
    ] {
        let provider = builder.build();
        let logger = provider.logger("till");
        for _ in 0..100 {
            logger.emit(logger.create_log_record());
        }
        provider.shutdown().unwrap();
    }
    assert_eq!(receiver.log_count(), 300, "a shutdown of the provider is a flush");
}

#[test]
fn a_span_that_was_not_sampled_is_not_sent() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOff)
        .with_span_processor(SpanExporter::new(&telemetry))
        .build();
    provider.tracer("till").start("checkout").end();
    assert_eq!(telemetry.shutdown(LONG).total().accepted, 0);
}

#[test]
fn spans_of_two_resources_share_a_request_and_keep_their_own() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let exporter = SpanExporter::new(&telemetry);
    let provider = SdkTracerProvider::builder().with_resource(bank()).with_span_processor(exporter).build();
    for _ in 0..3 {
        provider.tracer("till").start("theirs").end();
        telemetry.tracer("shop").span("ours").end();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!((receiver.span_count(), receiver.request_count()), (6, 1));
    for span in receiver.spans() {
        let service = if span.span.name == "theirs" { "bank" } else { "shop" };
        assert_eq!(span.resource_attribute("service.name"), service, "{}", span.span.name);
    }
}

#[test]
fn an_sdk_that_was_told_no_resource_speaks_for_the_program() {
    for resource in [None, Some(Resource::builder_empty().build())] {
        let receiver = Receiver::start().unwrap();
        let telemetry = start(gathering(&receiver));
        let builder = SdkTracerProvider::builder().with_span_processor(SpanExporter::new(&telemetry));
        let provider = match resource {
            Some(resource) => builder.with_resource(resource).build(),
            None => builder.build(),
        };
        provider.tracer("till").start("checkout").end();
        assert_eq!(telemetry.shutdown(LONG).lost(), 0);
        let spans = receiver.spans();
        assert_eq!(spans[0].resource_attribute("service.name"), "shop");
    }
}

#[test]
fn the_application_route_is_a_route_like_any_other() {
    let (of_main, of_application) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let application = standpipe::Application::new().exporter(gathering(&of_application));
    let telemetry = start_with(Config::new().exporter(gathering(&of_main)).application(application));
    let exporter = SpanExporter::new(telemetry.application());
    let provider = SdkTracerProvider::builder().with_span_processor(exporter).build();
    provider.tracer("till").start("checkout").end();
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!((of_main.span_count(), of_application.span_count()), (0, 1));
}

/// Emits one record of each severity, and one without a severity.
fn emit_all(logger: &impl Logger) {
    for severity in [Some(Severity::Debug), Some(Severity::Info), Some(Severity::Error), None] {
        let mut log = logger.create_log_record();
        severity.into_iter().for_each(|severity| log.set_severity_number(severity));
        logger.emit(log);
    }
}

fn severities(receiver: &Receiver) -> Vec<i32> {
    receiver.logs().iter().map(|log| log.log.severity_number).collect()
}

#[test]
fn leaves_out_what_ureq_logs_at_trace() {
    let logs = logs_of(|provider| {
        let logger = provider.logger("log");
        for (target, severity, expected) in [
            ("ureq", Severity::Trace, false),
            ("ureq_proto::client", Severity::Trace4, false),
            ("ureq", Severity::Debug, true),
            ("shop", Severity::Trace, true),
        ] {
            assert_eq!(logger.event_enabled(severity, target, None), expected, "{target}");
            for is_of_tracing in [false, true] {
                let mut log = logger.create_log_record();
                log.set_severity_number(severity);
                log.set_body("Basic c2hvcA==".into());
                match is_of_tracing {
                    true => log.add_attribute("log.target", target),
                    false => log.set_target(target),
                }
                logger.emit(log);
            }
        }
    });
    // Records of one scope arrive together.
    let mut scopes: Vec<_> = logs.iter().map(ReceivedLog::scope_name).collect();
    scopes.sort_unstable();
    assert_eq!(scopes, ["log", "log", "shop", "ureq"]);
}

#[test]
fn each_exporter_gets_the_logs_of_its_level_and_those_without_severity() {
    let (all, errors, none) =
        (Receiver::start().unwrap(), Receiver::start().unwrap(), Receiver::start().unwrap());
    let telemetry = start_with(
        Config::new()
            .exporter(gathering(&all).level(Level::Trace).named("all"))
            .exporter(gathering(&errors).level(Level::Error).named("errors"))
            .exporter(gathering(&none).signals([standpipe::Signal::Traces]).named("none")),
    );
    let provider = SdkLoggerProvider::builder().with_log_processor(LogExporter::new(&telemetry)).build();
    emit_all(&provider.logger("till"));
    let ledger = telemetry.shutdown(LONG);
    let filtered: Vec<_> = ledger.exporters.iter().map(|exporter| exporter.logs.filtered).collect();
    assert_eq!((filtered, ledger.lost()), (vec![0, 2, 0], 0), "{ledger}");
    assert_eq!((severities(&all), severities(&errors)), (vec![5, 9, 17, 0], vec![17, 0]));
    assert_eq!(none.log_count(), 0);
}

#[test]
fn a_level_that_no_exporter_takes_is_known_before_a_record_is_made() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).level(Level::Warn));
    let provider = SdkLoggerProvider::builder().with_log_processor(LogExporter::new(&telemetry)).build();
    let logger = provider.logger("till");
    assert!(logger.event_enabled(Severity::Warn, "till", None));
    assert!(!logger.event_enabled(Severity::Info4, "till", None));
    assert_eq!(telemetry.ledger().total().filtered, 0);
    emit_all(&logger);
    assert_eq!(telemetry.shutdown(LONG).total().filtered, 2);
    assert!(!idle_logger().event_enabled(Severity::Fatal, "till", None));
}

/// A bridge whose telemetry has no exporter.
fn idle_logger() -> impl Logger {
    let telemetry = Telemetry::start(Config::new()).unwrap();
    let provider = SdkLoggerProvider::builder().with_log_processor(LogExporter::new(&telemetry)).build();
    provider.logger("till")
}

#[test]
fn a_span_larger_than_a_request_is_counted_and_the_next_arrives() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()).batch_bytes(4096).linger(LONG));
    let provider = SdkTracerProvider::builder().with_span_processor(SpanExporter::new(&telemetry)).build();
    let mut large = provider.tracer("till").start("large");
    large.set_attribute(KeyValue::new("text", "x".repeat(5000)));
    large.end();
    provider.tracer("till").start("small").end();
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.not_enqueued.too_large), (1, 1), "{ledger}");
}
