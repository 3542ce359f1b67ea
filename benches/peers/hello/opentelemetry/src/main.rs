//! Sends one span with opentelemetry-otlp, over HTTP (reqwest) or gRPC (tonic).

use std::io;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "grpc")]
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    #[cfg(feature = "grpc")]
    let _inside = runtime.enter();
    let resource = Resource::builder().with_service_name("hello").build();
    let provider =
        SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter()?).build();

    let mut span = provider.tracer("hello").start("hello");
    span.set_attribute(KeyValue::new("answer", 42));
    span.end();

    provider.force_flush()?;
    println!("sent");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    provider.shutdown()?;
    Ok(())
}

#[cfg(not(feature = "grpc"))]
fn exporter() -> Result<SpanExporter, Box<dyn std::error::Error>> {
    let endpoint = format!("{}/v1/traces", std::env::var("ENDPOINT")?);
    Ok(SpanExporter::builder().with_http().with_endpoint(endpoint).build()?)
}

#[cfg(feature = "grpc")]
fn exporter() -> Result<SpanExporter, Box<dyn std::error::Error>> {
    let endpoint = std::env::var("GRPC_ENDPOINT")?;
    Ok(SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?)
}
