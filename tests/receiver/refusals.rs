//! Requests that the receiver refuses without a script, and what its user sees of them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver as Inbox};

use standpipe::Signal;
use standpipe::receiver::{Answer, Builder, Protocol, Receiver, RefusalKind, RefusedRequest};

use crate::client::{SOON, ask, post, post_with, traces};
use crate::grpc::client::{Grpc, fields_with, packed};

fn observed(builder: Builder) -> (Receiver, Inbox<RefusedRequest>) {
    let (show, shown) = mpsc::channel();
    let receiver = builder.on_refusal(move |refused| show.send(refused.clone()).unwrap()).start().unwrap();
    (receiver, shown)
}

/// Sends these bytes and reads to the end of the answer.
fn shout(address: SocketAddr, bytes: &[u8]) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(bytes).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    socket.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn what_is_refused_is_shown_with_its_kind() {
    let (receiver, shown) = observed(Receiver::builder().max_body_bytes(1000));
    let head =
        |line: &str, rest: &str| format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{rest}\r\n");
    let protobuf = "Content-Type: application/x-protobuf\r\n";
    let tls_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let (http, grpc) = (receiver.address(), receiver.grpc_address());
    for (door, bytes, kind, status) in [
        (http, head("POST /v1/trace", protobuf).into_bytes(), RefusalKind::Path, 404),
        (http, head("GET /v1/traces", "").into_bytes(), RefusalKind::Method, 405),
        (
            http,
            head("POST /v1/traces", "Content-Type: text/plain\r\n").into_bytes(),
            RefusalKind::ContentType,
            415,
        ),
        (
            http,
            post_with("Content-Encoding: br\r\nConnection: close\r\n", b"x"),
            RefusalKind::Compression,
            415,
        ),
        (http, post_with("Connection: close\r\n", b"nonsense"), RefusalKind::Undecodable, 400),
        (http, post(&[0; 1001]), RefusalKind::TooLarge, 413),
        (http, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), RefusalKind::GrpcAtHttpPort, 505),
        (http, tls_hello.to_vec(), RefusalKind::Tls, 400),
        (http, b"\0\0\0".to_vec(), RefusalKind::Malformed, 400),
        (grpc, post(b""), RefusalKind::HttpAtGrpcPort, 505),
        (grpc, tls_hello.to_vec(), RefusalKind::Tls, 505),
        (grpc, b"\0\0\0".to_vec(), RefusalKind::Malformed, 505),
    ] {
        shout(door, &bytes);
        let refused = shown.recv_timeout(SOON).unwrap();
        let protocol = if door == http { Protocol::Http } else { Protocol::Grpc };
        assert_eq!((refused.kind, refused.status, refused.protocol), (kind, status, protocol), "{refused:?}");
        assert!(!refused.message.is_empty());
    }
    let mut client = Grpc::connect(&receiver);
    for (name, value, kind) in [
        (":path", "/unknown", RefusalKind::Path),
        ("content-type", "application/json", RefusalKind::ContentType),
        ("grpc-encoding", "br", RefusalKind::Compression),
    ] {
        let stream = client.send(&fields_with(Signal::Traces, name, value), &packed(&traces(1)));
        client.reply(stream).unwrap();
        let refused = shown.recv_timeout(SOON).unwrap();
        assert_eq!((refused.kind, refused.protocol), (kind, Protocol::Grpc), "{refused:?}");
        assert!(refused.request.is_some());
    }
    client.ask(Signal::Traces, b"nonsense");
    assert_eq!(shown.recv_timeout(SOON).unwrap().kind, RefusalKind::Undecodable);
}

#[test]
fn an_answer_that_was_ordered_is_no_refusal() {
    let (receiver, shown) = observed(Receiver::builder().first_answers([Answer::status(503)]));
    assert_eq!(ask(&receiver, &post(&traces(1))).status, 503);
    assert_eq!(ask(&receiver, &post(&traces(1))).status, 200);
    assert!(shown.try_recv().is_err());
}

#[test]
fn requests_for_another_host_are_refused_if_asked_for() {
    let (receiver, shown) = observed(Receiver::builder().local_hosts_only());
    let mut client = Grpc::connect(&receiver);
    let stream = client.send(&fields_with(Signal::Traces, ":authority", "evil.example"), &packed(&traces(1)));
    let reply = client.reply(stream).unwrap();
    assert_eq!(reply.code(), 7);
    assert!(reply.trailer("grpc-message").unwrap().contains("\"evil.example\""));
    assert_eq!(shown.recv_timeout(SOON).unwrap().kind, RefusalKind::Host);
    let stream = client.send(&fields_with(Signal::Traces, "host", "evil.example"), &packed(&traces(1)));
    assert_eq!(client.reply(stream).unwrap().code(), 7);

    let own = receiver.grpc_address().to_string();
    for authority in ["localhost", "localhost:4317", own.as_str()] {
        let stream = client.send(&fields_with(Signal::Traces, ":authority", authority), &packed(&traces(1)));
        assert_eq!(client.reply(stream).unwrap().code(), 0, "{authority}");
    }
    assert_eq!(ask(&receiver, &post(&traces(1))).status, 200);
    assert_eq!(receiver.span_count(), 4);
}

#[test]
fn browsers_let_only_pages_of_this_machine_and_of_allowed_origins_send() {
    let preflight = |receiver: &Receiver, origin: &str| {
        let fields = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type";
        let head = format!("OPTIONS /v1/traces HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n{fields}\r\n\r\n");
        let reply = ask(receiver, head.as_bytes());
        (reply.status, reply.header("access-control-allow-origin").map(str::to_owned))
    };
    let (receiver, shown) = observed(Receiver::builder().allow_origins(["https://shop.example"]));
    for origin in ["http://localhost:3000", "http://[::1]:3000", "https://127.0.0.1", "https://shop.example"]
    {
        assert_eq!(preflight(&receiver, origin), (204, Some(origin.to_owned())));
        let reply = ask(&receiver, &post_with(&format!("Origin: {origin}\r\n"), &traces(1)));
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(origin)));
    }
    assert!(shown.try_recv().is_err(), "none is refused");
    for origin in
        ["null", "https://evil.example", "https://shop.example.evil.test", "http://host.docker.internal:80"]
    {
        assert_eq!(preflight(&receiver, origin), (405, None), "{origin}");
        let reply = ask(&receiver, &post_with(&format!("Origin: {origin}\r\n"), &traces(1)));
        assert_eq!(reply.header("access-control-allow-origin"), None, "{origin}");
    }
    let (receiver, _shown) = observed(Receiver::builder());
    assert_eq!(preflight(&receiver, "http://localhost:3000"), (405, None), "without the setting");
}
