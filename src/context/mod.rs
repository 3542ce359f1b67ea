//! The current span of a thread, and the context that carries it to another thread or process.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | [`SpanContext`], the identity of a span; [`Context`], the span and baggage of a thread or a request |
//! | `current.rs` | the thread-local stack of entered spans; [`ContextGuard`] |
//! | `w3c.rs` | `traceparent` |
//! | `trace_state.rs` | [`TraceState`], the entries of `tracestate` |
//! | `threshold.rs` | the sampling threshold and the randomness in a `tracestate` |
//! | `propagation.rs` | [`Propagators`]: the formats in which a context travels, and combinations of them; the headers of B3 |
//! | `baggage.rs` | [`Baggage`]: keys and values that travel with a request |
//! | `clock.rs` | the time, monotonic within a trace |
//! | `ticks.rs` | the processor's time counter and its rate |
//! | `suppression.rs` | suppression of records on the threads of exporters |

mod baggage;
mod clock;
mod current;
mod propagation;
mod suppression;
mod threshold;
mod ticks;
mod trace_state;
mod w3c;

use std::fmt;
use std::sync::Arc;

pub use baggage::Baggage;
pub use baggage::decode_percent;
pub(crate) use clock::{Clock, unix_nanos, unix_now};
pub use current::ContextGuard;
pub(crate) use current::{
    ANYWHERE, Entered, Frame, IN_SAMPLED_SPAN, Stack, offering, span_and_time, with_stack, without_offering,
};
#[cfg(feature = "tracing")]
pub(crate) use current::{
    BridgedSpan, current_without_other_layers, enter_bridged, innermost_of_layer, is_in_bridged,
    leave_bridged, leave_gone_layers,
};
pub use propagation::{Propagator, Propagators};
#[cfg(any(feature = "ffi", feature = "log", feature = "opentelemetry", feature = "tracing"))]
pub(crate) use suppression::runs_exporter_code;
pub(crate) use suppression::{
    Owner, Suppression, export_for, exports_for, in_program, may_be_suppressed, suppress_for_ever,
    suppress_instrumentation, suppression, while_exporting_for,
};
pub(crate) use threshold::{OtFields, randomness, threshold, with_threshold};
pub(crate) use ticks::Calibrator;
pub use trace_state::TraceState;
pub use w3c::ParseContextError;

use crate::record::{SpanId, SpanRef, TraceId};

/// Trace flag: the trace is recorded.
const SAMPLED: u8 = 0x01;
/// Trace flag: the trace id is random (W3C Trace Context, level 2).
pub(crate) const RANDOM: u8 = 0x02;

/// Not a trace flag, but stored with the trace flags: the span is recorded, but not sampled. The sampling decision sets
/// this bit, and the span's start clears it before a caller can read the context.
const RECORD_ONLY: u8 = 0x80;

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
    pub(crate) b3: Option<B3Mark>,
    /// The `tracestate`. A context with a B3 mark always has a state, which may be empty. The fast paths, which do not
    /// copy the mark, serve only parents without a state, so they never get such a context.
    pub(crate) state: Option<Arc<str>>,
}

/// A sampling state of B3 that W3C Trace Context cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum B3Mark {
    /// The caller left the sampling decision to this process.
    Deferred,
    /// The trace is sampled for debugging. Every process propagates this state.
    Debug,
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
        Self { trace_id, span_id, flags: flags & (SAMPLED | RANDOM), is_remote: true, b3: None, state: None }
    }

    /// Returns the context of a new root: the first span of a trace whose id is random.
    pub(crate) fn root(trace_id: TraceId, sampled: bool) -> Self {
        Self::of(SpanRef::root(trace_id, sampled), None)
    }

    /// Returns the context of a new span of the same trace, with this sampling decision and `tracestate`.
    pub(crate) fn child(&self, sampled: bool, state: Option<Arc<str>>) -> Self {
        let b3 = self.b3.filter(|mark| *mark == B3Mark::Debug);
        let state = state.filter(|state| b3.is_some() || !state.is_empty());
        Self { b3, ..Self::of(self.child_ref(sampled), state.or_else(|| b3.map(|_| Arc::from("")))) }
    }

    /// Returns whether a parent-based sampler samples a child; `None` if the caller left the decision to this process.
    pub(crate) fn sampling_decision(&self) -> Option<bool> {
        (self.b3 != Some(B3Mark::Deferred)).then(|| self.is_sampled())
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
        Self { trace_id, span_id, flags, is_remote: false, b3: None, state }
    }

    /// Makes this the context of another span of this process. Neither the old nor the new context has a state.
    #[inline(always)]
    pub(crate) fn replace_by(&mut self, span: SpanRef) {
        debug_assert!(self.state.is_none(), "a context without a span has no state");
        (self.trace_id, self.span_id, self.flags) = (span.trace_id, span.span_id, span.trace_flags);
        self.is_remote = false;
    }

    /// Clears the fields that [`replace_by`](Self::replace_by) does not replace. Testing `state` is enough, because a
    /// context with a B3 mark has a state.
    #[inline(always)]
    pub(crate) fn clear_state(&mut self) {
        if self.state.is_some() {
            (self.state, self.b3) = (None, None);
        }
    }

    /// Returns the ids and flags that log records of this span carry.
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

    /// Returns the trace flag `sampled`, by which the span's process asks others to record their part of the trace.
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

    /// Marks the span as one that is recorded, but not sampled.
    pub(crate) fn set_record_only(&mut self) {
        self.flags |= RECORD_ONLY;
    }

    /// Returns whether the span is sampled or record-only.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.flags & (SAMPLED | RECORD_ONLY) != 0
    }

    /// Returns whether the span is record-only, and clears the mark.
    #[inline]
    pub(crate) fn take_record_only(&mut self) -> bool {
        let is_record_only = self.flags & RECORD_ONLY != 0;
        if is_record_only {
            self.flags &= !RECORD_ONLY;
        }
        is_record_only
    }

    /// Returns whether the trace id is random, according to the flags.
    pub(crate) fn has_random_id(&self) -> bool {
        self.flags & RANDOM != 0
    }

    /// Returns the `tracestate` header, which is empty if there are no entries.
    #[inline]
    pub fn tracestate(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }

    /// Returns the entries of the `tracestate`.
    pub fn state(&self) -> TraceState {
        TraceState(self.state.clone().filter(|state| !state.is_empty()))
    }

    /// Sets the entries of the `tracestate`.
    #[must_use]
    pub fn with_state(self, state: TraceState) -> Self {
        let state = state.0.or_else(|| self.b3.map(|_| "".into()));
        Self { state, ..self }
    }
}

impl SpanRef {
    /// Returns the ids and flags of a new root: the first span of a trace whose id is random.
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

/// The context of a thread: its current span and its [`Baggage`]. It can be passed to another thread, through a
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
    /// The clock of the span; `None` if unknown. With the clock, times on all threads of a trace agree.
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
    pub fn from_headers<V: AsRef<str>>(header: impl FnMut(&'static str) -> Option<V>) -> Self {
        Propagators::default().extract(header)
    }

    /// Reads the context that the parent process passed in the environment variables `TRACEPARENT`, `TRACESTATE` and
    /// `BAGGAGE`.
    pub fn from_env() -> Self {
        Propagators::default().extract_env()
    }

    /// Returns the context of the span, if there is one.
    pub fn span(&self) -> Option<&SpanContext> {
        self.span.as_ref()
    }

    /// Returns the baggage, which may be empty.
    pub fn baggage(&self) -> &Baggage {
        &self.baggage
    }

    /// Returns this context with the given baggage instead of its own.
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
    pub fn inject(&self, set: impl FnMut(&'static str, &str)) {
        Propagators::default().inject(self, set);
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

    /// Makes this the thread's context until the guard is dropped. The context's span becomes the parent of new spans,
    /// and its baggage becomes current. Both replace those of the thread even if they are absent: without a span, the
    /// next span begins a new trace, and without baggage, the thread has none.
    pub fn enter(&self) -> ContextGuard {
        let entered = match &self.span {
            Some(span) => ContextGuard::enter(span, self.clock),
            None => ContextGuard::enter_no_span(),
        };
        let has_baggage = !self.baggage.is_empty() || baggage::is_entered();
        if has_baggage { entered.and_baggage(&self.baggage) } else { entered }
    }

    /// Runs `work` in this context. Closures in a thread pool, such as that of rayon, can share it by reference:
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
