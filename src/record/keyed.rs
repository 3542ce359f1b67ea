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
    rules: PartRules,
    first_key: usize,
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
        self.dropped = 0;
        self.part = None;
        self.replaceable = [0; 4];
    }

    // where it is inlined, the kind of the value is known, and the hash of a literal key is a constant
    #[inline(always)]
    pub(super) fn set(&mut self, key: &str, value: Value<'_>) {
        let hash = hash(key.as_bytes());
        match value {
            Value::Str(text) => self.set_text(key, hash, text),
            Value::Int(number) => self.set_int(key, hash, number),
            Value::Float(number) => self.set_float(key, hash, number),
            Value::Bool(truth) => self.set_bool(key, hash, truth),
            other => self.set_any(key, hash, other),
        }
    }

    fn set_text(&mut self, key: &str, hash: u32, text: &str) {
        if !self.is_whole(text) || !self.set_short(key, hash, text) {
            self.set_any(key, hash, Value::Str(text));
        }
    }

    fn set_int(&mut self, key: &str, hash: u32, number: i64) {
        if !self.set_short(key, hash, number) {
            self.set_any(key, hash, Value::Int(number));
        }
    }

    fn set_float(&mut self, key: &str, hash: u32, number: f64) {
        if !self.set_short(key, hash, number) {
            self.set_any(key, hash, Value::Float(number));
        }
    }

    fn set_bool(&mut self, key: &str, hash: u32, truth: bool) {
        if !self.set_short(key, hash, truth) {
            self.set_any(key, hash, Value::Bool(truth));
        }
    }

    /// Whether a text is no longer than it may be.
    #[inline]
    fn is_whole(&self, text: &str) -> bool {
        self.rules.value_length.is_none_or(|longest| text.len() <= longest)
    }

    #[inline]
    fn set_short(&mut self, key: &str, hash: u32, value: impl ShortValue) -> bool {
        self.part.is_none() && self.write_short(self.rules.tag, 0, self.rules.most, (key, hash), value)
    }

    /// The way of nearly all attributes: the key is new and every length fits into one byte. False if not.
    #[inline]
    fn write_short(
        &mut self,
        tag: u8,
        first_key: usize,
        most: u32,
        (key, hash): (&str, u32),
        value: impl ShortValue,
    ) -> bool {
        let body_len = 2 + key.len() + value.field_len();
        let is_welcome = self.keys.len() - first_key < most as usize;
        if key.is_empty() || body_len >= 0x80 || !is_welcome || !self.is_new(first_key, hash) {
            return false;
        }
        let at = self.buffer.position();
        let Some(mut out) = self.buffer.claim(2 + body_len) else { return false };
        // noted before the bytes are copied: less must be remembered across the copying
        self.seen |= bit(hash);
        self.keys.push(KeySlot { hash, at: at as u32 });
        write_short_key(tag, body_len, key, &mut out);
        value.write(&mut out);
        true
    }

    #[inline(never)]
    fn set_any(&mut self, key: &str, hash: u32, value: Value<'_>) {
        self.close_part();
        if !self.write(self.rules.tag, 0, self.rules.most, (key, hash), value) {
            self.drop_one();
        }
    }

    /// Makes a nested message that was opened in the buffer the part that attributes go to.
    pub(super) fn open_part(&mut self, nested: Nested, rules: PartRules) {
        self.part = Some(Part { nested, rules, first_key: self.keys.len(), dropped: 0 });
    }

    /// Sets an attribute of the part that is open.
    pub(super) fn set_in_part(&mut self, key: &str, value: Value<'_>) {
        let Some(mut part) = self.part else { return };
        let PartRules { tag, most, .. } = part.rules;
        let (first_key, key) = (part.first_key, (key, hash(key.as_bytes())));
        let is_written = match value {
            Value::Str(text) if self.is_whole(text) => self.write_short(tag, first_key, most, key, text),
            Value::Int(number) => self.write_short(tag, first_key, most, key, number),
            Value::Bool(truth) => self.write_short(tag, first_key, most, key, truth),
            Value::Float(number) => self.write_short(tag, first_key, most, key, number),
            _ => false,
        };
        if !is_written && !self.write(tag, first_key, most, key, value) {
            part.dropped += 1;
            self.part = Some(part);
        }
    }

    /// Ends the part that is open. Whatever else is written asks for it first: a part whose guard was leaked would
    /// make the whole request unreadable.
    #[inline]
    pub(super) fn close_part(&mut self) {
        if let Some(part) = self.part.take() {
            self.keys.truncate(part.first_key);
            self.write_count(part.rules.dropped_tag, part.dropped);
            self.buffer.close(&part.nested);
        }
    }

    fn write(
        &mut self,
        tag: u8,
        first_key: usize,
        most: u32,
        (key, hash): (&str, u32),
        value: Value<'_>,
    ) -> bool {
        let Some(attribute) = Attribute::new(key, value, self.rules.value_length) else { return false };
        if let Some(index) = self.find(first_key, hash, key) {
            let at = self.keys.remove(index).at as usize;
            self.remove(at);
        } else if self.keys.len() - first_key >= most as usize {
            return false;
        }
        let at = self.buffer.position();
        let Some(mut out) = self.buffer.claim(attribute.field_len()) else { return false };
        attribute.write(tag, &mut out);
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

    /// Whether no key from `first_key` on can be the one with this hash.
    #[inline]
    fn is_new(&self, first_key: usize, hash: u32) -> bool {
        self.seen & bit(hash) == 0 || self.keys[first_key..].iter().all(|slot| slot.hash != hash)
    }

    fn find(&self, first_key: usize, hash: u32, key: &str) -> Option<usize> {
        if self.is_new(first_key, hash) {
            return None;
        }
        let is_it =
            |slot: &KeySlot| slot.hash == hash && field_has_key(self.buffer.bytes(slot.at as usize), key);
        self.keys[first_key..].iter().position(is_it).map(|index| first_key + index)
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
    let (head, tail) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => (key.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)), 0),
    };
    let mixed = (head ^ tail.rotate_left(29) ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}
