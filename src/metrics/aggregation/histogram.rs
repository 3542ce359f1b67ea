//! The histogram with explicit bucket bounds.

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::{Mergeable, Totals};
use crate::record::HistogramPoint;

/// OpenTelemetry's default bounds, meant for milliseconds.
pub(crate) const DEFAULT_BOUNDS: [f64; 15] =
    [0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10000.0];

/// Bounds that OpenTelemetry's semantic conventions advise for durations in seconds.
pub(crate) const SECONDS_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Maximum number of bounds. It limits the size of a data point.
const MAX_BOUNDS: usize = 1024;

/// Counts values in buckets. A bucket excludes its lower bound and includes its upper bound. The first and the last
/// bucket are unbounded.
#[derive(Debug, Clone)]
pub(crate) struct ExplicitHistogram {
    bounds: Arc<[f64]>,
    /// One count for each bound, and one more.
    counts: Box<[u64]>,
    totals: Totals,
}

impl ExplicitHistogram {
    /// Counts a value. Returns false without effect if the value is not finite.
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

    pub(crate) fn point(&self) -> HistogramPoint<'_> {
        let Totals { count, sum, .. } = self.totals;
        let (min, max) = self.totals.extremes();
        HistogramPoint { count, sum: sum.value(), min, max, bounds: &self.bounds, counts: &self.counts }
    }
}

impl Mergeable for ExplicitHistogram {
    /// Bounds that have passed [`check_bounds`].
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

/// Checks bounds that the program has set.
///
/// # Errors
/// Returns an error if there are too many bounds, one is not finite, or they do not rise.
pub(crate) fn check_bounds(bounds: &[f64]) -> Result<(), BoundsError> {
    if bounds.len() > MAX_BOUNDS {
        return Err(BoundsError::TooMany(bounds.len()));
    }
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Err(BoundsError::NotFinite(*bound));
    }
    match bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(BoundsError::NotRising(pair[0], pair[1])),
        None => Ok(()),
    }
}

/// The reason why bounds are invalid.
#[derive(Debug, PartialEq)]
pub(crate) enum BoundsError {
    TooMany(usize),
    NotFinite(f64),
    NotRising(f64, f64),
}

impl Error for BoundsError {}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(count) => write!(f, "{count} bounds exceed the maximum of {MAX_BOUNDS}"),
            Self::NotFinite(bound) => write!(f, "a bound must be a finite number, not {bound}"),
            Self::NotRising(one, next) => write!(f, "bounds must rise: {one} is followed by {next}"),
        }
    }
}

#[cfg(test)]
mod tests;
