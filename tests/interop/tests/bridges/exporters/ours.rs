//! Standpipe's exporters, in each way that the SDK can use them.

use std::time::Duration;

use opentelemetry_sdk::logs::LoggerProviderBuilder;
use opentelemetry_sdk::metrics::{MeterProviderBuilder, PeriodicReader, Temporality};
use opentelemetry_sdk::trace::TracerProviderBuilder;
use standpipe::bridge::opentelemetry::{LogExporter, MetricExporter, SpanExporter};
use standpipe::config::Proxy;
use standpipe::{Config, Exporter, Severity, Telemetry};

use super::{Exporters, NEVER};

pub(crate) struct Ours {
    telemetry: Telemetry,
    way: Way,
}

/// The way in which the SDK passes records on.
#[derive(Clone, Copy)]
enum Way {
    Processor,
    Batches,
    OneByOne,
}

impl Ours {
    /// As processors, which is recommended.
    pub(crate) fn as_processors(endpoint: &str, temporality: Temporality) -> Box<dyn Exporters> {
        Box::new(Self::start(endpoint, temporality, Way::Processor))
    }

    /// Behind the SDK's own queue.
    pub(crate) fn in_batches(endpoint: &str, temporality: Temporality) -> Box<dyn Exporters> {
        Box::new(Self::start(endpoint, temporality, Way::Batches))
    }

    pub(crate) fn one_by_one(endpoint: &str, temporality: Temporality) -> Box<dyn Exporters> {
        Box::new(Self::start(endpoint, temporality, Way::OneByOne))
    }

    fn start(endpoint: &str, temporality: Temporality, way: Way) -> Self {
        let temporality = match temporality {
            Temporality::Delta => standpipe::config::Temporality::Delta,
            Temporality::LowMemory => standpipe::config::Temporality::LowMemory,
            _ => standpipe::config::Temporality::Cumulative,
        };
        let exporter = Exporter::http(endpoint)
            .proxy(Proxy::Off)
            .throttle(Duration::ZERO)
            .level(Severity::Trace)
            .temporality(temporality);
        // Not the SDK's service name, so that a record with the wrong name is noticed.
        let config = Config::new().service_name("till").exporter(exporter);
        Self { telemetry: Telemetry::start(config).unwrap(), way }
    }
}

impl Exporters for Ours {
    fn add_to_spans(&self, builder: TracerProviderBuilder) -> TracerProviderBuilder {
        let exporter = SpanExporter::new(&self.telemetry);
        match self.way {
            Way::Processor => builder.with_span_processor(exporter),
            Way::Batches => builder.with_batch_exporter(exporter),
            Way::OneByOne => builder.with_simple_exporter(exporter),
        }
    }

    fn add_to_logs(&self, builder: LoggerProviderBuilder) -> LoggerProviderBuilder {
        let exporter = LogExporter::new(&self.telemetry);
        match self.way {
            Way::Processor => builder.with_log_processor(exporter),
            Way::Batches => builder.with_batch_exporter(exporter),
            Way::OneByOne => builder.with_simple_exporter(exporter),
        }
    }

    fn add_to_metrics(&self, builder: MeterProviderBuilder) -> MeterProviderBuilder {
        let exporter = MetricExporter::new(&self.telemetry);
        builder.with_reader(PeriodicReader::builder(exporter).with_interval(NEVER).build())
    }

    fn finish(&self) {
        let ledger = self.telemetry.shutdown(Duration::from_secs(60));
        assert_eq!(ledger.lost(), 0, "{ledger}");
    }
}
