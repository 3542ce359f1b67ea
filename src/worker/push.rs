//! Metrics: collected by the worker itself once per interval, and sent like everything else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Worker;
use crate::batch::Batch;
use crate::meter::{Collected, Reader, Taken};
use crate::problem::ProblemKind;
use crate::record::{FrameLimits, Scope, Signal};
use crate::stats::{Outcome, Refusal};

/// How often room is made for metrics in a queue that callers fill again at once.
const MOST_CLEARINGS: usize = 16;

/// An exporter's metrics: where they come from, and how often they go.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    pub(crate) reader: Reader,
    /// No longer than the clock can tell: configuration is checked for it.
    pub(crate) interval: Duration,
    pub(crate) limits: FrameLimits,
}

/// How far the pushing has come.
#[derive(Debug, Default)]
pub(super) struct PushState {
    /// When the next one is due; the first comes after one interval.
    pub(super) next: Option<Instant>,
    /// Attempts since the last one that succeeded: a newer snapshot goes on where the older one was.
    failures: u32,
    /// The snapshot that is being sent is worth nothing any more.
    is_outdated: bool,
    /// Something found no room in the queue: it waits in its series, and in those behind it.
    found_no_room: bool,
    /// Nothing newer will come.
    is_last: bool,
}

impl Worker {
    pub(super) fn schedule_first_push(&mut self) {
        self.state.push.next = self.push.as_ref().map(|push| Instant::now() + push.interval);
    }

    pub(super) fn push_is_due(&self, now: Instant) -> bool {
        self.state.push.next.is_some_and(|next| next <= now)
    }

    /// A stop that came meanwhile has a last push of its own.
    pub(super) fn push_metrics_unless_stopping(&mut self) {
        if self.state.stop_by.is_none() {
            self.push_metrics();
        }
    }

    /// Collects all metrics and sends them. A panic costs what was in hand, not the worker.
    pub(super) fn push_metrics(&mut self) {
        let Some(push) = self.push.clone() else { return };
        self.queue.trim();
        self.state.push.next = Some(Instant::now() + push.interval);
        self.state.push.is_outdated = false;
        self.state.push.found_no_room = false;
        self.state.push.is_last = self.state.stop_by.is_some();
        if catch_unwind(AssertUnwindSafe(|| self.collect_and_send(&push))).is_err() {
            self.write_off();
        }
    }

    fn collect_and_send(&mut self, push: &Push) {
        // what was measured is collected even where no time is left to send it, so that its loss is counted
        let (books, stop_by) = (Arc::clone(&self.books), self.state.stop_by);
        let is_over = || books.are_closed() || stop_by.is_some_and(|by| Instant::now() >= by);
        push.reader.collect(push.limits, &is_over, &mut |collected| {
            match collected {
                Collected::Frame { scope, bytes, points } => return self.take_in(scope, bytes, points),
                Collected::TooLarge { points } => {
                    self.books.turn_away_all(Signal::Metrics, Refusal::TooLarge, points)
                }
                Collected::Problem(kind, what) => self.teller.tell(kind, || what),
                Collected::Complaint(what) => self.teller.tell_once(ProblemKind::Instrument, what),
            }
            self.wants_more()
        });
        self.tell_turned_away();
        self.send_backlog();
    }

    fn wants_more(&self) -> Taken {
        if self.state.push.is_outdated { Taken::Enough } else { Taken::Yes }
    }

    /// Puts a framed metric beside the others, within the limits of the queue: what is there already goes first.
    fn take_in(&mut self, scope: &Arc<Scope>, frame: &[u8], points: u64) -> Taken {
        let records = points as usize;
        let mut admitted = self.admit(records, frame.len());
        for _ in 0..MOST_CLEARINGS {
            if admitted != Err(Refusal::QueueFull) || self.is_out_of_time() {
                break;
            }
            // full of something else, or of what was collected before
            let backlog = &mut self.state.backlog;
            self.queue.drain(|chunk| backlog.push(chunk));
            self.send_backlog();
            if self.state.push.is_outdated {
                return Taken::Enough;
            }
            admitted = self.admit(records, frame.len());
        }
        match admitted {
            Ok(()) => {}
            Err(Refusal::QueueFull) if !self.state.push.is_last => {
                self.state.push.found_no_room = true;
                return Taken::NoRoom;
            }
            // no later push will tell it
            Err(_) => {
                self.books.turn_away_all(Signal::Metrics, Refusal::AfterShutdown, points);
                return Taken::Yes;
            }
        }
        self.state.backlog.append(scope, frame, records);
        if self.state.backlog.bytes() >= self.queue.most_bytes_of_a_request() {
            self.send_backlog();
        }
        self.wants_more()
    }

    fn admit(&self, records: usize, bytes: usize) -> Result<(), Refusal> {
        // a slow callback may keep the worker until after the end
        match self.books.while_open(|| self.queue.admit(Signal::Metrics, records, bytes)) {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::QueueFull),
            None => Err(Refusal::AfterShutdown),
        }
    }

    /// Whether the last push was given up for a newer one that is still to come, or left something to the next one.
    pub(super) fn metrics_made_way(&self) -> bool {
        self.state.push.is_outdated || self.state.push.found_no_room
    }

    /// How many attempts to count before the first one of this batch, so that a newer snapshot does not start to
    /// knock anew.
    pub(super) fn earlier_failures(&self, batch: &Batch) -> u32 {
        if self.is_replaceable(batch) { self.state.push.failures } else { 0 }
    }

    pub(super) fn push_went(&mut self, batch: &Batch, well: bool) {
        if batch.is_snapshot {
            self.state.push.failures = if well { 0 } else { self.state.push.failures.saturating_add(1) };
        }
    }

    /// Whether a newer snapshot should go instead of this batch.
    pub(super) fn is_outdated(&self, batch: &Batch) -> bool {
        let is_newer_wanted = self.push_is_due(Instant::now())
            || !self.state.flushes.is_empty()
            || self.state.stop_by.is_some();
        self.is_replaceable(batch) && !self.state.push.is_last && is_newer_wanted
    }

    /// Makes way for the newer snapshot: this batch and all behind it of the same snapshot.
    pub(super) fn replace(&mut self, batch: &Batch) {
        self.settle_batch(batch, Outcome::Replaced);
        for (signal, records, bytes) in self.state.backlog.write_off_snapshot() {
            self.settle(signal, Outcome::Replaced, records);
            self.queue.release(records as usize, bytes);
        }
        self.state.push.is_outdated = true;
        // also if it was wanted for another reason than the time
        self.state.push.next = Some(Instant::now());
    }

    /// What callers have put into the queue is not: nothing newer of theirs need come.
    fn is_replaceable(&self, batch: &Batch) -> bool {
        batch.is_snapshot && self.push.as_ref().is_some_and(|push| push.reader.is_cumulative())
    }
}

#[cfg(test)]
mod tests;
