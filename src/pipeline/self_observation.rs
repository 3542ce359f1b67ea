//! Exports the state of the pipeline as metrics, with the names of OpenTelemetry's semantic conventions for SDK metrics
//! (`otel.sdk.*`).
//!
//! Callbacks read the values from the ledger when the metrics are collected. The worker measures durations, and passes
//! each event to an [`Observer`]. With self-observation, every span starts on the slow path, which counts the span in
//! [`SpanCounts`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::config::provider::ParentOrigin;
use crate::config::{Config, Exporter, ProviderName, Transport};
use crate::metrics::Meter;
use crate::pipeline::exporter_set::{ExporterSet, ProviderSpec};
use crate::pipeline::ledger::{Counts, Handover, Outcome};
use crate::process::PerProcess;
use crate::process::atomic::AtomicU64;
use crate::record::{Signal, Value};
use crate::transport::ResponseStatus;

/// Instrumentation scope of the metrics.
pub(crate) const SCOPE: &str = "standpipe";

/// Receives the events of one exporter's worker.
pub(crate) type Observer = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;

/// The end of an export (all attempts together), or of a collection of metrics.
pub(crate) struct Observed<'a> {
    /// `None` for a collection.
    pub(crate) signal: Option<Signal>,
    pub(crate) time: Duration,
    /// The `error.type`, or `None` after a success.
    pub(crate) failure: Option<&'a str>,
    pub(crate) status: Option<ResponseStatus>,
}

/// Counts of started spans: rows by [`ParentOrigin`], columns by [`SamplingResult`], as in [`ORIGINS`] and [`RESULTS`].
pub(crate) struct SpanCounts(PerProcess<Counters>);

#[derive(Debug, Default)]
struct Counters {
    started: [[AtomicU64; 3]; 3],
    /// Number of record-only spans that have ended.
    ended_record_only: AtomicU64,
}

const ORIGINS: [&str; 3] = ["none", "local", "remote"];
const RESULTS: [&str; 3] = ["DROP", "RECORD_ONLY", "RECORD_AND_SAMPLE"];

/// The sampler's decision about a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SamplingResult {
    #[default]
    Drop,
    RecordOnly,
    RecordAndSample,
}

impl SamplingResult {
    pub(crate) fn of(is_sampled: bool) -> Self {
        if is_sampled { Self::RecordAndSample } else { Self::Drop }
    }
}

impl SpanCounts {
    fn counters(&self) -> &Counters {
        self.0.get_or_renew(Counters::default)
    }

    #[cold]
    pub(crate) fn started(&self, origin: ParentOrigin, result: SamplingResult) {
        self.counters().started[origin as usize][result as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_only_ended(&self) {
        self.counters().ended_record_only.fetch_add(1, Ordering::Relaxed);
    }

    fn live_record_only(&self) -> u64 {
        let ended = self.counters().ended_record_only.load(Ordering::Relaxed);
        let started = |origin: &[AtomicU64; 3]| origin[1].load(Ordering::Relaxed);
        self.counters().started.iter().map(started).sum::<u64>().saturating_sub(ended)
    }
}

/// Prepares exporters to be observed with instruments of this meter, before they are started.
pub(crate) fn prepare(specs: [&mut ProviderSpec; 2], meter: &Meter, config: &Config) {
    let counts = Arc::new(SpanCounts(PerProcess::new(Counters::default())));
    let exporters = in_ledger_order(&config.exporters);
    for spec in specs {
        spec.span_counts = Some(Arc::clone(&counts));
        for spec in &mut spec.exporters {
            let is_it = |exporter: &Exporter| exporter.name() == spec.name;
            let number = exporters.iter().position(is_it);
            spec.observer = number.map(|number| observer(meter, number, exporters[number].clone()));
        }
    }
}

/// Returns the exporters in the order in which the ledger lists them.
fn in_ledger_order(exporters: &[Exporter]) -> Vec<Exporter> {
    let mut exporters = exporters.to_vec();
    exporters.sort_by_key(|exporter| exporter.provider() == Some(ProviderName::Application));
    exporters
}

/// Returns the observer of one exporter, which records durations in histograms.
fn observer(meter: &Meter, number: usize, exporter: Exporter) -> Observer {
    let seconds = |name, description| meter.build(name).unit("s").description(description).bounds(&[]);
    let export = seconds("otel.sdk.exporter.operation.duration", "time to export a batch, with all attempts");
    let collection = seconds("otel.sdk.metric_reader.collection.duration", "time to collect all metrics");
    let (export, collection) = (export.histogram(), collection.histogram());
    Arc::new(move |Observed { signal, time, failure, status }| {
        let mut more: Vec<_> = failure.iter().map(|failure| ("error.type", Value::Str(failure))).collect();
        more.extend(status.as_ref().map(|status| match status {
            ResponseStatus::Http(status) => ("http.response.status_code", Value::Int((*status).into())),
            ResponseStatus::Grpc(name) => ("rpc.status_code", Value::Str(name)),
        }));
        let (histogram, component, signal) = match signal {
            Some(signal) => (&export, Component::Exporter, *signal),
            None => (&collection, Component::Processor, Signal::Metrics),
        };
        component
            .attributes(signal, number, &exporter, &more, |all| histogram.record(time.as_secs_f64(), all));
    })
}

/// Registers the metrics whose values are read from the ledger, and those of [`SpanCounts`]. They do not keep the
/// exporter sets alive. `live` returns the number of open sampled spans.
pub(crate) fn observe(
    exporter_sets: &[Weak<ExporterSet>],
    meter: &Meter,
    config: &Config,
    live: impl Fn() -> u64 + Send + Sync + 'static,
) {
    let exporters = in_ledger_order(&config.exporters).into();
    let watch = Watch { exporter_sets: exporter_sets.into(), exporters };
    let counts = exporter_sets.iter().find_map(|set| set.upgrade()?.spec().span_counts.clone());
    if let Some(counts) = counts {
        observe_spans(meter, counts, live);
    }
    let created = meter.build("otel.sdk.log.created").unit("{log_record}");
    let logs = watch.clone();
    created.description("log records that were emitted").observe_counter(move |observer| {
        observer.observe(logs.created_logs(), ());
    });
    for signal in Signal::ALL {
        let [record, unit] = match signal {
            Signal::Traces => ["span", "{span}"],
            Signal::Logs => ["log", "{log_record}"],
            Signal::Metrics => ["metric_data_point", "{data_point}"],
        };
        let build = |name: &str, description, is_level, component, values: Values| {
            let name = format!("otel.sdk.{}", name.replace('#', record));
            let (watch, builder) = (watch.clone(), meter.build(&name).unit(unit).description(description));
            match is_level {
                true => builder.observe_up_down_counter(move |observer| {
                    watch.observe(signal, component, values, |value, all| observer.observe(int(value), all));
                }),
                false => builder.observe_counter(move |observer| {
                    watch.observe(signal, component, values, |value, all| observer.observe(value, all));
                }),
            };
        };
        build("exporter.#.exported", "records whose export has ended", false, Component::Exporter, exported);
        build(
            "exporter.#.inflight",
            "records in an export",
            true,
            Component::Exporter,
            |_, counts, handover| level(counts.in_flight - queued(counts, handover)),
        );
        // Most data points are collected when they are sent, and do not wait in a queue that could be observed.
        if signal != Signal::Metrics {
            let (queue, description) =
                (Component::Processor, "records that left the queue or did not enter it");
            build("processor.#.processed", description, false, queue, processed);
            build("processor.#.queue.size", "records in the queue", true, queue, |_, counts, handover| {
                level(queued(counts, handover))
            });
            build("processor.#.queue.capacity", "room of the queue", true, queue, |exporter, _, _| {
                level(exporter.queue.records as u64)
            });
        }
    }
}

/// Observes started and open spans.
fn observe_spans(meter: &Meter, counts: Arc<SpanCounts>, live: impl Fn() -> u64 + Send + Sync + 'static) {
    const RESULT: &str = "otel.span.sampling_result";
    let started = Arc::clone(&counts);
    let builder = meter.build("otel.sdk.span.started").unit("{span}");
    builder.description("spans that were started").observe_counter(move |observer| {
        for (origin, row) in ORIGINS.iter().zip(&started.counters().started) {
            for (result, count) in RESULTS.iter().zip(row) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    observer.observe(count, &[("otel.span.parent.origin", *origin), (RESULT, *result)]);
                }
            }
        }
    });
    let builder = meter.build("otel.sdk.span.live").unit("{span}");
    builder.description("recording spans that have not ended").observe_up_down_counter(move |observer| {
        observer.observe(int(live()), &[(RESULT, RESULTS[2])]);
        observer.observe(int(counts.live_record_only()), &[(RESULT, RESULTS[1])]);
    });
}

/// Function that returns the values of a metric, each with its `error.type`. The `error.type` is empty for successes,
/// and for levels such as the length of a queue.
type Values = fn(&Exporter, &Counts, &Handover) -> Vec<(String, u64)>;

fn level(level: u64) -> Vec<(String, u64)> {
    vec![(String::new(), level)]
}

/// Returns the number of queued records: accepted, but not handed over yet. Spooled records are not queued.
fn queued(counts: &Counts, handover: &Handover) -> u64 {
    counts.accepted.saturating_sub(handover.records).min(counts.in_flight)
}

fn exported(_: &Exporter, counts: &Counts, handover: &Handover) -> Vec<(String, u64)> {
    let dropped = counts.dropped;
    let mut values = vec![(String::new(), counts.delivered), ("shutdown".to_owned(), dropped.shutdown)];
    for (outcome, reason, count) in [
        (Outcome::Rejected, "rejected", counts.rejected),
        (Outcome::Refused, "refused", dropped.refused),
        (Outcome::GaveUp, "timeout", dropped.gave_up),
        (Outcome::TooLarge, "too_large", dropped.too_large),
        // Superseded data points are not lost, so their count in the ledger is not a failure. Failed attempts to export
        // them are listed below with their causes.
        (Outcome::Superseded, "superseded", 0),
        (Outcome::WorkerPanicked, "panic", dropped.worker_panicked),
        (Outcome::Expired, "expired", dropped.expired),
        (Outcome::Damaged, "damaged", dropped.damaged),
    ] {
        // The cause of the last attempt is more precise than the ledger's reason, so only records without a cause are
        // counted under the reason.
        let causes = handover.failures.iter().filter(|known| known.0 == outcome);
        let explained: u64 = causes.clone().map(|(_, _, records)| records).sum();
        values.extend(causes.map(|(_, cause, records)| (cause.clone(), *records)));
        values.push((reason.to_owned(), count.saturating_sub(explained)));
    }
    values
}

fn processed(_: &Exporter, counts: &Counts, handover: &Handover) -> Vec<(String, u64)> {
    let not_enqueued = counts.not_enqueued;
    let values = [
        ("", handover.records),
        ("queue_full", not_enqueued.queue_full),
        ("too_large", not_enqueued.too_large),
        ("already_shutdown", not_enqueued.after_shutdown),
        ("suppressed", not_enqueued.suppressed),
        ("no_worker", not_enqueued.no_worker),
        ("panic", not_enqueued.panicked),
    ];
    values.map(|(reason, count)| (reason.to_owned(), count)).to_vec()
}

/// A part of an exporter, as the conventions name it.
#[derive(Clone, Copy)]
enum Component {
    /// The queue of spans or log records, or the reader of metrics.
    Processor,
    Exporter,
}

impl Component {
    /// Calls `take` with one list: the attributes of the component, and `more`. `number` is the exporter's position in
    /// the ledger.
    fn attributes(
        self,
        signal: Signal,
        number: usize,
        exporter: &Exporter,
        more: &[(&str, Value<'_>)],
        take: impl FnOnce(&[(&str, Value<'_>)]),
    ) {
        let record = ["span", "log", "metric"][signal as usize];
        let protocol = match exporter.connection.transport {
            Transport::Http => "otlp_http",
            Transport::HttpJson => "otlp_http_json",
            Transport::Grpc => "otlp_grpc",
            // The conventions have no names for exporters to files and to the console.
            other => other.name(),
        };
        let (kind, server) = match (self, signal) {
            (Self::Exporter, _) => (format!("{protocol}_{record}_exporter"), exporter.connection.server()),
            (Self::Processor, Signal::Metrics) => ("periodic_metric_reader".to_owned(), None),
            (Self::Processor, _) => (format!("batching_{record}_processor"), None),
        };
        let name = format!("{kind}/{number}");
        let mut all =
            vec![("otel.component.name", Value::Str(&name)), ("otel.component.type", Value::Str(&kind))];
        if let Some((address, port)) = &server {
            all.push(("server.address", Value::Str(address)));
            all.extend(port.map(|port| ("server.port", Value::Int(port.into()))));
        }
        all.extend_from_slice(more);
        take(&all);
    }
}

/// The exporters to observe.
#[derive(Clone)]
struct Watch {
    exporter_sets: Arc<[Weak<ExporterSet>]>,
    /// In the order of the ledger.
    exporters: Arc<[Exporter]>,
}

impl Watch {
    /// Returns the number of log records that were emitted. Each exporter that takes logs counts every log record of
    /// its provider, so the largest count among the provider's exporters is the number that the provider emitted.
    fn created_logs(&self) -> u64 {
        let emitted = |logs: Counts| logs.accepted + logs.not_enqueued.total() + logs.filtered;
        let ledgers = self.exporter_sets.iter().filter_map(Weak::upgrade).map(|set| set.ledger());
        ledgers.filter_map(|ledger| ledger.iter().map(|exporter| emitted(exporter.logs)).max()).sum()
    }

    /// Observes the values of all exporters of a signal. Omits each `error.type` whose count is 0.
    fn observe(
        &self,
        signal: Signal,
        component: Component,
        values: Values,
        mut observe: impl FnMut(u64, &[(&str, Value<'_>)]),
    ) {
        for set in self.exporter_sets.iter().filter_map(Weak::upgrade) {
            for handle in set.running() {
                // Read the handover first, so that the ledger counts each record of the handover as accepted.
                let (handover, ledger) = (handle.handover(signal), handle.ledger());
                let is_it =
                    |exporter: &Exporter| exporter.signals.contain(signal) && exporter.name() == ledger.name;
                let Some(number) = self.exporters.iter().position(is_it) else { continue };
                let exporter = &self.exporters[number];
                let mut values = values(exporter, &ledger.of(signal), &handover);
                values.sort();
                // Several outcomes may have the same cause.
                for same in values.chunk_by(|one, other| one.0 == other.0) {
                    let count = same.iter().map(|(_, count)| count).sum();
                    let error = Some(&same[0].0).filter(|error| !error.is_empty());
                    let error = error.map(|error| ("error.type", Value::Str(error)));
                    if count > 0 || error.is_none() {
                        component.attributes(signal, number, exporter, error.as_slice(), |all| {
                            observe(count, all);
                        });
                    }
                }
            }
        }
    }
}

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
