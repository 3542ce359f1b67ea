//! HPACK (RFC 7541), the compression of header lists: the encoder, and the primitive types of both sides. Pure.
//!
//! The decoder implements all of HPACK within limits: it stores at most one dynamic table and one header list, and its
//! work is linear in the size of the block and in these limits. The encoder uses the static table and literals only. A
//! dynamic table would save little for a few fields and one peer. Without a dynamic table the encoder has no state, so
//! the fixed fields are encoded once and sent with every request.

mod decoder;
#[cfg(test)]
mod tests;

pub(crate) use self::decoder::{Decoder, List};
use self::decoder::{STATIC_FIELDS, decode_huffman};

const INDEXED: u8 = 0x80;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0x00;

/// A header field, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Error for a block that cannot be decoded. It contains the reason, to be shown in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Bytes that each field counts in addition to its name and value, in tables and lists (section 4.1).
const OVERHEAD: usize = 32;

/// Appends a field.
pub(crate) fn encode(name: &str, value: &[u8], block: &mut Vec<u8>) {
    // A linear search suffices: clients encode all fields except the timeout only once, and responses are short.
    let known = STATIC_FIELDS.iter().position(|field| field.0 == name && field.1.as_bytes() == value);
    match known {
        Some(place) => put_integer(place + 1, 7, INDEXED, block),
        None => literal(name, value, WITHOUT_INDEXING, block),
    }
}

/// Appends a field that intermediaries must not put into a table, where its value could be guessed from the compressed
/// size (section 7.1).
pub(crate) fn encode_sensitive(name: &str, value: &[u8], block: &mut Vec<u8>) {
    literal(name, value, NEVER_INDEXED, block);
}

/// Appends a dynamic table size update. It is valid only at the beginning of a block (section 4.2).
pub(crate) fn encode_size_update(size: usize, block: &mut Vec<u8>) {
    put_integer(size, 5, SIZE_UPDATE, block);
}

fn literal(name: &str, value: &[u8], pattern: u8, block: &mut Vec<u8>) {
    match STATIC_FIELDS.iter().position(|field| field.0 == name) {
        Some(place) => put_integer(place + 1, 4, pattern, block),
        None => {
            block.push(pattern);
            string(name.as_bytes(), block);
        }
    }
    string(value, block);
}

fn string(text: &[u8], block: &mut Vec<u8>) {
    put_integer(text.len(), 7, 0, block);
    block.extend_from_slice(text);
}

/// Maximum continuation bytes of an integer, enough for 32 bits. Further bytes could only add leading zeros, or exceed
/// 32 bits.
const MAX_CONTINUATION_BYTES: usize = 5;

/// Takes an integer (section 5.1) from the front of `block`, whose first byte holds `prefix` bits of it.
fn take_integer(block: &mut &[u8], prefix: u32) -> Result<usize, Malformed> {
    let (&first, mut rest) = block.split_first().ok_or(Malformed("an integer is cut off"))?;
    let all_ones = all_ones(prefix);
    let mut value = u64::from(first & all_ones);
    if value == u64::from(all_ones) {
        let mut shift = 0;
        loop {
            if shift == 7 * MAX_CONTINUATION_BYTES {
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
    // The limit is 32 bits on every machine.
    let value = u32::try_from(value).ok().and_then(|value| usize::try_from(value).ok());
    value.ok_or(Malformed("an integer is too large"))
}

/// Appends an integer. The low `prefix` bits of its first byte belong to the integer, the high bits to `pattern`.
fn put_integer(value: usize, prefix: u32, pattern: u8, block: &mut Vec<u8>) {
    let all_ones = all_ones(prefix);
    let Some(mut rest) = value.checked_sub(usize::from(all_ones)) else {
        // The value is below `all_ones`, so it fits into a byte.
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

/// Returns the largest number that has `bits` bits. `bits` is 1 to 8.
fn all_ones(bits: u32) -> u8 {
    u8::MAX >> (8 - bits)
}

/// Takes a string (section 5.2) from the front of `block`. The shortest Huffman code has 5 bits, so the string is at
/// most 8/5 as long as its encoding.
fn take_string(block: &mut &[u8]) -> Result<Vec<u8>, Malformed> {
    let is_huffman = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = take_integer(block, 7)?;
    let (encoded, rest) = block.split_at_checked(length).ok_or(Malformed("a string is cut off"))?;
    *block = rest;
    if is_huffman { decode_huffman(encoded) } else { Ok(encoded.to_vec()) }
}
