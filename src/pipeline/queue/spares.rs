//! Empty chunks for reuse.

use std::sync::PoisonError;

use super::Queue;
use super::sync::{Mutex, MutexGuard};
use crate::record::{Chunk, Scope, Slot};

/// Maximum number of empty chunks kept for reuse. The list allocates room for all of them at once.
const MAX_SPARE_CHUNKS: usize = 1024;
/// Number of empty chunks that an idle program keeps.
pub(super) const IDLE_SPARES: usize = 2;

/// A stack: the chunk that was used last is taken first, because its memory is most likely still in a cache.
///
/// Nothing is allocated or freed under the lock, because the program's allocator may emit a record.
#[derive(Debug)]
pub(super) struct Spares(Mutex<Chunks>);

#[allow(clippy::vec_box, reason = "chunks move between the queue, the worker and the stack as pointers")]
type Chunks = Vec<Box<Chunk>>;

impl Spares {
    /// Returns an empty stack for the chunks of a queue with at most `max_chunks` chunks.
    pub(super) fn new(max_chunks: usize) -> Self {
        Self(Mutex::new(Vec::with_capacity(max_chunks.min(MAX_SPARE_CHUNKS))))
    }

    fn take(&self) -> Option<Box<Chunk>> {
        self.lock().pop()
    }

    /// Keeps a chunk, or frees it if the stack is full.
    fn keep(&self, chunk: Box<Chunk>) {
        // The parameter is dropped after the guard of the lock.
        let mut spares = self.lock();
        if spares.len() < spares.capacity() {
            spares.push(chunk);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Chunks> {
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

    /// Returns an emptied chunk to the callers.
    pub(crate) fn give_back(&self, mut chunk: Box<Chunk>) {
        // Chunks that were enlarged for a large record are freed instead.
        if chunk.leave_slot() || chunk.is_for(Chunk::BYTES) {
            chunk.recycle(chunk.signal());
            self.spares.keep(chunk);
        }
    }

    /// Frees surplus empty chunks after a burst.
    pub(crate) fn trim(&self) {
        while self.spares.len() > IDLE_SPARES && self.spares.take().is_some() {}
    }
}
