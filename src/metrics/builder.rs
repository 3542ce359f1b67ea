//! Instruments step by step: unit, description, buckets, limits.

use std::sync::Arc;

use super::handles::{Counter, Gauge, Histogram, UpDownCounter};
use super::instrument::{Description, Division, Instrument, Kind, Measured, Words};
use super::number::Measure;
use super::observe::{Observable, Observer};
use super::{Meter, Observation};
use crate::metrics::aggregation::check_bounds;

/// Series of an instrument, unless it is told otherwise.
const CARDINALITY: usize = 2000;
/// The longest name that the specification allows.
const LONGEST_NAME: usize = 255;

/// An instrument before it is made. From [`Meter::build`].
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let meter = telemetry.meter("shop");
/// let duration = meter.build("http.server.request.duration")
///     .unit("s")
///     .description("how long requests take")
///     .bounds(&[0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0])
///     .histogram();
/// duration.record(0.032, &[("http.route", "/checkout")]);
///
/// meter.build("process.uptime").unit("s").observe_gauge(|observer| observer.observe(12.5, ()));
/// ```
#[derive(Debug)]
#[must_use = "an instrument is made by counter(), gauge(), histogram() and their like"]
pub struct InstrumentBuilder<'a> {
    meter: &'a Meter,
    name: &'a str,
    unit: &'a str,
    description: &'a str,
    division: Option<Division>,
    limit: usize,
}

impl<'a> InstrumentBuilder<'a> {
    pub(super) fn new(meter: &'a Meter, name: &'a str) -> Self {
        Self { meter, name, unit: "", description: "", division: None, limit: CARDINALITY }
    }

    /// What it is measured in, by the Unified Code for Units of Measure: `s`, `By`, `{order}`.
    pub fn unit(mut self, unit: &'a str) -> Self {
        self.unit = unit;
        self
    }

    /// What it means, for people.
    pub fn description(mut self, description: &'a str) -> Self {
        self.description = description;
        self
    }

    /// Divides the values of a histogram at these bounds: each bucket ends with its bound, included. Bounds that are
    /// not finite or do not rise are told to [`Config::on_problem`](crate::Config::on_problem), and the default ones used.
    pub fn bounds(mut self, bounds: &[f64]) -> Self {
        match check_bounds(bounds) {
            Ok(()) => self.division = Some(Division::Explicit(bounds.into())),
            Err(why) => {
                self.meter
                    .registry
                    .ground
                    .complain(format!("metric {:?}: its bounds are not used: {why}", self.name));
            }
        }
        self
    }

    /// Divides the values of a histogram into at most 160 buckets of equal ratio, as fine as the values allow.
    pub fn exponential(mut self) -> Self {
        self.division = Some(Division::Exponential);
        self
    }

    /// The most sets of attributes it may have, 2000 unless set. What comes beyond is put together under
    /// `otel.metric.overflow`.
    pub fn cardinality_limit(mut self, most: usize) -> Self {
        self.limit = most;
        self
    }

    /// A sum that only rises.
    pub fn counter(self) -> Counter<u64> {
        Counter::new(self.make(Kind::Counter, Measured::Int))
    }

    /// A sum of fractions that only rises.
    pub fn counter_f64(self) -> Counter<f64> {
        Counter::new(self.make(Kind::Counter, Measured::Float))
    }

    /// A sum that rises and falls.
    pub fn up_down_counter(self) -> UpDownCounter<i64> {
        UpDownCounter::new(self.make(Kind::UpDownCounter, Measured::Int))
    }

    /// A sum of fractions that rises and falls.
    pub fn up_down_counter_f64(self) -> UpDownCounter<f64> {
        UpDownCounter::new(self.make(Kind::UpDownCounter, Measured::Float))
    }

    /// A value that is what it is.
    pub fn gauge(self) -> Gauge<f64> {
        Gauge::new(self.make(Kind::Gauge, Measured::Float))
    }

    /// A whole number that is what it is.
    pub fn gauge_i64(self) -> Gauge<i64> {
        Gauge::new(self.make(Kind::Gauge, Measured::Int))
    }

    /// A whole number, never negative, that is what it is.
    pub fn gauge_u64(self) -> Gauge<u64> {
        Gauge::new(self.make(Kind::Gauge, Measured::Int))
    }

    /// Values of which the distribution matters.
    pub fn histogram(self) -> Histogram<f64> {
        Histogram::new(self.make(Kind::Histogram, Measured::Float))
    }

    /// Whole numbers of which the distribution matters.
    pub fn histogram_u64(self) -> Histogram<u64> {
        Histogram::new(self.make(Kind::Histogram, Measured::Int))
    }

    /// A sum that only rises and is kept elsewhere: the callback says how far it is.
    pub fn observe_counter(
        self,
        callback: impl Fn(&mut Observer<'_, u64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::Counter, Measured::Int, callback)
    }

    /// The same for a sum of fractions.
    pub fn observe_counter_f64(
        self,
        callback: impl Fn(&mut Observer<'_, f64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::Counter, Measured::Float, callback)
    }

    /// A sum that rises and falls and is kept elsewhere: the callback says what it is.
    pub fn observe_up_down_counter(
        self,
        callback: impl Fn(&mut Observer<'_, i64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::UpDownCounter, Measured::Int, callback)
    }

    /// The same for a sum of fractions.
    pub fn observe_up_down_counter_f64(
        self,
        callback: impl Fn(&mut Observer<'_, f64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::UpDownCounter, Measured::Float, callback)
    }

    /// A value that is looked up when it is needed: the callback says what it is.
    pub fn observe_gauge(
        self,
        callback: impl Fn(&mut Observer<'_, f64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::Gauge, Measured::Float, callback)
    }

    /// The same for a whole number.
    pub fn observe_gauge_i64(
        self,
        callback: impl Fn(&mut Observer<'_, i64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::Gauge, Measured::Int, callback)
    }

    /// The same for a whole number that is never negative.
    pub fn observe_gauge_u64(
        self,
        callback: impl Fn(&mut Observer<'_, u64>) + Send + Sync + 'static,
    ) -> Observation {
        self.observe(Kind::Gauge, Measured::Int, callback)
    }

    fn make(self, kind: Kind, measured: Measured) -> Arc<Instrument> {
        let description = self.describe(kind, measured);
        let (registry, scope) = (&self.meter.registry, &self.meter.scope);
        registry.instrument(scope, description)
    }

    fn observe<N: Measure>(
        self,
        kind: Kind,
        measured: Measured,
        callback: impl Fn(&mut Observer<'_, N>) + Send + Sync + 'static,
    ) -> Observation {
        let description = self.describe(kind, measured);
        let (registry, scope) = (&self.meter.registry, &self.meter.scope);
        let observable =
            Arc::new(Observable::new(description, Arc::clone(scope), &registry.ground, callback));
        registry.observe(Arc::clone(&observable));
        Observation { observable, registry: Arc::clone(registry) }
    }

    fn describe(&self, kind: Kind, measured: Measured) -> Description {
        if !is_proper(self.name) {
            let advice = "letters, digits and _ . - / after a letter, at most 255";
            let what = format!("metric {:?} is not named as the specification says: {advice}", self.name);
            self.meter.registry.ground.complain(what);
        }
        Description {
            name: self.name.to_owned(),
            words: Words { unit: self.unit.to_owned(), description: self.description.to_owned() },
            kind,
            measured,
            division: self.division.clone().filter(|_| kind == Kind::Histogram),
            limit: self.limit,
        }
    }
}

/// Names of another kind are sent as they are, but collectors may not like them.
fn is_proper(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    name.len() <= LONGEST_NAME
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && name.bytes().all(is_part)
}
