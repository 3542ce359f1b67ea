//! Start-up of the telemetry: one line for each crate that the program speaks through.

use std::error::Error;

use metrics::{Unit, describe_histogram};
use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::tracing::TracingLayer;
use standpipe::{Config, Telemetry};
use tracing_subscriber::prelude::*;

use crate::server::DURATION;

/// The bounds in seconds that OpenTelemetry recommends for the duration of requests.
const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// From here on, all that the program and its libraries say by `tracing`, `log` and `metrics` is sent.
pub(crate) fn start(service: &str) -> Result<Telemetry, Box<dyn Error>> {
    let config = Config::from_env()?.service_name(service);
    let telemetry = Telemetry::start(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;

    // names say enough here about the place in the code, and requests have nothing to do with threads
    let layer = TracingLayer::new(&telemetry).location(false).threads(false);
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber)?;
    LogBridge::new(&telemetry).location(false).install()?;
    MetricsRecorder::new(&telemetry).bounds(DURATION, &SECONDS).install()?;
    describe_histogram!(DURATION, Unit::Seconds, "how long requests take to be answered");
    Ok(telemetry)
}
