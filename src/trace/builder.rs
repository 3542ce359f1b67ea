//! A span before its start.

use std::time::SystemTime;

use super::open::OpenSpan;
use super::{Span, Tracer};
use crate::context::{self, Clock, Frame, SpanContext, Stack, unix_nanos};
use crate::record::{SpanHead, SpanKind, SpanRef, TraceId};

/// A span before its start. Got from [`Tracer::build`].
///
/// ```
/// # use standpipe::{SpanContext, SpanKind};
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let incoming = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
/// let span = tracer.build("GET /orders").parent(&incoming).kind(SpanKind::Server).start();
/// assert_eq!(span.context().trace_id(), incoming.trace_id());
/// ```
#[derive(Debug)]
#[must_use = "a span begins with start()"]
pub struct SpanBuilder<'a> {
    pub(super) tracer: &'a Tracer,
    name: &'a str,
    pub(super) parent: Parent<'a>,
    kind: SpanKind,
    start: Option<SystemTime>,
}

#[derive(Debug)]
pub(super) enum Parent<'a> {
    Current,
    None,
    Given(&'a SpanContext),
}

impl<'a> Parent<'a> {
    #[inline]
    pub(super) fn context(&self, current: Option<&'a SpanContext>) -> Option<&'a SpanContext> {
        match self {
            Parent::Current => current,
            Parent::Given(parent) => Some(parent),
            Parent::None => None,
        }
    }
}

impl<'a> SpanBuilder<'a> {
    #[inline]
    pub(super) fn new(tracer: &'a Tracer, name: &'a str) -> Self {
        Self { tracer, name, parent: Parent::Current, kind: SpanKind::Internal, start: None }
    }

    /// A child of this context instead of the thread's current span.
    #[inline]
    pub fn parent(mut self, parent: &'a SpanContext) -> Self {
        self.parent = Parent::Given(parent);
        self
    }

    /// The first span of a new trace.
    #[inline]
    pub fn root(mut self) -> Self {
        self.parent = Parent::None;
        self
    }

    /// The role of the span among its neighbours; internal unless set.
    #[inline]
    pub fn kind(mut self, kind: SpanKind) -> Self {
        self.kind = kind;
        self
    }

    /// When it started, if not now.
    #[inline]
    pub fn start_time(mut self, time: SystemTime) -> Self {
        self.start = Some(time);
        self
    }

    /// Starts the span and makes it the thread's current one until it is dropped. Whether it is recorded is the
    /// [`Sampler`](crate::Sampler)'s decision.
    #[inline]
    pub fn start(self) -> Span {
        match self {
            Self { tracer, name, parent: Parent::Current, kind, start: None } => {
                tracer.start_here(name, kind)
            }
            other => other.start_elsewhere(),
        }
    }

    /// For what is told its parent or its time.
    #[inline(never)]
    fn start_elsewhere(self) -> Span {
        let is_here = matches!(self.parent, Parent::Current);
        match if is_here { self.tracer.enter_unsampled() } else { None } {
            Some(entered) => Span::entered(None, entered),
            None => context::with_stack(|stack| self.begin(stack)),
        }
    }

    #[inline(never)]
    pub(super) fn begin(&self, stack: Option<&mut Stack>) -> Span {
        let around = stack.as_deref().and_then(Stack::top);
        let parent = self.parent.context(around.map(|frame| &frame.context));
        let judge = &self.tracer.source.judge;
        let trace_id = parent.map_or_else(TraceId::random, |parent| parent.trace_id);
        let sampled = judge.sampler.keeps(trace_id, parent.map(SpanContext::is_sampled));
        if !sampled || judge.is_idle {
            return self.begin_unrecorded(stack, trace_id, sampled);
        }
        let span = parent.map_or_else(|| SpanRef::root(trace_id, true), |parent| parent.child_ref(true));
        let mut clock = around.and_then(|frame| frame.clock);
        let is_suppressed =
            context::may_be_suppressed() && self.tracer.source.exporters.suppresses_span(true);
        let open = if is_suppressed { None } else { self.open(span, parent, &mut clock) };
        let context = SpanContext::of(span, parent.and_then(|parent| parent.state.clone()));
        match stack {
            Some(stack) if context.state.is_none() => Span::entered(open, stack.push(context, clock)),
            Some(stack) => Span::entered_with(open, stack.push(context.clone(), clock), context),
            None => Span::alone(open, context),
        }
    }

    /// A span that nobody will see.
    #[inline(never)]
    fn begin_unrecorded(&self, stack: Option<&mut Stack>, trace_id: TraceId, sampled: bool) -> Span {
        let judge = &self.tracer.source.judge;
        if !sampled && matches!(self.parent, Parent::Current) {
            if let Some(entered) = context::enter_unsampled() {
                return Span::entered(None, entered);
            }
        }
        let around = stack.as_deref().and_then(Stack::top);
        let parent = self.parent.context(around.map(|frame| &frame.context));
        // without an exporter it takes no place among the others, or its children would miss their parent
        if judge.is_idle && !matches!(self.parent, Parent::Given(_)) {
            return Span::idle(parent);
        }
        let context = judge.context(parent, trace_id, sampled);
        let clock = around.and_then(|frame| frame.clock);
        match stack {
            Some(stack) => Span::entered_with(None, stack.push(context.clone(), clock), context),
            None => Span::alone(None, context),
        }
    }

    /// As [`Tracer::open_below`], if it is told neither a parent nor a time.
    #[inline(always)]
    pub(super) fn open_below(&self, around: Option<&Frame>) -> Option<(Box<OpenSpan>, SpanRef, Clock)> {
        match self {
            Self { parent: Parent::Current, start: None, .. } => {
                self.tracer.open_below(around?, self.name, self.kind)
            }
            _ => None,
        }
    }

    /// `None` if there is no exporter to send it. The clock becomes the span's.
    pub(super) fn open(
        &self,
        span: SpanRef,
        parent: Option<&SpanContext>,
        clock: &mut Option<Clock>,
    ) -> Option<Box<OpenSpan>> {
        self.tracer.source.largest?;
        let (started, now) = clock.map_or_else(Clock::start, Clock::go_on);
        *clock = Some(started);
        let head = SpanHead {
            trace_id: span.trace_id,
            span_id: span.span_id,
            parent: parent.map(|parent| parent.span_id),
            parent_is_remote: parent.is_some_and(|parent| parent.is_remote),
            trace_flags: span.trace_flags,
            trace_state: parent.map_or("", SpanContext::tracestate),
            name: self.name,
            kind: self.kind,
            start: self.start.map_or(now, unix_nanos),
        };
        Some(OpenSpan::begin(&self.tracer.source, &head, started))
    }
}
