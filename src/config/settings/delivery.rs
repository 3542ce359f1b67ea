//! Settings of queue, batch, throttle, metrics reader and spool: defaults, a row for each setting, and the builder's
//! methods.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::kind::{Field, Kind, Unit, field, word};
use super::{ANY, POSITIVE, RECORDS, SettingRow, SummaryField, VariableNames, setters, settings, table};
use crate::config::validate as rules;
use crate::config::values::{Level, Named, Signals};
use crate::config::{Exporter, Histograms, InstrumentKind, SpoolSync, Temporality, WhenFull};
use crate::record::{Severity, Signal};

/// The default is all severities. Stalwart's files have another default: see `Exporter::of_table`.
impl Default for Level {
    fn default() -> Self {
        Self(Some(Severity::Trace))
    }
}

settings! {
    /// Interval and form of metric exports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    PeriodicReaderSettings {
        pub(crate) interval: Duration = Duration::from_secs(60),
        pub(crate) temporality: Temporality = Temporality::Cumulative,
        pub(crate) histograms: Histograms = Histograms::Explicit,
        pub(crate) cardinality_limit: usize = 2_000,
        /// Limits by kind of instrument, which take precedence over `cardinality_limit`.
        pub(crate) cardinality_limits: [Option<usize>; InstrumentKind::NAMES.len()] = [None; 7],
    }

    /// Timing of sending rounds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    PaceSettings {
        /// Shortest time between the starts of two rounds.
        pub(crate) throttle: Duration = Duration::from_secs(1),
        /// Longest time that an incomplete batch waits for more records. Exporters that are made from environment
        /// variables have OpenTelemetry's scheduled delay as their default: see `config/env/exporters.rs`.
        pub(crate) linger: Duration = Duration::ZERO,
    }

    /// Bounds of the queue of each signal, and the behavior when it is full. Stalwart's files and environment
    /// variables have other defaults for this behavior: see `Exporter::of_table` and `Exporter::of_environment`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    QueueSettings {
        pub(crate) when_full: WhenFull = WhenFull::Block,
        /// Longest wait of a blocked caller; `None` for no limit.
        pub(crate) block_timeout: Option<Duration> = Some(Duration::from_secs(5)),
        pub(crate) records: usize = 32_768,
        pub(crate) bytes: usize = 16 << 20,
    }

    /// Bounds of one request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    BatchSettings {
        pub(crate) records: usize = 8_192,
        /// Size of the uncompressed request body. Collectors refuse more than 4 MiB by default. The margin of 64 KiB
        /// allows for collectors that count differently.
        pub(crate) bytes: usize = (4 << 20) - (64 << 10),
    }
}

/// Largest queue in records. `queue/level.rs` packs the counts of records and bytes into one word, in which the count
/// of records has 24 bits.
pub(crate) const MAX_QUEUE_RECORDS: usize = (1 << 24) - 1;
const RECORD_RANGE: RangeInclusive<u64> = 1..=MAX_QUEUE_RECORDS as u64;
const QUEUE_LIMIT: &str = "the most the queue can count";
/// Range of a queue in bytes. The maximum is far below the largest count that the queue can represent; on 32-bit
/// machines, it is a quarter of the address space.
const QUEUE_BYTES_RANGE: RangeInclusive<u64> = 1 << 10..=if IS_64_BIT { 4 << 30 } else { 1 << 30 };
const QUEUE_BYTES_LIMIT: &str =
    if IS_64_BIT { QUEUE_LIMIT } else { "the most a queue may hold on a 32-bit machine" };
const IS_64_BIT: bool = cfg!(target_pointer_width = "64");

type Amount = Field<Exporter, usize>;

/// Makes the kind of a setting that is a plain number; `most` describes the largest value.
pub(super) const fn number(field: Amount, range: RangeInclusive<u64>, most: &'static str) -> Kind {
    Kind::Number { field, unit: Unit::Records, range, most }
}

/// Makes the kind of a setting that limits a number of bytes; `most` describes the largest value.
pub(super) const fn bytes(field: Amount, range: RangeInclusive<u64>, most: &'static str) -> Kind {
    Kind::Number { field, unit: Unit::Bytes, range, most }
}

table! { DELIVERY from PLAIN:
    /// signals that are sent
    SIGNALS "signals" {
        kind: Kind::Signals,
        advice: "name at least one of traces, logs and metrics",
        is_in_tables: false,
        rule: rules::signals,
    }
    /// lowest severity of log records that are sent; spans are not affected
    LEVEL "level" {
        kind: Kind::Word {
            names: Level::names,
            get: |exporter| exporter.level.shown(),
            set: |exporter, word| Level::parse(word).into_iter().for_each(|level| exporter.level = level),
            variables: &[],
        },
        advice: "write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"",
        variables: VariableNames::OfSignals(["", "OTEL_LOGS_LEVEL", ""]),
        in_summary: Some(SummaryField { name: "level", signals: RECORDS }),
        signals: &[Signal::Logs],
    }
    /// time between two exports of metrics; the first export happens after one interval, the last one at shutdown
    INTERVAL "interval" {
        kind: Kind::Duration { field: field!(reader.interval), range: POSITIVE },
        advice: "write a duration like \"1m\"",
        variables: VariableNames::OfSignals(["", "", "OTEL_METRIC_EXPORT_INTERVAL"]),
        in_tracetest: Some(("metricsReaderInterval", "write a duration like 10s")),
        in_summary: Some(SummaryField { name: "interval_ms", signals: &[Signal::Metrics] }),
        signals: &[Signal::Metrics],
    }
    /// `cumulative`: sums since the start; `delta`: since the last export; `lowmemory`: like `delta`, but values from
    /// callbacks are cumulative
    TEMPORALITY "temporality" {
        kind: word!(Temporality, reader.temporality, &[]),
        advice: "write \"cumulative\", \"delta\" or \"lowmemory\"",
        variables: VariableNames::OfSignals(["", "", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"]),
        signals: &[Signal::Metrics],
    }
    /// `explicit`: fixed bounds; `exponential`: bounds that grow exponentially; bounds set by an instrument take
    /// precedence
    HISTOGRAMS "histograms" {
        kind: word!(Histograms, reader.histograms, &[
            ("explicit_bucket_histogram", "explicit"),
            ("base2_exponential_bucket_histogram", "exponential"),
        ]),
        advice: "write \"explicit\" or \"exponential\"",
        variables: VariableNames::OfSignals(["", "", "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"]),
        signals: &[Signal::Metrics],
    }
    /// maximum number of sets of attributes of each metric; measurements with further sets are aggregated under
    /// `otel.metric.overflow`; limits set by an instrument or a view take precedence
    CARDINALITY_LIMIT "cardinality-limit" {
        kind: number(field!(reader.cardinality_limit), 1..=100_000_000, "the most a metric may have"),
        advice: "write a whole number, without quotes",
        signals: &[Signal::Metrics],
    }
    /// shortest time between the starts of two sending rounds of a signal; a flush, a shutdown, a queue that is three
    /// quarters full and a record that does not fit into the queue start a round earlier
    THROTTLE "throttle" {
        kind: Kind::Duration { field: field!(pace.throttle), range: ANY },
        advice: "write a duration like \"1s\"",
        in_summary: Some(SummaryField { name: "throttle_ms", signals: RECORDS }),
        signals: RECORDS,
    }
    /// longest time that an incomplete batch waits for more records
    LINGER "linger" {
        kind: Kind::Duration { field: field!(pace.linger), range: ANY },
        advice: "write a duration like \"200ms\"",
        variables: VariableNames::OfSignals(["OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", ""]),
        signals: RECORDS,
    }
    /// when the queue is full, `true` drops the new record, and `false` makes the caller wait
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
    /// longest wait of a caller, or `none` for no limit; after one timeout, no caller waits again until something is
    /// delivered
    BLOCK_TIMEOUT "block-timeout" {
        kind: Kind::Limit { field: field!(queue.block_timeout), range: POSITIVE },
        advice: "write a duration like \"5s\", or \"none\"",
        variables: VariableNames::OfSignals(["OTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT", "OTEL_BLRP_BLOCK_ON_QUEUE_FULL_TIMEOUT", ""]),
        signals: RECORDS,
        rule: rules::block_timeout,
    }
    /// maximum number of records in the queue of each signal
    QUEUE_RECORDS "queue-records" {
        kind: number(field!(queue.records), RECORD_RANGE, QUEUE_LIMIT),
        advice: "write a whole number, without quotes",
        variables: VariableNames::OfSignals(["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BLRP_MAX_QUEUE_SIZE", ""]),
    }
    /// maximum number of bytes in the queue of each signal
    QUEUE_BYTES "queue-bytes" {
        kind: bytes(field!(queue.bytes), QUEUE_BYTES_RANGE, QUEUE_BYTES_LIMIT),
        advice: "write a size like \"16 MiB\" or a number of bytes",
    }
    /// maximum number of records in a request
    BATCH_RECORDS "batch-records" {
        // A batch cannot contain more records than the queue.
        kind: number(field!(batch.records), RECORD_RANGE, QUEUE_LIMIT),
        advice: "write a whole number, without quotes",
        variables: VariableNames::OfSignals(["OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", ""]),
    }
    /// maximum number of bytes in a request, before compression
    BATCH_BYTES "batch-bytes" {
        kind: bytes(field!(batch.bytes), 1 << 10..=64 << 20, "the most a request may hold"),
        advice: "write a size like \"4 MiB\" or a number of bytes",
    }
}

setters! {
    /// Sets the time between two exports of metrics; 1 minute unless set, 1 ms to 365 days. The first export happens
    /// after one interval, the last one at shutdown.
    interval(interval: Duration) sets reader.interval of INTERVAL;
    /// Sets the temporality of metrics; [`Cumulative`](Temporality::Cumulative) unless set.
    temporality(temporality: Temporality) sets reader.temporality of TEMPORALITY;
    /// Sets the buckets of histograms that do not define bounds; [`Explicit`](Histograms::Explicit) unless set.
    histograms(histograms: Histograms) sets reader.histograms of HISTOGRAMS;
    /// Limits the number of attribute sets of each metric; 2,000 unless set. Limits of views, instruments and
    /// [kinds](Self::cardinality_limit_of) take precedence.
    cardinality_limit(max: usize) sets reader.cardinality_limit of CARDINALITY_LIMIT;
    /// Sets the shortest time between the starts of two sending rounds of a signal; 1 s unless set, zero for no
    /// throttle.
    throttle(throttle: Duration) sets pace.throttle of THROTTLE;
    /// Sets the longest time that an incomplete batch waits for more records; zero unless set.
    linger(linger: Duration) sets pace.linger of LINGER;
    /// Sets what happens to a new record when the queue is full; the caller waits unless set.
    when_full(when_full: WhenFull) sets queue.when_full of LOSSY;
    /// Limits the queue of each signal in records; 32,768 unless set, at most 16,777,215.
    queue_records(records: usize) sets queue.records of QUEUE_RECORDS;
    /// Limits the queue of each signal in bytes; 16 MiB unless set, 1 KiB to 4 GiB, or 1 GiB on a 32-bit machine. An
    /// exporter of all three signals may use three times as much if no signal can be delivered.
    queue_bytes(bytes: usize) sets queue.bytes of QUEUE_BYTES;
    /// Limits one request in records; 8,192 unless set. A request never contains more records than the queue.
    batch_records(records: usize) sets batch.records of BATCH_RECORDS;
    /// Limits one uncompressed request in bytes; 4032 KiB unless set, 1 KiB to 64 MiB. A request of several records has
    /// a second limit, even without compression: an eighth of the queue's bytes, but at least 32 KiB. The second limit
    /// bounds the memory for the copy that compression makes.
    batch_bytes(bytes: usize) sets batch.bytes of BATCH_BYTES;
}

impl Exporter {
    /// Sets the signals that are sent; all three unless set. An empty list is an error at start.
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

    /// Limits the number of attribute sets of each metric of this kind of instrument, at least 1.
    pub fn cardinality_limit_of(mut self, kind: InstrumentKind, max: usize) -> Self {
        self.reader.cardinality_limits[kind as usize] = Some(max.max(1));
        self
    }

    /// Sets the lowest severity of log records that are sent. All are sent unless set; with `None`, no log record is
    /// sent. Spans are not filtered.
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

    /// Limits how long a caller waits for room in the queue. After this time, the record is dropped and counted. 5 s
    /// unless set, 1 ms to 365 days; with `None`, there is no limit. Has no effect with [`WhenFull::DropNewest`].
    ///
    /// After one timeout, no caller waits again until something is delivered. So an outage delays a program once, not
    /// once per record. Without a limit, an unavailable collector stops the program as soon as the queue is full, so
    /// [`Telemetry::start_manual`](crate::Telemetry::start_manual) refuses `None`.
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
    /// Settings of the disk spool.
    #[derive(Debug, Clone, PartialEq, Eq)]
    SpoolSettings {
        /// Directory of the spool; `None` for no spool.
        pub(crate) directory: Option<PathBuf> = None,
        pub(crate) bytes: usize = 256 << 20,
        pub(crate) age: Option<Duration> = Some(Duration::from_secs(3 * 24 * 3600)),
        pub(crate) sync: SpoolSync = SpoolSync::EverySecond,
        pub(crate) open_spans: bool = false,
        /// True if the exporter only delivers the records of earlier processes, whatever the names of their exporters.
        pub(crate) drains: bool = false,
    }
}

table! { SPOOLING from CONNECTED:
    /// directory that belongs to this user alone, on Linux: accepted records survive the death of the process, and
    /// requests that cannot be delivered wait there; needs the feature `spool`
    SPOOL "spool" {
        kind: Kind::Text {
            set: |exporter, directory, _| exporter.spool.directory = Some(directory.into()),
            show: |exporter| {
                exporter.spool.directory.as_ref().map_or("none".into(), |it| it.display().to_string())
            },
        },
        advice: "write the path of a directory",
        rule: rules::spool,
    }
    /// maximum number of bytes of requests on disk, in equal parts for the signals; further requests wait in the queue
    SPOOL_BYTES "spool-bytes" {
        kind: bytes(field!(spool.bytes), 1 << 20..=MAX_SPOOL_BYTES, "the most a spool may hold"),
        advice: "write a size like \"256 MiB\" or a number of bytes",
        partner: Some(&SPOOL),
    }
    /// longest time that a request waits on disk, or `none` for no limit
    SPOOL_AGE "spool-age" {
        kind: Kind::Limit { field: field!(spool.age), range: POSITIVE },
        advice: "write a duration like \"3d\", or \"none\"",
        partner: Some(&SPOOL),
    }
    /// when requests on disk are synchronized and so survive a power failure: `batch` immediately, `1s` within a
    /// second, `none` when the operating system writes them back
    SPOOL_SYNC "spool-sync" {
        kind: word!(SpoolSync, spool.sync, &[]),
        advice: "write \"batch\", \"1s\" or \"none\"",
        partner: Some(&SPOOL),
    }
    /// whether spans that are open when the process dies are delivered by the next process, marked as interrupted
    SPOOL_OPEN_SPANS "spool-open-spans" {
        kind: Kind::Bool { field: field!(spool.open_spans), variables: &[] },
        advice: "write true or false, without quotes",
        partner: Some(&SPOOL),
    }
}

/// Largest spool. On 32-bit machines, its size must fit into `usize`.
const MAX_SPOOL_BYTES: u64 = if IS_64_BIT { 1 << 40 } else { 2 << 30 };

setters! {
    /// Limits the requests on disk in bytes; 256 MiB unless set, at least 1 MiB. When the limit is reached, further
    /// requests wait in the queue, as without a spool.
    spool_bytes(bytes: usize) sets spool.bytes of SPOOL_BYTES;
    /// Sets when requests on disk are synchronized, after which they survive a power failure; within a second unless
    /// set. They survive the death of the process in any case.
    spool_sync(sync: SpoolSync) sets spool.sync of SPOOL_SYNC;
    /// Sets whether spans that are open when the process dies are delivered by the next process; off unless set. Such a
    /// span has the status `Error` and the attribute `standpipe.interrupted`, and ends at the last known time of the
    /// process. At most 512 open spans are kept, each with its first kilobyte. Each call that changes a span takes
    /// about 70 more instructions.
    spool_open_spans(on: bool) sets spool.open_spans of SPOOL_OPEN_SPANS;
}

impl Exporter {
    /// Keeps records on disk in this directory, so that they survive the process. Needs the `spool` feature, and Linux.
    ///
    /// - The queue is a memory-mapped file: a record whose `end` has returned survives `kill -9`, `abort`, `exit` and
    ///   the OOM killer, and the caller makes no system call. If the file is full, further records are in memory only,
    ///   which is reported.
    /// - A request that cannot be delivered is written to a file and sent when the collector is available again. The
    ///   same happens to requests that remain at the end of a shutdown.
    ///
    /// The next start with the same directory, service name, exporter name and user delivers these records, and so does
    /// `standpipe drain`. The [guide](crate::guide::spool) explains the details.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool.directory = Some(directory.into());
        self.set_in_code(&SPOOL)
    }

    /// Delivers the records that exporters of any name have left in this directory, which must exist, and keeps no
    /// records of this process there. For tools that empty spools, such as `standpipe drain`. A
    /// [flush](crate::Telemetry::flush) waits until all records are delivered. Requests that the server refuses
    /// permanently are dropped and counted, so probe the endpoint first, as `standpipe drain` does. Needs the `spool`
    /// feature, and Linux.
    pub fn drain(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = Some(directory.into());
        self.spool = SpoolSettings { directory, age: None, drains: true, ..SpoolSettings::default() };
        self
    }

    /// Limits how long a request waits on disk. After this time, it is dropped and counted. 3 days unless set; with
    /// `None`, there is no limit.
    pub fn spool_age(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.spool.age = longest.into();
        self.set_in_code(&SPOOL_AGE)
    }
}
