//! The connection under ureq that sends what the mask hides, and hides what a server repeats of it.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use ureq::Agent;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::blotter::Blotter;
use super::mask::Mask;
use super::socket::{self, Unresolved};
use super::{HttpSpec, READ_BYTES};
use crate::transport::tcp::Breaker;

/// An agent that sends what the mask hides, over connections that the breaker can break.
pub(super) fn agent(plan: &HttpSpec, breaker: Arc<Breaker>) -> Agent {
    let connector = socket::plain_connector(plan.lookup(), plan.renamed(), breaker);
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
        Ok(chained.map(|inner| Unmasked {
            inner,
            mask: self.clone(),
            turn: Turn::Request,
            blotter: Blotter::default(),
            answer: LazyBuffers::new(READ_BYTES, 1),
        }))
    }
}

#[derive(Debug)]
pub(super) struct Unmasked<In> {
    inner: In,
    mask: Mask,
    turn: Turn,
    blotter: Blotter,
    /// What ureq may see of what was received.
    answer: LazyBuffers,
}

/// What comes next on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The head of a request: nothing in a body is taken for one.
    Request,
    Body,
    Answer,
}

impl<In: Transport> Unmasked<In> {
    /// Gives ureq what it may see of what was received. At the end nothing follows it.
    fn hand_over(&mut self, is_end: bool) -> bool {
        let count = self.blotter.give(&self.mask, is_end, self.answer.input_append_buf());
        self.answer.input_appended(count);
        count > 0
    }

    /// Waits until something is received, unless something is there. Says whether there is.
    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let is_there = !self.inner.buffers().input().is_empty() || self.inner.await_input(timeout)?;
        let received = self.inner.buffers().input();
        let count = received.len();
        self.blotter.take(received);
        self.inner.buffers().input_consume(count);
        Ok(is_there && count > 0)
    }
}

impl<In: Transport> Transport for Unmasked<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let turn = mem::replace(&mut self.turn, Turn::Body);
        let output = self.inner.buffers().output();
        // what is sent after an answer is a request
        let lifted = if turn == Turn::Body { None } else { self.mask.lift(&output[..amount]) };
        let Some(lifted) = lifted else { return self.inner.transmit_output(amount, timeout) };
        let room = output.get_mut(..lifted.len());
        room.ok_or_else(|| io::Error::other("the head of the request is too long"))?.copy_from_slice(&lifted);
        self.inner.transmit_output(lifted.len(), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        if self.turn == Turn::Body {
            self.turn = Turn::Answer;
            self.blotter.begin();
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
        self.blotter.is_empty() && self.inner.buffers().input().is_empty() && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

impl<In: Transport> Buffers for Unmasked<In> {
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
