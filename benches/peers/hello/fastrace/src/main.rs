//! Sends one span with fastrace and fastrace-opentelemetry.

use std::borrow::Cow;
use std::io;

use fastrace::Span;
use fastrace::collector::Config;
use fastrace::prelude::SpanContext;
use fastrace_opentelemetry::OpenTelemetryReporter;
use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = format!("{}/v1/traces", std::env::var("ENDPOINT")?);
    let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
    let resource = Cow::Owned(Resource::builder().with_service_name("hello").build());
    let scope = InstrumentationScope::builder("hello").build();
    fastrace::set_reporter(OpenTelemetryReporter::new(exporter, resource, scope), Config::default());

    drop(Span::root("hello", SpanContext::random()).with_property(|| ("answer", "42")));

    fastrace::flush();
    println!("sent");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
