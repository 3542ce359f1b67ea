//! Empty chunks for reuse.

use std::sync::PoisonError;

use super::sync::{Mutex, MutexGuard};
use crate::record::Chunk;

/// A stack: the chunk that was used last is taken first, because its memory is most likely still in a cache.
///
/// Nothing is allocated or freed under the lock, because the program's allocator may emit a record.
#[derive(Debug)]
pub(super) struct Spares(Mutex<Vec<Box<Chunk>>>);

impl Spares {
    /// Returns an empty stack for at most `max` chunks.
    pub(super) fn new(max: usize) -> Self {
        Self(Mutex::new(Vec::with_capacity(max)))
    }

    pub(super) fn take(&self) -> Option<Box<Chunk>> {
        self.lock().pop()
    }

    /// Keeps a chunk, or frees it if the stack is full.
    pub(super) fn keep(&self, chunk: Box<Chunk>) {
        // The parameter is dropped after the guard of the lock.
        let mut spares = self.lock();
        if spares.len() < spares.capacity() {
            spares.push(chunk);
        }
    }

    /// Frees all chunks but `count`.
    pub(super) fn trim(&self, count: usize) {
        while self.len() > count && self.take().is_some() {}
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<Chunk>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
