//! The instruments of the public API (counters, gauges and histograms), their bound forms with fixed attributes, and
//! the numbers and attributes that they accept.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::instrument::Instrument;
use super::storage::{BoundSeries, BoundStream};
use crate::process::PerProcess;
use crate::record::{Number, Value};
use sealed::{Pair, Pairs, ToNumber};

/// A sum that only rises: requests, bytes, orders. From [`Meter::counter`](crate::Meter::counter).
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let orders = telemetry.meter("shop").counter("orders");
/// orders.add(1, &[("shop.country", "SE")]);
/// ```
#[derive(Debug)]
#[must_use = "an instrument measures nothing by itself"]
pub struct Counter<N = u64>(Handle<N>);

/// A sum that rises and falls: open connections, items in a queue. From
/// [`Meter::up_down_counter`](crate::Meter::up_down_counter).
#[derive(Debug)]
#[must_use = "an instrument measures nothing by itself"]
pub struct UpDownCounter<N = i64>(Handle<N>);

/// A current value, such as a temperature or a setting. The last recorded value counts. From
/// [`Meter::gauge`](crate::Meter::gauge).
#[derive(Debug)]
#[must_use = "an instrument measures nothing by itself"]
pub struct Gauge<N = f64>(Handle<N>);

/// The distribution of values, such as durations or sizes. From [`Meter::histogram`](crate::Meter::histogram).
#[derive(Debug)]
#[must_use = "an instrument measures nothing by itself"]
pub struct Histogram<N = f64>(Handle<N>);

/// A [`Counter`] with fixed attributes, for hot code.
#[derive(Debug)]
#[must_use = "a bound instrument measures nothing by itself"]
pub struct BoundCounter<N = u64>(Bound<N>);

/// An [`UpDownCounter`] with fixed attributes, for hot code.
#[derive(Debug)]
#[must_use = "a bound instrument measures nothing by itself"]
pub struct BoundUpDownCounter<N = i64>(Bound<N>);

/// A [`Gauge`] with fixed attributes, for hot code.
#[derive(Debug)]
#[must_use = "a bound instrument measures nothing by itself"]
pub struct BoundGauge<N = f64>(Bound<N>);

/// A [`Histogram`] with fixed attributes, for hot code.
#[derive(Debug)]
#[must_use = "a bound instrument measures nothing by itself"]
pub struct BoundHistogram<N = f64>(Bound<N>);

macro_rules! handles {
    ($($handle:ident $bound:ident $verb:ident $check:ident $doc:literal)*) => {
        $(
            impl<N: Measure> $handle<N> {
                pub(super) fn new(instrument: Arc<Instrument>) -> Self {
                    Self(Handle { instrument, measure: PhantomData })
                }

                #[doc = $doc]
                #[inline]
                pub fn $verb(&self, value: N, attributes: impl Attributes) {
                    if let Some(bits) = self.0.$check(value) {
                        attributes.with(|pairs| self.0.update(bits, pairs));
                    }
                }

                /// Returns whether a measurement has an effect: an exporter sends metrics, and the views do not
                /// [drop](crate::View::drop) this metric. Check this before you compute an expensive value.
                pub fn enabled(&self) -> bool {
                    !self.0.instrument.descriptor.streams.is_empty()
                }

                /// Returns the instrument with fixed attributes, so that measurements need no lookup.
                pub fn with(&self, attributes: impl Attributes) -> $bound<N> {
                    $bound(self.0.bind(attributes))
                }
            }

            impl<N: Measure> $bound<N> {
                #[doc = $doc]
                #[inline]
                pub fn $verb(&self, value: N) {
                    if let Some(bits) = self.0.handle.$check(value) {
                        self.0.on_series(|series| series.update(bits));
                    }
                }
            }

            impl<N> Clone for $handle<N> {
                fn clone(&self) -> Self {
                    Self(Handle { instrument: Arc::clone(&self.0.instrument), measure: PhantomData })
                }
            }
        )*
    };
}

handles! {
    Counter BoundCounter add rising
        "Adds to the sum. Negative values, NaN and infinities are ignored and reported to [`Config::on_problem`](crate::Config::on_problem)."
    UpDownCounter BoundUpDownCounter add any
        "Adds a value, which may be negative. NaN and infinities are ignored and reported to [`Config::on_problem`](crate::Config::on_problem)."
    Gauge BoundGauge record any
        "Sets the value. NaN and infinities are ignored and reported to [`Config::on_problem`](crate::Config::on_problem)."
    Histogram BoundHistogram record recordable
        "Records a value. NaN and infinities are ignored and reported to [`Config::on_problem`](crate::Config::on_problem)."
}

struct Handle<N> {
    instrument: Arc<Instrument>,
    measure: PhantomData<fn(N)>,
}

impl<N: Measure> Handle<N> {
    /// Converts a value to the bits that the aggregators of the instrument use. If the value is not a valid
    /// measurement, reports it and returns `None`.
    #[inline]
    fn any(&self, value: N) -> Option<u64> {
        self.number(value).map(|number| match number {
            Number::Int(value) => value as u64,
            Number::Float(value) => value.to_bits(),
        })
    }

    /// Like [`any`](Self::any), for a sum that only rises: a negative value is not valid.
    #[inline]
    fn rising(&self, value: N) -> Option<u64> {
        if is_negative(self.number(value)?) {
            self.refuse("negative");
            return None;
        }
        self.any(value)
    }

    /// Like [`any`](Self::any), for histograms, which count floats.
    #[inline]
    fn recordable(&self, value: N) -> Option<u64> {
        self.number(value).map(|number| match number {
            Number::Int(value) => (value as f64).to_bits(),
            Number::Float(value) => value.to_bits(),
        })
    }

    #[inline]
    fn number(&self, value: N) -> Option<Number> {
        let number = value.number();
        if number.is_none() {
            self.refuse("NaN or infinite");
        }
        number
    }

    // The number of pairs is usually constant at the call site, so the compiler keeps only one of these calls.
    #[inline(always)]
    fn update(&self, bits: u64, pairs: &[Pair<'_>]) {
        match pairs.len() {
            0 => self.instrument.update_bare(bits),
            1 => self.update_few::<1>(bits, pairs),
            2 => self.update_few::<2>(bits, pairs),
            3 => self.update_few::<3>(bits, pairs),
            4 => self.update_few::<4>(bits, pairs),
            _ => self.instrument.update(bits, pairs),
        }
    }

    #[inline(always)]
    fn update_few<const COUNT: usize>(&self, bits: u64, pairs: &[Pair<'_>]) {
        if let Ok(pairs) = pairs.try_into() {
            self.instrument.update_few::<COUNT>(bits, pairs);
        }
    }

    #[cold]
    fn refuse(&self, what: &str) {
        if self.instrument.has_refused.swap(true, Ordering::Relaxed) {
            return;
        }
        self.instrument.shared.report_misuse(self.instrument.descriptor.refusal(what));
    }

    fn bind(&self, attributes: impl Attributes) -> Bound<N> {
        let series = attributes.with(|pairs| self.instrument.bind(pairs));
        let handle = Handle { instrument: Arc::clone(&self.instrument), measure: PhantomData };
        Bound { series: PerProcess::new(series), handle }
    }
}

impl<N> fmt::Debug for Handle<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.instrument.descriptor.name).finish()
    }
}

struct Bound<N> {
    series: PerProcess<BoundSeries>,
    handle: Handle<N>,
}

impl<N> Bound<N> {
    #[inline]
    fn on_series(&self, update: impl Fn(&BoundStream)) {
        match self.series.original().map(|series| &*series.0) {
            // Fast path: most programs have one exporter of metrics.
            Some([only]) => update(only),
            _ => self.on_all_series(update),
        }
    }

    #[inline(never)]
    fn on_all_series(&self, update: impl Fn(&BoundStream)) {
        let instrument = &self.handle.instrument;
        let series = self.series.get_or_renew(|| instrument.bind_in_child(self.series.inherited()));
        series.0.iter().for_each(update);
    }
}

impl<N> fmt::Debug for Bound<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// The type of a measurement: `u64`, `i64` or `f64`.
pub trait Measure: ToNumber {}

impl<T: ToNumber> Measure for T {}

/// The attributes of a measurement: a borrowed array of up to 32 pairs; `&[]` or `()` for none.
///
/// A slice of `(&str, Value)` of any length is accepted as well, for attributes that are assembled at run time. All
/// values of an array have one type; for mixed types, use [`Value`]s. The order of the pairs does not matter. If a key
/// is given twice, the last value counts.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// use standpipe::Value;
///
/// let orders = telemetry.meter("shop").counter("orders");
/// orders.add(1, &[]);
/// orders.add(1, &[("shop.country", "SE"), ("shop.kind", "web")]);
/// orders.add(1, &[("shop.country", Value::from("SE")), ("express", true.into())]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of attributes",
    label = "write `&[(\"key\", value)]`, or `&[]` for none",
    note = "values of one array have one type; for a mix write `&[(\"a\", Value::from(1)), (\"b\", \"x\".into())]`"
)]
pub trait Attributes: sealed::Pairs {}

impl Attributes for () {}
impl<'a> Attributes for &[(&'a str, Value<'a>)] {}
impl Attributes for &[(); 0] {}

#[allow(
    private_interfaces,
    reason = "sealed: code outside of the crate can neither name nor call what is in it"
)]
pub(super) mod sealed {
    use super::{Number, Value};

    /// One attribute, borrowed.
    pub(crate) type Pair<'a> = (&'a str, Value<'a>);

    pub trait Pairs {
        /// Calls `take` with the pairs. Arrays and slices need no allocation.
        fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R;
    }

    pub trait ToNumber: Copy + Send + Sync + 'static {
        /// Returns the number in OTLP's representation; `None` for NaN and infinities, which are not valid
        /// measurements.
        fn number(self) -> Option<Number>;
    }
}

impl Pairs for () {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(&[])
    }
}

impl<'a> Pairs for &[Pair<'a>] {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(self)
    }
}

impl Pairs for &[(); 0] {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(&[])
    }
}

// One implementation per length, not a const generic: then `[(); 0]` is the only array of length 0 that implements
// `Pairs`, so the compiler can infer the type of `&[]`.
macro_rules! arrays {
    ($($len:literal)*) => {
        $(
            impl<'a, V: Copy + Into<Value<'a>>> Attributes for &[(&'a str, V); $len] {}

            impl<'a, V: Copy + Into<Value<'a>>> Pairs for &[(&'a str, V); $len] {
                #[inline]
                fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
                    take(&self.map(|(key, value)| (key, value.into())))
                }
            }
        )*
    };
}

arrays!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

#[allow(private_interfaces)]
impl ToNumber for u64 {
    #[inline]
    fn number(self) -> Option<Number> {
        // OTLP has no larger integer.
        Some(Number::Int(i64::try_from(self).unwrap_or(i64::MAX)))
    }
}

#[allow(private_interfaces)]
impl ToNumber for i64 {
    #[inline]
    fn number(self) -> Option<Number> {
        Some(Number::Int(self))
    }
}

#[allow(private_interfaces)]
impl ToNumber for f64 {
    #[inline]
    fn number(self) -> Option<Number> {
        self.is_finite().then_some(Number::Float(self))
    }
}

pub(super) fn is_negative(number: Number) -> bool {
    match number {
        Number::Int(value) => value < 0,
        Number::Float(value) => value < 0.0,
    }
}

/// Adds two numbers of the same instrument, which therefore have the same type.
pub(super) fn sum(one: Number, other: Number) -> Number {
    match (one, other) {
        (Number::Int(one), Number::Int(other)) => Number::Int(one.saturating_add(other)),
        (Number::Float(one), Number::Float(other)) => Number::Float((one + other).clamp(f64::MIN, f64::MAX)),
        (_, other) => other,
    }
}

/// Returns the increase of a counter. A counter that decreased was restarted from zero.
pub(super) fn difference(now: Number, before: Option<Number>) -> Number {
    match (now, before) {
        (Number::Int(now), Some(Number::Int(before))) if now >= before => {
            Number::Int(now.saturating_sub(before))
        }
        (Number::Float(now), Some(Number::Float(before))) if now >= before => {
            Number::Float((now - before).min(f64::MAX))
        }
        _ => now,
    }
}

/// Operations that only the bridge of the `metrics` crate uses.
#[cfg(feature = "metrics")]
impl BoundGauge<f64> {
    /// Adds to the value, which starts at zero. Concurrent additions are all counted.
    pub(crate) fn shift(&self, by: f64) {
        if self.0.handle.any(by).is_some() {
            self.0.on_series(|series| series.update_by(|aggregator| aggregator.shift(by)));
        }
    }
}

#[cfg(feature = "metrics")]
impl BoundHistogram<f64> {
    /// Records a value `times` times, at the cost of one measurement.
    pub(crate) fn record_many(&self, value: f64, times: u64) {
        if self.0.handle.any(value).is_some() {
            self.0.on_series(|series| {
                series.update_by(|aggregator| {
                    (times > 0).then(|| aggregator.record_many(value, times))?;
                    Some(value.to_bits())
                });
            });
        }
    }
}
