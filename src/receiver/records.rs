//! The records of a request: spans, log records and metrics, each with its resource and scope.
//!
//! This file decodes and encodes the records. `signals.rs` has their public methods, `value.rs` the values of
//! attributes, and `trace.rs` the tree of a trace.

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
#[cfg(feature = "json")]
use crate::record::wire::encode_field;
use crate::record::{Signal, SpanId, TraceId};

/// The records of one request, usually of one signal.
///
/// With the feature `json`, they can be read from OTLP JSON and written as OTLP JSON.
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

    /// Returns whether there are no records, not even a metric without data points.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.logs.is_empty() && self.metrics.is_empty()
    }

    /// Returns the number of spans, log records and data points.
    pub fn count(&self) -> usize {
        let points = self.metrics.iter().map(ReceivedMetric::point_count).sum::<usize>();
        self.spans.len() + self.logs.len() + points
    }

    /// Drops all but the first `count` spans, log records or data points.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.spans.truncate(count);
        self.logs.truncate(count);
        keep_first_points(&mut self.metrics, count);
    }
}

/// Returns the id, or the invalid id of zeros if the sender's id has a wrong length.
fn trace_id(bytes: &[u8]) -> TraceId {
    TraceId(bytes.try_into().unwrap_or_default())
}

/// Like [`trace_id`], for a span.
fn span_id(bytes: &[u8]) -> SpanId {
    SpanId(bytes.try_into().unwrap_or_default())
}

fn time(unix_nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(unix_nanos)
}

/// Tags of the length-delimited fields 1 and 2.
#[cfg(feature = "json")]
const FIRST: u8 = 0x0a;
#[cfg(feature = "json")]
const SECOND: u8 = 0x12;

/// Defines the record type of a signal: its message, resource and scope, and its place in a request.
macro_rules! received {
    ($($(#[$doc:meta])* $record:ident { $message:ident: $type:ident } = $request:ident.$of_resource:ident.$of_scope:ident.$all:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $record {
            /// The decoded message, with all fields.
            #[doc(hidden)]
            pub $message: Arc<$type>,
            /// Resource, shared by all its records; empty if the sender gave none.
            #[doc(hidden)]
            pub resource: Arc<Resource>,
            /// Instrumentation scope, shared by all its records; empty if the sender gave none.
            #[doc(hidden)]
            pub scope: Arc<InstrumentationScope>,
        }

        impl $record {
            /// Returns the name of the instrumentation scope; empty if the sender gave none.
            pub fn scope_name(&self) -> &str {
                &self.scope.name
            }

            /// Returns the `service.name` of the resource; empty if the sender gave none.
            pub fn service_name(&self) -> &str {
                self.resource_attribute("service.name").as_str().unwrap_or_default()
            }

            /// Returns the value of the resource's attribute `key`.
            pub fn resource_attribute(&self, key: &str) -> ReceivedValue<'_> {
                ReceivedValue::find(&self.resource.attributes, key)
            }

            /// Returns the approximate memory of the record. Its resource and scope are included unless the record
            /// before it, `last`, shares them, as successive records usually do.
            #[doc(hidden)]
            pub fn memory_bytes_after(&self, last: Option<&Self>) -> usize {
                let record = size_of::<$type>() + message::Value::heap_bytes(&*self.$message);
                if last.is_some_and(|last| Arc::ptr_eq(&last.scope, &self.scope)) {
                    return record;
                }
                let structs = size_of::<Resource>() + size_of::<InstrumentationScope>();
                let content = message::Value::heap_bytes(&*self.resource) + message::Value::heap_bytes(&*self.scope);
                record + structs + content
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

            /// Encodes records as an export request, whose field numbers are the same for every signal.
            #[cfg(feature = "json")]
            pub(super) fn encode(records: &[Self]) -> Vec<u8> {
                let mut request = Vec::new();
                // Decoding shares a resource among its records, so equal pointers mark the original groups.
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
    /// A received span with its resource and scope. Clones are cheap.
    ///
    /// Returned by [`Receiver::spans`](super::Receiver::spans), and contained in a [`Batch`](super::Batch).
    ReceivedSpan { span: Span } = TracesRequest.resource_spans.scope_spans.spans;
    /// A received log record with its resource and scope. Clones are cheap.
    ///
    /// Returned by [`Receiver::logs`](super::Receiver::logs), and contained in a [`Batch`](super::Batch).
    ReceivedLog { log: LogRecord } = LogsRequest.resource_logs.scope_logs.log_records;
    /// A received metric with its resource and scope. After a partial success, the last accepted metric of a request
    /// has only its accepted data points. Clones are cheap.
    ///
    /// Returned by [`Receiver::metrics`](super::Receiver::metrics), and contained in a [`Batch`](super::Batch).
    ReceivedMetric { metric: Metric } = MetricsRequest.resource_metrics.scope_metrics.metrics;
}

impl ReceivedMetric {
    /// Returns the number of data points, of any kind.
    pub fn point_count(&self) -> usize {
        points(&self.metric).len()
    }
}

/// Keeps the metrics with the first `points` data points. The last metric may lose some of its points.
fn keep_first_points(metrics: &mut Vec<ReceivedMetric>, points: usize) {
    let mut room = points;
    let whole = metrics.iter().take_while(|received| {
        let rest = room.checked_sub(received.point_count());
        room = rest.unwrap_or(room);
        rest.is_some()
    });
    let whole = whole.count();
    // The next metric keeps some of its points.
    let in_part = usize::from(room > 0);
    metrics.truncate(whole + in_part);
    if let Some(received) = metrics.get_mut(whole) {
        // `make_mut` copies the metric if a clone of the batch still refers to it.
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

    /// One metric of each kind with `points` data points, and one metric without a kind.
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
