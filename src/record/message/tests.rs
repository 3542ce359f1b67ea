use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, EntityRef, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::{Signal, decoded_bytes as of};
use crate::record::schema;

fn of_traces(body: &[u8]) -> usize {
    of(Signal::Traces, body)
}

fn of_log(record: LogRecord) -> usize {
    let scope_logs = vec![ScopeLogs { log_records: vec![record], ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    of(Signal::Logs, &ExportLogsServiceRequest { resource_logs }.encode_to_vec())
}

fn of_metric(metric: Metric) -> usize {
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..Default::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..Default::default() }];
    of(Signal::Metrics, &ExportMetricsServiceRequest { resource_metrics }.encode_to_vec())
}

fn of_data(data: Data) -> usize {
    of_metric(Metric { data: Some(data), ..Default::default() })
}

fn of_number(point: NumberDataPoint) -> usize {
    of_data(Data::Gauge(Gauge { data_points: vec![point] }))
}

fn of_histogram(point: HistogramDataPoint) -> usize {
    of_data(Data::Histogram(Histogram { data_points: vec![point], ..Default::default() }))
}

fn of_exponential(point: ExponentialHistogramDataPoint) -> usize {
    of_data(Data::ExponentialHistogram(ExponentialHistogram {
        data_points: vec![point],
        ..Default::default()
    }))
}

fn of_summary(point: SummaryDataPoint) -> usize {
    of_data(Data::Summary(Summary { data_points: vec![point] }))
}

fn request(spans: Vec<Span>) -> Vec<u8> {
    let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

#[test]
fn empty_spans_weigh_what_they_will_take() {
    let body = request(vec![Span::default(); 1000]);
    assert!(body.len() < 2100);
    assert!(of_traces(&body) > 1000 * size_of::<schema::Span>());
}

#[test]
fn everything_that_can_be_repeated_in_a_span_is_weighed() {
    let empty = of_traces(&request(vec![Span::default()]));
    let pairs = vec![KeyValue::default(); 1000];
    let value = |value| KeyValue { value: Some(AnyValue { value: Some(value) }), ..Default::default() };
    let list = value(Value::KvlistValue(KeyValueList { values: pairs.clone() }));
    let array = value(Value::ArrayValue(ArrayValue { values: vec![AnyValue::default(); 1000] }));
    for span in [
        Span { attributes: pairs.clone(), ..Default::default() },
        Span { attributes: vec![list], ..Default::default() },
        Span { attributes: vec![array], ..Default::default() },
        Span { events: vec![Event::default(); 1000], ..Default::default() },
        Span { links: vec![Link::default(); 1000], ..Default::default() },
        Span {
            events: vec![Event { attributes: pairs.clone(), ..Default::default() }],
            ..Default::default()
        },
        Span { links: vec![Link { attributes: pairs.clone(), ..Default::default() }], ..Default::default() },
    ] {
        let weight = of_traces(&request(vec![span.clone()]));
        assert!(weight > empty + 1000 * size_of::<schema::AnyValue>(), "{weight}: {span:?}");
    }
}

#[test]
fn everything_that_can_be_repeated_in_a_log_record_is_weighed() {
    let empty = of_log(LogRecord::default());
    assert!(empty > size_of::<schema::LogRecord>());
    let pairs = vec![KeyValue::default(); 1000];
    let value = |value| Some(AnyValue { value: Some(value) });
    let list = value(Value::KvlistValue(KeyValueList { values: pairs.clone() }));
    let array = value(Value::ArrayValue(ArrayValue { values: vec![AnyValue::default(); 1000] }));
    for log in [
        LogRecord { attributes: pairs, ..Default::default() },
        LogRecord { body: list, ..Default::default() },
        LogRecord { body: array, ..Default::default() },
    ] {
        let weight = of_log(log.clone());
        assert!(weight > empty + 1000 * size_of::<schema::AnyValue>(), "{weight}: {log:?}");
    }
}

#[test]
fn the_points_of_every_kind_weigh_what_they_will_take() {
    let numbers = vec![NumberDataPoint::default(); 1000];
    let histograms = vec![HistogramDataPoint::default(); 1000];
    let exponentials = vec![ExponentialHistogramDataPoint::default(); 1000];
    let summaries = vec![SummaryDataPoint::default(); 1000];
    for (size, data) in [
        (size_of::<schema::NumberDataPoint>(), Data::Gauge(Gauge { data_points: numbers.clone() })),
        (size_of::<schema::NumberDataPoint>(), Data::Sum(Sum { data_points: numbers, ..Default::default() })),
        (
            size_of::<schema::HistogramDataPoint>(),
            Data::Histogram(Histogram { data_points: histograms, ..Default::default() }),
        ),
        (
            size_of::<schema::ExponentialHistogramDataPoint>(),
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: exponentials,
                ..Default::default()
            }),
        ),
        (size_of::<schema::SummaryDataPoint>(), Data::Summary(Summary { data_points: summaries })),
    ] {
        assert!(of_data(data.clone()) > 1000 * size, "{data:?}");
    }
    assert!(of_metric(Metric::default()) > size_of::<schema::Metric>());
}

#[test]
fn everything_that_can_be_repeated_in_a_metric_is_weighed() {
    let pairs = || vec![KeyValue::default(); 1000];
    let exemplars = || vec![Exemplar::default(); 1000];
    let exemplar = || vec![Exemplar { filtered_attributes: pairs(), ..Default::default() }];
    let weights = [
        ("metadata", of_metric(Metric { metadata: pairs(), ..Default::default() })),
        ("number", of_number(NumberDataPoint { attributes: pairs(), ..Default::default() })),
        ("number", of_number(NumberDataPoint { exemplars: exemplars(), ..Default::default() })),
        ("number", of_number(NumberDataPoint { exemplars: exemplar(), ..Default::default() })),
        ("histogram", of_histogram(HistogramDataPoint { attributes: pairs(), ..Default::default() })),
        ("histogram", of_histogram(HistogramDataPoint { exemplars: exemplars(), ..Default::default() })),
        (
            "exponential",
            of_exponential(ExponentialHistogramDataPoint { attributes: pairs(), ..Default::default() }),
        ),
        (
            "exponential",
            of_exponential(ExponentialHistogramDataPoint { exemplars: exemplars(), ..Default::default() }),
        ),
        ("summary", of_summary(SummaryDataPoint { attributes: pairs(), ..Default::default() })),
    ];
    for (name, weight) in weights {
        assert!(weight > 1000 * size_of::<schema::KeyValue>(), "{name}: {weight}");
    }
    let quantile_values = vec![ValueAtQuantile::default(); 1000];
    let weight = of_summary(SummaryDataPoint { quantile_values, ..Default::default() });
    assert!(weight > 1000 * size_of::<schema::ValueAtQuantile>(), "{weight}");
}

#[test]
fn numbers_weigh_the_same_packed_and_one_by_one() {
    let size = 1000 * size_of::<u64>();
    let bucket_counts = vec![0; 1000];
    let explicit_bounds = vec![0.0; 1000];
    let counts = HistogramDataPoint { bucket_counts: bucket_counts.clone(), ..Default::default() };
    let bounds = HistogramDataPoint { explicit_bounds, ..Default::default() };
    // Each number takes 8 bytes in the request and 8 in the decoded list, and both count.
    assert!(of_histogram(counts) > 2 * size);
    assert!(of_histogram(bounds) > 2 * size);
    let buckets = Some(Buckets { bucket_counts, ..Default::default() });
    for point in [
        ExponentialHistogramDataPoint { positive: buckets.clone(), ..Default::default() },
        ExponentialHistogramDataPoint { negative: buckets, ..Default::default() },
    ] {
        assert!(of_exponential(point) > size);
    }

    let one_by_one = |schema: &schema::Schema, key: &[u8], number: &[u8]| {
        let mut weight = 0;
        super::add_decoded_bytes(&mut weight, schema, &[key, number].concat().repeat(1000), 9)
            .expect("it is well-formed");
        weight
    };
    let histogram = <schema::HistogramDataPoint as super::Message>::schema();
    let buckets = <schema::Buckets as super::Message>::schema();
    assert_eq!(one_by_one(histogram, &[0x31], &[0; 8]), size);
    assert_eq!(one_by_one(histogram, &[0x39], &[0; 8]), size);
    assert_eq!(one_by_one(histogram, &[0x3a, 0x08], &[0; 8]), size);
    assert_eq!(one_by_one(buckets, &[0x10], &[0xff, 0x01]), size);
    assert_eq!(one_by_one(buckets, &[0x12, 0x02], &[0xff, 0x01]), size);
}

#[test]
fn what_follows_something_else_is_weighed_too() {
    let unknown = [0x78, 0x01];
    let entity = EntityRef { id_keys: vec!["not a message".into()], ..Default::default() };
    let resource = Resource { entity_refs: vec![entity], ..Default::default() };
    let resource_spans = vec![ResourceSpans { resource: Some(resource), ..Default::default() }];
    let entities = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    for first in [&unknown[..], &entities] {
        let body = [first, &request(vec![Span::default(); 1000])].concat();
        assert!(of_traces(&body) > 1000 * size_of::<schema::Span>());
    }
}

#[test]
fn broken_and_bottomless_messages_are_weighed_without_harm() {
    let body = request(vec![Span { attributes: vec![KeyValue::default(); 9], ..Default::default() }; 9]);
    for signal in Signal::ALL {
        for end in 0..body.len() {
            of(signal, &body[..end]);
        }
    }
    let mut nested = Vec::new();
    for _ in 0..1_000 {
        // An array within a value within an array.
        for tag in [0x0a, 0x2a] {
            let mut outer = Vec::new();
            crate::record::wire::encode_field(tag, &nested, &mut outer);
            nested = outer;
        }
    }
    let value = <schema::AnyValue as super::Message>::schema();
    assert!(super::add_decoded_bytes(&mut 0, value, &nested, super::MAX_DEPTH).is_err());
    assert_eq!(
        super::decode::<schema::AnyValue>(&nested).unwrap_err().reason,
        "nested more than 100 levels deep"
    );
}
