//! A program with one thread. Its main loop waits for readings and calls `pump` in between.

use std::error::Error;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use std::{env, str};

use standpipe::{Config, Telemetry};

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_env()?.default_service_name("sensor");
    let telemetry = Telemetry::start_manual(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;
    let (tracer, meter) = (telemetry.tracer("sensor"), telemetry.meter("sensor"));
    let temperature = meter.gauge("temperature");
    let socket = UdpSocket::bind(env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8081".to_owned()))?;
    println!("listening on {}", socket.local_addr()?);
    let mut datagram = [0; 64];
    loop {
        // Sends and retries due requests, and returns when to call it again.
        let due = telemetry.pump(Duration::from_millis(20));
        let wait = |due: Instant| due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(due.map(wait))?;
        let length = match socket.recv(&mut datagram) {
            Ok(0) => break, // an empty datagram ends the program
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut span = tracer.span("reading");
        match str::from_utf8(&datagram[..length])?.trim().parse::<f64>() {
            Ok(degrees) => temperature.record(degrees, ()),
            Err(error) => {
                span.error(&error);
            }
        }
    }
    println!("{}", telemetry.shutdown(Duration::from_secs(5)));
    Ok(())
}
