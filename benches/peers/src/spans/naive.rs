//! A simple exporter: prost structs go through a bounded channel to a worker, which encodes and posts them.
//!
//! It has the architecture of standpipe, except that spans are not encoded at the call site.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::thread;
use std::time::SystemTime;

use crossbeam_channel::{Receiver, Sender, bounded};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

use super::ANY_ATTRIBUTES;
use super::contender::{Arrives, Contender, Pipe, Setup, Spans};
use super::task::Task;
use crate::support::Error;
use crate::support::workload::text;

pub(super) const CONTENDER: Contender = Contender {
    name: "naive: prost over crossbeam",
    short: "naive",
    note: "a simple exporter: prost's structs over a bounded channel of 8,192, a worker that encodes up to 512 and \
           posts them with ureq; no retries, no limits, no ledger",
    arrives: Arrives::Everything,
    tasks: &[Task::Send, Task::Hurry, Task::First],
    attributes: ANY_ATTRIBUTES,
    can_compress: false,
    start,
};

const QUEUE: usize = 8_192;
const BATCH: usize = 512;

#[allow(clippy::large_enum_variant, reason = "nearly all messages are spans")]
enum Message {
    Span(Span),
    /// Asks the worker to reply when everything before this message has been sent.
    Flush(Sender<()>),
}

fn start(setup: &Setup) -> Result<Pipe, Error> {
    let (sender, receiver) = bounded(QUEUE);
    let url = format!("{}/v1/traces", setup.endpoint);
    thread::Builder::new().spawn(move || work(&receiver, &url))?;
    let flushed = sender.clone();
    let flush = move || {
        let (done, wait) = bounded(1);
        flushed.send(Message::Flush(done))?;
        Ok(wait.recv()?)
    };
    let traces = Traces { sender, attributes: setup.attributes, is_lossless: setup.is_lossless };
    Ok(Pipe::new(traces, flush.clone(), move |_| flush()))
}

/// Runs the worker until all senders are dropped.
fn work(receiver: &Receiver<Message>, url: &str) {
    let (agent, mut spans) = (ureq::agent(), Vec::with_capacity(BATCH));
    while let Ok(message) = receiver.recv() {
        let asked = match message {
            Message::Span(span) => {
                spans.push(span);
                None
            }
            Message::Flush(done) => Some(done),
        };
        if spans.len() == BATCH || asked.is_some() && !spans.is_empty() {
            // Requests that fail are missing from the collector's count.
            let _ = agent.post(url).content_type("application/x-protobuf").send(&request(&mut spans));
        }
        if let Some(done) = asked {
            let _ = done.send(());
        }
    }
}

fn request(spans: &mut Vec<Span>) -> Vec<u8> {
    let scope = InstrumentationScope { name: text::SCOPE.to_owned(), ..InstrumentationScope::default() };
    let resource = Resource {
        attributes: vec![attribute("service.name", Value::StringValue("bench".to_owned()))],
        ..Resource::default()
    };
    let scope_spans = ScopeSpans {
        scope: Some(scope),
        spans: std::mem::replace(spans, Vec::with_capacity(BATCH)),
        ..ScopeSpans::default()
    };
    let resource_spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

thread_local! {
    /// Trace id and span id of the current span.
    static CURRENT: Cell<([u8; 16], [u8; 8])> = const { Cell::new(([0; 16], [0; 8])) };
    static RANDOM: Cell<u64> = Cell::new(RandomState::new().hash_one(thread::current().id()) | 1);
}

fn random_id() -> [u8; 8] {
    let mut random = RANDOM.get();
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.set(random);
    random.to_be_bytes()
}

#[derive(Clone)]
struct Traces {
    sender: Sender<Message>,
    attributes: u64,
    is_lossless: bool,
}

impl Spans for Traces {
    fn root(&self, within: impl FnOnce()) {
        let mut trace = [0; 16];
        trace[8..].copy_from_slice(&0x4bf9_2f35_77b3_4da6_u64.to_be_bytes());
        CURRENT.set((trace, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()));
        let (root, id) = self.begin(text::ROOT, SpanKind::Server);
        let outer = CURRENT.replace((trace, id));
        within();
        CURRENT.set(outer);
        self.end(root);
    }

    fn child(&self) {
        let (child, _) = self.begin(text::CHILD, SpanKind::Client);
        self.end(child);
    }
}

impl Traces {
    fn begin(&self, name: &str, kind: SpanKind) -> (Span, [u8; 8]) {
        let ((trace, parent), id) = (CURRENT.get(), random_id());
        let span = Span {
            trace_id: trace.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: parent.to_vec(),
            flags: 1,
            name: black_box(name).to_owned(),
            kind: kind.into(),
            start_time_unix_nano: now(),
            attributes: self.attributes(),
            ..Span::default()
        };
        (span, id)
    }

    fn end(&self, mut span: Span) {
        span.end_time_unix_nano = now();
        // Spans that are dropped are missing from the collector's count.
        let _ = match self.is_lossless {
            true => self.sender.send(Message::Span(span)).map_err(drop),
            false => self.sender.try_send(Message::Span(span)).map_err(drop),
        };
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let string =
            |(key, value): (&str, &str)| attribute(key, Value::StringValue(black_box(value).to_owned()));
        let mut all = Vec::with_capacity(self.attributes as usize);
        if self.attributes >= 1 {
            all.push(string(text::ROUTE));
        }
        if self.attributes >= 5 {
            all.push(string(text::HOST));
            all.push(string(text::ZONE));
            all.push(attribute(text::STATUS.0, Value::IntValue(black_box(text::STATUS.1))));
            all.push(attribute(text::CACHED.0, Value::BoolValue(black_box(text::CACHED.1))));
        }
        if self.attributes >= 20 {
            all.extend(text::MORE.map(|key| string((key, text::ROUTE.1))));
        }
        all
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
