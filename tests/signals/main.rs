//! Spans, log records and metrics as they arrive, through every API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod baggage;
mod detached;
mod errors;
mod hostile_values;
mod logs;
mod metrics;
mod open_spans;
mod propagation;
mod propagators;
mod sampling;
mod scopes;
mod spans;
#[path = "../support/mod.rs"]
mod support;
