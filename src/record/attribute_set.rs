//! The identity of a metric series: a canonical set of attributes, encoded once.
//!
//! A series is looked up for every measurement, so the attributes of the measurement are hashed and compared with a set
//! without being encoded: keys and strings of up to 16 bytes as two words, numbers by their bits. Only bytes, arrays
//! and maps are encoded. The hash of a set is the sum of the hashes of its attributes, so their order does not matter.

mod pattern;

pub(crate) use pattern::Pattern;

use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::Value;
use super::attribute::{Attribute, is_too_deep};
use super::buffer::{Writer, frames};
use super::schema::tag::AnyValue as tag;
use super::wire::decode_varint;

/// Maximum size of a set, equal to that of a request. A larger set could not be sent, so [`AttributeSet::of`] leaves
/// out an attribute that does not fit.
const MAX_SET_BYTES: usize = 64 << 20;
/// Tag of the stored fields, which [`AttributeSet::write`] replaces by the tag of its caller.
const ANY_TAG: u8 = 0;

/// Attributes sorted by key, each key once, in wire format.
///
/// Two sets are equal if and only if they would be the same series to a collector.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSet {
    /// `KeyValue` fields back to back, sorted by key.
    bytes: Box<[u8]>,
    /// One entry per field, in the order in which the caller listed them. Most callers use the same order every time.
    entries: Box<[Entry]>,
}

/// The position and the comparable form of one attribute.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Text,
    /// The value if it is text; otherwise [`Text::NONE`].
    text: Text,
    /// Start and end of the value, an `AnyValue` message.
    value: (u32, u32),
    /// The tag of the value, and its bits if it is a number or a boolean.
    kind: u8,
    bits: u64,
}

impl AttributeSet {
    /// Creates a set. If a key occurs twice, the last pair wins. Pairs with an empty key or a value that is nested too
    /// deeply are left out, because they must not be sent.
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let attributes = pairs
            .into_iter()
            .enumerate()
            .filter_map(|(given, (key, value))| Some((key, Attribute::new(key, value, None)?, given)));
        Self::of(attributes.collect())
    }

    /// Sorts and encodes the attributes. Not generic, so that a program contains this code once.
    fn of(mut attributes: Vec<(&str, Attribute<'_>, usize)>) -> Self {
        // Reverse first: the sort is stable and `dedup` keeps the first of equal keys, so the last pair wins.
        attributes.reverse();
        attributes.sort_by_key(|(key, ..)| *key);
        attributes.dedup_by_key(|(key, ..)| *key);
        let (mut bytes, mut entries) = (Vec::new(), Vec::with_capacity(attributes.len()));
        for (key, attribute, given) in &attributes {
            let (start, len) = (bytes.len(), attribute.field_len());
            // This also keeps all positions within the 32 bits of an `Entry`.
            if start + len > MAX_SET_BYTES {
                continue;
            }
            bytes.resize(start + len, 0);
            attribute.write(ANY_TAG, &mut Writer::over(&mut bytes[start..]));
            entries.push((*given, Entry::of_field(&bytes, start, key.len())));
        }
        entries.sort_by_key(|(given, _)| *given);
        Self { bytes: bytes.into(), entries: entries.into_iter().map(|(_, entry)| entry).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the size of the encoded attributes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the attributes as `KeyValue` fields with this one-byte tag.
    pub(super) fn write(&self, tag: u8, out: &mut Vec<u8>) {
        for field in frames(&self.bytes) {
            // The stored fields differ from the written ones only in their tag.
            out.push(tag);
            out.extend_from_slice(&field[1..]);
        }
    }

    /// Returns whether these pairs, in any order, form this set. Always false if a key occurs twice; the caller then
    /// has to create a set first.
    pub(crate) fn equals(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        // Most callers list the same keys in the same order every time.
        let match_in_order = || self.entries.iter().zip(pairs).all(|(entry, pair)| self.is_pair(entry, pair));
        pairs.len() == self.len() && match_in_order() || self.equals_in_any_order(pairs)
    }

    #[cold]
    fn equals_in_any_order(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        // The stored keys are distinct, so no pair matches two entries. With equal counts, each pair has an entry.
        let count = pairs.iter().filter(|(key, value)| !key.is_empty() && !is_too_deep(value)).count();
        let has_match = |entry: &Entry| pairs.iter().any(|pair| self.is_pair(entry, pair));
        count == self.len() && self.entries.iter().all(has_match)
    }

    #[inline]
    fn is_pair(&self, entry: &Entry, (key, value): &(&str, Value<'_>)) -> bool {
        entry.key.is(key.as_bytes(), &self.bytes) && self.is_value(entry, value)
    }

    #[inline]
    fn is_value(&self, entry: &Entry, value: &Value<'_>) -> bool {
        match value {
            Value::Str(text) => entry.text.is(text.as_bytes(), &self.bytes),
            other => self.is_other(entry, other),
        }
    }

    /// Compares a value that is not text.
    #[inline(never)]
    fn is_other(&self, entry: &Entry, value: &Value<'_>) -> bool {
        match plain(value) {
            Some((kind, bits)) => entry.kind == kind && entry.bits == bits,
            None => self.is_encoded(entry, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn is_encoded(&self, entry: &Entry, value: &Value<'_>) -> bool {
        self.value(entry) == encode(value)
    }

    /// Returns a hash that does not depend on the order of the pairs. It equals the [`hash_of`](Self::hash_of) of the
    /// set that is made of these pairs, unless a key occurs twice.
    pub(crate) fn hash(pairs: &[(&str, Value<'_>)], seed: u64) -> u64 {
        // Pairs with an empty key are not in the set. A sum does not depend on the order.
        let sendable = pairs.iter().filter(|(key, _)| !key.is_empty());
        let hashes = sendable.map(|(key, value)| hash_value(absorb(seed, key.as_bytes()), value));
        hashes.fold(0, u64::wrapping_add)
    }

    fn value(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.value.0 as usize..entry.value.1 as usize]
    }

    /// Returns the hash of this set, see [`hash`](Self::hash).
    pub(crate) fn hash_of(&self, seed: u64) -> u64 {
        let hash = |entry: &Entry| {
            let state = absorb(seed, entry.key.of(&self.bytes));
            match entry.kind {
                tag::bool_value | tag::int_value | tag::double_value => {
                    absorb_number(state, entry.kind, entry.bits)
                }
                tag::string_value => absorb(state, entry.text.of(&self.bytes)),
                _ => absorb(state, self.value(entry)),
            }
        };
        self.entries.iter().map(hash).fold(0, u64::wrapping_add)
    }
}

impl Entry {
    /// Returns the entry of the last field, which begins at `start`. All positions fit into 32 bits.
    fn of_field(bytes: &[u8], start: usize, key_len: usize) -> Self {
        let is_continued = |byte: &&u8| **byte & 0x80 != 0;
        let after_length = |at: usize| at + bytes[at..].iter().take_while(is_continued).count() + 1;
        // tag, length, key tag, key length, key, value tag, value length, value
        let key = after_length(after_length(start + 1) + 1);
        let value = after_length(key + key_len + 1);
        let kind = bytes[value];
        let text = match kind {
            tag::string_value => Text::new(bytes, after_length(value + 1)..bytes.len()),
            _ => Text::NONE,
        };
        Self {
            key: Text::new(bytes, key..key + key_len),
            text,
            value: (value as u32, bytes.len() as u32),
            kind,
            bits: bits(&bytes[value..]),
        }
    }
}

// Entries follow from the bytes, and their order is irrelevant for equality.
impl PartialEq for AttributeSet {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for AttributeSet {}

impl Hash for AttributeSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

/// Returns the bits of a number or a boolean in an `AnyValue` message, or 0 for other values.
fn bits(body: &[u8]) -> u64 {
    let Some((kind, mut content)) = body.split_first() else { return 0 };
    match *kind {
        tag::bool_value | tag::int_value => decode_varint(&mut content).unwrap_or_default(),
        tag::double_value => content.first_chunk().map_or(0, |bits| u64::from_le_bytes(*bits)),
        _ => 0,
    }
}

/// Returns the tag and the bits of a number or a boolean; `None` for other values.
#[inline]
fn plain(value: &Value<'_>) -> Option<(u8, u64)> {
    match value {
        Value::Bool(boolean) => Some((tag::bool_value, u64::from(*boolean))),
        Value::Int(number) => Some((tag::int_value, *number as u64)),
        Value::Float(number) => Some((tag::double_value, number.to_bits())),
        _ => None,
    }
}

/// Encodes a value as an `AnyValue` message. Returns no bytes if the value is nested too deeply.
#[cold]
fn encode(value: &Value<'_>) -> Vec<u8> {
    let set = AttributeSet::new([("value", *value)]);
    set.entries.first().map_or_else(Vec::new, |entry| set.value(entry).to_vec())
}

/// Hashes a value into a state that has absorbed the key.
#[inline]
fn hash_value(state: u64, value: &Value<'_>) -> u64 {
    match value {
        Value::Str(text) => absorb(state, text.as_bytes()),
        other => hash_other(state, other),
    }
}

/// Hashes a value that is not text.
#[inline(never)]
fn hash_other(state: u64, value: &Value<'_>) -> u64 {
    match plain(value) {
        Some((kind, bits)) => absorb_number(state, kind, bits),
        None => hash_encoded(state, value),
    }
}

#[cold]
#[inline(never)]
fn hash_encoded(state: u64, value: &Value<'_>) -> u64 {
    if is_too_deep(value) { 0 } else { absorb(state, &encode(value)) }
}

/// Maximum length of bytes that [`words`] represents completely.
const SHORT: usize = 16;

/// Multipliers of the hash: odd, with about as many ones as zeros.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f];

/// A part of the bytes of a set or a pattern, with a copy as two words if it is short.
#[derive(Debug, Clone, Copy)]
struct Text {
    start: usize,
    len: usize,
    words: (u64, u64),
}

impl Text {
    /// Not equal to any text, because no text is that long.
    const NONE: Self = Self { start: 0, len: usize::MAX, words: (0, 0) };

    fn new(bytes: &[u8], range: Range<usize>) -> Self {
        Self { start: range.start, len: range.len(), words: words(&bytes[range]) }
    }

    /// Returns whether this part equals `text`. `bytes` are the bytes of the set or the pattern.
    #[inline]
    fn is(&self, text: &[u8], bytes: &[u8]) -> bool {
        if self.len != text.len() {
            return false;
        }
        if text.len() > SHORT {
            return self.of(bytes) == text;
        }
        let (low, high) = words(text);
        self.words.0 == low && self.words.1 == high
    }

    #[inline]
    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.len]
    }
}

/// Returns the state of a hash after it has absorbed these bytes.
#[inline]
fn absorb(state: u64, bytes: &[u8]) -> u64 {
    if bytes.len() > SHORT {
        return absorb_long(state, bytes);
    }
    absorb_words(state, bytes.len(), words(bytes))
}

/// Absorbs a text of at most [`SHORT`] bytes, given its length and its words.
#[inline(always)]
fn absorb_words(state: u64, len: usize, (low, high): (u64, u64)) -> u64 {
    fold(state ^ low, high ^ SPREAD[1].wrapping_add(len as u64))
}

/// Absorbs 16 bytes at a time. The last block may overlap the one before; the length is mixed in first.
#[inline(never)]
fn absorb_long(state: u64, bytes: &[u8]) -> u64 {
    let mut state = state.wrapping_add(bytes.len() as u64);
    let mut rest = bytes;
    while rest.len() > SHORT {
        let (low, high) = words(&rest[..SHORT]);
        state = fold(state ^ low, high ^ SPREAD[1]);
        rest = &rest[SHORT..];
    }
    let (low, high) = words(&bytes[bytes.len() - SHORT..]);
    fold(state ^ low, high ^ SPREAD[1])
}

/// Absorbs a number or a boolean.
#[inline]
fn absorb_number(state: u64, kind: u8, bits: u64) -> u64 {
    fold(state ^ bits, SPREAD[0].wrapping_add(u64::from(kind)))
}

/// Returns short bytes as two words, which differ for different bytes of the same length. If there are more than
/// [`SHORT`] bytes, the words contain only the first and the last eight.
#[inline]
fn words(bytes: &[u8]) -> (u64, u64) {
    // Eight bytes or more; the two words may overlap.
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
    }
    // Four to seven bytes.
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into());
    }
    match bytes {
        [] => (0, 0),
        [one] => (u64::from(*one), 0),
        [first, .., last] => (u64::from(*first) << 8 | u64::from(*last), u64::from(bytes[1])),
    }
}

/// Returns the [`words`] of 8 to [`SHORT`] bytes; `None` for other lengths.
#[inline(always)]
fn medium_words(bytes: &[u8]) -> Option<(u64, u64)> {
    if bytes.len().wrapping_sub(8) > SHORT - 8 {
        return None;
    }
    Some((u64::from_le_bytes(*bytes.first_chunk()?), u64::from_le_bytes(*bytes.last_chunk()?)))
}

/// Multiplies and folds both halves of the product, so that every input bit reaches every output bit.
#[inline]
fn fold(word: u64, by: u64) -> u64 {
    let product = u128::from(word) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
pub(super) mod tests;
