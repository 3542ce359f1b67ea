//! The loop: rest, gather what is queued, try one request, account for it, and choose again.
//!
//! One thread serves all signals of an exporter, and each signal has a delivery of its own: while one waits in its
//! back-off, the others are sent.

mod attempt;
mod delivery;
mod flush;
mod push;
mod turns;

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, select_biased};

use crate::config::{BatchSettings, RetrySettings};
use crate::context;
use crate::pipeline::ledger::{Counters, NotEnqueuedReason};
use crate::record::Signal;
use crate::transport::Transport;
use crate::{config::ProblemKind, pipeline::problems::ProblemReporter};
pub(crate) use attempt::UnderWay;
pub(crate) use delivery::Delivery;
use delivery::Outlook;
use flush::Flush;
pub(crate) use push::Push;
use push::PushState;
use turns::Turns;

/// An exporter that had nothing to do for so long gives memory back.
const IDLE: Duration = Duration::from_secs(10);

/// One exporter's background thread.
pub(crate) struct Worker {
    /// One for each signal that it sends.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) under_way: Arc<UnderWay>,
    pub(crate) batch: BatchSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) attempt_timeout: Duration,
    /// The resource as it stands in every request.
    pub(crate) resource: Vec<u8>,
    /// `None` for an exporter without metrics.
    pub(crate) push: Option<Push>,
    pub(crate) reporter: ProblemReporter,
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

/// What the worker remembers beside its deliveries.
#[derive(Default)]
pub(crate) struct State {
    turns: Turns,
    flushes: Vec<Flush>,
    /// By when all must be over, once the worker stops: the first stop counts, and none is taken back.
    stop_by: OnceCell<Instant>,
    push: PushState,
    told_turned_away: [[u64; 2]; Signal::COUNT],
}

enum Call {
    Stop(Instant),
    Flush(Sender<()>),
    Awake,
    TimeIsUp,
}

/// When the worker has something to do.
enum Event {
    Now,
    At(Option<Instant>),
}

impl Worker {
    /// Works until it is stopped.
    pub(crate) fn run(mut self) {
        context::suppress_for_ever();
        self.schedule_first_push();
        while !self.is_done() {
            if catch_unwind(AssertUnwindSafe(|| self.step())).is_err() {
                (0..self.deliveries.len()).for_each(|at| self.write_off(at));
            }
        }
        self.collect_what_is_left();
        self.state.flushes.drain(..).for_each(Flush::report);
    }

    /// Whether the worker stops and nothing is left that it could try.
    fn is_done(&self) -> bool {
        let is_done = |delivery: &Delivery| delivery.is_over || delivery.is_idle();
        self.stop_by().is_some()
            && (self.is_out_of_time() || !self.last_push_is_due() && self.deliveries.iter().all(is_done))
    }

    /// Does one thing: a push, an attempt, or a rest.
    fn step(&mut self) {
        self.hear();
        self.report_flushed();
        if self.is_done() {
            return;
        }
        let now = Instant::now();
        self.start_rounds(now);
        let mut due = [false; Signal::COUNT];
        for (at, delivery) in self.deliveries.iter().enumerate() {
            due[at] = delivery.is_due(now) || self.may_push(at, now);
        }
        match self.state.turns.next(due) {
            Some(at) if self.may_push(at, now) => self.push_metrics(at),
            Some(at) => {
                self.take_turn(at);
                self.tell_turned_away();
                self.state.turns.spend(at, now.elapsed());
            }
            None => self.rest(),
        }
    }

    /// A panic costs what was in hand of one signal, not the worker.
    fn take_turn(&mut self, at: usize) {
        if catch_unwind(AssertUnwindSafe(|| self.try_once(at))).is_err() {
            self.write_off(at);
        }
    }

    /// After a panic outside of the transport: all that had left the queue is lost.
    fn write_off(&mut self, at: usize) {
        self.tell_panic(at);
        self.deliveries[at].write_off();
    }

    /// Gathers the records of all signals whose round is due.
    fn start_rounds(&mut self, now: Instant) {
        let mut has_gathered = false;
        for delivery in self.deliveries.iter_mut().filter(|delivery| delivery.is_idle() && !delivery.is_over)
        {
            if delivery.outlook(&self.batch, now) == Outlook::Due {
                delivery.gather(now);
                has_gathered = true;
            }
        }
        if has_gathered {
            self.tell_turned_away();
        }
    }

    /// Sleeps until something may be due.
    fn rest(&mut self) {
        let now = Instant::now();
        let call = match self.next_event(now) {
            Event::Now => Call::Awake,
            Event::At(Some(then)) => self.listen(then),
            Event::At(None) => self.listen_idly(now),
        };
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
        match call {
            Call::Stop(by) => self.start_stop(by),
            Call::Flush(done) => self.start_flush(done),
            Call::Awake | Call::TimeIsUp => {}
        }
    }

    /// When something is due if nothing comes, and with a bell at each queue for what may come.
    fn next_event(&mut self, now: Instant) -> Event {
        let mut until = self.next_push().into_iter().chain(self.stop_by()).min();
        for delivery in self.deliveries.iter_mut().filter(|delivery| !delivery.is_over) {
            let then = match delivery.outlook(&self.batch, now) {
                Outlook::Due => return Event::Now,
                Outlook::Until(then) => Some(then),
                Outlook::Records(wake_at, _) if delivery.queue.wake_at(wake_at) => return Event::Now,
                Outlook::Records(_, then) => then,
            };
            until = until.into_iter().chain(then).min();
        }
        Event::At(until)
    }

    /// Takes note of a stop or a flush that has come while the worker was busy.
    fn hear(&mut self) {
        if self.stop_by().is_none() {
            match self.calls.stop.try_recv() {
                Ok(by) => self.start_stop(by),
                Err(TryRecvError::Disconnected) => self.start_stop(Instant::now()),
                Err(TryRecvError::Empty) => {}
            }
        }
        while let Ok(done) = self.calls.flush.try_recv() {
            self.start_flush(done);
        }
    }

    /// From now on only what the budget has time for: the queues are closed already.
    fn start_stop(&mut self, by: Instant) {
        if self.state.stop_by.set(by).is_err() {
            return;
        }
        let now = Instant::now();
        self.deliveries.iter_mut().for_each(|delivery| delivery.start_stop(now));
        self.tell_turned_away();
        self.start_last_push();
    }

    fn listen(&self, until: Instant) -> Call {
        let time = until.saturating_duration_since(Instant::now());
        // a stop comes once, and then its channel may be gone: it would be heard all the time
        if self.stop_by().is_some() {
            return select_biased! {
                recv(self.calls.flush) -> done => done.map_or_else(|_| self.sleep(until), Call::Flush),
                default(time) => Call::TimeIsUp,
            };
        }
        select_biased! {
            recv(self.calls.stop) -> by => stop(by.ok()),
            recv(self.calls.flush) -> done => done.map_or(Call::Awake, Call::Flush),
            recv(self.calls.wake) -> _ => Call::Awake,
            default(time) => Call::TimeIsUp,
        }
    }

    /// Waits where nothing can be heard any more.
    fn sleep(&self, until: Instant) -> Call {
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Call::TimeIsUp
    }

    fn listen_idly(&self, now: Instant) -> Call {
        let call = self.listen(now + IDLE);
        // a bell may ring late, for a record that is sent already: the worker that hears it must ask for the next one
        if !matches!(call, Call::TimeIsUp) {
            return call;
        }
        self.deliveries.iter().for_each(|delivery| delivery.queue.trim());
        select_biased! {
            recv(self.calls.stop) -> by => stop(by.ok()),
            recv(self.calls.flush) -> done => done.map_or(Call::Awake, Call::Flush),
            recv(self.calls.wake) -> _ => Call::Awake,
        }
    }

    /// By when all must be over; `None` until the worker stops.
    fn stop_by(&self) -> Option<Instant> {
        self.state.stop_by.get().copied()
    }

    fn is_out_of_time(&self) -> bool {
        self.stop_by().is_some_and(|by| Instant::now() >= by)
    }

    fn tell_panic(&mut self, at: usize) {
        let signal = self.deliveries[at].signal;
        let what = || "the worker panicked; its batch is lost".to_owned();
        self.reporter.report(signal, ProblemKind::WorkerPanicked, what);
    }

    fn tell_turned_away(&mut self) {
        for signal in self.deliveries.iter().map(|delivery| delivery.signal) {
            let now = [NotEnqueuedReason::QueueFull, NotEnqueuedReason::TooLarge]
                .map(|reason| self.counters.not_enqueued(signal, reason));
            let before = std::mem::replace(&mut self.state.told_turned_away[signal as usize], now);
            if now[0] > before[0] {
                self.reporter.report(signal, ProblemKind::QueueFull, || {
                    format!("the queue is full: {} lost so far", records(now[0]))
                });
            }
            if now[1] > before[1] {
                self.reporter.report(signal, ProblemKind::TooLarge, || {
                    format!("larger than a request may be: {} lost so far", records(now[1]))
                });
            }
        }
    }
}

fn records(count: u64) -> String {
    if count == 1 { "1 record".to_owned() } else { format!("{count} records") }
}

/// A stop without a word means that nobody is left to wait for.
fn stop(by: Option<Instant>) -> Call {
    Call::Stop(by.unwrap_or_else(Instant::now))
}

#[cfg(test)]
mod tests;
