//! Pure: the SDK's metrics, written as framed OTLP metrics.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, ExponentialBucket, ExponentialHistogramDataPoint, HistogramDataPoint, Metric,
    MetricData,
};

use super::super::value::Shown;
use crate::context::unix_nanos;
use crate::record::{
    AggregationTemporality, AttributeSet, BucketsView, ExponentialPoint, FrameLimits, FramedPoints,
    HistogramPoint, MetricFramer, MetricHead, MetricRecord, Number, Period, PointKind,
};

/// Frames a metric and gives it in as many parts as the limits ask for. `record` is storage to reuse.
pub(super) fn each_part(
    metric: &Metric,
    record: &mut MetricRecord,
    limits: FrameLimits,
    give: impl FnMut(FramedPoints<'_>),
) {
    let begin = |point_kind| {
        let (name, description, unit) = (metric.name(), metric.description(), metric.unit());
        MetricFramer::begin(MetricHead { name, description, unit, point_kind }, record, limits, give)
    };
    match metric.data() {
        AggregatedMetrics::F64(data) => add_all(data, begin),
        AggregatedMetrics::U64(data) => add_all(data, begin),
        AggregatedMetrics::I64(data) => add_all(data, begin),
    }
}

/// Adds all points to the parts that `begin` gives.
fn add_all<'a, T: Measured, G: FnMut(FramedPoints<'_>)>(
    data: &MetricData<T>,
    begin: impl FnOnce(PointKind) -> MetricFramer<'a, G>,
) {
    let mut framer = begin(point_kind(data));
    match data {
        MetricData::Gauge(gauge) => {
            let start = gauge.start_time().map_or(0, unix_nanos);
            let period = Period { start, time: unix_nanos(gauge.time()) };
            for point in gauge.data_points() {
                let attributes = attributes(point.attributes());
                framer.add(|record| record.number(&attributes, period, point.value().number()));
            }
        }
        MetricData::Sum(sum) => {
            let period = period(sum.start_time(), sum.time());
            for point in sum.data_points() {
                let attributes = attributes(point.attributes());
                framer.add(|record| record.number(&attributes, period, point.value().number()));
            }
        }
        MetricData::Histogram(histogram) => {
            let period = period(histogram.start_time(), histogram.time());
            for point in histogram.data_points() {
                let attributes = attributes(point.attributes());
                with_histogram(point, |point| {
                    framer.add(|record| record.histogram(&attributes, period, point));
                });
            }
        }
        MetricData::ExponentialHistogram(histogram) => {
            let period = period(histogram.start_time(), histogram.time());
            for point in histogram.data_points() {
                let attributes = attributes(point.attributes());
                with_exponential(point, |point| {
                    framer.add(|record| record.exponential(&attributes, period, point));
                });
            }
        }
    }
    framer.end();
}

fn point_kind<T>(data: &MetricData<T>) -> PointKind {
    match data {
        MetricData::Gauge(_) => PointKind::Gauge,
        MetricData::Sum(sum) => PointKind::Sum {
            monotonic: sum.is_monotonic(),
            temporality: aggregation_temporality(sum.temporality()),
        },
        MetricData::Histogram(histogram) => {
            PointKind::Histogram { temporality: aggregation_temporality(histogram.temporality()) }
        }
        MetricData::ExponentialHistogram(histogram) => {
            PointKind::ExponentialHistogram { temporality: aggregation_temporality(histogram.temporality()) }
        }
    }
}

/// Of data that was added up, where it is one or the other.
fn aggregation_temporality(temporality: Temporality) -> AggregationTemporality {
    match temporality {
        Temporality::Delta => AggregationTemporality::Delta,
        _ => AggregationTemporality::Cumulative,
    }
}

fn with_histogram<T: Measured>(point: &HistogramDataPoint<T>, take: impl FnOnce(&HistogramPoint<'_>)) {
    let bounds: Vec<_> = point.bounds().collect();
    let counts: Vec<_> = point.bucket_counts().collect();
    take(&HistogramPoint {
        count: point.count(),
        sum: point.sum().float(),
        min: point.min().map(Measured::float),
        max: point.max().map(Measured::float),
        bounds: &bounds,
        counts: &counts,
    });
}

fn with_exponential<T: Measured>(
    point: &ExponentialHistogramDataPoint<T>,
    take: impl FnOnce(&ExponentialPoint<'_>),
) {
    let counts = |bucket: &ExponentialBucket| bucket.counts().collect::<Vec<_>>();
    let (positive, negative) = (point.positive_bucket(), point.negative_bucket());
    take(&ExponentialPoint {
        count: point.count() as u64,
        sum: point.sum().float(),
        min: point.min().map(Measured::float),
        max: point.max().map(Measured::float),
        scale: point.scale().into(),
        zero_count: point.zero_count(),
        zero_threshold: point.zero_threshold(),
        positive: BucketsView { offset: positive.offset(), counts: &counts(positive) },
        negative: BucketsView { offset: negative.offset(), counts: &counts(negative) },
    });
}

fn period(start: SystemTime, time: SystemTime) -> Period {
    Period { start: unix_nanos(start), time: unix_nanos(time) }
}

fn attributes<'a>(pairs: impl Iterator<Item = &'a KeyValue>) -> AttributeSet {
    let shown: Vec<_> = pairs.map(|pair| (pair.key.as_str(), Shown::new(&pair.value))).collect();
    AttributeSet::new(shown.iter().map(|(key, shown)| (*key, shown.value())))
}

/// A type that the SDK's instruments measure in.
trait Measured: Copy {
    /// As the wire knows a sum or a gauge.
    fn number(self) -> Number;

    /// As the wire knows what is in a histogram.
    fn float(self) -> f64;
}

impl Measured for u64 {
    fn number(self) -> Number {
        // OTLP has no larger integer; a sum that falls to 0 would look like a program that was started anew
        Number::Int(i64::try_from(self).unwrap_or(i64::MAX))
    }

    fn float(self) -> f64 {
        self as f64
    }
}

impl Measured for i64 {
    fn number(self) -> Number {
        Number::Int(self)
    }

    fn float(self) -> f64 {
        self as f64
    }
}

impl Measured for f64 {
    fn number(self) -> Number {
        Number::Float(self)
    }

    fn float(self) -> f64 {
        self
    }
}

#[cfg(test)]
mod tests;
