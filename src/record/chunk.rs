//! Many records of one signal, framed, in the order they came: what crosses the queue.

use std::mem;
use std::sync::Arc;

use super::{Scope, Signal, frames, metric};

/// Framed records back to back, with a note of which scope each run of them belongs to.
#[derive(Debug)]
pub(crate) struct Chunk {
    signal: Signal,
    bytes: Vec<u8>,
    runs: Vec<Run>,
    /// Runs before this one are taken.
    first: usize,
}

/// Consecutive records of one scope.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) scope: Arc<Scope>,
    /// As the ledger counts them: a metric is as many as it has data points.
    pub(crate) records: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Chunk {
    /// One is full when the next record would make it larger than this.
    pub(crate) const BYTES: usize = 32 << 10;

    pub(crate) fn with_capacity(signal: Signal, bytes: usize) -> Self {
        Self { signal, bytes: Vec::with_capacity(bytes), runs: Vec::with_capacity(4), first: 0 }
    }

    pub(crate) fn signal(&self) -> Signal {
        self.signal
    }

    /// Nothing but a copy of some of its bytes.
    pub(crate) fn copy_bytes(&self, start: usize, end: usize) -> Self {
        Self { signal: self.signal, bytes: self.bytes[start..end].to_vec(), runs: Vec::new(), first: 0 }
    }

    /// Whether a record can be appended to a chunk that is not full, without an allocation.
    #[inline(always)]
    pub(crate) fn has_place(&self, scope: &Arc<Scope>, bytes: usize) -> bool {
        self.bytes.len() + bytes <= Self::BYTES
            && (self.runs.len() < self.runs.capacity() || self.is_at_run_of(scope))
    }

    #[inline(always)]
    fn is_at_run_of(&self, scope: &Arc<Scope>) -> bool {
        self.runs.last().is_some_and(|run| Arc::ptr_eq(&run.scope, scope))
    }

    /// How many runs it can note without an allocation.
    pub(crate) fn most_runs(&self) -> usize {
        self.runs.capacity()
    }

    /// Goes on with a larger list of runs, and leaves the smaller one in its place: neither made nor freed here.
    pub(crate) fn swap_runs(&mut self, larger: &mut Vec<Run>) {
        larger.append(&mut self.runs);
        mem::swap(larger, &mut self.runs);
    }

    /// Makes an empty chunk large enough for `bytes`.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// Whether the storage is for exactly this many `bytes`.
    pub(crate) fn is_for(&self, bytes: usize) -> bool {
        self.bytes.capacity() == bytes
    }

    /// Forgets the records and keeps the storage.
    pub(crate) fn recycle(&mut self, signal: Signal) {
        self.signal = signal;
        self.bytes.clear();
        self.runs.clear();
        self.first = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.runs.len()
    }

    /// Bytes of the records, taken ones included.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends one frame that counts as `records`.
    #[inline]
    pub(crate) fn append(&mut self, scope: &Arc<Scope>, frame: &[u8], records: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        let end = self.bytes.len();
        match self.runs.last_mut() {
            Some(run) if Arc::ptr_eq(&run.scope, scope) => {
                run.records += records;
                run.end = end;
            }
            _ => self.runs.push(Run { scope: Arc::clone(scope), records, start, end }),
        }
    }

    /// Appends one record if it has a place and `reserve` finds room for it. The last run is looked up once.
    #[inline(always)]
    pub(crate) fn append_reserved<T>(
        &mut self,
        scope: &Arc<Scope>,
        frame: &[u8],
        reserve: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let end = self.bytes.len() + frame.len();
        if end > Self::BYTES {
            return None;
        }
        let can_add_run = self.runs.len() < self.runs.capacity();
        match self.runs.last_mut() {
            Some(run) if Arc::ptr_eq(&run.scope, scope) => {
                let reserved = reserve()?;
                self.bytes.extend_from_slice(frame);
                run.records += 1;
                run.end = end;
                Some(reserved)
            }
            _ if can_add_run => {
                let reserved = reserve()?;
                self.append(scope, frame, 1);
                Some(reserved)
            }
            _ => None,
        }
    }

    /// The stretches that are still there.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs[self.first..]
    }

    pub(crate) fn bytes(&self, start: usize, end: usize) -> &[u8] {
        &self.bytes[start..end]
    }

    /// The first run without its scope is gone.
    pub(crate) fn take_run(&mut self) {
        self.first += 1;
    }

    /// How many of a run's records, and of how many bytes, fit into the given room.
    pub(crate) fn fitting(&self, run: &Run, most_records: usize, most_bytes: usize) -> (usize, usize) {
        if run.records <= most_records && run.end - run.start <= most_bytes {
            return (run.records, run.end - run.start);
        }
        let (mut records, mut bytes) = (0, 0);
        for frame in frames(&self.bytes[run.start..run.end]) {
            let more = records_in(self.signal, frame);
            if records + more > most_records || bytes + frame.len() > most_bytes {
                break;
            }
            records += more;
            bytes += frame.len();
        }
        (records, bytes)
    }

    /// Takes the first records of the first run.
    pub(crate) fn take_part(&mut self, records: usize, bytes: usize) {
        let run = &mut self.runs[self.first];
        run.records -= records;
        run.start += bytes;
        if run.records == 0 {
            self.take_run();
        }
    }

    /// The first frame that is still there: records and bytes.
    pub(crate) fn first_frame(&self) -> (usize, usize) {
        let Some(run) = self.runs.get(self.first) else { return (0, 0) };
        let first = frames(&self.bytes[run.start..run.end]).next();
        first.map_or((0, 0), |frame| (records_in(self.signal, frame), frame.len()))
    }
}

/// How many records the ledger counts for a framed one.
pub(crate) fn records_in(signal: Signal, frame: &[u8]) -> usize {
    match signal {
        Signal::Traces | Signal::Logs => 1,
        Signal::Metrics => metric::points_in(frame) as usize,
    }
}

#[cfg(test)]
mod tests;
