//! What can be said, in wire format: each signal writes OTLP protobuf as the user speaks.

mod attribute;
mod attribute_set;
mod buffer;
mod chunk;
#[cfg(feature = "opentelemetry")]
mod foreign;
mod id;
mod keyed;
mod limits;
mod log;
mod metric;
mod parts;
mod point;
pub(crate) mod pool;
mod resource;
mod scope;
mod severity;
mod span;

#[cfg(feature = "opentelemetry")]
pub(crate) use attribute::MAX_DEPTH;
pub use attribute::Value;
pub(crate) use attribute_set::{AttributeSet, Pattern};
pub(crate) use buffer::{field_len, frames};
pub(crate) use chunk::{Chunk, Run, records_in};
#[cfg(feature = "opentelemetry")]
pub(crate) use foreign::{DroppedBefore, ForeignResource, ForeignScope};
pub(crate) use id::random;
pub use id::{SpanId, TraceId};
pub use limits::{LogLimits, SpanLimits};
pub(crate) use log::{LogEnd, LogRecord, SpanRef};
pub(crate) use metric::{MetricHead, MetricRecord, Shape, Stretch};
pub(crate) use parts::{FrameLimits, MetricParts, Part};
pub(crate) use point::{BucketsView, ExponentialPoint, HistogramPoint, Number, Period};
pub use resource::Resource;
pub(crate) use scope::Scope;
pub use severity::Severity;
pub(crate) use span::{LinkTarget, NewParent, SpanHead, SpanRecord};
pub use span::{SpanKind, Status};

/// The kinds of telemetry a record can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Spans, to `/v1/traces`.
    Traces,
    /// Log records, to `/v1/logs`.
    Logs,
    /// Data points of metrics, to `/v1/metrics`.
    Metrics,
}

impl Signal {
    /// All signals, for iteration.
    pub const ALL: [Signal; 3] = [Signal::Traces, Signal::Logs, Signal::Metrics];

    /// How many signals there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// The path that OTLP over HTTP appends to a base endpoint.
    pub fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Logs => "/v1/logs",
            Signal::Metrics => "/v1/metrics",
        }
    }

    /// The path of the method that OTLP over gRPC calls.
    pub fn grpc_path(self) -> &'static str {
        match self {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    /// Lower-case plural, as configuration and the ledger name it.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
