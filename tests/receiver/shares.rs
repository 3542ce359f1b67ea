//! What all clients of a receiver share, over HTTP and over gRPC, and none can take from the others.

use prost::Message;
use standpipe::Signal;
use standpipe::receiver::Receiver;
use standpipe::receiver::proto::collector::trace::v1::ExportTraceServiceRequest;
use standpipe::receiver::proto::trace::v1::{ResourceSpans, ScopeSpans, Span};

use crate::client::{Client, SOON, ask, post, traces};
use crate::grpc::client::{ACK, DATA, END_HEADERS, END_STREAM, Grpc, HEADERS, PING, block, fields, packed};

/// A request that takes about this in memory, and three times as much while it is decoded.
fn request_of(bytes: usize) -> Vec<u8> {
    let spans = vec![Span { name: "x".repeat(bytes), ..Default::default() }];
    let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

#[test]
fn calls_of_all_connections_share_one_bound_of_memory() {
    let receiver = Receiver::builder().max_memory_bytes(200_000).start().unwrap();
    let request = request_of(60_000);
    receiver.pause();
    let mut held = Client::connect(&receiver);
    held.write(&post(&request));
    assert!(receiver.wait_for_held(1, SOON));

    // it has a third of the room, and others need all of it while they are decoded
    let reply = ask(&receiver, &post(&request));
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert!(String::from_utf8_lossy(&reply.body).contains("too much at a time"));
    let reply = Grpc::connect(&receiver).ask(Signal::Traces, &request);
    assert_eq!(reply.code(), 14);
    assert!(reply.trailer("grpc-message").unwrap().contains("too much at a time"));

    receiver.resume();
    assert_eq!(held.reply().unwrap().status, 200);
    assert_eq!(ask(&receiver, &post(&request)).status, 200);
    assert_eq!(Grpc::connect(&receiver).ask(Signal::Traces, &request).code(), 0);
}

#[test]
fn a_call_on_its_way_in_has_its_share_of_the_memory() {
    let receiver = Receiver::builder().max_memory_bytes(200_000).start().unwrap();
    let request = request_of(50_000);
    let mut client = Grpc::connect(&receiver);
    let stream = client.new_stream();
    client.write_frame(HEADERS, END_HEADERS, stream, &block(&fields(Signal::Traces)));
    let body = packed(&request);
    let pieces: Vec<&[u8]> = body.chunks(16_000).collect();
    let (last, first) = pieces.split_last().unwrap();
    first.iter().for_each(|piece| client.write_frame(DATA, 0, stream, piece));
    // frames are taken in order: with the answer to this one, the pieces are in
    client.write_frame(PING, 0, 0, b"standpip");
    assert_eq!(client.frame_of(PING).unwrap().flags, ACK);

    assert_eq!(ask(&receiver, &post(&request_of(60_000))).status, 503);
    client.write_frame(DATA, END_STREAM, stream, last);
    assert_eq!(client.reply(stream).unwrap().code(), 0);
    assert_eq!(ask(&receiver, &post(&request_of(60_000))).status, 200);
}

#[test]
fn a_request_beyond_the_memory_of_all_is_too_large() {
    let receiver = Receiver::builder().max_memory_bytes(200_000).start().unwrap();
    let request = request_of(100_000);
    assert_eq!(ask(&receiver, &post(&request)).status, 413);
    assert_eq!(ask(&receiver, &post(&request_of(300_000))).status, 413);
    let mut client = Grpc::connect(&receiver);
    assert_eq!(client.ask(Signal::Traces, &request_of(60_001 * 2)).code(), 8);
    assert_eq!(client.ask(Signal::Traces, &traces(1)).code(), 0);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_batch_that_is_kept_has_its_share_of_the_memory() {
    let (show, shown) = std::sync::mpsc::channel();
    let receiver = Receiver::builder()
        .max_memory_bytes(200_000)
        .on_batch(move |batch| show.send(batch.clone()).unwrap())
        .start()
        .unwrap();
    let request = request_of(60_000);
    assert_eq!(ask(&receiver, &post(&request)).status, 200);
    let batch = shown.recv_timeout(SOON).unwrap();
    assert!((60_000..70_000).contains(&batch.memory_bytes()), "{}", batch.memory_bytes());
    assert_eq!(ask(&receiver, &post(&request)).status, 503);
    drop(batch);
    assert_eq!(ask(&receiver, &post(&request)).status, 200);
}
