//! An answer on its way to ureq, which writes to the `log` crate what it reads: a secret that a server repeats in it is
//! overwritten before.
//!
//! An answer comes in pieces that may end anywhere, also within a secret. So a line of the head is held until it is whole.
//! Of a body nothing can be held, since its last piece may be the last that comes: what came before is remembered instead.

use super::READ_BYTES;
use super::mask::Mask;

/// How every answer in HTTP begins.
const PROTOCOL: &[u8] = b"HTTP/";
/// What is remembered of a body. Of a longer secret, the part at the end of it is recognised all the same.
const MEMORY: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Blotter {
    place: Place,
    /// Received, and not given to ureq yet.
    held: Vec<u8>,
    /// The end of what was given of a body, as it was received.
    given: Vec<u8>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// The first line of an answer.
    #[default]
    Start,
    Head {
        /// Another answer follows this one, which is only a sign of life.
        is_interim: bool,
    },
    Body,
    /// Not HTTP: a protocol that ureq does not know either, or TLS on its way through a proxy.
    Foreign,
}

impl Blotter {
    /// What comes from now on is a new answer.
    pub(super) fn begin(&mut self) {
        self.place = Place::Start;
        self.given.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn take(&mut self, received: &[u8]) {
        self.held.extend_from_slice(received);
    }

    /// Fills `room` with what may be seen, and returns its length. At the end there is nothing to wait for any more.
    pub(super) fn give(&mut self, mask: &Mask, is_end: bool, room: &mut [u8]) -> usize {
        let mut given = 0;
        while let Some(length) = self.ready(is_end) {
            let left = room.len() - given;
            // a line is given whole, unless it is too long for any room
            if left == 0 || (length > left && given > 0 && self.is_in_head()) {
                break;
            }
            let piece = &mut room[given..given + length.min(left)];
            piece.copy_from_slice(&self.held[..piece.len()]);
            self.held.drain(..piece.len());
            self.blot(mask, piece);
            given += piece.len();
        }
        given
    }

    /// The bytes that can be judged by themselves.
    fn ready(&mut self, is_end: bool) -> Option<usize> {
        let begins_as_http = || self.held.iter().zip(PROTOCOL).all(|(one, other)| one == other);
        if self.place == Place::Start && !begins_as_http() {
            self.place = Place::Foreign;
        }
        let is_long = self.held.len() >= READ_BYTES;
        let line = match self.is_in_head() {
            true => self.held.iter().position(|byte| *byte == b'\n').map(|end| end + 1),
            false => None,
        };
        let has_all = is_end || is_long || !self.is_in_head();
        line.or(has_all.then_some(self.held.len())).filter(|length| *length > 0)
    }

    fn is_in_head(&self) -> bool {
        matches!(self.place, Place::Start | Place::Head { .. })
    }

    fn blot(&mut self, mask: &Mask, piece: &mut [u8]) {
        let is_last_line = matches!(&*piece, b"\r\n" | b"\n");
        self.place = match self.place {
            Place::Start => Place::Head { is_interim: is_interim(piece) },
            Place::Head { is_interim: true } if is_last_line => Place::Start,
            Place::Head { .. } if is_last_line => Place::Body,
            place @ Place::Head { .. } => place,
            Place::Foreign => return mask.blot_foreign(piece),
            Place::Body => return self.blot_body(mask, piece),
        };
        mask.blot_line(piece);
    }

    fn blot_body(&mut self, mask: &Mask, piece: &mut [u8]) {
        let before = self.given.len();
        self.given.extend_from_slice(piece);
        mask.blot_body(&self.given, before, piece);
        let forgotten = self.given.len().saturating_sub(MEMORY);
        self.given.drain(..forgotten);
    }
}

/// Whether the status begins with 1, such as `HTTP/1.1 103 Early Hints`.
fn is_interim(line: &[u8]) -> bool {
    line.split(|byte| *byte == b' ').nth(1).is_some_and(|status| status.first() == Some(&b'1'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::redact::Secrets;

    /// What ureq sees of an answer that comes in pieces of this size.
    fn seen(answer: &str, size: usize) -> String {
        let mut mask = Mask::default();
        mask.conceal_from_now_on(Secrets::new(["Bearer s3cret-and-long"]));
        let (mut blotter, mut seen, mut room) = (Blotter::default(), Vec::new(), [0; 100]);
        let pieces = answer.as_bytes().chunks(size);
        for piece in pieces {
            blotter.take(piece);
            loop {
                let given = blotter.give(&mask, false, &mut room);
                seen.extend_from_slice(&room[..given]);
                if given == 0 {
                    break;
                }
            }
        }
        let given = blotter.give(&mask, true, &mut room);
        seen.extend_from_slice(&room[..given]);
        assert!(blotter.is_empty());
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn a_secret_is_overwritten_wherever_a_piece_of_the_answer_ends() {
        let head = "HTTP/1.1 103 Hints\r\nLocation: /?k=v\r\n\r\n\
            HTTP/1.1 400 no: s3cret-and-long: x\r\nServer: s3cret-and-long\r\ns3cret-and-long: x\r\n\
            Location: http://u:p@h/a?b=c\r\nContent-Length: 23\r\n\r\n";
        let shown = "HTTP/1.1 103 Hints\r\nLocation: /?***\r\n\r\n\
            HTTP/1.1 400 no: ***************: x\r\nServer: ***************\r\n***************: x\r\n\
            Location: http://***@h/a?***\r\nContent-Length: 23\r\n\r\n";
        let body = "who is s3cret-and-long?";
        for size in 1..=head.len() + body.len() {
            let all = seen(&format!("{head}{body}"), size);
            let rest = all.strip_prefix(shown);
            let rest = rest.unwrap_or_else(|| panic!("in pieces of {size}: {all}"));
            // what is given cannot be taken back: less than three characters are no part of a secret yet
            assert!(rest.starts_with("who is ") && rest.ends_with("*************?"), "{size}: {rest}");
        }
    }

    #[test]
    fn what_is_not_http_is_not_waited_for() {
        assert_eq!(seen("\u{16}\u{3}s3cret-and-long", 100), "\u{16}\u{3}***************");
        let mut blotter = Blotter::default();
        blotter.take(b"HTTQ");
        assert_eq!(blotter.give(&Mask::default(), false, &mut [0; 100]), 4);
    }

    #[test]
    fn a_line_without_an_end_is_held_until_it_is_too_long_or_the_last() {
        let (mask, mut blotter, mut room) = (Mask::default(), Blotter::default(), [0; 2 * READ_BYTES]);
        blotter.take(b"HTTP/1.1 200");
        assert_eq!(blotter.give(&mask, false, &mut room), 0);
        blotter.take(&[b'x'; READ_BYTES]);
        assert_eq!(blotter.give(&mask, false, &mut room), READ_BYTES + 12);
        blotter.begin();
        blotter.take(b"HTTP/1.1 200");
        assert_eq!(blotter.give(&mask, true, &mut room), 12);
    }
}
