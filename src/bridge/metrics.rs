//! The `metrics` crate: what its macros measure, as metrics of this one.
//!
//! ```
//! use std::time::Duration;
//! use metrics::{Unit, counter, describe_histogram, gauge, histogram};
//! use standpipe::bridge::metrics::MetricsRecorder;
//! use standpipe::{Config, Exporter, Telemetry};
//!
//! # let receiver = standpipe::receiver::Receiver::start()?;
//! # let endpoint = receiver.endpoint();
//! # /*
//! let endpoint = "http://localhost:4318";
//! # */
//! let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(Exporter::http(endpoint)))?;
//! MetricsRecorder::new(&telemetry).bounds("order.items", &[1.0, 2.0, 5.0, 10.0]).install()?;
//!
//! describe_histogram!("order.duration", Unit::Seconds, "from the basket to the payment");
//! counter!("orders", "shop.country" => "SE").increment(1);
//! gauge!("baskets").increment(1.0);
//! histogram!("order.duration").record(Duration::from_millis(320)); // in buckets of seconds, as it is described
//! histogram!("order.items").record(3.0);
//!
//! let ledger = telemetry.shutdown(Duration::from_secs(2));
//! assert_eq!(ledger.lost(), 0);
//! # assert_eq!(receiver.point_count(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{
    CounterFn, GaugeFn, HistogramFn, Key, KeyName, Recorder, SetRecorderError, SharedString, Unit,
};

use crate::metrics::{
    BoundCounter, BoundGauge, BoundHistogram, Counter, Gauge, Histogram, InstrumentBuilder, LateMetadata,
    Metadata, Meter,
};
use crate::process::atomic::AtomicU64;
use crate::process::{self, PerProcess};
use crate::record::Value;
use crate::telemetry::provider::Provider;
use crate::telemetry::scope_cache::{AppendMap, ScopeCache};

/// The scope unless one is set.
const SCOPE: &str = "metrics";
/// Series of a metric, unless set: as many as any instrument may have.
const CARDINALITY: usize = 2000;
/// Maximum number of names that are remembered. Programs that have more make them up at run time.
const MAX_NAMES: usize = 10_000;

/// Takes what the macros of the `metrics` crate measure. See the [module](self) for an example.
///
/// A counter becomes a counter, a gauge a gauge and a histogram a histogram; labels become attributes. In that crate a
/// metric is known by its name and labels alone, so all are of one scope, `metrics` unless [set](Self::scope). Targets
/// and levels make no difference.
///
/// - `counter!(…).absolute(…)` never makes a counter fall; what it rises by is added.
/// - A gauge starts at zero, but is sent only once it was set or moved.
/// - NaN and infinities are left out, and reported to [`Config::on_problem`](crate::Config::on_problem).
/// - Units are sent by the Unified Code for Units of Measure. A metric may be described before its first use or at any
///   time after; the first description counts.
/// - Durations are recorded in seconds. A histogram has bounds that fit seconds if it is described with [`Unit::Seconds`] or
///   if it has no unit and its name ends in `.seconds` or `_seconds`. The bounds are chosen when a histogram is first used: a
///   description that comes later gives it its unit, and leaves the bounds alone. Other histograms have OpenTelemetry's default
///   bounds, which are meant for milliseconds: give them [bounds](Self::bounds), or have the exporter make
///   [exponential ones](crate::config::Histograms::Exponential).
/// - A name that is used for a counter and for a gauge is two metrics. Both are sent, and it is reported.
///
/// A key that was used before is found without a lock and without an allocation. It is remembered for good, also where
/// an exporter is sent differences: each set of labels counts as one in use. What comes beyond the
/// [limit](Self::cardinality_limit) is put together under `otel.metric.overflow`: increments add up, of absolute
/// values the greatest counts, and a gauge is what it was last set to.
///
/// A forked child's counters and gauges start at zero, also those that it holds from before.
#[must_use = "a recorder takes nothing until it is installed"]
pub struct MetricsRecorder {
    provider: Provider,
    meter: Meter,
    bounds: HashMap<String, Vec<f64>>,
    limit: usize,
    counters: Instruments<Counter<u64>>,
    gauges: Instruments<Gauge<f64>>,
    histograms: Instruments<Histogram<f64>>,
}

impl MetricsRecorder {
    /// A recorder for the main provider of a [`Telemetry`](crate::Telemetry), or for any [`Provider`].
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        let provider = provider.as_ref().clone();
        Self {
            meter: provider.meter(SCOPE),
            provider,
            bounds: HashMap::new(),
            limit: CARDINALITY,
            counters: Instruments::default(),
            gauges: Instruments::default(),
            histograms: Instruments::default(),
        }
    }

    /// The scope of all metrics, `metrics` unless set.
    pub fn scope(mut self, name: &str) -> Self {
        self.meter = self.provider.meter(name);
        self
    }

    /// Divides the values of the histogram of this name at these bounds: each bucket ends with its bound, included. Bounds
    /// that are not finite or do not rise are reported to [`Config::on_problem`](crate::Config::on_problem), and the
    /// default ones used.
    pub fn bounds(mut self, name: &str, bounds: &[f64]) -> Self {
        self.bounds.insert(name.to_owned(), bounds.to_vec());
        self
    }

    /// The most sets of labels that each metric may have, 2000 unless set.
    pub fn cardinality_limit(self, most: usize) -> Self {
        Self { limit: most, ..self }
    }

    /// Makes it the recorder of the whole program. Do it early: what was measured before is lost, and so is what is
    /// measured later through handles that were made before.
    ///
    /// # Errors
    /// When the program has a recorder already; this one is in the error.
    #[allow(clippy::result_large_err, reason = "it hands the recorder back, once in the life of a program")]
    pub fn install(self) -> Result<(), SetRecorderError<Self>> {
        metrics::set_global_recorder(self)
    }

    /// The handle of a key; none where no exporter takes metrics, so that nothing is kept either.
    #[inline]
    fn handle<I: Instrument>(&self, instruments: &Instruments<I>, key: &Key) -> Option<Arc<Handle<I>>> {
        let make = |late: &_| I::make(self.build(key.name()).late_metadata(late));
        self.meter.is_of_use().then(|| instruments.handle(key, self.limit, make))
    }

    fn build<'a>(&'a self, name: &'a str) -> InstrumentBuilder<'a> {
        let builder = self.meter.build(name).cardinality_limit(self.limit);
        match self.bounds.get(name) {
            Some(bounds) => builder.bounds(bounds),
            None => builder,
        }
    }
}

impl Recorder for MetricsRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.counters.describe(key.as_str(), unit.map_or("", ucum), &description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.gauges.describe(key.as_str(), unit.map_or("", ucum), &description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.histograms.describe(key.as_str(), unit.map_or("", ucum), &description);
    }

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        self.handle(&self.counters, key).map_or(metrics::Counter::noop(), metrics::Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        self.handle(&self.gauges, key).map_or(metrics::Gauge::noop(), metrics::Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        self.handle(&self.histograms, key).map_or(metrics::Histogram::noop(), metrics::Histogram::from_arc)
    }
}

impl fmt::Debug for MetricsRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsRecorder").field("meter", &self.meter).finish_non_exhaustive()
    }
}

/// The code of a unit in the Unified Code for Units of Measure, as OpenTelemetry wants it.
fn ucum(unit: Unit) -> &'static str {
    match unit {
        // in braces and not "1", which is for fractions: some collectors make a ratio of it
        Unit::Count => "{count}",
        Unit::CountPerSecond => "{count}/s",
        Unit::Percent => "%",
        Unit::Seconds => "s",
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "us",
        Unit::Nanoseconds => "ns",
        Unit::Tebibytes => "TiBy",
        Unit::Gibibytes => "GiBy",
        Unit::Mebibytes => "MiBy",
        Unit::Kibibytes => "KiBy",
        Unit::Bytes => "By",
        Unit::TerabitsPerSecond => "Tbit/s",
        Unit::GigabitsPerSecond => "Gbit/s",
        Unit::MegabitsPerSecond => "Mbit/s",
        Unit::KilobitsPerSecond => "kbit/s",
        Unit::BitsPerSecond => "bit/s",
    }
}

/// The metrics of one kind of instrument.
struct Instruments<I: Instrument> {
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
    fn handle(&self, key: &Key, limit: usize, make: impl FnOnce(&LateMetadata) -> I) -> Arc<Handle<I>> {
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
    fn describe(&self, name: &str, unit: &str, description: &str) {
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
trait Instrument {
    /// The instrument with its attributes, and what it must know beside them.
    type Bound;

    fn make(builder: InstrumentBuilder<'_>) -> Self;
    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> Self::Bound;
}

/// An instrument under the labels of a key.
struct Handle<I: Instrument> {
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
struct Count {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_code() {
        let codes = [
            ("count", "{count}"),
            ("percent", "%"),
            ("seconds", "s"),
            ("milliseconds", "ms"),
            ("microseconds", "us"),
            ("nanoseconds", "ns"),
            ("tebibytes", "TiBy"),
            ("gibibytes", "GiBy"),
            ("mebibytes", "MiBy"),
            ("kibibytes", "KiBy"),
            ("bytes", "By"),
            ("terabits_per_second", "Tbit/s"),
            ("gigabits_per_second", "Gbit/s"),
            ("megabits_per_second", "Mbit/s"),
            ("kilobits_per_second", "kbit/s"),
            ("bits_per_second", "bit/s"),
            ("count_per_second", "{count}/s"),
        ];
        for (name, code) in codes {
            let unit = Unit::from_string(name).unwrap_or_else(|| panic!("no unit {name}"));
            assert_eq!(ucum(unit), code, "{name}");
        }
    }
}
