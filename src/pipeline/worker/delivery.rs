//! The delivery of one signal: its queue, the records that have left the queue, and the time of the next attempt.
//!
//! Records that have left the queue still count toward its bound: their room is released when their outcome is
//! counted or the spool has them. So `queue-records` and `queue-bytes` bound the memory of the whole delivery, except
//! for a request that was loaded from the spool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::BatchSettings;
use crate::pipeline::batch::{Backlog, Batch, Next, Origin, RequestLimit};
use crate::pipeline::ledger::{Counters, Outcome};
use crate::pipeline::queue::{Queue, WakeAt};
use crate::pipeline::retry::Pause;
use crate::pipeline::schedule::{NextRound, Throttle, Waiting};
use crate::record::Signal;

/// Pause after a drain that found room reserved but no record: a caller is between its reservation and its append.
const PENDING_APPEND_WAIT: Duration = Duration::from_millis(1);
/// Length to which a flush shortens a back-off. It is not zero, so that a program that flushes continuously does not
/// reconnect continuously.
const MIN_BACK_OFF: Duration = Duration::from_millis(100);

/// The records of one signal that left the queue and are not settled, and their schedule. Deliveries are independent
/// of each other: a pause of one does not delay the others.
pub(crate) struct Delivery {
    pub(super) signal: Signal,
    pub(super) queue: Arc<Queue>,
    counters: Arc<Counters>,
    pub(super) backlog: Backlog,
    /// The parts of the batch that is being sent, as a stack: the next part is the last element. There are several
    /// parts only if a batch was divided, or if the spool cannot take a batch.
    pub(super) parts: Vec<Batch>,
    /// Records and queued bytes of the current batch whose room is not released yet: at index 0 those from the queue,
    /// at index 1 those that the worker has collected. A panic loses these records.
    pub(super) in_hand: [(u64, usize); 2],
    /// Start of the first attempt to send the next part, if there was an attempt.
    pub(super) begun: Option<Instant>,
    /// `error.type` of the latest attempt to send the next part, if that attempt failed.
    pub(super) failure: Option<String>,
    /// Time at which the next part is given up; `None` before its first attempt.
    pub(super) give_up: Option<Instant>,
    /// True if the next attempt is the last one for its part.
    pub(super) is_last: bool,
    /// Consecutive attempts that did not reach the server, that a proxy refused, or that the server answered with "try
    /// again later". Exponent of the back-off.
    pub(super) failures: u32,
    /// End of the latest pause, which may be over, and the pause itself.
    not_before: Option<(Instant, Pause)>,
    throttle: Throttle,
    /// Time at which the worker first saw records in the queue since the last round. The linger time starts then.
    waiting_since: Option<Instant>,
    pub(super) limit: RequestLimit,
    /// Numbers of records that have left the queue and of records that have been settled. Flushes compare the two.
    pub(super) taken: u64,
    pub(super) settled: u64,
    /// True if the spool has records of this signal. These records are sent first, and later records go to the spool
    /// behind them.
    pub(crate) has_spooled: bool,
    /// Attempts since the start of the stop.
    pub(super) attempts_in_stop: u32,
    /// True once a stop makes no further attempt for this signal.
    pub(super) is_finished: bool,
}

/// The event that a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Nothing: an attempt or a round is due.
    Due,
    /// The given point in time, regardless of the queue's level.
    Until(Instant),
    /// The queue reaching this level, or the given point in time, whichever is earlier.
    Records(WakeAt, Option<Instant>),
}

impl Delivery {
    pub(crate) fn of(signal: Signal, queue: Arc<Queue>, counters: Arc<Counters>, throttle: Throttle) -> Self {
        Self {
            signal,
            queue,
            counters,
            backlog: Backlog::default(),
            parts: Vec::new(),
            in_hand: [(0, 0); 2],
            begun: None,
            failure: None,
            give_up: None,
            is_last: false,
            failures: 0,
            not_before: None,
            throttle,
            waiting_since: None,
            limit: RequestLimit::default(),
            taken: 0,
            settled: 0,
            has_spooled: false,
            attempts_in_stop: 0,
            is_finished: false,
        }
    }

    /// Returns whether all records that left the queue are settled, and the spool has none.
    pub(super) fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.backlog.is_empty() && !self.has_spooled
    }

    /// Returns whether new metrics may be collected: they can be sent at once, or go to the spool.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        self.is_idle() && !self.is_paused(now) || self.passes_on_to_spool()
    }

    /// Returns whether all records that leave the queue go to the spool at once: the spool has older records, and no
    /// part in memory precedes them.
    pub(super) fn passes_on_to_spool(&self) -> bool {
        self.has_spooled && self.parts.iter().all(Batch::is_spooled)
    }

    /// Returns whether a round is due, that is, whether to drain the queue now.
    pub(super) fn round_is_due(&mut self, batch: &BatchSettings, now: Instant) -> bool {
        let may_start = !self.is_finished && (self.is_idle() || self.passes_on_to_spool());
        may_start && self.round_readiness(batch, now) == Readiness::Due
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|(then, _)| now < then)
    }

    /// Returns whether there is something to send, and no pause forbids it.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.is_finished && !self.is_idle() && !self.is_paused(now)
    }

    /// Returns what the delivery waits for. While records go to the spool at once, rounds go on during a pause.
    pub(super) fn readiness(&mut self, batch: &BatchSettings, now: Instant) -> Readiness {
        match self.not_before.filter(|(then, _)| now < *then) {
            Some((then, _)) if self.passes_on_to_spool() => match self.round_readiness(batch, now) {
                Readiness::Records(wake_at, round) => {
                    Readiness::Records(wake_at, Some(round.map_or(then, |round| round.min(then))))
                }
                readiness => readiness,
            },
            Some((then, _)) => Readiness::Until(then),
            None if !self.is_idle() => Readiness::Due,
            None => self.round_readiness(batch, now),
        }
    }

    /// Returns what the next round waits for.
    fn round_readiness(&mut self, batch: &BatchSettings, now: Instant) -> Readiness {
        let level = self.queue.level();
        if level.0 == 0 {
            self.waiting_since = None;
            return Readiness::Records(WakeAt::ANYTHING, None);
        }
        let since = *self.waiting_since.get_or_insert(now);
        let full_batch = self.full_batch(batch);
        let waiting = Waiting {
            since,
            full_batch: full_batch.is_reached(level),
            pressing: self.queue.is_pressing(level),
        };
        match self.throttle.next_round(now, &waiting) {
            NextRound::Now => Readiness::Due,
            NextRound::ThrottledUntil(then) => Readiness::Records(self.queue.pressure(), Some(then)),
            NextRound::LingersUntil(then) => Readiness::Records(full_batch, Some(then)),
        }
    }

    /// Returns the level at which a linger ends: there are enough records for a whole request, or the queue fills up.
    fn full_batch(&self, batch: &BatchSettings) -> WakeAt {
        let pressure = self.queue.pressure();
        let bytes = batch.bytes.min(self.queue.max_request_bytes());
        WakeAt { records: batch.records.min(pressure.records), bytes: bytes.min(pressure.bytes) }
    }

    /// Moves all queued records to the backlog.
    pub(super) fn drain_queue(&mut self, now: Instant) {
        let was_idle = self.is_idle();
        let (backlog, taken) = (&mut self.backlog, &mut self.taken);
        let before = *taken;
        self.queue.drain(|chunk| {
            *taken += chunk.runs().iter().map(|run| run.records as u64).sum::<u64>();
            backlog.push(chunk);
        });
        if *taken > before {
            self.throttle.round_starts(now);
            self.waiting_since = None;
        } else if was_idle && !self.is_paused(now) && self.queue.level().0 > 0 {
            // A caller has reserved room and not appended its record yet. Without the pause, the worker would spin
            // until that caller's thread runs again.
            self.pause_for(now, Pause { time: PENDING_APPEND_WAIT, by_server: true, is_last: false });
        }
    }

    /// Takes the next batch from the backlog, with as many records as a request may hold.
    pub(super) fn next_batch(&mut self, settings: &BatchSettings, resource: &[u8]) -> Option<Next> {
        let usual_bytes = self.queue.max_request_bytes();
        let next = self.backlog.next(settings, usual_bytes, self.limit.max_bytes(), resource);
        if let Some(Next::Batch(batch)) = &next {
            self.counters.hand_over(self.signal, batch.records);
            self.in_hand = [(0, 0); 2];
            self.in_hand[usize::from(batch.is_snapshot())] = (batch.records, batch.queued_bytes);
        }
        next
    }

    /// Removes and returns the parts for which `is_chosen` returns true. All parts keep their order.
    pub(super) fn take_parts(&mut self, is_chosen: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let (taken, others) = std::mem::take(&mut self.parts).into_iter().partition(is_chosen);
        self.parts = others;
        taken
    }

    /// Starts a pause, during which nothing is sent.
    pub(super) fn pause_for(&mut self, now: Instant, pause: Pause) {
        self.not_before = Some((now + pause.time, pause));
        self.is_last = pause.is_last;
    }

    /// Shortens a back-off to [`MIN_BACK_OFF`], counted from the start of the back-off. Leaves a pause that the server
    /// asked for.
    pub(super) fn shorten_back_off(&mut self) {
        let is_long = |(_, pause): &&mut (_, Pause)| !pause.by_server && pause.time > MIN_BACK_OFF;
        if let Some((then, pause)) = self.not_before.as_mut().filter(is_long) {
            *then -= pause.time - MIN_BACK_OFF;
            pause.time = MIN_BACK_OFF;
        }
    }

    /// Starts a stop: drains the queue and ends any pause.
    pub(super) fn start_stop(&mut self, now: Instant) {
        self.drain_queue(now);
        (self.not_before, self.is_last) = (None, false);
    }

    /// Resets the fields about the current part, so that the first attempt of the next part sets a new deadline.
    pub(super) fn part_is_over(&mut self) {
        (self.begun, self.failure, self.give_up, self.is_last) = (None, None, None, false);
    }

    /// Counts the outcome of records. Their room must be released afterwards.
    pub(super) fn settle(&mut self, origin: Origin, outcome: Outcome, records: u64) {
        if records > 0 {
            match origin {
                Origin::Collection => self.counters.settle_collected(outcome, records),
                _ => self.counters.settle(self.signal, outcome, records),
            }
            if let Some(cause) = self.failure.as_ref().filter(|_| outcome != Outcome::Delivered) {
                self.counters.note_failure(self.signal, outcome, cause, records);
            }
            // Records of another process were never `taken` here, so they must not count toward a flush.
            self.settled += if matches!(origin, Origin::Spool { is_own: false }) { 0 } else { records };
            if outcome == Outcome::Delivered {
                self.queue.note_delivery();
            }
        }
    }

    /// Returns how many of the records that have left the queue are in the flight recorder.
    pub(super) fn recorded(&self) -> u64 {
        self.backlog.recorded() + self.parts.iter().map(Batch::recorded).sum::<u64>()
    }

    /// Counts a batch as spooled, and frees it.
    pub(super) fn note_spooled(&mut self, batch: Batch) {
        self.counters.spool(self.signal, batch.records);
        self.keep_if_collected(&batch);
        self.has_spooled = true;
        self.release_batch(batch);
    }

    /// Marks a batch as loaded from the spool, which has a copy of it, and releases its room in the queue. The ledger
    /// counts the records as in flight before and after.
    pub(super) fn move_out_of_queue(&mut self, batch: &mut Batch) {
        self.keep_if_collected(batch);
        self.release_room(batch.is_snapshot(), batch.records, batch.queued_bytes);
        batch.origin = Origin::Spool { is_own: true };
    }

    fn keep_if_collected(&self, batch: &Batch) {
        if batch.is_snapshot() {
            self.counters.keep_collected(batch.records);
        }
    }

    /// Frees a settled batch, then releases its room. In this order, the memory in use never exceeds the bound of the
    /// queue, since a caller that gets the room allocates memory at once.
    pub(super) fn release_batch(&mut self, batch: Batch) {
        if batch.is_spooled() {
            return;
        }
        let (is_snapshot, records, bytes) = (batch.is_snapshot(), batch.records, batch.queued_bytes);
        batch.into_chunks().into_iter().for_each(|chunk| self.queue.give_back(chunk));
        self.release_room(is_snapshot, records, bytes);
    }

    fn release_room(&mut self, is_snapshot: bool, records: u64, bytes: usize) {
        let in_hand = &mut self.in_hand[usize::from(is_snapshot)];
        *in_hand = (in_hand.0 - records, in_hand.1 - bytes);
        self.queue.release(records as usize, bytes);
    }

    /// Counts the outcome of records that were never in a batch, and releases their room.
    pub(super) fn settle_all(&mut self, origin: Origin, lost: Vec<(u64, usize)>, outcome: Outcome) {
        for (records, bytes) in lost {
            self.counters.hand_over(self.signal, records);
            self.settle(origin, outcome, records);
            self.queue.release(records as usize, bytes);
        }
    }

    /// Counts all records that left the queue as lost to a panic.
    pub(super) fn write_off(&mut self) {
        self.parts.clear();
        self.part_is_over();
        self.write_off_unsent();
    }

    /// Counts the backlog and the rest of the current batch as lost to a panic.
    pub(super) fn write_off_unsent(&mut self) {
        let (collected, queued) = (self.backlog.write_off_snapshot(), self.backlog.write_off());
        self.settle_all(Origin::Queue, queued, Outcome::WorkerPanicked);
        self.settle_all(Origin::Collection, collected, Outcome::WorkerPanicked);
        let in_hand = std::mem::take(&mut self.in_hand);
        for (origin, (records, bytes)) in [Origin::Queue, Origin::Collection].into_iter().zip(in_hand) {
            self.settle(origin, Outcome::WorkerPanicked, records);
            self.queue.release(records as usize, bytes);
        }
    }
}
