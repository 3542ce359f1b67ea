//! Whole programs that use the library, run as processes: what they send, and how they take an outage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod example;
mod outages;
mod sensor;
mod web_service;

#[path = "../support/mod.rs"]
mod support;
