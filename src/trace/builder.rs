//! The start of a span: [`SpanBuilder`] collects its properties, finds the parent, asks the sampler and opens the
//! record.
//!
//! Three fast paths serve nearly all spans: below a recorded span, below an unsampled one, and at the start of a trace
//! or of its part in this process. All other spans start on the general path.

use std::fmt;
use std::marker::PhantomData;
use std::time::SystemTime;

use super::open::OpenSpan;
use super::sampler::StartAttributes;
use super::{DetachedSpan, LinkBuilder, Span, Tracer};
use crate::config::ParentOrigin;
use crate::context::{self, Clock, Entered, Frame, SpanContext, Stack, unix_nanos};
use crate::record::{IntoValue, SpanHead, SpanKind, SpanRef, TraceId, Value};

/// A span before its start. From [`Tracer::span_builder`].
///
/// ```
/// # use standpipe::{SpanContext, SpanKind};
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let incoming = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
/// let builder = tracer.span_builder("GET /orders").set("order.id", 4711);
/// let span = builder.parent(&incoming).kind(SpanKind::Server).start();
/// assert_eq!(span.context().trace_id(), incoming.trace_id());
/// ```
///
/// The order of the calls does not matter. Attributes and links are borrowed until the start and then written at once,
/// so they need no allocation, and no time if the span is not recorded. Each attribute and each link extends the type
/// `A`, so a loop cannot add them to a builder. Add them to the started span instead.
#[derive(Clone)]
#[must_use = "a span begins with start()"]
pub struct SpanBuilder<'a, A = ()> {
    spec: SpanSpec<'a>,
    at_start: A,
}

/// The attributes and links that a [`SpanBuilder`] has collected.
pub trait SetAtStart: sealed::Apply {}

impl<A: sealed::Apply> SetAtStart for A {}

#[allow(
    private_interfaces,
    reason = "sealed: code outside of the crate can neither name nor call what is in it"
)]
mod sealed {
    use super::{IntoValue, LinkBuilder, NewLink, OpenSpan};

    pub trait Apply {
        /// True if there is nothing to set. The span is then constructed in place and never copied.
        const IS_EMPTY: bool = false;

        /// Returns whether the text of the attribute `key` meets the condition of a sampler.
        fn has_text(&self, key: &str, is_it: &dyn Fn(&str) -> bool) -> bool;

        fn apply(self, open: &mut OpenSpan);
    }

    impl Apply for () {
        const IS_EMPTY: bool = true;

        fn has_text(&self, _: &str, _: &dyn Fn(&str) -> bool) -> bool {
            false
        }

        #[inline(always)]
        fn apply(self, _: &mut OpenSpan) {}
    }

    /// An attribute.
    impl<A: Apply, V: IntoValue> Apply for (A, (&str, V)) {
        fn has_text(&self, key: &str, is_it: &dyn Fn(&str) -> bool) -> bool {
            let (before, (own, value)) = self;
            // An absent value, such as `None`, does not replace an earlier value of the key.
            let value = value.peek().filter(|_| *own == key);
            value.map_or_else(|| before.has_text(key, is_it), |value| value.has_text(is_it))
        }

        // `always`: most keys are literals, which the compiler then writes by constant stores.
        #[inline(always)]
        fn apply(self, open: &mut OpenSpan) {
            let (before, (key, value)) = self;
            before.apply(open);
            open.set_inlined(key, value);
        }
    }

    /// A link.
    impl<A: Apply> Apply for (A, NewLink<'_>) {
        fn has_text(&self, key: &str, is_it: &dyn Fn(&str) -> bool) -> bool {
            self.0.has_text(key, is_it)
        }

        fn apply(self, open: &mut OpenSpan) {
            let (before, NewLink { context, attributes }) = self;
            before.apply(open);
            let mut link = LinkBuilder::new(Some(open), context);
            attributes.iter().for_each(|(key, value)| _ = link.set(key, *value));
        }
    }
}

/// A link with which a span starts.
#[derive(Debug, Clone, Copy)]
pub struct NewLink<'a> {
    context: &'a SpanContext,
    attributes: &'a [(&'a str, Value<'a>)],
}

/// The properties with which a span starts.
#[derive(Clone)]
pub(super) struct SpanSpec<'a> {
    tracer: &'a Tracer,
    pub(super) name: &'a str,
    parent: Parent<'a>,
    pub(super) kind: SpanKind,
    start: Option<SystemTime>,
}

#[derive(Clone, Copy)]
enum Parent<'a> {
    Current,
    None,
    /// The parent's context, and the parent's clock if the parent is a recorded span of this process. With the same
    /// clock, the times of parent and child agree.
    Explicit(&'a SpanContext, Option<Clock>),
}

/// A span that has just started.
pub(super) struct Started {
    pub(super) context: SpanContext,
    /// Whether the span may become current. Without an exporter, true only if the span carries the context of another
    /// span.
    pub(super) can_enter: bool,
    /// `None` if nothing is recorded.
    pub(super) open: Option<Box<OpenSpan>>,
    /// The clock for child spans.
    clock: Option<Clock>,
}

/// A span that a fast path has started and entered: its record (`None` if the span is unsampled), its ids, and its
/// entry on the stack. [`Span::started`] makes the span of these.
pub(super) type SimplyStarted = (Option<Box<OpenSpan>>, SpanRef, Entered);

impl<'a> SpanBuilder<'a> {
    #[inline]
    pub(super) fn new(tracer: &'a Tracer, name: &'a str) -> Self {
        Self { spec: SpanSpec::new(tracer, name, SpanKind::Internal), at_start: () }
    }
}

impl<'a, A> SpanBuilder<'a, A> {
    /// Makes the span a child of this context instead of the thread's current span.
    #[inline]
    pub fn parent(mut self, parent: &'a SpanContext) -> Self {
        self.spec.parent = Parent::Explicit(parent, None);
        self
    }

    /// Makes the span a child of this span instead of the thread's current span.
    #[cfg(feature = "ffi")]
    #[inline]
    pub(crate) fn child_of(mut self, parent: &'a mut OpenSpan) -> Self {
        let clock = parent.recorded().map(|open| open.clock);
        self.spec.parent = Parent::Explicit(parent.settled_context(), clock);
        self
    }

    /// Makes the span the first of a new trace.
    #[inline]
    pub fn root(mut self) -> Self {
        self.spec.parent = Parent::None;
        self
    }

    /// Sets the kind of the span. The default is internal.
    #[inline]
    pub fn kind(mut self, kind: SpanKind) -> Self {
        self.spec.kind = kind;
        self
    }

    /// Sets the start time. The default is now.
    #[inline]
    pub fn start_time(mut self, time: SystemTime) -> Self {
        self.spec.start = Some(time);
        self
    }

    /// Sets an attribute, as [`Span::set`] does.
    #[inline]
    pub fn set<V: IntoValue>(self, key: &'a str, value: V) -> SpanBuilder<'a, (A, (&'a str, V))> {
        SpanBuilder { spec: self.spec, at_start: (self.at_start, (key, value)) }
    }

    /// Adds a link to a related span.
    #[inline]
    pub fn link(self, context: &'a SpanContext) -> SpanBuilder<'a, (A, NewLink<'a>)> {
        self.link_with(context, &[])
    }

    /// Adds a link with attributes to a related span: `builder.link_with(&context, &[("why", "batch".into())])`.
    #[inline]
    pub fn link_with(
        self,
        context: &'a SpanContext,
        attributes: &'a [(&'a str, Value<'a>)],
    ) -> SpanBuilder<'a, (A, NewLink<'a>)> {
        SpanBuilder { spec: self.spec, at_start: (self.at_start, NewLink { context, attributes }) }
    }
}

impl<A: SetAtStart> SpanBuilder<'_, A> {
    /// Starts the span and makes it the thread's current one until it is dropped. The [`Sampler`](crate::Sampler)
    /// decides whether the span is recorded.
    #[inline]
    pub fn start(self) -> Span {
        if A::IS_EMPTY {
            return self.spec.start();
        }
        // A simple sampler reads no attributes, so the fast path is possible.
        let mut span = match self.spec.tracer.shared.policy.simple {
            Some(_) => self.spec.start(),
            None => self.spec.start_any(Some(&|key, is_it| self.at_start.has_text(key, is_it))),
        };
        if let Some(open) = span.open_mut() {
            open.set_at_once(|open| self.at_start.apply(open));
        }
        span
    }

    /// Starts a span that belongs to no thread: it can be moved, kept in a structure, and ended anywhere. It becomes
    /// current only where it is [entered](DetachedSpan::enter).
    #[inline]
    pub fn detached(self) -> DetachedSpan {
        if A::IS_EMPTY {
            return self.spec.detached(None);
        }
        let mut span = self.spec.detached(Some(&|key, is_it| self.at_start.has_text(key, is_it)));
        if let Some(open) = span.open_mut() {
            open.set_at_once(|open| self.at_start.apply(open));
        }
        span
    }
}

/// Omits the attributes, which may contain secrets.
impl<A> fmt::Debug for SpanBuilder<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanBuilder").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl<'a> SpanSpec<'a> {
    #[inline]
    pub(super) fn new(tracer: &'a Tracer, name: &'a str, kind: SpanKind) -> Self {
        Self { tracer, name, parent: Parent::Current, kind, start: None }
    }

    #[inline]
    fn start(self) -> Span {
        match self {
            Self { tracer, name, parent: Parent::Current, kind, start: None } => {
                tracer.start_child(name, kind)
            }
            other => other.start_any(None),
        }
    }

    /// Starts any span. Without the thread's stack, the span does not become current.
    #[inline(never)]
    pub(super) fn start_any(&self, attributes: Option<&StartAttributes<'_>>) -> Span {
        let started = context::with_stack(|stack| self.start_simply(stack?).map(Span::started));
        let general = |stack: Option<&mut Stack>| {
            let Started { mut context, can_enter, mut open, clock } =
                self.begin(stack.as_deref().and_then(Stack::top), false, attributes);
            // The record-only mark is cleared before the context is pushed: children and headers must not inherit it.
            let is_record_only = context.take_record_only();
            let entered = match stack {
                Some(stack) if can_enter => Some(stack.push(context.clone(), clock)),
                _ => None,
            };
            let unrecorded = match &mut open {
                Some(open) => {
                    open.context = context;
                    if is_record_only {
                        open.never_send();
                    }
                    None
                }
                None => Some(context),
            };
            Span { open, entered, unrecorded, not_send: PhantomData }
        };
        started.unwrap_or_else(|| context::with_stack(general))
    }

    /// A fast path: starts a span without a parent, or with an explicit parent. Returns `None` if the span needs the
    /// general path, for example because the sampler reads more than the trace id and the parent's flag.
    #[inline(always)]
    fn start_simply(&self, stack: &mut Stack) -> Option<SimplyStarted> {
        let current = stack.top();
        let (parent, clock) = match self.parent {
            Parent::Current if current.is_none() => (None, None),
            Parent::Explicit(parent, clock) if parent.state.is_none() => (Some(parent), clock),
            Parent::None => (None, None),
            _ => return None,
        };
        let clock = clock.or(current.and_then(|frame| frame.clock));
        // `None` must be returned before the sampler decides: the general path decides again, about another trace id.
        let simple = self.tracer.shared.policy.simple_start.filter(|_| !context::may_be_suppressed())?;
        let trace_id = parent.map_or_else(TraceId::random, |parent| parent.trace_id);
        let sampled = simple.keeps(trace_id, parent.map(SpanContext::is_sampled));
        let span =
            parent.map_or_else(|| SpanRef::root(trace_id, sampled), |parent| parent.child_ref(sampled));
        let context = SpanContext::of(span, None);
        if !sampled {
            return Some((None, span, stack.push(context, clock)));
        }
        let (mut open, clock) = self.open_any(&context, parent, clock);
        open.context.replace_by(span);
        Some((Some(open), span, stack.push(context, Some(clock))))
    }

    #[inline]
    fn detached(self, attributes: Option<&StartAttributes<'_>>) -> DetachedSpan {
        context::with_stack(|stack| self.start_detached(stack.as_deref().and_then(Stack::top), attributes))
    }

    #[inline(never)]
    fn start_detached(
        &self,
        current: Option<&Frame>,
        attributes: Option<&StartAttributes<'_>>,
    ) -> DetachedSpan {
        let parent = match &self.parent {
            Parent::Current => current.map(|frame| (&frame.context, frame.clock.as_ref())),
            Parent::Explicit(parent, clock) => Some((*parent, clock.as_ref())),
            Parent::None => None,
        };
        let origin = |parent: Option<(&SpanContext, Option<&Clock>)>| {
            let parent = parent.filter(|(parent, _)| parent.trace_id.is_valid());
            ParentOrigin::of(parent.map(|(parent, _)| parent.is_remote))
        };
        match parent.and_then(|(parent, clock)| self.open_below_recorded(parent, clock)) {
            Some((mut open, span, _)) => {
                open.context.replace_by(span);
                DetachedSpan::of(open, true, true, origin(parent))
            }
            // Passes a copy, so that the optimizer can keep `self` in registers.
            None => {
                let started = self.clone().begin(current, true, attributes);
                DetachedSpan::new(&self.tracer.shared, started, origin(parent))
            }
        }
    }

    /// Opens a span that starts now below a recorded one (a fast path). Returns `None` for any other span.
    #[inline(always)]
    pub(super) fn open_below_recorded(
        &self,
        parent: &SpanContext,
        clock: Option<&Clock>,
    ) -> Option<(Box<OpenSpan>, SpanRef, Clock)> {
        let (Self { tracer, start: None, .. }, Some(clock)) = (self, clock) else { return None };
        let is_usual = parent.is_sampled() && parent.state.is_none();
        if !is_usual || !tracer.shared.policy.keeps_below_sampled || context::may_be_suppressed() {
            return None;
        }
        let span = parent.child_ref(true);
        let (open, clock) = self.open(span, Some(parent), "", Some(*clock));
        Some((open, span, clock))
    }

    /// Finds the parent, asks the sampler, and opens the record if the span is recorded.
    #[inline(never)]
    fn begin(
        &self,
        current: Option<&Frame>,
        is_detached: bool,
        attributes: Option<&StartAttributes<'_>>,
    ) -> Started {
        let policy = &self.tracer.shared.policy;
        let current_clock = current.and_then(|frame| frame.clock);
        let (parent, clock) = match self.parent {
            Parent::Current => (current.and_then(Frame::span), current_clock),
            Parent::Explicit(parent, clock) => (Some(parent), clock.or(current_clock)),
            Parent::None => (None, current_clock),
        };
        let context = self.tracer.shared.decide(parent, self, attributes);
        if !is_detached {
            let origin = || ParentOrigin::of(parent.map(|parent| parent.is_remote));
            self.tracer.shared.count_start(origin, &context);
        }
        // Without an exporter, a span is entered only to make its parent current. If the parent is the thread's current
        // span, this is necessary only for a detached span, which may be entered on another thread.
        let carries_parent = parent.is_some() && (is_detached || matches!(self.parent, Parent::Explicit(..)));
        let can_enter = !policy.is_idle || carries_parent;
        if !self.is_recorded(&context, is_detached) {
            // Exemplars refer to a current span that is sampled and has a clock. They must not refer to this one, nor,
            // if it carries the context of an explicit parent, to a parent that is not recorded here.
            let clock = match self.parent {
                Parent::Explicit(_, clock) if policy.is_idle => clock,
                _ => clock.filter(|_| policy.is_idle || !context.is_sampled()),
            };
            return Started { context, can_enter, open: None, clock };
        }
        let (open, clock) = self.open_any(&context, parent, clock);
        Started { context, can_enter, open: Some(open), clock: Some(clock) }
    }

    #[inline]
    fn is_recorded(&self, context: &SpanContext, is_detached: bool) -> bool {
        let shared = &self.tracer.shared;
        let is_recorded = context.is_recorded() && !shared.policy.is_idle;
        // The parent of a detached span may still change, and with it the decision of the sampler.
        let is_of_use = is_recorded || is_detached && !shared.policy.sampler.keeps_nothing();
        is_of_use
            && shared.largest.is_some()
            && !(context::may_be_suppressed()
                && shared.exporters.suppresses_span(is_recorded && context.is_sampled()))
    }

    /// Opens the record of a span that does not start below a recorded span of this process.
    #[inline(never)]
    fn open_any(
        &self,
        context: &SpanContext,
        parent: Option<&SpanContext>,
        clock: Option<Clock>,
    ) -> (Box<OpenSpan>, Clock) {
        let (mut open, clock) = self.open(context.span_ref(), parent, context.tracestate(), clock);
        let shared = &self.tracer.shared;
        if shared.policy.has_baggage_attributes {
            shared.exporters.set_baggage_attributes(|key, value| open.record.set(key, value));
        }
        (open, clock)
    }

    /// Opens the record, with the clock of the trace if there is one, otherwise with a new clock.
    #[inline(always)]
    fn open(
        &self,
        span: SpanRef,
        parent: Option<&SpanContext>,
        trace_state: &str,
        clock: Option<Clock>,
    ) -> (Box<OpenSpan>, Clock) {
        let (clock, now) = match clock {
            Some(clock) => clock.advance(),
            None => Clock::start(),
        };
        let head = SpanHead {
            trace_id: span.trace_id,
            span_id: span.span_id,
            parent: parent.map(|parent| parent.span_id),
            parent_is_remote: parent.is_some_and(|parent| parent.is_remote),
            trace_flags: span.trace_flags,
            trace_state,
            name: self.name,
            kind: self.kind,
            start: self.start.map_or(now, unix_nanos),
        };
        (OpenSpan::begin(&self.tracer.shared, &head, clock), clock)
    }
}
