//! A client that writes arbitrary frames, valid or not, and reads the answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use standpipe::Signal;
use standpipe::receiver::Receiver;

use crate::client::SOON;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// The flag 1 of DATA and HEADERS; in other frames it is an acknowledgement.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) type Fields = Vec<(String, String)>;

pub(crate) struct Grpc {
    pub(crate) socket: TcpStream,
    next_stream: u32,
    /// Whether received bytes are returned to the server's windows.
    pub(crate) gives_back: bool,
    /// Frames that `frame_of` or `reply` has read, but not returned.
    kept: Vec<Frame>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// Returns the number at this offset of the payload.
    pub(crate) fn number(&self, place: usize) -> u32 {
        u32::from_be_bytes(self.payload[place..place + 4].try_into().unwrap())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) headers: Fields,
    /// Contents of all DATA frames.
    pub(crate) data: Vec<u8>,
    /// `None` if the answer consists of headers only.
    pub(crate) trailers: Option<Fields>,
    pub(crate) reset: Option<u32>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns a field of the trailers, or of the headers if the answer consists of headers only.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        find(self.trailers.as_ref().unwrap_or(&self.headers), name)
    }

    pub(crate) fn code(&self) -> u32 {
        self.trailer("grpc-status").unwrap().parse().unwrap()
    }

    /// Returns the only message. Asserts that its prefix is valid.
    pub(crate) fn message(&self) -> &[u8] {
        let (prefix, message) = self.data.split_at(5);
        assert_eq!(prefix[0], 0);
        assert_eq!(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize, message.len());
        message
    }
}

fn find<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

impl Grpc {
    /// Connects and sends the preface and settings.
    pub(crate) fn connect(receiver: &Receiver) -> Self {
        Self::connect_with(receiver, &[])
    }

    pub(crate) fn connect_with(receiver: &Receiver, settings: &[(u16, u32)]) -> Self {
        let mut client = Self::dial(receiver);
        client.write(&[PREFACE, &settings_frame(settings)].concat());
        client
    }

    /// Connects and sends nothing.
    pub(crate) fn dial(receiver: &Receiver) -> Self {
        let socket = TcpStream::connect(receiver.grpc_address()).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket.set_write_timeout(Some(SOON)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, next_stream: 1, gives_back: true, kept: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub(crate) fn write_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.write(&frame(kind, flags, stream, payload));
    }

    pub(crate) fn new_stream(&mut self) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Sends a call, in one write, and returns its stream.
    pub(crate) fn send(&mut self, fields: &Fields, body: &[u8]) -> u32 {
        let stream = self.new_stream();
        let mut frames = frame(HEADERS, END_HEADERS, stream, &block(fields));
        let mut pieces = body.chunks(16_384).peekable();
        if pieces.peek().is_none() {
            frames.extend(frame(DATA, END_STREAM, stream, &[]));
        }
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { END_STREAM } else { 0 };
            frames.extend(frame(DATA, flags, stream, piece));
        }
        self.write(&frames);
        stream
    }

    pub(crate) fn export(&mut self, signal: Signal, message: &[u8]) -> u32 {
        self.send(&fields(signal), &packed(message))
    }

    pub(crate) fn ask(&mut self, signal: Signal, message: &[u8]) -> Reply {
        let stream = self.export(signal, message);
        self.reply(stream).unwrap()
    }

    /// Returns the next frame of any kind.
    pub(crate) fn frame(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.socket.read_exact(&mut payload)?;
        if kind == DATA && self.gives_back && !payload.is_empty() {
            let increment = (payload.len() as u32).to_be_bytes();
            let stream = u32::from_be_bytes(stream);
            let updates =
                [frame(WINDOW_UPDATE, 0, 0, &increment), frame(WINDOW_UPDATE, 0, stream, &increment)];
            // The receiver may have closed the connection already.
            let _ = self.socket.write_all(&updates.concat());
        }
        Ok(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }

    /// Returns the next frame of this kind. Frames of other kinds are kept for later.
    pub(crate) fn frame_of(&mut self, kind: u8) -> io::Result<Frame> {
        if let Some(place) = self.kept.iter().position(|frame| frame.kind == kind) {
            return Ok(self.kept.remove(place));
        }
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Ok(frame);
            }
            self.kept.push(frame);
        }
    }

    /// Reads until the answer of this stream has ended. Frames of other streams are kept.
    pub(crate) fn reply(&mut self, stream: u32) -> io::Result<Reply> {
        let mut reply = Reply::default();
        let mut block = Vec::new();
        let mut blocks = Vec::new();
        let mut kept = std::mem::take(&mut self.kept).into_iter();
        let ended = loop {
            let frame = match kept.next() {
                Some(frame) => frame,
                None => self.frame()?,
            };
            if frame.stream != stream || frame.kind == WINDOW_UPDATE {
                self.kept.push(frame);
                continue;
            }
            let ends = frame.ends_stream();
            match frame.kind {
                DATA => reply.data.extend_from_slice(&frame.payload),
                HEADERS | CONTINUATION => {
                    block.extend_from_slice(&frame.payload);
                    if frame.flags & END_HEADERS != 0 {
                        blocks.push(unblock(&std::mem::take(&mut block)));
                    }
                }
                RESET => {
                    reply.reset = Some(frame.number(0));
                    break true;
                }
                other => panic!("a frame of kind {other}"),
            }
            if ends {
                break true;
            }
        };
        assert!(ended);
        self.kept.extend(kept);
        let mut blocks = blocks.into_iter();
        reply.headers = blocks.next().unwrap_or_default();
        reply.trailers = blocks.next();
        Ok(reply)
    }

    /// Returns the sum of the server's window updates for the connection, in the kept frames.
    pub(crate) fn given_back(&self) -> usize {
        let updates = self.kept.iter().filter(|frame| frame.kind == WINDOW_UPDATE && frame.stream == 0);
        updates.map(|frame| frame.number(0) as usize).sum()
    }

    /// Reads until the server closes the connection. Returns the received frames.
    pub(crate) fn frames_to_end(&mut self) -> io::Result<Vec<Frame>> {
        let mut frames = std::mem::take(&mut self.kept);
        loop {
            match self.frame() {
                Ok(frame) => frames.push(frame),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(frames),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the code of the GOAWAY frame, after which the server closes the connection.
    pub(crate) fn farewell(&mut self) -> u32 {
        let frames = self.frames_to_end().unwrap();
        let farewell = frames.iter().find(|frame| frame.kind == GO_AWAY);
        farewell.unwrap_or_else(|| panic!("no farewell: {frames:?}")).number(4)
    }

    pub(crate) fn stop_writing(&self) {
        // The connection may have been refused already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(crate) fn settings_frame(settings: &[(u16, u32)]) -> Vec<u8> {
    let entries =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(SETTINGS, 0, 0, &entries.collect::<Vec<u8>>())
}

pub(crate) fn path(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        other => panic!("{other} are not served"),
    }
}

/// The headers of a well-formed call.
pub(crate) fn fields(signal: Signal) -> Fields {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path(signal)),
        (":authority", "shop.example"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// The headers of a well-formed call, with one more field, or with another value of a field.
pub(crate) fn fields_with(signal: Signal, name: &str, value: &str) -> Fields {
    let mut fields = fields(signal);
    match fields.iter_mut().find(|(n, _)| n == name) {
        Some(field) => field.1 = value.to_owned(),
        None => fields.push((name.to_owned(), value.to_owned())),
    }
    fields
}

/// A message with its prefix.
pub(crate) fn packed(message: &[u8]) -> Vec<u8> {
    flagged(0, message)
}

pub(crate) fn flagged(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// Encodes every field as a literal.
pub(crate) fn block(fields: &Fields) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            push_length(text.len(), &mut block);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn push_length(length: usize, block: &mut Vec<u8>) {
    if length < 127 {
        return block.push(length as u8);
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push(rest as u8 | 128);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// Decodes header blocks of the receiver, which uses neither a dynamic table nor Huffman codes.
pub(crate) fn unblock(mut block: &[u8]) -> Fields {
    let mut fields = Vec::new();
    while let Some(first) = block.first().copied() {
        if first & 0x80 != 0 {
            let (name, value) = table(take_number(&mut block, 7));
            fields.push((name.to_owned(), value.to_owned()));
            continue;
        }
        if first & 0xe0 == 0x20 {
            assert_eq!(take_number(&mut block, 5), 0, "the size of a table");
            continue;
        }
        let name = match take_number(&mut block, 4) {
            0 => take_text(&mut block),
            index => table(index).0.to_owned(),
        };
        fields.push((name, take_text(&mut block)));
    }
    fields
}

fn take_text(block: &mut &[u8]) -> String {
    let length = take_number(block, 7);
    let (text, rest) = block.split_at(length);
    *block = rest;
    String::from_utf8(text.to_vec()).unwrap()
}

fn take_number(block: &mut &[u8], bits: u32) -> usize {
    let mask = (1 << bits) - 1;
    let mut number = usize::from(block[0]) & mask;
    *block = &block[1..];
    if number < mask {
        return number;
    }
    for shift in (0..).step_by(7) {
        let byte = usize::from(block[0]);
        *block = &block[1..];
        number += (byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    number
}

/// The part of the static table that answers use.
fn table(index: usize) -> (&'static str, &'static str) {
    match index {
        8 => (":status", "200"),
        9 => (":status", "204"),
        11 => (":status", "304"),
        12 => (":status", "400"),
        13 => (":status", "404"),
        14 => (":status", "500"),
        31 => ("content-type", ""),
        46 => ("location", ""),
        other => panic!("entry {other} of the static table"),
    }
}
