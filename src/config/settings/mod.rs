//! Which settings does an exporter have? One row each, and below the rows the builder's methods.
//!
//! A new setting is added here and nowhere else: readers, validation, `standpipe check`, messages and the tables of the
//! documentation go through the rows. The settings that are not of one exporter are in [`general`](crate::config::settings::general).

pub(super) mod connection;
pub(super) mod delivery;
pub(super) mod general;
pub(super) mod kind;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::error::Fault;
use crate::config::settings::delivery::parse;
use crate::config::settings::kind::{
    Field, Kind, SettingRow, SummaryField, TracetestSpelling, VariableNames, field, word,
};
use crate::config::text::shown;
use crate::config::validate as rules;
use crate::config::{
    Compression, Exporter, Histograms, Level, Proxy, Secret, Temporality, Transport, WhenFull,
};
use crate::record::Signal;

/// Defines each row by its name, and all of them in the order in which they are read and shown. Its comment is the
/// sentence on it in the tables of the documentation.
macro_rules! rows {
    ($($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $value:expr,)* })*) => {
        $(
            $(#[doc = $doc])+
            pub(in crate::config) static $name: SettingRow = SettingRow {
                $($field: $value,)*
                #[cfg(test)]
                doc: concat!($($doc),+),
                ..SettingRow::PLAIN
            };
        )*
        // the transport comes before the endpoint, whose meaning depends on it
        pub(in crate::config) static SETTINGS: &[&SettingRow] = &[$(&$name),*];
    };
}

rows! {
    /// how requests travel; `disable` for off
    TRANSPORT {
        key: "transport",
        kind: Kind::Word {
            names: || Transport::NAMES.iter().map(|(name, _)| *name).collect(),
            get: |exporter| exporter.connection.transport.name().to_owned(),
            set: |exporter, word| {
                let meaning = parse(&Transport::NAMES, word);
                meaning.inspect(|&transport| exporter.set_transport(transport)).is_some()
            },
            variables: &[("http/protobuf", "http"), ("grpc", "grpc"), ("http/json", "http")],
        },
        advice: "write \"http\", \"grpc\" or \"disable\"",
        variables: VariableNames::exporter("PROTOCOL"),
        in_tracetest: Some(TracetestSpelling { path: &["exporter", "type"], advice: "write type: collector" }),
        rule: rules::transport,
        remark: |word| {
            let what = "http/protobuf is used: this version cannot send JSON";
            (word == "http/json").then(|| Fault::new(what, "write http/protobuf"))
        },
    }
    /// a URL, `host` or `host:port`; without a path, that of each signal is appended, but not for gRPC
    ENDPOINT {
        key: "endpoint",
        kind: Kind::Endpoint,
        advice: "write a URL like \"http://localhost:4318\"",
        variables: VariableNames::exporter("ENDPOINT"),
        in_tracetest: Some(TracetestSpelling {
            path: &["exporter", "collector", "endpoint"],
            advice: "write an address like localhost:4317",
        }),
        needs_connection: true,
        connection_rule: rules::endpoint,
    }
    /// a list of `"Name: value"`, one such string, or a table; values are never shown
    HEADERS {
        key: "headers",
        kind: Kind::Headers,
        advice: "write a list like [\"Name: value\"], one such string, or a table",
        variables: VariableNames::exporter("HEADERS"),
        needs_connection: true,
        connection_rule: rules::head,
    }
    /// what is sent
    SIGNALS {
        key: "signals",
        kind: Kind::Signals,
        advice: "name at least one of traces, logs and metrics",
        is_in_tables: false,
        rule: rules::signals,
    }
    /// least severity of logs; spans are not touched by it
    LEVEL {
        key: "level",
        kind: word!(Level, level, &[]),
        advice: "write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"",
        in_summary: Some(SummaryField { name: "level", signals: RECORDS }),
        signals: &[Signal::Logs],
    }
    /// time between two exports of metrics; the first comes after one interval, the last at shutdown
    INTERVAL {
        key: "interval",
        kind: Kind::Duration { field: field!(reader.interval), range: POSITIVE },
        advice: "write a duration like \"1m\"",
        variables: VariableNames::metrics("OTEL_METRIC_EXPORT_INTERVAL"),
        in_tracetest: Some(TracetestSpelling { path: &["metricsReaderInterval"], advice: "write a duration like 10s" }),
        in_summary: Some(SummaryField { name: "interval_ms", signals: &[Signal::Metrics] }),
        signals: &[Signal::Metrics],
    }
    /// sums since the start; `delta`: since the last export; `lowmemory`: the same, but what callbacks observe
    /// stays cumulative
    TEMPORALITY {
        key: "temporality",
        kind: word!(Temporality, reader.temporality, &[]),
        advice: "write \"cumulative\", \"delta\" or \"lowmemory\"",
        variables: VariableNames::metrics("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"),
        signals: &[Signal::Metrics],
    }
    /// fifteen fixed bounds, or buckets of equal ratio, unless an instrument has bounds of its own
    HISTOGRAMS {
        key: "histograms",
        kind: word!(Histograms, reader.histograms, &[
            ("explicit_bucket_histogram", "explicit"),
            ("base2_exponential_bucket_histogram", "exponential"),
        ]),
        advice: "write \"explicit\" or \"exponential\"",
        variables: VariableNames::metrics("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"),
        signals: &[Signal::Metrics],
    }
    /// shortest time between the starts of two sending rounds of a signal; flush, shutdown, a queue three quarters
    /// full and a record that finds no room cut it short
    THROTTLE {
        key: "throttle",
        kind: Kind::Duration { field: field!(pace.throttle), range: ANY },
        advice: "write a duration like \"1s\"",
        in_summary: Some(SummaryField { name: "throttle_ms", signals: RECORDS }),
        signals: RECORDS,
    }
    /// how long an incomplete batch may wait for more
    LINGER {
        key: "linger",
        kind: Kind::Duration { field: field!(pace.linger), range: ANY },
        advice: "write a duration like \"200ms\"",
        variables: VariableNames::processor("SCHEDULE_DELAY"),
        signals: RECORDS,
    }
    /// full queue: `true` drops the new record, `false` makes the caller wait
    LOSSY {
        key: "lossy",
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
        variables: VariableNames::processor("ON_QUEUE_FULL"),
        in_summary: Some(SummaryField { name: "lossy", signals: &Signal::ALL }),
        signals: RECORDS,
    }
    /// how long a caller may be blocked
    BLOCK_TIMEOUT {
        key: "block-timeout",
        kind: Kind::Limit { field: field!(queue.block_timeout), range: POSITIVE },
        advice: "write a duration like \"5s\"",
        variables: VariableNames::processor("BLOCK_ON_QUEUE_FULL_TIMEOUT"),
        signals: RECORDS,
        rule: rules::block_timeout,
    }
    /// most records in the queue of each signal
    QUEUE_RECORDS {
        key: "queue-records",
        kind: Kind::Count { field: field!(queue.records), range: COUNTED, most: OF_QUEUE },
        advice: "write a whole number, without quotes",
        variables: VariableNames::processor("MAX_QUEUE_SIZE"),
    }
    /// most bytes in the queue of each signal
    QUEUE_BYTES {
        key: "queue-bytes",
        // 32 bits and one step
        kind: Kind::Size { field: field!(queue.bytes), range: 1 << 10..=1 << 32, most: OF_QUEUE },
        advice: "write a size like \"16 MiB\" or a number of bytes",
    }
    /// most records in a request
    BATCH_RECORDS {
        key: "batch-records",
        // no batch can hold more than the queue can
        kind: Kind::Count { field: field!(batch.records), range: COUNTED, most: OF_QUEUE },
        advice: "write a whole number, without quotes",
        variables: VariableNames::processor("MAX_EXPORT_BATCH_SIZE"),
    }
    /// most bytes in a request, before compression
    BATCH_BYTES {
        key: "batch-bytes",
        kind: Kind::Size {
            field: field!(batch.bytes),
            range: 1 << 10..=64 << 20,
            most: "the most a request may hold",
        },
        advice: "write a size like \"4 MiB\" or a number of bytes",
    }
    /// one attempt, from the look-up of the name to the end of the answer; the other signals wait for it no longer
    /// than that
    TIMEOUT {
        key: "timeout",
        kind: Kind::Duration { field: field!(connection.timeout), range: POSITIVE },
        advice: "write a duration like \"10s\"",
        variables: VariableNames::exporter("TIMEOUT"),
        in_summary: Some(SummaryField { name: "timeout_ms", signals: &Signal::ALL }),
        needs_connection: true,
    }
    /// a batch that could not be delivered in this time is dropped and counted; in a shutdown its budget counts
    GIVE_UP_AFTER {
        key: "give-up-after",
        kind: Kind::Duration { field: field!(retry.give_up_after), range: POSITIVE },
        advice: "write a duration like \"5m\"",
        variables: VariableNames {
            metrics: Some("OTEL_METRIC_EXPORT_TIMEOUT"),
            ..VariableNames::processor("EXPORT_TIMEOUT")
        },
        needs_connection: true,
    }
    /// first step of the back-off, which doubles from there; the pause is random below the step
    RETRY_FIRST_DELAY {
        key: "retry-first-delay",
        kind: Kind::Duration { field: field!(retry.first_delay), range: POSITIVE },
        advice: "write a duration like \"250ms\"",
        needs_connection: true,
    }
    /// longest step of the back-off
    RETRY_MAX_DELAY {
        key: "retry-max-delay",
        kind: Kind::Duration { field: field!(retry.max_delay), range: POSITIVE },
        advice: "write a duration like \"30s\"",
        needs_connection: true,
        rule: rules::max_delay,
    }
    /// longest pause that a server can ask for with `Retry-After`; after it the batch is sent again
    MAX_RETRY_AFTER {
        key: "max-retry-after",
        kind: Kind::Duration { field: field!(retry.max_retry_after), range: POSITIVE },
        advice: "write a duration like \"1m\"",
        needs_connection: true,
    }
    /// of request bodies
    COMPRESSION {
        key: "compression",
        kind: word!(Compression, connection.compression, &[("gzip", "gzip"), ("none", "none")]),
        advice: "write \"none\" or \"gzip\"",
        variables: VariableNames::exporter("COMPRESSION"),
        needs_connection: true,
        connection_rule: rules::compression,
    }
    /// `env`: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are obeyed; loopback is always reached
    /// directly
    PROXY {
        key: "proxy",
        kind: word!(Proxy, connection.proxy, &[]),
        advice: "write \"env\" or \"off\"",
        needs_connection: true,
    }
    /// certificate authorities to trust instead, PEM
    CA_FILE {
        key: "ca-file",
        kind: Kind::File {
            set: |exporter, pem| exporter.connection.tls.ca = Some(pem),
            show: |exporter| {
                let ca = exporter.connection.tls.ca.as_deref();
                ca.map_or_else(|| "bundled roots".to_owned(), shown_pem)
            },
        },
        advice: "write the path of a PEM file",
        variables: VariableNames::exporter("CERTIFICATE"),
        needs_connection: true,
        connection_rule: |exporter| rules::pem(exporter.connection.tls.ca.as_deref(), "CERTIFICATE"),
    }
    /// certificate to present, PEM, with its key below
    CLIENT_CERTIFICATE_FILE {
        key: "client-certificate-file",
        kind: Kind::File {
            set: |exporter, pem| exporter.connection.tls.client_certificate = Some(pem),
            show: |exporter| {
                let certificate = exporter.connection.tls.client_certificate.as_deref();
                certificate.map_or_else(|| "none".to_owned(), shown_pem)
            },
        },
        advice: "write the path of a PEM file",
        variables: VariableNames::exporter("CLIENT_CERTIFICATE"),
        needs_connection: true,
        partner: Some(&CLIENT_KEY_FILE),
        connection_rule: |exporter| {
            let client = exporter.connection.tls.client();
            rules::pem(client.map(|(certificate, _)| certificate), "CERTIFICATE")
        },
    }
    /// private key of the certificate above, PEM
    CLIENT_KEY_FILE {
        key: "client-key-file",
        kind: Kind::File {
            // what is not even text holds no key: the rule for PEM will say so
            set: |exporter, pem| {
                let key = String::from_utf8(pem).unwrap_or_default();
                exporter.connection.tls.client_key = Some(Secret::new(key));
            },
            show: |exporter| {
                let key = exporter.connection.tls.client_key.as_ref();
                key.map_or_else(|| "none".to_owned(), Secret::to_string)
            },
        },
        advice: "write the path of a PEM file",
        variables: VariableNames::exporter("CLIENT_KEY"),
        needs_connection: true,
        partner: Some(&CLIENT_CERTIFICATE_FILE),
        connection_rule: |exporter| {
            let client = exporter.connection.tls.client();
            rules::pem(client.map(|(_, key)| key.expose().as_bytes()), "PRIVATE KEY")
        },
    }
    /// a product of yours goes in front
    USER_AGENT {
        key: "user-agent",
        kind: Kind::Text {
            set: |exporter, product, is_secret| {
                exporter.connection.user_agent = Some(product);
                exporter.connection.hides_user_agent = is_secret;
            },
            show: |exporter| {
                let own = concat!("standpipe/", env!("CARGO_PKG_VERSION"));
                let product = exporter.connection.user_agent.as_ref();
                product.map_or_else(|| own.to_owned(), |product| format!("{} {own}", shown(product)))
            },
        },
        advice: "write a product like \"shop/1.2\"",
        needs_connection: true,
        connection_rule: rules::user_agent,
    }
}

/// Every moment that is computed from a duration must be one that the clock can tell.
pub(in crate::config) const LONGEST: Duration = Duration::from_secs(365 * 86_400);
const ANY: RangeInclusive<Duration> = Duration::ZERO..=LONGEST;
const POSITIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=LONGEST;
/// The queue keeps its two counts in one word, in which records have 24 bits.
const COUNTED: RangeInclusive<u64> = 1..=(1 << 24) - 1;
const OF_QUEUE: &str = "the most the queue can count";
/// The worker collects metrics itself: nothing waits for room in the queue, and the interval is the pace.
const RECORDS: &[Signal] = &[Signal::Traces, Signal::Logs];

fn shown_pem(pem: &[u8]) -> String {
    format!("{} bytes of PEM", pem.len())
}

/// The builder's methods that only keep their value; those that do more are with the [`Exporter`].
macro_rules! setters {
    ($($(#[$doc:meta])* $method:ident($value:ident: $type:ty) sets $($name:ident).+ of $row:ident;)*) => {
        impl Exporter {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(mut self, $value: $type) -> Self {
                    self.$($name).+ = $value;
                    self.set_in_code(&$row)
                }
            )*
        }
    };
}

setters! {
    /// Sets the time between two pushes of metrics; 1 minute unless set, 1 ms to 365 days. The first push comes
    /// after one interval, the last one at shutdown.
    interval(interval: Duration) sets reader.interval of INTERVAL;
    /// Sets over which stretch of time the sums of metrics go; since the start of the program unless set.
    temporality(temporality: Temporality) sets reader.temporality of TEMPORALITY;
    /// Sets how histograms without bounds of their own divide their values; by fifteen fixed bounds unless set.
    histograms(histograms: Histograms) sets reader.histograms of HISTOGRAMS;
    /// Bounds one attempt, from the look-up of the name to the last byte of the answer; 10 s unless set. One that
    /// hangs holds the other signals of the exporter up for as long, and no longer.
    timeout(timeout: Duration) sets connection.timeout of TIMEOUT;
    /// Decides what happens to a record that finds the queue full; the caller waits unless set.
    when_full(when_full: WhenFull) sets queue.when_full of LOSSY;
    /// Bounds the queue of each signal in records; 32,768 unless set, at most 16,777,215.
    queue_records(records: usize) sets queue.records of QUEUE_RECORDS;
    /// Bounds the queue of each signal in bytes; 16 MiB unless set, 1 KiB to 4 GiB. An exporter of all three signals may so hold
    /// three times as much, if none of them can be delivered.
    queue_bytes(bytes: usize) sets queue.bytes of QUEUE_BYTES;
    /// Bounds one request in records; 8,192 unless set. More than the queue holds is fine: the smaller bound counts.
    batch_records(records: usize) sets batch.records of BATCH_RECORDS;
    /// Bounds one uncompressed request in bytes; 4032 KiB unless set, 1 KiB to 64 MiB. A request that
    /// is compressed is a second copy of its records, so several records together take no more than an eighth of the queue's
    /// bytes, but 32 KiB in any case.
    batch_bytes(bytes: usize) sets batch.bytes of BATCH_BYTES;
    /// Sets the shortest time between the starts of two sending rounds of a signal; 1 s unless set, zero for none.
    throttle(throttle: Duration) sets pace.throttle of THROTTLE;
    /// Sets how long an incomplete batch may wait for more records; zero unless set.
    linger(linger: Duration) sets pace.linger of LINGER;
    /// Sets how request bodies are compressed; not at all unless set.
    compression(compression: Compression) sets connection.compression of COMPRESSION;
    /// Decides whether the proxies named by the environment are used; they are unless set.
    proxy(proxy: Proxy) sets connection.proxy of PROXY;
    /// Drops and counts a batch that could not be delivered in this time; 5 minutes unless set. During a shutdown its
    /// budget counts instead.
    give_up_after(longest: Duration) sets retry.give_up_after of GIVE_UP_AFTER;
    /// Bounds the pause that a server can ask for with `Retry-After`; 1 minute unless set. After it the batch is sent again.
    max_retry_after(longest: Duration) sets retry.max_retry_after of MAX_RETRY_AFTER;
}

#[cfg(test)]
mod tests;
