//! Exporters for the OpenTelemetry SDK: programs that use it keep their instrumentation, and send without tokio, tonic or
//! reqwest.
//!
//! ```
//! use std::time::Duration;
//! use opentelemetry::trace::{Tracer, TracerProvider};
//! use opentelemetry_sdk::Resource;
//! use opentelemetry_sdk::trace::SdkTracerProvider;
//! use standpipe::bridge::opentelemetry::SpanExporter;
//! use standpipe::{Config, Exporter, Telemetry};
//!
//! # let receiver = standpipe::receiver::Receiver::start()?;
//! # let endpoint = receiver.endpoint();
//! # /*
//! let endpoint = "http://localhost:4318";
//! # */
//! let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(endpoint)))?;
//! let provider = SdkTracerProvider::builder()
//!     .with_resource(Resource::builder().with_service_name("shop").build())
//!     .with_span_processor(SpanExporter::new(&telemetry))
//!     .build();
//! provider.tracer("shop").in_span("checkout", |_| { /* … */ });
//! provider.shutdown()?;
//! let ledger = telemetry.shutdown(Duration::from_secs(2));
//! assert_eq!(ledger.lost(), 0);
//! # assert_eq!(receiver.span_count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Log records go the same way, by [`LogExporter`] and `SdkLoggerProvider`, and metrics by [`MetricExporter`], which
//! says more about them.
//!
//! # How to put them in
//!
//! Those of spans and log records are exporters and processors of the SDK at once:
//!
//! | in the builder of the provider | what follows |
//! |---|---|
//! | `.with_span_processor(exporter)`, `.with_log_processor(exporter)` | recommended: a record goes from the thread that ends it straight into the queue of standpipe, side by side with other threads. No second queue and thread, and `force_flush` of the provider reaches the collector |
//! | `.with_batch_exporter(exporter)` | the SDK's own queue and thread in front of ours. What the SDK drops as its queue is full is in no [`Ledger`](crate::Ledger), and its `force_flush` only brings records as far as our queue |
//! | `.with_simple_exporter(exporter)` | as the first, but under a lock of the SDK, and by an executor that panics where another one of its crate runs already. Its `force_flush` does nothing |
//!
//! With [`WhenFull::Block`](crate::WhenFull::Block) the thread that gives a record waits for room: the one that ends the
//! span, or that of the SDK's batches. [`WhenFull::DropNewest`](crate::WhenFull::DropNewest) never makes a caller wait.
//!
//! # What arrives
//!
//! What `opentelemetry-otlp` would send, with its resource, scopes, limits and dropped counts; limits of standpipe do not
//! apply. A resource that says no more than what the SDK fills in by itself gives way to that of the
//! [`Telemetry`](crate::Telemetry). Only what a collector may refuse or misread is set right:
//! of an attribute that was set twice the last value counts, an attribute without a key or nested more than 30 deep is
//! left out and counted as dropped, and a span that ends before it starts ends at its start.
//!
//! # The end
//!
//! A shutdown of the SDK's provider flushes ours within the time that it is given; it does not end the
//! [`Telemetry`](crate::Telemetry), which may serve others. Shut that down last.
//!
//! # Contexts
//!
//! Both read and write the same W3C headers. Within a process a [`SpanContext`] is made of
//! OpenTelemetry's by `try_from`, and the other way round by `into`.

mod input;
mod log;
mod metrics;
mod span;
mod value;

pub use log::LogExporter;
pub use metrics::MetricExporter;
pub use span::SpanExporter;

use opentelemetry::trace::{self, TraceFlags, TraceState};

use crate::context::{ParseContextError, SpanContext};
use crate::record::{SpanId, TraceId};

/// Makes a span of OpenTelemetry the parent of ours, or the target of a link.
///
/// A trace state that no header may carry is left out, and so are flags that level 2 of the W3C standard does not know.
///
/// ```
/// use opentelemetry::trace::TraceContextExt;
/// use standpipe::SpanContext;
///
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let checkout = tracer.span_builder("checkout");
/// let theirs = opentelemetry::Context::current();
/// let _checkout = match SpanContext::try_from(theirs.span().span_context()) {
///     Ok(parent) => checkout.parent(&parent).start(),
///     Err(_) => checkout.start(), // there is no current span
/// };
/// ```
impl TryFrom<&trace::SpanContext> for SpanContext {
    type Error = ParseContextError;

    fn try_from(context: &trace::SpanContext) -> Result<Self, ParseContextError> {
        let trace_id = TraceId(context.trace_id().to_bytes());
        let span_id = SpanId(context.span_id().to_bytes());
        let known = Self::known(trace_id, span_id, context.trace_flags().to_u8(), context.is_remote())?;
        Ok(match context.trace_state().header() {
            none if none.is_empty() => known,
            state => known.with_tracestate(&state),
        })
    }
}

/// Makes a span of ours the parent of one of OpenTelemetry:
/// `opentelemetry::Context::new().with_remote_span_context((&context).into())`.
impl From<&SpanContext> for trace::SpanContext {
    fn from(context: &SpanContext) -> Self {
        // its rules for keys are a little narrower than ours
        let state = context.tracestate().parse::<TraceState>().unwrap_or_default();
        trace::SpanContext::new(
            trace::TraceId::from_bytes(context.trace_id.0),
            trace::SpanId::from_bytes(context.span_id.0),
            TraceFlags::new(context.flags),
            context.is_remote,
            state,
        )
    }
}

#[cfg(test)]
mod tests;
