//! The ledger: counts every record, by outcome and reason.
//!
//! At every moment accepted + recovered = delivered + rejected + dropped + superseded + spooled + in flight; records that were
//! not enqueued are counted apart. `Telemetry::ledger` reads the counts, and `Config::on_problem` reports losses that the collector
//! or the bounds of a queue cause. To find why a record was lost, look up the count that is not zero, paths below `src/`:
//!
//! | count | counted in | what the user can do |
//! |---|---|---|
//! | `not_enqueued.queue_full` | `pipeline/queue`: `Queue::enqueue_after_waiting` | a larger queue, `WhenFull::Block`, a longer block timeout; see that the collector keeps up. A panicking thread and a forked child without a running worker never wait |
//! | `not_enqueued.too_large` | `pipeline/queue`: `Queue::enqueue_if_room`; before the queue `trace`, `logs`, `bridge/opentelemetry`; metrics `worker/periodic_reader` | smaller attributes, lower span and log limits, a larger `batch-bytes`, and `queue-bytes` if that is smaller |
//! | `not_enqueued.after_shutdown` | `pipeline/queue`: `Queue::enqueue_if_room` and `enqueue_after_waiting` of a closed queue, `exporter_set` in a child, `bridge/opentelemetry`; metrics `worker/periodic_reader` | shut down after the last record; a longer budget |
//! | `not_enqueued.suppressed` | `pipeline/exporter_set`: `ExporterSet::suppresses_span`, `suppresses_log`; `bridge/opentelemetry` | make no records in the problem hook |
//! | `not_enqueued.no_worker` | `pipeline/exporter_set`: `ExporterSet::handles_of_child` | let the forked child start threads |
//! | `not_enqueued.panicked` | `trace/detached`, `logs`, for the bridges | mend the `Debug` or `Display` that panics |
//! | `rejected` | `pipeline/worker/attempt`: `Worker::apply_verdict` | read the collector's message in the problem hook |
//! | `dropped.refused` | `pipeline/worker/attempt`: `Worker::apply_verdict` | mend endpoint or credentials: the collector refused the request for good |
//! | `dropped.gave_up` | `pipeline/worker/attempt`: `Worker::apply_verdict`, as `retry::next_step` decides | reach the collector; a longer time to give up |
//! | `dropped.too_large` | `pipeline/worker/attempt`: `Worker::apply_verdict`, `next_part`; `worker/spooling`: `settle_dropped` | raise the collector's limit, or smaller records |
//! | `dropped.shutdown` | `pipeline/ledger`: `Counters::close` | a longer budget for the shutdown |
//! | `dropped.expired` | `pipeline/worker/spooling`, `spool/journal` | reach the collector; a larger `spool-bytes` or `spool-age` |
//! | `dropped.damaged` | `pipeline/worker/spooling`: what `Spool::take_damaged` gives | look at the disk; the file is kept as `*.damaged` |
//! | `dropped.worker_panicked` | `pipeline/worker`: `Worker::try_once`, `write_off` | report it: this is a bug |
//! | `filtered` | `pipeline/exporter_set`: `ExporterSet::count_log_filtered`, `enqueue_log`, as `logs` and the bridges ask | a lower `level` of the exporter, if the log records are wanted |
//!
//! Superseded data points are no loss. Spans that have not ended are in `open_spans`, as `trace/open` finds them.
//! Records that are outside of the ledger by design are listed at [`Ledger`]; a span that the sampler leaves out is decided in
//! `trace/builder.rs`, `is_recorded`. A process that ends without a shutdown loses what is in flight, and no ledger with it: see
//! the guide's chapter on exits.

mod counters;

use std::fmt;
use std::ops::AddAssign;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::record::Signal;
pub(crate) use counters::{Counters, NotEnqueuedReason, Outcome};

/// What became of all records, exporter by exporter.
///
/// Returned by [`Telemetry::shutdown`](crate::Telemetry::shutdown) and, at any time, by
/// [`Telemetry::ledger`](crate::Telemetry::ledger). A record that goes to two exporters is counted by both.
///
/// These are outside of it by design, as they are no records of an exporter:
///
/// - spans that the [sampler](crate::Sampler) left out;
/// - what a filter of `tracing` or `log`, or the level of a bridge, kept out before an exporter's level was asked;
/// - records of a signal that no exporter takes;
/// - spans and log records that were open across a fork, in the child: the parent counts them;
/// - what an exporter's thread and the libraries that it calls would log about the sending, and what the OpenTelemetry SDK
///   suppresses there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// One entry for each exporter, in the order of the configuration; those of the application's provider come last.
    pub exporters: Vec<ExporterLedger>,
    /// Spans that have not ended: no exporter has them yet. One that ends after the shutdown is not enqueued.
    pub open_spans: OpenSpans,
}

impl Ledger {
    /// All exporters and signals added up.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for exporter in &self.exporters {
            exporter.by_signal().into_iter().for_each(|(_, counts)| total += counts);
        }
        total
    }

    /// Records that will never arrive: rejected, dropped or not enqueued.
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
                // what was never used is not worth a line, unless there would be none
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

/// Spans that have started and not ended, of all providers: those that the sampler leaves out are not among them, but a
/// [`DetachedSpan`](crate::DetachedSpan) about which it is undecided is.
///
/// At the end of a program they are spans that were held by another thread, kept in a `static`, or leaked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OpenSpans {
    /// How many there are.
    pub count: u64,
    /// Their names and how many spans have each, the most frequent first: up to 16 names, each with its first 32 bytes.
    pub names: Vec<(String, u64)>,
}

impl OpenSpans {
    const MOST_NAMES: usize = 16;

    pub(crate) fn new(names: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut open = Self::default();
        for (name, count) in names {
            open.count += count;
            let is_before = |known: &(String, u64)| (count, &known.0) < (known.1, &name);
            open.names.insert(open.names.partition_point(is_before), (name, count));
            open.names.truncate(Self::MOST_NAMES);
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
            write!(f, " and {others} of other names")?;
        }
        Ok(())
    }
}

/// One exporter's part of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExporterLedger {
    /// The exporter's name, as problems and metrics have it, too: what the configuration calls it, `application/…` on the
    /// application's provider.
    pub name: String,
    /// Its spans.
    pub traces: Counts,
    /// Its log records.
    pub logs: Counts,
    /// Its data points of metrics.
    pub metrics: Counts,
    /// Requests that were attempted, retries included.
    pub attempts: u64,
}

impl ExporterLedger {
    /// The counts of each signal.
    pub fn by_signal(&self) -> [(Signal, Counts); 3] {
        Signal::ALL.map(|signal| (signal, self.of(signal)))
    }

    /// The counts of one signal.
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

/// Counts of records: accepted + recovered = delivered + rejected + dropped + superseded + spooled + in flight, exactly and
/// at every moment. Without a [spool](crate::Exporter::spool) nothing is recovered or spooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Enqueued.
    pub accepted: u64,
    /// Taken over from an earlier process that had left them on disk.
    pub recovered: u64,
    /// Confirmed by the collector.
    pub delivered: u64,
    /// Rejected one by one by a collector that took the rest of their batch.
    pub rejected: u64,
    /// Accepted, but lost afterwards.
    pub dropped: Dropped,
    /// Data points that were not delivered before newer ones of the same series replaced them;
    /// only cumulative metrics of [`Meter`](crate::Meter)s can be superseded, and nothing is lost by it.
    pub superseded: u64,
    /// Kept on disk: delivered later, by this process or the next one.
    pub spooled: u64,
    /// Queued or being sent.
    pub in_flight: u64,
    /// Never accepted.
    pub not_enqueued: NotEnqueued,
    /// Log records below the exporter's [level](crate::Exporter::level), which are no loss. What is filtered before that is
    /// not counted: the bridges of [`log`](crate::bridge::log#filters) and [`tracing`](crate::bridge::tracing#filters) say where
    /// that happens.
    pub filtered: u64,
}

impl Counts {
    /// Records that will never arrive: rejected, dropped or not enqueued.
    pub fn lost(&self) -> u64 {
        self.rejected + self.dropped.total() + self.not_enqueued.total()
    }

    /// Records whose outcome is final: unlike those that are spooled or in flight, they never become fewer.
    pub(crate) fn finished(&self) -> u64 {
        self.delivered + self.rejected + self.dropped.total() + self.superseded
    }

    /// Records that are accounted for.
    fn settled(&self) -> u64 {
        self.finished() + self.spooled
    }
}

/// A count as it is shown, and where it is.
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
    /// The collector refused their batch for good.
    pub refused: u64,
    /// Their batch could not be delivered in its time.
    pub gave_up: u64,
    /// Even alone in a request they were too large for the collector.
    pub too_large: u64,
    /// Still there when the budget of the shutdown was used up.
    pub shutdown: u64,
    /// Being sent by the worker when it panicked.
    pub worker_panicked: u64,
    /// Kept on disk for longer than [`spool_age`](crate::Exporter::spool_age).
    pub expired: u64,
    /// Kept on disk, and no longer readable there.
    pub damaged: u64,
}

impl Dropped {
    /// All reasons added up.
    pub fn total(&self) -> u64 {
        let Self { refused, gave_up, too_large, shutdown, worker_panicked, expired, damaged } = self;
        refused + gave_up + too_large + shutdown + worker_panicked + expired + damaged
    }
}

/// Records that were never accepted, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NotEnqueued {
    /// The queue was full, and the caller did not wait, or waited until the block timeout.
    pub queue_full: u64,
    /// Larger than a request or the queue may be.
    pub too_large: u64,
    /// Emitted after the shutdown, or collected too late for it; exported by the OpenTelemetry SDK after the end of the
    /// bridge's exporter.
    pub after_shutdown: u64,
    /// Made on the thread of an exporter of the same telemetry, as in a [hook](crate::Config::on_problem).
    pub suppressed: u64,
    /// Emitted in a forked child that could not start the exporter's thread.
    pub no_worker: u64,
    /// Never finished, as a value of the program panicked while a bridge read it.
    pub panicked: u64,
}

impl NotEnqueued {
    /// All reasons added up.
    pub fn total(&self) -> u64 {
        let Self { queue_full, too_large, after_shutdown, suppressed, no_worker, panicked } = self;
        queue_full + too_large + after_shutdown + suppressed + no_worker + panicked
    }
}

/// Serializes structs by their fields, all of them.
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
