//! Scripts: what the server says, byte for byte, and what the client says to that.

mod answers;
mod farewells;
mod random;
mod sending;
mod settings;

use super::super::frame::{HEAD_BYTES, Head, flag};
use super::super::hpack::{Field, encode};
use super::*;

/// What the server says. Written from the RFC, and not by the code that is tested.
#[derive(Debug, Default)]
struct Script(Vec<u8>);

impl Script {
    /// A server that has said hello and asks for nothing.
    fn greeting() -> Self {
        Self::default().frame(kind::SETTINGS, 0, 0, &[])
    }

    fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        let [_, length @ ..] = u32::try_from(payload.len()).expect("a script is short").to_be_bytes();
        self.0.extend_from_slice(&length);
        self.0.extend_from_slice(&[kind, flags]);
        self.0.extend_from_slice(&stream.to_be_bytes());
        self.0.extend_from_slice(payload);
        self
    }

    fn settings(self, entries: &[(u16, u32)]) -> Self {
        let entry = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
        let payload: Vec<u8> = entries.iter().flat_map(entry).collect();
        self.frame(kind::SETTINGS, 0, 0, &payload)
    }

    fn headers(self, flags: u8, stream: u32, fields: &[(&str, &str)]) -> Self {
        self.frame(kind::HEADERS, flags | flag::END_HEADERS, stream, &block(fields))
    }

    fn data(self, flags: u8, stream: u32, content: &[u8]) -> Self {
        self.frame(kind::DATA, flags, stream, content)
    }

    fn window_update(self, stream: u32, increment: u32) -> Self {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }

    fn reset(self, stream: u32, code: Code) -> Self {
        self.frame(kind::RESET, 0, stream, &code.0.to_be_bytes())
    }

    fn go_away(self, last_stream: u32, code: Code, debug: &[u8]) -> Self {
        let payload = [&last_stream.to_be_bytes()[..], &code.0.to_be_bytes()[..], debug].concat();
        self.frame(kind::GO_AWAY, 0, 0, &payload)
    }

    /// Head, an empty message and trailers.
    fn answer(self, stream: u32) -> Self {
        self.headers(0, stream, &[(":status", "200")]).data(0, stream, &[0; 5]).headers(
            flag::END_STREAM,
            stream,
            &[("grpc-status", "0")],
        )
    }
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| encode(name, value.as_bytes(), &mut block));
    block
}

fn fields(fields: &[(&str, &str)]) -> Vec<Field> {
    let field = |(name, value): &(&str, &str)| Field { name: (*name).into(), value: (*value).into() };
    fields.iter().map(field).collect()
}

/// What [`Script::answer`] says.
fn answered() -> End {
    End::Answered(Answer {
        status: 200,
        head: fields(&[(":status", "200")]),
        body: vec![0; 5],
        trailers: fields(&[("grpc-status", "0")]),
    })
}

/// A frame that the client has written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn said(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Said {
    Said { kind, flags, stream, payload: payload.to_vec() }
}

/// Takes what is to be written, frame by frame.
fn written(conn: &mut Conn) -> Vec<Said> {
    let output = conn.output().to_vec();
    conn.clear_output();
    let mut rest = output.strip_prefix(PREFACE).unwrap_or(&output);
    let mut frames = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let Head { length, kind, flags, stream } = Head::read(head);
        let (payload, after) = after.split_at(length);
        frames.push(said(kind, flags, stream, payload));
        rest = after;
    }
    assert!(rest.is_empty(), "{rest:?}");
    frames
}

/// The content of all DATA frames on a stream, and whether they ended it.
fn sent_on(frames: &[Said], stream: u32) -> (Vec<u8>, bool) {
    let data = frames.iter().filter(|frame| frame.kind == kind::DATA && frame.stream == stream);
    let ends = data.clone().any(|frame| frame.flags & flag::END_STREAM != 0);
    (data.flat_map(|frame| frame.payload.clone()).collect(), ends)
}

fn resets(frames: &[Said]) -> Vec<(u32, Vec<u8>)> {
    let resets = frames.iter().filter(|frame| frame.kind == kind::RESET);
    resets.map(|frame| (frame.stream, frame.payload.clone())).collect()
}

const BODY: &[u8] = b"a request";

/// A connection on which a call was begun, and all of it said.
fn calling() -> Conn {
    let mut conn = Conn::new();
    begin(&mut conn);
    conn
}

fn begin(conn: &mut Conn) {
    conn.start(&block(&[(":method", "POST")]), 100).expect("the head is short");
    assert_eq!(conn.send(&Message::new(&[BODY], false)), Progress::Waits);
    written(conn);
}

/// How a call ends to which the server says this.
fn end_of(script: Script) -> Option<End> {
    let mut conn = calling();
    conn.receive(&script.0).expect("the connection survives");
    conn.take_end()
}

fn code_of(outcome: Result<(), Fault>) -> Option<Code> {
    outcome.err().map(|fault| fault.code)
}

#[test]
fn a_connection_begins_with_the_preface_and_our_settings() {
    let mut conn = Conn::new();
    assert!(conn.output().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    let settings = [0, 1, 0, 0, 0x10, 0, 0, 2, 0, 0, 0, 0, 0, 6, 0, 0, 0x80, 0];
    assert_eq!(written(&mut conn), [said(kind::SETTINGS, 0, 0, &settings)]);
}

#[test]
fn a_call_is_headers_and_data_and_waits_for_nothing() {
    let mut conn = Conn::new();
    written(&mut conn);
    let head = block(&[(":method", "POST"), ("te", "trailers")]);
    conn.start(&head, 100).unwrap();
    assert_eq!(conn.send(&Message::new(&[BODY], true)), Progress::Waits);
    let with_size_update = [&[0x20][..], &head].concat();
    let message = [&[1, 0, 0, 0, 9][..], BODY].concat();
    let expected = [
        said(kind::HEADERS, flag::END_HEADERS, 1, &with_size_update),
        said(kind::DATA, flag::END_STREAM, 1, &message),
    ];
    assert_eq!(written(&mut conn), expected);
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    assert_eq!(written(&mut conn), [said(kind::SETTINGS, flag::ACK, 0, &[])]);
    assert_eq!(conn.take_end(), Some(answered()));
}

#[test]
fn an_end_is_given_once() {
    let mut conn = calling();
    assert_eq!(conn.take_end(), None);
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    assert_eq!(conn.take_end(), None);
    assert_eq!(conn.send(&Message::new(&[BODY], false)), Progress::Waits, "there is nothing to send it for");
    assert_eq!(written(&mut conn), [said(kind::SETTINGS, flag::ACK, 0, &[])]);
}

#[test]
fn calls_follow_each_other_on_odd_streams_until_there_are_none() {
    let mut conn = calling();
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    begin(&mut conn);
    conn.receive(&Script::default().answer(3).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    // two thousand million calls later
    conn.next_stream = LARGEST_STREAM;
    assert!(conn.is_open() && conn.may_start());
    begin(&mut conn);
    conn.receive(&Script::default().answer(LARGEST_STREAM).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    assert!(!conn.is_open() && !conn.may_start(), "there is no further number");
}

#[test]
fn something_else_that_listens_there_is_named() {
    for (words, named) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "the peer speaks HTTP/1: is this the HTTP port, 4318?"),
        (&[0x15, 0x03, 0x01, 0, 2, 2, 10], "the peer speaks TLS: write https:// in the endpoint"),
        (b"220 mail.example ESMTP\r\n", "the peer speaks something else"),
        (&[255, 0, 0, 4, 0, 0, 0, 0, 0], "a frame that is too long"),
        (&[0, 0, 0, 4, 1, 0, 0, 0, 0], "a first frame that is no settings"),
        (&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], "a first frame that is no settings"),
    ] {
        let fault = calling().receive(words).unwrap_err();
        assert_eq!(fault.what, named);
        // one byte at a time it is the same
        let mut conn = calling();
        let told = words.iter().find_map(|byte| conn.receive(&[*byte]).err());
        assert_eq!(told, Some(fault));
        assert!(!conn.is_open());
    }
}

#[test]
fn after_a_fault_the_peer_is_told_and_the_connection_is_over() {
    let mut conn = calling();
    let outcome = conn.receive(&Script::greeting().frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]).0);
    assert_eq!(code_of(outcome), Some(Code::PROTOCOL));
    assert!(!conn.is_open() && !conn.may_start());
    let goodbye = said(kind::GO_AWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(written(&mut conn).last(), Some(&goodbye));
}

#[test]
fn streams_that_we_never_opened_cannot_be_spoken_on() {
    for stream in [2, 3, LARGEST_STREAM] {
        for script in [
            Script::greeting().data(0, stream, b"x"),
            Script::greeting().headers(0, stream, &[(":status", "200")]),
            Script::greeting().reset(stream, Code::CANCEL),
            Script::greeting().window_update(stream, 1),
        ] {
            assert_eq!(code_of(calling().receive(&script.0)), Some(Code::PROTOCOL), "stream {stream}");
        }
    }
}
