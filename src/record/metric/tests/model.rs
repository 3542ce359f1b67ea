//! Any metric, as a caller may write it, and the same as plain messages.

use std::ops::Range;

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, Sum, metric::Data, number_data_point,
};
use proptest::prelude::*;

use super::super::*;
use crate::record::attribute_set::tests::{Pair, any_pairs, model as attributes};
use crate::record::point::BucketsView;

#[derive(Debug, Clone)]
pub(super) struct Story {
    name: String,
    description: String,
    unit: String,
    shape: Shape,
    pub(super) points: Vec<PointStory>,
}

/// A point of every kind at once: the shape says which of its parts are told.
#[derive(Debug, Clone)]
pub(super) struct PointStory {
    pairs: Vec<Pair>,
    period: Period,
    value: Number,
    count: u64,
    sum: f64,
    min: Option<f64>,
    max: Option<f64>,
    bounds: Vec<f64>,
    counts: Vec<u64>,
    scale: i32,
    zero_count: u64,
    zero_threshold: f64,
    positive: (i32, Vec<u64>),
    negative: (i32, Vec<u64>),
}

impl Story {
    pub(super) fn begin(&self, record: &mut MetricRecord, max_bytes: usize) {
        let Self { name, description, unit, shape, .. } = self;
        record.begin(&MetricHead { name, description, unit, shape: *shape }, max_bytes);
    }

    /// Adds one of its points.
    pub(super) fn add(&self, index: usize, record: &mut MetricRecord) -> bool {
        let point = &self.points[index];
        let attributes = AttributeSet::new(point.pairs.iter().copied());
        match self.shape {
            Shape::Gauge | Shape::Sum { .. } => record.number(&attributes, point.period, point.value),
            Shape::Histogram { .. } => record.histogram(&attributes, point.period, &point.histogram()),
            Shape::ExponentialHistogram { .. } => {
                record.exponential(&attributes, point.period, &point.exponential())
            }
        }
    }

    /// All of it, up to the end.
    pub(super) fn tell(&self, record: &mut MetricRecord) {
        self.begin(record, usize::MAX);
        for index in 0..self.points.len() {
            assert!(self.add(index, record));
        }
    }

    /// What must arrive of these points.
    pub(super) fn metric(&self, points: Range<usize>) -> Metric {
        let points = self.points[points].iter();
        let data = match self.shape {
            Shape::Gauge => Data::Gauge(Gauge { data_points: points.map(PointStory::number).collect() }),
            Shape::Sum { monotonic, temporality } => Data::Sum(Sum {
                data_points: points.map(PointStory::number).collect(),
                aggregation_temporality: otlp_temporality(temporality),
                is_monotonic: monotonic,
            }),
            Shape::Histogram { temporality } => Data::Histogram(Histogram {
                data_points: points.map(PointStory::histogram_message).collect(),
                aggregation_temporality: otlp_temporality(temporality),
            }),
            Shape::ExponentialHistogram { temporality } => Data::ExponentialHistogram(ExponentialHistogram {
                data_points: points.map(PointStory::exponential_message).collect(),
                aggregation_temporality: otlp_temporality(temporality),
            }),
        };
        Metric {
            name: self.name.clone(),
            description: self.description.clone(),
            unit: self.unit.clone(),
            data: Some(data),
            ..Default::default()
        }
    }
}

impl PointStory {
    fn histogram(&self) -> HistogramPoint<'_> {
        let Self { count, sum, min, max, bounds, counts, .. } = self;
        HistogramPoint { count: *count, sum: *sum, min: *min, max: *max, bounds, counts }
    }

    fn exponential(&self) -> ExponentialPoint<'_> {
        ExponentialPoint {
            count: self.count,
            sum: self.sum,
            min: self.min,
            max: self.max,
            scale: self.scale,
            zero_count: self.zero_count,
            zero_threshold: self.zero_threshold,
            positive: BucketsView { offset: self.positive.0, counts: &self.positive.1 },
            negative: BucketsView { offset: self.negative.0, counts: &self.negative.1 },
        }
    }

    fn number(&self) -> NumberDataPoint {
        NumberDataPoint {
            attributes: attributes(&self.pairs),
            start_time_unix_nano: self.period.start,
            time_unix_nano: self.period.time,
            value: Some(match self.value {
                Number::Int(number) => number_data_point::Value::AsInt(number),
                Number::Float(number) => number_data_point::Value::AsDouble(number),
            }),
            ..Default::default()
        }
    }

    fn histogram_message(&self) -> HistogramDataPoint {
        HistogramDataPoint {
            attributes: attributes(&self.pairs),
            start_time_unix_nano: self.period.start,
            time_unix_nano: self.period.time,
            count: self.count,
            sum: Some(self.sum),
            bucket_counts: self.counts.clone(),
            explicit_bounds: self.bounds.clone(),
            min: self.min,
            max: self.max,
            ..Default::default()
        }
    }

    fn exponential_message(&self) -> ExponentialHistogramDataPoint {
        let buckets = |(offset, counts): &(i32, Vec<u64>)| {
            (!counts.is_empty()).then(|| Buckets { offset: *offset, bucket_counts: counts.clone() })
        };
        ExponentialHistogramDataPoint {
            attributes: attributes(&self.pairs),
            start_time_unix_nano: self.period.start,
            time_unix_nano: self.period.time,
            count: self.count,
            sum: Some(self.sum),
            scale: self.scale,
            zero_count: self.zero_count,
            zero_threshold: self.zero_threshold,
            positive: buckets(&self.positive),
            negative: buckets(&self.negative),
            min: self.min,
            max: self.max,
            ..Default::default()
        }
    }
}

/// Delta is 1, cumulative is 2.
fn otlp_temporality(temporality: AggregationTemporality) -> i32 {
    match temporality {
        AggregationTemporality::Delta => 1,
        AggregationTemporality::Cumulative => 2,
    }
}

/// How many points a decoder finds.
pub(super) fn points(metric: &Metric) -> u64 {
    let points = match &metric.data {
        None => 0,
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
    };
    points as u64
}

pub(super) fn any_story() -> impl Strategy<Value = Story> {
    let points = prop::collection::vec(any_point(), 0..8);
    (any_text(), any_text(), any_text(), any_shape(), points)
        .prop_map(|(name, description, unit, shape, points)| Story { name, description, unit, shape, points })
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let temporality =
        || prop::sample::select(vec![AggregationTemporality::Cumulative, AggregationTemporality::Delta]);
    prop_oneof![
        Just(Shape::Gauge),
        (any::<bool>(), temporality())
            .prop_map(|(monotonic, temporality)| Shape::Sum { monotonic, temporality }),
        temporality().prop_map(|temporality| Shape::Histogram { temporality }),
        temporality().prop_map(|temporality| Shape::ExponentialHistogram { temporality }),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-zé水]{0,12}", (100usize..300).prop_map(|length| "ä".repeat(length))]
}

fn any_point() -> impl Strategy<Value = PointStory> {
    let float = || prop_oneof![Just(0.0), prop::num::f64::ANY];
    let small = || prop_oneof![Just(0u64), any::<u64>()];
    let counts = || prop::collection::vec(prop_oneof![0u64..300, any::<u64>()], 0..20);
    let value = prop_oneof![
        prop_oneof![Just(0), any::<i64>()].prop_map(Number::Int),
        float().prop_map(Number::Float)
    ];
    let side = || (prop_oneof![-2i32..3, any::<i32>()], counts());
    let totals = (small(), float(), prop::option::of(float()), prop::option::of(float()));
    let zeros = (small(), prop_oneof![Just(0.0), 0.0..1e9f64]);
    let explicit = (prop::collection::vec(float(), 0..20), counts());
    let exponential = (prop_oneof![-10i32..21, any::<i32>()], zeros, side(), side());
    (any_pairs(), small(), small(), value, totals, explicit, exponential).prop_map(
        |(pairs, start, time, value, totals, explicit, exponential)| {
            let (count, sum, min, max) = totals;
            let (bounds, counts) = explicit;
            let (scale, (zero_count, zero_threshold), positive, negative) = exponential;
            PointStory {
                pairs,
                period: Period { start, time },
                value,
                count,
                sum,
                min,
                max,
                bounds,
                counts,
                scale,
                zero_count,
                zero_threshold,
                positive,
                negative,
            }
        },
    )
}
