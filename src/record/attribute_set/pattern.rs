//! Lookup by values alone: most measurements of an instrument have the same keys in the same order.

use super::{AttributeSet, Entry, Text, Value, absorb, absorb_words, hash_value, medium_words};

/// The keys of a set in the order in which the caller listed them. Pairs with the same keys are looked up by their
/// values alone.
pub(crate) struct Pattern {
    /// The keys back to back.
    bytes: Box<[u8]>,
    keys: Box<[Key]>,
    pub(crate) seed: u64,
}

struct Key {
    text: Text,
    /// State of the hash after it has absorbed the key.
    state: u64,
}

impl Pattern {
    /// Returns the pattern of the keys of a set. `seed` is the seed of the hashes.
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

    /// Returns the [`hash`](AttributeSet::hash) of the pairs, or `None` if they do not have these keys in this order.
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

    /// Like [`hash`](Self::hash), for one to four pairs. Also returns the values that are a [`MediumText`]. The number
    /// of pairs is a constant and there is no loop, so the words of the texts stay in registers.
    #[inline(always)]
    pub(crate) fn digest<const N: usize>(&self, pairs: &[(&str, Value<'_>); N]) -> Option<Digest<N>> {
        let keys: &[Key; N] = (&*self.keys).try_into().ok()?;
        let (mut hash, mut texts) = (0u64, [NOT_MEDIUM; N]);
        macro_rules! absorb {
            ($($index:literal)*) => { $(
                if $index < N {
                    let (known, (key, value)) = (&keys[$index], &pairs[$index]);
                    if !self.is_key(&known.text, key.as_bytes()) {
                        return None;
                    }
                    hash = hash.wrapping_add(match medium_text(value) {
                        Some(text) => {
                            texts[$index] = text;
                            absorb_words(known.state, text.0, text.1)
                        }
                        None => hash_any(known.state, value),
                    });
                }
            )* };
        }
        absorb!(0 1 2 3);
        Some(Digest { hash, texts })
    }

    /// Returns whether a key of the pattern equals `key`. Only the comparison of keys of 8 to 16 bytes is inlined.
    #[inline(always)]
    fn is_key(&self, known: &Text, key: &[u8]) -> bool {
        match medium_words(key) {
            Some(words) => known.len == key.len() && known.words == words,
            None => self.is_any_key(known, key),
        }
    }

    #[inline(never)]
    fn is_any_key(&self, known: &Text, key: &[u8]) -> bool {
        known.is(key, &self.bytes)
    }

    /// Returns whether the set was created with these keys in this order.
    pub(crate) fn is_of(&self, set: &AttributeSet) -> bool {
        let names = set.entries.iter().map(|entry| entry.key.of(&set.bytes));
        self.keys.iter().map(|key| key.text.of(&self.bytes)).eq(names)
    }
}

impl AttributeSet {
    /// Returns whether the set has the values of these pairs. Both must follow the same pattern.
    #[inline(always)]
    pub(crate) fn has_values(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        // Never true, because all sets of a pattern have the same length. With this condition, the compiler omits one
        // of the two end conditions of the loop.
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

    /// Like [`has_values`](Self::has_values), for pairs with this digest.
    #[inline(always)]
    pub(crate) fn has<const N: usize>(&self, digest: &Digest<N>, pairs: &[(&str, Value<'_>); N]) -> bool {
        let Ok(entries) = <&[Entry; N]>::try_from(&*self.entries) else { return false };
        // A loop, because the compiler does not inline `all`.
        for (Entry { text, .. }, other) in entries.iter().zip(&digest.texts) {
            if (text.len, text.words) != *other {
                return self.has_any(pairs);
            }
        }
        true
    }

    #[inline(never)]
    fn has_any(&self, pairs: &[(&str, Value<'_>)]) -> bool {
        self.has_values(pairs)
    }
}

/// The hash of `N` pairs, and their values. A value that is not a [`MediumText`] is [`NOT_MEDIUM`].
pub(crate) struct Digest<const N: usize> {
    pub(crate) hash: u64,
    texts: [MediumText; N],
}

/// The length and the words of a text of 8 to 16 bytes, which represent the text completely. Most values have such a
/// length.
type MediumText = (usize, (u64, u64));

/// Differs from the text of every [`Entry`], because no text has this length, and [`Text::NONE`] has another one.
const NOT_MEDIUM: MediumText = (usize::MAX - 1, (0, 0));

#[inline(always)]
fn medium_text(value: &Value<'_>) -> Option<MediumText> {
    match value {
        Value::Str(text) => Some((text.len(), medium_words(text.as_bytes())?)),
        _ => None,
    }
}

#[inline(never)]
fn hash_any(state: u64, value: &Value<'_>) -> u64 {
    hash_value(state, value)
}
