//! Records of programs that use tracing, log, metrics or the OpenTelemetry SDK.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod feedback;
mod feedback_bridges;
mod log_bridge;
mod metrics_bridge;
mod opentelemetry;
mod readme;
#[path = "../support/mod.rs"]
mod support;
mod tracing_bridge;
