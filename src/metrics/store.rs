//! One instrument's series as one exporter sees them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::attributes::sealed::Pair;
use super::cell::{Cell, Form, Reading};
use super::series::{Series, Table, Wanted};
use crate::record::{AttributeSet, Period, Stretch};

/// The series of an instrument for one exporter, and the stretch of time they tell of.
#[derive(Debug)]
pub(super) struct Store {
    series: Kept,
    /// Of the hashes of attributes.
    seed: u64,
    /// Where the next period begins: at the start of the instrument, or at the last collection.
    since: Mutex<u64>,
}

#[derive(Debug)]
enum Kept {
    /// Told again and again, from the start; found without a lock.
    Forever(Table),
    /// Told once. Those that nobody uses any more are forgotten, which needs a moment without callers.
    UntilTold(RwLock<Table>),
}

/// What a collection has read of a series. Of a series that is exported once it was taken, and is put back unless it is
/// [`settled`](Self::settle).
#[derive(Debug)]
pub(super) struct Held {
    pub(super) series: Arc<Series>,
    pub(super) period: Period,
    pub(super) reading: Reading,
    is_taken: bool,
}

impl Held {
    /// Takes what is in a series, which is not forgotten meanwhile; `None` if there is nothing.
    fn take(series: Arc<Series>, period: Period, table: &RwLock<Table>) -> Option<Self> {
        // while the table is held, or the series could be forgotten between the two
        let held = table.read().unwrap_or_else(PoisonError::into_inner);
        series.bind();
        drop(held);
        let start = series.owed_since().unwrap_or(period.start);
        series.set_owed_since(None);
        match series.cell.take() {
            Some(reading) => {
                Some(Self { series, period: Period { start, ..period }, reading, is_taken: true })
            }
            None => {
                series.unbind();
                None
            }
        }
    }

    /// Says that what was read has found its place: it is exported exactly once.
    pub(super) fn settle(mut self) {
        self.release();
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            self.series.unbind();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_taken {
            self.series.cell.put_back(&self.reading);
            self.series.set_owed_since(Some(self.period.start));
        }
        // last: an empty series that no handle is bound to may be forgotten
        self.release();
    }
}

impl Store {
    pub(super) fn new(form: Form, stretch: Stretch, limit: usize, seed: u64, now: u64) -> Self {
        let table = Table::new(form, limit, seed);
        let series = match stretch {
            Stretch::SinceStart => Kept::Forever(table),
            Stretch::SinceLast => Kept::UntilTold(RwLock::new(table)),
        };
        Self { series, seed, since: Mutex::new(now) }
    }

    #[inline(always)]
    pub(super) fn update(&self, pairs: &[Pair<'_>], bits: u64) {
        match &self.series {
            Kept::Forever(table) => table.series(pairs).cell.update(bits),
            Kept::UntilTold(table) => update_held(table, pairs, bits, self.seed),
        }
    }

    /// The cell of measurements without attributes, if it is there and needs no lock to be found.
    #[inline]
    pub(super) fn bare(&self) -> Option<&Cell> {
        match &self.series {
            Kept::Forever(table) => table.find(&[]).map(|series| &series.cell),
            Kept::UntilTold(_) => None,
        }
    }

    pub(super) fn update_set(&self, attributes: &AttributeSet, update: impl Fn(&Cell)) {
        match &self.series {
            Kept::Forever(table) => update(&table.series_of(attributes.clone()).cell),
            Kept::UntilTold(table) => {
                let series = bind_new(table, attributes.clone(), self.seed);
                update(&series.cell);
                series.unbind();
            }
        }
    }

    pub(super) fn bind(&self, pairs: &[Pair<'_>]) -> Arc<Series> {
        match &self.series {
            Kept::Forever(table) => bound(table.series(pairs)),
            Kept::UntilTold(table) => bind_found(table, pairs)
                .unwrap_or_else(|| bind_new(table, AttributeSet::new(pairs.iter().copied()), self.seed)),
        }
    }

    /// Hands over everything that is to be exported at `now`, series by series, while `tell` says so. What it does not
    /// settle, and what it has not seen, is left to the next collection.
    pub(super) fn collect(&self, now: u64, mut tell: impl FnMut(Held) -> bool) {
        let start = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        // a clock that was set back must not make a period that ends before it begins
        let period = Period { start, time: now.max(start) };
        match &self.series {
            Kept::Forever(table) => {
                let read = |series: Arc<Series>| {
                    let reading = series.cell.read()?;
                    Some(Held { series, period, reading, is_taken: false })
                };
                let _ = copy(|list| table.copy_into(list)).into_iter().filter_map(read).all(tell);
            }
            Kept::UntilTold(table) => {
                let held = || table.read().unwrap_or_else(PoisonError::into_inner);
                let mut all = copy(|list| held().copy_into(list)).into_iter();
                let take = |series| Held::take(series, period, table);
                let _ = all.by_ref().filter_map(take).all(&mut tell);
                for series in all {
                    series.set_owed_since(series.owed_since().or(Some(period.start)));
                }
                *self.since.lock().unwrap_or_else(PoisonError::into_inner) = period.time;
                renew(table);
            }
        }
    }

    pub(super) fn is_overflowing(&self) -> bool {
        match &self.series {
            Kept::Forever(table) => table.is_overflowing(),
            Kept::UntilTold(table) => table.read().unwrap_or_else(PoisonError::into_inner).is_overflowing(),
        }
    }
}

/// The table cannot be renewed while it is held.
#[inline(never)]
fn update_held(table: &RwLock<Table>, pairs: &[Pair<'_>], bits: u64, seed: u64) {
    let held = table.read().unwrap_or_else(PoisonError::into_inner);
    let series = match held.find(pairs) {
        Some(series) if !series.cell.may_allocate() => return series.cell.update(bits),
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
    series.cell.update(bits);
    series.unbind();
}

/// The series of these attributes, if there is one; it is not forgotten as long as it is bound.
fn bind_found(table: &RwLock<Table>, pairs: &[Pair<'_>]) -> Option<Arc<Series>> {
    table.read().unwrap_or_else(PoisonError::into_inner).find(pairs).map(bound)
}

/// The same for attributes that are new, or were given in another form.
#[cold]
fn bind_new(table: &RwLock<Table>, attributes: AttributeSet, seed: u64) -> Arc<Series> {
    make_room(table);
    let mut wanted = Wanted::new(attributes, seed);
    loop {
        let held = table.read().unwrap_or_else(PoisonError::into_inner);
        let found = held.try_series(&mut wanted).map(bound);
        drop(held);
        match found {
            Ok(series) => return series,
            Err(missing) => wanted.make(missing),
        }
    }
}

fn bound(series: &Arc<Series>) -> Arc<Series> {
    series.bind();
    Arc::clone(series)
}

/// A list that `fill` has filled, which says how long it must be.
fn copy(fill: impl Fn(&mut Vec<Arc<Series>>) -> Result<(), usize>) -> Vec<Arc<Series>> {
    let mut list = Vec::new();
    while let Err(count) = fill(&mut list) {
        // some more may come meanwhile
        list = Vec::with_capacity(count + count / 8 + 1);
    }
    list
}

/// Makes room for new sets of attributes, mostly before they run into the limit.
fn renew(table: &RwLock<Table>) {
    let held = table.read().unwrap_or_else(PoisonError::into_inner);
    held.set_cleared(false);
    if held.is_half_full() {
        drop(held);
        // dropped after the lock
        let _forgotten = table.write().unwrap_or_else(PoisonError::into_inner).forget_idle();
    }
}

/// The limit is one for each collection: what was told before it and not used since makes way for new sets.
#[cold]
fn make_room(table: &RwLock<Table>) {
    if !table.read().unwrap_or_else(PoisonError::into_inner).is_crowded() {
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
