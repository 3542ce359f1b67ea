//! Answers of a receiver without a script.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use standpipe::receiver::Receiver;

use super::client::{Client, SOON, ask, post, post_with, traces};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn chunked(pieces: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in pieces {
        body.extend(format!("{:x}\r\n", piece.len()).bytes());
        body.extend(*piece);
        body.extend(b"\r\n");
    }
    body.extend(b"0\r\n\r\n");
    body
}

const CHUNKED: &str = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n\
                       Transfer-Encoding: chunked\r\n\r\n";

#[test]
fn spans_arrive_with_their_resource_and_scope() {
    let receiver = Receiver::start().unwrap();
    let reply = ask(&receiver, &post(&traces(3)));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/x-protobuf"));
    let response = ExportTraceServiceResponse::decode(&reply.body[..]).unwrap();
    assert_eq!(response, ExportTraceServiceResponse::default());

    assert_eq!(receiver.span_count(), 3);
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|received| received.span.name.as_str()).collect();
    assert_eq!(names, ["span 0", "span 1", "span 2"]);
    assert_eq!(spans[2].scope.name, "shop");
    assert_eq!(spans[2].attribute("order.id"), "4711");
    assert_eq!(spans[2].resource_attribute("service.name"), "till");
    assert!(spans[2].attribute("nothing").is_none());
}

#[test]
fn requests_are_remembered_as_they_came() {
    let receiver = Receiver::start().unwrap();
    let body = gzip(&traces(1));
    ask(&receiver, &post_with("Content-Encoding: GZIP\r\nX-Tenant: blue\r\n", &body));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
    assert_eq!((request.body_bytes, request.records, request.status), (body.len(), 1, Some(200)));
    assert!(request.decoded);
    assert_eq!(request.header("X-Tenant"), Some("blue"));
    assert!(request.headers.iter().any(|(name, value)| name == "x-tenant" && value == "blue"));
    assert!(request.received_at.elapsed() < SOON);
}

#[test]
fn every_way_to_send_a_body_is_understood() {
    let receiver = Receiver::start().unwrap();
    let body = traces(1);
    let (front, back) = body.split_at(7);
    let zipped = gzip(&body);
    let two_members = [gzip(front), gzip(back)].concat();
    for request in [
        post(&body),
        post_with("Content-Encoding: identity\r\n", &body),
        post_with("Content-Encoding: gzip\r\n", &zipped),
        post_with("Content-Encoding: gzip\r\n", &two_members),
        [CHUNKED.as_bytes(), &chunked(&[front, back])].concat(),
    ] {
        assert_eq!(ask(&receiver, &request).status, 200);
    }
    let typed = String::from_utf8_lossy(&post(b"")).replace("x-protobuf", "x-protobuf; charset=utf-8");
    assert_eq!(ask(&receiver, typed.as_bytes()).status, 200);
    assert_eq!((receiver.span_count(), receiver.request_count()), (5, 6));
}

#[test]
fn wrong_requests_get_the_right_status() {
    let receiver = Receiver::builder().max_body_bytes(1000).max_header_bytes(1000).start().unwrap();
    let good = String::from_utf8(post(b"")).unwrap();
    let too_large = traces(100);
    let table: &[(u16, Vec<u8>)] = &[
        (404, good.replace("/v1/traces", "/v1/profiles").into()),
        (404, good.replace("/v1/traces", "/v1/logs/").into()),
        (404, good.replace("/v1/traces", "/").into()),
        (405, good.replace("POST", "GET").into()),
        (405, good.replace("POST", "PUT").into()),
        (415, good.replace("x-protobuf", "xml").into()),
        (415, good.replace("Content-Type", "X-Type").into()),
        (415, post_with("Content-Encoding: br\r\n", b"")),
        (415, post_with("Content-Encoding: gzip, gzip\r\n", b"")),
        (417, post_with("Expect: miracles\r\n", b"")),
        (505, good.replace("HTTP/1.1", "HTTP/3").into()),
        (501, CHUNKED.replace("chunked", "gzip, chunked").into()),
        (431, post_with(&format!("X-Large: {}\r\n", "x".repeat(1000)), b"")),
        (413, post(&too_large)),
        (413, post_with("Content-Encoding: gzip\r\n", &gzip(&too_large))),
        (413, [CHUNKED.as_bytes(), &chunked(&[&too_large])].concat()),
        (400, post(b"this is not protobuf")),
        (400, post_with("Content-Encoding: gzip\r\n", b"this is not gzip")),
        (400, post_with("Transfer-Encoding: chunked\r\n", b"")),
        (400, post_with("Content-Length: 0\r\n", b"")),
    ];
    for (status, request) in table {
        let reply = ask(&receiver, request);
        let shown = String::from_utf8_lossy(request);
        assert_eq!(reply.status, *status, "{shown}");
        // An RPC status: a code in field 1, a message in field 2.
        assert_eq!((reply.body[0], reply.body[2]), (0x08, 0x12), "{shown}");
        assert_eq!(reply.header("content-type"), Some("application/x-protobuf"), "{shown}");
        assert_eq!(reply.header("allow"), (*status == 405).then_some("POST"), "{shown}");
    }
    assert_eq!(receiver.span_count(), 0);
    assert!(receiver.requests().iter().all(|request| !request.decoded));
}

#[test]
fn a_connection_is_kept_for_the_next_request_even_after_an_undecodable_one() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    assert_eq!(client.ask(&post(&traces(1))).status, 200);
    assert_eq!(client.ask(&post(b"this is not protobuf")).status, 400);
    assert_eq!(client.ask(&post(&traces(1))).status, 200);
    assert_eq!(receiver.connection_count(), 1);
    assert!(receiver.requests().iter().all(|request| request.connection == 1));
    ask(&receiver, &post(b""));
    assert_eq!(receiver.requests()[3].connection, 2);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    client.write(&[post(&traces(1)), post(b"nonsense"), post(&traces(2))].concat());
    let statuses: Vec<u16> = (0..3).map(|_| client.reply().unwrap().status).collect();
    assert_eq!(statuses, [200, 400, 200]);
    assert_eq!(receiver.span_count(), 3);
}

#[test]
fn a_client_that_asks_for_close_gets_it() {
    let receiver = Receiver::start().unwrap();
    let old = String::from_utf8(post(b"")).unwrap().replace("HTTP/1.1", "HTTP/1.0").into_bytes();
    for request in [post_with("Connection: close\r\n", b""), old] {
        let mut client = Client::connect(&receiver);
        let reply = client.ask(&request);
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(client.is_closed());
    }
}

#[test]
fn a_client_that_that_expects_100_continue_gets_it_or_the_reason_why_not() {
    let receiver = Receiver::builder().max_body_bytes(1000).start().unwrap();
    let body = traces(2);
    let request = post_with("Expect: 100-continue\r\n", &body);
    let (head, body) = request.split_at(request.len() - body.len());
    let mut client = Client::connect(&receiver);
    assert_eq!(client.ask(head).status, 100);
    assert_eq!(client.ask(body).status, 200);
    assert_eq!(receiver.span_count(), 2);

    let request = post_with("Expect: 100-continue\r\n", &[0; 1001]);
    assert_eq!(ask(&receiver, &request[..request.len() - 1001]).status, 413);
}

#[test]
fn counts_are_exact_when_nothing_is_kept() {
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    ask(&receiver, &post(&traces(7)));
    assert_eq!((receiver.span_count(), receiver.request_count()), (7, 1));
    assert!(receiver.spans().is_empty() && receiver.requests().is_empty());
}

#[test]
fn taking_leaves_the_counts() {
    let receiver = Receiver::start().unwrap();
    ask(&receiver, &post(&traces(2)));
    assert_eq!(receiver.take().len(), 2);
    assert!(receiver.spans().is_empty() && receiver.requests().is_empty());
    ask(&receiver, &post(&traces(1)));
    assert_eq!((receiver.spans().len(), receiver.span_count(), receiver.request_count()), (1, 3, 2));
}

#[test]
fn waiting_ends_at_the_count_or_at_the_deadline() {
    let receiver = Receiver::start().unwrap();
    assert!(receiver.wait_for_spans(0, Duration::ZERO));
    assert!(!receiver.wait_for_spans(1, Duration::from_millis(5)));
    assert!(!receiver.wait_for_requests(1, Duration::from_millis(5)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            receiver.wait_for_connections(1, SOON)
                && receiver.wait_for_requests(2, SOON)
                && receiver.wait_for_spans(4, SOON)
        });
        ask(&receiver, &post(&traces(2)));
        ask(&receiver, &post(&traces(2)));
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn many_clients_at_once_are_counted_exactly() {
    let receiver = Receiver::start().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = Client::connect(&receiver);
                for _ in 0..25 {
                    assert_eq!(client.ask(&post(&traces(3))).status, 200);
                }
            });
        }
    });
    assert_eq!((receiver.span_count(), receiver.request_count()), (1200, 400));
    assert_eq!(receiver.spans().len(), 1200);
    assert_eq!(receiver.connection_count(), 16);
}
