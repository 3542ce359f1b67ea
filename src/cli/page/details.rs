//! JSON of one trace for the page: the columns of the waterfall, details of spans and log records, and text to copy.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value as Json, json};
use standpipe::receiver::proto::{AnyValue, InstrumentationScope, KeyValue, Value};
use standpipe::receiver::{ReceivedSpan, Records};

use super::super::describe::{self, LogView, SpanView};
use super::super::style::{Palette, plain_style};
use super::super::text::brief;
use super::super::waterfall;
use super::Page;
use super::store::{KeptLog, Trace, is_error};

/// Returns all details of a span. `logs` are the log records of its trace.
pub(super) fn span(received: &ReceivedSpan, logs: &[Arc<KeptLog>]) -> Json {
    let (span, view) = (&received.span, SpanView::from(received));
    let events = span.events.iter().map(|event| {
        // In nanoseconds since the start of the span; negative for an event before the start.
        let offset = event.time_unix_nano.wrapping_sub(span.start_time_unix_nano) as i64;
        json!({ "name": event.name, "offset": offset, "attributes": attributes(&event.attributes) })
    });
    let links = span.links.iter().map(|link| {
        let (trace, span) = (describe::id(&link.trace_id), describe::id(&link.span_id));
        json!({ "trace": trace, "span": span, "attributes": attributes(&link.attributes) })
    });
    let is_of_span = |kept: &&Arc<KeptLog>| kept.log.log.span_id == span.span_id;
    json!({
        "trace": describe::id(&span.trace_id),
        "id": describe::id(&span.span_id),
        "parent": describe::id(&span.parent_span_id),
        "name": span.name,
        "kind": view.kind(),
        "status": view.status(),
        "message": span.status.as_ref().map_or("", |status| &status.message),
        // In nanoseconds since 1970, as text: JavaScript numbers represent integers exactly only up to 53 bits.
        "start": span.start_time_unix_nano.to_string(),
        "nanos": view.nanos(),
        "state": span.trace_state,
        "flags": span.flags,
        "attributes": attributes(&span.attributes),
        "dropped_attributes": span.dropped_attributes_count,
        "events": events.collect::<Json>(),
        "dropped_events": span.dropped_events_count,
        "links": links.collect::<Json>(),
        "dropped_links": span.dropped_links_count,
        "resource": attributes(&received.resource.attributes),
        "scope": scope(&received.scope),
        "logs": logs.iter().filter(is_of_span).map(|kept| log(kept)).collect::<Json>(),
    })
}

/// Returns the row of a log record in a list, with the beginning of its body and attributes.
pub(super) fn log_row(kept: &KeptLog) -> Json {
    let (log, view) = (&kept.log.log, LogView::from(&kept.log));
    let text = format!("{}   {}", view.body(), describe::attributes(&log.attributes));
    json!({
        "number": kept.number,
        // In milliseconds since 1970.
        "time": view.unix_nanos() as f64 / 1e6,
        "severity": brief(&view.severity()),
        "level": log.severity_number,
        "service": kept.service,
        "event": brief(&log.event_name),
        "text": brief(text.trim_end()),
        "trace": describe::id(&log.trace_id),
        "span": describe::id(&log.span_id),
    })
}

/// Returns all details of a log record.
pub(super) fn log(kept: &KeptLog) -> Json {
    let mut log = log_row(kept);
    log["body"] = LogView::from(&kept.log).body().into();
    log["attributes"] = attributes(&kept.log.log.attributes);
    log["resource"] = attributes(&kept.log.resource.attributes);
    log["scope"] = scope(&kept.log.scope);
    log
}

fn scope(scope: &InstrumentationScope) -> Json {
    json!({ "name": scope.name, "version": scope.version, "attributes": attributes(&scope.attributes) })
}

/// Returns the key, type and value of each attribute. Values are text, because JavaScript cannot represent all 64-bit
/// integers.
fn attributes(list: &[KeyValue]) -> Json {
    let each = list.iter().map(|attribute| {
        let (kind, text) = shown(attribute.value.as_ref());
        json!([attribute.key, kind, text])
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

/// Width of a trace that is copied as text, in cells.
const TEXT_WIDTH: usize = 110;

/// All spans of a trace as columns, in the order of their arrival.
///
/// The columns contain no attributes, so they take a fraction of the bytes of complete spans. Names are indices into
/// `names`, parents are indices of spans, and times are nanoseconds since the start of the trace.
#[derive(Default, Serialize)]
pub(super) struct Columns {
    id: String,
    /// Start of the trace in nanoseconds since 1970, as text: JavaScript numbers represent integers exactly only up to
    /// 53 bits.
    base: String,
    nanos: u64,
    changed: u64,
    left_out: u64,
    names: Vec<String>,
    name: Vec<u32>,
    service: Vec<u32>,
    /// Span ids, sixteen digits each, concatenated.
    ids: String,
    /// Index of the parent; −1 without a parent, −2 if the parent is missing.
    parent: Vec<i32>,
    start: Vec<u64>,
    duration: Vec<u64>,
    kind: Vec<u8>,
    /// Bits: 1 for an error, 2 if the span ends before it starts.
    flags: Vec<u8>,
    /// Span and time of each event.
    events: Vec<(usize, u64)>,
    /// Span, time and severity of each log record. The span is −1 if it is not in the trace.
    logs: Vec<(i32, u64, i32)>,
}

pub(super) fn columns(trace: &Trace, page: &Page) -> Columns {
    let mut columns = Columns {
        id: describe::id(&trace.key),
        base: trace.start.to_string(),
        nanos: trace.nanos(),
        changed: trace.changed,
        left_out: trace.left_out,
        ..Columns::default()
    };
    let mut names: HashMap<&str, u32> = HashMap::new();
    // `collect` keeps the last index of an id. In reverse order, this is the first span with the id.
    let in_reverse = trace.spans.iter().enumerate().rev();
    let indices: HashMap<&[u8], usize> =
        in_reverse.map(|(index, received)| (&received.span.span_id[..], index)).collect();
    for (index, received) in trace.spans.iter().enumerate() {
        let span = &received.span;
        let name = *names.entry(&span.name).or_insert_with(|| {
            columns.names.push(brief(&span.name));
            columns.names.len() as u32 - 1
        });
        columns.name.push(name);
        // The lock is taken for each span, so that a large trace does not delay senders.
        columns.service.push(page.lock().service_number(&brief(received.service_name())));
        // An id of a wrong length, from a faulty sender, is cut or padded with zeros.
        let id: String = describe::id(&span.span_id).chars().chain("0".repeat(16).chars()).take(16).collect();
        columns.ids.push_str(&id);
        columns.parent.push(match (received.parent_id(), indices.get(&span.parent_span_id[..])) {
            (None, _) => -1,
            (Some(_), None) => -2,
            (Some(_), Some(parent)) => *parent as i32,
        });
        columns.start.push(span.start_time_unix_nano - trace.start);
        columns.duration.push(span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano));
        columns.kind.push(u8::try_from(span.kind).unwrap_or(0));
        let ends_early = span.end_time_unix_nano < span.start_time_unix_nano;
        columns.flags.push(u8::from(is_error(received)) | u8::from(ends_early) << 1);
        let events = span.events.iter();
        columns.events.extend(events.map(|event| (index, event.time_unix_nano.saturating_sub(trace.start))));
    }
    let log = |kept: &Arc<KeptLog>| {
        let span = indices.get(&kept.log.log.span_id[..]).map_or(-1, |index| *index as i32);
        let time = LogView::from(&kept.log).unix_nanos().saturating_sub(trace.start);
        (span, time, kept.log.log.severity_number)
    };
    columns.logs = page.lock().logs_of(&trace.key).iter().map(log).collect();
    columns
}

/// Draws records as the terminal shows them.
pub(super) fn text(records: &Records) -> String {
    let spans: Vec<SpanView<'_>> = records.spans.iter().map(SpanView::from).collect();
    let logs: Vec<LogView<'_>> = records.logs.iter().map(LogView::from).collect();
    let options = waterfall::Options { full: true, ..waterfall::Options::default() };
    let mut lines =
        waterfall::draw(&spans, &logs, options, &mut Palette::default(), &plain_style(TEXT_WIDTH));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the records of the span with index `top` and its descendants; of the whole trace if there is no such span.
pub(super) fn part(trace: &Trace, top: Option<usize>, page: &Page) -> Records {
    let mut part = Records::default();
    part.spans.clone_from(&trace.spans);
    part.logs = page.lock().logs_of(&trace.key).iter().map(|kept| kept.log.clone()).collect();
    if let Some(top) = top.and_then(|top| trace.spans.get(top)) {
        let spans = trace.spans.iter().map(|received| &*received.span);
        let ids = describe::with_descendants(spans, std::iter::once(&*top.span));
        part.spans.retain(|received| ids.contains(&received.span.span_id[..]));
        part.logs.retain(|received| ids.contains(&received.log.span_id[..]));
    }
    part
}
