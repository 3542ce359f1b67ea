//! The attributes of a record, each key once, in the bytes of the record itself.

use super::Value;
use super::attribute::{Attribute, ShortValue, field_has_key, write_short_key};
use super::buffer::{Buffer, Nested, Writer};

/// A record's bytes, and where in them its attributes stand: of a key set twice the last value counts.
#[derive(Debug, Default)]
pub(super) struct Keyed {
    pub(super) buffer: Buffer,
    /// Of the record, then of the part of it that is open.
    keys: Vec<KeySlot>,
    /// A bit for the hash of each of them: a key whose bit is not set is new.
    seen: u64,
    /// What holds for the attributes of what is being written: the part that is open, or the record.
    tag: u8,
    most: u32,
    first_key: usize,
    /// What holds for those of the record.
    rules: Rules,
    pub(super) dropped: u32,
    /// The part that is being written.
    pub(super) part: Option<Part>,
    /// Where the fields stand that can be replaced; 0 is no place, as the headroom is there.
    replaceable: [u32; 4],
}

/// What holds for the attributes of a record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    pub(super) tag: u8,
    /// How many there may be.
    pub(super) most: u32,
    /// The most characters of a string, also in the parts of a record.
    pub(super) value_length: Option<usize>,
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
}

/// An attribute that is already written: a hash of its key and where it stands.
#[derive(Debug, Clone, Copy)]
struct KeySlot {
    hash: u32,
    at: u32,
}

impl Keyed {
    /// Starts a new record of at most `max_bytes` in the old storage.
    #[inline]
    pub(super) fn begin(&mut self, rules: Rules, max_bytes: usize) {
        self.buffer.reset(max_bytes);
        self.keys.clear();
        self.seen = 0;
        self.rules = rules;
        (self.tag, self.most, self.first_key) = (rules.tag, rules.most, 0);
        self.dropped = 0;
        self.part = None;
        self.replaceable = [0; 4];
    }

    // where it is inlined, the kind of the value is known, and the hash of a literal key is a constant
    #[inline(always)]
    pub(super) fn set(&mut self, key: &str, value: Value<'_>) {
        if self.part.is_some() {
            self.close_part();
        }
        self.put(key, value);
    }

    /// Sets an attribute of the part that is open, if one is, or of the record.
    #[inline(always)]
    fn put(&mut self, key: &str, value: Value<'_>) {
        let hash = hash(key.as_bytes());
        match value {
            Value::Str(text) => self.put_text(key, hash, text),
            Value::Int(number) => self.put_int(key, hash, number),
            Value::Float(number) => self.put_float(key, hash, number),
            Value::Bool(truth) => self.put_bool(key, hash, truth),
            other => self.put_any(key, hash, other),
        }
    }

    fn put_text(&mut self, key: &str, hash: u32, text: &str) {
        let is_whole = self.rules.value_length.is_none_or(|longest| text.len() <= longest);
        if !is_whole || !self.put_short(key, hash, text) {
            self.put_any(key, hash, Value::Str(text));
        }
    }

    fn put_int(&mut self, key: &str, hash: u32, number: i64) {
        if !self.put_short(key, hash, number) {
            self.put_any(key, hash, Value::Int(number));
        }
    }

    fn put_float(&mut self, key: &str, hash: u32, number: f64) {
        if !self.put_short(key, hash, number) {
            self.put_any(key, hash, Value::Float(number));
        }
    }

    fn put_bool(&mut self, key: &str, hash: u32, truth: bool) {
        if !self.put_short(key, hash, truth) {
            self.put_any(key, hash, Value::Bool(truth));
        }
    }

    /// The way of nearly all attributes: the key is new and every length fits into one byte. False if not.
    #[inline(always)]
    fn put_short(&mut self, key: &str, hash: u32, value: impl ShortValue) -> bool {
        let body_len = 2 + key.len() + value.field_len();
        let is_welcome = self.keys.len() - self.first_key < self.most as usize;
        if key.is_empty() || body_len >= 0x80 || !is_welcome || !self.is_new(hash) {
            return false;
        }
        let at = self.buffer.position();
        let Some(mut out) = self.buffer.claim(2 + body_len) else { return false };
        // noted before the bytes are copied: less must be remembered across the copying
        self.seen |= bit(hash);
        self.keys.push(KeySlot { hash, at: at as u32 });
        write_short_key(self.tag, body_len, key, &mut out);
        value.write(&mut out);
        true
    }

    #[inline(never)]
    fn put_any(&mut self, key: &str, hash: u32, value: Value<'_>) {
        if !self.write(key, hash, value) {
            match &mut self.part {
                Some(part) => part.dropped += 1,
                None => self.dropped += 1,
            }
        }
    }

    /// Makes a nested message that was opened in the buffer the part that attributes go to.
    pub(super) fn open_part(&mut self, nested: Nested, rules: PartRules) {
        self.part = Some(Part { nested, dropped_tag: rules.dropped_tag, dropped: 0 });
        (self.tag, self.most, self.first_key) = (rules.tag, rules.most, self.keys.len());
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
        if let Some(part) = self.part.take() {
            self.keys.truncate(self.first_key);
            (self.tag, self.most, self.first_key) = (self.rules.tag, self.rules.most, 0);
            self.write_count(part.dropped_tag, part.dropped);
            self.buffer.close(&part.nested);
        }
    }

    fn write(&mut self, key: &str, hash: u32, value: Value<'_>) -> bool {
        let Some(attribute) = Attribute::new(key, value, self.rules.value_length) else { return false };
        if let Some(index) = self.find(hash, key) {
            let at = self.keys.remove(index).at as usize;
            self.remove(at);
        } else if self.keys.len() - self.first_key >= self.most as usize {
            return false;
        }
        let at = self.buffer.position();
        let Some(mut out) = self.buffer.claim(attribute.field_len()) else { return false };
        attribute.write(self.tag, &mut out);
        self.seen |= bit(hash);
        self.keys.push(KeySlot { hash, at: at as u32 });
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

    /// Room for a length-delimited field of so many bytes instead of the one that this place had before.
    pub(super) fn replace(&mut self, place: usize, field_len: usize) -> Option<Writer<'_>> {
        // forgotten first: there may be no room for the new one
        self.take_back(place);
        let at = self.buffer.position();
        let out = self.buffer.claim(field_len)?;
        self.replaceable[place] = at as u32;
        Some(out)
    }

    /// Takes out the field that this place has, if there is one.
    pub(super) fn take_back(&mut self, place: usize) {
        self.close_part();
        let before = std::mem::take(&mut self.replaceable[place]);
        if before > 0 {
            self.remove(before as usize);
        }
    }

    /// Notes that the field at `at` can be replaced.
    #[inline]
    pub(super) fn note(&mut self, place: usize, at: usize) {
        self.replaceable[place] = at as u32;
    }

    /// Whether there is a field at this place.
    #[inline]
    pub(super) fn has(&self, place: usize) -> bool {
        self.replaceable[place] > 0
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
        if self.buffer.outgrown() { None } else { Some(self.buffer.framed()) }
    }

    /// How much storage the record holds on to.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity() + self.keys.capacity() * size_of::<KeySlot>()
    }

    /// Whether no key of what is being written can be the one with this hash.
    #[inline]
    fn is_new(&self, hash: u32) -> bool {
        self.seen & bit(hash) == 0 || self.current_keys().iter().all(|slot| slot.hash != hash)
    }

    fn find(&self, hash: u32, key: &str) -> Option<usize> {
        if self.is_new(hash) {
            return None;
        }
        let is_it =
            |slot: &KeySlot| slot.hash == hash && field_has_key(self.buffer.bytes(slot.at as usize), key);
        self.current_keys().iter().position(is_it).map(|index| self.first_key + index)
    }

    /// Of the part that is open, if one is, or of the record.
    fn current_keys(&self) -> &[KeySlot] {
        &self.keys[self.first_key..]
    }

    /// Takes a field out; what stands behind it moves forward.
    #[cold]
    fn remove(&mut self, at: usize) {
        let removed = self.buffer.remove_field(at);
        for slot in self.keys.iter_mut().filter(|slot| slot.at as usize > at) {
            slot.at -= removed as u32;
        }
        for place in self.replaceable.iter_mut().filter(|place| **place as usize > at) {
            *place -= removed as u32;
        }
    }
}

#[inline]
fn bit(hash: u32) -> u64 {
    // the upper bits are mixed best
    1 << (hash >> 26)
}

/// Tells most keys apart by their length and both ends; equal hashes are compared in full.
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
