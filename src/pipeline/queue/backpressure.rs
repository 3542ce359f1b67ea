//! What happens to a caller that finds the queue full. Here is decided who waits; how much fits is `Level::reserve`'s.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::WhenFull;
use crate::context;

/// Callers wait here, first come first served: the first waits for room, the others wait for the first. Newcomers do not
/// take their room away, see `Queue::reserve_behind_waiters`.
#[derive(Debug)]
pub(super) struct Backpressure {
    when_full: WhenFull,
    timeout: Option<Duration>,
    waiters: Mutex<Waiters>,
    /// Records for which callers wait.
    waiting_records: AtomicUsize,
    /// Of the worker that makes room, if it may never begin to run.
    start: OnceLock<Arc<WorkerStart>>,
}

#[derive(Debug, Default)]
struct Waiters {
    waiting: VecDeque<(Ticket, Arc<Parker>)>,
    next: Ticket,
}

type Ticket = u64;

/// A caller that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    ticket: Ticket,
    parker: Arc<Parker>,
}

/// Where a caller sleeps until it is woken. Not `thread::park`: its token is the program's, and an `unpark` that is
/// meant for the program would be lost.
#[derive(Debug, Default)]
struct Parker {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Backpressure {
    pub(super) fn new(when_full: WhenFull, timeout: Option<Duration>) -> Self {
        Self {
            when_full,
            timeout,
            waiters: Mutex::default(),
            waiting_records: AtomicUsize::new(0),
            start: OnceLock::new(),
        }
    }

    /// Limits every wait to the time by which the worker must have begun to run, unless it has.
    pub(super) fn expect(&self, start: Arc<WorkerStart>) {
        let _ = self.start.set(start);
    }

    /// Whether a caller that finds no room waits for it.
    pub(super) fn blocks(&self) -> bool {
        self.when_full == WhenFull::Block
    }

    #[inline]
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting_records() > 0
    }

    /// The records for which callers wait.
    #[inline]
    pub(super) fn waiting_records(&self) -> usize {
        self.waiting_records.load(Ordering::SeqCst)
    }

    /// Wakes the worker by `wake`, and calls `try_reserve` for its `records` until that succeeds, the queue is `closed` or
    /// the time is over.
    pub(super) fn wait<T>(
        &self,
        records: usize,
        wake: impl Fn(),
        try_reserve: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        // the worker would wait for itself, and a thread that panics must get to its end
        let must_not_wait = context::may_be_suppressed() || thread::panicking();
        if self.when_full == WhenFull::DropNewest || must_not_wait {
            wake();
            return try_reserve();
        }
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let waiter = self.join(records);
        wake();
        let reserved = self.wait_for_turn(&waiter, deadline, try_reserve, closed);
        self.leave(&waiter, records);
        reserved
    }

    fn wait_for_turn<T>(
        &self,
        waiter: &Waiter,
        deadline: Option<Instant>,
        try_reserve: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
    ) -> Option<T> {
        loop {
            // tried as a waiter: the worker that makes room from now on, or the first waiter when it leaves, wakes this one
            let reserved = if self.is_first(waiter) { try_reserve() } else { None };
            if reserved.is_some() || closed() {
                return reserved;
            }
            // read anew each time: a worker that begins meanwhile lifts the limit
            let limit = self.start.get().and_then(|start| start.limit());
            let deadline = deadline.into_iter().chain(limit).min();
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => waiter.parker.wait(),
                Some(Duration::ZERO) => return None,
                Some(left) => waiter.parker.wait_for(left),
            }
        }
    }

    pub(super) fn join(&self, records: usize) -> Waiter {
        let parker = Arc::new(Parker::default());
        // allocated and freed without the lock: the program's allocator may make a record itself
        let mut longer = VecDeque::new();
        loop {
            let mut waiters = self.lock();
            waiters.grow_into(&mut longer);
            if let Some(ticket) = waiters.try_join(&parker) {
                // before the wake-up: a worker about to sleep sees the one or the other
                self.waiting_records.fetch_add(records, Ordering::SeqCst);
                return Waiter { ticket, parker };
            }
            let needed = 2 * waiters.waiting.len() + 4;
            drop(waiters);
            longer = VecDeque::with_capacity(needed);
        }
    }

    fn leave(&self, waiter: &Waiter, records: usize) {
        let mut waiters = self.lock();
        // the waiter keeps its parker: nothing is freed here
        waiters.waiting.retain(|(other, _)| *other != waiter.ticket);
        self.waiting_records.fetch_sub(records, Ordering::SeqCst);
        waiters.wake_first();
    }

    fn is_first(&self, waiter: &Waiter) -> bool {
        self.lock().waiting.front().is_some_and(|(first, _)| *first == waiter.ticket)
    }

    /// Wakes the first waiter. To be called after room was released or the queue was closed.
    pub(super) fn notify(&self) {
        if self.has_waiters() {
            self.lock().wake_first();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    /// Appends a waiter; `None` if there is no capacity for it.
    fn try_join(&mut self, parker: &Arc<Parker>) -> Option<Ticket> {
        if self.waiting.len() == self.waiting.capacity() {
            return None;
        }
        let ticket = self.next;
        self.next += 1;
        self.waiting.push_back((ticket, Arc::clone(parker)));
        Some(ticket)
    }

    /// Moves all waiters to `longer`, if that has more capacity, and leaves the old storage in it.
    fn grow_into(&mut self, longer: &mut VecDeque<(Ticket, Arc<Parker>)>) {
        if longer.capacity() > self.waiting.capacity() {
            longer.append(&mut self.waiting);
            mem::swap(longer, &mut self.waiting);
        }
    }

    fn wake_first(&self) {
        if let Some((_, first)) = self.waiting.front() {
            first.wake();
        }
    }
}

impl Parker {
    /// Ends a wait: the one that is under way, or else the next.
    fn wake(&self) {
        *self.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let woken = self.changed.wait_while(self.lock(), |is_woken| !*is_woken);
        *woken.unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn wait_for(&self, timeout: Duration) {
        let woken = self.changed.wait_timeout_while(self.lock(), timeout, |is_woken| !*is_woken);
        *woken.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that was started. In a forked child its thread may never get to its work: it may wait for a lock that a thread
/// of the parent held at the fork. So it is waited for without limit only once it has shown that it runs.
#[derive(Debug)]
pub(crate) struct WorkerStart {
    due: Instant,
    has_begun: AtomicBool,
}

impl WorkerStart {
    /// One that must have begun to run by then.
    pub(crate) fn due(by: Instant) -> Self {
        Self { due: by, has_begun: AtomicBool::new(false) }
    }

    /// To be called by the worker itself.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Until when to wait for it at most; `None` once it has begun.
    pub(crate) fn limit(&self) -> Option<Instant> {
        if self.has_begun.load(Ordering::Acquire) { None } else { Some(self.due) }
    }
}

#[cfg(test)]
mod tests;
