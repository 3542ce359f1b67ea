//! Exporters for the OpenTelemetry SDK: programs keep their instrumentation and export without tokio, tonic or reqwest.
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
//! Log records are exported by [`LogExporter`] with `SdkLoggerProvider`, and metrics by [`MetricExporter`].
//!
//! # Installation
//!
//! The exporters of spans and log records are also processors of the SDK:
//!
//! | in the builder of the provider | effect |
//! |---|---|
//! | `.with_span_processor(exporter)`, `.with_log_processor(exporter)` | recommended: the thread that ends a span or emits a log record puts it directly into the queue of standpipe, without a lock shared by all threads. There is no second queue and no second thread, and `force_flush` of the provider waits for the delivery |
//! | `.with_batch_exporter(exporter)` | the SDK's own queue and thread precede those of standpipe. Records that the SDK drops because its queue is full are not in any [`Ledger`](crate::Ledger), and `force_flush` only moves records to the queue of standpipe |
//! | `.with_simple_exporter(exporter)` | like the first, but all threads share a lock of the SDK, and the SDK panics if a span ends inside `futures_executor::block_on`. `force_flush` does nothing |
//!
//! With [`WhenFull::Block`](crate::WhenFull::Block) the thread that passes on a record waits for room: the thread that
//! ends the span or emits the log record, or the SDK's batch thread. With
//! [`WhenFull::DropNewest`](crate::WhenFull::DropNewest) no thread waits.
//!
//! # Encoding
//!
//! Records are sent as `opentelemetry-otlp` would send them, with the SDK's resource, scopes, limits and dropped
//! counts; the limits of standpipe do not apply. If the program has set no resource, the SDK's default resource is
//! replaced by that of the [`Telemetry`](crate::Telemetry). Only data that a collector may refuse or misread is
//! corrected: if an attribute is set twice, the last value counts; an attribute without a key, or nested more than 30
//! levels deep, is left out and counted as dropped; a span that ends before its start ends at its start.
//!
//! # Shutdown
//!
//! Shutting down the SDK's provider flushes the provider of standpipe within the given timeout. It does not shut down
//! the [`Telemetry`](crate::Telemetry), which may have other users: shut it down last.
//!
//! # Contexts
//!
//! Between processes, the OpenTelemetry SDK and standpipe use the same W3C headers. Within a process, `try_from`
//! converts a context of OpenTelemetry to a [`SpanContext`], and `into` converts back.

mod input;
mod log;
mod metrics;
mod span;

pub use log::LogExporter;
pub use metrics::MetricExporter;
pub use span::SpanExporter;

use opentelemetry::trace::{self, TraceFlags, TraceState};

use crate::context::{ParseContextError, SpanContext};
use crate::record::{SpanId, TraceId};

/// Converts a span context of OpenTelemetry, to be the parent of a span of this crate or the target of a link.
///
/// A `tracestate` that is not a valid header is left out, and so are flags that level 2 of W3C Trace Context does not
/// define.
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
        let known = Self::known(trace_id, span_id, context.trace_flags().to_u8())?;
        let known = Self { is_remote: context.is_remote(), ..known };
        let state = context.trace_state().header();
        Ok(if state.is_empty() { known } else { known.with_tracestate(&state) })
    }
}

/// Converts a span context of this crate, to be the parent of a span of OpenTelemetry:
/// `opentelemetry::Context::new().with_remote_span_context((&context).into())`.
impl From<&SpanContext> for trace::SpanContext {
    fn from(context: &SpanContext) -> Self {
        // OpenTelemetry accepts fewer keys than this crate. A `tracestate` with a key that it rejects is left out.
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
