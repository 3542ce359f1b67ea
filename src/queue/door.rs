//! What happens to a caller that finds the queue full.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::config::WhenFull;
use crate::context;

/// Callers line up here, first come first served: whoever is at the head waits for room, the others
/// wait for the head. Newcomers do not take their room away, see `Queue::raise`; those who had room already use it.
#[derive(Debug)]
pub(super) struct Door {
    when_full: WhenFull,
    timeout: Option<Duration>,
    line: Mutex<Line>,
    /// Records for which callers wait.
    in_line: AtomicUsize,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<(Ticket, Thread)>,
    next: Ticket,
}

pub(super) type Ticket = u64;

impl Door {
    pub(super) fn new(when_full: WhenFull, timeout: Option<Duration>) -> Self {
        Self { when_full, timeout, line: Mutex::default(), in_line: AtomicUsize::new(0) }
    }

    /// Whether a caller that finds no room waits for it.
    pub(super) fn makes_wait(&self) -> bool {
        self.when_full == WhenFull::Block
    }

    #[inline]
    pub(super) fn is_queued_up(&self) -> bool {
        self.in_line() > 0
    }

    /// How many records wait with their callers.
    #[inline]
    pub(super) fn in_line(&self) -> usize {
        self.in_line.load(Ordering::SeqCst)
    }

    /// Wakes the worker by `press`, and tries to `enter` with so many records until it succeeds, the queue is `closed`
    /// or the time is over.
    pub(super) fn wait<T>(
        &self,
        records: usize,
        press: impl Fn(),
        enter: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        // the worker would wait for itself, and a thread that panics must get to its end
        let must_not_wait = context::silenced() || thread::panicking();
        if self.when_full == WhenFull::DropNewest || must_not_wait {
            press();
            return enter();
        }
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let ticket = self.line_up(records);
        press();
        let entered = self.wait_in_line(ticket, deadline, enter, closed);
        self.leave(ticket, records);
        entered
    }

    fn wait_in_line<T>(
        &self,
        ticket: Ticket,
        deadline: Option<Instant>,
        enter: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        loop {
            // asked while in line: whoever makes room from now on, or leaves the head, wakes this thread
            let entered = if self.is_head(ticket) { enter() } else { None };
            if entered.is_some() || closed() {
                return entered;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => thread::park_timeout(left),
            }
        }
    }

    pub(super) fn line_up(&self, records: usize) -> Ticket {
        let mut line = self.lock();
        let ticket = line.next;
        line.next += 1;
        line.waiting.push_back((ticket, thread::current()));
        // before pressing: a worker about to sleep sees the one or the other
        self.in_line.fetch_add(records, Ordering::SeqCst);
        ticket
    }

    fn leave(&self, ticket: Ticket, records: usize) {
        let mut line = self.lock();
        line.waiting.retain(|(other, _)| *other != ticket);
        self.in_line.fetch_sub(records, Ordering::SeqCst);
        line.wake_head();
    }

    fn is_head(&self, ticket: Ticket) -> bool {
        self.lock().waiting.front().is_some_and(|(head, _)| *head == ticket)
    }

    /// To be called after room was made or the queue was closed.
    pub(super) fn room_made(&self) {
        if self.is_queued_up() {
            self.lock().wake_head();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn wake_head(&self) {
        if let Some((_, head)) = self.waiting.front() {
            head.unpark();
        }
    }
}

#[cfg(test)]
mod tests;
