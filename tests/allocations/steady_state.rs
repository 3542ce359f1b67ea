//! In the steady state, a span, a log record or a measurement needs no heap allocation on the calling thread, whatever
//! the worker does meanwhile.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use log::Log as _;
use metrics::{Key, Level, Metadata, Recorder, Unit, counter, describe_counter, gauge, histogram};
use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
use opentelemetry::trace::{self, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::logs::{LogProcessor, SdkLoggerProvider};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks, SpanProcessor};
use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::opentelemetry::{LogExporter, SpanExporter};
use standpipe::bridge::tracing::TracingLayer;
use standpipe::config::Temporality;
use standpipe::receiver::Receiver;
use standpipe::{
    Application, Config, Exporter, FlushOutcome, Logger, Sampler, Severity, Signal, SpanContext, Status,
    Telemetry, Tracer, Value,
};

use tracing::field::Empty;
use tracing_subscriber::prelude::*;

use crate::support::{allocator, share_of};

const LONG: Duration = Duration::from_secs(30);
/// Number of rounds of the measurement. A round begins when the records of the previous round have arrived, so that
/// the worker sends in every round.
const TURNS: u64 = 10;

/// Number of measured records.
fn measured() -> u64 {
    // A multiple of `TURNS`, so that each turn has the same number of records.
    static MEASURED: LazyLock<u64> = LazyLock::new(|| u64::from(share_of(5_000)).next_multiple_of(TURNS));
    *MEASURED
}

/// Counts the allocations of a closure.
fn allocations(closure: impl FnOnce()) -> u64 {
    // The first call of `measured` allocates.
    measured();
    allocator::allocations(closure)
}

/// Allocations of the measured spans on the calling thread. `emit` ends `spans` spans at a time.
fn steady_state(spans: u64, emit: impl Fn(&Tracer)) -> u64 {
    steady_state_of(Signal::Traces, spans, |telemetry| {
        let tracer = telemetry.tracer("shop");
        move || emit(&tracer)
    })
}

/// Allocations of the measured log records on the calling thread.
fn steady_state_of_logs(emit: impl Fn(&Logger)) -> u64 {
    steady_state_of(Signal::Logs, 1, |telemetry| {
        let logger = telemetry.logger("shop");
        move || emit(&logger)
    })
}

/// Allocations of the measured records of the `log` crate on the calling thread.
fn steady_state_of_bridge(emit: impl Fn(&LogBridge)) -> u64 {
    steady_state_of(Signal::Logs, 1, |telemetry| {
        let bridge = LogBridge::new(telemetry);
        move || emit(&bridge)
    })
}

fn steady_state_of<E: Fn()>(signal: Signal, records: u64, prepare: impl FnOnce(&Telemetry) -> E) -> u64 {
    // The receiver counts records, and keeps none.
    let receiver = Receiver::builder().keep_bytes(0).start().expect("a receiver starts");
    let exporter = Exporter::http(receiver.endpoint()).throttle(Duration::ZERO);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).expect("telemetry starts");
    let emit = prepare(&telemetry);
    let wait_for = |records| match signal {
        Signal::Logs => receiver.wait_for_logs(records, LONG),
        _ => receiver.wait_for_spans(records, LONG),
    };
    let mut sent = 0;
    let mut emit_many = |count: u64| {
        for _ in 0..count.div_ceil(records) {
            emit();
            sent += records;
        }
        sent
    };

    receiver.pause();
    emit_many(1);
    assert!(receiver.wait_for_held(1, LONG));
    // While the collector does not answer, twice as many records are queued as are measured. That allocates enough
    // chunks for the measured records, however slow the worker is.
    let sent = emit_many(2 * measured());
    receiver.resume();
    assert!(wait_for(sent));

    let requests = receiver.request_count();
    let mut counted = 0;
    for _ in 0..TURNS {
        let mut sent = 0;
        counted += allocations(|| sent = emit_many(measured() / TURNS));
        assert!(wait_for(sent));
    }
    assert!(receiver.request_count() >= requests + TURNS, "the worker sent in every turn");
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(
        (ledger.total().delivered, ledger.lost()),
        (receiver.span_count() + receiver.log_count(), 0),
        "{ledger}"
    );
    counted
}

/// A span with five attributes: two strings, an integer, a bool and a double.
fn checkout(tracer: &Tracer) {
    let mut span = tracer.span("checkout");
    span.set("http.route", "/orders/{id}").set("customer.name", "Åsa Öberg");
    span.set("order.id", 4711).set("order.express", true).set("order.amount", 12.5);
}

/// Returns a configuration whose spans get ids, but whose only exporter exports log records.
fn only_logs() -> Config {
    Config::new().exporter(Exporter::http("http://localhost:4318").signals([Signal::Logs]))
}

#[test]
fn the_count_notices_an_allocation() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

#[test]
fn a_span_with_five_attributes_allocates_nothing() {
    assert_eq!(steady_state(1, checkout), 0);
}

#[test]
fn a_span_that_is_built_with_attributes_and_a_link_allocates_nothing() {
    let linked =
        SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let emit = |tracer: &Tracer| {
        let span = tracer.span_builder("checkout").set("order.id", 4711).set("http.route", "/orders/{id}");
        span.link(&linked).start().end();
    };
    assert_eq!(steady_state(1, emit), 0);
}

#[test]
fn a_span_with_an_event_and_a_link_allocates_nothing() {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let linked = SpanContext::from_traceparent(header).unwrap().with_tracestate("vendor=value");
    let emit = |tracer: &Tracer| {
        let mut span = tracer.span("checkout");
        span.set("http.route", "/orders/{id}").set("order.id", 4711).set("order.id", 4712);
        span.event("cache miss").set("key", "order").set("size", 3);
        span.link(&linked).set("why", "batch");
        span.status(Status::Error("out of stock")).status(Status::Ok);
    };
    assert_eq!(steady_state(1, emit), 0);
}

#[test]
fn spans_three_deep_allocate_nothing() {
    let emit = |tracer: &Tracer| {
        let _request = tracer.span("request");
        let _handler = tracer.span("handler");
        checkout(tracer);
    };
    assert_eq!(steady_state(3, emit), 0);
}

#[test]
fn children_of_a_remote_parent_allocate_nothing() {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let remote = SpanContext::from_traceparent(header).unwrap().with_tracestate("vendor=value");
    let emit = |tracer: &Tracer| {
        let _request = tracer.span_builder("GET /orders").parent(&remote).start();
        checkout(tracer);
    };
    assert_eq!(steady_state(2, emit), 0);
}

#[test]
fn unsampled_spans_allocate_nothing() {
    let receiver = Receiver::start().unwrap();
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let remote = SpanContext::from_traceparent(header).unwrap().with_tracestate("vendor=value");
    for sampler in [Sampler::always_off(), Sampler::trace_id_ratio(0.0), Sampler::always_off().parent_based()]
    {
        let exporter = Exporter::http(receiver.endpoint());
        let telemetry = Telemetry::start(Config::new().sampler(sampler.clone()).exporter(exporter)).unwrap();
        let tracer = telemetry.tracer("shop");
        let emit_many = || {
            for _ in 0..measured() {
                let mut root = tracer.span("root");
                root.event("unseen").set("a", 1);
                checkout(&tracer);
                let server = tracer.span_builder("server").parent(&remote).start();
                assert!(!tracer.span("child").context().is_sampled());
                drop((root, server));
            }
        };
        emit_many();
        assert_eq!(allocations(emit_many), 0, "{sampler}");
        assert_eq!(telemetry.shutdown(LONG).total().accepted, 0);
    }
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn a_span_that_no_exporter_wants_allocates_nothing() {
    let telemetry = Telemetry::start(only_logs()).unwrap();
    let tracer = telemetry.tracer("shop");
    let emit_many = || (0..measured()).for_each(|_| checkout(&tracer));
    emit_many();
    assert_eq!(allocations(emit_many), 0);
}

#[test]
fn a_route_without_an_exporter_allocates_nothing_not_even_for_the_first_record() {
    let receiver = Receiver::start().unwrap();
    let exporter = || Exporter::http(receiver.endpoint());
    let only_main = Telemetry::start(Config::new().exporter(exporter())).unwrap();
    let only_application =
        Telemetry::start(Config::new().application(Application::new().exporter(exporter()))).unwrap();
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let remote = SpanContext::from_traceparent(header).unwrap().with_tracestate("vendor=value");
    let application = only_main.application();
    for (tracer, logger, meter) in [
        (application.tracer("shop"), application.logger("shop"), application.meter("shop")),
        (only_application.tracer("shop"), only_application.logger("shop"), only_application.meter("shop")),
    ] {
        let (orders, size) = (meter.counter("orders"), meter.histogram("size"));
        let bound = orders.with(&[("shop.country", "SE")]);
        let emit = || {
            checkout(&tracer);
            logger.fatal("out of stock").set("order.id", 4711).event_name("stock.empty").emit();
            orders.add(1, &[("shop.country", "SE")]);
            size.record(12.5, ());
            bound.add(1);
        };
        assert_eq!(allocations(|| (0..measured()).for_each(|_| emit())), 0);
        let inside = || {
            let mut server = tracer.span_builder("server").parent(&remote).start();
            server.event("unseen").set("a", 1);
            assert_eq!(tracer.span("child").context(), &remote);
            emit();
        };
        // The thread's list of current spans is allocated when a span first becomes current.
        inside();
        assert_eq!(allocations(|| (0..measured()).for_each(|_| inside())), 0);
    }
    for telemetry in [only_main, only_application] {
        let ledger = telemetry.shutdown(LONG);
        assert_eq!(ledger.exporters.len(), 1, "{ledger}");
        assert_eq!(ledger.total(), standpipe::Ledger::default().total(), "{ledger}");
    }
}

#[test]
fn a_log_record_with_five_attributes_allocates_nothing() {
    let emit = |logger: &Logger| {
        let log = logger.info("paid").set("http.route", "/orders/{id}").set("customer.name", "Åsa Öberg");
        log.set("order.id", 4711).set("order.express", true).set("order.amount", 12.5).emit();
    };
    assert_eq!(steady_state_of_logs(emit), 0);
}

#[test]
fn a_log_record_with_all_that_can_be_set_allocates_nothing() {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let context = SpanContext::from_traceparent(header).unwrap().with_tracestate("vendor=value");
    let emit = |logger: &Logger| {
        let body = Value::Map(&[("order", Value::Int(4711)), ("items", Value::Strs(&["tea", "cup"]))]);
        let log = logger.record(Severity::Error2, body).event_name("a").event_name("order.failed");
        let log = log.severity_text("SEVERE").context(&context).time(std::time::SystemTime::UNIX_EPOCH);
        log.set("key", 1).set("key", "twice").emit();
    };
    assert_eq!(steady_state_of_logs(emit), 0);
}

#[test]
fn a_log_record_in_a_span_allocates_nothing() {
    let other = Telemetry::start(only_logs()).unwrap();
    let _span = other.tracer("shop").span("current");
    assert_eq!(steady_state_of_logs(|logger| logger.warn("inside").emit()), 0);
}

#[test]
fn a_log_record_that_is_filtered_allocates_nothing() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint()).level(Severity::Warn);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    let logger = telemetry.logger("shop");
    let emit_many =
        || (0..measured()).for_each(|_| logger.info("quiet").set("key", 1).event_name("x").emit());
    // Not even the first record allocates.
    assert_eq!(allocations(emit_many), 0);
    let ask_many = || (0..measured()).for_each(|_| assert!(!logger.is_event_enabled(Severity::Info, "x")));
    assert_eq!(allocations(ask_many), 0);
    let total = telemetry.shutdown(LONG).total();
    assert_eq!((total.accepted, total.lost(), total.filtered), (0, 0, measured()));
}

#[test]
fn a_record_of_the_log_crate_with_key_values_allocates_nothing() {
    let emit = |bridge: &LogBridge| {
        let key_values =
            [("order", log::kv::Value::from(4711)), ("express", true.into()), ("amount", 12.5.into())];
        let mut record = log::Record::builder();
        record.target("shop::cart").file(Some("src/cart.rs")).line(Some(42)).module_path(Some("shop::cart"));
        record.key_values(&key_values);
        bridge.log(&record.args(format_args!("paid")).build());
    };
    assert_eq!(steady_state_of_bridge(emit), 0);
}

#[test]
fn a_record_of_the_log_crate_that_has_to_be_formatted_allocates_nothing() {
    let order = std::hint::black_box(4711);
    let emit = |bridge: &LogBridge| {
        let key_values =
            [("order", log::kv::Value::from_display(&order)), ("error", log::kv::Value::from_debug(&order))];
        let mut record = log::Record::builder();
        bridge.log(&record.key_values(&key_values).args(format_args!("paid {order}")).build());
    };
    assert_eq!(steady_state_of_bridge(emit), 0);
}

#[test]
fn a_span_of_tracing_with_fields_and_an_event_allocates_nothing() {
    let allocated = steady_state_of(Signal::Traces, 2, |telemetry| {
        let layer = TracingLayer::new(telemetry);
        let subscriber = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
        move || {
            tracing::dispatcher::with_default(&subscriber, || {
                let outer = tracing::info_span!("outer", user = "somebody", number = 4711, late = Empty);
                let _outer = outer.enter();
                let inner = tracing::info_span!("inner", share = 0.5, express = true, shown = ?Some(7));
                inner.in_scope(|| tracing::info!(amount = 12.5, "paid {}", 7));
                outer.record("late", true);
            });
        }
    });
    assert_eq!(allocated, 0);
}

#[test]
fn a_metric_of_the_metrics_crate_that_was_used_before_is_found_and_measured_without_an_allocation() {
    let receiver = Receiver::start().unwrap();
    let one = Exporter::http(receiver.endpoint()).named("one").interval(LONG);
    let other = Exporter::http(receiver.endpoint()).named("other").interval(LONG);
    let config = Config::new().exporter(one).exporter(other.temporality(Temporality::Delta));
    let telemetry = Telemetry::start(config).unwrap();
    let recorder = MetricsRecorder::new(&telemetry).cardinality_limit(4);
    let metadata = Metadata::new(module_path!(), Level::INFO, None);
    // The keys are created at run time. Four keys of `orders` are within the limit, and two exceed it.
    let mut keys: Vec<_> = (0..6).map(|number| Key::from(("orders", &[("n", number.to_string())]))).collect();
    let many: Vec<_> = (0..12).map(|number| (format!("label.{number}"), "value")).collect();
    keys.push(Key::from(("many labels", &many)));
    let measure = || {
        for key in &keys {
            recorder.register_counter(key, &metadata).increment(1);
            recorder.register_gauge(key, &metadata).increment(1.0);
        }
        counter!("bare").increment(1);
        counter!("orders", "country" => "SE", "kind" => "web").absolute(7);
        gauge!("open", "door" => "front").decrement(1.0);
        gauge!("open", "door" => "front").set(2.0);
        histogram!("size", "kind" => "web").record(12.5);
        histogram!("size", "kind" => "web").record_many(12.5, 3);
        describe_counter!("bare", Unit::Count, "without labels");
    };
    metrics::with_local_recorder(&recorder, || {
        measure();
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        assert_eq!(allocations(|| (0..measured()).for_each(|_| measure())), 0);
    });
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn a_measurement_under_attributes_that_were_seen_before_allocates_nothing() {
    let receiver = Receiver::start().unwrap();
    let one = Exporter::http(receiver.endpoint()).named("one").interval(LONG);
    let other = Exporter::http(receiver.endpoint()).named("other").interval(LONG);
    let config = Config::new().exporter(one).exporter(other.temporality(Temporality::Delta));
    let telemetry = Telemetry::start(config).unwrap();
    let meter = telemetry.meter("shop");
    let (orders, revenue) = (meter.counter("orders"), meter.build("revenue").counter_f64());
    let (level, open) = (meter.gauge("level"), meter.up_down_counter("open"));
    let (size, time) = (meter.histogram("size"), meter.build("time").exponential().histogram());
    let bound = (orders.with(&[("bound", 1)]), size.with(&[("bound", 1)]), time.with(&[("bound", 1)]));
    let five = [
        ("http.route", Value::from("/orders/{id}")),
        ("customer.name", "Åsa Öberg".into()),
        ("order.id", 4711.into()),
        ("order.express", true.into()),
        ("order.amount", 12.5.into()),
    ];
    let measure = |value: u64| {
        orders.add(value, ());
        orders.add(value, &[("country", "SE")]);
        orders.add(value, &five);
        revenue.add(value as f64, &five);
        level.record(value as f64, &five);
        open.add(-1, &[("express", true)]);
        size.record(value as f64, &five);
        time.record(value as f64, ());
        bound.0.add(1);
        bound.1.record(value as f64);
        bound.2.record(value as f64);
    };
    let measure_many = || (0..measured()).for_each(measure);
    measure_many();
    // For the delta exporter, the next measurements begin with empty series.
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(allocations(measure_many), 0);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn a_span_of_the_opentelemetry_sdk_costs_nothing_to_hand_over() {
    let allocations = steady_state_of(Signal::Traces, 1, |telemetry| {
        let exporter = SpanExporter::new(telemetry);
        let span = sdk_span();
        move || exporter.on_end(span.clone())
    });
    assert_eq!(allocations, measured(), "only the attributes that this test copies");
}

fn sdk_span() -> SpanData {
    SpanData {
        span_context: trace::SpanContext::new(
            7.into(),
            8.into(),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: 9.into(),
        parent_span_is_remote: false,
        span_kind: trace::SpanKind::Server,
        name: "checkout".into(),
        start_time: SystemTime::UNIX_EPOCH,
        end_time: SystemTime::UNIX_EPOCH,
        attributes: vec![KeyValue::new("http.route", "/orders/{id}"), KeyValue::new("order.id", 4711)],
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: trace::Status::Ok,
        instrumentation_scope: InstrumentationScope::builder("shop").with_version("1.0").build(),
    }
}

#[test]
fn a_log_of_the_opentelemetry_sdk_costs_nothing_to_hand_over() {
    let allocations = steady_state_of(Signal::Logs, 1, |telemetry| {
        let exporter = LogExporter::new(telemetry);
        let logger = SdkLoggerProvider::builder().build().logger("shop");
        let mut log = logger.create_log_record();
        log.set_body("paid".into());
        log.set_target("shop::till");
        log.add_attribute("amount", 12.5);
        let (log, scope) = (RefCell::new(log), InstrumentationScope::builder("shop").build());
        move || exporter.emit(&mut log.borrow_mut(), &scope)
    });
    assert_eq!(allocations, 0);
}
