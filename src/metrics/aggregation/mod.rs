//! Arithmetic of sums and histograms, as plain state without locks and without a clock.

mod exponential;

use std::mem;
use std::sync::Arc;

use crate::record::HistogramPoint;
pub(crate) use exponential::ExponentialHistogram;

/// OpenTelemetry's default bounds, meant for milliseconds.
pub(crate) const DEFAULT_BOUNDS: [f64; 15] =
    [0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10000.0];

/// Bounds that OpenTelemetry's semantic conventions advise for durations in seconds.
pub(crate) const SECONDS_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

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
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeumaierSum {
    /// Starts as -0.0. It stays -0.0 only while nothing but -0.0 is added, so no flag is needed to tell an empty sum
    /// from a measured sum of 0.
    sum: f64,
    dropped: f64,
}

impl Default for NeumaierSum {
    fn default() -> Self {
        Self { sum: -0.0, dropped: 0.0 }
    }
}

impl NeumaierSum {
    /// Adds a finite value.
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
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
        self.sum == 0.0 && self.sum.is_sign_negative()
    }

    fn merge(&mut self, other: &Self) {
        if !other.is_empty() {
            self.add(other.sum);
            self.add(other.dropped);
        }
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

/// Counts values in buckets. A bucket excludes its lower bound and includes its upper bound. The first bucket
/// has no lower bound, and the last has no upper bound.
#[derive(Debug, Clone)]
pub(crate) struct ExplicitHistogram {
    bounds: Arc<[f64]>,
    /// One count for each bound, and one for values above the last bound.
    counts: Box<[u64]>,
    totals: Totals,
}

impl ExplicitHistogram {
    /// Returns the index of the bucket to which a value belongs.
    #[inline]
    pub(crate) fn bucket(bounds: &[f64], value: f64) -> usize {
        bounds.partition_point(|bound| *bound < value)
    }

    /// Counts a finite value `times` times, at least once, in its bucket.
    #[inline]
    pub(crate) fn record(&mut self, bucket: usize, value: f64, times: u64) {
        self.counts[bucket] = self.counts[bucket].saturating_add(times);
        self.totals.record(value, times);
    }

    pub(crate) fn point(&self) -> HistogramPoint<'_> {
        let Totals { count, sum, .. } = self.totals;
        let (min, max) = self.totals.extremes();
        HistogramPoint { count, sum: Some(sum.value()), min, max, bounds: &self.bounds, counts: &self.counts }
    }
}

impl Mergeable for ExplicitHistogram {
    /// Valid bounds.
    type Parameters = Arc<[f64]>;

    fn empty(bounds: &Arc<[f64]>) -> Self {
        let counts = vec![0; bounds.len() + 1].into();
        Self { bounds: Arc::clone(bounds), counts, totals: Totals::default() }
    }

    fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.totals.merge(&other.totals);
    }

    fn take(&mut self) -> Self {
        let empty = Self::empty(&self.bounds);
        mem::replace(self, empty)
    }
}

#[cfg(test)]
mod tests;
