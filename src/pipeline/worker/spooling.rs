//! What goes to the spool, and comes back from there.
//!
//! The first request of a signal that cannot be delivered now goes to disk, and all that comes behind it: the order stays.
//! The worker attempts the oldest one, again and again; once the spool has nothing left of the signal, requests go to the
//! collector directly. Where the spool cannot take a request, it stays in memory, as if there were no spool.
//!
//! # Sending in the background
//! With a spool, a collector that does not answer must not let the queue fill up. Another thread sends for the length of one
//! attempt. Meanwhile the worker looks at its queues and moves to the disk what comes close to filling one, oldest first. The
//! oldest is the batch in flight, so that is copied first:
//!
//! 1. The spool gets a copy of the batch. The batch itself stays in memory, and the attempt goes on with it.
//! 2. All that follows the batch goes to the spool.
//! 3. Once the attempt has a verdict, the batch gives up its room in the queue and stands for its entry in the spool, as if it
//!    had been read from there. The verdict settles both, or the batch is sent again from memory.
//!
//! A process that dies in between leaves one entry in the spool, which the next process sends.

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
use crate::record::Signal;
use crate::spool::Spool;

/// Before the disk is asked again for what it could not give.
const UNREADABLE: Pause = Pause { time: Duration::from_secs(5), by_server: true, is_last: false };

/// How often the worker looks at its queues during an attempt.
const LOOK: Duration = Duration::from_millis(50);

impl Worker {
    /// Does what is due in the spool from time to time: drops what is too old, finds what others have left since, and reports
    /// what it found.
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
            let what = || format!("dropped {} that were on disk for longer than spool-age", records(expired));
            self.reporter.report(signal, ProblemKind::GaveUp, what);
        }
        self.report_spool();
    }

    /// Counts the records that the spool found damaged since the last call. No flush waits for them.
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

    /// Gives up the request that was loaded from the spool, if it is too old. Returns its records.
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

    /// Whether a flush waits for all that others have left.
    pub(super) fn drains(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.drains())
    }

    /// Moves what cannot be sent now to the spool, oldest first, and then all that has left the queue. What the spool cannot
    /// take stays.
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

    /// Moves all that has left the queue to the spool, if that has something that goes before it.
    pub(super) fn pass_on_to_spool(&mut self, at: usize) {
        while self.deliveries[at].passes_on_to_spool() {
            let delivery = &mut self.deliveries[at];
            match delivery.next_batch(&self.batch, &self.resource) {
                None => return,
                Some(Next::Dropped(outcome, records, bytes)) => {
                    self.settle_dropped(at, outcome, records, bytes);
                }
                Some(Next::Batch(batch)) => {
                    if let Some(batch) = self.append_to_spool(at, batch) {
                        // the last to be sent: the parts that are there are older
                        return self.deliveries[at].parts.insert(0, batch);
                    }
                }
            }
        }
    }

    /// Writes a batch to the spool; returns it if that cannot take it.
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
        // before the sync, which takes its time: a process that dies meanwhile has it once
        self.deliveries[at].note_spooled(batch);
        spool.sync_if_due(clock::now());
        None
    }

    /// Makes the oldest request in the spool the next part.
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
                    // its checksum is right: something else than this library has written it
                    _ => {
                        self.counters.settle(signal, Outcome::Damaged, request.records);
                        self.settle_loaded(at);
                    }
                }
            }
            Err(error) => {
                delivery.pause_for(clock::now(), UNREADABLE);
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

    /// Frees a part whose outcome is counted. The next part is another one.
    pub(super) fn release_part(&mut self, at: usize, part: Batch) {
        let is_spooled = part.is_spooled();
        self.deliveries[at].release_batch(part);
        self.deliveries[at].part_is_over();
        if is_spooled {
            self.settle_loaded(at);
        }
    }

    /// Counts a part whose records were lost with the file of the flight recorder. If the spool has a copy, nothing is lost: the
    /// copy is read and sent instead.
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

    /// Counts and reports records in no part that were dropped: see [`Next::Dropped`].
    pub(super) fn settle_dropped(&mut self, at: usize, outcome: Outcome, records: u64, bytes: usize) {
        self.deliveries[at].settle_all(Origin::Queue, vec![(records, bytes)], outcome);
        if outcome == Outcome::TooLarge {
            let what = || format!("a record of {bytes} bytes is larger than a request may be");
            self.reporter.report(self.deliveries[at].signal, ProblemKind::TooLarge, what);
        }
        self.report_spool();
    }

    /// Removes the request that was loaded from the spool, once all its parts are settled.
    fn settle_loaded(&mut self, at: usize) {
        if !self.deliveries[at].parts.iter().any(Batch::is_spooled) {
            let delivery = &mut self.deliveries[at];
            let Some(spool) = &mut self.spool else { return };
            if let Err(error) = spool.settle(delivery.signal) {
                let what = || format!("the spool cannot note that a request was delivered: {error}");
                self.reporter.report(delivery.signal, ProblemKind::Spool, what);
            }
            delivery.has_spooled = spool.has_pending(delivery.signal);
        }
    }

    /// The end: what is left goes to the spool.
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
            delivery.has_spooled = true;
            self.move_to_spool(at);
        }
        let Some(spool) = &mut self.spool else { return };
        spool.close();
        if !spool.recorder().has_all() {
            let keep = |delivery: &Delivery| self.counters.spool(delivery.signal, delivery.recorded());
            self.deliveries.iter().for_each(keep);
        }
        // what was found since the last tick
        self.report_spool();
    }

    /// Of a request in the spool that was divided, some parts are settled: those that are left become requests of their own, or
    /// the next process would send all of it again. They go behind what waits already.
    fn keep_halves(&mut self, at: usize) {
        let (delivery, Some(spool)) = (&mut self.deliveries[at], &mut self.spool) else { return };
        let of_spool = || delivery.parts.iter().filter(|part| part.is_spooled());
        if !of_spool().any(Batch::is_half) {
            return;
        }
        // where one finds no room, the request stays, with those that were written before it
        if of_spool().rev().all(|part| write(spool, part).is_ok()) {
            of_spool().for_each(|part| self.counters.spool(part.signal, part.records));
            delivery.parts.retain(|part| !part.is_spooled());
            self.settle_loaded(at);
        }
    }

    /// Moves queues to the disk that are close to being full. After a panic, the records that had left the queue are lost, but
    /// not the batch that is being sent.
    pub(super) fn relieve_queues(&mut self, sending: usize, batch: &Batch) {
        for at in 0..self.deliveries.len() {
            let being_sent = mem::take(&mut self.deliveries[at].in_hand);
            if contain_panic(|| self.relieve_queue(at, sending, batch)).is_err() {
                self.report_panic(at);
                self.deliveries[at].write_off_unsent();
            }
            let in_hand = &mut self.deliveries[at].in_hand;
            *in_hand = (in_hand.0 + being_sent.0, in_hand.1 + being_sent.1);
        }
    }

    fn relieve_queue(&mut self, at: usize, sending: usize, batch: &Batch) {
        let delivery = &self.deliveries[at];
        let is_pressing = delivery.queue.is_pressing(delivery.queue.level());
        let is_in_order = delivery.parts.iter().all(Batch::is_spooled);
        let is_first = at != sending || batch.is_spooled() || self.state.is_copied_to_spool;
        // where the disk has others, which could not be read, a copy would not be the oldest: its answer would settle them
        let may_copy = !delivery.has_spooled;
        if is_pressing && is_in_order && (is_first || may_copy && self.copy_to_spool(batch)) {
            let delivery = &mut self.deliveries[at];
            delivery.has_spooled = true;
            delivery.drain_queue(clock::now());
            self.pass_on_to_spool(at);
        }
    }

    /// Writes a batch in flight to the spool, so that what comes behind it can follow.
    fn copy_to_spool(&mut self, batch: &Batch) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        self.state.is_copied_to_spool = write(spool, batch).is_ok();
        self.state.is_copied_to_spool
    }

    /// If the spool got a copy of the batch while it was sent, makes the batch stand for that entry.
    pub(super) fn adopt_entry(&mut self, at: usize, batch: &mut Batch) {
        if !mem::take(&mut self.state.is_copied_to_spool) {
            return;
        }
        let (delivery, Some(spool)) = (&mut self.deliveries[at], &mut self.spool) else { return };
        spool.take_unread(delivery.signal);
        delivery.move_out_of_queue(batch);
        // from now on the age of the entry is the bound
        delivery.give_up = Some(clock::now() + NO_DEADLINE);
    }
}

/// Writes a batch to the spool, which has it from then on.
fn write(spool: &mut Spool, batch: &Batch) -> io::Result<()> {
    let note_entry = |segment, offset| batch.note_entry(segment, offset);
    // A copy: the flight recorder may be lost while the entry is written, and the entry's checksum would be right.
    let body = batch.body().concat();
    if batch.is_lost() {
        return Err(io::Error::other("its records were lost with the flight recorder"));
    }
    spool.append(batch.signal, batch.records, &[&body], &note_entry)?;
    batch.settle_recorded();
    Ok(())
}

/// The parts of a batch that are within the limits, the first one last: another process may have had others, or left its queue.
fn divide(batch: Batch, limits: &BatchSettings) -> Vec<Batch> {
    let is_too_large = batch.records > limits.records as u64 || batch.len() > limits.bytes;
    if !is_too_large || !batch.is_divisible() {
        return vec![batch];
    }
    // a request of the spool has its own resource
    batch.halve(&[]).into_iter().rev().flat_map(|half| divide(half, limits)).collect()
}

/// Runs `work` on another thread, and meanwhile calls `look` every [`LOOK`]. Returns `None` if `work` panicked.
pub(super) fn run_beside<T: Send>(
    mut work: impl FnMut() -> Option<T> + Send,
    mut look: impl FnMut(),
) -> Option<T> {
    #[cfg(test)]
    if let Some(worked) = simulation::run_beside(LOOK, &mut work, &mut look) {
        return worked;
    }
    let (running, ended) = bounded::<()>(0);
    let worked = thread::scope(|scope| {
        let work = || {
            let _running = running;
            work()
        };
        let thread = spawn_scoped(scope, "standpipe-send", work).ok()?;
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            look();
        }
        // The request of a thread that panicked may have arrived, so it is not sent again.
        Some(thread.join().ok().flatten())
    });
    // Without a thread, the worker waits for the answer itself.
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
        assert_eq!(run_beside(work, || ()), None);
        assert_eq!(calls, 1);
    }
}
