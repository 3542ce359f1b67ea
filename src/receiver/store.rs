//! Received telemetry: exact counts, and records and requests kept within a memory limit.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use super::budget::Share;
use super::records::{ReceivedLog, ReceivedMetric, ReceivedSpan, Records};
use crate::record::Signal;

/// Protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// OTLP over HTTP/1.1.
    Http,
    /// OTLP over gRPC.
    Grpc,
}

impl Protocol {
    /// Returns the display name, `HTTP` or `gRPC`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "HTTP",
            Protocol::Grpc => "gRPC",
        }
    }
}

/// A received request, accepted or not.
///
/// Returned by [`Receiver::requests`](super::Receiver::requests), and contained in a [`Batch`]. `Debug` shows only the
/// names of headers, because their values may be secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReceivedRequest {
    /// Number of the connection, from 1. Two requests with the same number shared a connection.
    pub connection: u64,
    /// Protocol of the request.
    pub protocol: Protocol,
    /// HTTP method: `POST`, unless the request was refused.
    pub method: String,
    /// Target as the client wrote it, including a query. An example over gRPC is
    /// `/opentelemetry.proto.collector.trace.v1.TraceService/Export`.
    pub path: String,
    /// Header names in lower case and their values, in the order of arrival. Over gRPC, these are the metadata and the
    /// authority as `host`, without other pseudo-headers.
    pub headers: Vec<(String, String)>,
    /// Length of the body before decompression, over gRPC including the five bytes before the message; 0 if the body
    /// was not read.
    pub body_bytes: usize,
    /// True if the body was a valid OTLP message.
    pub decoded: bool,
    /// Signal of the path; `None` for an unknown path.
    pub signal: Option<Signal>,
    /// Number of spans, log records or data points.
    pub records: usize,
    /// Status of the answer; `None` if no status was sent (see [`Answer::hang`](super::Answer::hang)).
    ///
    /// Over gRPC, this is the HTTP status of the [`Answer`](super::Answer). The client sees 200 and `grpc_status`.
    pub status: Option<u16>,
    /// gRPC code of the answer; `None` over HTTP, and if no code was sent.
    pub grpc_status: Option<u32>,
    /// When the request had been read and decoded, or was refused.
    pub received_at: Instant,
}

impl ReceivedRequest {
    /// Creates the description of a request. The fields about its signal, body and answer are set later.
    pub(super) fn new(
        connection: u64,
        protocol: Protocol,
        method: String,
        path: String,
        headers: Vec<(String, String)>,
    ) -> Self {
        Self {
            connection,
            protocol,
            method,
            path,
            headers,
            body_bytes: 0,
            decoded: false,
            signal: None,
            records: 0,
            status: None,
            grpc_status: None,
            received_at: Instant::now(),
        }
    }

    /// Returns the value of the first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        size_of::<Self>() + self.method.len() + self.path.len() + headers
    }
}

impl fmt::Debug for ReceivedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ReceivedRequest")
            .field("connection", &self.connection)
            .field("protocol", &self.protocol)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &names)
            .field("body_bytes", &self.body_bytes)
            .field("records", &self.records)
            .field("status", &self.status)
            .field("grpc_status", &self.grpc_status)
            .finish_non_exhaustive()
    }
}

/// The content of one decoded request, for [`Builder::on_batch`](super::Builder::on_batch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Batch {
    /// Signal of the records.
    pub signal: Signal,
    /// The request.
    pub request: ReceivedRequest,
    /// All records, accepted or not. The batch derefs to them: `batch.spans`.
    pub records: Records,
    /// Number of records that the answer accepts, which are the first ones. [`Batch::record_count`] returns the number
    /// of all records.
    pub accepted: usize,
    /// Reserved memory, which all clones share and the last one releases.
    pub(super) share: Arc<Share>,
}

impl Batch {
    /// Returns the number of spans, log records or data points.
    pub fn record_count(&self) -> usize {
        self.records.count()
    }

    /// Returns the approximate memory of the batch.
    ///
    /// The memory counts as used as long as the batch or a clone exists: see
    /// [`Builder::max_memory_bytes`](super::Builder::max_memory_bytes).
    pub fn memory_bytes(&self) -> usize {
        self.share.bytes()
    }
}

impl Deref for Batch {
    type Target = Records;

    fn deref(&self) -> &Records {
        &self.records
    }
}

/// Exact counts, and as much of the content as the budget holds.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) request_count: u64,
    pub(super) record_counts: [u64; Signal::COUNT],
    requests: BoundedFifo<ReceivedRequest>,
    records: BoundedFifo<Records>,
}

impl Store {
    /// Creates a store that keeps up to `budget` bytes of requests and as many bytes of records.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            request_count: 0,
            record_counts: [0; Signal::COUNT],
            requests: BoundedFifo::new(budget),
            records: BoundedFifo::new(budget),
        }
    }

    pub(super) fn add_request(&mut self, request: ReceivedRequest) {
        self.request_count += 1;
        self.requests.push(request.weight(), request);
    }

    /// Counts records and keeps them. `weight` is their memory.
    pub(super) fn add_records(&mut self, signal: Signal, records: Records, weight: usize) {
        self.record_counts[signal as usize] += records.count() as u64;
        if !records.is_empty() {
            self.records.push(weight, records);
        }
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.iter().cloned().collect()
    }

    pub(super) fn spans(&self) -> Vec<ReceivedSpan> {
        self.records.iter().flat_map(|records| &records.spans).cloned().collect()
    }

    pub(super) fn logs(&self) -> Vec<ReceivedLog> {
        self.records.iter().flat_map(|records| &records.logs).cloned().collect()
    }

    pub(super) fn metrics(&self) -> Vec<ReceivedMetric> {
        self.records.iter().flat_map(|records| &records.metrics).cloned().collect()
    }

    /// Returns the kept spans and drops everything that was kept. The counts stay.
    pub(super) fn take(&mut self) -> Vec<ReceivedSpan> {
        let spans = self.spans();
        self.requests.clear();
        self.records.clear();
        spans
    }
}

/// A FIFO queue that drops its oldest items when it exceeds its budget.
#[derive(Debug)]
struct BoundedFifo<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    budget: usize,
}

impl<T> BoundedFifo<T> {
    fn new(budget: usize) -> Self {
        Self { items: VecDeque::new(), bytes: 0, budget }
    }

    fn push(&mut self, bytes: usize, item: T) {
        self.items.push_back((bytes, item));
        self.bytes = self.bytes.saturating_add(bytes);
        // An item larger than the budget drops everything, itself included.
        while self.bytes > self.budget {
            let Some((bytes, _)) = self.items.pop_front() else { break };
            self.bytes -= bytes;
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(count: usize) -> Records {
        let span = ReceivedSpan { span: Arc::default(), resource: Arc::default(), scope: Arc::default() };
        Records { spans: vec![span; count], ..Records::default() }
    }

    fn logs(count: usize) -> Records {
        let log = ReceivedLog { log: Arc::default(), resource: Arc::default(), scope: Arc::default() };
        Records { logs: vec![log; count], ..Records::default() }
    }

    #[test]
    fn counts_stay_exact_when_the_oldest_is_forgotten() {
        let mut store = Store::new(100);
        store.add_records(Signal::Traces, spans(3), 60);
        store.add_records(Signal::Logs, logs(2), 40);
        assert_eq!((store.spans().len(), store.logs().len()), (3, 2));
        store.add_records(Signal::Traces, spans(1), 1);
        assert_eq!((store.spans().len(), store.logs().len()), (1, 2));
        store.add_records(Signal::Logs, logs(1), 101);
        assert_eq!((store.spans().len(), store.logs().len()), (0, 0));
        assert_eq!(store.record_counts, [4, 3, 0]);
    }

    #[test]
    fn nothing_is_kept_without_a_budget() {
        let mut store = Store::new(0);
        store.add_records(Signal::Traces, spans(3), 1);
        assert_eq!((store.spans().len(), store.record_counts[0]), (0, 3));
    }

    #[test]
    fn taking_empties_the_store_and_leaves_the_counts() {
        let mut store = Store::new(100);
        store.add_records(Signal::Traces, spans(3), 60);
        store.add_records(Signal::Logs, logs(1), 10);
        assert_eq!(store.take().len(), 3);
        assert_eq!((store.take().len(), store.logs().len()), (0, 0));
        assert_eq!(store.record_counts, [3, 1, 0]);
        store.add_records(Signal::Traces, spans(1), 100);
        assert_eq!(store.spans().len(), 1);
    }

    #[test]
    fn debug_shows_no_header_value() {
        let headers = vec![("authorization".into(), "hunter2".into())];
        let request = ReceivedRequest::new(1, Protocol::Http, "POST".into(), "/v1/traces".into(), headers);
        let text = format!("{request:?}");
        assert!(text.contains("authorization") && !text.contains("hunter2"));
        assert_eq!(request.header("Authorization"), Some("hunter2"));
    }
}
