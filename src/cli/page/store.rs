//! Records of the page: the newest traces, log records, series and refused requests, within a memory limit.
//!
//! Traces get five eighths of the limit, log records two eighths, and series one eighth. If the traces exceed their
//! share, the service whose traces take the most memory loses its oldest trace, so that a noisy service does not evict
//! the traces of other services.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::receiver::{Batch, ReceivedLog, ReceivedSpan, Records, RefusedRequest};

use super::super::describe::{self, SpanView};
use super::super::series::SeriesStore;
use super::super::text::brief;

/// Maximum number of points of a series: ten minutes of one point per second.
const MAX_POINTS: usize = 600;
/// Maximum number of listed refusals.
const MAX_REFUSALS: usize = 200;
/// Maximum number of distinct services. It bounds the memory if a sender invents names.
const MAX_SERVICES: usize = 1000;
/// Estimated memory of a trace without its spans.
const TRACE_BYTES: usize = 256;

/// Kept records, and the counts of all received records.
#[derive(Default)]
pub(crate) struct Store {
    /// Maximum memory in bytes.
    pub(crate) limit: usize,
    /// Incremented with each change.
    pub(crate) version: u64,
    /// Traces are shared with readers (copy on write), so that a search does not hold the lock and delay senders.
    pub(crate) traces: HashMap<TraceKey, Arc<Trace>>,
    /// Traces of each service in the order of their arrival, and their memory.
    by_service: HashMap<u32, OfService>,
    trace_bytes: usize,
    pub(crate) logs: VecDeque<Arc<KeptLog>>,
    log_bytes: usize,
    pub(crate) series: SeriesStore,
    pub(crate) refusals: VecDeque<Refusal>,
    pub(crate) counts: Counts,
    /// Names of services in the order of their arrival. The index is the number of the service, which selects its color
    /// in all tabs.
    pub(crate) services: Vec<String>,
    service_numbers: HashMap<String, u32>,
}

/// Numbers of all received records and requests.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) traces: u64,
    pub(crate) spans: u64,
    pub(crate) logs: u64,
    pub(crate) points: u64,
}

/// A trace id. An id of a wrong length, from a faulty sender, is cut or padded with zeros.
pub(crate) type TraceKey = [u8; 16];

/// Spans of a trace, and the values that a list shows.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    pub(crate) key: TraceKey,
    /// Spans in the order of their arrival, so that their indices do not change.
    pub(crate) spans: Vec<ReceivedSpan>,
    /// Service of the first span, to which the memory of the trace is attributed.
    owner: u32,
    /// Version of the store when the first span arrived. `changed` is the version at the last change.
    pub(super) added: u64,
    pub(crate) changed: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) errors: u32,
    /// Index of the earliest span without a parent.
    pub(crate) root: Option<usize>,
    /// For each service, in the order of arrival: its number (an index into [`Store::services`]) and the count of its
    /// spans.
    pub(crate) services: Vec<(u32, u32)>,
    /// Number of spans that were not kept, because the trace alone has reached half of the store's limit.
    pub(crate) left_out: u64,
    bytes: usize,
}

#[derive(Default)]
struct OfService {
    traces: VecDeque<TraceKey>,
    bytes: usize,
}

pub(crate) struct KeptLog {
    /// Number of log records that arrived before this one. It identifies the record.
    pub(crate) number: u64,
    pub(crate) service: u32,
    pub(crate) log: ReceivedLog,
    bytes: usize,
}

impl KeptLog {
    pub(crate) fn trace(&self) -> Option<TraceKey> {
        let id = &self.log.log.trace_id;
        describe::is_id(id).then(|| key_of(id))
    }
}

/// A refused request, in the JSON form for the page's scripts.
#[derive(serde::Serialize)]
pub(crate) struct Refusal {
    /// Milliseconds since 1970.
    pub(crate) at: u128,
    status: u16,
    pub(crate) what: String,
    count: u64,
}

impl Store {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, series: SeriesStore::new(MAX_POINTS, limit / 8), ..Self::default() }
    }

    pub(crate) fn add(&mut self, batch: &Batch) {
        // In a partial success, the accepted records come first, and the rejected ones follow.
        self.add_records(&batch.records, batch.accepted);
    }

    /// Adds the records of a request: the first `accepted` spans or log records, and all metrics.
    pub(crate) fn add_records(&mut self, records: &Records, accepted: usize) {
        self.version += 1;
        self.counts.requests += 1;
        records.spans.iter().take(accepted).for_each(|span| self.add_span(span));
        records.logs.iter().take(accepted).for_each(|log| self.add_log(log));
        for metric in &records.metrics {
            self.service(metric.service_name());
            self.counts.points += metric.point_count() as u64;
            self.series.add(metric);
        }
        self.evict();
    }

    /// Removes all kept records. Services keep their numbers and, as a consequence, their colors.
    pub(super) fn clear(&mut self) {
        self.version += 1;
        self.traces.clear();
        self.by_service.clear();
        self.logs.clear();
        self.refusals.clear();
        (self.trace_bytes, self.log_bytes, self.counts.refused) = (0, 0, 0);
        self.series = SeriesStore::new(MAX_POINTS, self.limit / 8);
    }

    fn add_span(&mut self, span: &ReceivedSpan) {
        self.counts.spans += 1;
        let service = self.service(span.service_name());
        let key = key_of(&span.span.trace_id);
        let added = self.version;
        let trace = self.traces.entry(key).or_insert_with(|| {
            self.counts.traces += 1;
            self.by_service.entry(service).or_default().traces.push_back(key);
            Arc::new(Trace { added, ..Trace::new(key, service) })
        });
        // Copies the trace if a reader still holds it.
        let trace = Arc::make_mut(trace);
        trace.changed = self.version;
        if trace.bytes > self.limit / 2 {
            trace.left_out += 1;
            return;
        }
        // The bytes of a new trace are not part of the sums yet.
        let before = if trace.spans.is_empty() { 0 } else { trace.bytes };
        trace.add(span, service);
        let bytes = trace.bytes - before;
        self.trace_bytes += bytes;
        self.by_service.entry(trace.owner).or_default().bytes += bytes;
    }

    fn add_log(&mut self, log: &ReceivedLog) {
        let service = self.service(log.service_name());
        let last = self.logs.back().map(|kept| &kept.log);
        let bytes = size_of::<KeptLog>() + log.memory_bytes_after(last);
        let number = self.counts.logs;
        self.logs.push_back(Arc::new(KeptLog { number, service, log: log.clone(), bytes }));
        self.counts.logs += 1;
        self.log_bytes += bytes;
    }

    /// Adds a refusal with its remedy. If a refusal with this text is listed, only updates its count and time.
    pub(crate) fn refuse(&mut self, refused: &RefusedRequest, what: String, at: SystemTime) {
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.version += 1;
        self.counts.refused += 1;
        if let Some(like) = self.refusals.iter_mut().find(|refusal| refusal.what == what) {
            (like.count, like.at) = (like.count + 1, at);
            return;
        }
        self.refusals.push_back(Refusal { at, status: refused.status, what, count: 1 });
        if self.refusals.len() > MAX_REFUSALS {
            self.refusals.pop_front();
        }
    }

    /// Evicts traces and log records beyond their shares of the limit. [`SeriesStore`] evicts series.
    fn evict(&mut self) {
        while self.trace_bytes > self.limit / 8 * 5 {
            let largest = self.by_service.values_mut().max_by_key(|of_service| of_service.bytes);
            let Some(of_service) = largest else { break };
            let Some(key) = of_service.traces.pop_front() else { break };
            let bytes = self.traces.remove(&key).map_or(0, |trace| trace.bytes);
            of_service.bytes -= bytes;
            self.trace_bytes -= bytes;
        }
        while self.log_bytes > self.limit / 8 * 2 {
            let Some(oldest) = self.logs.pop_front() else { break };
            self.log_bytes -= oldest.bytes;
        }
    }

    /// Returns the number of a service, and assigns one if the service is new.
    fn service(&mut self, name: &str) -> u32 {
        let name = brief(name);
        if self.services.len() <= MAX_SERVICES && !self.service_numbers.contains_key(&name) {
            if self.services.len() < MAX_SERVICES {
                self.service_numbers.insert(name.clone(), self.services.len() as u32);
                self.services.push(name.clone());
            } else {
                // This entry stands for all further services. It makes the list too long for any other new entry.
                self.services.push("(more services)".to_owned());
            }
        }
        self.service_number(&name)
    }

    /// Returns the number of a known service. All services beyond the limit share the last number.
    pub(crate) fn service_number(&self, name: &str) -> u32 {
        self.service_numbers.get(name).copied().unwrap_or(MAX_SERVICES as u32)
    }

    pub(crate) fn log(&self, number: u64) -> Option<Arc<KeptLog>> {
        let oldest = self.logs.front()?.number;
        self.logs.get(usize::try_from(number.checked_sub(oldest)?).ok()?).cloned()
    }

    /// Returns the log records of a trace in the order of their arrival.
    pub(crate) fn logs_of(&self, trace: &TraceKey) -> Vec<Arc<KeptLog>> {
        self.logs.iter().filter(|kept| kept.trace() == Some(*trace)).cloned().collect()
    }

    /// Returns the number of log records of each trace.
    pub(crate) fn log_counts(&self) -> HashMap<TraceKey, u32> {
        let mut counts = HashMap::new();
        self.logs.iter().filter_map(|kept| kept.trace()).for_each(|key| *counts.entry(key).or_default() += 1);
        counts
    }

    pub(crate) fn bytes(&self) -> usize {
        self.trace_bytes + self.log_bytes + self.series.bytes
    }
}

impl Trace {
    fn new(key: TraceKey, owner: u32) -> Self {
        Self { key, owner, start: u64::MAX, bytes: TRACE_BYTES, ..Self::default() }
    }

    fn add(&mut self, received: &ReceivedSpan, service: u32) {
        let span = &received.span;
        self.start = self.start.min(span.start_time_unix_nano);
        self.end = self.end.max(span.end_time_unix_nano);
        self.errors += u32::from(is_error(received));
        let is_earlier = |root: usize| span.start_time_unix_nano < self.spans[root].span.start_time_unix_nano;
        if received.parent_id().is_none() && self.root.is_none_or(is_earlier) {
            self.root = Some(self.spans.len());
        }
        match self.services.iter_mut().find(|(number, _)| *number == service) {
            Some((_, spans)) => *spans += 1,
            None => self.services.push((service, 1)),
        }
        // Twice the size, because a `Vec` doubles its capacity when it grows.
        self.bytes += 2 * size_of::<ReceivedSpan>() + received.memory_bytes_after(self.spans.last());
        self.spans.push(received.clone());
    }

    /// Returns the span that represents the trace: the root, or the earliest span if the root is missing.
    pub(crate) fn head(&self) -> &ReceivedSpan {
        let earliest = || self.spans.iter().min_by_key(|received| received.span.start_time_unix_nano);
        // `spans` is never empty, because a trace is created together with its first span.
        self.root.map(|root| &self.spans[root]).or_else(earliest).unwrap_or(&self.spans[0])
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

pub(crate) fn is_error(received: &ReceivedSpan) -> bool {
    SpanView::from(received).error().is_some()
}

pub(crate) fn key_of(id: &[u8]) -> TraceKey {
    let mut key = TraceKey::default();
    let count = id.len().min(key.len());
    key[..count].copy_from_slice(&id[..count]);
    key
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use standpipe::receiver::Receiver;
    use standpipe::{Config, Exporter, Telemetry};

    use super::*;

    /// Returns the batches of a service that sends `traces` traces of two spans each.
    fn batches(service: &str, traces: usize) -> Vec<Batch> {
        let (send, batches) = mpsc::channel();
        let receiver = Receiver::builder().on_batch(move |batch| _ = send.send(batch.clone())).start();
        let receiver = receiver.expect("a free port");
        let exporter = Exporter::http(receiver.endpoint());
        let telemetry = Telemetry::start(Config::new().service_name(service).exporter(exporter));
        let telemetry = telemetry.expect("a valid configuration");
        let tracer = telemetry.tracer("test");
        for _ in 0..traces {
            let _root = tracer.span("root");
            tracer.span("child").end();
            telemetry.logger("test").info("between").emit();
        }
        telemetry.shutdown(Duration::from_secs(10));
        drop(receiver);
        batches.into_iter().collect()
    }

    fn filled(limit: usize, batches: &[Batch]) -> Store {
        let mut store = Store::new(limit);
        batches.iter().for_each(|batch| store.add(batch));
        store
    }

    #[test]
    fn a_trace_is_put_together_from_its_spans() {
        let store = filled(1 << 20, &batches("shop", 2));
        let mut traces = store.traces.values().cloned().collect::<Vec<_>>();
        traces.sort_by_key(|trace| trace.start);
        let summary = |trace: &Trace| (trace.spans.len(), trace.head().span.name.clone(), trace.errors);
        assert_eq!(
            traces.iter().map(|trace| summary(trace)).collect::<Vec<_>>(),
            vec![(2, "root".to_owned(), 0); 2]
        );
        assert_eq!((store.counts.traces, store.counts.spans, store.counts.logs), (2, 4, 2));
        assert!(traces.iter().all(|trace| store.logs_of(&trace.key).len() == 1));
    }

    #[test]
    fn memory_is_bounded_and_a_noisy_service_does_not_push_out_the_others() {
        let quiet = batches("quiet", 1);
        let noisy = batches("noisy", 500);
        let limit = 100_000;
        let mut store = filled(limit, &quiet);
        for _ in 0..20 {
            noisy.iter().for_each(|batch| store.add(batch));
            assert!(store.bytes() <= limit, "{} bytes", store.bytes());
        }
        let kept = store.traces.values().cloned().collect::<Vec<_>>();
        let of_quiet = kept.iter().filter(|trace| trace.head().service_name() == "quiet").count();
        assert!(of_quiet == 1 && kept.len() > 10 && kept.len() < 500, "{of_quiet} of {}", kept.len());
    }

    #[test]
    fn one_trace_cannot_take_all_the_memory() {
        let batches = batches("shop", 1);
        let spans = batches.iter().find(|batch| !batch.spans.is_empty()).expect("a batch with spans");
        let mut store = Store::new(100_000);
        for _ in 0..1000 {
            store.add(spans);
        }
        let trace = store.traces.values().cloned().collect::<Vec<_>>().remove(0);
        assert_eq!(trace.spans.len() as u64 + trace.left_out, 1000 * spans.spans.len() as u64);
        assert!(trace.left_out > 0 && store.bytes() < 62_500, "{} bytes", store.bytes());
    }

    #[test]
    fn a_large_record_counts_for_what_it_takes() {
        let mut batches = batches("shop", 50);
        let of_spans = batches.iter_mut().find(|batch| !batch.spans.is_empty()).expect("a batch with spans");
        let first = of_spans.spans[0].clone();
        let mut large = (*first.span).clone();
        (large.name, large.trace_id) = ("x".repeat(50_000), vec![7; 16]);
        let mut store = Store::new(1 << 20);
        for number in 0..100u8 {
            large.trace_id[0] = number;
            of_spans.records.spans[0].span = Arc::new(large.clone());
            store.add(of_spans);
        }
        let names: usize = store
            .traces
            .values()
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .map(|trace| trace.head().span.name.len())
            .sum();
        assert!(
            names < 1 << 20 && store.bytes() > names,
            "{names} bytes of names, {} counted",
            store.bytes()
        );
    }

    #[test]
    fn made_up_services_take_a_bounded_memory() {
        let mut store = Store::new(1 << 20);
        let numbers: Vec<u32> = (0..MAX_SERVICES + 10)
            .map(|number| store.service(&format!("{number}{}", "x".repeat(10_000))))
            .collect();
        assert_eq!((numbers[5], numbers[MAX_SERVICES + 9]), (5, MAX_SERVICES as u32));
        assert_eq!((store.services.len(), store.service("")), (MAX_SERVICES + 1, MAX_SERVICES as u32));
        let bytes: usize = store.services.iter().map(String::len).sum();
        assert!(bytes < MAX_SERVICES * 600, "{bytes}");
    }

    #[test]
    fn what_a_scope_holds_counts_though_the_resource_is_shared() {
        let text = "x".repeat(10_000);
        let scope =
            format!(r#"{{"scope":{{"name":"{text}"}},"spans":[{{"name":"a"}}],"logRecords":[{{}}]}}"#);
        let scopes = vec![scope; 20].join(",");
        let lines =
            ["Spans", "Logs"].map(|kind| format!(r#"{{"resource{kind}":[{{"scope{kind}":[{scopes}]}}]}}"#));
        let mut store = Store::new(1 << 20);
        for line in lines {
            let records = Records::from_json(line.as_bytes()).expect("it is OTLP");
            records.spans.iter().for_each(|span| store.add_span(span));
            records.logs.iter().for_each(|log| store.add_log(log));
        }
        assert!(store.trace_bytes > 20 * 10_000, "{}", store.trace_bytes);
        assert!(store.log_bytes > 20 * 10_000, "{}", store.log_bytes);
    }
}
