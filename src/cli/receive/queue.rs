//! Bounded queue of batches for the printing or the saving thread, so that neither delays a sender.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use standpipe::receiver::Batch;

/// Maximum number of queued entries.
const MAX_ENTRIES: usize = 256;
/// Maximum memory of queued batches. These batches count toward the 256 MiB for all requests, and most of that memory
/// must stay available for new requests.
const MAX_BYTES: usize = 64 * 1024 * 1024;

pub(super) enum Entry {
    Batch(Batch),
    /// A refused request: a short text for the foot, and a line for standard error.
    Refusal(String, String),
    /// The end of the queue, with the last lines to print.
    End(Vec<String>),
}

/// The queue. Adding never blocks: if the queue is full, a batch is dropped and counted, and a refusal is dropped.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Bytes of the batches that are queued or being processed.
    bytes: usize,
    /// Number of batches that ever arrived.
    batches: u64,
    missed: Missed,
    /// Last lines to print, after all entries. `Some` once the queue is closed.
    closing_lines: Option<Vec<String>>,
}

/// Number of batches that did not fit, and of their records.
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
        // If no other batch is queued or processed, one of any size is accepted, so that a very large batch is shown.
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

    /// Adds a refusal, unless the queue is full.
    pub(super) fn add_refusal(&self, summary: String, line: String) {
        let mut state = self.lock();
        if state.entries.len() < MAX_ENTRIES {
            state.entries.push_back(Entry::Refusal(summary, line));
            self.changed.notify_one();
        }
    }

    /// Closes the queue. `closing_lines` follow the queued entries.
    pub(super) fn close(&self, closing_lines: Vec<String>) {
        self.lock().closing_lines = Some(closing_lines);
        self.changed.notify_one();
    }

    /// Removes the next entry, or [`Entry::End`] after the last one. Waits for it up to `timeout`, then returns `None`.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Option<Entry> {
        let is_idle = |state: &mut State| state.entries.is_empty() && state.closing_lines.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), timeout.unwrap_or(Duration::MAX), is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.entries.pop_front().or_else(|| state.closing_lines.clone().map(Entry::End))
    }

    /// Releases the memory of a batch that was processed.
    pub(super) fn release(&self, batch: &Batch) {
        self.lock().bytes -= batch.memory_bytes();
    }

    /// Returns the counts of the batches that did not fit since the last call, or `None` if there were none.
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
