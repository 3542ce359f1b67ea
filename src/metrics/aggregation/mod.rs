//! Arithmetic of sums and histograms, as plain state without locks and without a clock.

mod exponential;
mod histogram;

use std::mem;

pub(crate) use exponential::ExponentialHistogram;
pub(crate) use histogram::{DEFAULT_BOUNDS, ExplicitHistogram, SECONDS_BOUNDS, check_bounds};

/// State that can be kept in several parts and merged when it is read.
pub(crate) trait Mergeable: Clone {
    /// Parameters of an empty state.
    type Parameters;
    fn empty(parameters: &Self::Parameters) -> Self;
    fn is_empty(&self) -> bool;
    /// Adds everything that was added to `other`, which has the same parameters.
    fn merge(&mut self, other: &Self);
    /// Returns the state and leaves an empty one.
    fn take(&mut self) -> Self;
}

/// Sum of floats by Neumaier's method: the low bits that an addition drops are collected in a second number. Always
/// finite: saturates at the largest double of either sign.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NeumaierSum {
    sum: f64,
    dropped: f64,
}

impl NeumaierSum {
    /// Adds a finite value; NaN and infinities are ignored.
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        let sum = self.sum + value;
        if sum.is_infinite() {
            *self = Self { sum: f64::MAX.copysign(sum), dropped: 0.0 };
            return;
        }
        // The low bits that the smaller number loses in the addition.
        self.dropped +=
            if self.sum.abs() >= value.abs() { (self.sum - sum) + value } else { (value - sum) + self.sum };
        self.sum = sum;
    }

    #[inline]
    pub(crate) fn value(&self) -> f64 {
        (self.sum + self.dropped).clamp(f64::MIN, f64::MAX)
    }
}

impl Mergeable for NeumaierSum {
    type Parameters = ();

    fn empty((): &()) -> Self {
        Self::default()
    }

    fn is_empty(&self) -> bool {
        self.value() == 0.0
    }

    fn merge(&mut self, other: &Self) {
        self.add(other.sum);
        self.add(other.dropped);
    }

    fn take(&mut self) -> Self {
        mem::take(self)
    }
}

/// Count, sum, minimum and maximum.
#[derive(Debug, Clone, Copy)]
struct Totals {
    count: u64,
    sum: NeumaierSum,
    /// Infinity if there are no values, so that every value is smaller. `max` is negative infinity then.
    min: f64,
    max: f64,
}

impl Default for Totals {
    fn default() -> Self {
        Self { count: 0, sum: NeumaierSum::default(), min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Totals {
    /// Counts a finite value `times` times.
    #[inline]
    fn record(&mut self, value: f64, times: u64) {
        self.count = self.count.saturating_add(times);
        self.sum.add(match times {
            1 => value,
            _ => (value * times as f64).clamp(f64::MIN, f64::MAX),
        });
        self.reach(value, value);
    }

    /// Extends minimum and maximum to include these numbers, neither of which is NaN.
    #[inline]
    fn reach(&mut self, min: f64, max: f64) {
        // Comparisons, because `f64::min` does more work to handle NaN.
        self.min = if min < self.min { min } else { self.min };
        self.max = if max > self.max { max } else { self.max };
    }

    /// Returns minimum and maximum; `None` without values.
    fn extremes(&self) -> (Option<f64>, Option<f64>) {
        let known = |value| (self.count > 0).then_some(value);
        (known(self.min), known(self.max))
    }

    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum.merge(&other.sum);
        self.reach(other.min, other.max);
    }
}

#[cfg(test)]
mod tests;
