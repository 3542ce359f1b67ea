//! Bytes as they come, taken out frame by frame.

#[cfg(test)]
mod tests;

use super::frame::{Fault, HEAD_BYTES, Head, LEAST_MAX_FRAME};

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
