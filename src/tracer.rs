//! Spans at the call site: who makes them, and the guard that is one.

mod detached;
mod open;
mod setters;

use std::cell::OnceCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

pub use detached::DetachedSpan;
use open::OpenSpan;

use crate::context::{self, Clock, Entered, Frame, SpanContext, Stack, unix_nanos};
use crate::outlet::Outlet;
use crate::record::{
    LinkTarget, Scope, Signal, SpanHead, SpanKind, SpanLimits, SpanRecord, SpanRef, Status, TraceId, Value,
};
use crate::sample::Sampler;

/// Makes spans of one scope. Got from [`Telemetry::tracer`](crate::Telemetry::tracer); cheap to clone and to share.
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
    source: Arc<Source>,
}

/// What the spans of a tracer have in common.
struct Source {
    outlet: Arc<Outlet>,
    scope: Arc<Scope>,
    judge: Judge,
    /// The sampler need not be asked about what is inside an unsampled span.
    skips_below_unsampled: bool,
    /// Nor about what is inside a sampled one, and there is an exporter for it.
    keeps_below_sampled: bool,
    limits: SpanLimits,
    /// The largest span that any exporter can send; `None` if none takes spans.
    largest: Option<usize>,
}

/// Which context a span gets.
#[derive(Clone, Copy)]
struct Judge {
    sampler: Sampler,
    /// There is no exporter, whatever is recorded.
    is_idle: bool,
}

impl Tracer {
    pub(crate) fn new(outlet: Arc<Outlet>, scope: Arc<Scope>) -> Self {
        let (sampler, limits) = (outlet.sampler(), *outlet.limits());
        let largest = outlet.largest_record(Signal::Traces);
        let source = Source {
            judge: Judge { sampler, is_idle: outlet.is_idle() },
            skips_below_unsampled: sampler.keeps_nothing_below_unsampled(),
            keeps_below_sampled: sampler.keeps_all_below_sampled() && largest.is_some(),
            outlet,
            scope,
            limits,
            largest,
        };
        Self { source: Arc::new(source) }
    }

    /// Starts a span, a child of this thread's current one, and makes it current until it is dropped.
    #[inline]
    pub fn span(&self, name: &str) -> Span {
        match self.enter_unsampled() {
            Some(entered) => Span::entered(None, entered),
            None => self.build(name).ask_sampler(),
        }
    }

    /// A part in the unsampled span around, if there is one and the sampler would leave out what is inside it.
    #[inline]
    fn enter_unsampled(&self) -> Option<Entered> {
        // the first question is the cheapest, and its answer is mostly no
        if context::is_unsampled() && self.source.skips_below_unsampled {
            return context::enter_unsampled();
        }
        None
    }

    /// Starts a span step by step: with another parent, another kind, another start.
    #[inline]
    pub fn build<'a>(&'a self, name: &'a str) -> SpanBuilder<'a> {
        SpanBuilder { tracer: self, name, parent: Parent::Current, kind: SpanKind::Internal, start: None }
    }
}

impl Judge {
    /// Without an exporter it is the parent's own: nobody will see the span.
    #[inline]
    fn context(&self, parent: Option<&SpanContext>, trace_id: TraceId, sampled: bool) -> SpanContext {
        match parent {
            Some(parent) if self.is_idle => parent.clone(),
            Some(parent) => parent.child(sampled),
            // nobody here was asked, and an unsampled context would silence those it is handed to
            None => SpanContext::root(trace_id, sampled || self.is_idle),
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("scope", &self.source.scope.name).finish_non_exhaustive()
    }
}

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
    tracer: &'a Tracer,
    name: &'a str,
    parent: Parent<'a>,
    kind: SpanKind,
    start: Option<SystemTime>,
}

#[derive(Debug)]
enum Parent<'a> {
    Current,
    None,
    Given(&'a SpanContext),
}

impl<'a> Parent<'a> {
    #[inline]
    fn context(&self, current: Option<&'a SpanContext>) -> Option<&'a SpanContext> {
        match self {
            Parent::Current => current,
            Parent::Given(parent) => Some(parent),
            Parent::None => None,
        }
    }
}

impl<'a> SpanBuilder<'a> {
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
    /// [`Sampler`]'s decision.
    #[inline]
    pub fn start(self) -> Span {
        let shared =
            if matches!(self.parent, Parent::Current) { self.tracer.enter_unsampled() } else { None };
        match shared {
            Some(entered) => Span::entered(None, entered),
            None => self.ask_sampler(),
        }
    }

    #[inline]
    fn ask_sampler(self) -> Span {
        context::with_stack(|stack| match stack {
            Some(stack) => self.begin_below(stack),
            None => self.begin(None),
        })
    }

    #[inline(never)]
    fn begin_below(&self, stack: &mut Stack) -> Span {
        match self.open_below(stack.top()) {
            Some((open, span, clock)) => {
                Span::entered(Some(open), stack.push_below_sampled(SpanContext::of(span, None), clock))
            }
            None => self.begin(Some(stack)),
        }
    }

    /// The way of nearly all spans: below one that is recorded, from now on. `None` if this is another one, which must be
    /// begun as it is.
    #[inline(always)]
    fn open_below(&self, around: Option<&Frame>) -> Option<(Box<OpenSpan>, SpanRef, Clock)> {
        let source = &self.tracer.source;
        let is_usual = source.keeps_below_sampled && self.start.is_none() && !context::silenced();
        let around = match (&self.parent, around) {
            (Parent::Current, Some(around)) if is_usual && around.context.is_sampled() => around,
            _ => return None,
        };
        let (parent, Some(clock)) = (&around.context, around.clock) else { return None };
        if parent.state.is_some() {
            return None;
        }
        let span = parent.child_ref(true);
        let (clock, now) = clock.go_on();
        let head = SpanHead {
            trace_id: span.trace_id,
            span_id: span.span_id,
            parent: Some(parent.span_id),
            parent_is_remote: parent.is_remote,
            trace_flags: span.trace_flags,
            trace_state: "",
            name: self.name,
            kind: self.kind,
            start: now,
        };
        Some((OpenSpan::begin(source, &head, clock), span, clock))
    }

    #[inline(never)]
    fn begin(&self, stack: Option<&mut Stack>) -> Span {
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
        let open = if context::silenced() { None } else { self.open(span, parent, &mut clock) };
        let context = SpanContext::of(span, parent.and_then(|parent| parent.state.clone()));
        match stack {
            Some(stack) => Span::entered(open, stack.push(context, clock)),
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
            Some(stack) => Span::entered(None, stack.push(context, clock)),
            None => Span::alone(None, context),
        }
    }

    /// `None` if there is no exporter to send it. The clock becomes the span's.
    fn open(
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

/// A span that is open: the thread's current one until it is dropped, which ends and sends it.
///
/// Got from [`Tracer::span`]. It stays on its thread; [`context`](Self::context) carries it to others:
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let span = tracer.span("parent");
/// let context = span.context().clone();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let child = tracer.build("child").parent(&context).start();
///         assert_eq!(child.context().trace_id(), context.trace_id());
///     });
/// });
/// ```
#[must_use = "a span ends when it is dropped: give it a name"]
pub struct Span {
    /// `None` where nothing is recorded; the context is carried all the same.
    open: Option<Box<OpenSpan>>,
    entered: Option<Entered>,
    /// Empty until somebody asks, if the thread's stack of spans has it.
    context: OnceCell<Box<SpanContext>>,
    /// It is on this thread's stack of spans.
    not_send: PhantomData<*const ()>,
}

impl Span {
    /// One whose context is on the thread's stack of spans.
    #[inline]
    fn entered(open: Option<Box<OpenSpan>>, entered: Entered) -> Self {
        Self { open, entered: Some(entered), context: OnceCell::new(), not_send: PhantomData }
    }

    /// One that is not current, as the thread cannot have one.
    #[cold]
    fn alone(open: Option<Box<OpenSpan>>, context: SpanContext) -> Self {
        Self { open, entered: None, context: OnceCell::from(Box::new(context)), not_send: PhantomData }
    }

    /// One without an exporter: it has the context of the span around it, if there is one.
    #[cold]
    fn idle(around: Option<&SpanContext>) -> Self {
        let context = around.cloned().map_or_else(OnceCell::new, |around| OnceCell::from(Box::new(around)));
        Self { open: None, entered: None, context, not_send: PhantomData }
    }

    /// Whether what is set here goes anywhere: not if the sampler left the span out, nor without an exporter.
    /// Saves the work for attributes that are costly to make:
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// # let basket = ["tea", "milk"];
    /// let mut span = tracer.span("checkout");
    /// if span.is_recording() {
    ///     span.set("basket", basket.join(", ").as_str());
    /// }
    /// ```
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.open.is_some()
    }

    /// What identifies the span to others. An unsampled span directly inside another one has the context of that:
    /// neither is recorded, so nobody will miss an id. Without an exporter it is the context of the span around it, or
    /// of the parent that was given; if there is none either, one that leaves it to others what they record.
    pub fn context(&self) -> &SpanContext {
        self.context.get_or_init(|| Box::new(self.find_context()))
    }

    fn find_context(&self) -> SpanContext {
        let recorded = || self.open.as_ref().and_then(|open| open.record.span());
        match &self.entered {
            Some(entered) => match (entered.context(), recorded()) {
                (Some(context), _) => context,
                // the thread ends, and its stack is gone
                (None, Some(span)) => SpanContext::of(span, None),
                (None, None) => SpanContext::root(TraceId::random(), false),
            },
            // nobody here was asked, and an unsampled context would silence those it is handed to
            None => SpanContext::root(TraceId::random(), true),
        }
    }

    /// Ends the span at a time of its own; one before its start counts as its start.
    pub fn end_at(mut self, time: SystemTime) {
        self.finish(Some(unix_nanos(time)));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    fn finish(&mut self, end: Option<u64>) {
        if let Some(entered) = self.entered.take() {
            entered.leave();
        }
        if let Some(open) = self.open.take() {
            let end = end.unwrap_or_else(|| open.clock.now());
            open.finish(end);
        }
    }
}

setters::setters!(Span);

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.open.is_none() && self.entered.as_ref().is_some_and(Entered::leave_to_others) {
            return;
        }
        self.finish(None);
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("context", self.context()).finish_non_exhaustive()
    }
}

/// An event or a link of a span that takes attributes; it is complete when it is dropped.
pub struct SpanPart<'a>(Option<&'a mut SpanRecord>);

impl<'a> SpanPart<'a> {
    fn open(open: Option<&'a mut OpenSpan>, write: impl FnOnce(&mut OpenSpan) -> bool) -> Self {
        Self(open.and_then(|open| write(open).then_some(&mut open.record)))
    }

    fn event(open: Option<&'a mut OpenSpan>, name: &str) -> Self {
        Self::open(open, |open| open.record.open_event(name, open.clock.now()))
    }

    fn event_with_time(open: Option<&'a mut OpenSpan>, name: &str, time: SystemTime) -> Self {
        Self::open(open, |open| open.record.open_event(name, unix_nanos(time)))
    }

    fn link(open: Option<&'a mut OpenSpan>, context: &SpanContext) -> Self {
        let target = LinkTarget {
            trace_id: context.trace_id,
            span_id: context.span_id,
            is_remote: context.is_remote,
            trace_flags: context.flags,
            trace_state: context.tracestate(),
        };
        Self::open(open, |open| open.record.open_link(&target))
    }

    /// Sets an attribute in place: for a loop over many.
    #[inline]
    pub fn add<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) {
        if let Some(record) = &mut self.0 {
            record.set_in_part(key, value.into());
        }
    }

    /// Sets an attribute; the last value of a key counts.
    #[allow(clippy::return_self_not_must_use)]
    pub fn set<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Self {
        self.add(key, value);
        self
    }
}

// what was set may be anything, also a secret
impl fmt::Debug for SpanPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanPart").finish_non_exhaustive()
    }
}

impl Drop for SpanPart<'_> {
    fn drop(&mut self) {
        if let Some(record) = &mut self.0 {
            record.close_part();
        }
    }
}
