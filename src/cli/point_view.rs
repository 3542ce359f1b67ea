//! Views of data points: kind, value with the unit, shape of the buckets, and the series that a point belongs to.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;

use standpipe::receiver::ReceivedMetric;
use standpipe::receiver::proto::{
    self, Buckets, Data, ExponentialHistogramDataPoint, KeyValue, Metric, Number, NumberDataPoint, Point,
};

use super::describe;

/// Aggregation temporality of a point that counts since the point before it.
const DELTA: i32 = 1;

/// A data point with its metric and the name of the service that measured it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointView<'a> {
    pub(crate) metric: &'a Metric,
    pub(crate) service: &'a str,
    /// `None` for a metric without data points, which is shown as well.
    pub(crate) point: Option<Point<'a>>,
}

/// The points of a metric, in their order.
pub(crate) fn of_received(received: &ReceivedMetric) -> Vec<PointView<'_>> {
    of(&received.metric, received.service_name())
}

/// One point of a metric.
pub(crate) fn nth(received: &ReceivedMetric, index: usize) -> Option<PointView<'_>> {
    let point = match received.metric.data.as_ref()? {
        Data::Gauge(gauge) => gauge.data_points.get(index).map(Point::Number),
        Data::Sum(sum) => sum.data_points.get(index).map(Point::Number),
        Data::Histogram(histogram) => histogram.data_points.get(index).map(Point::Histogram),
        Data::ExponentialHistogram(histogram) => histogram.data_points.get(index).map(Point::Exponential),
        Data::Summary(summary) => summary.data_points.get(index).map(Point::Summary),
    };
    let (metric, service) = (&*received.metric, received.service_name());
    point.map(|point| PointView { metric, service, point: Some(point) })
}

pub(crate) fn of<'a>(metric: &'a Metric, service: &'a str) -> Vec<PointView<'a>> {
    let mut points: Vec<Option<Point<'_>>> = proto::points(metric).into_iter().map(Some).collect();
    if points.is_empty() {
        points.push(None);
    }
    points.into_iter().map(|point| PointView { metric, service, point }).collect()
}

impl<'a> PointView<'a> {
    pub(crate) fn unix_nanos(&self) -> Option<u64> {
        self.point.map(|point| point.times().1)
    }

    /// Since when a cumulative one counts; 0 if that is not known.
    pub(crate) fn start_unix_nanos(&self) -> u64 {
        self.point.map_or(0, |point| point.times().0)
    }

    pub(crate) fn attributes(&self) -> &'a [KeyValue] {
        self.point.map_or(&[], Point::attributes)
    }

    /// Whether it counts since the point before it, and not since a start that all points share.
    pub(crate) fn is_delta(&self) -> bool {
        let temporality = match &self.metric.data {
            Some(Data::Sum(sum)) => sum.aggregation_temporality,
            Some(Data::Histogram(histogram)) => histogram.aggregation_temporality,
            Some(Data::ExponentialHistogram(histogram)) => histogram.aggregation_temporality,
            None | Some(Data::Gauge(_) | Data::Summary(_)) => 0,
        };
        temporality == DELTA
    }

    /// `counter`, `up-down delta`.
    pub(crate) fn kind(&self) -> String {
        let kind = match &self.metric.data {
            None => "unset",
            Some(Data::Gauge(_)) => "gauge",
            Some(Data::Sum(sum)) if sum.is_monotonic => "counter",
            Some(Data::Sum(_)) => "up-down",
            Some(Data::Histogram(_)) => "histogram",
            Some(Data::ExponentialHistogram(_)) => "exponential",
            Some(Data::Summary(_)) => "summary",
        };
        if self.is_delta() { format!("{kind} delta") } else { kind.to_owned() }
    }

    /// The value of a number, if it has one.
    pub(crate) fn number(&self) -> Option<String> {
        match self.point {
            Some(Point::Number(NumberDataPoint { value: Some(Number::AsInt(value)), .. })) => {
                Some(value.to_string())
            }
            Some(Point::Number(NumberDataPoint { value: Some(Number::AsDouble(value)), .. })) => {
                Some(number(*value))
            }
            _ => None,
        }
    }

    /// What is known about the values of a histogram or a summary.
    pub(crate) fn measures(&self) -> Option<Measures> {
        let (count, sum, min, max) = match self.point {
            Some(Point::Histogram(point)) => (point.count, point.sum, point.min, point.max),
            Some(Point::Exponential(point)) => (point.count, point.sum, point.min, point.max),
            Some(Point::Summary(point)) => (point.count, Some(point.sum), None, None),
            Some(Point::Number(_)) | None => return None,
        };
        Some(Measures { count, sum, min, max })
    }

    /// The value of a number with its unit; what is known about many values otherwise.
    pub(crate) fn value(&self) -> String {
        let measures = self.measures().map(|measures| measures.to_string()).unwrap_or_default();
        let value = match self.point {
            None => return "no data points".to_owned(),
            Some(Point::Number(NumberDataPoint { value: None, .. })) => return "no value".to_owned(),
            Some(Point::Number(_)) => self.number().unwrap_or_default(),
            Some(Point::Histogram(_)) => measures,
            Some(Point::Exponential(point)) => format!("scale={} {measures}", point.scale),
            Some(Point::Summary(point)) => {
                let quantiles = point.quantile_values.iter();
                let quantiles = quantiles.map(|at| format!(" q{}={}", number(at.quantile), number(at.value)));
                measures + &quantiles.collect::<String>()
            }
        };
        match unit(&self.metric.unit) {
            "" => value,
            unit => format!("{value} {unit}"),
        }
    }

    /// Returns a hash of all that tells the series of this point from others. `origin` is that of its metric.
    pub(crate) fn identity(&self, origin: u64) -> u64 {
        hash(&(attributes_identity(self.attributes()), origin))
    }

    /// How many values are in each bucket, from the lowest to the highest; empty for what has no buckets.
    pub(crate) fn buckets(&self) -> Vec<f64> {
        match self.point {
            Some(Point::Histogram(point)) => counts(&point.bucket_counts).collect(),
            Some(Point::Exponential(point)) => exponential_buckets(point),
            Some(Point::Number(_) | Point::Summary(_)) | None => Vec::new(),
        }
    }
}

/// Below zero the first bucket is the one nearest to zero.
fn exponential_buckets(point: &ExponentialHistogramDataPoint) -> Vec<f64> {
    let below = point.negative.as_ref().map_or(&[][..], |buckets| &buckets.bucket_counts);
    let above = point.positive.as_ref().map_or(&[][..], |buckets| &buckets.bucket_counts);
    let zero = Some(point.zero_count as f64).filter(|zero| *zero > 0.0 || !below.is_empty());
    counts(below).rev().chain(zero).chain(counts(above)).collect()
}

/// The buckets of an exponential histogram as those of an explicit one: where each ends, and one count more than that.
pub(crate) fn exponential_bounds(point: &ExponentialHistogramDataPoint) -> (Vec<f64>, Vec<u64>) {
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
    // what is around zero lies between both, or beyond the one that is there
    let lowest = (!below.is_empty()).then_some(0);
    let highest = (!above.is_empty()).then_some(0);
    let counts = lowest
        .into_iter()
        .chain(below_counts.into_iter().rev())
        .chain([point.zero_count])
        .chain(above_counts)
        .chain(highest);
    (bounds, counts.collect())
}

fn counts(buckets: &[u64]) -> impl DoubleEndedIterator<Item = f64> + '_ {
    buckets.iter().map(|count| *count as f64)
}

/// What histograms and summaries have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measures {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// `count=3 sum=12.5`, of what there is.
impl fmt::Display for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={}", self.count)?;
        for (name, value) in [("sum", self.sum), ("min", self.min), ("max", self.max)] {
            if let Some(value) = value {
                write!(f, " {name}={}", number(value))?;
            }
        }
        Ok(())
    }
}

/// A number in as few digits as it needs, which for the very large and the very small ones takes an exponent.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size.is_finite() && size != 0.0 && !(1e-5..1e15).contains(&size) => format!("{value:e}"),
        // a sum of fractions need not show where doubles end
        _ => ((value * 1e6).round() / 1e6).to_string(),
    }
}

/// A unit as people write it: `{request}` is a name and no unit, and `1` is none at all.
pub(crate) fn unit(unit: &str) -> &str {
    let name = unit.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match name.unwrap_or(unit) {
        "1" => "",
        unit => unit,
    }
}

/// Returns a hash of what all points of a metric share: resource, scope, name and kind.
pub(crate) fn origin_identity(received: &ReceivedMetric) -> u64 {
    let kind = received.metric.data.as_ref().map(mem::discriminant);
    hash(&(attributes_identity(&received.resource.attributes), received.scope_name(), received.name(), kind))
}

/// The order of attributes does not matter.
fn attributes_identity(list: &[KeyValue]) -> u64 {
    let each =
        list.iter().map(|attribute| hash(&(&attribute.key, describe::whole_value(attribute.value.as_ref()))));
    each.fold(0, u64::wrapping_add)
}

pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::proto::{
        ExponentialHistogram, Gauge, Histogram, HistogramDataPoint, Sum, Summary, SummaryDataPoint,
        ValueAtQuantile,
    };

    use super::*;

    fn metric(unit: &str, data: Data) -> Metric {
        Metric { unit: unit.to_owned(), data: Some(data), ..Metric::default() }
    }

    fn gauge(unit: &str, value: Option<Number>) -> Metric {
        metric(
            unit,
            Data::Gauge(Gauge { data_points: vec![NumberDataPoint { value, ..Default::default() }] }),
        )
    }

    fn value(metric: &Metric) -> String {
        of(metric, "")[0].value()
    }

    #[test]
    fn a_number_is_shown_with_its_unit() {
        assert_eq!(value(&gauge("ms", Some(Number::AsInt(-3)))), "-3 ms");
        assert_eq!(value(&gauge("", Some(Number::AsDouble(0.25)))), "0.25");
        assert_eq!(value(&gauge("1", Some(Number::AsDouble(0.25)))), "0.25");
        assert_eq!(value(&gauge("{request}", Some(Number::AsInt(7)))), "7 request");
        assert_eq!(value(&gauge("By", Some(Number::AsInt(i64::MIN)))), "-9223372036854775808 By");
        assert_eq!(value(&gauge("ms", None)), "no value");
    }

    #[test]
    fn numbers_are_short_however_large_or_small() {
        let cases = [
            (0.0, "0"),
            (12.5, "12.5"),
            (1e14, "100000000000000"),
            (1e300, "1e300"),
            (-5e-324, "-5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn every_kind_has_a_name_and_delta_is_marked() {
        let delta = DELTA;
        let cumulative = 2;
        let sum = |is_monotonic, aggregation_temporality| {
            Data::Sum(Sum { is_monotonic, aggregation_temporality, ..Default::default() })
        };
        let histogram = |aggregation_temporality| {
            Data::Histogram(Histogram { aggregation_temporality, ..Default::default() })
        };
        let exponential = |aggregation_temporality| {
            Data::ExponentialHistogram(ExponentialHistogram { aggregation_temporality, ..Default::default() })
        };
        let cases = [
            (Data::Gauge(Gauge::default()), "gauge"),
            (sum(true, cumulative), "counter"),
            (sum(true, delta), "counter delta"),
            (sum(false, cumulative), "up-down"),
            (sum(false, delta), "up-down delta"),
            (histogram(cumulative), "histogram"),
            (histogram(delta), "histogram delta"),
            (exponential(cumulative), "exponential"),
            (exponential(delta), "exponential delta"),
            (Data::Summary(Summary::default()), "summary"),
        ];
        for (data, kind) in cases {
            let metric = metric("", data);
            let views = of(&metric, "");
            assert_eq!((views[0].kind().as_str(), views[0].value().as_str()), (kind, "no data points"));
        }
    }

    #[test]
    fn a_histogram_lists_its_measures_and_shows_its_buckets() {
        let point = HistogramDataPoint {
            count: 3,
            sum: Some(30.5),
            min: Some(0.5),
            max: Some(20.0),
            bucket_counts: vec![1, 0, 2],
            ..Default::default()
        };
        let little = HistogramDataPoint { count: 3, ..Default::default() };
        let metric = metric(
            "ms",
            Data::Histogram(Histogram { data_points: vec![point, little], ..Default::default() }),
        );
        let views = of(&metric, "");
        assert_eq!(views[0].value(), "count=3 sum=30.5 min=0.5 max=20 ms");
        assert_eq!(views[0].buckets(), [1.0, 0.0, 2.0]);
        assert_eq!((views[1].value().as_str(), views[1].buckets().len()), ("count=3 ms", 0));
    }

    #[test]
    fn exponential_buckets_are_in_the_order_of_their_values() {
        let buckets = |bucket_counts: &[u64]| {
            Some(Buckets { bucket_counts: bucket_counts.to_vec(), ..Default::default() })
        };
        let mut point = ExponentialHistogramDataPoint {
            count: 21,
            scale: -2,
            zero_count: 3,
            negative: buckets(&[2, 1]),
            positive: buckets(&[4, 5, 6]),
            ..Default::default()
        };
        let buckets = |point: &ExponentialHistogramDataPoint| {
            let points = vec![point.clone()];
            let data = ExponentialHistogram { data_points: points, ..Default::default() };
            let metric = metric("", Data::ExponentialHistogram(data));
            assert_eq!(of(&metric, "")[0].value(), "scale=-2 count=21");
            of(&metric, "")[0].buckets()
        };
        assert_eq!(buckets(&point), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        point.negative = None;
        assert_eq!(buckets(&point), [3.0, 4.0, 5.0, 6.0]);
        point.zero_count = 0;
        assert_eq!(buckets(&point), [4.0, 5.0, 6.0]);
    }

    #[test]
    fn a_summary_lists_its_quantiles() {
        let quantile_values = vec![ValueAtQuantile { quantile: 0.99, value: 12.0 }];
        let point = SummaryDataPoint { count: 2, sum: 13.5, quantile_values, ..Default::default() };
        let metric = metric("s", Data::Summary(Summary { data_points: vec![point] }));
        assert_eq!(value(&metric), "count=2 sum=13.5 q0.99=12 s");
    }
}
