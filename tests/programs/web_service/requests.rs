//! The services answer requests, and survive malformed ones.

use std::net::TcpStream;

use super::browser::say;
use super::stage::Stage;

#[test]
fn an_order_is_reserved_or_refused_and_the_browser_gets_the_answer() {
    let stage = Stage::open();
    for (query, status, text) in [
        ("order=4711", 200, "order 4711: 1 for 16.5 EUR, reserved"),
        ("order=4712&items=999", 200, "order 4712: 999 for 16483.5 EUR, reserved"),
        ("items=1&order=4713", 409, "out of stock: 1 wanted, 0 left"),
        ("order=none", 400, "which order? ask for /checkout?order=4711&items=2"),
    ] {
        assert_eq!(stage.check_out(query, &[]), (status, text.to_owned()), "{query}");
    }
    stage.close();
}

#[test]
fn what_is_no_request_is_answered_and_harms_no_other() {
    let stage = Stage::open();
    let (long_head, long_body) = ("x".repeat(9 << 10), "x".repeat(1 << 20));
    for (request, answer) in [
        ("BREW\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET /checkout HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET /checkout HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET /checkout HTTP/1.1\r\nhost : a\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET /checkout HTTP/1.1\r\nhost: a\r\n folded: b\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET /checkout HTTP/2\r\nhost: a\r\n\r\n".to_owned(), "HTTP/1.1 505 "),
        ("PUT /checkout HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), "HTTP/1.1 405 "),
        ("GET /else HTTP/1.0\r\n\r\n".to_owned(), "HTTP/1.1 404 "),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".to_owned(),
            "HTTP/1.1 400 ",
        ),
        ("GET / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\nx".to_owned(), "HTTP/1.1 400 "),
        ("GET / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
            "HTTP/1.1 501 ",
        ),
        (format!("GET / HTTP/1.1\r\nhost: {long_head}"), "HTTP/1.1 431 "),
        (
            format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1048576\r\n\r\n{long_body}"),
            "HTTP/1.1 413 ",
        ),
        ("GET /checkout HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf".to_owned(), ""),
        (String::new(), ""),
    ] {
        let heard = say(stage.storefront.address(), request.as_bytes());
        let begin = &request[..request.len().min(80)];
        assert!(heard.starts_with(answer) && heard.is_empty() == answer.is_empty(), "{begin:?}: {heard:?}");
    }
    let head = say(stage.storefront.address(), b"HEAD /else HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "an answer to HEAD has no body: {head:?}");
    assert_eq!(stage.check_out("order=4711", &[]).0, 200);
    stage.close();
}

#[test]
fn a_client_that_says_nothing_does_not_keep_a_service_from_its_end() {
    let stage = Stage::open();
    let silent = TcpStream::connect(stage.storefront.address()).unwrap();
    assert_eq!(stage.check_out("order=4711", &[]).0, 200);
    stage.close();
    drop(silent);
}
