//! Start-up of the telemetry.

use std::error::Error;

use standpipe::bridge::tracing::TracingLayer;
use standpipe::{Config, Telemetry};
use tracing_subscriber::prelude::*;

/// From here on, all that the program and its libraries say by `tracing`, `log` and `metrics` is sent.
pub(crate) fn start(service: &str) -> Result<Telemetry, Box<dyn Error>> {
    let config = Config::from_env()?.service_name(service);
    let telemetry = Telemetry::start(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&telemetry));
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(telemetry)
}
