//! Where callers put their records: a few open chunks, each behind a lock of its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CHUNK_BYTES, Queue};
use crate::record::{Chunk, Scope, Signal};

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
struct Shard(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    chunks: [Option<Box<Chunk>>; Signal::COUNT],
    accepted: [u64; Signal::COUNT],
}

impl Shards {
    pub(super) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let count = threads.next_power_of_two().min(MOST_SHARDS);
        Self((0..count).map(|_| Shard::default()).collect())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// False if the queue was closed.
    #[inline]
    pub(super) fn append(&self, scope: &Arc<Scope>, frame: &[u8], records: usize, queue: &Queue) -> bool {
        let signal = scope.signal as usize;
        let mut open = self.mine().lock();
        // asked under the lock: the worker's last look comes after the closing, so it sees this record
        if queue.is_closed() {
            return false;
        }
        let full = |chunk: &Chunk| chunk.len() + frame.len() > CHUNK_BYTES && !chunk.is_empty();
        if open.chunks[signal].as_deref().is_some_and(full) {
            open.chunks[signal] = open.chunks[signal].take().and_then(|chunk| queue.hand_over(chunk));
        }
        let chunk = open.chunks[signal].get_or_insert_with(|| queue.fresh_chunk(scope.signal));
        chunk.append(scope, frame, records);
        open.accepted[signal] += records as u64;
        true
    }

    pub(super) fn take_open(&self, mut take: impl FnMut(Box<Chunk>)) {
        for shard in &self.0 {
            let chunks = std::mem::take(&mut shard.lock().chunks);
            chunks.into_iter().flatten().for_each(&mut take);
        }
    }

    pub(super) fn accepted(&self) -> [u64; Signal::COUNT] {
        let mut total = [0; Signal::COUNT];
        for shard in &self.0 {
            let accepted = shard.lock().accepted;
            total.iter_mut().zip(accepted).for_each(|(total, accepted)| *total += accepted);
        }
        total
    }

    #[inline]
    fn mine(&self) -> &Shard {
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
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
