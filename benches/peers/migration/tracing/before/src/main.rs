//! A program that uses the `tracing` crate, before the migration, with tracing-opentelemetry and opentelemetry-otlp.

use std::io;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = format!("{}/v1/traces", std::env::var("ENDPOINT")?);
    let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
    let resource = Resource::builder().with_service_name("shop").build();
    let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("shop")))
        .init();

    tracing::info_span!("checkout", order.id = 4711).in_scope(|| tracing::info!(amount = 12.5, "paid"));

    println!("open until the input ends");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    provider.shutdown()?;
    Ok(())
}
