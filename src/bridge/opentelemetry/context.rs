//! Contexts of the one and of the other kind.

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
/// let checkout = tracer.build("checkout");
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
