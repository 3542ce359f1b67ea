//! How full the queue is, and the float that wakes the worker when it has risen far enough.

use std::sync::atomic::{AtomicU64, Ordering};

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
}

/// The level just after a record was let in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raised {
    records: usize,
    bytes: usize,
}

impl Level {
    pub(super) fn new(records: usize, bytes: usize) -> Self {
        Self {
            now: AtomicU64::new(0),
            records: records.min(MOST_RECORDS),
            bytes: bytes.min(BYTES_MASK as usize),
        }
    }

    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.records, self.bytes)
    }

    pub(super) fn read(&self) -> (usize, usize) {
        unpack(self.now.load(Ordering::SeqCst))
    }

    /// Makes room for one record; `None` if there is not enough.
    #[inline]
    pub(super) fn rise(&self, by: usize) -> Option<Raised> {
        let mut now = self.now.load(Ordering::Relaxed);
        loop {
            let (records, bytes) = unpack(now);
            let (records, bytes) = (records + 1, bytes + by);
            if records > self.records || bytes > self.bytes {
                return None;
            }
            // sequentially consistent with the worker's wish to be woken: one of the two sees the other
            match self.now.compare_exchange_weak(
                now,
                pack(records, bytes),
                Ordering::SeqCst,
                Ordering::Relaxed,
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
    records: AtomicU64,
    bytes: AtomicU64,
    bell: Sender<()>,
}

impl Float {
    pub(super) fn new(bell: Sender<()>) -> Self {
        Self { records: AtomicU64::new(u64::MAX), bytes: AtomicU64::new(u64::MAX), bell }
    }

    pub(super) fn set(&self, mark: WakeAt) {
        self.bytes.store(mark.bytes as u64, Ordering::SeqCst);
        self.records.store(mark.records as u64, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn lift(&self, level: Raised) {
        let records = self.records.load(Ordering::SeqCst);
        let bytes = self.bytes.load(Ordering::SeqCst);
        if level.records as u64 >= records || level.bytes as u64 >= bytes {
            self.press();
        }
    }

    /// Wakes the worker whatever the level is, unless it was woken already.
    #[cold]
    pub(super) fn press(&self) {
        self.bytes.store(u64::MAX, Ordering::SeqCst);
        if self.records.swap(u64::MAX, Ordering::SeqCst) != u64::MAX {
            // a bell that is ringing already is enough
            let _ = self.bell.try_send(());
        }
    }
}
