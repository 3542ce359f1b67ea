//! Bounded in records and in bytes; what does not fit waits or is counted as lost.
//!
//! A caller copies its framed record into the open chunk of its shard, under a lock that it shares
//! with few others and under which nothing is allocated; full chunks cross a bounded channel. So a record costs a copy and no allocation,
//! and the worker moves chunks, not records. Each record reserves its own room, in records and bytes, in one atomic step.

mod door;
mod level;
mod shard;
mod start;
mod supplies;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::config::QueueSettings;
use crate::pipeline::ledger::{Counters, NotEnqueuedReason};
use crate::process;
use crate::record::{Chunk, Scope, Signal};
use door::Door;
pub(crate) use level::WakeAt;
use level::{Float, Level, Raised};
use shard::{Open, Shard, Shards};
pub(crate) use start::Start;
use supplies::Supplies;

/// Empty chunks that are kept for the next records, at most: their list is allocated whole.
const MOST_SPARES: usize = 1024;
/// Empty chunks that an idle program keeps.
const IDLE_SPARES: usize = 2;

thread_local! {
    /// Whether this thread has room for a record that it has not appended yet.
    static HOLDS_ROOM: Cell<bool> = const { Cell::new(false) };
}

/// The way from the callers to one exporter's worker, for records of one signal.
#[derive(Debug)]
pub(crate) struct Queue {
    level: Level,
    float: Float,
    door: Door,
    shards: Shards,
    full: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    spare: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    largest_record: usize,
    closed: AtomicBool,
    /// Why, if not for a shutdown.
    closed_for: OnceLock<NotEnqueuedReason>,
    /// Accepted from the worker, by signal.
    admitted: AtomicU64,
    counters: Arc<Counters>,
}

impl Queue {
    /// A queue for records of at most `largest_record` bytes; `wake` receives a note when the worker
    /// asked to be woken, see [`wake_at`](Self::wake_at).
    pub(crate) fn new(
        settings: &QueueSettings,
        largest_record: usize,
        counters: Arc<Counters>,
        wake: Sender<()>,
    ) -> Self {
        let shards = Shards::new();
        // two chunks in a row hold more than one chunk's bytes, or the second would not have been begun
        let most_chunks = 2 * (settings.bytes / Chunk::BYTES + shards.count()) + 2;
        Self {
            level: Level::new(settings.records, settings.bytes),
            float: Float::new(wake),
            door: Door::new(settings.when_full, settings.block_timeout),
            shards,
            full: bounded(most_chunks),
            spare: bounded(most_chunks.min(MOST_SPARES)),
            largest_record: largest_record.min(settings.bytes),
            closed: AtomicBool::new(false),
            closed_for: OnceLock::new(),
            admitted: AtomicU64::new(0),
            counters,
        }
    }

    /// Callers wait for the worker no longer than this allows.
    pub(crate) fn expect(&self, start: &Arc<Start>) {
        self.door.expect(Arc::clone(start));
    }

    /// Takes in what is framed as one and counts as so many records, or counts why not. Never fails, and waits only if
    /// it was told to.
    #[inline(never)]
    pub(crate) fn push(&self, scope: &Arc<Scope>, frame: &[u8], records: usize) {
        let shard = self.shards.mine();
        if self.append_at_once(shard, scope, frame, records) {
            return;
        }
        if !self.push_if_room(shard, scope, frame, records) {
            self.push_after_waiting(shard, scope, frame, records);
        }
    }

    /// The same, unless its caller would have to wait for room: then it does nothing and returns false.
    pub(crate) fn push_at_once(&self, scope: &Arc<Scope>, frame: &[u8], records: usize) -> bool {
        let shard = self.shards.mine();
        if self.append_at_once(shard, scope, frame, records)
            || self.push_if_room(shard, scope, frame, records)
        {
            return true;
        }
        let is_lossy = !self.door.makes_wait();
        if is_lossy {
            self.push_after_waiting(shard, scope, frame, records);
        }
        is_lossy
    }

    /// The fast path: takes in a record for which there are room and a place, and nothing else to do. Otherwise it does
    /// nothing and returns false.
    #[inline(always)]
    fn append_at_once(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8], records: usize) -> bool {
        let bytes = frame.len();
        let mut open = shard.lock();
        let raised = open.append_at_once(scope, frame, records, || {
            // asked under the lock: the worker's last look comes after the closing, so it sees this record
            let is_simple = !self.is_closed()
                && !self.door.is_queued_up()
                && bytes <= self.largest_record
                && self.level.is_usual(records, bytes);
            if is_simple { self.level.rise_by(records, bytes) } else { None }
        });
        drop(open);
        if let Some(raised) = raised {
            self.float.lift(raised);
        }
        raised.is_some()
    }

    /// False if there is no room; otherwise the record is accepted or counted.
    #[inline(never)]
    fn push_if_room(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8], records: usize) -> bool {
        // what will never find room must not wait for it
        if frame.len() > self.largest_record || records > self.most_records() {
            self.count_not_enqueued(scope, NotEnqueuedReason::TooLarge, records);
            return true;
        }
        let mut supplies = Supplies::default();
        // before there is room for it: what the program's allocator does meanwhile may need that
        let mut open = self.with_place(shard, shard.lock(), scope, frame.len(), &mut supplies);
        // asked under the lock: the worker's last look comes after the closing, so it sees this record
        if self.is_closed() {
            drop(open);
            supplies.give_back(self);
            self.count_not_enqueued(scope, self.why_closed(), records);
            return true;
        }
        // before it finds room or none: a worker that is woken by it knows its size
        let is_larger = self.level.notes_larger(records, frame.len());
        let raised = self.raise(records, frame.len());
        if raised.is_some() {
            open.append(scope, frame, records, &mut supplies, self);
        }
        drop(open);
        supplies.give_back(self);
        if is_larger {
            self.float.ring();
        }
        if let Some(raised) = raised {
            self.float.lift(raised);
        }
        raised.is_some()
    }

    #[cold]
    fn push_after_waiting(&self, shard: &Shard, scope: &Arc<Scope>, frame: &[u8], records: usize) {
        // in a child that ran no handlers this is the parent's queue, and nothing will ever make room; a caller that does not
        // wait is spared the system call
        if self.door.makes_wait() && process::notice() {
            return;
        }
        let held_room = HOLDS_ROOM.get();
        let Some(raised) = self.wait_for_room(records, frame.len()) else {
            let is_closed = self.is_closed();
            let reason = if is_closed { self.why_closed() } else { NotEnqueuedReason::QueueFull };
            return self.count_not_enqueued(scope, reason, records);
        };
        let mut supplies = Supplies::default();
        let mut open = self.with_place(shard, shard.lock(), scope, frame.len(), &mut supplies);
        HOLDS_ROOM.set(held_room);
        let is_closed = self.is_closed();
        if !is_closed {
            open.append(scope, frame, records, &mut supplies, self);
        }
        drop(open);
        supplies.give_back(self);
        if is_closed {
            self.release(records, frame.len());
            return self.count_not_enqueued(scope, self.why_closed(), records);
        }
        self.float.lift(raised);
    }

    /// The locked shard, with a place in it for a record of `bytes` bytes. Without the lock, while supplies are got.
    fn with_place<'s>(
        &self,
        shard: &'s Shard,
        mut open: MutexGuard<'s, Open>,
        scope: &Arc<Scope>,
        bytes: usize,
        supplies: &mut Supplies,
    ) -> MutexGuard<'s, Open> {
        while let Some(lack) = open.lack(scope, bytes, supplies) {
            drop(open);
            supplies.get(lack, scope.signal, bytes, self);
            open = shard.lock();
        }
        open
    }

    /// Makes room for records that their caller has not waited for. It must not take what callers in line need; what else
    /// there is it may take: everyone in line is only waking up, and a line that newcomers join would go on for ever,
    /// with a wake-up for each record.
    fn raise(&self, records: usize, bytes: usize) -> Option<Raised> {
        let in_line = self.door.in_line();
        if in_line > 0 && !self.level.has_room(in_line + records, self.largest_record.saturating_add(bytes)) {
            return None;
        }
        self.level.rise_by(records, bytes)
    }

    fn count_not_enqueued(&self, scope: &Scope, reason: NotEnqueuedReason, records: usize) {
        self.counters.count_not_enqueued(scope.signal, reason, records as u64);
    }

    /// Accepts what the worker has made itself and keeps itself, if there is room: it cannot wait for itself.
    pub(crate) fn admit(&self, records: usize, bytes: usize) -> bool {
        let has_room = self.level.rise_by(records, bytes).is_some();
        if has_room {
            self.admitted.fetch_add(records as u64, Ordering::SeqCst);
        }
        has_room
    }

    /// `HOLDS_ROOM` is set if there is some.
    #[cold]
    fn wait_for_room(&self, records: usize, bytes: usize) -> Option<Raised> {
        let enter = || self.level.rise_by(records, bytes).inspect(|_| HOLDS_ROOM.set(true));
        // made by the program's allocator while the thread appends another record: that one may have the last room
        if HOLDS_ROOM.get() {
            self.float.press();
            return enter();
        }
        self.door.wait(records, || self.float.press(), enter, || self.is_closed())
    }

    /// All records that were accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.shards.accepted() + self.admitted.load(Ordering::SeqCst)
    }

    /// Records and bytes that are queued or in the worker's hands.
    pub(crate) fn level(&self) -> (usize, usize) {
        self.level.read()
    }

    /// Asks for a note when the queue reaches a level; true if it is there already, or a wait would end in a stall or a
    /// loss.
    pub(crate) fn wake_at(&self, wake_at: WakeAt) -> bool {
        self.float.set(wake_at);
        let level = self.level();
        // a record that found no room before the mark was set has not rung, but its size was noted
        wake_at.is_reached(level) || self.is_pressing(level)
    }

    /// Asks for no note: the worker is awake.
    pub(crate) fn stay_awake(&self) {
        self.float.set(WakeAt::NEVER);
    }

    /// Whether a wait at this level would end in a stall or a loss.
    pub(crate) fn is_pressing(&self, level: (usize, usize)) -> bool {
        self.pressure().is_reached(level) || self.door.is_queued_up()
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
    /// take; and callers who wait for room get it in parts.
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
        self.full.1.try_iter().take(full).chain(open).for_each(&mut take);
    }

    /// Gives an emptied chunk back to the callers.
    pub(crate) fn give_back(&self, mut chunk: Box<Chunk>) {
        if chunk.is_for(Chunk::BYTES) {
            chunk.recycle(chunk.signal());
            let _ = self.spare.0.try_send(chunk);
        }
    }

    /// Frees the chunks that a burst has left behind.
    pub(crate) fn trim(&self) {
        let surplus = self.spare.1.len().saturating_sub(IDLE_SPARES);
        self.spare.1.try_iter().take(surplus).for_each(drop);
    }

    /// Makes room for new records, once these are settled.
    pub(crate) fn release(&self, records: usize, bytes: usize) {
        self.level.fall(records, bytes);
        self.door.room_made();
    }

    /// From now on records are not enqueued, and blocked callers go on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.door.room_made();
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

    /// An empty chunk, used before if possible.
    fn fresh_chunk(&self, signal: Signal) -> Box<Chunk> {
        match self.spare.1.try_recv() {
            Ok(mut chunk) => {
                chunk.recycle(signal);
                chunk
            }
            Err(_) => Box::new(Chunk::with_capacity(signal, Chunk::BYTES)),
        }
    }

    /// Hands a chunk over; gives it back if there is no place, to be filled further.
    fn hand_over(&self, chunk: Box<Chunk>) -> Option<Box<Chunk>> {
        self.full.0.try_send(chunk).err().map(crossbeam_channel::TrySendError::into_inner)
    }
}

#[cfg(test)]
mod tests;
