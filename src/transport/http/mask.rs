//! Keeps secrets out of the log and out of messages.
//!
//! ureq writes what it sends to the `log` crate, whoever listens there. So it is given stand-ins of the
//! same length, and the true values are put in their place on the way from its buffer to the socket.

use std::fmt;
use std::iter;
use std::sync::Arc;

use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::socket::{self, Peer, Unresolved};
use crate::record::random;
use crate::transport::conceal::conceal;

/// What a request's head must not show before it is sent.
#[derive(Clone, Default)]
pub(super) struct Mask {
    hidden: Arc<Vec<Hidden>>,
}

/// A secret that stands in a line of the head: behind `before`, up to a space or the line's end.
#[derive(Clone)]
struct Hidden {
    before: String,
    stand_in: String,
    value: String,
}

impl Mask {
    /// Notes a header's value and gives what ureq may see of it: random letters of the same length, behind a tab. No
    /// value begins with one, so that a value is never taken for a stand-in.
    pub(super) fn hide_header(&mut self, name: &str, value: &str) -> String {
        self.hide(format!("{name}: "), '\t', value)
    }

    /// Notes a path with its query, and gives a path that ureq may see.
    pub(super) fn hide_target(&mut self, target: &str) -> String {
        self.hide("POST ".to_owned(), '/', target)
    }

    fn hide(&mut self, before: String, first: char, value: &str) -> String {
        let letters = value.bytes().skip(1).map(|_| char::from(b'a' + (random() % 26) as u8));
        let stand_in: String = iter::once(first).chain(letters).collect();
        let hidden = Hidden { before, stand_in: stand_in.clone(), value: value.to_owned() };
        Arc::make_mut(&mut self.hidden).push(hidden);
        stand_in
    }

    /// Puts the secrets into a request's head.
    fn lift(&self, output: &mut [u8]) {
        if !output.starts_with(b"POST ") {
            return;
        }
        let end = find(output, b"\r\n\r\n").unwrap_or(output.len());
        // each is lifted once, in order: short values of one name may have the same stand-in
        let mut waiting: Vec<&Hidden> = self.hidden.iter().collect();
        for line in output[..end].split_mut(|byte| *byte == b'\n') {
            if let Some(index) = waiting.iter().position(|hidden| hidden.is_in(line)) {
                waiting.remove(index).lift(line);
            }
        }
    }

    /// The text without the secrets, which a server may have repeated.
    pub(super) fn conceal(&self, text: String) -> String {
        conceal(text, self.hidden.iter().map(|hidden| hidden.value.as_str()))
    }
}

impl Hidden {
    fn is_in(&self, line: &[u8]) -> bool {
        let stand_in = line.strip_prefix(self.before.as_bytes());
        let after = stand_in.and_then(|rest| rest.strip_prefix(self.stand_in.as_bytes()));
        after.is_some_and(|after| after.is_empty() || after[0] == b'\r' || after[0] == b' ')
    }

    fn lift(&self, line: &mut [u8]) {
        let start = self.before.len();
        line[start..start + self.value.len()].copy_from_slice(self.value.as_bytes());
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("hidden", &self.hidden.len()).finish()
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// An agent that sends what the mask hides.
pub(super) fn agent(config: Config, mask: Mask, peer: impl Peer) -> Agent {
    Agent::with_parts(config, socket::connector(peer).chain(mask), Unresolved)
}

impl<In: Transport> Connector<In> for Mask {
    type Out = Unmasked<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| Unmasked { inner, mask: self.clone() }))
    }
}

#[derive(Debug)]
pub(super) struct Unmasked<In> {
    inner: In,
    mask: Mask,
}

impl<In: Transport> Transport for Unmasked<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.mask.lift(&mut self.inner.buffers().output()[..amount]);
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(mask: &Mask, request: String) -> String {
        let mut output = request.into_bytes();
        mask.lift(&mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn the_values_stand_in_the_head_and_nowhere_else() {
        let mut mask = Mask::default();
        let masked = mask.hide_header("authorization", "Bearer s3cret");
        assert_eq!(masked.len(), "Bearer s3cret".len());
        let request =
            format!("POST / HTTP/1.1\r\nauthorization: {masked}\r\n\r\nauthorization: {masked}\r\n");
        let expected =
            format!("POST / HTTP/1.1\r\nauthorization: Bearer s3cret\r\n\r\nauthorization: {masked}\r\n");
        assert_eq!(lifted(&mask, request), expected);
    }

    #[test]
    fn a_body_is_left_alone() {
        let mut mask = Mask::default();
        let masked = mask.hide_header("a", "b");
        let body = format!("\r\na: {masked}\r\n");
        assert_eq!(lifted(&mask, body.clone()), body);
    }

    #[test]
    fn a_target_is_hidden_and_lifted() {
        let mut mask = Mask::default();
        let masked = mask.hide_target("/v1/traces?key=s3cret");
        assert!(masked.starts_with('/') && !masked.contains('?'));
        let request = format!("POST {masked} HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(lifted(&mask, request), "POST /v1/traces?key=s3cret HTTP/1.1\r\nhost: a\r\n\r\n");
    }

    #[test]
    fn equal_stand_ins_are_lifted_in_their_order_and_once() {
        let mut mask = Mask::default();
        let lines: String =
            ["b", "a", "a", "b"].map(|value| format!("x: {}\r\n", mask.hide_header("x", value))).concat();
        let once = lifted(&mask, format!("POST / HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(once, "POST / HTTP/1.1\r\nx: b\r\nx: a\r\nx: a\r\nx: b\r\n\r\n");
        // behind a proxy there are two masks, one after the other
        assert_eq!(lifted(&mask, once.clone()), once);
    }
}
