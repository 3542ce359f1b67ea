//! The answers of a session, on their way out as fast as the client allows.

use super::call::Stream;
use super::session::Session;
use crate::http2::frame::{self, Code, LEAST_MAX_FRAME, flag, kind};
use crate::http2::hpack;

/// No client waits for this answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// Names in lower case, pseudo-headers first.
pub(super) type Fields = Vec<(String, String)>;

impl Session {
    /// Headers, or trailers if they end the stream.
    pub(super) fn send_headers(&mut self, id: u32, fields: &Fields, ends_stream: bool) -> Result<(), Gone> {
        // first: a table size update is encoded once, and would be lost with a block that is not sent
        self.unanswered(id)?;
        let block = self.encode(fields);
        frame::write_headers(id, &block, ends_stream, LEAST_MAX_FRAME, &mut self.out);
        if ends_stream {
            self.end_answer(id);
        }
        Ok(())
    }

    /// A header block, before which a change of the table may have to be sent.
    pub(super) fn encode(&mut self, fields: &Fields) -> Vec<u8> {
        let mut block = Vec::new();
        if std::mem::take(&mut self.owes_table_size) {
            hpack::encode_size_update(0, &mut block);
        }
        for (name, value) in fields {
            hpack::encode(name, value.as_bytes(), &mut block);
        }
        block
    }

    /// As much of `content` as the client has room for, and how much that is.
    pub(super) fn send_data(&mut self, id: u32, content: &[u8]) -> Result<usize, Gone> {
        let room = self.unanswered(id)?.window.available().min(self.window.available());
        let (content, _) = content.split_at(content.len().min(room));
        // neither fails, as there is enough room
        let _ = self.window.spend(content.len());
        let _ = self.unanswered(id)?.window.spend(content.len());
        for piece in content.chunks(LEAST_MAX_FRAME) {
            frame::write_head(kind::DATA, 0, id, piece.len(), &mut self.out);
            self.out.extend_from_slice(piece);
        }
        Ok(content.len())
    }

    /// The end of an answer that has no trailers.
    pub(super) fn send_end(&mut self, id: u32) -> Result<(), Gone> {
        self.unanswered(id)?;
        frame::write_head(kind::DATA, flag::END_STREAM, id, 0, &mut self.out);
        self.end_answer(id);
        Ok(())
    }

    pub(super) fn send_reset(&mut self, id: u32, code: Code) -> Result<(), Gone> {
        let stream = self.unanswered(id)?;
        (stream.is_heard, stream.is_answered) = (true, true);
        frame::write_reset(id, code, &mut self.out);
        Ok(())
    }

    /// Streams that begin from now on are ignored.
    pub(super) fn take_no_more(&mut self) {
        self.is_leaving = true;
    }

    /// The last answer is that of `last_stream`.
    pub(super) fn send_go_away(&mut self, last_stream: u32, code: Code) {
        frame::write_go_away(last_stream, code, &mut self.out);
    }

    /// No handler works on this answer any more, finished or not.
    pub(super) fn let_go(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.in_hand = false;
            self.buffered -= std::mem::take(&mut stream.in_hand_bytes);
        }
        self.remove_if_done(id);
    }

    pub(super) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn unanswered(&mut self, id: u32) -> Result<&mut Stream, Gone> {
        self.streams.get_mut(&id).filter(|stream| !stream.is_answered).ok_or(Gone)
    }

    pub(super) fn end_answer(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.is_answered = true;
        if !std::mem::replace(&mut stream.is_heard, true) {
            // what is still on its way is of no use: there is an answer
            frame::write_reset(id, Code::NO_ERROR, &mut self.out);
        }
        // at once: as soon as the client has its answer, it may begin another
        self.let_go(id);
    }
}
