//! Fill level of a queue: enforces its bound and wakes the worker at a threshold. The level and the threshold are one
//! atomic word each.
//!
//! [`Level::reserve`] takes records and bytes at once in a compare-exchange loop, so no two callers get the same room.
//! [`WakeThreshold`] is a one-shot trigger. Callers that find the threshold reached swap it for 0, and the first such
//! caller sends the wake-up:
//!
//! ```text
//! worker: stay_awake ─► 0 ── worker: set ──► armed ── caller: check, swap ──► 0 and one message ──► worker wakes up
//! ```
//!
//! The head of [`queue`](super) lists the memory orderings.

use std::sync::atomic::Ordering;

use super::sync::{AtomicU64, AtomicUsize, Sender};
use crate::config::MAX_QUEUE_RECORDS;

/// A number of records and a number of bytes in one word, so that one atomic operation changes both.
///
/// Above each number is a guard bit, which is normally clear. The bit is set before a subtraction, and absorbs the
/// borrow if the number falls below zero. So one subtraction and one test compare both numbers.
///
/// ```text
/// 63     62 ........ 39  38     37 ........ 0
/// guard  records         guard  bytes
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair(u64);

/// Largest values that a [`Pair`] can hold. A configuration cannot ask for more, see `config/settings/delivery.rs`.
/// On a 32-bit machine, the bytes are at most half of `usize`, so that the sum of two sizes does not overflow.
const MAX_RECORDS: usize = MAX_QUEUE_RECORDS;
const MAX_BYTES: usize = if usize::BITS == 64 { Pair::BYTES as usize } else { usize::MAX / 2 };

impl Pair {
    const RECORDS_SHIFT: u32 = 39;
    const BYTES: u64 = (1 << 38) - 1;
    const GUARDS: u64 = 1 << 63 | 1 << 38;

    #[inline]
    fn new(records: usize, bytes: usize) -> Self {
        Self((records as u64) << Self::RECORDS_SHIFT | bytes as u64)
    }

    fn split(self) -> (usize, usize) {
        ((self.0 >> Self::RECORDS_SHIFT) as usize, (self.0 & Self::BYTES) as usize)
    }

    /// Subtracts both numbers, or returns `None` if either would fall below zero.
    #[inline]
    fn checked_sub(self, other: Self) -> Option<Self> {
        let difference = (self.0 | Self::GUARDS).wrapping_sub(other.0);
        (difference & Self::GUARDS == Self::GUARDS).then_some(Self(difference ^ Self::GUARDS))
    }
}

#[derive(Debug)]
pub(super) struct Level {
    /// The [`Pair`] that callers may still reserve.
    left: Left,
    records: usize,
    bytes: usize,
    largest: Largest,
}

/// The only word that every caller writes. The word has its own cache lines: a write invalidates these in the caches of
/// other cores, but not the lines with the rest of the queue, which callers only read.
#[derive(Debug)]
#[repr(align(128))]
struct Left(AtomicU64);

/// Largest number of records and of bytes of one frame so far. Both start with a value that leaves [`Level::pressure`]
/// at three quarters of the capacity.
#[derive(Debug)]
struct Largest {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// Proof that room was reserved, with the room that was left immediately afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    left: Pair,
}

impl Level {
    /// Returns the level of an empty queue whose records have at most `largest_record` bytes.
    pub(super) fn new(records: usize, bytes: usize, largest_record: usize) -> Self {
        let (records, bytes) = (records.min(MAX_RECORDS), bytes.min(MAX_BYTES));
        let largest = Largest {
            records: AtomicUsize::new((records / 8).max(1)),
            bytes: AtomicUsize::new((bytes / 8).min(largest_record)),
        };
        Self { left: Left(AtomicU64::new(Pair::new(records, bytes).0)), records, bytes, largest }
    }

    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.records, self.bytes)
    }

    pub(super) fn read(&self) -> (usize, usize) {
        let (records, bytes) = Pair(self.left.0.load(Ordering::SeqCst)).split();
        (self.records - records, self.bytes - bytes)
    }

    /// Returns whether [`note_size`](Self::note_size) can be skipped, because a record of this size is not the largest
    /// so far. The record is then also small enough to be sent: the largest size never exceeds the limit of a record.
    #[inline]
    pub(super) fn is_usual(&self, bytes: usize) -> bool {
        // Relaxed: the value only grows, so an outdated value at worst sends the caller to the slow path.
        bytes <= self.largest.bytes.load(Ordering::Relaxed)
    }

    /// Notes a frame's size. Returns true if the frame is the largest so far, which may lower
    /// [`pressure`](Self::pressure).
    pub(super) fn note_size(&self, records: usize, bytes: usize) -> bool {
        // SeqCst with the worker's threshold: either the worker sees the size or the caller sees the threshold.
        let rises = |largest: &AtomicUsize, size: usize| {
            size > largest.load(Ordering::Relaxed) && size > largest.fetch_max(size, Ordering::SeqCst)
        };
        // `|` instead of `||`: both sizes must be noted.
        rises(&self.largest.records, records) | rises(&self.largest.bytes, bytes)
    }

    /// Returns the level at which the worker must not rest: three quarters of the capacity, or less if the last quarter
    /// has no room for two of the largest frames. So the next frame still fits while the worker wakes up.
    pub(super) fn pressure(&self) -> WakeAt {
        let threshold = |capacity: usize, largest: usize| {
            (capacity / 4 * 3).min((capacity + 1).saturating_sub(2 * largest)).max(1)
        };
        let Largest { records, bytes } = &self.largest;
        WakeAt {
            records: threshold(self.records, records.load(Ordering::SeqCst)),
            bytes: threshold(self.bytes, bytes.load(Ordering::SeqCst)),
        }
    }

    /// Returns whether `records` of `bytes` in total would fit now.
    pub(super) fn has_room(&self, records: usize, bytes: usize) -> bool {
        let now = self.read();
        now.0.saturating_add(records) <= self.records && now.1.saturating_add(bytes) <= self.bytes
    }

    /// Reserves room for `records` of `bytes` in total, or returns `None` if the queue is full.
    #[inline]
    pub(super) fn reserve(&self, records: usize, bytes: usize) -> Option<Reservation> {
        debug_assert!(records <= MAX_RECORDS && bytes <= MAX_BYTES, "the caller checks it");
        let needed = Pair::new(records, bytes);
        // SeqCst: a waiter that still sees no room is certain to be woken when room is released.
        let mut now = self.left.0.load(Ordering::SeqCst);
        loop {
            let left = Pair(now).checked_sub(needed)?;
            // SeqCst with the worker's threshold: the worker sees this reservation, or the caller sees the threshold,
            // or both.
            match self.left.0.compare_exchange_weak(now, left.0, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(Reservation { left }),
                Err(changed) => now = changed,
            }
        }
    }

    pub(super) fn release(&self, records: usize, bytes: usize) {
        self.left.0.fetch_add(Pair::new(records, bytes).0, Ordering::SeqCst);
    }

    /// Returns the least room that does not wake the worker. With one record or byte less, the level reaches `wake_at`.
    fn min_left(&self, wake_at: WakeAt) -> Pair {
        Pair::new(
            (self.records + 1).saturating_sub(wake_at.records.max(1)),
            (self.bytes + 1).saturating_sub(wake_at.bytes.max(1)),
        )
    }
}

/// A level at which the worker is woken: as soon as either number is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakeAt {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

impl WakeAt {
    /// Wakes the worker at the first record.
    pub(crate) const ANYTHING: Self = Self { records: 1, bytes: 1 };
    /// Does not wake the worker: it is awake.
    pub(crate) const NEVER: Self = Self { records: usize::MAX, bytes: usize::MAX };

    pub(crate) fn is_reached(self, (records, bytes): (usize, usize)) -> bool {
        records >= self.records || bytes >= self.bytes
    }
}

/// Wakes the worker once when the level reaches the threshold set by the worker.
#[derive(Debug)]
pub(super) struct WakeThreshold {
    /// Minimum room, as a [`Pair`] with [`ARMED`], below which a reservation wakes the worker. Zero while the worker is
    /// awake.
    min_left: AtomicU64,
    sender: Sender<()>,
}

/// A guard bit, which is clear in every pair. It makes an armed threshold differ from zero.
const ARMED: u64 = 1 << 63;

impl WakeThreshold {
    pub(super) fn new(sender: Sender<()>) -> Self {
        Self { min_left: AtomicU64::new(0), sender }
    }

    pub(super) fn set(&self, wake_at: WakeAt, level: &Level) {
        let min_left = if wake_at == WakeAt::NEVER { 0 } else { level.min_left(wake_at).0 | ARMED };
        self.min_left.store(min_left, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn check(&self, reservation: Reservation) {
        let min_left = Pair(self.min_left.load(Ordering::SeqCst) & !ARMED);
        if reservation.left.checked_sub(min_left).is_none() {
            self.wake();
        }
    }

    /// Wakes the worker at any level, unless it was woken already.
    #[cold]
    pub(super) fn wake(&self) {
        if self.min_left.swap(0, Ordering::SeqCst) != 0 {
            self.send_wake();
        }
    }

    /// Makes the worker compute its threshold again, even if the worker is about to set a threshold now.
    #[cold]
    pub(super) fn send_wake(&self) {
        // A message that is already waiting is enough, so a full channel is ignored.
        let _ = self.sender.try_send(());
    }
}

#[cfg(all(test, not(queue_model)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use crossbeam_channel::{Receiver, bounded};

    use super::*;

    fn wake_threshold() -> (WakeThreshold, Receiver<()>) {
        // Room for more than one wake-up, so that a second one is detected.
        let (sender, wake_ups) = bounded(100);
        (WakeThreshold::new(sender), wake_ups)
    }

    fn level(records: usize, bytes: usize) -> Level {
        Level::new(records, bytes, bytes)
    }

    /// Returns the reservation with which a queue of 1,000 records and 1,000 bytes reached this level.
    fn reservation(records: usize, bytes: usize) -> Reservation {
        Reservation { left: Pair::new(1000 - records, 1000 - bytes) }
    }

    #[test]
    fn enforces_both_limits_exactly() {
        let level = level(3, 100);
        assert!(
            level.reserve(1, 40).is_some()
                && level.reserve(1, 61).is_none()
                && level.reserve(1, 60).is_some()
        );
        assert!(level.reserve(1, 1).is_none());
        assert!(level.reserve(1, 0).is_some(), "an empty record takes no byte");
        assert!(level.reserve(1, 0).is_none(), "but a place");
        assert_eq!(level.read(), (3, 100));
        level.release(1, 40);
        assert_eq!(level.read(), (2, 60));
        assert!(level.reserve(1, 40).is_some());
    }

    #[test]
    fn largest_capacity_does_not_overflow() {
        let level = level(usize::MAX, usize::MAX);
        let (records, bytes) = level.capacity();
        assert_eq!((records, bytes), (MAX_RECORDS, MAX_BYTES));
        assert!(level.reserve(1, bytes).is_some() && level.reserve(1, 1).is_none());
        assert_eq!(level.read(), (1, bytes));
        level.release(1, bytes);
        assert_eq!(level.read(), (0, 0));
    }

    #[test]
    fn threads_never_exceed_the_limits() {
        let level = level(3, 100);
        thread::scope(|scope| {
            for bytes in [10, 30, 50, 100] {
                let level = &level;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if let Some(reservation) = level.reserve(1, bytes) {
                            let (records_left, bytes_left) = reservation.left.split();
                            assert!(records_left < 3 && bytes_left <= 100, "{reservation:?}");
                            level.release(1, bytes);
                        }
                    }
                });
            }
        });
        assert_eq!(level.read(), (0, 0));
    }

    #[test]
    fn wakes_once_when_records_or_bytes_reach_the_threshold() {
        for below_and_at in
            [[reservation(4, 99), reservation(5, 0)], [reservation(4, 99), reservation(1, 100)]]
        {
            let (wake_threshold, wake_ups) = wake_threshold();
            wake_threshold.set(WakeAt { records: 5, bytes: 100 }, &level(1000, 1000));
            wake_threshold.check(below_and_at[0]);
            assert_eq!(wake_ups.len(), 0, "{below_and_at:?}");
            wake_threshold.check(below_and_at[1]);
            wake_threshold.check(below_and_at[1]);
            wake_threshold.wake();
            assert_eq!(wake_ups.len(), 1, "{below_and_at:?}");
            wake_threshold.set(WakeAt::ANYTHING, &level(1000, 1000));
            wake_threshold.check(reservation(1, 1));
            assert_eq!(wake_ups.len(), 2, "armed again, it wakes again");
        }
    }

    #[test]
    fn does_not_wake_a_worker_that_is_awake() {
        let (wake_threshold, wake_ups) = wake_threshold();
        wake_threshold.wake();
        wake_threshold.set(WakeAt::NEVER, &level(1000, 1000));
        wake_threshold.wake();
        wake_threshold.check(reservation(1000, 1000));
        assert_eq!(wake_ups.len(), 0);
    }

    #[test]
    fn never_reaches_a_threshold_beyond_the_capacity() {
        let (wake_threshold, wake_ups) = wake_threshold();
        wake_threshold.set(WakeAt { records: 1001, bytes: usize::MAX }, &level(1000, 1000));
        wake_threshold.check(reservation(1000, 1000));
        assert_eq!(wake_ups.len(), 0);
        wake_threshold.wake();
        assert_eq!(wake_ups.len(), 1);
    }

    #[test]
    fn subtracts_both_numbers_of_a_pair() {
        let pairs =
            [(0, 0), (0, 1), (1, 0), (1, 1), (7, MAX_BYTES), (MAX_RECORDS, 0), (MAX_RECORDS, MAX_BYTES)];
        for (records, bytes) in pairs {
            for (fewer, less) in pairs {
                let expected = records.checked_sub(fewer).zip(bytes.checked_sub(less));
                let difference = Pair::new(records, bytes).checked_sub(Pair::new(fewer, less));
                assert_eq!(difference.map(Pair::split), expected, "{records}, {bytes} - {fewer}, {less}");
            }
        }
    }

    #[test]
    fn exactly_one_of_many_threads_wakes() {
        const THREADS: usize = 4;
        let (wake_threshold, wake_ups) = wake_threshold();
        let start = Barrier::new(THREADS + 1);
        let end = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..200 {
                        start.wait();
                        wake_threshold.check(reservation(1, 1));
                        end.wait();
                    }
                });
            }
            let mut counts = Vec::new();
            for _ in 0..200 {
                wake_threshold.set(WakeAt::ANYTHING, &level(1000, 1000));
                start.wait();
                end.wait();
                counts.push(wake_ups.try_iter().count());
            }
            assert_eq!(counts, [1; 200]);
        });
    }
}
