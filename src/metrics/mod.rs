//! Instruments, whose measurements are aggregated in place and sent once per interval.
//!
//! A [`Meter`] makes instruments: a [`Counter`] adds up, an [`UpDownCounter`] rises and falls, a [`Gauge`] has a last
//! value, and a [`Histogram`] counts values in buckets. [`Meter::build`] sets unit, description, buckets and limits,
//! and makes observable instruments, whose callback is called by every collection.
//!
//! ```
//! # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
//! let meter = telemetry.meter("shop");
//!
//! let requests = meter.counter("http.requests");
//! requests.add(1, &[("http.request.method", "GET")]);
//!
//! let duration = meter.build("http.server.request.duration").unit("s").histogram();
//! duration.record(0.042, &[("http.request.method", "GET")]);
//!
//! meter.build("queue.length").observe_gauge(|observer| observer.observe(3.0, ()));
//! ```

// How measurements become data points:
//
// ```text
//  caller                               │ worker, once per interval
//  Counter::add ─► series ─► aggregator │
//  Histogram::record …  (no queue)      ├─► collect ─► record::MetricRecord ─► batch …
//                      callback ◄───────┤
// ```
//
// A measurement does not cross the queue: it is aggregated where it is made, and the worker of each exporter collects
// once per interval.
//
// - `builder` and `handles`: the public instruments, and the measurements that they accept.
// - `registry` finds an instrument by its name; `instrument` holds its descriptor and its storages.
// - `stream`: one metric of an instrument for one exporter, after the views are applied.
// - `storage`: the series of a stream, cumulative or delta; `table` finds the series of a set of attributes.
// - `aggregator`: the state of a series, shared by threads; `aggregation`: the arithmetic.
// - `reservoir`: the exemplars of a series.
// - `observable`: instruments with a callback; `collection`: the pass over all instruments.

mod aggregation;
mod aggregator;
mod builder;
mod collection;
mod handles;
mod instrument;
mod observable;
mod registry;
mod reservoir;
mod storage;
mod stream;
mod table;

use std::fmt;
use std::sync::Arc;

pub use builder::InstrumentBuilder;
pub(crate) use collection::{Collected, Reader, SinkStatus};
#[cfg(feature = "ffi")]
pub(crate) use handles::sealed::{Pair, Pairs};
pub use handles::{
    Attributes, BoundCounter, BoundGauge, BoundHistogram, BoundUpDownCounter, Counter, Gauge, Histogram,
    Measure, UpDownCounter,
};
#[cfg(feature = "metrics")]
pub(crate) use instrument::{LateMetadata, Metadata};
use observable::Observable;
pub use observable::Observer;
pub(crate) use registry::Registry;

use crate::record::Scope;

/// Makes the instruments of one scope. From [`Telemetry::meter`](crate::Telemetry::meter). Cheap to clone and to
/// share.
///
/// Two calls with the same name return the same instrument. In hot code, create an instrument once and keep it.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let meter = telemetry.meter("shop");
/// let orders = meter.counter("orders");
/// orders.add(1, &[("shop.country", "SE")]);
///
/// let swedish = orders.with(&[("shop.country", "SE")]); // nothing left to look up
/// swedish.add(1);
///
/// meter.histogram("order.total").record(49.5, ());
/// meter.build("room.temperature").unit("Cel").gauge().record(21.5, ());
/// ```
#[derive(Clone)]
pub struct Meter {
    registry: Arc<Registry>,
    scope: Arc<Scope>,
}

impl Meter {
    pub(crate) fn new(registry: Arc<Registry>, scope: Arc<Scope>) -> Self {
        Self { registry, scope }
    }

    /// Makes a counter: a sum that only rises.
    pub fn counter(&self, name: &str) -> Counter<u64> {
        self.build(name).counter()
    }

    /// Makes an up-down counter: a sum that rises and falls.
    pub fn up_down_counter(&self, name: &str) -> UpDownCounter<i64> {
        self.build(name).up_down_counter()
    }

    /// Makes a gauge: the last recorded value counts.
    pub fn gauge(&self, name: &str) -> Gauge<f64> {
        self.build(name).gauge()
    }

    /// Makes a histogram: the distribution of the recorded values.
    pub fn histogram(&self, name: &str) -> Histogram<f64> {
        self.build(name).histogram()
    }

    /// Returns whether any exporter exports metrics.
    #[cfg(feature = "metrics")]
    pub(crate) fn is_of_use(&self) -> bool {
        !self.registry.shared.readers.is_empty()
    }

    /// Returns a builder for an instrument with a unit, a description, bounds, or a callback.
    pub fn build<'a>(&'a self, name: &'a str) -> InstrumentBuilder<'a> {
        InstrumentBuilder::new(self, name)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("scope", &self.scope.name).finish_non_exhaustive()
    }
}

/// A registered callback. Every collection calls it, until [`stop`](Self::stop) or the end of the telemetry. Dropping
/// this value does not unregister the callback.
#[derive(Debug)]
pub struct Observation {
    observable: Arc<Observable>,
    registry: Arc<Registry>,
}

impl Observation {
    /// Unregisters the callback. A call that is under way completes.
    pub fn stop(self) {
        self.registry.unregister(&self.observable);
    }
}
