use proptest::prelude::*;

use super::*;

const STREAM: u32 = 5;

/// Reads a frame with this head and payload.
fn read(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Frame<'_>, Fault> {
    Frame::read(Head { length: payload.len(), kind, flags, stream }, payload)
}

/// Returns heads and payloads of the written frames.
fn split(mut bytes: &[u8]) -> Vec<(Head, &[u8])> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = Head::read(head);
        let (payload, rest) = rest.split_at(head.length);
        frames.push((head, payload));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "less than a head is left: {bytes:?}");
    frames
}

fn read_setting(id: u16, value: u32) -> Result<(u16, u32), Fault> {
    let entry = [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
    let read = Settings(&entry).each().next();
    read.expect("there is one entry")
}

#[test]
fn a_head_is_nine_bytes_and_its_reserved_bit_means_nothing() {
    let bytes = [0x01, 0x02, 0x03, 0x09, 0x04, 0x80, 0x00, 0x00, 0x05];
    let head = Head { length: 0x01_02_03, kind: kind::CONTINUATION, flags: flag::END_HEADERS, stream: 5 };
    assert_eq!(Head::read(&bytes), head);
    assert_eq!(Head::read(&[0xff; HEAD_BYTES]).stream, MAX_STREAM);
}

#[test]
fn each_kind_of_frame_is_read() {
    let words = b"words";
    let goodbye = [&[0x80, 0, 0, 7, 0, 0, 0, 11][..], b"bye"].concat();
    for (kind, flags, stream, payload, expected) in [
        (
            kind::DATA,
            flag::END_STREAM,
            STREAM,
            &words[..],
            Frame::Data { stream: STREAM, content: words, flow: 5, ends_stream: true },
        ),
        (
            kind::DATA,
            0,
            STREAM,
            &[],
            Frame::Data { stream: STREAM, content: &[], flow: 0, ends_stream: false },
        ),
        (
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            STREAM,
            words,
            Frame::Headers { stream: STREAM, block: words, ends_stream: true, ends_block: true },
        ),
        (
            kind::CONTINUATION,
            flag::END_HEADERS,
            STREAM,
            words,
            Frame::Continuation { stream: STREAM, block: words, ends_block: true },
        ),
        (kind::PRIORITY, 0, STREAM, &[0; 5], Frame::Meaningless),
        (kind::RESET, 0, STREAM, &[0, 0, 0, 8], Frame::Reset { stream: STREAM, code: Code::CANCEL }),
        (kind::SETTINGS, 0, 0, &[], Frame::Settings(Settings(&[]))),
        (kind::SETTINGS, flag::ACK, 0, &[], Frame::SettingsAck),
        (kind::PING, 0, 0, &[1, 2, 3, 4, 5, 6, 7, 8], Frame::Ping([1, 2, 3, 4, 5, 6, 7, 8])),
        (kind::PING, flag::ACK, 0, &[0; 8], Frame::PingAck),
        (
            kind::GO_AWAY,
            0,
            0,
            &goodbye,
            Frame::GoAway { last_stream: 7, code: Code::ENHANCE_YOUR_CALM, debug: b"bye" },
        ),
        // The first bit of the increment is reserved, too.
        (
            kind::WINDOW_UPDATE,
            0,
            STREAM,
            &[0x80, 0, 0, 9],
            Frame::WindowUpdate { stream: STREAM, increment: 9 },
        ),
        (kind::WINDOW_UPDATE, 0, 0, &[0; 4], Frame::WindowUpdate { stream: 0, increment: 0 }),
        (kind::PUSH_PROMISE, 0, STREAM, words, Frame::PushPromise),
        (0x0a, 0xff, 0, words, Frame::Meaningless),
        (0xff, 0xff, STREAM, &[], Frame::Meaningless),
    ] {
        assert_eq!(read(kind, flags, stream, payload), Ok(expected), "kind {kind}");
    }
}

#[test]
fn flags_that_a_kind_does_not_have_mean_nothing() {
    assert_eq!(read(kind::RESET, 0xff, STREAM, &[0; 4]), read(kind::RESET, 0, STREAM, &[0; 4]));
    assert_eq!(read(kind::GO_AWAY, 0xff, 0, &[0; 8]), read(kind::GO_AWAY, 0, 0, &[0; 8]));
    assert_eq!(read(kind::PING, 0xfe, 0, &[0; 8]), Ok(Frame::Ping([0; 8])));
    assert_eq!(read(kind::SETTINGS, 0xfe, 0, &[]), Ok(Frame::Settings(Settings(&[]))));
    let continued = read(kind::CONTINUATION, 0xfb, STREAM, b"words");
    assert_eq!(continued, Ok(Frame::Continuation { stream: STREAM, block: b"words", ends_block: false }));
}

#[test]
fn each_wrong_length_is_a_fault_of_size() {
    for (kind, flags, stream, lengths) in [
        (kind::PRIORITY, 0, STREAM, &[0, 4, 6][..]),
        (kind::RESET, 0, STREAM, &[0, 3, 5]),
        (kind::SETTINGS, 0, 0, &[1, 5, 7, 11]),
        (kind::SETTINGS, flag::ACK, 0, &[1, 6]),
        (kind::PING, 0, 0, &[0, 7, 9]),
        (kind::PING, flag::ACK, 0, &[0, 7, 9]),
        (kind::GO_AWAY, 0, 0, &[0, 7]),
        (kind::WINDOW_UPDATE, 0, STREAM, &[0, 3, 5]),
        (kind::DATA, flag::PADDED, STREAM, &[0]),
        (kind::HEADERS, flag::PADDED, STREAM, &[0]),
        (kind::HEADERS, flag::PRIORITY, STREAM, &[0, 4]),
        // The padding length takes one of the five bytes.
        (kind::HEADERS, flag::PRIORITY | flag::PADDED, STREAM, &[5]),
    ] {
        for length in lengths {
            let payload = vec![0; *length];
            let code = read(kind, flags, stream, &payload).map_err(|fault| fault.code);
            assert_eq!(code, Err(Code::FRAME_SIZE), "kind {kind}, flags {flags}, {length} bytes");
        }
    }
}

#[test]
fn a_frame_is_on_the_stream_that_its_kind_belongs_to() {
    for (kind, length) in
        [(kind::DATA, 0), (kind::HEADERS, 0), (kind::PRIORITY, 5), (kind::RESET, 4), (kind::CONTINUATION, 0)]
    {
        let code = read(kind, 0, 0, &[0; 8][..length]).map_err(|fault| fault.code);
        assert_eq!(code, Err(Code::PROTOCOL), "kind {kind} without a stream");
    }
    for (kind, length) in [(kind::SETTINGS, 0), (kind::PING, 8), (kind::GO_AWAY, 8)] {
        let code = read(kind, 0, STREAM, &[0; 8][..length]).map_err(|fault| fault.code);
        assert_eq!(code, Err(Code::PROTOCOL), "kind {kind} on a stream");
    }
}

#[test]
fn padding_is_taken_off_and_counts_against_the_window() {
    let read = |payload| read(kind::DATA, flag::PADDED, STREAM, payload);
    let data =
        |content: &'static [u8], flow| Ok(Frame::Data { stream: STREAM, content, flow, ends_stream: false });
    assert_eq!(read(b"\x02ab\0\0"), data(b"ab", 5));
    assert_eq!(read(b"\x00ab"), data(b"ab", 3));
    assert_eq!(read(b"\x03\0\0\0"), data(b"", 4));
    assert_eq!(read(b"\x04\0\0\0"), Err(Fault::protocol("padding longer than its frame")));
    assert_eq!(read(b"\x01"), Err(Fault::protocol("padding longer than its frame")));
}

#[test]
fn a_priority_within_headers_is_passed_over() {
    let flags = flag::PADDED | flag::PRIORITY | flag::END_HEADERS;
    let block = Frame::Headers { stream: STREAM, block: b"ab", ends_stream: false, ends_block: true };
    assert_eq!(read(kind::HEADERS, flags, STREAM, b"\x01\x80\0\0\x01\xffab\0"), Ok(block));
    assert_eq!(read(kind::HEADERS, flags & !flag::PADDED, STREAM, b"\0\0\0\x01\xffab"), Ok(block));
}

#[test]
fn settings_are_read_in_their_order() {
    let bytes = b"\0\x04\0\0\0\x01\0\x63\xff\xff\xff\xff\0\x04\0\0\0\x02\0\x03\0\0\0\0\0\0\0\0\0\0";
    let all: Result<Vec<_>, _> = Settings(bytes).each().collect();
    let expected = [
        (setting::INITIAL_WINDOW_SIZE, 1),
        (0x63, u32::MAX),
        (setting::INITIAL_WINDOW_SIZE, 2),
        (setting::MAX_CONCURRENT_STREAMS, 0),
        (0, 0),
    ];
    assert_eq!(all, Ok(expected.to_vec()));
}

#[test]
fn every_setting_has_its_range() {
    for (id, value) in [
        (1, 0),
        (1, u32::MAX),
        (2, 0),
        (2, 1),
        (3, u32::MAX),
        (4, 0),
        (4, MAX_STREAM),
        (5, 16_384),
        (5, 16_777_215),
        (6, u32::MAX),
        (7, u32::MAX),
    ] {
        assert_eq!(read_setting(id, value), Ok((id, value)), "{id} = {value}");
    }
    for (id, value, code) in [
        (2, 2, Code::PROTOCOL),
        (4, MAX_STREAM + 1, Code::FLOW_CONTROL),
        (4, u32::MAX, Code::FLOW_CONTROL),
        (5, 0, Code::PROTOCOL),
        (5, 16_383, Code::PROTOCOL),
        (5, 16_777_216, Code::PROTOCOL),
    ] {
        assert_eq!(read_setting(id, value).map_err(|fault| fault.code), Err(code), "{id} = {value}");
    }
}

#[test]
fn codes_are_shown_by_their_names() {
    assert_eq!(Code::NO_ERROR.to_string(), "NO_ERROR");
    assert_eq!(Code::ENHANCE_YOUR_CALM.to_string(), "ENHANCE_YOUR_CALM");
    assert_eq!(Code(13).to_string(), "HTTP_1_1_REQUIRED");
    assert_eq!(format!("{} {:?}", Code(14), Code(u32::MAX)), "code 14 code 4294967295");
}

#[test]
fn what_is_written_has_these_bytes() {
    let mut out = Vec::new();
    write_settings(&[(setting::ENABLE_PUSH, 0)], &mut out);
    assert_eq!(out, [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    out.clear();
    write_settings_ack(&mut out);
    assert_eq!(out, [0, 0, 0, 4, 1, 0, 0, 0, 0]);
    out.clear();
    write_ping_ack(*b"standing", &mut out);
    assert_eq!(out, *b"\0\0\x08\x06\x01\0\0\0\0standing");
    out.clear();
    write_window_update(5, 0x01_02_03_04, &mut out);
    assert_eq!(out, [0, 0, 4, 8, 0, 0, 0, 0, 5, 1, 2, 3, 4]);
    out.clear();
    write_reset(5, Code::CANCEL, &mut out);
    assert_eq!(out, [0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8]);
    out.clear();
    write_go_away(7, Code::PROTOCOL, &mut out);
    assert_eq!(out, [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1]);
}

#[test]
fn a_block_as_long_as_a_frame_is_one_frame() {
    for (length, frames) in [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2), (21, 3)] {
        let mut out = Vec::new();
        write_headers(STREAM, &vec![7; length], true, 10, &mut out);
        assert_eq!(split(&out).len(), frames, "{length} bytes");
    }
}

proptest! {
    #[test]
    fn reading_anything_never_panics(kind in 0u8..12, flags: u8, stream in 0u32..3, payload: Vec<u8>) {
        if let Ok(Frame::Settings(settings)) = read(kind, flags, stream, &payload) {
            let _ = settings.each().count();
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written(
        length in 0..1usize << 24,
        kind: u8,
        flags: u8,
        stream in 0..=MAX_STREAM,
    ) {
        let mut out = Vec::new();
        write_head(kind, flags, stream, length, &mut out);
        let bytes = out.as_slice().try_into().expect("a head has nine bytes");
        prop_assert_eq!(Head::read(bytes), Head { length, kind, flags, stream });
    }

    #[test]
    fn a_block_is_read_as_it_was_written(
        block in prop::collection::vec(any::<u8>(), 0..200),
        max_frame in 1usize..50,
        ends_stream: bool,
        stream in 1..=MAX_STREAM,
    ) {
        let mut out = Vec::new();
        write_headers(stream, &block, ends_stream, max_frame, &mut out);
        let frames = split(&out);
        let mut joined = Vec::new();
        for (index, (head, payload)) in frames.iter().enumerate() {
            prop_assert!(payload.len() <= max_frame);
            let is_last = index + 1 == frames.len();
            match Frame::read(*head, payload).expect("we write what we can read") {
                Frame::Headers { stream: on, block, ends_stream: ends, ends_block } if index == 0 => {
                    prop_assert_eq!((on, ends, ends_block), (stream, ends_stream, is_last));
                    joined.extend_from_slice(block);
                }
                Frame::Continuation { stream: on, block, ends_block } if index > 0 => {
                    prop_assert_eq!((on, ends_block), (stream, is_last));
                    joined.extend_from_slice(block);
                }
                other => prop_assert!(false, "frame {} is {:?}", index, other),
            }
        }
        prop_assert_eq!(joined, block);
    }

    #[test]
    fn small_frames_are_read_as_they_were_written(
        stream in 1..=MAX_STREAM,
        number in 0..=MAX_STREAM,
        code: u32,
        payload: [u8; 8],
    ) {
        let mut out = Vec::new();
        write_reset(stream, Code(code), &mut out);
        write_window_update(stream, number, &mut out);
        write_go_away(number, Code(code), &mut out);
        write_ping_ack(payload, &mut out);
        write_settings(&[(setting::INITIAL_WINDOW_SIZE, number), (setting::MAX_HEADER_LIST_SIZE, code)], &mut out);
        write_settings_ack(&mut out);
        let frames: Result<Vec<_>, _> =
            split(&out).into_iter().map(|(head, payload)| Frame::read(head, payload)).collect();
        let frames = frames.expect("we write what we can read");
        let [reset, update, go_away, ping, Frame::Settings(settings), ack] = frames[..] else {
            panic!("{frames:?}");
        };
        prop_assert_eq!(reset, Frame::Reset { stream, code: Code(code) });
        prop_assert_eq!(update, Frame::WindowUpdate { stream, increment: number });
        prop_assert_eq!(go_away, Frame::GoAway { last_stream: number, code: Code(code), debug: &[] });
        prop_assert_eq!((ping, ack), (Frame::PingAck, Frame::SettingsAck));
        let settings: Result<Vec<_>, _> = settings.each().collect();
        let written = vec![(setting::INITIAL_WINDOW_SIZE, number), (setting::MAX_HEADER_LIST_SIZE, code)];
        prop_assert_eq!(settings, Ok(written));
    }
}
