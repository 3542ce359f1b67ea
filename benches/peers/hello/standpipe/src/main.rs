//! Sends one span with standpipe, through its own API or through the bridge that a feature selects.

use std::io;
use std::time::Duration;

use standpipe::{Config, FlushOutcome, Telemetry};

const TIMEOUT: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let telemetry = Telemetry::start(config()?)?;
    say_hello(&telemetry)?;
    if telemetry.flush(TIMEOUT) != FlushOutcome::Complete {
        return Err("the span was not sent in time".into());
    }
    println!("sent");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    telemetry.shutdown(TIMEOUT);
    Ok(())
}

#[cfg(feature = "file")]
fn config() -> Result<Config, standpipe::ConfigError> {
    Config::from_file(concat!(env!("CARGO_MANIFEST_DIR"), "/telemetry.toml"))
}

#[cfg(not(feature = "file"))]
fn config() -> Result<Config, std::env::VarError> {
    use standpipe::Exporter;

    let exporter = match cfg!(feature = "grpc") {
        true => Exporter::grpc(std::env::var("GRPC_ENDPOINT")?),
        false => Exporter::http(std::env::var("ENDPOINT")?),
    };
    Ok(Config::new().service_name("hello").exporter(exporter))
}

#[cfg(not(any(feature = "tracing", feature = "opentelemetry")))]
fn say_hello(telemetry: &Telemetry) -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "log")]
    {
        standpipe::bridge::log::LogBridge::new(telemetry).install()?;
        log::info!("hello");
    }
    #[cfg(feature = "metrics")]
    {
        standpipe::bridge::metrics::MetricsRecorder::new(telemetry).install()?;
        metrics::counter!("hellos").increment(1);
    }
    telemetry.tracer("hello").span("hello").set("answer", 42);
    Ok(())
}

#[cfg(feature = "tracing")]
fn say_hello(telemetry: &Telemetry) -> Result<(), Box<dyn std::error::Error>> {
    use standpipe::bridge::tracing::TracingLayer;
    use tracing_subscriber::prelude::*;

    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(telemetry));
    tracing::subscriber::set_global_default(subscriber)?;
    tracing::info_span!("hello", answer = 42).in_scope(|| ());
    Ok(())
}

#[cfg(feature = "opentelemetry")]
fn say_hello(telemetry: &Telemetry) -> Result<(), Box<dyn std::error::Error>> {
    use opentelemetry::KeyValue;
    use opentelemetry::trace::{Span, Tracer, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use standpipe::bridge::opentelemetry::SpanExporter;

    let provider = SdkTracerProvider::builder().with_span_processor(SpanExporter::new(telemetry)).build();
    let mut span = provider.tracer("hello").start("hello");
    span.set_attribute(KeyValue::new("answer", 42));
    span.end();
    Ok(())
}
