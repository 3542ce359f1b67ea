//! A span while it is recorded, in storage that its thread keeps.

use std::sync::Arc;

use super::Source;
use super::detached::Belongings;
use crate::context::Clock;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::process;
use crate::record::pool::Pool;
use crate::record::{SpanHead, SpanRecord};

/// A span's record and where it goes. Reused on its thread, tracer and all: starting a span of the same
/// tracer again touches no shared counter.
pub(super) struct OpenSpan {
    pub(super) record: SpanRecord,
    pub(super) clock: Clock,
    pub(super) source: Arc<Source>,
    generation: u32,
    /// Of a span that belongs to no thread.
    pub(super) own: Belongings,
}

/// Bytes of a record that is not worth keeping where nobody will see it.
const LARGE_RECORD: usize = 2 << 10;

thread_local! {
    static POOL: Pool<OpenSpan, 16> = const { Pool::new() };
}

impl OpenSpan {
    #[inline(always)]
    pub(super) fn begin(source: &Arc<Source>, head: &SpanHead<'_>, clock: Clock) -> Box<Self> {
        let mut open = match Pool::take(&POOL) {
            Some(open) if Arc::ptr_eq(&open.source, source) => open,
            other => Self::for_source(other, source, clock),
        };
        open.clock = clock;
        open.generation = process::generation();
        open.record.begin(head);
        open
    }

    /// Storage for a span of which nothing is recorded.
    pub(super) fn unrecorded(source: &Arc<Source>) -> Box<Self> {
        match Pool::take(&POOL) {
            Some(open) if Arc::ptr_eq(&open.source, source) => open,
            other => Self::for_source(other, source, Clock::start().0),
        }
    }

    /// Storage that was used before or not, made ready for spans of this tracer.
    #[cold]
    fn for_source(used: Option<Box<Self>>, source: &Arc<Source>, clock: Clock) -> Box<Self> {
        let mut open = used.unwrap_or_else(|| {
            let (record, own) = (SpanRecord::default(), Belongings::default());
            Box::new(Self { record, clock, source: Arc::clone(source), generation: 0, own })
        });
        open.source = Arc::clone(source);
        open.record.limit(&source.limits, source.largest.unwrap_or_default());
        open
    }

    #[inline(always)]
    pub(super) fn finish_now(self: Box<Self>) {
        let now = self.clock.now();
        self.send(now);
    }

    pub(super) fn finish(self: Box<Self>, end: u64) {
        self.send(end);
    }

    #[inline(always)]
    fn send(mut self: Box<Self>, end: u64) {
        // a span that was open across a fork is the parent's to send
        if self.generation == process::generation() {
            match self.record.finish(end) {
                Some(record) => self.source.exporters.push_span(&self.source.scope, record),
                None => self.source.exporters.count_span_not_enqueued(NotEnqueuedReason::TooLarge),
            }
        }
        self.keep();
    }

    /// Gives back the storage of a record that is large.
    pub(super) fn shed_large_record(&mut self) {
        if self.record.capacity() > LARGE_RECORD {
            self.record = SpanRecord::default();
            self.record.limit(&self.source.limits, self.source.largest.unwrap_or_default());
        }
    }

    /// Forgets the record.
    pub(super) fn discard(self: Box<Self>) {
        self.keep();
    }

    #[inline(always)]
    fn keep(self: Box<Self>) {
        let bytes = self.record.capacity();
        Pool::keep(&POOL, self, bytes);
    }
}
