//! Keys that are known by heart: an instrument is mostly given the same ones, in the same order.

use super::text::{Text, absorb};
use super::{AttributeSet, hash_value};
use crate::record::Value;

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
        if self.len() != pairs.len() {
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
