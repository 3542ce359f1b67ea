//! What a record may need beyond the open chunk: made before the shard is locked, and freed after.
//!
//! The program's allocator may want to make a record itself. Under a lock of the queue it would wait for itself.

use std::sync::Arc;

use super::Queue;
use crate::process;
use crate::record::{Chunk, Run, Scope, Signal};

/// Storage in the hands of a caller; mostly none.
#[derive(Debug, Default)]
pub(super) struct Supplies {
    /// To go on with when the open chunk is full.
    pub(super) chunk: Option<Box<Chunk>>,
    /// To go on with when the open chunk has records of more scopes than it can note.
    pub(super) runs: Vec<Run>,
}

/// What a record cannot be appended without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// A chunk that holds the record.
    Chunk,
    /// A longer list of runs than this.
    Runs(usize),
}

impl Supplies {
    /// What a record lacks for its place in the open chunk, if it is there, or in the next one.
    pub(super) fn lack(&self, open: Option<&Chunk>, scope: &Arc<Scope>, bytes: usize) -> Option<Lack> {
        match open {
            Some(chunk) if chunk.has_place(scope, bytes) => None,
            Some(chunk) if chunk.len() + bytes <= Chunk::BYTES => {
                let most_runs = chunk.most_runs();
                (self.runs.capacity() <= most_runs).then_some(Lack::Runs(most_runs))
            }
            _ => self.chunk.is_none().then_some(Lack::Chunk),
        }
    }

    /// Gets what is lacking for a record of `bytes` bytes. No lock may be held.
    pub(super) fn get(&mut self, lack: Lack, signal: Signal, bytes: usize, queue: &Queue) {
        match lack {
            Lack::Chunk => {
                // in a child that ran no handlers this is the parent's queue; what comes next goes to the child's own
                process::notice();
                let mut chunk = queue.fresh_chunk(signal);
                chunk.reserve(bytes);
                self.chunk = Some(chunk);
            }
            Lack::Runs(most_runs) => self.runs = Vec::with_capacity(2 * most_runs + 1),
        }
    }

    /// Gives back what was not needed. No lock may be held.
    pub(super) fn give_back(self, queue: &Queue) {
        if let Some(chunk) = self.chunk {
            queue.give_back(chunk);
        }
    }
}
