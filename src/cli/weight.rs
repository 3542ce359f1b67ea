//! What does a record take in memory? An estimate for each, so that a large one among small ones is not shared out among them.

use standpipe::receiver::proto::{
    AnyValue, Event, ExponentialHistogramDataPoint, InstrumentationScope, KeyValue, Link, LogRecord, Metric,
    Resource, Span, Value,
};

use super::point_view::{self, Point};

/// What an allocator keeps for itself, of each allocation.
const ALLOCATION: usize = 16;

pub(super) fn span(span: &Span) -> usize {
    let texts = [&span.name, &span.trace_state].map(|text| text.len() + ALLOCATION);
    let ids = [&span.trace_id, &span.span_id, &span.parent_span_id].map(|id| id.len() + ALLOCATION);
    let events =
        span.events.iter().map(|event| size_of::<Event>() + event.name.len() + attributes(&event.attributes));
    let links = span.links.iter().map(|link| {
        let ids = link.trace_id.len() + link.span_id.len() + 2 * ALLOCATION;
        size_of::<Link>() + ids + link.trace_state.len() + attributes(&link.attributes)
    });
    let message = span.status.as_ref().map_or(0, |status| status.message.len());
    let lists = events.chain(links).sum::<usize>() + attributes(&span.attributes);
    size_of::<Span>() + ALLOCATION + texts.iter().chain(&ids).sum::<usize>() + lists + message
}

pub(super) fn log(log: &LogRecord) -> usize {
    let texts = log.severity_text.len() + log.event_name.len() + log.trace_id.len() + log.span_id.len();
    size_of::<LogRecord>() + 5 * ALLOCATION + texts + value(log.body.as_ref()) + attributes(&log.attributes)
}

pub(super) fn metric(metric: &Metric) -> usize {
    let texts = [&metric.name, &metric.unit, &metric.description].map(|text| text.len() + ALLOCATION);
    let points = point_view::of(metric, "");
    let points = points.iter().filter(|view| !matches!(view.point, Point::Missing)).map(|view| {
        // the largest kind; bounds and counts have a number each for every bucket
        let numbers = 2 * size_of::<u64>() * view.buckets().len();
        size_of::<ExponentialHistogramDataPoint>() + numbers + attributes(view.attributes())
    });
    size_of::<Metric>() + texts.iter().sum::<usize>() + points.sum::<usize>()
}

/// What records share.
pub(super) fn origin(resource: &Resource, scope: &InstrumentationScope) -> usize {
    let scope_texts = scope.name.len() + scope.version.len();
    let structs = size_of::<Resource>() + size_of::<InstrumentationScope>() + 4 * ALLOCATION;
    structs + scope_texts + attributes(&resource.attributes) + attributes(&scope.attributes)
}

fn attributes(list: &[KeyValue]) -> usize {
    list.iter().map(key_value).sum()
}

fn key_value(attribute: &KeyValue) -> usize {
    size_of::<KeyValue>() + attribute.key.len() + ALLOCATION + value(attribute.value.as_ref())
}

/// Beside the value itself, which is part of what it belongs to.
fn value(value: Option<&AnyValue>) -> usize {
    let of_item = |item: &AnyValue| size_of::<AnyValue>() + self::value(Some(item));
    ALLOCATION
        + match value.and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => text.len(),
            Some(Value::BytesValue(bytes)) => bytes.len(),
            Some(Value::ArrayValue(list)) => list.values.iter().map(of_item).sum(),
            Some(Value::KvlistValue(list)) => attributes(&list.values),
            _ => 0,
        }
}
