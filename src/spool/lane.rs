//! The pending entries of one signal in a journal, and the system clock, which determines their age.

#[cfg(test)]
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::segment::Slot;

/// The pending entries of one signal.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) slots: VecDeque<Slot>,
    /// True while the first entry is being sent.
    pub(super) is_in_hand: bool,
    pub(super) records: u64,
    /// Consecutive failed reads of the first entry.
    pub(super) failed_reads: u32,
}

impl Lane {
    pub(super) fn push(&mut self, slot: Slot) {
        self.records += u64::from(slot.header.records);
        self.slots.push_back(slot);
    }

    pub(super) fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.is_in_hand = false;
        self.forget(&slot);
        Some(slot)
    }

    /// Removes and returns the entries that `is_chosen` selects, except the one in hand.
    pub(super) fn take(&mut self, is_chosen: impl Fn(&Slot) -> bool) -> Vec<Slot> {
        let mut taken = Vec::new();
        let mut is_in_hand = self.is_in_hand;
        self.slots.retain(|slot| {
            let stays = mem::take(&mut is_in_hand) || !is_chosen(slot);
            if !stays {
                taken.push(*slot);
            }
            stays
        });
        taken.iter().for_each(|slot| self.forget(slot));
        taken
    }

    fn forget(&mut self, slot: &Slot) {
        self.records -= u64::from(slot.header.records);
        // `failed_reads` belongs to the first entry, and another entry may now be the first.
        self.failed_reads = 0;
    }
}

/// Maximum gain of the system clock over the monotonic clock that does not count as a jump.
const TOLERANCE: Duration = Duration::from_secs(1);

#[cfg(test)]
thread_local! {
    /// Time that a test has set for this thread.
    pub(super) static NOW_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns the system time in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(now) = NOW_MS.get() {
        return now;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A forward jump of the system clock against the monotonic clock: the clock was set, or the system was suspended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    /// Time that the system clock would have shown without the jump.
    from_ms: u64,
    by_ms: u64,
}

impl Jump {
    /// Returns the jump between two readings of both clocks, if the system clock gained more than a second.
    pub(super) fn between(then: (Instant, u64), now: (Instant, u64)) -> Option<Self> {
        let elapsed = now.0.saturating_duration_since(then.0).as_millis();
        let from_ms = then.1.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX));
        let by_ms = now.1.saturating_sub(from_ms);
        (u128::from(by_ms) > TOLERANCE.as_millis()).then_some(Self { from_ms, by_ms })
    }

    /// Shifts a time that was read before the jump, so that its age does not change. A time after `from_ms` stays
    /// unchanged: either it was read after the jump, or the clock was right at that time, and a reboot set the clock
    /// back later.
    pub(super) fn shift(self, time_ms: &mut u64) {
        if *time_ms <= self.from_ms {
            *time_ms += self.by_ms;
        }
    }
}
