//! Metric series: the data points of one metric with one set of attributes, ordered by time.
//!
//! `demo`, `receive`, `show` and the page keep points in a [`SeriesStore`]. It bounds the points of each series and the
//! bytes of all series. A series is identified by a hash of its resource's attributes, the names of scope and metric,
//! the type of data, and its own attributes. The order of attributes does not matter.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;

use serde::Serialize;
use standpipe::receiver::ReceivedMetric;
use standpipe::receiver::proto::{
    self, Buckets, Data, ExemplarValue, ExponentialHistogramDataPoint, KeyValue, Metric, Number, Point,
};

use super::describe;
use super::text::brief;

/// OTLP's number for delta temporality: each point covers the time since the previous point.
const DELTA: i32 = 1;
/// Estimated memory of a series without its points and texts.
const SERIES_BYTES: usize = 1024;

/// Recently received series. If they exceed the memory limit, the least recently updated are evicted first.
#[derive(Default)]
pub(crate) struct SeriesStore {
    /// Series by the hash of their identity.
    pub(crate) all: HashMap<u64, Series>,
    max_points: usize,
    max_bytes: usize,
    pub(crate) bytes: usize,
    /// Number of points ever added. It serves as a logical clock for the first and last point of each series.
    clock: u64,
}

impl SeriesStore {
    /// Returns a store for the last `max_points` of each series, and about `max_bytes` in total.
    pub(crate) fn new(max_points: usize, max_bytes: usize) -> Self {
        Self { max_points, max_bytes, ..Self::default() }
    }

    /// Adds the points of a metric. Returns for each point its series, and whether the value has changed.
    pub(crate) fn add(&mut self, metric: &ReceivedMetric) -> Vec<(u64, bool)> {
        let kind = metric.metric.data.as_ref().map(mem::discriminant);
        let resource = attributes_identity(&metric.resource.attributes);
        let origin = hash(&(resource, metric.scope_name(), metric.name(), kind));
        let add = |point: Point<'_>| {
            let identity = hash(&(attributes_identity(point.attributes()), origin));
            (identity, self.add_point(identity, metric, point))
        };
        let added = proto::points(&metric.metric).into_iter().map(add).collect();
        self.evict();
        added
    }

    fn add_point(&mut self, identity: u64, metric: &ReceivedMetric, point: Point<'_>) -> bool {
        self.clock += 1;
        let new = || Series::new(self.clock, metric, point.attributes());
        let series = self.all.entry(identity).or_insert_with(new);
        // The bytes of a new series are not part of the sum yet.
        let bytes_before = if series.points.is_empty() { 0 } else { series.bytes };
        let (start, time) = point.times();
        let (time, start) = (time / 1_000_000, start / 1_000_000);
        let mut exemplars = exemplars(point);
        // A cumulative point may repeat exemplars of the previous point. The repeated exemplars are left out.
        let previous = series.points.back().map_or(0, |previous| previous.time);
        exemplars.retain(|exemplar| exemplar.time >= previous || time < previous);
        let point = SeriesPoint { time, start, value: point.into(), exemplars };
        // A delta with the same value is a change, unless the time is the same, too: then the point was sent twice.
        let is_same =
            |last: &SeriesPoint| last.value == point.value && (last.time == point.time || !series.is_delta());
        let is_changed = !series.points.back().is_some_and(is_same);
        series.changed = self.clock;
        series.bytes += point.bytes();
        // Points may arrive out of order.
        let place = series.points.partition_point(|other| other.time <= point.time);
        series.points.insert(place, point);
        if series.points.len() > self.max_points {
            series.bytes -= series.points.pop_front().map_or(0, |oldest| oldest.bytes());
        }
        self.bytes = self.bytes - bytes_before + series.bytes;
        is_changed
    }

    /// If the limit is exceeded, evicts series down to seven eighths of it, so that the sort below is rarely needed.
    fn evict(&mut self) {
        if self.bytes <= self.max_bytes {
            return;
        }
        let mut by_change: Vec<_> =
            self.all.iter().map(|(identity, series)| (series.changed, *identity)).collect();
        by_change.sort_unstable();
        for (_, identity) in by_change {
            if self.bytes <= self.max_bytes / 8 * 7 {
                break;
            }
            self.bytes -= self.all.remove(&identity).map_or(0, |series| series.bytes);
        }
    }
}

/// One series, whose texts are cut to the length that a row shows.
pub(crate) struct Series {
    /// Logical time of the first point, which identifies the series as long as it is kept.
    pub(crate) id: u64,
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) unit: String,
    pub(crate) description: String,
    pub(crate) attributes: String,
    /// The `service.instance.id`; empty if absent.
    pub(crate) instance: String,
    pub(crate) points: VecDeque<SeriesPoint>,
    changed: u64,
    bytes: usize,
}

impl Series {
    fn new(id: u64, received: &ReceivedMetric, attributes: &[KeyValue]) -> Self {
        let metric = &received.metric;
        let (name, attributes) = (brief(&metric.name), brief(&describe::attributes(attributes)));
        Self {
            id,
            service: brief(received.service_name()),
            kind: kind(metric),
            unit: brief(unit(&metric.unit)),
            description: brief(&metric.description),
            instance: brief(&describe::value_of(&received.resource.attributes, "service.instance.id")),
            points: VecDeque::new(),
            changed: 0,
            bytes: SERIES_BYTES + 2 * (name.len() + attributes.len()),
            name,
            attributes,
        }
    }

    /// Returns whether the series has delta temporality.
    pub(crate) fn is_delta(&self) -> bool {
        self.kind.ends_with(" delta")
    }
}

/// A data point of any kind, in the JSON form for the page's scripts.
#[derive(Debug, Serialize)]
pub(crate) struct SeriesPoint {
    /// Milliseconds since 1970.
    pub(crate) time: u64,
    /// Start of the interval that the point covers, in milliseconds since 1970; 0 if unknown.
    start: u64,
    #[serde(flatten)]
    pub(crate) value: PointValue,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exemplars: Vec<ExemplarPoint>,
}

/// One measurement of a point, and the span in which it was made.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ExemplarPoint {
    /// Milliseconds since 1970.
    pub(crate) time: u64,
    pub(crate) value: f64,
    /// Ids in hexadecimal.
    pub(crate) trace: String,
    pub(crate) span: String,
}

/// Returns the exemplars of a point that belong to a trace.
pub(crate) fn exemplars(point: Point<'_>) -> Vec<ExemplarPoint> {
    let made_in_span = |exemplar: &&proto::Exemplar| !exemplar.trace_id.is_empty();
    let exemplar = |exemplar: &proto::Exemplar| ExemplarPoint {
        time: exemplar.time_unix_nano / 1_000_000,
        value: match exemplar.value {
            Some(ExemplarValue::AsInt(value)) => value as f64,
            Some(ExemplarValue::AsDouble(value)) => value,
            None => f64::NAN,
        },
        trace: describe::id(&exemplar.trace_id),
        span: describe::id(&exemplar.span_id),
    };
    point.exemplars().iter().filter(made_in_span).map(exemplar).collect()
}

impl SeriesPoint {
    fn bytes(&self) -> usize {
        let lists = match &self.value {
            PointValue::Int { .. } | PointValue::Double { .. } => 0,
            PointValue::Histogram { bounds, counts, .. } => 8 * (bounds.len() + counts.len()),
            PointValue::Summary { quantiles, .. } => 16 * quantiles.len(),
        };
        size_of::<Self>() + lists + self.exemplars.len() * (size_of::<ExemplarPoint>() + 48)
    }
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum PointValue {
    Int {
        value: i64,
    },
    Double {
        value: Option<f64>,
    },
    /// `counts` has one element more than `bounds`, for values above the last bound, unless both are empty.
    Histogram {
        /// Scale of an exponential histogram, from which its bounds are computed.
        scale: Option<i32>,
        count: u64,
        sum: Option<f64>,
        min: Option<f64>,
        max: Option<f64>,
        bounds: Vec<f64>,
        counts: Vec<u64>,
    },
    Summary {
        count: u64,
        sum: f64,
        quantiles: Vec<(f64, f64)>,
    },
}

impl From<Point<'_>> for PointValue {
    fn from(point: Point<'_>) -> Self {
        let histogram = |scale, count, sum, (min, max), (bounds, counts)| Self::Histogram {
            scale,
            count,
            sum,
            min,
            max,
            bounds,
            counts,
        };
        match point {
            Point::Number(point) => match point.value {
                Some(Number::AsInt(value)) => Self::Int { value },
                Some(Number::AsDouble(value)) => Self::Double { value: Some(value) },
                None => Self::Double { value: None },
            },
            Point::Histogram(point) => {
                let buckets = (point.explicit_bounds.clone(), point.bucket_counts.clone());
                histogram(None, point.count, point.sum, (point.min, point.max), buckets)
            }
            Point::Exponential(point) => {
                let buckets = exponential_buckets(point);
                histogram(Some(point.scale), point.count, point.sum, (point.min, point.max), buckets)
            }
            Point::Summary(point) => Self::Summary {
                count: point.count,
                sum: point.sum,
                quantiles: point.quantile_values.iter().map(|at| (at.quantile, at.value)).collect(),
            },
        }
    }
}

impl PointValue {
    /// Returns the value of a number, if present, or the count of a histogram or summary.
    pub(crate) fn amount(&self) -> Option<f64> {
        match self {
            Self::Int { value } => Some(*value as f64),
            Self::Double { value } => *value,
            Self::Histogram { count, .. } | Self::Summary { count, .. } => Some(*count as f64),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int { .. } | Self::Double { .. })
    }

    /// Formats a number with its unit, or the statistics of a histogram or summary: `count=3 sum=12.5 ms`.
    pub(crate) fn text(&self, unit: &str) -> String {
        let measure = |name: &str, value: &f64| format!(" {name}={}", number(*value));
        let text = match self {
            Self::Int { value } => value.to_string(),
            Self::Double { value: None } => return "no value".to_owned(),
            Self::Double { value: Some(value) } => number(*value),
            Self::Histogram { scale, count, sum, min, max, .. } => {
                let scale = scale.map(|scale| format!("scale={scale} ")).unwrap_or_default();
                let measures = [("sum", sum), ("min", min), ("max", max)].into_iter();
                let measures = measures.filter_map(|(name, value)| Some(measure(name, value.as_ref()?)));
                format!("{scale}count={count}{}", measures.collect::<String>())
            }
            Self::Summary { count, sum, quantiles } => {
                let quantiles =
                    quantiles.iter().map(|(at, value)| measure(&format!("q{}", number(*at)), value));
                format!("count={count}{}{}", measure("sum", sum), quantiles.collect::<String>())
            }
        };
        format!("{text} {unit}").trim_end().to_owned()
    }

    /// Returns a histogram's bucket counts. For an exponential histogram, empty buckets at both ends are left out.
    pub(crate) fn buckets(&self) -> Vec<f64> {
        let Self::Histogram { scale, counts, .. } = self else { return Vec::new() };
        let is_used = |count: &u64| *count > 0 || scale.is_none();
        let first = counts.iter().position(is_used).unwrap_or(counts.len());
        let end = counts.iter().rposition(is_used).map_or(first, |last| last + 1);
        counts[first..end].iter().map(|count| *count as f64).collect()
    }
}

/// Converts the buckets of an exponential histogram to those of an explicit one. Returns the bounds and the counts.
/// There is one more count than bounds.
fn exponential_buckets(point: &ExponentialHistogramDataPoint) -> (Vec<f64>, Vec<u64>) {
    let edges = |buckets: Option<&Buckets>| -> (Vec<f64>, Vec<u64>) {
        let Some(buckets) = buckets.filter(|buckets| !buckets.bucket_counts.is_empty()) else {
            return Default::default();
        };
        // base^index, where base = 2^(2^-scale)
        let power =
            |index: usize| (f64::from(buckets.offset) + index as f64) * (-f64::from(point.scale)).exp2();
        let edges = (0..=buckets.bucket_counts.len()).map(|index| power(index).exp2());
        (edges.collect(), buckets.bucket_counts.clone())
    };
    let (below, below_counts) = edges(point.negative.as_ref());
    let (above, above_counts) = edges(point.positive.as_ref());
    let bounds = below.iter().rev().map(|edge| -edge).chain(above.iter().copied()).collect();
    // The bucket for zero is between the negative and the positive buckets. An explicit histogram has an unbounded
    // bucket at each end. If a side has buckets, its unbounded bucket is empty; otherwise the bucket for zero is
    // unbounded on that side.
    let lowest = (!below.is_empty()).then_some(0).into_iter();
    let highest = (!above.is_empty()).then_some(0);
    let counts = lowest.chain(below_counts.into_iter().rev()).chain([point.zero_count]);
    (bounds, counts.chain(above_counts).chain(highest).collect())
}

/// Returns the kind of a metric, such as `counter` or `up-down delta`.
pub(crate) fn kind(metric: &Metric) -> String {
    let (kind, temporality) = match &metric.data {
        None => ("unset", 0),
        Some(Data::Gauge(_)) => ("gauge", 0),
        Some(Data::Sum(sum)) if sum.is_monotonic => ("counter", sum.aggregation_temporality),
        Some(Data::Sum(sum)) => ("up-down", sum.aggregation_temporality),
        Some(Data::Histogram(histogram)) => ("histogram", histogram.aggregation_temporality),
        Some(Data::ExponentialHistogram(histogram)) => ("exponential", histogram.aggregation_temporality),
        Some(Data::Summary(_)) => ("summary", 0),
    };
    format!("{kind}{}", if temporality == DELTA { " delta" } else { "" })
}

/// Formats a number with up to six decimals or, if it is very large or very small, with an exponent.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size.is_finite() && size != 0.0 && !(1e-5..1e15).contains(&size) => format!("{value:e}"),
        // Rounded to six decimals, to hide rounding errors such as 0.30000000000000004.
        _ => ((value * 1e6).round() / 1e6).to_string(),
    }
}

/// Returns a unit without braces (`{request}`), and an empty text for the unit `1`.
pub(crate) fn unit(unit: &str) -> &str {
    let name = unit.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match name.unwrap_or(unit) {
        "1" => "",
        unit => unit,
    }
}

/// Returns a hash of attributes. It is a sum of hashes, so that the order of the attributes does not matter.
fn attributes_identity(list: &[KeyValue]) -> u64 {
    let each =
        list.iter().map(|attribute| hash(&(&attribute.key, describe::whole_value(attribute.value.as_ref()))));
    each.fold(0, u64::wrapping_add)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
pub(crate) mod tests;
