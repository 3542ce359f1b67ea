//! One instrument's series as one exporter sees them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::attributes::sealed::Pair;
use super::cell::{Cell, Form, Reading};
use super::series::{Series, Table};
use crate::record::{AttributeSet, Period, Stretch};

/// The series of an instrument for one exporter, and the stretch of time they tell of.
#[derive(Debug)]
pub(super) struct Store {
    series: Kept,
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

/// What a collection has read of a series. Of a series that is told once it was taken, and is put back unless it is
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

    /// Says that what was read has found its place: it is told exactly once.
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
        // last: an empty series that nobody is bound to may be forgotten
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
        Self { series, since: Mutex::new(now) }
    }

    #[inline(always)]
    pub(super) fn update(&self, pairs: &[Pair<'_>], bits: u64) {
        match &self.series {
            Kept::Forever(table) => table.series(pairs).cell.update(bits),
            Kept::UntilTold(table) => update_held(table, pairs, bits),
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
                make_room(table);
                let table = table.read().unwrap_or_else(PoisonError::into_inner);
                update(&table.series_of(attributes.clone()).cell);
            }
        }
    }

    pub(super) fn bind(&self, pairs: &[Pair<'_>]) -> Arc<Series> {
        let bind = |table: &Table| {
            let series = table.series(pairs);
            series.bind();
            Arc::clone(series)
        };
        match &self.series {
            Kept::Forever(table) => bind(table),
            Kept::UntilTold(table) => {
                make_room(table);
                // while it is held, so that the series is not forgotten before it is bound
                bind(&table.read().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Hands over everything that is to be told at `now`, series by series, while `tell` says so. What it does not
    /// settle, and what it has not seen, is told by the next collection.
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
                let _ = table.all().into_iter().filter_map(read).all(tell);
            }
            Kept::UntilTold(table) => {
                let all = table.read().unwrap_or_else(PoisonError::into_inner).all();
                let mut all = all.into_iter();
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
fn update_held(table: &RwLock<Table>, pairs: &[Pair<'_>], bits: u64) {
    if let Some(series) = table.read().unwrap_or_else(PoisonError::into_inner).find(pairs) {
        return series.cell.update(bits);
    }
    make_room(table);
    table.read().unwrap_or_else(PoisonError::into_inner).series(pairs).cell.update(bits);
}

/// Makes room for new sets of attributes, mostly before they run into the limit.
fn renew(table: &RwLock<Table>) {
    let held = table.read().unwrap_or_else(PoisonError::into_inner);
    held.set_cleared(false);
    if held.is_half_full() {
        drop(held);
        let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
        *table = table.without_idle();
    }
}

/// The limit is one for each collection: what was told before it and not used since makes way for new sets.
#[cold]
fn make_room(table: &RwLock<Table>) {
    if !table.read().unwrap_or_else(PoisonError::into_inner).is_crowded() {
        return;
    }
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    if table.is_crowded() {
        *table = table.without_idle();
        table.set_cleared(true);
    }
}

#[cfg(test)]
mod tests;
