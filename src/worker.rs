//! The loop: rest, gather what is queued, send it, account for it.

mod push;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select_biased};

use crate::batch::{Backlog, Batch, Next};
use crate::config::{BatchSettings, RetrySettings};
use crate::context;
use crate::problem::{ProblemKind, Teller};
use crate::queue::{Queue, WakeAt};
use crate::record::{Signal, random};
use crate::retry::{self, Attempt, NextStep};
use crate::stats::{Books, Outcome, Refusal};
use crate::throttle::{NextRound, Throttle, Waiting};
use crate::transport::{Payload, Transport, Verdict};
pub(crate) use push::Push;
use push::PushState;

/// An exporter that had nothing to do for so long gives memory back.
const IDLE: Duration = Duration::from_secs(10);
/// How long to wait for a caller that has taken its place in the queue but not filled it yet.
const CALLER_IS_COMING: Duration = Duration::from_millis(1);
/// While shutting down, every retry must have a chance within the budget.
const LONGEST_PAUSE_AT_STOP: Duration = Duration::from_millis(250);

/// One exporter's background thread.
pub(crate) struct Worker {
    pub(crate) queue: Arc<Queue>,
    pub(crate) books: Arc<Books>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) throttle: Throttle,
    pub(crate) batch: BatchSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) attempt_timeout: Duration,
    /// The resource as it stands in every request.
    pub(crate) resource: Vec<u8>,
    /// `None` for an exporter without metrics.
    pub(crate) push: Option<Push>,
    pub(crate) teller: Teller,
    pub(crate) calls: Calls,
    pub(crate) state: State,
}

/// How the worker is spoken to. Stop outranks everything, so that a full queue cannot delay it.
pub(crate) struct Calls {
    /// With the moment by which all must be over.
    pub(crate) stop: Receiver<Instant>,
    /// With where to say that it is done.
    pub(crate) flush: Receiver<Sender<()>>,
    pub(crate) wake: Receiver<()>,
}

/// What the worker has in its hands.
#[derive(Default)]
pub(crate) struct State {
    backlog: Backlog,
    /// The batch that is being sent: its signal, records and queued bytes that are not settled yet.
    in_hand: Option<(Signal, u64, usize)>,
    flushes: Vec<Sender<()>>,
    /// When the first flush came that is not over yet: with metrics that nobody takes it would never be.
    flushing_since: Option<Instant>,
    waiting_since: Option<Instant>,
    stop_by: Option<Instant>,
    push: PushState,
    told_turned_away: [u64; 2],
}

enum Call {
    Stop(Instant),
    Flush(Sender<()>),
    Awake,
    TimeIsUp,
}

/// What a rest ended with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rested {
    RoundIsDue,
    PushIsDue,
    Called,
}

impl Worker {
    /// Works until it is stopped.
    pub(crate) fn run(mut self) {
        context::silence();
        self.schedule_first_push();
        while self.state.stop_by.is_none() {
            let flushes = std::mem::take(&mut self.state.flushes);
            if !flushes.is_empty() {
                self.flush(flushes);
                continue;
            }
            match self.rest() {
                Rested::RoundIsDue => self.round(),
                Rested::PushIsDue => {
                    // or metrics that cannot be delivered, and are due all the time, would hold the rest up for ever
                    if self.round_is_due() {
                        self.round();
                    }
                    self.push_metrics_unless_stopping();
                }
                Rested::Called => {}
            }
        }
        // what was accepted before the queue was closed, and the last word of the metrics
        self.round();
        self.push_metrics();
    }

    fn flush(&mut self, flushes: Vec<Sender<()>>) {
        let since = *self.state.flushing_since.get_or_insert_with(Instant::now);
        self.round();
        self.push_metrics_unless_stopping();
        // metrics that made way for newer ones are not delivered before those are
        let goes_on = self.metrics_made_way() && self.state.stop_by.is_none();
        if goes_on && since.elapsed() < self.retry.give_up_after {
            return self.state.flushes.extend(flushes);
        }
        self.state.flushing_since = None;
        flushes.iter().for_each(report_flushed);
    }

    /// Sleeps until something is to be done.
    fn rest(&mut self) -> Rested {
        loop {
            // first, or a queue that presses all the time would drown out stop and flush
            if self.is_called() {
                return Rested::Called;
            }
            let now = Instant::now();
            if self.push_is_due(now) {
                return Rested::PushIsDue;
            }
            let (wake_at, until) = match self.waiting(now) {
                None => (WakeAt::ANYTHING, None),
                Some(waiting) => match self.throttle.next_round(now, &waiting) {
                    NextRound::Now => return Rested::RoundIsDue,
                    NextRound::ThrottledUntil(then) => (self.queue.pressure(), Some(then)),
                    NextRound::LingersUntil(then) => (self.full_batch(), Some(then)),
                },
            };
            if self.queue.wake_at(wake_at) {
                self.queue.stay_awake();
                continue;
            }
            let until = until.into_iter().chain(self.state.push.next).min();
            let call = match until {
                Some(then) => self.listen(then),
                None => self.listen_idly(now),
            };
            self.queue.stay_awake();
            match call {
                Call::Stop(by) => self.state.stop_by = Some(by),
                Call::Flush(done) => self.state.flushes.push(done),
                Call::Awake | Call::TimeIsUp => continue,
            }
            return Rested::Called;
        }
    }

    /// Whether a stop or a flush has come while the worker was busy; all flushes are served by one round.
    fn is_called(&mut self) -> bool {
        self.state.stop_by = self.calls.stop.try_recv().ok();
        self.state.flushes.extend(self.calls.flush.try_iter());
        self.state.stop_by.is_some() || !self.state.flushes.is_empty()
    }

    fn round_is_due(&mut self) -> bool {
        let now = Instant::now();
        let waiting = self.waiting(now);
        waiting.is_some_and(|waiting| matches!(self.throttle.next_round(now, &waiting), NextRound::Now))
    }

    fn waiting(&mut self, now: Instant) -> Option<Waiting> {
        let level = self.queue.level();
        if level.0 == 0 {
            self.state.waiting_since = None;
            return None;
        }
        let since = *self.state.waiting_since.get_or_insert(now);
        let full_batch = self.full_batch().is_reached(level);
        Some(Waiting { since, full_batch, pressing: self.queue.is_pressing(level) })
    }

    /// The level at which a whole request can be made, or waiting longer would be dangerous.
    fn full_batch(&self) -> WakeAt {
        let pressure = self.queue.pressure();
        let (records, bytes) =
            (self.batch.records, self.batch.bytes.min(self.queue.most_bytes_of_a_request()));
        WakeAt { records: records.min(pressure.records), bytes: bytes.min(pressure.bytes) }
    }

    fn listen(&self, until: Instant) -> Call {
        select_biased! {
            recv(self.calls.stop) -> by => stop(by.ok()),
            recv(self.calls.flush) -> done => done.map_or(Call::Awake, Call::Flush),
            recv(self.calls.wake) -> _ => Call::Awake,
            default(until.saturating_duration_since(Instant::now())) => Call::TimeIsUp,
        }
    }

    fn listen_idly(&self, now: Instant) -> Call {
        let call = self.listen(now + IDLE);
        // a bell may ring late, for a record that is sent already: whoever hears it must ask for the next one
        if !matches!(call, Call::TimeIsUp) {
            return call;
        }
        self.queue.trim();
        select_biased! {
            recv(self.calls.stop) -> by => stop(by.ok()),
            recv(self.calls.flush) -> done => done.map_or(Call::Awake, Call::Flush),
            recv(self.calls.wake) -> _ => Call::Awake,
        }
    }

    /// Sends all that is queued now. A panic costs what was in hand, not the worker.
    fn round(&mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.send_all())).is_err() {
            self.write_off();
        }
    }

    fn send_all(&mut self) {
        let backlog = &mut self.state.backlog;
        self.queue.drain(|chunk| backlog.push(chunk));
        self.tell_turned_away();
        if self.state.backlog.is_empty() {
            if self.queue.level().0 > 0 && self.state.stop_by.is_none() {
                self.pause(CALLER_IS_COMING, true);
            }
            return;
        }
        self.throttle.round_starts(Instant::now());
        self.state.waiting_since = None;
        self.send_backlog();
    }

    /// Sends all that the worker has in its hands, in as many requests as it needs.
    fn send_backlog(&mut self) {
        while !self.is_out_of_time() {
            match self.next_batch() {
                Some(Next::Batch(batch)) => self.deliver(batch),
                Some(Next::TooLarge { signal, records, bytes }) => {
                    self.teller.tell(ProblemKind::TooLarge, || {
                        format!("a record of {bytes} bytes is larger than a request may be")
                    });
                    self.settle(signal, Outcome::TooLarge, records);
                    self.queue.release(records as usize, bytes);
                }
                None => break,
            }
        }
    }

    fn next_batch(&mut self) -> Option<Next> {
        let usual_bytes = self.queue.most_bytes_of_a_request();
        self.state.backlog.next(&self.batch, usual_bytes, &self.resource)
    }

    /// Sends a batch until it is settled, in parts if the collector finds it too large.
    fn deliver(&mut self, batch: Batch) {
        self.state.in_hand = Some((batch.signal, batch.records, batch.queued_bytes));
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            match self.send_until_settled(&part) {
                Settled::Yes => self.reuse(part),
                Settled::Replaced => parts.drain(..).for_each(|part| self.replace(&part)),
                Settled::TooLarge => parts.extend(part.halve(&self.resource).into_iter().rev()),
                // left to the closing of the books
                Settled::OutOfTime => break,
            }
        }
        self.state.in_hand = None;
    }

    fn reuse(&mut self, batch: Batch) {
        batch.into_chunks().into_iter().for_each(|chunk| self.queue.give_back(chunk));
    }

    fn send_until_settled(&mut self, batch: &Batch) -> Settled {
        let give_up = Instant::now() + self.retry.give_up_after;
        for number in 1 + self.earlier_failures(batch).. {
            let deadline = self.state.stop_by.map_or(give_up, |by| by.min(give_up));
            let Some(verdict) = self.send(batch, deadline) else {
                return self.settle_batch(batch, Outcome::WorkerPanicked);
            };
            self.tell_verdict(batch.signal, &verdict);
            let is_divisible = batch.is_divisible();
            let attempt =
                Attempt { number, records: batch.records, is_divisible, deadline, random: random() };
            match retry::next_step(&self.retry_settings(), &attempt, &verdict, Instant::now()) {
                NextStep::Done { rejected } => {
                    self.push_went(batch, true);
                    self.settle(batch.signal, Outcome::Rejected, rejected);
                    self.settle(batch.signal, Outcome::Delivered, batch.records - rejected);
                    self.release(batch);
                    return Settled::Yes;
                }
                NextStep::TryAgain { pause, asked_for } => {
                    self.push_went(batch, false);
                    self.pause(pause, asked_for);
                    if self.is_outdated(batch) {
                        self.replace(batch);
                        return Settled::Replaced;
                    }
                }
                NextStep::Halve => return Settled::TooLarge,
                NextStep::DropTooLarge => return self.settle_batch(batch, Outcome::TooLarge),
                NextStep::DropRefused => return self.settle_batch(batch, Outcome::Refused),
                NextStep::GiveUp if self.state.stop_by.is_some() => return Settled::OutOfTime,
                NextStep::GiveUp => {
                    self.teller.tell(ProblemKind::GaveUp, || {
                        format!("gave up {} records that could not be delivered in time", batch.records)
                    });
                    return self.settle_batch(batch, Outcome::GaveUp);
                }
            }
        }
        Settled::OutOfTime
    }

    /// One attempt; `None` if the transport panicked.
    fn send(&mut self, batch: &Batch, deadline: Instant) -> Option<Verdict> {
        self.books.attempted();
        let payload = Payload { signal: batch.signal, body: &batch.body() };
        let deadline = deadline.min(Instant::now() + self.attempt_timeout);
        let verdict = catch_unwind(AssertUnwindSafe(|| self.transport.send(&payload, deadline)));
        verdict.map_err(|_| self.tell_panic()).ok()
    }

    fn retry_settings(&self) -> RetrySettings {
        let mut settings = self.retry;
        if self.state.stop_by.is_some() {
            settings.max_delay = settings.max_delay.min(LONGEST_PAUSE_AT_STOP);
        }
        settings
    }

    /// Waits between attempts. A stop ends it; so does a flush, unless the server asked for the pause.
    fn pause(&mut self, pause: Duration, asked_for: bool) {
        let until = Instant::now() + pause;
        while self.state.stop_by.is_none() {
            select_biased! {
                recv(self.calls.stop) -> by => if let Call::Stop(by) = stop(by.ok()) {
                    self.state.stop_by = Some(by);
                    return;
                },
                recv(self.calls.flush) -> done => {
                    self.state.flushes.extend(done);
                    if !asked_for {
                        return;
                    }
                }
                default(until.saturating_duration_since(Instant::now())) => return,
            }
        }
        // stopping already: only the end itself could come
        let _ = self.calls.stop.recv_timeout(until.saturating_duration_since(Instant::now()));
    }

    fn is_out_of_time(&self) -> bool {
        self.state.stop_by.is_some_and(|by| Instant::now() >= by)
    }

    fn settle_batch(&mut self, batch: &Batch, outcome: Outcome) -> Settled {
        self.settle(batch.signal, outcome, batch.records);
        self.release(batch);
        Settled::Yes
    }

    fn settle(&mut self, signal: Signal, outcome: Outcome, records: u64) {
        if records > 0 {
            self.books.settle(signal, outcome, records);
        }
    }

    /// Makes room for what was settled.
    fn release(&mut self, batch: &Batch) {
        if let Some((_, records, bytes)) = &mut self.state.in_hand {
            *records -= batch.records;
            *bytes -= batch.queued_bytes;
        }
        self.queue.release(batch.records as usize, batch.queued_bytes);
    }

    /// After a panic outside of the transport: all that left the queue is lost.
    fn write_off(&mut self) {
        self.tell_panic();
        let lost = self.state.backlog.write_off();
        for (signal, records, bytes) in lost.into_iter().chain(self.state.in_hand.take()) {
            self.settle(signal, Outcome::WorkerPanicked, records);
            self.queue.release(records as usize, bytes);
        }
    }

    fn tell_panic(&mut self) {
        self.teller.tell(ProblemKind::WorkerPanicked, || "the worker panicked; its batch is lost".to_owned());
    }

    fn tell_verdict(&mut self, signal: Signal, verdict: &Verdict) {
        if matches!(verdict, Verdict::Accepted | Verdict::AcceptedPartly { .. }) {
            self.teller.note_taken(signal);
        }
        let (kind, reason) = match verdict {
            Verdict::Accepted => return,
            Verdict::AcceptedPartly { rejected: 0, message } => {
                return self
                    .teller
                    .tell(ProblemKind::PartialSuccess, || format!("the collector warns: {message}"));
            }
            Verdict::AcceptedPartly { rejected, message } => {
                return self
                    .teller
                    .tell(ProblemKind::PartialSuccess, || format!("{rejected} records rejected: {message}"));
            }
            Verdict::TryLater { reason, .. } => (ProblemKind::Unavailable, reason),
            Verdict::TooLarge { reason } => (ProblemKind::TooLarge, reason),
            Verdict::NotTaken { reason } => return self.teller.tell_not_taken(signal, reason),
            Verdict::Refused { reason } => (ProblemKind::Refused, reason),
        };
        self.teller.tell(kind, || reason.clone());
    }

    fn tell_turned_away(&mut self) {
        let now = [Refusal::QueueFull, Refusal::TooLarge].map(|refusal| self.books.turned_away(refusal));
        let before = std::mem::replace(&mut self.state.told_turned_away, now);
        if now[0] > before[0] {
            self.teller.tell(ProblemKind::QueueFull, || {
                format!("the queue is full: {} lost so far", records(now[0]))
            });
        }
        if now[1] > before[1] {
            self.teller.tell(ProblemKind::TooLarge, || {
                format!("larger than a request may be: {} lost so far", records(now[1]))
            });
        }
    }
}

fn records(count: u64) -> String {
    if count == 1 { "1 record".to_owned() } else { format!("{count} records") }
}

enum Settled {
    Yes,
    /// By a newer snapshot of the same metrics.
    Replaced,
    TooLarge,
    OutOfTime,
}

/// A stop without a word means that nobody is left to wait for.
fn stop(by: Option<Instant>) -> Call {
    Call::Stop(by.unwrap_or_else(Instant::now))
}

fn report_flushed(done: &Sender<()>) {
    // whoever asked may have stopped waiting
    let _ = done.try_send(());
}

#[cfg(test)]
mod tests;
