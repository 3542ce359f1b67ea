//! Metrics: from the bytes of a request to metrics that know their resource and scope. What counts is their data points.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::{DecodeError, Message};

use super::records::find;

/// A metric that was accepted, all its data points or the first of them, with where it came from. Clones are cheap.
///
/// Get them from [`Receiver::metrics`](super::Receiver::metrics) or in a [`Batch`](super::Batch).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedMetric {
    /// The metric as it was decoded.
    pub metric: Arc<Metric>,
    /// Its resource, shared with the other metrics of the resource; empty if the sender gave none.
    pub resource: Arc<Resource>,
    /// Its instrumentation scope, shared likewise; empty if the sender gave none.
    pub scope: Arc<InstrumentationScope>,
}

impl ReceivedMetric {
    /// The value of the resource's attribute `key`.
    pub fn resource_attribute(&self, key: &str) -> Option<&Value> {
        find(&self.resource.attributes, key)
    }

    /// How many data points it has, of whatever kind.
    pub fn point_count(&self) -> usize {
        match &self.metric.data {
            None => 0,
            Some(Data::Gauge(gauge)) => gauge.data_points.len(),
            Some(Data::Sum(sum)) => sum.data_points.len(),
            Some(Data::Histogram(histogram)) => histogram.data_points.len(),
            Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
            Some(Data::Summary(summary)) => summary.data_points.len(),
        }
    }
}

/// Decodes an `ExportMetricsServiceRequest`.
pub(super) fn decode(body: &[u8]) -> Result<Vec<ReceivedMetric>, DecodeError> {
    let request = ExportMetricsServiceRequest::decode(body)?;
    let mut metrics = Vec::new();
    for of_resource in request.resource_metrics {
        let resource = Arc::new(of_resource.resource.unwrap_or_default());
        for of_scope in of_resource.scope_metrics {
            let scope = Arc::new(of_scope.scope.unwrap_or_default());
            metrics.extend(of_scope.metrics.into_iter().map(|metric| ReceivedMetric {
                metric: Arc::new(metric),
                resource: resource.clone(),
                scope: scope.clone(),
            }));
        }
    }
    Ok(metrics)
}

/// Keeps the metrics that hold the first `points` data points; the last of them may lose its later ones.
pub(super) fn keep_first(metrics: &mut Vec<ReceivedMetric>, points: usize) {
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
    use opentelemetry_proto::tonic::metrics::v1::{
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
        NumberDataPoint, Sum, Summary, SummaryDataPoint,
    };

    use super::*;

    /// One metric of each kind with so many data points, and one that has not even a kind.
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
            keep_first(&mut metrics, points);
            let counts = point_counts(&metrics);
            assert_eq!(counts.iter().sum::<usize>(), points);
            assert!(counts.iter().rev().skip(1).all(|count| matches!(count, 0 | 3)), "{counts:?}");
        }
        let mut metrics = of_every_kind(3);
        keep_first(&mut metrics, usize::MAX);
        assert_eq!(metrics, of_every_kind(3));
    }

    #[test]
    fn cutting_leaves_the_copies_of_others_alone() {
        let all = of_every_kind(3);
        let mut cut = all.clone();
        keep_first(&mut cut, 2);
        assert_eq!((point_counts(&cut), all[0].point_count()), (vec![2], 3));
    }
}
