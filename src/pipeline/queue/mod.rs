//! Bounded queue between the calling threads and one exporter's worker, for one signal.
//!
//! A multi-producer, single-consumer queue of *chunks*. A caller copies its encoded record into the open chunk of its
//! [`shard`]; full chunks reach the worker through a bounded crossbeam channel, and empty chunks return to a list of
//! spare chunks. A record costs one copy and no allocation, and the worker moves chunks instead of records.
//!
//! ```text
//! callers                                                                                worker
//! enqueue ──► Level::reserve ──► open chunk of the shard ──► channel of full chunks ──► drain
//!    ▲             ▲                       ▲                                              │
//!    │ wait        │ release               └────────────── spare chunks ◄──── give_back ──┤
//!    └──notify─────┴───────────────────────────────────── record delivered or dropped ◄───┘
//! ```
//!
//! # Bound
//! [`Level::reserve`] is the only place that enforces `queue-records` and `queue-bytes`. It reserves both in one atomic
//! operation before the record is copied, so the queue never exceeds its bound, not even briefly. The worker releases a
//! reservation when the record is settled, so the bound includes records that are being sent. Only requests loaded from
//! the spool are not included.
//!
//! # Full queue
//! With `lossy`, [`Queue::enqueue`] drops the record and counts it as `queue_full`. Otherwise the caller waits in
//! [`backpressure`], first come, first served, for at most `block-timeout`.
//!
//! # No record is lost
//! An accepted record is in exactly one place: an open chunk, the channel of full chunks, or the worker.
//! - A caller moves its full chunk to the channel under the lock of the shard. The channel has room for every chunk
//!   that the bound permits; if it were full nevertheless, the chunk would stay open and grow.
//! - [`Queue::drain`] takes the open chunks before it counts the full ones, so it cannot miss a chunk that moves
//!   meanwhile.
//! - Callers check `closed` under the lock of the shard. Either the append precedes the worker's last drain, which
//!   takes the same lock, or the caller sees `closed` and counts the record as not enqueued.
//!
//! # Memory ordering
//! All operations on `left`, `min_left`, `waiting_records` and `closed`, and all updates of `largest`, are `SeqCst`. In
//! each of these pairs, both sides store one word, then load the other word, so at least one side sees the other's
//! store (Dekker's algorithm):
//! - `left` (caller reserves) and `min_left` (worker arms its wake-up): no wake-up is lost;
//! - `largest` (caller notes a larger record) and `min_left`: the same for the pressing level ([`Level::pressure`]);
//! - `waiting_records` (caller joins the waiters) and `min_left`: the worker does not rest while a caller waits;
//! - `waiting_records` and `left` (worker releases): the caller sees the room, or the worker wakes the first waiter;
//! - `waiting_records` and `closed` (shutdown): the caller sees `closed`, or the shutdown wakes the first waiter.

mod backpressure;
mod level;
mod shard;
mod sync;

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::config::QueueSettings;
use crate::pipeline::clock;
use crate::pipeline::ledger::{Counters, NotEnqueuedReason};
use crate::pipeline::problems::ProblemReporter;
use crate::problem::ProblemKind;
use crate::record::{Chunk, Scope, Signal};
use crate::spool::{Recorder, checksum};
use backpressure::{Backpressure, Latch};
pub(crate) use backpressure::{RoomMaker, Wait, WorkerStart};
pub(crate) use level::WakeAt;
use level::{Level, Reservation, WakeThreshold};
pub(crate) use shard::thread_number;
use shard::{OpenChunk, Preallocated, Shard, Shards, Spares};
use sync::{AtomicBool, AtomicU64, MutexGuard, Receiver, Sender, bounded, thread_local};

thread_local! {
    /// True while this thread has reserved room for a record that it has not appended yet.
    static HOLDS_ROOM: Cell<bool> = const { Cell::new(false) };
}

/// The queue from the callers to one exporter's worker, for records of one signal.
pub(crate) struct Queue {
    level: Level,
    wake_threshold: WakeThreshold,
    backpressure: Backpressure,
    shards: Shards,
    full: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    spares: Spares,
    largest_record: usize,
    closed: AtomicBool,
    /// Reason for which the queue was closed; unset for a shutdown.
    closed_for: OnceLock<NotEnqueuedReason>,
    /// Data points accepted by [`Queue::admit`].
    admitted: AtomicU64,
    counters: Arc<Counters>,
    reporter: Arc<ProblemReporter>,
    recorder: Option<Arc<Recorder>>,
}

/// State shared by the queues of all signals of an exporter.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) counters: Arc<Counters>,
    pub(crate) reporter: Arc<ProblemReporter>,
    /// A message on this channel wakes the worker.
    pub(crate) wake: Sender<()>,
    latch: Arc<Latch>,
    /// Memory-mapped file in which chunks survive the end of the process.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

impl Shared {
    pub(crate) fn new(
        counters: Arc<Counters>,
        reporter: Arc<ProblemReporter>,
        wake: impl Into<Sender<()>>,
    ) -> Self {
        Self { counters, reporter, wake: wake.into(), latch: Arc::default(), recorder: None }
    }
}

impl Queue {
    /// Returns an empty queue for records of at most `largest_record` bytes. The queue wakes the worker at the level
    /// set with [`wake_at`](Self::wake_at).
    pub(crate) fn new(settings: &QueueSettings, largest_record: usize, shared: Shared) -> Self {
        let Shared { counters, reporter, wake, latch, recorder } = shared;
        let shards = Shards::new();
        // Two consecutive chunks of a shard hold more than `Chunk::BYTES` together; otherwise the second would not have
        // been begun. So chunks are at least half full on average, except the last one of each shard.
        let max_chunks = 2 * (settings.bytes / Chunk::BYTES + shards.count()) + 2;
        // In the flight recorder, scopes take room as well, so more chunks are needed, but never more than there are
        // slots.
        let max_chunks = max_chunks + recorder.as_ref().map_or(0, |recorder| recorder.slots());
        Self {
            level: Level::new(settings.records, settings.bytes, largest_record),
            wake_threshold: WakeThreshold::new(wake),
            backpressure: Backpressure::new(settings.when_full, settings.block_timeout, latch),
            shards,
            full: bounded(max_chunks),
            spares: Spares::new(max_chunks),
            largest_record: largest_record.min(settings.bytes),
            closed: AtomicBool::new(false),
            closed_for: OnceLock::new(),
            admitted: AtomicU64::new(0),
            counters,
            reporter,
            recorder,
        }
    }

    /// Makes callers stop waiting if the worker thread has not begun to run in time.
    pub(crate) fn expect(&self, start: &Arc<WorkerStart>) {
        self.backpressure.expect(Arc::clone(start));
    }

    /// Makes callers that wait for room do the worker's work meanwhile.
    pub(crate) fn make_room_by(&self, room_maker: Weak<dyn RoomMaker>) {
        self.backpressure.make_room_by(room_maker);
    }

    /// Wakes the first caller that waits for room.
    pub(crate) fn notify_waiters(&self) {
        self.backpressure.notify();
    }

    /// Enqueues one frame as [`enqueue`](Self::enqueue) does. The fast path is inlined into the end of a span and of a
    /// log record.
    #[inline(always)]
    pub(crate) fn enqueue_one(&self, scope: &Arc<Scope>, frame: &[u8]) {
        if !self.append_fast(self.shards.mine(), scope, frame) {
            self.enqueue(scope, frame, 1, &Wait::FromNow);
        }
    }

    /// Enqueues one frame that counts as `records` records, or counts why it was not enqueued. Never fails.
    ///
    /// A caller waits only if the queue is full and set to `WhenFull::Block`. In that case a call with [`Wait::No`] has
    /// no effect and returns false. All other calls return true.
    // `wait` is a reference, so that all arguments travel in registers.
    #[inline(never)]
    pub(crate) fn enqueue(&self, scope: &Arc<Scope>, frame: &[u8], records: usize, wait: &Wait) -> bool {
        let shard = self.shards.mine();
        if records == 1 && self.append_fast(shard, scope, frame)
            || self.enqueue_if_room(shard, scope, frame, records)
        {
            return true;
        }
        let since = match wait {
            Wait::No if self.backpressure.blocks() => return false,
            Wait::No | Wait::FromNow => clock::now(),
            Wait::Since(since) => *since,
        };
        self.enqueue_after_waiting(since, shard, scope, frame, records);
        true
    }

    /// The fast path: enqueues a record if it fits into the open chunk and the queue, is no larger than the largest so
    /// far, and no caller waits. Otherwise, or if the queue is closed, has no effect and returns false.
    #[inline(always)]
    fn append_fast(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8]) -> bool {
        let bytes = frame.len();
        let mut open = shard.lock();
        let reservation = open.append_fast(scope, frame, || {
            // Checked under the lock: the worker drains this shard once more after `close`, so it sees this record.
            let is_simple =
                !self.is_closed() && !self.backpressure.has_waiters() && self.level.is_usual(bytes);
            if is_simple { self.level.reserve(1, bytes) } else { None }
        });
        drop(open);
        if let Some(reservation) = reservation {
            self.wake_threshold.check(reservation);
        }
        reservation.is_some()
    }

    /// Enqueues a frame unless the queue is full. Returns false if the record was neither enqueued nor counted as not
    /// enqueued: the caller may then wait for room.
    #[inline(never)]
    fn enqueue_if_room(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8], records: usize) -> bool {
        // A record that can never fit must not wait for room.
        if frame.len() > self.largest_record || records > self.max_records() {
            self.count_not_enqueued(scope, NotEnqueuedReason::TooLarge, records);
            return true;
        }
        // Note the size first, even if no room can be reserved: the worker that this record wakes then knows the size.
        if self.level.note_size(records, frame.len()) {
            self.wake_threshold.send_wake();
        }
        // Drop the record before a chunk is allocated for it.
        if !self.backpressure.blocks() && !self.is_closed() && !self.level.has_room(records, frame.len()) {
            self.wake_threshold.wake();
            self.count_not_enqueued(scope, NotEnqueuedReason::QueueFull, records);
            return true;
        }
        let mut preallocated = Preallocated::default();
        // Allocate before reserving: an instrumented allocator may emit a record meanwhile, which needs the same room.
        let mut open = self.with_place(shard, shard.lock(), scope, frame.len(), &mut preallocated);
        // Checked under the lock: the worker drains this shard once more after `close`, so it sees this record.
        if self.is_closed() {
            drop(open);
            preallocated.give_back(self);
            self.count_not_enqueued(scope, self.why_closed(), records);
            return true;
        }
        let reservation = self.reserve_behind_waiters(records, frame.len());
        if reservation.is_some() {
            open.append(scope, frame, records, &mut preallocated, self);
        }
        drop(open);
        preallocated.give_back(self);
        if let Some(reservation) = reservation {
            self.wake_threshold.check(reservation);
        }
        reservation.is_some()
    }

    #[cold]
    fn enqueue_after_waiting(
        &self,
        since: Instant,
        shard: &Shard,
        scope: &Arc<Scope>,
        frame: &[u8],
        records: usize,
    ) {
        let held_room = HOLDS_ROOM.with(Cell::get);
        let Some(reservation) = self.wait_for_room(since, scope.signal, records, frame.len()) else {
            let is_closed = self.is_closed();
            let reason = if is_closed { self.why_closed() } else { NotEnqueuedReason::QueueFull };
            return self.count_not_enqueued(scope, reason, records);
        };
        let mut preallocated = Preallocated::default();
        let mut open = self.with_place(shard, shard.lock(), scope, frame.len(), &mut preallocated);
        HOLDS_ROOM.with(|holds_room| holds_room.set(held_room));
        let is_closed = self.is_closed();
        if !is_closed {
            open.append(scope, frame, records, &mut preallocated, self);
        }
        drop(open);
        preallocated.give_back(self);
        if is_closed {
            self.release(records, frame.len());
            return self.count_not_enqueued(scope, self.why_closed(), records);
        }
        self.wake_threshold.check(reservation);
    }

    /// Returns the locked shard with space for a record of `bytes` bytes. Releases the lock while it allocates.
    fn with_place<'s>(
        &self,
        shard: &'s Shard,
        mut open: MutexGuard<'s, OpenChunk>,
        scope: &Arc<Scope>,
        bytes: usize,
        preallocated: &mut Preallocated,
    ) -> MutexGuard<'s, OpenChunk> {
        while let Some(missing) = open.missing(scope, bytes, preallocated) {
            // Shrink the open chunk only if the queue has room for the record. In a full queue, the chunk stays open.
            if self.level.has_room(1, bytes) {
                open.shrink(missing);
            }
            drop(open);
            preallocated.allocate(missing, scope, bytes, self);
            open = shard.lock();
        }
        open
    }

    /// Reserves room for a caller that has not waited, without taking the room that waiters need.
    ///
    /// The caller may overtake waiters that are still waking up. If every caller had to join them, the list would never
    /// become empty, and each record would cost a wake-up.
    fn reserve_behind_waiters(&self, records: usize, bytes: usize) -> Option<Reservation> {
        let waiting_records = self.backpressure.waiting_records();
        if waiting_records > 0
            && !self.level.has_room(waiting_records + records, self.largest_record.saturating_add(bytes))
        {
            return None;
        }
        self.level.reserve(records, bytes)
    }

    fn count_not_enqueued(&self, scope: &Scope, reason: NotEnqueuedReason, records: usize) {
        self.counters.count_not_enqueued(scope.signal, reason, records as u64);
    }

    /// Accepts metrics that the worker collected and keeps itself. Returns false if the queue has no room for them: the
    /// worker cannot wait for itself.
    pub(crate) fn admit(&self, records: usize, bytes: usize) -> bool {
        let fits = records <= self.max_records() && bytes <= self.level.capacity().1;
        let has_room = fits && self.level.reserve(records, bytes).is_some();
        if has_room {
            self.admitted.fetch_add(records as u64, Ordering::SeqCst);
        }
        has_room
    }

    /// Waits for room and reserves it. Sets `HOLDS_ROOM` on success.
    #[cold]
    fn wait_for_room(
        &self,
        since: Instant,
        signal: Signal,
        records: usize,
        bytes: usize,
    ) -> Option<Reservation> {
        let hold_room = || HOLDS_ROOM.with(|holds_room| holds_room.set(true));
        let enter = || self.level.reserve(records, bytes).inspect(|_| hold_room());
        // The program's allocator emits this record while the same thread appends another record, which may have
        // reserved the last room. Waiting here would be a deadlock.
        if HOLDS_ROOM.with(Cell::get) {
            self.wake_threshold.wake();
            return enter();
        }
        let wake = || self.wake_threshold.wake();
        let report = |waited| self.report_waiting(signal, waited);
        self.backpressure.wait(since, records, wake, enter, || self.is_closed(), report)
    }

    /// Reports that callers wait. The caller reports it because the worker may be in the middle of a long attempt.
    fn report_waiting(&self, signal: Signal, waited: Duration) {
        let message = || {
            let ((records, bytes), (max_records, max_bytes)) = (self.level(), self.level.capacity());
            let tenths = (waited.as_millis() as u64 + 50) / 100;
            format!(
                "callers are waiting for room in the queue, the first for {}.{} s: it has {records} of {max_records} \
                 records and {} of {} KiB; set WhenFull::DropNewest (lossy) to drop records instead, block_timeout to \
                 limit the wait, or queue_records and queue_bytes for a larger queue",
                tenths / 10,
                tenths % 10,
                bytes.div_ceil(1024),
                max_bytes.div_ceil(1024),
            )
        };
        self.reporter.report_from_caller(signal, ProblemKind::CallersWaiting, message);
    }

    /// Reports a problem of the configuration from a thread of the program.
    pub(crate) fn warn(&self, signal: Signal, message: &str) {
        self.reporter.report_from_caller(signal, ProblemKind::Configuration, || message.to_owned());
    }

    /// Notes that records were delivered: callers may wait again after a wait that timed out.
    pub(crate) fn note_delivery(&self) {
        self.backpressure.note_delivery();
    }

    /// Returns the number of records accepted since the start.
    pub(crate) fn accepted(&self) -> u64 {
        self.shards.accepted() + self.admitted.load(Ordering::SeqCst)
    }

    /// Returns the records and bytes that are queued or being sent.
    pub(crate) fn level(&self) -> (usize, usize) {
        self.level.read()
    }

    /// Sets the level at which the worker is woken. Returns true if the worker must not sleep: the level is reached
    /// already, or callers would soon have to wait or drop records.
    pub(crate) fn wake_at(&self, wake_at: WakeAt) -> bool {
        self.wake_threshold.set(wake_at, &self.level);
        let level = self.level();
        // Check the pressing level as well: a record that found no room before the threshold was set did not wake the
        // worker, but its size was noted and may have lowered that level.
        wake_at.is_reached(level) || self.is_pressing(level)
    }

    /// Clears the wake-up level while the worker is awake.
    pub(crate) fn stay_awake(&self) {
        self.wake_threshold.set(WakeAt::NEVER, &self.level);
    }

    /// Returns whether callers would soon have to wait or drop records at this level.
    pub(crate) fn is_pressing(&self, level: (usize, usize)) -> bool {
        self.pressure().is_reached(level) || self.backpressure.has_waiters()
    }

    /// Returns the level that is pressing: three quarters full, or less if there are large records.
    pub(crate) fn pressure(&self) -> WakeAt {
        self.level.pressure()
    }

    pub(crate) fn max_records(&self) -> usize {
        self.level.capacity().0
    }

    /// Returns the maximum size of a request with several records: an eighth of the queue, but at least one chunk.
    ///
    /// A request that is compressed or divided is a second copy of its records, so this limit also bounds the memory
    /// that is used in addition to the queue. Small requests also give waiting callers room sooner, because each
    /// settled request releases its part.
    pub(crate) fn max_request_bytes(&self) -> usize {
        (self.level.capacity().1 / 8).max(Chunk::BYTES)
    }

    /// Moves all chunks that are queued now to the worker.
    pub(crate) fn drain(&self, mut take: impl FnMut(Box<Chunk>)) {
        // Take the open chunks before counting the full ones: a chunk that moves in between is then still found.
        let mut open = Vec::with_capacity(self.shards.count());
        self.shards.take_open(|chunk| open.push(chunk));
        // Chunks that callers fill from now on are left for the next round, so that the loop ends.
        let full = self.full.1.len();
        for mut chunk in self.full.1.try_iter().take(full).chain(open) {
            chunk.seal(|bytes| checksum([bytes]));
            take(chunk);
        }
    }

    /// Releases the room of settled records and wakes the first waiter.
    pub(crate) fn release(&self, records: usize, bytes: usize) {
        self.level.release(records, bytes);
        self.backpressure.notify();
    }

    /// Rejects all further records and ends the waits of blocked callers.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.backpressure.notify();
    }

    /// Closes the queue like [`close`](Self::close), for a reason other than a shutdown.
    pub(crate) fn close_for(&self, reason: NotEnqueuedReason) {
        let _ = self.closed_for.set(reason);
        self.close();
    }

    #[cold]
    fn why_closed(&self) -> NotEnqueuedReason {
        self.closed_for.get().copied().unwrap_or(NotEnqueuedReason::AfterShutdown)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Sends a full chunk to the worker. Returns the chunk if the channel is full: the caller then keeps filling it.
    fn hand_over(&self, mut chunk: Box<Chunk>) -> Option<Box<Chunk>> {
        chunk.shrink();
        self.full.0.try_send(chunk).err().map(crossbeam_channel::TrySendError::into_inner)
    }
}

#[cfg(all(test, queue_model))]
#[path = "tests/model/mod.rs"]
mod model;
#[cfg(all(test, not(queue_model)))]
mod tests;
