//! Any request, with all that OTLP allows in it.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use prost::encoding::{DecodeContext, decode_key, skip_field};

pub(super) fn traces() -> impl Strategy<Value = ExportTraceServiceRequest> {
    let scopes = (of(scope()), vec(span(), 0..3), text()).prop_map(|(scope, spans, schema_url)| ScopeSpans {
        scope,
        spans,
        schema_url,
    });
    let resources = (of(resource()), vec(scopes, 0..3), text())
        .prop_map(|(resource, scope_spans, schema_url)| ResourceSpans { resource, scope_spans, schema_url });
    vec(resources, 0..2).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

pub(super) fn logs() -> impl Strategy<Value = ExportLogsServiceRequest> {
    let scopes = (of(scope()), vec(log(), 0..3), text())
        .prop_map(|(scope, log_records, schema_url)| ScopeLogs { scope, log_records, schema_url });
    let resources = (of(resource()), vec(scopes, 0..3), text())
        .prop_map(|(resource, scope_logs, schema_url)| ResourceLogs { resource, scope_logs, schema_url });
    vec(resources, 0..2).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
}

pub(super) fn metrics() -> impl Strategy<Value = ExportMetricsServiceRequest> {
    let scopes = (of(scope()), vec(metric(), 0..3), text())
        .prop_map(|(scope, metrics, schema_url)| ScopeMetrics { scope, metrics, schema_url });
    let resources =
        (of(resource()), vec(scopes, 0..3), text()).prop_map(|(resource, scope_metrics, schema_url)| {
            ResourceMetrics { resource, scope_metrics, schema_url }
        });
    vec(resources, 0..2).prop_map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
}

pub(super) fn span() -> impl Strategy<Value = Span> {
    let status = (text(), number()).prop_map(|(message, code)| Status { message, code });
    let ids = (bytes(), bytes(), bytes(), text(), text());
    let lists = (attributes(), vec(event(), 0..3), vec(link(), 0..3), of(status));
    let numbers = (long(), long(), number(), count(), count(), count(), count());
    (ids, lists, numbers).prop_map(|(ids, lists, numbers)| {
        let (trace_id, span_id, parent_span_id, trace_state, name) = ids;
        let (attributes, events, links, status) = lists;
        let (start_time_unix_nano, end_time_unix_nano, kind, flags, dropped_attributes_count, ..) = numbers;
        let (.., dropped_events_count, dropped_links_count) = numbers;
        Span {
            trace_id,
            span_id,
            trace_state,
            parent_span_id,
            flags,
            name,
            kind,
            start_time_unix_nano,
            end_time_unix_nano,
            attributes,
            dropped_attributes_count,
            events,
            dropped_events_count,
            links,
            dropped_links_count,
            status,
        }
    })
}

fn event() -> impl Strategy<Value = Event> {
    (long(), text(), attributes(), count()).prop_map(
        |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    (bytes(), bytes(), text(), attributes(), count(), count()).prop_map(
        |(trace_id, span_id, trace_state, attributes, dropped_attributes_count, flags)| Link {
            trace_id,
            span_id,
            trace_state,
            attributes,
            dropped_attributes_count,
            flags,
        },
    )
}

pub(super) fn log() -> impl Strategy<Value = LogRecord> {
    let texts = (text(), text(), of(value()), attributes());
    (long(), long(), number(), texts, count(), count(), bytes(), bytes()).prop_map(
        |(
            time_unix_nano,
            observed_time_unix_nano,
            severity_number,
            texts,
            dropped,
            flags,
            trace_id,
            span_id,
        )| {
            let (severity_text, event_name, body, attributes) = texts;
            LogRecord {
                time_unix_nano,
                observed_time_unix_nano,
                severity_number,
                severity_text,
                body,
                attributes,
                dropped_attributes_count: dropped,
                flags,
                trace_id,
                span_id,
                event_name,
            }
        },
    )
}

pub(super) fn metric() -> impl Strategy<Value = Metric> {
    (text(), text(), text(), attributes(), of(data())).prop_map(
        |(name, description, unit, metadata, data)| Metric { name, description, unit, metadata, data },
    )
}

fn data() -> impl Strategy<Value = Data> {
    prop_oneof![
        vec(number_point(), 0..3).prop_map(|data_points| Data::Gauge(Gauge { data_points })),
        (vec(number_point(), 0..3), number(), any::<bool>()).prop_map(
            |(data_points, aggregation_temporality, is_monotonic)| {
                Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic })
            }
        ),
        (vec(histogram_point(), 0..3), number()).prop_map(|(data_points, aggregation_temporality)| {
            Data::Histogram(Histogram { data_points, aggregation_temporality })
        }),
        (vec(exponential_point(), 0..3), number()).prop_map(|(data_points, aggregation_temporality)| {
            Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality })
        }),
        vec(summary_point(), 0..3).prop_map(|data_points| Data::Summary(Summary { data_points })),
    ]
}

fn number_point() -> impl Strategy<Value = NumberDataPoint> {
    let value = prop_oneof![
        double().prop_map(number_data_point::Value::AsDouble),
        whole().prop_map(number_data_point::Value::AsInt),
    ];
    (attributes(), long(), long(), of(value), vec(exemplar(), 0..2), count()).prop_map(
        |(attributes, start_time_unix_nano, time_unix_nano, value, exemplars, flags)| NumberDataPoint {
            attributes,
            start_time_unix_nano,
            time_unix_nano,
            exemplars,
            flags,
            value,
        },
    )
}

fn histogram_point() -> impl Strategy<Value = HistogramDataPoint> {
    let totals = (long(), of(double()), of(double()), of(double()));
    let buckets = (vec(long(), 0..5), vec(double(), 0..5));
    (attributes(), long(), long(), totals, buckets, vec(exemplar(), 0..2), count()).prop_map(
        |(attributes, start_time_unix_nano, time_unix_nano, totals, buckets, exemplars, flags)| {
            let (count, sum, min, max) = totals;
            let (bucket_counts, explicit_bounds) = buckets;
            HistogramDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                count,
                sum,
                bucket_counts,
                explicit_bounds,
                exemplars,
                flags,
                min,
                max,
            }
        },
    )
}

fn exponential_point() -> impl Strategy<Value = ExponentialHistogramDataPoint> {
    let buckets = || {
        (number(), vec(long(), 0..5)).prop_map(|(offset, bucket_counts)| Buckets { offset, bucket_counts })
    };
    let totals = (long(), of(double()), of(double()), of(double()));
    let middle = (number(), long(), double(), of(buckets()), of(buckets()));
    (attributes(), long(), long(), totals, middle, vec(exemplar(), 0..2), count()).prop_map(
        |(attributes, start_time_unix_nano, time_unix_nano, totals, middle, exemplars, flags)| {
            let (count, sum, min, max) = totals;
            let (scale, zero_count, zero_threshold, positive, negative) = middle;
            ExponentialHistogramDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                count,
                sum,
                scale,
                zero_count,
                positive,
                negative,
                flags,
                exemplars,
                min,
                max,
                zero_threshold,
            }
        },
    )
}

fn summary_point() -> impl Strategy<Value = SummaryDataPoint> {
    let quantile = (double(), double()).prop_map(|(quantile, value)| ValueAtQuantile { quantile, value });
    (attributes(), long(), long(), long(), double(), vec(quantile, 0..3), count()).prop_map(
        |(attributes, start_time_unix_nano, time_unix_nano, count, sum, quantile_values, flags)| {
            SummaryDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                count,
                sum,
                quantile_values,
                flags,
            }
        },
    )
}

fn exemplar() -> impl Strategy<Value = Exemplar> {
    let value =
        prop_oneof![double().prop_map(exemplar::Value::AsDouble), whole().prop_map(exemplar::Value::AsInt)];
    (attributes(), long(), bytes(), bytes(), of(value)).prop_map(
        |(filtered_attributes, time_unix_nano, span_id, trace_id, value)| Exemplar {
            filtered_attributes,
            time_unix_nano,
            span_id,
            trace_id,
            value,
        },
    )
}

fn resource() -> impl Strategy<Value = Resource> {
    let entity = (text(), text(), vec(text(), 0..3), vec(text(), 0..3)).prop_map(
        |(schema_url, r#type, id_keys, description_keys)| EntityRef {
            schema_url,
            r#type,
            id_keys,
            description_keys,
        },
    );
    (attributes(), count(), vec(entity, 0..2)).prop_map(
        |(attributes, dropped_attributes_count, entity_refs)| Resource {
            attributes,
            dropped_attributes_count,
            entity_refs,
        },
    )
}

fn scope() -> impl Strategy<Value = InstrumentationScope> {
    (text(), text(), attributes(), count()).prop_map(
        |(name, version, attributes, dropped_attributes_count)| InstrumentationScope {
            name,
            version,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec(attribute(of(value())), 0..3)
}

fn attribute(value: impl Strategy<Value = Option<AnyValue>>) -> impl Strategy<Value = KeyValue> {
    (text(), value).prop_map(|(key, value)| KeyValue { key, value, ..Default::default() })
}

fn value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        text().prop_map(Value::StringValue),
        any::<bool>().prop_map(Value::BoolValue),
        whole().prop_map(Value::IntValue),
        double().prop_map(Value::DoubleValue),
        bytes().prop_map(Value::BytesValue),
    ];
    let leaf = of(leaf).prop_map(|value| AnyValue { value });
    leaf.prop_recursive(3, 8, 3, |inner| {
        let array = vec(inner.clone(), 0..3).prop_map(|values| Value::ArrayValue(ArrayValue { values }));
        let map =
            vec(attribute(of(inner)), 0..3).prop_map(|values| Value::KvlistValue(KeyValueList { values }));
        prop_oneof![array, map].prop_map(|value| AnyValue { value: Some(value) })
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just(String::new()), 3 => "[a-zé水🚰\"\\\\\n]{0,8}", 1 => any::<String>()]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..9)
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 1 => Just(f64::INFINITY), 6 => proptest::num::f64::ANY]
}

fn whole() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0), 3 => any::<i64>()]
}

fn long() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 3 => any::<u64>()]
}

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![1 => Just(0), 2 => -3..30, 1 => any::<i32>()]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 3 => any::<u32>()]
}

/// The same message with its fields in another order.
pub(super) fn reordered(message: &[u8], mut order: u64) -> Vec<u8> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let from_here = rest;
        let (number, wire_type) = decode_key(&mut rest).expect("a message");
        skip_field(wire_type, number, &mut rest, DecodeContext::default()).expect("a message");
        fields.push(&from_here[..from_here.len() - rest.len()]);
    }
    for last in (1..fields.len()).rev() {
        fields.swap(last, (order % (last as u64 + 1)) as usize);
        order = order.rotate_left(13).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fields.concat()
}
