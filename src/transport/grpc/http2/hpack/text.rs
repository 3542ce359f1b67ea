//! Strings in a block: as they are, or in Huffman code (RFC 7541, section 5.2).

use super::huffman::Bytes;
use super::{Malformed, integer};

/// A string that was checked and measured, but not copied: it may be longer than anybody wants to keep.
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
        let length = integer::take(block, 7)?;
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
