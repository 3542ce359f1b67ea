//! Public methods of received spans, log records and metrics, which hide the protobuf messages.

use std::time::{Duration, SystemTime};

use super::value::{self, ReceivedValue};
use super::{ReceivedLog, ReceivedMetric, ReceivedSpan, span_id, time, trace_id};
use crate::metrics::Attributes;
use crate::record::schema::{
    Data, Event, Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, KeyValue, Link, Metric,
    NumberDataPoint, SummaryDataPoint,
};
use crate::record::{Severity, SpanId, SpanKind, Status, TraceId};

impl ReceivedSpan {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.span.name
    }

    /// Returns the id of the trace, or an [invalid](TraceId::is_valid) one if the sender's id does not have 16 bytes.
    pub fn trace_id(&self) -> TraceId {
        trace_id(&self.span.trace_id)
    }

    /// Returns the id of the span, or an [invalid](SpanId::is_valid) one if the sender's id does not have 8 bytes.
    pub fn span_id(&self) -> SpanId {
        span_id(&self.span.span_id)
    }

    /// Returns the id of the parent; `None` for the root of a trace.
    pub fn parent_id(&self) -> Option<SpanId> {
        Some(span_id(&self.span.parent_span_id)).filter(|id| id.is_valid())
    }

    /// Returns the kind; internal if the sender gave none.
    pub fn kind(&self) -> SpanKind {
        SpanKind::from_number(self.span.kind)
    }

    /// Returns the status; `None` if the program set none.
    pub fn status(&self) -> Option<Status<'_>> {
        let status = self.span.status.as_ref()?;
        match status.code {
            1 => Some(Status::Ok),
            2 => Some(Status::Error(&status.message)),
            _ => None,
        }
    }

    /// Returns the start time.
    pub fn start_time(&self) -> SystemTime {
        time(self.span.start_time_unix_nano)
    }

    /// Returns the end time.
    pub fn end_time(&self) -> SystemTime {
        time(self.span.end_time_unix_nano)
    }

    /// Returns the time from start to end; zero for a span that ends before it starts.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.span.end_time_unix_nano.saturating_sub(self.span.start_time_unix_nano))
    }

    /// Returns the value of the span's attribute `key`, which can be compared with plain Rust values.
    ///
    /// ```
    /// # use standpipe::receiver::ReceivedSpan;
    /// fn is_checked(span: &ReceivedSpan) -> bool {
    ///     span.attribute("phases") == 2 && span.attribute("card") == "visa" && span.attribute("coupon").is_none()
    /// }
    /// ```
    pub fn attribute(&self, key: &str) -> ReceivedValue<'_> {
        ReceivedValue::find(&self.span.attributes, key)
    }

    /// Returns all attributes of the span, in the order they were sent.
    pub fn attributes(&self) -> Vec<(&str, ReceivedValue<'_>)> {
        value::entries_of(&self.span.attributes)
    }

    /// Returns the events, in the order they were sent.
    pub fn events(&self) -> Vec<ReceivedEvent<'_>> {
        self.span.events.iter().map(ReceivedEvent).collect()
    }

    /// Returns the links, in the order they were sent.
    pub fn links(&self) -> Vec<ReceivedLink<'_>> {
        self.span.links.iter().map(ReceivedLink).collect()
    }
}

/// An event of a span. Returned by [`ReceivedSpan::events`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedEvent<'a>(&'a Event);

impl<'a> ReceivedEvent<'a> {
    /// Returns the name.
    pub fn name(self) -> &'a str {
        &self.0.name
    }

    /// Returns the time of the event.
    pub fn time(self) -> SystemTime {
        time(self.unix_nanos())
    }

    pub(super) fn unix_nanos(self) -> u64 {
        self.0.time_unix_nano
    }

    /// Returns the value of the event's attribute `key`.
    pub fn attribute(self, key: &str) -> ReceivedValue<'a> {
        ReceivedValue::find(&self.0.attributes, key)
    }

    /// Returns all attributes of the event, in the order they were sent.
    pub fn attributes(self) -> Vec<(&'a str, ReceivedValue<'a>)> {
        value::entries_of(&self.0.attributes)
    }
}

/// A link of a span to another span. Returned by [`ReceivedSpan::links`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedLink<'a>(&'a Link);

impl<'a> ReceivedLink<'a> {
    /// Returns the trace of the other span.
    pub fn trace_id(self) -> TraceId {
        trace_id(&self.0.trace_id)
    }

    /// Returns the id of the other span.
    pub fn span_id(self) -> SpanId {
        span_id(&self.0.span_id)
    }

    /// Returns the value of the link's attribute `key`.
    pub fn attribute(self, key: &str) -> ReceivedValue<'a> {
        ReceivedValue::find(&self.0.attributes, key)
    }
}

impl ReceivedLog {
    /// Returns the body, usually a text.
    ///
    /// ```
    /// use standpipe::Severity;
    /// use standpipe::receiver::TestTelemetry;
    ///
    /// let test = TestTelemetry::start();
    /// test.logger("shop").warn("declined").set("amount", 12.5).emit();
    /// let log = test.received().logs().remove(0);
    /// assert_eq!(log.body(), "declined");
    /// assert_eq!(log.severity(), Some(Severity::Warn));
    /// assert_eq!(log.attribute("amount"), 12.5);
    /// ```
    pub fn body(&self) -> ReceivedValue<'_> {
        ReceivedValue::of(self.log.body.as_ref())
    }

    /// Returns the severity; `None` if the sender gave none.
    pub fn severity(&self) -> Option<Severity> {
        u8::try_from(self.log.severity_number).ok().and_then(Severity::from_number)
    }

    /// Returns the severity as its source spells it; empty if the sender gave no text.
    pub fn severity_text(&self) -> &str {
        &self.log.severity_text
    }

    /// Returns the event name; empty if the log record is not an event.
    pub fn event_name(&self) -> &str {
        &self.log.event_name
    }

    /// Returns the time of the log record, or its observed time if the sender gave no other time.
    pub fn time(&self) -> SystemTime {
        time(self.unix_nanos())
    }

    pub(super) fn unix_nanos(&self) -> u64 {
        match self.log.time_unix_nano {
            0 => self.log.observed_time_unix_nano,
            time => time,
        }
    }

    /// Returns the trace of the log record, if any.
    pub fn trace_id(&self) -> Option<TraceId> {
        Some(trace_id(&self.log.trace_id)).filter(|id| id.is_valid())
    }

    /// Returns the span of the log record, if any.
    pub fn span_id(&self) -> Option<SpanId> {
        Some(span_id(&self.log.span_id)).filter(|id| id.is_valid())
    }

    /// Returns the value of the log record's attribute `key`.
    pub fn attribute(&self, key: &str) -> ReceivedValue<'_> {
        ReceivedValue::find(&self.log.attributes, key)
    }

    /// Returns all attributes of the log record, in the order they were sent.
    pub fn attributes(&self) -> Vec<(&str, ReceivedValue<'_>)> {
        value::entries_of(&self.log.attributes)
    }
}

impl ReceivedMetric {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.metric.name
    }

    /// Returns the unit; empty if the sender gave none.
    pub fn unit(&self) -> &str {
        &self.metric.unit
    }

    /// Returns the description; empty if the sender gave none.
    pub fn description(&self) -> &str {
        &self.metric.description
    }

    /// Returns the data points of any kind, in the order they were sent.
    pub fn points(&self) -> Vec<ReceivedPoint<'_>> {
        points(&self.metric).into_iter().map(ReceivedPoint).collect()
    }

    /// Returns the data point with exactly these attributes, in any order. `()` means no attributes.
    ///
    /// ```
    /// use standpipe::receiver::TestTelemetry;
    ///
    /// let test = TestTelemetry::start();
    /// test.meter("shop").histogram("basket.size").record(3.0, &[("shop.country", "SE")]);
    /// let metric = test.received().metric("basket.size").unwrap();
    /// let point = metric.point(&[("shop.country", "SE")]).unwrap();
    /// assert_eq!((point.count(), point.sum()), (1, Some(3.0)));
    /// ```
    pub fn point(&self, attributes: impl Attributes) -> Option<ReceivedPoint<'_>> {
        attributes.with(|pairs| {
            self.points().into_iter().find(|point| {
                point.attributes().len() == pairs.len()
                    && pairs.iter().all(|(key, value)| point.attribute(key) == *value)
            })
        })
    }

    /// Returns the value of the counter's or gauge's data point with exactly these attributes; absent if there is no
    /// such point, or if the metric is of another kind.
    ///
    /// ```
    /// use standpipe::receiver::TestTelemetry;
    ///
    /// let test = TestTelemetry::start();
    /// test.meter("shop").counter("orders").add(3, &[("shop.country", "SE")]);
    /// let orders = test.received().metric("orders").unwrap();
    /// assert_eq!(orders.value(&[("shop.country", "SE")]), 3);
    /// assert!(orders.value(()).is_none());
    /// ```
    pub fn value(&self, attributes: impl Attributes) -> ReceivedValue<'_> {
        self.point(attributes).map_or(ReceivedValue::ABSENT, ReceivedPoint::value)
    }
}

/// A data point of a metric. Returned by [`ReceivedMetric::points`] and [`ReceivedMetric::point`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedPoint<'a>(Point<'a>);

/// A data point of any kind.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Point<'a> {
    Number(&'a NumberDataPoint),
    Histogram(&'a HistogramDataPoint),
    Exponential(&'a ExponentialHistogramDataPoint),
    Summary(&'a SummaryDataPoint),
}

impl<'a> Point<'a> {
    pub fn attributes(self) -> &'a [KeyValue] {
        match self {
            Self::Number(point) => &point.attributes,
            Self::Histogram(point) => &point.attributes,
            Self::Exponential(point) => &point.attributes,
            Self::Summary(point) => &point.attributes,
        }
    }

    /// Returns the start time and the time of the point, in nanoseconds since 1970.
    pub fn times(self) -> (u64, u64) {
        match self {
            Self::Number(point) => (point.start_time_unix_nano, point.time_unix_nano),
            Self::Histogram(point) => (point.start_time_unix_nano, point.time_unix_nano),
            Self::Exponential(point) => (point.start_time_unix_nano, point.time_unix_nano),
            Self::Summary(point) => (point.start_time_unix_nano, point.time_unix_nano),
        }
    }

    pub fn exemplars(self) -> &'a [Exemplar] {
        match self {
            Self::Number(point) => &point.exemplars,
            Self::Histogram(point) => &point.exemplars,
            Self::Exponential(point) => &point.exemplars,
            Self::Summary(_) => &[],
        }
    }
}

/// Returns the data points of a metric of any kind.
#[doc(hidden)]
pub fn points(metric: &Metric) -> Vec<Point<'_>> {
    match &metric.data {
        None => Vec::new(),
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(Point::Number).collect(),
        Some(Data::Sum(sum)) => sum.data_points.iter().map(Point::Number).collect(),
        Some(Data::Histogram(histogram)) => histogram.data_points.iter().map(Point::Histogram).collect(),
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.data_points.iter().map(Point::Exponential).collect()
        }
        Some(Data::Summary(summary)) => summary.data_points.iter().map(Point::Summary).collect(),
    }
}

impl<'a> ReceivedPoint<'a> {
    /// Returns the value of the point's attribute `key`.
    pub fn attribute(self, key: &str) -> ReceivedValue<'a> {
        ReceivedValue::find(self.0.attributes(), key)
    }

    /// Returns all attributes of the point, in the order they were sent.
    pub fn attributes(self) -> Vec<(&'a str, ReceivedValue<'a>)> {
        value::entries_of(self.0.attributes())
    }

    /// Returns the value of a counter or gauge; absent for other metrics.
    pub fn value(self) -> ReceivedValue<'a> {
        match self.0 {
            Point::Number(point) => ReceivedValue::of_number(point.value.clone()),
            _ => ReceivedValue::ABSENT,
        }
    }

    /// Returns the number of recorded values of a histogram or summary; 0 for a counter or gauge.
    pub fn count(self) -> u64 {
        match self.0 {
            Point::Number(_) => 0,
            Point::Histogram(point) => point.count,
            Point::Exponential(point) => point.count,
            Point::Summary(point) => point.count,
        }
    }

    /// Returns the sum of the values of a histogram or summary; `None` for other metrics, and if no sum was sent.
    pub fn sum(self) -> Option<f64> {
        match self.0 {
            Point::Number(_) => None,
            Point::Histogram(point) => point.sum,
            Point::Exponential(point) => point.sum,
            Point::Summary(point) => Some(point.sum),
        }
    }

    /// Returns the bucket boundaries of a histogram with explicit boundaries; empty for other metrics.
    pub fn bounds(self) -> &'a [f64] {
        if let Point::Histogram(point) = self.0 { &point.explicit_bounds } else { &[] }
    }

    /// Returns the number of values in each bucket of a histogram with explicit boundaries, which has one bucket more
    /// than boundaries; empty for other metrics.
    pub fn bucket_counts(self) -> &'a [u64] {
        if let Point::Histogram(point) = self.0 { &point.bucket_counts } else { &[] }
    }
}
