//! What is written here, beside what opentelemetry-proto makes of the same metrics.

mod program;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric as Message, number_data_point};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::record::frames;
use program::{Program, World, any_program};

const AMPLE: FrameLimits = FrameLimits { bytes: 1 << 20, points: 1 << 20, largest: 1 << 20 };

/// A part as it was given: its message, framed bytes and points.
struct Framed {
    message: Message,
    bytes: usize,
    points: u64,
}

/// The parts of every metric, and how many points were too large.
fn framed(metrics: &ResourceMetrics, limits: FrameLimits) -> (Vec<Vec<Framed>>, u64) {
    let mut record = MetricRecord::default();
    let mut too_large = 0;
    let mut all = Vec::new();
    for metric in metrics.scope_metrics().flat_map(|scope| scope.metrics()) {
        let mut parts = Vec::new();
        each_part(metric, &mut record, limits, |part| match part {
            Part::Frame { bytes, points } => parts.push(read(bytes, points)),
            Part::TooLarge { points } => too_large += points,
        });
        all.push(parts);
    }
    (all, too_large)
}

fn read(bytes: &[u8], points: u64) -> Framed {
    assert_eq!(frames(bytes).count(), 1, "one frame");
    let mut body = &bytes[1..];
    let message = Message::decode_length_delimited(&mut body).expect("a metric");
    assert!(body.is_empty());
    Framed { message, bytes: bytes.len(), points }
}

/// One metric of all parts.
fn joined(parts: Vec<Framed>) -> Option<Message> {
    parts.into_iter().map(|part| part.message).reduce(|mut whole, part| {
        match (&mut whole.data, part.data) {
            (Some(Data::Gauge(whole)), Some(Data::Gauge(part))) => whole.data_points.extend(part.data_points),
            (Some(Data::Sum(whole)), Some(Data::Sum(part))) => {
                assert_eq!(whole.aggregation_temporality, part.aggregation_temporality);
                assert_eq!(whole.is_monotonic, part.is_monotonic);
                whole.data_points.extend(part.data_points);
            }
            (Some(Data::Histogram(whole)), Some(Data::Histogram(part))) => {
                assert_eq!(whole.aggregation_temporality, part.aggregation_temporality);
                whole.data_points.extend(part.data_points);
            }
            (Some(Data::ExponentialHistogram(whole)), Some(Data::ExponentialHistogram(part))) => {
                assert_eq!(whole.aggregation_temporality, part.aggregation_temporality);
                whole.data_points.extend(part.data_points);
            }
            (whole, part) => panic!("{part:?} is no part of {whole:?}"),
        }
        whole
    })
}

/// What opentelemetry-proto would send, but for the differences that are told in the documentation.
fn expected(metrics: &ResourceMetrics) -> Vec<Message> {
    let request = ExportMetricsServiceRequest::from(metrics);
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let mut messages: Vec<_> = scopes.flat_map(|scope| scope.metrics).collect();
    let own = metrics.scope_metrics().flat_map(|scope| scope.metrics());
    for (message, own) in messages.iter_mut().zip(own) {
        pin(message, own);
        match message.data.as_mut().expect("data") {
            Data::Gauge(gauge) => gauge.data_points.iter_mut().for_each(|point| sort(&mut point.attributes)),
            Data::Sum(sum) => sum.data_points.iter_mut().for_each(|point| sort(&mut point.attributes)),
            Data::Histogram(histogram) => {
                histogram.data_points.iter_mut().for_each(|point| sort(&mut point.attributes));
            }
            Data::ExponentialHistogram(histogram) => {
                for point in &mut histogram.data_points {
                    sort(&mut point.attributes);
                    point.positive = point.positive.take().filter(is_there);
                    point.negative = point.negative.take().filter(is_there);
                }
            }
            Data::Summary(summary) => panic!("{summary:?}"),
        }
    }
    messages
}

/// Their 0 for an unsigned number that is too large becomes ours.
fn pin(message: &mut Message, metric: &Metric) {
    let (points, numbers): (_, Vec<_>) = match (&mut message.data, metric.data()) {
        (Some(Data::Gauge(gauge)), AggregatedMetrics::U64(MetricData::Gauge(own))) => {
            (&mut gauge.data_points, own.data_points().map(|point| point.value()).collect())
        }
        (Some(Data::Sum(sum)), AggregatedMetrics::U64(MetricData::Sum(own))) => {
            (&mut sum.data_points, own.data_points().map(|point| point.value()).collect())
        }
        _ => return,
    };
    for (point, number) in points.iter_mut().zip(numbers) {
        if number > i64::MAX as u64 {
            assert_eq!(point.value, Some(number_data_point::Value::AsInt(0)));
            point.value = Some(number_data_point::Value::AsInt(i64::MAX));
        }
    }
}

fn is_there(buckets: &Buckets) -> bool {
    !buckets.bucket_counts.is_empty()
}

/// By key; of a key that is there twice the last counts, and an empty one does not.
fn sort(attributes: &mut Vec<KeyValue>) {
    attributes.retain(|attribute| !attribute.key.is_empty());
    attributes.reverse();
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
    attributes.dedup_by(|one, other| one.key == other.key);
}

fn points(message: &Message) -> usize {
    match message.data.as_ref().expect("data") {
        Data::Gauge(data) => data.data_points.len(),
        Data::Sum(data) => data.data_points.len(),
        Data::Histogram(data) => data.data_points.len(),
        Data::ExponentialHistogram(data) => data.data_points.len(),
        Data::Summary(data) => data.data_points.len(),
    }
}

fn compare(program: &Program, limits: FrameLimits) -> Result<(), TestCaseError> {
    let world = World::new(program);
    for round in program.rounds() {
        world.measure(round);
        let metrics = world.collect();
        let (all, too_large) = framed(&metrics, limits);
        prop_assert_eq!(too_large, 0);
        for part in all.iter().flatten() {
            prop_assert_eq!(points(&part.message) as u64, part.points);
            prop_assert!(part.points <= limits.points);
            prop_assert!(part.bytes <= limits.bytes || part.points == 1, "{} bytes", part.bytes);
        }
        let written: Vec<_> = all.into_iter().filter_map(joined).collect();
        let expected = expected(&metrics);
        prop_assert_eq!(written.len(), expected.len());
        for (written, expected) in written.iter().zip(&expected) {
            // by their bytes, as NaN is not equal to itself
            let is_same = written.encode_to_vec() == expected.encode_to_vec();
            prop_assert!(is_same, "written: {written:#?}\nexpected: {expected:#?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_metrics_are_written_as_opentelemetry_writes_them(program in any_program()) {
        compare(&program, AMPLE)?;
    }

    #[test]
    fn the_parts_of_a_metric_keep_the_limits_and_are_the_whole(
        program in any_program(),
        bytes in 0usize..2000,
        points in 1u64..5,
    ) {
        compare(&program, FrameLimits { bytes, points, largest: 1 << 20 })?;
    }
}

#[test]
fn an_unsigned_number_beyond_the_largest_signed_one_is_pinned_not_zero() {
    let world = World::new(&Program::default());
    let meter = world.provider.meter("shop");
    meter.u64_gauge("gauge").build().record(u64::MAX, &[]);
    meter.u64_counter("sum").build().add(i64::MAX as u64 + 1, &[]);
    let (all, _) = framed(&world.collect(), AMPLE);
    for message in all.into_iter().filter_map(joined) {
        let points = match message.data {
            Some(Data::Gauge(gauge)) => gauge.data_points,
            Some(Data::Sum(sum)) => sum.data_points,
            other => panic!("{other:?}"),
        };
        assert_eq!(points[0].value, Some(number_data_point::Value::AsInt(i64::MAX)), "{}", message.name);
    }
}

#[test]
fn a_point_that_no_request_can_hold_is_told_and_the_others_are_written() {
    let world = World::new(&Program::default());
    let gauge = world.provider.meter("shop").u64_gauge("gauge").build();
    let pair = |length: usize| opentelemetry::KeyValue::new("key", "x".repeat(length));
    gauge.record(1, &[pair(10)]);
    gauge.record(2, &[pair(1000)]);
    gauge.record(3, &[pair(20)]);
    let (all, too_large) = framed(&world.collect(), FrameLimits { bytes: 100, points: 10, largest: 500 });
    assert_eq!(too_large, 1);
    assert_eq!(all.into_iter().flatten().map(|part| part.points).sum::<u64>(), 2);
}
