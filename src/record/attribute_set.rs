//! The attributes that tell one series of a metric from another: a canonical set, encoded once.

use std::hash::{Hash, Hasher};

use prost::encoding::decode_varint;

use super::Value;
use super::attribute::Attribute;
use super::buffer::Writer;

/// Tags of `AnyValue` for the values that are compared and hashed without being encoded first.
mod tag {
    pub(super) const STRING: u8 = 0x0a;
    pub(super) const BOOL: u8 = 0x10;
    pub(super) const INT: u8 = 0x18;
    pub(super) const DOUBLE: u8 = 0x21;
}

/// Stands in the stored bytes where the tag goes that a set is written under.
const ANY_TAG: u8 = 0;

/// Attributes sorted by key, each key once, in wire format.
///
/// Two sets are equal if and only if they would be the same series to a collector.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSet {
    /// `KeyValue` fields, one behind the other.
    bytes: Box<[u8]>,
    entries: Box<[Entry]>,
    /// Which entry each pair became, in the order they were given: most callers give them in the same order every time.
    as_given: Box<[u32]>,
}

/// Where the parts of one attribute begin.
#[derive(Debug, Clone, Copy)]
struct Entry {
    field: u32,
    key: u32,
    key_end: u32,
    /// The `AnyValue` message, without its length.
    value: u32,
    /// The text in it; beyond the end if it is none.
    text: u32,
    end: u32,
    /// The tag of the value, and its bits if it is a number or a truth value.
    kind: u8,
    bits: u64,
}

impl AttributeSet {
    /// Of pairs with the same key the last one counts. An empty key and a value nested too deeply are left out: they
    /// must not be sent.
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let mut attributes: Vec<_> = pairs
            .into_iter()
            .enumerate()
            .filter_map(|(given, (key, value))| Some((key, Attribute::new(key, value, None)?, given)))
            .collect();
        // later ones first, so that they are the ones that stay
        attributes.reverse();
        attributes.sort_by_key(|(key, ..)| *key);
        attributes.dedup_by_key(|(key, ..)| *key);
        let mut bytes =
            Vec::with_capacity(attributes.iter().map(|(_, attribute, _)| attribute.field_len()).sum());
        let mut entries = Vec::with_capacity(attributes.len());
        for (key, attribute, _) in &attributes {
            let start = bytes.len();
            let end = start + attribute.field_len();
            // beyond this nothing could be sent
            let Ok(_) = u32::try_from(end) else { break };
            bytes.resize(end, 0);
            attribute.write(ANY_TAG, &mut Writer::over(&mut bytes[start..]));
            entries.push(Entry::of_field(&bytes[start..], start, key.len()));
        }
        let mut as_given: Vec<u32> = (0..entries.len() as u32).collect();
        as_given.sort_by_key(|&entry| attributes[entry as usize].2);
        Self { bytes: bytes.into(), entries: entries.into(), as_given: as_given.into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all the fields that [`write`](Self::write) writes.
    pub(super) fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the attributes as `KeyValue` fields with this one-byte tag.
    pub(super) fn write(&self, tag: u8, out: &mut Writer<'_>) {
        for entry in &self.entries {
            out.byte(tag);
            out.put(&self.bytes[entry.field as usize + 1..entry.end as usize]);
        }
    }

    /// Whether these pairs, in any order, make this set. Pairs with a key that is there twice are never found equal:
    /// who wants to know about them makes a set of them first.
    #[inline]
    pub(crate) fn equals(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        let is_met = |(&entry, pair)| self.is_pair(&self.entries[entry as usize], pair);
        let are_met = || self.as_given.iter().zip(pairs).all(is_met);
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
        is_equal(self.key(entry), key.as_bytes())
            && match value {
                Value::Str(text) => self.text(entry).is_some_and(|stored| is_equal(stored, text.as_bytes())),
                other => match plain(other) {
                    Some((kind, bits)) => entry.kind == kind && entry.bits == bits,
                    None => self.value(entry) == encode(other),
                },
            }
    }

    /// The same for the same pairs in any order. It agrees with [`hash_of`](Self::hash_of) for the set made of them,
    /// unless a key is there twice.
    #[inline]
    pub(crate) fn hash(pairs: &[(&str, Value<'_>)], seed: u64) -> u64 {
        let hashes = pairs.iter().map(|(key, value)| match value {
            Value::Str(text) if !key.is_empty() => {
                hash_pair(key.as_bytes(), tag::STRING, text.as_bytes(), seed)
            }
            other => hash_other(key, other, seed),
        });
        hash_all(hashes, seed)
    }

    /// The hash of this set, see [`hash`](Self::hash).
    pub(crate) fn hash_of(&self, seed: u64) -> u64 {
        let hashes = self.entries.iter().map(|entry| {
            let bits = entry.bits.to_le_bytes();
            let content = match entry.kind {
                tag::STRING => self.text(entry).unwrap_or_default(),
                tag::BOOL | tag::INT | tag::DOUBLE => &bits,
                _ => self.value(entry),
            };
            hash_pair(self.key(entry), entry.kind, content, seed)
        });
        hash_all(hashes, seed)
    }

    #[inline]
    fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.key as usize..entry.key_end as usize]
    }

    fn value(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.value as usize..entry.end as usize]
    }

    /// The value, if it is text.
    #[inline]
    fn text(&self, entry: &Entry) -> Option<&[u8]> {
        self.bytes.get(entry.text as usize..entry.end as usize)
    }
}

impl Entry {
    /// Of a field that stands at `start`; it fits into 32 bits with all that is before it.
    fn of_field(field: &[u8], start: usize, key_len: usize) -> Self {
        let after_length = |at: usize| at + varint_len(&field[at..]);
        // tag, length, key tag, key length, key, value tag, value length, value
        let key = after_length(after_length(1) + 1);
        let value = after_length(key + key_len + 1);
        let place = |at: usize| (start + at) as u32;
        Self {
            field: place(0),
            key: place(key),
            key_end: place(key + key_len),
            value: place(value),
            text: if field[value] == tag::STRING { place(after_length(value + 1)) } else { u32::MAX },
            end: place(field.len()),
            kind: field[value],
            bits: bits(&field[value..]),
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

/// The bits of a number or a truth value in an `AnyValue` message; of anything else 0.
fn bits(body: &[u8]) -> u64 {
    let Some((kind, mut content)) = body.split_first() else { return 0 };
    match *kind {
        tag::BOOL | tag::INT => decode_varint(&mut content).unwrap_or_default(),
        tag::DOUBLE => content.first_chunk().map_or(0, |bits| u64::from_le_bytes(*bits)),
        _ => 0,
    }
}

/// A number or a truth value by its tag and its bits.
#[inline]
fn plain(value: &Value<'_>) -> Option<(u8, u64)> {
    match value {
        Value::Bool(truth) => Some((tag::BOOL, u64::from(*truth))),
        Value::Int(number) => Some((tag::INT, *number as u64)),
        Value::Float(number) => Some((tag::DOUBLE, number.to_bits())),
        _ => None,
    }
}

/// Whether a pair may be in a set.
#[inline]
fn is_welcome(key: &str, value: &Value<'_>) -> bool {
    !key.is_empty() && !super::attribute::is_too_deep(value)
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

fn hash_all(hashes: impl Iterator<Item = u64>, seed: u64) -> u64 {
    // a sum does not know the order of its parts
    fold(hashes.fold(0, u64::wrapping_add) ^ seed, SPREAD[0])
}

/// Odd, and with about as many ones as zeros: what words are multiplied by.
const SPREAD: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];

/// The hash of a pair whose value is not text, or that is no pair at all.
fn hash_other(key: &str, value: &Value<'_>, seed: u64) -> u64 {
    match is_welcome(key, value) {
        true => match plain(value) {
            Some((kind, bits)) => hash_pair(key.as_bytes(), kind, &bits.to_le_bytes(), seed),
            None => {
                let body = encode(value);
                hash_pair(key.as_bytes(), body.first().copied().unwrap_or_default(), &body, seed)
            }
        },
        false => 0,
    }
}

#[inline]
fn hash_pair(key: &[u8], kind: u8, value: &[u8], seed: u64) -> u64 {
    absorb(absorb(seed ^ SPREAD[1], key).wrapping_add(u64::from(kind)), value)
}

#[inline]
fn absorb(state: u64, bytes: &[u8]) -> u64 {
    if bytes.len() > SHORT {
        return absorb_long(state, bytes);
    }
    let (low, high) = words(bytes);
    fold(state ^ low, high ^ SPREAD[2].wrapping_add(bytes.len() as u64))
}

/// Sixteen bytes at a time; the last ones may overlap, the length tells where they end.
fn absorb_long(state: u64, bytes: &[u8]) -> u64 {
    let state = fold(state, SPREAD[0] ^ bytes.len() as u64);
    let last = &bytes[bytes.len() - SHORT..];
    bytes.chunks_exact(SHORT).chain([last]).fold(state, |state, chunk| {
        let (low, high) = words(chunk);
        fold(state ^ low, high ^ SPREAD[2])
    })
}

/// What [`words`] can hold.
const SHORT: usize = 16;

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

/// Short ones without a call.
#[inline]
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() || one.len() > SHORT {
        return one == other;
    }
    words(one) == words(&other[..one.len()])
}

/// Both halves of the product, so that every bit of the input reaches every bit of the result.
#[inline]
fn fold(word: u64, by: u64) -> u64 {
    let product = u128::from(word) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
pub(super) mod tests;
