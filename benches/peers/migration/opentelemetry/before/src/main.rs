//! A program that uses the OpenTelemetry SDK, before the migration, with opentelemetry-otlp.

use std::io;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = format!("{}/v1/traces", std::env::var("ENDPOINT")?);
    let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
    let resource = Resource::builder().with_service_name("shop").build();
    let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();

    let mut span = provider.tracer("shop").start("checkout");
    span.set_attribute(KeyValue::new("order.id", 4711));
    span.add_event("paid", vec![KeyValue::new("amount", 12.5)]);
    span.end();

    println!("open until the input ends");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    provider.shutdown()?;
    Ok(())
}
