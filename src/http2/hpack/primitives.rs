//! The two primitive types of HPACK: integers and strings (RFC 7541, section 5).

use super::Malformed;
use super::huffman::Bytes;

/// Enough for 32 bits. More could only be zeros, or too large.
const MOST_CONTINUATION_BYTES: usize = 5;

/// Takes an integer from the front of `block`, whose first byte holds `prefix` bits of it.
pub(super) fn take_integer(block: &mut &[u8], prefix: u32) -> Result<usize, Malformed> {
    let (&first, mut rest) = block.split_first().ok_or(Malformed("an integer is cut off"))?;
    let all_ones = all_ones(prefix);
    let mut value = u64::from(first & all_ones);
    if value == u64::from(all_ones) {
        let mut shift = 0;
        loop {
            if shift == 7 * MOST_CONTINUATION_BYTES {
                return Err(Malformed("an integer has too many bytes"));
            }
            let (&byte, behind) = rest.split_first().ok_or(Malformed("an integer is cut off"))?;
            rest = behind;
            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *block = rest;
    // the same limit on every machine
    let value = u32::try_from(value).ok().and_then(|value| usize::try_from(value).ok());
    value.ok_or(Malformed("an integer is too large"))
}

/// Appends an integer whose first byte has `prefix` bits for it, behind those of `pattern`.
pub(super) fn put_integer(value: usize, prefix: u32, pattern: u8, block: &mut Vec<u8>) {
    let all_ones = all_ones(prefix);
    let Some(mut rest) = value.checked_sub(usize::from(all_ones)) else {
        // less than `all_ones`, which is a byte
        block.push(pattern | value as u8);
        return;
    };
    block.push(pattern | all_ones);
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// The largest number of `bits` bits, from 1 to 8.
fn all_ones(bits: u32) -> u8 {
    u8::MAX >> (8 - bits)
}

/// A string that was checked and measured, but not copied: it may be too long to keep.
pub(super) struct Text<'a> {
    encoded: &'a [u8],
    coding: Coding,
    length: usize,
}

#[derive(Clone, Copy)]
enum Coding {
    Plain,
    Huffman,
}

impl<'a> Text<'a> {
    /// Takes a string from the front of `block`.
    pub(super) fn take(block: &mut &'a [u8]) -> Result<Self, Malformed> {
        let coding = if block.first().is_some_and(|first| first & 0x80 != 0) {
            Coding::Huffman
        } else {
            Coding::Plain
        };
        let length = take_integer(block, 7)?;
        let (encoded, rest) = block.split_at_checked(length).ok_or(Malformed("a string is cut off"))?;
        *block = rest;
        let length = match coding {
            Coding::Plain => length,
            Coding::Huffman => decoded_length(encoded)?,
        };
        Ok(Self { encoded, coding, length })
    }

    /// In bytes, decoded.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        match self.coding {
            Coding::Plain => self.encoded.to_vec(),
            Coding::Huffman => {
                let mut decoded = Vec::with_capacity(self.length);
                let mut bytes = Bytes::of(self.encoded);
                // it has been read to its end before
                while let Ok(Some(byte)) = bytes.next() {
                    decoded.push(byte);
                }
                decoded
            }
        }
    }
}

fn decoded_length(encoded: &[u8]) -> Result<usize, Malformed> {
    let mut bytes = Bytes::of(encoded);
    let mut length = 0;
    while bytes.next()?.is_some() {
        length += 1;
    }
    Ok(length)
}
