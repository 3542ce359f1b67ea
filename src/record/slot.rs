//! Memory that outlives the process: a stretch of the flight recorder's file that one chunk fills.
//!
//! The process may be killed between any two instructions, and what is found then is read by the header alone. So each change
//! is made in an order in which the header never promises what is not there yet:
//!
//! - append: the bytes, then `committed`, which is their length;
//! - begin: `committed` = 0, then what describes the chunk, then `state`;
//! - shrink: `slots`, then those behind are given to others;
//! - note an entry: `spooled` = 0, then where the entry will be, then `spooled`, then the entry is written, then `settled`;
//! - free: `state`, then the slot is given to others.
//!
//! A span that is still open may lie there as well, in an [`OpenSpanSlot`].
//!
//! Without the feature `spool`, and on other systems than Linux, places are uninhabited types: the compiler removes all code for
//! slots.
//!
//! A disk or a program may flip bits of the file. So every word that changes is redundant by itself, in the one store that
//! writes it: numbers are multiples of [`GUARD`] (an AN code, which costs one multiplication), and `state` is a codeword of a
//! Hadamard code. A reader corrects each flipped bit of a word, and recognizes most words with more of them.

#[cfg(not(all(feature = "spool", target_os = "linux")))]
use std::convert::Infallible;
use std::fmt;
use std::hint;
use std::mem;
use std::sync::Arc;
#[cfg(test)]
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::copies::STROKE;
use super::{Chunk, Signal};

/// What the file says about one slot. Words of 32 bits: every machine writes them in one step. Numbers are guarded.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct SlotHeader {
    /// One of [`CODEWORDS`]: free, or in use for a signal.
    pub(crate) state: AtomicU32,
    /// Bytes of whole records.
    pub(crate) committed: AtomicU32,
    /// Bytes of records whose outcome is known: they are not to be sent again.
    pub(crate) settled: AtomicU32,
    /// Which chunk was begun before which.
    pub(crate) order: AtomicU32,
    /// How many slots in a row it has.
    pub(crate) slots: AtomicU32,
    /// Bytes that `checksum` is of, and the CRC32C, which is not guarded: written by the worker when the chunk is complete.
    pub(crate) sealed: AtomicU32,
    pub(crate) checksum: AtomicU32,
    /// Bytes that are settled as soon as an entry of a segment is written, which has their records, and where that will be.
    pub(crate) spooled: AtomicU32,
    pub(crate) segment: AtomicU32,
    pub(crate) offset: AtomicU32,
}

/// Words of which any two differ in 16 bits, as they do from words of zeros and of ones: for [`Signal::ALL`], and [`FREE`].
pub(crate) const CODEWORDS: [u32; 4] = [0x5555_5555, 0x3333_3333, 0x0f0f_0f0f, 0x0000_ffff];
pub(crate) const FREE: u32 = CODEWORDS[Signal::COUNT];

/// Returns the index of the codeword from which at most seven bits have flipped.
pub(crate) fn decode_codeword(word: u32) -> Option<usize> {
    CODEWORDS.iter().position(|codeword| (codeword ^ word).count_ones() < 8)
}

/// Factor of guarded words. No sum or difference of two powers of two below 2^32 is a multiple of it: that makes two flipped
/// bits recognizable, and one correctable.
const GUARD: u32 = 239;
/// Largest number that can be guarded, about 17 MiB.
pub(crate) const MAX_GUARDED: u32 = u32::MAX / GUARD;

/// Returns the word that stands for a number up to [`MAX_GUARDED`]. Words have the order of their numbers.
#[inline(always)]
pub(crate) fn guard(number: u32) -> u32 {
    number.wrapping_mul(GUARD)
}

/// Returns the number of a guarded word in which at most one bit has flipped.
pub(crate) fn unguard(word: u32) -> Option<u32> {
    let repaired = (0..u32::BITS).map(|bit| word ^ 1 << bit);
    [word].into_iter().chain(repaired).find(|word| word % GUARD == 0).map(|word| word / GUARD)
}

/// Values of `is_mapped` beside 0: the memory of slots is that of the file, or the file was lost and nothing is there.
pub(crate) const MAPPED: u32 = 1;
pub(crate) const LOST: u32 = 2;

/// Tags that OTLP does not use where records stand: the fields in front of the records that follow, of their scope and of
/// their resource. Without the latter it is the exporter's.
pub(crate) const SCOPE_TAG: u8 = 0x7a;
pub(crate) const RESOURCE_TAG: u8 = 0x72;

/// Where slots come from and return to.
pub(crate) trait SlotOwner: fmt::Debug + Send + Sync {
    /// Whether slots that are dropped keep their records: the exporter has ended, and the next process is to find them.
    fn keeps_records(&self) -> bool;
    /// Takes back slots that are not in use any more.
    fn take_back(&self, number: usize, slots: usize);
    /// Takes back the place of an open span.
    fn take_back_open_span(&self, number: usize);
}

/// Where a slot lies. The references last as long as the owner: see [`Slot::new`].
#[derive(Debug, Clone)]
pub(crate) struct SlotPlace {
    pub(crate) header: &'static SlotHeader,
    /// [`MAPPED`], [`LOST`], or 0 in a forked child, which does not have the memory of slots.
    pub(crate) is_mapped: &'static AtomicU32,
    pub(crate) owner: Arc<dyn SlotOwner>,
    pub(crate) number: usize,
    #[cfg(not(all(feature = "spool", target_os = "linux")))]
    never: Infallible,
}

impl SlotPlace {
    #[inline(always)]
    fn is_mapped(&self) -> bool {
        self.is_mapped.load(Ordering::Relaxed) == MAPPED
    }

    fn is_lost(&self) -> bool {
        self.is_mapped.load(Ordering::Acquire) == LOST
    }

    fn note_entry(&self, end: u32, segment: u32, offset: u32) {
        if !self.is_mapped() || segment.max(offset) > MAX_GUARDED {
            return;
        }
        self.header.spooled.store(0, Ordering::Release);
        #[cfg(test)]
        if is_wrong("note") {
            self.header.spooled.store(guard(end), Ordering::Release);
        }
        self.header.segment.store(guard(segment), Ordering::Release);
        self.header.offset.store(guard(offset), Ordering::Release);
        self.header.spooled.store(guard(end), Ordering::Release);
    }

    fn settle(&self, end: u32) {
        if self.is_mapped() && !self.owner.keeps_records() {
            self.header.settled.fetch_max(guard(end), Ordering::Release);
        }
    }
}

/// Whether a test wants this in the wrong order, to see that it would notice.
#[cfg(test)]
fn is_wrong(what: &str) -> bool {
    static WRONG: LazyLock<String> =
        LazyLock::new(|| std::env::var("STANDPIPE_WRONG_ORDER").unwrap_or_default());
    *WRONG == what
}

/// A slot that a chunk fills; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    place: SlotPlace,
    data: &'static mut [u8],
    len: usize,
}

impl Slot {
    /// # Safety
    /// As long as the owner of the place lives, all that is referred to stays where it is, unless the process forks, and the
    /// data is referred to by nothing else.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(place: SlotPlace, data: &'static mut [u8]) -> Self {
        Self { place, data, len: 0 }
    }

    /// Begins a chunk.
    pub(crate) fn begin(&mut self, signal: Signal, order: u32, slots: usize) {
        let (header, state) = (self.place.header, CODEWORDS[signal as usize]);
        self.len = 0;
        #[cfg(test)]
        if is_wrong("begin") {
            header.state.store(state, Ordering::Release);
        }
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

    /// The appended bytes, or zeros if [`is_lost`](Self::is_lost). Nothing in a forked child.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.place.is_mapped() || self.place.is_lost() { &self.data[..self.len] } else { &[] }
    }

    /// Returns whether the bytes were lost with the file. A caller that has read the bytes before can rely on them if not.
    pub(super) fn is_lost(&self) -> bool {
        // A read of a page that the file does not have any more marks the recorder as lost.
        self.bytes().iter().step_by(Chunk::SLOT_BYTES).for_each(|byte| _ = hint::black_box(*byte));
        self.place.is_lost()
    }

    /// Whether as many bytes fit behind what is there. Nothing does in a forked child.
    #[inline(always)]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.data.len() - self.len >= bytes && self.place.is_mapped()
    }

    /// Appends bytes for which there is room. They are found after a [`commit`](Self::commit).
    #[inline(always)]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        #[cfg(test)]
        if is_wrong("commit") {
            self.place.header.committed.store(guard(end as u32), Ordering::Release);
        }
        self.data[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// From now on all that was appended survives the process.
    #[inline(always)]
    pub(crate) fn commit(&self) {
        self.place.header.committed.store(guard(self.len as u32), Ordering::Release);
    }

    /// Gives back the slots behind what was appended.
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

    /// Nothing is appended any more: what is there can be proven by its checksum.
    pub(crate) fn seal(&self, checksum: u32) {
        if self.place.is_mapped() {
            self.place.header.checksum.store(checksum, Ordering::Release);
            self.place.header.sealed.store(guard(self.len as u32), Ordering::Release);
        }
    }

    /// Notes where an entry is about to be written: with it, nothing that is here is to be sent from here.
    pub(super) fn note_entry(&self, segment: u32, offset: u32) {
        self.place.note_entry(self.len as u32, segment, offset);
    }

    /// Nothing that is here is to be sent again.
    pub(super) fn settle(&self) {
        self.place.settle(self.len as u32);
    }

    /// What settles the records up to `end` when it is dropped, unless the slot is free by then.
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

/// Settles some records of a slot, when it is dropped. On the thread that frees the slot as well: it cannot be freed meanwhile.
#[derive(Debug)]
pub(crate) struct Settler {
    place: SlotPlace,
    order: u32,
    end: u32,
}

impl Settler {
    /// Returns whether the slot was lost with the file.
    pub(super) fn is_lost(&self) -> bool {
        self.place.is_lost()
    }

    /// As [`Slot::note_entry`], of these records and all before them.
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

    /// Whether the slot has still what it had.
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

/// How many bytes of an open span survive the process, with its scope.
pub(crate) const OPEN_SPAN_BYTES: usize = 1020;
/// In the guarded word in front of an open span's copies: which of them counts. The lower bits are its length, or 0 if no span
/// is open.
pub(crate) const SECOND_COPY: u32 = 1 << 16;

/// What the file has of one open span. Bytes that were written once never change while they count: a change of them makes
/// the other copy.
#[repr(C)]
pub(crate) struct OpenSpanBytes {
    pub(crate) committed: AtomicU32,
    unused: u32,
    pub(crate) copies: [[u8; OPEN_SPAN_BYTES]; 2],
}

/// Where a span is found if the process dies before the span ends.
#[derive(Debug)]
pub(crate) struct OpenSpanSlot {
    place: OpenSpanPlace,
    current: OpenSpanCopy,
    other: OpenSpanCopy,
    /// Bytes of the current copy.
    len: u32,
}

#[derive(Debug)]
struct OpenSpanCopy {
    bytes: &'static mut [u8; OPEN_SPAN_BYTES],
    /// [`SECOND_COPY`] or 0.
    which: u32,
    /// Where the record begins; 0 if the header in front of it is not there yet.
    record_at: usize,
}

/// The references last as long as the owner: see [`OpenSpanSlot::new`].
#[derive(Debug)]
pub(crate) struct OpenSpanPlace {
    pub(crate) committed: &'static AtomicU32,
    /// As in [`SlotPlace`].
    pub(crate) is_mapped: &'static AtomicU32,
    pub(crate) owner: Arc<dyn SlotOwner>,
    pub(crate) number: usize,
    #[cfg(not(all(feature = "spool", target_os = "linux")))]
    never: Infallible,
}

impl OpenSpanPlace {
    #[inline(always)]
    fn is_mapped(&self) -> bool {
        self.is_mapped.load(Ordering::Relaxed) == MAPPED
    }
}

impl OpenSpanSlot {
    /// # Safety
    /// As for [`Slot::new`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(place: OpenSpanPlace, copies: &'static mut [[u8; OPEN_SPAN_BYTES]; 2]) -> Self {
        let [first, second] = copies;
        let copy = |bytes, which| OpenSpanCopy { bytes, which, record_at: 0 };
        Self { place, current: copy(first, 0), other: copy(second, SECOND_COPY), len: 0 }
    }

    /// The header in front of the record is another one from now on.
    pub(super) fn forget_header(&mut self) {
        (self.current.record_at, self.other.record_at) = (0, 0);
    }

    /// Appends the first `count` of these bytes to the copy that counts. The others are written as well, behind what counts:
    /// so it takes neither a loop nor a call. False if there is no room.
    #[inline(always)]
    pub(super) fn append(&mut self, bytes: &[u8; STROKE], count: u32) -> bool {
        let at = self.len as usize;
        let Some(to) = self.current.bytes.get_mut(at..at + STROKE).filter(|_| self.place.is_mapped()) else {
            return false;
        };
        #[cfg(test)]
        if is_wrong("open span") {
            self.place.committed.store(guard(self.current.which | (self.len + count)), Ordering::Release);
        }
        to.copy_from_slice(bytes);
        self.commit(self.len + count);
        true
    }

    /// Writes all of a record to the copy that does not count, and then lets that one count; false if there is no room.
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
        if is_wrong("open span") {
            self.place.committed.store(guard(self.current.which | len as u32), Ordering::Release);
        }
        let OpenSpanCopy { bytes, record_at, .. } = &mut self.current;
        if *record_at == 0 {
            bytes[..run_header.len()].copy_from_slice(run_header);
            *record_at = run_header.len();
        }
        bytes[*record_at..][..record.len()].copy_from_slice(record);
        self.commit(len as u32);
        true
    }

    /// From now on as many bytes of the current copy count.
    #[inline(always)]
    fn commit(&mut self, len: u32) {
        self.len = len;
        self.place.committed.store(guard(self.current.which | len), Ordering::Release);
    }

    /// The span has ended.
    pub(super) fn clear(&mut self) {
        if self.place.is_mapped() {
            self.place.committed.store(0, Ordering::Release);
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
