//! The client's side of a connection, without I/O: takes received bytes, and produces the bytes to send and the end of
//! each call.
//!
//! There is one call at a time, because one worker sends. The owner of the socket calls
//! [`send`](ClientConnection::send), writes [`output`](ClientConnection::output), reads from the socket and calls
//! [`receive`](ClientConnection::receive). It repeats these steps until [`take_end`](ClientConnection::take_end)
//! returns the end of the call.

mod call;
#[cfg(test)]
mod tests;

use self::call::Call;
pub(crate) use self::call::{End, MAX_KEPT_BYTES, Message, Response};
use super::connection::{Connection, Event, FrameBuffer, HEADER_TABLE_BYTES};
use super::flow_control::INITIAL_WINDOW;
use super::frame::{self, Code, Fault, Frame, MAX_STREAM, PREFACE, kind, setting};
use super::hpack::List;

/// Maximum size of a response's headers or trailers: the names, the values and 32 bytes per field (section 6.5.2).
const HEADER_LIST_BYTES: usize = 32 << 10;
/// Maximum frames without effect during a call: pings, settings, empty data. An honest server sends a few.
const MAX_NOISE: u32 = 10_000;
/// Output size at which framing stops until the output is written.
const OUTPUT_BYTES: usize = 64 << 10;
/// Minimum send window for another call on a kept connection. Servers return credit once half or three quarters of the
/// window are used, so a window that is nearly used up shows that the server returns no credit.
const MIN_ROOM: usize = INITIAL_WINDOW as usize / 8;
/// Bytes of a GOAWAY's debug data that are kept.
const GO_AWAY_BYTES: usize = 200;

/// The client's side of a connection, from its preface to its end.
pub(crate) struct ClientConnection {
    connection: Connection,
    call: Option<Call>,
    next_stream: u32,
    /// Maximum body of a response.
    pub(crate) max_body: usize,
    go_away: Option<GoAway>,
    is_broken: bool,
}

/// The event that a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The output must be written; then more can be framed.
    GoesOn,
    /// The server must send credit or a response.
    Waits,
}

/// A GOAWAY: the server accepts no further calls on this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoAway {
    pub(crate) code: Code,
    /// Beginning of the debug data.
    pub(crate) text: String,
}

impl ClientConnection {
    /// Creates a connection. Its preface is in the output, to be written together with the first call.
    pub(crate) fn new() -> Self {
        let mut connection = Connection::new(HEADER_LIST_BYTES, MAX_NOISE);
        // Our encoder uses no dynamic table, and says so in the first block, so that the server need not keep one.
        connection.owes_size_update = true;
        connection.out = PREFACE.to_vec();
        let settings = [
            (setting::HEADER_TABLE_SIZE, HEADER_TABLE_BYTES as u32),
            (setting::ENABLE_PUSH, 0),
            (setting::MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES as u32),
        ];
        frame::write_settings(&settings, &mut connection.out);
        Self { connection, call: None, next_stream: 1, max_body: 4 << 20, go_away: None, is_broken: false }
    }

    /// Returns whether the server's first SETTINGS have arrived. Calls do not wait for them.
    pub(crate) fn has_greeted(&self) -> bool {
        self.connection.peer.has_greeted
    }

    /// Returns the received bytes after the last frame that was taken, as [`Connection::unread`] does.
    #[cfg(feature = "probe")]
    pub(crate) fn unread(&self) -> &[u8] {
        self.connection.unread()
    }

    /// Returns whether another call can ever be made on this connection.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_broken && self.go_away.is_none() && self.next_stream <= MAX_STREAM
    }

    /// Returns whether the server allows a call now. Later settings may change that.
    pub(crate) fn may_start(&self) -> bool {
        self.is_open() && self.connection.peer.max_streams > 0
    }

    /// Returns whether the send window suffices for a call. A server that returns no credit would stall the next call.
    pub(crate) fn has_room(&self) -> bool {
        self.connection.window.available() >= MIN_ROOM
    }

    /// Checks the size of a header list against the server's settings received so far.
    ///
    /// # Errors
    /// Returns the server's SETTINGS_MAX_HEADER_LIST_SIZE if the list is larger.
    pub(crate) fn check_head(&self, list_bytes: usize) -> Result<(), usize> {
        let limit = self.connection.peer.max_header_list;
        if list_bytes > limit { Err(limit) } else { Ok(()) }
    }

    /// Begins a call with an encoded header block that uses no dynamic table. `list_bytes` is the size of the header
    /// list by the rule of section 6.5.2. Fails as [`check_head`](Self::check_head) does.
    pub(crate) fn start(&mut self, block: &[u8], list_bytes: usize) -> Result<(), usize> {
        self.check_head(list_bytes)?;
        let stream = self.next_stream;
        self.next_stream += 2;
        // Each call has its own allowance for frames without effect.
        self.connection.noise = 0;
        self.call = Some(Call::new(stream, self.connection.peer.initial_window, self.max_body));
        let mut whole = self.connection.begin_block();
        whole.extend_from_slice(block);
        let max_frame = self.connection.peer.max_frame;
        frame::write_headers(stream, &whole, false, max_frame, &mut self.connection.out);
        Ok(())
    }

    /// Frames as much of the message as the send windows and the output limit allow.
    pub(crate) fn send(&mut self, message: &Message<'_>) -> Progress {
        let Self { call: Some(call), connection, .. } = self else { return Progress::Waits };
        while !call.is_sent && call.end.is_none() {
            let left = message.len() - call.sent;
            if left > 0 && call.window.available().min(connection.window.available()) == 0 {
                return Progress::Waits;
            }
            if connection.out.len() >= OUTPUT_BYTES {
                return Progress::GoesOn;
            }
            // A server may accept frames of 16 MiB, but buffering one would cost that much memory.
            let most = left.min(connection.peer.max_frame).min(OUTPUT_BYTES);
            let length = connection.spend(&mut call.window, most);
            // The last piece carries END_STREAM, so no empty DATA frame is needed.
            call.is_sent = length == left;
            let flags = if call.is_sent { frame::flag::END_STREAM } else { 0 };
            frame::write_head(kind::DATA, flags, call.stream, length, &mut connection.out);
            message.copy(call.sent, length, &mut connection.out);
            call.sent += length;
        }
        Progress::Waits
    }

    /// Returns the bytes to write. After the write, call [`clear_output`](Self::clear_output).
    pub(crate) fn output(&self) -> &[u8] {
        &self.connection.out
    }

    pub(crate) fn clear_output(&mut self) {
        self.connection.out.clear();
    }

    /// Handles received bytes. After a fault the connection is over, and its output ends with a GOAWAY for the peer.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut inbox = self.connection.take_inbox(bytes);
        let taken = self.take_in(&mut inbox);
        self.connection.put_back(inbox);
        taken.inspect_err(|fault| {
            self.is_broken = true;
            frame::write_go_away(0, fault.code, &mut self.connection.out);
        })
    }

    /// Takes the end of the call, once the call has ended.
    pub(crate) fn take_end(&mut self) -> Option<End> {
        let end = self.call.as_mut()?.end.take()?;
        self.call = None;
        Some(end)
    }

    /// Returns whether the server sent GOAWAY with an error code. The response may then never arrive.
    pub(crate) fn goes_away_in_error(&self) -> bool {
        self.go_away.as_ref().is_some_and(|go_away| go_away.code != Code::NO_ERROR)
    }

    /// Returns the server's GOAWAY, if it sent one.
    pub(crate) fn go_away(&self) -> Option<&GoAway> {
        self.go_away.as_ref()
    }

    /// Returns whether a part of the current call's response has arrived, or the call has ended.
    pub(crate) fn has_answer_begun(&self) -> bool {
        self.call.as_ref().is_some_and(Call::has_answer_begun)
    }

    fn take_in(&mut self, inbox: &mut FrameBuffer) -> Result<(), Fault> {
        if !self.has_greeted() {
            check_first_bytes(inbox.waiting())?;
        }
        while let Some((head, payload)) = inbox.take()? {
            if let Some(event) = self.connection.handle(Frame::read(head, payload)?)? {
                self.handle(event)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event<'_>) -> Result<(), Fault> {
        match event {
            Event::Frame(Frame::Data { stream, content, flow, ends_stream }) => {
                self.data(stream, content, flow, ends_stream)
            }
            Event::Headers { stream, list, ends_stream } => self.headers(stream, list, ends_stream),
            Event::Frame(Frame::Reset { stream, code }) => self.reset(stream, code),
            Event::Frame(Frame::GoAway { last_stream, code, debug }) => {
                self.leave(last_stream, code, debug);
                Ok(())
            }
            // WINDOW_UPDATE is not counted as noise: an upload against a small window takes thousands of them. A frame
            // for stream 0 was already applied to the connection's window.
            Event::Frame(Frame::WindowUpdate { stream: stream @ 1.., increment }) => {
                self.widen(stream, increment)
            }
            Event::Frame(_) => Ok(()),
            // Every SETTINGS frame causes this event, even if no window changes, so push can be checked here.
            Event::WindowsShift(_) if self.connection.peer.wants_push => {
                Err(Fault::protocol("a server that enables push"))
            }
            Event::WindowsShift(growth) => match self.call.as_mut().filter(|call| call.end.is_none()) {
                Some(call) => call.window.shift(growth),
                None => Ok(()),
            },
        }
    }

    fn data(&mut self, stream: u32, content: &[u8], flow: usize, ends_stream: bool) -> Result<(), Fault> {
        self.check_known(stream)?;
        let Some(call) = self.call.as_mut().filter(|call| call.is_on(stream)) else { return Ok(()) };
        let increment = call.data(content, flow, ends_stream)?;
        if let Some(increment) = increment.filter(|_| call.end.is_none()) {
            frame::write_window_update(stream, increment, &mut self.connection.out);
        }
        self.settle();
        Ok(())
    }

    fn headers(&mut self, stream: u32, list: List, ends_stream: bool) -> Result<(), Fault> {
        self.check_known(stream)?;
        let Some(call) = self.call_on(stream) else { return self.connection.count_noise() };
        let is_interim = match list {
            List::Fields(fields) => call.headers(fields, ends_stream),
            List::TooLong => {
                call.finish(End::Malformed("the response headers are too long"));
                false
            }
        };
        self.settle();
        if is_interim { self.connection.count_noise() } else { Ok(()) }
    }

    fn reset(&mut self, stream: u32, code: Code) -> Result<(), Fault> {
        self.check_known(stream)?;
        if let Some(call) = self.call_on(stream) {
            call.finish(match code {
                // REFUSED_STREAM guarantees that the request was not processed (section 8.7).
                Code::REFUSED_STREAM => End::Unprocessed,
                code => End::Reset(code),
            });
        }
        Ok(())
    }

    /// Resets the stream of a call that ended before its request or its response was complete.
    fn settle(&mut self) {
        let Some(call) = self.call.as_ref().filter(|call| call.end.is_some()) else { return };
        if let Some(code) = call.reset_owed() {
            frame::write_reset(call.stream, code, &mut self.connection.out);
        }
    }

    fn leave(&mut self, last_stream: u32, code: Code, debug: &[u8]) {
        // Debug data is opaque, but most servers send text.
        let text = String::from_utf8_lossy(&debug[..debug.len().min(GO_AWAY_BYTES)]).into_owned();
        self.go_away = Some(GoAway { code, text });
        // A server that has already responded has processed the request, even if its GOAWAY says otherwise.
        if let Some(call) = self.call.as_mut().filter(|call| call.stream > last_stream && call.end.is_none())
        {
            call.finish(End::Unprocessed);
        }
    }

    fn widen(&mut self, stream: u32, increment: u32) -> Result<(), Fault> {
        self.check_known(stream)?;
        let Some(call) = self.call_on(stream) else { return Ok(()) };
        if increment == 0 {
            call.break_off(Code::PROTOCOL, "WINDOW_UPDATE with an increment of 0");
        } else if call.window.shift(i64::from(increment)).is_err() {
            call.break_off(Code::FLOW_CONTROL, "a flow-control window above 2^31-1");
        }
        self.settle();
        Ok(())
    }

    fn call_on(&mut self, stream: u32) -> Option<&mut Call> {
        self.call.as_mut().filter(|call| call.is_on(stream))
    }

    /// Fails for a stream that this client never opened (section 5.1.1).
    fn check_known(&self, stream: u32) -> Result<(), Fault> {
        match stream % 2 == 1 && stream < self.next_stream {
            true => Ok(()),
            false => Err(Fault::protocol("a frame on a stream that was never opened")),
        }
    }
}

/// Recognizes a server of another protocol by its first bytes, for a useful message.
fn check_first_bytes(bytes: &[u8]) -> Result<(), Fault> {
    let what = match bytes {
        // A TLS alert record, the reply to our plain-text preface.
        [0x15, 0x03, ..] => "the peer speaks TLS: write https:// in the endpoint",
        [b'H', b'T', b'T', b'P', b'/', ..] => "the peer speaks HTTP/1: is this the HTTP port, 4318?",
        // The fourth byte of a frame is its type. If it is above the last known type, the bytes are text, or an unknown
        // protocol. The pattern takes five bytes, so that an incomplete `HTTP/` does not match.
        [_, _, _, of, _, ..] if *of > kind::CONTINUATION => {
            "the peer speaks neither HTTP/2 nor HTTP/1: check the port"
        }
        _ => return Ok(()),
    };
    Err(Fault::protocol(what))
}
