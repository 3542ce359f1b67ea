//! Programs that use the OpenTelemetry SDK, bridged: what they make arrives, with all that they said about it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../support/scene.rs"]
mod scene;

mod arrivals;
mod ends;
mod propagation;
