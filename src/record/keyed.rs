//! The attributes of a record, each key once, in the bytes of the record itself.

use super::Value;
use super::attribute::{Attribute, ShortValue, field_has_key, short_len, write_short};
use super::buffer::{Buffer, Nested};

/// A record's bytes, and what must be known to set its attributes: of a key set twice the last value counts.
#[derive(Debug, Default)]
pub(super) struct Keyed {
    pub(super) buffer: Buffer,
    /// What is being written: the part that is open, or the record.
    fields: Fields,
    /// The most characters of a string, in the record and its parts; the largest number if there is no limit.
    value_length: usize,
    pub(super) dropped: u32,
    /// The part that is being written.
    pub(super) part: Option<Part>,
}

/// The fields of a record or of a part of it that can be found again.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    /// A bit for each key: one whose bit is not set is new.
    seen: u64,
    /// How many attributes more there may be.
    room: u32,
    /// From here on all fields are length-delimited and have a tag of one byte.
    start: u32,
    /// Of an attribute.
    tag: u8,
}

/// What holds for the attributes of a part of a record, such as an event of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRules {
    pub(super) tag: u8,
    pub(super) most: u32,
    /// Of the count of those that were dropped.
    pub(super) dropped_tag: u8,
}

/// A part that is being written; ended by [`Keyed::close_part`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    nested: Nested,
    dropped_tag: u8,
    pub(super) dropped: u32,
    /// Of the record around it.
    around: Fields,
}

impl Keyed {
    /// Sets the limits of the next records: how many bytes each may have, and each string value characters.
    pub(super) fn limit(&mut self, max_bytes: usize, value_length: Option<usize>) {
        self.buffer.limit(max_bytes);
        self.value_length = value_length.unwrap_or(usize::MAX);
    }

    /// Starts a new record in the old storage. Its attributes have this tag, and there may be so `most` of them. It begins
    /// with `fixed_len` bytes that are no length-delimited fields.
    #[inline]
    pub(super) fn begin(&mut self, tag: u8, most: u32, fixed_len: usize) {
        self.buffer.reset();
        let start = (Buffer::START + fixed_len) as u32;
        self.fields = Fields { seen: Mark::NO_KEY, room: most, start, tag };
        self.dropped = 0;
        self.part = None;
    }

    // where it is inlined, the kind of the value is known, and the mark of a literal key is a constant
    #[inline(always)]
    pub(super) fn set(&mut self, key: &str, value: Value<'_>) {
        self.close_part();
        self.put(key, value);
    }

    /// Sets an attribute of the part that is open, if one is, or of the record.
    #[inline(always)]
    fn put(&mut self, key: &str, value: Value<'_>) {
        let mark = Mark::of(key.as_bytes());
        match value {
            Value::Str(text) => self.put_text(key, mark, text),
            Value::Int(number) => self.put_int(key, mark, number),
            Value::Float(number) => self.put_float(key, mark, number),
            Value::Bool(truth) => self.put_bool(key, mark, truth),
            other => self.put_any(key, mark, other),
        }
    }

    fn put_text(&mut self, key: &str, mark: Mark, text: &str) {
        if text.len() > self.value_length || !self.put_short(key, mark, text) {
            self.put_long_text(key, mark, text);
        }
    }

    fn put_int(&mut self, key: &str, mark: Mark, number: i64) {
        if !self.put_short(key, mark, number) {
            self.put_long_int(key, mark, number);
        }
    }

    fn put_float(&mut self, key: &str, mark: Mark, number: f64) {
        if !self.put_short(key, mark, number) {
            self.put_any(key, mark, Value::Float(number));
        }
    }

    fn put_bool(&mut self, key: &str, mark: Mark, truth: bool) {
        if !self.put_short(key, mark, truth) {
            self.put_any(key, mark, Value::Bool(truth));
        }
    }

    /// The way of nearly all attributes: the key is new, every length fits into one byte, and there is room. False if
    /// not.
    #[inline(always)]
    fn put_short(&mut self, key: &str, mark: Mark, value: impl ShortValue) -> bool {
        let Fields { seen, room, tag, .. } = self.fields;
        let len = short_len(key, value);
        if len >= 0x80 || room == 0 || mark.is_in(seen) {
            return false;
        }
        let Some(mut out) = self.buffer.claim_ready(len) else { return false };
        self.fields.seen = mark.added_to(seen);
        self.fields.room = room - 1;
        write_short(tag, key, value, &mut out);
        true
    }

    #[cold]
    #[inline(never)]
    fn put_long_text(&mut self, key: &str, mark: Mark, text: &str) {
        self.put_any(key, mark, Value::Str(text));
    }

    #[cold]
    #[inline(never)]
    fn put_long_int(&mut self, key: &str, mark: Mark, number: i64) {
        self.put_any(key, mark, Value::Int(number));
    }

    #[inline(never)]
    fn put_any(&mut self, key: &str, mark: Mark, value: Value<'_>) {
        if !self.write(key, mark, value) {
            match &mut self.part {
                Some(part) => part.dropped += 1,
                None => self.dropped += 1,
            }
        }
    }

    /// Makes a nested message that was opened in the buffer the part that attributes go to. They are its last fields.
    pub(super) fn open_part(&mut self, nested: Nested, rules: PartRules) {
        let start = self.buffer.position() as u32;
        let fields = Fields { seen: Mark::NO_KEY, room: rules.most, start, tag: rules.tag };
        let around = std::mem::replace(&mut self.fields, fields);
        self.part = Some(Part { nested, dropped_tag: rules.dropped_tag, dropped: 0, around });
    }

    /// Sets an attribute of the part that is open.
    pub(super) fn set_in_part(&mut self, key: &str, value: Value<'_>) {
        if self.part.is_some() {
            self.put(key, value);
        }
    }

    /// Ends the part that is open. Whatever else is written asks for it first: a part whose guard was leaked would
    /// make the whole request unreadable.
    #[inline]
    pub(super) fn close_part(&mut self) {
        if self.part.is_some() {
            self.close();
        }
    }

    #[inline(never)]
    fn close(&mut self) {
        if let Some(part) = self.part.take() {
            self.fields = part.around;
            self.write_count(part.dropped_tag, part.dropped);
            self.buffer.close(&part.nested);
        }
    }

    fn write(&mut self, key: &str, mark: Mark, value: Value<'_>) -> bool {
        let Some(attribute) = Attribute::new(key, value, Some(self.value_length)) else { return false };
        let tag = self.fields.tag;
        if mark.is_in(self.fields.seen) && self.remove(|field| field[0] == tag && field_has_key(field, key)) {
            self.fields.room += 1;
        } else if self.fields.room == 0 {
            return false;
        }
        let Some(mut out) = self.buffer.claim(attribute.field_len()) else { return false };
        attribute.write(tag, &mut out);
        self.fields.seen = mark.added_to(self.fields.seen);
        self.fields.room -= 1;
        true
    }

    /// Counts an attribute, or what counts as one, that was dropped.
    pub(super) fn drop_one(&mut self) {
        self.dropped += 1;
    }

    /// Attributes that were dropped.
    #[inline]
    pub(super) fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Takes out the record's field with this tag, if there is one.
    pub(super) fn take_back(&mut self, tag: u8) {
        self.close_part();
        self.remove(|field| field[0] == tag);
    }

    /// Writes a count, unless it is 0.
    #[inline]
    pub(super) fn write_count(&mut self, tag: u8, count: u32) {
        if count > 0 {
            let count = u64::from(count);
            if let Some(mut out) = self.buffer.claim(1 + prost::encoding::encoded_len_varint(count)) {
                out.byte(tag);
                out.varint(count);
            }
        }
    }

    /// The finished record's framed bytes; `None` if it has outgrown what can ever be sent.
    #[inline]
    pub(super) fn framed(&mut self) -> Option<&[u8]> {
        self.buffer.framed()
    }

    /// How much storage the record holds on to.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Takes out the first field of what is being written of which this is true, and says whether there was one. What
    /// stands behind it moves forward.
    #[cold]
    fn remove(&mut self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        match self.buffer.find_field(self.fields.start as usize, is_it) {
            Some(at) => {
                self.buffer.remove_field(at);
                true
            }
            None => false,
        }
    }
}

/// What a key leaves behind, so that most keys that are new are known to be: one of 63 bits. The last bit is always set
/// and belongs to the empty key, which is never new.
#[derive(Clone, Copy)]
struct Mark(u64);

impl Mark {
    const NO_KEY: u64 = 1 << 63;

    #[inline(always)]
    fn of(key: &[u8]) -> Self {
        match key {
            [] => Self(Self::NO_KEY),
            key => Self(1 << (u64::from(hash(key)) * 63 >> 32)),
        }
    }

    #[inline(always)]
    fn is_in(self, seen: u64) -> bool {
        seen & self.0 != 0
    }

    #[inline(always)]
    fn added_to(self, seen: u64) -> u64 {
        seen | self.0
    }
}

/// Tells most keys apart by their length and both ends.
#[inline]
fn hash(key: &[u8]) -> u32 {
    let (head, tail) = match (key.first_chunk(), key.last_chunk()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => match (key.first_chunk(), key.last_chunk()) {
            (Some(head), Some(tail)) => (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into()),
            _ => (key.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)), 0),
        },
    };
    let mixed = (head ^ tail.rotate_left(29) ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}
