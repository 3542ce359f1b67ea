//! Pure: lists of header fields as HTTP/2 writes them (HPACK, RFC 7541): the encoder, and the primitive types of both sides.
//!
//! The decoder understands everything, within limits: whatever a block says, no more is kept than the dynamic table
//! and one list may hold, and the work grows with the block and these limits only. The encoder writes nothing that the
//! peer would have to remember: it refers to the static table and spells out the rest: for a few
//! fields and one peer, a dynamic table would save less than it takes.

mod decoder;
mod huffman;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use self::decoder::{Decoder, List};
use self::table::STATIC_FIELDS;

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

/// Why a block cannot be decoded, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// What a field counts for beside its name and its value, in tables and in lists.
const OVERHEAD: usize = 32;

/// Appends a field.
pub(crate) fn encode(name: &str, value: &[u8], block: &mut Vec<u8>) {
    let known = STATIC_FIELDS.iter().position(|field| field.0 == name && field.1.as_bytes() == value);
    match known {
        Some(place) => put_integer(place + 1, 7, INDEXED, block),
        None => literal(name, value, WITHOUT_INDEXING, block),
    }
}

/// Appends a field that no intermediary may put into a table, where its value could be guessed bit by bit.
pub(crate) fn encode_sensitive(name: &str, value: &[u8], block: &mut Vec<u8>) {
    literal(name, value, NEVER_INDEXED, block);
}

/// Appends how large a table we use. It may only stand at the beginning of a block.
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

/// Enough for 32 bits. More could only be zeros, or too large.
const MAX_CONTINUATION_BYTES: usize = 5;

/// Takes an integer from the front of `block`, whose first byte holds `prefix` bits of it.
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
    // the same limit on every machine
    let value = u32::try_from(value).ok().and_then(|value| usize::try_from(value).ok());
    value.ok_or(Malformed("an integer is too large"))
}

/// Appends an integer whose first byte has `prefix` bits for it, behind those of `pattern`.
fn put_integer(value: usize, prefix: u32, pattern: u8, block: &mut Vec<u8>) {
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

/// Takes a string from the front of `block`. It is at most eight fifths as long as the rest of the block.
fn take_string(block: &mut &[u8]) -> Result<Vec<u8>, Malformed> {
    let is_huffman = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = take_integer(block, 7)?;
    let (encoded, rest) = block.split_at_checked(length).ok_or(Malformed("a string is cut off"))?;
    *block = rest;
    if is_huffman { huffman::decode(encoded) } else { Ok(encoded.to_vec()) }
}
