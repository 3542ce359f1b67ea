//! `receive` under adverse conditions: refused clients, signals, and an output that is not read.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;

use super::{Listening, PATIENCE, send};
#[cfg(unix)]
use crate::support::{
    command::{run, stderr},
    scratch::Scratch,
};

/// A process that is ended when the test ends.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `receive`. Returns its lines.
fn begin(options: &[&str]) -> (Process, Receiver<String>) {
    let (process, output) = Listening::spawn(options);
    let (read, lines) = mpsc::channel();
    thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| read.send(line)));
    (Process(process), lines)
}

/// Sends bytes. Returns the whole answer.
fn exchange(endpoint: &str, bytes: &[u8]) -> String {
    let authority = endpoint.strip_prefix("http://").expect("it is plain HTTP");
    let mut socket = TcpStream::connect(authority).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("it is connected");
    socket.set_write_timeout(Some(PATIENCE)).expect("it is connected");
    socket.write_all(bytes).expect("it is read");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("it is answered in time");
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(line: &str, host: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn protobuf(path: &str, body: &[u8]) -> Vec<u8> {
    request(&format!("POST {path}"), "localhost", "application/x-protobuf", body)
}

#[test]
fn receive_says_what_it_refuses_once_for_each_kind_with_advice() {
    let mut listening = Listening::start();
    let (http, grpc) = (listening.endpoint.clone(), listening.grpc_endpoint.clone());
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let tls_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for _ in 0..3 {
        exchange(&http, &protobuf("/v1/trace?token=hunter2", b""));
        exchange(&http, &request("GET /v1/traces", "localhost", "", b""));
        exchange(&http, &request("POST /v1/traces", "localhost", "text/plain", b"hello"));
        exchange(&http, &protobuf("/v1/traces", b"hello"));
        exchange(&http, &request("POST /v1/traces", "evil.example", "application/x-protobuf", b""));
        exchange(&http, preface);
        exchange(&http, &tls_hello);
        exchange(&grpc, &protobuf("/v1/traces", b""));
        exchange(&grpc, &tls_hello);
    }
    if !listening.interrupt("TERM") {
        return;
    }
    let said = listening.complaints.recv_timeout(PATIENCE).expect("it ends");
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        ("refused POST /v1/trace over HTTP with 404: no such path", format!("OTLP_ENDPOINT={http}: ")),
        ("refused GET /v1/traces over HTTP with 405: ", "a browser".to_owned()),
        ("refused POST /v1/traces over HTTP with 415: ", "http/protobuf".to_owned()),
        ("refused POST /v1/traces over HTTP with 400: cannot decode", "is the body OTLP".to_owned()),
        ("refused POST /v1/traces over HTTP with 403: ", format!("send to {http} or {grpc}")),
        ("refused a connection over HTTP with 505: ", format!("OTLP over gRPC is at {grpc}, ")),
        ("refused a connection over HTTP with 400: TLS handshake", "http:// instead of https://".to_owned()),
        ("refused a connection over gRPC with 505: HTTP/1", format!("OTLP over HTTP is at {http}, ")),
        ("refused a connection over gRPC with 505: TLS handshake", "http:// instead of https://".to_owned()),
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, (what, advice)) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("standpipe: {what}")), "{line}\nshould begin with {what}");
        assert!(line.contains(&advice), "{line}\nshould advise {advice}");
    }
    assert!(!said.contains("hunter2"), "{said}");
    listening
        .line_with("received 0 spans, 0 log records and 0 data points in 0 batches; refused 27 requests");
}

#[test]
fn receive_ends_with_a_summary_and_code_0_at_ctrl_c() {
    for signal in ["INT", "TERM"] {
        let mut listening = Listening::start();
        send(&listening.endpoint, "POST /checkout");
        if !listening.interrupt(signal) {
            return;
        }
        listening.line_with("POST /checkout");
        listening.line_with("received 1 span, 0 log records and 0 data points in 1 batch");
        assert_eq!(listening.complaints.recv_timeout(PATIENCE).as_deref(), Ok(""));
        assert_eq!(listening.process.wait().expect("it ends").code(), Some(0), "{signal}");
    }
}

/// Stops the process, as Ctrl-Z does, and continues it.
#[cfg(target_os = "linux")]
fn stop_and_go_on(process: &Child) {
    super::signal(process, "STOP");
    let is_stopped =
        || std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap().contains(") T ");
    let began = std::time::Instant::now();
    while !is_stopped() {
        assert!(began.elapsed() < PATIENCE, "it does not stop");
        thread::yield_now();
    }
    super::signal(process, "CONT");
}

#[test]
#[cfg(target_os = "linux")]
fn connections_outlast_a_process_that_is_stopped_and_goes_on() {
    let listening = Listening::start();
    let connect = |endpoint: &str| {
        let socket = TcpStream::connect(endpoint.strip_prefix("http://").expect("it is plain HTTP"));
        let socket = socket.expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("it is connected");
        socket
    };
    let (mut http, mut grpc) = (connect(&listening.endpoint), connect(&listening.grpc_endpoint));
    grpc.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is read");
    let read_until = |socket: &mut TcpStream, end: &[u8]| {
        let mut read = Vec::new();
        while !read.ends_with(end) {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("the connection is still there");
            read.push(byte[0]);
        }
        read
    };
    for _ in 0..5 {
        stop_and_go_on(&listening.process);
        let post = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n\
            Content-Length: 0\r\n\r\n";
        http.write_all(post).expect("it is read");
        let answer = read_until(&mut http, b"content-length: 0\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", answer.escape_ascii());
        // A PING frame, and its answer.
        grpc.write_all(b"\0\0\x08\x06\0\0\0\0\0going on").expect("it is read");
        read_until(&mut grpc, b"\0\0\x08\x06\x01\0\0\0\0going on");
    }
}

#[test]
fn receive_ends_with_a_summary_as_soon_as_it_says_that_it_listens() {
    for _ in 0..5 {
        let (mut process, lines) = begin(&["--address", "127.0.0.1:0"]);
        let greeting = lines.recv_timeout(PATIENCE).expect("it greets");
        assert!(greeting.starts_with("listening on "), "{greeting}");
        if !super::signal(&process.0, "TERM") {
            return;
        }
        let mut last = None;
        while let Ok(line) = lines.recv_timeout(PATIENCE) {
            last = Some(line);
        }
        let summary = "received 0 spans, 0 log records and 0 data points in 0 batches";
        assert_eq!(last.as_deref(), Some(summary));
        assert_eq!(process.0.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn output_that_stands_still_holds_up_no_sender() {
    const BATCHES: usize = 500;
    let mut listening = Listening::start();
    let log = LogRecord { event_name: "x".repeat(2000), ..Default::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![log; 2], ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    let request = protobuf("/v1/logs", &ExportLogsServiceRequest { resource_logs }.encode_to_vec());
    for _ in 0..BATCHES {
        let answer = exchange(&listening.endpoint, &request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    // Once the output is read again, each batch is either shown or counted as not shown.
    let (mut shown, mut missed) = (0, 0);
    while shown + missed < BATCHES {
        let line = listening.line_with("── ");
        match line.split_once(" batches with ").filter(|_| line.contains("not shown")) {
            Some((count, rest)) => {
                let count: usize = count.trim_start_matches(['─', ' ']).parse().expect("a count");
                assert!(rest.starts_with(&format!("{} records not shown", 2 * count)), "{line}");
                missed += count;
            }
            None => shown += 1,
        }
    }
    assert_eq!(shown + missed, BATCHES);
    assert!(missed > 0);
}

#[test]
fn output_that_stands_still_does_not_keep_receive_from_ending() {
    let mut listening = Listening::start();
    let log = LogRecord { event_name: "x".repeat(300_000), ..Default::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![log; 2], ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    let request = protobuf("/v1/logs", &ExportLogsServiceRequest { resource_logs }.encode_to_vec());
    let answer = exchange(&listening.endpoint, &request);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    if !listening.interrupt("TERM") {
        return;
    }
    let complaints = listening.complaints.recv_timeout(PATIENCE).expect("it ends");
    let expected = "standpipe: the output was not read in time, and some is missing; --save FILE saves all records\n\
                    received 0 spans, 2 log records and 0 data points in 1 batch\n";
    assert_eq!(complaints, expected);
    assert_eq!(listening.process.wait().expect("it ends").code(), Some(0));
}

#[test]
fn receive_takes_nothing_for_another_host_on_loopback() {
    let listening = Listening::start();
    for (host, status) in [
        ("evil.example", 403),
        ("localhost.evil.example:4318", 403),
        ("192.168.0.1", 403),
        ("localhost:4318", 200),
        ("shop.localhost", 200),
        ("[::1]:4318", 200),
    ] {
        let request = request("POST /v1/traces", host, "application/x-protobuf", b"");
        let answer = exchange(&listening.endpoint, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    let request = protobuf("http://evil.example/v1/traces", b"");
    assert!(exchange(&listening.endpoint, &request).starts_with("HTTP/1.1 403 "));
}

#[test]
fn an_address_open_to_the_network_is_reported() {
    let (_process, lines) = begin(&["--address", "0.0.0.0:0"]);
    let greeting = [(); 3].map(|()| lines.recv_timeout(PATIENCE).expect("a line comes in time"));
    assert!(greeting[0].starts_with("listening on http://127.0.0.1:"), "{greeting:?}");
    assert!(greeting[2].starts_with("open to the network at 0.0.0.0:"), "{greeting:?}");
    assert!(greeting[2].ends_with(": every machine that can reach this one has access"), "{greeting:?}");
}

#[cfg(unix)]
#[test]
fn listens_on_unix_sockets_and_says_which_one_it_cannot_use() {
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let [http, grpc] = ["http.sock", "grpc.sock"].map(|name| scratch.path().join(name).display().to_string());
    let mut listening = Listening::start_with(&["--unix-socket", &http, "--grpc-unix-socket", &grpc]);
    let grpc_endpoint = format!("unix:{grpc}");
    listening.line_with(&format!("unix:{http}  (OTLP over HTTP)"));
    listening.line_with(&format!("{grpc_endpoint}  (OTLP over gRPC)"));
    send(&format!("unix:{http}"), "through-a-socket");
    listening.line_with("through-a-socket");

    let options = ["--address", "127.0.0.1:0", "--grpc-address", "127.0.0.1:0", "--unix-socket"];
    for (path, why) in [
        (http, "in use"),
        (scratch.path().join("no/http.sock").display().to_string(), "No such file"),
        (scratch.write("file", "").display().to_string(), "in use"),
    ] {
        let output = run(&[&["receive"], &options[..], &[&path]].concat());
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        let start = format!("standpipe: cannot listen on Unix socket {path}: ");
        assert!(text.starts_with(&start) && text.contains(why), "{text}");
    }
}
