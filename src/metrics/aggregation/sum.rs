//! What every histogram adds up beside its buckets, and a sum of doubles that keeps what rounding would lose.

/// Adds by Neumaier's method: the low bits that an addition drops are gathered beside the sum. Always finite: where
/// it would overflow, it stays at the largest double of that sign.
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
        // what the smaller one lost by being added to the larger one
        self.dropped +=
            if self.sum.abs() >= value.abs() { (self.sum - sum) + value } else { (value - sum) + self.sum };
        self.sum = sum;
    }

    /// Adds all that was added to the other one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.add(other.sum);
        self.add(other.dropped);
    }

    #[inline]
    pub(crate) fn value(&self) -> f64 {
        (self.sum + self.dropped).clamp(f64::MIN, f64::MAX)
    }
}

/// Count, sum, least and greatest value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) count: u64,
    pub(super) sum: NeumaierSum,
    /// Without values, infinite: above all of them, as `max` is below.
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Default for Totals {
    fn default() -> Self {
        Self { count: 0, sum: NeumaierSum::default(), min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Totals {
    /// Counts a finite value `times` times.
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

#[cfg(test)]
mod tests;
