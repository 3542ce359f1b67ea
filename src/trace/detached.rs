//! [`DetachedSpan`]: a span that can outlive a function or a thread. It is current only on threads that have entered
//! it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::builder::{SpanSpec, Started};
use super::open::OpenSpan;
use super::{AsError, Chain, EventBuilder, LinkBuilder, Tracer, TracerShared, span};
use crate::config::ParentOrigin;
#[cfg(feature = "tracing")]
use crate::context::{self, BridgedSpan};
use crate::context::{ContextGuard, SpanContext, unix_nanos};
#[cfg(feature = "tracing")]
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{IntoValue, OtherSpan, SpanKind, Status, Value};

/// A span that belongs to no thread: it can be moved, kept in a structure, and ended anywhere. Dropping it ends and
/// sends it. If a panic drops it, its status becomes `Error`, unless a status was set. From
/// [`SpanBuilder::detached`](crate::SpanBuilder::detached).
///
/// It becomes the current span only on a thread that has [entered](Self::enter) it, until the guard is dropped:
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
/// Its parent may [change](Self::set_parent) until the span is entered or its context is read.
#[must_use = "a span ends when it is dropped: give it a name, not `_`"]
pub struct DetachedSpan {
    /// `None` once the span has ended.
    storage: Option<Box<OpenSpan>>,
}

const UNTIL_ITS_END: &str = "a span has its storage until its end";

/// The state of a detached span other than its record. It is kept in the same allocation, so that moving the span
/// moves one pointer.
#[derive(Default)]
pub(super) struct DetachedState {
    is_recording: bool,
    /// Whether the span may become current. Without an exporter, true only if the span carries the context of a parent.
    can_enter: bool,
    /// True once the context was read or entered. From then on, the parent and the sampling decision cannot change.
    is_settled: bool,
    /// Time of the span's end, if `end_here` has noted one.
    ended: Option<u64>,
    parent: ParentOrigin,
}

impl DetachedState {
    #[inline]
    fn new(is_recording: bool, can_enter: bool, parent: ParentOrigin) -> Self {
        Self { is_recording, can_enter, is_settled: false, ended: None, parent }
    }
}

impl DetachedSpan {
    #[inline(always)]
    pub(super) fn new(shared: &Arc<TracerShared>, started: Started, parent: ParentOrigin) -> Self {
        let is_recording = started.open.is_some();
        let mut storage = started.open.unwrap_or_else(|| OpenSpan::unrecorded(shared));
        storage.context = started.context;
        Self::of(storage, is_recording, started.can_enter, parent)
    }

    #[inline(always)]
    pub(super) fn of(
        mut storage: Box<OpenSpan>,
        is_recording: bool,
        can_enter: bool,
        parent: ParentOrigin,
    ) -> Self {
        storage.detached = DetachedState::new(is_recording, can_enter, parent);
        Self { storage: Some(storage) }
    }

    /// Restores a span from the storage that [`into_storage`](Self::into_storage) returned.
    #[cfg(feature = "ffi")]
    #[inline]
    pub(crate) fn from_storage(storage: Box<OpenSpan>) -> Self {
        Self { storage: Some(storage) }
    }

    /// Converts the span to one pointer. The span stays open until [`from_storage`](Self::from_storage) restores it.
    #[cfg(feature = "ffi")]
    #[inline]
    pub(crate) fn into_storage(mut self) -> Option<Box<OpenSpan>> {
        self.storage.take()
    }

    /// Makes the span a child of another span, possibly in another trace. Attributes that were set before are kept. The
    /// sampler decides again, but no longer knows the span: a [`SamplingRule`](crate::config::SamplingRule) sees an
    /// empty name, the kind `Internal` and no attributes.
    ///
    /// Returns false without effect if it is too late: the span has been [entered](Self::enter), or its
    /// [context](Self::context) has been read.
    pub fn set_parent(&mut self, parent: &SpanContext) -> bool {
        let storage = self.storage_mut();
        let is_recording = storage.detached.is_recording;
        if storage.detached.is_settled {
            return false;
        }
        let shared = Arc::clone(&storage.shared);
        let tracer = Tracer { shared };
        // Name, kind and attributes were encoded at the start, so the sampler cannot see them anymore.
        let spec = SpanSpec::new(&tracer, "", SpanKind::Internal);
        let mut context = tracer.shared.decide(Some(parent), &spec, None);
        if is_recording {
            context.span_id = storage.context.span_id;
            storage.record.set_parent(&OtherSpan {
                trace_id: parent.trace_id,
                span_id: parent.span_id,
                is_remote: parent.is_remote,
                trace_flags: context.flags,
                trace_state: context.tracestate(),
            });
        }
        storage.context = context;
        let origin = ParentOrigin::of(Some(parent.is_remote));
        storage.detached = DetachedState::new(is_recording, true, origin);
        true
    }

    /// Sets ids that were assigned before the span starts, for example by a process that has ended since. The sampled
    /// flag of `known` replaces the decision of the sampler. The parent does not change.
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
    /// A collector treats two spans with the same ids as one, so the caller must send this span only once. Returns
    /// false if it is too late, as for [`set_parent`](Self::set_parent), or if nothing is recorded.
    pub fn set_identity(&mut self, known: &SpanContext) -> bool {
        let storage = self.storage_mut();
        if storage.detached.is_settled || !storage.detached.is_recording {
            return false;
        }
        storage.record.set_identity(&known.span_ref(), known.tracestate());
        storage.context = SpanContext { is_remote: false, ..known.clone() };
        true
    }

    /// Returns the context that identifies the span to others. From then on, the span's parent cannot change.
    #[inline]
    pub fn context(&mut self) -> &SpanContext {
        self.storage_mut().settled_context()
    }

    /// Makes the span this thread's current span until the guard is dropped. It may be entered repeatedly, and on
    /// several threads at once. From then on, the span's parent cannot change.
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

    /// Returns whether the span is recorded or, as long as its parent may change, whether it may still be recorded.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.storage().is_recording()
    }

    /// Like [`enter`](Self::enter), for a span of a bridge, until [`leave_bridged`](crate::context::leave_bridged).
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn enter_bridged(&mut self, span: BridgedSpan) {
        let storage = self.storage_mut();
        storage.settle();
        let is_recording = storage.is_recording();
        let context = (&storage.context, is_recording.then_some(storage.clock));
        context::enter_bridged(span, is_recording, storage.detached.can_enter.then_some(context));
    }

    /// Notes the current time as the end of the span. May be called again, which moves the end. Dropping the span
    /// later sends it.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn end_here(&mut self) {
        if let Some(open) = self.open_mut() {
            open.detached.ended = Some(open.clock.now());
        }
    }

    /// Discards the span because code of the program panicked. Counts it as not enqueued if it would have been sent.
    #[cfg(feature = "tracing")]
    #[cold]
    pub(crate) fn discard_in_panic(mut self) {
        let storage = self.storage_mut();
        storage.settle();
        if storage.is_recording() && storage.context.is_sampled() {
            storage.shared.exporters.count_span_not_enqueued(NotEnqueuedReason::Panicked);
        }
        storage.detached.is_recording = false;
        storage.abandon_record();
    }

    /// Ends the span at `time`, or at its start time if `time` is earlier.
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

    /// `None` if nothing is recorded.
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
        self.shared.count_start(|| self.detached.parent, &self.context);
        if !self.context.is_sampled() {
            if self.context.take_record_only() && self.detached.is_recording {
                return self.never_send();
            }
            self.detached.is_recording = false;
            // An unsampled span may stay open for a long time, so its memory is released now.
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
