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

    /// Hands over everything that is to be told at `now`, series by series.
    pub(super) fn collect(&self, now: u64, mut tell: impl FnMut(&Series, Period, &Reading)) {
        let start = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        // a clock that was set back must not make a period that ends before it begins
        let period = Period { start, time: now.max(start) };
        match &self.series {
            Kept::Forever(table) => {
                for series in table.all() {
                    series.cell.read().iter().for_each(|reading| tell(&series, period, reading));
                }
            }
            Kept::UntilTold(table) => {
                let all = table.read().unwrap_or_else(PoisonError::into_inner).all();
                for series in all {
                    series.cell.take().iter().for_each(|reading| tell(&series, period, reading));
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
