//! The exporters of opentelemetry-otlp.

use opentelemetry_sdk::logs::LoggerProviderBuilder;
use opentelemetry_sdk::metrics::{MeterProviderBuilder, PeriodicReader, Temporality};
use opentelemetry_sdk::trace::TracerProviderBuilder;

use super::{Exporters, NEVER};
use crate::otlp;

pub(crate) struct Usual {
    endpoint: String,
    temporality: Temporality,
}

impl Usual {
    pub(crate) fn start(endpoint: &str, temporality: Temporality) -> Box<dyn Exporters> {
        Box::new(Self { endpoint: endpoint.to_owned(), temporality })
    }
}

impl Exporters for Usual {
    fn add_to_spans(&self, builder: TracerProviderBuilder) -> TracerProviderBuilder {
        builder.with_batch_exporter(otlp::spans(&self.endpoint))
    }

    fn add_to_logs(&self, builder: LoggerProviderBuilder) -> LoggerProviderBuilder {
        builder.with_batch_exporter(otlp::logs(&self.endpoint))
    }

    fn add_to_metrics(&self, builder: MeterProviderBuilder) -> MeterProviderBuilder {
        let exporter = otlp::metrics(&self.endpoint, self.temporality);
        builder.with_reader(PeriodicReader::builder(exporter).with_interval(NEVER).build())
    }

    fn finish(&self) {}
}
