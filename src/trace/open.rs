//! What does an open span write into, and how does it end? Into storage that its thread keeps and reuses.

use std::sync::Arc;
use std::thread;

use super::detached::DetachedState;
use super::{TracerShared, error};
use crate::context::{Clock, SpanContext};
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::process;
use crate::record::Pool;
use crate::record::{SpanHead, SpanId, SpanRecord, SpanRef, TraceId};

/// A span's record, and the tracer that sends it. Reused on its thread with the reference to the tracer: starting a span
/// of the same tracer again touches no reference count.
pub(super) struct OpenSpan {
    pub(super) record: SpanRecord,
    pub(super) context: SpanContext,
    pub(super) clock: Clock,
    pub(super) shared: Arc<TracerShared>,
    generation: u32,
    /// Whether its thread was panicking when it began: then a panic is not what ends it.
    began_in_panic: bool,
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
            Some(open) if Arc::ptr_eq(&open.shared, shared) => open,
            other => Self::for_tracer(other, shared, clock),
        };
        open.clock = clock;
        open.generation = process::generation();
        open.began_in_panic = thread::panicking();
        open.record.begin(head);
        open
    }

    /// Storage for a span of which nothing is recorded.
    pub(super) fn unrecorded(shared: &Arc<TracerShared>) -> Box<Self> {
        match Pool::take(&POOL) {
            Some(open) if Arc::ptr_eq(&open.shared, shared) => open,
            other => Self::for_tracer(other, shared, Clock::start().0),
        }
    }

    /// Storage that was used before or not, made ready for spans of this tracer.
    #[cold]
    fn for_tracer(used: Option<Box<Self>>, shared: &Arc<TracerShared>, clock: Clock) -> Box<Self> {
        let mut open = used.unwrap_or_else(|| {
            let (record, detached) = (SpanRecord::default(), DetachedState::default());
            let unset = SpanRef { trace_id: TraceId([0; 16]), span_id: SpanId([0; 8]), trace_flags: 0 };
            let context = SpanContext::of(unset, None);
            let shared = Arc::clone(shared);
            Box::new(Self { record, context, clock, shared, generation: 0, began_in_panic: false, detached })
        });
        open.shared = Arc::clone(shared);
        open.record.limit(&shared.limits, shared.largest.unwrap_or_default());
        open
    }

    /// Ends the span, now or at a time of its own, and sends it.
    #[inline(always)]
    pub(super) fn finish(mut self: Box<Self>, end: Option<u64>) {
        // a span that was open across a fork is the parent's to send
        if self.generation == process::generation() {
            let end = end.unwrap_or_else(|| self.clock.now());
            if thread::panicking() && !self.began_in_panic {
                error::record_panic(&mut self, end);
            }
            match self.record.finish(end) {
                Some(record) => self.shared.exporters.enqueue_span(&self.shared.scope, record),
                None => self.shared.exporters.count_span_not_enqueued(NotEnqueuedReason::TooLarge),
            }
        }
        self.keep();
    }

    /// Gives back the storage of a record that is large.
    pub(super) fn shed_large_record(&mut self) {
        if self.record.capacity() > LARGE_RECORD {
            self.record = SpanRecord::default();
            self.record.limit(&self.shared.limits, self.shared.largest.unwrap_or_default());
        }
    }

    /// Keeps the storage for the next span; the record is forgotten.
    #[inline(always)]
    pub(super) fn keep(mut self: Box<Self>) {
        self.context.state = None;
        let bytes = self.record.capacity();
        Pool::keep(&POOL, self, bytes);
    }
}
