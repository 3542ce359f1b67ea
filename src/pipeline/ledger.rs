//! The ledger: counts every record, by outcome and reason.
//!
//! At every moment accepted + recovered = delivered + rejected + dropped + superseded + spooled + in flight. Records
//! that were not enqueued are counted separately. `Telemetry::ledger` reads the counts, and `Config::on_problem`
//! reports losses that are caused by the collector or by the bounds of a queue. [`worker`](crate::pipeline::worker)
//! explains why each record is counted exactly once.
//!
//! To find out why records were lost, look up the counts that are not zero. Paths are below `src/`:
//!
//! | count | counted in | remedy for the user |
//! |---|---|---|
//! | `not_enqueued.queue_full` | `pipeline/queue`: `Queue::enqueue_after_waiting` | a larger queue, `WhenFull::Block`, a longer block timeout, a faster collector. A panicking thread and a thread that exports never wait, and callers stop waiting if the worker thread has not begun to run within 5 s of its start |
//! | `not_enqueued.too_large` | `pipeline/queue`: `Queue::enqueue_if_room`; before the queue `trace`, `logs`, `bridge/opentelemetry`; metrics `worker/periodic_reader` | smaller attributes, lower span and log limits, a larger `batch-bytes`, and a larger `queue-bytes` if that is the smaller of the two |
//! | `not_enqueued.after_shutdown` | `pipeline/queue`: `Queue::enqueue_if_room` and `enqueue_after_waiting` of a closed queue, `exporter_set` in a forked child, `bridge/opentelemetry`; metrics `worker/periodic_reader` | a shutdown after the last record, a longer budget |
//! | `not_enqueued.suppressed` | `pipeline/exporter_set`: `ExporterSet::suppresses_span`, `suppresses_log`; `bridge/opentelemetry` | emit no records in the problem hook |
//! | `not_enqueued.no_worker` | `pipeline/exporter_set`: `ExporterSet::handles_of_child` | let the forked child start threads |
//! | `not_enqueued.panicked` | `trace/detached`, `logs`, for the bridges | correct the `Debug` or `Display` implementation that panics |
//! | `rejected` | `pipeline/worker/attempt`: `Worker::apply_verdict` | read the collector's message in the problem hook |
//! | `dropped.refused` | `pipeline/worker/attempt`: `Worker::apply_verdict` | correct the endpoint or the credentials: the collector refused the request with a status that must not be retried |
//! | `dropped.gave_up` | `pipeline/worker/attempt`: `Worker::apply_verdict`, as `retry::next_step` decides | a reachable collector, a longer `give-up-after` |
//! | `dropped.too_large` | `pipeline/worker/attempt`: `Worker::apply_verdict`, `next_part`; `worker/spooling`: `settle_dropped` | a higher limit of the collector, a larger `batch-bytes`, smaller records |
//! | `dropped.shutdown` | `pipeline/ledger`: `Counters::close` | a reachable collector, a longer budget for the shutdown |
//! | `dropped.expired` | `pipeline/worker/spooling`, `spool/journal` | a reachable collector, a larger `spool-age` |
//! | `dropped.damaged` | `pipeline/worker/spooling`: `Worker::count_damaged` | check the disk. The damaged file is kept as `*.damaged` |
//! | `dropped.worker_panicked` | `pipeline/worker`: `Worker::try_once`, `write_off` | report it: this is a bug |
//! | `filtered` | `pipeline/exporter_set`: `ExporterSet::count_log_filtered`, `enqueue_log`, called by `logs` and the bridges | a lower `level` of the exporter, if the log records are wanted |
//!
//! Superseded data points are not lost: newer points of the same series contain them. `trace/open` counts the spans
//! that have not ended (`open_spans`). The documentation of [`Ledger`] lists the records that, by design, are not
//! counted; `is_recorded` in `trace/builder.rs` decides which spans are sampled. A process that ends without a shutdown
//! loses the records in flight together with their counts: see the guide's chapter on exits.

mod counters;

use std::fmt;
use std::ops::AddAssign;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::record::Signal;
pub(crate) use counters::{Counters, Handover, NotEnqueuedReason, Outcome};

/// The outcome of all records, by exporter.
///
/// Returned by [`Telemetry::shutdown`](crate::Telemetry::shutdown) and, at any time, by
/// [`Telemetry::ledger`](crate::Telemetry::ledger). A record that goes to two exporters is counted for both.
///
/// These are not counted, because they never become records of an exporter:
///
/// - spans that the [sampler](crate::Sampler) did not sample;
/// - events and log records that a filter of `tracing` or `log`, or the level of a bridge, discards before the level
///   of an exporter applies;
/// - records of a signal that no exporter exports;
/// - in a forked child, spans and log records that were open at the fork: the parent counts them;
/// - records that an exporter's thread, or a library that it calls, would emit about the export itself, and records
///   that the OpenTelemetry SDK suppresses on that thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// One entry per exporter, in the order of the configuration. Exporters named `application/…` are last.
    pub exporters: Vec<ExporterLedger>,
    /// Spans that have not ended, so no exporter has them yet. A span that ends after the shutdown is not enqueued.
    pub open_spans: OpenSpans,
}

impl Ledger {
    /// Returns the sum over all exporters and signals.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for exporter in &self.exporters {
            exporter.by_signal().into_iter().for_each(|(_, counts)| total += counts);
        }
        total
    }

    /// Returns the number of records that will never arrive: rejected, dropped or not enqueued.
    pub fn lost(&self) -> u64 {
        self.total().lost()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exporters.is_empty() {
            return f.write_str("no exporters");
        }
        let mut line_break = "";
        for exporter in &self.exporters {
            for (signal, counts) in exporter.by_signal() {
                // Signals without records are not shown. An exporter without any record gets one line, for traces.
                if counts != Counts::default() || (signal == Signal::Traces && exporter.is_unused()) {
                    write!(f, "{line_break}{} {}: {counts}", exporter.name, signal.name())?;
                    line_break = "\n";
                }
            }
        }
        if self.open_spans.count > 0 {
            write!(f, "\n{}", self.open_spans)?;
        }
        Ok(())
    }
}

/// Spans that have started and not ended, of all providers together. Spans that the sampler did not sample are not
/// included. A [`DetachedSpan`](crate::DetachedSpan) is included while the sampling decision about it is still open.
///
/// At the end of a program, these are spans that another thread holds, that are kept in a `static`, or that were
/// leaked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OpenSpans {
    /// Number of open spans.
    pub count: u64,
    /// The 16 most frequent names, each with its number of spans, most frequent first. Names are cut to 32 bytes.
    pub names: Vec<(String, u64)>,
}

impl OpenSpans {
    const MAX_NAMES: usize = 16;

    pub(crate) fn new(names: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut open = Self::default();
        for (name, count) in names {
            open.count += count;
            // `names` is sorted by count, largest first, then by name.
            let is_before = |known: &(String, u64)| (count, &known.0) < (known.1, &name);
            open.names.insert(open.names.partition_point(is_before), (name, count));
            open.names.truncate(Self::MAX_NAMES);
        }
        open
    }
}

impl fmt::Display for OpenSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} still open", self.count, if self.count == 1 { "span" } else { "spans" })?;
        let mut before = ": ";
        for (name, count) in &self.names {
            write!(f, "{before}{}", name.escape_debug())?;
            if *count > 1 {
                write!(f, " ({count} times)")?;
            }
            before = ", ";
        }
        let others = self.count - self.names.iter().map(|(_, count)| count).sum::<u64>();
        if others > 0 {
            write!(f, " and {others} with other names")?;
        }
        Ok(())
    }
}

/// One exporter's part of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExporterLedger {
    /// The exporter's name, as in the configuration, in problems and in metrics. Names of the application's provider
    /// begin with `application/`.
    pub name: String,
    /// Counts of spans.
    pub traces: Counts,
    /// Counts of log records.
    pub logs: Counts,
    /// Counts of metric data points.
    pub metrics: Counts,
    /// Number of requests that were attempted, including retries.
    pub attempts: u64,
}

impl ExporterLedger {
    /// Returns the counts of each signal.
    pub fn by_signal(&self) -> [(Signal, Counts); 3] {
        Signal::ALL.map(|signal| (signal, self.of(signal)))
    }

    /// Returns the counts of one signal.
    pub fn of(&self, signal: Signal) -> Counts {
        match signal {
            Signal::Traces => self.traces,
            Signal::Logs => self.logs,
            Signal::Metrics => self.metrics,
        }
    }

    fn is_unused(&self) -> bool {
        self.by_signal().into_iter().all(|(_, counts)| counts == Counts::default())
    }
}

/// Counts of records. At every moment, accepted + recovered = delivered + rejected + dropped + superseded + spooled +
/// in flight. Without a [spool](crate::Exporter::spool), recovered and spooled are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Records that were enqueued.
    pub accepted: u64,
    /// Records that an earlier process left on disk, and that this process has taken over.
    pub recovered: u64,
    /// Records that the collector has confirmed.
    pub delivered: u64,
    /// Records that the collector rejected, while it accepted the rest of their batch (partial success).
    pub rejected: u64,
    /// Records that were accepted, but lost afterwards.
    pub dropped: Dropped,
    /// Data points that were replaced by newer ones of the same series before they could be delivered. Only
    /// cumulative metrics of [`Meter`](crate::Meter)s can be superseded, and no measurement is lost.
    pub superseded: u64,
    /// Records that are kept on disk, to be delivered later by this process or the next one.
    pub spooled: u64,
    /// Records that are queued or being sent.
    pub in_flight: u64,
    /// Records that were never accepted.
    pub not_enqueued: NotEnqueued,
    /// Log records below the exporter's [level](crate::Exporter::level), which do not count as lost. Records that are
    /// filtered earlier are not counted: the bridges of [`log`](crate::bridge::log#filters) and
    /// [`tracing`](crate::bridge::tracing#filters) document where that happens.
    pub filtered: u64,
}

impl Counts {
    /// Returns the number of records that will never arrive: rejected, dropped or not enqueued.
    pub fn lost(&self) -> u64 {
        self.rejected + self.dropped.total() + self.not_enqueued.total()
    }

    /// Returns the number of records that have an outcome, final or spooled.
    fn settled(&self) -> u64 {
        self.delivered + self.rejected + self.dropped.total() + self.superseded + self.spooled
    }
}

/// The name under which a count is shown, and the function that returns its field.
type NamedCount = (&'static str, fn(&mut Counts) -> &mut u64);

/// Every count, in the order in which they are shown. The first two are shown even if they are 0.
const COUNTS: [NamedCount; 21] = [
    ("accepted", |counts| &mut counts.accepted),
    ("delivered", |counts| &mut counts.delivered),
    ("recovered", |counts| &mut counts.recovered),
    ("rejected", |counts| &mut counts.rejected),
    ("dropped: refused", |counts| &mut counts.dropped.refused),
    ("dropped: gave up", |counts| &mut counts.dropped.gave_up),
    ("dropped: too large", |counts| &mut counts.dropped.too_large),
    ("dropped: shutdown", |counts| &mut counts.dropped.shutdown),
    ("dropped: worker panicked", |counts| &mut counts.dropped.worker_panicked),
    ("dropped: expired", |counts| &mut counts.dropped.expired),
    ("dropped: damaged", |counts| &mut counts.dropped.damaged),
    ("superseded", |counts| &mut counts.superseded),
    ("spooled", |counts| &mut counts.spooled),
    ("in flight", |counts| &mut counts.in_flight),
    ("not enqueued: queue full", |counts| &mut counts.not_enqueued.queue_full),
    ("not enqueued: too large", |counts| &mut counts.not_enqueued.too_large),
    ("not enqueued: after shutdown", |counts| &mut counts.not_enqueued.after_shutdown),
    ("not enqueued: suppressed", |counts| &mut counts.not_enqueued.suppressed),
    ("not enqueued: no worker", |counts| &mut counts.not_enqueued.no_worker),
    ("not enqueued: panicked", |counts| &mut counts.not_enqueued.panicked),
    ("filtered by level", |counts| &mut counts.filtered),
];

impl AddAssign for Counts {
    fn add_assign(&mut self, mut other: Self) {
        COUNTS.iter().for_each(|(_, count)| *count(self) += *count(&mut other));
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} accepted, {} delivered", self.accepted, self.delivered)?;
        let mut counts = *self;
        for (name, count) in &COUNTS[2..] {
            match count(&mut counts) {
                0 => {}
                count => write!(f, ", {count} {name}")?,
            }
        }
        Ok(())
    }
}

/// Accepted records that were lost, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Dropped {
    /// The collector refused the batch with a status that must not be retried.
    pub refused: u64,
    /// The batch could not be delivered within [`give_up_after`](crate::Exporter::give_up_after).
    pub gave_up: u64,
    /// Too large for the collector even alone in a request, or larger than
    /// [`batch_bytes`](crate::Exporter::batch_bytes) together with their resource and scope.
    pub too_large: u64,
    /// Not delivered before the end of the shutdown, which ends early if the collector cannot be reached.
    pub shutdown: u64,
    /// Lost because the worker panicked while it handled them.
    pub worker_panicked: u64,
    /// Kept on disk for longer than [`spool_age`](crate::Exporter::spool_age).
    pub expired: u64,
    /// Kept on disk, and found damaged there.
    pub damaged: u64,
}

impl Dropped {
    /// Returns the sum over all reasons.
    pub fn total(&self) -> u64 {
        let Self { refused, gave_up, too_large, shutdown, worker_panicked, expired, damaged } = self;
        refused + gave_up + too_large + shutdown + worker_panicked + expired + damaged
    }
}

/// Records that were never accepted, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NotEnqueued {
    /// The queue was full, and the caller did not wait, or gave up waiting.
    pub queue_full: u64,
    /// Larger than the maximum size of a request or of the queue.
    pub too_large: u64,
    /// Emitted after the shutdown, collected too late to be sent in the shutdown, or exported by the OpenTelemetry SDK
    /// after the bridge's exporter was shut down.
    pub after_shutdown: u64,
    /// Emitted on the thread of an exporter of the same telemetry, for example in a
    /// [hook](crate::Config::on_problem).
    pub suppressed: u64,
    /// Emitted in a forked child that could not start the exporter's thread.
    pub no_worker: u64,
    /// Never finished, because code of the program panicked while a bridge formatted a value.
    pub panicked: u64,
}

impl NotEnqueued {
    /// Returns the sum over all reasons.
    pub fn total(&self) -> u64 {
        let Self { queue_full, too_large, after_shutdown, suppressed, no_worker, panicked } = self;
        queue_full + too_large + after_shutdown + suppressed + no_worker + panicked
    }
}

/// Serializes structs with all their fields. The destructuring does not compile if a field is missing from the list.
macro_rules! serialize {
    ($($name:ident { $($field:ident),* })*) => {
        $(
            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let Self { $($field),* } = self;
                    let count = [$(stringify!($field)),*].len();
                    let mut fields = serializer.serialize_struct(stringify!($name), count)?;
                    $(fields.serialize_field(stringify!($field), $field)?;)*
                    fields.end()
                }
            }
        )*
    };
}

serialize! {
    Ledger { exporters, open_spans }
    OpenSpans { count, names }
    ExporterLedger { name, traces, logs, metrics, attempts }
    Counts { accepted, recovered, delivered, rejected, dropped, superseded, spooled, in_flight, not_enqueued, filtered }
    Dropped { refused, gave_up, too_large, shutdown, worker_panicked, expired, damaged }
    NotEnqueued { queue_full, too_large, after_shutdown, suppressed, no_worker, panicked }
}

#[cfg(test)]
mod tests;
