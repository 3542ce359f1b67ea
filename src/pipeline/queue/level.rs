//! How full the queue is, and the float that wakes the worker when it has risen far enough.

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

/// The most records and the most bytes that one frame had, beginning with what needs no lower mark than three quarters.
#[derive(Debug)]
struct Largest {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// The level just after a record was let in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raised {
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

    /// Whether a frame is too small for [`notes_larger`](Self::notes_larger) to note it.
    #[inline]
    pub(super) fn is_usual(&self, records: usize, bytes: usize) -> bool {
        let Largest { records: most_records, bytes: most_bytes } = &self.largest;
        records <= most_records.load(Ordering::Relaxed) && bytes <= most_bytes.load(Ordering::Relaxed)
    }

    /// Notes the size of a frame that wants to enter; true if that lowers the level that is pressing.
    pub(super) fn notes_larger(&self, records: usize, bytes: usize) -> bool {
        // sequentially consistent with the worker's wish to be woken: it sees the size, or is seen by the caller
        let rises = |largest: &AtomicUsize, size: usize| {
            size > largest.load(Ordering::Relaxed) && size > largest.fetch_max(size, Ordering::SeqCst)
        };
        // both: neither may keep the other from being noted
        rises(&self.largest.records, records) | rises(&self.largest.bytes, bytes)
    }

    /// The level at which the worker must not rest: three quarters, or less if the largest frames would not find room
    /// twice after it. So the next one finds room, and the worker is awake.
    pub(super) fn pressure(&self) -> WakeAt {
        let mark = |capacity: usize, largest: usize| {
            (capacity / 4 * 3).min((capacity + 1).saturating_sub(2 * largest)).max(1)
        };
        let Largest { records, bytes } = &self.largest;
        WakeAt {
            records: mark(self.records, records.load(Ordering::SeqCst)),
            bytes: mark(self.bytes, bytes.load(Ordering::SeqCst)),
        }
    }

    /// Whether so many records of so many bytes together would be let in now.
    pub(super) fn has_room(&self, records: usize, bytes: usize) -> bool {
        let now = self.read();
        now.0.saturating_add(records) <= self.records && now.1.saturating_add(bytes) <= self.bytes
    }

    /// Makes room for so many records of so many bytes together; `None` if there is not enough.
    #[inline]
    pub(super) fn rise_by(&self, more: usize, by: usize) -> Option<Raised> {
        // as strict as the rest: a caller in line that still sees no room is certain to be woken for it
        let mut now = self.now.load(Ordering::SeqCst);
        loop {
            let (records, bytes) = unpack(now);
            let (records, bytes) = (records + more, bytes + by);
            if records > self.records || bytes > self.bytes {
                return None;
            }
            // sequentially consistent with the worker's wish to be woken: one of the two sees the other
            match self.now.compare_exchange_weak(
                now,
                pack(records, bytes),
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => return Some(Raised { records, bytes }),
                Err(changed) => now = changed,
            }
        }
    }

    pub(super) fn fall(&self, records: usize, bytes: usize) {
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

/// Rises with the level and rings once when it reaches the mark.
#[derive(Debug)]
pub(super) struct Float {
    /// The largest number while it is not armed, whatever the bytes are.
    records: AtomicUsize,
    bytes: AtomicUsize,
    bell: Sender<()>,
}

impl Float {
    pub(super) fn new(bell: Sender<()>) -> Self {
        Self { records: AtomicUsize::new(usize::MAX), bytes: AtomicUsize::new(usize::MAX), bell }
    }

    pub(super) fn set(&self, mark: WakeAt) {
        self.bytes.store(mark.bytes, Ordering::SeqCst);
        // last: with it the float is armed
        self.records.store(mark.records, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn lift(&self, level: Raised) {
        let is_there = |(records, bytes)| level.records >= records || level.bytes >= bytes;
        if self.read().is_some_and(is_there) {
            self.press();
        }
    }

    /// The mark, if it is armed.
    fn read(&self) -> Option<(usize, usize)> {
        let records = self.records.load(Ordering::SeqCst);
        (records != usize::MAX).then(|| (records, self.bytes.load(Ordering::SeqCst)))
    }

    /// Wakes the worker whatever the level is, unless it was woken already.
    #[cold]
    pub(super) fn press(&self) {
        if self.records.swap(usize::MAX, Ordering::SeqCst) != usize::MAX {
            self.ring();
        }
    }

    /// Makes the worker choose its mark anew, also if it is about to set one now.
    #[cold]
    pub(super) fn ring(&self) {
        // a bell that is ringing already is enough
        let _ = self.bell.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use crossbeam_channel::{Receiver, bounded};

    use super::*;

    fn float() -> (Float, Receiver<()>) {
        // room for more rings than one, so that a second one would be seen
        let (bell, rings) = bounded(100);
        (Float::new(bell), rings)
    }

    fn raised(records: usize, bytes: usize) -> Raised {
        Raised { records, bytes }
    }

    #[test]
    fn both_limits_are_kept_to_the_record_and_to_the_byte() {
        let level = Level::new(3, 100);
        assert!(
            level.rise_by(1, 40).is_some()
                && level.rise_by(1, 61).is_none()
                && level.rise_by(1, 60).is_some()
        );
        assert!(level.rise_by(1, 1).is_none());
        assert!(level.rise_by(1, 0).is_some(), "an empty record takes no byte");
        assert!(level.rise_by(1, 0).is_none(), "but a place");
        assert_eq!(level.read(), (3, 100));
        level.fall(1, 40);
        assert_eq!(level.read(), (2, 60));
        assert!(level.rise_by(1, 40).is_some());
    }

    #[test]
    fn the_largest_level_does_not_overflow() {
        let level = Level::new(usize::MAX, usize::MAX);
        let (records, bytes) = level.capacity();
        assert_eq!((records, bytes), (MOST_RECORDS, (1 << 40) - 1));
        assert!(level.rise_by(1, bytes).is_some() && level.rise_by(1, 1).is_none());
        assert_eq!(level.read(), (1, bytes));
        level.fall(1, bytes);
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
                        if let Some(raised) = level.rise_by(1, bytes) {
                            assert!(raised.records <= 3 && raised.bytes <= 100, "{raised:?}");
                            level.fall(1, bytes);
                        }
                    }
                });
            }
        });
        assert_eq!(level.read(), (0, 0));
    }

    #[test]
    fn a_float_rings_once_when_records_or_bytes_reach_its_mark() {
        for below_and_at in [[raised(4, 99), raised(5, 0)], [raised(4, 99), raised(1, 100)]] {
            let (float, rings) = float();
            float.set(WakeAt { records: 5, bytes: 100 });
            float.lift(below_and_at[0]);
            assert_eq!(rings.len(), 0, "{below_and_at:?}");
            float.lift(below_and_at[1]);
            float.lift(below_and_at[1]);
            float.press();
            assert_eq!(rings.len(), 1, "{below_and_at:?}");
            float.set(WakeAt::ANYTHING);
            float.lift(raised(1, 1));
            assert_eq!(rings.len(), 2, "armed again, it rings again");
        }
    }

    #[test]
    fn a_float_that_nobody_waits_for_is_silent() {
        let (float, rings) = float();
        float.press();
        float.set(WakeAt::NEVER);
        float.press();
        float.lift(raised(1000, 1000));
        assert_eq!(rings.len(), 0);
    }

    #[test]
    fn a_caller_that_presses_while_a_mark_is_set_does_not_take_half_of_it_away() {
        let (float, rings) = float();
        // the worker has set one half
        float.bytes.store(100, Ordering::SeqCst);
        float.press();
        float.records.store(5, Ordering::SeqCst);
        float.lift(raised(1, 100));
        assert_eq!(rings.len(), 1);
    }

    #[test]
    fn of_many_threads_at_the_mark_one_rings() {
        const THREADS: usize = 4;
        let (float, rings) = float();
        let start = Barrier::new(THREADS + 1);
        let end = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..200 {
                        start.wait();
                        float.lift(raised(1, 1));
                        end.wait();
                    }
                });
            }
            let mut counts = Vec::new();
            for _ in 0..200 {
                float.set(WakeAt::ANYTHING);
                start.wait();
                end.wait();
                counts.push(rings.try_iter().count());
            }
            assert_eq!(counts, [1; 200]);
        });
    }
}
