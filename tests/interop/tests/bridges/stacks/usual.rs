//! tracing-opentelemetry and opentelemetry-appender-tracing, the OpenTelemetry SDK and opentelemetry-otlp.

use std::collections::HashMap;

use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use standpipe::receiver::Receiver;
use tracing::Span;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::Layer;

use super::{BoxedLayer, PROGRAM, Remote, Settings, Stack};
use crate::otlp;

pub(crate) struct Usual {
    settings: Settings,
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    logging: SdkLoggerProvider,
}

impl Usual {
    pub(crate) fn start(receiver: &Receiver, settings: Settings) -> Box<dyn Stack> {
        let resource = Resource::builder().with_service_name(PROGRAM).build();
        let endpoint = receiver.endpoint();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_batch_exporter(otlp::spans(&endpoint))
            .build();
        let logging = SdkLoggerProvider::builder()
            .with_resource(resource)
            .with_batch_exporter(otlp::logs(&endpoint))
            .build();
        let tracer = provider.tracer(PROGRAM);
        Box::new(Self { settings, provider, tracer, logging })
    }
}

impl Stack for Usual {
    fn layer(&self) -> BoxedLayer {
        let settings = self.settings;
        let layer = OpenTelemetryLayer::new(self.tracer.clone());
        if settings.untouched {
            return layer.boxed();
        }
        if settings.logs {
            return layer.and_then(OpenTelemetryTracingBridge::new(&self.logging)).boxed();
        }
        layer
            .with_location(settings.location)
            .with_threads(settings.threads)
            .with_level(settings.level)
            .with_tracked_inactivity(settings.busy_and_idle)
            .boxed()
    }

    fn set_parent(&self, span: &Span, remote: Remote) -> bool {
        OpenTelemetrySpanExt::set_parent(span, extract(remote)).is_ok()
    }

    fn add_link(&self, span: &Span, remote: Remote) {
        OpenTelemetrySpanExt::add_link(span, extract(remote).span().span_context().clone());
    }

    fn inject(&self, span: &Span) -> (String, String) {
        let mut headers = HashMap::new();
        TraceContextPropagator::new().inject_context(&OpenTelemetrySpanExt::context(span), &mut headers);
        let mut header = |name| headers.remove(name).unwrap_or_default();
        (header("traceparent"), header("tracestate"))
    }

    fn native_span(&self, name: &'static str, work: &dyn Fn()) {
        self.tracer.in_span(name, |_| work());
    }

    fn finish(&self) {
        self.provider.shutdown().unwrap();
        self.logging.shutdown().unwrap();
    }
}

fn extract(remote: Remote) -> Context {
    let headers = [("traceparent", remote.traceparent), ("tracestate", remote.tracestate)];
    let headers: HashMap<String, String> =
        headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    // Extracts into an empty context, without the program's current span.
    TraceContextPropagator::new().extract_with_context(&Context::new(), &headers)
}
