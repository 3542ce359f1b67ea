//! How much memory a message will take once it is decoded, found without decoding it.
//!
//! Two bytes on the wire can be a whole empty span: a body within its limit could unfold to a hundred times its size. So
//! the messages within are counted first, which takes no memory at all.

use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::records::ReceivedLog;
use super::records::ReceivedMetric;
use super::records::ReceivedSpan;
use crate::record::Signal;

/// The decoder goes no deeper either.
const MAX_DEPTH: usize = 100;

/// The bytes of memory that a decoded export request of this signal takes, about.
///
/// What cannot be decoded weighs as much as the decoder would have built when it gave up.
pub(super) fn of(signal: Signal, body: &[u8]) -> usize {
    let mut weight = body.len();
    // the decoder reports the same error, with more detail
    let _ = add(&mut weight, MessageKind::Request(signal), body, 0);
    weight
}

/// What can come many times, or contains what can.
#[derive(Clone, Copy)]
enum MessageKind {
    Request(Signal),
    OfResource(Signal),
    OfScope(Signal),
    Resource,
    EntityRef,
    Scope,
    Span,
    Event,
    Link,
    LogRecord,
    Metric,
    /// A gauge or a sum.
    Numbers,
    Histogram,
    ExponentialHistogram,
    Summary,
    NumberPoint,
    HistogramPoint,
    ExponentialPoint,
    SummaryPoint,
    Buckets,
    Quantile,
    Exemplar,
    KeyValue,
    AnyValue,
    Array,
    KeyValueList,
    Text,
    /// Numbers of eight bytes each.
    Fixed,
    /// Numbers that are short on the wire and eight bytes in memory.
    Varint,
}

impl MessageKind {
    /// The part that the field `tag` of this one holds.
    fn within(self, tag: u32) -> Option<MessageKind> {
        Some(match (self, tag) {
            (MessageKind::Request(signal), 1) => MessageKind::OfResource(signal),
            (MessageKind::OfResource(_), 1) => MessageKind::Resource,
            (MessageKind::OfResource(signal), 2) => MessageKind::OfScope(signal),
            (MessageKind::OfScope(_), 1) => MessageKind::Scope,
            (MessageKind::OfScope(Signal::Traces), 2) => MessageKind::Span,
            (MessageKind::OfScope(Signal::Logs), 2) => MessageKind::LogRecord,
            (MessageKind::OfScope(Signal::Metrics), 2) => MessageKind::Metric,
            (MessageKind::Resource, 3) => MessageKind::EntityRef,
            (MessageKind::EntityRef, 3 | 4) => MessageKind::Text,

            (MessageKind::Span, 11) => MessageKind::Event,
            (MessageKind::Span, 13) => MessageKind::Link,

            (MessageKind::Metric, 5 | 7) => MessageKind::Numbers,
            (MessageKind::Metric, 9) => MessageKind::Histogram,
            (MessageKind::Metric, 10) => MessageKind::ExponentialHistogram,
            (MessageKind::Metric, 11) => MessageKind::Summary,
            (MessageKind::Numbers, 1) => MessageKind::NumberPoint,
            (MessageKind::Histogram, 1) => MessageKind::HistogramPoint,
            (MessageKind::ExponentialHistogram, 1) => MessageKind::ExponentialPoint,
            (MessageKind::Summary, 1) => MessageKind::SummaryPoint,
            (MessageKind::HistogramPoint, 6 | 7) => MessageKind::Fixed,
            (MessageKind::ExponentialPoint, 8 | 9) => MessageKind::Buckets,
            (MessageKind::Buckets, 2) => MessageKind::Varint,
            (MessageKind::SummaryPoint, 6) => MessageKind::Quantile,
            (MessageKind::NumberPoint, 5)
            | (MessageKind::HistogramPoint, 8)
            | (MessageKind::ExponentialPoint, 11) => MessageKind::Exemplar,

            (MessageKind::Resource | MessageKind::KeyValueList | MessageKind::ExponentialPoint, 1) => {
                MessageKind::KeyValue
            }
            (MessageKind::Scope | MessageKind::Event, 3)
            | (MessageKind::Link, 4)
            | (MessageKind::LogRecord, 6) => MessageKind::KeyValue,
            (MessageKind::NumberPoint | MessageKind::SummaryPoint | MessageKind::Exemplar, 7) => {
                MessageKind::KeyValue
            }
            (MessageKind::Span | MessageKind::HistogramPoint, 9) | (MessageKind::Metric, 12) => {
                MessageKind::KeyValue
            }
            (MessageKind::LogRecord, 5) | (MessageKind::KeyValue, 2) | (MessageKind::Array, 1) => {
                MessageKind::AnyValue
            }
            (MessageKind::AnyValue, 5) => MessageKind::Array,
            (MessageKind::AnyValue, 6) => MessageKind::KeyValueList,
            _ => return None,
        })
    }

    fn is_message(self) -> bool {
        !matches!(self, MessageKind::Text | MessageKind::Fixed | MessageKind::Varint)
    }

    fn is_number(self) -> bool {
        matches!(self, MessageKind::Fixed | MessageKind::Varint)
    }

    /// The memory of one, without what it points to.
    fn size(self) -> usize {
        match self {
            MessageKind::OfResource(Signal::Traces) => size_of::<ResourceSpans>(),
            MessageKind::OfResource(Signal::Logs) => size_of::<ResourceLogs>(),
            MessageKind::OfResource(Signal::Metrics) => size_of::<ResourceMetrics>(),
            MessageKind::OfScope(Signal::Traces) => size_of::<ScopeSpans>(),
            MessageKind::OfScope(Signal::Logs) => size_of::<ScopeLogs>(),
            MessageKind::OfScope(Signal::Metrics) => size_of::<ScopeMetrics>(),
            MessageKind::Resource => size_of::<Resource>(),
            MessageKind::EntityRef => size_of::<EntityRef>(),
            MessageKind::Scope => size_of::<InstrumentationScope>(),
            MessageKind::Span => size_of::<Span>() + size_of::<ReceivedSpan>(),
            MessageKind::Event => size_of::<Event>(),
            MessageKind::Link => size_of::<Link>(),
            MessageKind::LogRecord => size_of::<LogRecord>() + size_of::<ReceivedLog>(),
            MessageKind::Metric => size_of::<Metric>() + size_of::<ReceivedMetric>(),
            MessageKind::NumberPoint => size_of::<NumberDataPoint>(),
            MessageKind::HistogramPoint => size_of::<HistogramDataPoint>(),
            MessageKind::ExponentialPoint => size_of::<ExponentialHistogramDataPoint>(),
            MessageKind::SummaryPoint => size_of::<SummaryDataPoint>(),
            MessageKind::Quantile => size_of::<ValueAtQuantile>(),
            MessageKind::Exemplar => size_of::<Exemplar>(),
            MessageKind::KeyValue => size_of::<KeyValue>(),
            MessageKind::AnyValue => size_of::<AnyValue>(),
            MessageKind::Text => size_of::<String>(),
            MessageKind::Fixed | MessageKind::Varint => size_of::<u64>(),
            // these lie within what holds them
            MessageKind::Request(_)
            | MessageKind::Array
            | MessageKind::KeyValueList
            | MessageKind::Buckets => 0,
            MessageKind::Numbers
            | MessageKind::Histogram
            | MessageKind::ExponentialHistogram
            | MessageKind::Summary => 0,
        }
    }

    /// How many of it a field with this content holds: numbers come packed.
    fn count_in(self, content: &[u8]) -> usize {
        match self {
            MessageKind::Fixed => content.len() / size_of::<u64>(),
            // the last byte of each is below 0x80
            MessageKind::Varint => content.iter().filter(|byte| **byte < 0x80).count(),
            _ => 1,
        }
    }
}

fn add(weight: &mut usize, part: MessageKind, mut bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        match (part.within(tag), wire_type) {
            (Some(inner), WireType::LengthDelimited) => {
                let length = decode_varint(&mut bytes)?.min(bytes.len() as u64) as usize;
                let (content, rest) = bytes.split_at(length);
                // on 32 bits a request may weigh more than there are numbers for
                *weight = weight.saturating_add(inner.size().saturating_mul(inner.count_in(content)));
                if inner.is_message() {
                    add(weight, inner, content, depth + 1)?;
                }
                bytes = rest;
            }
            (inner, _) => {
                skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
                // numbers may also come one by one
                let size = inner.filter(|inner| inner.is_number()).map_or(0, MessageKind::size);
                *weight = weight.saturating_add(size);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
