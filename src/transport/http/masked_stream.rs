//! The connection under ureq that puts the masked secrets into requests and redacts them in responses.
//!
//! ureq writes both to the `log` crate. A response comes in pieces that may end anywhere, also within a secret. So a line of
//! the head is held until it is whole. Of a body nothing can be held, since any piece may be the last: the end of what came
//! before is kept instead.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use ureq::Agent;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::mask::Mask;
use super::socket::{self, Unresolved};
use super::{HttpSpec, READ_BYTES};
use crate::process::Driver;
use crate::transport::happy_eyeballs::Dialer;
use crate::transport::tcp::Interrupter;

/// An agent that sends what the mask hides, over connections that the interrupter can break.
pub(super) fn agent(spec: &HttpSpec, interrupter: Arc<Interrupter>, driver: Driver) -> Agent {
    let dialer = Dialer::new(interrupter, driver);
    let connector = socket::plain_connector(spec.lookup(driver), spec.alias(), dialer);
    #[cfg(feature = "tls")]
    let connector = connector.chain(super::tls::connector(spec));
    Agent::with_parts(spec.config.clone(), connector.chain(spec.mask.clone()), Unresolved)
}

impl<In: Transport> Connector<In> for Mask {
    type Out = MaskedStream<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| MaskedStream {
            inner,
            mask: self.clone(),
            phase: ExchangePhase::Request,
            redactor: Redactor::default(),
            answer: LazyBuffers::new(READ_BYTES, 1),
        }))
    }
}

#[derive(Debug)]
pub(super) struct MaskedStream<In> {
    inner: In,
    mask: Mask,
    phase: ExchangePhase,
    redactor: Redactor,
    /// What ureq may see of what was received.
    answer: LazyBuffers,
}

/// What comes next on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangePhase {
    /// The head of a request: nothing in a body is taken for one.
    Request,
    Body,
    Answer,
}

impl<In: Transport> MaskedStream<In> {
    /// Gives ureq what it may see of what was received. At the end nothing follows it.
    fn hand_over(&mut self, is_end: bool) -> bool {
        let count = self.redactor.give(&self.mask, is_end, self.answer.input_append_buf());
        self.answer.input_appended(count);
        count > 0
    }

    /// Waits until something is received, unless something is there. Says whether there is.
    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let is_there = !self.inner.buffers().input().is_empty() || self.inner.await_input(timeout)?;
        let received = self.inner.buffers().input();
        let count = received.len();
        self.redactor.take(received);
        self.inner.buffers().input_consume(count);
        Ok(is_there && count > 0)
    }
}

impl<In: Transport> Transport for MaskedStream<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let phase = mem::replace(&mut self.phase, ExchangePhase::Body);
        let output = self.inner.buffers().output();
        // what is sent after an answer is a request
        let unmasked = if phase == ExchangePhase::Body { None } else { self.mask.unmask(&output[..amount]) };
        let Some(unmasked) = unmasked else { return self.inner.transmit_output(amount, timeout) };
        let room = output.get_mut(..unmasked.len());
        room.ok_or_else(|| io::Error::other("the head of the request is too long"))?
            .copy_from_slice(&unmasked);
        self.inner.transmit_output(unmasked.len(), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        if self.phase == ExchangePhase::Body {
            self.phase = ExchangePhase::Answer;
            self.redactor.begin();
        }
        // without room, a connection ends here as one that was closed
        if self.answer.input_append_buf().is_empty() {
            return Ok(false);
        }
        let deadline = socket::deadline(Instant::now(), timeout);
        while !self.hand_over(false) {
            // a line that comes byte by byte takes no longer than one that comes at once
            let after = socket::left(deadline, timeout)?.map_or(timeout.after, Into::into);
            if !self.receive(NextTimeout { after, ..timeout })? {
                return Ok(self.hand_over(true));
            }
        }
        Ok(true)
    }

    fn is_open(&mut self) -> bool {
        self.redactor.is_empty() && self.inner.buffers().input().is_empty() && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

impl<In: Transport> Buffers for MaskedStream<In> {
    fn output(&mut self) -> &mut [u8] {
        self.inner.buffers().output()
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.inner.buffers().tmp_and_output()
    }

    fn input(&self) -> &[u8] {
        self.answer.input()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.answer.input_append_buf()
    }

    fn input_appended(&mut self, amount: usize) {
        self.answer.input_appended(amount);
    }

    fn input_consume(&mut self, amount: usize) {
        self.answer.input_consume(amount);
    }

    fn can_use_input(&self) -> bool {
        self.answer.can_use_input()
    }
}

/// How every answer in HTTP begins.
const PROTOCOL: &[u8] = b"HTTP/";
/// What is remembered of a body. Of a longer secret, the part at the end of it is recognised all the same.
const MEMORY: usize = 1024;

#[derive(Debug, Default)]
struct Redactor {
    state: ResponseState,
    /// Received, and not given to ureq yet.
    held: Vec<u8>,
    /// The end of what was given of a body, as it was received.
    given: Vec<u8>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ResponseState {
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

impl Redactor {
    /// What comes from now on is a new answer.
    fn begin(&mut self) {
        self.state = ResponseState::Start;
        self.given.clear();
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn take(&mut self, received: &[u8]) {
        self.held.extend_from_slice(received);
    }

    /// Fills `room` with what may be seen, and returns its length. At the end there is nothing to wait for any more.
    fn give(&mut self, mask: &Mask, is_end: bool, room: &mut [u8]) -> usize {
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
            self.redact(mask, piece);
            given += piece.len();
        }
        given
    }

    /// The bytes that can be judged by themselves.
    fn ready(&mut self, is_end: bool) -> Option<usize> {
        let begins_as_http = || self.held.iter().zip(PROTOCOL).all(|(one, other)| one == other);
        if self.state == ResponseState::Start && !begins_as_http() {
            self.state = ResponseState::Foreign;
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
        matches!(self.state, ResponseState::Start | ResponseState::Head { .. })
    }

    fn redact(&mut self, mask: &Mask, piece: &mut [u8]) {
        let is_last_line = matches!(&*piece, b"\r\n" | b"\n");
        self.state = match self.state {
            ResponseState::Start => ResponseState::Head { is_interim: is_interim(piece) },
            ResponseState::Head { is_interim: true } if is_last_line => ResponseState::Start,
            ResponseState::Head { .. } if is_last_line => ResponseState::Body,
            state @ ResponseState::Head { .. } => state,
            ResponseState::Foreign => return mask.redact_foreign(piece),
            ResponseState::Body => return self.redact_body(mask, piece),
        };
        mask.redact_line(piece);
    }

    fn redact_body(&mut self, mask: &Mask, piece: &mut [u8]) {
        let before = self.given.len();
        self.given.extend_from_slice(piece);
        mask.redact_body(&self.given, before, piece);
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
        mask.redact_from_now_on(Secrets::new(["Bearer s3cret-and-long"]));
        let (mut redactor, mut seen, mut room) = (Redactor::default(), Vec::new(), [0; 100]);
        let pieces = answer.as_bytes().chunks(size);
        for piece in pieces {
            redactor.take(piece);
            loop {
                let given = redactor.give(&mask, false, &mut room);
                seen.extend_from_slice(&room[..given]);
                if given == 0 {
                    break;
                }
            }
        }
        let given = redactor.give(&mask, true, &mut room);
        seen.extend_from_slice(&room[..given]);
        assert!(redactor.is_empty());
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
        let mut redactor = Redactor::default();
        redactor.take(b"HTTQ");
        assert_eq!(redactor.give(&Mask::default(), false, &mut [0; 100]), 4);
    }

    #[test]
    fn a_line_without_an_end_is_held_until_it_is_too_long_or_the_last() {
        let (mask, mut redactor, mut room) = (Mask::default(), Redactor::default(), [0; 2 * READ_BYTES]);
        redactor.take(b"HTTP/1.1 200");
        assert_eq!(redactor.give(&mask, false, &mut room), 0);
        redactor.take(&[b'x'; READ_BYTES]);
        assert_eq!(redactor.give(&mask, false, &mut room), READ_BYTES + 12);
        redactor.begin();
        redactor.take(b"HTTP/1.1 200");
        assert_eq!(redactor.give(&mask, true, &mut room), 12);
    }
}
