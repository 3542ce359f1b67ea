//! What only the instruments of the `metrics` crate can do.

use super::{BoundGauge, BoundHistogram, Counter, Gauge, Handle, Histogram};
use crate::metrics::instrument::Words;
use crate::process;

impl BoundGauge<f64> {
    /// Moves the value, which is zero at first; exact, however many threads do it.
    pub(crate) fn shift(&self, by: f64) {
        if self.0.handle.any(by).is_some() {
            self.0.on_cells(|cell| cell.shift(by));
        }
    }
}

impl BoundHistogram<f64> {
    /// Takes a value in so many times, at the price of one.
    pub(crate) fn record_many(&self, value: f64, times: u64) {
        if self.0.handle.any(value).is_some() {
            self.0.on_cells(|cell| cell.record_many(value, times));
        }
    }
}

macro_rules! described {
    ($($handle:ident)*) => {
        $(
            impl<N> $handle<N> {
                /// Says what it measures in and what it means, from the next collection on. What was said first counts.
                pub(crate) fn describe(&self, unit: &str, description: &str) {
                    self.0.describe(unit, description);
                }
            }
        )*
    };
}

described! { Counter Gauge Histogram }

impl<N> Handle<N> {
    fn describe(&self, unit: &str, description: &str) {
        let words = Words { unit: unit.to_owned(), description: description.to_owned() };
        process::with_fork_lock(|| _ = self.instrument.late_words.set(words));
    }
}
