//! Pure: many measurements become one data point. Sums and histograms as plain state, without locks and without a clock.

mod exponential;
mod histogram;
mod sum;

pub(crate) use exponential::ExponentialHistogram;
pub(crate) use histogram::{DEFAULT_BOUNDS, ExplicitHistogram, SECONDS_BOUNDS, check_bounds};
pub(crate) use sum::NeumaierSum;

#[cfg(test)]
mod tests;
