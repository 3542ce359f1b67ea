//! The checks of a simulation: invariants after every step, the deadline of every attempt, and the state at the end.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::{SIGNALS, World};
use crate::pipeline::clock;
use crate::pipeline::ledger::Counts;
use crate::record::Signal;

/// Shortest budget with which a stop must make an attempt for each signal.
const MIN_BUDGET: Duration = Duration::from_millis(100);

impl World {
    /// Checks the invariants that hold after every step.
    pub(super) fn check(&self) {
        // During an attempt, the server may have counted records that the pipeline has not counted yet.
        if self.attempt.get().is_some() {
            return;
        }
        for signal in SIGNALS {
            let (counts, at) = (self.counts(signal), signal as usize);
            let before = self.before.get()[at];
            let book = &self.books.borrow()[at];
            let (dropped, not_enqueued) = (counts.dropped, counts.not_enqueued);
            let settled = counts.delivered + counts.rejected + dropped.total() + counts.superseded;
            let is_spooling = self.disk.is_some();
            let what = [
                (
                    "the equation does not hold",
                    counts.accepted + counts.recovered == settled + counts.spooled + counts.in_flight,
                ),
                (
                    "records are missing",
                    before.accepted + before.not_enqueued.total() + counts.accepted + not_enqueued.total()
                        == self.offered[at].get(),
                ),
                ("the server has taken others", before.delivered + counts.delivered == book.delivered),
                ("the server has rejected others", before.rejected + counts.rejected == book.rejected),
                ("the server has refused others", before.dropped.refused + dropped.refused == book.refused),
                ("others were too large", before.dropped.too_large + dropped.too_large >= book.too_large),
                (
                    "the worker has panicked by itself",
                    before.dropped.worker_panicked + dropped.worker_panicked == book.panicked,
                ),
                (
                    "the disk has lost records",
                    dropped.expired + dropped.damaged == 0
                        && (is_spooling || counts.spooled + counts.recovered == 0),
                ),
                (
                    "records were given up, though all requests were answered",
                    dropped.gave_up == 0 || book.later > 0 || self.refused_at.get().is_some(),
                ),
                ("records were superseded", counts.superseded == 0),
            ];
            for (what, holds) in what {
                if !holds {
                    self.fail(format!("{what}: {signal}: {counts}; {book:?}"));
                }
            }
            self.check_level(signal, &counts);
        }
        self.check_turns();
        let (over, rest): (Vec<_>, Vec<_>) =
            self.flushes.take().into_iter().partition(|(flush, _)| flush.is_over());
        over.into_iter().for_each(|(_, accepted)| self.check_flushed(accepted));
        self.flushes.borrow_mut().extend(rest);
    }

    /// Checks that the queue's level is the number of records in flight, and within the bounds.
    fn check_level(&self, signal: Signal, counts: &Counts) {
        let handle = self.handle();
        let queue = handle.queue(signal).expect("the signal is exported");
        let (records, bytes) = queue.level();
        let most = &self.script.settings.queue;
        let is_within = records <= most.records && bytes <= most.bytes && (records > 0) == (bytes > 0);
        // Records that were loaded from the disk are in flight, but do not count toward the queue.
        let is_exact = match self.disk {
            None => records as u64 == counts.in_flight,
            Some(_) => records as u64 <= counts.in_flight,
        };
        let is_exact = is_exact || self.handle().is_stopped();
        if !is_within || !is_exact {
            self.fail(format!("{records} records of {bytes} bytes are queued: {signal}: {counts}"));
        }
    }

    /// Checks that the worker does not run without a reason, nor retry without a pause. A pause lasts at least half of
    /// the first delay on average. A zero pause that the server asks for applies only after the first of consecutive
    /// failures. An attempt that need not be repeated ends such failures, so it raises the limit by one.
    fn check_turns(&self) {
        let attempts: u64 = self.attempts().iter().sum();
        let offered: u64 = self.offered.iter().map(Cell::get).sum();
        // The spool has periodic work every second, which is a reason for a turn.
        let seconds = if self.disk.is_some() { (clock::now() - self.start).as_secs() } else { 0 };
        let reasons = attempts + offered + self.commands.get() + seconds;
        if self.turns.get() > 50 + 4 * reasons {
            self.fail(format!("{} turns for {reasons} reasons", self.turns.get()));
        }
        if self.stop_by.get().is_some() {
            return;
        }
        let (elapsed, delay) = (clock::now() - self.start, self.script.settings.retry.first_delay);
        for book in &*self.books.borrow() {
            let most = 40 + 8 * elapsed.as_millis() as u64 / delay.as_millis() as u64 + self.commands.get();
            if book.later > most + (book.attempts - book.later) {
                self.fail(format!(
                    "{} of {} attempts led to nothing in {elapsed:?}",
                    book.later, book.attempts
                ));
            }
        }
    }

    pub(super) fn check_end(&self) {
        self.check();
        if !self.has_ended() {
            self.fail("the worker has not ended".to_owned());
        }
        for signal in SIGNALS {
            let counts = self.counts(signal);
            self.note(|| format!("{signal}: {counts}"));
            if counts.in_flight > 0 {
                self.fail(format!("after the stop: {signal}: {counts}"));
            }
            let (budget, book) = (self.budget.get(), &self.books.borrow()[signal as usize]);
            let tried = book.attempts - self.attempts_before.get()[signal as usize];
            let later = book.later - book.later_before_stop;
            // The pause after a refusal by the proxy also holds in a stop.
            let must_try = budget >= MIN_BUDGET && self.refused_at.get().is_none();
            if counts.dropped.shutdown > 0 && must_try {
                if tried == 0 {
                    self.fail(format!("the stop has not tried {signal}: {counts}"));
                }
                // Attempts go on for about half of the budget, less the length of one attempt.
                if later == 0 && book.time_in_stop < budget / 3 {
                    self.fail(format!("{signal} had {:?} of {budget:?}: {counts}", book.time_in_stop));
                }
            }
            // `later` may be 1 per 100 ms, 1 per other attempt, and 4: first, last, 2 before a server is reached.
            if later > budget.as_millis() as u64 / 100 + 4 + tried.saturating_sub(later) {
                self.fail(format!("{later} of {tried} attempts of {signal} led to nothing in {budget:?}"));
            }
        }
        if let Some(failure) = &*self.failure.borrow() {
            panic!("{failure}");
        }
    }

    pub(super) fn check_flushed(&self, accepted: [u64; SIGNALS.len()]) {
        for (signal, accepted) in SIGNALS.into_iter().zip(accepted) {
            let counts = self.counts(signal);
            if counts.accepted - counts.in_flight < accepted {
                self.fail(format!("a flush of {accepted} {signal} is over: {counts}"));
            }
        }
    }

    pub(super) fn check_deadline(&self, now: Instant, deadline: Instant) {
        let latest = self.stop_by.get().map_or(now + self.script.settings.attempt_timeout, |by| by.max(now));
        if deadline > latest {
            self.fail(format!("an attempt may go on {:?} too long", deadline - latest));
        }
        if deadline <= now {
            self.fail("an attempt without time".to_owned());
        }
    }
}
