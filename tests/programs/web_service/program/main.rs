//! Two small blocking web services, instrumented end to end: a storefront that takes orders and asks a warehouse to
//! reserve the goods. One request is one trace across both processes.
//!
//! ```text
//! browser ─► storefront ─► warehouse         GET /checkout?order=4711, POST /reservations
//!                 └────────────┴──► OTLP     OTEL_EXPORTER_OTLP_ENDPOINT, http://localhost:4318 unless set
//! ```
//!
//! `telemetry.rs` starts the telemetry, and `propagation.rs` carries a trace into and out of a process. The other files
//! are an ordinary service that uses `tracing`, `log` and `metrics`.

mod http;
mod propagation;
mod server;
mod storefront;
mod telemetry;
mod warehouse;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io, thread};

use server::{Server, Service};
use storefront::Storefront;
use warehouse::Warehouse;

const USAGE: &str = "usage: web_service warehouse <address>
       web_service storefront <address> <URL of the warehouse>
Port 0 is any free one. A service ends with its standard input: Ctrl-D.";

/// Budget of the shutdown.
const SHUTDOWN_BUDGET: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match arguments[..] {
        ["warehouse", address] => run("warehouse", address, &Warehouse::new()),
        ["storefront", address, warehouse] => run("storefront", address, &Storefront::new(warehouse)),
        _ => Err(USAGE.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the telemetry first and shuts it down last, so that no record is missed.
fn run(name: &str, address: &str, service: &dyn Service) -> Result<(), Box<dyn Error>> {
    let telemetry = telemetry::start(name)?;
    let server = Server::bind(address)?;
    println!("listening on http://{}", server.address());
    log::info!("open for business");
    thread::scope(|scope| {
        scope.spawn(|| server.serve(service));
        wait_for_end_of_input();
        server.stop();
    });
    println!("{}", telemetry.shutdown(SHUTDOWN_BUDGET));
    Ok(())
}

/// Waits until standard input is closed, which ends the service. The standard library cannot handle signals.
fn wait_for_end_of_input() {
    // An input that cannot be read counts as closed.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}
