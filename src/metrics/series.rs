//! One set of attributes of an instrument, and what was measured under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::aggregator::{AggregationKind, Aggregator};
use crate::process::atomic::AtomicU64;
use crate::record::AttributeSet;

/// One set of attributes and what was measured under it.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) attributes: AttributeSet,
    pub(super) aggregator: Aggregator,
    pub(super) hash: u64,
    /// Whether its attributes were given by the table's pattern.
    pub(super) is_patterned: bool,
    /// Handles that are bound to it: as long as there are any it is not forgotten.
    bound: AtomicU32,
    /// Whether its table has forgotten it. Used only by the thread that renews the table.
    pub(super) is_forgotten: AtomicBool,
    /// Where the period of what is in it begins if that is not where the last collection was; else 0. Used by the
    /// worker alone.
    pending_since: AtomicU64,
}

impl Series {
    pub(super) fn new(
        attributes: AttributeSet,
        hash: u64,
        is_patterned: bool,
        aggregation: &AggregationKind,
    ) -> Arc<Self> {
        let (bound, pending_since) = (AtomicU32::new(0), AtomicU64::new(0));
        let is_forgotten = AtomicBool::new(false);
        let aggregator = Aggregator::new(aggregation);
        Arc::new(Self { attributes, aggregator, hash, is_patterned, bound, is_forgotten, pending_since })
    }

    pub(super) fn bind(&self) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unbind(&self) {
        // a thread that sees the count fall must also see what was measured, or that would be forgotten with the series
        self.bound.fetch_sub(1, Ordering::Release);
    }

    pub(super) fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Acquire) > 0
    }

    /// Whether nothing was measured under it and no handle is bound to it.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_bound() && self.aggregator.is_empty()
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Where the next period begins if it is an earlier one than that of the other series.
    pub(super) fn pending_since(&self) -> Option<u64> {
        Some(self.pending_since.load(Ordering::Relaxed)).filter(|since| *since != 0)
    }

    /// Notes that a collection has skipped it, or that nothing is left of an earlier one.
    pub(super) fn set_pending_since(&self, since: Option<u64>) {
        self.pending_since.store(since.unwrap_or(0), Ordering::Relaxed);
    }
}

/// The attributes of everything beyond the limit.
pub(super) fn overflow() -> AttributeSet {
    AttributeSet::new([("otel.metric.overflow", true.into())])
}
