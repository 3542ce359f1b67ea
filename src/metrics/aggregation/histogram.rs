//! A histogram with given bounds.

use std::sync::Arc;

use super::sum::Totals;
use crate::record::HistogramPoint;

/// OpenTelemetry's default bounds, meant for milliseconds.
pub(crate) const DEFAULT_BOUNDS: [f64; 15] =
    [0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10000.0];

/// What OpenTelemetry's semantic conventions advise for durations in seconds.
pub(crate) const SECONDS_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// More would make each point larger than it is worth.
const MOST_BOUNDS: usize = 1024;

/// Counts values by buckets. A bucket reaches from its lower bound, which does not belong to it, to its upper bound,
/// which does; the first and the last are open.
#[derive(Debug, Clone)]
pub(crate) struct ExplicitHistogram {
    bounds: Arc<[f64]>,
    /// One more than bounds.
    counts: Box<[u64]>,
    totals: Totals,
}

impl ExplicitHistogram {
    /// The bounds have passed [`check_bounds`].
    pub(crate) fn new(bounds: Arc<[f64]>) -> Self {
        let counts = vec![0; bounds.len() + 1].into();
        Self { bounds, counts, totals: Totals::default() }
    }

    /// Counts a value; false, and nothing is counted, if it is not finite.
    #[inline]
    pub(crate) fn record(&mut self, value: f64) -> bool {
        self.record_many(value, 1)
    }

    /// Counts a value `times` times.
    #[inline]
    pub(crate) fn record_many(&mut self, value: f64, times: u64) -> bool {
        if !value.is_finite() || times == 0 {
            return false;
        }
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] = self.counts[bucket].saturating_add(times);
        self.totals.record(value, times);
        true
    }

    /// Counts all that the other one has counted, which has the same bounds.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.totals.merge(&other.totals);
    }

    /// Gives what was counted so far and starts anew.
    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::new(Arc::clone(&self.bounds));
        std::mem::replace(self, empty)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    /// What was counted, to be written.
    pub(crate) fn point(&self) -> HistogramPoint<'_> {
        let Totals { count, sum, .. } = self.totals;
        let (min, max) = self.totals.extremes();
        HistogramPoint { count, sum: sum.value(), min, max, bounds: &self.bounds, counts: &self.counts }
    }
}

/// Checks bounds that a program asks for.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn check_bounds(bounds: &[f64]) -> Result<(), String> {
    if bounds.len() > MOST_BOUNDS {
        return Err(format!("{} bounds, {MOST_BOUNDS} are the most", bounds.len()));
    }
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Err(format!("a bound must be a finite number, not {bound}"));
    }
    match bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(format!("bounds must rise: {} is followed by {}", pair[0], pair[1])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
