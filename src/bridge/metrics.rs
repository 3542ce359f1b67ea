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

mod instruments;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use metrics::{Key, KeyName, Metadata, Recorder, SetRecorderError, SharedString, Unit};

use self::instruments::{Handle, Instrument, Instruments};
use crate::metrics::{Counter, Gauge, Histogram, InstrumentBuilder, Meter};
use crate::telemetry::provider::Provider;

/// The scope unless one is set.
const SCOPE: &str = "metrics";
/// Series of a metric, unless set: as many as any instrument may have.
const CARDINALITY: usize = 2000;

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

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        self.handle(&self.counters, key).map_or(metrics::Counter::noop(), metrics::Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        self.handle(&self.gauges, key).map_or(metrics::Gauge::noop(), metrics::Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
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
