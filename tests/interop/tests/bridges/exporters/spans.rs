//! Spans of the OpenTelemetry API.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Event, Link, Span, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;

use super::{Program, Sdk};

pub(super) const ALL: &[Program] = &[
    Program::new("spans_that_nest", nest),
    Program::new("spans_of_every_kind", kinds),
    Program::new("spans_with_attributes", attributes),
    Program::new("spans_with_a_key_twice", twice),
    Program::new("spans_without_a_key", keyless).with_resource(keyless_resource),
    Program::new("spans_with_events", events),
    Program::new("spans_with_links", links),
    Program::new("spans_with_statuses", statuses),
    Program::new("spans_at_odd_times", times),
    Program::new("spans_with_odd_names", names),
    Program::new("spans_below_remote_parents", remote),
    Program::new("spans_of_several_scopes", scopes),
    Program::new("spans_beyond_the_limits", limits),
    Program::new("spans_of_a_rich_resource", kinds).with_resource(rich),
    Program::new("spans_of_an_empty_resource", kinds).with_resource(|| Resource::builder_empty().build()),
    Program::new("spans_of_an_untouched_resource", kinds).with_resource(|| Resource::builder().build()),
    Program::new("spans_by_the_thousand", thousands),
    Program::new("spans_of_everything", everything),
];

fn rich() -> Resource {
    let attributes = vec![KeyValue::new("service.name", "shop"), KeyValue::new("service.instance.id", "7")];
    Resource::builder_empty()
        .with_schema_url(attributes, "https://opentelemetry.io/schemas/1.30.0")
        .with_attributes(kinds_of_values())
        .build()
}

/// A value of every type.
pub(super) fn kinds_of_values() -> Vec<KeyValue> {
    let texts = vec![StringValue::from("a"), StringValue::from(""), StringValue::from("Grüße 🌍")];
    vec![
        KeyValue::new("truth", true),
        KeyValue::new("untruth", false),
        KeyValue::new("zero", 0),
        KeyValue::new("least", i64::MIN),
        KeyValue::new("most", i64::MAX),
        KeyValue::new("half", 0.5),
        KeyValue::new("none", f64::NAN),
        KeyValue::new("negative nothing", -0.0),
        KeyValue::new("infinite", f64::INFINITY),
        KeyValue::new("text", "text"),
        KeyValue::new("empty", ""),
        KeyValue::new("unicode", "Grüße, 世界 🌍\n\0"),
        KeyValue::new("long", "milk and honey ".repeat(1000)),
        KeyValue::new("truths", Value::Array(Array::Bool(vec![true, false]))),
        KeyValue::new("numbers", Value::Array(Array::I64(vec![0, -1, i64::MAX]))),
        KeyValue::new("floats", Value::Array(Array::F64(vec![0.0, f64::NAN, -1.5]))),
        KeyValue::new("texts", Value::Array(Array::String(texts))),
        KeyValue::new("empty list", Value::Array(Array::I64(Vec::new()))),
    ]
}

fn keyless_resource() -> Resource {
    Resource::builder().with_service_name("shop").with_attribute(KeyValue::new("", "of the resource")).build()
}

fn nest(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    tracer.in_span("outer", |_| {
        tracer.in_span("middle", |_| tracer.in_span("inner", |_| {}));
        tracer.in_span("second", |_| {});
    });
}

fn kinds(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    for kind in
        [SpanKind::Server, SpanKind::Client, SpanKind::Producer, SpanKind::Consumer, SpanKind::Internal]
    {
        SpanBuilder::from_name("span").with_kind(kind).start(&tracer).end();
    }
}

fn attributes(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    let mut span = SpanBuilder::from_name("span").with_attributes(kinds_of_values()).start(&tracer);
    span.set_attribute(KeyValue::new("late", true));
    span.set_attributes([KeyValue::new("later", 1), KeyValue::new("latest", "2")]);
}

fn twice(sdk: &Sdk) {
    let mut span = sdk.tracing.tracer("shop").start("span");
    span.set_attribute(KeyValue::new("twice", 1));
    span.set_attribute(KeyValue::new("other", "x"));
    span.set_attribute(KeyValue::new("twice", 2));
}

fn keyless(sdk: &Sdk) {
    let scope = InstrumentationScope::builder("shop").with_attributes([KeyValue::new("", "of the scope")]);
    let tracer = sdk.tracing.tracer_with_scope(scope.build());
    let mut span =
        SpanBuilder::from_name("span").with_attributes([KeyValue::new("", "of the span")]).start(&tracer);
    span.add_event("event", vec![KeyValue::new("", "of the event"), KeyValue::new("kept", true)]);
    span.add_link(elsewhere(TraceFlags::SAMPLED, true, ""), vec![KeyValue::new("", "of the link")]);
}

fn events(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    let early = Event::new("early", SystemTime::UNIX_EPOCH, vec![KeyValue::new("answer", 42)], 7);
    let mut span = SpanBuilder::from_name("span").with_events(vec![early]).start(&tracer);
    span.add_event("plain", Vec::new());
    span.add_event("", kinds_of_values());
    span.add_event_with_timestamp("future", SystemTime::now() + Duration::from_secs(3600), Vec::new());
    span.record_error(&std::io::Error::other("no milk"));
}

fn links(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    let first = tracer.start("first");
    let links = vec![
        Link::new(first.span_context().clone(), kinds_of_values(), 3),
        Link::with_context(elsewhere(TraceFlags::SAMPLED, true, "vendor=one,other=two")),
    ];
    let mut span = SpanBuilder::from_name("span").with_links(links).start(&tracer);
    span.add_link(elsewhere(TraceFlags::NOT_SAMPLED, false, ""), vec![KeyValue::new("late", true)]);
    span.add_link(SpanContext::empty_context(), Vec::new());
}

fn statuses(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    for status in [Status::Unset, Status::Ok, Status::error(""), Status::error("no milk")] {
        tracer.start("span").set_status(status);
    }
    let mut span = tracer.start("changed");
    span.set_status(Status::error("no milk"));
    span.set_status(Status::Ok);
    span.update_name("changed twice");
}

fn times(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    let year = Duration::from_secs(365 * 24 * 3600);
    let start_and_end = [
        (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH),
        (SystemTime::UNIX_EPOCH - year, SystemTime::UNIX_EPOCH + Duration::from_nanos(1)),
        (SystemTime::now() + year, SystemTime::now() - year),
        (SystemTime::UNIX_EPOCH + 600 * year, SystemTime::UNIX_EPOCH + 700 * year),
    ];
    for (start, end) in start_and_end {
        SpanBuilder::from_name("span").with_start_time(start).start(&tracer).end_with_timestamp(end);
    }
}

fn names(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("");
    for name in ["", "Grüße, 世界 🌍", "two\nlines\0"] {
        tracer.start(name);
    }
    tracer.start("long ".repeat(1000));
}

fn remote(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    let parents = [
        elsewhere(TraceFlags::SAMPLED, true, ""),
        elsewhere(TraceFlags::new(0xff), true, "vendor=one,other=two"),
        elsewhere(TraceFlags::SAMPLED, false, "vendor=one"),
        elsewhere(TraceFlags::NOT_SAMPLED, true, ""),
    ];
    for parent in parents {
        let context = Context::new().with_remote_span_context(parent);
        let span = tracer.start_with_context("span", &context);
        let context = context.with_span(span);
        tracer.start_with_context("child", &context);
    }
}

/// A scope with every field.
pub(super) fn scope(version: &'static str) -> InstrumentationScope {
    InstrumentationScope::builder("shop")
        .with_version(version)
        .with_schema_url("https://opentelemetry.io/schemas/1.30.0")
        .with_attributes(kinds_of_values())
        .build()
}

fn scopes(sdk: &Sdk) {
    let tracers = [
        sdk.tracing.tracer("shop"),
        sdk.tracing.tracer("till"),
        sdk.tracing.tracer_with_scope(scope("1.0.0")),
        sdk.tracing.tracer_with_scope(scope("2.0.0")),
        sdk.tracing.tracer_with_scope(scope("1.0.0")),
    ];
    for _ in 0..2 {
        for tracer in &tracers {
            tracer.start("span");
        }
    }
}

fn limits(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    let many = || (0..200).map(|number| KeyValue::new(format!("key {number}"), number)).collect::<Vec<_>>();
    let mut span = SpanBuilder::from_name("span").with_attributes(many()).start(&tracer);
    span.set_attributes(many());
    for number in 0..200 {
        span.add_event(format!("event {number}"), if number == 0 { many() } else { Vec::new() });
        let attributes = if number == 0 { many() } else { Vec::new() };
        span.add_link(elsewhere(TraceFlags::SAMPLED, true, ""), attributes);
    }
}

fn thousands(sdk: &Sdk) {
    let tracer = sdk.tracing.tracer("shop");
    // Fewer spans than the SDK's own queue can hold, so that the SDK loses none.
    for number in 0..2000 {
        SpanBuilder::from_name("span").with_attributes([KeyValue::new("number", number)]).start(&tracer);
    }
}

fn everything(sdk: &Sdk) {
    let mut span = sdk.tracing.tracer("shop").start("span");
    span.set_attributes(kinds_of_values());
    span.add_event("first", Vec::new());
    span.add_event("second", kinds_of_values());
    span.add_event("third", Vec::new());
    span.add_link(elsewhere(TraceFlags::SAMPLED, true, ""), kinds_of_values());
}

fn elsewhere(flags: TraceFlags, is_remote: bool, state: &str) -> SpanContext {
    let trace_id = TraceId::from(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
    let state = state.split(',').filter_map(|entry| entry.split_once('='));
    let state = TraceState::from_key_value(state).unwrap();
    SpanContext::new(trace_id, SpanId::from(0x00f0_67aa_0ba9_02b7), flags, is_remote, state)
}
