//! What is there to know about one span, or one log record? All of it, as JSON.

use std::sync::Arc;

use serde::Serialize;
use standpipe::receiver::ReceivedSpan;
use standpipe::receiver::proto::{AnyValue, InstrumentationScope, KeyValue, Value};

use super::super::describe::{self, SpanView};
use super::super::log_view::LogView;
use super::super::text;
use super::store::KeptLog;

/// Characters of a text in a list: a thousand rows must not be a gigabyte.
const LONGEST_IN_ROW: usize = 500;

/// A key, the kind of its value, and the value as text: numbers of JavaScript cannot hold all integers.
type Attribute = (String, &'static str, String);

#[derive(Serialize)]
pub(super) struct SpanDetails {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: &'static str,
    status: &'static str,
    message: String,
    /// Nanoseconds since 1970.
    start: String,
    nanos: u64,
    state: String,
    flags: u32,
    attributes: Vec<Attribute>,
    dropped_attributes: u32,
    events: Vec<Event>,
    dropped_events: u32,
    links: Vec<Link>,
    dropped_links: u32,
    resource: Vec<Attribute>,
    scope: Scope,
    logs: Vec<LogDetails>,
}

#[derive(Serialize)]
struct Event {
    name: String,
    /// Nanoseconds since the span's start.
    offset: i64,
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct Link {
    trace: String,
    span: String,
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct Scope {
    name: String,
    version: String,
    attributes: Vec<Attribute>,
}

/// What a list shows of a log record.
#[derive(Serialize)]
pub(super) struct LogRow {
    number: u64,
    /// Milliseconds since 1970.
    time: f64,
    severity: String,
    level: i32,
    service: u32,
    event: String,
    /// The beginning of its body and of its attributes.
    text: String,
    trace: String,
    span: String,
}

#[derive(Serialize)]
pub(super) struct LogDetails {
    #[serde(flatten)]
    row: LogRow,
    body: String,
    attributes: Vec<Attribute>,
    resource: Vec<Attribute>,
    scope: Scope,
}

/// `logs` are those of its trace.
pub(super) fn span(received: &ReceivedSpan, logs: &[Arc<KeptLog>]) -> SpanDetails {
    let (span, view) = (&received.span, SpanView::from(received));
    let offset = |time: u64| time.wrapping_sub(span.start_time_unix_nano) as i64;
    let events = span.events.iter().map(|event| Event {
        name: event.name.clone(),
        offset: offset(event.time_unix_nano),
        attributes: attributes(&event.attributes),
    });
    let links = span.links.iter().map(|link| Link {
        trace: describe::id(&link.trace_id),
        span: describe::id(&link.span_id),
        attributes: attributes(&link.attributes),
    });
    let is_of_span = |kept: &&Arc<KeptLog>| kept.log.log.span_id == span.span_id;
    SpanDetails {
        trace: describe::id(&span.trace_id),
        id: describe::id(&span.span_id),
        parent: describe::id(&span.parent_span_id),
        name: span.name.clone(),
        kind: view.kind(),
        status: view.status(),
        message: span.status.as_ref().map(|status| status.message.clone()).unwrap_or_default(),
        start: span.start_time_unix_nano.to_string(),
        nanos: view.nanos(),
        state: span.trace_state.clone(),
        flags: span.flags,
        attributes: attributes(&span.attributes),
        dropped_attributes: span.dropped_attributes_count,
        events: events.collect(),
        dropped_events: span.dropped_events_count,
        links: links.collect(),
        dropped_links: span.dropped_links_count,
        resource: attributes(&received.resource.attributes),
        scope: scope(&received.scope),
        logs: logs.iter().filter(is_of_span).map(|kept| log(kept)).collect(),
    }
}

pub(super) fn log_row(kept: &KeptLog) -> LogRow {
    let (log, view) = (&kept.log.log, LogView::from(&kept.log));
    let text = format!("{}   {}", view.body(), describe::attributes(&log.attributes));
    LogRow {
        number: kept.number,
        time: view.unix_nanos() as f64 / 1e6,
        severity: shorten(&view.severity()),
        level: log.severity_number,
        service: kept.service,
        event: shorten(&log.event_name),
        text: shorten(text.trim_end()),
        trace: describe::id(&log.trace_id),
        span: describe::id(&log.span_id),
    }
}

pub(super) fn log(kept: &KeptLog) -> LogDetails {
    LogDetails {
        row: log_row(kept),
        body: LogView::from(&kept.log).body(),
        attributes: attributes(&kept.log.log.attributes),
        resource: attributes(&kept.log.resource.attributes),
        scope: scope(&kept.log.scope),
    }
}

/// As much of a text as a row has room for.
pub(super) fn shorten(text: &str) -> String {
    text::cut(text, LONGEST_IN_ROW, "…").into_owned()
}

fn scope(scope: &InstrumentationScope) -> Scope {
    let (name, version) = (scope.name.clone(), scope.version.clone());
    Scope { name, version, attributes: attributes(&scope.attributes) }
}

fn attributes(list: &[KeyValue]) -> Vec<Attribute> {
    let each = list.iter().map(|attribute| {
        let (kind, text) = shown(attribute.value.as_ref());
        (attribute.key.clone(), kind, text)
    });
    each.collect()
}

fn shown(value: Option<&AnyValue>) -> (&'static str, String) {
    let kind = match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => return ("text", text.clone()),
        Some(Value::BoolValue(_)) => "bool",
        Some(Value::IntValue(_)) => "int",
        Some(Value::DoubleValue(_)) => "double",
        Some(Value::BytesValue(_)) => "bytes",
        Some(Value::ArrayValue(_)) => "array",
        Some(Value::KvlistValue(_)) => "map",
        None => "empty",
    };
    (kind, describe::whole_value(value))
}
