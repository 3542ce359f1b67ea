//! One connection as its frames describe it: bytes in, calls out; answers in, bytes out. Knows no socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::Stream;
use super::call::{Head, Plan};
use super::incoming::Data;
use crate::http2::flow_control::{INITIAL_WINDOW, ReceiveWindow, Window};
use crate::http2::frame::{self, Code, Fault, Frame, Setting, Settings};
use crate::http2::hpack::Decoder;
use crate::http2::peer::FrameBuffer;
use crate::http2::peer::{HeaderBlock, MOST_BYTES};
use crate::receiver::budget::{Budget, Share};
use crate::receiver::hosts::Hosts;
use crate::receiver::refusal::Refusal;

/// Calls that a client may have open at a time.
pub(super) const MOST_STREAMS: usize = 100;
/// What everyone starts with; there is no reason to want another.
const HEADER_TABLE: usize = 4096;
/// Frames that bring no call further, between two calls. A client may send a few per call for a stream that the receiver has
/// just closed.
const MOST_NUISANCES: u32 = 1000;

/// What a client may send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) header_bytes: usize,
    pub(super) body_bytes: usize,
    pub(super) hosts: Hosts,
    /// How long a call may take to arrive, and a connection may be without one.
    pub(super) time: Duration,
}

pub(super) struct Session {
    pub(super) limits: Limits,
    /// The memory for the calls of all connections.
    pub(super) budget: Arc<Budget>,
    /// What is still missing of the client's connection preface.
    preface: &'static [u8],
    is_greeted: bool,
    inbox: FrameBuffer,
    pub(super) decoder: Decoder,
    pub(super) block: Option<HeaderBlock>,
    pub(super) streams: HashMap<u32, Stream>,
    /// The last stream that the client began.
    pub(super) newest: u32,
    /// Whether what begins now is left unheard, because the connection is about to be closed.
    pub(super) is_leaving: bool,
    pub(super) receive_window: ReceiveWindow,
    /// What we may send on all streams together.
    pub(super) window: Window,
    /// What we may send on a stream that begins now.
    pub(super) initial_window: u32,
    /// Whether the client must be informed that we use no table, before the next header.
    pub(super) owes_table_size: bool,
    /// Capacity of the buffers of calls on their way in, or in hand.
    pub(super) buffered: usize,
    pub(super) nuisances: u32,
    /// The time that was last set.
    pub(super) now: Instant,
    /// When the last stream ended, or the connection began.
    pub(super) idle_since: Instant,
    pub(super) out: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum Event {
    /// The header block of a call is there.
    Begun(u32),
    Call(Call),
}

/// A call that waits for its answer.
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
        /// The room for it in memory.
        share: Share,
    },
    /// There is no head if it was too long to be kept.
    Refused { head: Option<Head>, refusal: Refusal },
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client uses another protocol.
    NotHttp2,
    Fault(Fault),
    /// There was no call for too long.
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
            is_greeted: false,
            inbox: FrameBuffer::default(),
            decoder: Decoder::new(HEADER_TABLE, limits.header_bytes),
            block: None,
            streams: HashMap::new(),
            newest: 0,
            is_leaving: false,
            receive_window: ReceiveWindow::default(),
            window: Window::new(INITIAL_WINDOW),
            initial_window: INITIAL_WINDOW,
            owes_table_size: false,
            buffered: 0,
            nuisances: 0,
            now,
            idle_since: now,
            out: Vec::new(),
        }
    }

    pub(super) fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// When to look at the clock again: `None` while all that is open waits for its answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let begun = self.streams.values().filter_map(|stream| Some(stream.incoming.as_ref()?.begun)).min();
        let since = match begun {
            Some(begun) => begun,
            None if self.streams.is_empty() => self.idle_since,
            None => return None,
        };
        since.checked_add(self.limits.time)
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), End> {
        let bytes = self.take_preface(bytes)?;
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.push(bytes);
        while let Some((head, payload)) = inbox.take()? {
            let frame = Frame::read(head, payload)?;
            self.take_frame(frame, events)?;
        }
        self.inbox = inbox;
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
            let header_bytes = self.limits.header_bytes.min(MOST_BYTES) as u32;
            let settings = [
                Setting::MaxConcurrentStreams(MOST_STREAMS as u32),
                Setting::MaxHeaderListSize(header_bytes),
            ];
            frame::write_settings(&settings, &mut self.out);
        }
        Ok(rest)
    }

    fn take_frame(&mut self, frame: Frame<'_>, events: &mut Vec<Event>) -> Result<(), Fault> {
        if self.block.is_some() && !matches!(frame, Frame::Continuation { .. }) {
            return Err(Fault::protocol("a header block that is broken off"));
        }
        if !self.is_greeted && !matches!(frame, Frame::Settings(_)) {
            return Err(Fault::protocol("no settings at first"));
        }
        match frame {
            Frame::Data { stream, content, flow, ends_stream } => {
                self.take_data(stream, Data { content, flow, ends_stream }, events)
            }
            Frame::Headers { stream, block, ends_stream, ends_block } => {
                self.block = Some(HeaderBlock::begin(stream, ends_stream, block));
                if ends_block { self.end_block(events) } else { Ok(()) }
            }
            Frame::Continuation { stream, block: piece, ends_block } => {
                let block = self.block.as_mut();
                block.ok_or(Fault::protocol("a header block without a beginning"))?.add(stream, piece)?;
                if ends_block { self.end_block(events) } else { Ok(()) }
            }
            Frame::Settings(settings) => self.take_settings(settings),
            Frame::WindowUpdate { stream, increment } => self.take_window_update(stream, increment),
            Frame::Reset { stream, .. } => self.take_reset(stream),
            Frame::Ping(payload) => {
                frame::write_ping_ack(payload, &mut self.out);
                self.bear_nuisance()
            }
            Frame::PushPromise => Err(Fault::protocol("a promise of a client")),
            // A client that leaves waits for its answers first, so GOAWAY ends nothing here.
            Frame::GoAway { .. } | Frame::SettingsAck | Frame::PingAck | Frame::Meaningless => {
                self.bear_nuisance()
            }
        }
    }

    /// Counts a frame that brings no call further.
    pub(super) fn bear_nuisance(&mut self) -> Result<(), Fault> {
        self.nuisances += 1;
        match self.nuisances > MOST_NUISANCES {
            true => Err(Fault { code: Code::ENHANCE_YOUR_CALM, what: "frames without end or purpose" }),
            false => Ok(()),
        }
    }

    fn take_settings(&mut self, settings: Settings<'_>) -> Result<(), Fault> {
        self.is_greeted = true;
        for setting in settings.each() {
            match setting? {
                Setting::HeaderTableSize(_) => self.owes_table_size = true,
                Setting::InitialWindowSize(bytes) => {
                    let change = i64::from(bytes) - i64::from(self.initial_window);
                    self.initial_window = bytes;
                    for stream in self.streams.values_mut() {
                        stream.window.shift(change)?;
                    }
                }
                // we send no longer frames than everyone takes, few headers and no promises
                _ => {}
            }
        }
        frame::write_settings_ack(&mut self.out);
        self.bear_nuisance()
    }

    /// Widens a send window. A client needs few updates for each answer, so more of them count as a flood.
    fn take_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Fault> {
        self.bear_nuisance()?;
        if stream == 0 {
            if increment == 0 {
                return Err(Fault::protocol("a window update of nothing"));
            }
            return self.window.shift(i64::from(increment));
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

    /// A stream that was never begun can have no frames.
    pub(super) fn not_idle(&self, stream: u32) -> Result<(), Fault> {
        match stream > self.newest || stream % 2 == 0 {
            true => Err(Fault::protocol("a frame of a stream that was never begun")),
            false => Ok(()),
        }
    }

    fn take_reset(&mut self, stream: u32) -> Result<(), Fault> {
        self.not_idle(stream)?;
        self.forget(stream);
        self.bear_nuisance()
    }
}
