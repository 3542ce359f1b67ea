//! What arrived, counted exactly and kept within a budget.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use super::budget::Share;
use super::records::{ReceivedLog, ReceivedMetric, ReceivedSpan, Records};
use crate::record::Signal;

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// OTLP over HTTP/1.1.
    Http,
    /// OTLP over gRPC.
    Grpc,
}

impl Protocol {
    /// As people write it: `HTTP` or `gRPC`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "HTTP",
            Protocol::Grpc => "gRPC",
        }
    }
}

/// A request that arrived, whatever became of it.
///
/// Get them from [`Receiver::requests`](super::Receiver::requests) or in a [`Batch`]. `Debug` shows the names of the headers
/// only: their values may be secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReceivedRequest {
    /// The number of the connection it came on, from 1: two requests with the same number shared a connection.
    pub connection: u64,
    /// Over which protocol it came.
    pub protocol: Protocol,
    /// The method, `POST` if all is well.
    pub method: String,
    /// The target as the client wrote it, with the query if there is one; over gRPC,
    /// `/opentelemetry.proto.collector.trace.v1.TraceService/Export` for instance.
    pub path: String,
    /// Header names in lower case and their values, in the order they came. Over gRPC, this is the metadata; of the
    /// pseudo-headers there is only the authority, as `host`.
    pub headers: Vec<(String, String)>,
    /// Length of the body as it was sent, before decompression; over gRPC with the five bytes that stand before the
    /// message. 0 if the body was not read.
    pub body_bytes: usize,
    /// Whether the body was a valid OTLP message.
    pub decoded: bool,
    /// What kind of telemetry goes to its path. `None` for a path that takes none.
    pub signal: Option<Signal>,
    /// How many spans, log records or data points were in it.
    pub records: usize,
    /// The status it was answered with. `None` if it got none (see [`Answer::hang`](super::Answer::hang)).
    ///
    /// Over gRPC this is the HTTP status that the [`Answer`](super::Answer) stands for; what the client sees is 200 and
    /// `grpc_status`.
    pub status: Option<u16>,
    /// The gRPC code it was answered with. `None` over HTTP, and if it got none.
    pub grpc_status: Option<u32>,
    /// When its last byte had been read.
    pub received_at: Instant,
}

impl ReceivedRequest {
    /// Describes a request whose last byte has been read and whose body is still unknown.
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

    /// The value of the first header called `name`, in any case.
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

/// The content of one decoded request, as [`Builder::on_batch`](super::Builder::on_batch) sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Batch {
    /// What kind of telemetry it is.
    pub signal: Signal,
    /// The request it came in.
    pub request: ReceivedRequest,
    /// All its records, accepted or not. The batch derefs to them: `batch.spans`.
    pub records: Records,
    /// How many of its records, from the front, are accepted by the answer. See [`Batch::record_count`].
    pub accepted: usize,
    /// The room for it in memory, which all clones share and the last one gives back.
    pub(super) share: Arc<Share>,
}

impl Batch {
    /// How many spans, log records or data points are in it.
    pub fn record_count(&self) -> usize {
        self.records.count()
    }

    /// How many bytes of memory it takes, about.
    ///
    /// As long as it or a clone of it is there, they count as used: see
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
    /// Keeps up to `budget` bytes of requests and as many of records.
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

    /// `weight` is the memory they take.
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

    /// Hands out the spans and forgets everything. The counts go on.
    pub(super) fn take(&mut self) -> Vec<ReceivedSpan> {
        let spans = self.spans();
        self.requests.clear();
        self.records.clear();
        spans
    }
}

/// A first-in-first-out queue that drops its oldest items when it is over budget.
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
