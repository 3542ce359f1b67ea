//! A counting collector for HTTP/1.1 and gRPC on the same port. It counts spans and received bytes.
//!
//! It runs in the process that prints the tables, so that its work is not attributed to a contender.

mod http1;
mod http2;

use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;

use crate::support::sink::count_spans;

/// Collector on a free port of 127.0.0.1. It runs until the process ends.
pub(super) struct Collector {
    address: SocketAddr,
    totals: Arc<Totals>,
}

/// Counts of the requests received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) spans: u64,
    pub(super) bytes: u64,
    /// Complete spans. Of these spans, `with_kind` counts those with a kind, and `with_types` those whose integers and
    /// bools are not text. These three fields change only while the collector inspects every span.
    pub(super) complete: u64,
    pub(super) with_kind: u64,
    pub(super) with_types: u64,
}

/// Counters and settings that all connections share.
#[derive(Default)]
struct Totals {
    spans: AtomicU64,
    bytes: AtomicU64,
    complete: AtomicU64,
    with_kind: AtomicU64,
    with_types: AtomicU64,
    looks_closely: AtomicBool,
    delay_micros: AtomicU64,
}

impl Collector {
    pub(super) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let totals = Arc::new(Totals::default());
        let shared = Arc::clone(&totals);
        thread::Builder::new().spawn(move || {
            for socket in listener.incoming().flatten() {
                let totals = Arc::clone(&shared);
                // Connection errors are ignored: the spans of the connection are missing from the count.
                thread::spawn(move || serve(&socket, &totals));
            }
        })?;
        Ok(Self { address, totals })
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the delay of all responses from now on.
    pub(super) fn take_time(&self, delay: Duration) {
        self.totals.delay_micros.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// Sets whether every span is decoded and inspected from now on, which is slow.
    pub(super) fn look_closely(&self, closely: bool) {
        self.totals.looks_closely.store(closely, Ordering::SeqCst);
    }

    pub(super) fn arrived(&self) -> Arrived {
        let Totals { spans, bytes, complete, with_kind, with_types, .. } = &*self.totals;
        let [spans, bytes, complete, with_kind, with_types] =
            [spans, bytes, complete, with_kind, with_types].map(|counter| counter.load(Ordering::SeqCst));
        Arrived { spans, bytes, complete, with_kind, with_types }
    }
}

impl Arrived {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            spans: self.spans - before.spans,
            bytes: self.bytes - before.bytes,
            complete: self.complete - before.complete,
            with_kind: self.with_kind - before.with_kind,
            with_types: self.with_types - before.with_types,
        }
    }
}

fn serve(socket: &TcpStream, totals: &Totals) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 << 10, Counted { socket, bytes: &totals.bytes });
    match reader.fill_buf()?.starts_with(b"PRI") {
        true => http2::serve(&mut reader, &mut &*socket, |body, is_packed| totals.take(body, is_packed)),
        false => http1::serve(&mut reader, &mut &*socket, |body, is_packed| totals.take(body, is_packed)),
    }
}

/// Reader that counts the received bytes.
struct Counted<'a> {
    socket: &'a TcpStream,
    bytes: &'a AtomicU64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (&mut &*self.socket).read(buffer)?;
        self.bytes.fetch_add(length as u64, Ordering::SeqCst);
        Ok(length)
    }
}

impl Totals {
    /// Counts the spans of a request. The response may be sent when this returns.
    fn take(&self, body: &[u8], is_packed: bool) -> io::Result<()> {
        let mut unpacked = Vec::new();
        let body = match is_packed {
            true => {
                GzDecoder::new(body).read_to_end(&mut unpacked)?;
                &unpacked
            }
            false => body,
        };
        if self.looks_closely.load(Ordering::SeqCst) {
            self.inspect(&ExportTraceServiceRequest::decode(body)?);
        }
        let spans = count_spans(body).ok_or(io::ErrorKind::InvalidData)?;
        self.spans.fetch_add(spans, Ordering::SeqCst);
        match self.delay_micros.load(Ordering::SeqCst) {
            0 => {}
            delay => thread::sleep(Duration::from_micros(delay)),
        }
        Ok(())
    }

    fn inspect(&self, request: &ExportTraceServiceRequest) {
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        for span in scopes.flat_map(|scope| &scope.spans).filter(|span| is_complete(span)) {
            self.complete.fetch_add(1, Ordering::SeqCst);
            if matches!(span.kind(), SpanKind::Server | SpanKind::Client) {
                self.with_kind.fetch_add(1, Ordering::SeqCst);
            }
            if has_types(span) {
                self.with_types.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Returns whether the span has everything that each contender can send.
fn is_complete(span: &Span) -> bool {
    let has_ids = span.trace_id.len() == 16 && span.span_id.len() == 8 && span.parent_span_id.len() == 8;
    let has_times = span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano;
    has_ids && has_times && !span.name.is_empty() && span.attributes.len() >= 5
}

fn has_types(span: &Span) -> bool {
    let has = |is_it: fn(&Value) -> bool| {
        let values = span.attributes.iter().filter_map(|attribute| attribute.value.as_ref()?.value.as_ref());
        values.into_iter().any(is_it)
    };
    has(|value| matches!(value, Value::IntValue(_))) && has(|value| matches!(value, Value::BoolValue(_)))
}
