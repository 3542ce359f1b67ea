//! Exporters without a thread: callers run the worker on their own threads, one turn at a time.
//!
//! A caller takes the worker out of its [`Place`] for one [`Turn`], and puts it back afterwards. The lock of the
//! place is held only for these two moves. So no thread waits for a lock during an attempt, and if the worker calls
//! code of the program that uses the telemetry again, that code finds the place empty, and does not deadlock.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};

use super::Worker;
use crate::context::{self, Owner};
use crate::pipeline::clock;
use crate::pipeline::queue::{Queue, RoomMaker};
use crate::process::{self, contain_panic, lock};

/// Time after which `pump` should be called again if another thread has the worker.
const WHILE_BUSY: Duration = Duration::from_millis(10);

/// The worker of an exporter without a thread.
pub(crate) struct ManualWorker {
    owner: Option<Owner>,
    queues: Vec<Arc<Queue>>,
    place: Mutex<Place>,
    /// Notified when the worker was put back, or has ended.
    returned: Condvar,
}

enum Place {
    Here(Box<Worker>, OnEnd),
    Taken {
        /// True if another thread waits for the worker.
        is_wanted: bool,
    },
    Ended,
}

/// Called when the worker has ended.
pub(crate) type OnEnd = Box<dyn FnOnce() + Send>;

impl ManualWorker {
    pub(crate) fn new(worker: Worker, owner: Option<Owner>, queues: Vec<Arc<Queue>>, on_end: OnEnd) -> Self {
        let place = Mutex::new(Place::Here(Box::new(worker), on_end));
        Self { owner, queues, place, returned: Condvar::new() }
    }

    /// Lets the worker do one thing on this thread. Returns `None` if another thread has the worker.
    fn take_turn(&self, turn: Turn) -> Option<Progress> {
        let (mut worker, on_end) = match self.take() {
            Place::Here(worker, on_end) => (worker, on_end),
            Place::Taken { .. } => return None,
            Place::Ended => return Some(Progress::Ended),
        };
        let generation = process::generation();
        // A panic is contained, so that the worker is put back in any case.
        let turned = context::while_exporting_for(self.owner, || contain_panic(|| worker.take_turn(turn)));
        let progress = turned.unwrap_or(Progress::DueAt(None));
        if generation != process::generation() {
            // Code of the program forked during the turn, and this is the child. The worker is the parent's.
            mem::forget((worker, on_end));
            return Some(Progress::Ended);
        }
        if progress == Progress::Ended {
            on_end();
            self.put(Place::Ended);
        } else {
            self.put(Place::Here(worker, on_end));
        }
        Some(progress)
    }

    fn take(&self) -> Place {
        let mut place = lock(&self.place);
        match &mut *place {
            Place::Here(..) => mem::replace(&mut *place, Place::Taken { is_wanted: false }),
            Place::Taken { is_wanted } => {
                *is_wanted = true;
                Place::Taken { is_wanted: true }
            }
            Place::Ended => Place::Ended,
        }
    }

    fn put(&self, after: Place) {
        let before = mem::replace(&mut *lock(&self.place), after);
        if matches!(before, Place::Taken { is_wanted: true }) {
            self.returned.notify_all();
            self.queues.iter().for_each(|queue| queue.notify_waiters());
        }
    }

    /// Waits until another thread has put the worker back. Returns false if that did not happen by `until`.
    fn wait_for_return(&self, until: Instant) -> bool {
        let time = until.saturating_duration_since(clock::now());
        let is_taken = |place: &mut Place| match place {
            Place::Taken { is_wanted } => {
                *is_wanted = true;
                true
            }
            Place::Here(..) | Place::Ended => false,
        };
        let waited = self.returned.wait_timeout_while(lock(&self.place), time, is_taken);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl RoomMaker for ManualWorker {
    fn make_room(&self, until: Option<Instant>, is_enough: &dyn Fn() -> bool) -> Option<Instant> {
        loop {
            match self.take_turn(Turn { until, attempts_by: until, may_call_program: false })? {
                Progress::Worked if !is_enough() => {}
                Progress::DueAt(due) => return due,
                Progress::Worked | Progress::Ended => return Some(clock::now()),
            }
        }
    }
}

/// The event until which a caller drives a worker: the end of a flush or of a stop.
pub(crate) struct Goal<'a> {
    pub(crate) worker: &'a ManualWorker,
    /// Receives a message or is disconnected when the goal is reached.
    pub(crate) reached: Receiver<()>,
}

impl Goal<'_> {
    fn is_reached(&self) -> bool {
        self.reached.try_recv() != Err(TryRecvError::Empty)
    }
}

/// Drives workers until all have reached their goals. Begins no work after `until`, and ends every attempt by
/// `deadline`.
pub(crate) fn drive(mut goals: Vec<Goal<'_>>, until: Instant, deadline: Instant) {
    loop {
        goals.retain(|goal| !goal.is_reached());
        let count = goals.len() as u32;
        let round = round(goals.iter().map(|goal| goal.worker), |index| {
            // Each exporter gets an equal share of the remaining time, so that an exporter whose collector does not
            // answer cannot use up all of it.
            let now = clock::now();
            let share = deadline.saturating_duration_since(now) / (count - index).max(1);
            Turn { until: Some(until), attempts_by: Some(now + share), may_call_program: true }
        });
        goals.retain(|goal| !goal.is_reached());
        let Some(first) = goals.first() else { return };
        let now = clock::now();
        if now >= until {
            return;
        }
        let then = round.due.map_or(until, |due| due.min(until));
        match round.busy {
            _ if round.has_worked => {}
            Some(busy) => {
                busy.wait_for_return(then);
            }
            None => {
                // Another thread may reach the goal meanwhile. This disconnects the channel, which ends the wait.
                clock::before_wait(Some(then), || first.is_reached());
                let _ = first.reached.recv_timeout(then.saturating_duration_since(clock::now()));
            }
        }
    }
}

/// Does everything that is due, but begins nothing after `until`. Returns the time at which more work may be due, or
/// `None` if no such time is known.
pub(crate) fn pump(workers: &[&ManualWorker], until: Instant) -> Option<Instant> {
    loop {
        let turn = Turn { until: Some(until), attempts_by: None, may_call_program: true };
        let round = round(workers.iter().copied(), |_| turn);
        match round.busy {
            _ if round.has_worked => {}
            None => return round.due,
            Some(busy) if busy.wait_for_return(until) => {}
            // The next due time is unknown until the other thread is done.
            Some(_) => return Some(clock::now() + WHILE_BUSY),
        }
    }
}

/// Result of one turn of each worker.
#[derive(Default)]
struct Round<'a> {
    has_worked: bool,
    due: Option<Instant>,
    /// A worker that another thread has.
    busy: Option<&'a ManualWorker>,
}

fn round<'a>(workers: impl Iterator<Item = &'a ManualWorker>, turn: impl Fn(u32) -> Turn) -> Round<'a> {
    let mut round = Round::default();
    for (worker, index) in workers.zip(0..) {
        match worker.take_turn(turn(index)) {
            Some(Progress::Worked) => round.has_worked = true,
            Some(Progress::DueAt(then)) => round.due = round.due.into_iter().chain(then).min(),
            Some(Progress::Ended) => {}
            None => round.busy = Some(worker),
        }
    }
    round
}

/// Limits of the worker's next step on a caller's thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Time after which the worker begins no work.
    pub(crate) until: Option<Instant>,
    /// Latest end of an attempt, if earlier than its own timeout.
    pub(crate) attempts_by: Option<Instant>,
    /// Whether the worker may call code of the program: the problem hook and the callbacks of observable instruments.
    /// False for a caller that waits for room, since it may hold a lock that this code needs.
    pub(crate) may_call_program: bool,
}

impl Turn {
    fn has_time(&self) -> bool {
        self.until.is_none_or(|until| clock::now() < until)
    }
}

/// Result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something was done, and more may be due.
    Worked,
    /// Nothing is due before this time, or, if `None`, before a record is enqueued.
    DueAt(Option<Instant>),
    /// The worker was stopped and has ended.
    Ended,
}

impl Worker {
    /// Does one thing on a caller's thread, if something is due and the turn has time to begin it.
    pub(crate) fn take_turn(&mut self, turn: Turn) -> Progress {
        self.state.turn = Some(turn);
        self.reporter.hold_back(true);
        let progress = self.progress(turn);
        // Report last, because the hook may fork, and the child must not touch the worker afterwards.
        self.reporter.hold_back(!turn.may_call_program);
        self.reporter.report_held();
        progress
    }

    fn progress(&mut self, turn: Turn) -> Progress {
        let has_worked = self.caught(|worker| {
            // Receive commands even if no time is left: a stop that is received now may end the worker.
            worker.receive_commands();
            !worker.is_done() && turn.has_time() && worker.work()
        });
        if self.is_done() {
            self.caught(Self::finish);
            return Progress::Ended;
        }
        if has_worked != Some(false) {
            return Progress::Worked;
        }
        self.report_flushed();
        let due = self.next_event(clock::now());
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
        Progress::DueAt(due)
    }

    /// Returns whether this thread may sleep until something is due. A caller's thread may sleep only in a stop: the
    /// last collection may have to wait for room, and the next turn could not continue this collection.
    pub(super) fn may_rest(&self) -> bool {
        self.state.turn.is_none_or(|turn| self.stop_by().is_some() && turn.has_time())
    }

    /// Returns whether the worker may call code of the program on this thread.
    pub(super) fn may_call_program(&self) -> bool {
        self.state.turn.is_none_or(|turn| turn.may_call_program)
    }
}

#[cfg(test)]
mod tests;
