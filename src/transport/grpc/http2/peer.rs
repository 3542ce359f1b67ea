//! What one side keeps of what its peer sent: bytes up to a whole frame, a header block up to its end, and settings.

#[cfg(test)]
mod tests;

use super::flow_control::INITIAL_WINDOW;
use super::frame::{Code, Fault, HEAD_BYTES, Head, LEAST_MAX_FRAME};

/// Holds less than a frame once everything that is whole was taken out.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Where what was not taken out begins.
    start: usize,
}

impl Inbox {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// What has come and was not taken out.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The next frame, if all of it is there. Its length is judged as soon as its head is.
    pub(crate) fn take(&mut self) -> Result<Option<(Head, &[u8])>, Fault> {
        let Some((head, rest)) = self.bytes[self.start..].split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let head = Head::read(head);
        if head.length > LEAST_MAX_FRAME {
            return Err(Fault::size("a frame that is too long"));
        }
        let Some(payload) = rest.get(..head.length) else { return Ok(None) };
        self.start += HEAD_BYTES + head.length;
        Ok(Some((head, payload)))
    }
}

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

#[derive(Debug)]
pub(crate) struct Peer {
    /// Its first settings have come. Calls need not wait for them.
    pub(crate) has_greeted: bool,
    pub(crate) initial_window: u32,
    pub(crate) max_frame: usize,
    pub(crate) max_streams: u32,
    pub(crate) max_header_list: usize,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            has_greeted: false,
            initial_window: INITIAL_WINDOW,
            max_frame: LEAST_MAX_FRAME,
            max_streams: u32::MAX,
            max_header_list: usize::MAX,
        }
    }
}
