//! Memory of `receive`, as the kernel measures it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;

use super::Listening;
use crate::support::{share_of, size_within};

const MB: u64 = 1_000_000;

/// Returns an export request with `count` spans of two bytes each, which have the largest ratio of decoded to encoded
/// size.
fn empty_spans(count: usize) -> Vec<u8> {
    let within = |field: u8, content: &[u8]| {
        let mut message = vec![field];
        prost::encode_length_delimiter(content.len(), &mut message).expect("a vector has room");
        message.extend_from_slice(content);
        message
    };
    within(0x0a, &within(0x12, &[0x12, 0x00].repeat(count)))
}

fn packed(body: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(body).expect("a vector has room");
    encoder.finish().expect("a vector has room")
}

/// Sends a gzip request. Returns the whole answer.
fn post_packed(endpoint: &str, path: &str, body: &[u8]) -> String {
    let authority = endpoint.strip_prefix("http://").expect("it is plain HTTP");
    let mut socket = TcpStream::connect(authority).expect("it listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body].concat()).expect("it is read");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("it is answered");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the peak memory of the command. The test is skipped if the kernel does not report it.
fn peak(listening: &Listening) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", listening.process.id())).ok();
    let peak = status.as_deref().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()
    });
    if peak.is_none() {
        crate::support::skip("this system has no /proc that says how much memory another process held");
    }
    Some(peak? * 1024)
}

#[test]
fn receive_takes_no_gigabytes_for_kilobytes() {
    let listening = Listening::start();
    let bomb = packed(&empty_spans(size_within(800_000..=2_500_000) as usize), Compression::best());
    assert!(bomb.len() < 5000, "{}", bomb.len());
    let answer = post_packed(&listening.endpoint, "/v1/traces", &bomb);
    let Some(peak) = peak(&listening) else { return };
    assert!(peak < 100 * MB, "{} kB of gzip took {} MB", bomb.len() / 1000, peak / MB);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn receive_builds_no_text_of_a_whole_batch() {
    let mut listening = Listening::start();
    let spans = share_of(100_000) as usize;
    let answer =
        post_packed(&listening.endpoint, "/v1/traces", &packed(&empty_spans(spans), Compression::fast()));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    listening.line_with(&format!("{spans} spans over HTTP"));
    for _ in 0..spans {
        listening.line_with("unspecified");
    }
    let Some(peak) = peak(&listening) else { return };
    assert!(peak < 100 * MB, "{spans} spans took {} MB", peak / MB);
}

#[test]
fn receive_builds_no_text_much_larger_than_a_record() {
    let mut listening = Listening::start();
    // Each byte is escaped to six characters.
    let text = "\x1b".repeat(8_000_000);
    let body = Some(AnyValue { value: Some(any_value::Value::StringValue(text)) });
    let log = LogRecord { event_name: "long".to_owned(), body, ..Default::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![log], ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    let request = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    let answer = post_packed(&listening.endpoint, "/v1/logs", &packed(&request, Compression::fast()));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let line = listening.line_with("long");
    let Some(peak) = peak(&listening) else { return };
    assert!(peak < 60 * MB, "a record of 8 MB took {} MB for a line of {}", peak / MB, line.len());
    assert!(line.contains("\\u{1b}") && line.ends_with("(7934464 characters are not shown)"));
}
