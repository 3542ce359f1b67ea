use proptest::prelude::*;
use prost::Message as _;

use self::generated::{Delay, Detail, ExportAnswer, PartialSuccess, RetryInfo, RpcStatus};
use super::*;

// The message types as prost-build writes them; a test compares them byte for byte.
#[rustfmt::skip]
#[allow(unreachable_pub)]
mod generated;

#[test]
fn an_empty_answer_is_plain_success() {
    assert_eq!(read_partial_success(b"", false), Ok(Verdict::Accepted));
}

#[test]
fn an_empty_partial_success_is_plain_success() {
    assert_eq!(read_partial_success(&[0x0a, 0x00], false), Ok(Verdict::Accepted));
}

#[test]
fn rejected_records_are_counted_with_the_reason() {
    // Encoded by hand: partial_success { rejected: 300, error_message: "too old" }.
    let body = b"\x0a\x0c\x08\xac\x02\x12\x07too old";
    assert_eq!(read_partial_success(body, false), rejecting(300, "too old"));
}

#[test]
fn rejected_records_need_no_reason() {
    assert_eq!(read_partial_success(&partial_success(7, ""), false), rejecting(7, ""));
}

#[test]
fn a_message_without_rejected_records_is_a_warning() {
    assert_eq!(read_partial_success(&partial_success(0, "use v2"), false), rejecting(0, "use v2"));
}

#[test]
fn a_negative_count_rejects_nothing() {
    assert_eq!(read_partial_success(&partial_success(-3, "odd"), false), rejecting(0, "odd"));
    assert_eq!(read_partial_success(&partial_success(i64::MIN, ""), false), Ok(Verdict::Accepted));
}

#[test]
fn fields_of_a_later_protocol_are_passed_over() {
    let mut body = partial_success(2, "x");
    body.extend_from_slice(&[0x7a, 0x01, 0x00]);
    assert_eq!(read_partial_success(&body, false), rejecting(2, "x"));
}

#[test]
fn an_answer_cut_anywhere_inside_is_unreadable() {
    let body = partial_success(300, "too old");
    for end in 1..body.len() {
        assert_eq!(read_partial_success(&body[..end], false), Err(Oddity::Odd(UNREADABLE)), "cut at {end}");
    }
}

#[test]
fn a_web_page_is_neither_answer_nor_status() {
    let page = b"<html><body>502 Bad Gateway</body></html>";
    assert_eq!(read_partial_success(page, false), Err(Oddity::Odd(UNREADABLE)));
    assert_eq!(read_status(page), None);
    assert_eq!(read_status(br#"{"code":14,"message":"unavailable"}"#), None);
}

#[test]
fn the_reason_of_a_partial_success_is_fit_for_a_log_line() {
    let answer = read_partial_success(&partial_success(1, "a\r\nb\u{1b}[31m"), false);
    assert_eq!(answer, rejecting(1, "a  b [31m"));
}

#[test]
fn a_status_gives_its_message() {
    // Encoded by hand: code 3, message "bad id".
    let status = read_status(b"\x08\x03\x12\x06bad id").expect("a status");
    assert_eq!(status, StatusMessage { message: "bad id".into(), retry_delay: None });
}

#[test]
fn a_status_that_says_nothing_is_none() {
    assert_eq!(read_status(b""), None);
    assert_eq!(read_status(&[0x08, 0x0e]), None);
    // "*" opens an unknown field, whose length is "\x02".
    assert_eq!(read_status(b"*\x02hi"), None);
}

#[test]
fn a_status_cut_short_is_none() {
    let body = b"\x08\x03\x12\x06bad id";
    for end in 3..body.len() {
        assert_eq!(read_status(&body[..end]), None, "cut at {end}");
    }
}

#[test]
fn retry_info_is_found_among_other_details() {
    let body = RpcStatus {
        code: 14,
        message: "busy".into(),
        details: vec![
            Detail {
                type_url: "type.googleapis.com/google.rpc.DebugInfo".into(),
                value: RetryInfo { retry_delay: Some(delay(99, 0)) }.encode_to_vec(),
            },
            retry_info(delay(2, 500_000_000)),
        ],
    }
    .encode_to_vec();
    let expected = StatusMessage { message: "busy".into(), retry_delay: Some(Duration::from_millis(2_500)) };
    assert_eq!(read_status(&body), Some(expected));
}

#[test]
fn retry_info_needs_no_message_and_may_ask_for_no_delay() {
    assert_eq!(delay_read_from(delay(0, 0)), Some(Duration::ZERO));
    assert_eq!(delay_read_from(delay(0, 1)), Some(Duration::from_nanos(1)));
    let longest = i64::try_from(MAX_DELAY_SECONDS).expect("fits");
    assert_eq!(delay_read_from(delay(longest, 0)), Some(Duration::from_secs(MAX_DELAY_SECONDS)));
}

#[test]
fn negative_and_absurd_delays_are_ignored() {
    let past_the_longest = i64::try_from(MAX_DELAY_SECONDS).expect("fits") + 1;
    for odd in [
        delay(-1, 0),
        delay(0, -1),
        delay(1, -1),
        delay(i64::MIN, 0),
        delay(i64::MAX, 0),
        delay(past_the_longest, 0),
        delay(1, 1_000_000_000),
    ] {
        assert_eq!(delay_read_from(odd), None, "{odd:?}");
    }
}

#[test]
fn a_broken_retry_info_does_not_hide_the_message_or_the_next_one() {
    let broken = Detail { type_url: "google.rpc.RetryInfo".into(), value: vec![0x0a, 0x7f] };
    let details = vec![broken, retry_info(delay(-1, 0)), retry_info(delay(4, 0))];
    let body = RpcStatus { code: 0, message: "wait".into(), details }.encode_to_vec();
    let status = read_status(&body).expect("a status");
    assert_eq!(status, StatusMessage { message: "wait".into(), retry_delay: Some(Duration::from_secs(4)) });
}

#[test]
fn a_long_message_is_cut_at_512_characters_not_bytes() {
    let body = RpcStatus { message: "ä".repeat(600), ..RpcStatus::default() }.encode_to_vec();
    assert_eq!(read_status(&body).expect("a status").message, "ä".repeat(512));
}

#[test]
fn control_characters_in_a_message_are_replaced() {
    let body = RpcStatus { message: "a\nb\0c\u{7f}\u{9b}d".into(), ..RpcStatus::default() }.encode_to_vec();
    assert_eq!(read_status(&body).expect("a status").message, "a b c  d");
}

fn rejecting(rejected: u64, message: &str) -> Result<Verdict, Oddity> {
    Ok(Verdict::AcceptedPartly { rejected, message: message.to_owned() })
}

fn partial_success(rejected: i64, message: &str) -> Vec<u8> {
    let partial_success = Some(PartialSuccess { rejected, error_message: message.to_owned() });
    ExportAnswer { partial_success }.encode_to_vec()
}

fn delay(seconds: i64, nanos: i32) -> Delay {
    Delay { seconds, nanos }
}

fn retry_info(retry_delay: Delay) -> Detail {
    Detail {
        type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
        value: RetryInfo { retry_delay: Some(retry_delay) }.encode_to_vec(),
    }
}

/// Returns the delay that is read from a status without a message.
fn delay_read_from(asked: Delay) -> Option<Duration> {
    let body = RpcStatus { code: 14, message: String::new(), details: vec![retry_info(asked)] };
    read_status(&body.encode_to_vec())?.retry_delay
}

const PAGE: &[u8] = b"<!doctype html><title>Log in</title>";
const OLD: &[u8] = b"\x0a\x07\x08\x02\x12\x03old";

fn partly_old() -> Result<Verdict, Oddity> {
    Ok(Verdict::AcceptedPartly { rejected: 2, message: "old".to_owned() })
}

#[test]
fn a_body_is_judged_by_what_it_says_it_is() {
    let json = br#"{"partialSuccess":{"rejectedSpans":2,"errorMessage":"old"}}"#;
    for (content_type, body, expected) in [
        ("", &b""[..], Ok(Verdict::Accepted)),
        ("", OLD, partly_old()),
        ("", PAGE, Err(Oddity::Odd(UNREADABLE))),
        ("application/x-protobuf", OLD, partly_old()),
        ("Application/X-Protobuf ; charset=utf-8", OLD, partly_old()),
        ("application/protobuf", OLD, partly_old()),
        ("application/x-protobuf", PAGE, Err(Oddity::Odd(UNREADABLE))),
        ("application/json", b"", Ok(Verdict::Accepted)),
        ("application/json", b"{ }", Ok(Verdict::Accepted)),
        ("application/json; charset=utf-8", json, partly_old()),
        ("application/json", b"{\"partial", Err(Oddity::Odd(CUT_SHORT))),
        ("application/json", PAGE, Err(Oddity::Foreign)),
        ("application/json", OLD, Err(Oddity::Foreign)),
        ("text/html", b"", Ok(Verdict::Accepted)),
        ("text/html", PAGE, Err(Oddity::Foreign)),
        ("text/plain", b"ok", Err(Oddity::Foreign)),
        ("text/plain", b"hi", Err(Oddity::Foreign)),
        ("text/plain", b"\n", Err(Oddity::Foreign)),
        ("text/plain", b"{}", Err(Oddity::Foreign)),
        ("application/octet-stream", OLD, partly_old()),
        ("application/octet-stream", b"\x0a\x00", Ok(Verdict::Accepted)),
        ("application/octet-stream", PAGE, Err(Oddity::Foreign)),
        (";", OLD, partly_old()),
    ] {
        assert_eq!(read_success(content_type, body, Extent::Whole), expected, "{content_type} {body:?}");
    }
}

#[test]
fn of_a_long_answer_the_count_and_the_beginning_of_the_message_are_read() {
    let partly = |message: &str| Ok(Verdict::AcceptedPartly { rejected: 300, message: message.to_owned() });
    let body = partial_success(300, "too öld");
    for (cut, expected) in [(1, partly("too öl")), (3, partly("too \u{fffd}")), (8, partly(""))] {
        let beginning = &body[..body.len() - cut];
        for content_type in ["", "application/x-protobuf", "application/octet-stream"] {
            assert_eq!(
                read_success(content_type, beginning, Extent::Prefix),
                expected,
                "{content_type} {cut}"
            );
        }
    }
    let json = br#"{"partialSuccess":{"rejectedSpans":300,"errorMessage":"too "#;
    for (content_type, beginning, expected) in [
        ("", &b"\x0a\x0c\x08\xac"[..], Err(Oddity::Odd(UNREADABLE))),
        ("", &[0; 9], Err(Oddity::Odd(UNREADABLE))),
        ("application/json", json, partly("too ")),
        ("application/json", &json[..39], partly("")),
        ("application/json", &json[..38], Err(Oddity::Odd(CUT_SHORT))),
        ("application/json", b"{\"error\":", Err(Oddity::Foreign)),
        ("text/html", PAGE, Err(Oddity::Foreign)),
    ] {
        assert_eq!(
            read_success(content_type, beginning, Extent::Prefix),
            expected,
            "{content_type} {beginning:?}"
        );
    }
}

#[test]
fn what_breaks_off_is_delivered_if_it_was_a_collectors() {
    for (content_type, body, expected) in [
        ("", &b""[..], Err(Oddity::Odd(CUT_SHORT))),
        ("application/x-protobuf", OLD, Err(Oddity::Odd(CUT_SHORT))),
        ("application/json", b"", Err(Oddity::Odd(CUT_SHORT))),
        ("application/json", b"{}", Err(Oddity::Odd(CUT_SHORT))),
        ("application/json", b"{\"partialSuccess\":", Err(Oddity::Odd(CUT_SHORT))),
        ("application/json", b"{\"error\":", Err(Oddity::Foreign)),
        ("text/html", b"", Err(Oddity::Foreign)),
        ("text/html", PAGE, Err(Oddity::Foreign)),
    ] {
        assert_eq!(read_success(content_type, body, Extent::BrokenOff), expected, "{content_type} {body:?}");
    }
}

#[test]
fn what_otlp_does_not_name_is_not_tried_again() {
    let verdict = |status: &u16| status_verdict(*status, None, String::new());
    let is_retried = |status: &u16| matches!(verdict(status), Verdict::TryLater { .. });
    let retried: Vec<u16> = (0..1000).filter(is_retried).collect();
    assert_eq!(retried, [429, 502, 503, 504]);
    let is_refused = |status: &u16| matches!(verdict(status), Verdict::Refused { .. });
    let refused: Vec<u16> = (400..600).filter(is_refused).collect();
    assert_eq!(refused.len(), 200 - retried.len() - [413].len() - [404, 405, 501].len());
}

#[test]
fn a_delay_is_kept_only_for_what_is_tried_again() {
    let after = Some(Duration::from_secs(7));
    let later = Verdict::TryLater { after, reason: "why".to_owned() };
    assert_eq!(status_verdict(503, after, "why".to_owned()), later);
    let refused = Verdict::Refused { reason: "why".to_owned() };
    assert_eq!(status_verdict(400, after, "why".to_owned()), refused);
}

proptest! {
    /// The input is an encoded message in which one byte is changed. All later bytes may then have another meaning.
    #[test]
    fn what_is_understood_is_what_protobuf_says(
        rejected: i64, text in ".{0,20}", seconds in -2..9_i64, at: proptest::sample::Index, byte: u8,
    ) {
        let changed = |mut body: Vec<u8>| {
            let at = at.index(body.len());
            body[at] = byte;
            body
        };
        let body = changed(partial_success(rejected, &text));
        if let Some(partial) = super::partial_success(&body, false) {
            let theirs = ExportAnswer::decode(&*body).map(|answer| answer.partial_success.unwrap_or_default());
            let ours = PartialSuccess { rejected: partial.rejected as i64, error_message: partial.error_message };
            let at_least_none = |partial: PartialSuccess| PartialSuccess { rejected: partial.rejected.max(0), ..partial };
            prop_assert_eq!(theirs.map(at_least_none), Ok(ours));
        }
        let status = RpcStatus { code: 14, message: text, details: vec![retry_info(delay(seconds, 5))] };
        let body = changed(status.encode_to_vec());
        if let Some(status) = read_status(&body) {
            let theirs = RpcStatus::decode(&*body).map(|status| printable(&status.message));
            prop_assert_eq!(theirs, Ok(status.message));
        }
    }
}
