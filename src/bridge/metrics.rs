//! Exports the metrics of the [`metrics`](https://docs.rs/metrics) crate.
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

/// Default scope.
const SCOPE: &str = "metrics";
/// Default maximum number of series of a metric, the same as for any instrument.
const CARDINALITY: usize = 2000;
/// Maximum number of cached names. A program that exceeds this number probably generates names at run time.
const MAX_NAMES: usize = 10_000;

/// Exports the measurements of the `metrics` crate's macros. See the [module](self) for an example.
///
/// Each counter, gauge or histogram becomes an instrument of the same kind, and labels become attributes. The `metrics`
/// crate identifies a metric by its name and labels alone, so all metrics are in one scope. It is named `metrics`
/// unless another name is [set](Self::scope). Targets and levels are ignored.
///
/// - `counter!(…).absolute(…)` never decreases a counter. Only the increase is added.
/// - A gauge starts at zero, but is sent only after it was set or changed.
/// - NaN and infinities are left out, and reported to [`Config::on_problem`](crate::Config::on_problem).
/// - Units are sent in the Unified Code for Units of Measure. A metric may be described at any time. If it is described
///   twice, the first description counts.
/// - Durations are recorded in seconds. A histogram gets bounds for seconds if it is described with [`Unit::Seconds`],
///   or if it has no unit and its name ends in `.seconds` or `_seconds`. The bounds are chosen at the first use: a
///   later description sets the unit, but does not change the bounds. Other histograms get OpenTelemetry's default
///   bounds, which are meant for milliseconds: set [bounds](Self::bounds), or let the exporter send [exponential
///   histograms](crate::config::Histograms::Exponential).
/// - If a name is used for a counter and for a gauge, both are sent as separate metrics, and the conflict is reported.
///
/// A known key is found without a lock and without an allocation. Keys are never forgotten, even for exporters with
/// delta temporality: each set of labels counts toward the [limit](Self::cardinality_limit). Measurements beyond the
/// limit are aggregated under `otel.metric.overflow`: increments are added, `absolute` raises the common counter to the
/// greatest value passed, and a gauge has the value set last.
///
/// In a forked child, all counters and gauges start at zero, including those that were created before the fork.
#[must_use = "a recorder receives no measurements until it is installed"]
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
    /// Creates a recorder for the main provider of a [`Telemetry`](crate::Telemetry), or for any [`Provider`].
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

    /// Sets the scope of all metrics. The default is `metrics`.
    pub fn scope(mut self, name: &str) -> Self {
        self.meter = self.provider.meter(name);
        self
    }

    /// Sets the bucket bounds of the histogram with this name, at most 1024 finite and increasing numbers. A bucket
    /// includes its upper bound. Invalid bounds are reported to [`Config::on_problem`](crate::Config::on_problem), and
    /// the default bounds are used instead.
    pub fn bounds(mut self, name: &str, bounds: &[f64]) -> Self {
        self.bounds.insert(name.to_owned(), bounds.to_vec());
        self
    }

    /// Sets the maximum number of label sets of each metric. The default is 2000.
    pub fn cardinality_limit(self, max: usize) -> Self {
        Self { limit: max, ..self }
    }

    /// Installs this as the recorder of the whole program. Call this method early: measurements before it are lost,
    /// and so are all measurements through handles that were created before it.
    ///
    /// # Errors
    /// Returns an error if the program already has a recorder. The error contains this recorder.
    #[allow(clippy::result_large_err, reason = "the error returns the recorder, once per program")]
    pub fn install(self) -> Result<(), SetRecorderError<Self>> {
        metrics::set_global_recorder(self)
    }

    /// Returns the handle of a key. If no exporter exports metrics, returns `None` and caches nothing.
    #[inline]
    fn handle<I: Instrument>(&self, instruments: &Instruments<I>, key: &Key) -> Option<Arc<Handle<I>>> {
        let make = |late: &_| I::make(self.build(key.name()).late_metadata(late));
        // Without this check, the macros of `metrics` could fill the cache with handles that do nothing.
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

/// Returns the code of a unit in the Unified Code for Units of Measure, as OpenTelemetry requires.
fn ucum(unit: Unit) -> &'static str {
    match unit {
        // Braces instead of "1", which is the unit of ratios: some collectors would treat the count as a ratio.
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
    /// All cached handles: for each family, at most one handle for each series.
    handles: AppendMap<Arc<Handle<I>>>,
}

/// What all handles of one name share. Fields are set under the fork lock: a `OnceLock` that another thread was setting
/// during a fork would stay locked in the child.
struct Family<I: Instrument> {
    metadata: LateMetadata,
    instrument: OnceLock<I>,
    handles: AtomicUsize,
    /// The common handle of all keys beyond the limit.
    rest: OnceLock<Arc<Handle<I>>>,
}

impl<I: Instrument> Instruments<I> {
    /// Returns the handle of a key. Only the first `limit` keys of a name get a handle each (racing threads may
    /// add a few); all further keys share one handle. `make` creates the instrument of a name, which reads its unit
    /// and description from the given [`LateMetadata`].
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
            // There are too many names: the handle works, but is not cached.
            Cow::Owned(family) => return Arc::new(Handle::new(&make(&family.metadata), Some(key))),
        };
        let instrument = get_or_set(&family.instrument, || make(&family.metadata));
        // Relaxed: the count only limits the cache. It orders no other data.
        if family.handles.load(Ordering::Relaxed) >= limit {
            let rest = get_or_set(&family.rest, || Arc::new(Handle::new(instrument, None)));
            return Arc::clone(rest);
        }
        // Racing threads may exceed the limit by a few handles. The instrument enforces the limit of its series itself.
        let fresh = Arc::new(Handle::new(instrument, Some(key)));
        let (kept, is_new) = self.handles.insert(key.get_hash(), fresh, |handle| handle.has(key));
        if is_new {
            family.handles.fetch_add(1, Ordering::Relaxed);
        }
        Arc::clone(kept)
    }

    /// Sets the unit and description of a metric, which may already be in use. The first description counts.
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

/// Returns the value, and sets it first if it is absent. The value is created before the fork lock is taken, because
/// creating it may need the same lock. If two threads race, the first value stays.
fn get_or_set<T>(place: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = place.get() {
        return value;
    }
    let value = make();
    process::with_fork_lock(|| place.get_or_init(|| value))
}

/// The common interface of the three kinds of instruments.
trait Instrument {
    /// The instrument with fixed attributes, and the state that the `metrics` crate needs in addition.
    type Bound;

    fn make(builder: InstrumentBuilder<'_>) -> Self;
    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> Self::Bound;
}

/// An instrument with the labels of a key.
struct Handle<I: Instrument> {
    /// `None` for the handle of all keys beyond the limit.
    key: Option<Key>,
    bound: I::Bound,
}

impl<I: Instrument> Handle<I> {
    fn new(instrument: &I, key: Option<&Key>) -> Self {
        // The labels are bound once, so a measurement needs no lookup of its labels.
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
        // Compared in the given order first: most callers always pass their labels in the same order, and `==` sorts
        // the labels, which allocates if there are many.
        let is_as_given = |own: &Key| own.name() == key.name() && own.labels().eq(key.labels());
        self.key.as_ref().is_some_and(|own| is_as_given(own) || own == key)
    }
}

/// A counter that knows its total, so that `absolute` can add the difference.
struct Count {
    bound: BoundCounter<u64>,
    /// Total in this process. A forked child starts at zero.
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
        // The total is only read by `absolute`. The exported sum is that of `bound`.
        if total.fetch_add(value, Ordering::Relaxed).checked_add(value).is_none() {
            // The sum has wrapped around: saturate instead.
            total.store(u64::MAX, Ordering::Relaxed);
        }
        self.bound.bound.add(value);
    }

    fn absolute(&self, value: u64) {
        // Each of several concurrent calls adds only the amount by which it raised the total.
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
