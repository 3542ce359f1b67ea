//! The bounded queue between callers and one exporter's worker. How large may it be, and what happens when it is full?
//!
//! - The bound: `queue-records` and `queue-bytes` of an exporter, for each of its signals. They are two rows of
//!   `config/settings/delivery.rs`, where their defaults stand, too, and [`Level::reserve`] alone enforces them.
//! - When full: `lossy` and `block-timeout`, two rows of the same file. The caller waits in [`backpressure`], or
//!   [`Queue::enqueue_after_waiting`] counts the record as not enqueued; the reasons stand in
//!   [`ledger`](crate::pipeline::ledger).
//!
//! A caller copies its framed record into the open chunk of its [`shard`], under a lock that it shares with few others
//! and under which nothing is allocated; full chunks cross a bounded channel. So a record costs a copy and no
//! allocation, and the worker moves chunks, not records. Each record reserves its own room, in records and bytes, in one
//! atomic step of the [`level`], which also wakes the worker at its threshold.

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
use crate::record::{Chunk, Scope, Signal, Slot};
use crate::spool::{Recorder, checksum};
use backpressure::{Backpressure, Latch};
pub(crate) use backpressure::{RoomMaker, Wait, WorkerStart};
pub(crate) use level::WakeAt;
use level::{Level, Reservation, WakeThreshold};
pub(crate) use shard::thread_number;
use shard::{OpenChunk, Preallocated, Shard, Shards};
use sync::{AtomicBool, AtomicU64, MutexGuard, Receiver, Sender, bounded, thread_local};

/// Empty chunks that are kept for the next records, at most: their list is allocated whole.
const MOST_SPARES: usize = 1024;
/// Empty chunks that an idle program keeps.
const IDLE_SPARES: usize = 2;

thread_local! {
    /// Whether this thread has room for a record that it has not appended yet.
    static HOLDS_ROOM: Cell<bool> = const { Cell::new(false) };
}

/// The queue from the callers to one exporter's worker, for records of one signal.
#[derive(Debug)]
pub(crate) struct Queue {
    level: Level,
    wake_threshold: WakeThreshold,
    backpressure: Backpressure,
    shards: Shards,
    full: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    spare: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    largest_record: usize,
    closed: AtomicBool,
    /// Why, if not for a shutdown.
    closed_for: OnceLock<NotEnqueuedReason>,
    /// Data points that the worker has admitted.
    admitted: AtomicU64,
    counters: Arc<Counters>,
    reporter: Arc<ProblemReporter>,
    recorder: Option<Arc<Recorder>>,
}

/// What the queues of an exporter have in common.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) counters: Arc<Counters>,
    pub(crate) reporter: Arc<ProblemReporter>,
    /// A message wakes the worker.
    pub(crate) wake: Sender<()>,
    latch: Arc<Latch>,
    /// Where chunks survive the process.
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
    /// A queue for records of at most `largest_record` bytes, which wakes the worker at the level that it set with
    /// [`wake_at`](Self::wake_at).
    pub(crate) fn new(settings: &QueueSettings, largest_record: usize, shared: Shared) -> Self {
        let Shared { counters, reporter, wake, latch, recorder } = shared;
        let shards = Shards::new();
        // two chunks in a row hold more than one chunk's bytes, or the second would not have been begun
        let most_chunks = 2 * (settings.bytes / Chunk::BYTES + shards.count()) + 2;
        // in the recorder scopes take room as well, but there are no more chunks than it has slots
        let most_chunks = most_chunks + recorder.as_ref().map_or(0, |recorder| recorder.slots());
        Self {
            level: Level::new(settings.records, settings.bytes, largest_record),
            wake_threshold: WakeThreshold::new(wake),
            backpressure: Backpressure::new(settings.when_full, settings.block_timeout, latch),
            shards,
            full: bounded(most_chunks),
            spare: bounded(most_chunks.min(MOST_SPARES)),
            largest_record: largest_record.min(settings.bytes),
            closed: AtomicBool::new(false),
            closed_for: OnceLock::new(),
            admitted: AtomicU64::new(0),
            counters,
            reporter,
            recorder,
        }
    }

    /// Limits the waits of callers to the time by which the worker must have begun to run.
    pub(crate) fn expect(&self, start: &Arc<WorkerStart>) {
        self.backpressure.expect(Arc::clone(start));
    }

    /// Has callers that wait for room make it themselves.
    pub(crate) fn make_room_by(&self, room_maker: Weak<dyn RoomMaker>) {
        self.backpressure.make_room_by(room_maker);
    }

    /// Wakes the first caller that waits for room.
    pub(crate) fn notify_waiters(&self) {
        self.backpressure.notify();
    }

    /// Enqueues one frame that counts as `records` records, or counts why not. Never fails.
    ///
    /// Only with `WhenFull::Block` and a full queue does a caller wait for room. With [`Wait::No`] the call then has no effect
    /// and returns false; otherwise it returns true.
    // `wait` is a reference, so that all arguments travel in registers
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

    /// The fast path: enqueues a record that fits into the open chunk and the queue, with nothing else to do. Otherwise it
    /// does nothing and returns false.
    #[inline(always)]
    fn append_fast(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8]) -> bool {
        let bytes = frame.len();
        let mut open = shard.lock();
        let reservation = open.append_fast(scope, frame, || {
            // checked under the lock: the worker's last look comes after the closing, so it sees this record
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

    /// False if there is no room; otherwise the record is accepted or counted.
    #[inline(never)]
    fn enqueue_if_room(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8], records: usize) -> bool {
        // what will never find room must not wait for it
        if frame.len() > self.largest_record || records > self.most_records() {
            self.count_not_enqueued(scope, NotEnqueuedReason::TooLarge, records);
            return true;
        }
        let mut preallocated = Preallocated::default();
        // before there is room for it: what the program's allocator does meanwhile may need that
        let mut open = self.with_place(shard, shard.lock(), scope, frame.len(), &mut preallocated);
        // checked under the lock: the worker's last look comes after the closing, so it sees this record
        if self.is_closed() {
            drop(open);
            preallocated.give_back(self);
            self.count_not_enqueued(scope, self.why_closed(), records);
            return true;
        }
        // before it finds room or none: a worker that is woken by it knows its size
        let is_larger = self.level.note_size(records, frame.len());
        let reservation = self.reserve_behind_waiters(records, frame.len());
        if reservation.is_some() {
            open.append(scope, frame, records, &mut preallocated, self);
        }
        drop(open);
        preallocated.give_back(self);
        if is_larger {
            self.wake_threshold.send_wake();
        }
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

    /// The locked shard, with a place in it for a record of `bytes` bytes. Allocates while the lock is not held.
    fn with_place<'s>(
        &self,
        shard: &'s Shard,
        mut open: MutexGuard<'s, OpenChunk>,
        scope: &Arc<Scope>,
        bytes: usize,
        preallocated: &mut Preallocated,
    ) -> MutexGuard<'s, OpenChunk> {
        while let Some(missing) = open.missing(scope, bytes, preallocated) {
            // unless the record will not find room, and the open chunk goes on
            if self.level.has_room(1, bytes) {
                open.shrink(missing);
            }
            drop(open);
            preallocated.allocate(missing, scope, bytes, self);
            open = shard.lock();
        }
        open
    }

    /// Reserves room for records whose caller has not waited. It must not take what waiters need; the rest it may take: the
    /// waiters are only waking up, and if every newcomer joined them, they would never end, with a wake-up for each
    /// record.
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

    /// Accepts metrics that the worker has collected and keeps itself, if there is room: it cannot wait for itself.
    pub(crate) fn admit(&self, records: usize, bytes: usize) -> bool {
        let fits = records <= self.most_records() && bytes <= self.level.capacity().1;
        let has_room = fits && self.level.reserve(records, bytes).is_some();
        if has_room {
            self.admitted.fetch_add(records as u64, Ordering::SeqCst);
        }
        has_room
    }

    /// Sets `HOLDS_ROOM` if there is room.
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
        // made by the program's allocator while the thread appends another record: that one may have the last room
        if HOLDS_ROOM.with(Cell::get) {
            self.wake_threshold.wake();
            return enter();
        }
        let wake = || self.wake_threshold.wake();
        let report = |waited| self.report_waiting(signal, waited);
        self.backpressure.wait(since, records, wake, enter, || self.is_closed(), report)
    }

    /// Reports that callers wait. The worker may be in the middle of a long attempt, so it is not left to it.
    fn report_waiting(&self, signal: Signal, waited: Duration) {
        let message = || {
            let ((records, bytes), (most_records, most_bytes)) = (self.level(), self.level.capacity());
            let tenths = (waited.as_millis() as u64 + 50) / 100;
            format!(
                "callers are waiting for room in the queue, the first for {}.{} s: it has {records} of {most_records} \
                 records and {} of {} KiB; set WhenFull::DropNewest (lossy) to drop records instead, block_timeout to \
                 limit the wait, or queue_records and queue_bytes for a larger queue",
                tenths / 10,
                tenths % 10,
                bytes.div_ceil(1024),
                most_bytes.div_ceil(1024),
            )
        };
        self.reporter.report_from_caller(signal, ProblemKind::CallersWaiting, message);
    }

    /// Something was delivered: callers may wait again after a wait that has timed out.
    pub(crate) fn note_delivery(&self) {
        self.backpressure.note_delivery();
    }

    /// All records that were accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.shards.accepted() + self.admitted.load(Ordering::SeqCst)
    }

    /// Records and bytes that are queued or being sent.
    pub(crate) fn level(&self) -> (usize, usize) {
        self.level.read()
    }

    /// Sets the level at which the worker is woken; true if it is reached already, or a wait would end in a stall or a
    /// loss.
    pub(crate) fn wake_at(&self, wake_at: WakeAt) -> bool {
        self.wake_threshold.set(wake_at, &self.level);
        let level = self.level();
        // a record that found no room before the threshold was set has woken nothing, but its size was noted
        wake_at.is_reached(level) || self.is_pressing(level)
    }

    /// Sets no level: the worker is awake.
    pub(crate) fn stay_awake(&self) {
        self.wake_threshold.set(WakeAt::NEVER, &self.level);
    }

    /// Whether a wait at this level would end in a stall or a loss.
    pub(crate) fn is_pressing(&self, level: (usize, usize)) -> bool {
        self.pressure().is_reached(level) || self.backpressure.has_waiters()
    }

    /// Three quarters full, or less if there are large records.
    pub(crate) fn pressure(&self) -> WakeAt {
        self.level.pressure()
    }

    /// The most records that can be queued.
    pub(crate) fn most_records(&self) -> usize {
        self.level.capacity().0
    }

    /// What several records together may take in a request: an eighth. One that is compressed or divided is a second
    /// copy of them, and with the record that a caller is writing, memory would rise too far above what the queue may
    /// take; and callers that wait for room get it in parts.
    pub(crate) fn most_bytes_of_a_request(&self) -> usize {
        (self.level.capacity().1 / 8).max(Chunk::BYTES)
    }

    /// Moves all that is queued now to the worker.
    pub(crate) fn drain(&self, mut take: impl FnMut(Box<Chunk>)) {
        // the open chunks before the full ones are counted: one that changes hands in between is not missed
        let mut open = Vec::with_capacity(self.shards.count());
        self.shards.take_open(|chunk| open.push(chunk));
        // callers go on filling chunks meanwhile: those are for the next round
        let full = self.full.1.len();
        for mut chunk in self.full.1.try_iter().take(full).chain(open) {
            chunk.seal(|bytes| checksum([bytes]));
            take(chunk);
        }
    }

    /// Gives an emptied chunk back to the callers.
    pub(crate) fn give_back(&self, mut chunk: Box<Chunk>) {
        if chunk.leave_slot() || chunk.is_for(Chunk::BYTES) {
            chunk.recycle(chunk.signal());
            let _ = self.spare.0.try_send(chunk);
        }
    }

    /// Frees the chunks that a burst has left behind.
    pub(crate) fn trim(&self) {
        let surplus = self.spare.1.len().saturating_sub(IDLE_SPARES);
        self.spare.1.try_iter().take(surplus).for_each(drop);
    }

    /// Releases the room of records that are settled.
    pub(crate) fn release(&self, records: usize, bytes: usize) {
        self.level.release(records, bytes);
        self.backpressure.notify();
    }

    /// From now on records are not enqueued, and blocked callers go on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.backpressure.notify();
    }

    /// As [`close`](Self::close), for another reason than a shutdown.
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

    /// An empty chunk for `bytes` bytes of this scope, used before if possible.
    fn fresh_chunk(&self, scope: &Scope, bytes: usize) -> Box<Chunk> {
        let mut chunk = match self.spare.1.try_recv() {
            Ok(mut chunk) => {
                chunk.recycle(scope.signal);
                chunk
            }
            Err(_) => Box::new(Chunk::with_capacity(scope.signal, 0)),
        };
        if let Some(slot) = self.take_slot(scope, bytes) {
            chunk.move_to(slot);
            return chunk;
        }
        chunk.reserve(bytes.max(Chunk::BYTES));
        chunk
    }

    /// A place in the flight recorder.
    fn take_slot(&self, scope: &Scope, bytes: usize) -> Option<Slot> {
        self.recorder.as_ref()?.take(scope.signal, scope.run_header().len() + bytes)
    }

    /// Hands a chunk over; gives it back if there is no place, to be filled further.
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
