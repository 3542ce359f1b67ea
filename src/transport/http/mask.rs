//! Keeps header values out of the log.
//!
//! ureq writes what it sends to the `log` crate, whoever listens there. So it is given stand-ins of the
//! same length, and the true values are put in their place on the way from its buffer to the socket.

use std::fmt;
use std::sync::Arc;

use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport,
};

use crate::record::random;

/// Lines of a request's head and what they are to be.
#[derive(Clone, Default)]
pub(super) struct Mask {
    lines: Arc<Vec<Line>>,
}

struct Line {
    /// `\r\nname: stand-in\r\n`
    masked: Vec<u8>,
    value: Vec<u8>,
}

impl Mask {
    /// Notes a value and gives what ureq may see of it: random letters of the same length.
    pub(super) fn hide(&mut self, name: &str, value: &str) -> String {
        let letter = |_| char::from(b'a' + (random() % 26) as u8);
        let masked: String = (0..value.len()).map(letter).collect();
        let line = Line { masked: format!("\r\n{name}: {masked}\r\n").into_bytes(), value: value.into() };
        Arc::make_mut(&mut self.lines).push(line);
        masked
    }

    /// Puts the values into a request's head.
    fn lift(&self, output: &mut [u8]) {
        if !output.starts_with(b"POST ") {
            return;
        }
        let end = find(output, b"\r\n\r\n").map_or(output.len(), |end| end + 4);
        let head = &mut output[..end];
        for line in self.lines.iter() {
            if let Some(at) = find(head, &line.masked) {
                let end = at + line.masked.len() - 2;
                head[end - line.value.len()..end].copy_from_slice(&line.value);
            }
        }
    }
}

impl Clone for Line {
    fn clone(&self) -> Self {
        Self { masked: self.masked.clone(), value: self.value.clone() }
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("lines", &self.lines.len()).finish()
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// An agent that sends what the mask hides.
pub(super) fn agent(config: Config, mask: Mask) -> Agent {
    Agent::with_parts(config, DefaultConnector::new().chain(mask), DefaultResolver::default())
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

    #[test]
    fn the_values_stand_in_the_head_and_nowhere_else() {
        let mut mask = Mask::default();
        let masked = mask.hide("authorization", "Bearer s3cret");
        assert_eq!(masked.len(), "Bearer s3cret".len());
        let request =
            format!("POST / HTTP/1.1\r\nauthorization: {masked}\r\n\r\nauthorization: {masked}\r\n");
        let mut output = request.into_bytes();
        mask.lift(&mut output);
        let expected =
            format!("POST / HTTP/1.1\r\nauthorization: Bearer s3cret\r\n\r\nauthorization: {masked}\r\n");
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }

    #[test]
    fn a_body_is_left_alone() {
        let mut mask = Mask::default();
        let masked = mask.hide("a", "b");
        let body = format!("\r\na: {masked}\r\n").into_bytes();
        let mut output = body.clone();
        mask.lift(&mut output);
        assert_eq!(output, body);
    }
}
