//! How are keys and values compared and hashed cheaply? Up to 16 bytes as two words, without a call.

use std::ops::Range;

/// What [`words`] can hold.
const SHORT: usize = 16;

/// Odd, and with about as many ones as zeros: what words are multiplied by.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f];

/// Some of the bytes of a set, with a copy of them as two words if they are short.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text {
    start: usize,
    len: usize,
    words: (u64, u64),
}

impl Text {
    /// Equal to nothing, as no text is that long.
    pub(super) const NONE: Self = Self { start: 0, len: usize::MAX, words: (0, 0) };

    pub(super) fn new(bytes: &[u8], range: Range<usize>) -> Self {
        Self { start: range.start, len: range.len(), words: words(&bytes[range]) }
    }

    /// Whether it equals `text`; `bytes` are those it was made of.
    #[inline]
    pub(super) fn is(&self, text: &[u8], bytes: &[u8]) -> bool {
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
    pub(super) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.len]
    }
}

/// What becomes of a hash that takes these bytes in.
#[inline]
pub(super) fn absorb(state: u64, bytes: &[u8]) -> u64 {
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
pub(super) fn absorb_number(state: u64, kind: u8, bits: u64) -> u64 {
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
