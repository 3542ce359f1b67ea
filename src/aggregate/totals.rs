//! What both kinds of histograms know beside their buckets.

use super::Compensated;

/// Count, sum, least and greatest value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) count: u64,
    pub(super) sum: Compensated,
    /// Without values, infinite: above all of them, as `max` is below.
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Default for Totals {
    fn default() -> Self {
        Self { count: 0, sum: Compensated::default(), min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Totals {
    /// Counts a finite value so many times.
    #[inline]
    pub(super) fn record(&mut self, value: f64, times: u64) {
        self.count = self.count.saturating_add(times);
        self.sum.add((value * times as f64).clamp(f64::MIN, f64::MAX));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The least and the greatest value, if there is any.
    pub(super) fn extremes(&self) -> (Option<f64>, Option<f64>) {
        let known = |value| (self.count > 0).then_some(value);
        (known(self.min), known(self.max))
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum.merge(&other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}
