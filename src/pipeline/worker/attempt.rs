//! One attempt: chooses the next part of a batch, sends it once, and applies the verdict.
//!
//! [`Worker::try_once`] does all three. The transport makes a single request and returns a [`Verdict`]. The pure
//! function [`retry::next_step`] maps the verdict to a [`NextStep`], which [`Worker::apply_verdict`] carries out. A
//! stop changes three things: an attempt gets the signal's fair share of the remaining time, pauses are short, and a
//! batch is given up only after a last attempt in the second half of the remaining time.

use std::array;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::spooling::run_in_background;
use super::{Delivery, Worker, records};
use crate::config::RetrySettings;
use crate::context;
use crate::pipeline::batch::{Batch, Next};
use crate::pipeline::clock;
use crate::pipeline::ledger::Outcome;
use crate::pipeline::retry::{self, Attempt, NextStep, Pause};
use crate::problem::ProblemKind;
use crate::process::{contain_panic, lock};
use crate::record::{Signal, random};
use crate::transport::{Payload, ResponseStatus, Verdict};

/// Longest back-off in a stop. It is short, so that several attempts fit into a usual budget.
const MAX_PAUSE_AT_STOP: Duration = Duration::from_millis(250);
/// Shortest pause between two attempts of a signal in a stop, so that programs that end do not flood a busy collector.
const MIN_PAUSE_AT_STOP: Duration = Duration::from_millis(100);

/// Number of attempts per signal in a stop if no attempt has ever reached a server, so that a program whose collector
/// is not running ends without using up its budget.
const UNREACHED_ATTEMPTS_AT_STOP: u32 = 2;

/// Replaces `give-up-after` for batches of the spool, because `spool-age` bounds their age. The value is a year, since
/// a longer time could overflow an `Instant`.
pub(super) const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Signal of the attempt that is under way, for a stop on another thread, which may cut the attempt short.
#[derive(Debug, Default)]
pub(crate) struct CurrentAttempt(Mutex<Option<Signal>>);

impl CurrentAttempt {
    /// Calls `cut` if an attempt is under way that began before the stop, and `is_in_the_way` returns true for its
    /// signal.
    pub(crate) fn cut_if(&self, is_in_the_way: impl FnOnce(Signal) -> bool, cut: impl FnOnce()) {
        // The lock is held during `cut`, so that `cut` cannot hit the next attempt: `send` takes the lock before it
        // begins an attempt.
        let current_attempt = lock(&self.0);
        if current_attempt.is_some_and(is_in_the_way) {
            cut();
        }
    }
}

impl Worker {
    /// Makes one attempt to send the next part, if there is one.
    pub(super) fn try_once(&mut self, at: usize) {
        let Some(mut part) = self.next_part(at) else { return };
        let now = clock::now();
        let give_up_after = if part.is_spooled() { NO_DEADLINE } else { self.retry.give_up_after };
        let give_up = *self.deliveries[at].give_up.get_or_insert_with(|| now + give_up_after);
        self.deliveries[at].begun.get_or_insert(now);
        if !self.state.proxy_pause.left(now).is_zero() {
            // Act as if the proxy had refused again, without an attempt: the proxy must not get the password again yet.
            return self.apply_verdict(at, part, &Verdict::ProxyRefused { reason: String::new() });
        }
        let deadline = self.attempt_deadline(at, give_up, now);
        // On a caller's thread, the attempt must end when the caller has to go on.
        let ends_by = self.state.turn.and_then(|turn| turn.attempts_by);
        let deadline = ends_by.map_or(deadline, |by| deadline.min(by));
        let verdict = self.send(at, &part, deadline);
        let is_late = clock::now() >= deadline;
        self.deliveries[at].failure = failure(verdict.as_ref(), self.last_status(), is_late);
        verdict.iter().for_each(|verdict| self.state.proxy_pause.note(verdict, clock::now()));
        // Must precede `apply_verdict`, which may have to remove the entry from the spool.
        self.adopt_entry(at, &mut part);
        match verdict {
            Some(Verdict::Refused { .. }) if part.is_lost() => {
                // The flight recorder's file was truncated during the attempt, so zeros were sent in place of the
                // records, and the refusal says nothing about them.
                self.settle_lost(at, part);
            }
            Some(verdict) => {
                self.report_verdict(part.signal, &verdict);
                self.apply_verdict(at, part, &verdict);
            }
            None => {
                self.report_panic(at);
                self.observe_export(at);
                self.settle_part(at, part, Outcome::WorkerPanicked);
            }
        }
    }

    /// Passes the end of an export to self-observation. An export counts as failed if its batch goes to the spool, or
    /// if a stop ends the export.
    fn observe_export(&self, at: usize) {
        let Delivery { signal, begun, failure, .. } = &self.deliveries[at];
        let time = begun.map_or(Duration::ZERO, |begun| clock::now() - begun);
        self.observe(Some(*signal), time, failure.as_deref());
    }

    /// Returns the next part to send, if any. Parts that cannot be sent (lost or too large) are counted and skipped. If
    /// a newer snapshot is due, supersedes the old one and returns `None`.
    fn next_part(&mut self, at: usize) -> Option<Batch> {
        while !self.is_out_of_time() {
            if self.is_outdated(at) {
                self.yield_to_next_collection(at);
                return None;
            }
            // Requests on disk go first: they are older than parts in memory that the disk could not take.
            if self.deliveries[at].has_spooled && !self.deliveries[at].parts.iter().any(Batch::is_spooled) {
                self.load_spooled(at);
            }
            let delivery = &mut self.deliveries[at];
            if let Some(part) = delivery.parts.pop() {
                if part.is_lost() {
                    self.settle_lost(at, part);
                    continue;
                }
                if delivery.limit.is_hopeless(|| part.smallest_frame(), clock::now()) {
                    let signal = part.signal;
                    self.settle_part(at, part, Outcome::TooLarge);
                    let what =
                        "the collector rejects every record of this size as too large; raise its limit";
                    self.reporter.report(signal, ProblemKind::TooLarge, || what.to_owned());
                    continue;
                }
                if self.encode(&part) {
                    return Some(part);
                }
                self.divide_or_drop(at, part);
                continue;
            }
            match delivery.next_batch(&self.batch, &self.resource)? {
                Next::Batch(batch) => delivery.parts.push(batch),
                Next::Dropped { origin, outcome, records, bytes } => {
                    self.settle_dropped(at, origin, outcome, (records, bytes));
                }
            }
        }
        None
    }

    fn encode(&mut self, part: &Batch) -> bool {
        let payload = Payload { signal: part.signal, body: &part.body() };
        self.transport.as_mut().is_none_or(|transport| transport.encode(&payload, self.batch.bytes))
    }

    /// Divides a part that the transport cannot encode. A single record is dropped as too large. Called before an
    /// attempt, so no attempt is counted.
    fn divide_or_drop(&mut self, at: usize, part: Batch) {
        let (delivery, signal, bytes) = (&mut self.deliveries[at], part.signal, part.queued_bytes);
        if part.is_lost() {
            // The encoder failed because the flight recorder's file was truncated, so the records cannot be read.
            self.settle_lost(at, part);
        } else if part.is_divisible() {
            delivery.limit.refuse(part.len(), clock::now());
            delivery.parts.extend(part.halve(&self.resource).into_iter().rev());
        } else {
            delivery.limit.shrink_metrics(bytes);
            self.settle_part(at, part, Outcome::TooLarge);
            let what = || {
                format!("a record of {bytes} bytes is lost: its JSON exceeds batch-bytes, or 1 MiB in a file")
            };
            self.reporter.report(signal, ProblemKind::TooLarge, what);
        }
    }

    /// Returns the deadline of an attempt: the end of its timeout or, if earlier, the time at which the batch is given
    /// up. In a stop, the end of the signal's fair share of the remaining time replaces the give-up time, so that an
    /// endpoint that does not answer leaves the other signals their time.
    fn attempt_deadline(&self, at: usize, give_up: Instant, now: Instant) -> Instant {
        let deadline = now + self.attempt_timeout;
        let Some(stop) = self.state.stop.get() else {
            // The last attempt gets its whole timeout. So does an attempt that begins after the batch's time has run
            // out: the worker may have sent another signal until then, or waited for the next turn of a caller.
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

    /// Sends a batch once. Returns `None` if the transport panicked.
    fn send(&mut self, at: usize, batch: &Batch, deadline: Instant) -> Option<Verdict> {
        let mut transport = self.transport.take()?;
        self.counters.attempted();
        let mut current_attempt = lock(&self.current_attempt.0);
        transport.forget_cut();
        // Only attempts from before the stop may be cut: later ones already have a deadline within the stop's budget.
        *current_attempt = self.stop_by().is_none().then_some(batch.signal);
        drop(current_attempt);
        let payload = Payload { signal: batch.signal, body: &batch.body() };
        // Contain a panic, so that `self.transport` is put back below in any case.
        let mut send = || contain_panic(|| transport.send(&payload, deadline)).ok();
        let verdict = match self.state.turn.is_none() && self.spool.is_some() {
            true => {
                let owner = self.owner;
                let send = || context::while_exporting_for(owner, &mut send);
                run_in_background(send, || self.relieve_queues(at, batch))
            }
            false => send(),
        };
        if let Some(notice) = transport.take_notice() {
            self.reporter.report(batch.signal, ProblemKind::Configuration, || notice);
        }
        self.transport = Some(transport);
        *lock(&self.current_attempt.0) = None;
        verdict
    }

    /// Applies the verdict: counts the outcome of the part, or keeps the part for another attempt.
    fn apply_verdict(&mut self, at: usize, part: Batch, verdict: &Verdict) {
        let now = clock::now();
        let was_reached = self.state.was_reached || !matches!(verdict, Verdict::Unreachable { .. });
        if was_reached && !self.state.was_reached {
            // Signals that a stop had given up because no server was reached are tried again.
            self.deliveries.iter_mut().for_each(|delivery| delivery.is_finished = false);
        }
        self.state.was_reached = was_reached;
        let attempt = self.attempt(at, &part, now);
        let settings = self.retry_settings(now);
        let is_stopping = self.stop_by().is_some();
        let outlasts_stop = |by: Instant| !attempt.proxy_pause.is_zero() && now + attempt.proxy_pause >= by;
        let is_hopeless = self.stop_by().is_some_and(outlasts_stop);
        let delivery = &mut self.deliveries[at];
        delivery.attempts_in_stop += u32::from(is_stopping);
        if is_hopeless || !was_reached && delivery.attempts_in_stop >= UNREACHED_ATTEMPTS_AT_STOP {
            // `Counters::close` counts the part as dropped by the shutdown, unless the spool takes it first.
            delivery.is_finished = true;
            return delivery.parts.push(part);
        }
        let next_step = retry::next_step(&settings, &attempt, verdict, now);
        let next_step = match self.state.stop.get() {
            // A stop does not shorten the pause for a proxy: each attempt would repeat the refused password.
            Some(stop) if attempt.proxy_pause.is_zero() => {
                next_step_at_stop(next_step, attempt.is_last, stop.left(now))
            }
            _ => next_step,
        };
        delivery.failures = match next_step {
            NextStep::TryAgain(_) | NextStep::GiveUp(_) => attempt.number,
            _ => 0,
        };
        if !matches!(next_step, NextStep::TryAgain(_) | NextStep::Divide) {
            self.observe_export(at);
        }
        let delivery = &mut self.deliveries[at];
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
                    self.observe_export(at);
                    self.deliveries[at].part_is_over();
                    // The spool has the part now, and the next attempt loads it from there. In a stop, `is_last` must
                    // be kept for that attempt; otherwise the attempts would never end.
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
            // `close_spool` keeps the part on disk. Without a spool, `Counters::close` counts it as dropped by the
            // shutdown.
            NextStep::GiveUp(_) if is_stopping => {
                delivery.is_finished = true;
                delivery.parts.push(part);
            }
            NextStep::GiveUp(pause) => {
                let (signal, records) = (part.signal, records(part.records));
                delivery.pause_for(now, pause);
                self.settle_part(at, part, Outcome::GaveUp);
                let what = || format!("gave up {records}: not delivered within give-up-after; use a spool");
                self.reporter.report(signal, ProblemKind::GaveUp, what);
            }
        }
        self.deliveries[at].part_is_over();
    }

    /// Describes the attempt that was made, for `next_step`.
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

    /// Returns the retry settings. In a stop, the delays are shorter.
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
                // Whole seconds, because the formatting of floats would add 10 KB to a small program.
                let pause =
                    (self.state.proxy_pause.left(clock::now()) + Duration::from_millis(500)).as_secs();
                let message = format!("{reason}; nothing is sent for {pause} s");
                // Without the rate limit: another outage may just have been reported, but only this message names the
                // setting to correct.
                return self.reporter.report_once(signal, ProblemKind::Unavailable, message);
            }
            Verdict::TooLarge { reason } => (ProblemKind::TooLarge, reason.clone()),
            Verdict::NotTaken { reason } => return self.reporter.report_not_taken(signal, reason),
            Verdict::Refused { reason } => (ProblemKind::Refused, reason.clone()),
        };
        self.reporter.report(signal, kind, || message);
    }
}

/// Returns the `error.type` of an attempt, or `None` if it succeeded. The verdict is `None` if the transport panicked.
fn failure(verdict: Option<&Verdict>, status: Option<ResponseStatus>, is_late: bool) -> Option<String> {
    let failure = match (verdict, status) {
        (Some(Verdict::Accepted | Verdict::AcceptedPartly { rejected: 0, .. }), _) => return None,
        (Some(Verdict::AcceptedPartly { .. }), _) => "rejected",
        (None, _) => "panic",
        (_, Some(ResponseStatus::Http(status))) if status >= 300 => return Some(status.to_string()),
        (_, Some(ResponseStatus::Grpc(name))) if name != "OK" => return Some(name),
        (Some(Verdict::Unreachable { .. }), _) => "unreachable",
        (Some(Verdict::ProxyRefused { .. }), _) => "proxy_refused",
        _ if is_late => "timeout",
        _ => "_OTHER",
    };
    Some(failure.to_owned())
}

/// Returns the next step in a stop, where only the budget limits the attempts. A batch that is not delivered is sent
/// again after a pause. A pause that would exceed half of the time `left` is cut to that half, and the attempt after
/// the pause is the last.
pub(super) fn next_step_at_stop(next_step: NextStep, was_last: bool, left: Duration) -> NextStep {
    match next_step {
        NextStep::TryAgain(pause) | NextStep::GiveUp(pause) if !was_last && !left.is_zero() => {
            let (time, halfway) = (pause.time.max(MIN_PAUSE_AT_STOP), left / 2);
            NextStep::TryAgain(Pause { time: time.min(halfway), is_last: time >= halfway, ..pause })
        }
        next_step => next_step,
    }
}
