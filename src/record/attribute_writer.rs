//! Writes attributes into the bytes of a record as they are set, each key once.
//!
//! Most attributes take the fast path, [`put_short`](AttributeWriter::put_short): the [`KeyFilter`] (a Bloom filter)
//! shows that the key is new, and all lengths fit into one byte. If the key may not be new, the writer searches the
//! existing fields. If the key is set again, the old field is removed and the new one is appended.

#[cfg(any(feature = "log", feature = "tracing"))]
mod encoded;

#[cfg(any(feature = "log", feature = "tracing"))]
pub(crate) use encoded::EncodedAttributes;
#[cfg(feature = "tracing")]
pub(crate) use encoded::EncodedKey;

use super::Value;
use super::attribute::{
    Attribute, SHORT, ShortValue, SmallInt, is_short_with_key, key_of_field, key_of_short, short_value_len,
    write_short,
};
use super::buffer::{Buffer, Nested, field_len, frames};
use super::key_filter::{KeyBit, KeyFilter, hash};
use super::wire::encoded_len_varint;

/// Maximum number of attributes that are searched field by field. For more, the hashes of their keys are kept.
const MAX_SEARCHED: u32 = 32;

/// The bytes of a record, and the state needed to set attributes: the last value of a key wins.
#[derive(Default)]
pub(super) struct AttributeWriter {
    pub(super) buffer: Buffer,
    /// Fields of the message that is being written: the open sub-message, or the record.
    fields: Fields,
    /// Hashes of the keys in `fields`, up to `hashed_to`. Filled only when a search needs them.
    hashes: Vec<u32>,
    /// Maximum number of characters of a string value; `usize::MAX` without a limit.
    value_length: usize,
    pub(super) dropped: u32,
    pub(super) sub_message: Option<SubMessage>,
    /// Flags [`CLOSE`], [`COPY`] and [`CUT`]: additional work when an attribute of the record is set. One test of this
    /// byte covers all.
    pub(super) tasks: u8,
    /// True while only the bytes and the seen keys have changed since [`begin`](Self::begin). The next record then
    /// resets nothing else.
    pub(super) is_reset: bool,
}

/// Task: close the open sub-message.
const CLOSE: u8 = 1;
/// Task: copy the record to the slot in which it survives the process.
const COPY: u8 = 2;
/// Task: cut values that are too long. Set if the limit may concern values that are written on the fast path.
const CUT: u8 = 4;

/// The searchable fields of a message, and the number of attributes among them.
///
/// The fast path does not count attributes: each sets a new bit in `seen`, so the number of bits is the count. An
/// attribute whose bit is already set takes the slow path, which counts it in `more`. The fast path stays open while it
/// cannot exceed the limit by setting all bits (`KeyBit::COUNT + more <= max`). Once it is closed, `counted` replaces
/// `seen` as the filter, and all bits of `seen` are set, so that every attribute takes the slow path and is counted.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    seen: KeyFilter,
    /// Number of attributes minus the number of bits in `seen`, wrapping.
    more: u32,
    /// The filter in use once all bits of `seen` are set. Before that, all bits of `counted` are set, so that it
    /// excludes no key.
    counted: KeyFilter,
    /// Maximum number of attributes.
    max: u32,
    /// Start of the searchable fields: from here on, all are length-delimited with a one-byte tag.
    start: u32,
    /// End of the fields whose keys are in the list of hashes.
    hashed_to: u32,
    /// Tag of an attribute.
    tag: u8,
}

impl Fields {
    #[inline]
    fn begin(&mut self, tag: u8, max: u32, start: usize) {
        let start = start as u32;
        let (seen, counted) = (KeyFilter::NONE, KeyFilter::ALL);
        *self = Self { seen, more: 0, counted, max, start, hashed_to: start, tag };
        // There are more bits than permitted attributes, so the fast path could exceed the limit: it starts closed.
        if max < KeyBit::COUNT {
            *self = self.counted();
        }
    }

    /// Closes the fast path: from now on every attribute is counted, because the next one might exceed the limit.
    #[cold]
    fn counted(&self) -> Self {
        let more = self.count().wrapping_sub(KeyBit::COUNT);
        Self { seen: KeyFilter::ALL, more, counted: self.seen, ..*self }
    }

    fn count(&self) -> u32 {
        self.seen.count().wrapping_add(self.more)
    }

    /// Returns whether the key may be set already; false if it is certainly new.
    fn may_have(&self, key: &str, bit: KeyBit) -> bool {
        self.seen.has(key, bit) && self.counted.has(key, bit)
    }

    /// Counts another attribute.
    fn add(&mut self, key: &str, bit: KeyBit) {
        if !self.seen.has(key, bit) {
            return self.seen.add(key, bit);
        }
        self.more = self.more.wrapping_add(1);
        if self.seen == KeyFilter::ALL {
            self.counted.add(key, bit);
        } else if KeyBit::COUNT + self.more > self.max {
            *self = self.counted();
        }
    }
}

/// An open message inside the record, ended by [`AttributeWriter::close_sub_message`].
#[derive(Debug, Clone, Copy)]
pub(super) struct SubMessage {
    nested: Nested,
    dropped_tag: u8,
    pub(super) dropped: u32,
    /// Fields of the record that contains the sub-message.
    outer: Fields,
}

impl AttributeWriter {
    /// Sets the limits of the next records: the bytes of each, and the characters of each string value.
    pub(super) fn limit(&mut self, max_bytes: usize, value_length: Option<usize>) {
        self.buffer.limit(max_bytes);
        self.value_length = value_length.unwrap_or(usize::MAX);
        self.is_reset = false;
    }

    /// Starts a new record in the old storage, with at most `max` attributes under this tag. The record begins with
    /// `fixed_len` bytes that are not length-delimited fields.
    #[inline]
    pub(super) fn begin(&mut self, tag: u8, max: u32, fixed_len: usize) {
        self.buffer.reset();
        self.fields.begin(tag, max, Buffer::START + fixed_len);
        self.dropped = 0;
        self.sub_message = None;
        self.tasks = if self.value_length < SHORT { CUT } else { 0 };
        // With a smaller limit, each record starts with a closed fast path, which only `begin` sets up.
        self.is_reset = max >= KeyBit::COUNT;
    }

    /// Like [`begin`](Self::begin) with the same arguments as before. Requires `is_reset`; resets only bytes and keys.
    #[inline(always)]
    pub(super) fn begin_again(&mut self) {
        self.buffer.reset();
        self.fields.seen = KeyFilter::NONE;
    }

    #[inline(always)]
    pub(super) fn is_copied(&self) -> bool {
        self.tasks & COPY != 0
    }

    /// Sets whether changes are copied to a slot.
    #[inline(always)]
    pub(super) fn set_copied(&mut self, is_copied: bool) {
        self.tasks = self.tasks & !COPY | if is_copied { COPY } else { 0 };
    }

    /// Sets an attribute of the open sub-message, or of the record if no sub-message is open.
    // Where this is inlined, the kind of the value is known, and the bit of a literal key is a constant.
    #[inline(always)]
    pub(super) fn put(&mut self, key: &str, value: Value<'_>) {
        self.put_hashed(key, KeyBit::of(key.as_bytes()), value);
    }

    #[inline(always)]
    pub(super) fn put_hashed(&mut self, key: &str, bit: KeyBit, value: Value<'_>) {
        match value {
            Value::Str(text) => self.put_text(key, bit, text),
            Value::Int(number) => self.put_int(key, bit, number),
            Value::Float(number) => self.put_float(key, bit, number),
            Value::Bool(boolean) => self.put_bool(key, bit, boolean),
            other => self.put_any(key, bit, other),
        }
    }

    /// Sets an attribute like [`put_hashed`](Self::put_hashed), with the fast path inlined at the call site. The record
    /// must have no `tasks`, so that no sub-message is open. `tag` must be the tag of the record's attributes.
    ///
    /// With a literal key the compiler folds all lengths and copies the key by constant stores.
    #[inline(always)]
    pub(super) fn put_inlined(&mut self, tag: u8, key: &str, value: Value<'_>) {
        let bit = KeyBit::of(key.as_bytes());
        match value {
            Value::Str(text) => {
                if !self.put_short(tag, key, bit, text) {
                    self.put_long_text(key, bit, text);
                }
            }
            Value::Int(number @ 0..0x4000) => self.put_small_int(tag, key, bit, number),
            Value::Bool(boolean) => {
                if !self.put_short(tag, key, bit, boolean) {
                    self.put_long_bool(key, bit, boolean);
                }
            }
            other => self.put_hashed(key, bit, other),
        }
    }

    #[inline(never)]
    pub(super) fn put_text(&mut self, key: &str, bit: KeyBit, text: &str) {
        if text.len() > self.value_length || !self.put_short(self.fields.tag, key, bit, text) {
            self.put_long_text(key, bit, text);
        }
    }

    #[inline(never)]
    pub(super) fn put_int(&mut self, key: &str, bit: KeyBit, number: i64) {
        let tag = self.fields.tag;
        if let 0..0x4000 = number {
            self.put_small_int(tag, key, bit, number);
        } else if !self.put_short(tag, key, bit, number) {
            self.put_long_int(key, bit, number);
        }
    }

    #[inline(always)]
    fn put_small_int(&mut self, tag: u8, key: &str, bit: KeyBit, number: i64) {
        if !self.put_short(tag, key, bit, SmallInt(number as u16)) {
            self.put_long_int(key, bit, number);
        }
    }

    fn put_float(&mut self, key: &str, bit: KeyBit, number: f64) {
        if !self.put_short(self.fields.tag, key, bit, number) {
            self.put_long_float(key, bit, number);
        }
    }

    #[inline(never)]
    pub(super) fn put_bool(&mut self, key: &str, bit: KeyBit, boolean: bool) {
        if !self.put_short(self.fields.tag, key, bit, boolean) {
            self.put_long_bool(key, bit, boolean);
        }
    }

    /// The fast path: writes the attribute if its key is new, its lengths fit into one byte, and the storage need not
    /// grow. Otherwise returns false.
    #[inline(always)]
    fn put_short(&mut self, tag: u8, key: &str, bit: KeyBit, value: impl ShortValue) -> bool {
        let Some(value_len) = short_value_len(key, value) else { return false };
        if self.fields.seen.has(key, bit) || !self.append_short(tag, key, value, value_len) {
            return false;
        }
        self.fields.seen.add(key, bit);
        true
    }

    #[inline(always)]
    fn append_short(&mut self, tag: u8, key: &str, value: impl ShortValue, value_len: usize) -> bool {
        let Some(window) = self.buffer.append_window(4 + key.len() + value_len) else { return false };
        write_short(tag, key, value, value_len, window);
        true
    }

    // The parameters are those of the callers above, which can therefore jump here without a stack frame.
    #[cold]
    #[inline(never)]
    fn put_long_text(&mut self, key: &str, bit: KeyBit, text: &str) {
        if text.len() > self.value_length || !self.put_short_colliding(key, bit, text) {
            self.put_any(key, bit, Value::Str(text));
        }
    }

    #[cold]
    #[inline(never)]
    fn put_long_int(&mut self, key: &str, bit: KeyBit, number: i64) {
        if !self.put_short_colliding(key, bit, number) {
            self.put_any(key, bit, Value::Int(number));
        }
    }

    #[cold]
    #[inline(never)]
    fn put_long_float(&mut self, key: &str, bit: KeyBit, number: f64) {
        self.put_any(key, bit, Value::Float(number));
    }

    #[cold]
    #[inline(never)]
    fn put_long_bool(&mut self, key: &str, bit: KeyBit, boolean: bool) {
        self.put_any(key, bit, Value::Bool(boolean));
    }

    /// Like [`put_short`](Self::put_short), for a false positive of the filter: the key is new, but its bit is set.
    #[inline(always)]
    fn put_short_colliding(&mut self, key: &str, bit: KeyBit, value: impl ShortValue) -> bool {
        let Some(value_len) = short_value_len(key, value) else { return false };
        self.is_reset = false;
        // `put_any` handles the other cases: it drops and counts empty keys and attributes beyond the limit.
        let is_one_more = self.fields.count() < self.fields.max && !key.is_empty();
        if !is_one_more || self.has(key, bit) || !self.append_short(self.fields.tag, key, value, value_len) {
            return false;
        }
        self.fields.add(key, bit);
        true
    }

    #[inline(never)]
    fn put_any(&mut self, key: &str, bit: KeyBit, value: Value<'_>) {
        if !self.write(key, bit, value) {
            match &mut self.sub_message {
                Some(sub_message) => sub_message.dropped += 1,
                None => self.dropped += 1,
            }
        }
    }

    /// Directs further attributes, at most `max`, to a nested message that was opened in the buffer. Its other fields
    /// must already be written. `dropped_tag` is the tag of the number of dropped attributes.
    pub(super) fn open_sub_message(&mut self, nested: Nested, tag: u8, max: u32, dropped_tag: u8) {
        let outer = self.fields;
        self.fields.begin(tag, max, self.buffer.position());
        self.tasks |= CLOSE;
        self.is_reset = false;
        self.sub_message = Some(SubMessage { nested, dropped_tag, dropped: 0, outer });
    }

    /// Sets an attribute of the open sub-message, if there is one.
    #[inline(always)]
    pub(super) fn set_in_sub_message(&mut self, key: &str, value: Value<'_>) {
        if self.sub_message.is_some() {
            self.put(key, value);
        }
    }

    /// Ends the open sub-message, if there is one. Every other write calls this first: a sub-message whose guard was
    /// leaked would otherwise make the whole request malformed.
    #[inline]
    pub(super) fn close_sub_message(&mut self) {
        if self.sub_message.is_some() {
            self.close();
        }
    }

    #[inline(never)]
    fn close(&mut self) {
        if let Some(SubMessage { nested, dropped_tag, dropped, outer }) = self.sub_message.take() {
            self.tasks &= !CLOSE;
            // The list of hashes holds keys of the sub-message now, so it starts again for the record.
            self.fields = Fields { hashed_to: outer.start, ..outer };
            self.write_count(dropped_tag, dropped);
            self.buffer.close(&nested);
        }
    }

    fn write(&mut self, key: &str, bit: KeyBit, value: Value<'_>) -> bool {
        self.is_reset = false;
        // Grow the storage for the next attributes as well, because the fast path does not grow it.
        self.buffer.make_window(2 * SHORT);
        let Some(attribute) = Attribute::new(key, value, Some(self.value_length)) else { return false };
        let tag = self.fields.tag;
        let is_it = |field: &[u8]| field[0] == tag && key_of_field(field) == key.as_bytes();
        // Replacing an attribute does not change the count, so it is permitted even at the limit.
        if !(self.has(key, bit) && self.remove(is_it)) {
            if self.fields.count() >= self.fields.max {
                return false;
            }
            self.fields.add(key, bit);
        }
        let Some(mut out) = self.buffer.claim(attribute.field_len()) else { return false };
        attribute.write(tag, &mut out);
        true
    }

    /// Counts a dropped attribute, or the dropped body of a log record, which counts as one.
    pub(super) fn drop_one(&mut self) {
        self.is_reset = false;
        self.dropped += 1;
    }

    /// Removes the record's field with this tag, if there is one.
    pub(super) fn take_back(&mut self, tag: u8) {
        self.is_reset = false;
        self.close_sub_message();
        self.remove(|field| field[0] == tag);
    }

    /// Replaces or appends the record's field with this tag; an empty value removes the field. Returns the end of the
    /// field, or `None` if it was removed or the record outgrows its limit.
    pub(super) fn replace_field(&mut self, tag: u8, value: &[u8]) -> Option<usize> {
        self.close_sub_message();
        match self.buffer.find_field(self.fields.start as usize, |field| field[0] == tag) {
            // This does not clear `is_reset`: while `is_reset` is true, `hashed_to` already equals `start`.
            Some(at) => {
                self.fields.hashed_to = self.fields.start;
                self.buffer.replace_field(at, value)
            }
            None => {
                self.append(tag, value);
                (!self.buffer.has_outgrown()).then_some(self.buffer.position())
            }
        }
    }

    /// Writes a field, unless its value is empty.
    fn append(&mut self, tag: u8, value: &[u8]) {
        if !value.is_empty() {
            if let Some(mut out) = self.buffer.claim(field_len(value.len())) {
                out.field(tag, value);
            }
        }
    }

    /// Writes a count, unless it is 0.
    #[inline]
    pub(super) fn write_count(&mut self, tag: u8, count: u32) {
        if count > 0 {
            let count = u64::from(count);
            if let Some(mut out) = self.buffer.claim(1 + encoded_len_varint(count)) {
                out.byte(tag);
                out.varint(count);
            }
        }
    }

    /// Returns the size of the storage that the record keeps, in bytes.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity() + self.hashes.capacity() * size_of::<u32>()
    }

    /// Returns whether the message that is being written has an attribute with this key.
    fn has(&mut self, key: &str, bit: KeyBit) -> bool {
        let is_likely =
            self.fields.may_have(key, bit) && (self.fields.count() <= MAX_SEARCHED || self.has_hash_of(key));
        is_likely && self.has_field_of(key)
    }

    /// Searches the fields for an attribute with this key.
    fn has_field_of(&self, key: &str) -> bool {
        let tag = self.fields.tag;
        let mut fields = self.buffer.bytes(self.fields.start as usize);
        // The length of nearly every field takes one byte.
        while let [field_tag, len @ 0..0x80, rest @ ..] = fields {
            let Some((body, next)) = rest.split_at_checked(usize::from(*len)) else { break };
            if *field_tag == tag && is_short_with_key(body, key) {
                return true;
            }
            fields = next;
        }
        frames(fields).any(|field| field[0] == tag && key_of_field(field) == key.as_bytes())
    }

    /// Returns whether an existing key has the hash of `key`. Each field is hashed once, so setting many attributes
    /// does not search all fields each time.
    fn has_hash_of(&mut self, key: &str) -> bool {
        let Fields { start, hashed_to, tag, .. } = self.fields;
        // No field is hashed yet, or the list is outdated: a removal, which moves fields, resets `hashed_to`.
        if hashed_to == start {
            self.hashes.clear();
        }
        let mut fields = self.buffer.bytes(hashed_to as usize);
        // The length of nearly every field takes one byte.
        while let [field_tag, len @ 0..0x80, rest @ ..] = fields {
            let Some((body, next)) = rest.split_at_checked(usize::from(*len)) else { break };
            if *field_tag == tag {
                self.hashes.push(hash(key_of_short(body)));
            }
            fields = next;
        }
        let rest = frames(fields).filter(|field| field[0] == tag);
        self.hashes.extend(rest.map(|field| hash(key_of_field(field))));
        self.fields.hashed_to = self.buffer.position() as u32;
        self.hashes.contains(&hash(key.as_bytes()))
    }

    /// Removes the first field for which `is_it` is true, and moves the following fields forward. Returns whether there
    /// was such a field.
    #[cold]
    fn remove(&mut self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        let Some(at) = self.buffer.find_field(self.fields.start as usize, is_it) else { return false };
        self.buffer.remove_field(at);
        self.fields.hashed_to = self.fields.start;
        true
    }
}
