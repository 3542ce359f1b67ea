//! Exporters for the OpenTelemetry SDK.

mod metrics;

pub use metrics::MetricExporter;
