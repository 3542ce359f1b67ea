//! Servers that leave, and calls that are broken off.

use super::*;

#[test]
fn a_farewell_that_spares_the_call_lets_it_finish_and_no_other_begin() {
    for last_stream in [1, LARGEST_STREAM] {
        let mut conn = calling();
        conn.receive(&Script::greeting().go_away(last_stream, Code::NO_ERROR, b"").0).unwrap();
        assert!(!conn.is_open() && !conn.may_start() && !conn.is_forsaken());
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
    conn.receive(&Script::greeting().go_away(LARGEST_STREAM, Code::NO_ERROR, b"").0).unwrap();
    conn.receive(&Script::default().go_away(0, Code::NO_ERROR, b"").0).unwrap();
    assert_eq!(conn.take_end(), Some(End::Unprocessed));
}

#[test]
fn a_farewell_because_of_an_error_forsakes_the_call() {
    let mut conn = calling();
    conn.receive(&Script::greeting().go_away(1, Code::ENHANCE_YOUR_CALM, b"too_many_pings").0).unwrap();
    assert!(conn.is_forsaken());
    assert_eq!(conn.take_end(), None, "an answer may still come");
    let farewell = conn.farewell().unwrap();
    assert_eq!((farewell.code, farewell.text.as_str()), (Code::ENHANCE_YOUR_CALM, "too_many_pings"));
}

#[test]
fn of_what_a_server_says_when_it_leaves_only_the_beginning_is_kept() {
    let mut conn = calling();
    let text = "ä".repeat(5_000);
    conn.receive(&Script::greeting().go_away(1, Code::NO_ERROR, text.as_bytes()).0).unwrap();
    assert_eq!(conn.farewell().unwrap().text, "ä".repeat(100));
}

#[test]
fn an_answer_is_an_answer_though_a_farewell_follows_it() {
    let farewell = || Script::default().go_away(0, Code::NO_ERROR, b"");
    let mut conn = calling();
    conn.receive(&Script::greeting().answer(1).0).unwrap();
    conn.receive(&farewell().0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
    let mut conn = calling();
    conn.receive(&[Script::greeting().answer(1).0, farewell().0].concat()).unwrap();
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
        Script::greeting().window_update(1, LARGEST_STREAM - 65_535).answer(1).settings(&[(4, 70_000)]);
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
