//! Answers of a receiver without a script.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use standpipe::Signal;
use standpipe::receiver::{Protocol, Receiver};

use super::client::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Fields, Grpc, HEADERS, PADDED, block, fields, fields_with,
    flagged, packed, path,
};
use crate::client::{Client, SOON, ask, logs, metrics, post, traces};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn code_of(client: &mut Grpc, fields: &Fields, body: &[u8]) -> (u32, String) {
    let stream = client.send(fields, body);
    let reply = client.reply(stream).unwrap();
    (reply.code(), reply.trailer("grpc-message").unwrap_or_default().to_owned())
}

#[test]
fn all_signals_are_taken_on_one_connection() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    for (signal, message) in
        [(Signal::Traces, traces(3)), (Signal::Logs, logs(2)), (Signal::Metrics, metrics(&[4, 1]))]
    {
        let reply = client.ask(signal, &message);
        assert_eq!(
            (reply.header(":status"), reply.header("content-type")),
            (Some("200"), Some("application/grpc"))
        );
        assert_eq!((reply.code(), reply.message()), (0, &b""[..]));
        assert!(reply.trailers.is_some() && reply.reset.is_none());
    }
    assert_eq!((receiver.span_count(), receiver.log_count(), receiver.point_count()), (3, 2, 5));
    assert_eq!(receiver.spans()[2].span.name, "span 2");
    assert_eq!((receiver.request_count(), receiver.connection_count()), (3, 1));
}

#[test]
fn a_call_is_remembered_as_a_request() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let stream = client.send(&fields_with(Signal::Traces, "grpc-timeout", "10S"), &packed(&traces(2)));
    assert_eq!(client.reply(stream).unwrap().code(), 0);
    assert_eq!(ask(&receiver, &post(&traces(1))).status, 200);
    let [request, other] = &receiver.requests()[..] else { panic!("not two requests") };
    assert_eq!((request.protocol, other.protocol), (Protocol::Grpc, Protocol::Http));
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path(Signal::Traces)));
    assert_eq!((request.signal, request.decoded, request.records), (Some(Signal::Traces), true, 2));
    assert_eq!((request.status, request.grpc_status), (Some(200), Some(0)));
    assert_eq!((other.status, other.grpc_status), (Some(200), None));
    assert_eq!(request.body_bytes, traces(2).len() + 5);
    assert_eq!((request.header("host"), request.header("grpc-timeout")), (Some("shop.example"), Some("10S")));
    assert!(request.headers.iter().all(|(name, _)| !name.starts_with(':')));
}

#[test]
fn compressed_messages_are_taken() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let zipped = fields_with(Signal::Traces, "grpc-encoding", "gzip");
    assert_eq!(code_of(&mut client, &zipped, &flagged(1, &gzip(&traces(5)))).0, 0);
    // A flag of 0 says that this message is not compressed.
    assert_eq!(code_of(&mut client, &zipped, &packed(&traces(1))).0, 0);
    assert_eq!(
        code_of(&mut client, &fields_with(Signal::Traces, "grpc-encoding", "identity"), &packed(&traces(1)))
            .0,
        0
    );
    assert_eq!(receiver.span_count(), 7);
}

#[test]
fn what_is_not_otlp_is_refused_with_the_code_that_says_why() {
    let receiver = Receiver::builder().max_body_bytes(2000).start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let good = fields(Signal::Traces);
    let zipped = fields_with(Signal::Traces, "grpc-encoding", "gzip");
    let mut too_long = packed(&[]);
    too_long[1..].copy_from_slice(&2001_u32.to_be_bytes());
    for (fields, body, code, part) in [
        (&fields_with(Signal::Traces, ":path", "/v1/traces"), packed(&traces(1)), 12, "no such path"),
        (&fields_with(Signal::Traces, "grpc-encoding", "snappy"), packed(&traces(1)), 12, "grpc-encoding"),
        (&good, packed(b"nonsense"), 3, "cannot decode"),
        (&good, vec![], 3, "no message"),
        (&good, vec![0, 0, 0], 3, "no message"),
        (&good, [packed(&traces(1)), packed(&traces(1))].concat(), 3, "more than one message"),
        (&good, packed(&traces(1))[..20].to_vec(), 3, "cut short"),
        (&good, flagged(1, &gzip(&traces(1))), 3, "without a grpc-encoding"),
        (&good, flagged(2, &traces(1)), 3, "unknown flag"),
        (&zipped, flagged(1, b"not gzip"), 3, "cannot decompress"),
        (&zipped, flagged(1, &gzip(&[0; 5000])), 8, "too large"),
        (&good, packed(&[0; 2001]), 8, "too large"),
        (&good, too_long, 8, "too large"),
    ] {
        let (found, message) = code_of(&mut client, fields, &body);
        assert_eq!(found, code, "{part}: {message}");
        assert!(message.contains(part), "{message}");
    }
    assert!(receiver.requests().iter().all(|request| !request.decoded && request.grpc_status != Some(0)));
    assert_eq!((receiver.request_count(), receiver.span_count(), receiver.connection_count()), (13, 0, 1));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
}

#[test]
fn an_unknown_encoding_is_answered_with_the_known_ones() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let stream = client.send(&fields_with(Signal::Traces, "grpc-encoding", "br"), &packed(&traces(1)));
    assert_eq!(client.reply(stream).unwrap().trailer("grpc-accept-encoding"), Some("identity,gzip"));
}

#[test]
fn whoever_does_not_speak_grpc_hears_it_in_http() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    for (name, value, status) in
        [("content-type", "application/x-protobuf", "415"), (":method", "GET", "405")]
    {
        let stream = client.send(&fields_with(Signal::Traces, name, value), &traces(1));
        let reply = client.reply(stream).unwrap();
        assert_eq!((reply.header(":status"), reply.trailer("grpc-status")), (Some(status), None));
        let text = String::from_utf8(reply.data).unwrap();
        assert!(text.contains(&format!("OTLP over HTTP is at {}", receiver.endpoint())), "{text}");
    }
    for content_type in ["application/grpc+proto", "application/grpc;charset=utf-8"] {
        let good = fields_with(Signal::Traces, "content-type", content_type);
        assert_eq!(code_of(&mut client, &good, &packed(&traces(1))).0, 0);
    }
    assert_eq!(receiver.requests()[0].grpc_status, None);
}

#[test]
fn http_at_the_grpc_port_is_shown_the_way_and_the_other_way_round() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::dial(&receiver);
    client.write(&post(&traces(1)));
    let mut text = String::new();
    client.socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 505 "), "{text}");
    let place = format!("this is the gRPC port; OTLP over HTTP is at {}\n", receiver.endpoint());
    assert!(text.ends_with(&place), "{text}");

    let mut client = Client::connect(&receiver);
    client.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let reply = client.reply().unwrap();
    assert_eq!(reply.status, 505);
    let place = format!("OTLP over gRPC is at {}", receiver.grpc_endpoint());
    assert!(String::from_utf8_lossy(&reply.body).contains(&place));
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn calls_may_come_in_any_pieces() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let head = block(&fields(Signal::Traces));
    let body = packed(&traces(1));
    let (front, back) = head.split_at(10);
    // Headers in three frames, padded data byte by byte, and trailers of the client at the end.
    let stream = client.new_stream();
    client.write_frame(HEADERS, 0, stream, front);
    client.write_frame(CONTINUATION, 0, stream, &[]);
    client.write_frame(CONTINUATION, END_HEADERS, stream, back);
    for byte in body {
        client.write_frame(DATA, PADDED, stream, &[3, byte, 0, 0, 0]);
    }
    client.write_frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        &block(&vec![("x-end".into(), "1".into())]),
    );
    assert_eq!(client.reply(stream).unwrap().code(), 0);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn calls_are_taken_at_the_same_time_and_answered_when_they_are_done() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let mut client = Grpc::connect(&receiver);
    let streams: Vec<u32> = (1..=20).map(|spans| client.export(Signal::Traces, &traces(spans))).collect();
    assert!(receiver.wait_for_held(20, SOON));
    receiver.resume();
    for stream in streams {
        assert_eq!(client.reply(stream).unwrap().code(), 0);
    }
    assert_eq!((receiver.span_count(), receiver.connection_count()), (210, 1));
}

#[test]
fn a_call_that_is_never_finished_stops_no_other() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let unfinished = client.new_stream();
    client.write_frame(HEADERS, END_HEADERS, unfinished, &block(&fields(Signal::Traces)));
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    client.write_frame(DATA, END_STREAM, unfinished, &packed(&traces(1)));
    assert_eq!(client.reply(unfinished).unwrap().code(), 0);
    assert_eq!(receiver.span_count(), 2);
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answers() {
    let receiver = Receiver::start().unwrap();
    let mut client = Grpc::connect(&receiver);
    let stream = client.export(Signal::Traces, &traces(1));
    client.stop_writing();
    let reply = client.reply(stream).unwrap();
    assert_eq!(ExportTraceServiceResponse::decode(reply.message()).unwrap(), Default::default());
    assert!(receiver.wait_for_disconnection(SOON));
}
