//! The series of one stream: one metric of an instrument for one exporter. Their temporality decides how they are read.
//!
//! Cumulative series are read and kept. The values of delta series are taken, and put back unless their export is
//! confirmed. Idle delta series are forgotten.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

#[cfg(feature = "metrics")]
use super::aggregator::Aggregator;
use super::aggregator::PointValue;
use super::handles::sealed::Pair;
use super::reservoir::Removed;
use super::stream::Keys;
use super::table::{Series, SeriesRequest, Table};
use crate::config::KeySelection;
#[cfg(feature = "metrics")]
use crate::context::unix_now;
use crate::process::lock;
use crate::record::{AggregationTemporality, AttributeSet, Exemplar, Period, Value};

/// The series of one stream, and their temporality.
pub(super) struct MetricStorage {
    series: SeriesTable,
    /// Keys of the attributes that are kept; `None` keeps all.
    keys: Keys,
    /// Start of the current period of delta series: the creation of the instrument, or an earlier collection.
    since: Mutex<u64>,
}

enum SeriesTable {
    /// Series that every collection exports, with all measurements since their start. A lookup needs no lock.
    Cumulative(Table),
    /// Series whose measurements are exported once. Idle series are forgotten, which needs exclusive access to the
    /// table.
    Delta(RwLock<Table>),
    /// Like `Cumulative`, but some attributes are removed from measurements first.
    Filtered(Table),
}

/// A value that a collection has read from a series. The value of a delta series was taken, and is put back unless it
/// is [confirmed](Self::confirm). Its exemplars are not put back.
pub(super) struct PendingPoint {
    pub(super) series: Arc<Series>,
    pub(super) period: Period,
    pub(super) value: PointValue,
    pub(super) exemplars: Vec<Exemplar>,
    is_taken: bool,
}

impl PendingPoint {
    /// Takes the value of a series, and keeps the series from being forgotten. Returns `None` if there is no value.
    fn take(series: Arc<Series>, period: Period, table: &RwLock<Table>) -> Option<Self> {
        // Bind under the table's lock, so that `forget_idle` does not run meanwhile. Later, it keeps the bound series.
        let held = read(table);
        series.bind();
        drop(held);
        let Some(value) = series.aggregator.take() else {
            series.unbind();
            return None;
        };
        let exemplars = series.reservoir.collect(period, true);
        Some(Self { series, period, value, exemplars, is_taken: true })
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
        }
        // Released after the value is put back: another thread may remove a series that is empty and not bound.
        self.release();
    }
}

impl MetricStorage {
    /// Makes the storage of a table's series. Attributes whose keys are not kept are removed from measurements first.
    pub(super) fn new(table: Table, temporality: AggregationTemporality, keys: Keys, now: u64) -> Self {
        let series = match temporality {
            AggregationTemporality::Cumulative if keys.is_some() => SeriesTable::Filtered(table),
            AggregationTemporality::Cumulative => SeriesTable::Cumulative(table),
            AggregationTemporality::Delta => SeriesTable::Delta(RwLock::new(table)),
        };
        Self { series, keys, since: Mutex::new(now) }
    }

    #[inline(always)]
    pub(super) fn update(&self, pairs: &[Pair<'_>], bits: u64) {
        match &self.series {
            SeriesTable::Cumulative(table) => table.series(pairs).update(bits),
            _ => self.update_slowly(pairs, bits),
        }
    }

    #[inline(never)]
    fn update_slowly(&self, pairs: &[Pair<'_>], bits: u64) {
        let removed = || self.removed_from(pairs);
        with_kept(self.keys.as_deref(), pairs, |pairs| match &self.series {
            SeriesTable::Delta(table) => update_held(table, pairs, bits, &removed),
            SeriesTable::Cumulative(table) | SeriesTable::Filtered(table) => {
                table.series(pairs).update_reduced(bits, &removed);
            }
        });
    }

    /// Returns the series for measurements without attributes, if it exists and is found without a lock.
    #[inline]
    pub(super) fn bare(&self) -> Option<&Arc<Series>> {
        match &self.series {
            SeriesTable::Cumulative(table) => table.find(&[]),
            SeriesTable::Delta(_) | SeriesTable::Filtered(_) => None,
        }
    }

    /// Returns the series of a few attributes, if it exists and is found quickly and without a lock.
    #[inline(always)]
    pub(super) fn find_few<const N: usize>(&self, pairs: &[Pair<'_>; N]) -> Option<&Arc<Series>> {
        match &self.series {
            SeriesTable::Cumulative(table) => table.find_few(pairs),
            SeriesTable::Delta(_) | SeriesTable::Filtered(_) => None,
        }
    }

    /// Returns the series of these attributes. It is not removed as long as it is bound.
    pub(super) fn bind(&self, pairs: &[Pair<'_>]) -> BoundStream {
        let series = self.bind_set(kept_set(self.keys.as_deref(), pairs));
        BoundStream { series, removed: self.removed_from(pairs) }
    }

    /// Returns the attributes whose keys are not kept.
    fn removed_from(&self, pairs: &[Pair<'_>]) -> AttributeSet {
        let is_removed = |(key, _): &Pair<'_>| self.keys.as_ref().is_some_and(|keys| !keys.keeps(key));
        AttributeSet::new(pairs.iter().copied().filter(is_removed))
    }

    /// Like [`bind`](Self::bind), for attributes whose keys are all kept. The caller must unbind the series.
    pub(super) fn bind_set(&self, attributes: AttributeSet) -> Arc<Series> {
        match &self.series {
            SeriesTable::Cumulative(table) | SeriesTable::Filtered(table) => {
                bound(table.series_of(attributes))
            }
            SeriesTable::Delta(table) => bind_new(table, attributes),
        }
    }

    /// Passes everything that is to be exported at `now` to `sink`, series by series, while `sink` returns true. The
    /// next collection exports values that were not confirmed or not passed on.
    pub(super) fn collect(&self, now: u64, sink: &mut dyn FnMut(PendingPoint) -> bool) {
        match &self.series {
            SeriesTable::Cumulative(table) | SeriesTable::Filtered(table) => {
                let read = |series: Arc<Series>| {
                    let value = series.aggregator.read()?;
                    let period = Period { start: series.since, time: now.max(series.since) };
                    let exemplars = series.reservoir.collect(period, false);
                    Some(PendingPoint { series, period, value, exemplars, is_taken: false })
                };
                let _ = copy(|list| table.copy_into(list)).into_iter().filter_map(read).all(sink);
            }
            SeriesTable::Delta(table) => {
                let start = *lock(&self.since);
                // If the clock was set back, the period must not end before its start.
                let period = Period { start, time: now.max(start) };
                let take = |series| PendingPoint::take(series, period, table);
                let _ = copy(|list| read(table).copy_into(list)).into_iter().filter_map(take).all(sink);
                renew(table);
            }
        }
    }

    /// Ends the period of delta series at the time of a collection. All points of the next collection start at this
    /// time, even values that this collection took and put back.
    pub(super) fn end_period(&self, now: u64) {
        let mut since = lock(&self.since);
        *since = now.max(*since);
    }

    pub(super) fn is_overflowing(&self) -> bool {
        match &self.series {
            SeriesTable::Cumulative(table) | SeriesTable::Filtered(table) => table.is_overflowing(),
            SeriesTable::Delta(table) => read(table).is_overflowing(),
        }
    }
}

/// The series to which a handle is bound, one per stream.
#[derive(Default)]
pub(super) struct BoundSeries(pub(super) Box<[BoundStream]>);

/// A series to which a handle is bound. Its table does not remove it before this value is dropped.
pub(super) struct BoundStream {
    pub(super) series: Arc<Series>,
    /// Attributes of the handle that were removed and are not attributes of the series. Exemplars contain them.
    pub(super) removed: AttributeSet,
}

impl BoundStream {
    #[inline(always)]
    pub(super) fn update(&self, bits: u64) {
        self.series.update_reduced(bits, &|| self.removed.clone());
    }

    /// Makes a measurement: `aggregate` aggregates it, and returns its bits, or `None` if there is nothing to measure.
    #[cfg(feature = "metrics")]
    pub(super) fn update_by(&self, aggregate: impl FnOnce(&Aggregator) -> Option<u64>) {
        let time = self.series.reservoir.is_offered().then(unix_now);
        if let (Some(bits), Some(time)) = (aggregate(&self.series.aggregator), time) {
            self.series.offer(bits, time, &|| self.removed.clone());
        }
    }
}

impl Drop for BoundStream {
    fn drop(&mut self) {
        self.series.unbind();
    }
}

#[inline]
fn read(table: &RwLock<Table>) -> RwLockReadGuard<'_, Table> {
    table.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the set of the attributes whose keys are kept.
pub(super) fn kept_set(keys: Option<&KeySelection>, pairs: &[Pair<'_>]) -> AttributeSet {
    let is_kept = |(key, _): &Pair<'_>| keys.is_none_or(|keys| keys.keeps(key));
    AttributeSet::new(pairs.iter().copied().filter(is_kept))
}

/// Calls `take` with the pairs whose keys are kept. Allocates if there are more than eight.
fn with_kept(keys: Option<&KeySelection>, pairs: &[Pair<'_>], take: impl FnOnce(&[Pair<'_>])) {
    let Some(keys) = keys else { return take(pairs) };
    let (mut few, mut count) = ([("", Value::Bool(false)); 8], 0);
    let mut kept = pairs.iter().copied().filter(|(key, _)| keys.keeps(key));
    for (place, pair) in few.iter_mut().zip(kept.by_ref()) {
        *place = pair;
        count += 1;
    }
    match kept.next() {
        None => take(&few[..count]),
        Some(next) => take(&few.into_iter().chain([next]).chain(kept).collect::<Vec<_>>()),
    }
}

/// Aggregates a measurement. The series cannot be removed meanwhile: the table is locked for reading, or the series is
/// bound.
fn update_held(table: &RwLock<Table>, pairs: &[Pair<'_>], bits: u64, removed: &Removed<'_>) {
    let held = read(table);
    let series = match held.find(pairs) {
        // An aggregator whose updates do not allocate is not an explicit histogram, so it has one sample of exemplars.
        // `is_offered` is false for a measurement that this sample skips.
        Some(series) if !series.aggregator.may_allocate() && !series.reservoir.is_offered() => {
            return series.aggregator.update(bits);
        }
        // An allocator that makes measurements must not be called while the table is locked.
        Some(series) => {
            let series = bound(series);
            drop(held);
            series
        }
        None => {
            drop(held);
            bind_new(table, AttributeSet::new(pairs.iter().copied()))
        }
    };
    series.update_reduced(bits, &removed);
    series.unbind();
}

/// Binds the series of these attributes, and adds the series if it is missing.
#[cold]
fn bind_new(table: &RwLock<Table>, attributes: AttributeSet) -> Arc<Series> {
    make_room(table);
    // The seed is copied first, because making a request allocates, which must not happen while the table is locked.
    let seed = read(table).seed;
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

/// Removes idle series after a collection if the table is more than half full, so that it rarely becomes full.
fn renew(table: &RwLock<Table>) {
    let held = read(table);
    held.is_cleared.store(false, Ordering::Relaxed);
    if held.is_half_full() {
        drop(held);
        // The removed series are freed at the end of the block, after the write lock is released.
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
        held.is_cleared.store(true, Ordering::Relaxed);
        held.forget_idle()
    });
    drop(held);
    drop(forgotten);
}

#[cfg(test)]
mod tests;
