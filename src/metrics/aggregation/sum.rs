//! A sum of doubles that keeps what rounding would lose.

/// Adds by Neumaier's method: the low bits that an addition drops are gathered beside the sum. Always finite: where
/// it would overflow, it stays at the largest double of that sign.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Compensated {
    sum: f64,
    dropped: f64,
}

impl Compensated {
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

#[cfg(test)]
mod tests;
