//! Metrics: collected by the worker itself once per interval, and sent like everything else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Worker;
use crate::config::ProblemKind;
use crate::metrics::{Collected, Reader, Taken};
use crate::pipeline::ledger::{NotEnqueuedReason, Outcome};
use crate::record::{FrameLimits, Scope, Signal};

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
    next: Option<Instant>,
    /// How many were begun.
    number: u64,
    is_collecting: bool,
    /// The snapshot that is being collected is worth nothing any more.
    is_outdated: bool,
    /// Something found no room in the queue: it waits in its series, and in those behind it.
    found_no_room: bool,
    /// Nothing newer will come.
    is_last: bool,
    /// What other signals have had of the time of this push.
    spent_on_others: Duration,
}

impl Worker {
    pub(super) fn schedule_first_push(&mut self) {
        self.state.push.next = self.push.as_ref().map(|push| Instant::now() + push.interval);
    }

    /// Whether it is time to collect metrics for this delivery. What was collected before is sent first, except in a stop,
    /// where nothing else will come.
    pub(super) fn may_push(&self, at: usize, now: Instant) -> bool {
        let delivery = &self.deliveries[at];
        let is_free = self.stop_by().is_some() || delivery.is_idle() && !delivery.is_held(now);
        let is_due = self.is_of_metrics(at) && !self.state.push.is_collecting && self.push_is_due(now);
        is_due && is_free && !self.records_go_first(at, now)
    }

    /// Whether a flush or a stop has records to send before it collects the metrics, which may be about them. Those of the
    /// oldest flush, or one attempt of each signal in a stop: metrics do not wait for ever. Nor do they wait for what is
    /// held back.
    fn records_go_first(&self, at: usize, now: Instant) -> bool {
        let flush = self.state.flushes.iter().find(|flush| flush.waits_for_push_after.is_some());
        let is_wanted = |other: usize| match self.stop_by() {
            Some(_) => !self.deliveries[other].is_tried,
            None => flush.is_some_and(|flush| self.deliveries[other].settled < flush.targets[other]),
        };
        let is_before = |other: usize| other != at && self.deliveries[other].is_due(now) && is_wanted(other);
        (0..self.deliveries.len()).any(is_before)
    }

    /// When metrics are to be collected, unless they wait for those before them.
    pub(super) fn next_push(&self) -> Option<Instant> {
        let metrics = self.deliveries.iter().find(|delivery| delivery.signal == Signal::Metrics)?;
        let is_free = metrics.is_idle() && !metrics.is_held(Instant::now()) && !self.state.push.is_collecting;
        self.state.push.next.filter(|_| is_free)
    }

    pub(super) fn is_of_metrics(&self, at: usize) -> bool {
        self.deliveries[at].signal == Signal::Metrics
    }

    fn push_is_due(&self, now: Instant) -> bool {
        self.state.push.next.is_some_and(|next| next <= now)
    }

    /// Asks for a push as soon as it may be; gives the number of the last one that is of no use for that.
    pub(super) fn want_push(&mut self) -> Option<u64> {
        if self.push.is_none() || self.state.push.is_last {
            return None;
        }
        self.state.push.next = Some(Instant::now());
        Some(self.state.push.number)
    }

    /// The last word of the metrics is wanted.
    pub(super) fn start_last_push(&mut self) {
        self.want_push();
    }

    /// Whether the last word of the metrics is still to come.
    pub(super) fn last_push_is_due(&self) -> bool {
        self.push.is_some() && !self.state.push.is_last
    }

    /// Whether metrics are still to be collected for the last time, and there are any.
    pub(super) fn has_last_words(&self) -> bool {
        let has_instruments = |push: &Push| push.reader.has_instruments();
        self.last_push_is_due() && self.push.as_ref().is_some_and(has_instruments)
    }

    /// What was measured is collected even where no time is left to send it, so that its loss is counted.
    pub(super) fn collect_what_is_left(&mut self) {
        let metrics = self.deliveries.iter().position(|delivery| delivery.signal == Signal::Metrics);
        if let Some(at) = metrics.filter(|_| self.last_push_is_due()) {
            self.push_metrics(at);
        }
    }

    /// Collects all metrics. A panic costs what was in hand of them, not the worker.
    pub(super) fn push_metrics(&mut self, at: usize) {
        let Some(push) = self.push.clone() else { return };
        let begun = Instant::now();
        let is_last = self.stop_by().is_some();
        let number = self.state.push.number + 1;
        let next = Some(begun + push.interval).filter(|_| !is_last);
        self.state.push = PushState { next, number, is_last, is_collecting: true, ..PushState::default() };
        self.deliveries.iter().for_each(|delivery| delivery.queue.trim());
        if push.reader.is_cumulative() {
            self.replace_snapshot(at);
        }
        if catch_unwind(AssertUnwindSafe(|| self.collect(at, &push))).is_err() {
            self.write_off(at);
        }
        self.state.push.is_collecting = false;
        self.state.turns.spend(at, begun.elapsed().saturating_sub(self.state.push.spent_on_others));
        if !self.state.push.is_outdated {
            self.push_is_over(number, at);
        }
        if self.state.push.found_no_room && self.wait_for_next_push(number) {
            self.want_push();
        }
    }

    fn collect(&mut self, at: usize, push: &Push) {
        let (counters, stop_by) = (Arc::clone(&self.counters), self.stop_by());
        let is_over = || counters.are_closed() || stop_by.is_some_and(|by| Instant::now() >= by);
        push.reader.collect(push.limits, &is_over, &mut |collected| {
            match collected {
                Collected::Frame { scope, bytes, points } => return self.take_in(at, scope, bytes, points),
                Collected::TooLarge { points } => {
                    self.counters.count_not_enqueued(Signal::Metrics, NotEnqueuedReason::TooLarge, points)
                }
                Collected::Problem(kind, what) => self.reporter.report(Signal::Metrics, kind, || what),
                Collected::Complaint(what) => {
                    self.reporter.report_once(Signal::Metrics, ProblemKind::Instrument, what)
                }
            }
            self.wants_more()
        });
        self.tell_turned_away();
    }

    fn wants_more(&self) -> Taken {
        if self.state.push.is_outdated { Taken::Enough } else { Taken::Yes }
    }

    /// Puts a framed metric beside the others, within the limits of the queue: what is there already goes first.
    fn take_in(&mut self, at: usize, scope: &Arc<Scope>, frame: &[u8], points: u64) -> Taken {
        let records = points as usize;
        let mut admitted = self.admit(at, records, frame.len());
        for _ in 0..MOST_CLEARINGS {
            if admitted != Err(NotEnqueuedReason::QueueFull) || self.is_out_of_time() {
                break;
            }
            // full of what callers have put there, or of what was collected before
            self.make_room(at);
            if self.state.push.is_outdated {
                return Taken::Enough;
            }
            admitted = self.admit(at, records, frame.len());
        }
        match admitted {
            Ok(()) => {}
            Err(NotEnqueuedReason::QueueFull) if !self.state.push.is_last => {
                self.state.push.found_no_room = true;
                return Taken::NoRoom;
            }
            // no later push will tell it
            Err(_) => {
                self.counters.count_not_enqueued(Signal::Metrics, NotEnqueuedReason::AfterShutdown, points);
                return Taken::Yes;
            }
        }
        let delivery = &mut self.deliveries[at];
        delivery.taken += points;
        delivery.backlog.append(scope, frame, records);
        self.wants_more()
    }

    /// Works until all metrics that there are have been sent. The other signals have their turns meanwhile.
    fn make_room(&mut self, at: usize) {
        let begun = Instant::now();
        self.deliveries[at].gather(begun);
        let can_wait = |worker: &Self| !worker.state.push.is_outdated && !worker.is_out_of_time();
        while can_wait(self) && !self.deliveries[at].is_idle() && !self.deliveries[at].is_over {
            self.step();
        }
        self.state.push.spent_on_others += begun.elapsed();
    }

    fn admit(&self, at: usize, records: usize, bytes: usize) -> Result<(), NotEnqueuedReason> {
        let queue = &self.deliveries[at].queue;
        // a slow callback may keep the worker until after the end
        match self.counters.while_open(|| queue.admit(records, bytes)) {
            Some(true) => Ok(()),
            Some(false) => Err(NotEnqueuedReason::QueueFull),
            None => Err(NotEnqueuedReason::AfterShutdown),
        }
    }

    /// Whether a newer snapshot should go instead of the part that is next: it was tried, and is worth nothing once there
    /// is a newer one. What callers have put into the queue is not: nothing newer of theirs need come.
    pub(super) fn is_outdated(&self, at: usize) -> bool {
        let delivery = &self.deliveries[at];
        let is_cumulative = self.push.as_ref().is_some_and(|push| push.reader.is_cumulative());
        let was_tried =
            delivery.give_up.is_some() && delivery.parts.last().is_some_and(|part| part.is_snapshot);
        was_tried && is_cumulative && !self.state.push.is_last && self.push_is_due(Instant::now())
    }

    /// Makes way for the newer snapshot that is wanted.
    pub(super) fn make_way(&mut self, at: usize) {
        self.replace_snapshot(at);
        self.state.push.is_outdated = true;
        self.wait_for_next_push(self.state.push.number);
    }

    /// Gives up all that is left of the snapshot before.
    fn replace_snapshot(&mut self, at: usize) {
        let delivery = &mut self.deliveries[at];
        if delivery.parts.last().is_some_and(|part| part.is_snapshot) {
            delivery.part_is_over();
            for part in std::mem::take(&mut delivery.parts) {
                delivery.settle_batch(&part, Outcome::Superseded);
            }
        }
        let rest = delivery.backlog.write_off_snapshot();
        delivery.settle_all(rest, Outcome::Superseded);
    }
}

#[cfg(test)]
mod tests;
