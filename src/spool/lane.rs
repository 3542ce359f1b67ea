//! The pending entries of one signal in a journal, with their sums.

use std::collections::VecDeque;
use std::mem;

use super::entry::{Header, Place};

/// The entries of one signal, oldest first.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) slots: VecDeque<Slot>,
    /// Whether the first one is being sent.
    pub(super) is_in_hand: bool,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Reads of the first one in a row that have failed.
    pub(super) failed_reads: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) header: Header,
}

impl Lane {
    pub(super) fn push(&mut self, slot: Slot) {
        self.records += u64::from(slot.header.records);
        self.bytes += u64::from(slot.header.body_len);
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
        self.bytes -= u64::from(slot.header.body_len);
        // the next one is another
        self.failed_reads = 0;
    }
}
