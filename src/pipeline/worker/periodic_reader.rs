//! The periodic reader: the worker collects metrics once per interval, and sends them like everything else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Worker;
use crate::metrics::{Collected, Reader, SinkStatus};
use crate::pipeline::batch::{Batch, Origin};
use crate::pipeline::clock;
use crate::pipeline::ledger::{NotEnqueuedReason, Outcome};
use crate::problem::ProblemKind;
use crate::process::contain_panic;
use crate::record::{FrameLimits, Scope, Signal};

/// How often the worker makes room for metrics in a queue that callers fill again at once.
const MAX_CLEARINGS: usize = 16;

/// The periodic reader of an exporter: the instruments it reads, and how often.
#[derive(Debug, Clone)]
pub(crate) struct PeriodicReader {
    pub(crate) instruments: Reader,
    /// Within the range of the clock: configuration is checked for it.
    pub(crate) interval: Duration,
    pub(crate) limits: FrameLimits,
}

/// How far the reader has come.
#[derive(Debug, Default)]
pub(super) struct ReaderState {
    /// When the next one is due; the first comes after one interval.
    next: Option<Instant>,
    /// How many were begun.
    number: u64,
    is_collecting: bool,
    /// A newer snapshot supersedes the one that is being collected.
    is_outdated: bool,
    /// Something found no room in the queue: it waits in its series, and in those behind it.
    found_no_room: bool,
    /// Nothing newer will come.
    is_last: bool,
    /// What other signals have had of the time of this collection.
    spent_on_others: Duration,
}

impl Worker {
    pub(crate) fn schedule_first_collection(&mut self) {
        self.state.reader.next = self.reader.as_ref().map(|reader| clock::now() + reader.interval);
    }

    /// Whether it is time to collect metrics for this delivery. What was collected before is sent first, except in a stop,
    /// where nothing else will come.
    pub(super) fn may_collect(&self, at: usize, now: Instant) -> bool {
        let delivery = &self.deliveries[at];
        let is_free = self.stop_by().is_some() || delivery.is_free(now);
        let is_due =
            self.is_of_metrics(at) && !self.state.reader.is_collecting && self.collection_is_due(now);
        is_due && self.may_call_program() && is_free && !self.records_go_first(at, now)
    }

    /// Whether a flush or a stop has records to send before it collects the metrics, which may be about them. Those of the
    /// oldest flush, or one attempt of each signal in a stop: metrics do not wait for ever. Nor do they wait for what is
    /// held back.
    fn records_go_first(&self, at: usize, now: Instant) -> bool {
        let flush = self.state.flushes.iter().find(|flush| flush.waits_for_collection_after.is_some());
        let is_wanted = |other: usize| match self.stop_by() {
            Some(_) => self.deliveries[other].attempts_in_stop == 0,
            None => flush.is_some_and(|flush| self.deliveries[other].settled < flush.targets[other]),
        };
        let is_before = |other: usize| other != at && self.deliveries[other].is_due(now) && is_wanted(other);
        (0..self.deliveries.len()).any(is_before)
    }

    /// When metrics are to be collected, unless they wait for those before them.
    pub(super) fn next_collection(&self) -> Option<Instant> {
        let metrics = self.deliveries.iter().find(|delivery| delivery.signal == Signal::Metrics)?;
        let is_free = metrics.is_free(clock::now()) && !self.state.reader.is_collecting;
        self.state.reader.next.filter(|_| is_free && self.may_call_program())
    }

    pub(super) fn is_of_metrics(&self, at: usize) -> bool {
        self.deliveries[at].signal == Signal::Metrics
    }

    fn collection_is_due(&self, now: Instant) -> bool {
        self.state.reader.next.is_some_and(|next| next <= now)
    }

    /// Requests a collection as soon as it may be; returns the number of the last one that is too old for that.
    pub(super) fn request_collection(&mut self) -> Option<u64> {
        if self.reader.is_none() || self.state.reader.is_last {
            return None;
        }
        self.state.reader.next = Some(clock::now());
        Some(self.state.reader.number)
    }

    /// Whether the last collection is still to come.
    pub(super) fn last_collection_is_due(&self) -> bool {
        self.reader.is_some() && !self.state.reader.is_last
    }

    /// Whether metrics are still to be collected for the last time, and there are any.
    pub(super) fn has_last_metrics(&self) -> bool {
        let has_instruments = |reader: &PeriodicReader| reader.instruments.has_instruments();
        self.last_collection_is_due() && self.reader.as_ref().is_some_and(has_instruments)
    }

    /// Collects what was measured even where no time is left to send it, so that its loss is counted.
    pub(super) fn collect_last_metrics(&mut self) {
        let metrics = self.deliveries.iter().position(|delivery| delivery.signal == Signal::Metrics);
        if let Some(at) = metrics.filter(|_| self.last_collection_is_due()) {
            self.collect_metrics(at);
        }
    }

    /// Collects all metrics. A panic costs what was in hand of them, not the worker.
    pub(super) fn collect_metrics(&mut self, at: usize) {
        let Some(reader) = self.reader.clone() else { return };
        let begun = clock::now();
        let is_last = self.stop_by().is_some();
        let number = self.state.reader.number + 1;
        let next = Some(begun + reader.interval).filter(|_| !is_last);
        self.state.reader =
            ReaderState { next, number, is_last, is_collecting: true, ..ReaderState::default() };
        self.deliveries.iter().for_each(|delivery| delivery.queue.trim());
        if reader.instruments.is_cumulative() {
            self.supersede_snapshot(at);
        }
        if contain_panic(|| self.read_instruments(at, &reader)).is_err() {
            self.write_off(at);
        }
        self.state.reader.is_collecting = false;
        self.state
            .fair_share
            .charge(at, (clock::now() - begun).saturating_sub(self.state.reader.spent_on_others));
        if !self.state.reader.is_outdated {
            self.collection_is_over(number, at);
        }
        if self.state.reader.found_no_room && self.wait_for_next_collection(number) {
            self.request_collection();
        }
    }

    fn read_instruments(&mut self, at: usize, reader: &PeriodicReader) {
        let (counters, stop_by) = (Arc::clone(&self.counters), self.stop_by());
        let is_finished = || counters.are_closed() || stop_by.is_some_and(|by| clock::now() >= by);
        let bytes = reader.limits.bytes.min(self.deliveries[at].limit.max_metric_bytes());
        let limits = FrameLimits { bytes, ..reader.limits };
        reader.instruments.collect(limits, &is_finished, &mut |collected| {
            match collected {
                Collected::Frame { scope, bytes, points } => {
                    return self.enqueue_metric(at, scope, bytes, points);
                }
                Collected::TooLarge { points } => {
                    self.counters.count_not_enqueued(Signal::Metrics, NotEnqueuedReason::TooLarge, points)
                }
                Collected::Problem(kind, what) => self.reporter.report(Signal::Metrics, kind, || what),
                Collected::Misuse(what) => {
                    self.reporter.report_once(Signal::Metrics, ProblemKind::Instrument, what)
                }
            }
            self.wants_more()
        });
        self.report_not_enqueued();
    }

    fn wants_more(&self) -> SinkStatus {
        if self.state.reader.is_outdated { SinkStatus::AcceptedLast } else { SinkStatus::Accepted }
    }

    /// Puts a framed metric beside the others, within the bound of the queue: what is queued already goes first.
    fn enqueue_metric(&mut self, at: usize, scope: &Arc<Scope>, frame: &[u8], points: u64) -> SinkStatus {
        let records = points as usize;
        let mut admitted = self.admit(at, records, frame.len());
        for _ in 0..MAX_CLEARINGS {
            if admitted != Some(false) || self.is_out_of_time() {
                break;
            }
            // full of what callers have put there, or of what was collected before
            self.make_room(at);
            if self.state.reader.is_outdated {
                return SinkStatus::AcceptedLast;
            }
            admitted = self.admit(at, records, frame.len());
        }
        match admitted {
            Some(true) => {}
            Some(false) if !self.state.reader.is_last => {
                self.state.reader.found_no_room = true;
                return SinkStatus::Full;
            }
            // No later collection will have it.
            _ => {
                self.counters.count_not_enqueued(Signal::Metrics, NotEnqueuedReason::AfterShutdown, points);
                return SinkStatus::Accepted;
            }
        }
        let delivery = &mut self.deliveries[at];
        delivery.taken += points;
        delivery.backlog.append(scope, frame, records);
        self.wants_more()
    }

    /// Works until all collected metrics are sent. The other signals have their share meanwhile.
    fn make_room(&mut self, at: usize) {
        let begun = clock::now();
        self.deliveries[at].drain_queue(begun);
        let can_wait = |worker: &Self| !worker.state.reader.is_outdated && !worker.is_out_of_time();
        let is_left = |worker: &Self| !worker.deliveries[at].is_idle() && !worker.deliveries[at].is_finished;
        while can_wait(self) && is_left(self) && self.step() {}
        self.state.reader.spent_on_others += clock::now() - begun;
    }

    /// Returns whether the queue has room; `None` after the end, until which a slow callback may keep the worker.
    fn admit(&self, at: usize, records: usize, bytes: usize) -> Option<bool> {
        self.counters.admit_collected(records as u64, || self.deliveries[at].queue.admit(records, bytes))
    }

    /// Whether a newer snapshot should go instead of the part that is next: it was tried, and is worth nothing once there
    /// is a newer one. What callers have put into the queue is not: nothing newer of theirs need come.
    pub(super) fn is_outdated(&self, at: usize) -> bool {
        let delivery = &self.deliveries[at];
        let is_cumulative = self.reader.as_ref().is_some_and(|reader| reader.instruments.is_cumulative());
        let was_tried = delivery.give_up.is_some() && delivery.parts.last().is_some_and(Batch::is_snapshot);
        was_tried && is_cumulative && !self.state.reader.is_last && self.collection_is_due(clock::now())
    }

    /// Gives the snapshot up for a newer one.
    pub(super) fn yield_to_next_collection(&mut self, at: usize) {
        self.supersede_snapshot(at);
        self.state.reader.is_outdated = true;
        self.wait_for_next_collection(self.state.reader.number);
    }

    /// Gives up all that is left of the snapshot before.
    fn supersede_snapshot(&mut self, at: usize) {
        let delivery = &mut self.deliveries[at];
        if delivery.parts.last().is_some_and(Batch::is_snapshot) {
            delivery.part_is_over();
            for part in std::mem::take(&mut delivery.parts) {
                delivery.settle(part.origin, Outcome::Superseded, part.records);
                delivery.release_batch(part);
            }
        }
        let rest = delivery.backlog.write_off_snapshot();
        delivery.settle_all(Origin::Collection, rest, Outcome::Superseded);
    }
}

#[cfg(test)]
mod tests;
