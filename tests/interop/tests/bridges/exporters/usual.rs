//! opentelemetry-otlp with reqwest.

use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::logs::LoggerProviderBuilder;
use opentelemetry_sdk::metrics::{MeterProviderBuilder, PeriodicReader, Temporality};
use opentelemetry_sdk::trace::TracerProviderBuilder;

use super::{Exporters, NEVER};
use crate::stacks::client;

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
        let exporter = SpanExporter::builder().with_http().with_http_client(client());
        let exporter = exporter.with_protocol(Protocol::HttpBinary);
        let exporter = exporter.with_endpoint(format!("{}/v1/traces", self.endpoint));
        builder.with_batch_exporter(exporter.build().unwrap())
    }

    fn add_to_logs(&self, builder: LoggerProviderBuilder) -> LoggerProviderBuilder {
        let exporter = LogExporter::builder().with_http().with_http_client(client());
        let exporter = exporter.with_protocol(Protocol::HttpBinary);
        let exporter = exporter.with_endpoint(format!("{}/v1/logs", self.endpoint));
        builder.with_batch_exporter(exporter.build().unwrap())
    }

    fn add_to_metrics(&self, builder: MeterProviderBuilder) -> MeterProviderBuilder {
        let exporter = MetricExporter::builder().with_http().with_http_client(client());
        let exporter = exporter.with_protocol(Protocol::HttpBinary).with_temporality(self.temporality);
        let exporter = exporter.with_endpoint(format!("{}/v1/metrics", self.endpoint)).build().unwrap();
        builder.with_reader(PeriodicReader::builder(exporter).with_interval(NEVER).build())
    }

    fn finish(&self) {}
}
