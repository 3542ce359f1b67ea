//! One attempt to send a part of a batch, and what follows from its verdict.

use std::array;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::spooling::run_beside;
use super::{Worker, records};
use crate::config::RetrySettings;
use crate::context;
use crate::pipeline::batch::{Batch, Next};
use crate::pipeline::clock;
use crate::pipeline::ledger::Outcome;
use crate::pipeline::retry::{self, Attempt, NextStep, Pause};
use crate::problem::ProblemKind;
use crate::process::{contain_panic, lock};
use crate::record::{Signal, random};
use crate::transport::{Payload, Verdict};

/// Longest back-off in a stop. Several attempts fit into its budget.
const MAX_PAUSE_AT_STOP: Duration = Duration::from_millis(250);
/// Shortest pause between two attempts of a signal in a stop, so that programs that end do not flood a busy collector.
const MIN_PAUSE_AT_STOP: Duration = Duration::from_millis(100);

/// Attempts of each signal in a stop where no attempt has ever reached a server, so as not to use up the budget.
const UNREACHED_ATTEMPTS_AT_STOP: u32 = 2;

/// Time until a batch of the spool is given up, which never comes: the spool bounds its age. Within the range of `Instant`.
pub(super) const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The attempt that is under way, as a stop sees it from another thread.
#[derive(Debug, Default)]
pub(crate) struct CurrentAttempt(Mutex<Option<Signal>>);

impl CurrentAttempt {
    /// Ends the attempt by `cut` if it was begun before the stop and `is_in_the_way` is true of its signal.
    pub(crate) fn cut_if(&self, is_in_the_way: impl FnOnce(Signal) -> bool, cut: impl FnOnce()) {
        // held to the end: the attempt after this one must not be cut
        let current_attempt = lock(&self.0);
        if current_attempt.is_some_and(is_in_the_way) {
            cut();
        }
    }
}

impl Worker {
    /// One attempt of the next part that there is.
    pub(super) fn try_once(&mut self, at: usize) {
        let Some(mut part) = self.next_part(at) else { return };
        let now = clock::now();
        let give_up_after = if part.is_spooled() { NO_DEADLINE } else { self.retry.give_up_after };
        let give_up = *self.deliveries[at].give_up.get_or_insert_with(|| now + give_up_after);
        if !self.state.proxy_pause.left(now).is_zero() {
            // As after another refusal, but without an attempt: the proxy must not get the password again yet.
            return self.apply_verdict(at, part, &Verdict::ProxyRefused { reason: String::new() });
        }
        let deadline = self.attempt_deadline(at, give_up, now);
        // On a caller's thread, the attempt must end when the caller has to go on.
        let ends_by = self.state.turn.and_then(|turn| turn.attempts_by);
        let deadline = ends_by.map_or(deadline, |by| deadline.min(by));
        let verdict = self.send(at, &part, deadline);
        verdict.iter().for_each(|verdict| self.state.proxy_pause.note(verdict, clock::now()));
        self.adopt_entry(at, &mut part);
        match verdict {
            Some(Verdict::Refused { .. }) if part.is_lost() => {
                // Zeros were sent in the place of its records.
                self.settle_lost(at, part);
            }
            Some(verdict) => {
                self.report_verdict(part.signal, &verdict);
                self.apply_verdict(at, part, &verdict);
            }
            None => {
                self.report_panic(at);
                self.settle_part(at, part, Outcome::WorkerPanicked);
            }
        }
    }

    /// What is to be sent next; what is known to be too large is counted on the way.
    fn next_part(&mut self, at: usize) -> Option<Batch> {
        while !self.is_out_of_time() {
            if self.is_outdated(at) {
                self.yield_to_next_collection(at);
                return None;
            }
            // what is on disk is older than what found no room there
            if self.deliveries[at].has_spooled && !self.deliveries[at].parts.iter().any(Batch::is_spooled) {
                self.load_spooled(at);
            }
            let delivery = &mut self.deliveries[at];
            if let Some(part) = delivery.parts.pop() {
                if part.is_lost() {
                    self.settle_lost(at, part);
                    continue;
                }
                if !delivery.limit.is_hopeless(|| part.smallest_frame(), clock::now()) {
                    return Some(part);
                }
                let signal = part.signal;
                self.settle_part(at, part, Outcome::TooLarge);
                let what = || "the collector finds every record of this size too large".to_owned();
                self.reporter.report(signal, ProblemKind::TooLarge, what);
                continue;
            }
            match delivery.next_batch(&self.batch, &self.resource)? {
                Next::Batch(batch) => delivery.parts.push(batch),
                Next::Dropped(outcome, records, bytes) => self.settle_dropped(at, outcome, records, bytes),
            }
        }
        None
    }

    /// Returns when an attempt ends: after its timeout, or when the batch's time is up. In a stop, it ends after the signal's
    /// fair share of the time left, so that an endpoint that hangs costs the other signals nothing.
    fn attempt_deadline(&self, at: usize, give_up: Instant, now: Instant) -> Instant {
        let deadline = now + self.attempt_timeout;
        let Some(stop) = self.state.stop.get() else {
            // one that comes late, after another signal's or between two turns of a caller, is the last one, too
            let is_last = self.deliveries[at].is_last || give_up <= now;
            return if is_last { deadline } else { deadline.min(give_up) };
        };
        let has_records = |other: usize| {
            self.deliveries.get(other).is_some_and(|delivery| {
                let has_some = !delivery.is_idle() || self.is_of_metrics(other) && self.has_last_metrics();
                has_some && !delivery.is_finished
            })
        };
        deadline.min(now + self.state.fair_share.share(at, array::from_fn(has_records), stop.left(now)))
    }

    /// One attempt; `None` if the transport panicked.
    fn send(&mut self, at: usize, batch: &Batch, deadline: Instant) -> Option<Verdict> {
        let mut transport = self.transport.take()?;
        self.counters.attempted();
        let mut current_attempt = lock(&self.current_attempt.0);
        transport.forget_cut();
        // An attempt that begins in a stop has its share of the time, and is not cut.
        *current_attempt = self.stop_by().is_none().then_some(batch.signal);
        drop(current_attempt);
        let payload = Payload { signal: batch.signal, body: &batch.body() };
        let mut send = || contain_panic(|| transport.send(&payload, deadline)).ok();
        let verdict = match self.state.turn.is_none() && self.spool.is_some() {
            true => {
                let owner = self.owner;
                let send = || context::while_exporting_for(owner, &mut send);
                run_beside(send, || self.relieve_queues(at, batch))
            }
            false => send(),
        };
        self.transport = Some(transport);
        *lock(&self.current_attempt.0) = None;
        verdict
    }

    fn apply_verdict(&mut self, at: usize, part: Batch, verdict: &Verdict) {
        let now = clock::now();
        if !matches!(verdict, Verdict::Unreachable { .. }) {
            self.note_reached();
        }
        let attempt = self.attempt(at, &part, now);
        let settings = self.retry_settings(now);
        let is_stopping = self.stop_by().is_some();
        let was_reached = self.state.was_reached;
        let outlasts_stop = |by: Instant| !attempt.proxy_pause.is_zero() && now + attempt.proxy_pause >= by;
        let is_hopeless = self.stop_by().is_some_and(outlasts_stop);
        let delivery = &mut self.deliveries[at];
        delivery.attempts_in_stop += u32::from(is_stopping);
        if is_hopeless || !was_reached && delivery.attempts_in_stop >= UNREACHED_ATTEMPTS_AT_STOP {
            // left to the closing of the counters
            delivery.is_finished = true;
            return delivery.parts.push(part);
        }
        let next_step = retry::next_step(&settings, &attempt, verdict, now);
        let next_step = match self.state.stop.get() {
            // A stop does not cut the pause for a proxy short.
            Some(stop) if attempt.proxy_pause.is_zero() => {
                next_step_at_stop(next_step, attempt.is_last, stop.left(now))
            }
            _ => next_step,
        };
        delivery.failures = match next_step {
            NextStep::TryAgain(_) | NextStep::GiveUp(_) => attempt.number,
            _ => 0,
        };
        match next_step {
            NextStep::Done { rejected } => {
                delivery.limit.accept(part.len(), now);
                delivery.settle(part.origin, Outcome::Rejected, rejected);
                delivery.settle(part.origin, Outcome::Delivered, part.records - rejected);
                self.release_part(at, part);
            }
            NextStep::TryAgain(pause) => {
                delivery.pause_for(now, pause);
                delivery.parts.push(part);
                self.move_to_spool(at);
                if self.deliveries[at].parts.is_empty() {
                    self.deliveries[at].part_is_over();
                    // The spool keeps the part. Only a stop makes no attempt after this pause and the next one.
                    self.deliveries[at].is_last = is_stopping && pause.is_last;
                }
                return;
            }
            NextStep::Divide => {
                delivery.limit.refuse(part.len(), now);
                delivery.parts.extend(part.halve(&self.resource).into_iter().rev());
            }
            NextStep::DropTooLarge => {
                delivery.limit.refuse_alone(part.queued_bytes, now);
                self.settle_part(at, part, Outcome::TooLarge);
            }
            NextStep::DropRefused => self.settle_part(at, part, Outcome::Refused),
            // left to the spool, or to the closing of the counters
            NextStep::GiveUp(_) if is_stopping => {
                delivery.is_finished = true;
                delivery.parts.push(part);
            }
            NextStep::GiveUp(pause) => {
                let (signal, records) = (part.signal, part.records);
                delivery.pause_for(now, pause);
                self.settle_part(at, part, Outcome::GaveUp);
                let what = || format!("gave up {records} records that could not be delivered in time");
                self.reporter.report(signal, ProblemKind::GaveUp, what);
            }
        }
        self.deliveries[at].part_is_over();
    }

    /// There is a server: what a stop had given up for want of one is tried again.
    fn note_reached(&mut self) {
        if !std::mem::replace(&mut self.state.was_reached, true) {
            self.deliveries.iter_mut().for_each(|delivery| delivery.is_finished = false);
        }
    }

    /// The attempt that was made, as it is judged.
    fn attempt(&self, at: usize, part: &Batch, now: Instant) -> Attempt {
        let delivery = &self.deliveries[at];
        Attempt {
            number: delivery.failures.saturating_add(1),
            records: part.records,
            is_divisible: part.is_divisible(),
            deadline: delivery.give_up.unwrap_or(now),
            is_last: delivery.is_last,
            random: random(),
            proxy_pause: self.state.proxy_pause.left(now),
        }
    }

    fn retry_settings(&self, now: Instant) -> RetrySettings {
        let mut settings = self.retry;
        if let Some(stop) = self.state.stop.get() {
            let most = if self.state.was_reached { MAX_PAUSE_AT_STOP } else { MIN_PAUSE_AT_STOP };
            settings.max_delay = settings.max_delay.min((stop.left(now) / 4).clamp(MIN_PAUSE_AT_STOP, most));
        }
        settings
    }

    fn report_verdict(&mut self, signal: Signal, verdict: &Verdict) {
        if matches!(verdict, Verdict::Accepted | Verdict::AcceptedPartly { .. }) {
            self.reporter.note_taken(signal);
        }
        let (kind, message) = match verdict {
            Verdict::Accepted => return,
            Verdict::AcceptedPartly { rejected: 0, message } => {
                (ProblemKind::PartialSuccess, format!("the collector warns: {message}"))
            }
            Verdict::AcceptedPartly { rejected, message } => {
                // A server may give the number without a reason.
                let colon = if message.is_empty() { "" } else { ": " };
                (ProblemKind::PartialSuccess, format!("{} rejected{colon}{message}", records(*rejected)))
            }
            Verdict::TryLater { reason, .. } | Verdict::Unreachable { reason } => {
                (ProblemKind::Unavailable, reason.clone())
            }
            Verdict::ProxyRefused { reason } => {
                // In whole numbers: the formatting of floats would add 10 KB to a small program.
                let pause =
                    (self.state.proxy_pause.left(clock::now()) + Duration::from_millis(500)).as_secs();
                let message = format!("{reason}; nothing is sent for {pause} s");
                // Even if another outage was reported just before: only this message names the setting.
                return self.reporter.report_once(signal, ProblemKind::Unavailable, message);
            }
            Verdict::TooLarge { reason } => (ProblemKind::TooLarge, reason.clone()),
            Verdict::NotTaken { reason } => return self.reporter.report_not_taken(signal, reason),
            Verdict::Refused { reason } => (ProblemKind::Refused, reason.clone()),
        };
        self.reporter.report(signal, kind, || message);
    }
}

/// Returns the next step in a stop, whose budget alone counts. A batch that is not delivered is sent again after a pause, and
/// one last time when half of the time `left` is over.
pub(super) fn next_step_at_stop(next_step: NextStep, was_last: bool, left: Duration) -> NextStep {
    match next_step {
        NextStep::TryAgain(pause) | NextStep::GiveUp(pause) if !was_last && !left.is_zero() => {
            let (time, halfway) = (pause.time.max(MIN_PAUSE_AT_STOP), left / 2);
            NextStep::TryAgain(Pause { time: time.min(halfway), is_last: time >= halfway, ..pause })
        }
        next_step => next_step,
    }
}
