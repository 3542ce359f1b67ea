//! The current span of a thread, and the context that carries it to another thread or process.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | [`SpanContext`], the identity of a span; [`Context`], the span and baggage of a thread or a request |
//! | `current.rs` | the thread-local stack of entered spans; [`ContextGuard`] |
//! | `w3c.rs` | `traceparent` and `tracestate` |
//! | `baggage.rs` | [`Baggage`]: keys and values that travel with a request |
//! | `clock.rs` | the time, monotonic within a trace |
//! | `suppression.rs` | suppression of records on the threads of exporters |

mod baggage;
mod clock;
mod current;
mod suppression;
mod w3c;

use std::fmt;
use std::sync::Arc;

use baggage::BAGGAGE;
pub use baggage::Baggage;
pub use baggage::decode_percent;
pub(crate) use clock::{Clock, unix_nanos, unix_now};
pub use current::ContextGuard;
#[cfg(feature = "tracing")]
pub(crate) use current::{
    BridgedSpan, current_without_other_layers, enter_bridged, innermost_of_layer, is_in_bridged,
    leave_bridged, leave_gone_layers,
};
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
/// Trace flag: the trace id is random (W3C Trace Context, level 2).
const RANDOM: u8 = 0x02;

/// The identity of a span, as carried to another thread, to another process, or in a link.
///
/// Returned by [`Span::context`](crate::Span::context), or read from a `traceparent` header:
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
    /// Makes a remote context from its parts, for propagation by other means than a `traceparent` header. Only
    /// the flags of W3C Trace Context are kept: `0x01` (sampled) and `0x02` (random).
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

    /// Returns the context of a new root: the first span of a trace whose id is random.
    pub(crate) fn root(trace_id: TraceId, sampled: bool) -> Self {
        Self::of(SpanRef::root(trace_id, sampled), None)
    }

    /// Returns the context of a new span of the same trace, with its own sampling decision.
    pub(crate) fn child(&self, sampled: bool) -> Self {
        Self::of(self.child_ref(sampled), self.state.clone())
    }

    /// Returns the ids and flags of a new span of the same trace.
    #[inline]
    pub(crate) fn child_ref(&self, sampled: bool) -> SpanRef {
        let trace_flags = with_sampled(self.flags, sampled);
        SpanRef { trace_id: self.trace_id, span_id: SpanId::random(), trace_flags }
    }

    /// Returns the context of a span of this process.
    #[inline]
    pub(crate) fn of(span: SpanRef, state: Option<Arc<str>>) -> Self {
        let SpanRef { trace_id, span_id, trace_flags: flags } = span;
        Self { trace_id, span_id, flags, is_remote: false, state }
    }

    /// Returns the reference to this span that its log records carry.
    #[inline]
    pub(crate) fn span_ref(&self) -> SpanRef {
        SpanRef { trace_id: self.trace_id, span_id: self.span_id, trace_flags: self.flags }
    }

    /// Returns the id of the trace to which the span belongs.
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// Returns the id of the span within its trace.
    pub fn span_id(&self) -> SpanId {
        self.span_id
    }

    /// Returns whether the span is recorded in the process from which the context comes.
    #[inline]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns whether the context came from another process.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Returns the trace flags, as in the `traceparent` header.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Returns the vendor-specific part, as in the `tracestate` header. Empty if absent.
    #[inline]
    pub fn tracestate(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }
}

impl SpanRef {
    /// Makes the reference to the first span of a trace whose id is random.
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

/// The context of a thread: its current span and its [`Baggage`]. A context is carried to another thread, through a
/// channel, or in the headers of a request. Cloning is cheap.
///
/// ```
/// use std::thread;
/// use standpipe::Context;
///
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let checkout = tracer.span("checkout");
/// thread::spawn(Context::current().wrap(move || {
///     let _payment = tracer.span("payment"); // a child of checkout
/// }));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Context {
    span: Option<SpanContext>,
    /// The clock of the span, if it is a span of this process. Times on all threads of a trace then agree.
    clock: Option<Clock>,
    baggage: Baggage,
}

impl Context {
    /// Makes a context without a span and without baggage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the context of this thread.
    pub fn current() -> Self {
        let (span, clock) = current::current().unzip();
        Self { span, clock: clock.flatten(), baggage: Baggage::current() }
    }

    /// Reads the caller's context from the headers of a request. Headers that are absent or invalid are ignored.
    ///
    /// `header` returns the value of a header by its name, which is in lower case. If a header occurs several times,
    /// join its values with commas.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use standpipe::{Context, SpanKind, Tracer};
    ///
    /// fn serve(tracer: &Tracer, headers: &HashMap<String, String>) {
    ///     let _caller = Context::from_headers(|name| headers.get(name)).enter();
    ///     let _request = tracer.span_builder("GET /orders").kind(SpanKind::Server).start(); // of the caller's trace
    /// }
    /// ```
    pub fn from_headers<V: AsRef<str>>(mut header: impl FnMut(&'static str) -> Option<V>) -> Self {
        let span = SpanContext::from_headers(&mut header);
        let baggage =
            header(BAGGAGE).map_or_else(Baggage::new, |header| Baggage::from_header(header.as_ref()));
        Self { span, clock: None, baggage }
    }

    /// Reads the context in which this process was started from the environment variables `TRACEPARENT`, `TRACESTATE`
    /// and `BAGGAGE`.
    pub fn from_env() -> Self {
        Self::from_headers(w3c::variable)
    }

    /// Returns the context of the span, if there is one.
    pub fn span(&self) -> Option<&SpanContext> {
        self.span.as_ref()
    }

    /// Returns the baggage, which may be empty.
    pub fn baggage(&self) -> &Baggage {
        &self.baggage
    }

    /// Returns this context with another baggage.
    #[must_use]
    pub fn with_baggage(self, baggage: Baggage) -> Self {
        Self { baggage, ..self }
    }

    /// Calls `set` with each header that carries the context to another process: `traceparent`, `tracestate` and
    /// `baggage`. Headers without a value are left out. The names are in lower case, and the values need no escaping.
    ///
    /// ```
    /// use std::process::Command;
    /// use standpipe::Context;
    ///
    /// let mut command = Command::new("backup");
    /// Context::current().inject(|name, value| {
    ///     command.env(name.to_ascii_uppercase(), value); // from_env reads them there
    /// });
    /// ```
    pub fn inject(&self, mut set: impl FnMut(&'static str, &str)) {
        if let Some(span) = &self.span {
            span.inject(&mut set);
        }
        if !self.baggage.is_empty() {
            set(BAGGAGE, &self.baggage.header());
        }
    }

    /// Returns the headers of [`inject`](Self::inject) as a list, for builders whose methods take `self` by value.
    ///
    /// ```no_run
    /// use standpipe::Context;
    ///
    /// let mut request = ureq::get("http://localhost:8080/stock");
    /// for (name, value) in Context::current().headers() {
    ///     request = request.header(name, value);
    /// }
    /// request.call()?;
    /// # Ok::<(), ureq::Error>(())
    /// ```
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        self.inject(|name, value| headers.push((name, value.to_owned())));
        headers
    }

    /// Makes this the thread's context until the guard is dropped. New spans become children of its span, and its
    /// baggage is current. Entering a context replaces the thread's current span and baggage: if the context has no
    /// span, the next span begins a new trace, and if it has no baggage, the thread has none.
    pub fn enter(&self) -> ContextGuard {
        let entered = match &self.span {
            Some(span) => ContextGuard::enter(span, self.clock),
            None => ContextGuard::enter_no_span(),
        };
        let has_baggage = !self.baggage.is_empty() || !Baggage::current().is_empty();
        if has_baggage { entered.and_baggage(&self.baggage) } else { entered }
    }

    /// Runs `work` in this context. A thread pool such as rayon's uses the context by reference:
    ///
    /// ```
    /// # use standpipe::Context;
    /// # let (orders, ship) = ([1, 2, 3], |_order: &u64| {});
    /// let context = Context::current();
    /// # /*
    /// orders.par_iter().for_each(|order| context.run(|| ship(order)));
    /// # */
    /// # orders.iter().for_each(|order| context.run(|| ship(order)));
    /// ```
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// Wraps `work` so that it runs in this context on any thread, for [`std::thread::spawn`] or a queue of closures.
    pub fn wrap<T>(self, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        move || self.run(work)
    }
}

impl From<SpanContext> for Context {
    fn from(span: SpanContext) -> Self {
        Self { span: Some(span), ..Self::default() }
    }
}
