//! The server's side of an HTTP/2 connection, pure: bytes in, calls out; answers in, bytes out.
//!
//! ```text
//!           HEADERS              END_STREAM                 answer sent
//!   (idle) ─────────► incoming ─────────────► in hand ─────────────────► removed
//!                        │ refused, late, RST    │ RST: kept until the handler is done
//! ```
//!
//! `incoming` implements the left half of the diagram, and this file implements the connection and the right half. A
//! stream that the client resets still counts against [`MAX_STREAMS`] until its handler is done, so that rapid resets
//! (CVE-2023-44487) cannot start unlimited work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::{Head, Plan, Stream};
use crate::http2::connection::{Connection, Event as FrameEvent, MAX_BLOCK_BYTES};
use crate::http2::frame::{self, Code, Fault, Frame, MIN_MAX_FRAME, flag, kind, setting};
use crate::http2::hpack;
use crate::receiver::budget::{Budget, Share};
use crate::receiver::refusal::{Hosts, Refusal};

/// Maximum open calls of a client.
pub(super) const MAX_STREAMS: usize = 100;
/// Maximum frames without effect between two calls. An honest client sends only a few, for example to a stream that the
/// receiver has just closed.
const MAX_NOISE: u32 = 1000;

/// Limits for a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) header_bytes: usize,
    pub(super) body_bytes: usize,
    pub(super) hosts: Hosts,
    /// Maximum time for a call to arrive, and for a connection without calls.
    pub(super) time: Duration,
}

pub(super) struct Session {
    pub(super) limits: Limits,
    /// Memory for the calls of all connections.
    pub(super) budget: Arc<Budget>,
    /// Part of the client's connection preface that is still missing.
    preface: &'static [u8],
    pub(super) connection: Connection,
    /// Events that the reading thread has not taken yet.
    pub(super) events: Vec<Event>,
    pub(super) streams: HashMap<u32, Stream>,
    /// Highest stream id that the client has opened.
    pub(super) newest: u32,
    /// True if new streams are ignored, because the connection is about to be closed.
    pub(super) is_leaving: bool,
    /// Capacity of the buffers of all calls that are arriving or in hand.
    pub(super) buffered: usize,
    /// Current time, set by the owner before each step.
    pub(super) now: Instant,
    /// When the last stream ended, or the connection was opened.
    pub(super) idle_since: Instant,
}

#[derive(Debug)]
pub(super) enum Event {
    /// The header block of a call has arrived.
    Begun(u32),
    Call(Call),
}

/// A call that must be answered.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stream: u32,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Whole {
        head: Head,
        plan: Plan,
        body: Vec<u8>,
        /// Reserved memory of the call.
        share: Share,
    },
    /// The head, with its reserved memory, is missing if it was too long or if there was no memory for it.
    Refused { head: Option<(Head, Share)>, refusal: Refusal },
}

/// Error of sending: no client waits for this answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// Header fields to send: names in lower case and their values, pseudo-headers first.
pub(super) type Fields = Vec<(String, String)>;

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client uses another protocol.
    NotHttp2,
    Fault(Fault),
    /// The client sent no call for too long.
    Idle,
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        End::Fault(fault)
    }
}

impl Session {
    pub(super) fn new(limits: Limits, budget: Arc<Budget>, now: Instant) -> Self {
        Self {
            limits,
            budget,
            preface: frame::PREFACE,
            connection: Connection::new(limits.header_bytes, MAX_NOISE),
            events: Vec::new(),
            streams: HashMap::new(),
            newest: 0,
            is_leaving: false,
            buffered: 0,
            now,
            idle_since: now,
        }
    }

    /// Returns when [`expire`](Self::expire) must be called, or `None` while all open calls wait for their answers.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let begun = self.streams.values().filter_map(|stream| Some(stream.incoming.as_ref()?.begun)).min();
        let since = match begun {
            Some(begun) => begun,
            None if self.streams.is_empty() => self.idle_since,
            None => return None,
        };
        since.checked_add(self.limits.time)
    }

    /// Handles received bytes.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), End> {
        let bytes = self.take_preface(bytes)?;
        let mut inbox = self.connection.take_inbox(bytes);
        while let Some((head, payload)) = inbox.take()? {
            if let Some(event) = self.connection.handle(Frame::read(head, payload)?)? {
                self.handle(event)?;
            }
        }
        self.connection.put_back(inbox);
        Ok(())
    }

    fn take_preface<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], End> {
        if self.preface.is_empty() {
            return Ok(bytes);
        }
        let (expected, left) = self.preface.split_at(bytes.len().min(self.preface.len()));
        let (found, rest) = bytes.split_at(expected.len());
        if found != expected {
            return Err(End::NotHttp2);
        }
        self.preface = left;
        if left.is_empty() {
            // The settings are sent only after the whole preface, so that a client of another protocol gets no HTTP/2
            // frames.
            let header_bytes = self.limits.header_bytes.min(MAX_BLOCK_BYTES) as u32;
            let settings = [
                (setting::MAX_CONCURRENT_STREAMS, MAX_STREAMS as u32),
                (setting::MAX_HEADER_LIST_SIZE, header_bytes),
            ];
            frame::write_settings(&settings, &mut self.connection.out);
        }
        Ok(rest)
    }

    fn handle(&mut self, event: FrameEvent<'_>) -> Result<(), Fault> {
        match event {
            FrameEvent::Frame(Frame::Data { stream, content, flow, ends_stream }) => {
                self.take_data(stream, content, flow, ends_stream)
            }
            FrameEvent::Headers { stream, list, ends_stream } => self.take_headers(stream, list, ends_stream),
            FrameEvent::Frame(Frame::WindowUpdate { stream, increment }) => {
                self.take_window_update(stream, increment)
            }
            FrameEvent::WindowsShift(growth) => {
                self.streams.values_mut().try_for_each(|stream| stream.window.shift(growth))
            }
            FrameEvent::Frame(Frame::Reset { stream, .. }) => {
                self.not_idle(stream)?;
                self.forget(stream);
                Ok(())
            }
            // GOAWAY needs no action: the client closes the connection after its last answer.
            FrameEvent::Frame(_) => Ok(()),
        }
    }

    /// Applies a WINDOW_UPDATE to the send window of its stream. Every update counts against the flood limit, because
    /// responses are so short that an honest client sends few.
    fn take_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Fault> {
        self.connection.count_noise()?;
        if stream == 0 {
            return Ok(());
        }
        self.not_idle(stream)?;
        let Some(open) = self.streams.get_mut(&stream) else { return Ok(()) };
        match increment {
            0 => self.drop_stream(stream, Code::PROTOCOL),
            _ if open.window.shift(i64::from(increment)).is_err() => {
                self.drop_stream(stream, Code::FLOW_CONTROL)
            }
            _ => Ok(()),
        }
    }

    /// Fails for a stream that the client never opened (RFC 9113, section 5.1).
    pub(super) fn not_idle(&self, stream: u32) -> Result<(), Fault> {
        match stream > self.newest || stream % 2 == 0 {
            true => Err(Fault::protocol("a frame on a stream that was never opened")),
            false => Ok(()),
        }
    }
}

/// Sending of answers.
impl Session {
    /// Sends headers or trailers.
    pub(super) fn send_headers(&mut self, id: u32, fields: &Fields, ends_stream: bool) -> Result<(), Gone> {
        // The stream is checked first: `encode` emits a pending table size update, which would be lost with a block
        // that is not sent.
        self.unanswered(id)?;
        let block = self.encode(fields);
        frame::write_headers(id, &block, ends_stream, MIN_MAX_FRAME, &mut self.connection.out);
        if ends_stream {
            self.end_answer(id);
        }
        Ok(())
    }

    /// Encodes a header block, with a table size update if one is pending.
    pub(super) fn encode(&mut self, fields: &Fields) -> Vec<u8> {
        let mut block = self.connection.begin_block();
        for (name, value) in fields {
            hpack::encode(name, value.as_bytes(), &mut block);
        }
        block
    }

    /// Sends as much of `content` as the send windows allow. Returns the number of sent bytes.
    pub(super) fn send_data(&mut self, id: u32, content: &[u8]) -> Result<usize, Gone> {
        let stream = unanswered(&mut self.streams, id)?;
        let sent = self.connection.spend(&mut stream.window, content.len());
        for piece in content[..sent].chunks(MIN_MAX_FRAME) {
            frame::write_head(kind::DATA, 0, id, piece.len(), &mut self.connection.out);
            self.connection.out.extend_from_slice(piece);
        }
        Ok(sent)
    }

    /// Ends an answer that has no trailers.
    pub(super) fn send_end(&mut self, id: u32) -> Result<(), Gone> {
        self.unanswered(id)?;
        frame::write_head(kind::DATA, flag::END_STREAM, id, 0, &mut self.connection.out);
        self.end_answer(id);
        Ok(())
    }

    pub(super) fn send_reset(&mut self, id: u32, code: Code) -> Result<(), Gone> {
        let stream = self.unanswered(id)?;
        (stream.is_remote_closed, stream.is_local_closed) = (true, true);
        frame::write_reset(id, code, &mut self.connection.out);
        Ok(())
    }

    /// Sends GOAWAY: no stream after `last_stream` is processed.
    pub(super) fn send_go_away(&mut self, last_stream: u32, code: Code) -> Result<(), Gone> {
        frame::write_go_away(last_stream, code, &mut self.connection.out);
        Ok(())
    }

    /// Notes that no handler works on the answer of this stream any more.
    pub(super) fn release(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.in_hand = false;
            self.buffered -= std::mem::take(&mut stream.in_hand_bytes);
        }
        self.remove_if_done(id);
    }

    pub(super) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.connection.out)
    }

    pub(super) fn unanswered(&mut self, id: u32) -> Result<&mut Stream, Gone> {
        unanswered(&mut self.streams, id)
    }

    pub(super) fn end_answer(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.is_local_closed = true;
        if !std::mem::replace(&mut stream.is_remote_closed, true) {
            // The answer is complete, so the rest of the request is not needed (RFC 9113, section 8.1).
            frame::write_reset(id, Code::NO_ERROR, &mut self.connection.out);
        }
        // The stream is released at once, because the client may open another one as soon as it has the answer.
        self.release(id);
    }
}

fn unanswered(streams: &mut HashMap<u32, Stream>, id: u32) -> Result<&mut Stream, Gone> {
    streams.get_mut(&id).filter(|stream| !stream.is_local_closed).ok_or(Gone)
}
