//! A message goes out within the windows, whatever they are, and whole.

use super::*;

/// What went out of a message to a server with a small window that gives back what came, `step` bytes at a time.
fn sent_within(initial_window: u32, step: u32) -> Vec<Said> {
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
    let mut conn = Conn::new();
    conn.start(&[], 0).unwrap();
    assert_eq!(conn.send(&message), Progress::Waits);
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    written(&mut conn);
    conn.start(&[], 0).unwrap();
    assert_eq!(conn.send(&message), Progress::Waits);
    // 65,535 less 60,005
    assert_eq!(sent_on(&written(&mut conn), 3).0.len(), 5_530);
    conn.receive(&Script::default().window_update(0, 1).0).unwrap();
    assert_eq!(conn.send(&message), Progress::Waits);
    assert_eq!(sent_on(&written(&mut conn), 3), (vec![7], false));
}

#[test]
fn a_connection_that_gets_too_little_back_is_not_for_another_call() {
    let body = vec![7; 60_000];
    let mut conn = Conn::new();
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
    let mut conn = Conn::new();
    conn.start(&[], 0).unwrap();
    assert_eq!(conn.send(&message), Progress::Waits);
    assert_eq!(sent_on(&written(&mut conn), 1).0.len(), 65_535);
    // now the stream's window is 65,525 below nothing
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
    let mut conn = Conn::new();
    conn.start(&[], 0).unwrap();
    let pieces = [&body[..]];
    let message = Message::new(&pieces, false);
    assert_eq!(conn.send(&message), Progress::Waits);
    let lengths = |conn: &mut Conn| -> Vec<usize> {
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
    let body = vec![7; 20 << 20];
    let pieces = [&body[..]];
    let message = Message::new(&pieces, false);
    let mut conn = Conn::new();
    conn.start(&[], 0).unwrap();
    let generous = Script::greeting().settings(&[(4, LARGEST_STREAM), (5, (1 << 24) - 1)]);
    conn.receive(&generous.window_update(0, LARGEST_STREAM - 65_535).0).unwrap();
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
    for (script, told) in [
        (Script::greeting().headers(flag::END_STREAM, 1, &refusal), vec![(1, vec![0, 0, 0, 8])]),
        (Script::greeting().reset(1, Code::NO_ERROR), vec![]),
        (Script::greeting().go_away(0, Code::NO_ERROR, b""), vec![]),
    ] {
        let mut conn = Conn::new();
        conn.start(&[], 0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        written(&mut conn);
        conn.receive(&script.window_update(0, 100_000).window_update(1, 100_000).0).unwrap();
        assert_eq!(conn.send(&message), Progress::Waits);
        let frames = written(&mut conn);
        assert_eq!(sent_on(&frames, 1), (vec![], false));
        assert_eq!(resets(&frames), told, "the server is told unless it knows");
        assert!(conn.take_end().is_some());
    }
}

#[test]
fn windows_that_are_too_large_end_what_they_belong_to() {
    let overflow = Script::greeting().window_update(0, LARGEST_STREAM);
    assert_eq!(code_of(calling().receive(&overflow.0)), Some(Code::FLOW_CONTROL));
    let nothing = Script::greeting().window_update(0, 0);
    assert_eq!(code_of(calling().receive(&nothing.0)), Some(Code::PROTOCOL));
    let by_settings = Script::greeting().window_update(1, LARGEST_STREAM - 65_535).settings(&[(4, 70_000)]);
    let mut conn = Conn::new();
    conn.start(&[], 0).unwrap();
    assert_eq!(code_of(conn.receive(&by_settings.0)), Some(Code::FLOW_CONTROL));

    for (increment, code) in [(LARGEST_STREAM, 3), (0, 1)] {
        let mut conn = calling();
        conn.receive(&Script::greeting().window_update(1, increment).0).unwrap();
        assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, code])]);
        assert!(matches!(conn.take_end(), Some(End::Malformed(_))));
        assert!(conn.is_open(), "only the call has ended");
    }
}
