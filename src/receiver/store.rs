//! What arrived, counted exactly and kept within a budget.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::record::Signal;

/// A span that was accepted, with where it came from. Clones are cheap.
///
/// Get them from [`Receiver::spans`](super::Receiver::spans) or in a [`Batch`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedSpan {
    /// The span as it was decoded.
    pub span: Arc<Span>,
    /// Its resource, shared with the other spans of the resource; empty if the sender gave none.
    pub resource: Arc<Resource>,
    /// Its instrumentation scope, shared likewise; empty if the sender gave none.
    pub scope: Arc<InstrumentationScope>,
}

impl ReceivedSpan {
    /// The value of the span's attribute `key`.
    pub fn attribute(&self, key: &str) -> Option<&Value> {
        find(&self.span.attributes, key)
    }

    /// The value of the resource's attribute `key`.
    pub fn resource_attribute(&self, key: &str) -> Option<&Value> {
        find(&self.resource.attributes, key)
    }
}

fn find<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()
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
    /// The method, `POST` if all is well.
    pub method: String,
    /// The target as the client wrote it, with the query if there is one.
    pub path: String,
    /// Header names in lower case and their values, in the order they came.
    pub headers: Vec<(String, String)>,
    /// Length of the body as it was sent, before decompression. 0 if the body was not read.
    pub body_bytes: usize,
    /// Whether the body was a valid OTLP message.
    pub decoded: bool,
    /// How many spans were in it.
    pub spans: usize,
    /// The status it was answered with. `None` if it got none (see [`Answer::hang`](super::Answer::hang)).
    pub status: Option<u16>,
    /// When its last byte had been read.
    pub received_at: Instant,
}

impl ReceivedRequest {
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
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &names)
            .field("body_bytes", &self.body_bytes)
            .field("decoded", &self.decoded)
            .field("spans", &self.spans)
            .field("status", &self.status)
            .field("received_at", &self.received_at)
            .finish()
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
    /// All its spans, accepted or not.
    pub spans: Vec<ReceivedSpan>,
    /// How many of them, from the front, are accepted by the answer.
    pub accepted: usize,
}

/// Exact counts, and as much of the content as the budget holds.
#[derive(Debug)]
pub(super) struct Store {
    request_count: u64,
    span_count: u64,
    requests: Kept<ReceivedRequest>,
    spans: Kept<Vec<ReceivedSpan>>,
}

impl Store {
    /// Keeps up to `budget` bytes of requests and as many of spans.
    pub(super) fn new(budget: usize) -> Self {
        Self { request_count: 0, span_count: 0, requests: Kept::new(budget), spans: Kept::new(budget) }
    }

    pub(super) fn add_request(&mut self, request: ReceivedRequest) {
        self.request_count += 1;
        self.requests.push(request.weight(), request);
    }

    /// `weight` is the memory they take.
    pub(super) fn add_spans(&mut self, spans: Vec<ReceivedSpan>, weight: usize) {
        self.span_count += spans.len() as u64;
        if !spans.is_empty() {
            self.spans.push(weight, spans);
        }
    }

    pub(super) fn request_count(&self) -> u64 {
        self.request_count
    }

    pub(super) fn span_count(&self) -> u64 {
        self.span_count
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.iter().cloned().collect()
    }

    pub(super) fn spans(&self) -> Vec<ReceivedSpan> {
        self.spans.iter().flatten().cloned().collect()
    }

    /// Hands out the spans and forgets them and the requests. The counts go on.
    pub(super) fn take(&mut self) -> Vec<ReceivedSpan> {
        self.requests.clear();
        let spans = self.spans();
        self.spans.clear();
        spans
    }
}

/// A first-in-first-out shelf that forgets its oldest when it is over budget.
#[derive(Debug)]
struct Kept<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    budget: usize,
}

impl<T> Kept<T> {
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

    fn span() -> ReceivedSpan {
        ReceivedSpan { span: Arc::default(), resource: Arc::default(), scope: Arc::default() }
    }

    #[test]
    fn counts_stay_exact_when_the_oldest_is_forgotten() {
        let mut store = Store::new(100);
        store.add_spans(vec![span(); 3], 60);
        store.add_spans(vec![span(); 2], 40);
        assert_eq!(store.spans().len(), 5);
        store.add_spans(vec![span()], 1);
        assert_eq!((store.spans().len(), store.span_count()), (3, 6));
        store.add_spans(vec![span()], 101);
        assert_eq!((store.spans().len(), store.span_count()), (0, 7));
    }

    #[test]
    fn nothing_is_kept_without_a_budget() {
        let mut store = Store::new(0);
        store.add_spans(vec![span(); 3], 1);
        assert_eq!((store.spans().len(), store.span_count()), (0, 3));
    }

    #[test]
    fn taking_empties_the_store_and_leaves_the_counts() {
        let mut store = Store::new(100);
        store.add_spans(vec![span(); 3], 60);
        assert_eq!(store.take().len(), 3);
        assert_eq!((store.take().len(), store.span_count()), (0, 3));
        store.add_spans(vec![span()], 100);
        assert_eq!(store.spans().len(), 1);
    }

    #[test]
    fn debug_shows_no_header_value() {
        let request = ReceivedRequest {
            connection: 1,
            method: "POST".into(),
            path: "/v1/traces".into(),
            headers: vec![("authorization".into(), "hunter2".into())],
            body_bytes: 0,
            decoded: true,
            spans: 0,
            status: Some(200),
            received_at: Instant::now(),
        };
        let text = format!("{request:?}");
        assert!(text.contains("authorization") && !text.contains("hunter2"));
        assert_eq!(request.header("Authorization"), Some("hunter2"));
    }
}
