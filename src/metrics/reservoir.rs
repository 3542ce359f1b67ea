//! Exemplars: measurements that a series keeps as examples, each with its time, its span and its removed attributes.
//!
//! A [`Reservoir`] keeps a uniform sample of the measurements that are offered to it between two collections: an
//! explicit histogram keeps one measurement per bucket, an exponential histogram up to 20, everything else one. It
//! draws no random number per measurement. When a sample keeps a measurement, it draws the number of measurements to
//! skip before it keeps the next one (by a closed formula for a sample of one, by algorithm L for a larger sample). So
//! an offered measurement usually only decrements a counter.
//!
//! The counter is decremented by a load and a store. If two threads decrement it at once, one more measurement is
//! skipped. No thread waits for a sample: a measurement that finds its sample locked is skipped as well.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

use crate::config::ExemplarFilter;
use crate::context;
use crate::process::atomic::AtomicU64;
use crate::process::lock;
use crate::record::{AttributeSet, Exemplar, Number, Period, random};

/// Maximum encoded size of the removed attributes of an exemplar. Larger sets of attributes are left out, so that
/// exemplars take little memory, and little room in a request.
const MAX_REMOVED_BYTES: usize = 4096;

/// Returns the attributes that were removed from a measurement. Called only for a measurement that is to be kept.
pub(super) type Removed<'a> = dyn Fn() -> AttributeSet + 'a;

/// The exemplars of one series.
pub(super) struct Reservoir {
    /// A measurement is offered if [`context::offering`] has one of these bits.
    filter: u8,
    /// Number of measurements to skip before the next one is kept, if there is one sample. With several samples, each
    /// has its own number, and this one is 0.
    skip: AtomicU64,
    /// Allocated by the first measurement that is kept.
    samples: OnceLock<Samples>,
}

/// Number of samples of a series, and number of exemplars in each sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) samples: usize,
    pub(super) exemplars: usize,
}

struct Samples {
    /// For each of several samples, number of measurements to skip before the next one is kept.
    skips: Box<[AtomicU64]>,
    kept: Box<[Mutex<Sample>]>,
}

/// What a sample keeps, and the state of the algorithm that selects it.
type Sample = (Draw, Vec<Exemplar>);

impl Reservoir {
    pub(super) fn new(filter: ExemplarFilter) -> Self {
        let filter = match filter {
            ExemplarFilter::TraceBased => context::IN_SAMPLED_SPAN,
            ExemplarFilter::AlwaysOn => context::ANYWHERE,
            ExemplarFilter::AlwaysOff => 0,
        };
        Self { filter, skip: AtomicU64::new(0), samples: OnceLock::new() }
    }

    /// Returns whether a measurement of this thread is offered now. If the series has only one sample, also returns
    /// false for a measurement that the sample skips.
    #[inline(always)]
    pub(super) fn is_offered(&self) -> bool {
        self.filter & context::offering() != 0 && !skips(&self.skip)
    }

    /// Returns whether the offered measurement is skipped by the sample with this index.
    #[inline(always)]
    pub(super) fn skips(&self, sample: usize) -> bool {
        self.samples.get().and_then(|samples| samples.skips.get(sample)).is_some_and(skips)
    }

    /// Keeps an offered measurement, a value and its time, that was not skipped.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(
        &self,
        sample: usize,
        (value, time): (Number, u64),
        layout: Layout,
        removed: &Removed<'_>,
    ) {
        context::without_offering(|| {
            let (span, _) = context::span_and_time();
            if span.is_none() && self.filter == context::IN_SAMPLED_SPAN {
                // The thread's stack of spans is in use, or no longer exists because the thread is ending.
                return;
            }
            let removed = Some(removed()).filter(|removed| removed.size() <= MAX_REMOVED_BYTES);
            let removed = removed.unwrap_or_default();
            let exemplar = Exemplar { value, time, span, removed };
            if self.samples.get().is_none() {
                // Allocated before `set`, because an instrumented allocator may make measurements.
                let skips = (0..layout.samples).map(|_| AtomicU64::new(0)).collect();
                let kept = (0..layout.samples).map(|_| Mutex::default()).collect();
                let _ = self.samples.set(Samples { skips, kept });
            }
            let Some(Samples { skips, kept }) = self.samples.get() else { return };
            if let (Some(skip), Some(kept)) = (skips.get(sample), kept.get(sample)) {
                let skip = if layout.samples == 1 { &self.skip } else { skip };
                put(exemplar, kept, layout.exemplars, skip);
            }
        });
    }

    /// Returns the exemplars of a point, and begins new samples. Exemplars of a cumulative series are kept until others
    /// replace them, and are sent again.
    pub(super) fn collect(&self, period: Period, is_delta: bool) -> Vec<Exemplar> {
        let mut collected = Vec::new();
        self.skip.store(0, Ordering::Relaxed);
        let Some(Samples { skips, kept }) = self.samples.get() else { return collected };
        for (skip, kept) in skips.iter().zip(kept) {
            let (draw, exemplars) = &mut *lock(kept);
            *draw = Draw::default();
            skip.store(0, Ordering::Relaxed);
            match is_delta {
                true => collected.append(exemplars),
                false => collected.extend_from_slice(exemplars),
            }
        }
        // If the clock was set, the time of a measurement may be outside of the period, which OTLP does not allow.
        collected.retain(|exemplar| (period.start..=period.time).contains(&exemplar.time));
        collected
    }
}

/// Decrements the number of measurements to skip, or returns false if the number is 0.
#[inline(always)]
fn skips(skip: &AtomicU64) -> bool {
    let left = skip.load(Ordering::Relaxed).checked_sub(1);
    left.map(|left| skip.store(left, Ordering::Relaxed)).is_some()
}

/// Puts an exemplar into a sample of this size. A sample that is locked skips it.
fn put(exemplar: Exemplar, sample: &Mutex<Sample>, size: usize, skipped: &AtomicU64) {
    let Ok(mut sample) = sample.try_lock() else { return };
    let (draw, exemplars) = &mut *sample;
    let (place, skip) = draw.accept(size, random);
    skipped.store(skip, Ordering::Relaxed);
    match exemplars.get_mut(place) {
        Some(known) => *known = exemplar,
        None => exemplars.push(exemplar),
    }
}

/// Draws a uniform sample from a sequence of unknown length.
#[derive(Debug, Default)]
struct Draw {
    /// For a sample of several elements: number of its places that are filled.
    filled: usize,
    /// For a sample of one element: position of the next accepted element, from 1. 0, the default, also means 1.
    next: u64,
    /// For larger samples: the state of algorithm L (Li, 1994). Imagine that each element has a random key from 0 to 1,
    /// and that the sample consists of the elements with the smallest keys: this is the largest key in the sample.
    largest: f64,
}

impl Draw {
    /// Accepts an element. Returns its place in the sample, and the number of elements to skip before the next one.
    fn accept(&mut self, size: usize, mut random: impl FnMut() -> u64) -> (usize, u64) {
        // A random number, uniform in (0, 1]: never 0, so that its logarithm and its reciprocal are finite.
        let mut unit = || ((random() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        if size == 1 {
            // With probability n / m, element n is still in the sample after element m. Inverting this distribution
            // gives the number of the element that replaces it.
            let number = self.next.max(1);
            self.next = ((number as f64 / unit()) as u64).saturating_add(1);
            return (0, self.next.saturating_sub(number).saturating_sub(1));
        }
        let place = if self.filled < size {
            self.filled += 1;
            self.filled - 1
        } else {
            ((1.0 - unit()) * size as f64) as usize
        };
        if self.filled < size {
            return (place, 0);
        }
        let shrunk = unit().powf(1.0 / size as f64);
        self.largest = if self.largest == 0.0 { shrunk } else { self.largest * shrunk };
        (place, (unit().ln() / (-self.largest).ln_1p()) as u64)
    }
}

#[cfg(test)]
mod tests;
