//! The usual exporters: opentelemetry-otlp with reqwest.

use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::metrics::Temporality;

pub(crate) fn spans(endpoint: &str) -> SpanExporter {
    let exporter = SpanExporter::builder().with_http().with_http_client(client());
    let exporter = exporter.with_protocol(Protocol::HttpBinary);
    exporter.with_endpoint(format!("{endpoint}/v1/traces")).build().unwrap()
}

pub(crate) fn logs(endpoint: &str) -> LogExporter {
    let exporter = LogExporter::builder().with_http().with_http_client(client());
    let exporter = exporter.with_protocol(Protocol::HttpBinary);
    exporter.with_endpoint(format!("{endpoint}/v1/logs")).build().unwrap()
}

pub(crate) fn metrics(endpoint: &str, temporality: Temporality) -> MetricExporter {
    let exporter = MetricExporter::builder().with_http().with_http_client(client());
    let exporter = exporter.with_protocol(Protocol::HttpBinary).with_temporality(temporality);
    exporter.with_endpoint(format!("{endpoint}/v1/metrics")).build().unwrap()
}

/// A client that ignores the proxies of the environment.
fn client() -> reqwest::blocking::Client {
    reqwest::blocking::Client::builder().no_proxy().build().unwrap()
}
