//! One signal of an exporter: its queue, what has left the queue, and when it may be sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::BatchSettings;
use crate::pipeline::batch::{Backlog, Batch, Next, Origin, RequestLimit};
use crate::pipeline::ledger::{Counters, Outcome};
use crate::pipeline::queue::{Queue, WakeAt};
use crate::pipeline::retry::Pause;
use crate::pipeline::schedule::{NextRound, Throttle, Waiting};
use crate::record::Signal;

/// How long to wait for a caller that has reserved room in the queue but not appended its record yet.
const CALLER_IS_COMING: Duration = Duration::from_millis(1);
/// What a flush leaves of a back-off: a program that flushes all the time must not connect all the time.
const LEAST_BACK_OFF: Duration = Duration::from_millis(100);

/// The records of one signal that left the queue and are not settled. The trouble of one delivery does not touch the others.
pub(crate) struct Delivery {
    pub(super) signal: Signal,
    pub(super) queue: Arc<Queue>,
    counters: Arc<Counters>,
    pub(super) backlog: Backlog,
    /// The parts of the batch that is being sent, the next one last; usually it is in one part.
    pub(super) parts: Vec<Batch>,
    /// What is not settled of them, in records and queued bytes. A record is settled once its outcome is counted.
    pub(super) in_hand: (u64, usize),
    /// When the time of the next part is up, once it has been tried.
    pub(super) give_up: Option<Instant>,
    /// Whether the next attempt is the part's last one.
    pub(super) is_last: bool,
    /// Attempts in a row that led to nothing but "later".
    pub(super) failures: u32,
    not_before: Option<(Instant, Pause)>,
    throttle: Throttle,
    waiting_since: Option<Instant>,
    pub(super) limit: RequestLimit,
    /// Records that left the queue, and those that were settled since.
    pub(super) taken: u64,
    pub(super) settled: u64,
    /// Whether the spool has records of this signal: they go first, and what comes after them goes there, too.
    pub(crate) has_spooled: bool,
    /// While the worker stops: the attempts since, and whether all was tried that can be.
    pub(super) attempts_in_stop: u32,
    pub(super) is_finished: bool,
}

/// What a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// An attempt is due, or a round.
    Due,
    /// Nothing before then, whatever comes into the queue.
    Until(Instant),
    /// Records at this level, or the time if there are some.
    Records(WakeAt, Option<Instant>),
}

impl Delivery {
    pub(crate) fn new(
        signal: Signal,
        queue: Arc<Queue>,
        counters: Arc<Counters>,
        throttle: Throttle,
    ) -> Self {
        Self {
            signal,
            queue,
            counters,
            backlog: Backlog::default(),
            parts: Vec::new(),
            in_hand: (0, 0),
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

    /// Whether nothing has left the queue that is not settled.
    pub(super) fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.backlog.is_empty() && !self.has_spooled
    }

    /// Whether what comes next has a place to go to, now or in the spool.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        self.is_idle() && !self.is_paused(now) || self.passes_on_to_spool()
    }

    /// Whether all that leaves the queue goes to the spool at once.
    pub(super) fn passes_on_to_spool(&self) -> bool {
        self.has_spooled && self.parts.iter().all(Batch::is_spooled)
    }

    /// Whether a round is due: then the queue is to be drained.
    pub(super) fn round_is_due(&mut self, batch: &BatchSettings, now: Instant) -> bool {
        let may_start = !self.is_finished && (self.is_idle() || self.passes_on_to_spool());
        may_start && self.round_readiness(batch, now) == Readiness::Due
    }

    /// Whether it may not be sent yet.
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|(then, _)| now < then)
    }

    /// Whether there is something to send, now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.is_finished && !self.is_idle() && !self.is_paused(now)
    }

    /// What happens next with it.
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

    /// What the next round waits for.
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

    /// The level at which a whole request can be made, or waiting longer would be dangerous.
    fn full_batch(&self, batch: &BatchSettings) -> WakeAt {
        let pressure = self.queue.pressure();
        let bytes = batch.bytes.min(self.queue.most_bytes_of_a_request());
        WakeAt { records: batch.records.min(pressure.records), bytes: bytes.min(pressure.bytes) }
    }

    /// Takes all that is queued now.
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
            self.pause_for(now, Pause { time: CALLER_IS_COMING, by_server: true, is_last: false });
        }
    }

    /// The next batch, in as many records as a request may hold.
    pub(super) fn next_batch(&mut self, settings: &BatchSettings, resource: &[u8]) -> Option<Next> {
        let usual_bytes = self.queue.most_bytes_of_a_request();
        let next = self.backlog.next(settings, usual_bytes, self.limit.most(), resource);
        if let Some(Next::Batch(batch)) = &next {
            self.in_hand = (batch.records, batch.queued_bytes);
        }
        next
    }

    /// Takes the chosen parts out.
    pub(super) fn take_parts(&mut self, is_chosen: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let (taken, others) = std::mem::take(&mut self.parts).into_iter().partition(is_chosen);
        self.parts = others;
        taken
    }

    /// Sends nothing before the pause is over.
    pub(super) fn pause_for(&mut self, now: Instant, pause: Pause) {
        self.not_before = Some((now + pause.time, pause));
        self.is_last = pause.is_last;
    }

    /// Cuts a pause to the least one, unless the server asked for it.
    pub(super) fn shorten_back_off(&mut self) {
        let is_long = |(_, pause): &&mut (_, Pause)| !pause.by_server && pause.time > LEAST_BACK_OFF;
        if let Some((then, pause)) = self.not_before.as_mut().filter(is_long) {
            *then -= pause.time - LEAST_BACK_OFF;
            pause.time = LEAST_BACK_OFF;
        }
    }

    /// The worker stops: whatever was waited for, there is no more time for it.
    pub(super) fn start_stop(&mut self, now: Instant) {
        self.drain_queue(now);
        (self.not_before, self.is_last) = (None, false);
    }

    /// The next part is another one.
    pub(super) fn part_is_over(&mut self) {
        (self.give_up, self.is_last) = (None, false);
    }

    /// Counts the outcome of records.
    pub(super) fn settle(&mut self, origin: Origin, outcome: Outcome, records: u64) {
        if records > 0 {
            match origin {
                Origin::Collection => self.counters.settle_collected(outcome, records),
                _ => self.counters.settle(self.signal, outcome, records),
            }
            // no flush waits for what another process has left
            self.settled += if matches!(origin, Origin::Spool { is_own: false }) { 0 } else { records };
            if outcome == Outcome::Delivered {
                self.queue.note_delivery();
            }
        }
    }

    /// How many of the records that have left the queue are in the flight recorder.
    pub(super) fn recorded(&self) -> u64 {
        self.backlog.recorded() + self.parts.iter().map(Batch::recorded).sum::<u64>()
    }

    /// Takes note that a batch is in the spool, and frees it.
    pub(super) fn note_spooled(&mut self, batch: Batch) {
        self.counters.spool(self.signal, batch.records);
        self.keep_if_collected(&batch);
        self.has_spooled = true;
        self.release_batch(batch);
    }

    /// Makes a batch that came from the queue one of the spool, which has a copy of it, and releases its room. The ledger counts
    /// it as in flight before and after.
    pub(super) fn move_out_of_queue(&mut self, batch: &mut Batch) {
        self.keep_if_collected(batch);
        batch.origin = Origin::Spool { is_own: true };
        self.release_room(batch.records, batch.queued_bytes);
    }

    fn keep_if_collected(&self, batch: &Batch) {
        if batch.origin == Origin::Collection {
            self.counters.keep_collected(batch.records);
        }
    }

    /// Frees a settled batch, then releases its room: a caller that gets the room allocates in it, and must not find the
    /// batch still in memory.
    pub(super) fn release_batch(&mut self, batch: Batch) {
        if batch.is_spooled() {
            return;
        }
        let (records, bytes) = (batch.records, batch.queued_bytes);
        batch.into_chunks().into_iter().for_each(|chunk| self.queue.give_back(chunk));
        self.release_room(records, bytes);
    }

    fn release_room(&mut self, records: u64, bytes: usize) {
        self.in_hand = (self.in_hand.0 - records, self.in_hand.1 - bytes);
        self.queue.release(records as usize, bytes);
    }

    /// Counts the outcome of records that are in no batch, and releases their room.
    pub(super) fn settle_all(&mut self, origin: Origin, lost: Vec<(u64, usize)>, outcome: Outcome) {
        for (records, bytes) in lost {
            self.settle(origin, outcome, records);
            self.queue.release(records as usize, bytes);
        }
    }

    /// Counts all that left the queue as lost to a panic.
    pub(super) fn write_off(&mut self) {
        self.parts.clear();
        self.part_is_over();
        self.write_off_unsent();
    }

    /// Counts as lost to a panic all that left the queue and is in no part.
    pub(super) fn write_off_unsent(&mut self) {
        let collected = self.backlog.write_off_snapshot();
        self.settle_all(Origin::Collection, collected, Outcome::WorkerPanicked);
        let mut lost = self.backlog.write_off();
        lost.push(std::mem::take(&mut self.in_hand));
        self.settle_all(Origin::Queue, lost, Outcome::WorkerPanicked);
    }
}
