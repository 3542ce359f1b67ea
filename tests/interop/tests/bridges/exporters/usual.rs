//! opentelemetry-otlp with reqwest.

use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use standpipe::receiver::Receiver;

use super::Exporters;
use crate::stacks::client;

pub(crate) struct Usual {
    endpoint: String,
    temporality: Temporality,
}

impl Exporters for Usual {
    fn start(receiver: &Receiver, temporality: Temporality) -> Self {
        Self { endpoint: receiver.endpoint(), temporality }
    }

    fn spans(&self) -> impl opentelemetry_sdk::trace::SpanExporter + 'static {
        let builder = SpanExporter::builder().with_http().with_http_client(client());
        let builder = builder.with_protocol(Protocol::HttpBinary);
        builder.with_endpoint(format!("{}/v1/traces", self.endpoint)).build().unwrap()
    }

    fn logs(&self) -> impl opentelemetry_sdk::logs::LogExporter + 'static {
        let builder = LogExporter::builder().with_http().with_http_client(client());
        let builder = builder.with_protocol(Protocol::HttpBinary);
        builder.with_endpoint(format!("{}/v1/logs", self.endpoint)).build().unwrap()
    }

    fn metrics(&self) -> impl PushMetricExporter {
        let builder = MetricExporter::builder().with_http().with_http_client(client());
        let builder = builder.with_protocol(Protocol::HttpBinary).with_temporality(self.temporality);
        builder.with_endpoint(format!("{}/v1/metrics", self.endpoint)).build().unwrap()
    }

    fn finish(self) {}
}
