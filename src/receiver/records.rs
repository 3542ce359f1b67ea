//! The records of a request: spans, log records and metrics, each with its resource and scope.
//!
//! This file decodes and encodes them. Their public methods are in `signals.rs`, the values of attributes in `value.rs`,
//! and the tree of a trace in `trace.rs`.

mod signals;
mod trace;
mod value;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use signals::{Point, ReceivedEvent, ReceivedLink, ReceivedPoint, points};
pub use trace::{Trace, TraceSpan, TreeNode, tree};
pub use value::ReceivedValue;

use crate::record::message::{self, DecodeError};
use crate::record::schema::{
    Data, InstrumentationScope, LogRecord, LogsRequest, Metric, MetricsRequest, Resource, Span, TracesRequest,
};
#[cfg(feature = "console")]
use crate::record::wire::encode_field;
use crate::record::{Signal, SpanId, TraceId};

/// The records of one request, most often of one signal.
///
/// With the feature `console` they are read from OTLP JSON and written as such, to look at them again later.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Records {
    /// The spans.
    pub spans: Vec<ReceivedSpan>,
    /// The log records.
    pub logs: Vec<ReceivedLog>,
    /// The metrics.
    pub metrics: Vec<ReceivedMetric>,
}

impl Records {
    pub(super) fn decode(signal: Signal, body: &[u8]) -> Result<Self, DecodeError> {
        Ok(match signal {
            Signal::Traces => Self { spans: ReceivedSpan::decode(body)?, ..Self::default() },
            Signal::Logs => Self { logs: ReceivedLog::decode(body)?, ..Self::default() },
            Signal::Metrics => Self { metrics: ReceivedMetric::decode(body)?, ..Self::default() },
        })
    }

    /// Whether there is nothing at all, not even a metric without data points.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.logs.is_empty() && self.metrics.is_empty()
    }

    /// How many spans, log records and data points there are.
    pub fn count(&self) -> usize {
        let points = self.metrics.iter().map(ReceivedMetric::point_count).sum::<usize>();
        self.spans.len() + self.logs.len() + points
    }

    /// Forgets all but the first `count` spans, log records or data points.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.spans.truncate(count);
        self.logs.truncate(count);
        keep_first_points(&mut self.metrics, count);
    }
}

/// All zero, which is invalid, where the sender's has another length.
fn trace_id(bytes: &[u8]) -> TraceId {
    TraceId(bytes.try_into().unwrap_or_default())
}

/// As [`trace_id`].
fn span_id(bytes: &[u8]) -> SpanId {
    SpanId(bytes.try_into().unwrap_or_default())
}

fn time(unix_nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(unix_nanos)
}

/// Tags of the length-delimited fields 1 and 2.
#[cfg(feature = "console")]
const FIRST: u8 = 0x0a;
#[cfg(feature = "console")]
const SECOND: u8 = 0x12;

/// Defines the records of all signals: the message, where it came from, and how a request holds it.
macro_rules! received {
    ($($(#[$doc:meta])* $record:ident { $message:ident: $type:ident } = $request:ident.$of_resource:ident.$of_scope:ident.$all:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $record {
            /// The record as it was decoded, with what the methods do not show.
            #[doc(hidden)]
            pub $message: Arc<$type>,
            /// Its resource, shared with the other records of the resource; empty if the sender gave none.
            #[doc(hidden)]
            pub resource: Arc<Resource>,
            /// Its instrumentation scope, shared likewise; empty if the sender gave none.
            #[doc(hidden)]
            pub scope: Arc<InstrumentationScope>,
        }

        impl $record {
            /// The name of its instrumentation scope; empty if the sender gave none.
            pub fn scope_name(&self) -> &str {
                &self.scope.name
            }

            /// The `service.name` of its resource; empty if the sender gave none.
            pub fn service_name(&self) -> &str {
                self.resource_attribute("service.name").as_str().unwrap_or_default()
            }

            /// The value of the resource's attribute `key`.
            pub fn resource_attribute(&self, key: &str) -> ReceivedValue<'_> {
                ReceivedValue::find(&self.resource.attributes, key)
            }

            /// Returns about how much memory the record takes, without its resource and its scope.
            #[doc(hidden)]
            pub fn memory_bytes(&self) -> usize {
                size_of::<$type>() + message::Value::heap_bytes(&*self.$message)
            }

            /// Returns about how much memory its resource and its scope take.
            #[doc(hidden)]
            pub fn origin_bytes(&self) -> usize {
                let structs = size_of::<Resource>() + size_of::<InstrumentationScope>();
                structs + message::Value::heap_bytes(&*self.resource) + message::Value::heap_bytes(&*self.scope)
            }

            fn decode(body: &[u8]) -> Result<Vec<Self>, DecodeError> {
                let request: $request = message::decode(body)?;
                let mut records = Vec::new();
                for of_resource in request.$of_resource {
                    let resource = Arc::new(of_resource.resource.unwrap_or_default());
                    for of_scope in of_resource.$of_scope {
                        let scope = Arc::new(of_scope.scope.unwrap_or_default());
                        records.extend(of_scope.$all.into_iter().map(|message| Self {
                            $message: Arc::new(message),
                            resource: resource.clone(),
                            scope: scope.clone(),
                        }));
                    }
                }
                Ok(records)
            }

            /// Encodes records as an export request. Its fields have the same numbers for every signal.
            #[cfg(feature = "console")]
            pub(super) fn encode(records: &[Self]) -> Vec<u8> {
                let mut request = Vec::new();
                for of_resource in records.chunk_by(|a, b| Arc::ptr_eq(&a.resource, &b.resource)) {
                    let mut resource = Vec::new();
                    encode_field(FIRST, &message::encoded(&*of_resource[0].resource), &mut resource);
                    for of_scope in of_resource.chunk_by(|a, b| Arc::ptr_eq(&a.scope, &b.scope)) {
                        let mut scope = Vec::new();
                        encode_field(FIRST, &message::encoded(&*of_scope[0].scope), &mut scope);
                        of_scope.iter().for_each(|of_scope| encode_field(SECOND, &message::encoded(&*of_scope.$message), &mut scope));
                        encode_field(SECOND, &scope, &mut resource);
                    }
                    encode_field(FIRST, &resource, &mut request);
                }
                request
            }
        }
    )*};
}

received! {
    /// A span that was accepted, with where it came from. Clones are cheap.
    ///
    /// Get them from [`Receiver::spans`](super::Receiver::spans) or in a [`Batch`](super::Batch).
    ReceivedSpan { span: Span } = TracesRequest.resource_spans.scope_spans.spans;
    /// A log record that was accepted, with where it came from. Clones are cheap.
    ///
    /// Get them from [`Receiver::logs`](super::Receiver::logs) or in a [`Batch`](super::Batch).
    ReceivedLog { log: LogRecord } = LogsRequest.resource_logs.scope_logs.log_records;
    /// A metric that was accepted, all its data points or the first of them, with where it came from. Clones are cheap.
    ///
    /// Get them from [`Receiver::metrics`](super::Receiver::metrics) or in a [`Batch`](super::Batch).
    ReceivedMetric { metric: Metric } = MetricsRequest.resource_metrics.scope_metrics.metrics;
}

impl ReceivedMetric {
    /// How many data points it has, of whatever kind.
    pub fn point_count(&self) -> usize {
        points(&self.metric).len()
    }
}

/// Keeps the metrics that hold the first `points` data points; the last of them may lose its later ones.
fn keep_first_points(metrics: &mut Vec<ReceivedMetric>, points: usize) {
    let mut room = points;
    let whole = metrics.iter().take_while(|received| match room.checked_sub(received.point_count()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    });
    let whole = whole.count();
    let in_part = usize::from(room > 0);
    metrics.truncate(whole + in_part);
    if let Some(received) = metrics.get_mut(whole) {
        truncate(Arc::make_mut(&mut received.metric), room);
    }
}

fn truncate(metric: &mut Metric, points: usize) {
    match &mut metric.data {
        None => {}
        Some(Data::Gauge(gauge)) => gauge.data_points.truncate(points),
        Some(Data::Sum(sum)) => sum.data_points.truncate(points),
        Some(Data::Histogram(histogram)) => histogram.data_points.truncate(points),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.truncate(points),
        Some(Data::Summary(summary)) => summary.data_points.truncate(points),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::schema::{
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
        NumberDataPoint, Sum, Summary, SummaryDataPoint,
    };

    /// One metric of each kind with `points` data points, and one that has not even a kind.
    fn of_every_kind(points: usize) -> Vec<ReceivedMetric> {
        let numbers = vec![NumberDataPoint::default(); points];
        let sum = Sum { data_points: numbers.clone(), ..Default::default() };
        let histogram =
            Histogram { data_points: vec![HistogramDataPoint::default(); points], ..Default::default() };
        let exponential = ExponentialHistogram {
            data_points: vec![ExponentialHistogramDataPoint::default(); points],
            ..Default::default()
        };
        let summary = Summary { data_points: vec![SummaryDataPoint::default(); points] };
        let kinds = [
            Some(Data::Gauge(Gauge { data_points: numbers })),
            Some(Data::Sum(sum)),
            None,
            Some(Data::Histogram(histogram)),
            Some(Data::ExponentialHistogram(exponential)),
            Some(Data::Summary(summary)),
        ];
        let received = kinds.map(|data| ReceivedMetric {
            metric: Arc::new(Metric { data, ..Default::default() }),
            resource: Arc::default(),
            scope: Arc::default(),
        });
        received.to_vec()
    }

    fn point_counts(metrics: &[ReceivedMetric]) -> Vec<usize> {
        metrics.iter().map(ReceivedMetric::point_count).collect()
    }

    #[test]
    fn the_points_of_every_kind_are_counted() {
        assert_eq!(point_counts(&of_every_kind(3)), [3, 3, 0, 3, 3, 3]);
    }

    #[test]
    fn every_kind_can_be_cut_after_any_point() {
        for points in 0..=15 {
            let mut metrics = of_every_kind(3);
            keep_first_points(&mut metrics, points);
            let counts = point_counts(&metrics);
            assert_eq!(counts.iter().sum::<usize>(), points);
            assert!(counts.iter().rev().skip(1).all(|count| matches!(count, 0 | 3)), "{counts:?}");
        }
        let mut metrics = of_every_kind(3);
        keep_first_points(&mut metrics, usize::MAX);
        assert_eq!(metrics, of_every_kind(3));
    }

    #[test]
    fn cutting_leaves_the_copies_of_others_alone() {
        let all = of_every_kind(3);
        let mut cut = all.clone();
        keep_first_points(&mut cut, 2);
        assert_eq!((point_counts(&cut), all[0].point_count()), (vec![2], 3));
    }
}
