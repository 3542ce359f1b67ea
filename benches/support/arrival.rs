//! What of a program's work has come to the other end, whatever it was: a contender that does nothing must not win.

use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use standpipe::receiver::{ReceivedMetric, Receiver};

/// Log records, events of spans, and what the newest metric adds up to.
pub(crate) fn tally(receiver: &Receiver) -> u64 {
    let events: usize = receiver.spans().iter().map(|received| received.span.events.len()).sum();
    receiver.log_count() + events as u64 + receiver.metrics().last().map_or(0, total)
}

/// The value of a sum or a gauge, the number of values of a histogram; over all attributes.
fn total(received: &ReceivedMetric) -> u64 {
    match &received.metric.data {
        Some(Data::Sum(sum)) => sum.data_points.iter().map(value).sum(),
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(value).sum(),
        Some(Data::Histogram(histogram)) => histogram.data_points.iter().map(|point| point.count).sum(),
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.data_points.iter().map(|point| point.count).sum()
        }
        _ => 0,
    }
}

fn value(point: &NumberDataPoint) -> u64 {
    match point.value {
        Some(Value::AsInt(value)) => value as u64,
        Some(Value::AsDouble(value)) => value as u64,
        None => 0,
    }
}
