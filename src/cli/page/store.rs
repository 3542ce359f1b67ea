//! What does the page show? What arrived last, within a bound of memory: whole traces, log records, series of metrics, and the
//! requests that were refused.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use standpipe::receiver::{Batch, ReceivedLog, ReceivedSpan, RefusedRequest};

use super::series::AllSeries;

/// Refusals that are listed.
const MOST_REFUSALS: usize = 200;
/// Services with a number of their own. A sender that makes up names must not fill the memory.
const MOST_SERVICES: usize = 1000;
/// What a trace takes beside its spans.
const TRACE_BYTES: usize = 256;

/// All that is kept, with the counts of what ever came.
pub(super) struct Store {
    /// What all of it may take.
    pub(super) limit: usize,
    /// Rises with each change.
    pub(super) version: u64,
    /// Shared with those who read them, so that a search holds up no sender.
    traces: HashMap<TraceKey, Arc<Trace>>,
    /// The traces of each service in the order of their first span, and what they take: the largest service loses its oldest
    /// first, so that a noisy one does not push out the others.
    by_service: BTreeMap<u32, OfService>,
    trace_bytes: usize,
    logs: VecDeque<Arc<KeptLog>>,
    log_bytes: usize,
    /// How many of the kept log records belong to each trace.
    logs_of_traces: HashMap<TraceKey, u32>,
    pub(super) series: AllSeries,
    pub(super) refusals: VecDeque<Refusal>,
    pub(super) counts: Counts,
    /// The names of services in the order they were seen: their numbers are their colours, in every tab.
    services: Vec<String>,
    service_numbers: HashMap<String, u32>,
}

/// What ever came.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) traces: u64,
    pub(super) spans: u64,
    pub(super) logs: u64,
    pub(super) points: u64,
}

/// A trace id. One of a wrong length, which only a faulty sender makes, is filled up with zeros.
pub(super) type TraceKey = [u8; 16];

/// The spans of a trace, and what a list shows of them.
#[derive(Clone)]
pub(super) struct Trace {
    pub(super) key: TraceKey,
    /// In the order they came: the index of one does not change.
    pub(super) spans: Vec<ReceivedSpan>,
    /// The version of its last change.
    pub(super) changed: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) errors: u32,
    /// The earliest span without a parent.
    pub(super) root: Option<usize>,
    /// In the order seen, with how many spans each has.
    pub(super) services: Vec<(u32, u32)>,
    /// Spans that were not kept, since the trace alone had half of the memory for traces.
    pub(super) left_out: u64,
    bytes: usize,
}

#[derive(Default)]
struct OfService {
    traces: VecDeque<TraceKey>,
    bytes: usize,
}

pub(super) struct KeptLog {
    /// Its place among all that ever came.
    pub(super) number: u64,
    pub(super) service: u32,
    pub(super) log: ReceivedLog,
    bytes: usize,
}

pub(super) struct Refusal {
    pub(super) at: SystemTime,
    pub(super) status: u16,
    pub(super) what: String,
    pub(super) count: u64,
}

impl Store {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            version: 0,
            traces: HashMap::new(),
            by_service: BTreeMap::new(),
            trace_bytes: 0,
            logs: VecDeque::new(),
            log_bytes: 0,
            logs_of_traces: HashMap::new(),
            series: AllSeries::default(),
            refusals: VecDeque::new(),
            counts: Counts::default(),
            services: Vec::new(),
            service_numbers: HashMap::new(),
        }
    }

    pub(super) fn add(&mut self, batch: &Batch) {
        self.version += 1;
        self.counts.requests += 1;
        let bytes = batch.memory_bytes() / batch.record_count().max(1);
        for span in batch.spans.iter().take(batch.accepted) {
            self.add_span(span, bytes);
        }
        for log in batch.logs.iter().take(batch.accepted) {
            self.add_log(log, bytes);
        }
        for metric in &batch.metrics {
            let service = self.service(metric.service_name());
            self.counts.points += metric.point_count() as u64;
            self.series.add(service, metric);
        }
        self.evict();
    }

    fn add_span(&mut self, span: &ReceivedSpan, bytes: usize) {
        self.counts.spans += 1;
        let service = self.service(span.service_name());
        let key = key_of(&span.span.trace_id);
        let bytes = match self.traces.contains_key(&key) {
            true => bytes,
            false => bytes + TRACE_BYTES,
        };
        let trace = self.traces.entry(key).or_insert_with(|| {
            self.counts.traces += 1;
            self.by_service.entry(service).or_default().traces.push_back(key);
            Arc::new(Trace::new(key))
        });
        let trace = Arc::make_mut(trace);
        trace.changed = self.version;
        if trace.bytes > self.limit / 16 * 5 {
            trace.left_out += 1;
            return;
        }
        trace.add(span, service, bytes);
        self.trace_bytes += bytes;
        // a trace counts for the service of its first span
        let owner = trace.services[0].0;
        self.by_service.entry(owner).or_default().bytes += bytes;
    }

    fn add_log(&mut self, log: &ReceivedLog, bytes: usize) {
        let service = self.service(log.service_name());
        if log.trace_id().is_some() {
            *self.logs_of_traces.entry(key_of(&log.log.trace_id)).or_default() += 1;
        }
        let number = self.counts.logs;
        self.logs.push_back(Arc::new(KeptLog { number, service, log: log.clone(), bytes }));
        self.counts.logs += 1;
        self.log_bytes += bytes;
    }

    /// Notes a refusal, with what to do about it. One like the last is only counted.
    pub(super) fn refuse(&mut self, refused: &RefusedRequest, what: String, at: SystemTime) {
        self.version += 1;
        self.counts.refused += 1;
        if let Some(like) = self.refusals.iter_mut().find(|refusal| refusal.what == what) {
            (like.count, like.at) = (like.count + 1, at);
            return;
        }
        self.refusals.push_back(Refusal { at, status: refused.status, what, count: 1 });
        if self.refusals.len() > MOST_REFUSALS {
            self.refusals.pop_front();
        }
    }

    /// Traces may take five eighths of all, log records two and metrics one.
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
            let key = key_of(&oldest.log.log.trace_id);
            if let Some(count) = self.logs_of_traces.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.logs_of_traces.remove(&key);
                }
            }
        }
        self.series.evict(self.limit / 8);
    }

    /// The number of a service, which is new if it was not seen before. The last number is that of all for which there is none.
    fn service(&mut self, name: &str) -> u32 {
        if let Some(number) = self.service_numbers.get(name) {
            return *number;
        }
        let number = self.services.len().min(MOST_SERVICES) as u32;
        match self.services.len() {
            MOST_SERVICES => self.services.push("(more services)".to_owned()),
            count if count < MOST_SERVICES => {
                self.services.push(name.to_owned());
                self.service_numbers.insert(name.to_owned(), number);
            }
            _ => {}
        }
        number
    }

    pub(super) fn services(&self) -> &[String] {
        &self.services
    }

    pub(super) fn log(&self, number: u64) -> Option<Arc<KeptLog>> {
        let oldest = self.logs.front()?.number;
        self.logs.get(usize::try_from(number.checked_sub(oldest)?).ok()?).cloned()
    }

    pub(super) fn trace(&self, key: &TraceKey) -> Option<Arc<Trace>> {
        self.traces.get(key).cloned()
    }

    /// In no order.
    pub(super) fn traces(&self) -> Vec<Arc<Trace>> {
        self.traces.values().cloned().collect()
    }

    /// How many traces are kept.
    pub(super) fn trace_count(&self) -> usize {
        self.traces.len()
    }

    /// In the order they came.
    pub(super) fn logs(&self) -> Vec<Arc<KeptLog>> {
        self.logs.iter().cloned().collect()
    }

    pub(super) fn log_count(&self) -> usize {
        self.logs.len()
    }

    pub(super) fn log_count_of(&self, key: &TraceKey) -> u32 {
        self.logs_of_traces.get(key).copied().unwrap_or(0)
    }

    pub(super) fn bytes(&self) -> usize {
        self.trace_bytes + self.log_bytes + self.series.bytes()
    }
}

impl Trace {
    fn new(key: TraceKey) -> Self {
        Self {
            key,
            spans: Vec::new(),
            changed: 0,
            start: u64::MAX,
            end: 0,
            errors: 0,
            root: None,
            services: Vec::new(),
            left_out: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, received: &ReceivedSpan, service: u32, bytes: usize) {
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
        self.bytes += bytes;
        self.spans.push(received.clone());
    }

    /// The span that stands for it: the root, or the earliest one if that is missing.
    pub(super) fn head(&self) -> &ReceivedSpan {
        let earliest = || self.spans.iter().min_by_key(|span| span.span.start_time_unix_nano);
        match self.root {
            Some(root) => &self.spans[root],
            // a trace is made with its first span
            None => earliest().unwrap_or(&self.spans[0]),
        }
    }

    pub(super) fn nanos(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

pub(super) fn is_error(received: &ReceivedSpan) -> bool {
    matches!(received.status(), Some(standpipe::Status::Error(_)))
}

pub(super) fn key_of(id: &[u8]) -> TraceKey {
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

    /// The batches that a program of this service sends, of as many traces of two spans each.
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
        let mut traces = store.traces();
        traces.sort_by_key(|trace| trace.start);
        let summary = |trace: &Trace| (trace.spans.len(), trace.head().span.name.clone(), trace.errors);
        assert_eq!(
            traces.iter().map(|trace| summary(trace)).collect::<Vec<_>>(),
            vec![(2, "root".to_owned(), 0); 2]
        );
        assert_eq!((store.counts.traces, store.counts.spans, store.counts.logs), (2, 4, 2));
        assert!(traces.iter().all(|trace| store.log_count_of(&trace.key) == 1));
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
        let kept = store.traces();
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
        let trace = store.traces().remove(0);
        assert_eq!(trace.spans.len() as u64 + trace.left_out, 2000);
        assert!(trace.left_out > 0 && store.bytes() < 50_000, "{} bytes", store.bytes());
    }
}
