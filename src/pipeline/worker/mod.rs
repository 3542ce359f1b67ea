//! The worker's loop: rest, drain the queue, attempt one request, account for it, and choose again.
//!
//! One thread serves all signals of an exporter, and each signal has a delivery of its own: while one waits in its
//! back-off, the others are sent. The thread is the worker's own, which rests when nothing is due, or that of a caller
//! ([`manual`]), which goes its way then.

mod attempt;
mod delivery;
mod flush;
pub(crate) mod manual;
mod periodic_reader;
#[cfg(test)]
#[path = "../simulation/worker.rs"]
mod simulated;
mod spooling;

use std::cell::OnceCell;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, select_biased};

use crate::config::{BatchSettings, RetrySettings};
use crate::context::{self, Owner};
use crate::escape;
use crate::pipeline::batch::Batch;
use crate::pipeline::clock;
use crate::pipeline::ledger::{Counters, NotEnqueuedReason, Outcome};
use crate::pipeline::retry::ProxyPause;
use crate::pipeline::schedule::FairShare;
use crate::process::{self, contain_panic};
use crate::record::Signal;
use crate::spool::Spool;
use crate::transport::Transport;
use crate::{pipeline::problems::ProblemReporter, problem::ProblemKind};
pub(crate) use attempt::CurrentAttempt;
pub(crate) use delivery::Delivery;
use delivery::Readiness;
use flush::Flush;
pub(crate) use flush::{NextFlush, PendingFlush};
#[cfg(test)]
pub(crate) use manual::Progress;
use manual::Turn;
pub(crate) use periodic_reader::PeriodicReader;
use periodic_reader::ReaderState;

/// After this time without work an exporter frees memory.
const IDLE: Duration = Duration::from_secs(10);

/// What one exporter does between its queues and its transport.
pub(crate) struct Worker {
    /// One for each signal that it sends.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) counters: Arc<Counters>,
    /// `None` only while another thread sends: see [`spooling`].
    pub(crate) transport: Option<Box<dyn Transport>>,
    /// Which telemetry it exports for.
    pub(crate) owner: Option<Owner>,
    pub(crate) current_attempt: Arc<CurrentAttempt>,
    pub(crate) batch: BatchSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) attempt_timeout: Duration,
    /// The resource as it stands in every request.
    pub(crate) resource: Vec<u8>,
    /// `None` for an exporter without metrics.
    pub(crate) reader: Option<PeriodicReader>,
    /// Where batches go while the collector cannot be reached; `None` without one.
    pub(crate) spool: Option<Spool>,
    pub(crate) reporter: Arc<ProblemReporter>,
    pub(crate) commands: Commands,
    pub(crate) state: State,
}

/// The worker's channels. Stop outranks everything, so that a full queue cannot delay it.
pub(crate) struct Commands {
    pub(crate) stop: Receiver<Stop>,
    /// Callers hold it weakly, so that a request after the worker's end ends at once.
    pub(crate) flush: Arc<NextFlush>,
    pub(crate) wake: Receiver<()>,
}

/// A request to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) begun: Instant,
    /// The moment by which all must be over.
    pub(crate) by: Instant,
}

impl Stop {
    fn left(&self, now: Instant) -> Duration {
        self.by.saturating_duration_since(now)
    }
}

/// What the worker remembers beside its deliveries.
#[derive(Default)]
pub(crate) struct State {
    fair_share: FairShare,
    flushes: Vec<Flush>,
    /// The first request to stop. Later ones do not change its deadline.
    stop: OnceCell<Stop>,
    reader: ReaderState,
    /// True while the batch in flight also has an entry in the spool: see [`spooling`].
    is_copied_to_spool: bool,
    proxy_pause: ProxyPause,
    /// Whether any attempt had another end than that there is no server.
    was_reached: bool,
    reported_not_enqueued: [[u64; 2]; Signal::COUNT],
    /// What a caller's thread may do; `None` on the worker's own.
    turn: Option<Turn>,
    /// Of the process in which the worker has a thread of its own.
    generation: Option<u32>,
    /// Since when a caller's thread has found nothing to do at all.
    idle_since: Option<Instant>,
}

enum Command {
    Stop(Stop),
    Woken,
    TimedOut,
}

impl Worker {
    /// Works on this thread until it is stopped. False in a child that code of the program has forked here: this thread is all
    /// that lives on in it, and the worker is the parent's.
    pub(crate) fn run(mut self) -> bool {
        self.state.generation = Some(process::generation());
        context::suppress_for_ever();
        while !self.is_done() && !self.is_forked() {
            self.caught(Self::step);
        }
        if !self.is_forked() {
            self.finish();
        }
        let is_parent = !self.is_forked();
        if !is_parent {
            mem::forget(self);
        }
        is_parent
    }

    /// Whether this is a child that code of the program has forked on the worker's thread.
    fn is_forked(&self) -> bool {
        self.state.generation.is_some_and(|generation| generation != process::generation())
    }

    /// Does `work`, and then reports what it met: the program's hook may fork, and the child has no part in what follows.
    fn report_after<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.reporter.hold_back(true);
        let worked = work(self);
        // of a turn, its end reports
        self.reporter.hold_back(self.state.turn.is_some());
        self.reporter.report_held();
        worked
    }

    /// What `work` returns; `None` if it panicked, which costs all that had left the queues, not the worker.
    fn caught<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let worked = contain_panic(|| work(self)).ok();
        if worked.is_none() {
            (0..self.deliveries.len()).for_each(|at| self.write_off(at));
        }
        worked
    }

    /// The worker is done: what it still has is lost, unless the spool takes it.
    fn finish(&mut self) {
        self.collect_last_metrics();
        if !self.is_forked() {
            self.report_after(Self::close_spool);
        }
        if !self.is_forked() {
            self.state.flushes.clear();
        }
    }

    /// Whether the worker stops and nothing is left that it could try.
    fn is_done(&self) -> bool {
        let is_done = |delivery: &Delivery| delivery.is_finished || delivery.is_idle();
        self.stop_by().is_some()
            && (self.is_out_of_time()
                || !self.last_collection_is_due() && self.deliveries.iter().all(is_done))
    }

    /// Does one thing: a collection, an attempt, or a rest. False if nothing is due, and the thread is not to rest.
    fn step(&mut self) -> bool {
        !self.is_forked() && (self.report_after(Self::work) || !self.is_forked() && self.rest())
    }

    /// Makes a collection or an attempt; false if neither is due.
    fn work(&mut self) -> bool {
        let now = clock::now();
        self.tick_spool(now);
        self.receive_commands();
        self.report_flushed();
        if self.is_done() {
            return true;
        }
        self.start_rounds(now);
        let mut due = [false; Signal::COUNT];
        for (at, delivery) in self.deliveries.iter().enumerate() {
            due[at] = delivery.is_due(now) || self.may_collect(at, now);
        }
        let Some(at) = self.state.fair_share.pick(due) else { return false };
        if self.may_collect(at, now) {
            self.collect_metrics(at);
        } else {
            // A panic costs the batch in hand of one signal, not the worker.
            if contain_panic(|| self.try_once(at)).is_err() {
                self.write_off(at);
            }
            self.report_not_enqueued();
            // A stop that began during the attempt shares only the time since then.
            self.receive_stop();
            let begun = self.state.stop.get().map_or(now, |stop| stop.begun.max(now));
            self.state.fair_share.charge(at, clock::now() - begun);
        }
        true
    }

    /// After a panic outside of the transport: all that had left the queue is lost.
    fn write_off(&mut self, at: usize) {
        self.report_panic(at);
        for part in self.deliveries[at].take_parts(Batch::is_spooled) {
            self.settle_part(at, part, Outcome::WorkerPanicked);
        }
        self.deliveries[at].write_off();
    }

    /// Drains the queues of all signals whose round is due.
    fn start_rounds(&mut self, now: Instant) {
        let mut has_drained = false;
        for at in 0..self.deliveries.len() {
            if self.deliveries[at].round_is_due(&self.batch, now) {
                self.deliveries[at].drain_queue(now);
                self.pass_on_to_spool(at);
                has_drained = true;
            }
        }
        if has_drained {
            self.report_not_enqueued();
        }
    }

    /// Sleeps until something may be due; false if this thread has no time for that.
    fn rest(&mut self) -> bool {
        if !self.may_rest() {
            return false;
        }
        let now = clock::now();
        let command = match self.next_event(now) {
            Some(then) => self.wait_for_command(then),
            None => self.wait_idle(now),
        };
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
        match command {
            Command::Stop(stop) => self.start_stop(stop),
            Command::Woken | Command::TimedOut => {}
        }
        true
    }

    /// Returns when something is due, if that is known, and sets the level at which each queue wakes the worker before.
    fn next_event(&mut self, now: Instant) -> Option<Instant> {
        let tick = self.spool.as_ref().and_then(|spool| spool.next_tick());
        let mut until = self.next_collection().into_iter().chain(self.stop_by()).chain(tick).min();
        for delivery in self.deliveries.iter_mut().filter(|delivery| !delivery.is_finished) {
            let then = match delivery.readiness(&self.batch, now) {
                Readiness::Due => return Some(now),
                Readiness::Until(then) => Some(then),
                Readiness::Records(wake_at, _) if delivery.queue.wake_at(wake_at) => return Some(now),
                Readiness::Records(_, then) => then,
            };
            until = until.into_iter().chain(then).min();
        }
        until
    }

    /// Receives a stop that was requested while the worker was busy.
    fn receive_stop(&mut self) {
        if self.stop_by().is_none() {
            match self.commands.stop.try_recv() {
                Ok(stop) => self.start_stop(stop),
                Err(TryRecvError::Disconnected) => self.start_stop(stop_now()),
                Err(TryRecvError::Empty) => {}
            }
        }
    }

    /// Receives a stop or a flush that was requested while the worker was busy.
    fn receive_commands(&mut self) {
        self.receive_stop();
        if let Some(request) = self.commands.flush.take() {
            self.start_flush(request);
        }
    }

    /// From now on only what the budget has time for: the queues are closed already.
    fn start_stop(&mut self, stop: Stop) {
        if self.state.stop.set(stop).is_err() {
            return;
        }
        let now = clock::now();
        self.state.fair_share = FairShare::default();
        self.deliveries.iter_mut().for_each(|delivery| delivery.start_stop(now));
        self.report_not_enqueued();
        self.request_collection();
    }

    fn wait_for_command(&self, until: Instant) -> Command {
        let time = until.saturating_duration_since(clock::now());
        // A stop is received once, and its channel may be disconnected then. It needs no other command: its end ends all flushes.
        if self.stop_by().is_some() {
            thread::sleep(time);
            return Command::TimedOut;
        }
        select_biased! {
            recv(self.commands.stop) -> stop => Command::Stop(stop.unwrap_or_else(|_| stop_now())),
            recv(self.commands.wake) -> _ => Command::Woken,
            default(time) => Command::TimedOut,
        }
    }

    fn wait_idle(&self, now: Instant) -> Command {
        let command = self.wait_for_command(now + IDLE);
        // a wake-up may come late, for a record that is sent already: the worker must set its levels again
        if !matches!(command, Command::TimedOut) {
            return command;
        }
        self.deliveries.iter().for_each(|delivery| delivery.queue.trim());
        select_biased! {
            recv(self.commands.stop) -> stop => Command::Stop(stop.unwrap_or_else(|_| stop_now())),
            recv(self.commands.wake) -> _ => Command::Woken,
        }
    }

    /// By when all must be over; `None` until the worker stops.
    fn stop_by(&self) -> Option<Instant> {
        self.state.stop.get().map(|stop| stop.by)
    }

    fn is_out_of_time(&self) -> bool {
        self.stop_by().is_some_and(|by| clock::now() >= by)
    }

    fn report_panic(&mut self, at: usize) {
        let signal = self.deliveries[at].signal;
        let what = || "the worker panicked; its batch is lost".to_owned();
        self.reporter.report(signal, ProblemKind::WorkerPanicked, what);
    }

    fn report_not_enqueued(&mut self) {
        const REASONS: [(NotEnqueuedReason, ProblemKind, &str); 2] = [
            (NotEnqueuedReason::QueueFull, ProblemKind::QueueFull, "the queue is full"),
            (NotEnqueuedReason::TooLarge, ProblemKind::TooLarge, "larger than a request or the queue may be"),
        ];
        for signal in self.deliveries.iter().map(|delivery| delivery.signal) {
            let reported = &mut self.state.reported_not_enqueued[signal as usize];
            for (reported, (reason, kind, why)) in reported.iter_mut().zip(REASONS) {
                let now = self.counters.not_enqueued(signal, reason);
                if now > mem::replace(reported, now) {
                    self.reporter.report(signal, kind, || format!("{why}: {} lost so far", records(now)));
                }
            }
        }
    }
}

fn records(count: u64) -> String {
    escape::count(count, "record")
}

/// A disconnected channel means that no caller is left that could wait for a stop.
fn stop_now() -> Stop {
    let now = clock::now();
    Stop { begun: now, by: now }
}

#[cfg(test)]
mod tests;
