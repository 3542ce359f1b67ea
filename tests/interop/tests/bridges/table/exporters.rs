//! Standpipe's exporters for the OpenTelemetry SDK beside those of opentelemetry-otlp.

use super::Meant;

pub(crate) const EXPORTERS: &[Meant] = &[];
