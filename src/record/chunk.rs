//! Chunks: framed records of one signal, in the order in which they were emitted. They are passed through the queue,
//! or read from a stored request.
//!
//! With a spool, the bytes of a chunk are in slots of the *flight recorder*, a memory-mapped file from which the next
//! process recovers them (`spool/recorder`). A record there is *settled* once its outcome is known or the spool has
//! it in a request.

use std::mem;
use std::sync::Arc;

use super::wire::decode_varint;
use super::{Scope, Settler, Signal, Slot, frames, metric};

/// Tags of `resource_spans` in a request, of `scope_spans` in a resource, and of a record in a scope. They are the
/// same for all signals.
pub(crate) const RESOURCE_RECORDS: u8 = 0x0a;
pub(crate) const SCOPE_RECORDS: u8 = 0x12;
pub(crate) const RECORD: u8 = 0x12;

/// Framed records back to back, and the scope of each run of them.
#[derive(Debug)]
pub(crate) struct Chunk {
    signal: Signal,
    bytes: Storage,
    runs: Vec<Run>,
    /// Index of the first run that was not taken.
    first: usize,
    /// For a copy: the guard that marks the original records in the flight recorder as settled.
    settler: Option<Settler>,
}

#[derive(Debug)]
enum Storage {
    Heap(Vec<u8>),
    /// In the flight recorder, where each run is preceded by its scope.
    Slot(Slot),
}

impl Storage {
    #[inline(always)]
    fn len(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Slot(slot) => slot.len(),
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Slot(slot) => slot.bytes(),
        }
    }

    /// Returns whether a record of `bytes` bytes fits.
    #[inline(always)]
    fn has_room(&self, bytes: usize) -> bool {
        match self {
            Self::Heap(stored) => stored.len() + bytes <= Chunk::BYTES,
            Self::Slot(slot) => slot.has_room(bytes),
        }
    }

    /// Appends a record to the last run.
    #[inline(always)]
    fn append(&mut self, frame: &[u8]) {
        match self {
            Self::Heap(bytes) => {
                bytes.extend_from_slice(frame);
                prefetch(bytes);
            }
            Self::Slot(slot) => {
                slot.append(frame);
                slot.commit();
            }
        }
    }

    /// Returns the header that precedes a new run of this scope. It is empty if the chunk is on the heap.
    #[inline(always)]
    fn run_header<'s>(&self, scope: &'s Scope) -> &'s [u8] {
        match self {
            Self::Heap(_) => &[],
            Self::Slot(_) => scope.run_header(),
        }
    }
}

/// Consecutive records of one scope.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) scope: Arc<Scope>,
    /// Number of records as the ledger counts them: a metric counts as its number of data points.
    pub(crate) records: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Chunk {
    /// Size of a full chunk: a record that no longer fits goes into the next chunk.
    pub(crate) const BYTES: usize = 32 << 10;
    /// Size of a slot of the flight recorder. A chunk occupies consecutive slots.
    pub(crate) const SLOT_BYTES: usize = 4 << 10;

    pub(crate) fn with_capacity(signal: Signal, bytes: usize) -> Self {
        Self::stored_in(Storage::Heap(Vec::with_capacity(bytes)), signal, Vec::with_capacity(4))
    }

    fn stored_in(bytes: Storage, signal: Signal, runs: Vec<Run>) -> Self {
        Self { signal, bytes, runs, first: 0, settler: None }
    }

    /// Puts an empty chunk into the flight recorder.
    pub(crate) fn move_to(&mut self, slot: Slot) {
        self.bytes = Storage::Slot(slot);
    }

    /// Returns whether the records survive the process.
    pub(crate) fn is_recorded(&self) -> bool {
        (matches!(self.bytes, Storage::Slot(_)) || self.settler.is_some()) && !self.is_lost()
    }

    /// Returns whether the records were lost because the flight recorder's file was truncated. A copy of records counts
    /// as lost even if it is intact, because the file may have been truncated before the copy was made.
    pub(crate) fn is_lost(&self) -> bool {
        match &self.bytes {
            Storage::Heap(_) => self.settler.as_ref().is_some_and(Settler::is_lost),
            Storage::Slot(slot) => slot.is_lost(),
        }
    }

    /// Frees the slots of the chunk and their records, or settles the records of a copy. Returns whether it had slots.
    pub(crate) fn leave_slot(&mut self) -> bool {
        self.settler = None;
        let is_in_slot = matches!(self.bytes, Storage::Slot(_));
        if is_in_slot {
            self.bytes = Storage::Heap(Vec::new());
        }
        is_in_slot
    }

    /// Gives the slots beyond the last byte of the chunk back to the flight recorder.
    pub(crate) fn shrink(&mut self) {
        if let Storage::Slot(slot) = &mut self.bytes {
            slot.shrink();
        }
    }

    /// Gives back unused slots, and writes the checksum of the complete chunk. After a failure of the whole machine,
    /// only the checksum proves that the bytes reached the disk.
    pub(crate) fn seal(&mut self, checksum: impl FnOnce(&[u8]) -> u32) {
        self.shrink();
        if let Storage::Slot(slot) = &self.bytes {
            slot.seal(checksum(slot.bytes()));
        }
    }

    /// Notes in the flight recorder where the spool is about to write an entry with these records. The note also
    /// covers all earlier records of the chunk, so the earlier records must already be settled or in the spool.
    pub(crate) fn note_entry(&self, segment: u32, offset: u32) {
        match &self.bytes {
            Storage::Heap(_) => self.settler.iter().for_each(|settler| settler.note_entry(segment, offset)),
            Storage::Slot(slot) => slot.note_entry(segment, offset),
        }
    }

    /// Marks the records as settled in the flight recorder: they stay there, but are not sent again.
    pub(crate) fn settle(&self) {
        match &self.bytes {
            Storage::Heap(_) => self.settler.iter().for_each(Settler::settle),
            Storage::Slot(slot) => slot.settle(),
        }
    }

    pub(crate) fn signal(&self) -> Signal {
        self.signal
    }

    /// Returns a chunk with a copy of these bytes, and without runs. Dropping it settles the original records.
    pub(crate) fn copy_bytes(&self, start: usize, end: usize) -> Self {
        let copy = Storage::Heap(self.bytes(start, end).to_vec());
        let settler = match &self.bytes {
            Storage::Heap(_) => None,
            Storage::Slot(slot) => slot.settler(end),
        };
        Self { settler, ..Self::stored_in(copy, self.signal, Vec::new()) }
    }

    /// Returns whether a record can be appended without an allocation.
    #[inline(always)]
    pub(crate) fn has_place(&self, scope: &Arc<Scope>, bytes: usize) -> bool {
        let is_at_run = self.is_at_run_of(scope);
        self.fits_at(is_at_run, scope, bytes) && (is_at_run || self.runs.len() < self.runs.capacity())
    }

    /// Like [`has_place`](Self::has_place), but assumes that the list of runs has capacity.
    pub(crate) fn fits(&self, scope: &Arc<Scope>, bytes: usize) -> bool {
        self.fits_at(self.is_at_run_of(scope), scope, bytes)
    }

    #[inline(always)]
    fn fits_at(&self, is_at_run: bool, scope: &Scope, bytes: usize) -> bool {
        // A record of another scope begins a run, whose header takes room in a slot.
        let header = if is_at_run { 0 } else { self.bytes.run_header(scope).len() };
        self.bytes.has_room(bytes + header)
    }

    #[inline(always)]
    fn is_at_run_of(&self, scope: &Arc<Scope>) -> bool {
        self.runs.last().is_some_and(|run| Arc::ptr_eq(&run.scope, scope))
    }

    /// Returns the number of runs that fit into the list without an allocation.
    pub(crate) fn max_runs(&self) -> usize {
        self.runs.capacity()
    }

    /// Moves the runs to a larger list, and leaves the smaller list in `larger`. So the caller can allocate the larger
    /// list before it takes the lock, and free the smaller one after it releases the lock.
    pub(crate) fn swap_runs(&mut self, larger: &mut Vec<Run>) {
        larger.append(&mut self.runs);
        mem::swap(larger, &mut self.runs);
    }

    /// Reserves `bytes` in an empty chunk whose storage is on the heap.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        if let Storage::Heap(stored) = &mut self.bytes {
            stored.reserve_exact(bytes);
        }
    }

    /// Returns whether the storage is on the heap with a capacity of exactly `bytes`.
    pub(crate) fn is_for(&self, bytes: usize) -> bool {
        matches!(&self.bytes, Storage::Heap(stored) if stored.capacity() == bytes)
    }

    /// Removes the records and keeps the storage, for records of `signal`.
    pub(crate) fn recycle(&mut self, signal: Signal) {
        self.signal = signal;
        if let Storage::Heap(bytes) = &mut self.bytes {
            bytes.clear();
        }
        self.runs.clear();
        self.first = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.runs.len()
    }

    /// Returns the number of bytes, including those of records that were taken.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends one frame that counts as `records` records.
    #[inline]
    pub(crate) fn append(&mut self, scope: &Arc<Scope>, frame: &[u8], records: usize) {
        match self.runs.last_mut() {
            Some(run) if Arc::ptr_eq(&run.scope, scope) => {
                self.bytes.append(frame);
                run.records += records;
                run.end = self.bytes.len();
            }
            _ => {
                if let Storage::Slot(slot) = &mut self.bytes {
                    // The header becomes valid together with the first record.
                    slot.append(scope.run_header());
                }
                let start = self.bytes.len();
                self.bytes.append(frame);
                self.runs.push(Run { scope: Arc::clone(scope), records, start, end: self.bytes.len() });
            }
        }
    }

    /// Appends one record if it fits without an allocation and `reserve` succeeds. Returns what was reserved.
    #[inline(always)]
    pub(crate) fn append_reserved<T>(
        &mut self,
        scope: &Arc<Scope>,
        frame: &[u8],
        reserve: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let is_same_run = self.runs.last().is_some_and(|run| Arc::ptr_eq(&run.scope, scope));
        let has_room = match is_same_run {
            true => self.bytes.has_room(frame.len()),
            false => self.runs.len() < self.runs.capacity() && self.fits_at(false, scope, frame.len()),
        };
        if !has_room {
            return None;
        }
        // `reserve` is called in one place only, so that the compiler inlines it.
        let reserved = reserve()?;
        match self.runs.last_mut().filter(|_| is_same_run) {
            Some(run) => {
                self.bytes.append(frame);
                run.records += 1;
                run.end = self.bytes.len();
            }
            None => self.append(scope, frame, 1),
        }
        Some(reserved)
    }

    /// Returns the runs that were not taken yet.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs[self.first..]
    }

    pub(crate) fn bytes(&self, start: usize, end: usize) -> &[u8] {
        &self.bytes.as_slice()[start..end]
    }

    /// Returns how many records of a run fit into the given room, and their bytes. Both are zero if only a part of the
    /// run fits and the chunk [is lost](Self::is_lost): its frames cannot be read.
    pub(crate) fn fitting(&self, run: &Run, max_records: usize, max_bytes: usize) -> (usize, usize) {
        if run.records <= max_records && run.end - run.start <= max_bytes {
            return (run.records, run.end - run.start);
        }
        let (mut records, mut bytes) = (0, 0);
        for frame in frames(self.bytes(run.start, run.end)) {
            let more = records_in(self.signal, frame);
            if records + more > max_records || bytes + frame.len() > max_bytes {
                break;
            }
            records += more;
            bytes += frame.len();
        }
        if self.is_lost() { (0, 0) } else { (records, bytes) }
    }

    /// Takes records from the front of the first run.
    pub(crate) fn take_part(&mut self, records: usize, bytes: usize) {
        let run = &mut self.runs[self.first];
        run.records -= records;
        run.start += bytes;
        if run.records == 0 {
            // An empty run is not removed from the list: removing it would move all others, while `first` just skips
            // it.
            self.first += 1;
        }
    }

    /// Returns the records and bytes of the first frame that was not taken.
    pub(crate) fn first_frame(&self) -> (usize, usize) {
        let Some(run) = self.runs.get(self.first) else { return (0, 0) };
        let first = frames(self.bytes(run.start, run.end)).next();
        first.map_or((0, 0), |frame| (records_in(self.signal, frame), frame.len()))
    }
}

impl Chunk {
    /// Reads the records of an `Export…ServiceRequest`. Returns `None` if it is malformed or has other fields.
    pub(crate) fn of_request(signal: Signal, request: &[u8]) -> Option<Self> {
        let mut chunk = Self::with_capacity(signal, request.len());
        let (of_resources, rest) = divide(request, RESOURCE_RECORDS)?;
        for resource_records in of_resources {
            let (of_scopes, resource) = divide(content(resource_records)?, SCOPE_RECORDS)?;
            let resource: Arc<[u8]> = resource.into();
            for scope_records in of_scopes {
                let (records, scope) = divide(content(scope_records)?, RECORD)?;
                let scope = Arc::new(Scope::of_request(signal, scope, Arc::clone(&resource)));
                records.into_iter().for_each(|frame| chunk.append(&scope, frame, records_in(signal, frame)));
            }
        }
        rest.is_empty().then_some(chunk)
    }
}

/// Loads the cache lines in which the next record will be written. At a low rate of records, these lines are in no
/// cache.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch(bytes: &[u8]) {
    let end = bytes.as_ptr().wrapping_add(bytes.len());
    for place in (1..=4).map(|line| end.wrapping_add(64 * line)) {
        // SAFETY: the instruction has no effect on the program, whatever the address is.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
        }
        let _ = place;
    }
}

/// Separates the fields with this tag from all others. Returns `None` unless all fields are length-delimited with a
/// one-byte tag.
fn divide(message: &[u8], tag: u8) -> Option<(Vec<&[u8]>, Vec<u8>)> {
    let (with_tag, others): (Vec<_>, Vec<_>) = frames(message).partition(|frame| frame[0] == tag);
    let is_whole = with_tag.iter().chain(&others).map(|frame| frame.len()).sum::<usize>() == message.len();
    let is_delimited = others.iter().all(|frame| frame[0] & 7 == 2 && frame[0] < 0x80);
    (is_whole && is_delimited).then(|| (with_tag, others.concat()))
}

/// Returns the content of a length-delimited field with a one-byte tag.
pub(crate) fn content(frame: &[u8]) -> Option<&[u8]> {
    let mut behind = frame.get(1..)?;
    decode_varint(&mut behind)?;
    Some(behind)
}

/// Returns the number of records that the ledger counts for a frame.
pub(crate) fn records_in(signal: Signal, frame: &[u8]) -> usize {
    match signal {
        Signal::Traces | Signal::Logs => 1,
        Signal::Metrics => metric::points_in(frame) as usize,
    }
}

#[cfg(test)]
mod tests;
