//! The periodic reader: the worker collects metrics once per interval, and sends them like other records.
//!
//! One collection is a *snapshot*. Its frames count toward the bound of the metrics queue, but stay in the backlog of
//! the delivery. If the queue is full, the collection pauses inside the sink of [`Reader::collect`] while the worker
//! sends queued records ([`Worker::make_room`]).
//!
//! With cumulative temporality, a newer snapshot contains everything that an older snapshot had. A snapshot that is not
//! delivered when the next collection is due is therefore dropped and counted as superseded. No measurement is lost.
//! Metrics that callers have enqueued themselves are never superseded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Worker;
use crate::metrics::{Collected, Reader, SinkStatus};
use crate::pipeline::batch::{Batch, Origin};
use crate::pipeline::clock;
use crate::pipeline::ledger::{NotEnqueuedReason, Outcome};
use crate::problem::ProblemKind::{self, CallbackPanicked};
use crate::process::contain_panic;
use crate::record::{FrameLimits, Scope, Signal};

/// Maximum number of times that the worker makes room for one metric, if callers fill the queue again each time.
const MAX_CLEARINGS: usize = 16;

/// The periodic reader of an exporter: the instruments it reads, and how often.
#[derive(Debug, Clone)]
pub(crate) struct PeriodicReader {
    pub(crate) instruments: Reader,
    /// Time between two collections. The configuration's validation keeps it within the range of `Instant`.
    pub(crate) interval: Duration,
    pub(crate) limits: FrameLimits,
}

/// The reader's progress. Each collection resets all fields, except that `number` goes on counting.
#[derive(Debug, Default)]
pub(super) struct ReaderState {
    /// Time of the next collection. The first is due after one interval.
    next: Option<Instant>,
    /// Number of collections that were begun.
    number: u64,
    is_collecting: bool,
    /// True if the snapshot that is being collected was given up for a newer one.
    is_outdated: bool,
    /// True if the queue had no room for some metric. The measurements of such a metric stay in their series until the
    /// next collection.
    found_no_room: bool,
    /// True once the last collection, that of the stop, has begun.
    is_last: bool,
    /// `error.type` of this collection, for self-observation. `None` as long as nothing has failed.
    failure: Option<&'static str>,
    /// Time that this collection has spent on sending batches while it waited for room.
    spent_on_others: Duration,
}

impl Worker {
    pub(crate) fn schedule_first_collection(&mut self) {
        self.state.reader.next = self.reader.as_ref().map(|reader| clock::now() + reader.interval);
    }

    /// Returns whether to collect metrics for this delivery now. The previous snapshot must have been sent or spooled,
    /// except in a stop, which has no time to wait for that.
    pub(super) fn may_collect(&self, at: usize, now: Instant) -> bool {
        let delivery = &self.deliveries[at];
        let is_free = self.stop_by().is_some() || delivery.is_free(now);
        let is_due =
            self.is_of_metrics(at) && !self.state.reader.is_collecting && self.collection_is_due(now);
        is_due && self.may_call_program() && is_free && !self.records_go_first(at, now)
    }

    /// Returns whether other records must be sent before the collection of a flush or a stop, because the metrics may
    /// describe the sending of these records. The collection waits for the records of the oldest flush, or in a stop
    /// for one attempt per signal, so the wait has an end. The collection does not wait for paused deliveries.
    fn records_go_first(&self, at: usize, now: Instant) -> bool {
        let flush = self.state.flushes.iter().find(|flush| flush.waits_for_collection_after.is_some());
        let is_wanted = |other: usize| match self.stop_by() {
            Some(_) => self.deliveries[other].attempts_in_stop == 0,
            None => flush.is_some_and(|flush| self.deliveries[other].settled < flush.targets[other]),
        };
        let is_before = |other: usize| other != at && self.deliveries[other].is_due(now) && is_wanted(other);
        (0..self.deliveries.len()).any(is_before)
    }

    /// Returns the time of the next collection; `None` while none may begin, such as before a snapshot is settled.
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

    /// Requests a collection as soon as possible. Returns how many have begun so far; `None` if none will follow.
    pub(super) fn request_collection(&mut self) -> Option<u64> {
        if self.reader.is_none() || self.state.reader.is_last {
            return None;
        }
        self.state.reader.next = Some(clock::now());
        Some(self.state.reader.number)
    }

    /// Returns whether the last collection has not begun yet.
    pub(super) fn last_collection_is_due(&self) -> bool {
        self.reader.is_some() && !self.state.reader.is_last
    }

    /// Returns whether the last collection has not begun yet and there are instruments to collect.
    pub(super) fn has_last_metrics(&self) -> bool {
        let has_instruments = |reader: &PeriodicReader| reader.instruments.has_instruments();
        self.last_collection_is_due() && self.reader.as_ref().is_some_and(has_instruments)
    }

    /// Makes the last collection even if no time is left to send the metrics, so that the ledger counts them as lost.
    pub(super) fn collect_last_metrics(&mut self) {
        let metrics = self.deliveries.iter().position(|delivery| delivery.signal == Signal::Metrics);
        if let Some(at) = metrics.filter(|_| self.last_collection_is_due()) {
            self.collect_metrics(at);
        }
    }

    /// Collects all metrics. A panic loses the metrics that were not sent yet, and the worker goes on.
    pub(super) fn collect_metrics(&mut self, at: usize) {
        let Some(reader) = self.reader.clone() else { return };
        let begun = clock::now();
        let is_last = self.stop_by().is_some();
        let number = self.state.reader.number + 1;
        let next = Some(begun + reader.interval).filter(|_| !is_last);
        self.state.reader =
            ReaderState { next, number, is_last, is_collecting: true, ..ReaderState::default() };
        if reader.instruments.is_cumulative() {
            self.supersede_snapshot(at);
        }
        if contain_panic(|| self.read_instruments(at, &reader)).is_err() {
            self.write_off(at);
            self.state.reader.failure = Some("panic");
        }
        self.state.reader.is_collecting = false;
        let (time, failure) = (clock::now() - begun, self.state.reader.failure);
        let time = time.saturating_sub(self.state.reader.spent_on_others);
        self.state.fair_share.charge(at, time);
        self.observe(None, time, failure);
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
                Collected::Problem(kind, what) => {
                    if kind == CallbackPanicked {
                        self.state.reader.failure = Some("callback_panicked");
                    }
                    self.reporter.report(Signal::Metrics, kind, || what);
                }
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

    /// Adds a framed metric to the snapshot, within the bound of the queue. If the queue is full, sends queued
    /// records first.
    fn enqueue_metric(&mut self, at: usize, scope: &Arc<Scope>, frame: &[u8], points: u64) -> SinkStatus {
        let records = points as usize;
        let mut admitted = self.admit(at, records, frame.len());
        for _ in 0..MAX_CLEARINGS {
            if admitted != Some(false) || self.is_out_of_time() {
                break;
            }
            // The queue is full of records of callers, or of the first part of this snapshot.
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
            // No collection follows the last one, so the metric counts as lost.
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

    /// Runs steps of the worker to send all metrics that have left the queue. The other signals get their share of the
    /// time. The recursion is one level deep, since `is_collecting` prevents a nested collection.
    fn make_room(&mut self, at: usize) {
        let begun = clock::now();
        self.deliveries[at].drain_queue(begun);
        let can_wait = |worker: &Self| !worker.state.reader.is_outdated && !worker.is_out_of_time();
        let is_left = |worker: &Self| !worker.deliveries[at].is_idle() && !worker.deliveries[at].is_finished;
        while can_wait(self) && is_left(self) && self.step() {}
        self.state.reader.spent_on_others += clock::now() - begun;
    }

    /// Reserves room in the queue and returns whether there was any. Returns `None` if the counters are closed, because
    /// a slow callback has kept the worker beyond the end of the stop.
    fn admit(&self, at: usize, records: usize, bytes: usize) -> Option<bool> {
        self.counters.admit_collected(records as u64, || self.deliveries[at].queue.admit(records, bytes))
    }

    /// Returns whether to give up the next part for a newer snapshot: it belongs to a cumulative snapshot, an attempt
    /// has failed, and the next collection is due. Metrics that callers have enqueued are kept, since callers may never
    /// enqueue newer ones.
    pub(super) fn is_outdated(&self, at: usize) -> bool {
        let delivery = &self.deliveries[at];
        let is_cumulative = self.reader.as_ref().is_some_and(|reader| reader.instruments.is_cumulative());
        let was_tried = delivery.give_up.is_some() && delivery.parts.last().is_some_and(Batch::is_snapshot);
        was_tried && is_cumulative && !self.state.reader.is_last && self.collection_is_due(clock::now())
    }

    /// Gives up the snapshot for a newer one, and lets flushes wait for the newer one.
    pub(super) fn yield_to_next_collection(&mut self, at: usize) {
        self.supersede_snapshot(at);
        self.state.reader.is_outdated = true;
        self.wait_for_next_collection(self.state.reader.number);
    }

    /// Drops the rest of the previous snapshot, and counts it as superseded.
    fn supersede_snapshot(&mut self, at: usize) {
        let delivery = &mut self.deliveries[at];
        if delivery.parts.last().is_some_and(Batch::is_snapshot) {
            for part in std::mem::take(&mut delivery.parts) {
                delivery.settle(part.origin, Outcome::Superseded, part.records);
                delivery.release_batch(part);
            }
            delivery.part_is_over();
        }
        let rest = delivery.backlog.write_off_snapshot();
        delivery.settle_all(Origin::Collection, rest, Outcome::Superseded);
    }
}

#[cfg(test)]
mod tests;
