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
        self.sum.add(match times {
            1 => value,
            _ => (value * times as f64).clamp(f64::MIN, f64::MAX),
        });
        self.reach(value, value);
    }

    /// Stretches the extremes to these; neither is NaN.
    #[inline]
    fn reach(&mut self, min: f64, max: f64) {
        // by hand, as there is no NaN to look for
        self.min = if min < self.min { min } else { self.min };
        self.max = if max > self.max { max } else { self.max };
    }

    /// The least and the greatest value, if there is any.
    pub(super) fn extremes(&self) -> (Option<f64>, Option<f64>) {
        let known = |value| (self.count > 0).then_some(value);
        (known(self.min), known(self.max))
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum.merge(&other.sum);
        self.reach(other.min, other.max);
    }
}
