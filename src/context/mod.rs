//! Which trace does this code belong to? The current span of a thread, and the context that carries it elsewhere.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod.rs` | [`SpanContext`]: what identifies a span |
//! | `carried.rs` | [`Context`]: what a thread, a channel or a request carries |
//! | `current.rs` | the stack of spans that a thread is in; [`ContextGuard`] |
//! | `w3c.rs` | `traceparent` and `tracestate` |
//! | `baggage.rs` | [`Baggage`]: keys and values that travel along |
//! | `clock.rs` | the time, monotonic within a trace |
//! | `suppression.rs` | what is not recorded on an exporter's thread |

mod baggage;
mod carried;
mod clock;
mod current;
mod suppression;
mod w3c;

use std::fmt;
use std::sync::Arc;

pub use baggage::Baggage;
pub use carried::Context;
pub(crate) use clock::{Clock, unix_nanos, unix_now};
pub use current::ContextGuard;
#[cfg(feature = "tracing")]
pub(crate) use current::current_without;
pub(crate) use current::{Entered, Frame, Stack, span_and_time, with_stack};
#[cfg(any(feature = "ffi", feature = "log", feature = "opentelemetry", feature = "tracing"))]
pub(crate) use suppression::runs_exporter_code;
pub(crate) use suppression::{
    Owner, Suppression, export_for, exports_for, in_program, may_be_suppressed, suppress_for_ever,
    suppress_instrumentation, suppression, while_exporting_for,
};
pub use w3c::ParseContextError;

use crate::record::{SpanId, SpanRef, TraceId};

/// Trace flag: the trace is recorded.
const SAMPLED: u8 = 0x01;
/// Trace flag: the trace id is random (level 2).
const RANDOM: u8 = 0x02;

/// What identifies a span to others: carried to another thread, another process, a link.
///
/// Got from [`Span::context`](crate::Span::context) or read from a `traceparent` header:
///
/// ```
/// use standpipe::SpanContext;
///
/// let context = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
/// assert_eq!(context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert!(context.is_remote() && context.is_sampled());
/// assert_eq!(context.traceparent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SpanContext {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) flags: u8,
    pub(crate) is_remote: bool,
    pub(crate) state: Option<Arc<str>>,
}

impl SpanContext {
    /// A context whose parts another program or another library has sent by other means than a `traceparent` header. Of
    /// the flags those are kept that W3C trace context knows: `0x01` (sampled) and `0x02` (random).
    ///
    /// ```
    /// use standpipe::{SpanContext, SpanId, TraceId};
    ///
    /// let trace_id: TraceId = "4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap();
    /// let span_id: SpanId = "00f067aa0ba902b7".parse().unwrap();
    /// let context = SpanContext::new(trace_id, span_id, 0x01);
    /// assert!(context.is_sampled() && context.is_remote());
    /// ```
    pub fn new(trace_id: TraceId, span_id: SpanId, flags: u8) -> Self {
        Self { trace_id, span_id, flags: flags & (SAMPLED | RANDOM), is_remote: true, state: None }
    }

    /// The context of a new root: the first span of a trace with a random id.
    pub(crate) fn root(trace_id: TraceId, sampled: bool) -> Self {
        Self::of(SpanRef::root(trace_id, sampled), None)
    }

    /// A new span of the same trace, which may be recorded where its parent is not, and the other way round.
    pub(crate) fn child(&self, sampled: bool) -> Self {
        Self::of(self.child_ref(sampled), self.state.clone())
    }

    /// The ids and flags of a new span of the same trace.
    #[inline]
    pub(crate) fn child_ref(&self, sampled: bool) -> SpanRef {
        let trace_flags = with_sampled(self.flags, sampled);
        SpanRef { trace_id: self.trace_id, span_id: SpanId::random(), trace_flags }
    }

    /// The context of a span of this process.
    #[inline]
    pub(crate) fn of(span: SpanRef, state: Option<Arc<str>>) -> Self {
        let SpanRef { trace_id, span_id, trace_flags: flags } = span;
        Self { trace_id, span_id, flags, is_remote: false, state }
    }

    /// What a log record of this span carries.
    #[inline]
    pub(crate) fn span_ref(&self) -> SpanRef {
        SpanRef { trace_id: self.trace_id, span_id: self.span_id, trace_flags: self.flags }
    }

    /// The trace this span belongs to.
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The span within its trace.
    pub fn span_id(&self) -> SpanId {
        self.span_id
    }

    /// Whether the span is recorded where the context comes from.
    #[inline]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Whether it came from another process.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// The trace flags, as the `traceparent` header has them.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// The vendors' part, as the `tracestate` header has it; empty if there is none.
    #[inline]
    pub fn tracestate(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }
}

impl SpanRef {
    /// The first span of a trace with a random id.
    #[inline]
    pub(crate) fn root(trace_id: TraceId, sampled: bool) -> Self {
        Self { trace_id, span_id: SpanId::random(), trace_flags: with_sampled(RANDOM, sampled) }
    }
}

#[inline]
fn with_sampled(flags: u8, sampled: bool) -> u8 {
    flags & !SAMPLED | if sampled { SAMPLED } else { 0 }
}

impl fmt::Debug for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanContext")
            .field("traceparent", &format_args!("{}", self.traceparent()))
            .field("tracestate", &self.tracestate())
            .field("is_remote", &self.is_remote)
            .finish()
    }
}
