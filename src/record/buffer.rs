//! The growing buffer in which a record is encoded, with space for the frame in front. Threads reuse buffers.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

use super::wire::{decode_varint, encoded_len_varint};

/// Tag of `ScopeSpans.spans` (field 2, length-delimited). Records of the other signals have the same tag.
const FRAME_TAG: u8 = 0x12;
/// Space in front of the record for the frame: a tag and at most five bytes of length. The frame is written last,
/// right-aligned.
const HEADROOM: usize = 6;

/// Value of `copied_to` if the copy is outdated. No storage is that large.
const NOT_COPIED: u32 = u32::MAX;

/// Bytes in wire format. The storage is always initialized, so that a write is one bounds check and a copy. It is kept
/// for the next record.
pub(crate) struct Buffer {
    storage: Vec<u8>,
    len: usize,
    /// Maximum of `len`. A longer record can never be sent: its growth stops, and it is dropped when it ends.
    max_len: usize,
    outgrown: bool,
    /// End of the bytes that equal the copy; [`NOT_COPIED`] if bytes before it have changed or moved since.
    copied_to: u32,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            storage: Vec::new(),
            len: HEADROOM,
            max_len: usize::MAX,
            outgrown: false,
            copied_to: NOT_COPIED,
        }
    }
}

impl Buffer {
    /// Position of the first byte of a record.
    pub(crate) const START: usize = HEADROOM;

    /// Sets the maximum size of a record.
    pub(crate) fn limit(&mut self, max_len: usize) {
        self.max_len = max_len.min(u32::MAX as usize);
    }

    /// Empties the buffer for a new record.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.len = HEADROOM;
        self.outgrown = false;
    }

    /// Returns the position of the next byte.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.storage.len()
    }

    /// Returns the bytes written from this position on; empty if the record outgrew its limit before this position.
    pub(crate) fn bytes(&self, from: usize) -> &[u8] {
        self.storage.get(from..self.len).unwrap_or_default()
    }

    /// Returns `COUNT` bytes from this position on, including unwritten ones; `None` if the storage ends earlier.
    #[inline]
    pub(crate) fn storage_from<const COUNT: usize>(&self, from: usize) -> Option<&[u8; COUNT]> {
        self.storage.get(from..)?.first_chunk()
    }

    /// Returns written bytes, to be overwritten; `None` if the record has outgrown its limit.
    #[inline]
    pub(crate) fn written<const COUNT: usize>(&mut self, from: usize) -> Option<&mut [u8; COUNT]> {
        if self.outgrown {
            return None;
        }
        debug_assert!(from + COUNT <= self.len, "{from} + {COUNT} of {}", self.len);
        self.copied_to = NOT_COPIED;
        self.storage.get_mut(from..)?.first_chunk_mut()
    }

    /// Returns the bytes that are new since the last copy, and their count. In the array, other bytes may follow them.
    /// `None` if more than `ROOM` bytes are new, earlier bytes have changed, or the storage ends within the array.
    #[inline(always)]
    pub(super) fn new_bytes<const ROOM: usize>(&self) -> Option<(&[u8; ROOM], u32)> {
        let from = self.copied_to as usize;
        // With `NOT_COPIED`, the range is outside of the storage. On 32 bits its end wraps around, which also yields
        // `None`.
        let bytes = self.storage.get(from..from.wrapping_add(ROOM))?.first_chunk()?;
        let count = (self.len as u32).wrapping_sub(self.copied_to);
        (count as usize <= ROOM).then_some((bytes, count))
    }

    /// Returns whether the record has outgrown its limit. A part of it may then be missing.
    pub(super) fn has_outgrown(&self) -> bool {
        self.outgrown
    }

    /// Notes whether the current bytes have been copied.
    #[inline(always)]
    pub(super) fn set_copied(&mut self, is_copied: bool) {
        self.copied_to = if is_copied { self.len as u32 } else { NOT_COPIED };
    }

    /// Appends `count` bytes and returns a writer over exactly these; `None` once the record has outgrown its limit.
    #[inline]
    pub(crate) fn claim(&mut self, count: usize) -> Option<Writer<'_>> {
        let start = self.len;
        let end = start + count;
        if end > self.storage.len() && !self.grow(end) {
            return None;
        }
        self.len = end;
        Some(Writer { rest: &mut self.storage[start..end] })
    }

    /// Like [`claim`](Self::claim), but returns `None` if the storage would have to grow.
    #[inline]
    pub(crate) fn claim_ready(&mut self, count: usize) -> Option<Writer<'_>> {
        let rest = self.storage.get_mut(self.len..)?.get_mut(..count)?;
        self.len += count;
        Some(Writer { rest })
    }

    /// Appends `count` bytes and returns a window of constant size that begins with them; `None` if the storage would
    /// have to grow.
    #[inline(always)]
    pub(super) fn append_window<const WINDOW: usize>(&mut self, count: usize) -> Option<&mut [u8; WINDOW]> {
        // No record is longer than `u32::MAX`. The conversion shows the compiler that the addition does not overflow.
        let start = self.len as u32 as usize;
        let window = self.storage.get_mut(start..start.wrapping_add(WINDOW))?.first_chunk_mut()?;
        self.len = start + count;
        Some(window)
    }

    /// Grows the storage, if the limit permits it, so that there is a window of `count` bytes.
    pub(super) fn make_window(&mut self, count: usize) {
        let needed = self.len + count;
        if (self.storage.len()..self.max_len).contains(&needed) {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) -> bool {
        if needed > self.max_len {
            (self.outgrown, self.copied_to) = (true, NOT_COPIED);
            return false;
        }
        // Small buffers double. A large buffer gets an eighth more than is needed.
        let roomy = if needed < 64 << 10 { needed.next_power_of_two().max(512) } else { needed + needed / 8 };
        self.storage.resize(roomy.min(self.max_len.max(needed)), 0);
        true
    }

    /// Starts a nested message whose length is not known yet. One byte is reserved for the length.
    #[inline]
    pub(crate) fn open(&mut self, tag: u8) -> Option<Nested> {
        let mut out = self.claim(2)?;
        out.byte(tag);
        out.byte(0);
        Some(Nested { body: self.len })
    }

    /// Ends a nested message: writes its length in front, and moves the body if the length needs more than one byte.
    pub(crate) fn close(&mut self, nested: &Nested) {
        let body = nested.body;
        // The length in front of the body is written below, so a copy that includes it becomes outdated.
        if body <= self.copied_to as usize {
            self.copied_to = NOT_COPIED;
        }
        let count = self.len - body;
        if count < 0x80 {
            self.storage[body - 1] = count as u8;
            return;
        }
        let extra = encoded_len_varint(count as u64) - 1;
        if self.claim(extra).is_none() {
            return;
        }
        self.storage.copy_within(body..body + count, body + extra);
        Writer { rest: &mut self.storage[body - 1..body + extra] }.varint(count as u64);
    }

    /// Returns the position of the first field from `start` on for which `is_it` is true. All of these fields must be
    /// length-delimited with a one-byte tag.
    pub(crate) fn find_field(&self, start: usize, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (mut at, mut fields) = (start, self.bytes(start));
        while let Some((field, rest)) = fields.split_at_checked(first_field_len(fields)?) {
            if is_it(field) {
                return Some(at);
            }
            (at, fields) = (at + field.len(), rest);
        }
        None
    }

    /// Removes the length-delimited field at `at`, which has a one-byte tag. Returns its size.
    pub(crate) fn remove_field(&mut self, at: usize) -> usize {
        let Some(count) = first_field_len(self.bytes(at)) else { return 0 };
        self.storage.copy_within(at + count..self.len, at);
        self.copied_to = NOT_COPIED;
        self.len -= count;
        count
    }

    /// Replaces the value of the length-delimited field at `at`, which has a one-byte tag; an empty value removes
    /// the field. Returns the end of the field, or `None` if it was removed or the record outgrows its limit.
    pub(crate) fn replace_field(&mut self, at: usize, value: &[u8]) -> Option<usize> {
        if value.is_empty() {
            self.remove_field(at);
            return None;
        }
        let (end, new_len) = (self.len, field_len(value.len()));
        let old_len = first_field_len(self.bytes(at))?;
        // `claim` only grows the storage here; the length is set below.
        if new_len > old_len {
            self.claim(new_len - old_len)?;
        }
        self.copied_to = NOT_COPIED;
        self.len = end - old_len + new_len;
        if old_len != new_len && at + old_len < end {
            self.storage.copy_within(at + old_len..end, at + new_len);
        }
        let tag = self.storage[at];
        Writer { rest: &mut self.storage[at..at + new_len] }.field(tag, value);
        Some(at + new_len)
    }

    /// Returns the finished record as a field of its scope (tag, length, bytes); `None` if it has outgrown its limit.
    #[inline]
    pub(crate) fn framed(&mut self) -> Option<&[u8]> {
        if self.outgrown {
            return None;
        }
        // The length of nearly every record takes one or two bytes.
        let (len, count) = (self.len, self.len - HEADROOM);
        if count >= 0x4000 || self.storage.is_empty() {
            return Some(self.framed_by_any_length());
        }
        let frame = self.storage.get_mut(..len)?;
        let headroom = frame.first_chunk_mut::<HEADROOM>()?;
        let start = if count < 0x80 {
            headroom[HEADROOM - 2..].copy_from_slice(&[FRAME_TAG, count as u8]);
            HEADROOM - 2
        } else {
            let length = [count as u8 | 0x80, (count >> 7) as u8];
            headroom[HEADROOM - 3..].copy_from_slice(&[FRAME_TAG, length[0], length[1]]);
            HEADROOM - 3
        };
        Some(&frame[start..])
    }

    #[cold]
    fn framed_by_any_length(&mut self) -> &[u8] {
        if self.storage.is_empty() {
            self.grow(HEADROOM);
        }
        let count = (self.len - HEADROOM) as u64;
        let start = HEADROOM - 1 - encoded_len_varint(count);
        let mut frame = Writer { rest: &mut self.storage[start..HEADROOM] };
        frame.byte(FRAME_TAG);
        frame.varint(count);
        &self.storage[start..self.len]
    }
}

/// An open nested message, see [`Buffer::open`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nested {
    body: usize,
}

/// Fills claimed bytes from front to back.
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    pub(crate) fn over(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.put(&[byte]);
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let (head, tail) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.rest = tail;
    }

    /// Like [`put`](Self::put), for short slices: copies inline, because a call would have to save registers.
    #[inline(always)]
    pub(crate) fn put_short(&mut self, bytes: &[u8]) {
        let (head, tail) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        copy_short(bytes, head);
        self.rest = tail;
    }

    /// Returns the next bytes as an array, to be filled by index.
    #[inline]
    pub(crate) fn chunk<const COUNT: usize>(&mut self) -> &'a mut [u8; COUNT] {
        let (head, tail) = std::mem::take(&mut self.rest).split_first_chunk_mut().expect("claimed bytes");
        self.rest = tail;
        head
    }

    #[inline]
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline]
    pub(crate) fn fixed64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Writes a string or bytes field with a one-byte tag.
    #[inline]
    pub(crate) fn field(&mut self, tag: u8, bytes: &[u8]) {
        self.byte(tag);
        self.varint(bytes.len() as u64);
        self.put(bytes);
    }
}

/// Copies a short slice as two blocks, one from each end, which may overlap. Needs no loop and no call.
#[inline(always)]
pub(super) fn copy_short(from: &[u8], to: &mut [u8]) {
    // The most frequent lengths are tested first.
    let len = from.len();
    if len >= 16 {
        if len < 32 {
            copy_ends::<16>(from, to);
        } else if len < 64 {
            copy_ends::<32>(from, to);
        } else if len < 128 {
            copy_ends::<64>(from, to);
        } else {
            to.copy_from_slice(from);
        }
    } else if len >= 8 {
        copy_ends::<8>(from, to);
    } else if len >= 4 {
        copy_ends::<4>(from, to);
    } else if len >= 2 {
        copy_ends::<2>(from, to);
    } else {
        copy_ends::<1>(from, to);
    }
}

/// Copies the first and the last `COUNT` bytes.
#[inline(always)]
fn copy_ends<const COUNT: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<COUNT>(), from.last_chunk::<COUNT>()) {
        if let Some(to_first) = to.first_chunk_mut() {
            *to_first = *first;
        }
        if let Some(to_last) = to.last_chunk_mut() {
            *to_last = *last;
        }
    }
}

/// Returns the size of a length-delimited field with a one-byte tag.
#[inline]
pub(crate) fn field_len(count: usize) -> usize {
    1 + encoded_len_varint(count as u64) + count
}

/// Returns the framed records in `bytes`, each with its frame. A truncated frame ends the iteration.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (frame, rest) = bytes.split_at_checked(first_field_len(bytes)?)?;
        bytes = rest;
        Some(frame)
    })
}

/// Returns the size of the first field, which is length-delimited and has a one-byte tag.
#[inline]
fn first_field_len(bytes: &[u8]) -> Option<usize> {
    // The length of nearly every field takes one byte.
    if let [_, len @ 0..0x80, ..] = bytes {
        return Some(2 + usize::from(*len));
    }
    let mut behind = bytes.get(1..)?;
    let body_len = usize::try_from(decode_varint(&mut behind)?).ok()?;
    (bytes.len() - behind.len()).checked_add(body_len)
}

/// Maximum size of pooled storage. Larger storage is freed, so that one large record does not pin memory.
const MAX_POOLED_BYTES: usize = 16 << 10;

/// Storage that a thread keeps for its next records: the storage used last, and up to `MAX` others. Boxed, so that
/// moving an open record moves only a pointer.
pub(crate) struct Pool<T, const MAX: usize> {
    /// Usually no other storage is needed.
    last: Cell<Option<Box<T>>>,
    others: RefCell<Vec<Box<T>>>,
}

impl<T, const MAX: usize> Pool<T, MAX> {
    pub(crate) const fn new() -> Self {
        Self { last: Cell::new(None), others: RefCell::new(Vec::new()) }
    }

    /// Takes storage out of the pool; `None` if the pool is empty or the thread is exiting.
    #[inline(always)]
    pub(crate) fn take(pool: &'static LocalKey<Self>) -> Option<Box<T>> {
        match pool.try_with(|pool| pool.last.take()) {
            Ok(None) => Self::take_other(pool),
            taken => taken.ok().flatten(),
        }
    }

    #[inline(never)]
    fn take_other(pool: &'static LocalKey<Self>) -> Option<Box<T>> {
        // The borrow fails if an instrumented allocator emits a record while the list grows.
        pool.try_with(|pool| pool.others.try_borrow_mut().ok()?.pop()).ok().flatten()
    }

    /// Keeps storage of this many bytes, unless it is too large or the pool is full.
    #[inline]
    pub(crate) fn keep(pool: &'static LocalKey<Self>, storage: Box<T>, bytes: usize) {
        if bytes > MAX_POOLED_BYTES {
            return;
        }
        let _ = pool.try_with(|pool| {
            if let Some(other) = pool.last.replace(Some(storage)) {
                pool.keep_other(other);
            }
        });
    }

    #[inline(never)]
    fn keep_other(&self, storage: Box<T>) {
        if let Ok(mut others) = self.others.try_borrow_mut() {
            if others.len() < MAX {
                others.push(storage);
            }
        }
    }
}

#[cfg(test)]
mod tests;
