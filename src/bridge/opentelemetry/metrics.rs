//! Metrics that the OpenTelemetry SDK has aggregated, written as framed OTLP metrics and enqueued.

use std::future::{Future, ready};
use std::time::{Duration, SystemTime};

use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::{self, AggregatedMetrics, Metric, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;

use super::input::{ConvertedValue, Disposition, Scopes, SdkInput, pass_to_input};
use crate::config;
use crate::context::unix_nanos;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{
    AggregationTemporality, AttributeSet, BucketsView, Exemplar, ExponentialPoint, FrameLimits, FramedPoints,
    HistogramPoint, MetricFramer, MetricHead, MetricRecord, Number, Period, Point, PointKind, Signal, SpanId,
    SpanRef, TraceId,
};
use crate::telemetry::provider::Provider;

/// An exporter for the OpenTelemetry SDK's metrics. The metrics go through the queues of a provider to every exporter
/// that takes metrics.
///
/// ```
/// use std::time::Duration;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::SdkMeterProvider;
/// use standpipe::bridge::opentelemetry::MetricExporter;
/// use standpipe::{Config, Exporter, Telemetry};
///
/// # let receiver = standpipe::receiver::Receiver::start().unwrap();
/// # let endpoint = receiver.endpoint();
/// let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(endpoint)))?;
/// let exporter = MetricExporter::new(&telemetry);
/// let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).build();
/// provider.meter("shop").u64_counter("orders").build().add(1, &[]);
/// provider.shutdown().expect("the last metrics are on their way");
/// let ledger = telemetry.shutdown(Duration::from_secs(2));
/// assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0));
/// # Ok::<(), standpipe::ConfigError>(())
/// ```
///
/// # Collection
///
/// The SDK's `PeriodicReader` has its own thread and interval, 60 seconds unless set by `with_interval` or
/// `OTEL_METRIC_EXPORT_INTERVAL`. The interval of this crate's exporters applies only to the instruments of
/// [`Meter`](crate::Meter)s. A `ManualReader` (the SDK's feature `experimental_metrics_custom_reader`) collects on
/// demand: pass the collected metrics to [`export`](PushMetricExporter::export), whose future is ready at once.
///
/// `SdkMeterProvider::force_flush` only collects the metrics and enqueues them. To deliver them, call
/// [`Telemetry::flush`](crate::Telemetry::flush) afterwards. The SDK has no timeout for `force_flush`: if the queue is
/// full, the reader's thread and the caller wait for room. The SDK's `shutdown` delivers the metrics within five
/// seconds or returns an error; in that case the telemetry continues to deliver them. Shut down the SDK's provider
/// first and the telemetry last.
///
/// # Counting and limits
///
/// The ledger counts data points. A metric with many points is sent in parts, within the limits of batches and queues.
/// If a queue is full, the reader's thread waits, or the whole part is dropped and its points are counted, depending
/// on the exporter's settings. A part stays in the queue until it is sent, as a span does. In contrast to metrics of a
/// [`Meter`](crate::Meter), it is not superseded by a newer collection.
///
/// # Temporality
///
/// The temporality is that of the provider's first exporter that takes metrics, or cumulative without such an exporter.
/// The SDK aggregates once: all exporters of the provider get the same points, regardless of their own setting.
///
/// # Encoding
///
/// Metrics are sent as `opentelemetry-otlp` would send them, with these differences: the attributes of a point are
/// sorted, each key occurs once, and empty keys are left out. An unsigned number that exceeds `i64::MAX` is sent as
/// `i64::MAX` instead of 0. Empty buckets of an exponential histogram, and metrics without points, are not
/// sent. Exemplars are sent, but the SDK makes none yet.
#[derive(Debug)]
pub struct MetricExporter {
    input: SdkInput,
}

impl MetricExporter {
    /// Creates an exporter to the main provider of a [`Telemetry`](crate::Telemetry), or to any [`Provider`].
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        Self { input: SdkInput::new(provider.as_ref(), Signal::Metrics) }
    }

    fn send(&self, metrics: &ResourceMetrics, disposition: Disposition) {
        let exporters = self.input.exporters();
        let Some(limits) = exporters.frame_limits() else { return };
        // The scopes are not cached: every collection comes with its resource, and collections are rare.
        let mut scopes = Scopes::new(Signal::Metrics);
        scopes.set_resource(metrics.resource());
        let mut record = MetricRecord::default();
        for of_scope in metrics.scope_metrics() {
            let scope = scopes.find(of_scope.scope(), None);
            // Each part is sent with its scope, so the scope counts toward the size of the part.
            let limits = limits.less_scope(&scope);
            for metric in of_scope.metrics() {
                each_part(metric, &mut record, limits, |part| match (part, disposition) {
                    (FramedPoints::Frame { points, .. }, Disposition::Counted(reason)) => {
                        exporters.count_points_not_enqueued(points, reason);
                    }
                    (FramedPoints::Frame { bytes, points }, _) => {
                        exporters.enqueue_metric(&scope, bytes, points)
                    }
                    (FramedPoints::TooLarge { .. }, _) => {
                        exporters.count_points_not_enqueued(1, NotEnqueuedReason::TooLarge)
                    }
                });
            }
        }
    }
}

impl PushMetricExporter for MetricExporter {
    fn export(&self, metrics: &ResourceMetrics) -> impl Future<Output = OTelSdkResult> + Send {
        ready(self.input.take(|disposition| self.send(metrics, disposition)))
    }

    fn temporality(&self) -> Temporality {
        match self.input.exporters().temporality() {
            None | Some(config::Temporality::Cumulative) => Temporality::Cumulative,
            Some(config::Temporality::Delta) => Temporality::Delta,
            Some(config::Temporality::LowMemory) => Temporality::LowMemory,
        }
    }

    pass_to_input! { force_flush shutdown_with_timeout }
}

/// Frames a metric and passes it to `give`, in as many parts as the limits require. `record` is reused as storage.
fn each_part(
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

/// Adds all points to the framer that `begin` returns.
fn add_all<'a, T: Measured, G: FnMut(FramedPoints<'_>)>(
    data: &MetricData<T>,
    begin: impl FnOnce(PointKind) -> MetricFramer<'a, G>,
) {
    let mut framer = begin(point_kind(data));
    macro_rules! add {
        ($data:ident, $period:expr, $point:ident => $converted:expr) => {
            for $point in $data.data_points() {
                let exemplars: Vec<_> = $point.exemplars().map(exemplar).collect();
                framer.add(&attributes($point.attributes()), $period, &$converted, &exemplars);
            }
        };
    }
    match data {
        MetricData::Gauge(gauge) => {
            let start = gauge.start_time().map_or(0, unix_nanos);
            let period = Period { start, time: unix_nanos(gauge.time()) };
            add!(gauge, period, point => Point::Number(point.value().number()));
        }
        MetricData::Sum(sum) => {
            let period = period(sum.start_time(), sum.time());
            add!(sum, period, point => Point::Number(point.value().number()));
        }
        MetricData::Histogram(histogram) => {
            let period = period(histogram.start_time(), histogram.time());
            add!(histogram, period, point => Point::Histogram(HistogramPoint {
                count: point.count(),
                sum: Some(point.sum().float()),
                min: point.min().map(Measured::float),
                max: point.max().map(Measured::float),
                bounds: &point.bounds().collect::<Vec<_>>(),
                counts: &point.bucket_counts().collect::<Vec<_>>(),
            }));
        }
        MetricData::ExponentialHistogram(histogram) => {
            let period = period(histogram.start_time(), histogram.time());
            add!(histogram, period, point => Point::Exponential(ExponentialPoint {
                count: point.count() as u64,
                sum: Some(point.sum().float()),
                min: point.min().map(Measured::float),
                max: point.max().map(Measured::float),
                scale: point.scale().into(),
                zero_count: point.zero_count(),
                zero_threshold: point.zero_threshold(),
                positive: BucketsView {
                    offset: point.positive_bucket().offset(),
                    counts: &point.positive_bucket().counts().collect::<Vec<_>>(),
                },
                negative: BucketsView {
                    offset: point.negative_bucket().offset(),
                    counts: &point.negative_bucket().counts().collect::<Vec<_>>(),
                },
            }));
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

/// Converts the temporality of aggregated data, which is delta or cumulative.
fn aggregation_temporality(temporality: Temporality) -> AggregationTemporality {
    match temporality {
        Temporality::Delta => AggregationTemporality::Delta,
        _ => AggregationTemporality::Cumulative,
    }
}

fn period(start: SystemTime, time: SystemTime) -> Period {
    Period { start: unix_nanos(start), time: unix_nanos(time) }
}

fn attributes<'a>(pairs: impl Iterator<Item = &'a KeyValue>) -> AttributeSet {
    let shown: Vec<_> = pairs.map(|pair| (pair.key.as_str(), ConvertedValue::new(&pair.value))).collect();
    AttributeSet::new(shown.iter().map(|(key, shown)| (*key, shown.value())))
}

fn exemplar<T: Measured>(exemplar: &data::Exemplar<T>) -> Exemplar {
    let (trace_id, span_id) = (TraceId(*exemplar.trace_id()), SpanId(*exemplar.span_id()));
    // The ids are zero for a measurement outside of spans. OTLP's exemplars have no trace flags.
    let (is_in_span, trace_flags) = (trace_id.is_valid() && span_id.is_valid(), 0);
    Exemplar {
        value: exemplar.value.number(),
        time: unix_nanos(exemplar.time()),
        span: is_in_span.then_some(SpanRef { trace_id, span_id, trace_flags }),
        removed: attributes(exemplar.filtered_attributes()),
    }
}

/// A number type of the SDK's instruments.
trait Measured: Copy {
    /// Converts to the type of a sum or a gauge in OTLP.
    fn number(self) -> Number;

    /// Converts to the type of a histogram's values in OTLP.
    fn float(self) -> f64;
}

macro_rules! measured {
    ($($type:ty, $number:expr, $float:expr;)*) => {
        $(impl Measured for $type {
            fn number(self) -> Number {
                $number(self)
            }

            fn float(self) -> f64 {
                $float(self)
            }
        })*
    };
}

measured! {
    // `i64::MAX` is OTLP's largest integer. To export 0 instead, as opentelemetry-otlp does, would look like a restart.
    u64, |value| Number::Int(i64::try_from(value).unwrap_or(i64::MAX)), |value| value as f64;
    i64, Number::Int, |value| value as f64;
    f64, Number::Float, f64::from;
}

#[cfg(test)]
mod tests;
