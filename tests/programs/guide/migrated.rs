//! A program that uses `tracing` and was migrated from tracing-opentelemetry.

use std::error::Error;
use std::time::Duration;

use standpipe::bridge::tracing::TracingLayer;
use standpipe::{Config, Telemetry};
use tracing::{error, info, instrument};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_env()?.default_service_name("shop");
    let telemetry = Telemetry::start(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;
    let layer = TracingLayer::new(&telemetry).with_filter(LevelFilter::INFO);
    tracing_subscriber::registry().with(layer).init();

    for order in 0..3 {
        if let Err(error) = check_out(order) {
            error!(order, error = error.as_ref() as &dyn Error, "not paid");
        }
    }

    println!("{}", telemetry.shutdown(Duration::from_secs(2)));
    Ok(())
}

#[instrument(err)]
fn check_out(order: u64) -> Result<(), Box<dyn Error>> {
    info!(amount = 12.5, "paying");
    if order == 2 {
        return Err("the card was declined".into());
    }
    Ok(())
}
