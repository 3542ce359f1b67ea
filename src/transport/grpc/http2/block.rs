//! A header block that comes in pieces.

#[cfg(test)]
mod tests;

use super::frame::{Code, Fault};

/// A peer that needs more frames than this for a block wants something else. Empty ones count.
const MOST_FRAMES: u32 = 8;
/// The longest block.
pub(crate) const MOST_BYTES: usize = 32 << 10;

/// A block that was begun. Until it ends, nothing else may come.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) stream: u32,
    pub(crate) ends_stream: bool,
    pub(crate) bytes: Vec<u8>,
    frames: u32,
}

impl Block {
    pub(crate) fn begin(stream: u32, ends_stream: bool, piece: &[u8]) -> Self {
        Self { stream, ends_stream, bytes: piece.to_vec(), frames: 1 }
    }

    pub(crate) fn add(&mut self, stream: u32, piece: &[u8]) -> Result<(), Fault> {
        if stream != self.stream {
            return Err(Fault::protocol("a header block that goes on in another stream"));
        }
        self.frames += 1;
        if self.frames > MOST_FRAMES || self.bytes.len() + piece.len() > MOST_BYTES {
            return Err(Fault { code: Code::ENHANCE_YOUR_CALM, what: "a header block without end" });
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}
