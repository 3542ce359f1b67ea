//! Received records, field by field. Only the collection times of metrics are ignored.

use standpipe::receiver::proto::{
    Buckets, Data, ExponentialHistogramDataPoint, HistogramDataPoint, InstrumentationScope, KeyValue, Metric,
    NumberDataPoint, Resource,
};
use standpipe::receiver::{ReceivedLog, ReceivedMetric, ReceivedSpan, Receiver};

use crate::told::{Facts, hex, of_kind};

/// A received record.
pub(super) struct Record {
    pub(super) name: String,
    pub(super) facts: Facts,
}

/// All received records.
#[derive(Clone)]
pub(crate) struct Arrived {
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) logs: Vec<ReceivedLog>,
    pub(crate) metrics: Vec<ReceivedMetric>,
}

impl Arrived {
    pub(super) fn at(receiver: &Receiver) -> Self {
        Self { spans: receiver.spans(), logs: receiver.logs(), metrics: receiver.metrics() }
    }
}

/// Returns the records in an order that does not depend on the exporter.
pub(super) fn records(arrived: &Arrived) -> Vec<Record> {
    let Arrived { mut spans, mut logs, mut metrics } = arrived.clone();
    spans.sort_by_key(|received| received.span.span_id.clone());
    logs.sort_by_key(|received| received.log.observed_time_unix_nano);
    // The sort is stable: metrics of one name stay in the order of arrival.
    metrics.sort_by_key(|received| (received.scope.name.clone(), received.metric.name.clone()));
    let metrics = metrics.chunk_by(are_of_one).map(metric);
    spans.iter().map(span).chain(logs.iter().map(log)).chain(metrics).collect()
}

fn span(received: &ReceivedSpan) -> Record {
    let span = &*received.span;
    let mut facts = origin(&received.resource, &received.scope);
    let mut fact = |name: &str, value: String| drop(facts.insert(name.to_owned(), value));
    fact("name", span.name.clone());
    fact("ids", format!("{} {}", hex(&span.trace_id), hex(&span.span_id)));
    fact("parent", hex(&span.parent_span_id));
    fact("trace state", span.trace_state.clone());
    fact("flags", format!("{:#x}", span.flags));
    fact("kind", span.kind.to_string());
    fact("times", format!("{} to {}", span.start_time_unix_nano, span.end_time_unix_nano));
    fact("status", format!("{:?}", span.status.clone().unwrap_or_default()));
    fact("dropped attributes", span.dropped_attributes_count.to_string());
    fact("dropped events", span.dropped_events_count.to_string());
    fact("dropped links", span.dropped_links_count.to_string());
    fact("attributes", list(&span.attributes));
    for (index, event) in span.events.iter().enumerate() {
        let said = format!(
            "{:?} at {} dropping {}",
            event.name, event.time_unix_nano, event.dropped_attributes_count
        );
        fact(&format!("event {}", index + 1), said);
        fact(&format!("event {} attributes", index + 1), list(&event.attributes));
    }
    for (index, link) in span.links.iter().enumerate() {
        let ids = format!("{} {}", hex(&link.trace_id), hex(&link.span_id));
        let rest =
            format!("{:?} {:#x} dropping {}", link.trace_state, link.flags, link.dropped_attributes_count);
        fact(&format!("link {}", index + 1), format!("{ids} {rest}"));
        fact(&format!("link {} attributes", index + 1), list(&link.attributes));
    }
    Record { name: span.name.clone(), facts }
}

fn log(received: &ReceivedLog) -> Record {
    let log = &*received.log;
    let mut facts = origin(&received.resource, &received.scope);
    let mut fact = |name: &str, value: String| drop(facts.insert(name.to_owned(), value));
    fact("body", of_kind(log.body.as_ref()));
    fact("severity", format!("{} {:?}", log.severity_number, log.severity_text));
    fact("event name", log.event_name.clone());
    fact("times", format!("{} observed {}", log.time_unix_nano, log.observed_time_unix_nano));
    fact("ids", format!("{} {}", hex(&log.trace_id), hex(&log.span_id)));
    fact("flags", format!("{:#x}", log.flags));
    fact("dropped attributes", log.dropped_attributes_count.to_string());
    fact("attributes", list(&log.attributes));
    Record { name: format!("log record {}", of_kind(log.body.as_ref())), facts }
}

/// Returns a metric of one export, which may have arrived in several parts.
fn metric(parts: &[ReceivedMetric]) -> Record {
    let metric: &Metric = &parts[0].metric;
    let mut facts = origin(&parts[0].resource, &parts[0].scope);
    let mut fact = |name: &str, value: String| drop(facts.insert(name.to_owned(), value));
    fact("name", metric.name.clone());
    fact("description", metric.description.clone());
    fact("unit", metric.unit.clone());
    fact("metadata", list(&metric.metadata));
    fact("kind", kind(metric.data.as_ref()));
    fact("parts", parts.len().to_string());
    for point in parts.iter().flat_map(|part| points(part.metric.data.as_ref())) {
        // The SDK exports data points in any order, so each point is a separate fact.
        let short: String = point.attributes.chars().take(80).collect();
        facts
            .entry(format!("point {short}"))
            .and_modify(|told| *told += &format!(" and {}", point.told))
            .or_insert(point.told);
    }
    Record { name: metric.name.clone(), facts }
}

/// Returns whether both are parts of one metric of one collection.
fn are_of_one(one: &ReceivedMetric, two: &ReceivedMetric) -> bool {
    let time =
        |received: &ReceivedMetric| points(received.metric.data.as_ref()).first().map(|point| point.time);
    one.scope == two.scope && one.metric.name == two.metric.name && time(one) == time(two)
}

struct Point {
    attributes: String,
    time: u64,
    told: String,
}

fn kind(data: Option<&Data>) -> String {
    match data {
        None => "nothing".to_owned(),
        Some(Data::Gauge(_)) => "gauge".to_owned(),
        Some(Data::Sum(sum)) => {
            format!("sum, temporality {}, monotonic {}", sum.aggregation_temporality, sum.is_monotonic)
        }
        Some(Data::Histogram(histogram)) => {
            format!("histogram, temporality {}", histogram.aggregation_temporality)
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            format!("exponential histogram, temporality {}", histogram.aggregation_temporality)
        }
        Some(Data::Summary(_)) => "summary".to_owned(),
    }
}

fn points(data: Option<&Data>) -> Vec<Point> {
    match data {
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(number).collect(),
        Some(Data::Sum(sum)) => sum.data_points.iter().map(number).collect(),
        Some(Data::Histogram(histogram)) => histogram.data_points.iter().map(distribution).collect(),
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.data_points.iter().map(exponential).collect()
        }
        Some(Data::Summary(_)) | None => Vec::new(),
    }
}

fn number(point: &NumberDataPoint) -> Point {
    let NumberDataPoint { value, flags, exemplars, .. } = point;
    let times = times(point.start_time_unix_nano, point.time_unix_nano);
    let told = format!("{value:?}, flags {flags}, {} exemplars, {times}", exemplars.len());
    Point { attributes: set(&point.attributes), time: point.time_unix_nano, told }
}

fn distribution(point: &HistogramDataPoint) -> Point {
    let HistogramDataPoint { count, sum, min, max, bucket_counts, explicit_bounds, flags, exemplars, .. } =
        point;
    let times = times(point.start_time_unix_nano, point.time_unix_nano);
    let told = format!(
        "{count} values, sum {sum:?}, from {min:?} to {max:?}, {bucket_counts:?} between {explicit_bounds:?}, \
         flags {flags}, {} exemplars, {times}",
        exemplars.len()
    );
    Point { attributes: set(&point.attributes), time: point.time_unix_nano, told }
}

fn exponential(point: &ExponentialHistogramDataPoint) -> Point {
    let ExponentialHistogramDataPoint {
        count, sum, min, max, scale, zero_count, zero_threshold, flags, ..
    } = point;
    let times = times(point.start_time_unix_nano, point.time_unix_nano);
    // Missing buckets and empty buckets are equal.
    let buckets = |buckets: &Option<Buckets>| {
        let Buckets { offset, bucket_counts } = buckets.clone().unwrap_or_default();
        format!("{bucket_counts:?} from {offset}")
    };
    let told = format!(
        "{count} values, sum {sum:?}, from {min:?} to {max:?}, scale {scale}, {zero_count} within {zero_threshold}, \
         above {}, below {}, flags {flags}, {} exemplars, {times}",
        buckets(&point.positive),
        buckets(&point.negative),
        point.exemplars.len()
    );
    Point { attributes: set(&point.attributes), time: point.time_unix_nano, told }
}

/// Two readers never collect at the same time, so the times are replaced.
fn times(start: u64, time: u64) -> &'static str {
    match (start, time) {
        (_, 0) => "at no time",
        (0, _) => "since no time",
        (start, time) if start <= time => "since a time before",
        _ => "since a time after",
    }
}

fn origin(resource: &Resource, scope: &InstrumentationScope) -> Facts {
    let scoped = format!("{:?} version {:?} {}", scope.name, scope.version, set(&scope.attributes));
    let dropped = resource.dropped_attributes_count + scope.dropped_attributes_count;
    let facts =
        [("resource", set(&resource.attributes)), ("scope", scoped), ("dropped above", dropped.to_string())];
    facts.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns attributes in the order of arrival.
fn list(attributes: &[KeyValue]) -> String {
    let one = |attribute: &KeyValue| format!("{}: {}", attribute.key, of_kind(attribute.value.as_ref()));
    attributes.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns attributes as text, sorted by key, because their order does not matter.
fn set(attributes: &[KeyValue]) -> String {
    let mut attributes = attributes.to_vec();
    attributes.sort_by(|one, two| one.key.cmp(&two.key));
    format!("{{{}}}", list(&attributes))
}
