//! What happens to a caller that finds the queue full.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::config::WhenFull;
use crate::context;

/// Callers line up here, first come first served: whoever is at the head waits for room, the others
/// wait for the head, and newcomers do not slip past them.
#[derive(Debug)]
pub(super) struct Door {
    when_full: WhenFull,
    timeout: Option<Duration>,
    line: Mutex<()>,
    in_line: AtomicUsize,
    room: Mutex<()>,
    made: Condvar,
}

impl Door {
    pub(super) fn new(when_full: WhenFull, timeout: Option<Duration>) -> Self {
        Self {
            when_full,
            timeout,
            line: Mutex::new(()),
            in_line: AtomicUsize::new(0),
            room: Mutex::new(()),
            made: Condvar::new(),
        }
    }

    #[inline]
    pub(super) fn is_queued_up(&self) -> bool {
        self.in_line.load(Ordering::SeqCst) > 0
    }

    /// Wakes the worker by `press`, and tries to `enter` until it succeeds, the queue is `closed` or the
    /// time is over.
    pub(super) fn wait<T>(
        &self,
        press: impl Fn(),
        enter: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        // the worker would wait for itself, and a thread that panics must get to its end
        let must_not_wait = context::silenced() || std::thread::panicking();
        if self.when_full == WhenFull::DropNewest || must_not_wait {
            press();
            return enter();
        }
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        // in line before pressing: a worker about to sleep sees the one or the other
        self.in_line.fetch_add(1, Ordering::SeqCst);
        press();
        let entered = self.wait_in_line(deadline, enter, closed);
        self.in_line.fetch_sub(1, Ordering::SeqCst);
        entered
    }

    fn wait_in_line<T>(
        &self,
        deadline: Option<Instant>,
        enter: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        let line = match deadline {
            Some(deadline) => self.line.try_lock_until(deadline)?,
            None => self.line.lock(),
        };
        let entered = self.wait_at_head(deadline, enter, closed);
        MutexGuard::unlock_fair(line);
        entered
    }

    fn wait_at_head<T>(
        &self,
        deadline: Option<Instant>,
        enter: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        let mut room = self.room.lock();
        loop {
            // asked while holding `room`, which whoever makes room takes before ringing
            if let Some(entered) = enter() {
                return Some(entered);
            }
            if closed() {
                return None;
            }
            match deadline {
                None => self.made.wait(&mut room),
                Some(deadline) if self.made.wait_until(&mut room, deadline).timed_out() => return enter(),
                Some(_) => {}
            }
        }
    }

    /// To be called after room was made or the queue was closed.
    pub(super) fn room_made(&self) {
        if self.in_line.load(Ordering::SeqCst) > 0 {
            drop(self.room.lock());
            self.made.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
