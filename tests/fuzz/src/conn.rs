//! Invariants of the client's side of every connection.

use crate::http2::client::{ClientConnection, End, Message, Progress, Response};
use crate::http2::connection::FrameBuffer;
use crate::http2::frame::{HEAD_BYTES, Head, MIN_MAX_FRAME, PREFACE, flag, kind};
use crate::http2::hpack::{Field, encode};

/// Limits of an answer's body, and of the fields of its head and of its trailers.
const MAX_BODY_BYTES: usize = 64 << 10;
const MAX_FIELD_BYTES: usize = 32 << 10;
/// Maximum number of bytes of waiting output: the connection's own limit, and a last frame that may exceed it.
const MAX_OUTPUT: usize = 130 << 10;
const INITIAL_WINDOW: i64 = 65_535;

/// An event on a connection. An input is a list of events; the first byte of each selects its kind.
enum Event<'a> {
    /// The server sends bytes. The second byte is their number.
    Heard(&'a [u8]),
    /// A call is made, if none is open and one is allowed. Two bytes give the length of the message, scaled by a bit of
    /// the first byte.
    Call { length: usize },
    /// The pending output is written.
    Written,
}

/// How received bytes are split.
#[derive(Clone, Copy)]
enum Split {
    Whole,
    Bytes,
}

/// An input is a list of events. It is run twice: with received bytes in one piece, and byte by byte.
pub fn check(input: &[u8]) {
    let whole = Run::through(input, Split::Whole);
    let split = Run::through(input, Split::Bytes);
    assert_eq!(whole.ends, split.ends, "what came in pieces has other ends");
    assert_eq!(whole.fault, split.fault, "what came in pieces has another fault");
    assert_eq!(whole.conn.is_open(), split.conn.is_open());
    assert_eq!(whole.conn.goes_away_in_error(), split.conn.goes_away_in_error());
    assert_eq!(whole.said, split.said, "what came in pieces was answered differently");
}

fn events(mut rest: &[u8]) -> impl Iterator<Item = Event<'_>> {
    std::iter::from_fn(move || {
        let (choice, behind) = rest.split_first()?;
        rest = behind;
        Some(match choice & 7 {
            0 => {
                let (length, behind) = rest.split_first_chunk()?;
                rest = behind;
                Event::Call { length: usize::from(u16::from_be_bytes(*length)) << (choice >> 3 & 1) }
            }
            1 => Event::Written,
            _ => {
                let (length, behind) = rest.split_first()?;
                let (heard, behind) = behind.split_at(behind.len().min(usize::from(*length)));
                rest = behind;
                Event::Heard(heard)
            }
        })
    })
}

struct Run {
    conn: ClientConnection,
    ends: Vec<End>,
    fault: Option<&'static str>,
    /// All bytes that were written.
    said: Vec<u8>,
    message: Option<Vec<u8>>,
    model: Model,
}

impl Run {
    fn through(input: &[u8], split: Split) -> Self {
        let conn = ClientConnection::new();
        let model = Model::default();
        let mut run = Self { conn, ends: Vec::new(), fault: None, said: Vec::new(), message: None, model };
        run.write();
        for event in events(input) {
            match event {
                Event::Heard(bytes) => run.hear(bytes, split),
                Event::Call { length } => run.call(length),
                Event::Written => run.write(),
            }
            if run.fault.is_some() {
                break;
            }
        }
        match run.fault {
            // After a fault, only a GOAWAY is written, and the model of the server no longer applies.
            Some(_) => run.said.extend_from_slice(run.conn.output()),
            None => run.write(),
        }
        run
    }

    fn hear(&mut self, bytes: &[u8], split: Split) {
        let piece = match split {
            Split::Whole => bytes.len().max(1),
            Split::Bytes => 1,
        };
        let before = self.conn.output().len();
        for piece in bytes.chunks(piece) {
            let heard = self.conn.receive(piece);
            if let Some(end) = self.conn.take_end() {
                assert!(self.message.take().is_some(), "an end of no call");
                check_end(&end);
                self.ends.push(end);
            }
            assert_eq!(self.conn.take_end(), None, "a second end");
            if let Err(fault) = heard {
                assert!(!self.conn.is_open(), "open after a fault");
                self.fault = Some(fault.what);
                break;
            }
        }
        let added = self.conn.output().len() - before;
        assert!(added <= 2 * bytes.len() + 64, "{added} bytes are answered to {}", bytes.len());
        self.model.hear(bytes);
    }

    fn call(&mut self, length: usize) {
        if self.message.is_some() || !self.conn.may_start() {
            return;
        }
        let mut block = Vec::new();
        encode(":method", b"POST", &mut block);
        if self.conn.start(&block, 42).is_ok() {
            self.message = Some((0..length).map(|at| at as u8).collect());
            self.model.call(length);
        }
    }

    /// Writes until the client waits for the server.
    fn write(&mut self) {
        loop {
            let body = self.message.as_deref().unwrap_or_default();
            // In two pieces, like the worker's requests.
            let (start, rest) = body.split_at(body.len() / 3);
            let progress = self.conn.send(&Message::new(&[start, rest], true));
            let output = self.conn.output();
            // The output may also contain acknowledgements, whose number `hear` checks.
            assert!(output.len() <= MAX_OUTPUT + 3 * self.model.heard.waiting_bytes, "{}", output.len());
            self.model.check(output);
            self.said.extend_from_slice(output);
            self.conn.clear_output();
            self.model.heard.waiting_bytes = 0;
            if progress == Progress::Waits {
                return;
            }
        }
    }
}

fn check_end(end: &End) {
    let End::Responded(Response { status, head, body, trailers }) = end else { return };
    assert!((200..600).contains(status), "a status of {status}");
    assert!(body.len() <= MAX_BODY_BYTES, "a body of {}", body.len());
    assert!(size(head) <= MAX_FIELD_BYTES && size(trailers) <= MAX_FIELD_BYTES, "too many fields");
}

fn size(fields: &[Field]) -> usize {
    fields.iter().map(|field| field.name.len() + field.value.len() + 32).sum()
}

/// A simple model of the server's view of the client.
#[derive(Default)]
struct Model {
    heard: Heard,
    /// Bytes that the client may still send.
    window: i64,
    stream_window: i64,
    initial_window: i64,
    max_frame: usize,
    stream: u32,
    /// The length of the message with its prefix, and the number of bytes sent.
    length: usize,
    sent: usize,
}

#[derive(Default)]
struct Heard {
    inbox: FrameBuffer,
    /// Received bytes since the last write.
    waiting_bytes: usize,
    has_begun: bool,
}

impl Model {
    fn hear(&mut self, bytes: &[u8]) {
        self.heard.waiting_bytes += bytes.len();
        self.begin();
        self.heard.inbox.push(bytes);
        while let Ok(Some((head, payload))) = self.heard.inbox.take() {
            match (head.kind, payload.len()) {
                (kind::SETTINGS, _) if head.flags & flag::ACK == 0 => {
                    for entry in payload.chunks_exact(6) {
                        let value = number(&entry[2..]);
                        match entry[..2] {
                            [0, 4] => {
                                self.stream_window += value - self.initial_window;
                                self.initial_window = value;
                            }
                            // Not checked here: the client ends the connection if a value is out of range.
                            [0, 5] => self.max_frame = MIN_MAX_FRAME.max(value as usize),
                            _ => {}
                        }
                    }
                }
                (kind::WINDOW_UPDATE, 4) => {
                    let increment = number(payload) & 0x7fff_ffff;
                    if head.stream == 0 {
                        self.window += increment;
                    } else if head.stream == self.stream {
                        self.stream_window += increment;
                    }
                }
                _ => {}
            }
        }
        let waiting = self.heard.inbox.waiting();
        let is_fault = waiting.first_chunk().is_some_and(|head| Head::read(head).length > MIN_MAX_FRAME);
        assert!(is_fault || waiting.len() < HEAD_BYTES + MIN_MAX_FRAME, "{} bytes wait", waiting.len());
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.heard.has_begun, true) {
            self.window = INITIAL_WINDOW;
            self.initial_window = INITIAL_WINDOW;
            self.max_frame = MIN_MAX_FRAME;
        }
    }

    fn call(&mut self, length: usize) {
        self.begin();
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        self.stream_window = self.initial_window;
        self.length = length + 5;
        self.sent = 0;
    }

    /// Asserts that the output consists of frames, and that their data is the message, within the windows.
    fn check(&mut self, output: &[u8]) {
        self.begin();
        let mut rest = output.strip_prefix(PREFACE).unwrap_or(output);
        while let Some((head, behind)) = rest.split_first_chunk() {
            let head = Head::read(head);
            assert!(head.length <= self.max_frame, "a frame of {}", head.length);
            let (payload, behind) = behind.split_at(head.length);
            rest = behind;
            if head.kind != kind::DATA {
                continue;
            }
            assert_eq!(head.stream, self.stream, "data on another stream than the call's");
            self.window -= payload.len() as i64;
            self.stream_window -= payload.len() as i64;
            assert!(payload.is_empty() || self.window >= 0, "more than the connection's window");
            assert!(payload.is_empty() || self.stream_window >= 0, "more than the stream's window");
            for byte in payload {
                assert_eq!(*byte, self.byte(self.sent), "byte {} of the message", self.sent);
                self.sent += 1;
            }
            let is_last = head.flags & flag::END_STREAM != 0;
            assert_eq!(is_last, self.sent == self.length, "{} of {}", self.sent, self.length);
        }
        assert!(rest.is_empty(), "less than a frame");
    }

    fn byte(&self, at: usize) -> u8 {
        match at {
            0 => 1,
            1..=4 => ((self.length - 5) as u32).to_be_bytes()[at - 1],
            _ => (at - 5) as u8,
        }
    }
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}
