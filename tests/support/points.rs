//! Received data points, in a form that is easy to read in assertions.

use standpipe::receiver::Receiver;
use standpipe::receiver::proto::{
    Data, ExponentialHistogramDataPoint, HistogramDataPoint, KeyValue, Metric, Number, NumberDataPoint, Value,
};

/// All metrics that arrived under this name, in the order of their arrival.
pub(crate) fn named(receiver: &Receiver, name: &str) -> Vec<Metric> {
    let all = receiver.metrics().into_iter().map(|received| (*received.metric).clone());
    all.filter(|metric| metric.name == name).collect()
}

/// The numbers of the newest snapshot of a counter or gauge. The snapshot must have been sent in one piece.
pub(crate) fn newest(receiver: &Receiver, name: &str) -> Vec<NumberDataPoint> {
    numbers(named(receiver, name).last().unwrap_or_else(|| panic!("no metric {name:?}")))
}

pub(crate) fn numbers(metric: &Metric) -> Vec<NumberDataPoint> {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => gauge.data_points.clone(),
        Data::Sum(sum) => sum.data_points.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn histograms(metric: &Metric) -> Vec<HistogramDataPoint> {
    match metric.data.as_ref().unwrap() {
        Data::Histogram(histogram) => histogram.data_points.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn exponentials(metric: &Metric) -> Vec<ExponentialHistogramDataPoint> {
    match metric.data.as_ref().unwrap() {
        Data::ExponentialHistogram(histogram) => histogram.data_points.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn int(point: &NumberDataPoint) -> i64 {
    match point.value.clone().unwrap() {
        Number::AsInt(value) => value,
        Number::AsDouble(value) => panic!("{value} is no integer"),
    }
}

pub(crate) fn float(point: &NumberDataPoint) -> f64 {
    match point.value.clone().unwrap() {
        Number::AsDouble(value) => value,
        Number::AsInt(value) => panic!("{value} is no double"),
    }
}

/// `key=value` for each attribute, in their order.
pub(crate) fn attributes(attributes: &[KeyValue]) -> String {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => format!("{}={text}", attribute.key),
        Value::IntValue(number) => format!("{}={number}", attribute.key),
        Value::BoolValue(truth) => format!("{}={truth}", attribute.key),
        other => format!("{}={other:?}", attribute.key),
    };
    attributes.iter().map(text).collect::<Vec<_>>().join(",")
}
