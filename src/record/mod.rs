//! The OTLP wire format. Spans, log records and metrics are encoded as protobuf while the program makes them, without
//! message structs in between. This file defines [`Signal`] and the limits of a record.
//!
//! | file | content |
//! |---|---|
//! | `span.rs` | `Span`, with its events, links and status |
//! | `log.rs` | `LogRecord`; `Severity` |
//! | `metric.rs`, `point.rs` | `Metric`, in frames within a limit, and its data points |
//! | `attribute_writer.rs` | the attributes of a span, event, link or log record, each key once |
//! | `attribute_writer/encoded.rs` | the attributes and keys of a call site, encoded and hashed once |
//! | `key_filter.rs` | the Bloom filter that recognizes most new keys |
//! | `attribute.rs`, `value.rs` | one `KeyValue`; [`Value`] and the types that convert to it |
//! | `attribute_set.rs` | the attributes of a series, compared and hashed |
//! | `resource.rs` | `Resource` and `InstrumentationScope` |
//! | `foreign.rs` | the fields that only records of the OpenTelemetry SDK have |
//! | `id.rs` | [`TraceId`], [`SpanId`], random numbers |
//! | `buffer.rs` | a record's bytes, its frame, and the pool of storage that a thread reuses |
//! | `chunk.rs` | framed records back to back, as the queue takes them |
//! | `schema.rs` | the fields of every message, to print, to read and to validate requests |
//! | `message.rs` | the messages that the receiver decodes |
//! | `slot.rs` | the memory of a chunk, or of an open span, that survives the process |
//! | `copies.rs` | copies of an open span that survive the process |
//! | `interrupted.rs` | completes a span that was open when its process died |
//! | `wire.rs` | varints, and the fields of a message that is read |

mod attribute;
mod attribute_set;
mod attribute_writer;
mod buffer;
mod chunk;
mod copies;
mod exception;
#[cfg(feature = "opentelemetry")]
mod foreign;
mod id;
#[cfg(all(feature = "spool", target_os = "linux"))]
mod interrupted;
mod key_filter;
mod log;
#[cfg(feature = "receiver")]
#[cfg_attr(not(feature = "json"), allow(dead_code, reason = "only JSON encodes what was received"))]
pub(crate) mod message;
mod metric;
mod point;
mod resource;
#[cfg_attr(
    not(all(feature = "json", feature = "receiver", feature = "spool", target_os = "linux")),
    allow(dead_code, reason = "JSON, the receiver and the spool each use a part of the schema")
)]
pub(crate) mod schema;
#[cfg_attr(
    not(all(feature = "spool", target_os = "linux")),
    allow(dead_code, unreachable_code, reason = "without a spool no slot is ever made")
)]
mod slot;
mod span;
mod value;
pub(crate) mod wire;

use std::fmt;

#[cfg(any(feature = "opentelemetry", feature = "yaml"))]
pub(crate) use attribute::MAX_DEPTH;
pub(crate) use attribute_set::{AttributeSet, Pattern};
#[cfg(any(feature = "log", feature = "tracing"))]
pub(crate) use attribute_writer::EncodedAttributes;
#[cfg(feature = "tracing")]
pub(crate) use attribute_writer::EncodedKey;
pub(crate) use buffer::{Pool, field_len, frames};
pub(crate) use chunk::{Chunk, RESOURCE_RECORDS, Run, SCOPE_RECORDS, records_in};
#[cfg(all(feature = "spool", target_os = "linux"))]
pub(crate) use chunk::{RECORD, content};
pub use exception::AsError;
pub(crate) use exception::Exception;
#[cfg(feature = "tracing")]
pub(crate) use exception::{causes, set_exception};
#[cfg(test)]
pub(crate) use id::seed_random;
pub use id::{IdGenerator, InvalidId, SpanId, TraceId};
pub(crate) use id::{from_hex, instance_id, random};
#[cfg(all(feature = "spool", target_os = "linux"))]
pub(crate) use interrupted::{InterruptedSpan, span_id_of};
pub use log::Severity;
pub(crate) use log::{LogEnd, LogRecord, SpanRef};
pub(crate) use metric::{
    AggregationTemporality, FrameLimits, FramedPoints, MetricFramer, MetricHead, MetricRecord, PointKind,
};
pub(crate) use point::{
    BucketsView, Exemplar, ExponentialLimits, ExponentialPoint, HistogramPoint, Number, Period, Point,
};
pub use resource::ScopeBuilder;
#[cfg(all(feature = "spool", target_os = "linux"))]
pub(crate) use resource::service_name;
pub(crate) use resource::{Resource, Scope, program_name};
#[cfg(all(feature = "spool", target_os = "linux"))]
pub(crate) use slot::{
    CODEWORDS, FREE, LOST, MAPPED, MAX_GUARDED, OPEN_SPAN_BYTES, OpenSpanBytes, RESOURCE_TAG, SCOPE_TAG,
    SECOND_COPY, SlotHeader, SlotOwner, SlotPlace, decode_codeword, guard, unguard,
};
pub(crate) use slot::{OpenSpanSlot, Settler, Slot};
pub(crate) use span::{OtherSpan, SpanHead, SpanRecord};
pub use span::{SpanKind, Status};
pub use value::{IntoValue, Value};

/// A kind of telemetry. Later versions add a variant for each new signal of OpenTelemetry, such as profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// Spans, to `/v1/traces`.
    Traces,
    /// Log records, to `/v1/logs`.
    Logs,
    /// Data points of metrics, to `/v1/metrics`.
    Metrics,
}

impl Signal {
    /// All signals, for iteration. Later versions may have more.
    pub const ALL: [Signal; 3] = [Signal::Traces, Signal::Logs, Signal::Metrics];

    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Returns the path that OTLP over HTTP appends to a base endpoint.
    pub fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Logs => "/v1/logs",
            Signal::Metrics => "/v1/metrics",
        }
    }

    /// Returns the path of the method that OTLP over gRPC calls.
    pub fn grpc_path(self) -> &'static str {
        match self {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    /// Returns the name in the configuration and in the ledger: plural, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Generates one setter per limit of a record, with the name of its field.
macro_rules! limit_setters {
    ($limits:ident, $($count:ident)*) => {
        impl $limits {
            /// Returns the same limit for each kind of item, and none for the length of values.
            pub(crate) const fn of_each(max: u32) -> Self {
                Self { $($count: max,)* value_length: None }
            }

            $(#[doc = concat!("Sets [`", stringify!($count), "`](Self#structfield.", stringify!($count), ").")]
            #[must_use]
            pub fn $count(mut self, count: u32) -> Self {
                self.$count = count;
                self
            })*

            /// Sets [`value_length`](Self#structfield.value_length).
            #[must_use]
            pub fn value_length(mut self, length: impl Into<Option<usize>>) -> Self {
                self.value_length = length.into();
                self
            }
        }

        impl Default for $limits {
            fn default() -> Self {
                Self::of_each(128)
            }
        }
    };
}

/// Limits of one span. Items beyond a limit are dropped, and the span carries the number of dropped items.
///
/// ```
/// use standpipe::config::SpanLimits;
///
/// let limits = SpanLimits::default().attributes(64).value_length(4096);
/// assert_eq!((limits.attributes, limits.value_length), (64, Some(4096)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanLimits {
    /// Attributes of a span.
    pub attributes: u32,
    /// Events of a span.
    pub events: u32,
    /// Links of a span.
    pub links: u32,
    /// Attributes of one event.
    pub event_attributes: u32,
    /// Attributes of one link.
    pub link_attributes: u32,
    /// Maximum length of string values in characters, and of byte values in bytes. `None` means no limit.
    pub value_length: Option<usize>,
}

limit_setters!(SpanLimits, attributes events links event_attributes link_attributes);

/// Limits of one log record. Attributes beyond the limit are dropped, and the record carries their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLimits {
    /// Attributes of a log record.
    pub attributes: u32,
    /// Maximum length of string attributes in characters, and of byte attributes in bytes. `None` means no limit. The
    /// body is not an attribute and is never cut.
    pub value_length: Option<usize>,
}

limit_setters!(LogLimits, attributes);

#[cfg(test)]
pub(crate) mod tests;
