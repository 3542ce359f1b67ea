//! Where callers put their records: a few open chunks, each behind a lock of its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use super::Queue;
use super::level::Reservation;
use super::sync::{MAX_SHARDS, Mutex, MutexGuard};
use crate::record::{Chunk, Run, Scope};

/// A thread that has no shard yet. Not an `Option`, which would be two words to look at for each record.
const UNKNOWN: usize = usize::MAX;
/// Threads are dealt to the shards in turn.
static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(UNKNOWN) };
}

#[derive(Debug)]
pub(super) struct Shards(Box<[Shard]>);

/// The lock is std's: it keeps its state in itself, so that a fork elsewhere cannot leave it held.
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
        // more than there are cores: a thread that is stopped in the middle of an append holds up few others
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

    /// The shard of this thread.
    #[inline]
    pub(super) fn mine(&self) -> &Shard {
        // the count is a power of two
        &self.0[thread_number() & (self.0.len() - 1)]
    }
}

/// Returns the number by which a thread finds its shard.
#[inline]
pub(crate) fn thread_number() -> usize {
    // No call, for which the caller would have to save registers.
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
    /// Appends a record to the open chunk if that has a place for it and `reserve` finds room in the queue.
    // always: two calls for each record cost as much as what they do
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

    /// What must be allocated before the record can be appended.
    pub(super) fn missing(
        &self,
        scope: &Arc<Scope>,
        bytes: usize,
        preallocated: &Preallocated,
    ) -> Option<Missing> {
        preallocated.missing(self.chunk.as_deref(), scope, bytes)
    }

    /// Gives back what the open chunk has left of the flight recorder, if the next one needs it.
    pub(super) fn shrink(&mut self, missing: Missing) {
        if let (Some(chunk), Missing::Chunk) = (&mut self.chunk, missing) {
            chunk.shrink();
        }
    }

    /// Appends a record for which there is room, and nothing lacking. Neither allocates nor frees.
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
            // one that finds no place, which the bound of the chunks rules out, is filled further
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

/// What a record may need beyond the open chunk: allocated before the shard is locked, and freed after. The program's
/// allocator may make a record itself, and would wait for itself under a lock of the queue.
#[derive(Debug, Default)]
pub(super) struct Preallocated {
    /// To go on with when the open chunk is full.
    pub(super) chunk: Option<Box<Chunk>>,
    /// To go on with when the open chunk has records of more scopes than it can note.
    pub(super) runs: Vec<Run>,
}

/// What a record cannot be appended without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// A chunk that holds the record.
    Chunk,
    /// A longer list of runs than this.
    Runs(usize),
}

impl Preallocated {
    /// What is missing for a place in the open chunk, or in the next one.
    pub(super) fn missing(&self, open: Option<&Chunk>, scope: &Arc<Scope>, bytes: usize) -> Option<Missing> {
        match open {
            Some(chunk) if chunk.has_place(scope, bytes) => None,
            Some(chunk) if chunk.fits(scope, bytes) => {
                let most_runs = chunk.most_runs();
                (self.runs.capacity() <= most_runs).then_some(Missing::Runs(most_runs))
            }
            _ => self.chunk.is_none().then_some(Missing::Chunk),
        }
    }

    /// Allocates what is missing for a record of `bytes` bytes. No lock may be held.
    pub(super) fn allocate(&mut self, missing: Missing, scope: &Scope, bytes: usize, queue: &Queue) {
        match missing {
            Missing::Chunk => self.chunk = Some(queue.fresh_chunk(scope, bytes)),
            Missing::Runs(most_runs) => self.runs = Vec::with_capacity(2 * most_runs + 1),
        }
    }

    /// Gives back what was not needed. No lock may be held.
    pub(super) fn give_back(self, queue: &Queue) {
        if let Some(chunk) = self.chunk {
            queue.give_back(chunk);
        }
    }
}
