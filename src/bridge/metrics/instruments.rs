//! All metrics of one kind: what is known of each by its name, and the handles that programs measure through, by their keys.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{CounterFn, GaugeFn, HistogramFn, Key};

use crate::metrics::{
    BoundCounter, BoundGauge, BoundHistogram, Counter, Gauge, Histogram, InstrumentBuilder, LateMetadata,
    Metadata,
};
use crate::process::atomic::AtomicU64;
use crate::process::{self, PerProcess};
use crate::record::Value;
use crate::telemetry::scope_cache::{AppendMap, ScopeCache};

/// Maximum number of names that are remembered. Programs that have more make them up at run time.
const MAX_NAMES: usize = 10_000;

/// The metrics of one kind of instrument.
pub(super) struct Instruments<I: Instrument> {
    families: ScopeCache<Box<str>, Arc<Family<I>>, MAX_NAMES>,
    /// Handles that a program asks for again and again; of each family no more than it may have series.
    handles: AppendMap<Arc<Handle<I>>>,
}

/// All handles of one name. Fields are set while no fork can happen: a child goes on using them.
struct Family<I: Instrument> {
    metadata: LateMetadata,
    instrument: OnceLock<I>,
    handles: AtomicUsize,
    /// The handle of all keys beyond the limit.
    rest: OnceLock<Arc<Handle<I>>>,
}

impl<I: Instrument> Instruments<I> {
    /// Returns the handle of a key. A name has at most `limit` keys, as many as it may have series; `make` makes its
    /// instrument, which takes unit and description from the given place.
    #[inline]
    pub(super) fn handle(
        &self,
        key: &Key,
        limit: usize,
        make: impl FnOnce(&LateMetadata) -> I,
    ) -> Arc<Handle<I>> {
        match self.handles.find(key.get_hash(), |handle| handle.has(key)) {
            Some(handle) => Arc::clone(handle),
            None => self.new_handle(key, limit, make),
        }
    }

    #[cold]
    fn new_handle(&self, key: &Key, limit: usize, make: impl FnOnce(&LateMetadata) -> I) -> Arc<Handle<I>> {
        let family = match self.family(key.name()) {
            Cow::Borrowed(family) => family,
            Cow::Owned(family) => return Arc::new(Handle::new(&make(&family.metadata), Some(key))),
        };
        let instrument = get_or_set(&family.instrument, || make(&family.metadata));
        // One place is kept for the rest.
        if family.handles.load(Ordering::Relaxed) + 1 >= limit {
            let rest = get_or_set(&family.rest, || Arc::new(Handle::new(instrument, None)));
            return Arc::clone(rest);
        }
        let fresh = Arc::new(Handle::new(instrument, Some(key)));
        let (kept, is_new) = self.handles.insert(key.get_hash(), fresh, |handle| handle.has(key));
        if is_new {
            family.handles.fetch_add(1, Ordering::Relaxed);
        }
        Arc::clone(kept)
    }

    /// Notes what a metric means, whether or not it is used already. The first description counts.
    pub(super) fn describe(&self, name: &str, unit: &str, description: &str) {
        let metadata = || Metadata { unit: unit.to_owned(), description: description.to_owned() };
        get_or_set(&self.family(name).metadata, metadata);
    }

    fn family(&self, name: &str) -> Cow<'_, Arc<Family<I>>> {
        self.families.get_or_make(name, |known| **known == *name, || (name.into(), Arc::default()))
    }
}

impl<I: Instrument> Default for Instruments<I> {
    fn default() -> Self {
        Self { families: ScopeCache::default(), handles: AppendMap::default() }
    }
}

impl<I: Instrument> Default for Family<I> {
    fn default() -> Self {
        let (instrument, rest) = (OnceLock::new(), OnceLock::new());
        Self { metadata: Arc::default(), instrument, handles: AtomicUsize::new(0), rest }
    }
}

/// Returns the value in its place, or sets it. The value is made before the fork lock is taken, as making it may need the same
/// lock; of two threads the first one's value stays.
fn get_or_set<T>(place: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = place.get() {
        return value;
    }
    let value = make();
    process::with_fork_lock(|| place.get_or_init(|| value))
}

/// What the three kinds of instruments have in common.
pub(super) trait Instrument {
    /// The instrument with its attributes, and what it must know beside them.
    type Bound;

    fn make(builder: InstrumentBuilder<'_>) -> Self;
    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> Self::Bound;
}

/// An instrument under the labels of a key.
pub(super) struct Handle<I: Instrument> {
    /// `None` for the handle of all keys beyond the limit.
    key: Option<Key>,
    bound: I::Bound,
}

impl<I: Instrument> Handle<I> {
    fn new(instrument: &I, key: Option<&Key>) -> Self {
        let bound = match key {
            Some(key) => {
                let labels = key.labels().map(|label| (label.key(), Value::from(label.value())));
                instrument.bind(&labels.collect::<Vec<_>>())
            }
            None => instrument.bind(&[("otel.metric.overflow", true.into())]),
        };
        Self { key: key.map(Key::to_retained), bound }
    }

    fn has(&self, key: &Key) -> bool {
        // In the same order first, as most callers give them: to sort many labels a key needs memory.
        let is_as_given = |own: &Key| own.name() == key.name() && own.labels().eq(key.labels());
        self.key.as_ref().is_some_and(|own| is_as_given(own) || own == key)
    }
}

/// A counter knows how far it is, so that it can be set to where another one is.
pub(super) struct Count {
    bound: BoundCounter<u64>,
    /// The total in this process: a forked child starts at zero.
    total: PerProcess<AtomicU64>,
}

impl Count {
    #[inline]
    fn total(&self) -> &AtomicU64 {
        self.total.get_or_renew(AtomicU64::default)
    }
}

impl Instrument for Counter<u64> {
    type Bound = Count;

    fn make(builder: InstrumentBuilder<'_>) -> Self {
        builder.counter()
    }

    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> Count {
        Count { bound: self.with(attributes), total: PerProcess::new(AtomicU64::new(0)) }
    }
}

impl CounterFn for Handle<Counter<u64>> {
    fn increment(&self, value: u64) {
        let total = self.bound.total();
        if total.fetch_add(value, Ordering::Relaxed).checked_add(value).is_none() {
            // at the end of the scale it stays there
            total.store(u64::MAX, Ordering::Relaxed);
        }
        self.bound.bound.add(value);
    }

    fn absolute(&self, value: u64) {
        let before = self.bound.total().fetch_max(value, Ordering::Relaxed);
        self.bound.bound.add(value.saturating_sub(before));
    }
}

impl Instrument for Gauge<f64> {
    type Bound = BoundGauge<f64>;

    fn make(builder: InstrumentBuilder<'_>) -> Self {
        builder.gauge()
    }

    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> BoundGauge<f64> {
        self.with(attributes)
    }
}

impl GaugeFn for Handle<Gauge<f64>> {
    fn increment(&self, value: f64) {
        self.bound.shift(value);
    }

    fn decrement(&self, value: f64) {
        self.bound.shift(-value);
    }

    fn set(&self, value: f64) {
        self.bound.record(value);
    }
}

impl Instrument for Histogram<f64> {
    type Bound = BoundHistogram<f64>;

    fn make(builder: InstrumentBuilder<'_>) -> Self {
        builder.histogram()
    }

    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> BoundHistogram<f64> {
        self.with(attributes)
    }
}

impl HistogramFn for Handle<Histogram<f64>> {
    fn record(&self, value: f64) {
        self.bound.record(value);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.bound.record_many(value, count as u64);
    }
}
