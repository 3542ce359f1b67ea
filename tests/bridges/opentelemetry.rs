//! Programs that use the OpenTelemetry SDK through the bridge: their records arrive with every field.

mod arrivals;
mod ends;
mod metrics;
mod propagation;
