//! How does a metric go over time? The data points of each series, in the order they came.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use standpipe::receiver::ReceivedMetric;
use standpipe::receiver::proto::metrics::v1::number_data_point::Value;

use super::super::describe;
use super::super::point_view::{self, Point, PointView};

/// Points of one series: ten minutes of one a second.
const MOST_POINTS: usize = 600;
const SERIES_BYTES: usize = 512;

/// All series, by service, name and attributes.
#[derive(Default)]
pub(super) struct AllSeries {
    series: BTreeMap<SeriesKey, Series>,
    bytes: usize,
    /// Counts the points, to know which series is silent for longest.
    clock: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub(super) name: String,
    pub(super) service: u32,
    pub(super) attributes: String,
}

pub(super) struct Series {
    /// Stays the same as long as it is kept.
    pub(super) id: u64,
    pub(super) kind: String,
    pub(super) unit: String,
    pub(super) description: String,
    pub(super) points: VecDeque<SeriesPoint>,
    changed: u64,
    bytes: usize,
}

/// A data point, of whichever kind.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SeriesPoint {
    /// Milliseconds since 1970.
    pub(super) time: u64,
    #[serde(flatten)]
    pub(super) value: PointValue,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum PointValue {
    Number {
        value: Option<f64>,
    },
    /// `counts` has one more than `bounds`: what is above the last.
    Buckets {
        count: u64,
        sum: Option<f64>,
        min: Option<f64>,
        max: Option<f64>,
        bounds: Vec<f64>,
        counts: Vec<u64>,
    },
    Quantiles {
        count: u64,
        sum: f64,
        quantiles: Vec<(f64, f64)>,
    },
}

impl AllSeries {
    pub(super) fn add(&mut self, service: u32, metric: &ReceivedMetric) {
        for view in point_view::of_received(metric) {
            if let Some((time, value)) = view.unix_nanos().zip(point_value(&view)) {
                self.add_point(service, &view, SeriesPoint { time: time / 1_000_000, value });
            }
        }
    }

    fn add_point(&mut self, service: u32, view: &PointView<'_>, point: SeriesPoint) {
        self.clock += 1;
        let key = SeriesKey {
            name: view.metric.name.clone(),
            service,
            attributes: describe::attributes(view.attributes()),
        };
        let bytes = SERIES_BYTES + key.name.len() + key.attributes.len() + view.metric.description.len();
        let series = self.series.entry(key).or_insert_with(|| {
            self.bytes += bytes;
            Series {
                id: self.clock,
                kind: view.kind(),
                unit: point_view::unit(&view.metric.unit).to_owned(),
                description: view.metric.description.clone(),
                points: VecDeque::new(),
                changed: 0,
                bytes,
            }
        });
        series.changed = self.clock;
        let mut change = |bytes: usize, is_added: bool| {
            let of = |total: &mut usize| match is_added {
                true => *total += bytes,
                false => *total -= bytes,
            };
            of(&mut series.bytes);
            of(&mut self.bytes);
        };
        change(point.bytes(), true);
        series.points.push_back(point);
        if series.points.len() > MOST_POINTS {
            if let Some(oldest) = series.points.pop_front() {
                change(oldest.bytes(), false);
            }
        }
    }

    /// Forgets the series that are silent for longest.
    pub(super) fn evict(&mut self, limit: usize) {
        while self.bytes > limit {
            let silent = self.series.iter().min_by_key(|(_, series)| series.changed);
            let Some(key) = silent.map(|(key, _)| key.clone()) else { break };
            self.bytes -= self.series.remove(&key).map_or(0, |series| series.bytes);
        }
    }

    /// By name, service and attributes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&SeriesKey, &Series)> {
        self.series.iter()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl SeriesPoint {
    fn bytes(&self) -> usize {
        let list = match &self.value {
            PointValue::Number { .. } => 0,
            PointValue::Buckets { bounds, counts, .. } => 8 * (bounds.len() + counts.len()),
            PointValue::Quantiles { quantiles, .. } => 16 * quantiles.len(),
        };
        size_of::<Self>() + list
    }
}

/// `None` for a metric without data points.
fn point_value(view: &PointView<'_>) -> Option<PointValue> {
    Some(match view.point {
        Point::Missing => return None,
        Point::Number(point) => PointValue::Number {
            value: point.value.map(|value| match value {
                Value::AsInt(number) => number as f64,
                Value::AsDouble(number) => number,
            }),
        },
        Point::Histogram(point) => PointValue::Buckets {
            count: point.count,
            sum: point.sum,
            min: point.min,
            max: point.max,
            bounds: point.explicit_bounds.clone(),
            counts: point.bucket_counts.clone(),
        },
        Point::Exponential(point) => {
            let (bounds, counts) = point_view::exponential_bounds(point);
            PointValue::Buckets {
                count: point.count,
                sum: point.sum,
                min: point.min,
                max: point.max,
                bounds,
                counts,
            }
        }
        Point::Summary(point) => PointValue::Quantiles {
            count: point.count,
            sum: point.sum,
            quantiles: point.quantile_values.iter().map(|at| (at.quantile, at.value)).collect(),
        },
    })
}
