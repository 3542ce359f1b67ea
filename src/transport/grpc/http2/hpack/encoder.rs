//! Writes header blocks that can be read without a memory of those before: only the static table is referred to
//! (RFC 7541, section 6). Our few fields are sent to one peer; a table would save less than it takes.

use super::super::tables::STATIC_FIELDS;
use super::integer;

const INDEXED: u8 = 0x80;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0x00;

/// Appends a field.
pub(crate) fn encode(name: &str, value: &[u8], block: &mut Vec<u8>) {
    let known = STATIC_FIELDS.iter().position(|field| field.0 == name && field.1.as_bytes() == value);
    match known {
        Some(place) => integer::put(place + 1, 7, INDEXED, block),
        None => literal(name, value, WITHOUT_INDEXING, block),
    }
}

/// Appends a field that nobody on its way may put into a table, where its value could be guessed bit by bit.
pub(crate) fn encode_sensitive(name: &str, value: &[u8], block: &mut Vec<u8>) {
    literal(name, value, NEVER_INDEXED, block);
}

/// Appends how large a table we use. It may only stand at the beginning of a block.
pub(crate) fn encode_size_update(size: usize, block: &mut Vec<u8>) {
    integer::put(size, 5, SIZE_UPDATE, block);
}

fn literal(name: &str, value: &[u8], pattern: u8, block: &mut Vec<u8>) {
    match STATIC_FIELDS.iter().position(|field| field.0 == name) {
        Some(place) => integer::put(place + 1, 4, pattern, block),
        None => {
            block.push(pattern);
            string(name.as_bytes(), block);
        }
    }
    string(value, block);
}

fn string(text: &[u8], block: &mut Vec<u8>) {
    integer::put(text.len(), 7, 0, block);
    block.extend_from_slice(text);
}
