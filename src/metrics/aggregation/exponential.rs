//! The exponential histogram of OpenTelemetry: bucket bounds are powers of a base, which is chosen as small as the
//! values allow.

use super::{Mergeable, Totals};
use crate::record::{BucketsView, ExponentialLimits, ExponentialPoint};

/// Highest scale, at which adjacent bounds differ by less than a millionth.
const MAX_SCALE: i32 = 20;
/// Default maximum number of buckets of each sign: 160. With it, the scale never falls below -4: there, a bucket covers
/// 16 powers of two, so 132 buckets are enough for all doubles. With a maximum of two, it never falls below -11.
const USUAL_BUCKETS: usize = ExponentialLimits::DEFAULT.buckets as usize;

/// Counts values in buckets of base `2^(2^-scale)`: bucket `i` is `(base^i, base^(i+1)]`. Negative values have separate
/// buckets by their absolute value, and zeros have one bucket.
#[derive(Debug, Clone)]
pub(crate) struct ExponentialHistogram {
    limits: ExponentialLimits,
    scale: i32,
    zeros: u64,
    positive: Buckets,
    negative: Buckets,
    totals: Totals,
}

impl ExponentialHistogram {
    /// Counts a finite value `times` times, at least once.
    #[inline]
    pub(crate) fn record(&mut self, value: f64, times: u64) {
        self.totals.record(value, times);
        if value == 0.0 {
            self.zeros = self.zeros.saturating_add(times);
            return;
        }
        let mut index = index(value.abs(), self.scale);
        let buckets = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        let coarser = Range::one(index).joined(buckets.range()).steps_to_fit(self.limits.buckets);
        if coarser > 0 {
            self.coarsen(coarser);
            index >>= coarser;
        }
        let buckets = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        buckets.add(index, times);
    }

    pub(crate) fn point(&self) -> ExponentialPoint<'_> {
        let Totals { count, sum, .. } = self.totals;
        let (min, max) = self.totals.extremes();
        ExponentialPoint {
            count,
            sum: Some(sum.value()),
            min,
            max,
            scale: self.scale,
            zero_count: self.zeros,
            zero_threshold: 0.0,
            positive: self.positive.view(),
            negative: self.negative.view(),
        }
    }

    /// Lowers the scale. Each step merges pairs of adjacent buckets.
    fn coarsen(&mut self, steps: i32) {
        self.scale -= steps;
        self.positive.coarsen(steps);
        self.negative.coarsen(steps);
    }
}

impl Mergeable for ExponentialHistogram {
    type Parameters = ExponentialLimits;

    fn empty(limits: &ExponentialLimits) -> Self {
        Self {
            limits: *limits,
            scale: limits.scale,
            zeros: 0,
            positive: Buckets::default(),
            negative: Buckets::default(),
            totals: Totals::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    fn merge(&mut self, other: &Self) {
        let scale = self.scale.min(other.scale);
        let joined = |mine: &Buckets, theirs: &Buckets| {
            let mine = mine.range().map(|range| range.coarser(self.scale - scale));
            let theirs = theirs.range().map(|range| range.coarser(other.scale - scale));
            mine.map_or(theirs, |range| Some(range.joined(theirs)))
        };
        let sides = [joined(&self.positive, &other.positive), joined(&self.negative, &other.negative)];
        let steps = |range: Range| range.steps_to_fit(self.limits.buckets);
        let steps = sides.into_iter().flatten().map(steps).max().unwrap_or(0);
        self.coarsen(self.scale - scale + steps);
        let coarser = other.scale - self.scale;
        self.positive.merge(&other.positive, coarser);
        self.negative.merge(&other.negative, coarser);
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.totals.merge(&other.totals);
    }

    /// Returns the state and leaves an empty one with the same capacity, so that later values need no allocation.
    fn take(&mut self) -> Self {
        let (positive, negative) = (self.positive.emptied(), self.negative.emptied());
        let empty = Self { positive, negative, ..Self::empty(&self.limits) };
        std::mem::replace(self, empty)
    }
}

/// Adjacent buckets of one sign. The first and the last are never empty.
#[derive(Debug, Clone, Default)]
struct Buckets {
    /// Index of the first bucket.
    offset: i32,
    counts: Vec<u64>,
}

impl Buckets {
    /// Returns the range of the indices; `None` without buckets.
    #[inline]
    fn range(&self) -> Option<Range> {
        let count = self.counts.len() as i32;
        (count > 0).then(|| Range { first: self.offset, last: self.offset + count - 1 })
    }

    /// Returns empty buckets with the same capacity.
    fn emptied(&self) -> Self {
        Self { offset: 0, counts: Vec::with_capacity(self.counts.capacity()) }
    }

    fn view(&self) -> BucketsView<'_> {
        BucketsView { offset: self.offset, counts: &self.counts }
    }

    /// Adds to a bucket. With this bucket, the range must not exceed the maximum number of buckets.
    #[inline]
    fn add(&mut self, index: i32, count: u64) {
        if self.range().is_none_or(|range| !range.holds(index)) {
            self.reach(index);
        }
        let bucket = &mut self.counts[(index - self.offset) as usize];
        *bucket = bucket.saturating_add(count);
    }

    /// Extends the range to include a bucket.
    #[cold]
    fn reach(&mut self, index: i32) {
        let range = Range::one(index).joined(self.range());
        let count = range.count() as usize;
        let missing = count - self.counts.len();
        if count > self.counts.capacity() {
            // Reserves twice the required capacity, up to the default maximum number of buckets.
            let roomy = (2 * count).min(USUAL_BUCKETS).max(count);
            self.counts.reserve_exact(roomy - self.counts.len());
        }
        let was_empty = self.counts.is_empty();
        self.counts.resize(count, 0);
        if !was_empty && range.first < self.offset {
            self.counts.rotate_right(missing);
        }
        self.offset = range.first;
    }

    /// Merges groups of `2^steps` buckets.
    fn coarsen(&mut self, steps: i32) {
        if steps == 0 || self.counts.is_empty() {
            return;
        }
        let offset = self.offset >> steps;
        let mut kept = 0;
        for from in 0..self.counts.len() {
            let to = (((self.offset + from as i32) >> steps) - offset) as usize;
            let count = std::mem::take(&mut self.counts[from]);
            self.counts[to] = self.counts[to].saturating_add(count);
            kept = to + 1;
        }
        self.counts.truncate(kept);
        self.offset = offset;
    }

    /// Adds buckets whose scale is higher by `finer`. The joined range must not exceed the maximum number of buckets.
    fn merge(&mut self, other: &Self, finer: i32) {
        for (index, count) in (other.offset..).zip(&other.counts).filter(|(_, count)| **count > 0) {
            self.add(index >> finer, *count);
        }
    }
}

/// The indices of the first and the last bucket.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: i32,
    last: i32,
}

impl Range {
    #[inline]
    fn one(index: i32) -> Self {
        Self { first: index, last: index }
    }

    #[inline]
    fn joined(self, other: Option<Self>) -> Self {
        match other {
            Some(other) => Self { first: self.first.min(other.first), last: self.last.max(other.last) },
            None => self,
        }
    }

    #[inline]
    fn holds(self, index: i32) -> bool {
        (self.first..=self.last).contains(&index)
    }

    /// Returns the number of buckets. It may exceed `i32`: at the finest scale, there are 2.2 billion buckets from the
    /// smallest positive double to the largest.
    #[inline]
    fn count(self) -> i64 {
        i64::from(self.last) - i64::from(self.first) + 1
    }

    fn coarser(self, steps: i32) -> Self {
        Self { first: self.first >> steps, last: self.last >> steps }
    }

    /// Returns the number of steps by which the scale must fall until the range fits into this many buckets.
    #[inline]
    fn steps_to_fit(self, max_buckets: i32) -> i32 {
        let mut steps = 0;
        while self.coarser(steps).count() > i64::from(max_buckets) {
            steps += 1;
        }
        steps
    }
}

/// Returns the bucket of a positive, finite value.
#[inline]
fn index(value: f64, scale: i32) -> i32 {
    let (exponent, mantissa) = split(value);
    if scale <= 0 {
        // Buckets include their upper bound, so a power of two belongs to the bucket below.
        return (exponent - i32::from(mantissa == 1.0)) >> -scale;
    }
    // Computed at the finest scale and then shifted, so that the value gets the same bucket as if it had been counted
    // at the finest scale and coarsened later.
    let steps = f64::from(1 << MAX_SCALE);
    let within = if mantissa == 1.0 {
        -1
    } else {
        // Rounding must not move the value out of its power of two.
        (mantissa.log2() * steps).ceil().clamp(1.0, steps) as i32 - 1
    };
    ((exponent << MAX_SCALE) + within) >> (MAX_SCALE - scale)
}

/// Splits a positive, finite value into `mantissa * 2^exponent`, with a mantissa in `1..2`.
#[inline]
fn split(value: f64) -> (i32, f64) {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const BIAS: i32 = f64::MAX_EXP - 1;
    // Subnormal numbers have no leading one. Scaling makes them normal without losing a bit.
    const UP: i32 = 54;
    let (value, shift) =
        if value < f64::MIN_POSITIVE { (value * (1u64 << UP) as f64, UP) } else { (value, 0) };
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION_BITS) as i32 - BIAS;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    (exponent - shift, f64::from_bits(fraction | (BIAS as u64) << FRACTION_BITS))
}

#[cfg(test)]
mod tests;
