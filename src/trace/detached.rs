//! A span that belongs to no thread.

use std::fmt;
use std::time::SystemTime;

use super::open::OpenSpan;
use super::{Judge, SpanBuilder, SpanPart};
use crate::context::{self, ContextGuard, Frame, SpanContext, Stack, unix_nanos};
#[cfg(feature = "tracing")]
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{NewParent, SpanId, SpanKind, SpanRef, Status, TraceId, Value};

/// A span that belongs to no thread: it can be moved, kept in a structure, and ended anywhere. Dropping it ends and
/// sends it. From [`SpanBuilder::detached`](crate::SpanBuilder::detached).
///
/// It is nobody's current span until it is [entered](Self::enter), and then only where and while it is:
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let mut order = tracer.build("order").detached();
/// std::thread::spawn(move || {
///     order.set("order.id", 4711);
///     let _entered = order.enter();
///     let _payment = tracer.span("payment"); // a child of order
/// });
/// ```
///
/// Its parent may [change](Self::set_parent) until somebody has seen its context.
#[must_use = "a span ends when it is dropped: give it a name"]
pub struct DetachedSpan {
    /// Taken out by its end.
    storage: Option<Box<OpenSpan>>,
    is_recording: bool,
}

const UNTIL_ITS_END: &str = "a span has its storage until its end";

/// What such a span has beside its record. It lies in the same storage, as these spans are moved about much.
pub(super) struct Belongings {
    context: SpanContext,
    /// Whether it may become current: not without an exporter, unless it carries the context of a parent.
    is_somebody: bool,
    /// Whether its context has been seen, so that its parent and its sampling stay as they are.
    is_settled: bool,
    /// When it ended, if that was before its end.
    ended: Option<u64>,
}

impl Default for Belongings {
    fn default() -> Self {
        let nobody = SpanRef { trace_id: TraceId([0; 16]), span_id: SpanId([0; 8]), trace_flags: 0 };
        Self::of(SpanContext::of(nobody, None), false)
    }
}

impl Belongings {
    #[inline]
    fn of(context: SpanContext, is_somebody: bool) -> Self {
        Self { context, is_somebody, is_settled: false, ended: None }
    }
}

impl DetachedSpan {
    #[inline]
    pub(super) fn recorded(mut open: Box<OpenSpan>, context: SpanContext) -> Self {
        open.own = Belongings::of(context, true);
        Self { storage: Some(open), is_recording: true }
    }

    pub(super) fn unrecorded(mut storage: Box<OpenSpan>, context: SpanContext, has_parent: bool) -> Self {
        storage.own = Belongings::of(context, has_parent || !storage.source.judge.is_idle);
        Self { storage: Some(storage), is_recording: false }
    }

    /// Makes it a child of another span, in another trace if that is in one. The sampler is asked again, and what was
    /// set before is kept.
    ///
    /// False if it is too late, and nothing has changed: the span has been [entered](Self::enter), or somebody has
    /// asked for its [context](Self::context).
    pub fn set_parent(&mut self, parent: &SpanContext) -> bool {
        let is_recording = self.is_recording;
        let storage = self.storage_mut();
        if storage.own.is_settled {
            return false;
        }
        let mut context = storage.source.judge.sampled_context(Some(parent));
        if is_recording {
            context.span_id = storage.own.context.span_id;
            storage.record.set_parent(&NewParent {
                trace_id: parent.trace_id,
                span_id: parent.span_id,
                is_remote: parent.is_remote,
                trace_flags: context.flags,
                trace_state: parent.tracestate(),
            });
        }
        storage.own = Belongings::of(context, true);
        true
    }

    /// What identifies the span to others. From now on its parent stays as it is.
    #[inline]
    pub fn context(&mut self) -> &SpanContext {
        self.settle();
        &self.storage().own.context
    }

    /// Makes it this thread's current span until the guard is dropped. It may be entered often, and on several threads
    /// at once. From now on its parent stays as it is.
    #[inline]
    pub fn enter(&mut self) -> ContextGuard {
        self.settle();
        let storage = self.storage();
        let own = &storage.own;
        if !own.is_somebody {
            return ContextGuard::none();
        }
        ContextGuard::enter(&own.context, self.is_recording.then_some(storage.clock))
    }

    #[inline]
    fn settle(&mut self) {
        let storage = self.storage_mut();
        if storage.own.is_settled {
            return;
        }
        storage.own.is_settled = true;
        if !storage.own.context.is_sampled() {
            self.is_recording = false;
            // it may stay open for long, and nobody will see what was set
            self.storage_mut().shed_large_record();
        }
    }

    #[inline]
    fn storage(&self) -> &OpenSpan {
        self.storage.as_deref().expect(UNTIL_ITS_END)
    }

    #[inline]
    fn storage_mut(&mut self) -> &mut OpenSpan {
        self.storage.as_deref_mut().expect(UNTIL_ITS_END)
    }

    #[inline]
    fn open_mut(&mut self) -> Option<&mut OpenSpan> {
        if self.is_recording { self.storage.as_deref_mut() } else { None }
    }

    /// Whether what is set here goes anywhere. Before the span is entered that may be undecided, and is then true.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Sets an attribute of a span that has just been started, where no event or link can be open.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn set_at_start<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) {
        if let Some(open) = self.open_mut() {
            open.record.set_at_start(key, value.into());
        }
    }

    /// Says how it went, unless somebody has said it.
    #[cfg(feature = "tracing")]
    pub(crate) fn status_unless_set(&mut self, status: Status<'_>) {
        if let Some(open) = self.open_mut().filter(|open| !open.record.has_status()) {
            open.record.set_status(status);
        }
    }

    /// It ends now, unless it goes on and ends here again: dropping it later only sends it.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn end_here(&mut self) {
        if let Some(open) = self.open_mut() {
            open.own.ended = Some(open.clock.now());
        }
    }

    /// Counts it as lost to a panic of the program's own code, and forgets it.
    #[cfg(feature = "tracing")]
    #[cold]
    pub(crate) fn discard_in_panic(mut self) {
        self.settle();
        if self.is_recording {
            self.storage().source.exporters.count_span_not_enqueued(NotEnqueuedReason::Panicked);
        }
        self.is_recording = false;
    }

    /// Ends the span at a time of its own; one before its start counts as its start.
    pub fn end_at(mut self, time: SystemTime) {
        self.finish(Some(unix_nanos(time)));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    fn finish(&mut self, end: Option<u64>) {
        if self.storage.is_some() {
            self.settle();
        }
        let Some(mut storage) = self.storage.take() else { return };
        // storage is kept for the next span, but nothing of this one
        storage.own.context.state = None;
        if self.is_recording {
            let end = end.or(storage.own.ended).unwrap_or_else(|| storage.clock.now());
            storage.finish(end);
        } else {
            storage.discard();
        }
    }
}

impl SpanBuilder<'_> {
    /// Starts a span that belongs to no thread: it can be moved, kept in a structure, and ended anywhere. It becomes
    /// current only where it is [entered](DetachedSpan::enter).
    #[inline]
    pub fn detached(self) -> DetachedSpan {
        context::with_stack(|stack| self.begin_detached(stack.as_deref().and_then(Stack::top)))
    }

    #[inline(never)]
    fn begin_detached(&self, around: Option<&Frame>) -> DetachedSpan {
        match self.open_below(around) {
            Some((open, span, _)) => DetachedSpan::recorded(open, SpanContext::of(span, None)),
            None => self.begin_detached_anywhere(around),
        }
    }

    #[inline(never)]
    fn begin_detached_anywhere(&self, around: Option<&Frame>) -> DetachedSpan {
        let parent = self.parent.context(around.map(|frame| &frame.context));
        let source = &self.tracer.source;
        let judge = &source.judge;
        let context = judge.sampled_context(parent);
        // recorded until it is settled that nobody wants it: its parent may still change
        let is_suppressed = context::may_be_suppressed()
            && source.exporters.suppresses_span(context.is_sampled() && !judge.is_idle);
        let is_of_use = !is_suppressed && !judge.sampler.keeps_nothing();
        let mut clock = around.and_then(|frame| frame.clock);
        let open = if is_of_use { self.open(context.span_ref(), parent, &mut clock) } else { None };
        match open {
            Some(open) => DetachedSpan::recorded(open, context),
            None => DetachedSpan::unrecorded(OpenSpan::unrecorded(source), context, parent.is_some()),
        }
    }
}

impl Judge {
    /// The context of a new span below this parent, as the sampler says.
    #[inline]
    fn sampled_context(&self, parent: Option<&SpanContext>) -> SpanContext {
        let trace_id = parent.map_or_else(TraceId::random, |parent| parent.trace_id);
        let sampled = self.sampler.keeps(trace_id, parent.map(SpanContext::is_sampled));
        self.context(parent, trace_id, sampled)
    }
}

super::setters::setters!(DetachedSpan);

impl Drop for DetachedSpan {
    #[inline]
    fn drop(&mut self) {
        self.finish(None);
    }
}

impl fmt::Debug for DetachedSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedSpan").field("context", &self.storage().own.context).finish_non_exhaustive()
    }
}
