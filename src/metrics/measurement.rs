//! What is measured: a value of one of three number types, and the attributes it was measured under.

use crate::record::{Number, Value};
use sealed::{Pair, Pairs, ToNumber};

/// A type that instruments measure in: `u64`, `i64` or `f64`.
pub trait Measure: ToNumber {}

impl<T: ToNumber> Measure for T {}

/// The attributes of a measurement: a borrowed array of pairs, or `()` for none.
///
/// A slice of `(&str, Value)` does as well, for attributes that are put together at run time. All values of an array have
/// one type; for a mix of types spell out [`Value`]s. The order of the pairs does not
/// matter, and of a key that is given twice the last value counts.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// use standpipe::Value;
///
/// let orders = telemetry.meter("shop").counter("orders");
/// orders.add(1, ());
/// orders.add(1, &[("shop.country", "SE"), ("shop.kind", "web")]);
/// orders.add(1, &[("shop.country", Value::from("SE")), ("express", true.into())]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of attributes",
    label = "write `&[(\"key\", value)]`, or `()` for none",
    note = "values of one array have one type; for a mix write `&[(\"a\", Value::from(1)), (\"b\", \"x\".into())]`"
)]
pub trait Attributes: sealed::Pairs {}

impl Attributes for () {}
impl<'a> Attributes for &[(&'a str, Value<'a>)] {}
impl<'a, V: Copy + Into<Value<'a>>, const COUNT: usize> Attributes for &[(&'a str, V); COUNT] {}

#[allow(
    private_interfaces,
    reason = "sealed: code outside of the crate can neither name nor call what is in it"
)]
pub(super) mod sealed {
    use super::{Number, Value};

    /// One attribute, borrowed.
    pub(crate) type Pair<'a> = (&'a str, Value<'a>);

    pub trait Pairs {
        /// Calls `take` with the pairs, without an allocation.
        fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R;
    }

    pub trait ToNumber: Copy + Send + Sync + 'static {
        /// As OTLP has it; `None` for NaN and the infinities, which are no measurements.
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

impl<'a, V: Copy + Into<Value<'a>>, const COUNT: usize> Pairs for &[(&'a str, V); COUNT] {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(&self.map(|(key, value)| (key, value.into())))
    }
}

#[allow(private_interfaces)]
impl ToNumber for u64 {
    #[inline]
    fn number(self) -> Option<Number> {
        // OTLP has no larger integer
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

/// Two numbers of one instrument, which are of one type.
pub(super) fn sum(one: Number, other: Number) -> Number {
    match (one, other) {
        (Number::Int(one), Number::Int(other)) => Number::Int(one.saturating_add(other)),
        (Number::Float(one), Number::Float(other)) => Number::Float((one + other).clamp(f64::MIN, f64::MAX)),
        (_, other) => other,
    }
}

/// How far a counter went; one that went back was started anew.
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
