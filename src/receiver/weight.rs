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
    // the decoder meets the same error and says it better
    let _ = add(&mut weight, Part::Request(signal), body, 0);
    weight
}

/// What can come many times, or contains what can.
#[derive(Clone, Copy)]
enum Part {
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

impl Part {
    /// The part that the field `tag` of this one holds.
    fn within(self, tag: u32) -> Option<Part> {
        Some(match (self, tag) {
            (Part::Request(signal), 1) => Part::OfResource(signal),
            (Part::OfResource(_), 1) => Part::Resource,
            (Part::OfResource(signal), 2) => Part::OfScope(signal),
            (Part::OfScope(_), 1) => Part::Scope,
            (Part::OfScope(Signal::Traces), 2) => Part::Span,
            (Part::OfScope(Signal::Logs), 2) => Part::LogRecord,
            (Part::OfScope(Signal::Metrics), 2) => Part::Metric,
            (Part::Resource, 3) => Part::EntityRef,
            (Part::EntityRef, 3 | 4) => Part::Text,

            (Part::Span, 11) => Part::Event,
            (Part::Span, 13) => Part::Link,

            (Part::Metric, 5 | 7) => Part::Numbers,
            (Part::Metric, 9) => Part::Histogram,
            (Part::Metric, 10) => Part::ExponentialHistogram,
            (Part::Metric, 11) => Part::Summary,
            (Part::Numbers, 1) => Part::NumberPoint,
            (Part::Histogram, 1) => Part::HistogramPoint,
            (Part::ExponentialHistogram, 1) => Part::ExponentialPoint,
            (Part::Summary, 1) => Part::SummaryPoint,
            (Part::HistogramPoint, 6 | 7) => Part::Fixed,
            (Part::ExponentialPoint, 8 | 9) => Part::Buckets,
            (Part::Buckets, 2) => Part::Varint,
            (Part::SummaryPoint, 6) => Part::Quantile,
            (Part::NumberPoint, 5) | (Part::HistogramPoint, 8) | (Part::ExponentialPoint, 11) => {
                Part::Exemplar
            }

            (Part::Resource | Part::KeyValueList | Part::ExponentialPoint, 1) => Part::KeyValue,
            (Part::Scope | Part::Event, 3) | (Part::Link, 4) | (Part::LogRecord, 6) => Part::KeyValue,
            (Part::NumberPoint | Part::SummaryPoint | Part::Exemplar, 7) => Part::KeyValue,
            (Part::Span | Part::HistogramPoint, 9) | (Part::Metric, 12) => Part::KeyValue,
            (Part::LogRecord, 5) | (Part::KeyValue, 2) | (Part::Array, 1) => Part::AnyValue,
            (Part::AnyValue, 5) => Part::Array,
            (Part::AnyValue, 6) => Part::KeyValueList,
            _ => return None,
        })
    }

    fn is_message(self) -> bool {
        !matches!(self, Part::Text | Part::Fixed | Part::Varint)
    }

    fn is_number(self) -> bool {
        matches!(self, Part::Fixed | Part::Varint)
    }

    /// The memory of one, without what it points to.
    fn size(self) -> usize {
        match self {
            Part::OfResource(Signal::Traces) => size_of::<ResourceSpans>(),
            Part::OfResource(Signal::Logs) => size_of::<ResourceLogs>(),
            Part::OfResource(Signal::Metrics) => size_of::<ResourceMetrics>(),
            Part::OfScope(Signal::Traces) => size_of::<ScopeSpans>(),
            Part::OfScope(Signal::Logs) => size_of::<ScopeLogs>(),
            Part::OfScope(Signal::Metrics) => size_of::<ScopeMetrics>(),
            Part::Resource => size_of::<Resource>(),
            Part::EntityRef => size_of::<EntityRef>(),
            Part::Scope => size_of::<InstrumentationScope>(),
            Part::Span => size_of::<Span>() + size_of::<ReceivedSpan>(),
            Part::Event => size_of::<Event>(),
            Part::Link => size_of::<Link>(),
            Part::LogRecord => size_of::<LogRecord>() + size_of::<ReceivedLog>(),
            Part::Metric => size_of::<Metric>() + size_of::<ReceivedMetric>(),
            Part::NumberPoint => size_of::<NumberDataPoint>(),
            Part::HistogramPoint => size_of::<HistogramDataPoint>(),
            Part::ExponentialPoint => size_of::<ExponentialHistogramDataPoint>(),
            Part::SummaryPoint => size_of::<SummaryDataPoint>(),
            Part::Quantile => size_of::<ValueAtQuantile>(),
            Part::Exemplar => size_of::<Exemplar>(),
            Part::KeyValue => size_of::<KeyValue>(),
            Part::AnyValue => size_of::<AnyValue>(),
            Part::Text => size_of::<String>(),
            Part::Fixed | Part::Varint => size_of::<u64>(),
            // these lie within what holds them
            Part::Request(_) | Part::Array | Part::KeyValueList | Part::Buckets => 0,
            Part::Numbers | Part::Histogram | Part::ExponentialHistogram | Part::Summary => 0,
        }
    }

    /// How many of it a field with this content holds: numbers come packed.
    fn count_in(self, content: &[u8]) -> usize {
        match self {
            Part::Fixed => content.len() / size_of::<u64>(),
            // the last byte of each is below 0x80
            Part::Varint => content.iter().filter(|byte| **byte < 0x80).count(),
            _ => 1,
        }
    }
}

fn add(weight: &mut usize, part: Part, mut bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        match (part.within(tag), wire_type) {
            (Some(inner), WireType::LengthDelimited) => {
                let length = decode_varint(&mut bytes)?.min(bytes.len() as u64) as usize;
                let (content, rest) = bytes.split_at(length);
                *weight += inner.size() * inner.count_in(content);
                if inner.is_message() {
                    add(weight, inner, content, depth + 1)?;
                }
                bytes = rest;
            }
            (inner, _) => {
                skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
                // numbers may also come one by one
                *weight += inner.filter(|inner| inner.is_number()).map_or(0, Part::size);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
