//! Scripted connections: the bytes of the server, and the reaction of the client.

use super::super::frame::{HEAD_BYTES, Head, flag};
use super::super::hpack::{Field, encode};
use super::*;

/// Frames of the server. Only their header blocks are encoded by the code under test.
#[derive(Debug, Default)]
struct Script(Vec<u8>);

impl Script {
    /// Returns the script of a server that sends empty SETTINGS.
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

    /// Appends headers, an empty message and trailers.
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

/// Returns the response of [`Script::answer`].
fn answered() -> End {
    End::Responded(Response {
        status: 200,
        head: fields(&[(":status", "200")]),
        body: vec![0; 5],
        trailers: fields(&[("grpc-status", "0")]),
    })
}

/// A frame that the client has written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WrittenFrame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn written_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> WrittenFrame {
    WrittenFrame { kind, flags, stream, payload: payload.to_vec() }
}

/// Takes the output, frame by frame.
fn written(conn: &mut ClientConnection) -> Vec<WrittenFrame> {
    let output = conn.output().to_vec();
    conn.clear_output();
    let mut rest = output.strip_prefix(PREFACE).unwrap_or(&output);
    let mut frames = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let Head { length, kind, flags, stream } = Head::read(head);
        let (payload, after) = after.split_at(length);
        frames.push(written_frame(kind, flags, stream, payload));
        rest = after;
    }
    assert!(rest.is_empty(), "{rest:?}");
    frames
}

/// Returns the content of all DATA frames on a stream, and whether they ended the stream.
fn sent_on(frames: &[WrittenFrame], stream: u32) -> (Vec<u8>, bool) {
    let data = frames.iter().filter(|frame| frame.kind == kind::DATA && frame.stream == stream);
    let ends = data.clone().any(|frame| frame.flags & flag::END_STREAM != 0);
    (data.flat_map(|frame| frame.payload.clone()).collect(), ends)
}

fn resets(frames: &[WrittenFrame]) -> Vec<(u32, Vec<u8>)> {
    let resets = frames.iter().filter(|frame| frame.kind == kind::RESET);
    resets.map(|frame| (frame.stream, frame.payload.clone())).collect()
}

const BODY: &[u8] = b"a request";

/// Returns a connection with a call whose request is sent.
fn calling() -> ClientConnection {
    let mut conn = ClientConnection::new();
    begin(&mut conn);
    conn
}

fn begin(conn: &mut ClientConnection) {
    conn.start(&block(&[(":method", "POST")]), 100).expect("the head is short");
    assert_eq!(conn.send(&Message::new(&[BODY], false)), Progress::Waits);
    written(conn);
}

/// Returns the end of a call after this script.
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
    let mut conn = ClientConnection::new();
    assert!(conn.output().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    let settings = [0, 1, 0, 0, 0x10, 0, 0, 2, 0, 0, 0, 0, 0, 6, 0, 0, 0x80, 0];
    assert_eq!(written(&mut conn), [written_frame(kind::SETTINGS, 0, 0, &settings)]);
}

#[test]
fn a_call_is_headers_and_data_and_waits_for_nothing() {
    let mut conn = ClientConnection::new();
    written(&mut conn);
    let head = block(&[(":method", "POST"), ("te", "trailers")]);
    conn.start(&head, 100).unwrap();
    assert_eq!(conn.send(&Message::new(&[BODY], true)), Progress::Waits);
    let with_size_update = [&[0x20][..], &head].concat();
    let message = [&[1, 0, 0, 0, 9][..], BODY].concat();
    let expected = [
        written_frame(kind::HEADERS, flag::END_HEADERS, 1, &with_size_update),
        written_frame(kind::DATA, flag::END_STREAM, 1, &message),
    ];
    assert_eq!(written(&mut conn), expected);
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    assert_eq!(written(&mut conn), [written_frame(kind::SETTINGS, flag::ACK, 0, &[])]);
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
    assert_eq!(written(&mut conn), [written_frame(kind::SETTINGS, flag::ACK, 0, &[])]);
}

#[test]
fn calls_follow_each_other_on_odd_streams_until_there_are_none() {
    let mut conn = calling();
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    begin(&mut conn);
    conn.receive(&Script::default().answer(3).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    // Skips to the last stream number, that of the client's 2^30th call.
    conn.next_stream = MAX_STREAM;
    assert!(conn.is_open() && conn.may_start());
    begin(&mut conn);
    conn.receive(&Script::default().answer(MAX_STREAM).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    assert!(!conn.is_open() && !conn.may_start(), "there is no further number");
}

#[test]
fn something_else_that_listens_there_is_named() {
    for (words, named) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "the peer speaks HTTP/1: is this the HTTP port, 4318?"),
        (&[0x15, 0x03, 0x01, 0, 2, 2, 10], "the peer speaks TLS: write https:// in the endpoint"),
        (b"220 mail.example ESMTP\r\n", "the peer speaks neither HTTP/2 nor HTTP/1: check the port"),
        (&[255, 0, 0, 4, 0, 0, 0, 0, 0], "a frame longer than 16 KiB"),
        (&[0, 0, 0, 4, 1, 0, 0, 0, 0], "the first frame is not SETTINGS"),
        (&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], "the first frame is not SETTINGS"),
    ] {
        let fault = calling().receive(words).unwrap_err();
        assert_eq!(fault.what, named);
        // The fault is the same if the bytes arrive one by one.
        let mut conn = calling();
        let reported = words.iter().find_map(|byte| conn.receive(&[*byte]).err());
        assert_eq!(reported, Some(fault));
        assert!(!conn.is_open());
    }
}

#[test]
fn after_a_fault_the_peer_gets_a_goaway_and_the_connection_is_over() {
    let mut conn = calling();
    let outcome = conn.receive(&Script::greeting().frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]).0);
    assert_eq!(code_of(outcome), Some(Code::PROTOCOL));
    assert!(!conn.is_open() && !conn.may_start());
    let goodbye = written_frame(kind::GO_AWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(written(&mut conn).last(), Some(&goodbye));
}

#[test]
fn streams_that_we_never_opened_cannot_be_spoken_on() {
    for stream in [2, 3, MAX_STREAM] {
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

mod answers {
    //! Responses to a call, valid or not.

    use super::*;

    #[test]
    fn trailers_may_be_all_there_is() {
        let only = [(":status", "200"), ("grpc-status", "14")];
        let end = end_of(Script::greeting().headers(flag::END_STREAM, 1, &only));
        let answer = Response { status: 200, head: fields(&only), ..Response::default() };
        assert_eq!(end, Some(End::Responded(answer)));
    }

    #[test]
    fn data_may_end_the_answer() {
        let script =
            Script::greeting().headers(0, 1, &[(":status", "503")]).data(flag::END_STREAM, 1, b"busy");
        let answer = Response {
            status: 503,
            head: fields(&[(":status", "503")]),
            body: b"busy".to_vec(),
            ..Response::default()
        };
        assert_eq!(end_of(script), Some(End::Responded(answer)));
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let script =
            Script::greeting().headers(0, 1, &[(":status", "100")]).headers(0, 1, &[(":status", "199")]);
        assert_eq!(end_of(script.answer(1)), Some(answered()));
    }

    #[test]
    fn a_block_may_come_in_pieces_and_padded() {
        let head = block(&[(":status", "200")]);
        let padded = [&[3][..], &head, &[0; 3]].concat();
        let script = Script::greeting()
            .frame(kind::HEADERS, flag::PADDED, 1, &padded)
            .frame(kind::CONTINUATION, 0, 1, &[])
            .frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[])
            .frame(kind::DATA, flag::PADDED, 1, &[2, 0, 0, 0, 0, 0, 9, 9])
            .headers(flag::END_STREAM, 1, &[("grpc-status", "0")]);
        assert_eq!(end_of(script), Some(answered()));
    }

    #[test]
    fn an_answer_that_breaks_a_rule_ends_the_call_and_not_the_connection() {
        for script in [
            Script::greeting().data(0, 1, b"x"),
            Script::greeting().headers(0, 1, &[("grpc-status", "0")]),
            Script::greeting().headers(0, 1, &[(":status", "99")]),
            Script::greeting().headers(0, 1, &[(":status", "2000")]),
            Script::greeting().headers(0, 1, &[(":status", "+20")]),
            Script::greeting().headers(0, 1, &[(":status", "600")]),
            Script::greeting().headers(flag::END_STREAM, 1, &[(":status", "100")]),
            Script::greeting().headers(0, 1, &[(":status", "200")]).headers(0, 1, &[(":status", "200")]),
        ] {
            let mut conn = calling();
            conn.receive(&script.0).unwrap();
            assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, 1])], "the stream is reset");
            // Later frames on the stream are ignored.
            conn.receive(
                &Script::default().data(0, 1, b"x").headers(flag::END_STREAM, 1, &[(":status", "200")]).0,
            )
            .unwrap();
            assert!(matches!(conn.take_end(), Some(End::Malformed(_))));
            assert_eq!(resets(&written(&mut conn)), [], "once");
            begin(&mut conn);
            conn.receive(&Script::default().answer(3).0).unwrap();
            assert_eq!(conn.take_end(), Some(answered()));
        }
    }

    #[test]
    fn header_blocks_have_their_turn() {
        let head = block(&[(":status", "200")]);
        let begun = || Script::greeting().frame(kind::HEADERS, 0, 1, &head);
        for script in [
            begun().data(0, 1, b"x"),
            begun().settings(&[]),
            begun().frame(kind::PING, 0, 0, &[0; 8]),
            begun().frame(kind::HEADERS, 0, 1, &head),
            begun().frame(0x42, 0, 0, &[]),
            begun().frame(kind::CONTINUATION, 0, 3, &head),
            Script::greeting().frame(kind::CONTINUATION, flag::END_HEADERS, 1, &head),
            Script::greeting().headers(0, 1, &[(":status", "200")]).frame(
                kind::CONTINUATION,
                flag::END_HEADERS,
                1,
                &[],
            ),
        ] {
            assert_eq!(code_of(calling().receive(&script.0)), Some(Code::PROTOCOL));
        }
    }

    #[test]
    fn a_block_that_cannot_be_decoded_ends_the_connection() {
        let mut conn = calling();
        let outcome = conn.receive(&Script::greeting().frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x80]).0);
        assert_eq!(code_of(outcome), Some(Code::COMPRESSION));
    }

    #[test]
    fn late_headers_are_decoded_for_the_tables_sake() {
        // Encodes a literal that gets index 62 in the table.
        let indexing = |name: &str, value: &str| {
            let mut block = vec![0x40, name.len() as u8];
            block.extend_from_slice(name.as_bytes());
            block.push(value.len() as u8);
            block.extend_from_slice(value.as_bytes());
            block
        };
        let mut conn = calling();
        conn.receive(&Script::greeting().reset(1, Code::CANCEL).0).unwrap();
        assert_eq!(conn.take_end(), Some(End::Reset(Code::CANCEL)));
        let late = Script::default().frame(kind::HEADERS, flag::END_HEADERS, 1, &indexing("x-late", "words"));
        conn.receive(&late.0).unwrap();
        begin(&mut conn);
        let head = [&block(&[(":status", "200")])[..], &[0x80 | 62]].concat();
        conn.receive(
            &Script::default().frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &head).0,
        )
        .unwrap();
        let Some(End::Responded(answer)) = conn.take_end() else { panic!("no answer") };
        assert_eq!(answer.head, fields(&[(":status", "200"), ("x-late", "words")]));
    }

    #[test]
    fn a_head_that_is_too_long_ends_the_call_and_not_the_connection() {
        // One entry of 4,000 bytes, referenced a thousand times.
        let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
        bomb.extend_from_slice(&[b'x'; 4_000]);
        bomb.extend_from_slice(&[0x80 | 62; 1_000]);
        let mut conn = calling();
        conn.receive(&Script::greeting().frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb).0).unwrap();
        assert!(matches!(conn.take_end(), Some(End::Malformed(_))));
        assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, 8])]);
        begin(&mut conn);
        conn.receive(&Script::default().answer(3).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
    }

    #[test]
    fn of_a_long_answer_the_beginning_is_kept_and_the_rest_skipped() {
        let mut conn = calling();
        conn.receive(&Script::greeting().headers(0, 1, &[(":status", "200")]).0).unwrap();
        let piece = Script::default().data(0, 1, &[7; 16_000]).0;
        for _ in 0..100 {
            conn.receive(&piece).unwrap();
        }
        conn.receive(&Script::default().headers(flag::END_STREAM, 1, &[("grpc-status", "0")]).0).unwrap();
        let Some(End::Responded(answer)) = conn.take_end() else { panic!("no answer") };
        assert_eq!(answer.body.len(), 64 << 10);
        assert_eq!(answer.trailers, fields(&[("grpc-status", "0")]));
    }

    #[test]
    fn an_answer_beyond_4_mib_is_broken_off() {
        let mut conn = calling();
        conn.receive(&Script::greeting().headers(0, 1, &[(":status", "200")]).0).unwrap();
        let piece = Script::default().data(0, 1, &[7; 16_384]).0;
        for _ in 0..256 {
            conn.receive(&piece).unwrap();
            assert_eq!(conn.take_end(), None);
        }
        written(&mut conn);
        conn.receive(&piece).unwrap();
        assert!(matches!(conn.take_end(), Some(End::Malformed(_))));
        assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, 8])]);
    }

    #[test]
    fn every_byte_of_data_is_given_back_padding_and_late_data_too() {
        let mut conn = calling();
        conn.receive(&Script::greeting().headers(0, 1, &[(":status", "200")]).0).unwrap();
        let (mut received, mut given) = (0, 0);
        let padded = [&[200][..], &[0; 300]].concat();
        for round in 0..2_000 {
            if round == 1_000 {
                conn.receive(&Script::default().reset(1, Code::CANCEL).0).unwrap();
                assert!(conn.take_end().is_some());
            }
            conn.receive(&Script::default().frame(kind::DATA, flag::PADDED, 1, &padded).0).unwrap();
            received += padded.len();
            for frame in written(&mut conn) {
                if (frame.kind, frame.stream) == (kind::WINDOW_UPDATE, 0) {
                    given += frame.payload.iter().fold(0, |given, byte| given << 8 | usize::from(*byte));
                }
            }
            assert!(received - given < 32_768, "round {round}: {received} came, {given} were given back");
        }
    }
}

mod farewells {
    //! GOAWAY and reset calls.

    use super::*;

    #[test]
    fn a_farewell_that_spares_the_call_lets_it_finish_and_no_other_begin() {
        for last_stream in [1, MAX_STREAM] {
            let mut conn = calling();
            conn.receive(&Script::greeting().go_away(last_stream, Code::NO_ERROR, b"").0).unwrap();
            assert!(!conn.is_open() && !conn.may_start() && !conn.goes_away_in_error());
            assert_eq!(conn.take_end(), None);
            conn.receive(&Script::default().answer(1).0).unwrap();
            assert_eq!(conn.take_end(), Some(answered()));
        }
    }

    #[test]
    fn a_call_that_a_farewell_leaves_out_can_be_made_elsewhere() {
        let mut conn = calling();
        conn.receive(&Script::greeting().go_away(0, Code::NO_ERROR, b"").0).unwrap();
        assert_eq!(conn.take_end(), Some(End::Unprocessed));
        assert_eq!(resets(&written(&mut conn)), []);
    }

    #[test]
    fn a_second_farewell_can_leave_out_what_the_first_did_not() {
        let mut conn = calling();
        conn.receive(&Script::greeting().go_away(MAX_STREAM, Code::NO_ERROR, b"").0).unwrap();
        conn.receive(&Script::default().go_away(0, Code::NO_ERROR, b"").0).unwrap();
        assert_eq!(conn.take_end(), Some(End::Unprocessed));
    }

    #[test]
    fn a_farewell_because_of_an_error_forsakes_the_call() {
        let mut conn = calling();
        conn.receive(&Script::greeting().go_away(1, Code::ENHANCE_YOUR_CALM, b"too_many_pings").0).unwrap();
        assert!(conn.goes_away_in_error());
        assert_eq!(conn.take_end(), None, "an answer may still come");
        let go_away = conn.go_away().unwrap();
        assert_eq!((go_away.code, go_away.text.as_str()), (Code::ENHANCE_YOUR_CALM, "too_many_pings"));
    }

    #[test]
    fn of_what_a_server_says_when_it_leaves_only_the_beginning_is_kept() {
        let mut conn = calling();
        let text = "ä".repeat(5_000);
        conn.receive(&Script::greeting().go_away(1, Code::NO_ERROR, text.as_bytes()).0).unwrap();
        assert_eq!(conn.go_away().unwrap().text, "ä".repeat(100));
    }

    #[test]
    fn an_answer_is_an_answer_though_a_farewell_follows_it() {
        let go_away = || Script::default().go_away(0, Code::NO_ERROR, b"");
        let mut conn = calling();
        conn.receive(&Script::greeting().answer(1).0).unwrap();
        conn.receive(&go_away().0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        let mut conn = calling();
        conn.receive(&[Script::greeting().answer(1).0, go_away().0].concat()).unwrap();
        assert_eq!(conn.take_end(), Some(answered()), "however they are split");
    }

    #[test]
    fn an_answer_is_an_answer_though_a_fault_follows_it() {
        let mut conn = calling();
        let outcome = conn.receive(&Script::greeting().answer(1).frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]).0);
        assert_eq!(code_of(outcome), Some(Code::PROTOCOL));
        assert_eq!(conn.take_end(), Some(answered()));
        assert!(!conn.is_open());
    }

    #[test]
    fn the_window_of_a_call_that_has_ended_cannot_overflow() {
        let mut conn = calling();
        let script =
            Script::greeting().window_update(1, MAX_STREAM - 65_535).answer(1).settings(&[(4, 70_000)]);
        assert_eq!(conn.receive(&script.0), Ok(()));
        assert_eq!(conn.take_end(), Some(answered()));
    }

    #[test]
    fn a_reset_ends_the_call_and_not_the_connection() {
        for (code, end) in [
            (Code::REFUSED_STREAM, End::Unprocessed),
            (Code::CANCEL, End::Reset(Code::CANCEL)),
            (Code::NO_ERROR, End::Reset(Code::NO_ERROR)),
            (Code(77), End::Reset(Code(77))),
        ] {
            let mut conn = calling();
            conn.receive(&Script::greeting().reset(1, code).0).unwrap();
            assert_eq!(conn.take_end(), Some(end));
            assert_eq!(resets(&written(&mut conn)), [], "a reset is not answered by one");
            assert!(conn.may_start());
        }
    }

    #[test]
    fn a_reset_after_the_answer_is_no_news() {
        let mut conn = calling();
        conn.receive(&Script::greeting().answer(1).reset(1, Code::NO_ERROR).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        conn.receive(&Script::default().reset(1, Code::CANCEL).0).unwrap();
        assert_eq!(conn.take_end(), None);
        assert!(conn.is_open());
    }

    #[test]
    fn an_answer_has_begun_with_its_head() {
        let mut conn = calling();
        conn.receive(&Script::greeting().headers(0, 1, &[(":status", "100")]).0).unwrap();
        assert!(!conn.has_answer_begun());
        conn.receive(&Script::default().headers(0, 1, &[(":status", "200")]).0).unwrap();
        assert!(conn.has_answer_begun());
    }
}

mod random {
    //! Property tests with random frames, bytes, pieces and windows.

    use proptest::prelude::*;

    use super::*;

    /// Generates frames, most of which are valid or nearly valid.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![0u32..4, Just(65_535), Just(MAX_STREAM), any::<u32>()];
        let stream = prop_oneof![4 => Just(1u32), 1 => 0u32..4];
        let status = prop_oneof![Just("200"), Just("100"), Just("x")];
        prop_oneof![
            (stream.clone(), any::<bool>(), status).prop_map(|(stream, ends, status)| {
                let flags = if ends { flag::END_STREAM } else { 0 };
                Script::default().headers(flags, stream, &[(":status", status)])
            }),
            (stream.clone(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..30))
                .prop_map(|(stream, flags, content)| Script::default().data(flags & 9, stream, &content)),
            (1u16..8, number.clone()).prop_map(|entry| Script::default().settings(&[entry])),
            (stream.clone(), number.clone())
                .prop_map(|(stream, increment)| Script::default().window_update(stream, increment)),
            (stream.clone(), 0u32..15).prop_map(|(stream, code)| Script::default().reset(stream, Code(code))),
            (stream.clone(), 0u32..15).prop_map(|(last, code)| Script::default().go_away(
                last,
                Code(code),
                b"bye"
            )),
            (0u8..12, any::<u8>(), stream, prop::collection::vec(any::<u8>(), 0..10)).prop_map(
                |(kind, flags, stream, payload)| Script::default().frame(kind, flags, stream, &payload)
            ),
        ]
        .prop_map(|script| script.0)
    }

    /// The end of the call, the fault, the output, and the results of `is_open` and `goes_away_in_error`.
    type Outcome = (Option<End>, Option<Fault>, Vec<u8>, bool, bool);

    fn outcome_of<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
        let mut conn = calling();
        let (mut end, mut fault) = (None, None);
        for piece in pieces {
            fault = conn.receive(piece).err();
            end = end.or(conn.take_end());
            if fault.is_some() {
                break;
            }
        }
        let said = conn.output().to_vec();
        (end, fault, said, conn.is_open(), conn.goes_away_in_error())
    }

    proptest! {
        #[test]
        fn however_bytes_are_split_the_outcome_is_the_same(
            frames in prop::collection::vec(frame(), 0..20),
            cuts in prop::collection::vec(1usize..40, 1..50),
        ) {
            let bytes = [Script::greeting().0, frames.concat()].concat();
            let whole = outcome_of([bytes.as_slice()].into_iter());
            prop_assert_eq!(&outcome_of(bytes.chunks(1)), &whole);
            let mut rest = bytes.as_slice();
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                pieces.push(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(&outcome_of(pieces.into_iter()), &whole);
        }

        #[test]
        fn any_bytes_are_taken_in_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), greets: bool) {
            let greeting = if greets { Script::greeting().0 } else { Vec::new() };
            outcome_of([greeting.as_slice(), &bytes].into_iter());
        }

        #[test]
        fn a_message_goes_out_whole_within_whatever_windows(
            body in prop::collection::vec(any::<u8>(), 0..200),
            is_compressed: bool,
            window in 0u32..30,
            steps in prop::collection::vec((any::<bool>(), 1u32..40), 400),
        ) {
            let pieces: Vec<_> = body.chunks(30).collect();
            let message = Message::new(&pieces, is_compressed);
            let mut conn = ClientConnection::new();
            conn.receive(&Script::greeting().settings(&[(4, window)]).0).expect("it is a greeting");
            conn.start(&[], 0).expect("the head is short");
            let mut frames = Vec::new();
            let (mut initial, mut room) = (i64::from(window), i64::from(window));
            for (changes_settings, bytes) in steps {
                conn.send(&message);
                let now = written(&mut conn);
                let sent = sent_on(&now, 1).0.len() as i64;
                prop_assert!(sent <= room.max(0), "{} bytes went into a window of {}", sent, room);
                room -= sent;
                frames.extend(now);
                if changes_settings {
                    conn.receive(&Script::default().settings(&[(4, bytes)]).0).expect("it is in range");
                    room += i64::from(bytes) - initial;
                    initial = i64::from(bytes);
                } else {
                    conn.receive(&Script::default().window_update(1, bytes).0).expect("it is in range");
                    room += i64::from(bytes);
                }
            }
            let whole = [&[u8::from(is_compressed)][..], &(body.len() as u32).to_be_bytes(), &body].concat();
            prop_assert_eq!(sent_on(&frames, 1), (whole, true));
        }
    }
}

mod sending {
    //! Flow control: a message is sent completely, whatever the sizes of the windows.

    use super::*;
    use crate::tests::size_within;

    /// Sends a message to a server with a small window that returns credit `step` bytes at a time. Returns the sent
    /// bytes.
    fn sent_within(initial_window: u32, step: u32) -> Vec<WrittenFrame> {
        let mut conn = calling();
        conn.receive(&Script::greeting().settings(&[(4, initial_window)]).answer(1).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        conn.start(&[], 0).unwrap();
        written(&mut conn);
        let message = Message::new(&[BODY], false);
        let mut frames = Vec::new();
        while !sent_on(&frames, 3).1 {
            let before = frames.len();
            assert_eq!(conn.send(&message), Progress::Waits);
            frames.extend(written(&mut conn));
            assert!(frames.len() > before || step > 0, "it stalls");
            conn.receive(&Script::default().window_update(3, step).0).unwrap();
        }
        frames
    }

    #[test]
    fn a_small_window_splits_even_the_prefix_and_nothing_is_lost() {
        let whole = [&[0, 0, 0, 0, 9][..], BODY].concat();
        for window in 1..=6 {
            for step in 1..=6 {
                let frames = sent_within(window, step);
                assert_eq!(sent_on(&frames, 3), (whole.clone(), true), "window {window}, step {step}");
                assert_eq!(frames[0].payload.len(), window as usize);
                let longest = frames[1..].iter().map(|frame| frame.payload.len()).max();
                assert!(longest <= Some(step as usize), "window {window}, step {step}: {longest:?}");
                let ends = frames.iter().filter(|frame| frame.flags & flag::END_STREAM != 0).count();
                assert_eq!(ends, 1, "window {window}, step {step}");
            }
        }
    }

    #[test]
    fn the_window_of_the_connection_counts_over_all_calls() {
        let body = vec![7; 60_000];
        let pieces = [&body[..]];
        let message = Message::new(&pieces, false);
        let mut conn = ClientConnection::new();
        conn.start(&[], 0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        conn.receive(&Script::greeting().answer(1).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        written(&mut conn);
        conn.start(&[], 0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        // The rest of the connection's window: 65,535 - 60,005.
        assert_eq!(sent_on(&written(&mut conn), 3).0.len(), 5_530);
        conn.receive(&Script::default().window_update(0, 1).0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        assert_eq!(sent_on(&written(&mut conn), 3), (vec![7], false));
    }

    #[test]
    fn a_connection_that_gets_too_little_back_is_not_for_another_call() {
        let body = vec![7; 60_000];
        let mut conn = ClientConnection::new();
        conn.start(&[], 0).unwrap();
        assert_eq!(conn.send(&Message::new(&[&body], false)), Progress::Waits);
        assert!(!conn.has_room());
        conn.receive(&Script::greeting().window_update(0, 1_000).0).unwrap();
        assert!(!conn.has_room());
        conn.receive(&Script::default().window_update(0, 30_000).0).unwrap();
        assert!(conn.has_room());
    }

    #[test]
    fn a_window_that_settings_made_negative_has_to_be_filled_up_first() {
        let body = vec![7; 100_000];
        let pieces = [&body[..]];
        let message = Message::new(&pieces, false);
        let mut conn = ClientConnection::new();
        conn.start(&[], 0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        assert_eq!(sent_on(&written(&mut conn), 1).0.len(), 65_535);
        // These settings change the stream's window to -65,525.
        conn.receive(&Script::greeting().settings(&[(4, 10)]).window_update(0, 100_000).0).unwrap();
        for (increment, goes) in [(65_525, 0), (3, 3), (100, 100)] {
            conn.receive(&Script::default().window_update(1, increment).0).unwrap();
            conn.clear_output();
            assert_eq!(conn.send(&message), Progress::Waits);
            assert_eq!(sent_on(&written(&mut conn), 1).0.len(), goes);
        }
        conn.receive(&Script::default().settings(&[(4, 65_535)]).0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        assert_eq!(sent_on(&written(&mut conn), 1), (vec![7; 100_005 - 65_535 - 103], true));
    }

    #[test]
    fn frames_are_as_long_as_the_server_takes_them_now() {
        let body = vec![7; 60_000];
        let mut conn = ClientConnection::new();
        conn.start(&[], 0).unwrap();
        let pieces = [&body[..]];
        let message = Message::new(&pieces, false);
        assert_eq!(conn.send(&message), Progress::Waits);
        let lengths = |conn: &mut ClientConnection| -> Vec<usize> {
            let frames = written(conn).into_iter().filter(|frame| frame.kind == kind::DATA);
            frames.map(|frame| frame.payload.len()).collect()
        };
        assert_eq!(lengths(&mut conn), [16_384, 16_384, 16_384, 10_853]);
        let allowed = Script::greeting().settings(&[(5, 20_000)]).window_update(0, 60_000).answer(1);
        conn.receive(&allowed.0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        conn.start(&[], 0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        assert_eq!(lengths(&mut conn), [20_000, 20_000, 20_000, 5]);
    }

    #[test]
    fn however_much_the_server_takes_the_output_stays_small() {
        let body = vec![7; (size_within(3..=20) as usize) << 20];
        let pieces = [&body[..]];
        let message = Message::new(&pieces, false);
        let mut conn = ClientConnection::new();
        conn.start(&[], 0).unwrap();
        let generous = Script::greeting().settings(&[(4, MAX_STREAM), (5, (1 << 24) - 1)]);
        conn.receive(&generous.window_update(0, MAX_STREAM - 65_535).0).unwrap();
        let mut frames = Vec::new();
        loop {
            let progress = conn.send(&message);
            assert!(conn.output().len() <= 256 << 10, "{} bytes at once", conn.output().len());
            frames.extend(written(&mut conn));
            if progress == Progress::Waits {
                break;
            }
        }
        let (sent, is_ended) = sent_on(&frames, 1);
        assert_eq!((sent.len(), is_ended), (body.len() + 5, true));
    }

    #[test]
    fn nothing_more_is_sent_once_the_call_has_ended() {
        let body = vec![7; 100_000];
        let pieces = [&body[..]];
        let message = Message::new(&pieces, false);
        let refusal = [(":status", "200"), ("grpc-status", "8")];
        for (script, reported) in [
            (Script::greeting().headers(flag::END_STREAM, 1, &refusal), vec![(1, vec![0, 0, 0, 8])]),
            (Script::greeting().reset(1, Code::NO_ERROR), vec![]),
            (Script::greeting().go_away(0, Code::NO_ERROR, b""), vec![]),
        ] {
            let mut conn = ClientConnection::new();
            conn.start(&[], 0).unwrap();
            assert_eq!(conn.send(&message), Progress::Waits);
            written(&mut conn);
            conn.receive(&script.window_update(0, 100_000).window_update(1, 100_000).0).unwrap();
            assert_eq!(conn.send(&message), Progress::Waits);
            let frames = written(&mut conn);
            assert_eq!(sent_on(&frames, 1), (vec![], false));
            assert_eq!(resets(&frames), reported, "the stream is reset unless the server ended it");
            assert!(conn.take_end().is_some());
        }
    }

    #[test]
    fn windows_that_are_too_large_end_what_they_belong_to() {
        let overflow = Script::greeting().window_update(0, MAX_STREAM);
        assert_eq!(code_of(calling().receive(&overflow.0)), Some(Code::FLOW_CONTROL));
        let nothing = Script::greeting().window_update(0, 0);
        assert_eq!(code_of(calling().receive(&nothing.0)), Some(Code::PROTOCOL));
        let by_settings = Script::greeting().window_update(1, MAX_STREAM - 65_535).settings(&[(4, 70_000)]);
        let mut conn = ClientConnection::new();
        conn.start(&[], 0).unwrap();
        assert_eq!(code_of(conn.receive(&by_settings.0)), Some(Code::FLOW_CONTROL));

        for (increment, code) in [(MAX_STREAM, 3), (0, 1)] {
            let mut conn = calling();
            conn.receive(&Script::greeting().window_update(1, increment).0).unwrap();
            assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, code])]);
            assert!(matches!(conn.take_end(), Some(End::Malformed(_))));
            assert!(conn.is_open(), "only the call has ended");
        }
    }
}

mod settings {
    //! The client obeys and acknowledges the server's settings, answers pings, and ends a flood.

    use super::*;

    #[test]
    fn each_settings_frame_is_acknowledged() {
        let mut conn = calling();
        conn.receive(&Script::greeting().settings(&[(3, 5), (0x99, 7)]).0).unwrap();
        let ack = written_frame(kind::SETTINGS, flag::ACK, 0, &[]);
        assert_eq!(written(&mut conn), [ack.clone(), ack]);
    }

    #[test]
    fn a_block_begins_with_a_size_update_first_and_after_each_change_of_the_table() {
        let head = block(&[(":method", "POST")]);
        let mut conn = ClientConnection::new();
        let mut first_bytes = Vec::new();
        for (stream, script) in [
            (1, Script::greeting()),
            (3, Script::default()),
            (5, Script::default().settings(&[(1, 0), (1, 4096)])),
            (7, Script::default().settings(&[(3, 100)])),
            (9, Script::default()),
        ] {
            conn.clear_output();
            conn.start(&head, 0).unwrap();
            first_bytes.push(written(&mut conn)[0].payload[0]);
            assert_eq!(conn.send(&Message::new(&[BODY], false)), Progress::Waits);
            conn.receive(&script.answer(stream).0).unwrap();
            assert_eq!(conn.take_end(), Some(answered()), "stream {stream}");
        }
        let plain = head[0];
        assert_eq!(first_bytes, [0x20, plain, plain, 0x20, plain]);
    }

    #[test]
    fn a_long_head_goes_on_in_frames_of_the_servers_length() {
        let head = block(&[("x", &"long".repeat(10_000))]);
        let mut conn = ClientConnection::new();
        written(&mut conn);
        conn.start(&head, 0).unwrap();
        let frames = written(&mut conn);
        let kinds: Vec<_> =
            frames.iter().map(|frame| (frame.kind, frame.flags, frame.payload.len())).collect();
        let rest = head.len() + 1 - 2 * 16_384;
        let expected = [
            (kind::HEADERS, 0, 16_384),
            (kind::CONTINUATION, 0, 16_384),
            (kind::CONTINUATION, flag::END_HEADERS, rest),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_head_longer_than_the_server_takes_is_not_sent() {
        let mut conn = calling();
        conn.receive(&Script::greeting().settings(&[(6, 99)]).answer(1).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        written(&mut conn);
        assert_eq!(conn.start(&[], 100), Err(99));
        assert_eq!(written(&mut conn), []);
        assert!(conn.is_open());
        assert_eq!(conn.start(&[], 99), Ok(()));
    }

    #[test]
    fn a_server_that_takes_no_calls_is_waited_for() {
        let mut conn = ClientConnection::new();
        assert!(conn.may_start(), "its settings need not be waited for");
        conn.receive(&Script::greeting().settings(&[(3, 0)]).0).unwrap();
        assert!(conn.is_open() && !conn.may_start());
        conn.receive(&Script::default().settings(&[(3, 1)]).0).unwrap();
        assert!(conn.may_start());
    }

    #[test]
    fn settings_that_are_wrong_end_the_connection() {
        for (entry, code) in [
            ((2, 1), Code::PROTOCOL),
            ((2, 2), Code::PROTOCOL),
            ((4, 1 << 31), Code::FLOW_CONTROL),
            ((5, 1), Code::PROTOCOL),
        ] {
            let outcome = calling().receive(&Script::greeting().settings(&[entry]).0);
            assert_eq!(code_of(outcome), Some(code), "{entry:?}");
        }
    }

    #[test]
    fn pings_are_answered_and_answers_to_none_passed_over() {
        let mut conn = calling();
        let pings =
            Script::greeting().frame(kind::PING, flag::ACK, 0, &[9; 8]).frame(kind::PING, 0, 0, b"standing");
        conn.receive(&pings.0).unwrap();
        let ack = written_frame(kind::SETTINGS, flag::ACK, 0, &[]);
        assert_eq!(written(&mut conn), [ack, written_frame(kind::PING, flag::ACK, 0, b"standing")]);
    }

    #[test]
    fn a_flood_of_frames_that_say_nothing_ends_the_connection() {
        for (kind, stream, payload) in [
            (kind::PING, 0, &[0; 8][..]),
            (kind::SETTINGS, 0, &[]),
            (kind::PRIORITY, 1, &[0; 5]),
            (kind::DATA, 1, &[]),
            (0x42, 0, &[]),
        ] {
            // The server's first SETTINGS count as a frame without effect.
            let mut conn = calling();
            conn.receive(&Script::greeting().0).unwrap();
            let one = Script::default().frame(kind, 0, stream, payload).0;
            // DATA needs HEADERS first.
            conn.receive(&Script::default().headers(0, 1, &[(":status", "200")]).0).unwrap();
            for number in 2..=MAX_NOISE {
                assert_eq!(conn.receive(&one), Ok(()), "kind {kind}, frame {number}");
                conn.clear_output();
            }
            assert_eq!(code_of(conn.receive(&one)), Some(Code::ENHANCE_YOUR_CALM), "kind {kind}");
        }
    }

    #[test]
    fn window_updates_are_no_flood_and_each_call_begins_to_count_anew() {
        let mut conn = calling();
        conn.receive(&Script::greeting().0).unwrap();
        let update = Script::default().window_update(1, 1).window_update(0, 1).0;
        for _ in 0..2 * MAX_NOISE {
            conn.receive(&update).unwrap();
        }
        let ping = Script::default().frame(kind::PING, 0, 0, &[0; 8]).0;
        for stream in [1, 3, 5] {
            for _ in 0..MAX_NOISE / 2 {
                conn.receive(&ping).unwrap();
            }
            conn.clear_output();
            conn.receive(&Script::default().answer(stream).0).unwrap();
            assert_eq!(conn.take_end(), Some(answered()));
            begin(&mut conn);
        }
    }
}
