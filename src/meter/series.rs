//! The series of one instrument: one for each set of attributes, found without a lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::attributes::sealed::Pair;
use super::cell::{Cell, Form};
use crate::record::{AttributeSet, Pattern};

/// A chain is this long when the table is as full as it may be.
const LONGEST_CHAIN: usize = 8;
const MOST_BUCKETS: usize = 1 << 16;

/// One set of attributes and what was measured under it.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) attributes: AttributeSet,
    pub(super) cell: Cell,
    hash: u64,
    /// Whether its attributes were given by the table's pattern.
    is_patterned: bool,
    /// Handles that are bound to it: as long as there are any it is not forgotten.
    bound: AtomicU32,
    /// Where the period of what is in it begins if that is not where the last collection was; else 0. Used by the
    /// worker alone.
    owed_since: AtomicU64,
}

impl Series {
    fn new(attributes: AttributeSet, hash: u64, is_patterned: bool, form: &Form) -> Arc<Self> {
        let (bound, owed_since) = (AtomicU32::new(0), AtomicU64::new(0));
        Arc::new(Self { attributes, cell: Cell::new(form), hash, is_patterned, bound, owed_since })
    }

    pub(super) fn bind(&self) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unbind(&self) {
        // whoever sees it go must also see what it has measured, or that would be forgotten with the series
        self.bound.fetch_sub(1, Ordering::Release);
    }

    pub(super) fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Acquire) > 0
    }

    /// Where the next period begins if it is an earlier one than that of the other series.
    pub(super) fn owed_since(&self) -> Option<u64> {
        Some(self.owed_since.load(Ordering::Relaxed)).filter(|since| *since != 0)
    }

    /// Notes that a collection has passed it by, or that nothing is left of an earlier one.
    pub(super) fn set_owed_since(&self, since: Option<u64>) {
        self.owed_since.store(since.unwrap_or(0), Ordering::Relaxed);
    }
}

/// A hash table that only grows: a lookup follows a chain of nodes that are never changed, so it needs no lock.
#[derive(Debug)]
pub(super) struct Table {
    form: Form,
    /// The most series there may be, the one for all the rest included.
    limit: usize,
    seed: u64,
    /// The series without attributes, which most instruments have alone.
    bare: OnceLock<Arc<Series>>,
    /// Made with the first series that has attributes.
    buckets: OnceLock<Buckets>,
    /// Takes what comes beyond the limit.
    overflow: OnceLock<Arc<Series>>,
    /// All series in the order they came. Held while one is added.
    all: Mutex<Vec<Arc<Series>>>,
    /// The idle ones were forgotten since the last collection: there is no more room to be made.
    is_cleared: AtomicBool,
}

/// The attributes of everything beyond the limit.
pub(super) fn overflow() -> AttributeSet {
    AttributeSet::new([("otel.metric.overflow", true.into())])
}

#[derive(Debug)]
struct Buckets {
    /// The keys of the first series, which most others have, too.
    pattern: Arc<Pattern>,
    /// A power of two.
    slots: Box<[Slot]>,
}

impl Buckets {
    fn new(pattern: Arc<Pattern>, limit: usize) -> Self {
        let count = (limit / LONGEST_CHAIN).next_power_of_two().min(MOST_BUCKETS);
        Self { pattern, slots: (0..count).map(|_| Slot::new()).collect() }
    }

    #[inline]
    fn slot(&self, hash: u64) -> &Slot {
        // the upper bits are mixed best
        &self.slots[(hash >> 32) as usize & (self.slots.len() - 1)]
    }

    /// The series with this hash.
    fn chain(&self, hash: u64) -> impl Iterator<Item = &Arc<Series>> {
        let nodes = std::iter::successors(self.slot(hash).get(), |node| node.next.get());
        nodes.map(|node| &node.series).filter(move |series| series.hash == hash)
    }

    #[inline(always)]
    fn find(&self, pairs: &[Pair<'_>]) -> Option<&Arc<Series>> {
        let Some(hash) = self.pattern.hash(pairs) else { return self.find_unlike(pairs) };
        let mut slot = self.slot(hash);
        while let Some(Node { series, next }) = slot.get().map(|node| &**node) {
            if series.hash == hash && series.is_patterned && series.attributes.has_values(pairs) {
                return Some(series);
            }
            slot = next;
        }
        self.find_unlike(pairs)
    }

    /// The same for other keys, or for the same in another order.
    #[inline(never)]
    fn find_unlike(&self, pairs: &[Pair<'_>]) -> Option<&Arc<Series>> {
        let hash = self.pattern.hash_of_any(pairs);
        self.chain(hash).find(|series| series.attributes.equals(pairs))
    }
}

type Slot = OnceLock<Box<Node>>;

#[derive(Debug)]
struct Node {
    series: Arc<Series>,
    next: Slot,
}

impl Table {
    pub(super) fn new(form: Form, limit: usize, seed: u64) -> Self {
        Self {
            form,
            limit: limit.max(1),
            seed,
            bare: OnceLock::new(),
            buckets: OnceLock::new(),
            overflow: OnceLock::new(),
            all: Mutex::default(),
            is_cleared: AtomicBool::new(false),
        }
    }

    /// The same table without the series that nothing was measured under and nobody is bound to.
    pub(super) fn without_idle(&self) -> Self {
        let fresh = Self::new(self.form.clone(), self.limit, self.seed);
        if let Some(Buckets { pattern, .. }) = self.buckets.get() {
            let _ = fresh.buckets.set(Buckets::new(Arc::clone(pattern), self.limit));
        }
        let mut kept = fresh.lock();
        for series in self.lock().iter().filter(|series| series.is_bound() || !series.cell.is_empty()) {
            kept.push(Arc::clone(series));
            match self.overflow.get().is_some_and(|overflow| Arc::ptr_eq(overflow, series)) {
                true => _ = fresh.overflow.set(Arc::clone(series)),
                false => _ = fresh.place(series),
            }
        }
        drop(kept);
        fresh
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.lock().len() > self.limit / 2
    }

    /// Whether a new series would find no place, but idle ones may stand in its way.
    pub(super) fn is_crowded(&self) -> bool {
        !self.is_cleared.load(Ordering::Relaxed) && self.is_full(&self.lock())
    }

    /// Notes whether there may be idle series again.
    pub(super) fn set_cleared(&self, is_cleared: bool) {
        self.is_cleared.store(is_cleared, Ordering::Relaxed);
    }

    /// The series of these attributes.
    #[inline(always)]
    pub(super) fn series(&self, pairs: &[Pair<'_>]) -> &Arc<Series> {
        match self.find(pairs) {
            Some(series) => series,
            None => self.new_series(pairs),
        }
    }

    #[cold]
    fn new_series(&self, pairs: &[Pair<'_>]) -> &Arc<Series> {
        self.series_of(AttributeSet::new(pairs.iter().copied()))
    }

    #[inline(always)]
    pub(super) fn find(&self, pairs: &[Pair<'_>]) -> Option<&Arc<Series>> {
        match pairs {
            [] => self.bare.get(),
            pairs => self.buckets.get()?.find(pairs),
        }
    }

    /// The slow way, once for each set: without duplicate keys and in order.
    pub(super) fn series_of(&self, attributes: AttributeSet) -> &Arc<Series> {
        let hash = attributes.hash_of(self.seed);
        let mut all = self.lock();
        // by another thread meanwhile, or given in another form
        if let Some(series) = self.find_set(&attributes, hash) {
            return series;
        }
        // asked for by its attributes it is the same one: a child does so for a handle that was bound before the fork
        if self.is_full(&all) || attributes == overflow() {
            return self.overflow.get_or_init(|| {
                let overflow = Series::new(overflow(), 0, false, &self.form);
                all.push(Arc::clone(&overflow));
                overflow
            });
        }
        let is_patterned = !attributes.is_empty() && self.buckets_for(&attributes).pattern.is_of(&attributes);
        let series = Series::new(attributes, hash, is_patterned, &self.form);
        all.push(Arc::clone(&series));
        self.place(&series)
    }

    fn is_full(&self, all: &[Arc<Series>]) -> bool {
        // one place is kept for the rest
        all.len() + usize::from(!self.is_overflowing()) >= self.limit
    }

    fn find_set(&self, attributes: &AttributeSet, hash: u64) -> Option<&Arc<Series>> {
        match attributes.is_empty() {
            true => self.bare.get(),
            false => self.buckets.get()?.chain(hash).find(|series| series.attributes == *attributes),
        }
    }

    /// The buckets, made for these attributes if they are the first. `all` must be held.
    fn buckets_for(&self, attributes: &AttributeSet) -> &Buckets {
        self.buckets.get_or_init(|| Buckets::new(Arc::new(Pattern::of(attributes, self.seed)), self.limit))
    }

    /// Puts a series where it will be found. `all` must be held.
    fn place(&self, series: &Arc<Series>) -> &Arc<Series> {
        if series.attributes.is_empty() {
            return self.bare.get_or_init(|| Arc::clone(series));
        }
        let mut slot = self.buckets_for(&series.attributes).slot(series.hash);
        while let Some(node) = slot.get() {
            slot = &node.next;
        }
        &slot.get_or_init(|| Box::new(Node { series: Arc::clone(series), next: Slot::new() })).series
    }

    /// All series, in the order they came.
    pub(super) fn all(&self) -> Vec<Arc<Series>> {
        self.lock().clone()
    }

    /// Whether measurements had to be put together because there were too many sets of attributes.
    pub(super) fn is_overflowing(&self) -> bool {
        self.overflow.get().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Series>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
