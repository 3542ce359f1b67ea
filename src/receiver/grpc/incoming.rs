//! The calls of a session, from their first header to their last byte.

use std::time::Instant;

use super::call::{Head, Incoming, Plan, Stream, announced_length, fits};
use super::session::{Call, End, Event, MAX_STREAMS, Outcome, Session};
use crate::http2::frame::{self, Code, Fault};
use crate::http2::hpack::List;
use crate::receiver::budget::Share;
use crate::receiver::refusal::Refusal;

/// Maximum memory of the bodies of a connection's calls, as a multiple of the maximum body length.
const MAX_BUFFERED_CALLS: usize = 2;

const STREAM_CLOSED: Code = Code(5);

impl Session {
    pub(super) fn take_headers(&mut self, id: u32, list: List, ends_stream: bool) -> Result<(), Fault> {
        if id % 2 == 0 {
            return Err(Fault::protocol("a client opened a stream with an even id"));
        }
        if id > self.newest {
            return self.begin(id, list, ends_stream);
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            // A client may send trailers before it learns that the stream was closed. Trailers have no pseudo-headers.
            // A block with pseudo-headers would open a stream, but its id is too low (RFC 9113, section 5.1.1).
            return match list {
                List::Fields(fields) if !fields.iter().any(|field| field.name.starts_with(b":")) => {
                    self.connection.count_noise()
                }
                _ => Err(Fault::protocol("a client opened a stream with an id below an earlier one")),
            };
        };
        // A second header block can only be trailers, which end the stream (RFC 9113, section 8.1).
        if stream.is_remote_closed || !ends_stream {
            return Err(Fault::protocol("HEADERS in the middle of a request"));
        }
        stream.is_remote_closed = true;
        self.hand_over(id)
    }

    fn begin(&mut self, id: u32, list: List, ends_stream: bool) -> Result<(), Fault> {
        self.newest = id;
        if self.is_leaving {
            return Ok(());
        }
        if self.streams.len() >= MAX_STREAMS {
            return self.drop_stream(id, Code::REFUSED_STREAM);
        }
        let head = match list {
            List::TooLong => None,
            List::Fields(fields) => match Head::of(fields) {
                Ok(head) => Some(head),
                Err(_) => return self.drop_stream(id, Code::PROTOCOL),
            },
        };
        // The stream is inserted before the checks, because a refusal is answered on it.
        self.streams.insert(id, Stream::new(self.connection.peer.initial_window, ends_stream));
        let Some(head) = head else {
            self.refuse(id, None, Refusal::new(431, "request header fields too large"));
            return Ok(());
        };
        self.events.push(Event::Begun(id));
        let mut share = self.budget.share();
        if let Err(refusal) = share.grow(head.weight()) {
            // The call is refused without its head, because there is no memory to keep the head until the call is
            // answered.
            self.refuse(id, None, refusal);
            return Ok(());
        }
        match Plan::of(&head, self.limits.hosts) {
            Ok(plan) => {
                let incoming = Incoming { head, plan, body: Vec::new(), share, begun: self.now };
                self.streams.entry(id).and_modify(|stream| stream.incoming = Some(incoming));
                if ends_stream {
                    return self.hand_over(id);
                }
            }
            Err(refusal) => self.refuse(id, Some((head, share)), refusal),
        }
        Ok(())
    }

    pub(super) fn take_data(
        &mut self,
        id: u32,
        content: &[u8],
        flow: usize,
        ends_stream: bool,
    ) -> Result<(), Fault> {
        self.not_idle(id)?;
        let Some(stream) = self.streams.get_mut(&id) else { return self.connection.count_noise() };
        if stream.is_remote_closed {
            return self.drop_stream(id, STREAM_CLOSED);
        }
        stream.is_remote_closed = ends_stream;
        if let Some(increment) = stream.receive_window.receive(flow)? {
            frame::write_window_update(id, increment, &mut self.connection.out);
        }
        let Some(incoming) = &mut stream.incoming else { return Ok(()) };
        let (limit, body) = (self.limits.body_bytes, &mut incoming.body);
        // The capacity is counted, not the length, because the capacity is the memory that the call takes.
        let before = body.capacity();
        let most = announced_length(if body.is_empty() { content } else { body }, limit);
        if let Err(refusal) = incoming.share.make_room(body, content.len(), most) {
            self.refuse(id, None, refusal);
            return Ok(());
        }
        body.extend_from_slice(content);
        self.buffered += body.capacity() - before;
        if !fits(body, limit) {
            self.refuse(id, None, Refusal::too_large(limit));
        } else if self.buffered > limit.saturating_mul(MAX_BUFFERED_CALLS) {
            let what = "the unanswered calls of this connection exceed the memory limit";
            self.refuse(id, None, Refusal::new(503, what));
        } else if ends_stream {
            return self.hand_over(id);
        }
        Ok(())
    }

    /// Refuses calls that took too long to arrive. Fails if the client sent no call for too long.
    pub(super) fn expire(&mut self) -> Result<(), End> {
        let (now, time) = (self.now, self.limits.time);
        let is_late = |since: Instant| now.saturating_duration_since(since) >= time;
        if self.streams.is_empty() && is_late(self.idle_since) {
            return Err(End::Idle);
        }
        let late = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.incoming.as_ref().is_some_and(|incoming| is_late(incoming.begun)));
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.refuse(id, None, Refusal::new(408, "the request took too long to arrive"));
        }
        Ok(())
    }

    /// Queues the complete call of a stream for a handler. Resets the stream if the call's content-length is wrong (RFC
    /// 9113, section 8.1.1).
    fn hand_over(&mut self, id: u32) -> Result<(), Fault> {
        let incoming = self.streams.get(&id).and_then(|stream| stream.incoming.as_ref());
        if incoming.is_some_and(|incoming| !incoming.head.allows_length(incoming.body.len())) {
            return self.drop_stream(id, Code::PROTOCOL);
        }
        let Some(Incoming { head, plan, body, share, .. }) = self.take_incoming(id) else { return Ok(()) };
        self.connection.noise = 0;
        // The body counts against the limit until the call has been handled, which may take long.
        self.buffered += body.capacity();
        self.streams.entry(id).and_modify(|stream| stream.in_hand_bytes = body.capacity());
        self.events
            .push(Event::Call(Call { stream: id, outcome: Outcome::Whole { head, plan, body, share } }));
        Ok(())
    }

    /// Refuses a call. `head` is set only if the stream does not hold the head of the call.
    fn refuse(&mut self, id: u32, head: Option<(Head, Share)>, refusal: Refusal) {
        let taken = self.take_incoming(id).map(|Incoming { head, mut share, .. }| {
            share.shrink_to(head.weight());
            (head, share)
        });
        let head = taken.or(head);
        self.events.push(Event::Call(Call { stream: id, outcome: Outcome::Refused { head, refusal } }));
    }

    /// Takes the call of a stream for a handler.
    fn take_incoming(&mut self, id: u32) -> Option<Incoming> {
        let stream = self.streams.get_mut(&id)?;
        stream.in_hand = true;
        let incoming = stream.incoming.take()?;
        self.buffered -= incoming.body.capacity();
        Some(incoming)
    }

    /// Resets a stream in any state.
    pub(super) fn drop_stream(&mut self, id: u32, code: Code) -> Result<(), Fault> {
        frame::write_reset(id, code, &mut self.connection.out);
        self.forget(id);
        self.connection.count_noise()
    }

    /// Closes a stream without further frames. While a handler works on the answer, the stream stays and counts
    /// against [`MAX_STREAMS`]: otherwise, a client could open and reset any number of streams.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        (stream.is_remote_closed, stream.is_local_closed) = (true, true);
        if let Some(incoming) = stream.incoming.take() {
            self.buffered -= incoming.body.capacity();
        }
        self.remove_if_done(id);
    }

    pub(super) fn remove_if_done(&mut self, id: u32) {
        let is_done = |stream: &Stream| stream.is_remote_closed && stream.is_local_closed && !stream.in_hand;
        if self.streams.get(&id).is_some_and(is_done) {
            self.streams.remove(&id);
            self.idle_since = self.now;
        }
    }
}
