//! What only the instruments of the `metrics` crate do to a series.

use std::sync::atomic::Ordering;

use super::{Cell, Latest};

impl Cell {
    /// Moves a gauge of floats away from where it is, which is zero at first.
    pub(in crate::metrics) fn shift(&self, by: f64) {
        if let Self::FloatGauge(latest) = self {
            latest.shift(by);
        }
    }

    /// Takes a value into a histogram so many times.
    pub(in crate::metrics) fn record_many(&self, value: f64, times: u64) {
        match self {
            Self::Explicit(histogram) => histogram.with(|histogram| _ = histogram.record_many(value, times)),
            Self::Exponential(histogram) => {
                histogram.with(|histogram| _ = histogram.record_many(value, times));
            }
            _ => {}
        }
    }
}

impl Latest {
    fn shift(&self, by: f64) {
        // at the end of the scale it stays there
        let shifted = |bits| Some((f64::from_bits(bits) + by).clamp(f64::MIN, f64::MAX).to_bits());
        let _ = self.bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shifted);
        self.is_set.store(true, Ordering::Release);
    }
}
