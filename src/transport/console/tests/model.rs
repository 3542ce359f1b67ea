//! OTLP JSON, made from decoded messages: slow, long, and obviously right.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, SummaryDataPoint,
    exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use serde_json::{Map, Value as Json, json};

pub(super) fn traces(request: &ExportTraceServiceRequest) -> Json {
    object([(
        "resourceSpans",
        list(&request.resource_spans, |part| {
            let scopes = list(&part.scope_spans, |part| {
                records(&part.scope, "spans", list(&part.spans, span), &part.schema_url)
            });
            object([
                ("resource", part.resource.as_ref().map(resource)),
                ("scopeSpans", scopes),
                ("schemaUrl", text(&part.schema_url)),
            ])
        }),
    )])
}

pub(super) fn logs(request: &ExportLogsServiceRequest) -> Json {
    object([(
        "resourceLogs",
        list(&request.resource_logs, |part| {
            let scopes = list(&part.scope_logs, |part| {
                records(&part.scope, "logRecords", list(&part.log_records, log), &part.schema_url)
            });
            object([
                ("resource", part.resource.as_ref().map(resource)),
                ("scopeLogs", scopes),
                ("schemaUrl", text(&part.schema_url)),
            ])
        }),
    )])
}

pub(super) fn metrics(request: &ExportMetricsServiceRequest) -> Json {
    object([(
        "resourceMetrics",
        list(&request.resource_metrics, |part| {
            let scopes = list(&part.scope_metrics, |part| {
                records(&part.scope, "metrics", list(&part.metrics, metric), &part.schema_url)
            });
            object([
                ("resource", part.resource.as_ref().map(resource)),
                ("scopeMetrics", scopes),
                ("schemaUrl", text(&part.schema_url)),
            ])
        }),
    )])
}

fn records(
    scope: &Option<InstrumentationScope>,
    name: &str,
    records: Option<Json>,
    schema_url: &str,
) -> Json {
    object([("scope", scope.as_ref().map(self::scope)), (name, records), ("schemaUrl", text(schema_url))])
}

fn resource(resource: &Resource) -> Json {
    object([
        ("attributes", list(&resource.attributes, attribute)),
        ("droppedAttributesCount", count(resource.dropped_attributes_count)),
        ("entityRefs", list(&resource.entity_refs, entity)),
    ])
}

fn entity(entity: &EntityRef) -> Json {
    object([
        ("schemaUrl", text(&entity.schema_url)),
        ("type", text(&entity.r#type)),
        ("idKeys", list(&entity.id_keys, |key| json!(key))),
        ("descriptionKeys", list(&entity.description_keys, |key| json!(key))),
    ])
}

fn scope(scope: &InstrumentationScope) -> Json {
    object([
        ("name", text(&scope.name)),
        ("version", text(&scope.version)),
        ("attributes", list(&scope.attributes, attribute)),
        ("droppedAttributesCount", count(scope.dropped_attributes_count)),
    ])
}

fn attribute(attribute: &KeyValue) -> Json {
    object([("key", text(&attribute.key)), ("value", attribute.value.as_ref().map(value))])
}

fn value(value: &AnyValue) -> Json {
    let Some(value) = &value.value else { return json!({}) };
    match value {
        Value::StringValue(text) => json!({ "stringValue": text }),
        Value::BoolValue(truth) => json!({ "boolValue": truth }),
        Value::IntValue(number) => json!({ "intValue": number.to_string() }),
        Value::DoubleValue(number) => json!({ "doubleValue": double(*number) }),
        Value::ArrayValue(array) => {
            json!({ "arrayValue": object([("values", list(&array.values, self::value))]) })
        }
        Value::KvlistValue(map) => {
            json!({ "kvlistValue": object([("values", list(&map.values, attribute))]) })
        }
        Value::BytesValue(bytes) => json!({ "bytesValue": base64(bytes) }),
        Value::StringValueStrindex(_) => panic!("only profiles have it"),
    }
}

fn span(span: &Span) -> Json {
    object([
        ("traceId", hex(&span.trace_id)),
        ("spanId", hex(&span.span_id)),
        ("traceState", text(&span.trace_state)),
        ("parentSpanId", hex(&span.parent_span_id)),
        ("flags", count(span.flags)),
        ("name", text(&span.name)),
        ("kind", number(span.kind)),
        ("startTimeUnixNano", long(span.start_time_unix_nano)),
        ("endTimeUnixNano", long(span.end_time_unix_nano)),
        ("attributes", list(&span.attributes, attribute)),
        ("droppedAttributesCount", count(span.dropped_attributes_count)),
        ("events", list(&span.events, event)),
        ("droppedEventsCount", count(span.dropped_events_count)),
        ("links", list(&span.links, link)),
        ("droppedLinksCount", count(span.dropped_links_count)),
        (
            "status",
            span.status
                .as_ref()
                .map(|status| object([("message", text(&status.message)), ("code", number(status.code))])),
        ),
    ])
}

fn event(event: &Event) -> Json {
    object([
        ("timeUnixNano", long(event.time_unix_nano)),
        ("name", text(&event.name)),
        ("attributes", list(&event.attributes, attribute)),
        ("droppedAttributesCount", count(event.dropped_attributes_count)),
    ])
}

fn link(link: &Link) -> Json {
    object([
        ("traceId", hex(&link.trace_id)),
        ("spanId", hex(&link.span_id)),
        ("traceState", text(&link.trace_state)),
        ("attributes", list(&link.attributes, attribute)),
        ("droppedAttributesCount", count(link.dropped_attributes_count)),
        ("flags", count(link.flags)),
    ])
}

fn log(log: &LogRecord) -> Json {
    object([
        ("timeUnixNano", long(log.time_unix_nano)),
        ("observedTimeUnixNano", long(log.observed_time_unix_nano)),
        ("severityNumber", number(log.severity_number)),
        ("severityText", text(&log.severity_text)),
        ("eventName", text(&log.event_name)),
        ("body", log.body.as_ref().map(value)),
        ("attributes", list(&log.attributes, attribute)),
        ("droppedAttributesCount", count(log.dropped_attributes_count)),
        ("flags", count(log.flags)),
        ("traceId", hex(&log.trace_id)),
        ("spanId", hex(&log.span_id)),
    ])
}

fn metric(metric: &Metric) -> Json {
    let mut json = object([
        ("name", text(&metric.name)),
        ("description", text(&metric.description)),
        ("unit", text(&metric.unit)),
        ("metadata", list(&metric.metadata, attribute)),
    ]);
    let points = |points| ("dataPoints", points);
    let (name, data) = match &metric.data {
        None => return json,
        Some(Data::Gauge(data)) => ("gauge", object([points(list(&data.data_points, number_point))])),
        Some(Data::Sum(data)) => (
            "sum",
            object([
                points(list(&data.data_points, number_point)),
                ("aggregationTemporality", number(data.aggregation_temporality)),
                ("isMonotonic", data.is_monotonic.then_some(Json::Bool(true))),
            ]),
        ),
        Some(Data::Histogram(data)) => (
            "histogram",
            object([
                points(list(&data.data_points, histogram_point)),
                ("aggregationTemporality", number(data.aggregation_temporality)),
            ]),
        ),
        Some(Data::ExponentialHistogram(data)) => (
            "exponentialHistogram",
            object([
                points(list(&data.data_points, exponential_point)),
                ("aggregationTemporality", number(data.aggregation_temporality)),
            ]),
        ),
        Some(Data::Summary(data)) => ("summary", object([points(list(&data.data_points, summary_point))])),
    };
    json[name] = data;
    json
}

fn number_point(point: &NumberDataPoint) -> Json {
    let (name, value) = match point.value {
        None => ("asInt", None),
        Some(number_data_point::Value::AsDouble(number)) => ("asDouble", Some(double(number))),
        Some(number_data_point::Value::AsInt(number)) => ("asInt", Some(json!(number.to_string()))),
    };
    object([
        ("attributes", list(&point.attributes, attribute)),
        ("startTimeUnixNano", long(point.start_time_unix_nano)),
        ("timeUnixNano", long(point.time_unix_nano)),
        (name, value),
        ("exemplars", list(&point.exemplars, exemplar)),
        ("flags", count(point.flags)),
    ])
}

fn histogram_point(point: &HistogramDataPoint) -> Json {
    object([
        ("attributes", list(&point.attributes, attribute)),
        ("startTimeUnixNano", long(point.start_time_unix_nano)),
        ("timeUnixNano", long(point.time_unix_nano)),
        ("count", long(point.count)),
        ("sum", point.sum.map(double)),
        ("bucketCounts", list(&point.bucket_counts, |count| json!(count.to_string()))),
        ("explicitBounds", list(&point.explicit_bounds, |bound| double(*bound))),
        ("exemplars", list(&point.exemplars, exemplar)),
        ("flags", count(point.flags)),
        ("min", point.min.map(double)),
        ("max", point.max.map(double)),
    ])
}

fn exponential_point(point: &ExponentialHistogramDataPoint) -> Json {
    object([
        ("attributes", list(&point.attributes, attribute)),
        ("startTimeUnixNano", long(point.start_time_unix_nano)),
        ("timeUnixNano", long(point.time_unix_nano)),
        ("count", long(point.count)),
        ("sum", point.sum.map(double)),
        ("scale", number(point.scale)),
        ("zeroCount", long(point.zero_count)),
        ("positive", point.positive.as_ref().map(buckets)),
        ("negative", point.negative.as_ref().map(buckets)),
        ("flags", count(point.flags)),
        ("exemplars", list(&point.exemplars, exemplar)),
        ("min", point.min.map(double)),
        ("max", point.max.map(double)),
        ("zeroThreshold", plain_double(point.zero_threshold)),
    ])
}

fn buckets(buckets: &Buckets) -> Json {
    object([
        ("offset", number(buckets.offset)),
        ("bucketCounts", list(&buckets.bucket_counts, |count| json!(count.to_string()))),
    ])
}

fn summary_point(point: &SummaryDataPoint) -> Json {
    object([
        ("attributes", list(&point.attributes, attribute)),
        ("startTimeUnixNano", long(point.start_time_unix_nano)),
        ("timeUnixNano", long(point.time_unix_nano)),
        ("count", long(point.count)),
        ("sum", plain_double(point.sum)),
        (
            "quantileValues",
            list(&point.quantile_values, |at| {
                object([("quantile", plain_double(at.quantile)), ("value", plain_double(at.value))])
            }),
        ),
        ("flags", count(point.flags)),
    ])
}

fn exemplar(exemplar: &Exemplar) -> Json {
    let (name, value) = match exemplar.value {
        None => ("asInt", None),
        Some(exemplar::Value::AsDouble(number)) => ("asDouble", Some(double(number))),
        Some(exemplar::Value::AsInt(number)) => ("asInt", Some(json!(number.to_string()))),
    };
    object([
        ("filteredAttributes", list(&exemplar.filtered_attributes, attribute)),
        ("timeUnixNano", long(exemplar.time_unix_nano)),
        (name, value),
        ("spanId", hex(&exemplar.span_id)),
        ("traceId", hex(&exemplar.trace_id)),
    ])
}

/// What is `None` is not in it.
fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<Json>)>) -> Json {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Json::Object(there.collect::<Map<_, _>>())
}

fn list<T>(items: &[T], item: impl Fn(&T) -> Json) -> Option<Json> {
    (!items.is_empty()).then(|| Json::Array(items.iter().map(item).collect()))
}

fn text(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| json!(text))
}

fn count(count: u32) -> Option<Json> {
    (count != 0).then(|| json!(count))
}

fn number(number: i32) -> Option<Json> {
    (number != 0).then(|| json!(number))
}

fn long(number: u64) -> Option<Json> {
    (number != 0).then(|| json!(number.to_string()))
}

fn plain_double(number: f64) -> Option<Json> {
    (number != 0.0).then(|| double(number))
}

fn double(number: f64) -> Json {
    match number {
        number if number.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        number => json!(number),
    }
}

fn hex(bytes: &[u8]) -> Option<Json> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text(&digits)
}

/// Bit by bit.
fn base64(bytes: &[u8]) -> String {
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let sixes = bits.as_bytes().chunks(6).map(|six| {
        let padded = format!("{:0<6}", String::from_utf8_lossy(six));
        alphabet[usize::from_str_radix(&padded, 2).expect("they are bits")]
    });
    let mut digits: String = sixes.collect();
    while digits.len() % 4 != 0 {
        digits.push('=');
    }
    digits
}
