//! Spans of the `tracing` crate: standpipe's layer and tracing-opentelemetry, both without optional attributes.

use opentelemetry::trace::TracerProvider;
use standpipe::bridge::tracing::{SpanExt, TracingLayer};
use standpipe::{Exporter, SpanContext};
use tracing::Span;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};

use super::contender::{Arrives, Contender, Pipe, Setup, Spans};
use super::{ALL_TASKS, opentelemetry as otel, standpipe as own};
use crate::opentelemetry::remote;
use crate::support::Error;
use crate::support::workload::{ATTRIBUTES, text};
use crate::tracing::opentelemetry::lean;
use crate::tracing::{install, work};

pub(super) const STANDPIPE: Contender = Contender {
    name: "standpipe, tracing layer",
    short: "standpipe, tracing",
    note: "spans of the `tracing` crate over HTTP, lean: without location and threads",
    arrives: Arrives::WithoutKind,
    tasks: ALL_TASKS,
    attributes: &[ATTRIBUTES],
    can_compress: true,
    start: standpipe,
};

pub(super) const OPENTELEMETRY: Contender = Contender {
    name: "tracing-opentelemetry 0.34",
    short: "tracing-opentelemetry",
    note: "the same spans, lean: without location, threads, target, level and busy times; with opentelemetry-otlp 0.33 \
           over HTTP, as above",
    start: opentelemetry,
    ..STANDPIPE
};

fn standpipe(setup: &Setup) -> Result<Pipe, Error> {
    let telemetry = own::telemetry(setup, Exporter::http(&setup.endpoint))?;
    install(TracingLayer::new(&*telemetry).location(false).threads(false))?;
    let remote = SpanContext::from_traceparent(text::REMOTE)?;
    let adopt = move |root: &Span| {
        // If this fails, the collector counts the span as incomplete.
        SpanExt::set_parent(root, &remote);
    };
    Ok(own::pipe(Traces(adopt), telemetry))
}

fn opentelemetry(setup: &Setup) -> Result<Pipe, Error> {
    let (provider, pace) = otel::provider(setup, otel::http(setup)?);
    install(lean(OpenTelemetryLayer::new(provider.tracer(text::SCOPE))))?;
    let remote = remote();
    let adopt = move |root: &Span| {
        // If this fails, the collector counts the span as incomplete.
        let _ = OpenTelemetrySpanExt::set_parent(root, remote.clone());
    };
    Ok(otel::pipe(Traces(adopt), provider, None).paced(pace))
}

/// Emits spans of the `tracing` crate. The field is a function that sets the remote parent of a root.
#[derive(Clone)]
struct Traces<A>(A);

impl<A: Fn(&Span) + Send + Sync> Spans for Traces<A> {
    fn root(&self, within: impl FnOnce()) {
        let root = work::root();
        (self.0)(&root);
        let _inside = root.enter();
        within();
    }

    fn child(&self) {
        let _inside = work::child().entered();
    }
}
