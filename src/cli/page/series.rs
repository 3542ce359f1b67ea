//! How does a metric go over time? The data points of each series, in the order they came.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use standpipe::receiver::ReceivedMetric;
use standpipe::receiver::proto::Number;

use super::super::describe;
use super::super::point_view::{self, PointView};
use super::details;
use standpipe::receiver::proto::Point;

/// Points of one series: ten minutes of one a second.
const MOST_POINTS: usize = 600;
/// What a series takes beside its points.
const SERIES_BYTES: usize = 1024;

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
    /// As they are shown, which may be cut.
    pub(super) attributes: String,
    /// A hash of all that tells series apart: attributes in any order, resource and scope.
    identity: u64,
}

pub(super) struct Series {
    /// Stays the same as long as it is kept.
    pub(super) id: u64,
    pub(super) kind: String,
    pub(super) unit: String,
    pub(super) description: String,
    /// The instance of the service that measures, if it has a name.
    pub(super) instance: String,
    pub(super) points: VecDeque<SeriesPoint>,
    changed: u64,
    bytes: usize,
}

/// A data point, of whichever kind.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SeriesPoint {
    /// Milliseconds since 1970.
    pub(super) time: u64,
    /// Since when a cumulative one counts.
    pub(super) start: u64,
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
        let origin = point_view::origin_identity(metric);
        let instance = describe::value_of(&metric.resource.attributes, "service.instance.id");
        for view in point_view::of_received(metric) {
            if let Some((time, value)) = view.unix_nanos().zip(point_value(&view)) {
                let [time, start] = [time, view.start_unix_nanos()].map(|nanos| nanos / 1_000_000);
                let key = SeriesKey {
                    name: details::shorten(&view.metric.name),
                    service,
                    attributes: details::shorten(&describe::attributes(view.attributes())),
                    identity: view.identity(origin),
                };
                self.add_point(key, &view, &instance, SeriesPoint { time, start, value });
            }
        }
    }

    fn add_point(&mut self, key: SeriesKey, view: &PointView<'_>, instance: &str, point: SeriesPoint) {
        self.clock += 1;
        let bytes = SERIES_BYTES + 2 * (key.name.len() + key.attributes.len());
        let series = self.series.entry(key).or_insert_with(|| {
            self.bytes += bytes;
            Series {
                id: self.clock,
                kind: view.kind(),
                unit: details::shorten(point_view::unit(&view.metric.unit)),
                description: details::shorten(&view.metric.description),
                instance: details::shorten(instance),
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

    /// Forgets the series that are silent for longest, an eighth more than needed: the search for them takes a while.
    pub(super) fn evict(&mut self, limit: usize) {
        if self.bytes <= limit {
            return;
        }
        let mut by_change: Vec<_> =
            self.series.iter().map(|(key, series)| (series.changed, key.clone())).collect();
        by_change.sort_unstable_by_key(|(changed, _)| *changed);
        for (_, key) in by_change {
            if self.bytes <= limit / 8 * 7 {
                break;
            }
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
    Some(match view.point? {
        Point::Number(point) => PointValue::Number {
            value: point.value.as_ref().map(|value| match *value {
                Number::AsInt(number) => number as f64,
                Number::AsDouble(number) => number,
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
