//! The worker of one exporter: takes records from the queues, sends them in batches, and counts the outcome of each.
//!
//! The worker is an event loop over one [`Delivery`] per signal (traces, logs, metrics). Normally it runs on a thread
//! of the exporter. Where a program must not have other threads, callers run this loop, a turn at a time ([`manual`]).
//!
//! # One step
//! [`Worker::step`] makes at most one attempt and returns, so that a stop or a flush is noticed between two attempts:
//!
//! 1. *Round.* Every queue whose round is due is drained into the backlog of its delivery. [`Throttle`] decides when a
//!    round is due: after the throttle and the linger time, or at once if the queue is three quarters full. This level
//!    is lower if large records would otherwise not fit.
//! 2. *Attempt.* [`FairShare`] picks one of the deliveries that have something to send and are not paused: the delivery
//!    that has used the least of the worker's time. One request of this delivery is sent (`attempt.rs`), or the metrics
//!    are collected (`periodic_reader.rs`). An attempt always has a deadline.
//! 3. *Rest.* If no attempt and no collection is due, the worker sleeps until one will be. A queue wakes the worker
//!    earlier, and at most once per rest, when it is filled to the level that [`Worker::next_event`] has set.
//!
//! [`Throttle`]: crate::pipeline::schedule::Throttle
//!
//! # States of a batch
//! ```text
//!  Queue::enqueue: accepted
//!        │
//!        ▼    drain_queue                next_batch               load_spooled
//!     queued ──────────────► backlog ──────────────► in hand ◄─────────────────────┐
//!    (chunks)    (round)     (chunks)         ┌────► (`parts`)                     │
//!                                             │         │ try_once                 │
//!                             TryAgain: pause │         ▼                          │
//!                      Divide: in two halves  └───── attempt                       │
//!                                                       │ verdict, `next_step`     │
//!            ┌───────────────┬───────────────────┬──────┴────────────┐             │
//!            ▼               ▼                   ▼                   ▼             │
//!        delivered       rejected      dropped or superseded      spooled ─────────┘
//! ```
//! The lowest row shows the outcomes in the [ledger](crate::pipeline::ledger). All of them except *spooled* are
//! final.
//!
//! - *Retry.* [`retry::next_step`](crate::pipeline::retry::next_step) maps a verdict to the next step. A batch that
//!   can be retried is sent again after an exponential back-off with full jitter, or after the time that the server
//!   asks for. Only its delivery pauses: the other signals are sent meanwhile. A flush shortens a back-off, but not a
//!   pause that the server asked for. A batch that is not delivered within `give-up-after` of its first attempt is
//!   dropped as *gave up*.
//! - *Spool.* With a spool, a batch that must be retried is written to disk, and so are the records that follow it. If
//!   the worker has its own thread, a second thread makes the attempts, while the worker writes nearly full queues to
//!   disk. [`spooling`] describes both.
//! - *Stop.* The budget of the stop replaces `give-up-after`. Every signal with records gets a fair share of the
//!   remaining time, so that one endpoint that does not answer cannot use up all of it. Records that are left at the
//!   end go to the spool. Without a spool, [`Counters::close`] counts them as dropped by the shutdown.
//!
//! # Why each record is counted exactly once
//! 1. A record is accepted in one place: a caller counts the record while it holds the lock of the queue's shard to
//!    which it appends the record. (Metrics that the worker collects itself are counted when the queue admits them.)
//! 2. From there on, each record has exactly one owner. Chunks and [`Batch`]es are moved and never cloned: from the
//!    queue to the backlog, to a batch, to `parts`, to the local variable of the current attempt.
//!    [`Worker::settle_part`] and [`Worker::release_part`] consume the batch, so the same batch cannot be settled
//!    again. The two halves of a divided batch together have exactly its records.
//! 3. Every function that ends the life of a batch counts its outcome: `apply_verdict` (the verdict), `append_to_spool`
//!    and `keep_halves` (spooled), `supersede_snapshot` (a newer snapshot exists), and `settle_part` (all other
//!    outcomes of a batch). `settle_dropped` and `load_spooled` count records that were dropped before they were in a
//!    batch.
//! 4. A panic can interrupt these functions. `Delivery::in_hand` is the number of records of the current batch whose
//!    room has not been released, so [`Worker::write_off`] counts these and the backlog as lost to a panic. Counting
//!    an outcome and releasing the room are adjacent steps, and no code of the program runs between them.
//! 5. The count *spooled* is reduced when a request is loaded from disk (`Counters::take_from_spool`), and increased
//!    again if the request is returned to the disk. Records of an earlier process are counted as *recovered* when
//!    they are loaded.
//! 6. The count *in flight* is not stored. It is `accepted + recovered` minus all outcomes: a record without an
//!    outcome is shown as in flight, and a debug assertion fails if there are more outcomes than records.
//! 7. [`Counters::close`] is the last step. Under the lock of the counters, it gives all records in flight an outcome,
//!    and the counters ignore later outcomes. So a worker that outlives its stop cannot count a record a second time.
//!
//! The simulation (`pipeline/simulation`) injects random faults and checks after every step that accepted records and
//! outcomes add up, and that they agree with the counts of the simulated server.
//!
//! # Memory ordering
//! The worker's state belongs to one thread at a time. Other threads reach it only through channels and mutexes, whose
//! operations order all accesses, and through the atomics of the queues (see `pipeline/queue`). A stop closes the
//! queues before it sends its message, so the drain in [`Worker::start_stop`] finds every accepted record.
//!
//! # Forks and panics
//! A step calls code of the program: the problem hook and the callbacks of observable instruments. That code may
//! fork, and then this thread continues in the child as well. The worker belongs to the parent, so every step first
//! compares the fork generation, and the child leaks its copy of the worker. Problems are held back while the worker
//! works and reported afterwards, so that a hook that forks never interrupts an attempt. [`process`] states the rules
//! for forks and the order of locks.

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
use crate::context::{self, Calibrator, Owner};
use crate::escape;
use crate::pipeline::batch::Batch;
use crate::pipeline::clock;
use crate::pipeline::ledger::{Counters, NotEnqueuedReason, Outcome};
use crate::pipeline::retry::ProxyPause;
use crate::pipeline::schedule::FairShare;
use crate::pipeline::self_observation::{Observed, Observer};
use crate::process::{self, contain_panic};
use crate::record::Signal;
use crate::spool::Spool;
use crate::transport::{ResponseStatus, Transport};
use crate::{pipeline::problems::ProblemReporter, problem::ProblemKind};
pub(crate) use attempt::CurrentAttempt;
use attempt::NO_DEADLINE;
pub(crate) use delivery::Delivery;
use delivery::Readiness;
use flush::Flush;
pub(crate) use flush::{NextFlush, PendingFlush};
#[cfg(test)]
pub(crate) use manual::Progress;
use manual::Turn;
pub(crate) use periodic_reader::PeriodicReader;
use periodic_reader::ReaderState;

/// An exporter frees the spare chunks that callers did not need for this time.
const IDLE: Duration = Duration::from_secs(10);

/// The work of one exporter between its queues and its transport. See the module documentation for the algorithm.
pub(crate) struct Worker {
    /// One delivery per exported signal.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) counters: Arc<Counters>,
    /// `None` only during an attempt, which may run on another thread: see [`spooling`].
    pub(crate) transport: Option<Box<dyn Transport>>,
    /// The telemetry whose own records are suppressed on this thread.
    pub(crate) owner: Option<Owner>,
    pub(crate) current_attempt: Arc<CurrentAttempt>,
    pub(crate) batch: BatchSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) attempt_timeout: Duration,
    /// The encoded resource of all records whose scope has no resource of its own.
    pub(crate) resource: Vec<u8>,
    /// `None` for an exporter without metrics.
    pub(crate) reader: Option<PeriodicReader>,
    /// Keeps batches on disk while the collector cannot be reached, if configured.
    pub(crate) spool: Option<Spool>,
    pub(crate) reporter: Arc<ProblemReporter>,
    pub(crate) observer: Option<Observer>,
    pub(crate) commands: Commands,
    pub(crate) state: State,
}

/// Requests to the worker. A stop has its own channel, which is checked first, so wake-ups cannot delay a stop.
pub(crate) struct Commands {
    pub(crate) stop: Receiver<Stop>,
    /// Callers hold a weak reference, so that a flush requested after the worker's end is over at once.
    pub(crate) flush: Arc<NextFlush>,
    pub(crate) wake: Receiver<()>,
}

/// A request to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) begun: Instant,
    /// The deadline: start of the stop plus its budget.
    pub(crate) by: Instant,
}

impl Stop {
    fn left(&self, now: Instant) -> Duration {
        self.by.saturating_duration_since(now)
    }
}

/// The worker's state that does not belong to one signal.
#[derive(Default)]
pub(crate) struct State {
    fair_share: FairShare,
    flushes: Vec<Flush>,
    /// The first stop request. Later requests do not change its deadline.
    stop: OnceCell<Stop>,
    reader: ReaderState,
    /// True while the batch that is being sent also has an entry in the spool: see [`spooling`].
    is_copied_to_spool: bool,
    proxy_pause: ProxyPause,
    /// True once any attempt reached a server. Decides how often a stop tries again.
    was_reached: bool,
    /// Counts of records that were not enqueued, as of the last report, for `QueueFull` and `TooLarge`.
    reported_not_enqueued: [[u64; 2]; Signal::COUNT],
    /// Limits of the current turn on a caller's thread; `None` on the worker's own thread.
    turn: Option<Turn>,
    /// Time at which unneeded spare chunks were last freed.
    trimmed: Option<Instant>,
    /// Fork generation in which the worker's thread was started; `None` without a thread.
    generation: Option<u32>,
}

enum Command {
    Stop(Stop),
    Woken,
    TimedOut,
}

impl Worker {
    /// Runs the worker on this thread until it has been stopped.
    ///
    /// Returns false in a forked child: if code of the program forks on this thread, the child returns from here
    /// without touching the worker, which is the parent's.
    pub(crate) fn run(mut self) -> bool {
        self.state.generation = Some(process::generation());
        context::suppress_for_ever();
        let mut calibrator = Calibrator::new();
        while !self.is_done() && !self.is_forked() {
            calibrator.update();
            self.caught(Self::step);
        }
        if !self.is_forked() {
            self.finish();
        }
        let is_parent = !self.is_forked();
        if !is_parent {
            // Dropping the worker would close the parent's files and wait for locks that were held at the fork.
            mem::forget(self);
        }
        is_parent
    }

    /// Returns whether this process is a child that was forked on the worker's thread.
    fn is_forked(&self) -> bool {
        self.state.generation.is_some_and(|generation| generation != process::generation())
    }

    /// Passes the end of an export, or of a collection, to self-observation. Does nothing in a forked child, where a
    /// measurement would start the child's exporters.
    fn observe(&self, signal: Option<Signal>, time: Duration, failure: Option<&str>) {
        if let Some(observer) = self.observer.as_ref().filter(|_| !self.is_forked()) {
            let status = signal.and_then(|_| self.last_status());
            observer(&Observed { signal, time, failure, status });
        }
    }

    /// Returns the status of the response to the last attempt.
    fn last_status(&self) -> Option<ResponseStatus> {
        self.transport.as_ref()?.last_status()
    }

    /// Runs `work`, then reports the problems that it found. The hook may fork; then no step may follow in the child.
    fn report_after<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.reporter.hold_back(true);
        let worked = work(self);
        // During a turn, problems stay held back: `take_turn` reports them at the end of the turn.
        self.reporter.hold_back(self.state.turn.is_some());
        self.reporter.report_held();
        worked
    }

    /// Runs `work` and contains a panic: the records that had left the queues are dropped and counted, and the worker
    /// goes on.
    fn caught<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let worked = contain_panic(|| work(self)).ok();
        if worked.is_none() {
            (0..self.deliveries.len()).for_each(|at| self.write_off(at));
        }
        worked
    }

    /// Makes the last collection if it is due, moves unsettled records to the spool if there is one, ends all flushes.
    fn finish(&mut self) {
        self.collect_last_metrics();
        if !self.is_forked() {
            self.report_after(Self::close_spool);
        }
        if !self.is_forked() {
            self.state.flushes.clear();
        }
    }

    /// Returns whether the worker is stopping and has nothing left to try, or no time left.
    fn is_done(&self) -> bool {
        let is_done = |delivery: &Delivery| delivery.is_finished || delivery.is_idle();
        self.stop_by().is_some()
            && (self.is_out_of_time()
                || !self.last_collection_is_due() && self.deliveries.iter().all(is_done))
    }

    /// Does one thing: a collection, an attempt, or a rest. Returns false if nothing is due and this thread may not
    /// rest, or in a forked child.
    fn step(&mut self) -> bool {
        !self.is_forked() && (self.report_after(Self::work) || !self.is_forked() && self.rest())
    }

    /// Makes a collection or an attempt. Returns false if neither is due.
    fn work(&mut self) -> bool {
        let now = clock::now();
        self.tick_spool(now);
        self.trim(now);
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
            // A panic loses the records of one signal that had left its queue. The other signals are not affected.
            if contain_panic(|| self.try_once(at)).is_err() {
                self.write_off(at);
            }
            self.report_not_enqueued();
            // If a stop began during the attempt, only the time since then is charged, because the stop has reset the
            // shares.
            self.receive_stop();
            let begun = self.state.stop.get().map_or(now, |stop| stop.begun.max(now));
            self.state.fair_share.charge(at, clock::now() - begun);
        }
        true
    }

    /// Counts as lost to a panic all records that had left the queue of a signal.
    ///
    /// Parts from the spool are settled one by one, because their entry on disk must be removed. For the rest, only the
    /// number of records is counted, because after a panic `parts` may lack the batch that was being handled.
    fn write_off(&mut self, at: usize) {
        self.report_panic(at);
        for part in self.deliveries[at].take_parts(Batch::is_spooled) {
            self.settle_part(at, part, Outcome::WorkerPanicked);
        }
        self.deliveries[at].write_off();
    }

    /// Frees the spare chunks that callers did not need during the last [`IDLE`], at most once in this time.
    fn trim(&mut self, now: Instant) {
        if self.state.trimmed.is_none_or(|trimmed| now - trimmed >= IDLE) {
            self.state.trimmed = Some(now);
            self.deliveries.iter().for_each(|delivery| delivery.queue.trim());
        }
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

    /// Sleeps until something may be due. Returns false if this thread may not sleep.
    fn rest(&mut self) -> bool {
        if !self.may_rest() {
            return false;
        }
        let now = clock::now();
        let then = self.next_event(now).unwrap_or(now + NO_DEADLINE);
        let command = self.wait(now, then);
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
        if let Command::Stop(stop) = command {
            self.start_stop(stop);
        }
        true
    }

    /// Returns the time at which something is due, if known. Sets the level at which each queue wakes the worker
    /// before that time.
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

    /// Starts the stop: drains the queues for the last time, ends all pauses and requests the last collection. The
    /// queues are closed before a stop is sent, so no record can follow.
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
        // During a stop, only sleep: if the stop channel is disconnected, `select_biased!` would never wait. A flush
        // needs no wake-up, because the end of the stop ends all flushes.
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

    /// Waits until `then`, or for a command. A long wait is interrupted to free spare chunks.
    fn wait(&mut self, now: Instant, then: Instant) -> Command {
        let mut until = now + IDLE;
        while until < then && self.deliveries.iter().any(|delivery| delivery.queue.has_surplus()) {
            // A late wake-up may concern a record that was already sent. Return nevertheless: a wake-up disarms the
            // threshold of its queue, so the caller must set the levels again.
            match self.wait_for_command(until) {
                Command::TimedOut => self.trim(until),
                command => return command,
            }
            until += IDLE;
        }
        self.wait_for_command(then)
    }

    /// Returns the deadline of the stop; `None` while the worker is not stopping.
    fn stop_by(&self) -> Option<Instant> {
        self.state.stop.get().map(|stop| stop.by)
    }

    fn is_out_of_time(&self) -> bool {
        self.stop_by().is_some_and(|by| clock::now() >= by)
    }

    fn report_panic(&mut self, at: usize) {
        let signal = self.deliveries[at].signal;
        let what = "the worker panicked and its batch is lost; this is a bug in standpipe, please report it";
        self.reporter.report(signal, ProblemKind::WorkerPanicked, || what.to_owned());
    }

    fn report_not_enqueued(&mut self) {
        const REASONS: [(NotEnqueuedReason, ProblemKind, &str); 2] = [
            (NotEnqueuedReason::QueueFull, ProblemKind::QueueFull, "the queue is full"),
            (NotEnqueuedReason::TooLarge, ProblemKind::TooLarge, "larger than batch-bytes or queue-bytes"),
        ];
        for signal in self.deliveries.iter().map(|delivery| delivery.signal) {
            let reported = &mut self.state.reported_not_enqueued[signal as usize];
            for (reported, (reason, kind, why)) in reported.iter_mut().zip(REASONS) {
                let now = self.counters.not_enqueued(signal, reason);
                if now > mem::replace(reported, now) {
                    let lost =
                        || format!("{why}: {} lost so far; raise the limit, or send less", records(now));
                    self.reporter.report(signal, kind, lost);
                }
            }
        }
    }
}

fn records(count: u64) -> String {
    escape::count(count, "record")
}

/// Returns a stop that ends at once, for a disconnected channel: no caller is left that could wait for the stop.
fn stop_now() -> Stop {
    let now = clock::now();
    Stop { begun: now, by: now }
}

#[cfg(test)]
mod tests;
