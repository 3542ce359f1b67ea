//! Slots: memory that outlives the process. A chunk fills one or several consecutive slots in the file of the flight
//! recorder (`spool/recorder`).
//!
//! The process may be killed between any two instructions. The next process relies on the header of a slot alone. So
//! every change is made in an order in which the header never describes bytes that are not there yet:
//!
//! - append: first the bytes, then `committed`, which is their length;
//! - begin: first `committed` = 0, then the description of the chunk, then `state`;
//! - shrink: first `slots`, then the slots after the shrunk chunk are given to other chunks;
//! - note an entry: first `spooled` = 0, then the position of the entry, then `spooled`, then the entry itself is
//!   written to the spool, then `settled`;
//! - free: first `state`, then the slot is given to another chunk.
//!
//! The file also has a slot for each open span: see [`OpenSpanSlot`].
//!
//! Without the feature `spool`, and on systems other than Linux, [`SlotPlace`] is an uninhabited type, so the
//! compiler removes all code for slots.
//!
//! A disk or a faulty program may flip bits in the file. So every word that changes, except `checksum`, is a codeword
//! of an error-correcting code, and one store writes it: numbers are multiples of [`GUARD`] (an AN code, which costs
//! one multiplication), and `state` is a codeword of a Hadamard code. A reader corrects a single flipped bit per word,
//! and detects most words with more flipped bits.

#[cfg(not(all(feature = "spool", target_os = "linux")))]
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fmt, hint, mem};

use super::copies::STROKE;
#[cfg(test)]
use super::tests::{is_wrong, store_early};
use super::{Chunk, Signal};

/// The header of one slot in the file. Words have 32 bits, which every machine writes atomically. Numbers are
/// guarded.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct SlotHeader {
    /// One of [`CODEWORDS`]: free, or in use for a signal.
    pub(crate) state: AtomicU32,
    /// Length of the complete records, in bytes.
    pub(crate) committed: AtomicU32,
    /// Number of leading bytes whose records have an outcome or are in the spool, and must not be sent from here.
    pub(crate) settled: AtomicU32,
    /// Sequence number, which orders chunks by the time they were begun.
    pub(crate) order: AtomicU32,
    /// Number of consecutive slots of the chunk.
    pub(crate) slots: AtomicU32,
    /// Number of bytes that `checksum` covers. `checksum` is their CRC32C, and is not guarded. The worker writes both
    /// when the chunk is complete.
    pub(crate) sealed: AtomicU32,
    pub(crate) checksum: AtomicU32,
    /// Number of leading bytes that count as settled if the spool's entry at `segment` and `offset` is complete: the
    /// entry then has all records in these bytes that were not settled before.
    pub(crate) spooled: AtomicU32,
    pub(crate) segment: AtomicU32,
    pub(crate) offset: AtomicU32,
}

/// Codewords for [`Signal::ALL`] and for [`FREE`]. Any two differ in 16 bits, and each differs in 16 bits from all
/// zeros and all ones.
pub(crate) const CODEWORDS: [u32; 4] = [0x5555_5555, 0x3333_3333, 0x0f0f_0f0f, 0x0000_ffff];
pub(crate) const FREE: u32 = CODEWORDS[Signal::COUNT];

/// Returns the index of the codeword that differs from the word in at most seven bits.
pub(crate) fn decode_codeword(word: u32) -> Option<usize> {
    CODEWORDS.iter().position(|codeword| (codeword ^ word).count_ones() < 8)
}

/// Factor of guarded words. No sum or difference of two different powers of two below 2^32 is a multiple of it, so one
/// flipped bit is corrected. A word with two flipped bits never looks valid, but the correction may mistake the two for
/// a single flipped bit, and return a wrong number.
const GUARD: u32 = 239;
/// Largest number that can be guarded: about 18 million, or 17 MiB as a number of bytes.
pub(crate) const MAX_GUARDED: u32 = u32::MAX / GUARD;

/// Returns the guarded word of a number up to [`MAX_GUARDED`]. Of two guarded words, the greater one has the greater
/// number.
#[inline(always)]
pub(crate) fn guard(number: u32) -> u32 {
    number.wrapping_mul(GUARD)
}

/// Returns the number of a guarded word in which at most one bit has flipped.
pub(crate) fn unguard(word: u32) -> Option<u32> {
    let repaired = (0..u32::BITS).map(|bit| word ^ 1 << bit);
    [word].into_iter().chain(repaired).find(|word| word % GUARD == 0).map(|word| word / GUARD)
}

/// Values of `is_mapped` other than 0: the slots are mapped to the file, or the file was truncated and its contents
/// are lost.
pub(crate) const MAPPED: u32 = 1;
pub(crate) const LOST: u32 = 2;

/// Tags of the fields in front of a run of records: one contains its scope, and the other its resource if this is not
/// the exporter's. The messages of OTLP that contain records, such as `ScopeSpans`, have no such tag.
pub(crate) const SCOPE_TAG: u8 = 0x7a;
pub(crate) const RESOURCE_TAG: u8 = 0x72;

/// The owner of slots: the flight recorder.
pub(crate) trait SlotOwner: fmt::Debug + Send + Sync {
    /// Returns whether dropped slots keep their records, because the exporter has ended and the next process is to
    /// send them.
    fn keeps_records(&self) -> bool;
    /// Takes back slots that are no longer in use.
    fn take_back(&self, number: usize, slots: usize);
    /// Takes back the slot of an open span.
    fn take_back_open_span(&self, number: usize);
}

/// The position of a slot in memory, with the header of a slot or the committed length of an open span. The references
/// are valid for as long as the owner lives: see [`Slot::new`] and [`OpenSpanSlot::new`].
#[derive(Debug, Clone)]
pub(crate) struct SlotPlace<H = &'static SlotHeader> {
    pub(crate) header: H,
    /// [`MAPPED`], [`LOST`], or 0 in a forked child, where the file is not mapped.
    pub(crate) is_mapped: &'static AtomicU32,
    pub(crate) owner: Arc<dyn SlotOwner>,
    pub(crate) number: usize,
    #[cfg(not(all(feature = "spool", target_os = "linux")))]
    never: Infallible,
}

impl<H> SlotPlace<H> {
    #[inline(always)]
    fn is_mapped(&self) -> bool {
        self.is_mapped.load(Ordering::Relaxed) == MAPPED
    }
}

impl SlotPlace {
    fn is_lost(&self) -> bool {
        self.is_mapped.load(Ordering::Acquire) == LOST
    }

    fn note_entry(&self, end: u32, segment: u32, offset: u32) {
        if !self.is_mapped() || segment.max(offset) > MAX_GUARDED {
            return;
        }
        self.header.spooled.store(0, Ordering::Release);
        #[cfg(test)]
        store_early("note", &self.header.spooled, guard(end));
        self.header.segment.store(guard(segment), Ordering::Release);
        self.header.offset.store(guard(offset), Ordering::Release);
        self.header.spooled.store(guard(end), Ordering::Release);
    }

    fn settle(&self, end: u32) {
        if self.is_mapped() && !self.owner.keeps_records() {
            // Parts of a chunk may be settled in any order, so the greatest end counts. Of two guarded words, the
            // greater one has the greater number.
            self.header.settled.fetch_max(guard(end), Ordering::Release);
        }
    }
}

/// The slots of one chunk. They are freed when this value is dropped, unless their owner keeps the records.
#[derive(Debug)]
pub(crate) struct Slot {
    place: SlotPlace,
    data: &'static mut [u8],
    len: usize,
}

impl Slot {
    /// # Safety
    /// As long as the owner of the place lives, nothing else may refer to `data`, and everything that the place refers
    /// to must stay at its address. In a forked child, the file need not be mapped.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(place: SlotPlace, data: &'static mut [u8]) -> Self {
        Self { place, data, len: 0 }
    }

    pub(crate) fn begin(&mut self, signal: Signal, order: u32, slots: usize) {
        let (header, state) = (self.place.header, CODEWORDS[signal as usize]);
        self.len = 0;
        #[cfg(test)]
        store_early("begin", &header.state, state);
        header.committed.store(0, Ordering::Release);
        header.settled.store(0, Ordering::Release);
        header.sealed.store(0, Ordering::Release);
        header.spooled.store(0, Ordering::Release);
        header.order.store(guard(order % MAX_GUARDED), Ordering::Release);
        header.slots.store(guard(slots as u32), Ordering::Release);
        header.state.store(state, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the appended bytes, or zeros if [`is_lost`](Self::is_lost). Empty in a forked child.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.place.is_mapped() || self.place.is_lost() { &self.data[..self.len] } else { &[] }
    }

    /// Returns whether the file was truncated. If a caller has read the bytes and this function then returns false,
    /// the bytes were valid.
    pub(super) fn is_lost(&self) -> bool {
        // Reads each page: if the file no longer has the page, SIGBUS is raised, and its handler marks the recorder as
        // lost.
        self.bytes().iter().step_by(Chunk::SLOT_BYTES).for_each(|byte| _ = hint::black_box(*byte));
        self.place.is_lost()
    }

    /// Returns whether there is room for this many more bytes. Always false if the file is lost, or in a forked child.
    #[inline(always)]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.data.len() - self.len >= bytes && self.place.is_mapped()
    }

    /// Appends bytes, for which there must be room. They survive the process after a [`commit`](Self::commit).
    #[inline(always)]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        #[cfg(test)]
        store_early("commit", &self.place.header.committed, guard(end as u32));
        self.data[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Commits all appended bytes: from now on they survive the process.
    #[inline(always)]
    pub(crate) fn commit(&self) {
        self.place.header.committed.store(guard(self.len as u32), Ordering::Release);
    }

    /// Gives back the slots that the appended bytes do not reach.
    pub(super) fn shrink(&mut self) {
        let (slots, needed) =
            (self.data.len() / Chunk::SLOT_BYTES, self.len.div_ceil(Chunk::SLOT_BYTES).max(1));
        let SlotPlace { header, owner, number, .. } = &self.place;
        if needed < slots && self.place.is_mapped() && !owner.keeps_records() {
            header.slots.store(guard(needed as u32), Ordering::Release);
            self.data = &mut mem::take(&mut self.data)[..needed * Chunk::SLOT_BYTES];
            owner.take_back(number + needed, slots - needed);
        }
    }

    /// Writes the checksum of a complete chunk.
    pub(crate) fn seal(&self, checksum: u32) {
        if self.place.is_mapped() {
            self.place.header.checksum.store(checksum, Ordering::Release);
            self.place.header.sealed.store(guard(self.len as u32), Ordering::Release);
        }
    }

    /// Notes where the spool is about to write an entry with all records of this slot. Once the entry is complete,
    /// the next process ignores the slot.
    pub(super) fn note_entry(&self, segment: u32, offset: u32) {
        self.place.note_entry(self.len as u32, segment, offset);
    }

    /// Marks all records as settled, so that the next process does not send them.
    pub(super) fn settle(&self) {
        self.place.settle(self.len as u32);
    }

    /// Returns a guard that settles the records up to `end` when it is dropped, unless the chunk has left the slot.
    pub(super) fn settler(&self, end: usize) -> Option<Settler> {
        let order = self.place.is_mapped().then(|| self.place.header.order.load(Ordering::Relaxed))?;
        Some(Settler { order, end: end as u32, place: self.place.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let SlotPlace { header, owner, number, .. } = &self.place;
        if self.place.is_mapped() && !owner.keeps_records() {
            header.state.store(FREE, Ordering::Release);
            owner.take_back(*number, self.data.len() / Chunk::SLOT_BYTES);
        }
    }
}

/// Guard: settles some records of a slot when it is dropped. It must be dropped on the thread that frees the slot, so
/// that the slot cannot be freed at the same time.
#[derive(Debug)]
pub(crate) struct Settler {
    place: SlotPlace,
    order: u32,
    end: u32,
}

impl Settler {
    /// Returns whether the file was truncated.
    pub(super) fn is_lost(&self) -> bool {
        self.place.is_lost()
    }

    /// Like [`Slot::note_entry`], for these records and all before them.
    pub(super) fn note_entry(&self, segment: u32, offset: u32) {
        if self.has_slot() {
            self.place.note_entry(self.end, segment, offset);
        }
    }

    pub(super) fn settle(&self) {
        if self.has_slot() {
            self.place.settle(self.end);
        }
    }

    /// Returns whether the slot still has the same chunk.
    fn has_slot(&self) -> bool {
        let header = self.place.header;
        self.place.is_mapped()
            && header.state.load(Ordering::Acquire) != FREE
            && header.order.load(Ordering::Relaxed) == self.order
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Size of one copy of an open span, including its scope.
pub(crate) const OPEN_SPAN_BYTES: usize = 1020;
/// Bit that selects the valid copy, in the guarded word in front of the two copies. The lower bits of the word are the
/// length of the valid copy, or 0 if no span is open.
pub(crate) const SECOND_COPY: u32 = 1 << 16;

/// One open span in the file: two copies, of which one is valid. The valid bytes never change. New bytes are appended
/// after them; any other change is written to the other copy, which then becomes the valid one (double buffering).
#[repr(C)]
pub(crate) struct OpenSpanBytes {
    pub(crate) committed: AtomicU32,
    unused: u32,
    pub(crate) copies: [[u8; OPEN_SPAN_BYTES]; 2],
}

/// The slot from which the next process reads a span if this process dies before the span ends.
pub(crate) struct OpenSpanSlot {
    place: SlotPlace<&'static AtomicU32>,
    current: OpenSpanCopy,
    other: OpenSpanCopy,
    /// Number of valid bytes in the current copy.
    len: u32,
}

struct OpenSpanCopy {
    bytes: &'static mut [u8; OPEN_SPAN_BYTES],
    /// [`SECOND_COPY`] or 0.
    which: u32,
    /// Offset of the record; 0 if the header in front of it is not written yet.
    record_at: usize,
}

impl OpenSpanSlot {
    /// # Safety
    /// The requirements of [`Slot::new`] apply.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(
        place: SlotPlace<&'static AtomicU32>,
        copies: &'static mut [[u8; OPEN_SPAN_BYTES]; 2],
    ) -> Self {
        let [first, second] = copies;
        let copy = |bytes, which| OpenSpanCopy { bytes, which, record_at: 0 };
        Self { place, current: copy(first, 0), other: copy(second, SECOND_COPY), len: 0 }
    }

    /// Forgets the header in front of the record, because the next spans have another scope.
    pub(super) fn forget_header(&mut self) {
        (self.current.record_at, self.other.record_at) = (0, 0);
    }

    /// Appends the first `count` of these bytes to the valid copy. Returns false if there is no room for all [`STROKE`]
    /// bytes, or the file is not mapped. All are written, because a constant length takes neither a loop nor a call.
    #[inline(always)]
    pub(super) fn append(&mut self, bytes: &[u8; STROKE], count: u32) -> bool {
        let at = self.len as usize;
        let Some(to) = self.current.bytes.get_mut(at..at + STROKE).filter(|_| self.place.is_mapped()) else {
            return false;
        };
        #[cfg(test)]
        store_early("open span", self.place.header, guard(self.current.which | (self.len + count)));
        to.copy_from_slice(bytes);
        self.commit(self.len + count);
        true
    }

    /// Writes the whole record to the invalid copy, then makes that copy the valid one. Returns false if there is no
    /// room, or the file is not mapped.
    pub(super) fn replace(&mut self, run_header: &[u8], record: &[u8]) -> bool {
        let len = run_header.len() + record.len();
        if len > OPEN_SPAN_BYTES || !self.place.is_mapped() {
            return false;
        }
        mem::swap(&mut self.current, &mut self.other);
        #[cfg(test)]
        if is_wrong("changed in place") && self.current.which != 0 {
            mem::swap(&mut self.current, &mut self.other);
        }
        #[cfg(test)]
        store_early("open span", self.place.header, guard(self.current.which | len as u32));
        let OpenSpanCopy { bytes, record_at, .. } = &mut self.current;
        if *record_at == 0 {
            bytes[..run_header.len()].copy_from_slice(run_header);
            *record_at = run_header.len();
        }
        bytes[*record_at..][..record.len()].copy_from_slice(record);
        self.commit(len as u32);
        true
    }

    /// Makes this many bytes of the current copy valid.
    #[inline(always)]
    fn commit(&mut self, len: u32) {
        self.len = len;
        self.place.header.store(guard(self.current.which | len), Ordering::Release);
    }

    /// Marks the slot as empty, because the span has ended.
    pub(super) fn clear(&mut self) {
        if self.place.is_mapped() {
            self.place.header.store(0, Ordering::Release);
        }
    }
}

impl Drop for OpenSpanSlot {
    fn drop(&mut self) {
        self.clear();
        if self.place.is_mapped() {
            self.place.owner.take_back_open_span(self.place.number);
        }
    }
}
