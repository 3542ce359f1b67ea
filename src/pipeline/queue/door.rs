//! What happens to a caller that finds the queue full.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::start::Start;
use crate::config::WhenFull;
use crate::context;

/// Callers line up here, first come first served: whoever is at the head waits for room, the others
/// wait for the head. Newcomers do not take their room away, see `Queue::raise`.
#[derive(Debug)]
pub(super) struct Door {
    when_full: WhenFull,
    timeout: Option<Duration>,
    line: Mutex<Line>,
    /// Records for which callers wait.
    in_line: AtomicUsize,
    /// Of the worker that makes room, if it may never begin to run.
    start: OnceLock<Arc<Start>>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<(Ticket, Arc<Seat>)>,
    next: Ticket,
}

type Ticket = u64;

/// A caller's place in the line.
#[derive(Debug)]
pub(super) struct Place {
    ticket: Ticket,
    seat: Arc<Seat>,
}

/// Where a caller sleeps until it is called. Not `thread::park`: its token is the program's, and an `unpark` that is
/// meant for the program would be lost.
#[derive(Debug, Default)]
struct Seat {
    is_called: Mutex<bool>,
    changed: Condvar,
}

impl Door {
    pub(super) fn new(when_full: WhenFull, timeout: Option<Duration>) -> Self {
        Self {
            when_full,
            timeout,
            line: Mutex::default(),
            in_line: AtomicUsize::new(0),
            start: OnceLock::new(),
        }
    }

    /// Nobody waits longer than until the worker is due, unless it has begun to run.
    pub(super) fn expect(&self, start: Arc<Start>) {
        let _ = self.start.set(start);
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
        let must_not_wait = context::may_be_suppressed() || thread::panicking();
        if self.when_full == WhenFull::DropNewest || must_not_wait {
            press();
            return enter();
        }
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let place = self.line_up(records);
        press();
        let entered = self.wait_in_line(&place, deadline, enter, closed);
        self.leave(&place, records);
        entered
    }

    fn wait_in_line<T>(
        &self,
        place: &Place,
        deadline: Option<Instant>,
        enter: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        loop {
            // asked while in line: the worker that makes room from now on, or the caller that leaves the head, calls this seat
            let entered = if self.is_head(place) { enter() } else { None };
            if entered.is_some() || closed() {
                return entered;
            }
            // asked anew each time: a worker that begins meanwhile lifts the limit
            let limit = self.start.get().and_then(|start| start.limit());
            let deadline = deadline.into_iter().chain(limit).min();
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => place.seat.wait(),
                Some(Duration::ZERO) => return None,
                Some(left) => place.seat.wait_for(left),
            }
        }
    }

    pub(super) fn line_up(&self, records: usize) -> Place {
        let seat = Arc::new(Seat::default());
        // made and dropped without the lock: the program's allocator may want to make a record
        let mut longer = VecDeque::new();
        loop {
            let mut line = self.lock();
            line.move_to(&mut longer);
            if let Some(ticket) = line.take_place(&seat) {
                // before pressing: a worker about to sleep sees the one or the other
                self.in_line.fetch_add(records, Ordering::SeqCst);
                return Place { ticket, seat };
            }
            let needed = 2 * line.waiting.len() + 4;
            drop(line);
            longer = VecDeque::with_capacity(needed);
        }
    }

    fn leave(&self, place: &Place, records: usize) {
        let mut line = self.lock();
        // the seat outlives the line's share in it: nothing is freed here
        line.waiting.retain(|(other, _)| *other != place.ticket);
        self.in_line.fetch_sub(records, Ordering::SeqCst);
        line.wake_head();
    }

    fn is_head(&self, place: &Place) -> bool {
        self.lock().waiting.front().is_some_and(|(head, _)| *head == place.ticket)
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
    /// Takes the last place; `None` if a longer line is needed for it.
    fn take_place(&mut self, seat: &Arc<Seat>) -> Option<Ticket> {
        if self.waiting.len() == self.waiting.capacity() {
            return None;
        }
        let ticket = self.next;
        self.next += 1;
        self.waiting.push_back((ticket, Arc::clone(seat)));
        Some(ticket)
    }

    /// Moves all who wait to a longer line, if it is longer, and leaves the shorter one in its place.
    fn move_to(&mut self, longer: &mut VecDeque<(Ticket, Arc<Seat>)>) {
        if longer.capacity() > self.waiting.capacity() {
            longer.append(&mut self.waiting);
            mem::swap(longer, &mut self.waiting);
        }
    }

    fn wake_head(&self) {
        if let Some((_, head)) = self.waiting.front() {
            head.call();
        }
    }
}

impl Seat {
    /// Ends a wait: the one that is under way, or else the next.
    fn call(&self) {
        *self.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let called = self.changed.wait_while(self.lock(), |is_called| !*is_called);
        *called.unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn wait_for(&self, timeout: Duration) {
        let called = self.changed.wait_timeout_while(self.lock(), timeout, |is_called| !*is_called);
        *called.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_called.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
