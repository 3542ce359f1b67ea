//! OTLP export for programs without an async runtime: traces, logs and metrics leave through a bounded queue and one
//! background thread, as protobuf over blocking HTTP or gRPC, and every record is accounted for.
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
//!     let mut payment = tracer.span("payment"); // finds its parent by itself
//!     payment.event("retry").set("attempt", 2);
//!     telemetry.logger("shop").warn("declined").set("amount", 12.5).emit(); // carries the ids of payment
//!     payment.status(Status::Error("card declined"));
//! }
//! telemetry.meter("shop").counter("orders").add(1, &[("shop.country", "SE")]);
//! let ledger = telemetry.shutdown(Duration::from_secs(2)); // never takes longer
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
//! A span or log record is written as OTLP protobuf, attribute by attribute, into a buffer that its thread keeps: it costs
//! no allocation. When it ends, its bytes are copied into a chunk of the queue, which is bounded in records *and* bytes.
//! The worker gathers whole chunks, frames them into requests and sends them over one kept-alive connection. Measurements
//! are no records yet: each is added to its series by an atomic step or under a lock that is hardly ever contended,
//! and the worker frames the sums when it is time to push.
//!
//! Start at [`Telemetry`], which leads to [`Tracer`] and [`Span`], [`Logger`] and [`Log`], [`Meter`] and its instruments.
//! [`Config`] and [`Exporter`] describe where records go; [`Ledger`] counts what became of them.
//!
//! # The guide
//!
//! - [Programs](guide::programs): a web service, a command-line tool, one without threads, a migrated one
//! - [Signals](guide::signals): spans, log records, metrics, sampling
//! - [Contexts](guide::contexts): headers, environment, threads, rayon, channels, baggage, and the global
//! - [Configuration](guide::configuration) and [environment variables](guide::environment): every setting and its default
//! - [Bridges](guide::bridges) for `tracing`, `log`, `metrics` and the OpenTelemetry API; [migration](guide::migration)
//! - [gRPC](guide::grpc)
//! - [C](guide::c), C++ and other languages
//! - [Operations](guide::operations): a full queue, the ledger, problems, fork, containers
//! - [Exit](guide::exit): what survives `process::exit`, panics, signals
//! - [Limits](guide::limits)
//! - [Testing your own program](guide::testing)
//! - [Growing past one machine](guide::growing)
//! - [Shell scripts](guide::shell), make, cargo and CI jobs
//! - [The command](guide::command)
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `tls` | yes | `https` endpoints, by rustls with bundled roots or your own CA; client certificates |
//! | `gzip` | yes | compressed requests |
//! | `grpc` | yes | [`Exporter::grpc`] and `transport = "grpc"`: OTLP over gRPC |
//! | `yaml` | no | configuration files in YAML |
//! | `probe` | no | the module `probe`: checks, stage by stage, whether a collector can be reached |
//! | `console` | no | [`Exporter::console`]: OTLP JSON on standard output |
//! | `tracing` | no | [`bridge::tracing`]: a layer for tracing-subscriber |
//! | `log` | no | [`bridge::log`]: a logger for the `log` crate |
//! | `metrics` | no | [`bridge::metrics`]: a recorder for the `metrics` crate |
//! | `opentelemetry` | no | [`bridge::opentelemetry`]: exporters for the OpenTelemetry SDK |
//! | `ffi` | no | the functions of `src/ffi/standpipe.h`, for [programs in C](guide::c) |
//! | `receiver` | no | the module `receiver`: an OTLP receiver to test against |
//! | `cli` | no | the `standpipe` command |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod bridge;
pub mod config;
mod context;
#[doc(hidden)]
pub mod escape;
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
mod transport;

/// The parts of a [`Ledger`], which counts every record by its outcome.
///
/// [`Telemetry::shutdown`] returns a ledger, and [`Telemetry::ledger`] reads it at any time: one
/// [`ExporterLedger`](ledger::ExporterLedger) per exporter, with [`Counts`](ledger::Counts) per signal. At every moment,
/// accepted + recovered = delivered + rejected + dropped + superseded + spooled + in flight. `not_enqueued` counts records that
/// were never accepted, and `filtered` log records below the exporter's level.
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
pub use config::{Application, Compression, Config, ConfigError, Exporter, Sampler, Transport, WhenFull};
pub use context::{Baggage, Context, ContextGuard, SpanContext};
pub use logs::{Log, Logger};
pub use pipeline::exporter_set::FlushOutcome;
pub use pipeline::ledger::Ledger;
pub use problem::{Problem, ProblemKind};
pub use record::{IntoValue, Severity, Signal, SpanId, SpanKind, Status, TraceId, Value};
pub use telemetry::Telemetry;
pub use telemetry::global::{Global, InstallError, InstallGuard, logger, meter, tracer};
pub use telemetry::provider::Provider;
pub use trace::{DetachedSpan, RecordErr, Span, SpanBuilder, Tracer};

/// Shared with the command; not a part of the API.
#[doc(hidden)]
pub use {process::spawn, transport::calendar};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
