//! Where callers put their records: a few open chunks, each behind a lock of its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Queue;
use super::level::Raised;
use super::supplies::{Lack, Supplies};
use crate::record::{Chunk, Scope};

/// More would only spread the records over more half-empty chunks.
const MOST_SHARDS: usize = 16;

/// Threads are dealt to the shards in turn.
static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Debug)]
pub(super) struct Shards(Box<[Shard]>);

/// The lock is std's: it keeps its state in itself, so that a fork elsewhere cannot leave it held.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
pub(super) struct Open {
    chunk: Option<Box<Chunk>>,
    accepted: u64,
}

impl Shards {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // more than there are cores: a thread that is stopped in the middle of an append holds up few others
        let count = (4 * cores).next_power_of_two().min(MOST_SHARDS);
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
        let thread = THREAD.get().unwrap_or_else(|| {
            let thread = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
            THREAD.set(Some(thread));
            thread
        });
        // the count is a power of two
        &self.0[thread & (self.0.len() - 1)]
    }
}

impl Shard {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Appends a record to the open chunk if that has a place for it and `reserve` makes room in the queue.
    // always: two calls for each record cost as much as what they do
    #[inline(always)]
    pub(super) fn append_at_once(
        &mut self,
        scope: &Arc<Scope>,
        frame: &[u8],
        records: usize,
        reserve: impl FnOnce() -> Option<Raised>,
    ) -> Option<Raised> {
        let chunk = self.chunk.as_mut().filter(|chunk| chunk.has_place(scope, frame.len()))?;
        let raised = reserve()?;
        chunk.append(scope, frame, records);
        self.accepted += records as u64;
        Some(raised)
    }

    /// What a record cannot be appended without, beside the supplies.
    pub(super) fn lack(&self, scope: &Arc<Scope>, bytes: usize, supplies: &Supplies) -> Option<Lack> {
        supplies.lack(self.chunk.as_deref(), scope, bytes)
    }

    /// Appends a record for which there is room, and nothing lacking. Neither allocates nor frees.
    pub(super) fn append(
        &mut self,
        scope: &Arc<Scope>,
        frame: &[u8],
        records: usize,
        supplies: &mut Supplies,
        queue: &Queue,
    ) {
        match &mut self.chunk {
            Some(chunk) if chunk.has_place(scope, frame.len()) => {}
            Some(chunk) if chunk.len() + frame.len() <= Chunk::BYTES => chunk.swap_runs(&mut supplies.runs),
            // one that finds no place, which the bound of the chunks rules out, is filled further
            full => {
                let kept = full.take().and_then(|full| queue.hand_over(full));
                *full = kept.or_else(|| supplies.chunk.take());
            }
        }
        if let Some(chunk) = &mut self.chunk {
            chunk.append(scope, frame, records);
            self.accepted += records as u64;
        }
    }
}
