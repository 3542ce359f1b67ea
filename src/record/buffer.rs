//! Where are the bytes of a record? In a buffer that grows, leaves space for the frame in front, and is reused.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

use super::wire::{decode_varint, encoded_len_varint};

/// Field 2, length-delimited: `ScopeSpans.spans`, and the records of the other signals alike.
const FRAME_TAG: u8 = 0x12;
/// The frame is written last, right-aligned into this: a tag and at most five bytes of length.
const HEADROOM: usize = 6;

/// A place that no storage has.
const NOT_COPIED: u32 = u32::MAX;

/// Bytes in wire format. The storage is always initialised, so that a write is one bounds check
/// and a copy, and it is kept when the record is done.
#[derive(Debug)]
pub(crate) struct Buffer {
    storage: Vec<u8>,
    len: usize,
    /// A record that outgrows this can never be sent: it stops growing and is dropped at its end.
    max_len: usize,
    outgrown: bool,
    /// Up to here the bytes are as they were when they were copied; [`NOT_COPIED`] if some have changed or moved since.
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
    /// Where the first byte of a record goes.
    pub(crate) const START: usize = HEADROOM;

    /// Sets how many bytes a record may have.
    pub(crate) fn limit(&mut self, max_len: usize) {
        self.max_len = max_len.min(u32::MAX as usize);
    }

    /// Empties the buffer for a new record.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.len = HEADROOM;
        self.outgrown = false;
    }

    /// Where the next byte goes.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.storage.len()
    }

    /// What was written from here on; nothing, if there was no room for that much.
    pub(crate) fn bytes(&self, from: usize) -> &[u8] {
        self.storage.get(from..self.len).unwrap_or_default()
    }

    /// The storage from here on, as far as it goes: also what was not written yet.
    #[inline]
    pub(crate) fn storage_from<const COUNT: usize>(&self, from: usize) -> Option<&[u8; COUNT]> {
        self.storage.get(from..)?.first_chunk()
    }

    /// Bytes that were written, to be written over; `None` if there was no room for them.
    #[inline]
    pub(crate) fn written<const COUNT: usize>(&mut self, from: usize) -> Option<&mut [u8; COUNT]> {
        if self.outgrown {
            return None;
        }
        debug_assert!(from + COUNT <= self.len, "{from} + {COUNT} of {}", self.len);
        self.copied_to = NOT_COPIED;
        self.storage.get_mut(from..)?.first_chunk_mut()
    }

    /// How many bytes are new since the last copy, in front of what follows them in the storage; `None` if they are more than
    /// `ROOM`, or not all that has changed.
    #[inline(always)]
    pub(super) fn new_bytes<const ROOM: usize>(&self) -> Option<(&[u8; ROOM], u32)> {
        let from = self.copied_to as usize;
        let bytes = self.storage.get(from..from.wrapping_add(ROOM))?.first_chunk()?;
        let count = (self.len as u32).wrapping_sub(self.copied_to);
        (count as usize <= ROOM).then_some((bytes, count))
    }

    /// Whether the record has outgrown its limit. Then a part of it may be missing.
    pub(super) fn has_outgrown(&self) -> bool {
        self.outgrown
    }

    /// Whether there is a copy of what is here now.
    #[inline(always)]
    pub(super) fn set_copied(&mut self, is_copied: bool) {
        self.copied_to = if is_copied { self.len as u32 } else { NOT_COPIED };
    }

    /// Appends `count` bytes and gives a writer over exactly them; `None` once the record has outgrown its limit.
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

    /// As [`claim`](Self::claim), if the storage has the room already.
    #[inline]
    pub(crate) fn claim_ready(&mut self, count: usize) -> Option<Writer<'_>> {
        let rest = self.storage.get_mut(self.len..)?.get_mut(..count)?;
        self.len += count;
        Some(Writer { rest })
    }

    #[cold]
    fn grow(&mut self, needed: usize) -> bool {
        if needed > self.max_len {
            (self.outgrown, self.copied_to) = (true, NOT_COPIED);
            return false;
        }
        // doubling while small; a large value gets what it needs, not twice that
        let roomy = if needed < 64 << 10 { needed.next_power_of_two().max(512) } else { needed + needed / 8 };
        self.storage.resize(roomy.min(self.max_len.max(needed)), 0);
        true
    }

    /// Starts a nested message whose length is not known yet.
    #[inline]
    pub(crate) fn open(&mut self, tag: u8) -> Option<Nested> {
        let mut out = self.claim(2)?;
        out.byte(tag);
        out.byte(0);
        Some(Nested { body: self.len })
    }

    /// Ends a nested message: its length goes in front, the body moves if that needs more than a byte.
    pub(crate) fn close(&mut self, nested: &Nested) {
        let body = nested.body;
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

    /// The position of the first field from `start` on for which `is_it` is true. All of them are length-delimited and have
    /// a tag of one byte.
    pub(crate) fn find_field(&self, start: usize, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let mut at = start;
        // Nearly all fields have a length of one byte.
        while let [_, len @ 0..0x80, ..] = self.bytes(at) {
            let field = self.bytes(at).get(..usize::from(*len) + 2)?;
            if is_it(field) {
                return Some(at);
            }
            at += field.len();
        }
        for field in frames(self.bytes(at)) {
            if is_it(field) {
                return Some(at);
            }
            at += field.len();
        }
        None
    }

    /// Takes the length-delimited field at `at` (of a one-byte tag) out; gives how many bytes that was.
    pub(crate) fn remove_field(&mut self, at: usize) -> usize {
        let Some(count) = first_field_len(self.bytes(at)) else { return 0 };
        self.storage.copy_within(at + count..self.len, at);
        self.copied_to = NOT_COPIED;
        self.len -= count;
        count
    }

    /// Gives the length-delimited field at `at` (of a one-byte tag) another value, in its place: the bytes behind it are moved
    /// once. Returns where the field ends. An empty value takes the field out.
    pub(crate) fn replace_field(&mut self, at: usize, value: &[u8]) -> Option<usize> {
        if value.is_empty() {
            self.remove_field(at);
            return None;
        }
        let (end, new_len) = (self.len, field_len(value.len()));
        let old_len = first_field_len(self.bytes(at))?;
        if new_len > old_len {
            self.claim(new_len - old_len)?;
        }
        self.copied_to = NOT_COPIED;
        self.len = end - old_len + new_len;
        if old_len != new_len {
            self.storage.copy_within(at + old_len..end, at + new_len);
        }
        let tag = self.storage[at];
        Writer { rest: &mut self.storage[at..at + new_len] }.field(tag, value);
        Some(at + new_len)
    }

    /// The finished record as a field of its scope: tag, length, bytes; `None` if it has outgrown its limit.
    #[inline]
    pub(crate) fn framed(&mut self) -> Option<&[u8]> {
        if self.outgrown {
            return None;
        }
        // nearly every record has one or two bytes of length
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

/// Fills a claimed stretch of bytes from front to back.
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

    /// As [`put`](Self::put), for what is short: without a call, so that little must be remembered across it.
    #[inline(always)]
    pub(crate) fn put_short(&mut self, bytes: &[u8]) {
        let (head, tail) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        copy_short(bytes, head);
        self.rest = tail;
    }

    /// The next bytes, to be filled by their places.
    #[inline]
    pub(crate) fn chunk<const COUNT: usize>(&mut self) -> &'a mut [u8; COUNT] {
        let (head, tail) = std::mem::take(&mut self.rest).split_first_chunk_mut().expect("they were claimed");
        self.rest = tail;
        head
    }

    /// How many bytes are still to be filled.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.rest.len()
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

    #[inline]
    pub(crate) fn fixed32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// A string or bytes field with a one-byte tag.
    #[inline]
    pub(crate) fn field(&mut self, tag: u8, bytes: &[u8]) {
        self.byte(tag);
        self.varint(bytes.len() as u64);
        self.put(bytes);
    }
}

/// Copies in two strokes, from both ends, which may overlap: no loop and no call.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    // in the order of how often they come
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

/// Copies the first and the last bytes.
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

/// How many bytes a length-delimited field with a one-byte tag takes.
#[inline]
pub(crate) fn field_len(count: usize) -> usize {
    1 + encoded_len_varint(count as u64) + count
}

/// The framed records in `bytes`, one after the other, each with its frame; a frame that is cut short ends them.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (frame, rest) = bytes.split_at_checked(first_field_len(bytes)?)?;
        bytes = rest;
        Some(frame)
    })
}

/// Bytes of the length-delimited field with a one-byte tag at the front, by its length.
fn first_field_len(bytes: &[u8]) -> Option<usize> {
    let mut behind = bytes.get(1..)?;
    let body_len = usize::try_from(decode_varint(&mut behind)?).ok()?;
    (bytes.len() - behind.len()).checked_add(body_len)
}

/// What is larger than this is not worth keeping.
const MOST_BYTES: usize = 16 << 10;

/// Storage that a thread keeps for its next records: the last one used, and up to `MOST` others. Boxed, as records are
/// moved about while they are open.
pub(crate) struct Pool<T, const MOST: usize> {
    /// The one that was used last, and is mostly the only one needed.
    last: Cell<Option<Box<T>>>,
    others: RefCell<Vec<Box<T>>>,
}

impl<T, const MOST: usize> Pool<T, MOST> {
    pub(crate) const fn new() -> Self {
        Self { last: Cell::new(None), others: RefCell::new(Vec::new()) }
    }

    /// `None` if there is none, or the thread is at its end.
    #[inline]
    pub(crate) fn take(pool: &'static LocalKey<Self>) -> Option<Box<T>> {
        match pool.try_with(|pool| pool.last.take()) {
            Ok(None) => Self::take_other(pool),
            taken => taken.ok().flatten(),
        }
    }

    #[inline(never)]
    fn take_other(pool: &'static LocalKey<Self>) -> Option<Box<T>> {
        pool.try_with(|pool| pool.others.try_borrow_mut().ok()?.pop()).ok().flatten()
    }

    /// Keeps storage of this many bytes, unless it is too large or there is enough.
    #[inline]
    pub(crate) fn keep(pool: &'static LocalKey<Self>, storage: Box<T>, bytes: usize) {
        if bytes > MOST_BYTES {
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
            if others.len() < MOST {
                others.push(storage);
            }
        }
    }
}

#[cfg(test)]
mod tests;
