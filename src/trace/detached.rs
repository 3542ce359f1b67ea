//! What is a span that outlives a function or a thread? One that is current only where and while it is entered.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::builder::Started;
use super::open::OpenSpan;
use super::{AsError, Chain, EventBuilder, LinkBuilder, TracerShared, error};
#[cfg(feature = "tracing")]
use crate::context::{self, BridgedSpan};
use crate::context::{ContextGuard, SpanContext, unix_nanos};
#[cfg(feature = "tracing")]
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{IntoValue, NewParent, SpanKind, Status};

/// A span that belongs to no thread: it can be moved, kept in a structure, and ended anywhere. Dropping it ends and
/// sends it; if that is done by a panic, it has the status `Error`, unless another one was set. From
/// [`SpanBuilder::detached`](crate::SpanBuilder::detached).
///
/// It is no thread's current span until it is [entered](Self::enter), and then only where and while it is:
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let mut order = tracer.span_builder("order").detached();
/// std::thread::spawn(move || {
///     order.set("order.id", 4711);
///     let _entered = order.enter();
///     let _payment = tracer.span("payment"); // a child of order
/// });
/// ```
///
/// Its parent may [change](Self::set_parent) until its context has been read.
#[must_use = "a span ends when it is dropped: give it a name, not `_`"]
pub struct DetachedSpan {
    /// Taken out by its end.
    storage: Option<Box<OpenSpan>>,
}

const UNTIL_ITS_END: &str = "a span has its storage until its end";

/// What a detached span has beside its record. It lies in the same storage: these spans are moved about much.
#[derive(Default)]
pub(super) struct DetachedState {
    /// Whether what is set goes anywhere.
    is_recording: bool,
    /// Whether it may become current: not without an exporter, unless it carries the context of a parent.
    can_enter: bool,
    /// Whether its context has been read, so that its parent and its sampling stay as they are.
    is_settled: bool,
    /// When it ended, if that was before it was dropped.
    ended: Option<u64>,
}

impl DetachedState {
    #[inline]
    fn new(is_recording: bool, can_enter: bool) -> Self {
        Self { is_recording, can_enter, is_settled: false, ended: None }
    }
}

impl DetachedSpan {
    #[inline(always)]
    pub(super) fn new(shared: &Arc<TracerShared>, started: Started) -> Self {
        let is_recording = started.open.is_some();
        let mut storage = started.open.unwrap_or_else(|| OpenSpan::unrecorded(shared));
        storage.context = started.context;
        storage.detached = DetachedState::new(is_recording, started.can_enter);
        Self { storage: Some(storage) }
    }

    /// The span of this storage: what [`into_storage`](Self::into_storage) gave.
    #[cfg(feature = "ffi")]
    #[inline]
    pub(crate) fn from_storage(storage: Box<OpenSpan>) -> Self {
        Self { storage: Some(storage) }
    }

    /// The span as one pointer. It goes on until [`from_storage`](Self::from_storage) takes it back.
    #[cfg(feature = "ffi")]
    #[inline]
    pub(crate) fn into_storage(mut self) -> Option<Box<OpenSpan>> {
        self.storage.take()
    }

    /// Makes it a child of another span, in another trace if that is in one. The sampler decides again, and what was set
    /// before is kept.
    ///
    /// False if it is too late, and nothing has changed: the span has been [entered](Self::enter), or its
    /// [context](Self::context) has been read.
    pub fn set_parent(&mut self, parent: &SpanContext) -> bool {
        let storage = self.storage_mut();
        let is_recording = storage.detached.is_recording;
        if storage.detached.is_settled {
            return false;
        }
        let mut context = storage.shared.policy.context(Some(parent));
        if is_recording {
            context.span_id = storage.context.span_id;
            storage.record.set_parent(&NewParent {
                trace_id: parent.trace_id,
                span_id: parent.span_id,
                is_remote: parent.is_remote,
                trace_flags: context.flags,
                trace_state: parent.tracestate(),
            });
        }
        storage.context = context;
        storage.detached = DetachedState::new(is_recording, true);
        true
    }

    /// Gives it ids that were handed out before it starts, as by a process that ended in between. Whether it is sampled was
    /// decided then, too: by the flag in this context, not by the sampler. Its parent stays as it is.
    ///
    /// ```
    /// # use standpipe::SpanContext;
    /// # let exporter = standpipe::Exporter::http("http://127.0.0.1:9");
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new().exporter(exporter)).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// let known = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    /// let mut span = tracer.span_builder("deploy").root().detached();
    /// assert!(span.set_identity(&known));
    /// assert_eq!(span.context().span_id(), known.span_id());
    /// ```
    ///
    /// Two spans of the same ids are one to a collector: the caller sees to it that this one is sent once. False if it is too
    /// late, as for [`set_parent`](Self::set_parent), or if nothing is recorded.
    pub fn set_identity(&mut self, known: &SpanContext) -> bool {
        let storage = self.storage_mut();
        if storage.detached.is_settled || !storage.detached.is_recording {
            return false;
        }
        storage.record.set_identity(&known.span_ref(), known.tracestate());
        storage.context = SpanContext { is_remote: false, ..known.clone() };
        true
    }

    /// What identifies the span to others. From now on its parent stays as it is.
    #[inline]
    pub fn context(&mut self) -> &SpanContext {
        self.storage_mut().settled_context()
    }

    /// Makes it this thread's current span until the guard is dropped. It may be entered often, and on several threads
    /// at once. From now on its parent stays as it is.
    #[inline]
    pub fn enter(&mut self) -> ContextGuard {
        self.storage_mut().enter()
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
    pub(crate) fn open_mut(&mut self) -> Option<&mut OpenSpan> {
        self.storage.as_deref_mut().and_then(OpenSpan::recorded)
    }

    /// Whether what is set here goes anywhere. Before the span is entered that may be undecided, and is then true.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.storage().is_recording()
    }

    /// As [`enter`](Self::enter), for a span of a bridge, until [`leave_bridged`](crate::context::leave_bridged).
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn enter_bridged(&mut self, span: BridgedSpan) {
        let storage = self.storage_mut();
        storage.settle();
        let is_recording = storage.is_recording();
        let context = (&storage.context, is_recording.then_some(storage.clock));
        context::enter_bridged(span, is_recording, storage.detached.can_enter.then_some(context));
    }

    /// It ends now, unless it goes on and ends here again: dropping it later only sends it.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn end_here(&mut self) {
        if let Some(open) = self.open_mut() {
            open.detached.ended = Some(open.clock.now());
        }
    }

    /// Counts it as lost to a panic of the program's own code, and forgets it.
    #[cfg(feature = "tracing")]
    #[cold]
    pub(crate) fn discard_in_panic(mut self) {
        let storage = self.storage_mut();
        storage.settle();
        if storage.is_recording() {
            storage.shared.exporters.count_span_not_enqueued(NotEnqueuedReason::Panicked);
        }
        storage.detached.is_recording = false;
        storage.abandon_record();
    }

    /// Ends the span at a time of its own; one before its start counts as its start.
    pub fn end_at(mut self, time: SystemTime) {
        self.finish(Some(unix_nanos(time)));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    fn finish(&mut self, end: Option<u64>) {
        let Some(mut storage) = self.storage.take() else { return };
        storage.settle();
        if storage.is_recording() {
            let end = end.or(storage.detached.ended);
            storage.finish(end);
        } else {
            storage.keep();
        }
    }
}

super::span::setters!(DetachedSpan, "detached");

/// The storage of a detached span.
impl OpenSpan {
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.detached.is_recording
    }

    /// `None` where nothing is recorded.
    #[inline]
    pub(crate) fn recorded(&mut self) -> Option<&mut Self> {
        self.is_recording().then_some(self)
    }

    #[inline]
    pub(crate) fn settled_context(&mut self) -> &SpanContext {
        self.settle();
        &self.context
    }

    #[inline]
    pub(crate) fn enter(&mut self) -> ContextGuard {
        self.settle();
        if !self.detached.can_enter {
            return ContextGuard::none();
        }
        ContextGuard::enter(&self.context, self.is_recording().then_some(self.clock))
    }

    #[inline]
    fn settle(&mut self) {
        if self.detached.is_settled {
            return;
        }
        self.detached.is_settled = true;
        if !self.context.is_sampled() {
            self.detached.is_recording = false;
            // it may stay open for long
            self.abandon_record();
        }
    }
}

impl Drop for DetachedSpan {
    #[inline]
    fn drop(&mut self) {
        self.finish(None);
    }
}

impl fmt::Debug for DetachedSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedSpan").field("context", &self.storage().context).finish_non_exhaustive()
    }
}
