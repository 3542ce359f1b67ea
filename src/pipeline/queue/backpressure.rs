//! Backpressure: callers that find the queue full wait for room in order of arrival.
//!
//! A FIFO list of waiters with one parker each (a queue lock whose waiters can give up). Only the first waiter tries to
//! reserve room; the others sleep until they are first. This module decides who waits and for how long;
//! `Level::reserve` decides what fits.
//!
//! ```text
//!                  joins              is first, reserves room
//! queue full ──────────────► waiting ───────────────────────► enqueued
//!     │                         │ block-timeout
//!     │ latch is shut           ▼
//!     └───────────────────► queue_full ─► latch shut ──delivery──► latch open
//! ```
//!
//! # Bound
//! An outage delays a program once, not once per record: after one timeout the *latch* is shut, and no caller waits
//! until the worker has delivered something. A panicking thread and a thread that exports never wait.
//!
//! # No waiter is forgotten
//! - A caller first joins the list, then tries to reserve room and reads `closed`. The other side first releases room
//!   or closes the queue, then reads `waiting_records`. All of this is `SeqCst`, so the first waiter sees the change or
//!   is woken.
//! - A waiter that leaves, for whatever reason, wakes the next one ([`Waiter::drop`]).
//! - A wake-up before the sleep is kept in [`Parker`] and ends the next sleep.
//! - A waiter reads the number of deliveries before its last attempt, and stores that number in the latch to shut it.
//!   A delivery in between changes the number, so the latch stays open (`SeqCst`).

use std::collections::VecDeque;
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

/// Duration of a wait after which the program is notified that its callers are waiting.
const LONG_WAIT: Duration = Duration::from_millis(500);

/// How a caller waits for room in a full queue that is set to [`WhenFull::Block`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Does not wait: the caller tries the other exporters first.
    No,
    /// Waits for `block-timeout` from now.
    FromNow,
    /// Waits for `block-timeout` from an earlier time, so that the waits for several exporters do not add up.
    Since(Instant),
}

/// The waiters of one queue. Callers that arrive later do not take the room of the waiters, see
/// `Queue::reserve_behind_waiters`.
pub(super) struct Backpressure {
    when_full: WhenFull,
    timeout: Option<Duration>,
    /// One latch of this signal, and one latch that all signals of the exporter share. With the shared latch, an
    /// unreachable collector costs one wait in total, and not one wait per signal. The signal's own latch stays shut
    /// while only other signals are delivered, so a single signal that is not delivered also costs only one wait.
    latches: [Arc<Latch>; 2],
    waiters: Mutex<Waiters>,
    /// Number of records for which callers wait.
    waiting_records: AtomicUsize,
    /// Start of the worker thread, which may never begin to run. Unset if callers drive the worker.
    start: OnceLock<Arc<WorkerStart>>,
    /// The worker, if it has no thread. Set once.
    room_maker: OnceLock<Weak<dyn RoomMaker>>,
}

/// A worker without a thread. A caller that waits for room does the worker's work meanwhile.
pub(crate) trait RoomMaker: Send + Sync {
    /// Does the work that is due until `is_enough` returns true, and begins nothing after `until`.
    ///
    /// Returns the time at which more work will be due, or `None` if another thread is doing the work. That thread
    /// notifies the waiters when it is done.
    fn make_room(&self, until: Option<Instant>, is_enough: &dyn Fn() -> bool) -> Option<Instant>;
}

#[derive(Default)]
struct Waiters {
    waiting: VecDeque<Arc<Parker>>,
}

/// A caller that waits. Dropping this value, even by unwinding, wakes the next waiter.
pub(super) struct Waiter<'a> {
    backpressure: &'a Backpressure,
    records: usize,
    parker: Arc<Parker>,
}

/// Lets a caller sleep until it is woken.
///
/// `thread::park` is not used: its token belongs to the program, and an `unpark` meant for the program would be lost.
#[derive(Default)]
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

    /// Makes callers stop waiting if the worker thread has not begun to run in time.
    pub(super) fn expect(&self, start: Arc<WorkerStart>) {
        let _ = self.start.set(start);
    }

    /// Makes waiting callers do the worker's work.
    pub(super) fn make_room_by(&self, room_maker: Weak<dyn RoomMaker>) {
        let _ = self.room_maker.set(room_maker);
    }

    /// Returns whether callers wait when the queue is full.
    pub(super) fn blocks(&self) -> bool {
        self.when_full == WhenFull::Block
    }

    #[inline]
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting_records() > 0
    }

    /// Returns the number of records for which callers wait.
    #[inline]
    pub(super) fn waiting_records(&self) -> usize {
        self.waiting_records.load(Ordering::SeqCst)
    }

    /// Notes that records were delivered: callers may wait again.
    pub(super) fn note_delivery(&self) {
        self.latches.iter().for_each(|latch| latch.open());
    }

    fn is_latched(&self) -> bool {
        self.latches.iter().any(|latch| latch.is_shut())
    }

    /// Wakes the worker with `wake`. A caller that must not wait calls `try_reserve` for `records` once. Any other
    /// caller returns at once if a latch is shut. Otherwise it calls `try_reserve` until that succeeds, the queue is
    /// `closed`, a latch is shut, the timeout (which starts at `since`) is over, or the worker thread has not begun to
    /// run in time. Calls `report` once if the wait is long.
    pub(super) fn wait<T>(
        &self,
        since: Instant,
        records: usize,
        wake: impl Fn(),
        try_reserve: impl Fn() -> Option<T>,
        closed: impl Fn() -> bool,
        report: impl Fn(Duration),
    ) -> Option<T> {
        // An exporting thread would wait for itself, and a panicking thread must be able to finish.
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
        let timeout = self.timeout.and_then(|timeout| since.checked_add(timeout));
        let mut report_at = Some(since + LONG_WAIT);
        loop {
            // Read before `try_reserve`: if a delivery follows this line, `shut` below leaves the latch open.
            let deliveries = self.latches.each_ref().map(|latch| latch.deliveries());
            // The caller is already in the list, so it misses no release of room. A release wakes the first waiter, and
            // each waiter that leaves wakes the next one.
            let is_first = self.is_first(&waiter);
            let reserved = if is_first { try_reserve() } else { None };
            if reserved.is_some() || closed() || self.is_latched() {
                return reserved;
            }
            let now = clock::now();
            if timeout.is_some_and(|timeout| timeout <= now) {
                // The waiters behind this one see the shut latch when they become first, one after the other.
                self.latches.iter().zip(deliveries).for_each(|(latch, seen)| latch.shut(seen));
                return None;
            }
            // Read in each iteration: there is no limit once the worker has begun to run.
            let limit = self.start.get().and_then(|start| start.limit());
            if limit.is_some_and(|limit| limit <= now) {
                return None;
            }
            if report_at.is_some_and(|at| at <= now) {
                report_at = None;
                // An instrumented allocator would emit records here, and these would wait behind this waiter.
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
        // Allocate and free outside the lock: an instrumented allocator may emit a record, which may need the lock.
        let mut longer = VecDeque::new();
        loop {
            let mut waiters = self.lock();
            waiters.grow_into(&mut longer);
            if waiters.waiting.len() < waiters.waiting.capacity() {
                waiters.waiting.push_back(Arc::clone(&parker));
                // Count before the caller wakes the worker: a worker about to sleep then sees the count or the wake-up.
                self.waiting_records.fetch_add(records, Ordering::SeqCst);
                return Waiter { backpressure: self, records, parker };
            }
            let needed = 2 * waiters.waiting.len() + 4;
            drop(waiters);
            longer = VecDeque::with_capacity(needed);
        }
    }

    fn is_first(&self, waiter: &Waiter<'_>) -> bool {
        self.lock().waiting.front().is_some_and(|first| Arc::ptr_eq(first, &waiter.parker))
    }

    /// Wakes the first waiter. Must be called after room was released or the queue was closed.
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
        waiters.waiting.retain(|other| !Arc::ptr_eq(other, &self.parker));
        self.backpressure.waiting_records.fetch_sub(self.records, Ordering::SeqCst);
        waiters.wake_first();
    }
}

impl Waiters {
    /// Moves all waiters to `longer` if it has more capacity, and leaves the old storage in `longer` to be freed later.
    fn grow_into(&mut self, longer: &mut VecDeque<Arc<Parker>>) {
        if longer.capacity() > self.waiting.capacity() {
            longer.append(&mut self.waiting);
            mem::swap(longer, &mut self.waiting);
        }
    }

    fn wake_first(&self) {
        self.waiting.front().into_iter().for_each(|first| first.wake());
    }
}

impl Parker {
    /// Ends the current wait, or the next one if the caller is not waiting.
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

/// Shut when a wait times out, and opened by the next delivery. While a latch is shut, no caller waits.
#[derive(Default)]
pub(crate) struct Latch {
    deliveries: AtomicU64,
    /// `deliveries + 1` at the time when the latch was shut; 0 if it was never shut. The latch is shut until the next
    /// delivery is counted, that is, as long as `shut_at` equals `deliveries + 1`.
    shut_at: AtomicU64,
}

impl Latch {
    fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::SeqCst)
    }

    fn shut(&self, deliveries: u64) {
        // `fetch_max`: a late caller must not replace a newer value with an older one, which would open the latch.
        self.shut_at.fetch_max(deliveries + 1, Ordering::SeqCst);
    }

    fn open(&self) {
        self.deliveries.fetch_add(1, Ordering::SeqCst);
    }

    fn is_shut(&self) -> bool {
        self.shut_at.load(Ordering::SeqCst) == self.deliveries() + 1
    }
}

/// The start of a worker thread.
///
/// In a forked child the thread may never reach its work: it may wait for a lock that another thread of the parent held
/// at the fork. So callers may wait for the worker without a limit only once the thread has begun to run.
pub(crate) struct WorkerStart {
    due: Instant,
    has_begun: AtomicBool,
}

impl WorkerStart {
    /// Returns the start of a worker that must have begun to run by `by`.
    pub(crate) fn due(by: Instant) -> Self {
        Self { due: by, has_begun: AtomicBool::new(false) }
    }

    /// Notes that the worker runs. Called by the worker thread.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Returns the time until which callers may wait for the worker; `None` (no limit) once the worker has begun.
    pub(crate) fn limit(&self) -> Option<Instant> {
        if self.has_begun.load(Ordering::Acquire) { None } else { Some(self.due) }
    }
}

#[cfg(all(test, not(queue_model)))]
mod tests;
