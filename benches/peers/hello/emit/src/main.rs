//! Sends one span with emit and emit_otlp.

use std::io;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = format!("{}/v1/traces", std::env::var("ENDPOINT")?);
    let otlp = emit_otlp::new()
        .resource(emit::props! { #[emit::key("service.name")] service_name: "hello" })
        .traces(emit_otlp::traces_http_proto(endpoint))
        .spawn();
    let emitter = emit::setup().emit_to(otlp).init();

    hello(42);

    if !emitter.blocking_flush(Duration::from_secs(5)) {
        return Err("the span was not sent in time".into());
    }
    println!("sent");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

#[emit::span("hello", answer)]
fn hello(answer: i32) {}
