//! Spans at the call site: who makes them, and the guard that is one.

mod builder;
mod detached;
mod open;
mod part;
mod setters;

use std::cell::OnceCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::SystemTime;

pub use builder::SpanBuilder;
pub use detached::DetachedSpan;
use open::OpenSpan;
pub use part::SpanPart;

use crate::config::sampler::Sampler;
use crate::context::{self, Clock, Entered, Frame, SpanContext, Stack, unix_nanos};
use crate::pipeline::exporter_set::ExporterSet;
use crate::record::{Scope, Signal, SpanHead, SpanKind, SpanLimits, SpanRef, Status, TraceId, Value};

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
    exporters: Arc<ExporterSet>,
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
    pub(crate) fn new(exporters: Arc<ExporterSet>, scope: Arc<Scope>) -> Self {
        let (sampler, limits) = (exporters.sampler(), *exporters.limits());
        let largest = exporters.largest_record(Signal::Traces);
        let source = Source {
            judge: Judge { sampler, is_idle: exporters.is_idle() },
            skips_below_unsampled: sampler.keeps_nothing_below_unsampled(),
            keeps_below_sampled: sampler.keeps_all_below_sampled() && largest.is_some(),
            exporters,
            scope,
            limits,
            largest,
        };
        Self { source: Arc::new(source) }
    }

    /// Starts a span, a child of this thread's current one, and makes it current until it is dropped.
    #[inline]
    pub fn span(&self, name: &str) -> Span {
        self.start_here(name, SpanKind::Internal)
    }

    /// Starts a span below the thread's current one, from now on.
    #[inline]
    fn start_here(&self, name: &str, kind: SpanKind) -> Span {
        match self.enter_unsampled() {
            Some(entered) => Span::entered(None, entered),
            None => self.begin_here(name, kind),
        }
    }

    #[inline(never)]
    fn begin_here(&self, name: &str, kind: SpanKind) -> Span {
        // two words come out of it: a whole span would be copied
        match context::with_stack(|stack| self.begin_below(stack?, name, kind)) {
            Some((open, entered)) => Span::entered(Some(open), entered),
            None => context::with_stack(|stack| self.build(name).kind(kind).begin(stack)),
        }
    }

    #[inline(always)]
    fn begin_below(&self, stack: &mut Stack, name: &str, kind: SpanKind) -> Option<(Box<OpenSpan>, Entered)> {
        let (open, span, clock) = self.open_below(stack.top()?, name, kind)?;
        Some((open, stack.push_below_sampled(SpanContext::of(span, None), clock)))
    }

    /// The way of nearly all spans: below one that is recorded, from now on. `None` for any other.
    #[inline(always)]
    fn open_below(
        &self,
        around: &Frame,
        name: &str,
        kind: SpanKind,
    ) -> Option<(Box<OpenSpan>, SpanRef, Clock)> {
        let (parent, clock) = (&around.context, around.clock?);
        let is_usual = parent.is_sampled() && parent.state.is_none();
        if !is_usual || !self.source.keeps_below_sampled || context::may_be_suppressed() {
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
            name,
            kind,
            start: now,
        };
        Some((OpenSpan::begin(&self.source, &head, clock), span, clock))
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
        SpanBuilder::new(self, name)
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
// What must be dropped is dropped by `finish`, or leaks: so there is nothing to look at behind the end of a span.
#[must_use = "a span ends when it is dropped: give it a name"]
pub struct Span {
    /// `None` where nothing is recorded; the context is carried all the same.
    open: Option<ManuallyDrop<Box<OpenSpan>>>,
    entered: Option<Entered>,
    /// Empty until somebody asks, if the thread's stack of spans has it.
    context: OnceCell<ManuallyDrop<SpanContext>>,
    /// It is on this thread's stack of spans.
    not_send: PhantomData<*const ()>,
}

impl Span {
    /// One whose context is on the thread's stack of spans.
    #[inline]
    fn entered(open: Option<Box<OpenSpan>>, entered: Entered) -> Self {
        Self::new(open, Some(entered), None)
    }

    /// The same, where the stack may be gone before somebody asks and nothing else has all of the context.
    fn entered_with(open: Option<Box<OpenSpan>>, entered: Entered, context: SpanContext) -> Self {
        Self::new(open, Some(entered), Some(context))
    }

    /// One that is not current, as the thread cannot have one.
    #[cold]
    fn alone(open: Option<Box<OpenSpan>>, context: SpanContext) -> Self {
        Self::new(open, None, Some(context))
    }

    /// One without an exporter: it has the context of the span around it, if there is one.
    #[cold]
    fn idle(around: Option<&SpanContext>) -> Self {
        Self::new(None, None, around.cloned())
    }

    #[inline(always)]
    fn new(open: Option<Box<OpenSpan>>, entered: Option<Entered>, context: Option<SpanContext>) -> Self {
        let context = context.map(ManuallyDrop::new).map_or_else(OnceCell::new, OnceCell::from);
        Self { open: open.map(ManuallyDrop::new), entered, context, not_send: PhantomData }
    }

    #[inline]
    fn open_mut(&mut self) -> Option<&mut OpenSpan> {
        self.open.as_mut().map(|open| &mut ***open)
    }

    #[inline]
    fn take_open(&mut self) -> Option<Box<OpenSpan>> {
        self.open.take().map(ManuallyDrop::into_inner)
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
        self.context.get_or_init(|| ManuallyDrop::new(self.find_context()))
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
        self.leave();
        if let Some(open) = self.take_open() {
            open.finish(unix_nanos(time));
        }
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    #[inline]
    fn leave(&mut self) {
        if let Some(entered) = self.entered.take() {
            entered.leave();
        }
    }

    #[inline(never)]
    fn finish(&mut self) {
        let _dropped = self.context.take().map(ManuallyDrop::into_inner);
        match self.take_open() {
            Some(open) => {
                if let Some(entered) = self.entered.take() {
                    entered.leave_recorded();
                }
                open.finish_now();
            }
            None if Entered::leave_to_others(self.entered.as_ref()) => {}
            None => self.leave(),
        }
    }
}

setters::setters!(Span);

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        // most of those that nobody records, without a call
        let is_nothing = self.open.is_none() && self.context.get().is_none();
        if !is_nothing || !Entered::leave_to_others(self.entered.as_ref()) {
            self.finish();
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("context", self.context()).finish_non_exhaustive()
    }
}
