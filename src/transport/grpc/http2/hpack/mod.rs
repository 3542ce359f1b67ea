//! Pure: lists of header fields as HTTP/2 writes them (HPACK, RFC 7541).
//!
//! The decoder understands everything, within limits: whatever a block says, no more is kept than the dynamic table
//! and one list may hold, and the work grows with the block and these limits only. The encoder writes nothing that the
//! peer would have to remember: it refers to the static table and spells out the rest.

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use decoder::{Decoder, List};
pub(crate) use encoder::{encode, encode_sensitive, encode_size_update};

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
