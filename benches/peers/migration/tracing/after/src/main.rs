//! The same program after the migration, with standpipe's layer for `tracing`.

use std::io;
use std::time::Duration;

use standpipe::bridge::tracing::TracingLayer;
use standpipe::{Config, Exporter, Telemetry};
use tracing_subscriber::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::var("ENDPOINT")?;
    let config = Config::new().service_name("shop").exporter(Exporter::http(endpoint));
    let telemetry = Telemetry::start(config)?;
    tracing_subscriber::registry().with(TracingLayer::new(&telemetry)).init();

    tracing::info_span!("checkout", order.id = 4711).in_scope(|| tracing::info!(amount = 12.5, "paid"));

    println!("open until the input ends");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    telemetry.shutdown(Duration::from_secs(2));
    Ok(())
}
