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
//! MetricsRecorder::new(&telemetry)
//!     .bounds("order.duration", &[0.01, 0.1, 1.0, 10.0])
//!     .install()?;
//!
//! describe_histogram!("order.duration", Unit::Seconds, "from the basket to the payment");
//! counter!("orders", "shop.country" => "SE").increment(1);
//! gauge!("baskets").increment(1.0);
//! histogram!("order.duration").record(Duration::from_millis(320));
//!
//! let ledger = telemetry.shutdown(Duration::from_secs(2));
//! assert_eq!(ledger.lost(), 0);
//! # assert_eq!(receiver.point_count(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod book;
mod handle;
mod shelf;
mod unit;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use metrics::{Key, KeyName, Metadata, Recorder, SetRecorderError, SharedString, Unit};

use self::book::{Book, Words};
use self::handle::{Handle, Instrument};
use self::unit::ucum;
use crate::metrics::{Counter, Gauge, Histogram, InstrumentBuilder, Meter};
use crate::telemetry::provider::Provider;

/// The scope that nobody chose.
const SCOPE: &str = "metrics";
/// Series of a metric, unless it is told otherwise: as many as any instrument may have.
const CARDINALITY: usize = 2000;

/// Takes what the macros of the `metrics` crate measure. See the [module](self) for an example.
///
/// A counter becomes a counter, a gauge a gauge and a histogram a histogram; labels become attributes. In that crate a
/// metric is known by its name and labels alone, so all are of one scope, `metrics` unless [set](Self::scope). Targets
/// and levels make no difference.
///
/// - `counter!(…).absolute(…)` never makes a counter fall; what it rises by is added.
/// - A gauge starts at zero, but is sent only once it was set or moved.
/// - NaN and infinities are left out, and told to [`Config::on_problem`](crate::Config::on_problem).
/// - Units are sent by the Unified Code for Units of Measure. A metric may be described before its first use or at any
///   time after; what is said first counts.
/// - Durations are recorded in seconds. The default bounds of a histogram are meant for milliseconds: give it
///   [bounds](Self::bounds), or have the exporter make [exponential ones](crate::Histograms::Exponential).
/// - A name that is used for a counter and for a gauge is two metrics. Both are sent, and it is told.
///
/// A key that was used before is found without a lock and without an allocation. It is remembered for good, also where
/// an exporter is told differences: each set of labels counts as one in use. What comes beyond the
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
    counters: Book<Counter<u64>>,
    gauges: Book<Gauge<f64>>,
    histograms: Book<Histogram<f64>>,
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
            counters: Book::default(),
            gauges: Book::default(),
            histograms: Book::default(),
        }
    }

    /// The scope of all metrics, `metrics` unless set.
    pub fn scope(mut self, name: &str) -> Self {
        self.meter = self.provider.meter(name);
        self
    }

    /// Divides the values of the histogram of this name at these bounds: each bucket ends with its bound, included. Bounds
    /// that are not finite or do not rise are told to [`Config::on_problem`](crate::Config::on_problem), and the
    /// default ones used.
    pub fn bounds(mut self, name: &str, bounds: &[f64]) -> Self {
        self.bounds.insert(name.to_owned(), bounds.to_vec());
        self
    }

    /// The most sets of labels that each metric may have, 2000 unless set.
    pub fn cardinality_limit(mut self, most: usize) -> Self {
        self.limit = most;
        self
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

    /// The handle of a key; none where nobody is told what is measured, so that nothing is kept either.
    #[inline]
    fn handle<I: Instrument>(&self, book: &Book<I>, key: &Key) -> Option<Arc<Handle<I>>> {
        let make = || I::make(self.build(key.name()));
        self.meter.is_of_use().then(|| book.handle(key, self.limit, make))
    }

    fn build<'a>(&'a self, name: &'a str) -> InstrumentBuilder<'a> {
        let builder = self.meter.build(name).cardinality_limit(self.limit);
        match self.bounds.get(name) {
            Some(bounds) => builder.bounds(bounds),
            None => builder,
        }
    }

    fn describe<I: Instrument>(&self, book: &Book<I>, key: &KeyName, unit: Option<Unit>, text: SharedString) {
        let words = Words { unit: unit.map_or("", ucum), description: text };
        book.describe(key.as_str(), words);
    }
}

impl Recorder for MetricsRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&self.counters, &key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&self.gauges, &key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&self.histograms, &key, unit, description);
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
