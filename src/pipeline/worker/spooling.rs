//! Moves batches between the worker and the spool on disk.
//!
//! The spool is a first-in, first-out queue per signal behind the queue in memory. A signal begins to use it
//! when a request cannot be delivered, and stops when the spool has no request of the signal left:
//!
//! - [`Worker::move_to_spool`] writes the failed request to disk, then everything that has left the queue.
//! - While the spool has requests of the signal, [`Worker::pass_on_to_spool`] also writes all later records to disk,
//!   so that the order is kept.
//! - [`Worker::load_spooled`] reads the oldest request for the next attempt. Its entry stays on disk until the
//!   verdict is final (`settle_loaded`), so a process that dies during the attempt loses nothing. The next process
//!   may then send the request a second time.
//! - A request that the spool cannot take (full disk, I/O error) stays in memory, as if there were no spool.
//!
//! # Sending in the background
//! An attempt can take as long as its timeout, and meanwhile the queue in memory could fill up. With a spool, a second
//! thread therefore runs the attempt ([`run_in_background`]), unless the worker runs on a caller's thread. Meanwhile
//! the worker checks its queues every 50 ms and writes those that are nearly full to disk. The batch that is being sent
//! is older than the queued records, so it must precede them on disk:
//!
//! 1. The worker writes a copy of the batch to the spool. The attempt goes on with the batch in memory.
//! 2. The worker writes the queued records to the spool, behind the copy.
//! 3. When the attempt ends, [`Worker::adopt_entry`] treats the batch as if it had been loaded from that copy, and
//!    releases its room in the queue. A final verdict settles the batch and removes the copy; otherwise the batch is
//!    sent again.
//!
//! If the process dies between these steps, the copy is the only entry with these records, so the next process sends
//! them once. They arrive a second time if the interrupted attempt also reached the server.

use std::time::{Duration, Instant};
use std::{io, mem, thread};

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::attempt::NO_DEADLINE;
use super::{Delivery, Worker, records};
use crate::config::BatchSettings;
use crate::pipeline::batch::{Batch, Next, Origin};
use crate::pipeline::clock;
use crate::pipeline::ledger::Outcome;
use crate::pipeline::retry::Pause;
#[cfg(test)]
use crate::pipeline::simulation;
use crate::problem::ProblemKind;
use crate::process::{contain_panic, spawn_scoped};
use crate::record::{Chunk, Signal};
use crate::spool::Spool;

/// Pause before the disk is read again after an I/O error. A flush does not shorten it.
const UNREADABLE_PAUSE: Pause = Pause { time: Duration::from_secs(5), by_server: true, is_last: false };

/// Time between two checks of the queues during an attempt.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl Worker {
    /// Does the spool's periodic work: drops requests that are too old, finds requests that other processes have
    /// left, and reports problems.
    pub(super) fn tick_spool(&mut self, now: Instant) {
        let Some(spool) = &mut self.spool else { return };
        let Some(dropped) = spool.tick(now) else { return };
        for delivery in &mut self.deliveries {
            delivery.has_spooled |= spool.has_pending(delivery.signal);
            delivery.settled += dropped[delivery.signal as usize].own;
        }
        let mut expired = dropped.each_ref().map(|dropped| dropped.own + dropped.of_others);
        self.counters.settle_spooled(Outcome::Expired, dropped);
        self.count_damaged();
        for at in 0..self.deliveries.len() {
            expired[self.deliveries[at].signal as usize] += self.expire_in_hand(at);
        }
        for (signal, expired) in Signal::ALL.into_iter().zip(expired).filter(|(_, expired)| *expired > 0) {
            let records = records(expired);
            let what = || format!("dropped {records} that were on disk for longer than spool-age; raise it");
            self.reporter.report(signal, ProblemKind::GaveUp, what);
        }
        self.report_spool();
    }

    /// Counts the records that the spool found damaged since the last call. They count as settled, so that no flush
    /// waits for them.
    fn count_damaged(&mut self) {
        let Some(damaged) = self.spool.as_mut().map(|spool| spool.take_damaged()) else { return };
        for delivery in &mut self.deliveries {
            delivery.settled += damaged[delivery.signal as usize].own;
        }
        self.counters.settle_spooled(Outcome::Damaged, damaged);
    }

    fn report_spool(&mut self) {
        for note in self.spool.as_mut().map_or_else(Vec::new, |spool| spool.take_notes()) {
            self.reporter.report_note(note);
        }
    }

    /// Drops the request that was loaded from the spool, if it has become too old. Returns the number of its records.
    fn expire_in_hand(&mut self, at: usize) -> u64 {
        let Some(spool) = &self.spool else { return 0 };
        let is_too_old = |part: &Batch| part.is_spooled() && spool.is_too_old(part.signal);
        let expired = self.deliveries[at].take_parts(is_too_old);
        let records = expired.iter().map(|part| part.records).sum();
        for part in expired {
            self.settle_part(at, part, Outcome::Expired);
        }
        records
    }

    /// Returns whether a flush also waits for the requests that other processes have left.
    pub(super) fn drains(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.drains())
    }

    /// Moves the parts in memory to the spool, oldest first, then all records that have left the queue. Whatever the
    /// spool cannot take stays in memory.
    pub(super) fn move_to_spool(&mut self, at: usize) {
        let of_spool = self.deliveries[at].take_parts(Batch::is_spooled);
        while let Some(part) = self.deliveries[at].parts.pop() {
            if let Some(part) = self.append_to_spool(at, part) {
                self.deliveries[at].parts.push(part);
                break;
            }
        }
        self.deliveries[at].parts.extend(of_spool);
        self.pass_on_to_spool(at);
    }

    /// Moves all records that have left the queue to the spool, if the spool has older records of the signal.
    pub(super) fn pass_on_to_spool(&mut self, at: usize) {
        while self.deliveries[at].passes_on_to_spool() {
            let delivery = &mut self.deliveries[at];
            match delivery.next_batch(&self.batch, &self.resource) {
                None => return,
                Some(Next::Dropped { origin, outcome, records, bytes }) => {
                    self.settle_dropped(at, origin, outcome, (records, bytes));
                }
                Some(Next::Batch(batch)) => {
                    if let Some(batch) = self.append_to_spool(at, batch) {
                        // At the bottom of the stack, to be sent last: the other parts are older.
                        return self.deliveries[at].parts.insert(0, batch);
                    }
                }
            }
        }
    }

    /// Writes a batch to the spool and counts it as spooled. Returns the batch if the spool cannot take it.
    fn append_to_spool(&mut self, at: usize, batch: Batch) -> Option<Batch> {
        let Some(spool) = &mut self.spool else { return Some(batch) };
        let result = write(spool, &batch);
        if let Err(error) = result {
            if batch.is_lost() {
                self.settle_lost(at, batch);
                return None;
            }
            let what = || format!("the spool cannot take a request, which stays in memory: {error}");
            self.reporter.report(batch.signal, ProblemKind::Spool, what);
            return Some(batch);
        }
        // Free the batch before the sync, which may take long: callers may wait for the room. The sync protects the
        // entry from a failure of the machine; without a sync, the entry still survives the end of the process.
        self.deliveries[at].note_spooled(batch);
        spool.sync_if_due(clock::now());
        None
    }

    /// Loads the oldest request in the spool as the next part, or as several parts if it is too large.
    pub(super) fn load_spooled(&mut self, at: usize) {
        self.pass_on_to_spool(at);
        let signal = self.deliveries[at].signal;
        let Some(spool) = &mut self.spool else { return };
        let request = spool.next(signal);
        self.count_damaged();
        let delivery = &mut self.deliveries[at];
        match request {
            Ok(None) => delivery.has_spooled = false,
            Ok(Some(request)) => {
                self.counters.take_from_spool(signal, request.records, request.is_own);
                let origin = Origin::Spool { is_own: request.is_own };
                match contain_panic(|| Batch::of_spool(signal, origin, &request.body)) {
                    Ok(Some(batch)) => delivery.parts.extend(divide(batch, &self.batch)),
                    // The body cannot be decoded in spite of its valid checksum: this library did not write the entry.
                    _ => {
                        self.counters.settle(signal, Outcome::Damaged, request.records);
                        self.settle_loaded(at);
                    }
                }
            }
            Err(error) => {
                delivery.pause_for(clock::now(), UNREADABLE_PAUSE);
                let what = || format!("the spool cannot be read: {error}");
                self.reporter.report(signal, ProblemKind::Spool, what);
            }
        }
    }

    /// Counts the outcome of all records of a part, and frees it.
    pub(super) fn settle_part(&mut self, at: usize, part: Batch, outcome: Outcome) {
        self.deliveries[at].settle(part.origin, outcome, part.records);
        self.release_part(at, part);
    }

    /// Frees a part whose outcome is counted. If it was the last part of a request from the spool, the entry on disk is
    /// removed, too.
    pub(super) fn release_part(&mut self, at: usize, part: Batch) {
        let is_spooled = part.is_spooled();
        self.deliveries[at].release_batch(part);
        self.deliveries[at].part_is_over();
        if is_spooled {
            self.settle_loaded(at);
        }
    }

    /// Counts a part whose memory was lost because the flight recorder's file was truncated. If the spool has a copy,
    /// nothing is lost: the copy is loaded and sent instead.
    pub(super) fn settle_lost(&mut self, at: usize, part: Batch) {
        match (part.origin, &mut self.spool) {
            (Origin::Spool { is_own }, Some(spool)) => {
                spool.put_back(part.signal);
                self.counters.put_back_into_spool(part.signal, part.records, is_own);
            }
            _ => self.settle_part(at, part, Outcome::Damaged),
        }
        self.deliveries[at].part_is_over();
        self.report_spool();
    }

    /// Counts and reports records that were dropped before they were in a batch: see [`Next::Dropped`].
    pub(super) fn settle_dropped(&mut self, at: usize, origin: Origin, outcome: Outcome, lost: (u64, usize)) {
        self.deliveries[at].settle_all(origin, vec![lost], outcome);
        if outcome == Outcome::TooLarge {
            let what = || format!("a record of {} bytes exceeds batch-bytes and is lost; raise it", lost.1);
            self.reporter.report(self.deliveries[at].signal, ProblemKind::TooLarge, what);
        }
        self.report_spool();
    }

    /// Removes the loaded request from the spool, once all its parts are settled.
    fn settle_loaded(&mut self, at: usize) {
        if !self.deliveries[at].parts.iter().any(Batch::is_spooled) {
            let delivery = &mut self.deliveries[at];
            let Some(spool) = &mut self.spool else { return };
            if let Err(error) = spool.settle(delivery.signal) {
                let what =
                    || format!("the spool cannot note a delivery, a request may be sent twice: {error}");
                self.reporter.report(delivery.signal, ProblemKind::Spool, what);
            }
            delivery.has_spooled = spool.has_pending(delivery.signal);
        }
    }

    /// Closes the spool at the end of a stop: returns loaded requests to it, and writes all other unsettled records.
    pub(super) fn close_spool(&mut self) {
        (0..self.deliveries.len()).for_each(|at| self.keep_halves(at));
        let Some(spool) = &mut self.spool else { return };
        self.deliveries.iter().for_each(|delivery| spool.put_back(delivery.signal));
        let now = clock::now();
        for at in 0..self.deliveries.len() {
            let delivery = &mut self.deliveries[at];
            delivery.drain_queue(now);
            for part in delivery.parts.iter() {
                if let Origin::Spool { is_own } = part.origin {
                    self.counters.put_back_into_spool(part.signal, part.records, is_own);
                }
            }
            delivery.parts.retain(|part| !part.is_spooled());
            // Makes `move_to_spool` write the backlog as well.
            delivery.has_spooled = true;
            self.move_to_spool(at);
        }
        let Some(spool) = &mut self.spool else { return };
        spool.close();
        // Unless the flight recorder has all records, `Counters::close` counts all unsettled records as dropped. So
        // the records that the recorder does have are counted as spooled before that.
        if !spool.recorder().has_all() {
            let keep = |delivery: &Delivery| self.counters.spool(delivery.signal, delivery.recorded());
            self.deliveries.iter().for_each(keep);
        }
        // The spool may have found problems since the last tick.
        self.report_spool();
    }

    /// Writes the unsettled parts of a divided request to the spool as separate requests, and removes the original.
    /// Otherwise the next process would send the settled parts again. The new requests come last in the spool. A spool
    /// opened by `standpipe drain` keeps the original, because the new requests would belong to the draining exporter
    /// and not to the owner of the original.
    fn keep_halves(&mut self, at: usize) {
        let (delivery, Some(spool)) = (&mut self.deliveries[at], &mut self.spool) else { return };
        let of_spool = || delivery.parts.iter().filter(|part| part.is_spooled());
        if spool.drains() || !of_spool().any(Batch::is_half) {
            return;
        }
        // If a write fails, the original request stays on disk together with the parts already written: some records
        // may then be sent twice, but none is lost.
        if of_spool().rev().all(|part| write(spool, part).is_ok()) {
            of_spool().for_each(|part| self.counters.spool(part.signal, part.records));
            delivery.parts.retain(|part| !part.is_spooled());
            self.settle_loaded(at);
        }
    }

    /// Writes the records of nearly full queues to disk, while `batch` of the delivery `sending` is being sent. A panic
    /// loses the records that had left a queue, but not the batch that is being sent.
    pub(super) fn relieve_queues(&mut self, sending: usize, batch: &Batch) {
        for at in 0..self.deliveries.len() {
            // Set aside the counts of the batch that is being sent, so that `next_batch` can use `in_hand`, and a panic
            // does not count this batch as lost.
            let being_sent = mem::take(&mut self.deliveries[at].in_hand);
            if contain_panic(|| self.relieve_queue(at, sending, batch)).is_err() {
                self.report_panic(at);
                self.deliveries[at].write_off_unsent();
            }
            for (in_hand, (records, bytes)) in self.deliveries[at].in_hand.iter_mut().zip(being_sent) {
                *in_hand = (in_hand.0 + records, in_hand.1 + bytes);
            }
        }
    }

    fn relieve_queue(&mut self, at: usize, sending: usize, batch: &Batch) {
        let delivery = &self.deliveries[at];
        let is_pressing = delivery.queue.is_pressing(delivery.queue.level());
        let is_in_order = delivery.parts.iter().all(Batch::is_spooled);
        // True if the records of this queue may go to the spool without a copy of the batch in front of them.
        let is_first = at != sending || batch.is_spooled() || self.state.is_copied_to_spool;
        // If the spool has older requests (for example, because it could not be read), they would precede the copy, and
        // the verdict would remove the oldest of them instead of the copy.
        let may_copy = !delivery.has_spooled;
        if is_pressing && is_in_order && (is_first || may_copy && self.copy_to_spool(batch)) {
            let delivery = &mut self.deliveries[at];
            delivery.has_spooled = true;
            delivery.drain_queue(clock::now());
            self.pass_on_to_spool(at);
        }
    }

    /// Copies to the spool the batch that is being sent, so that later records can follow it. Returns false on failure.
    fn copy_to_spool(&mut self, batch: &Batch) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        self.state.is_copied_to_spool = write(spool, batch).is_ok();
        self.state.is_copied_to_spool
    }

    /// If the spool got a copy of the batch during the attempt, treats the batch as loaded from that copy.
    pub(super) fn adopt_entry(&mut self, at: usize, batch: &mut Batch) {
        if !mem::take(&mut self.state.is_copied_to_spool) {
            return;
        }
        let (delivery, Some(spool)) = (&mut self.deliveries[at], &mut self.spool) else { return };
        spool.take_unread(delivery.signal);
        delivery.move_out_of_queue(batch);
        // From now on `spool-age` limits how long the batch is kept.
        delivery.give_up = Some(clock::now() + NO_DEADLINE);
    }
}

/// Appends a batch to the spool, and releases its chunks in the flight recorder: from then on the entry is the only
/// copy that the next process sends.
fn write(spool: &mut Spool, batch: &Batch) -> io::Result<()> {
    // If the process dies during the write, both the recorder and the entry may have the records. So the chunks store
    // where the entry is, and the next process sends the records once.
    let note_entry =
        |segment, offset| batch.recorded_chunks().for_each(|chunk| chunk.note_entry(segment, offset));
    // Copy first, check second. If the flight recorder's file is truncated while the body is read, the copy contains
    // zeros, and `is_lost` returns true. Without the copy, zeros could be written with a valid checksum.
    let body = batch.body().concat();
    if batch.is_lost() {
        return Err(io::Error::other("its records were lost with the flight recorder"));
    }
    spool.append(batch.signal, batch.records, &[&body], &note_entry)?;
    batch.recorded_chunks().for_each(Chunk::settle);
    Ok(())
}

/// Divides a loaded batch into parts within the limits of this process: the process that wrote the batch may have had
/// larger limits, or may have left a whole queue in the flight recorder. The last element is the first part to send.
fn divide(batch: Batch, limits: &BatchSettings) -> Vec<Batch> {
    let is_too_large = batch.records > limits.records as u64 || batch.len() > limits.bytes;
    if !is_too_large || !batch.is_divisible() {
        return vec![batch];
    }
    // Each scope of a spooled request carries its own resource, so none is passed here.
    batch.halve(&[]).into_iter().rev().flat_map(|half| divide(half, limits)).collect()
}

/// Runs `work` on a second thread, and calls `look` every [`CHECK_INTERVAL`] until `work` ends. Returns `None` if
/// `work` panicked.
pub(super) fn run_in_background<T: Send>(
    mut work: impl FnMut() -> Option<T> + Send,
    mut look: impl FnMut(),
) -> Option<T> {
    #[cfg(test)]
    if let Some(worked) = simulation::run_in_background(CHECK_INTERVAL, &mut work, &mut look) {
        return worked;
    }
    let (running, ended) = bounded::<()>(0);
    let worked = thread::scope(|scope| {
        let work = || {
            let _running = running;
            work()
        };
        let thread = spawn_scoped(scope, "standpipe-send", work).ok()?;
        while ended.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            look();
        }
        // If the thread panicked, its request may have arrived, so `work` is not called again.
        Some(thread.join().ok().flatten())
    });
    // If no thread can be started, the worker sends on its own thread.
    worked.unwrap_or_else(work)
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    #[test]
    fn calls_work_once_though_its_thread_panics() {
        let mut calls = 0;
        let work = || -> Option<()> {
            calls += 1;
            resume_unwind(Box::new("on purpose"));
        };
        assert_eq!(run_in_background(work, || ()), None);
        assert_eq!(calls, 1);
    }
}
