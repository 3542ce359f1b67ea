use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{any_value, *};
use opentelemetry_proto::tonic::logs::v1::*;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::*;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::*;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value as Json, json};

use super::*;
use crate::record::message;
use written::{list, log, metric, resource, scope, span};

/// Generated values for every field of a message.
#[derive(Debug, Clone)]
struct Stuff {
    id: Vec<u8>,
    text: String,
    large: u64,
    small: u32,
    signed: i64,
    float: f64,
    pairs: Vec<KeyValue>,
    numbers: Vec<u64>,
}

fn stuff() -> impl Strategy<Value = Stuff> {
    let floats = || any::<f64>().prop_filter("NaN equals nothing", |float| !float.is_nan());
    let leaf = prop_oneof![
        Just(None),
        any::<String>().prop_map(|text| Some(any_value::Value::StringValue(text))),
        any::<bool>().prop_map(|value| Some(any_value::Value::BoolValue(value))),
        any::<i64>().prop_map(|value| Some(any_value::Value::IntValue(value))),
        floats().prop_map(|value| Some(any_value::Value::DoubleValue(value))),
        any::<Vec<u8>>().prop_map(|bytes| Some(any_value::Value::BytesValue(bytes))),
    ];
    let value = leaf.prop_map(|value| AnyValue { value }).prop_recursive(4, 16, 4, |inner| {
        let pair = ("[a-z]{0,3}", inner.clone()).prop_map(|(key, value)| pair(key, value));
        let lists = prop::collection::vec(pair, 0..4)
            .prop_map(|values| any_value::Value::KvlistValue(KeyValueList { values }));
        let arrays = prop::collection::vec(inner, 0..4)
            .prop_map(|values| any_value::Value::ArrayValue(ArrayValue { values }));
        prop_oneof![lists, arrays].prop_map(|value| AnyValue { value: Some(value) })
    });
    let pairs =
        prop::collection::vec((any::<String>(), value).prop_map(|(key, value)| pair(key, value)), 0..4);
    let numbers = prop::collection::vec(any::<u64>(), 0..4);
    let id = prop::collection::vec(any::<u8>(), 0..17);
    (id, any::<String>(), any::<u64>(), any::<u32>(), any::<i64>(), floats(), pairs, numbers).prop_map(
        |(id, text, large, small, signed, float, pairs, numbers)| Stuff {
            id,
            text,
            large,
            small,
            signed,
            float,
            pairs,
            numbers,
        },
    )
}

fn pair(key: String, value: AnyValue) -> KeyValue {
    KeyValue { key, value: Some(value), ..Default::default() }
}

impl Stuff {
    fn resource(&self) -> Resource {
        let entity = EntityRef {
            schema_url: self.text.clone(),
            r#type: self.text.clone(),
            id_keys: vec![self.text.clone(), String::new()],
            description_keys: vec![self.text.clone()],
        };
        Resource {
            attributes: self.pairs.clone(),
            dropped_attributes_count: self.small,
            entity_refs: vec![entity],
        }
    }

    fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: self.text.clone(),
            version: self.text.clone(),
            attributes: self.pairs.clone(),
            dropped_attributes_count: self.small,
        }
    }

    fn span(&self) -> Span {
        let event = Event {
            time_unix_nano: self.large,
            name: self.text.clone(),
            attributes: self.pairs.clone(),
            dropped_attributes_count: self.small,
        };
        let link = Link {
            trace_id: self.id.clone(),
            span_id: self.id.clone(),
            trace_state: self.text.clone(),
            attributes: self.pairs.clone(),
            dropped_attributes_count: self.small,
            flags: self.small,
        };
        Span {
            trace_id: self.id.clone(),
            span_id: self.id.clone(),
            trace_state: self.text.clone(),
            parent_span_id: self.id.clone(),
            flags: self.small,
            name: self.text.clone(),
            kind: (self.small % 9) as i32 - 1,
            start_time_unix_nano: self.large,
            end_time_unix_nano: !self.large,
            attributes: self.pairs.clone(),
            dropped_attributes_count: self.small,
            events: vec![event, Event::default()],
            dropped_events_count: self.small,
            links: vec![link],
            dropped_links_count: self.small,
            status: (self.small % 2 == 0)
                .then(|| Status { message: self.text.clone(), code: self.signed as i32 }),
        }
    }

    fn log(&self) -> LogRecord {
        LogRecord {
            time_unix_nano: self.large,
            observed_time_unix_nano: !self.large,
            severity_number: self.signed as i32,
            severity_text: self.text.clone(),
            body: self.pairs.first().and_then(|pair| pair.value.clone()),
            attributes: self.pairs.clone(),
            dropped_attributes_count: self.small,
            flags: self.small,
            trace_id: self.id.clone(),
            span_id: self.id.clone(),
            event_name: self.text.clone(),
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        let (large, small, signed, float) = (self.large, self.small, self.signed, self.float);
        let attributes = || self.pairs.clone();
        let exemplar = |value| Exemplar {
            filtered_attributes: attributes(),
            time_unix_nano: large,
            span_id: self.id.clone(),
            trace_id: self.id.clone(),
            value: Some(value),
        };
        let exemplars =
            || vec![exemplar(exemplar::Value::AsInt(signed)), exemplar(exemplar::Value::AsDouble(float))];
        let number = |value| NumberDataPoint {
            attributes: attributes(),
            start_time_unix_nano: large,
            time_unix_nano: !large,
            exemplars: exemplars(),
            flags: small,
            value: Some(value),
        };
        let numbers = vec![
            number(number_data_point::Value::AsInt(signed)),
            number(number_data_point::Value::AsDouble(float)),
        ];
        let histogram = HistogramDataPoint {
            attributes: attributes(),
            start_time_unix_nano: large,
            time_unix_nano: !large,
            count: large,
            sum: Some(float),
            bucket_counts: self.numbers.clone(),
            explicit_bounds: vec![float, 0.0, 1.5],
            exemplars: exemplars(),
            flags: small,
            min: None,
            max: Some(float),
        };
        let buckets = |offset| Some(Buckets { offset, bucket_counts: self.numbers.clone() });
        let exponential = ExponentialHistogramDataPoint {
            attributes: attributes(),
            start_time_unix_nano: large,
            time_unix_nano: !large,
            count: large,
            sum: None,
            scale: signed as i32,
            zero_count: large,
            positive: buckets(signed as i32),
            negative: None,
            flags: small,
            exemplars: exemplars(),
            min: Some(float),
            max: None,
            zero_threshold: float,
        };
        let summary = SummaryDataPoint {
            attributes: attributes(),
            start_time_unix_nano: large,
            time_unix_nano: !large,
            count: large,
            sum: float,
            quantile_values: vec![ValueAtQuantile { quantile: 0.5, value: float }],
            flags: small,
        };
        let data = [
            Data::Gauge(Gauge { data_points: numbers.clone() }),
            Data::Sum(Sum { data_points: numbers, aggregation_temporality: 2, is_monotonic: small % 2 == 0 }),
            Data::Histogram(Histogram { data_points: vec![histogram], aggregation_temporality: 1 }),
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![exponential],
                aggregation_temporality: 1,
            }),
            Data::Summary(Summary { data_points: vec![summary] }),
        ];
        let metric = |data| Metric {
            name: self.text.clone(),
            description: self.text.clone(),
            unit: self.text.clone(),
            metadata: attributes(),
            data: Some(data),
        };
        data.map(metric).to_vec()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(64)))]

    #[test]
    fn spans_in_json_are_decoded_as_they_were(stuff in stuff()) {
        let (schema_url, records) = (stuff.text.clone(), vec![stuff.span(), Span::default()]);
        let of_scope = ScopeSpans { scope: Some(stuff.scope()), spans: records, schema_url: schema_url.clone() };
        let text = json!({ "resourceSpans": [{
            "resource": resource(&stuff.resource()), "schemaUrl": schema_url,
            "scopeSpans": [{ "scope": scope(&stuff.scope()), "schemaUrl": schema_url,
                             "spans": list(&of_scope.spans, span) }],
        }]});
        let request = ExportTraceServiceRequest { resource_spans: vec![ResourceSpans {
            resource: Some(stuff.resource()), scope_spans: vec![of_scope], schema_url,
        }]};
        let message = to_protobuf(Signal::Traces, text.to_string().as_bytes()).unwrap();
        prop_assert_eq!(ExportTraceServiceRequest::decode(&encoded_again::<schema::TracesRequest>(&request)[..]).unwrap(), request.clone());
        prop_assert_eq!(ExportTraceServiceRequest::decode(message.as_slice()).unwrap(), request);
    }

    #[test]
    fn logs_in_json_are_decoded_as_they_were(stuff in stuff()) {
        let (schema_url, records) = (stuff.text.clone(), vec![stuff.log(), LogRecord::default()]);
        let of_scope = ScopeLogs { scope: None, log_records: records, schema_url: schema_url.clone() };
        let text = json!({ "resourceLogs": [{
            "resource": null, "schemaUrl": schema_url,
            "scopeLogs": [{ "schemaUrl": schema_url, "logRecords": list(&of_scope.log_records, log) }],
        }]});
        let request = ExportLogsServiceRequest { resource_logs: vec![ResourceLogs {
            resource: None, scope_logs: vec![of_scope], schema_url,
        }]};
        let message = to_protobuf(Signal::Logs, text.to_string().as_bytes()).unwrap();
        prop_assert_eq!(ExportLogsServiceRequest::decode(&encoded_again::<schema::LogsRequest>(&request)[..]).unwrap(), request.clone());
        prop_assert_eq!(ExportLogsServiceRequest::decode(message.as_slice()).unwrap(), request);
    }

    #[test]
    fn metrics_in_json_are_decoded_as_they_were(stuff in stuff()) {
        let (schema_url, metrics) = (stuff.text.clone(), stuff.metrics());
        let of_scope = ScopeMetrics { scope: Some(stuff.scope()), metrics, schema_url: schema_url.clone() };
        let text = json!({ "resourceMetrics": [{
            "resource": resource(&stuff.resource()), "schemaUrl": schema_url,
            "scopeMetrics": [{ "scope": scope(&stuff.scope()), "schemaUrl": schema_url,
                               "metrics": list(&of_scope.metrics, metric) }],
        }]});
        let request = ExportMetricsServiceRequest { resource_metrics: vec![ResourceMetrics {
            resource: Some(stuff.resource()), scope_metrics: vec![of_scope], schema_url,
        }]};
        let message = to_protobuf(Signal::Metrics, text.to_string().as_bytes()).unwrap();
        prop_assert_eq!(ExportMetricsServiceRequest::decode(&encoded_again::<schema::MetricsRequest>(&request)[..]).unwrap(), request.clone());
        prop_assert_eq!(ExportMetricsServiceRequest::decode(message.as_slice()).unwrap(), request);
    }

    #[test]
    fn no_text_becomes_more_than_it_may(text in "[\\[\\]{}:,0-9\"]{0,40}") {
        for text in [text.clone(), format!("{{\"resourceMetrics\":[{{\"scopeMetrics\":[{text}]}}]}}")] {
            if let Ok(message) = to_protobuf(Signal::Metrics, text.as_bytes()) {
                prop_assert!(message.len() <= max_protobuf_bytes(text.len()));
            }
        }
    }
}

/// Decodes a message of another encoder, and encodes it again.
fn encoded_again<M: message::Message>(request: &impl Message) -> Vec<u8> {
    message::encoded(&message::decode::<M>(&request.encode_to_vec()).unwrap())
}

/// Returns the protobuf of a span with these fields.
fn span_of(fields: &str) -> serde_json::Result<Span> {
    let text = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{fields}]}}]}}]}}"#);
    let message = to_protobuf(Signal::Traces, text.as_bytes())?;
    let mut request = ExportTraceServiceRequest::decode(message.as_slice()).unwrap();
    Ok(request.resource_spans.remove(0).scope_spans.remove(0).spans.remove(0))
}

#[test]
fn values_may_be_written_in_all_the_ways_that_otlp_allows() {
    for fields in [
        r#"{"kind":3,"startTimeUnixNano":1000,"traceId":"0AfF"}"#,
        r#"{"kind":"SPAN_KIND_CLIENT","startTimeUnixNano":"1000","traceId":"0aff","name":null,"links":null}"#,
        r#"{"kind":3.0,"startTimeUnixNano":1e3,"traceId":"0aff","trace_id":"00","x":{"y":[1,null,{}]}}"#,
    ] {
        let span = span_of(fields).unwrap();
        assert_eq!(
            (span.kind, span.start_time_unix_nano, span.trace_id),
            (3, 1000, vec![0x0a, 0xff]),
            "{fields}"
        );
    }
    let value = |value: &str| {
        let span = span_of(&format!(r#"{{"attributes":[{{"key":"k","value":{value}}}]}}"#)).unwrap();
        span.attributes[0].value.clone().and_then(|value| value.value)
    };
    use any_value::Value as Any;
    assert!(matches!(value(r#"{"doubleValue":"NaN"}"#), Some(Any::DoubleValue(number)) if number.is_nan()));
    assert_eq!(value(r#"{"doubleValue":"-Infinity"}"#), Some(Any::DoubleValue(f64::NEG_INFINITY)));
    assert_eq!(value(r#"{"doubleValue":3}"#), Some(Any::DoubleValue(3.0)));
    assert_eq!(value(r#"{"doubleValue":0.1}"#), Some(Any::DoubleValue(0.1)));
    assert_eq!(value(r#"{"bytesValue":"-_8"}"#), Some(Any::BytesValue(vec![0xfb, 0xff])));
    assert_eq!(value("{}"), None);
    assert_eq!(value("null"), None);
    assert!(
        matches!(value(r#"{"arrayValue":{"values":[null]}}"#), Some(Any::ArrayValue(a)) if a.values.len() == 1)
    );
}

#[test]
fn values_of_the_wrong_kind_are_refused_with_what_is_expected() {
    for (fields, expected) in [
        (r#"{"traceId":"abc"}"#, "an id in hexadecimal"),
        (r#"{"traceId":7}"#, "an id in hexadecimal"),
        (r#"{"startTimeUnixNano":-1}"#, "not negative"),
        (r#"{"startTimeUnixNano":"18446744073709551616"}"#, "64 bits"),
        (r#"{"startTimeUnixNano":1.5}"#, "a whole number"),
        (r#"{"droppedLinksCount":4294967296}"#, "32 bits"),
        (r#"{"kind":"CLIENT"}"#, "the number of an enum"),
        (r#"{"name":1}"#, "a string"),
        (r#"{"name":["a"]}"#, "a string"),
        (r#"{"attributes":{}}"#, "a list"),
        (r#"{"attributes":"a"}"#, "a list"),
        (r#"{"attributes":[1]}"#, "an object"),
        (r#"{"status":[]}"#, "an object"),
        (r#"{"status":true}"#, "an object"),
        ("7", "an object"),
    ] {
        let error = span_of(fields).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("line 1 column"), "{fields}: {error}");
    }
}

mod written {
    //! A reference encoder of OTLP JSON, field by field.

    use super::*;

    fn hex(bytes: &[u8]) -> Json {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
    }

    pub(super) fn list<T>(items: &[T], write: impl Fn(&T) -> Json) -> Json {
        items.iter().map(write).collect()
    }

    fn double(value: f64) -> Json {
        match value {
            f64::INFINITY => json!("Infinity"),
            f64::NEG_INFINITY => json!("-Infinity"),
            value => json!(value),
        }
    }

    /// Writes odd integers as strings, the form of 64-bit integers in OTLP JSON, and even ones as numbers.
    fn whole(value: u64) -> Json {
        if value % 2 == 0 { json!(value) } else { value.to_string().into() }
    }

    fn any(value: &AnyValue) -> Json {
        use any_value::Value as Any;
        match value.value.as_ref() {
            None | Some(Any::StringValueStrindex(_)) => json!({}),
            Some(Any::StringValue(text)) => json!({ "stringValue": text }),
            Some(Any::BoolValue(value)) => json!({ "boolValue": value }),
            Some(Any::IntValue(value)) if value % 2 == 0 => json!({ "intValue": value }),
            Some(Any::IntValue(value)) => json!({ "intValue": value.to_string() }),
            Some(Any::DoubleValue(value)) => json!({ "doubleValue": double(*value) }),
            Some(Any::ArrayValue(array)) => json!({ "arrayValue": { "values": list(&array.values, any) } }),
            Some(Any::KvlistValue(list)) => json!({ "kvlistValue": { "values": pairs(&list.values) } }),
            Some(Any::BytesValue(bytes)) => {
                json!({ "bytesValue": crate::transport::base64::encode(bytes) })
            }
        }
    }

    fn pairs(attributes: &[KeyValue]) -> Json {
        let pair = |pair: &KeyValue| json!({ "key": pair.key, "value": pair.value.as_ref().map(any) });
        list(attributes, pair)
    }

    pub(super) fn scope(scope: &InstrumentationScope) -> Json {
        json!({ "name": scope.name, "version": scope.version, "attributes": pairs(&scope.attributes),
            "droppedAttributesCount": scope.dropped_attributes_count })
    }

    pub(super) fn resource(resource: &Resource) -> Json {
        let entity = |entity: &EntityRef| {
            json!({ "schemaUrl": entity.schema_url, "type": entity.r#type, "idKeys": entity.id_keys,
                "descriptionKeys": entity.description_keys })
        };
        json!({ "attributes": pairs(&resource.attributes), "entityRefs": list(&resource.entity_refs, entity),
            "droppedAttributesCount": resource.dropped_attributes_count })
    }

    pub(super) fn span(span: &Span) -> Json {
        let event = |event: &Event| {
            json!({ "timeUnixNano": whole(event.time_unix_nano), "name": event.name,
                "attributes": pairs(&event.attributes), "droppedAttributesCount": event.dropped_attributes_count })
        };
        let link = |link: &Link| {
            json!({ "traceId": hex(&link.trace_id), "spanId": hex(&link.span_id), "traceState": link.trace_state,
                "attributes": pairs(&link.attributes), "droppedAttributesCount": link.dropped_attributes_count,
                "flags": link.flags })
        };
        let status = |status: &Status| json!({ "message": status.message, "code": status.code });
        let kind =
            span::SpanKind::try_from(span.kind).map_or(json!(span.kind), |kind| json!(kind.as_str_name()));
        json!({ "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id), "traceState": span.trace_state,
            "parentSpanId": hex(&span.parent_span_id), "flags": span.flags, "name": span.name, "kind": kind,
            "startTimeUnixNano": whole(span.start_time_unix_nano), "endTimeUnixNano": whole(span.end_time_unix_nano),
            "attributes": pairs(&span.attributes), "droppedAttributesCount": span.dropped_attributes_count,
            "events": list(&span.events, event), "droppedEventsCount": span.dropped_events_count,
            "links": list(&span.links, link), "droppedLinksCount": span.dropped_links_count,
            "status": span.status.as_ref().map(status) })
    }

    pub(super) fn log(log: &LogRecord) -> Json {
        json!({ "timeUnixNano": whole(log.time_unix_nano), "observedTimeUnixNano": whole(log.observed_time_unix_nano),
            "severityNumber": log.severity_number, "severityText": log.severity_text,
            "body": log.body.as_ref().map(any), "attributes": pairs(&log.attributes),
            "droppedAttributesCount": log.dropped_attributes_count, "flags": log.flags,
            "traceId": hex(&log.trace_id), "spanId": hex(&log.span_id), "eventName": log.event_name })
    }

    fn exemplar(exemplar: &Exemplar) -> Json {
        let mut json = json!({ "filteredAttributes": pairs(&exemplar.filtered_attributes),
        "timeUnixNano": whole(exemplar.time_unix_nano), "spanId": hex(&exemplar.span_id),
        "traceId": hex(&exemplar.trace_id) });
        match exemplar.value.unwrap() {
            exemplar::Value::AsDouble(value) => json["asDouble"] = double(value),
            exemplar::Value::AsInt(value) => json["asInt"] = value.to_string().into(),
        }
        json
    }

    fn number(point: &NumberDataPoint) -> Json {
        let mut json = json!({ "attributes": pairs(&point.attributes), "flags": point.flags,
        "startTimeUnixNano": whole(point.start_time_unix_nano), "timeUnixNano": whole(point.time_unix_nano),
        "exemplars": list(&point.exemplars, exemplar) });
        match point.value.unwrap() {
            number_data_point::Value::AsDouble(value) => json["asDouble"] = double(value),
            number_data_point::Value::AsInt(value) => json["asInt"] = value.into(),
        }
        json
    }

    fn histogram(point: &HistogramDataPoint) -> Json {
        json!({ "attributes": pairs(&point.attributes), "startTimeUnixNano": whole(point.start_time_unix_nano),
            "timeUnixNano": whole(point.time_unix_nano), "count": whole(point.count), "sum": point.sum.map(double),
            "bucketCounts": list(&point.bucket_counts, |count| whole(*count)),
            "explicitBounds": list(&point.explicit_bounds, |bound| double(*bound)),
            "exemplars": list(&point.exemplars, exemplar), "flags": point.flags, "min": point.min.map(double),
            "max": point.max.map(double) })
    }

    fn exponential(point: &ExponentialHistogramDataPoint) -> Json {
        let buckets = |buckets: &Buckets| json!({ "offset": buckets.offset, "bucketCounts": list(&buckets.bucket_counts, |count| whole(*count)) });
        json!({ "attributes": pairs(&point.attributes), "startTimeUnixNano": whole(point.start_time_unix_nano),
            "timeUnixNano": whole(point.time_unix_nano), "count": whole(point.count), "sum": point.sum.map(double),
            "scale": point.scale, "zeroCount": whole(point.zero_count), "flags": point.flags,
            "positive": point.positive.as_ref().map(buckets), "negative": point.negative.as_ref().map(buckets),
            "exemplars": list(&point.exemplars, exemplar), "min": point.min.map(double),
            "max": point.max.map(double), "zeroThreshold": double(point.zero_threshold) })
    }

    fn summary(point: &SummaryDataPoint) -> Json {
        let quantile =
            |at: &ValueAtQuantile| json!({ "quantile": double(at.quantile), "value": double(at.value) });
        json!({ "attributes": pairs(&point.attributes), "startTimeUnixNano": whole(point.start_time_unix_nano),
            "timeUnixNano": whole(point.time_unix_nano), "count": whole(point.count), "sum": double(point.sum),
            "quantileValues": list(&point.quantile_values, quantile), "flags": point.flags })
    }

    pub(super) fn metric(metric: &Metric) -> Json {
        let (name, data) = match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => ("gauge", json!({ "dataPoints": list(&gauge.data_points, number) })),
            Data::Sum(sum) => (
                "sum",
                json!({ "dataPoints": list(&sum.data_points, number), "isMonotonic": sum.is_monotonic,
                    "aggregationTemporality": sum.aggregation_temporality }),
            ),
            Data::Histogram(data) => (
                "histogram",
                json!({ "dataPoints": list(&data.data_points, histogram),
                    "aggregationTemporality": data.aggregation_temporality }),
            ),
            Data::ExponentialHistogram(data) => (
                "exponentialHistogram",
                json!({ "dataPoints": list(&data.data_points, exponential),
                    "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA" }),
            ),
            Data::Summary(data) => ("summary", json!({ "dataPoints": list(&data.data_points, summary) })),
        };
        json!({ "name": metric.name, "description": metric.description, "unit": metric.unit, name: data,
            "metadata": pairs(&metric.metadata), "later": [{ "unknown": 1 }] })
    }
}
