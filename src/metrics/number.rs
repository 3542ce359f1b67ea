//! The types that measurements can have.

use crate::record::Number;

/// A type that instruments measure in: `u64`, `i64` or `f64`.
pub trait Measure: sealed::ToNumber {}

impl<T: sealed::ToNumber> Measure for T {}

#[allow(private_interfaces, reason = "sealed: nobody outside can name or call what is in it")]
pub(super) mod sealed {
    use super::Number;

    pub trait ToNumber: Copy + Send + Sync + 'static {
        /// As the wire knows it; `None` for what is no measurement: NaN and the infinities.
        fn number(self) -> Option<Number>;
    }
}

#[allow(private_interfaces)]
impl sealed::ToNumber for u64 {
    #[inline]
    fn number(self) -> Option<Number> {
        // OTLP has no larger integer
        Some(Number::Int(i64::try_from(self).unwrap_or(i64::MAX)))
    }
}

#[allow(private_interfaces)]
impl sealed::ToNumber for i64 {
    #[inline]
    fn number(self) -> Option<Number> {
        Some(Number::Int(self))
    }
}

#[allow(private_interfaces)]
impl sealed::ToNumber for f64 {
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
