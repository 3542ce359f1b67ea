//! OTLP export for programs without an async runtime.

mod batch;
mod config;
mod context;
mod fork;
mod outlet;
mod pipeline;
mod problem;
mod queue;
#[cfg(feature = "receiver")]
pub mod receiver;
mod record;
mod retry;
mod stats;
mod telemetry;
mod throttle;
mod tracer;
mod transport;
mod worker;

pub use config::*;
pub use context::{ParseContextError, SpanContext};
pub use problem::{Problem, ProblemKind};
pub use record::{Resource, Signal, SpanId, SpanKind, Status, TraceId, Value};
pub use stats::{Counts, Dropped, ExporterLedger, Ledger, TurnedAway};
pub use telemetry::{Flushed, Telemetry};
pub use tracer::{Span, SpanBuilder, SpanPart, Tracer};
