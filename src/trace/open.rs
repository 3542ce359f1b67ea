//! What does an open span write into, and how does it end? Into storage that its thread keeps and reuses.

use std::sync::Arc;
use std::thread;

use super::detached::DetachedState;
use super::{TracerShared, error};
use crate::context::{Clock, SpanContext};
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::pipeline::open_spans::{OpenMark, first_bytes};
use crate::process;
use crate::record::Pool;
use crate::record::{SpanHead, SpanId, SpanRecord, SpanRef, TraceId};

/// A span's record, and the tracer that sends it. Reused on its thread with the reference to the tracer: starting a span
/// of the same tracer again touches no reference count.
pub(crate) struct OpenSpan {
    pub(crate) record: SpanRecord,
    pub(super) context: SpanContext,
    pub(super) clock: Clock,
    pub(super) shared: Arc<TracerShared>,
    /// Of the process that uses it.
    generation: u32,
    /// For the ledger.
    mark: Arc<OpenMark>,
    /// The last span here that began while its thread was panicking: then a panic is not what ends it.
    began_in_panic: Option<SpanId>,
    /// Of a span that belongs to no thread.
    pub(super) detached: DetachedState,
}

/// Bytes of a record that is not worth keeping if it will not be sent.
const LARGE_RECORD: usize = 2 << 10;

thread_local! {
    static POOL: Pool<OpenSpan, 16> = const { Pool::new() };
}

impl OpenSpan {
    #[inline(always)]
    pub(super) fn begin(shared: &Arc<TracerShared>, head: &SpanHead<'_>, clock: Clock) -> Box<Self> {
        let mut open = match Pool::take(&POOL) {
            Some(open) if open.is_of(shared) => open,
            other => Self::for_tracer(other, shared, clock),
        };
        open.clock = clock;
        if thread::panicking() {
            open.began_in_panic = Some(head.span_id);
        }
        open.record.begin(head);
        match open.record.begun_name(head) {
            Some(name) => open.mark.open(name, head.name.len(), head.span_id),
            None => open.mark.open(&first_bytes(head.name), head.name.len(), head.span_id),
        }
        open
    }

    /// Storage for a span of which nothing is recorded.
    pub(super) fn unrecorded(shared: &Arc<TracerShared>) -> Box<Self> {
        match Pool::take(&POOL) {
            Some(open) if open.is_of(shared) => open,
            other => Self::for_tracer(other, shared, Clock::start().0),
        }
    }

    /// Whether it is ready for spans of this tracer, in this process.
    #[inline(always)]
    fn is_of(&self, shared: &Arc<TracerShared>) -> bool {
        Arc::ptr_eq(&self.shared, shared) && self.generation == process::generation()
    }

    /// Storage that was used before or not, made ready for spans of this tracer.
    #[cold]
    fn for_tracer(used: Option<Box<Self>>, shared: &Arc<TracerShared>, clock: Clock) -> Box<Self> {
        let (marks, generation) = (shared.exporters.open_marks(), process::generation());
        let is_ready =
            |open: &Self| open.generation == generation && marks.is(open.shared.exporters.open_marks());
        let used = used.map(|open| (is_ready(&open), open));
        let (is_ready, mut open) = used.unwrap_or_else(|| (false, Self::new(shared, clock)));
        if !is_ready {
            open.mark = marks.add();
            open.record.copy_to(shared.exporters.open_span_slots());
        }
        open.generation = generation;
        open.shared = Arc::clone(shared);
        open.record.set_scope(&shared.scope);
        open.record.limit(&shared.limits, shared.largest.unwrap_or_default());
        open
    }

    fn new(shared: &Arc<TracerShared>, clock: Clock) -> Box<Self> {
        let unset = SpanRef { trace_id: TraceId([0; 16]), span_id: SpanId([0; 8]), trace_flags: 0 };
        Box::new(Self {
            record: SpanRecord::default(),
            context: SpanContext::of(unset, None),
            clock,
            shared: Arc::clone(shared),
            generation: process::generation(),
            began_in_panic: None,
            mark: Arc::default(),
            detached: DetachedState::default(),
        })
    }

    /// Ends the span, now or at a time of its own, and sends it.
    #[inline(always)]
    pub(super) fn finish(mut self: Box<Self>, end: Option<u64>) {
        // now, as its caller may have to wait for room in the queue
        self.mark.close();
        // a span that was open across a fork is the parent's to send
        if self.generation == process::generation() {
            let end = end.unwrap_or_else(|| self.clock.now());
            if thread::panicking() && self.began_in_panic != Some(self.context.span_id) {
                error::record_panic(&mut self, end);
            }
            match self.record.finish(end) {
                Some(record) => self.shared.exporters.enqueue_span(&self.shared.scope, record),
                None => self.shared.exporters.count_span_not_enqueued(NotEnqueuedReason::TooLarge),
            }
        }
        self.keep();
    }

    /// Sets several things that survive the process together.
    #[inline(always)]
    pub(super) fn set_at_once(&mut self, set: impl FnOnce(&mut Self)) {
        self.record.pause_copies();
        set(self);
        self.record.resume_copies();
    }

    /// Gives it another name.
    pub(crate) fn rename(&mut self, name: &str) {
        self.record.set_name(name);
        self.mark.rename(name);
    }

    /// The record will not be sent: gives back its storage, if that is large.
    pub(super) fn abandon_record(&mut self) {
        self.mark.close();
        self.record.clear_copies();
        if self.record.capacity() > LARGE_RECORD {
            self.record.free();
            self.record.limit(&self.shared.limits, self.shared.largest.unwrap_or_default());
        }
    }

    /// Keeps the storage for the next span; the record is forgotten.
    #[inline(always)]
    pub(super) fn keep(mut self: Box<Self>) {
        self.context.state = None;
        self.record.clear_copies();
        let bytes = self.record.capacity();
        Pool::keep(&POOL, self, bytes);
    }
}
