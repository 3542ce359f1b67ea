//! The connection under ureq that sends what the mask hides, and hides what a server repeats of it.
//!
//! ureq writes to the `log` crate what it reads, too: so a secret is blotted out of an answer before ureq sees it.

use std::io;
use std::mem;
use std::sync::Arc;

use ureq::Agent;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::mask::Mask;
use super::socket::{self, Unresolved};
use super::{HttpPlan, READ_BYTES};
use crate::transport::breaker::Breaker;

/// An agent that sends what the mask hides, over connections that the breaker can break.
pub(super) fn agent(plan: &HttpPlan, breaker: Arc<Breaker>) -> Agent {
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
        let answer = || LazyBuffers::new(READ_BYTES, 1);
        Ok(chained.map(|inner| Unmasked { inner, mask: self.clone(), turn: Turn::Request, answer: answer() }))
    }
}

#[derive(Debug)]
pub(super) struct Unmasked<In> {
    inner: In,
    mask: Mask,
    turn: Turn,
    /// What ureq may see of what was received.
    answer: LazyBuffers,
}

/// What comes next on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The head of a request: nothing in a body is taken for one.
    Request,
    Body,
    /// The head of an answer, or the rest of it.
    Answer,
    AnswerBody,
}

impl<In: Transport> Unmasked<In> {
    /// Takes over what was received, without what must not be seen.
    fn take_in(&mut self) -> bool {
        let Self { inner, mask, turn, answer } = self;
        let received = inner.buffers().input();
        let room = answer.input_append_buf();
        let count = received.len().min(room.len());
        let room = &mut room[..count];
        room.copy_from_slice(&received[..count]);
        let is_whole_head = mask.blot(room, *turn == Turn::Answer);
        *turn = if is_whole_head { Turn::AnswerBody } else { Turn::Answer };
        answer.input_appended(count);
        inner.buffers().input_consume(count);
        count > 0
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
        }
        if self.inner.buffers().input().is_empty() && !self.inner.await_input(timeout)? {
            return Ok(false);
        }
        Ok(self.take_in())
    }

    fn is_open(&mut self) -> bool {
        self.inner.buffers().input().is_empty() && self.inner.is_open()
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
