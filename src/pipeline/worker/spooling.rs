//! What goes to the spool, and comes back from there.
//!
//! The first request of a signal that cannot be delivered now goes to disk, and all that comes behind it: the order stays.
//! The worker attempts the oldest one, again and again; once the spool has nothing left of the signal, requests go to the
//! collector directly. Where the spool cannot take a request, it stays in memory, as if there were no spool.

use std::io;
use std::time::{Duration, Instant};

use super::{Delivery, Worker, records};
use crate::config::BatchSettings;
use crate::pipeline::batch::{Batch, Next, Origin};
use crate::pipeline::clock;
use crate::pipeline::ledger::Outcome;
use crate::pipeline::retry::Pause;
use crate::problem::ProblemKind;
use crate::process::contain_panic;
use crate::record::Signal;
use crate::spool::Spool;

/// Before the disk is asked again for what it could not give.
const UNREADABLE: Pause = Pause { time: Duration::from_secs(5), by_server: true, is_last: false };

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
            self.reporter.report_once(Signal::Traces, ProblemKind::Spool, note);
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
        self.deliveries[at].settle_all(vec![(records, bytes)], outcome);
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
}

/// Writes a batch to the spool, which has it from then on.
pub(super) fn write(spool: &mut Spool, batch: &Batch) -> io::Result<()> {
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
