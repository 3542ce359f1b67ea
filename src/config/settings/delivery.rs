//! Settings of queue, batch, throttle, metrics reader and spool with their defaults, a row for each setting, and the builder's
//! methods.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::kind::{Field, Kind, Unit, field, word};
use super::{
    ANY, POSITIVE, RECORDS, SettingRow, SummaryField, TracetestSpelling, VariableNames, setters, settings,
    table,
};
use crate::config::validate as rules;
use crate::config::values::{Level, Named, Signals};
use crate::config::{Exporter, Histograms, SpoolSync, Temporality, WhenFull};
use crate::record::{Severity, Signal};

impl Default for Signals {
    fn default() -> Self {
        Self::ALL
    }
}

/// Every log record passes. Files have another default: see `Exporter::of_table`.
impl Default for Level {
    fn default() -> Self {
        Self(Some(Severity::Trace))
    }
}

settings! {
    /// When metrics are pushed, and in what form.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    PeriodicReaderSettings {
        pub(crate) interval: Duration = Duration::from_secs(60),
        pub(crate) temporality: Temporality = Temporality::Cumulative,
        pub(crate) histograms: Histograms = Histograms::Explicit,
    }

    /// When a round of sending may start.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    PaceSettings {
        /// The shortest time between the starts of two rounds.
        pub(crate) throttle: Duration = Duration::from_secs(1),
        /// How long an incomplete batch may wait for more; exporters of environment variables have OpenTelemetry's scheduled
        /// delay, see `config/env/exporters.rs`.
        pub(crate) linger: Duration = Duration::ZERO,
    }

    /// The bounds of the queue of each signal. What happens when it is full has another default for Stalwart's files and
    /// for environment variables: see `Exporter::of_table` and `Exporter::of_environment`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    QueueSettings {
        pub(crate) when_full: WhenFull = WhenFull::Block,
        /// How long a blocked caller waits at most; `None` = until there is room.
        pub(crate) block_timeout: Option<Duration> = Some(Duration::from_secs(5)),
        pub(crate) records: usize = 32_768,
        pub(crate) bytes: usize = 16 << 20,
    }

    /// How large one request may become.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    BatchSettings {
        pub(crate) records: usize = 8_192,
        /// Of the whole uncompressed request body. Collectors refuse more than 4 MiB by default; the 64 KiB below it are
        /// room for their own counting.
        pub(crate) bytes: usize = (4 << 20) - (64 << 10),
    }
}

/// `queue/level.rs` keeps its two counts in one word, in which records have 24 bits.
pub(crate) const MAX_QUEUE_RECORDS: usize = (1 << 24) - 1;
const RECORD_RANGE: RangeInclusive<u64> = 1..=MAX_QUEUE_RECORDS as u64;
const QUEUE_LIMIT: &str = "the most the queue can count";
/// Far below what the queue can count; and where addresses have 32 bits, a quarter of them.
const QUEUE_BYTES_RANGE: RangeInclusive<u64> = 1 << 10..=if IS_64_BIT { 4 << 30 } else { 1 << 30 };
const QUEUE_BYTES_LIMIT: &str =
    if IS_64_BIT { QUEUE_LIMIT } else { "the most a queue may hold on a 32-bit machine" };
const IS_64_BIT: bool = cfg!(target_pointer_width = "64");

table! { DELIVERY from PLAIN:
    /// what is sent
    SIGNALS "signals" {
        kind: Kind::Signals,
        advice: "name at least one of traces, logs and metrics",
        is_in_tables: false,
        rule: rules::signals,
    }
    /// least severity of logs; spans are not touched by it
    LEVEL "level" {
        kind: Kind::Word {
            names: || Level::NAMES.iter().map(|(name, _)| *name).collect(),
            get: |exporter| exporter.level.shown(),
            set: |exporter, word| Level::parse(word).into_iter().for_each(|level| exporter.level = level),
            variables: &[],
        },
        advice: "write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"",
        variables: VariableNames::OfSignals(["", "OTEL_LOGS_LEVEL", ""]),
        in_summary: Some(SummaryField { name: "level", signals: RECORDS }),
        signals: &[Signal::Logs],
    }
    /// time between two exports of metrics; the first comes after one interval, the last at shutdown
    INTERVAL "interval" {
        kind: Kind::Duration { field: field!(reader.interval), range: POSITIVE },
        advice: "write a duration like \"1m\"",
        variables: VariableNames::OfSignals(["", "", "OTEL_METRIC_EXPORT_INTERVAL"]),
        in_tracetest: Some(TracetestSpelling { key: "metricsReaderInterval", advice: "write a duration like 10s" }),
        in_summary: Some(SummaryField { name: "interval_ms", signals: &[Signal::Metrics] }),
        signals: &[Signal::Metrics],
    }
    /// sums since the start; `delta`: since the last export; `lowmemory`: the same, but what callbacks observe
    /// stays cumulative
    TEMPORALITY "temporality" {
        kind: word!(Temporality, reader.temporality, &[]),
        advice: "write \"cumulative\", \"delta\" or \"lowmemory\"",
        variables: VariableNames::OfSignals(["", "", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"]),
        signals: &[Signal::Metrics],
    }
    /// fixed bounds, or buckets of equal ratio, unless an instrument has bounds of its own
    HISTOGRAMS "histograms" {
        kind: word!(Histograms, reader.histograms, &[
            ("explicit_bucket_histogram", "explicit"),
            ("base2_exponential_bucket_histogram", "exponential"),
        ]),
        advice: "write \"explicit\" or \"exponential\"",
        variables: VariableNames::OfSignals(["", "", "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"]),
        signals: &[Signal::Metrics],
    }
    /// shortest time between the starts of two sending rounds of a signal; flush, shutdown, a queue three quarters
    /// full and a record that finds no room cut it short
    THROTTLE "throttle" {
        kind: Kind::Duration { field: field!(pace.throttle), range: ANY },
        advice: "write a duration like \"1s\"",
        in_summary: Some(SummaryField { name: "throttle_ms", signals: RECORDS }),
        signals: RECORDS,
    }
    /// how long an incomplete batch may wait for more
    LINGER "linger" {
        kind: Kind::Duration { field: field!(pace.linger), range: ANY },
        advice: "write a duration like \"200ms\"",
        variables: VariableNames::OfSignals(["OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", ""]),
        signals: RECORDS,
    }
    /// full queue: `true` drops the new record, `false` makes the caller wait
    LOSSY "lossy" {
        kind: Kind::Bool {
            field: Field {
                get: |exporter| exporter.queue.when_full == WhenFull::DropNewest,
                set: |exporter, is_lossy| {
                    exporter.queue.when_full = if is_lossy { WhenFull::DropNewest } else { WhenFull::Block };
                },
            },
            variables: &[("DROP", true), ("BLOCK", false)],
        },
        advice: "write true or false, without quotes",
        variables: VariableNames::OfSignals(["OTEL_BSP_ON_QUEUE_FULL", "OTEL_BLRP_ON_QUEUE_FULL", ""]),
        in_summary: Some(SummaryField { name: "lossy", signals: &Signal::ALL }),
        signals: RECORDS,
    }
    /// how long a caller waits at most, or `none` for as long as it takes; once a wait has timed out, no caller waits again
    /// until something was delivered
    BLOCK_TIMEOUT "block-timeout" {
        kind: Kind::Limit { field: field!(queue.block_timeout), range: POSITIVE },
        advice: "write a duration like \"5s\", or \"none\"",
        variables: VariableNames::OfSignals(["OTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT", "OTEL_BLRP_BLOCK_ON_QUEUE_FULL_TIMEOUT", ""]),
        signals: RECORDS,
        rule: rules::block_timeout,
    }
    /// most records in the queue of each signal
    QUEUE_RECORDS "queue-records" {
        kind: Kind::Number { field: field!(queue.records), unit: Unit::Records, range: RECORD_RANGE, most: QUEUE_LIMIT },
        advice: "write a whole number, without quotes",
        variables: VariableNames::OfSignals(["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BLRP_MAX_QUEUE_SIZE", ""]),
    }
    /// most bytes in the queue of each signal
    QUEUE_BYTES "queue-bytes" {
        kind: Kind::Number {
            field: field!(queue.bytes),
            unit: Unit::Bytes,
            range: QUEUE_BYTES_RANGE,
            most: QUEUE_BYTES_LIMIT,
        },
        advice: "write a size like \"16 MiB\" or a number of bytes",
    }
    /// most records in a request
    BATCH_RECORDS "batch-records" {
        // no batch can hold more than the queue can
        kind: Kind::Number { field: field!(batch.records), unit: Unit::Records, range: RECORD_RANGE, most: QUEUE_LIMIT },
        advice: "write a whole number, without quotes",
        variables: VariableNames::OfSignals(["OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", ""]),
    }
    /// most bytes in a request, before compression
    BATCH_BYTES "batch-bytes" {
        kind: Kind::Number {
            field: field!(batch.bytes),
            unit: Unit::Bytes,
            range: 1 << 10..=64 << 20,
            most: "the most a request may hold",
        },
        advice: "write a size like \"4 MiB\" or a number of bytes",
    }
}

setters! {
    /// Sets the time between two pushes of metrics; 1 minute unless set, 1 ms to 365 days. The first push comes
    /// after one interval, the last one at shutdown.
    interval(interval: Duration) sets reader.interval of INTERVAL;
    /// Sets over which stretch of time the sums of metrics go; since the start of the program unless set.
    temporality(temporality: Temporality) sets reader.temporality of TEMPORALITY;
    /// Sets how histograms without bounds of their own divide their values; by fixed bounds unless set.
    histograms(histograms: Histograms) sets reader.histograms of HISTOGRAMS;
    /// Sets the shortest time between the starts of two sending rounds of a signal; 1 s unless set, zero for none.
    throttle(throttle: Duration) sets pace.throttle of THROTTLE;
    /// Sets how long an incomplete batch may wait for more records; zero unless set.
    linger(linger: Duration) sets pace.linger of LINGER;
    /// Decides what happens to a record that finds the queue full; the caller waits unless set.
    when_full(when_full: WhenFull) sets queue.when_full of LOSSY;
    /// Bounds the queue of each signal in records; 32,768 unless set, at most 16,777,215.
    queue_records(records: usize) sets queue.records of QUEUE_RECORDS;
    /// Bounds the queue of each signal in bytes; 16 MiB unless set, 1 KiB to 4 GiB, or 1 GiB on a 32-bit machine. An exporter
    /// of all three signals may so hold three times as much, if none of them can be delivered.
    queue_bytes(bytes: usize) sets queue.bytes of QUEUE_BYTES;
    /// Bounds one request in records; 8,192 unless set. A request never has more than the queue holds.
    batch_records(records: usize) sets batch.records of BATCH_RECORDS;
    /// Bounds one uncompressed request in bytes; 4032 KiB unless set, 1 KiB to 64 MiB. A request that
    /// is compressed is a second copy of its records, so several records together take no more than an eighth of the queue's
    /// bytes, but 32 KiB in any case.
    batch_bytes(bytes: usize) sets batch.bytes of BATCH_BYTES;
}

impl Exporter {
    /// Chooses what is sent; all three signals unless set. None at all is an error at start.
    ///
    /// ```
    /// use standpipe::{Exporter, Signal};
    ///
    /// let traces = Exporter::http("http://localhost:4318/v1/traces").signals([Signal::Traces]);
    /// # let _ = traces;
    /// ```
    pub fn signals(mut self, signals: impl IntoIterator<Item = Signal>) -> Self {
        self.signals = Signals::of(&signals.into_iter().collect::<Vec<_>>());
        self.set_in_code(&SIGNALS)
    }

    /// Sets the least severity of the log records that are sent; all are sent unless set, and with `None` none is. Spans
    /// are not filtered.
    ///
    /// ```
    /// use standpipe::{Exporter, Severity};
    ///
    /// let exporter = Exporter::http("http://localhost:4318");
    /// let loud = exporter.clone().level(Severity::Warn);
    /// let silent = exporter.level(None);
    /// # let _ = (loud, silent);
    /// ```
    pub fn level(mut self, least: impl Into<Option<Severity>>) -> Self {
        self.level = Level(least.into());
        self.set_in_code(&LEVEL)
    }

    /// Bounds how long a caller waits for room in the queue, after which the record is dropped and counted; 5 s unless
    /// set, 1 ms to 365 days, and with `None` without limit. Means nothing with [`WhenFull::DropNewest`].
    ///
    /// Once a wait has timed out, no caller waits again until something was delivered: an outage costs a program one such
    /// wait, not one for each record. Without limit a collector that is down stops the program at its full queue, so
    /// [`Telemetry::start_manual`](crate::Telemetry::start_manual) refuses that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::Exporter;
    ///
    /// let service = Exporter::http("http://localhost:4318").block_timeout(Duration::from_millis(100));
    /// let batch_job = Exporter::http("http://localhost:4318").block_timeout(None);
    /// # let _ = (service, batch_job);
    /// ```
    pub fn block_timeout(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.queue.block_timeout = longest.into();
        self.set_in_code(&BLOCK_TIMEOUT)
    }
}

settings! {
    /// What survives the process.
    #[derive(Debug, Clone, PartialEq, Eq)]
    SpoolSettings {
        /// `None`: nothing.
        pub(crate) directory: Option<PathBuf> = None,
        pub(crate) bytes: usize = 256 << 20,
        pub(crate) age: Option<Duration> = Some(Duration::from_secs(3 * 24 * 3600)),
        pub(crate) sync: SpoolSync = SpoolSync::EverySecond,
        pub(crate) open_spans: bool = false,
        /// Whether it only delivers what others have left, of exporters of any name.
        pub(crate) drains: bool = false,
    }
}

table! { SPOOLING from CONNECTED:
    /// a directory of this user alone, on Linux: records that were accepted survive the death of the process, and requests
    /// that cannot be delivered wait there; needs the feature `spool`
    SPOOL "spool" {
        kind: Kind::Text {
            set: |exporter, directory, _| exporter.spool.directory = Some(directory.into()),
            show: |exporter| match &exporter.spool.directory {
                Some(directory) => directory.display().to_string(),
                None => "none".to_owned(),
            },
        },
        advice: "write the path of a directory",
        rule: rules::spool,
    }
    /// most bytes of requests that wait on disk, in equal parts for the signals; what finds no room there waits in the queue
    SPOOL_BYTES "spool-bytes" {
        kind: Kind::Number {
            field: field!(spool.bytes),
            unit: Unit::Bytes,
            range: 1 << 20..=MAX_SPOOL_BYTES,
            most: "the most a spool may hold",
        },
        advice: "write a size like \"256 MiB\" or a number of bytes",
        partner: Some(&SPOOL),
    }
    /// how long a request waits on disk at most, or `none` for as long as it takes
    SPOOL_AGE "spool-age" {
        kind: Kind::Limit { field: field!(spool.age), range: POSITIVE },
        advice: "write a duration like \"3d\", or \"none\"",
        partner: Some(&SPOOL),
    }
    /// when requests on disk are safe from power loss: `batch` once they are written, `1s` a second later, `none` when the
    /// system gets to it
    SPOOL_SYNC "spool-sync" {
        kind: word!(SpoolSync, spool.sync, &[]),
        advice: "write \"batch\", \"1s\" or \"none\"",
        partner: Some(&SPOOL),
    }
    /// whether spans that are open when the process dies are delivered as well, marked as interrupted
    SPOOL_OPEN_SPANS "spool-open-spans" {
        kind: Kind::Bool { field: field!(spool.open_spans), variables: &[] },
        advice: "write true or false, without quotes",
        partner: Some(&SPOOL),
    }
}

/// A number of bytes that every machine can count.
const MAX_SPOOL_BYTES: u64 = if cfg!(target_pointer_width = "64") { 1 << 40 } else { 2 << 30 };

setters! {
    /// Bounds the requests that wait on disk in bytes; 256 MiB unless set, at least 1 MiB. What finds no room there waits in
    /// the queue, as if there were no spool.
    spool_bytes(bytes: usize) sets spool.bytes of SPOOL_BYTES;
    /// Decides when requests on disk are safe from power loss; a second after they were written unless set. The death of the
    /// process they survive in any case.
    spool_sync(sync: SpoolSync) sets spool.sync of SPOOL_SYNC;
    /// Delivers spans that were open when the process died as well; not unless set. Such a span has the status `Error`, the
    /// attribute `standpipe.interrupted`, and ends when the process was last known to live. 512 spans at a time can be kept,
    /// of each the first kilobyte; each call that changes a span costs about 70 instructions more.
    spool_open_spans(on: bool) sets spool.open_spans of SPOOL_OPEN_SPANS;
}

impl Exporter {
    /// Keeps in this directory what would be lost otherwise; needs the `spool` feature, and Linux.
    ///
    /// - The queue lies in a file there, in memory that outlives the process: a record whose `end` has returned survives
    ///   `kill -9`, `abort`, `exit` and the OOM killer, and costs its caller no system call for it. A record that finds no
    ///   room in the file is in memory only, which is reported.
    /// - A request that cannot be delivered is written to a file there, and sent when the collector is back, as is what is
    ///   left at the end of a shutdown.
    ///
    /// The next start with the same directory, exporter's name and user delivers what is there, or `standpipe drain`. The
    /// [guide](crate::guide::spool) has the rest.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool.directory = Some(directory.into());
        self.set_in_code(&SPOOL)
    }

    /// Delivers what exporters of any name have left in this directory, which must exist, and keeps nothing there itself: for a
    /// tool that empties spools, as `standpipe drain` does. A [flush](crate::Telemetry::flush) waits until nothing is left. Needs
    /// the `spool` feature, and Linux.
    pub fn drain(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool = SpoolSettings {
            directory: Some(directory.into()),
            age: None,
            drains: true,
            ..SpoolSettings::default()
        };
        self
    }

    /// Bounds how long a request waits on disk, after which it is dropped and counted; 3 days unless set, and with `None`
    /// without limit.
    pub fn spool_age(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.spool.age = longest.into();
        self.set_in_code(&SPOOL_AGE)
    }
}
