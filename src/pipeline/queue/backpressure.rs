//! What happens to a caller that finds the queue full. Here is decided who waits; how much fits is `Level::reserve`'s.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard};
use crate::config::WhenFull;
use crate::context;
use crate::pipeline::clock;
use crate::process::atomic::AtomicU64;

/// After a wait of this time the program is given notice that its callers are waiting.
const LONG_WAIT: Duration = Duration::from_millis(500);

/// How long a caller waits for room in a full queue: always as the queue is [set](WhenFull).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Not at all: the caller asks the other exporters first.
    No,
    /// From now on.
    FromNow,
    /// From an earlier time, so that the waits for several exporters do not add up.
    Since(Instant),
}

/// Callers wait here, first come first served: the first waits for room, the others wait for the first. Newcomers do not
/// take their room away, see `Queue::reserve_behind_waiters`.
///
/// The timeout is a latch: once a wait has timed out, no caller waits until something was delivered again.
#[derive(Debug)]
pub(super) struct Backpressure {
    when_full: WhenFull,
    timeout: Option<Duration>,
    /// Of this signal, and of all signals of the exporter: a collector that is down costs one wait, not one for each
    /// signal, and a signal that alone is not delivered costs one wait although the others are.
    latches: [Arc<Latch>; 2],
    waiters: Mutex<Waiters>,
    /// Records for which callers wait.
    waiting_records: AtomicUsize,
    /// Of the worker that makes room, if it may never begin to run.
    start: OnceLock<Arc<WorkerStart>>,
    /// What makes room, if it has no thread for that.
    room_maker: OnceLock<Weak<dyn RoomMaker>>,
}

/// A worker without a thread, as a caller that waits for room sees it: the caller does the worker's work meanwhile.
pub(crate) trait RoomMaker: fmt::Debug + Send + Sync {
    /// Does what is due until there `is_enough`, and begins nothing after `until`. Returns when more will be due, or `None`
    /// if another thread is at it: then the waiters are notified when that ends.
    fn make_room(&self, until: Option<Instant>, is_enough: &dyn Fn() -> bool) -> Option<Instant>;
}

#[derive(Debug, Default)]
struct Waiters {
    waiting: VecDeque<(Ticket, Arc<Parker>)>,
    next: Ticket,
}

type Ticket = u64;

/// A caller that waits. Its drop lets the next one take its turn, even if the caller unwinds.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    backpressure: &'a Backpressure,
    records: usize,
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
    pub(super) fn new(when_full: WhenFull, timeout: Option<Duration>, of_exporter: Arc<Latch>) -> Self {
        Self {
            when_full,
            timeout,
            latches: [Arc::default(), of_exporter],
            waiters: Mutex::default(),
            waiting_records: AtomicUsize::new(0),
            start: OnceLock::new(),
            room_maker: OnceLock::new(),
        }
    }

    /// Limits every wait to the time by which the worker must have begun to run, unless it has.
    pub(super) fn expect(&self, start: Arc<WorkerStart>) {
        let _ = self.start.set(start);
    }

    /// Has callers that wait make the room themselves.
    pub(super) fn make_room_by(&self, room_maker: Weak<dyn RoomMaker>) {
        let _ = self.room_maker.set(room_maker);
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

    /// Something was delivered: from now on callers wait again.
    pub(super) fn note_delivery(&self) {
        self.latches.iter().for_each(|latch| latch.open());
    }

    fn is_latched(&self) -> bool {
        self.latches.iter().any(|latch| latch.is_shut())
    }

    /// Wakes the worker by `wake`, and calls `try_reserve` for its `records` until that succeeds, the queue is `closed` or
    /// the time is over, which counts from `since`. Calls `report` once, if the wait becomes a long one.
    pub(super) fn wait<T>(
        &self,
        since: Instant,
        records: usize,
        wake: impl Fn(),
        try_reserve: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
        report: impl Fn(Duration),
    ) -> Option<T> {
        // the worker would wait for itself, and a thread that panics must get to its end
        let must_not_wait = context::may_be_suppressed() || thread::panicking();
        if self.when_full == WhenFull::DropNewest || must_not_wait {
            wake();
            return try_reserve();
        }
        if self.is_latched() {
            wake();
            return None;
        }
        let waiter = self.join(records);
        wake();
        self.wait_for_turn(&waiter, since, try_reserve, closed, report)
    }

    fn wait_for_turn<T>(
        &self,
        waiter: &Waiter<'_>,
        since: Instant,
        try_reserve: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
        report: impl Fn(Duration),
    ) -> Option<T> {
        let timeout = self.timeout.and_then(|timeout| since.checked_add(timeout));
        let mut report_at = Some(since + LONG_WAIT);
        loop {
            // read before the attempt: a delivery that comes after it opens a latch that is shut here
            let deliveries = self.latches.each_ref().map(|latch| latch.deliveries());
            // tried as a waiter: the worker that makes room from now on, or the first waiter when it leaves, wakes this one
            let is_first = self.is_first(waiter);
            let reserved = if is_first { try_reserve() } else { None };
            if reserved.is_some() || closed() || self.is_latched() {
                return reserved;
            }
            let now = clock::now();
            if timeout.is_some_and(|timeout| timeout <= now) {
                // those behind it see it as they become the first, one after the other
                self.latches.iter().zip(deliveries).for_each(|(latch, seen)| latch.shut(seen));
                return None;
            }
            // read anew each time: a worker that begins meanwhile lifts the limit
            let limit = self.start.get().and_then(|start| start.limit());
            if limit.is_some_and(|limit| limit <= now) {
                return None;
            }
            if report_at.is_some_and(|at| at <= now) {
                report_at = None;
                // what the program's allocator records of it would wait behind this waiter
                context::suppress_instrumentation(|| report(now - since));
            }
            let room_maker = self.room_maker.get().filter(|_| is_first).and_then(Weak::upgrade);
            let due = room_maker.and_then(|maker| maker.make_room(timeout, &|| waiter.parker.is_woken()));
            let until = timeout.into_iter().chain(limit).chain(report_at).chain(due).min();
            clock::before_wait(until, || waiter.parker.is_woken());
            match until {
                None => waiter.parker.wait(),
                Some(until) => waiter.parker.wait_for(until.saturating_duration_since(clock::now())),
            }
        }
    }

    pub(super) fn join(&self, records: usize) -> Waiter<'_> {
        let parker = Arc::new(Parker::default());
        // allocated and freed without the lock: the program's allocator may make a record itself
        let mut longer = VecDeque::new();
        loop {
            let mut waiters = self.lock();
            waiters.grow_into(&mut longer);
            if let Some(ticket) = waiters.try_join(&parker) {
                // before the wake-up: a worker about to sleep sees the one or the other
                self.waiting_records.fetch_add(records, Ordering::SeqCst);
                return Waiter { backpressure: self, records, ticket, parker };
            }
            let needed = 2 * waiters.waiting.len() + 4;
            drop(waiters);
            longer = VecDeque::with_capacity(needed);
        }
    }

    fn is_first(&self, waiter: &Waiter<'_>) -> bool {
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

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiters = self.backpressure.lock();
        // The waiter still holds its parker, so nothing is freed under the lock.
        waiters.waiting.retain(|(other, _)| *other != self.ticket);
        self.backpressure.waiting_records.fetch_sub(self.records, Ordering::SeqCst);
        waiters.wake_first();
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

    fn is_woken(&self) -> bool {
        *self.lock()
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

/// Shut by a wait that has timed out, opened by the next delivery.
#[derive(Debug)]
pub(crate) struct Latch {
    /// One more than there were.
    deliveries: AtomicU64,
    /// The number of deliveries at which it was shut: one that comes meanwhile is not overlooked.
    shut_at: AtomicU64,
}

impl Default for Latch {
    fn default() -> Self {
        Self { deliveries: AtomicU64::new(1), shut_at: AtomicU64::new(0) }
    }
}

impl Latch {
    fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::SeqCst)
    }

    fn shut(&self, deliveries: u64) {
        // a caller that is late does not open what another has shut since
        self.shut_at.fetch_max(deliveries, Ordering::SeqCst);
    }

    fn open(&self) {
        self.deliveries.fetch_add(1, Ordering::SeqCst);
    }

    fn is_shut(&self) -> bool {
        self.shut_at.load(Ordering::SeqCst) == self.deliveries()
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

#[cfg(all(test, not(queue_model)))]
mod tests;
