//! Spans: timed operations of a program.
//!
//! A [`Tracer`] starts spans. A [`Span`] is its thread's current span until it is dropped, and the parent of spans
//! that start meanwhile. A [`DetachedSpan`] belongs to no thread. [`Tracer::span_builder`] sets attributes, kind,
//! parent, links and start time.
//!
//! ```
//! use standpipe::{SpanKind, Status};
//!
//! # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
//! let tracer = telemetry.tracer("shop");
//! let mut request = tracer.span_builder("GET /cart").kind(SpanKind::Server).set("http.request.method", "GET").start();
//! {
//!     let mut query = tracer.span("select items"); // a child of the request
//!     query.event("cache miss").set("key", "cart 7");
//! }
//! request.status(Status::Error("no such cart"));
//! ```

// builder.rs      SpanBuilder, and how every span starts
// span.rs         Span, the setters that all spans have, EventBuilder and LinkBuilder; errors and panics on spans
// detached.rs     DetachedSpan, with an explicit parent and end
// sampler.rs      the decisions of samplers
// open.rs         the record of an open span in reused storage, its mark for the ledger, and how every span ends

mod builder;
mod detached;
mod open;
mod sampler;
mod span;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use builder::SpanSpec;
pub use builder::{NewLink, SetAtStart, SpanBuilder};
pub use detached::DetachedSpan;
pub(crate) use open::OpenMarks;
#[cfg(any(feature = "ffi", feature = "tracing"))]
pub(crate) use open::OpenSpan;
pub(crate) use sampler::Decider;
use sampler::{Candidate, Simple, StartAttributes};
pub use span::{AnySpan, Chain, EventBuilder, LinkBuilder, RecordErr, Span};

pub use crate::context::ParseContextError;
pub use crate::record::{AsError, InvalidId};

use crate::config::ParentOrigin;
use crate::context::{self, Frame, SpanContext};
use crate::pipeline::exporter_set::ExporterSet;
use crate::pipeline::self_observation::{SamplingResult, SpanCounts};
use crate::process::contain_panic;
use crate::record::{IdGenerator, Scope, Signal, SpanKind, SpanLimits, SpanRef, TraceId};

/// Starts spans of one scope. From [`Telemetry::tracer`](crate::Telemetry::tracer). Cheap to clone and to share.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let tracer = telemetry.tracer("shop");
/// let mut checkout = tracer.span("checkout");
/// checkout.set("order.id", 4711);
/// {
///     let mut payment = tracer.span("payment"); // a child of checkout
///     payment.set("amount", 12.5);
/// } // sent
/// ```
#[derive(Clone)]
pub struct Tracer {
    shared: Arc<TracerShared>,
}

/// The properties that all spans of a tracer have in common.
struct TracerShared {
    exporters: Arc<ExporterSet>,
    scope: Arc<Scope>,
    policy: SamplingPolicy,
    limits: SpanLimits,
    /// Size of the largest span that any exporter can send; `None` if no exporter exports spans.
    largest: Option<usize>,
    /// Open spans of all providers of the same telemetry.
    open_marks: OpenMarks,
    /// Counts of started spans, which only the slow path updates. `None` without self-observation.
    counts: Option<Arc<SpanCounts>>,
}

impl TracerShared {
    /// Counts a started span. Must be called before the record-only mark is cleared from its context.
    #[inline]
    fn count_start(&self, parent: impl FnOnce() -> ParentOrigin, context: &SpanContext) {
        if let Some(counts) = &self.counts {
            let result = match (context.is_sampled(), context.is_recorded()) {
                (true, _) => SamplingResult::RecordAndSample,
                (false, true) => SamplingResult::RecordOnly,
                (false, false) => SamplingResult::Drop,
            };
            counts.started(parent(), result);
        }
    }
}

/// How a new span gets its context and its sampling decision, and whether a fast path applies.
struct SamplingPolicy {
    sampler: Arc<Decider>,
    /// The sampler, if it is simple and ids are random numbers.
    simple: Option<Simple>,
    /// Like `simple`, but also `None` if no exporter exports spans, if starts are counted, or if baggage is copied to
    /// attributes.
    simple_start: Option<Simple>,
    id_generator: Option<Arc<dyn IdGenerator>>,
    /// True if no exporter is configured, for any signal.
    is_idle: bool,
    /// True if the children of a sampled span can take the fast path: the sampler samples all of them, an exporter
    /// exports spans, ids are random numbers, starts are not counted, and baggage is not copied to attributes.
    keeps_below_sampled: bool,
    /// True if the children of an unsampled span can take a fast path: none of them is recorded, an exporter is
    /// configured, ids are random numbers, and a start is not counted.
    drops_below_unsampled: bool,
    has_baggage_attributes: bool,
}

impl Tracer {
    pub(crate) fn new(
        exporters: Arc<ExporterSet>,
        scope: Arc<Scope>,
        open_marks: OpenMarks,
        sampler: Arc<Decider>,
    ) -> Self {
        let limits = exporters.spec().limits;
        let largest = exporters.largest_record(Signal::Traces);
        let has_baggage_attributes = exporters.has_baggage_attributes();
        let is_idle = exporters.is_idle();
        let counts = exporters.spec().span_counts.clone().filter(|_| !is_idle);
        let id_generator = exporters.spec().id_generator.clone();
        let has_fast_path = counts.is_none() && id_generator.is_none();
        let is_usual = largest.is_some() && !has_baggage_attributes && has_fast_path;
        let simple = sampler.simple.filter(|_| id_generator.is_none());
        let policy = SamplingPolicy {
            is_idle,
            keeps_below_sampled: sampler.keeps_all_below_sampled() && is_usual,
            drops_below_unsampled: sampler.keeps_nothing_below_unsampled() && !is_idle && has_fast_path,
            has_baggage_attributes,
            simple,
            simple_start: simple.filter(|_| is_usual),
            sampler,
            id_generator,
        };
        let shared = TracerShared { exporters, scope, policy, limits, largest, open_marks, counts };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a span as a child of this thread's current span, and makes it current until it is dropped.
    ///
    /// Keep the span in a variable other than `_`: otherwise it ends with its statement. To set attributes in the
    /// same expression, use a [`span_builder`](Self::span_builder):
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// let _checkout = tracer.span_builder("checkout").set("order.id", 4711).start();
    /// let mut payment = tracer.span("payment"); // a child of checkout
    /// payment.set("amount", 12.5);
    /// ```
    ///
    /// Both of these would end the span at once: `tracer.span("checkout");` causes a warning, and
    /// `let _span = tracer.span("checkout").set("order.id", 4711);` causes an [error](Chain). The compiler accepts
    /// `let _ = tracer.span("checkout");`, which also ends the span. `#![warn(let_underscore_drop)]` reports it.
    #[inline]
    pub fn span(&self, name: &str) -> Span {
        self.start_child(name, SpanKind::Internal)
    }

    /// Returns a builder for a span with attributes and links, another parent, another kind or another start time.
    #[inline]
    pub fn span_builder<'a>(&'a self, name: &'a str) -> SpanBuilder<'a> {
        SpanBuilder::new(self, name)
    }

    /// Starts a span like [`SpanBuilder::start`], if only name and kind are given. These arguments travel in registers;
    /// a [`SpanSpec`] as the argument would travel in memory.
    ///
    /// Two fast paths: for the child of a recorded span, and for the child of an unsampled one.
    #[inline(never)]
    fn start_child(&self, name: &str, kind: SpanKind) -> Span {
        let spec = SpanSpec::new(self, name, kind);
        // A fast path returns few words. Returning a whole span would copy it.
        let started = context::with_stack(|stack| {
            let stack = stack?;
            let Frame { context: parent, clock, .. } = stack.top()?;
            let is_unsampled = !parent.is_sampled() && parent.state.is_none();
            if is_unsampled && self.shared.policy.drops_below_unsampled {
                let (span, clock) = (parent.child_ref(false), *clock);
                return Some((Err(span), stack.push_span(span, clock)));
            }
            let (mut open, span, clock) = spec.open_below_recorded(parent, clock.as_ref())?;
            open.context.replace_by(span);
            Some((Ok(open), stack.push_span(span, Some(clock))))
        });
        match started {
            Some((Ok(open), entered)) => {
                Span { open: Some(open), entered: Some(entered), unrecorded: None, not_send: PhantomData }
            }
            Some((Err(span), entered)) => Span::started((None, span, entered)),
            // Makes its own `SpanSpec`, so that the fast paths keep theirs in registers.
            None => SpanSpec::new(self, name, kind).start_any(None),
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("scope", &self.shared.scope.name).finish_non_exhaustive()
    }
}

impl TracerShared {
    /// Returns the context of a new span, with its sampling decision.
    ///
    /// Without an exporter, a child is never sent, and gets the context of its parent: with another context, the spans
    /// of other processes below the child would refer to a missing parent.
    #[inline]
    fn decide(
        &self,
        parent: Option<&SpanContext>,
        spec: &SpanSpec<'_>,
        attributes: Option<&StartAttributes<'_>>,
    ) -> SpanContext {
        let SamplingPolicy { simple, is_idle, .. } = &self.policy;
        match (parent, simple) {
            (Some(parent), _) if *is_idle => parent.clone(),
            (Some(parent), Some(simple)) if parent.state.is_none() => {
                let sampled = simple.keeps(parent.trace_id, Some(parent.is_sampled()));
                SpanContext::of(parent.child_ref(sampled), None)
            }
            (None, simple) if *is_idle || simple.is_some() => {
                let trace_id = TraceId::random();
                // Without an exporter the sampler is not asked. An unsampled context would keep other processes from
                // recording.
                let sampled = *is_idle || simple.is_some_and(|simple| simple.keeps(trace_id, None));
                SpanContext::root(trace_id, sampled)
            }
            _ => self.decide_fully(parent, spec, attributes),
        }
    }

    #[cold]
    #[inline(never)]
    fn decide_fully(
        &self,
        parent: Option<&SpanContext>,
        spec: &SpanSpec<'_>,
        attributes: Option<&StartAttributes<'_>>,
    ) -> SpanContext {
        let SamplingPolicy { sampler, id_generator, .. } = &self.policy;
        let ids = id_generator.as_ref();
        let new_id =
            || ids.and_then(|ids| contain_panic(|| ids.trace_id()).ok()).unwrap_or_else(TraceId::random);
        let trace_id = parent.map_or_else(new_id, |parent| parent.trace_id);
        let candidate = Candidate::new(parent, trace_id, spec, attributes);
        let (result, state) = sampler.decide(&candidate);
        if candidate.lacks_randomness.get() && !sampler.has_warned.swap(true, Ordering::Relaxed) {
            self.exporters.warn_of_unpromised_randomness();
        }
        let sampled = result == SamplingResult::RecordAndSample;
        let mut context = match parent {
            Some(parent) => parent.child(sampled, state),
            None => SpanContext::of(SpanRef::root(trace_id, sampled), state),
        };
        if let Some(ids) = ids {
            context.span_id = contain_panic(|| ids.span_id()).unwrap_or(context.span_id);
            if parent.is_none() && !contain_panic(|| ids.is_random()).unwrap_or_default() {
                context.flags &= !context::RANDOM;
            }
        }
        if result == SamplingResult::RecordOnly {
            context.set_record_only();
        }
        context
    }
}
