//! The same program after the migration, with standpipe's exporter for the OpenTelemetry SDK.

use std::io;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use standpipe::bridge::opentelemetry::SpanExporter;
use standpipe::{Config, Exporter, Telemetry};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::var("ENDPOINT")?;
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(endpoint)))?;
    let exporter = SpanExporter::new(&telemetry);
    let resource = Resource::builder().with_service_name("shop").build();
    let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(exporter).build();

    let mut span = provider.tracer("shop").start("checkout");
    span.set_attribute(KeyValue::new("order.id", 4711));
    span.add_event("paid", vec![KeyValue::new("amount", 12.5)]);
    span.end();

    println!("open until the input ends");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    provider.shutdown()?;
    telemetry.shutdown(Duration::from_secs(2));
    Ok(())
}
