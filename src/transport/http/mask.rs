//! Keeps secrets out of the log and out of messages.
//!
//! ureq writes what it sends to the `log` crate, for every logger that listens. So it is given stand-ins, and the true
//! values are put in their place on the way from its buffer to the socket.

use std::fmt;
use std::io;
use std::iter;
use std::sync::Arc;

use ureq::Agent;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::HttpPlan;
use super::forward::Forward;
use super::socket::{self, Unresolved};
use crate::config::Secret;
use crate::record::random;
use crate::transport::breaker::Breaker;
use crate::transport::conceal::conceal;

/// How all our requests begin.
const METHOD: &[u8] = b"POST ";
/// More than a proxy usually needs.
const ROOM_TO_GROW: usize = 256;

/// What a request's head must not show before it is sent.
#[derive(Clone, Default)]
pub(super) struct Mask {
    hidden: Arc<Vec<Hidden>>,
    /// What else a server or a proxy could repeat.
    others: Arc<Vec<Secret>>,
    forward: Option<Arc<Forward>>,
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
        self.hide(String::from_utf8_lossy(METHOD).into_owned(), '/', target)
    }

    fn hide(&mut self, before: String, first: char, value: &str) -> String {
        let letters = value.bytes().skip(1).map(|_| char::from(b'a' + (random() % 26) as u8));
        let stand_in: String = iter::once(first).chain(letters).collect();
        let hidden = Hidden { before, stand_in: stand_in.clone(), value: value.to_owned() };
        Arc::make_mut(&mut self.hidden).push(hidden);
        stand_in
    }

    /// Notes what a server or a proxy must not make us show.
    pub(super) fn add_secrets(&mut self, secrets: Vec<Secret>) {
        Arc::make_mut(&mut self.others).extend(secrets);
    }

    /// From now on requests are for a proxy that makes them itself.
    pub(super) fn forward(&mut self, forward: Forward) {
        self.forward = Some(Arc::new(forward));
    }

    /// A request's head as it is sent; `None` if this is none of a request that we make.
    fn lift(&self, head: &[u8]) -> Option<Vec<u8>> {
        if !head.starts_with(METHOD) {
            return None;
        }
        let mut lifted = Vec::with_capacity(head.len() + ROOM_TO_GROW);
        // each is lifted once, in order: short values of one name may have the same stand-in
        let mut waiting: Vec<&Hidden> = self.hidden.iter().collect();
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let is_first = lifted.is_empty();
            let (name, rest) = match waiting.iter().position(|hidden| hidden.is_in(line)) {
                Some(index) => waiting.remove(index).split(line),
                None if is_first => (METHOD, (&[][..], &line[METHOD.len()..])),
                None => (&[][..], (&[][..], line)),
            };
            let forward = self.forward.as_ref().filter(|_| is_first);
            lifted.extend_from_slice(name);
            lifted.extend_from_slice(forward.map_or("", |forward| forward.origin()).as_bytes());
            lifted.extend_from_slice(rest.0);
            lifted.extend_from_slice(rest.1);
            lifted.extend_from_slice(forward.map_or("", |forward| forward.line()).as_bytes());
        }
        Some(lifted)
    }

    /// The text without the secrets, which a server may have repeated.
    pub(super) fn conceal(&self, text: String) -> String {
        let of_requests = self.hidden.iter().map(|hidden| hidden.value.as_str());
        conceal(text, of_requests.chain(self.others.iter().map(Secret::expose)))
    }
}

impl Hidden {
    fn is_in(&self, line: &[u8]) -> bool {
        let stand_in = line.strip_prefix(self.before.as_bytes());
        let after = stand_in.and_then(|rest| rest.strip_prefix(self.stand_in.as_bytes()));
        after.is_some_and(|after| after.is_empty() || after[0] == b'\r' || after[0] == b' ')
    }

    /// The line with the value: what stands before it, and the value with what stands behind it.
    fn split<'a>(&'a self, line: &'a [u8]) -> (&'a [u8], (&'a [u8], &'a [u8])) {
        let behind = &line[self.before.len() + self.stand_in.len()..];
        (self.before.as_bytes(), (self.value.as_bytes(), behind))
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("hidden", &self.hidden.len()).finish()
    }
}

/// An agent that sends what the mask hides, over connections that the breaker can break.
pub(super) fn agent(plan: &HttpPlan, breaker: Arc<Breaker>) -> Agent {
    let connector = socket::plain_connector(plan.lookup(), breaker);
    #[cfg(feature = "tls")]
    let connector = connector.chain(super::tls::connector(plan));
    Agent::with_parts(plan.config.clone(), connector.chain(plan.mask.clone()), Unresolved)
}

impl<In: Transport> Connector<In> for Mask {
    type Out = Unmasked<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| Unmasked { inner, mask: self.clone(), is_head_due: true }))
    }
}

#[derive(Debug)]
pub(super) struct Unmasked<In> {
    inner: In,
    mask: Mask,
    /// Whether the next write begins with a head: nothing in a body is taken for one.
    is_head_due: bool,
}

impl<In: Transport> Transport for Unmasked<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let is_head = std::mem::replace(&mut self.is_head_due, false);
        let output = self.inner.buffers().output();
        let Some(lifted) = is_head.then(|| self.mask.lift(&output[..amount])).flatten() else {
            return self.inner.transmit_output(amount, timeout);
        };
        let room = output.get_mut(..lifted.len());
        room.ok_or_else(|| io::Error::other("the head of the request is too long"))?.copy_from_slice(&lifted);
        self.inner.transmit_output(lifted.len(), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        // what is sent after an answer is a request
        self.is_head_due = true;
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
        let lifted = mask.lift(request.as_bytes()).unwrap_or(request.into_bytes());
        String::from_utf8(lifted).unwrap()
    }

    #[test]
    fn the_values_stand_in_the_head_and_nowhere_else() {
        let mut mask = Mask::default();
        let masked = mask.hide_header("authorization", "Bearer s3cret");
        assert_eq!(masked.len(), "Bearer s3cret".len());
        let request = format!("POST / HTTP/1.1\r\nauthorization: {masked}\r\nx: {masked}\r\n\r\n");
        let expected = format!("POST / HTTP/1.1\r\nauthorization: Bearer s3cret\r\nx: {masked}\r\n\r\n");
        assert_eq!(lifted(&mask, request), expected);
    }

    #[test]
    fn a_proxy_is_given_the_whole_url_and_who_asks() {
        let proxy = ureq::Proxy::new("http://shop:hunter2@proxy:3128").unwrap();
        let credentials = "Proxy-Authorization: Basic c2hvcDpodW50ZXIy\r\n";
        for target in ["/v1/traces", "/v1/traces?key=s3cret"] {
            let url = format!("http://collector:4318{target}");
            let mut mask = Mask::default();
            mask.forward(Forward::new(&proxy, &url));
            let seen = if target.contains('?') { mask.hide_target(target) } else { target.to_owned() };
            let request = format!("POST {seen} HTTP/1.1\r\nhost: collector:4318\r\n\r\n");
            let expected = format!("POST {url} HTTP/1.1\r\n{credentials}host: collector:4318\r\n\r\n");
            assert_eq!(lifted(&mask, request), expected);
        }
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
