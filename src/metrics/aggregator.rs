//! The aggregated state of one series, updated by many threads.
//!
//! Integer sums and gauges are atomic numbers: a measurement takes one atomic operation for a cumulative sum, and two
//! for a delta sum or a gauge. Sums of floats and histograms are *striped*: the state has up to eight parts, each
//! behind a lock, and a caller that finds one part locked uses another. A collection merges the parts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::{iter, thread};

use super::instrument::NumberKind;
use super::reservoir::Layout;
use crate::metrics::aggregation::{ExplicitHistogram, ExponentialHistogram, Mergeable, NeumaierSum};
use crate::process::atomic::{AtomicI64, AtomicU64};
use crate::process::lock;
use crate::record::{ExponentialLimits, Number};

/// How a series aggregates its measurements.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AggregationKind {
    Sum(NumberKind),
    /// A sum of integers with delta temporality.
    IntDelta,
    Gauge(NumberKind),
    Explicit(Arc<[f64]>),
    Exponential(ExponentialLimits),
    /// The histogram that a view makes of a counter or gauge of integers. It converts the measurements to floats.
    OfInts(Box<Self>),
}

/// The state of one series.
pub(super) enum Aggregator {
    IntSum(AtomicI64),
    FloatSum(Striped<NeumaierSum>),
    Gauge(LastValue, NumberKind),
    Explicit(Striped<ExplicitHistogram>),
    Exponential(Striped<ExponentialHistogram>),
    /// A sum since the last collection, and whether it was measured since then: a measured sum of 0 is exported, an
    /// unmeasured one is not.
    IntDelta(AtomicI64, AtomicBool),
    OfInts(Box<Self>),
}

/// The value of an aggregator when it was read.
#[derive(Debug)]
pub(super) enum PointValue {
    Number(Number),
    /// The sum with the bits that rounding would drop, so that a value that is put back is as exact as before.
    FloatSum(NeumaierSum),
    Explicit(ExplicitHistogram),
    Exponential(ExponentialHistogram),
}

impl Aggregator {
    pub(super) fn new(aggregation: &AggregationKind) -> Self {
        match aggregation {
            AggregationKind::Sum(NumberKind::Int) => Self::IntSum(AtomicI64::new(0)),
            AggregationKind::IntDelta => Self::IntDelta(AtomicI64::new(0), AtomicBool::new(false)),
            AggregationKind::Sum(NumberKind::Float) => Self::FloatSum(Striped::new(())),
            AggregationKind::Gauge(kind) => Self::Gauge(LastValue::default(), *kind),
            AggregationKind::Explicit(bounds) => Self::Explicit(Striped::new(Arc::clone(bounds))),
            AggregationKind::Exponential(limits) => Self::Exponential(Striped::new(*limits)),
            AggregationKind::OfInts(inner) => Self::OfInts(Box::new(Self::new(inner))),
        }
    }

    /// Aggregates a measurement. `bits` are an `i64` if [`number`](Self::number) returns integers, otherwise an `f64`.
    #[inline]
    pub(super) fn update(&self, bits: u64) {
        match self {
            Self::IntSum(sum) => add(sum, bits as i64),
            aggregator => aggregator.update_other(bits),
        }
    }

    // Two functions, because the compiler makes a slow jump table of a `match` with more aggregations. All their calls
    // are tail calls, so they save no registers.
    #[inline(never)]
    fn update_other(&self, bits: u64) {
        let value = f64::from_bits(bits);
        match self {
            Self::Explicit(histogram) => histogram.record(histogram.bucket(value), value),
            Self::Exponential(histogram) => histogram.record(value),
            Self::Gauge(latest, _) => latest.set(bits),
            aggregator => aggregator.update_rare(bits),
        }
    }

    #[inline(never)]
    fn update_rare(&self, bits: u64) {
        match self {
            Self::FloatSum(sum) => sum.add(f64::from_bits(bits)),
            Self::IntDelta(sum, is_measured) => {
                add(sum, bits as i64);
                is_measured.store(true, Ordering::Release);
            }
            Self::OfInts(inner) => inner.update_other((bits as i64 as f64).to_bits()),
            Self::IntSum(sum) => add(sum, bits as i64),
            Self::Explicit(_) | Self::Exponential(_) | Self::Gauge(..) => {}
        }
    }

    /// Returns the index of the sample of exemplars to which a measurement belongs. An explicit histogram has a sample
    /// for each bucket; other aggregations have one sample.
    pub(super) fn sample(&self, bits: u64) -> usize {
        match self {
            Self::Explicit(histogram) => histogram.bucket(f64::from_bits(bits)),
            Self::OfInts(inner) => inner.sample((bits as i64 as f64).to_bits()),
            _ => 0,
        }
    }

    /// Returns a measurement as a number.
    pub(super) fn number(&self, bits: u64) -> Number {
        match self {
            Self::IntSum(_) | Self::IntDelta(..) | Self::OfInts(_) => NumberKind::Int.number(bits),
            Self::Gauge(_, kind) => kind.number(bits),
            _ => NumberKind::Float.number(bits),
        }
    }

    /// Returns how many samples the series keeps, and how many exemplars each sample has at most.
    pub(super) fn layout(&self) -> Layout {
        let (samples, exemplars) = match self {
            Self::Explicit(histogram) => (histogram.parameters.len() + 1, 1),
            Self::Exponential(histogram) => (1, histogram.parameters.buckets.clamp(1, 20) as usize),
            Self::OfInts(inner) => return inner.layout(),
            _ => (1, 1),
        };
        Layout { samples, exemplars }
    }

    /// Returns whether [`take`](Self::take) would return nothing.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            // Used only for cumulative series, which are never removed, even if they are empty.
            Self::IntSum(_) => false,
            Self::IntDelta(_, is_measured) => !is_measured.load(Ordering::Acquire),
            Self::FloatSum(sum) => sum.is_empty(),
            Self::Gauge(latest, _) => latest.read().is_none(),
            Self::Explicit(histogram) => histogram.is_empty(),
            Self::Exponential(histogram) => histogram.is_empty(),
            Self::OfInts(inner) => inner.is_empty(),
        }
    }

    /// Returns whether an update may allocate.
    #[inline]
    pub(super) fn may_allocate(&self) -> bool {
        !matches!(self, Self::IntSum(_) | Self::IntDelta(..) | Self::Gauge(..))
    }

    /// Returns the aggregated value. If nothing was measured: 0 for a sum, otherwise `None`.
    pub(super) fn read(&self) -> Option<PointValue> {
        match self {
            Self::IntSum(sum) | Self::IntDelta(sum, _) => {
                Some(PointValue::Number(Number::Int(sum.load(Ordering::Relaxed))))
            }
            Self::FloatSum(sum) => Some(PointValue::FloatSum(sum.sum_up(|part| *part))),
            Self::Gauge(latest, kind) => Some(PointValue::Number(kind.number(latest.read()?))),
            Self::Explicit(histogram) => histogram.read().map(PointValue::Explicit),
            Self::Exponential(histogram) => histogram.read().map(PointValue::Exponential),
            Self::OfInts(inner) => inner.read(),
        }
    }

    /// Returns the value and resets it, so that every measurement is exported exactly once.
    pub(super) fn take(&self) -> Option<PointValue> {
        match self {
            // A concurrent measurement may add its value before `sum` is swapped, and set `is_measured` afterwards.
            // Then this value contains the measurement, and the next collection exports a 0. No measurement is lost.
            Self::IntDelta(sum, is_measured) if !is_measured.swap(false, Ordering::Acquire) => None,
            Self::IntSum(sum) | Self::IntDelta(sum, _) => {
                Some(PointValue::Number(Number::Int(sum.swap(0, Ordering::Relaxed))))
            }
            Self::FloatSum(sum) => sum.take().map(PointValue::FloatSum),
            Self::Gauge(latest, kind) => Some(PointValue::Number(kind.number(latest.take()?))),
            Self::Explicit(histogram) => histogram.take().map(PointValue::Explicit),
            Self::Exponential(histogram) => histogram.take().map(PointValue::Exponential),
            Self::OfInts(inner) => inner.take(),
        }
    }

    /// Reverses a [`take`](Self::take), and keeps later measurements.
    pub(super) fn put_back(&self, taken: &PointValue) {
        match (self, taken) {
            (Self::IntSum(_) | Self::IntDelta(..), PointValue::Number(Number::Int(value))) => {
                self.update(*value as u64);
            }
            (Self::FloatSum(sum), PointValue::FloatSum(taken)) => sum.put_back(taken),
            (Self::Gauge(latest, _), PointValue::Number(_)) => latest.put_back(),
            (Self::Explicit(histogram), PointValue::Explicit(taken)) => histogram.put_back(taken),
            (Self::Exponential(histogram), PointValue::Exponential(taken)) => histogram.put_back(taken),
            (Self::OfInts(inner), taken) => inner.put_back(taken),
            // Unreachable: an aggregator gets back only a value that it returned itself.
            _ => {}
        }
    }
}

/// Operations that only the instruments of the `metrics` crate need.
#[cfg(feature = "metrics")]
impl Aggregator {
    /// Adds to a gauge of floats, which starts at zero. Returns the bits of its new value. Has no effect on aggregators
    /// of other kinds.
    pub(super) fn shift(&self, by: f64) -> Option<u64> {
        match self {
            Self::Gauge(latest, NumberKind::Float) => Some(latest.shift(by)),
            _ => None,
        }
    }

    /// Aggregates `times` equal measurements of a histogram instrument, at least one.
    pub(super) fn record_many(&self, value: f64, times: u64) {
        match self {
            Self::Explicit(histogram) => {
                let bucket = histogram.bucket(value);
                histogram.with(|part| part.record(bucket, value, times));
            }
            Self::Exponential(histogram) => histogram.with(|part| part.record(value, times)),
            Self::FloatSum(sum) => sum.add((value * times as f64).clamp(f64::MIN, f64::MAX)),
            aggregator => aggregator.update(value.to_bits()),
        }
    }
}

#[inline]
fn add(sum: &AtomicI64, value: i64) {
    let before = sum.fetch_add(value, Ordering::Relaxed);
    if before.checked_add(value).is_none() {
        // The sum has wrapped around: saturate instead.
        sum.store(if value < 0 { i64::MIN } else { i64::MAX }, Ordering::Relaxed);
    }
}

/// The last value that was set.
#[derive(Debug, Default)]
pub(super) struct LastValue {
    bits: AtomicU64,
    is_set: AtomicBool,
}

impl LastValue {
    #[inline]
    fn set(&self, bits: u64) {
        self.bits.store(bits, Ordering::Relaxed);
        self.is_set.store(true, Ordering::Release);
    }

    fn read(&self) -> Option<u64> {
        self.is_set.load(Ordering::Acquire).then(|| self.bits.load(Ordering::Relaxed))
    }

    fn take(&self) -> Option<u64> {
        self.is_set.swap(false, Ordering::Acquire).then(|| self.bits.load(Ordering::Relaxed))
    }

    /// Marks the value as unread again. `take` left its bits in place, unless a later value has replaced them.
    fn put_back(&self) {
        self.is_set.store(true, Ordering::Release);
    }
}

#[cfg(feature = "metrics")]
impl LastValue {
    fn shift(&self, by: f64) -> u64 {
        // Saturates.
        let shifted = |bits| (f64::from_bits(bits) + by).clamp(f64::MIN, f64::MAX).to_bits();
        let mut bits = self.bits.load(Ordering::Relaxed);
        while let Err(newer) =
            self.bits.compare_exchange_weak(bits, shifted(bits), Ordering::Relaxed, Ordering::Relaxed)
        {
            bits = newer;
        }
        self.is_set.store(true, Ordering::Release);
        shifted(bits)
    }
}

/// State in several parts, each behind a lock. A caller that finds the first part locked uses another one, so that
/// callers hardly ever wait for each other. No caller waits for a particular part, because its own thread may hold that
/// lock: an update may allocate, and an instrumented allocator then makes a measurement.
pub(super) struct Striped<T: Mergeable> {
    parameters: T::Parameters,
    first: Mutex<T>,
    others: [OnceLock<Box<Mutex<T>>>; 7],
}

impl Striped<ExplicitHistogram> {
    /// Returns the index of the bucket to which a value belongs.
    #[inline]
    pub(super) fn bucket(&self, value: f64) -> usize {
        ExplicitHistogram::bucket(&self.parameters, value)
    }

    /// Counts a value in its bucket.
    #[inline(never)]
    pub(super) fn record(&self, bucket: usize, value: f64) {
        self.with(|part| part.record(bucket, value, 1));
    }
}

impl Striped<ExponentialHistogram> {
    #[inline(never)]
    fn record(&self, value: f64) {
        self.with(|part| part.record(value, 1));
    }
}

impl Striped<NeumaierSum> {
    #[inline(never)]
    fn add(&self, value: f64) {
        self.with(|part| part.add(value));
    }
}

impl<T: Mergeable> Striped<T> {
    fn new(parameters: T::Parameters) -> Self {
        let first = Mutex::new(T::empty(&parameters));
        Self { parameters, first, others: [const { OnceLock::new() }; 7] }
    }

    #[inline]
    fn with(&self, update: impl FnOnce(&mut T)) {
        match self.first.try_lock() {
            Ok(mut part) => update(&mut part),
            Err(TryLockError::Poisoned(poisoned)) => update(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => self.elsewhere(update),
        }
    }

    #[cold]
    fn elsewhere(&self, update: impl FnOnce(&mut T)) {
        loop {
            let others = self.others.iter().filter_map(|part| self.get_or_create(part));
            for part in iter::once(&self.first).chain(others) {
                match part.try_lock() {
                    Ok(mut part) => return update(&mut part),
                    Err(TryLockError::Poisoned(poisoned)) => return update(&mut poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) => {}
                }
            }
            thread::yield_now();
        }
    }

    /// Returns a part, and makes it if it does not exist.
    fn get_or_create<'a>(&self, part: &'a OnceLock<Box<Mutex<T>>>) -> Option<&'a Mutex<T>> {
        if part.get().is_none() {
            // Allocated before `set`, because an instrumented allocator may call this function itself.
            let _ = part.set(Box::new(Mutex::new(T::empty(&self.parameters))));
        }
        part.get().map(|part| &**part)
    }

    fn is_empty(&self) -> bool {
        lock(&self.first).is_empty()
            && self.others.iter().filter_map(OnceLock::get).all(|part| lock(part).is_empty())
    }

    /// Returns a copy of the state, or `None` if it is empty.
    fn read(&self) -> Option<T> {
        Some(self.sum_up(|part| part.clone())).filter(|sum| !sum.is_empty())
    }

    /// Returns the state, or `None` if it is empty, and leaves all parts empty.
    fn take(&self) -> Option<T> {
        Some(self.sum_up(T::take)).filter(|sum| !sum.is_empty())
    }

    fn put_back(&self, taken: &T) {
        lock(&self.first).merge(taken);
    }

    /// Merges all parts, each as returned by `get`.
    fn sum_up(&self, get: impl Fn(&mut T) -> T) -> T {
        let mut sum = get(&mut lock(&self.first));
        for part in self.others.iter().filter_map(OnceLock::get) {
            sum.merge(&get(&mut lock(part)));
        }
        sum
    }
}
