//! The state of one series between two collections, updated by many threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::{iter, thread};

use crate::metrics::aggregation::{ExplicitHistogram, ExponentialHistogram, NeumaierSum};
use crate::process::atomic::{AtomicI64, AtomicU64};
use crate::record::Number;

/// How a series aggregates its measurements.
#[derive(Debug, Clone)]
pub(super) enum AggregationKind {
    IntSum,
    FloatSum,
    IntGauge,
    FloatGauge,
    Explicit(Arc<[f64]>),
    Exponential,
}

/// The state of one series. Integers are one atomic step; the rest is behind locks that callers share only under
/// contention, see [`Striped`].
#[derive(Debug)]
pub(super) enum Aggregator {
    IntSum(AtomicI64),
    FloatSum(Striped<NeumaierSum>),
    IntGauge(LastValue),
    FloatGauge(LastValue),
    Explicit(Striped<ExplicitHistogram>),
    Exponential(Striped<ExponentialHistogram>),
}

/// What an aggregator held when it was read.
#[derive(Debug)]
pub(super) enum PointValue {
    Number(Number),
    /// With the bits that rounding would drop: what is put back is as exact as it was.
    FloatSum(NeumaierSum),
    Explicit(ExplicitHistogram),
    Exponential(ExponentialHistogram),
}

impl Aggregator {
    pub(super) fn new(aggregation: &AggregationKind) -> Self {
        match aggregation {
            AggregationKind::IntSum => Self::IntSum(AtomicI64::new(0)),
            AggregationKind::FloatSum => Self::FloatSum(Striped::new(())),
            AggregationKind::IntGauge => Self::IntGauge(LastValue::default()),
            AggregationKind::FloatGauge => Self::FloatGauge(LastValue::default()),
            AggregationKind::Explicit(bounds) => Self::Explicit(Striped::new(Arc::clone(bounds))),
            AggregationKind::Exponential => Self::Exponential(Striped::new(())),
        }
    }

    /// Aggregates a measurement: the bits of an `i64` for integers, of an `f64` for the rest.
    #[inline]
    pub(super) fn update(&self, bits: u64) {
        match self {
            Self::IntSum(sum) => add(sum, bits as i64),
            aggregator => aggregator.update_other(bits),
        }
    }

    #[inline(never)]
    fn update_other(&self, bits: u64) {
        let value = f64::from_bits(bits);
        match self {
            Self::IntSum(sum) => add(sum, bits as i64),
            Self::IntGauge(latest) | Self::FloatGauge(latest) => latest.set(bits),
            Self::FloatSum(sum) => sum.with(|sum| sum.add(value)),
            Self::Explicit(histogram) => histogram.with(|histogram| _ = histogram.record(value)),
            Self::Exponential(histogram) => histogram.with(|histogram| _ = histogram.record(value)),
        }
    }

    /// Whether there is nothing that [`take`](Self::take) would give.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::IntSum(sum) => sum.load(Ordering::Relaxed) == 0,
            Self::FloatSum(sum) => sum.sum_up(|part| *part).value() == 0.0,
            Self::IntGauge(latest) | Self::FloatGauge(latest) => latest.read().is_none(),
            Self::Explicit(histogram) => histogram.all(ExplicitHistogram::is_empty),
            Self::Exponential(histogram) => histogram.all(ExponentialHistogram::is_empty),
        }
    }

    /// Whether an update may allocate.
    #[inline]
    pub(super) fn may_allocate(&self) -> bool {
        matches!(self, Self::FloatSum(_) | Self::Explicit(_) | Self::Exponential(_))
    }

    /// What was measured; `None` if nothing was.
    pub(super) fn read(&self) -> Option<PointValue> {
        match self {
            Self::IntSum(sum) => Some(PointValue::Number(Number::Int(sum.load(Ordering::Relaxed)))),
            Self::FloatSum(sum) => Some(PointValue::FloatSum(sum.sum_up(|part| *part))),
            Self::IntGauge(latest) => Some(int(latest.read()?)),
            Self::FloatGauge(latest) => Some(float(latest.read()?)),
            Self::Explicit(histogram) => some_explicit(histogram.sum_up(|part| part.clone())),
            Self::Exponential(histogram) => some_exponential(histogram.sum_up(|part| part.clone())),
        }
    }

    /// Reads and resets: every measurement is exported exactly once.
    pub(super) fn take(&self) -> Option<PointValue> {
        match self {
            Self::IntSum(sum) => {
                let taken = sum.swap(0, Ordering::Relaxed);
                (taken != 0).then_some(PointValue::Number(Number::Int(taken)))
            }
            Self::FloatSum(sum) => {
                let taken = sum.sum_up(Mergeable::take);
                (taken.value() != 0.0).then_some(PointValue::FloatSum(taken))
            }
            Self::IntGauge(latest) => Some(int(latest.take()?)),
            Self::FloatGauge(latest) => Some(float(latest.take()?)),
            Self::Explicit(histogram) => some_explicit(histogram.sum_up(Mergeable::take)),
            Self::Exponential(histogram) => some_exponential(histogram.sum_up(Mergeable::take)),
        }
    }

    /// Undoes a [`take`](Self::take), beside what was measured since.
    pub(super) fn put_back(&self, taken: &PointValue) {
        match (self, taken) {
            (Self::IntSum(sum), PointValue::Number(Number::Int(value))) => add(sum, *value),
            (Self::FloatSum(sum), PointValue::FloatSum(taken)) => sum.put_back(taken),
            (Self::IntGauge(latest) | Self::FloatGauge(latest), PointValue::Number(_)) => latest.put_back(),
            (Self::Explicit(histogram), PointValue::Explicit(taken)) => histogram.put_back(taken),
            (Self::Exponential(histogram), PointValue::Exponential(taken)) => histogram.put_back(taken),
            // an aggregator takes what it gave
            _ => {}
        }
    }
}

/// What only the instruments of the `metrics` crate do to a series.
#[cfg(feature = "metrics")]
impl Aggregator {
    /// Moves a gauge of floats away from where it is, which is zero at first.
    pub(super) fn shift(&self, by: f64) {
        if let Self::FloatGauge(latest) = self {
            latest.shift(by);
        }
    }

    /// Records a value `times` times in a histogram.
    pub(super) fn record_many(&self, value: f64, times: u64) {
        match self {
            Self::Explicit(histogram) => histogram.with(|histogram| _ = histogram.record_many(value, times)),
            Self::Exponential(histogram) => {
                histogram.with(|histogram| _ = histogram.record_many(value, times));
            }
            _ => {}
        }
    }
}

fn int(bits: u64) -> PointValue {
    PointValue::Number(Number::Int(bits as i64))
}

fn float(bits: u64) -> PointValue {
    PointValue::Number(Number::Float(f64::from_bits(bits)))
}

fn some_explicit(histogram: ExplicitHistogram) -> Option<PointValue> {
    (!histogram.is_empty()).then_some(PointValue::Explicit(histogram))
}

fn some_exponential(histogram: ExponentialHistogram) -> Option<PointValue> {
    (!histogram.is_empty()).then_some(PointValue::Exponential(histogram))
}

#[inline]
fn add(sum: &AtomicI64, value: i64) {
    let before = sum.fetch_add(value, Ordering::Relaxed);
    if before.checked_add(value).is_none() {
        // at the end of the scale it stays there
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

    /// The bits stay when they are taken, and newer ones count more.
    fn put_back(&self) {
        self.is_set.store(true, Ordering::Release);
    }
}

#[cfg(feature = "metrics")]
impl LastValue {
    fn shift(&self, by: f64) {
        // at the end of the scale it stays there
        let shifted = |bits| (f64::from_bits(bits) + by).clamp(f64::MIN, f64::MAX).to_bits();
        let mut bits = self.bits.load(Ordering::Relaxed);
        while let Err(newer) =
            self.bits.compare_exchange_weak(bits, shifted(bits), Ordering::Relaxed, Ordering::Relaxed)
        {
            bits = newer;
        }
        self.is_set.store(true, Ordering::Release);
    }
}

/// State that can be kept in several parts and merged when it is read.
pub(super) trait Mergeable: Clone {
    /// What an empty one is made from.
    type Parameters;
    fn empty(parameters: &Self::Parameters) -> Self;
    fn merge(&mut self, other: &Self);
    /// Everything that is in it, which is then empty.
    fn take(&mut self) -> Self;
}

impl Mergeable for NeumaierSum {
    type Parameters = ();

    fn empty((): &()) -> Self {
        Self::default()
    }

    fn merge(&mut self, other: &Self) {
        NeumaierSum::merge(self, other);
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Mergeable for ExplicitHistogram {
    /// The bounds.
    type Parameters = Arc<[f64]>;

    fn empty(bounds: &Arc<[f64]>) -> Self {
        Self::new(Arc::clone(bounds))
    }

    fn merge(&mut self, other: &Self) {
        ExplicitHistogram::merge(self, other);
    }

    fn take(&mut self) -> Self {
        ExplicitHistogram::take(self)
    }
}

impl Mergeable for ExponentialHistogram {
    type Parameters = ();

    fn empty((): &()) -> Self {
        Self::default()
    }

    fn merge(&mut self, other: &Self) {
        ExponentialHistogram::merge(self, other);
    }

    fn take(&mut self) -> Self {
        ExponentialHistogram::take(self)
    }
}

/// A caller that finds the first part taken goes to another one, so that callers hardly ever wait for each other. None
/// of them waits for a certain part: its own thread may hold it, if the allocator measures.
#[derive(Debug)]
pub(super) struct Striped<T: Mergeable> {
    parameters: T::Parameters,
    first: Mutex<T>,
    others: [OnceLock<Box<Mutex<T>>>; 7],
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
            let others = self.others.iter().filter_map(|part| self.made(part));
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

    /// A part that is there, or is made now.
    fn made<'a>(&self, part: &'a OnceLock<Box<Mutex<T>>>) -> Option<&'a Mutex<T>> {
        if part.get().is_none() {
            // allocated first: the allocator may come by here itself
            let _ = part.set(Box::new(Mutex::new(T::empty(&self.parameters))));
        }
        part.get().map(|part| &**part)
    }

    fn all(&self, holds: impl Fn(&T) -> bool) -> bool {
        holds(&lock(&self.first))
            && self.others.iter().filter_map(OnceLock::get).all(|part| holds(&lock(part)))
    }

    fn put_back(&self, taken: &T) {
        lock(&self.first).merge(taken);
    }

    /// All parts, each as `get` gives it.
    fn sum_up(&self, get: impl Fn(&mut T) -> T) -> T {
        let mut sum = get(&mut lock(&self.first));
        for part in self.others.iter().filter_map(OnceLock::get) {
            sum.merge(&get(&mut lock(part)));
        }
        sum
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
