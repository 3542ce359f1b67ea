//! OTLP export for programs without an async runtime. Spans and log records go through a bounded queue to one
//! background thread per exporter, which also collects the metrics, and sends protobuf over blocking HTTP or gRPC. A
//! ledger counts every record.
//!
//! ```
//! use std::time::Duration;
//! use standpipe::{Config, Exporter, Status, Telemetry};
//!
//! # #[cfg(feature = "receiver")] {
//! # let receiver = standpipe::receiver::Receiver::start()?;
//! # let endpoint = receiver.endpoint();
//! # /*
//! let endpoint = "http://localhost:4318";
//! # */
//! let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(Exporter::http(endpoint)))?;
//! let tracer = telemetry.tracer("shop");
//! {
//!     let mut checkout = tracer.span("checkout"); // this thread's current span until it is dropped
//!     checkout.set("order.id", 4711);
//!     let mut payment = tracer.span("payment"); // a child of checkout
//!     payment.event("retry").set("attempt", 2);
//!     telemetry.logger("shop").warn("declined").set("amount", 12.5).emit(); // carries the ids of payment
//!     payment.status(Status::Error("card declined"));
//! }
//! telemetry.meter("shop").counter("orders").add(1, &[("shop.country", "SE")]);
//! let ledger = telemetry.shutdown(Duration::from_secs(2)); // returns within 2 s + 50 ms
//! assert_eq!(ledger.lost(), 0);
//! # assert_eq!((receiver.span_count(), receiver.log_count(), receiver.point_count()), (2, 1, 1));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Data flow
//!
//! ```text
//!  caller                    │ queue            │ worker (one thread per exporter)
//!  Span::set, Log::set … ────┼─► chunk ► chunk ─┼─► batch ─► transport ─► verdict
//!  (bytes in wire format)    │ (bounded)        │   ▲ throttle       retry ◄─┘
//!  Counter::add … ─► series ─┼──────────────────┼───┘ once per interval
//!                            │                  │     ledger: every record, by reason
//! ```
//!
//! A span or log record is encoded as OTLP protobuf while the program sets its attributes. Each thread reuses its
//! buffers for this encoding, so a record needs no allocation. When the record ends, its bytes are copied into a chunk
//! of the queue. The queue is bounded in records *and* in bytes. The worker puts whole chunks into requests and sends
//! them over one connection, which it keeps alive. Measurements do not enter the queue: each is added to its series,
//! with an atomic operation or under a lock that is rarely contended, and the worker encodes the sums once per
//! interval.
//!
//! Start with [`Telemetry`]. Its methods return [`Tracer`]s for [`Span`]s, [`Logger`]s for [`Log`] records, and
//! [`Meter`]s for instruments. [`Config`] and [`Exporter`] describe where the records go. [`Ledger`] counts the records
//! by their outcome.
//!
//! # The guide
//!
//! | chapter | content |
//! |---|---|
//! | [First hour](guide::first_hour) | step by step from an empty directory to a trace in the browser |
//! | [Programs](guide::programs) | complete programs: a web service, a tool, a program without threads, a migrated program |
//! | [Signals](guide::signals) | spans, log records, metrics, sampling |
//! | [Contexts](guide::contexts) | headers, environment, threads, rayon, channels, baggage, the global telemetry |
//! | [Configuration](guide::configuration), [environment](guide::environment) | every setting and variable with its default |
//! | [Backends](guide::backends) | recipes: the settings of backends that accept OTLP |
//! | [Exit](guide::exit) | which records survive `process::exit`, panics and signals |
//! | [Operations](guide::operations) | threads, a full queue, the ledger, problems, forks, containers |
//! | [Deployment](guide::deployment) | AWS Lambda, systemd, Docker, Kubernetes and OpenWrt |
//! | [Troubleshooting](guide::troubleshooting), [messages](guide::messages) | nothing arrives; every error and problem |
//! | [Testing](guide::testing) | tests of your program's telemetry |
//! | [Bridges](guide::bridges), [migration](guide::migration) | `tracing`, `log`, `metrics`, the OpenTelemetry SDK |
//! | [gRPC](guide::grpc) | OTLP over gRPC |
//! | [Spool](guide::spool) | records that survive `kill -9` and outages |
//! | [C](guide::c) | programs in C, and languages that call C |
//! | [Command](guide::command), [shell scripts](guide::shell) | the `standpipe` command; make, cargo and CI jobs |
//! | [Page](guide::page) | a tour of the page in the browser |
//! | [Limits](guide::limits), [targets](guide::targets), [size](guide::size) | bounds, tested systems, small programs |
//! | [Growing](guide::growing) | more than one machine |
//! | [Compliance](guide::compliance) | OpenTelemetry's compliance matrix, row by row |
//! | [Contributing](guide::contributing) | modules, test suites, frequent changes, release |
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `tls` | yes | `https` endpoints with rustls: bundled roots or your own CA, client certificates |
//! | `system-roots` | no | [`config::Roots::System`] and `roots = "system"`: the roots of the operating system |
//! | `gzip` | yes | compressed requests |
//! | `grpc` | yes | [`Exporter::grpc`] and `transport = "grpc"`: OTLP over gRPC |
//! | `yaml` | no | configuration files in YAML |
//! | `probe` | no | the module `probe`: checks in stages whether a collector can be reached |
//! | `json` | no | JSON over HTTP and in files: [`Exporter::json`], [`Exporter::file`] |
//! | `console` | no | [`Exporter::console`]: OTLP JSON on standard output |
//! | `tracing` | no | [`bridge::tracing`]: a layer for tracing-subscriber |
//! | `log` | no | [`bridge::log`]: a logger for the `log` crate |
//! | `metrics` | no | [`bridge::metrics`]: a recorder for the `metrics` crate |
//! | `opentelemetry` | no | [`bridge::opentelemetry`]: exporters for the OpenTelemetry SDK |
//! | `spool` | no | [`Exporter::spool`]: records survive `kill -9` and outages of the collector, on Linux |
//! | `ffi` | no | the functions of `src/ffi/standpipe.h`, for [programs in C](guide::c) |
//! | `receiver` | no | the module `receiver`: an OTLP receiver for tests |
//! | `cli` | no | the `standpipe` command |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod bridge;
pub mod config;
mod context;
mod escape;
#[cfg(feature = "ffi")]
mod ffi;
pub mod guide;
#[cfg(feature = "grpc")]
mod http2;
mod logs;
pub mod metrics;
mod pipeline;
#[cfg(feature = "probe")]
pub mod probe;
mod problem;
mod process;
#[cfg(feature = "receiver")]
pub mod receiver;
mod record;
#[cfg(feature = "spool")]
#[cfg_attr(not(target_os = "linux"), path = "spool/absent.rs")]
pub mod spool;
#[cfg(not(feature = "spool"))]
#[path = "spool/absent.rs"]
mod spool;
mod telemetry;
#[cfg(test)]
mod tests;
pub mod trace;
#[cfg_attr(
    not(all(feature = "cli", feature = "tls")),
    allow(
        dead_code,
        reason = "which parts of a transport are used depends on the features; builds with all find dead code"
    )
)]
mod transport;

/// The parts of a [`Ledger`], which counts every record by its outcome.
///
/// [`Telemetry::shutdown`] returns a ledger, and [`Telemetry::ledger`] reads it at any time. A ledger has one
/// [`ExporterLedger`](ledger::ExporterLedger) per exporter, with [`Counts`](ledger::Counts) per signal. At every
/// moment, accepted + recovered = delivered + rejected + dropped + superseded + spooled + in flight. `not_enqueued`
/// counts records that were never accepted, and `filtered` counts log records below the exporter's level.
///
/// ```no_run
/// use std::time::Duration;
/// use standpipe::{Config, Exporter, Signal, Telemetry};
///
/// let telemetry = Telemetry::start(Config::new().exporter(Exporter::http("http://localhost:4318")))?;
/// telemetry.tracer("shop").span("checkout").end();
/// let ledger = telemetry.shutdown(Duration::from_secs(5));
///
/// let counts = ledger.total();
/// assert_eq!((counts.accepted, counts.delivered, counts.lost()), (1, 1, 0));
/// for exporter in &ledger.exporters {
///     println!("{}: {}", exporter.name, exporter.of(Signal::Traces));
/// }
/// # Ok::<(), standpipe::ConfigError>(())
/// ```
pub mod ledger {
    pub use crate::pipeline::ledger::{Counts, Dropped, ExporterLedger, NotEnqueued, OpenSpans};
}

pub use self::metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};
pub use config::{
    Application, Compression, Config, ConfigError, Exporter, Sampler, Transport, View, WhenFull,
};
pub use context::{Baggage, Context, ContextGuard, Propagator, Propagators, SpanContext, TraceState};
pub use logs::{Log, Logger};
pub use pipeline::exporter_set::FlushOutcome;
pub use pipeline::ledger::Ledger;
pub use problem::{Problem, ProblemKind};
pub use record::ScopeBuilder as Scope;
pub use record::{IntoValue, Severity, Signal, SpanId, SpanKind, Status, TraceId, Value};
pub use telemetry::Telemetry;
pub use telemetry::global::{Global, InstallError, InstallGuard, logger, meter, propagators, tracer};
pub use telemetry::provider::Provider;
pub use trace::{DetachedSpan, RecordErr, Span, SpanBuilder, Tracer};

/// Items that the command shares with the library. Not part of the public API.
#[doc(hidden)]
pub mod shared {
    #[cfg(feature = "yaml")]
    pub use crate::config::to_declarative;
    pub use crate::context::decode_percent;
    pub use crate::escape::{beginning, count, escape_all_but, shows_itself};
    pub use crate::process::spawn;
    pub use crate::transport::{base64, calendar};
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
