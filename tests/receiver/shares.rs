//! Resources that all clients of a receiver share, over HTTP and gRPC, and that no client can take from the others.

use std::io::ErrorKind;
use std::thread;
use std::time::Instant;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use standpipe::Signal;
use standpipe::receiver::Receiver;

use crate::client::{Client, SOON, ask, post, traces};
use crate::grpc::client::{ACK, DATA, END_HEADERS, END_STREAM, Grpc, HEADERS, PING, block, fields, packed};
use crate::support::{memory, process, size_within, skip};

/// A request that takes about this much memory, and three times as much while it is decoded.
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

    // The held request has a third of the memory, and each further request needs nearly all of it while it is decoded.
    let reply = ask(&receiver, &post(&request));
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert!(String::from_utf8_lossy(&reply.body).contains("exceed the memory limit"));
    let reply = Grpc::connect(&receiver).ask(Signal::Traces, &request);
    assert_eq!(reply.code(), 14);
    assert!(reply.trailer("grpc-message").unwrap().contains("exceed the memory limit"));

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
    // Frames are processed in order: when this PING is answered, the pieces have been received.
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

#[test]
fn a_newcomer_takes_the_place_of_the_connection_that_brought_nothing_for_longest() {
    let receiver = Receiver::builder().max_connections(3).start().unwrap();
    let mut first = Client::connect(&receiver);
    assert_eq!(first.ask(&post(&traces(1))).status, 200);
    let mut second = Grpc::connect(&receiver);
    assert_eq!(second.ask(Signal::Traces, &traces(1)).code(), 0);
    let mut third = Client::connect(&receiver);
    assert_eq!(third.ask(&post(&traces(1))).status, 200);
    assert_eq!(first.ask(&post(&traces(1))).status, 200);

    let mut newcomer = Client::connect(&receiver);
    assert_eq!(newcomer.ask(&post(&traces(1))).status, 200);
    // If the client has sent bytes that the receiver did not read, the end becomes a reset.
    let end = second.frames_to_end().map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    for client in [&mut first, &mut third, &mut newcomer] {
        assert_eq!(client.ask(&post(&traces(1))).status, 200);
    }
    assert_eq!(receiver.connection_count(), 4);
}

#[test]
fn connections_that_bring_nothing_push_none_out_that_does() {
    let receiver = Receiver::builder().max_connections(3).start().unwrap();
    let mut busy = Client::connect(&receiver);
    assert_eq!(busy.ask(&post(&traces(1))).status, 200);
    let mut silent: Vec<Client> = (0..6).map(|_| Client::connect(&receiver)).collect();
    assert!(receiver.wait_for_connections(7, SOON));
    assert!(silent[..4].iter_mut().all(Client::is_closed));
    assert_eq!(busy.ask(&post(&traces(1))).status, 200);
}

#[test]
fn an_idle_connection_makes_room() {
    let receiver = Receiver::builder().max_connections(1).start().unwrap();
    let mut connected = Vec::new();
    for _ in 0..10 {
        let mut client = Client::connect(&receiver);
        assert_eq!(client.ask(&post(&traces(1))).status, 200);
        let mut over_grpc = Grpc::connect(&receiver);
        assert_eq!(over_grpc.ask(Signal::Traces, &traces(1)).code(), 0);
        connected.push((client, over_grpc));
    }
    assert_eq!(receiver.connection_count(), 20);
}

#[test]
fn streams_of_all_connections_share_a_bound_of_threads() {
    const CONNECTIONS: usize = 40;
    // At least 1000 streams, of which each would have a thread.
    let streams_each = size_within(25..=100) as usize;
    if process::task().is_none() {
        let name = "streams_of_all_connections_share_a_bound_of_threads";
        process::run(name, "count");
        return;
    }
    let threads = || process::threads_and_sockets().map(|(threads, _)| threads);
    let receiver = Receiver::builder().read_timeout(6 * SOON).start().unwrap();
    let Some(before) = threads() else {
        return skip("this system has no /proc that says how many threads a process has");
    };
    receiver.pause();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| Grpc::connect(&receiver)).collect();
    let (message, mut streams) = (traces(1), Vec::new());
    for client in &mut clients {
        let of_client: Vec<u32> =
            (0..streams_each).map(|_| client.export(Signal::Traces, &message)).collect();
        streams.push(of_client);
        // When the PING is answered, all calls have been assigned to threads.
        client.write_frame(PING, 0, 0, b"standpip");
        client.frame_of(PING).unwrap();
    }
    let most = threads().unwrap();
    assert!(most <= before + 2 * CONNECTIONS + 256, "{before} threads became {most}");

    receiver.resume();
    for (client, streams) in clients.iter_mut().zip(streams) {
        for stream in streams {
            assert_eq!(client.reply(stream).unwrap().code(), 0);
        }
    }
    assert_eq!(receiver.span_count(), (CONNECTIONS * streams_each) as u64);
    let started = Instant::now();
    while threads().unwrap() > before + CONNECTIONS {
        assert!(started.elapsed() < SOON, "{} threads are left", threads().unwrap());
        thread::yield_now();
    }
}

#[test]
fn unfinished_calls_of_all_connections_stay_within_the_bound_of_memory() {
    const CONNECTIONS: usize = 20;
    const STREAMS: usize = 100;
    const LIMIT: u64 = 64 << 20;
    if !process::is_alone("unfinished_calls_of_all_connections_stay_within_the_bound_of_memory") {
        return;
    }
    let receiver =
        Receiver::builder().max_memory_bytes(LIMIT as usize).read_timeout(6 * SOON).start().unwrap();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| Grpc::connect(&receiver)).collect();
    let head = block(&fields(Signal::Traces));
    let mut streams = Vec::new();
    for client in &mut clients {
        let of_client: Vec<u32> = (0..STREAMS).map(|_| client.new_stream()).collect();
        for stream in &of_client {
            client.write_frame(HEADERS, END_HEADERS, *stream, &head);
        }
        streams.push(of_client);
        sync(client);
    }
    let Some(before) = memory::resident() else {
        return skip("this system does not say how much memory a process has");
    };
    let mut piece = vec![0; 8 << 10];
    // The prefix announces more than the client ever sends.
    piece[..5].copy_from_slice(&[0, 0, 0xff, 0xff, 0xff]);
    for _ in 0..8 {
        for (client, streams) in clients.iter_mut().zip(&streams) {
            // The client waits before it exceeds the window of the connection.
            for pair in streams.chunks(2) {
                pair.iter().for_each(|stream| client.write_frame(DATA, 0, *stream, &piece));
                sync(client);
            }
        }
        piece.fill(0);
        let grown = memory::resident().unwrap().saturating_sub(before);
        assert!(grown < LIMIT + LIMIT / 4, "{} KiB are held, the limit is {}", grown >> 10, LIMIT >> 10);
    }
}

/// Sends a PING and waits for its answer: frames are processed in order, so all earlier frames have been received.
fn sync(client: &mut Grpc) {
    client.write_frame(PING, 0, 0, b"standpip");
    assert_eq!(client.frame_of(PING).unwrap().flags, ACK);
}
