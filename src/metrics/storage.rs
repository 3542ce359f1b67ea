//! The series of one instrument for one exporter, by temporality.
//!
//! Cumulative series are read and kept. Delta series are taken, put back unless their export is confirmed, and
//! forgotten when they are idle.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::aggregator::{Aggregator, PointValue};
use super::handles::sealed::Pair;
use super::table::{Series, SeriesRequest, Table};
use crate::process::lock;
use crate::record::{AggregationTemporality, AttributeSet, Period};

/// The series of an instrument for one exporter, and their temporality.
#[derive(Debug)]
pub(super) struct MetricStorage {
    series: SeriesTable,
    /// Seed of the hashes of attributes.
    seed: u64,
    /// Start of the next period: the creation of the instrument, or the last collection.
    since: Mutex<u64>,
}

#[derive(Debug)]
enum SeriesTable {
    /// Series that every collection exports, with the sum since the start. A lookup needs no lock.
    Cumulative(Table),
    /// Series whose measurements are exported once. Idle series are forgotten, which needs exclusive access to the
    /// table.
    Delta(RwLock<Table>),
}

/// A value that a collection has read from a series. The value of a delta series was taken, and is put back unless it
/// is [confirmed](Self::confirm).
#[derive(Debug)]
pub(super) struct PendingPoint {
    pub(super) series: Arc<Series>,
    pub(super) period: Period,
    pub(super) value: PointValue,
    is_taken: bool,
}

impl PendingPoint {
    /// Takes the value of a series, and keeps the series from being forgotten. Returns `None` if there is no value.
    fn take(series: Arc<Series>, period: Period, table: &RwLock<Table>) -> Option<Self> {
        // Bind under the lock of the table; otherwise the series could be removed in between.
        let held = read(table);
        series.bind();
        drop(held);
        let start = series.pending_since().unwrap_or(period.start);
        series.set_pending_since(None);
        match series.aggregator.take() {
            Some(value) => Some(Self { series, period: Period { start, ..period }, value, is_taken: true }),
            None => {
                series.unbind();
                None
            }
        }
    }

    /// Notes that the value was accepted for export, so that it is not put back.
    pub(super) fn confirm(mut self) {
        self.release();
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            self.series.unbind();
        }
    }
}

impl Drop for PendingPoint {
    fn drop(&mut self) {
        if self.is_taken {
            self.series.aggregator.put_back(&self.value);
            self.series.set_pending_since(Some(self.period.start));
        }
        // Last: a series that is empty and not bound may be removed at once.
        self.release();
    }
}

impl MetricStorage {
    pub(super) fn new(table: Table, temporality: AggregationTemporality, now: u64) -> Self {
        let seed = table.seed;
        let series = match temporality {
            AggregationTemporality::Cumulative => SeriesTable::Cumulative(table),
            AggregationTemporality::Delta => SeriesTable::Delta(RwLock::new(table)),
        };
        Self { series, seed, since: Mutex::new(now) }
    }

    #[inline(always)]
    pub(super) fn update(&self, pairs: &[Pair<'_>], bits: u64) {
        match &self.series {
            SeriesTable::Cumulative(table) => table.series(pairs).aggregator.update(bits),
            SeriesTable::Delta(table) => update_held(table, pairs, bits, self.seed),
        }
    }

    /// Returns the aggregator for measurements without attributes, if it exists and is found without a lock.
    #[inline]
    pub(super) fn bare(&self) -> Option<&Aggregator> {
        match &self.series {
            SeriesTable::Cumulative(table) => table.find(&[]).map(|series| &series.aggregator),
            SeriesTable::Delta(_) => None,
        }
    }

    /// Returns the series of these attributes. It is not removed as long as it is bound.
    pub(super) fn bind(&self, attributes: AttributeSet) -> Arc<Series> {
        match &self.series {
            SeriesTable::Cumulative(table) => bound(table.series_of(attributes)),
            SeriesTable::Delta(table) => bind_new(table, attributes, self.seed),
        }
    }

    /// Passes everything that is to be exported at `now` to `sink`, series by series, while `sink` returns true. The next
    /// collection exports values that were not confirmed or not passed on.
    pub(super) fn collect(&self, now: u64, mut sink: impl FnMut(PendingPoint) -> bool) {
        let start = *lock(&self.since);
        // If the clock was set back, the period must not end before its start.
        let period = Period { start, time: now.max(start) };
        match &self.series {
            SeriesTable::Cumulative(table) => {
                let read = |series: Arc<Series>| {
                    let value = series.aggregator.read()?;
                    Some(PendingPoint { series, period, value, is_taken: false })
                };
                let _ = copy(|list| table.copy_into(list)).into_iter().filter_map(read).all(sink);
            }
            SeriesTable::Delta(table) => {
                let mut all = copy(|list| read(table).copy_into(list)).into_iter();
                let take = |series| PendingPoint::take(series, period, table);
                let _ = all.by_ref().filter_map(take).all(&mut sink);
                for series in all {
                    series.set_pending_since(series.pending_since().or(Some(period.start)));
                }
                *lock(&self.since) = period.time;
                renew(table);
            }
        }
    }

    pub(super) fn is_overflowing(&self) -> bool {
        match &self.series {
            SeriesTable::Cumulative(table) => table.is_overflowing(),
            SeriesTable::Delta(table) => read(table).is_overflowing(),
        }
    }
}

#[inline]
fn read(table: &RwLock<Table>) -> RwLockReadGuard<'_, Table> {
    table.read().unwrap_or_else(PoisonError::into_inner)
}

/// Aggregates a measurement. The series cannot be removed meanwhile: the table is locked for reading, or the series is
/// bound.
#[inline(never)]
fn update_held(table: &RwLock<Table>, pairs: &[Pair<'_>], bits: u64, seed: u64) {
    let held = read(table);
    let series = match held.find(pairs) {
        Some(series) if !series.aggregator.may_allocate() => return series.aggregator.update(bits),
        // An allocator that makes measurements must not be called while the table is locked.
        Some(series) => {
            let series = bound(series);
            drop(held);
            series
        }
        None => {
            drop(held);
            bind_new(table, AttributeSet::new(pairs.iter().copied()), seed)
        }
    };
    series.aggregator.update(bits);
    series.unbind();
}

/// Binds the series of attributes that may be new.
#[cold]
fn bind_new(table: &RwLock<Table>, attributes: AttributeSet, seed: u64) -> Arc<Series> {
    make_room(table);
    let mut request = SeriesRequest::new(attributes, seed);
    loop {
        let held = read(table);
        let found = held.try_series(&mut request).map(bound);
        drop(held);
        match found {
            Ok(series) => return series,
            Err(missing) => request.make(missing),
        }
    }
}

fn bound(series: &Arc<Series>) -> Arc<Series> {
    series.bind();
    Arc::clone(series)
}

/// Returns a list filled by `fill`, whose error is the required capacity.
fn copy(fill: impl Fn(&mut Vec<Arc<Series>>) -> Result<(), usize>) -> Vec<Arc<Series>> {
    let mut list = Vec::new();
    while let Err(count) = fill(&mut list) {
        // A little more, because other threads may add series meanwhile.
        list = Vec::with_capacity(count + count / 8 + 1);
    }
    list
}

/// Removes idle series after a collection if the table is half full, usually before the limit is reached.
fn renew(table: &RwLock<Table>) {
    let held = read(table);
    held.set_cleared(false);
    if held.is_half_full() {
        drop(held);
        // Dropped after the write lock is released.
        let _forgotten = table.write().unwrap_or_else(PoisonError::into_inner).forget_idle();
    }
}

/// Removes idle series if the table is full: the cardinality limit applies to each collection, so series that were
/// exported and not used since can be replaced.
#[cold]
fn make_room(table: &RwLock<Table>) {
    if !read(table).is_crowded() {
        return;
    }
    let mut held = table.write().unwrap_or_else(PoisonError::into_inner);
    let forgotten = held.is_crowded().then(|| {
        held.set_cleared(true);
        held.forget_idle()
    });
    drop(held);
    drop(forgotten);
}

#[cfg(test)]
mod tests;
