use super::*;

const PAGE: &[u8] = b"<!doctype html><title>Log in</title>";
const OLD: &[u8] = b"\x0a\x07\x08\x02\x12\x03old";

fn partly_old() -> Success {
    Success::Partly { rejected: 2, message: "old".to_owned() }
}

#[test]
fn a_body_is_judged_by_what_it_says_it_is() {
    let json = br#"{"partialSuccess":{"rejectedSpans":2,"errorMessage":"old"}}"#;
    for (content_type, body, expected) in [
        ("", &b""[..], Success::Accepted),
        ("", OLD, partly_old()),
        ("", PAGE, Success::Odd(UNREADABLE)),
        ("application/x-protobuf", OLD, partly_old()),
        ("Application/X-Protobuf ; charset=utf-8", OLD, partly_old()),
        ("application/protobuf", OLD, partly_old()),
        ("application/x-protobuf", PAGE, Success::Odd(UNREADABLE)),
        ("application/json", b"", Success::Accepted),
        ("application/json", b"{ }", Success::Accepted),
        ("application/json; charset=utf-8", json, partly_old()),
        ("application/json", b"{\"partial", Success::Odd(CUT_SHORT)),
        ("application/json", PAGE, Success::Foreign),
        ("application/json", OLD, Success::Foreign),
        ("text/html", b"", Success::Accepted),
        ("text/html", PAGE, Success::Foreign),
        ("text/plain", b"ok", Success::Foreign),
        ("text/plain", b"hi", Success::Foreign),
        ("text/plain", b"\n", Success::Foreign),
        ("text/plain", b"{}", Success::Foreign),
        ("application/octet-stream", OLD, partly_old()),
        ("application/octet-stream", b"\x0a\x00", Success::Accepted),
        ("application/octet-stream", PAGE, Success::Foreign),
        (";", OLD, partly_old()),
    ] {
        assert_eq!(read_success(content_type, body, true), expected, "{content_type} {body:?}");
    }
}

#[test]
fn what_breaks_off_is_delivered_if_it_was_a_collectors() {
    for (content_type, body, expected) in [
        ("", &b""[..], Success::Odd(CUT_SHORT)),
        ("application/x-protobuf", OLD, Success::Odd(CUT_SHORT)),
        ("application/json", b"", Success::Odd(CUT_SHORT)),
        ("application/json", b"{}", Success::Odd(CUT_SHORT)),
        ("application/json", b"{\"partialSuccess\":", Success::Odd(CUT_SHORT)),
        ("application/json", b"{\"error\":", Success::Foreign),
        ("text/html", b"", Success::Foreign),
        ("text/html", PAGE, Success::Foreign),
    ] {
        assert_eq!(read_success(content_type, body, false), expected, "{content_type} {body:?}");
    }
}
