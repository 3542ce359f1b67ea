//! What identifies a series of a metric? A canonical set of attributes, encoded once.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::Value;
use super::attribute::{Attribute, is_too_deep};
use super::buffer::Writer;
use super::wire::decode_varint;

/// Tags of `AnyValue` for the values that are compared and hashed without being encoded first.
mod tag {
    pub(super) const STRING: u8 = 0x0a;
    pub(super) const BOOL: u8 = 0x10;
    pub(super) const INT: u8 = 0x18;
    pub(super) const DOUBLE: u8 = 0x21;
}

/// As much as a request may have: an attribute that would make the set larger could not be sent, and is left out.
const MOST_BYTES: usize = 64 << 20;
/// Stands in the stored bytes where the tag goes that a set is written under.
const ANY_TAG: u8 = 0;

/// Attributes sorted by key, each key once, in wire format.
///
/// Two sets are equal if and only if they would be the same series to a collector.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSet {
    /// `KeyValue` fields, one behind the other.
    bytes: Box<[u8]>,
    /// One for each field, in the order they were given: most callers give them in the same order every time.
    entries: Box<[Entry]>,
}

/// One attribute as it is looked up.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Text,
    /// The value, if it is text; otherwise nothing is equal to it.
    text: Text,
    /// Where the value is, an `AnyValue` message.
    value: (u32, u32),
    /// The tag of the value, and its bits if it is a number or a boolean.
    kind: u8,
    bits: u64,
}

impl AttributeSet {
    /// Of pairs with the same key the last one counts. An empty key and a value nested too deeply are left out: they
    /// must not be sent.
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let attributes = pairs
            .into_iter()
            .enumerate()
            .filter_map(|(given, (key, value))| Some((key, Attribute::new(key, value, None)?, given)));
        Self::of(attributes.collect())
    }

    /// Not generic, so that a program has this and its sorting once.
    fn of(mut attributes: Vec<(&str, Attribute<'_>, usize)>) -> Self {
        // later ones first, so that they are the ones that stay
        attributes.reverse();
        attributes.sort_by_key(|(key, ..)| *key);
        attributes.dedup_by_key(|(key, ..)| *key);
        let (mut bytes, mut entries) = (Vec::new(), Vec::with_capacity(attributes.len()));
        for (key, attribute, given) in &attributes {
            let (start, len) = (bytes.len(), attribute.field_len());
            if start + len > MOST_BYTES {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the attributes as `KeyValue` fields with this one-byte tag.
    pub(super) fn write(&self, tag: u8, out: &mut Vec<u8>) {
        let mut rest = &*self.bytes;
        while let [_, body @ ..] = rest {
            let mut content = body;
            let len = decode_varint(&mut content).unwrap_or_default() as usize;
            let (field, behind) = body.split_at(body.len() - content.len() + len);
            out.push(tag);
            out.extend_from_slice(field);
            rest = behind;
        }
    }

    /// Whether these pairs, in any order, make this set. Pairs with a key that is there twice are never found equal:
    /// for those the caller makes a set first.
    pub(crate) fn equals(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        let are_met = || self.entries.iter().zip(pairs).all(|(entry, pair)| self.is_pair(entry, pair));
        pairs.len() == self.len() && are_met() || self.equals_in_any_order(pairs)
    }

    #[cold]
    fn equals_in_any_order(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        // stored keys are all different: if each finds its pair, and there are no more pairs, it is one to one
        let count = pairs.iter().filter(|(key, value)| is_welcome(key, value)).count();
        let is_met = |entry: &Entry| pairs.iter().any(|pair| self.is_pair(entry, pair));
        count == self.len() && self.entries.iter().all(is_met)
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

    /// The same for a value that is no text.
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

    /// The same for the same pairs in any order. It agrees with [`hash_of`](Self::hash_of) for the set made of them,
    /// unless a key is there twice.
    pub(crate) fn hash(pairs: &[(&str, Value<'_>)], seed: u64) -> u64 {
        // an empty key must not be sent; and a sum does not know the order of its parts
        let welcome = pairs.iter().filter(|(key, _)| !key.is_empty());
        let hashes = welcome.map(|(key, value)| hash_value(absorb(seed, key.as_bytes()), value));
        hashes.fold(0, u64::wrapping_add)
    }

    fn value(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.value.0 as usize..entry.value.1 as usize]
    }

    /// The hash of this set, see [`hash`](Self::hash).
    pub(crate) fn hash_of(&self, seed: u64) -> u64 {
        let hash = |entry: &Entry| {
            let state = absorb(seed, entry.key.of(&self.bytes));
            match entry.kind {
                tag::BOOL | tag::INT | tag::DOUBLE => absorb_number(state, entry.kind, entry.bits),
                tag::STRING => absorb(state, entry.text.of(&self.bytes)),
                _ => absorb(state, self.value(entry)),
            }
        };
        self.entries.iter().map(hash).fold(0, u64::wrapping_add)
    }
}

impl Entry {
    /// Of the last field, which begins at `start`; it fits into 32 bits with all that is before it.
    fn of_field(bytes: &[u8], start: usize, key_len: usize) -> Self {
        let after_length = |at: usize| at + varint_len(&bytes[at..]);
        // tag, length, key tag, key length, key, value tag, value length, value
        let key = after_length(after_length(start + 1) + 1);
        let value = after_length(key + key_len + 1);
        let kind = bytes[value];
        let text = match kind {
            tag::STRING => Text::new(bytes, after_length(value + 1)..bytes.len()),
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

// the entries are found in the bytes, and the order in which they were given makes no difference
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

/// The bits of a number or a boolean in an `AnyValue` message; of anything else 0.
fn bits(body: &[u8]) -> u64 {
    let Some((kind, mut content)) = body.split_first() else { return 0 };
    match *kind {
        tag::BOOL | tag::INT => decode_varint(&mut content).unwrap_or_default(),
        tag::DOUBLE => content.first_chunk().map_or(0, |bits| u64::from_le_bytes(*bits)),
        _ => 0,
    }
}

/// A number or a boolean by its tag and its bits.
#[inline]
fn plain(value: &Value<'_>) -> Option<(u8, u64)> {
    match value {
        Value::Bool(boolean) => Some((tag::BOOL, u64::from(*boolean))),
        Value::Int(number) => Some((tag::INT, *number as u64)),
        Value::Float(number) => Some((tag::DOUBLE, number.to_bits())),
        _ => None,
    }
}

/// Whether a pair may be in a set.
#[inline]
fn is_welcome(key: &str, value: &Value<'_>) -> bool {
    !key.is_empty() && !is_too_deep(value)
}

/// Bytes of the varint at the front.
fn varint_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1
}

/// The `AnyValue` message of a value that is not nested too deeply.
#[cold]
fn encode(value: &Value<'_>) -> Vec<u8> {
    let set = AttributeSet::new([("value", *value)]);
    set.entries.first().map_or_else(Vec::new, |entry| set.value(entry).to_vec())
}

/// The hash of a pair whose key was absorbed before.
#[inline]
fn hash_value(state: u64, value: &Value<'_>) -> u64 {
    match value {
        Value::Str(text) => absorb(state, text.as_bytes()),
        other => hash_other(state, other),
    }
}

/// The same for a value that is no text.
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

/// The keys of a set in the order they were given. Pairs that follow it are looked up by their values alone.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The keys, one behind the other.
    bytes: Box<[u8]>,
    keys: Box<[Key]>,
    seed: u64,
}

#[derive(Debug)]
struct Key {
    text: Text,
    /// What a hash is after it has taken the key in.
    state: u64,
}

impl Pattern {
    /// Of the keys of this set; the seed is that of the hashes.
    pub(crate) fn of(set: &AttributeSet, seed: u64) -> Self {
        let names = || set.entries.iter().map(|entry| entry.key.of(&set.bytes));
        let bytes: Box<[u8]> = names().flatten().copied().collect();
        let mut end = 0;
        let keys = names().map(|name| {
            let start = end;
            end += name.len();
            Key { text: Text::new(&bytes, start..end), state: absorb(seed, name) }
        });
        let keys = keys.collect();
        Self { bytes, keys, seed }
    }

    /// The [`hash`](AttributeSet::hash) of pairs that follow the pattern; `None` if they do not.
    #[inline(always)]
    pub(crate) fn hash(&self, pairs: &[(&str, Value<'_>)]) -> Option<u64> {
        if pairs.len() != self.keys.len() {
            return None;
        }
        let mut sum = 0u64;
        for (known, (key, value)) in self.keys.iter().zip(pairs) {
            if !known.text.is(key.as_bytes(), &self.bytes) {
                return None;
            }
            sum = sum.wrapping_add(hash_value(known.state, value));
        }
        Some(sum)
    }

    /// The same for any pairs.
    pub(crate) fn hash_of_any(&self, pairs: &[(&str, Value<'_>)]) -> u64 {
        AttributeSet::hash(pairs, self.seed)
    }

    /// Whether the set was given with these keys in this order.
    pub(crate) fn is_of(&self, set: &AttributeSet) -> bool {
        let names = set.entries.iter().map(|entry| entry.key.of(&set.bytes));
        self.keys.iter().map(|key| key.text.of(&self.bytes)).eq(names)
    }
}

impl AttributeSet {
    /// Whether it has the values of these pairs, if both follow the same pattern.
    #[inline(always)]
    pub(crate) fn has_values(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        // A pattern has one length. The test spares the loop the shorter of two.
        if self.entries.len() != pairs.len() {
            return false;
        }
        for (entry, (_, value)) in self.entries.iter().zip(pairs) {
            if !self.is_value(entry, value) {
                return false;
            }
        }
        true
    }
}

/// What [`words`] can hold.
const SHORT: usize = 16;

/// Odd, and with about as many ones as zeros: what words are multiplied by.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f];

/// Some of the bytes of a set, with a copy of them as two words if they are short.
#[derive(Debug, Clone, Copy)]
struct Text {
    start: usize,
    len: usize,
    words: (u64, u64),
}

impl Text {
    /// Equal to nothing, as no text is that long.
    const NONE: Self = Self { start: 0, len: usize::MAX, words: (0, 0) };

    fn new(bytes: &[u8], range: Range<usize>) -> Self {
        Self { start: range.start, len: range.len(), words: words(&bytes[range]) }
    }

    /// Whether it equals `text`; `bytes` are those it was made of.
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

/// What becomes of a hash that takes these bytes in.
#[inline]
fn absorb(state: u64, bytes: &[u8]) -> u64 {
    if bytes.len() > SHORT {
        return absorb_long(state, bytes);
    }
    let (low, high) = words(bytes);
    fold(state ^ low, high ^ SPREAD[1].wrapping_add(bytes.len() as u64))
}

/// Sixteen bytes at a time; the last ones may overlap, and the length has been mixed in.
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

/// The same for a number or a boolean.
#[inline]
fn absorb_number(state: u64, kind: u8, bits: u64) -> u64 {
    fold(state ^ bits, SPREAD[0].wrapping_add(u64::from(kind)))
}

/// Short bytes as two words, different for different bytes of the same length. Of more than [`SHORT`] only the ends.
#[inline]
fn words(bytes: &[u8]) -> (u64, u64) {
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
    }
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into());
    }
    match bytes {
        [] => (0, 0),
        [one] => (u64::from(*one), 0),
        [first, .., last] => (u64::from(*first) << 8 | u64::from(*last), u64::from(bytes[1])),
    }
}

/// Both halves of the product, so that every bit of the input reaches every bit of the result.
#[inline]
fn fold(word: u64, by: u64) -> u64 {
    let product = u128::from(word) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
pub(super) mod tests;
