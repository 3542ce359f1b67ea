//! Programs that use the library, run as processes: their telemetry, and their behavior in an outage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod example;
mod outages;
mod sensor;
mod web_service;

#[path = "../support/mod.rs"]
mod support;
