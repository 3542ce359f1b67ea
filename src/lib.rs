//! OTLP export for programs without an async runtime.
//!
//! Traces, logs and metrics leave a synchronous program through a bounded queue and one background thread, as protobuf
//! over blocking HTTP or gRPC. No tokio, no executor, and every record is accounted for.
//!
//! ```
//! use std::time::Duration;
//! use standpipe::{Config, Exporter, Status, Telemetry};
//!
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
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The way of a record
//!
//! ```text
//!  caller                    │ queue            │ worker
//!  Span::set, Log::set … ────┼─► chunk ► chunk ─┼─► batch ─► transport ─► verdict
//!  (bytes in wire format)    │ (bounded)        │   ▲ throttle       retry ◄─┘
//!  Counter::add … ─► series ─┼──────────────────┼───┘ once per interval
//!                            │                  │     ledger: every record, by reason
//! ```
//!
//! A span is written as OTLP protobuf while it is open, a log record until it is emitted, into a buffer that its
//! thread keeps. When it ends, the bytes are copied into the queue; the worker frames them into requests. A measurement
//! is added up where it is made, and the worker collects the sums. Start at [`Telemetry`], which leads to [`Tracer`] and
//! [`Span`], [`Logger`] and [`Log`], [`Meter`] and its instruments; [`Config`] and [`Exporter`] say where to; [`Ledger`]
//! says what became of it all.
//!
//! Programs that already speak `tracing`, `log`, `metrics` or the OpenTelemetry API need none of this at their call sites:
//! see [`bridge`].
//!
//! # When the queue is full
//!
//! [`WhenFull::Block`], the default, makes the caller wait: nothing is lost. [`WhenFull::DropNewest`] drops the new
//! record and counts it: the caller never waits. Neither ever waits on something dead: after a shutdown, in a panic,
//! on the worker's own thread, and in a forked child whose worker does not come, a record is counted and the caller goes
//! on.
//!
//! # Features
//!
//! | feature | default | what it gives |
//! |---|---|---|
//! | `tls` | yes | `https` endpoints, by rustls with bundled roots or your own CA; client certificates |
//! | `gzip` | yes | compressed requests |
//! | `grpc` | yes | [`Exporter::grpc`] and `transport = "grpc"`: OTLP over gRPC |
//! | `yaml` | no | configuration files in YAML |
//! | `probe` | no | the module `probe`: ask a collector, stage by stage, whether it can be reached |
//! | `console` | no | [`Exporter::console`]: OTLP JSON on standard output |
//! | `tracing` | no | [`bridge::tracing`]: a layer for tracing-subscriber |
//! | `log` | no | [`bridge::log`]: a logger for the `log` crate |
//! | `metrics` | no | [`bridge::metrics`]: a recorder for the `metrics` crate |
//! | `opentelemetry` | no | [`bridge::opentelemetry`]: exporters for the OpenTelemetry SDK |
//! | `receiver` | no | the module `receiver`: an OTLP receiver to test against |
//! | `cli` | no | the `standpipe` command |

pub mod bridge;
mod config;
mod context;
mod logs;
mod metrics;
mod pipeline;
#[cfg(feature = "probe")]
pub mod probe;
mod process;
#[cfg(feature = "receiver")]
pub mod receiver;
mod record;
mod telemetry;
mod trace;
mod transport;

pub use self::metrics::{
    Attributes, BoundCounter, BoundGauge, BoundHistogram, BoundUpDownCounter, Counter, Gauge, Histogram,
    InstrumentBuilder, Measure, Meter, Observation, Observer, UpDownCounter,
};
pub use config::{
    Application, Compression, Config, ConfigError, Diagnostic, DiagnosticSeverity, Exporter, ExporterSummary,
    Histograms, Location, Problem, ProblemKind, ProviderName, Proxy, Sampler, Setting, SettingSource,
    Temporality, Transport, WhenFull,
};
pub use context::{ContextGuard, ParseContextError, SpanContext};
pub use logs::{Log, Logger};
pub use pipeline::exporter_set::FlushOutcome;
pub use pipeline::ledger::{Counts, Dropped, ExporterLedger, Ledger, NotEnqueued};
pub use record::{
    LogLimits, Resource, Severity, Signal, SpanId, SpanKind, SpanLimits, Status, TraceId, Value,
};
pub use telemetry::Telemetry;
pub use telemetry::provider::Provider;
pub use trace::{DetachedSpan, Span, SpanBuilder, SpanPart, Tracer};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
