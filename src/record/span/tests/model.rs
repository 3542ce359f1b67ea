//! The same span as plain messages with plain vectors: slow, short, and obviously right.

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::{Span, Status, span};

use super::super::{SpanKind, SpanLimits, Value};
use super::story::{Setting, Step, Story, Target};

/// What must arrive when the story is told under these limits.
pub(super) fn span(story: &Story, limits: &SpanLimits) -> Span {
    let mut span = Span {
        trace_id: story.trace_id.to_vec(),
        span_id: story.span_id.to_vec(),
        trace_state: story.trace_state.clone(),
        parent_span_id: story.parent.map_or(Vec::new(), |parent| parent.to_vec()),
        flags: flags(story.trace_flags, story.parent_is_remote),
        name: story.name.clone(),
        kind: span::SpanKind::Internal.into(),
        start_time_unix_nano: story.start,
        end_time_unix_nano: story.end.max(story.start),
        ..Default::default()
    };
    for step in &story.steps {
        add(&mut span, step, limits);
    }
    span
}

fn add(span: &mut Span, step: &Step, limits: &SpanLimits) {
    let longest = limits.value_length;
    match step {
        Step::Set(setting) => {
            if !set(&mut span.attributes, setting, limits.attributes, longest) {
                span.dropped_attributes_count += 1;
            }
        }
        Step::Kind(kind) => span.kind = proto_kind(*kind).into(),
        Step::Ok | Step::Error(_) => {
            if span.status.as_ref().is_none_or(|status| status.code != 1) {
                span.status = Some(status(step));
            }
        }
        Step::Event { .. } if span.events.len() >= limits.events as usize => span.dropped_events_count += 1,
        Step::Event { name, time, settings } => {
            let (attributes, dropped) = set_all(settings, limits.event_attributes, longest);
            span.events.push(span::Event {
                time_unix_nano: *time,
                name: name.clone(),
                attributes,
                dropped_attributes_count: dropped,
            });
        }
        Step::Link { .. } if span.links.len() >= limits.links as usize => span.dropped_links_count += 1,
        Step::Link { target, settings } => {
            let (attributes, dropped) = set_all(settings, limits.link_attributes, longest);
            span.links.push(link(target, attributes, dropped));
        }
    }
}

fn link(target: &Target, attributes: Vec<KeyValue>, dropped: u32) -> span::Link {
    span::Link {
        trace_id: target.trace_id.to_vec(),
        span_id: target.span_id.to_vec(),
        trace_state: target.trace_state.clone(),
        attributes,
        dropped_attributes_count: dropped,
        flags: flags(target.trace_flags, target.is_remote),
    }
}

fn status(step: &Step) -> Status {
    match step {
        Step::Error(message) => Status { code: 2, message: message.clone() },
        _ => Status { code: 1, message: String::new() },
    }
}

/// The trace's flags, "it is known whether the context is remote", and "it is".
fn flags(trace_flags: u8, is_remote: bool) -> u32 {
    u32::from(trace_flags) + 256 + if is_remote { 512 } else { 0 }
}

fn proto_kind(kind: SpanKind) -> span::SpanKind {
    match kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
        SpanKind::Producer => span::SpanKind::Producer,
        SpanKind::Consumer => span::SpanKind::Consumer,
    }
}

fn set_all(settings: &[Setting], most: u32, longest: Option<usize>) -> (Vec<KeyValue>, u32) {
    let mut attributes = Vec::new();
    let dropped = settings.iter().filter(|setting| !set(&mut attributes, setting, most, longest)).count();
    (attributes, dropped as u32)
}

/// A key that is known is replaced and goes to the end, even when there is no place for a new one.
fn set(attributes: &mut Vec<KeyValue>, (key, value): &Setting, most: u32, longest: Option<usize>) -> bool {
    let known = attributes.iter().position(|attribute| attribute.key == *key);
    if key.is_empty() || (known.is_none() && attributes.len() >= most as usize) {
        return false;
    }
    if let Some(index) = known {
        attributes.remove(index);
    }
    attributes.push(entry(key, *value, longest));
    true
}

fn entry(key: &str, value: Value<'_>, longest: Option<usize>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any_value(value, longest)), ..Default::default() }
}

fn any_value(value: Value<'_>, longest: Option<usize>) -> AnyValue {
    let text = |text: &str| text.chars().take(longest.unwrap_or(usize::MAX)).collect();
    let value = match value {
        Value::Str(string) => ProtoValue::StringValue(text(string)),
        Value::Bool(truth) => ProtoValue::BoolValue(truth),
        Value::Int(number) => ProtoValue::IntValue(number),
        Value::Float(number) => ProtoValue::DoubleValue(number),
        Value::Bytes(bytes) => {
            ProtoValue::BytesValue(bytes[..bytes.len().min(longest.unwrap_or(usize::MAX))].to_vec())
        }
        Value::Array(values) => array(values, |value| any_value(value, longest)),
        Value::Strs(values) => array(values, |string| any_value(Value::Str(string), longest)),
        Value::Bools(values) => array(values, |truth| any_value(Value::Bool(truth), longest)),
        Value::Ints(values) => array(values, |number| any_value(Value::Int(number), longest)),
        Value::Floats(values) => array(values, |number| any_value(Value::Float(number), longest)),
        Value::Map(entries) => {
            let mut values: Vec<KeyValue> = Vec::new();
            for (key, value) in entries {
                values.retain(|earlier| earlier.key != *key);
                values.push(entry(key, *value, longest));
            }
            ProtoValue::KvlistValue(KeyValueList { values })
        }
    };
    AnyValue { value: Some(value) }
}

fn array<T: Copy>(values: &[T], element: impl Fn(T) -> AnyValue) -> ProtoValue {
    ProtoValue::ArrayValue(ArrayValue { values: values.iter().copied().map(element).collect() })
}
