//! The pending entries of one signal in a journal with their sums, and the system clock by which they age.

#[cfg(test)]
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::segment::Slot;

/// The entries of one signal, oldest first.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) slots: VecDeque<Slot>,
    /// Whether the first one is being sent.
    pub(super) is_in_hand: bool,
    pub(super) records: u64,
    /// Reads of the first one in a row that have failed.
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

    /// Takes all out that are chosen, except the one in hand.
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
        // the next one is another
        self.failed_reads = 0;
    }
}

/// What the two clocks may differ by between two looks at both.
const TOLERANCE: Duration = Duration::from_secs(1);

#[cfg(test)]
thread_local! {
    /// What the clock shows on this thread, where a test has set it.
    pub(super) static NOW_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(now) = NOW_MS.get() {
        return now;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The clock was set forward, or the system was suspended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    /// What the clock would show without it.
    from_ms: u64,
    by_ms: u64,
}

impl Jump {
    /// What lies between two moments, if the clock has advanced further than time.
    pub(super) fn between(then: (Instant, u64), now: (Instant, u64)) -> Option<Self> {
        let elapsed = now.0.saturating_duration_since(then.0).as_millis();
        let from_ms = then.1.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX));
        let by_ms = now.1.saturating_sub(from_ms);
        (u128::from(by_ms) > TOLERANCE.as_millis()).then_some(Self { from_ms, by_ms })
    }

    /// What happened before it is as long ago as without it. What is of a later time was written after it, or before the clock
    /// was wrong.
    pub(super) fn shift(self, time_ms: &mut u64) {
        if *time_ms <= self.from_ms {
            *time_ms += self.by_ms;
        }
    }
}
