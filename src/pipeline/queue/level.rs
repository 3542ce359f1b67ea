//! How full the queue is: the one place where its bound is enforced, and the level at which the worker is woken.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::Sender;

/// Records in the upper 24 bits and bytes in the lower 40: both limits are kept by one atomic step.
const BYTES_BITS: u32 = 40;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// The most that the two halves can hold; configuration is checked against it.
pub(crate) const MOST_RECORDS: usize = (1 << (64 - BYTES_BITS)) - 1;

#[derive(Debug)]
pub(super) struct Level {
    now: AtomicU64,
    records: usize,
    bytes: usize,
    largest: Largest,
}

/// The most records and the most bytes that one frame had, beginning with what needs no lower threshold than three quarters.
#[derive(Debug)]
struct Largest {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// The level just after a record has reserved its room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    records: usize,
    bytes: usize,
}

impl Level {
    pub(super) fn new(records: usize, bytes: usize) -> Self {
        let (records, bytes) = (records.min(MOST_RECORDS), bytes.min(BYTES_MASK as usize));
        let largest =
            Largest { records: AtomicUsize::new((records / 8).max(1)), bytes: AtomicUsize::new(bytes / 8) };
        Self { now: AtomicU64::new(0), records, bytes, largest }
    }

    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.records, self.bytes)
    }

    pub(super) fn read(&self) -> (usize, usize) {
        unpack(self.now.load(Ordering::SeqCst))
    }

    /// Whether a frame is too small for [`note_size`](Self::note_size) to note it.
    #[inline]
    pub(super) fn is_usual(&self, records: usize, bytes: usize) -> bool {
        let Largest { records: most_records, bytes: most_bytes } = &self.largest;
        records <= most_records.load(Ordering::Relaxed) && bytes <= most_bytes.load(Ordering::Relaxed)
    }

    /// Notes the size of a frame that is to be enqueued; true if that lowers the level that is pressing.
    pub(super) fn note_size(&self, records: usize, bytes: usize) -> bool {
        // sequentially consistent with the worker's threshold: the worker sees the size, or the caller the threshold
        let rises = |largest: &AtomicUsize, size: usize| {
            size > largest.load(Ordering::Relaxed) && size > largest.fetch_max(size, Ordering::SeqCst)
        };
        // both: neither may keep the other from being noted
        rises(&self.largest.records, records) | rises(&self.largest.bytes, bytes)
    }

    /// The level at which the worker must not rest: three quarters, or less if the largest frames would not find room
    /// twice after it. So the next one finds room, and the worker is awake.
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

    /// Whether there is room for `records` of `bytes` in total now.
    pub(super) fn has_room(&self, records: usize, bytes: usize) -> bool {
        let now = self.read();
        now.0.saturating_add(records) <= self.records && now.1.saturating_add(bytes) <= self.bytes
    }

    /// Reserves room for `more` records of `by` bytes in total, or returns `None` if the queue is full.
    #[inline]
    pub(super) fn reserve(&self, more: usize, by: usize) -> Option<Reservation> {
        // sequentially consistent, too: a waiter that still sees no room is certain to be woken for it
        let mut now = self.now.load(Ordering::SeqCst);
        loop {
            let (records, bytes) = unpack(now);
            let (records, bytes) = (records + more, bytes + by);
            if records > self.records || bytes > self.bytes {
                return None;
            }
            // sequentially consistent with the worker's threshold: one of the two sees the other
            match self.now.compare_exchange_weak(
                now,
                pack(records, bytes),
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => return Some(Reservation { records, bytes }),
                Err(changed) => now = changed,
            }
        }
    }

    pub(super) fn release(&self, records: usize, bytes: usize) {
        self.now.fetch_sub(pack(records, bytes), Ordering::SeqCst);
    }
}

#[inline]
fn pack(records: usize, bytes: usize) -> u64 {
    (records as u64) << BYTES_BITS | bytes as u64
}

#[inline]
fn unpack(level: u64) -> (usize, usize) {
    ((level >> BYTES_BITS) as usize, (level & BYTES_MASK) as usize)
}

/// The level at which the worker wants to be woken: as many records or as many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakeAt {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

impl WakeAt {
    /// At the first record.
    pub(crate) const ANYTHING: Self = Self { records: 1, bytes: 1 };
    /// Not at all: the worker is awake.
    pub(crate) const NEVER: Self = Self { records: usize::MAX, bytes: usize::MAX };

    pub(crate) fn is_reached(self, (records, bytes): (usize, usize)) -> bool {
        records >= self.records || bytes >= self.bytes
    }
}

/// Wakes the worker once when the level reaches the threshold that it has set.
#[derive(Debug)]
pub(super) struct WakeThreshold {
    /// The largest number while it is not armed, whatever the bytes are.
    records: AtomicUsize,
    bytes: AtomicUsize,
    sender: Sender<()>,
}

impl WakeThreshold {
    pub(super) fn new(sender: Sender<()>) -> Self {
        Self { records: AtomicUsize::new(usize::MAX), bytes: AtomicUsize::new(usize::MAX), sender }
    }

    pub(super) fn set(&self, threshold: WakeAt) {
        self.bytes.store(threshold.bytes, Ordering::SeqCst);
        // last: with it the threshold is armed
        self.records.store(threshold.records, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn check(&self, level: Reservation) {
        let is_there = |(records, bytes)| level.records >= records || level.bytes >= bytes;
        if self.read().is_some_and(is_there) {
            self.wake();
        }
    }

    /// The threshold, if it is armed.
    fn read(&self) -> Option<(usize, usize)> {
        let records = self.records.load(Ordering::SeqCst);
        (records != usize::MAX).then(|| (records, self.bytes.load(Ordering::SeqCst)))
    }

    /// Wakes the worker whatever the level is, unless it was woken already.
    #[cold]
    pub(super) fn wake(&self) {
        if self.records.swap(usize::MAX, Ordering::SeqCst) != usize::MAX {
            self.send_wake();
        }
    }

    /// Makes the worker choose its threshold anew, also if it is about to set one now.
    #[cold]
    pub(super) fn send_wake(&self) {
        // one message that waits is enough
        let _ = self.sender.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use crossbeam_channel::{Receiver, bounded};

    use super::*;

    fn wake_threshold() -> (WakeThreshold, Receiver<()>) {
        // room for more than one wake-up, so that a second one would be seen
        let (sender, wake_ups) = bounded(100);
        (WakeThreshold::new(sender), wake_ups)
    }

    fn reservation(records: usize, bytes: usize) -> Reservation {
        Reservation { records, bytes }
    }

    #[test]
    fn both_limits_are_kept_to_the_record_and_to_the_byte() {
        let level = Level::new(3, 100);
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
    fn the_largest_level_does_not_overflow() {
        let level = Level::new(usize::MAX, usize::MAX);
        let (records, bytes) = level.capacity();
        assert_eq!((records, bytes), (MOST_RECORDS, (1 << 40) - 1));
        assert!(level.reserve(1, bytes).is_some() && level.reserve(1, 1).is_none());
        assert_eq!(level.read(), (1, bytes));
        level.release(1, bytes);
        assert_eq!(level.read(), (0, 0));
    }

    #[test]
    fn threads_never_raise_the_level_above_its_limits() {
        let level = Level::new(3, 100);
        thread::scope(|scope| {
            for bytes in [10, 30, 50, 100] {
                let level = &level;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if let Some(reservation) = level.reserve(1, bytes) {
                            assert!(reservation.records <= 3 && reservation.bytes <= 100, "{reservation:?}");
                            level.release(1, bytes);
                        }
                    }
                });
            }
        });
        assert_eq!(level.read(), (0, 0));
    }

    #[test]
    fn the_worker_is_woken_once_when_records_or_bytes_reach_the_threshold() {
        for below_and_at in
            [[reservation(4, 99), reservation(5, 0)], [reservation(4, 99), reservation(1, 100)]]
        {
            let (wake_threshold, wake_ups) = wake_threshold();
            wake_threshold.set(WakeAt { records: 5, bytes: 100 });
            wake_threshold.check(below_and_at[0]);
            assert_eq!(wake_ups.len(), 0, "{below_and_at:?}");
            wake_threshold.check(below_and_at[1]);
            wake_threshold.check(below_and_at[1]);
            wake_threshold.wake();
            assert_eq!(wake_ups.len(), 1, "{below_and_at:?}");
            wake_threshold.set(WakeAt::ANYTHING);
            wake_threshold.check(reservation(1, 1));
            assert_eq!(wake_ups.len(), 2, "armed again, it wakes again");
        }
    }

    #[test]
    fn an_awake_worker_is_not_woken() {
        let (wake_threshold, wake_ups) = wake_threshold();
        wake_threshold.wake();
        wake_threshold.set(WakeAt::NEVER);
        wake_threshold.wake();
        wake_threshold.check(reservation(1000, 1000));
        assert_eq!(wake_ups.len(), 0);
    }

    #[test]
    fn a_caller_that_wakes_while_a_threshold_is_set_does_not_take_half_of_it_away() {
        let (wake_threshold, wake_ups) = wake_threshold();
        // the worker has set one half
        wake_threshold.bytes.store(100, Ordering::SeqCst);
        wake_threshold.wake();
        wake_threshold.records.store(5, Ordering::SeqCst);
        wake_threshold.check(reservation(1, 100));
        assert_eq!(wake_ups.len(), 1);
    }

    #[test]
    fn of_many_threads_at_the_threshold_one_wakes() {
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
                wake_threshold.set(WakeAt::ANYTHING);
                start.wait();
                end.wait();
                counts.push(wake_ups.try_iter().count());
            }
            assert_eq!(counts, [1; 200]);
        });
    }
}
