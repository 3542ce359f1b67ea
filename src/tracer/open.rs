//! A span while it is recorded, in storage that its thread keeps.

use std::cell::RefCell;
use std::sync::Arc;

use super::Source;
use crate::context::Clock;
use crate::fork;
use crate::record::{Signal, SpanHead, SpanKind, SpanRecord};

/// A thread keeps so many finished spans' storage, each up to so many bytes.
const POOLED: usize = 16;
const POOLED_BYTES: usize = 16 << 10;

/// A span's record and where it goes. Reused on its thread, tracer and all: starting a span of the same
/// tracer again touches no shared counter.
pub(super) struct OpenSpan {
    pub(super) record: SpanRecord,
    pub(super) clock: Clock,
    source: Arc<Source>,
    generation: u32,
}

thread_local! {
    // boxed, as spans are moved about while they are open
    #[allow(clippy::vec_box)]
    static POOL: RefCell<Vec<Box<OpenSpan>>> = const { RefCell::new(Vec::new()) };
}

impl OpenSpan {
    /// `None` if there is no exporter to send it.
    #[inline]
    pub(super) fn begin(
        source: &Arc<Source>,
        head: &SpanHead<'_>,
        kind: SpanKind,
        clock: Clock,
    ) -> Option<Box<Self>> {
        let largest = source.outlet.largest_record(Signal::Traces)?;
        let pooled = POOL.try_with(|pool| pool.try_borrow_mut().ok()?.pop()).ok().flatten();
        let mut open = pooled.unwrap_or_else(|| {
            Box::new(Self { record: SpanRecord::default(), clock, source: Arc::clone(source), generation: 0 })
        });
        if !Arc::ptr_eq(&open.source, source) {
            open.source = Arc::clone(source);
        }
        open.clock = clock;
        open.generation = fork::generation();
        open.record.begin(head, source.outlet.limits(), largest);
        open.record.set_kind(kind);
        Some(open)
    }

    #[inline]
    pub(super) fn finish(mut self: Box<Self>, end: u64) {
        // a span that was open across a fork is the parent's to send
        if self.generation == fork::generation() {
            match self.record.finish(end) {
                Some(record) => self.source.outlet.push_span(&self.source.scope, record),
                None => self.source.outlet.turn_away_large_span(),
            }
        }
        if self.record.capacity() > POOLED_BYTES {
            return;
        }
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut() {
                if pool.len() < POOLED {
                    pool.push(self);
                }
            }
        });
    }
}
