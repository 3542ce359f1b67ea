//! A span that belongs to no thread.

use std::fmt;
use std::time::SystemTime;

use super::open::OpenSpan;
use super::{Judge, SpanPart};
use crate::context::{ContextGuard, SpanContext, unix_nanos};
use crate::record::{NewParent, SpanKind, Status, Value};

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
    /// `None` where nothing is recorded.
    open: Option<Box<OpenSpan>>,
    context: SpanContext,
    /// Whether it may become current: not without an exporter, unless it carries the context of a parent.
    is_somebody: bool,
    /// Whether its context has been seen, so that its parent and its sampling stay as they are.
    is_settled: bool,
    judge: Judge,
    /// When it ended, if that was before its end.
    ended: Option<u64>,
}

impl DetachedSpan {
    #[inline]
    pub(super) fn new(
        open: Option<Box<OpenSpan>>,
        context: SpanContext,
        has_parent: bool,
        judge: Judge,
    ) -> Self {
        let is_somebody = has_parent || !judge.is_idle;
        Self { open, context, is_somebody, is_settled: false, judge, ended: None }
    }

    /// Makes it a child of another span, in another trace if that is in one. The sampler is asked again, and what was
    /// set before is kept.
    ///
    /// False if it is too late, and nothing has changed: the span has been [entered](Self::enter), or somebody has
    /// asked for its [context](Self::context).
    pub fn set_parent(&mut self, parent: &SpanContext) -> bool {
        if self.is_settled {
            return false;
        }
        let span_id = self.context.span_id;
        self.context = self.judge.sampled_context(Some(parent));
        self.is_somebody = true;
        if let Some(open) = &mut self.open {
            self.context.span_id = span_id;
            open.record.set_parent(&NewParent {
                trace_id: parent.trace_id,
                span_id: parent.span_id,
                is_remote: parent.is_remote,
                trace_flags: self.context.flags,
                trace_state: parent.tracestate(),
            });
        }
        true
    }

    /// What identifies the span to others. From now on its parent stays as it is.
    #[inline]
    pub fn context(&mut self) -> &SpanContext {
        self.settle();
        &self.context
    }

    /// Makes it this thread's current span until the guard is dropped. It may be entered often, and on several threads
    /// at once. From now on its parent stays as it is.
    #[inline]
    pub fn enter(&mut self) -> ContextGuard {
        self.settle();
        if !self.is_somebody {
            return ContextGuard::none();
        }
        ContextGuard::enter(&self.context, self.open.as_ref().map(|open| open.clock))
    }

    #[inline]
    fn settle(&mut self) {
        if !self.is_settled {
            self.is_settled = true;
            if !self.context.is_sampled() {
                self.open.take().into_iter().for_each(|open| open.discard());
            }
        }
    }

    /// Whether what is set here goes anywhere. Before the span is entered that may be undecided, and is then true.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.open.is_some()
    }

    /// Says how it went, unless somebody has said it.
    #[cfg(feature = "tracing")]
    pub(crate) fn status_unless_set(&mut self, status: Status<'_>) {
        if let Some(open) = self.open.as_mut().filter(|open| !open.record.has_status()) {
            open.record.set_status(status);
        }
    }

    /// It ends now, unless it goes on and ends here again: dropping it later only sends it.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn end_here(&mut self) {
        self.ended = self.open.as_ref().map(|open| open.clock.now());
    }

    /// Forgets it, as if it had never been.
    #[cfg(feature = "tracing")]
    pub(crate) fn discard(mut self) {
        self.open.take().into_iter().for_each(|open| open.discard());
    }

    /// Ends the span at a time of its own; one before its start counts as its start.
    pub fn end_at(mut self, time: SystemTime) {
        self.finish(Some(unix_nanos(time)));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    fn finish(&mut self, end: Option<u64>) {
        self.settle();
        if let Some(open) = self.open.take() {
            let end = end.or(self.ended).unwrap_or_else(|| open.clock.now());
            open.finish(end);
        }
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
        f.debug_struct("DetachedSpan").field("context", &self.context).finish_non_exhaustive()
    }
}
