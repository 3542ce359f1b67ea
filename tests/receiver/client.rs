//! A client that writes arbitrary bytes and reads the answers.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use standpipe::Signal;
use standpipe::receiver::Receiver;

/// Long enough for any machine; a test that needs all of it fails.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Error kind of a timeout.
pub(crate) const WAITED: ErrorKind = if cfg!(windows) { ErrorKind::TimedOut } else { ErrorKind::WouldBlock };

pub(crate) fn assert_reset(error: &io::Error) {
    // Wine, unlike Windows, ends the stream before it resets the connection.
    let is_end_of_wine = cfg!(windows) && error.kind() == ErrorKind::UnexpectedEof;
    assert!(error.kind() == ErrorKind::ConnectionReset || is_end_of_wine, "{error}");
}

pub(crate) struct Client {
    pub(crate) reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(crate) fn connect(receiver: &Receiver) -> Self {
        let stream = TcpStream::connect(receiver.address()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let status_line = self.line()?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| io::Error::other(format!("not a status line: {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut reply = Reply { status, headers, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        reply.body.resize(length, 0);
        self.reader.read_exact(&mut reply.body)?;
        Ok(reply)
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> Reply {
        self.write(request);
        self.reply().unwrap()
    }

    /// Reads everything until the receiver closes the connection.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.reader.read_to_end(&mut rest)?;
        Ok(rest)
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.rest().unwrap().is_empty()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Sends one request on a new connection.
pub(crate) fn ask(receiver: &Receiver, request: &[u8]) -> Reply {
    Client::connect(receiver).ask(request)
}

/// An `ExportTraceServiceRequest` with this many spans, named by their number.
pub(crate) fn traces(spans: usize) -> Vec<u8> {
    let spans = (0..spans)
        .map(|number| Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            name: format!("span {number}"),
            attributes: vec![pair("order.id", "4711")],
            ..Default::default()
        })
        .collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(till()),
            scope_spans: vec![ScopeSpans { scope: Some(shop()), spans, ..Default::default() }],
            ..Default::default()
        }],
    }
    .encode_to_vec()
}

/// An `ExportLogsServiceRequest` with this many log records, whose bodies are their numbers.
pub(crate) fn logs(records: usize) -> Vec<u8> {
    let log_records = (0..records)
        .map(|number| LogRecord {
            body: Some(text(&format!("log {number}"))),
            attributes: vec![pair("order.id", "4711")],
            ..Default::default()
        })
        .collect();
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(till()),
            scope_logs: vec![ScopeLogs { scope: Some(shop()), log_records, ..Default::default() }],
            ..Default::default()
        }],
    }
    .encode_to_vec()
}

/// An `ExportMetricsServiceRequest` with one sum for each element of `points`, which is the sum's number of points. The
/// values of the points count from 0.
pub(crate) fn metrics(points: &[usize]) -> Vec<u8> {
    let sum = |points| Sum {
        data_points: (0..points)
            .map(|number| NumberDataPoint {
                value: Some(number_data_point::Value::AsInt(number as i64)),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let metrics = points
        .iter()
        .enumerate()
        .map(|(number, points)| Metric {
            name: format!("metric {number}"),
            data: Some(metric::Data::Sum(sum(*points))),
            ..Default::default()
        })
        .collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(till()),
            scope_metrics: vec![ScopeMetrics { scope: Some(shop()), metrics, ..Default::default() }],
            ..Default::default()
        }],
    }
    .encode_to_vec()
}

fn text(value: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(value.into())) }
}

fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.into(), value: Some(text(value)), ..Default::default() }
}

fn till() -> Resource {
    Resource { attributes: vec![pair("service.name", "till")], ..Default::default() }
}

fn shop() -> InstrumentationScope {
    InstrumentationScope { name: "shop".into(), ..Default::default() }
}

/// A well-formed request with this body.
pub(crate) fn post(body: &[u8]) -> Vec<u8> {
    post_with("", body)
}

/// A well-formed request of this signal.
pub(crate) fn post_to(signal: Signal, body: &[u8]) -> Vec<u8> {
    request(signal, "", body)
}

pub(crate) fn post_json(signal: Signal, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        signal.path(),
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A well-formed request with additional header lines, each ending in CRLF.
pub(crate) fn post_with(headers: &str, body: &[u8]) -> Vec<u8> {
    request(Signal::Traces, headers, body)
}

fn request(signal: Signal, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n\
         Content-Length: {}\r\n{headers}\r\n",
        signal.path(),
        body.len()
    );
    [head.as_bytes(), body].concat()
}
