//! Trace context in and out of `tracing` spans.

use tracing::{Dispatch, Id, Span};

use super::TracingLayer;
use super::open::OpenSpan;
use crate::context::SpanContext;

/// What a [`tracing::Span`] that goes through a [`TracingLayer`](super::TracingLayer) can do beside.
///
/// ```
/// use standpipe::SpanContext;
/// use standpipe::bridge::tracing::{SpanExt, TracingLayer};
/// # use standpipe::{Config, Exporter, Telemetry};
/// # use tracing_subscriber::prelude::*;
/// # let telemetry = Telemetry::start(Config::new().exporter(Exporter::http("http://127.0.0.1:1"))).unwrap();
/// # let _default = tracing_subscriber::registry().with(TracingLayer::new(&telemetry)).set_default();
/// # let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
///
/// let request = tracing::info_span!("GET /orders", otel.kind = "server");
/// if let Ok(caller) = SpanContext::from_traceparent(header) {
///     request.set_parent(&caller);
/// }
/// let _entered = request.enter();
/// let onward = request.context().map(|context| context.traceparent()); // the header for the next process
/// # assert!(onward.unwrap().contains("4bf92f3577b34da6a3ce929d0e0e4736"));
/// # telemetry.shutdown(std::time::Duration::ZERO);
/// ```
pub trait SpanExt {
    /// Makes it a child of a span elsewhere. The sampler is asked again, and what was recorded before is kept.
    ///
    /// False, and nothing has changed, if the span has already been entered, become a parent or shown its context; if a
    /// filter keeps it from the layer; or if the subscriber has no such layer, or has it where it is not to be found, as in
    /// a `reload::Layer`.
    fn set_parent(&self, parent: &SpanContext) -> bool;

    /// What identifies it to others; `None` where [`set_parent`](Self::set_parent) finds no span.
    fn context(&self) -> Option<SpanContext>;

    /// Points at another span that has to do with this one.
    fn add_link(&self, target: &SpanContext);
}

impl SpanExt for Span {
    fn set_parent(&self, parent: &SpanContext) -> bool {
        with(self, |open| open.span.set_parent(parent)).unwrap_or_default()
    }

    fn context(&self) -> Option<SpanContext> {
        with(self, |open| open.span.context().clone())
    }

    fn add_link(&self, target: &SpanContext) {
        with(self, |open| drop(open.span.link(target)));
    }
}

fn with<T>(span: &Span, work: impl FnOnce(&mut OpenSpan) -> T) -> Option<T> {
    let find = |(id, subscriber): (&Id, &Dispatch)| {
        let layer = subscriber.downcast_ref::<TracingLayer>()?;
        layer.spans.with(id, work)
    };
    span.with_subscriber(find).flatten()
}
