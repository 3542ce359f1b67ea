//! A turn: a caller's thread lets the worker do one thing, where the worker has no thread of its own.

use std::time::Instant;

use super::{Event, IDLE, Worker};
use crate::pipeline::clock;

/// What a caller's thread may do for the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Nothing is begun after that.
    pub(crate) until: Option<Instant>,
    /// By when an attempt ends at the latest, if not at its own timeout.
    pub(crate) attempts_by: Option<Instant>,
    /// Whether the program's own code may be called: its hook, and the callbacks of its metrics. Not from a caller that
    /// waits for room: it may hold a lock that they need.
    pub(crate) may_call_program: bool,
}

impl Turn {
    fn has_time(&self) -> bool {
        self.until.is_none_or(|until| clock::now() < until)
    }
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something was done: more may be due.
    Worked,
    /// Nothing is done before then; never, if nothing comes into the queue.
    DueAt(Option<Instant>),
    /// The worker was stopped, and is done.
    Ended,
}

impl Worker {
    /// Does one thing on a caller's thread, if something is due and there is time to begin it.
    pub(crate) fn take_turn(&mut self, turn: Turn) -> Progress {
        self.state.turn = Some(turn);
        self.reporter.hold_back(true);
        let progress = self.progress(turn);
        // last: the hook may fork, and the child has no part in what follows
        self.reporter.hold_back(!turn.may_call_program);
        self.reporter.report_held();
        progress
    }

    fn progress(&mut self, turn: Turn) -> Progress {
        let has_worked = self.caught(|worker| {
            // also when there is no time left: the stop may be what ends the worker
            worker.receive_commands();
            !worker.is_done() && turn.has_time() && worker.work()
        });
        if self.is_done() {
            self.caught(Self::finish);
            return Progress::Ended;
        }
        if has_worked != Some(false) {
            self.state.idle_since = None;
            return Progress::Worked;
        }
        self.report_flushed();
        let now = clock::now();
        let event = self.next_event(now);
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
        Progress::DueAt(match event {
            Event::Now => Some(now),
            Event::At(Some(then)) => Some(then),
            Event::At(None) => {
                self.trim_if_idle(now);
                None
            }
        })
    }

    /// Frees memory after some time without work.
    fn trim_if_idle(&mut self, now: Instant) {
        let since = *self.state.idle_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= IDLE {
            self.deliveries.iter().for_each(|delivery| delivery.queue.trim());
        }
    }

    /// Whether this thread may sleep until something is due: a caller's only does so in a stop, in the middle of the last
    /// collection, which is not made in parts.
    pub(super) fn may_rest(&self) -> bool {
        self.state.turn.is_none_or(|turn| self.stop_by().is_some() && turn.has_time())
    }

    /// Whether the program's own code may be called on this thread.
    pub(super) fn may_call_program(&self) -> bool {
        self.state.turn.is_none_or(|turn| turn.may_call_program)
    }

    /// By when an attempt must end so that this thread can go its way.
    pub(super) fn attempts_end_by(&self) -> Option<Instant> {
        self.state.turn.and_then(|turn| turn.attempts_by)
    }
}
