//! Starts the telemetry, with one line for each crate that the program uses to record.

use std::error::Error;

use log::LevelFilter;
use metrics::{Unit, describe_histogram};
use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::tracing::TracingLayer;
use standpipe::{Config, Telemetry};
use tracing_subscriber::prelude::*;

use crate::server::DURATION;

/// Starts the telemetry. From then on, everything that is recorded with `tracing`, `log` and `metrics` is sent.
pub(crate) fn start(service: &str) -> Result<Telemetry, Box<dyn Error>> {
    let config = Config::from_env()?.service_name(service);
    let telemetry = Telemetry::start(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;

    // The layer omits the thread, which does not matter, and the location, because the span names identify the code.
    let layer = TracingLayer::new(&telemetry).location(false).threads(false);
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber)?;
    LogBridge::new(&telemetry).level(LevelFilter::Info).location(false).install()?;
    MetricsRecorder::new(&telemetry).install()?;
    describe_histogram!(DURATION, Unit::Seconds, "how long requests take to be answered");
    Ok(telemetry)
}
