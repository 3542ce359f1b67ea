//! The open chunks into which callers copy their records, each behind its own lock (lock striping).
//!
//! ```text
//! spare ── allocate ──► preallocated ── append ──► open ── append, does not fit ──► channel of full chunks
//!   ▲                        │ unused               └────── take_open ──► worker ◄── drain ──┘
//!   └────── give_back ───────┴────────────────────────── give_back ─────────┘
//! ```
//!
//! A chunk becomes open, and stops being open, only under the lock of its shard. So callers and the worker never use
//! the same chunk at the same time, and the worker receives each record that was appended under the lock.
//! Spare chunks are on a separate stack, [`Spares`].

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use super::Queue;
use super::level::Reservation;
use super::sync::{MAX_SHARDS, Mutex, MutexGuard};
use crate::record::{Chunk, Run, Scope, Slot};

/// Maximum number of empty chunks kept for reuse. The list allocates room for all of them at once.
const MAX_SPARE_CHUNKS: usize = 1024;
/// Number of empty chunks that an idle program keeps.
pub(super) const IDLE_SPARES: usize = 2;

/// Marks a thread without a shard. An `Option` would be two words to test for each record.
const UNKNOWN: usize = usize::MAX;
/// Number of the next thread. Threads are assigned to shards round-robin.
static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(UNKNOWN) };
}

#[derive(Debug)]
pub(super) struct Shards(Box<[Shard]>);

/// One open chunk on its own cache lines.
///
/// The lock is std's: its whole state is in the mutex itself. A lock with a process-wide table of waiters could stay
/// blocked in a forked child, if another thread held the table's lock at the fork.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    open: Mutex<OpenChunk>,
}

#[derive(Debug, Default)]
pub(super) struct OpenChunk {
    chunk: Option<Box<Chunk>>,
    accepted: u64,
}

impl Shards {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // More shards than cores: a thread that is descheduled in the middle of an append blocks few others.
        let count = (4 * cores).next_power_of_two().min(MAX_SHARDS);
        Self((0..count).map(|_| Shard::default()).collect())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn take_open(&self, mut take: impl FnMut(Box<Chunk>)) {
        for shard in &self.0 {
            let chunk = shard.lock().chunk.take();
            chunk.into_iter().for_each(&mut take);
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.0.iter().map(|shard| shard.lock().accepted).sum()
    }

    /// Returns the shard of the current thread.
    #[inline]
    pub(super) fn mine(&self) -> &Shard {
        // A mask replaces the division because the count is a power of two.
        &self.0[thread_number() & (self.0.len() - 1)]
    }
}

/// Returns the number that determines the current thread's shard.
#[inline]
pub(crate) fn thread_number() -> usize {
    // Inlined, because the caller would have to save its registers around a call.
    if THREAD.get() == UNKNOWN {
        THREAD.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

impl Shard {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, OpenChunk> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenChunk {
    /// Appends a record to the open chunk if it fits there and `reserve` succeeds.
    // `always`: calls of this function and of `append_reserved` would cost as much as the work inside them.
    #[inline(always)]
    pub(super) fn append_fast(
        &mut self,
        scope: &Arc<Scope>,
        frame: &[u8],
        reserve: impl FnOnce() -> Option<Reservation>,
    ) -> Option<Reservation> {
        let reservation = self.chunk.as_mut()?.append_reserved(scope, frame, reserve)?;
        self.accepted += 1;
        Some(reservation)
    }

    /// Returns what must be allocated before the record can be appended.
    pub(super) fn missing(
        &self,
        scope: &Arc<Scope>,
        bytes: usize,
        preallocated: &Preallocated,
    ) -> Option<Missing> {
        preallocated.missing(self.chunk.as_deref(), scope, bytes)
    }

    /// Returns the unused slots of the open chunk to the flight recorder, if the next chunk needs them.
    pub(super) fn shrink(&mut self, missing: Missing) {
        if let (Some(chunk), Missing::Chunk) = (&mut self.chunk, missing) {
            chunk.shrink();
        }
    }

    /// Appends a record for which room is reserved and memory is allocated. Neither allocates nor frees.
    pub(super) fn append(
        &mut self,
        scope: &Arc<Scope>,
        frame: &[u8],
        records: usize,
        preallocated: &mut Preallocated,
        queue: &Queue,
    ) {
        match &mut self.chunk {
            Some(chunk) if chunk.has_place(scope, frame.len()) => {}
            Some(chunk) if chunk.fits(scope, frame.len()) => chunk.swap_runs(&mut preallocated.runs),
            // The channel has room for all chunks. If it were full nevertheless, the open chunk would stay and be
            // filled further.
            full => {
                let kept = full.take().and_then(|full| queue.hand_over(full));
                *full = kept.or_else(|| preallocated.chunk.take());
            }
        }
        if let Some(chunk) = &mut self.chunk {
            chunk.append(scope, frame, records);
            self.accepted += records as u64;
        }
    }
}

/// Memory that a record may need beyond the open chunk, allocated before the shard is locked, and freed after the lock
/// is released.
///
/// The program's allocator may emit a record itself. If it did so under a lock of the queue, the thread would wait for
/// itself.
#[derive(Debug, Default)]
pub(super) struct Preallocated {
    /// The next chunk, used when the open chunk is full.
    pub(super) chunk: Option<Box<Chunk>>,
    /// A longer list of runs, used when the open chunk has records of more scopes than its list can hold.
    pub(super) runs: Vec<Run>,
}

/// The memory without which a record cannot be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// A chunk with space for the record.
    Chunk,
    /// A list with space for more than this many runs.
    Runs(usize),
}

impl Preallocated {
    /// Returns the memory that must still be allocated before the record can be appended to the open chunk or, if the
    /// record does not fit there, to the next chunk; `None` if there is enough.
    pub(super) fn missing(&self, open: Option<&Chunk>, scope: &Arc<Scope>, bytes: usize) -> Option<Missing> {
        match open {
            Some(chunk) if chunk.has_place(scope, bytes) => None,
            Some(chunk) if chunk.fits(scope, bytes) => {
                let max_runs = chunk.max_runs();
                (self.runs.capacity() <= max_runs).then_some(Missing::Runs(max_runs))
            }
            _ => self.chunk.is_none().then_some(Missing::Chunk),
        }
    }

    /// Allocates the missing memory for a record of `bytes` bytes. No lock may be held.
    pub(super) fn allocate(&mut self, missing: Missing, scope: &Scope, bytes: usize, queue: &Queue) {
        match missing {
            Missing::Chunk => self.chunk = Some(queue.fresh_chunk(scope, bytes)),
            Missing::Runs(max_runs) => self.runs = Vec::with_capacity(2 * max_runs + 1),
        }
    }

    /// Returns an unused chunk to the queue, and frees the list of runs. No lock may be held.
    pub(super) fn give_back(self, queue: &Queue) {
        if let Some(chunk) = self.chunk {
            queue.give_back(chunk);
        }
    }
}

/// A stack of empty chunks for reuse: the chunk that was used last is taken first, because its memory is most likely
/// still in a cache.
///
/// Nothing is allocated or freed under the lock, because the program's allocator may emit a record.
#[derive(Debug)]
pub(super) struct Spares(Mutex<SpareChunks>);

#[derive(Debug)]
struct SpareChunks {
    #[allow(clippy::vec_box, reason = "chunks move between the queue, the worker and the stack as pointers")]
    stack: Vec<Box<Chunk>>,
    /// Minimum length of the stack since the last [`Queue::trim`].
    unused: usize,
}

impl Spares {
    /// Returns an empty stack for the chunks of a queue with at most `max_chunks` chunks.
    pub(super) fn new(max_chunks: usize) -> Self {
        let stack = Vec::with_capacity(max_chunks.min(MAX_SPARE_CHUNKS));
        Self(Mutex::new(SpareChunks { stack, unused: 0 }))
    }

    fn take(&self) -> Option<Box<Chunk>> {
        let mut spares = self.lock();
        let chunk = spares.stack.pop();
        spares.unused = spares.unused.min(spares.stack.len());
        chunk
    }

    /// Keeps a chunk, or frees it if the stack is full.
    fn keep(&self, chunk: Box<Chunk>) {
        // Locals are dropped before parameters, so if the stack is full, `chunk` is freed after the lock is released.
        let mut spares = self.lock();
        if spares.stack.len() < spares.stack.capacity() {
            spares.stack.push(chunk);
        }
    }

    /// Returns the number of chunks that were not needed since the last call, without the few that are always kept.
    fn surplus(&self) -> usize {
        let mut spares = self.lock();
        let now = spares.stack.len();
        mem::replace(&mut spares.unused, now).saturating_sub(IDLE_SPARES)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().stack.len()
    }

    fn lock(&self) -> MutexGuard<'_, SpareChunks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Returns an empty chunk with space for `bytes` bytes of this scope, reusing a spare chunk if there is one.
    pub(super) fn fresh_chunk(&self, scope: &Scope, bytes: usize) -> Box<Chunk> {
        let mut chunk = match self.spares.take() {
            Some(mut chunk) => {
                chunk.recycle(scope.signal);
                chunk
            }
            None => Box::new(Chunk::with_capacity(scope.signal, 0)),
        };
        if let Some(slot) = self.take_slot(scope, bytes) {
            chunk.move_to(slot);
            return chunk;
        }
        chunk.reserve(bytes.max(Chunk::BYTES));
        chunk
    }

    /// Reserves a slot in the flight recorder.
    fn take_slot(&self, scope: &Scope, bytes: usize) -> Option<Slot> {
        self.recorder.as_ref()?.take(scope.signal, scope.run_header().len() + bytes)
    }

    /// Makes an emptied chunk available to callers again.
    pub(crate) fn give_back(&self, mut chunk: Box<Chunk>) {
        // Chunks that were enlarged for a large record are freed instead.
        if chunk.leave_slot() || chunk.is_for(Chunk::BYTES) {
            chunk.recycle(chunk.signal());
            self.spares.keep(chunk);
        }
    }

    #[cfg(test)]
    pub(crate) fn spare_chunks(&self) -> usize {
        self.spares.len()
    }

    /// Frees the empty chunks that callers have not needed since the last call, except a few. A steady load keeps its
    /// chunks: new ones would cost the callers page faults.
    pub(crate) fn trim(&self) {
        (0..self.spares.surplus()).for_each(|_| drop(self.spares.take()));
    }

    /// Returns whether [`trim`](Self::trim) may free chunks, now or later.
    pub(crate) fn has_surplus(&self) -> bool {
        self.spares.len() > IDLE_SPARES
    }
}
