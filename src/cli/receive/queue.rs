//! Bounded queue of batches for the thread that prints or the one that saves, so that neither delays a sender.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use standpipe::receiver::Batch;

/// Entries that may wait.
const MAX_ENTRIES: usize = 256;
/// Memory of waiting batches. They are part of the memory that all requests share; the senders keep most of it.
const MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum Entry {
    Batch(Batch),
    /// A refused request to be reported: a few words for the foot, and a line.
    Refusal(String, String),
    /// Nothing comes after these lines.
    End(Vec<String>),
}

/// Takes entries without waiting. An entry that finds no room is counted.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Bytes of the batches that wait or are being worked on.
    bytes: usize,
    /// Batches that ever arrived.
    batches: u64,
    missed: Missed,
    /// The lines to print when all entries are taken. They are set when nothing comes any more.
    closing_lines: Option<Vec<String>>,
}

/// What found no room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) batches: u64,
    pub(super) records: u64,
}

impl Queue {
    pub(super) fn add(&self, batch: &Batch) {
        let bytes = batch.memory_bytes();
        let mut state = self.lock();
        state.batches += 1;
        // A large batch alone is taken.
        let has_room = state.bytes == 0 || state.bytes.saturating_add(bytes) <= MAX_BYTES;
        if has_room && state.entries.len() < MAX_ENTRIES {
            state.bytes += bytes;
            state.entries.push_back(Entry::Batch(batch.clone()));
            self.changed.notify_one();
        } else {
            state.missed.batches += 1;
            state.missed.records += batch.record_count() as u64;
        }
    }

    /// Adds a refusal, if there is room for it.
    pub(super) fn add_refusal(&self, summary: String, line: String) {
        let mut state = self.lock();
        if state.entries.len() < MAX_ENTRIES {
            state.entries.push_back(Entry::Refusal(summary, line));
            self.changed.notify_one();
        }
    }

    /// Ends the work with these lines, behind all entries that wait.
    pub(super) fn close(&self, closing_lines: Vec<String>) {
        self.lock().closing_lines = Some(closing_lines);
        self.changed.notify_one();
    }

    /// Waits for the next entry, `timeout` at most.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Option<Entry> {
        let is_idle = |state: &mut State| state.entries.is_empty() && state.closing_lines.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), timeout.unwrap_or(Duration::MAX), is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.entries.pop_front().or_else(|| state.closing_lines.clone().map(Entry::End))
    }

    /// Gives the room of a batch back.
    pub(super) fn release(&self, batch: &Batch) {
        self.lock().bytes -= batch.memory_bytes();
    }

    /// Returns what found no room since the last call.
    pub(super) fn take_missed(&self) -> Option<Missed> {
        Some(mem::take(&mut self.lock().missed)).filter(|missed| missed.batches > 0)
    }

    pub(super) fn batch_count(&self) -> u64 {
        self.lock().batches
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_comes_behind_all_that_waits_though_there_was_no_room_for_it() {
        let queue = Queue::default();
        for _ in 0..=MAX_ENTRIES {
            queue.add_refusal(String::new(), String::new());
        }
        queue.close(vec!["all".to_owned()]);
        for _ in 0..MAX_ENTRIES {
            assert!(matches!(queue.next(None), Some(Entry::Refusal(..))));
        }
        assert!(matches!(queue.next(None), Some(Entry::End(lines)) if lines == ["all"]));
    }

    #[test]
    fn nothing_is_returned_if_nothing_comes_in_time() {
        assert!(Queue::default().next(Some(Duration::ZERO)).is_none());
    }
}
