//! The series of one stream, one per set of attributes: a hash table that is read without a lock.
//!
//! With shared access, the table only grows: nodes are appended to chains and stay in their places. So a lookup needs
//! no lock, but adding a series takes one. Only idle delta series are removed, with exclusive access to the whole
//! table (`storage.rs`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::aggregator::{AggregationKind, Aggregator};
use super::handles::sealed::Pair;
use super::reservoir::{Removed, Reservoir};
use crate::config::{ExemplarFilter, OVERFLOW};
use crate::context::unix_now;
use crate::process::lock;
use crate::record::{AttributeSet, Pattern};

/// Approximate average length of the chains of a full table, unless it would need more than [`MAX_BUCKETS`] buckets.
const MAX_CHAIN_LEN: usize = 8;
const MAX_BUCKETS: usize = 1 << 16;

/// How the series of a table aggregate their measurements, and which measurements they keep as exemplars.
pub(super) type SeriesKind = (AggregationKind, ExemplarFilter);

/// The series of one stream. Nothing is allocated or freed while a lock is held, because an allocator that makes
/// measurements would deadlock.
pub(super) struct Table {
    kind: SeriesKind,
    /// Maximum number of series. The overflow series is not counted.
    limit: usize,
    /// Seed of the hashes of attributes.
    pub(super) seed: u64,
    /// The series without attributes, which is the only one of most instruments.
    bare: OnceLock<Arc<Series>>,
    /// Allocated in full when the first series with attributes is added.
    buckets: OnceLock<Buckets>,
    /// The overflow series, for measurements beyond the limit.
    overflow: OnceLock<Arc<Series>>,
    /// All series in the order of their creation. Locked while a series is added.
    all: Mutex<Vec<Arc<Series>>>,
    /// True if idle series were removed since the last collection because the table was full. A second removal would
    /// rarely find any.
    pub(super) is_cleared: AtomicBool,
}

struct Buckets {
    /// The keys of the first series. Most other series have the same keys.
    pattern: Arc<Pattern>,
    /// Heads of the chains. Their number is a power of two.
    slots: Box<[Slot]>,
}

impl Buckets {
    fn new(pattern: Arc<Pattern>, limit: usize) -> Self {
        let count = (limit / MAX_CHAIN_LEN).next_power_of_two().min(MAX_BUCKETS);
        Self { pattern, slots: (0..count).map(|_| Slot::new()).collect() }
    }

    #[inline]
    fn slot(&self, hash: u64) -> &Slot {
        // The upper bits of the hash are mixed best.
        &self.slots[(hash >> 32) as usize & (self.slots.len() - 1)]
    }

    /// Links a series into its chain. The caller must hold the lock of `all`.
    fn place(&self, node: Box<Node>) -> &Arc<Series> {
        let mut slot = self.slot(node.series.hash);
        while let Some(node) = slot.get() {
            slot = &node.next;
        }
        &slot.get_or_init(|| node).series
    }

    /// Iterates over the series with this hash.
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

    /// Compares whole attribute sets, because the keys of the pairs or of a series may not match the pattern.
    #[inline(never)]
    fn find_unlike(&self, pairs: &[Pair<'_>]) -> Option<&Arc<Series>> {
        let hash = AttributeSet::hash(pairs, self.pattern.seed);
        self.chain(hash).find(|series| series.attributes.equals(pairs))
    }
}

type Slot = OnceLock<Box<Node>>;

struct Node {
    series: Arc<Series>,
    next: Slot,
}

impl Table {
    pub(super) fn new(kind: SeriesKind, limit: usize, seed: u64) -> Self {
        Self {
            kind,
            limit: limit.max(1),
            seed,
            bare: OnceLock::new(),
            buckets: OnceLock::new(),
            overflow: OnceLock::new(),
            all: Mutex::default(),
            is_cleared: AtomicBool::new(false),
        }
    }

    /// Removes all idle series, which have no measurements, and to which no handle is bound. The result must be dropped
    /// while no lock is held.
    #[must_use]
    pub(super) fn forget_idle(&mut self) -> RemovedSeries {
        let all = self.all.get_mut().unwrap_or_else(PoisonError::into_inner);
        for series in &*all {
            // Decide once per series: a second check may differ, because a handle may be dropped at any time.
            series.is_forgotten.store(series.is_idle(), Ordering::Relaxed);
        }
        let take_forgotten = |place: &mut OnceLock<Arc<Series>>| {
            let is_forgotten = place.get().is_some_and(|series| series.is_forgotten());
            is_forgotten.then(|| place.take()).flatten()
        };
        let unlinked = [take_forgotten(&mut self.bare), take_forgotten(&mut self.overflow)];
        let mut forgotten = RemovedSeries { _unlinked: unlinked, nodes: None };
        let slots = self.buckets.get_mut().into_iter().flat_map(|buckets| &mut buckets.slots);
        slots.for_each(|slot| forgotten.unlink_from(slot));
        // The removed nodes still hold a reference, so no series is freed here.
        all.retain(|series| !series.is_forgotten());
        forgotten
    }

    pub(super) fn is_half_full(&self) -> bool {
        lock(&self.all).len() > self.limit / 2
    }

    /// Returns whether the table is full, but may contain idle series that can be removed.
    pub(super) fn is_crowded(&self) -> bool {
        !self.is_cleared.load(Ordering::Relaxed) && self.is_full(&lock(&self.all))
    }

    /// Returns the series with these attributes, and makes it if it does not exist.
    #[inline(always)]
    pub(super) fn series(&self, pairs: &[Pair<'_>]) -> &Arc<Series> {
        self.find(pairs).unwrap_or_else(|| self.new_series(pairs))
    }

    #[cold]
    fn new_series(&self, pairs: &[Pair<'_>]) -> &Arc<Series> {
        self.series_of(AttributeSet::new(pairs.iter().copied()))
    }

    /// Returns the series of an attribute set, which is sorted and without duplicate keys. The slow path, usually
    /// taken once per set.
    pub(super) fn series_of(&self, attributes: AttributeSet) -> &Arc<Series> {
        let mut request = SeriesRequest::new(attributes, self.seed);
        loop {
            match self.try_series(&mut request) {
                Ok(series) => return series,
                Err(missing) => request.make(missing),
            }
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, pairs: &[Pair<'_>]) -> Option<&Arc<Series>> {
        match pairs {
            [] => self.bare.get(),
            pairs => self.buckets.get()?.find(pairs),
        }
    }

    /// Finds the series of one to four pairs; `None` if it does not exist or is not found quickly.
    #[inline(always)]
    pub(super) fn find_few<const N: usize>(&self, pairs: &[Pair<'_>; N]) -> Option<&Arc<Series>> {
        let buckets = self.buckets.get()?;
        let digest = buckets.pattern.digest(pairs)?;
        let mut slot = buckets.slot(digest.hash);
        // Compared after the loop, because the compiler would move the setup of a comparison out of the loop.
        let series = loop {
            let Node { series, next } = &**slot.get()?;
            if series.hash == digest.hash {
                break series;
            }
            slot = next;
        };
        (series.is_patterned && series.attributes.has(&digest, pairs)).then_some(series)
    }

    /// Returns the requested series. A new series uses the preallocated memory of the request.
    ///
    /// # Errors
    /// Returns the kind of memory that the caller must allocate first, while no lock is held.
    pub(super) fn try_series(&self, request: &mut SeriesRequest) -> Result<&Arc<Series>, Missing> {
        let attributes = &request.attributes;
        // The series without attributes needs no buckets.
        let buckets = match (attributes.is_empty(), self.buckets.get()) {
            (true, _) => None,
            (false, Some(buckets)) => Some(buckets),
            (false, None) => {
                let missing = Missing::Buckets { limit: self.limit, seed: self.seed };
                let buckets = request.buckets.take().ok_or(missing)?;
                // Another thread may have set them first.
                request.buckets = self.buckets.set(buckets).err();
                self.buckets.get()
            }
        };
        let mut all = lock(&self.all);
        // The series may exist: another thread may have added it, or `find` missed it because a key was given twice.
        if let Some(series) = self.find_set(attributes, request.hash) {
            return Ok(series);
        }
        if all.len() == all.capacity() {
            match &mut request.list {
                Some(list) if list.capacity() > all.len() => {
                    list.append(&mut all);
                    std::mem::swap(list, &mut all);
                }
                _ => return Err(Missing::List { longer_than: all.len() }),
            }
        }
        // A request for the overflow attributes means the overflow series. A forked child makes such a request for a
        // handle that its parent had bound to the overflow series.
        if self.is_full(&all) || request.is_overflow {
            if let Some(series) = self.overflow.get() {
                return Ok(series);
            }
            let overflow =
                request.overflow.take().ok_or_else(|| Missing::Overflow { kind: self.kind.clone() })?;
            all.push(Arc::clone(&overflow));
            return Ok(self.overflow.get_or_init(|| overflow));
        }
        let missing = || Missing::Series {
            is_patterned: buckets.is_some_and(|buckets| buckets.pattern.is_of(attributes)),
            kind: self.kind.clone(),
        };
        let series = request.series.take().ok_or_else(missing)?;
        all.push(Arc::clone(&series));
        Ok(match (buckets, request.node.take()) {
            (Some(buckets), Some(node)) => buckets.place(node),
            _ => self.bare.get_or_init(|| series),
        })
    }

    fn is_full(&self, all: &[Arc<Series>]) -> bool {
        all.len() - usize::from(self.is_overflowing()) >= self.limit
    }

    fn find_set(&self, attributes: &AttributeSet, hash: u64) -> Option<&Arc<Series>> {
        match attributes.is_empty() {
            true => self.bare.get(),
            false => self.buckets.get()?.chain(hash).find(|series| series.attributes == *attributes),
        }
    }

    /// Copies all series into an empty list, in the order of their creation.
    ///
    /// # Errors
    /// Returns the number of series if the list has too little capacity.
    pub(super) fn copy_into(&self, list: &mut Vec<Arc<Series>>) -> Result<(), usize> {
        let all = lock(&self.all);
        if list.capacity() < all.len() {
            return Err(all.len());
        }
        list.extend(all.iter().cloned());
        Ok(())
    }

    /// Returns whether the overflow series is in use, because there were too many attribute sets.
    pub(super) fn is_overflowing(&self) -> bool {
        self.overflow.get().is_some()
    }
}

/// Series that were removed from their table.
pub(super) struct RemovedSeries {
    /// The series without attributes, and the overflow series. Kept only to be dropped later.
    _unlinked: [Option<Arc<Series>>; 2],
    /// All other removed series, as a linked list.
    nodes: Option<Box<Node>>,
}

impl RemovedSeries {
    /// Moves the removed series of a chain to this list.
    fn unlink_from(&mut self, mut slot: &mut Slot) {
        while let Some(mut node) = slot.take() {
            if node.series.is_forgotten() {
                if let Some(next) = node.next.take() {
                    let _ = slot.set(next);
                }
                if let Some(others) = self.nodes.take() {
                    let _ = node.next.set(others);
                }
                self.nodes = Some(node);
                continue;
            }
            let _ = slot.set(node);
            match slot.get_mut() {
                Some(node) => slot = &mut node.next,
                None => return,
            }
        }
    }
}

impl Drop for RemovedSeries {
    fn drop(&mut self) {
        // Iterative: dropping a long list recursively would overflow the stack.
        while let Some(mut node) = self.nodes.take() {
            self.nodes = node.next.take();
        }
    }
}

/// A requested attribute set, and the memory that a new series needs, which is allocated before a lock is taken. Must
/// be dropped while no lock is held.
pub(super) struct SeriesRequest {
    attributes: AttributeSet,
    hash: u64,
    /// True if the attributes are those of the overflow series.
    is_overflow: bool,
    series: Option<Arc<Series>>,
    /// Node that links the series into its chain. Not needed for the series without attributes.
    node: Option<Box<Node>>,
    overflow: Option<Arc<Series>>,
    buckets: Option<Buckets>,
    list: Option<Vec<Arc<Series>>>,
}

/// The memory that must be allocated before a series can be added.
pub(super) enum Missing {
    Buckets { limit: usize, seed: u64 },
    List { longer_than: usize },
    Overflow { kind: SeriesKind },
    Series { is_patterned: bool, kind: SeriesKind },
}

impl SeriesRequest {
    pub(super) fn new(attributes: AttributeSet, seed: u64) -> Self {
        let (hash, is_overflow) = (attributes.hash_of(seed), attributes == overflow());
        let (series, node, overflow, buckets, list) = (None, None, None, None, None);
        Self { attributes, hash, is_overflow, series, node, overflow, buckets, list }
    }

    /// Allocates the missing memory.
    pub(super) fn make(&mut self, missing: Missing) {
        match missing {
            Missing::Buckets { limit, seed } => {
                let pattern = Arc::new(Pattern::of(&self.attributes, seed));
                self.buckets = Some(Buckets::new(pattern, limit));
            }
            Missing::List { longer_than } => {
                self.list = Some(Vec::with_capacity(2 * longer_than + 4));
            }
            Missing::Overflow { kind } => {
                self.overflow = Some(Series::new(overflow(), 0, false, &kind));
            }
            Missing::Series { is_patterned, kind } => {
                let series = Series::new(self.attributes.clone(), self.hash, is_patterned, &kind);
                self.node = (!self.attributes.is_empty())
                    .then(|| Box::new(Node { series: Arc::clone(&series), next: Slot::new() }));
                self.series = Some(series);
            }
        }
    }
}

/// One attribute set and its aggregated measurements.
pub(super) struct Series {
    pub(super) attributes: AttributeSet,
    pub(super) aggregator: Aggregator,
    pub(super) reservoir: Reservoir,
    pub(super) hash: u64,
    /// True if the series was created with exactly the keys of the table's pattern, in the same order.
    pub(super) is_patterned: bool,
    /// Number of handles that are bound to the series. A bound series is not removed.
    bound: AtomicU32,
    /// True if its table has removed it. Used only by the thread that removes series.
    pub(super) is_forgotten: AtomicBool,
    /// Time of the first measurement, or of the first binding. A cumulative series counts from this time.
    pub(super) since: u64,
}

impl Series {
    fn new(attributes: AttributeSet, hash: u64, is_patterned: bool, kind: &SeriesKind) -> Arc<Self> {
        let (aggregation, exemplars) = kind;
        let (bound, is_forgotten) = (AtomicU32::new(0), AtomicBool::new(false));
        let (aggregator, since) = (Aggregator::new(aggregation), unix_now());
        let reservoir = Reservoir::new(*exemplars);
        Arc::new(Self { attributes, aggregator, reservoir, hash, is_patterned, bound, is_forgotten, since })
    }

    /// Aggregates a measurement of which no attributes were removed.
    #[inline(always)]
    pub(super) fn update(&self, bits: u64) {
        self.update_reduced(bits, &AttributeSet::default);
    }

    /// Aggregates a measurement. `removed` returns the attributes that were removed from it.
    #[inline(always)]
    pub(super) fn update_reduced(&self, bits: u64, removed: &impl Fn() -> AttributeSet) {
        match self.reservoir.is_offered() {
            false => self.aggregator.update(bits),
            true => self.update_offered(bits, removed),
        }
    }

    // Generic, because `dyn` would need a further argument.
    #[inline(never)]
    fn update_offered(&self, bits: u64, removed: &impl Fn() -> AttributeSet) {
        if let Aggregator::Explicit(histogram) = &self.aggregator {
            let value = f64::from_bits(bits);
            let bucket = histogram.bucket(value);
            if self.reservoir.skips(bucket) {
                return histogram.record(bucket, value);
            }
        }
        self.update_and_offer(bits, removed);
    }

    /// The slow path of [`update_offered`](Self::update_offered), which saves no registers without this path.
    #[cold]
    #[inline(never)]
    fn update_and_offer(&self, bits: u64, removed: &Removed<'_>) {
        let time = unix_now();
        self.aggregator.update(bits);
        self.offer(bits, time, removed);
    }

    /// Offers an aggregated measurement as an exemplar. `time` was read before the measurement was aggregated. So if a
    /// collection took the measurement since, the exemplar is older than the next period and is not sent with it.
    pub(super) fn offer(&self, bits: u64, time: u64, removed: &Removed<'_>) {
        let sample = self.aggregator.sample(bits);
        if !self.reservoir.skips(sample) {
            let (value, layout) = (self.aggregator.number(bits), self.aggregator.layout());
            self.reservoir.keep(sample, (value, time), layout, removed);
        }
    }

    pub(super) fn bind(&self) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unbind(&self) {
        // Release, paired with the acquire in `is_idle`: a thread that sees the count fall also sees the measurements.
        // Otherwise they would be removed with the series.
        self.bound.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether nothing was measured and no handle is bound to the series.
    pub(super) fn is_idle(&self) -> bool {
        self.bound.load(Ordering::Acquire) == 0 && self.aggregator.is_empty()
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }
}

/// Returns the attributes of the overflow series.
pub(super) fn overflow() -> AttributeSet {
    AttributeSet::new([(OVERFLOW, true.into())])
}

#[cfg(test)]
mod tests;
