//! One call: a request and its response on one stream.

use std::iter;

use super::super::flow_control::{ReceiveWindow, Window};
use super::super::frame::{Code, Fault};
use super::super::hpack::Field;

/// Bytes of a response's body that are kept; the rest is skipped.
pub(crate) const MAX_KEPT_BYTES: usize = 64 << 10;

/// A gRPC message: a prefix of five bytes (compressed flag and length), then the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    prefix: [u8; 5],
    /// Body in pieces.
    body: &'a [&'a [u8]],
    length: usize,
}

impl<'a> Message<'a> {
    pub(crate) fn new(body: &'a [&'a [u8]], is_compressed: bool) -> Self {
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        let [a, b, c, d] = (length as u32).to_be_bytes();
        Self { prefix: [u8::from(is_compressed), a, b, c, d], body, length }
    }

    pub(crate) fn len(&self) -> usize {
        self.prefix.len() + self.length
    }

    /// Appends `length` bytes of the message to `out`. Position `start` counts from the beginning of the prefix.
    pub(super) fn copy(&self, start: usize, length: usize, out: &mut Vec<u8>) {
        let end = start + length;
        let mut before = 0;
        for piece in iter::once(&self.prefix[..]).chain(self.body.iter().copied()) {
            let in_piece = |at: usize| at.saturating_sub(before).min(piece.len());
            out.extend_from_slice(&piece[in_piece(start)..in_piece(end)]);
            before += piece.len();
        }
    }
}

/// A response: headers, the beginning of the body, and trailers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Vec<Field>,
    pub(crate) body: Vec<u8>,
    /// Empty if the response ended with its headers or its body.
    pub(crate) trailers: Vec<Field>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Responded(Response),
    /// The server has not processed the request and never will (section 8.7), so the request can be sent again.
    Unprocessed,
    Reset(Code),
    /// The response is too long, or the server broke a rule that concerns only this call, not the connection.
    Malformed(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) stream: u32,
    /// Send window of the stream.
    pub(super) window: Window,
    /// Bytes of the message that are already framed.
    pub(super) sent: usize,
    pub(super) is_sent: bool,
    pub(super) end: Option<End>,
    receive_window: ReceiveWindow,
    /// Maximum body of the response. A longer body ends the call.
    max_body: usize,
    answer: Option<Response>,
    /// Received bytes of the body, including skipped ones.
    body_bytes: usize,
    /// True if the server has reset the stream or ignores it, so that no RST_STREAM is due.
    is_over_there: bool,
    broken_off: Option<Code>,
}

impl Call {
    pub(super) fn new(stream: u32, window: u32, max_body: usize) -> Self {
        Self { stream, window: Window::new(window), max_body, ..Self::default() }
    }

    /// Returns whether frames on `stream` belong to this call. Frames after the end of the call are ignored.
    pub(super) fn is_on(&self, stream: u32) -> bool {
        self.stream == stream && self.end.is_none()
    }

    pub(super) fn has_answer_begun(&self) -> bool {
        self.answer.is_some() || self.end.is_some()
    }

    pub(super) fn finish(&mut self, end: End) {
        // RST_STREAM has closed the stream, or GOAWAY says that the server ignores it. Either way the server expects no
        // further frame.
        self.is_over_there |= matches!(end, End::Reset(_) | End::Unprocessed);
        self.end = Some(end);
    }

    /// Ends the call because the server broke a rule.
    pub(super) fn break_off(&mut self, code: Code, what: &'static str) {
        self.broken_off = Some(code);
        self.finish(End::Malformed(what));
    }

    /// Returns the code of the RST_STREAM that is due at the end of a call whose request or response is incomplete.
    pub(super) fn reset_owed(&self) -> Option<Code> {
        match (self.broken_off, &self.end) {
            (Some(code), _) => Some(code),
            _ if self.is_over_there => None,
            // Both sides have ended the stream.
            (None, Some(End::Responded(_))) if self.is_sent => None,
            _ => Some(Code::CANCEL),
        }
    }

    /// Handles a part of the body. Returns the increment of a WINDOW_UPDATE if one is due.
    pub(super) fn data(&mut self, part: &[u8], flow: usize, ends_stream: bool) -> Result<Option<u32>, Fault> {
        let increment = self.receive_window.receive(flow)?;
        let Some(answer) = &mut self.answer else {
            self.break_off(Code::PROTOCOL, "DATA before HEADERS");
            return Ok(None);
        };
        // Bytes beyond `MAX_KEPT_BYTES` are counted and discarded, so that a long but valid response ends normally.
        let room = MAX_KEPT_BYTES - answer.body.len();
        answer.body.extend_from_slice(&part[..part.len().min(room)]);
        self.body_bytes += part.len();
        if ends_stream {
            self.complete();
        } else if self.body_bytes > self.max_body {
            self.finish(End::Malformed("the response is longer than response-bytes"));
        }
        Ok(increment)
    }

    /// Handles headers or trailers. Returns true for an interim response (status 1xx).
    pub(super) fn headers(&mut self, fields: Vec<Field>, ends_stream: bool) -> bool {
        match &mut self.answer {
            None => match status_of(&fields) {
                // An interim response is followed by the final one, so it must not end the stream (section 8.1).
                Some(100..200) if !ends_stream => return true,
                Some(status @ 200..600) => {
                    self.answer = Some(Response { status, head: fields, ..Response::default() });
                }
                _ => self.break_off(Code::PROTOCOL, "a response without a status"),
            },
            Some(answer) if ends_stream => answer.trailers = fields,
            Some(_) => self.break_off(Code::PROTOCOL, "a second header block"),
        }
        if ends_stream && self.end.is_none() {
            self.complete();
        }
        false
    }

    fn complete(&mut self) {
        let answer = self.answer.take().unwrap_or_default();
        self.finish(End::Responded(answer));
    }
}

fn status_of(fields: &[Field]) -> Option<u16> {
    let status = fields.iter().find(|field| field.name == b":status")?;
    match status.value[..] {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Some([a, b, c].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn copied(message: &Message<'_>, start: usize, length: usize) -> Vec<u8> {
        let mut out = b"before".to_vec();
        message.copy(start, length, &mut out);
        out.split_off("before".len())
    }

    #[test]
    fn the_prefix_says_how_long_the_rest_is_and_whether_it_is_compressed() {
        assert_eq!(copied(&Message::new(&[], false), 0, 5), [0; 5]);
        let body = vec![7; 0x01_02_03];
        assert_eq!(copied(&Message::new(&[&body], true), 0, 6), [1, 0, 1, 2, 3, 7]);
        assert_eq!(Message::new(&[&body], true).len(), 0x01_02_08);
    }

    #[test]
    fn only_three_digits_are_a_status() {
        let status = |value: &str| {
            status_of(&[
                Field { name: b"status".to_vec(), value: b"500".to_vec() },
                Field { name: b":status".to_vec(), value: value.into() },
            ])
        };
        assert_eq!((status("100"), status("200"), status("999")), (Some(100), Some(200), Some(999)));
        for value in ["", "2", "20", "2000", "020", " 200", "+20", "2x0", "２００"] {
            assert_eq!(status(value), None, "{value:?}");
        }
        assert_eq!(status_of(&[]), None);
    }

    proptest! {
        #[test]
        fn a_part_of_a_message_is_that_part_of_all_its_bytes(
            body in prop::collection::vec(any::<u8>(), 0..50),
            is_compressed: bool,
            start: prop::sample::Index,
            end: prop::sample::Index,
        ) {
            let pieces: Vec<_> = body.chunks(7).collect();
            let message = Message::new(&pieces, is_compressed);
            let whole = [&[u8::from(is_compressed)][..], &(body.len() as u32).to_be_bytes(), &body].concat();
            prop_assert_eq!(message.len(), whole.len());
            let (start, end) = (start.index(whole.len() + 1), end.index(whole.len() + 1));
            let (start, end) = (start.min(end), start.max(end));
            prop_assert_eq!(copied(&message, start, end - start), &whole[start..end]);
        }
    }
}
