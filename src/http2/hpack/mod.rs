//! Pure: lists of header fields as HTTP/2 writes them (HPACK, RFC 7541).
//!
//! The decoder understands everything, within limits: whatever a block says, no more is kept than the dynamic table
//! and one list may hold, and the work grows with the block and these limits only. The encoder writes nothing that the
//! peer would have to remember: it refers to the static table and spells out the rest: for a few
//! fields and one peer, a dynamic table would save less than it takes.

mod decoder;
mod huffman;
mod primitives;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use self::decoder::{Decoder, List};
use self::primitives::put_integer;
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
