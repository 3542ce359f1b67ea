//! Bounded queues of batches for the thread that prints and the one that saves, so that neither delays a sender.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use standpipe::receiver::Batch;

/// Entries that may wait.
const MAX_ENTRIES: usize = 256;
/// Memory of waiting batches. They are part of the memory that all requests share; the senders keep most of it.
const MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum Entry {
    Batch(Batch),
    Refusal(Refusal),
    /// Nothing comes after it.
    End,
}

/// A refused request to be reported.
#[derive(Debug)]
pub(super) struct Refusal {
    /// A few words for the foot.
    pub(super) summary: String,
    pub(super) line: String,
}

/// Takes what another thread works on and never waits.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    counters: Arc<Counters>,
}

/// The other end.
#[derive(Debug)]
pub(super) struct Waiting {
    entries: Receiver<Entry>,
    counters: Arc<Counters>,
}

/// What both ends share.
#[derive(Debug, Default)]
struct Counters {
    /// Batches that arrived.
    batches: AtomicUsize,
    /// Bytes of those that wait, or are being worked on.
    waiting: AtomicUsize,
    missed: Mutex<Missed>,
    /// The lines to print at the very end. Nothing is added once they are there.
    closing_lines: OnceLock<Vec<String>>,
}

/// What found no room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) batches: u64,
    pub(super) records: u64,
}

pub(super) fn new() -> (Queue, Waiting) {
    let (sender, receiver) = mpsc::sync_channel(MAX_ENTRIES);
    let counters = Arc::new(Counters::default());
    (Queue { entries: sender, counters: counters.clone() }, Waiting { entries: receiver, counters })
}

impl Queue {
    pub(super) fn add(&self, batch: &Batch) {
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        let bytes = batch.memory_bytes();
        let waiting = self.counters.waiting.fetch_add(bytes, Ordering::Relaxed);
        // a large batch alone is taken
        let has_room = waiting == 0 || waiting.saturating_add(bytes) <= MAX_BYTES;
        if !has_room || self.entries.try_send(Entry::Batch(batch.clone())).is_err() {
            self.counters.waiting.fetch_sub(bytes, Ordering::Relaxed);
            let mut missed = self.counters.missed.lock().unwrap_or_else(PoisonError::into_inner);
            missed.batches += 1;
            missed.records += batch.record_count() as u64;
        }
    }

    /// Adds a refusal, if there is room for it.
    pub(super) fn add_refusal(&self, refusal: Refusal) {
        let _ = self.entries.try_send(Entry::Refusal(refusal));
    }

    pub(super) fn batch_count(&self) -> u64 {
        self.counters.batches.load(Ordering::Relaxed) as u64
    }

    /// Ends the work with these lines, behind all that waits.
    pub(super) fn close(&self, closing_lines: Vec<String>) {
        let _ = self.counters.closing_lines.set(closing_lines);
        // without room, it ends when nothing waits any more
        let _ = self.entries.try_send(Entry::End);
    }
}

impl Waiting {
    /// The next entry, which is the end if nothing can come any more; `None` if nothing comes in time.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Option<Entry> {
        let is_closed = self.counters.closing_lines.get().is_some();
        let received = match timeout {
            _ if is_closed => self.entries.try_recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(timeout) => self.entries.recv_timeout(timeout),
            None => self.entries.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(entry) => Some(entry),
            Err(RecvTimeoutError::Disconnected) => Some(Entry::End),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Gives the room of a batch back.
    pub(super) fn release(&self, batch: &Batch) {
        self.counters.waiting.fetch_sub(batch.memory_bytes(), Ordering::Relaxed);
    }

    /// What found no room since it was asked last.
    pub(super) fn take_missed(&self) -> Option<Missed> {
        let missed = mem::take(&mut *self.counters.missed.lock().unwrap_or_else(PoisonError::into_inner));
        (missed.batches > 0).then_some(missed)
    }

    pub(super) fn closing_lines(&self) -> &[String] {
        self.counters.closing_lines.get().map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_comes_though_there_was_no_room_for_it() {
        let (queue, waiting) = new();
        for _ in 0..MAX_ENTRIES {
            queue.entries.try_send(Entry::End).expect("there is room");
        }
        queue.close(vec!["all".to_owned()]);
        // one more than what waited, although a sender is left
        for _ in 0..=MAX_ENTRIES {
            assert!(matches!(waiting.next(Some(Duration::from_secs(60))), Some(Entry::End)));
        }
        assert_eq!(waiting.closing_lines(), ["all"]);
    }
}
