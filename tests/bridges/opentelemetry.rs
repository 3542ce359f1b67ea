//! Programs that use the OpenTelemetry SDK, bridged: what they make arrives, with all that they said about it.

mod arrivals;
mod ends;
mod metrics;
mod propagation;
