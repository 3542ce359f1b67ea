//! tracing-opentelemetry with the OpenTelemetry SDK: batch span processor, OTLP over HTTP with reqwest's blocking
//! client.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::Registry;

use super::{Case, Contender, install, work};
use crate::opentelemetry::{flush, remote};
use crate::support::Error;
use crate::support::program::{BURST, Program};
use crate::support::workload::{PATIENCE, text};

pub(super) const LEAN: Contender = Contender {
    name: "tracing-opentelemetry 0.34, lean",
    note: "without location, threads, target, level and busy times; with opentelemetry-otlp 0.33 over HTTP; with a \
           queue that holds a burst (the default queue holds 2,048 spans and drops the rest)",
    sends: true,
    start: |case, endpoint| start(case, endpoint, lean),
};

pub(super) const DEFAULT: Contender = Contender {
    name: "tracing-opentelemetry 0.34",
    note: "the same with all defaults except the queue",
    sends: true,
    start: |case, endpoint| start(case, endpoint, |layer| layer),
};

type OfRegistry = OpenTelemetryLayer<Registry, SdkTracer>;

/// Disables the attributes that the layer adds by default.
pub(crate) fn lean(layer: OfRegistry) -> OfRegistry {
    layer
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false)
}

fn start(case: &Case, endpoint: &str, set: fn(OfRegistry) -> OfRegistry) -> Result<Program, Error> {
    let exporter =
        SpanExporter::builder().with_http().with_endpoint(format!("{endpoint}/v1/traces")).build()?;
    let config = BatchConfigBuilder::default().with_max_queue_size(2 * BURST as usize).build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(config).build())
        .with_resource(Resource::builder().with_service_name("bench").build())
        .build();
    install(set(OpenTelemetryLayer::new(provider.tracer(text::SCOPE))))?;
    let remote = remote();
    let burst = work::burst(case, move |root| {
        // If this fails, the receiver does not count the span.
        let _ = root.set_parent(remote.clone());
    });
    let flushed = provider.clone();
    Ok(Program::new(burst, move || flush(&flushed), move || Ok(provider.shutdown_with_timeout(PATIENCE)?)))
}
