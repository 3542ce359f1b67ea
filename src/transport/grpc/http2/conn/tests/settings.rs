//! What the server asks for is done, and at the right moment.

use super::*;

#[test]
fn each_settings_frame_is_acknowledged() {
    let mut conn = calling();
    conn.receive(&Script::greeting().settings(&[(3, 5), (0x99, 7)]).0).unwrap();
    let ack = said(kind::SETTINGS, flag::ACK, 0, &[]);
    assert_eq!(written(&mut conn), [ack.clone(), ack]);
}

#[test]
fn a_block_begins_with_a_size_update_first_and_after_each_change_of_the_table() {
    let head = block(&[(":method", "POST")]);
    let mut conn = Conn::new();
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
    let mut conn = Conn::new();
    written(&mut conn);
    conn.start(&head, 0).unwrap();
    let frames = written(&mut conn);
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.flags, frame.payload.len())).collect();
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
    assert_eq!(conn.start(&[], 100), Err(HeadTooLong { limit: 99 }));
    assert_eq!(written(&mut conn), []);
    assert!(conn.is_open());
    assert_eq!(conn.start(&[], 99), Ok(()));
}

#[test]
fn a_server_that_takes_no_calls_is_waited_for() {
    let mut conn = Conn::new();
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
    let ack = said(kind::SETTINGS, flag::ACK, 0, &[]);
    assert_eq!(written(&mut conn), [ack, said(kind::PING, flag::ACK, 0, b"standing")]);
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
        // the greeting is the first of them
        let mut conn = calling();
        conn.receive(&Script::greeting().0).unwrap();
        let one = Script::default().frame(kind, 0, stream, payload).0;
        // data needs a head before it
        conn.receive(&Script::default().headers(0, 1, &[(":status", "200")]).0).unwrap();
        for number in 2..=MOST_NOISE {
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
    for _ in 0..2 * MOST_NOISE {
        conn.receive(&update).unwrap();
    }
    let ping = Script::default().frame(kind::PING, 0, 0, &[0; 8]).0;
    for stream in [1, 3, 5] {
        for _ in 0..MOST_NOISE / 2 {
            conn.receive(&ping).unwrap();
        }
        conn.clear_output();
        conn.receive(&Script::default().answer(stream).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
        begin(&mut conn);
    }
}
