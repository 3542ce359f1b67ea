//! Metrics that the OpenTelemetry SDK has added up, on their way into the queue.

mod frame;

use std::future::{Future, ready};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;

use super::input::{Disposition, SdkInput};
use super::scopes::Scopes;
use crate::config;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{FramedPoints, MetricRecord, Signal};
use crate::telemetry::provider::Provider;

/// An exporter of the OpenTelemetry SDK's metrics: they go through a provider's queues, to every exporter there that takes
/// metrics.
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
/// # Who collects, and when
///
/// The SDK's `PeriodicReader` has a thread and an interval of its own, 60 seconds unless `with_interval` or
/// `OTEL_METRIC_EXPORT_INTERVAL` says otherwise; the interval of this crate's exporters is for the instruments of
/// [`Meter`](crate::Meter)s. A `ManualReader`, which the SDK has with its feature `experimental_metrics_custom_reader`,
/// collects on demand: give what it collected to [`export`](PushMetricExporter::export), whose future is ready
/// at once.
///
/// `SdkMeterProvider::force_flush` only collects, and puts the metrics into the queues; for their delivery call
/// [`Telemetry::flush`](crate::Telemetry::flush) after it. The SDK sets no limit to it: while the reader's thread waits for
/// room, so does its caller. Its `shutdown` delivers them within the SDK's five seconds, or
/// says that it could not; then the telemetry goes on with them. Shut the provider down first and the telemetry last.
///
/// # What is counted, and what has room
///
/// The ledger counts data points. A metric with many of them is sent in parts, within the limits of the batches and the
/// queues. When a queue is full, the reader's thread waits, or the whole part is dropped and counted by its points, as
/// the exporter is set. A part waits for its delivery like a span: no newer metrics replace it, as those of
/// [`Meter`](crate::Meter)s do while they cannot be delivered.
///
/// # Temporality
///
/// It is that of the provider's first exporter that takes metrics, and cumulative if there is none. The SDK adds up once:
/// all exporters of the provider get the same points, whatever temporality they are set to.
///
/// # How it is written
///
/// As `opentelemetry-otlp` would send it, with these differences: the attributes of a point are sorted, and each key is
/// there once; an empty key is left out; an unsigned number beyond the largest signed one is sent as that, not as 0;
/// empty buckets of an exponential histogram, and metrics without points, are not sent at all. The SDK has no exemplars
/// yet.
#[derive(Debug)]
pub struct MetricExporter {
    input: SdkInput,
}

impl MetricExporter {
    /// An exporter into the main provider of a [`Telemetry`](crate::Telemetry), or into any [`Provider`].
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        Self { input: SdkInput::new(provider.as_ref(), Signal::Metrics) }
    }

    fn send(&self, metrics: &ResourceMetrics, fate: Disposition) {
        let exporters = self.input.exporters();
        let Some(limits) = exporters.frame_limits() else { return };
        // not kept: every collection brings its resource, and comes so seldom that nothing would be saved
        let mut scopes = Scopes::new(Signal::Metrics);
        scopes.set_resource(metrics.resource());
        let mut record = MetricRecord::default();
        for of_scope in metrics.scope_metrics() {
            let scope = scopes.find(of_scope.scope(), None);
            let limits = limits.beside(&scope);
            for metric in of_scope.metrics() {
                frame::each_part(metric, &mut record, limits, |part| match (part, fate) {
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
        ready(self.input.take(|fate| self.send(metrics, fate)))
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.input.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.input.shut_down(timeout)
    }

    fn temporality(&self) -> Temporality {
        match self.input.exporters().temporality() {
            None | Some(config::Temporality::Cumulative) => Temporality::Cumulative,
            Some(config::Temporality::Delta) => Temporality::Delta,
            Some(config::Temporality::LowMemory) => Temporality::LowMemory,
        }
    }
}
