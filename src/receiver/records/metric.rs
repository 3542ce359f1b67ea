//! A metric that was received and its data points, without their protobuf messages.

use super::ReceivedMetric;
use super::value::{self, ReceivedValue};
use crate::metrics::Attributes;
use crate::record::schema::{
    Data, ExponentialHistogramDataPoint, HistogramDataPoint, KeyValue, Number, NumberDataPoint,
    SummaryDataPoint,
};

impl ReceivedMetric {
    /// The name.
    pub fn name(&self) -> &str {
        &self.metric.name
    }

    /// What it is measured in; empty if the sender did not say.
    pub fn unit(&self) -> &str {
        &self.metric.unit
    }

    /// What it means; empty if the sender did not say.
    pub fn description(&self) -> &str {
        &self.metric.description
    }

    /// Its data points of whatever kind, in the order they were sent.
    pub fn points(&self) -> Vec<ReceivedPoint<'_>> {
        match &self.metric.data {
            None => Vec::new(),
            Some(Data::Gauge(gauge)) => points(&gauge.data_points, Point::Number),
            Some(Data::Sum(sum)) => points(&sum.data_points, Point::Number),
            Some(Data::Histogram(histogram)) => points(&histogram.data_points, Point::Histogram),
            Some(Data::ExponentialHistogram(histogram)) => points(&histogram.data_points, Point::Exponential),
            Some(Data::Summary(summary)) => points(&summary.data_points, Point::Summary),
        }
    }

    /// The data point of exactly these attributes, in any order; `()` are none.
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

    /// The number that the counter or gauge has for exactly these attributes; absent if there is none, or if it is another
    /// instrument.
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

/// A data point of a metric. From [`ReceivedMetric::points`] and [`ReceivedMetric::point`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedPoint<'a>(Point<'a>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Point<'a> {
    Number(&'a NumberDataPoint),
    Histogram(&'a HistogramDataPoint),
    Exponential(&'a ExponentialHistogramDataPoint),
    Summary(&'a SummaryDataPoint),
}

fn points<'a, P>(points: &'a [P], kind: fn(&'a P) -> Point<'a>) -> Vec<ReceivedPoint<'a>> {
    points.iter().map(|point| ReceivedPoint(kind(point))).collect()
}

impl<'a> ReceivedPoint<'a> {
    /// The value of the point's attribute `key`.
    pub fn attribute(self, key: &str) -> ReceivedValue<'a> {
        ReceivedValue::find(self.key_values(), key)
    }

    /// All attributes of the point, in the order they were sent.
    pub fn attributes(self) -> Vec<(&'a str, ReceivedValue<'a>)> {
        value::entries_of(self.key_values())
    }

    /// The number of a counter or gauge; absent for a histogram.
    pub fn value(self) -> ReceivedValue<'a> {
        match self.0 {
            Point::Number(NumberDataPoint { value: Some(Number::AsInt(number)), .. }) => {
                ReceivedValue::int(*number)
            }
            Point::Number(NumberDataPoint { value: Some(Number::AsDouble(number)), .. }) => {
                ReceivedValue::float(*number)
            }
            _ => ReceivedValue::ABSENT,
        }
    }

    /// How many values a histogram holds; 0 for a counter or gauge.
    pub fn count(self) -> u64 {
        match self.0 {
            Point::Number(_) => 0,
            Point::Histogram(point) => point.count,
            Point::Exponential(point) => point.count,
            Point::Summary(point) => point.count,
        }
    }

    /// The sum of the values of a histogram, if it was sent.
    pub fn sum(self) -> Option<f64> {
        match self.0 {
            Point::Number(_) => None,
            Point::Histogram(point) => point.sum,
            Point::Exponential(point) => point.sum,
            Point::Summary(point) => Some(point.sum),
        }
    }

    /// Where the buckets of an explicit histogram end; empty for other instruments.
    pub fn bounds(self) -> &'a [f64] {
        if let Point::Histogram(point) = self.0 { &point.explicit_bounds } else { &[] }
    }

    /// How many values are in each bucket of an explicit histogram, of which there is one more than bounds; empty for other
    /// instruments.
    pub fn bucket_counts(self) -> &'a [u64] {
        if let Point::Histogram(point) = self.0 { &point.bucket_counts } else { &[] }
    }

    fn key_values(self) -> &'a [KeyValue] {
        match self.0 {
            Point::Number(point) => &point.attributes,
            Point::Histogram(point) => &point.attributes,
            Point::Exponential(point) => &point.attributes,
            Point::Summary(point) => &point.attributes,
        }
    }
}
