//! The client's side of a connection, without a socket: bytes in, bytes and the end of a call out.
//!
//! There is one call at a time. The owner of the socket repeats: [`send`](Conn::send), write
//! [`output`](Conn::output), read, [`receive`](Conn::receive), until [`take_end`](Conn::take_end) gives something.

mod call;
#[cfg(test)]
mod tests;

use self::call::Call;
pub(crate) use self::call::{ANSWER_BYTES, End, Message, Response};
use super::flow_control::{INITIAL_WINDOW, ReceiveWindow, Window};
use super::frame::{self, Code, Fault, Frame, LARGEST_STREAM, PREFACE, Setting, Settings, kind};
use super::hpack::{Decoder, List, Malformed, encode_size_update};
use super::peer::{FrameBuffer, HeaderBlock, PeerSettings};

const HEADER_TABLE_BYTES: usize = 4096;
/// All fields of an answer's head or trailers, each with 32 bytes on top.
const HEADER_LIST_BYTES: usize = 32 << 10;
/// Frames during a call that bring it no further: pings, settings, empty data. An honest server sends a few.
const MOST_NOISE: u32 = 10_000;
/// Data is framed up to this, then it must be written.
const OUTPUT_BYTES: usize = 64 << 10;
/// Servers give back what they took when half of the window is used up, or three quarters.
const LEAST_ROOM: usize = INITIAL_WINDOW as usize / 8;
/// How much of the debug data of a GOAWAY is kept.
const GO_AWAY_BYTES: usize = 200;

/// A connection, from its preface to whatever ends it. Not to be printed: its output may hold secrets.
pub(crate) struct Conn {
    out: Vec<u8>,
    inbox: FrameBuffer,
    decoder: Decoder,
    /// A header block that has begun and not ended.
    block: Option<HeaderBlock>,
    peer: PeerSettings,
    /// What all streams together may still send.
    window: Window,
    receive_window: ReceiveWindow,
    call: Option<Call>,
    next_stream: u32,
    go_away: Option<GoAway>,
    is_broken: bool,
    noise: u32,
    /// The peer's table may be smaller than the one it expects of us: we announce that ours is empty.
    owes_size_update: bool,
}

/// How far the sending of a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to be framed once the output was written.
    GoesOn,
    /// It is the server's turn: to give room, or an answer.
    Waits,
}

/// The server accepts no further calls on this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoAway {
    pub(crate) code: Code,
    /// What it says of the reason.
    pub(crate) text: String,
}

/// The head is longer than the server's SETTINGS_MAX_HEADER_LIST_SIZE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadTooLong {
    pub(crate) limit: usize,
}

impl Conn {
    /// A connection whose first bytes are ready to be written together with the first call.
    pub(crate) fn new() -> Self {
        let mut out = PREFACE.to_vec();
        let settings = [
            Setting::HeaderTableSize(HEADER_TABLE_BYTES as u32),
            Setting::EnablePush(false),
            Setting::MaxHeaderListSize(HEADER_LIST_BYTES as u32),
        ];
        frame::write_settings(&settings, &mut out);
        Self {
            out,
            inbox: FrameBuffer::default(),
            decoder: Decoder::new(HEADER_TABLE_BYTES, HEADER_LIST_BYTES),
            block: None,
            peer: PeerSettings::default(),
            window: Window::new(INITIAL_WINDOW),
            receive_window: ReceiveWindow::default(),
            call: None,
            next_stream: 1,
            go_away: None,
            is_broken: false,
            noise: 0,
            owes_size_update: true,
        }
    }

    /// Returns whether the server's first settings have come. Calls need not wait for them.
    pub(crate) fn has_greeted(&self) -> bool {
        self.peer.has_greeted
    }

    /// Returns the bytes that came after the last whole frame, or that broke a rule.
    pub(crate) fn unread(&self) -> &[u8] {
        self.inbox.waiting()
    }

    /// Whether a further call can ever be made.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_broken && self.go_away.is_none() && self.next_stream <= LARGEST_STREAM
    }

    /// Whether the server allows a call now. It may change its mind.
    pub(crate) fn may_start(&self) -> bool {
        self.is_open() && self.peer.max_streams > 0
    }

    /// Whether the server gives back what was sent: a connection whose window was starved would stall the next call.
    pub(crate) fn has_room(&self) -> bool {
        self.window.available() >= LEAST_ROOM
    }

    /// Whether the server takes a head of this length, by the settings received so far.
    pub(crate) fn check_head(&self, list_bytes: usize) -> Result<(), HeadTooLong> {
        match self.peer.max_header_list {
            limit if list_bytes > limit => Err(HeadTooLong { limit }),
            _ => Ok(()),
        }
    }

    /// Begins a call with a header block without references, whose fields take `list_bytes` by the peer's count.
    pub(crate) fn start(&mut self, block: &[u8], list_bytes: usize) -> Result<(), HeadTooLong> {
        self.check_head(list_bytes)?;
        let stream = self.next_stream;
        self.next_stream += 2;
        self.noise = 0;
        self.call = Some(Call::new(stream, self.peer.initial_window));
        if std::mem::take(&mut self.owes_size_update) {
            let mut whole = Vec::with_capacity(block.len() + 1);
            encode_size_update(0, &mut whole);
            whole.extend_from_slice(block);
            frame::write_headers(stream, &whole, false, self.peer.max_frame, &mut self.out);
        } else {
            frame::write_headers(stream, block, false, self.peer.max_frame, &mut self.out);
        }
        Ok(())
    }

    /// Frames as much of the message as there is room for.
    pub(crate) fn send(&mut self, message: &Message<'_>) -> Progress {
        let Some(call) = &mut self.call else { return Progress::Waits };
        while !call.is_sent && call.end.is_none() {
            let left = message.len() - call.sent;
            let room = self.window.available().min(call.window.available()).min(self.peer.max_frame);
            // a server may take frames of 16 MiB; that is no reason to hold one
            let length = left.min(room).min(OUTPUT_BYTES);
            if length == 0 && left > 0 {
                return Progress::Waits;
            }
            if self.out.len() >= OUTPUT_BYTES {
                return Progress::GoesOn;
            }
            // as much as both have was asked for
            let _ = self.window.spend(length).and(call.window.spend(length));
            call.is_sent = length == left;
            let flags = if call.is_sent { frame::flag::END_STREAM } else { 0 };
            frame::write_head(kind::DATA, flags, call.stream, length, &mut self.out);
            message.copy(call.sent, length, &mut self.out);
            call.sent += length;
        }
        Progress::Waits
    }

    /// What is to be written; forget it with [`clear_output`](Self::clear_output) when it was.
    pub(crate) fn output(&self) -> &[u8] {
        &self.out
    }

    pub(crate) fn clear_output(&mut self) {
        self.out.clear();
    }

    /// Takes in what was read. After a fault the connection is over; its output then holds the GOAWAY for the peer.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.push(bytes);
        let taken = self.take_in(&mut inbox);
        self.inbox = inbox;
        taken.inspect_err(|fault| {
            self.is_broken = true;
            frame::write_go_away(0, fault.code, &mut self.out);
        })
    }

    /// How the call ended, once it has.
    pub(crate) fn take_end(&mut self) -> Option<End> {
        let end = self.call.as_mut()?.end.take()?;
        self.call = None;
        Some(end)
    }

    /// Whether the server goes away because of an error, so that a response may never come.
    pub(crate) fn goes_away_in_error(&self) -> bool {
        self.go_away.as_ref().is_some_and(|go_away| go_away.code != Code::NO_ERROR)
    }

    /// The GOAWAY of the server, if it sent one.
    pub(crate) fn go_away(&self) -> Option<&GoAway> {
        self.go_away.as_ref()
    }

    /// Whether anything of an answer has come.
    pub(crate) fn has_answer_begun(&self) -> bool {
        self.call.as_ref().is_some_and(Call::has_answer_begun)
    }

    fn take_in(&mut self, inbox: &mut FrameBuffer) -> Result<(), Fault> {
        if !self.peer.has_greeted {
            check_first_bytes(inbox.waiting())?;
        }
        while let Some((head, payload)) = inbox.take()? {
            let frame = Frame::read(head, payload)?;
            self.check_turn(&frame)?;
            self.handle(frame)?;
        }
        Ok(())
    }

    /// What may come now: settings first, and nothing within a header block but the rest of it.
    fn check_turn(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        match (frame, &self.block) {
            (Frame::Settings(_), None) => self.peer.has_greeted = true,
            (_, _) if !self.peer.has_greeted => {
                return Err(Fault::protocol("a first frame that is no settings"));
            }
            (Frame::Continuation { .. }, Some(_)) => {}
            (Frame::Continuation { .. }, None) => {
                return Err(Fault::protocol("a header block that goes on and never began"));
            }
            (_, Some(_)) => return Err(Fault::protocol("something else within a header block")),
            (_, None) => {}
        }
        Ok(())
    }

    fn handle(&mut self, frame: Frame<'_>) -> Result<(), Fault> {
        match frame {
            Frame::Data { stream, content, flow, ends_stream } => {
                if content.is_empty() && !ends_stream {
                    self.count_noise()?;
                }
                self.data(stream, content, flow, ends_stream)
            }
            Frame::Headers { stream, block, ends_stream, ends_block } => {
                self.check_known(stream)?;
                self.block = Some(HeaderBlock::begin(stream, ends_stream, block));
                if ends_block { self.end_block() } else { Ok(()) }
            }
            Frame::Continuation { stream, block, ends_block } => {
                if let Some(begun) = &mut self.block {
                    begun.add(stream, block)?;
                }
                if ends_block { self.end_block() } else { Ok(()) }
            }
            Frame::Reset { stream, code } => {
                self.count_noise()?;
                self.check_known(stream)?;
                if let Some(call) = self.call_on(stream) {
                    call.finish(match code {
                        Code::REFUSED_STREAM => End::Unprocessed,
                        code => End::Reset(code),
                    });
                }
                Ok(())
            }
            Frame::Settings(settings) => {
                self.count_noise()?;
                self.apply(settings)
            }
            Frame::Ping(payload) => {
                self.count_noise()?;
                frame::write_ping_ack(payload, &mut self.out);
                Ok(())
            }
            Frame::GoAway { last_stream, code, debug } => {
                self.count_noise()?;
                self.leave(last_stream, code, debug);
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => self.widen(stream, increment),
            Frame::PushPromise => Err(Fault::protocol("a push, which we switched off")),
            Frame::SettingsAck | Frame::PingAck | Frame::Meaningless => self.count_noise(),
        }
    }

    fn data(&mut self, stream: u32, content: &[u8], flow: usize, ends_stream: bool) -> Result<(), Fault> {
        self.check_known(stream)?;
        // Data of a call that has ended counts, too.
        if let Some(increment) = self.receive_window.receive(flow)? {
            frame::write_window_update(0, increment, &mut self.out);
        }
        let Some(call) = self.call.as_mut().filter(|call| call.is_on(stream)) else { return Ok(()) };
        let increment = call.data(content, flow, ends_stream)?;
        if let Some(increment) = increment.filter(|_| call.end.is_none()) {
            frame::write_window_update(stream, increment, &mut self.out);
        }
        self.settle();
        Ok(())
    }

    /// Decodes a block that is complete, also if its call has ended: the table depends on it.
    fn end_block(&mut self) -> Result<(), Fault> {
        let Some(block) = self.block.take() else { return Ok(()) };
        let list = self.decoder.decode(&block.bytes);
        let list = list.map_err(|Malformed(what)| Fault { code: Code::COMPRESSION, what })?;
        let Some(call) = self.call.as_mut().filter(|call| call.is_on(block.stream)) else {
            return self.count_noise();
        };
        let is_interim = match list {
            List::Fields(fields) => call.headers(fields, block.ends_stream),
            List::TooLong => {
                call.finish(End::TooLong("the head of the answer is too long"));
                false
            }
        };
        self.settle();
        if is_interim { self.count_noise() } else { Ok(()) }
    }

    /// Resets a call that has ended before its request or its response has.
    fn settle(&mut self) {
        let Some(call) = self.call.as_ref().filter(|call| call.end.is_some()) else { return };
        if let Some(code) = call.reset_owed() {
            frame::write_reset(call.stream, code, &mut self.out);
        }
    }

    fn apply(&mut self, settings: Settings<'_>) -> Result<(), Fault> {
        for setting in settings.each() {
            match setting? {
                Setting::InitialWindowSize(bytes) => {
                    let growth = i64::from(bytes) - i64::from(self.peer.initial_window);
                    self.peer.initial_window = bytes;
                    if let Some(call) = self.call.as_mut().filter(|call| call.end.is_none()) {
                        call.window.shift(growth)?;
                    }
                }
                Setting::HeaderTableSize(_) => self.owes_size_update = true,
                Setting::MaxConcurrentStreams(streams) => self.peer.max_streams = streams,
                Setting::MaxFrameSize(bytes) => self.peer.max_frame = bytes as usize,
                Setting::MaxHeaderListSize(bytes) => self.peer.max_header_list = bytes as usize,
                Setting::EnablePush(true) => {
                    return Err(Fault::protocol("a server that wants to be pushed to"));
                }
                Setting::EnablePush(false) | Setting::Unknown => {}
            }
        }
        frame::write_settings_ack(&mut self.out);
        Ok(())
    }

    fn leave(&mut self, last_stream: u32, code: Code, debug: &[u8]) {
        let text = String::from_utf8_lossy(&debug[..debug.len().min(GO_AWAY_BYTES)]).into_owned();
        self.go_away = Some(GoAway { code, text });
        // A server that has responded has processed the request, whatever it says now.
        if let Some(call) = self.call.as_mut().filter(|call| call.stream > last_stream && call.end.is_none())
        {
            call.finish(End::Unprocessed);
        }
    }

    fn widen(&mut self, stream: u32, increment: u32) -> Result<(), Fault> {
        if stream == 0 {
            return match increment {
                0 => Err(Fault::protocol("a window update of nothing")),
                _ => self.window.shift(i64::from(increment)),
            };
        }
        self.check_known(stream)?;
        let Some(call) = self.call_on(stream) else { return Ok(()) };
        if increment == 0 {
            call.break_off(Code::PROTOCOL, "a window update of nothing");
        } else if call.window.shift(i64::from(increment)).is_err() {
            call.break_off(Code::FLOW_CONTROL, "a window that is too large");
        }
        self.settle();
        Ok(())
    }

    fn call_on(&mut self, stream: u32) -> Option<&mut Call> {
        self.call.as_mut().filter(|call| call.is_on(stream))
    }

    /// The server may send nothing on a stream that we never opened.
    fn check_known(&self, stream: u32) -> Result<(), Fault> {
        match stream % 2 == 1 && stream < self.next_stream {
            true => Ok(()),
            false => Err(Fault::protocol("a stream that was never opened")),
        }
    }

    fn count_noise(&mut self) -> Result<(), Fault> {
        self.noise += 1;
        match self.noise > MOST_NOISE {
            true => Err(Fault { code: Code::ENHANCE_YOUR_CALM, what: "a flood of frames that say nothing" }),
            false => Ok(()),
        }
    }
}

/// Something else may listen there, and would be misread.
fn check_first_bytes(bytes: &[u8]) -> Result<(), Fault> {
    // an alert, for a greeting that it did not understand
    if bytes.starts_with(&[0x15, 0x03]) {
        return Err(Fault::protocol("the peer speaks TLS: write https:// in the endpoint"));
    }
    if bytes.starts_with(b"HTTP/") {
        return Err(Fault::protocol("the peer speaks HTTP/1: is this the HTTP port, 4318?"));
    }
    // the fourth byte is the kind of a frame, and settings come first: this is text, or an unknown protocol
    if matches!(bytes, [_, _, _, of, _, ..] if *of > kind::CONTINUATION) {
        return Err(Fault::protocol("the peer speaks something else"));
    }
    Ok(())
}
