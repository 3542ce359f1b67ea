//! How do batches reach the thread that prints and the one that saves? By bounded queues, so that neither delays a sender.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use standpipe::receiver::{Batch, RefusedRequest};

/// What may wait.
const MOST_ENTRIES: usize = 256;
/// What batches that wait may take of the memory that all requests share, so that the senders keep most of it.
const MOST_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum Entry {
    Batch(Batch),
    /// With the number of refusals like it that were not printed.
    Refusal(RefusedRequest, u64),
    /// Nothing comes after it.
    End,
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
    refusals: AtomicUsize,
    /// Bytes of those that wait, or are being worked on.
    waiting: AtomicUsize,
    missed_batches: AtomicUsize,
    missed_records: AtomicUsize,
    /// The lines to print at the very end.
    closing_lines: OnceLock<Vec<String>>,
}

/// What found no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) batches: u64,
    pub(super) records: u64,
}

pub(super) fn new() -> (Queue, Waiting) {
    let (sender, receiver) = mpsc::sync_channel(MOST_ENTRIES);
    let counters = Arc::new(Counters::default());
    (Queue { entries: sender, counters: counters.clone() }, Waiting { entries: receiver, counters })
}

impl Queue {
    pub(super) fn add(&self, batch: &Batch) {
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        let bytes = batch.memory_bytes();
        let waiting = self.counters.waiting.fetch_add(bytes, Ordering::Relaxed);
        // a large batch alone is taken
        let has_room = waiting == 0 || waiting.saturating_add(bytes) <= MOST_BYTES;
        if !has_room || self.entries.try_send(Entry::Batch(batch.clone())).is_err() {
            self.counters.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.counters.missed_batches.fetch_add(1, Ordering::Relaxed);
            self.counters.missed_records.fetch_add(batch.record_count(), Ordering::Relaxed);
        }
    }

    /// Counts a refusal, which is printed if there is room for it. `more` like it were not.
    pub(super) fn report_refusal(&self, refused: &RefusedRequest, more: Option<u64>) {
        self.counters.refusals.fetch_add(1, Ordering::Relaxed);
        if let Some(more) = more {
            let _ = self.entries.try_send(Entry::Refusal(refused.clone(), more));
        }
    }

    pub(super) fn batch_count(&self) -> u64 {
        self.counters.batches.load(Ordering::Relaxed) as u64
    }

    /// Ends the work with these lines, behind all that waits.
    pub(super) fn close(&self, closing_lines: Vec<String>) {
        let _ = self.counters.closing_lines.set(closing_lines);
        // without room, it ends when the last queue is gone
        let _ = self.entries.try_send(Entry::End);
    }
}

impl Waiting {
    /// The next entry, which is the end if nothing can come any more; `None` if nothing comes in time.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Option<Entry> {
        let received = match timeout {
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
        let batches = self.counters.missed_batches.swap(0, Ordering::Relaxed) as u64;
        if batches == 0 {
            return None;
        }
        let records = self.counters.missed_records.swap(0, Ordering::Relaxed) as u64;
        Some(Missed { batches, records })
    }

    pub(super) fn refusals(&self) -> u64 {
        self.counters.refusals.load(Ordering::Relaxed) as u64
    }

    pub(super) fn closing_lines(&self) -> &[String] {
        self.counters.closing_lines.get().map_or(&[], Vec::as_slice)
    }
}
