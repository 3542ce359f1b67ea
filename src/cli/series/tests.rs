use std::sync::Arc;

use standpipe::receiver::Records;
use standpipe::receiver::proto::{
    ExponentialHistogram, Gauge, Histogram, HistogramDataPoint, NumberDataPoint, Sum, Summary,
    SummaryDataPoint, ValueAtQuantile,
};

use super::*;
use crate::tests::size_within;

/// A metric of an instance of a service, as it is received.
pub(crate) fn received(service: &str, instance: &str, metric: Metric) -> ReceivedMetric {
    let attribute = |key, value: &str| serde_json::json!({ "key": key, "value": { "stringValue": value } });
    let resource = [attribute("service.name", service), attribute("service.instance.id", instance)];
    let request = serde_json::json!({ "resourceMetrics": [{
        "resource": { "attributes": resource }, "scopeMetrics": [{ "metrics": [{}] }] }] });
    let mut records = Records::from_json(request.to_string().as_bytes()).expect("it is OTLP");
    let mut received = records.metrics.remove(0);
    received.metric = Arc::new(metric);
    received
}

fn metric(unit: &str, data: Data) -> Metric {
    Metric { unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

fn gauge(unit: &str, value: Option<Number>) -> Metric {
    metric(unit, Data::Gauge(Gauge { data_points: vec![NumberDataPoint { value, ..Default::default() }] }))
}

fn values(metric: &Metric) -> Vec<PointValue> {
    proto::points(metric).into_iter().map(PointValue::from).collect()
}

fn value(metric: &Metric) -> String {
    values(metric)[0].text(unit(&metric.unit))
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
        assert_eq!(super::kind(&metric("", data)), kind);
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
    let metric =
        metric("ms", Data::Histogram(Histogram { data_points: vec![point, little], ..Default::default() }));
    let [value, little] = &values(&metric)[..] else { panic!("two points") };
    assert_eq!(value.text("ms"), "count=3 sum=30.5 min=0.5 max=20 ms");
    assert_eq!(value.buckets(), [1.0, 0.0, 2.0]);
    assert_eq!((little.text("ms").as_str(), little.buckets().len()), ("count=3 ms", 0));
}

#[test]
fn exponential_buckets_are_in_the_order_of_their_values() {
    let buckets =
        |bucket_counts: &[u64]| Some(Buckets { bucket_counts: bucket_counts.to_vec(), ..Default::default() });
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
        assert_eq!(value(&metric), "scale=-2 count=21");
        values(&metric)[0].buckets()
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

/// A cumulative or delta counter at `time` seconds.
fn counter(name: &str, time: u64, value: i64, aggregation_temporality: i32) -> Metric {
    let value = Some(Number::AsInt(value));
    let time_unix_nano = time * 1_000_000_000;
    let data_points = vec![NumberDataPoint { time_unix_nano, value, ..Default::default() }];
    let data = Data::Sum(Sum { data_points, is_monotonic: true, aggregation_temporality });
    Metric { name: name.to_owned(), ..metric("", data) }
}

#[test]
fn a_series_has_its_last_points_in_the_order_of_time_and_is_changed_by_another_value() {
    let mut store = SeriesStore::new(3, usize::MAX);
    let mut add = |time, value| store.add(&received("shop", "a", counter("orders", time, value, 2)))[0];
    let (identity, is_changed) = add(1, 3);
    assert!(is_changed);
    assert_eq!([add(2, 3), add(4, 9), add(3, 5)], [(identity, false), (identity, true), (identity, true)]);
    let series = store.all.get(&identity).expect("it is kept");
    let points = series.points.iter().map(|point| (point.time / 1000, point.value.amount()));
    assert_eq!(points.collect::<Vec<_>>(), [(2, Some(3.0)), (3, Some(5.0)), (4, Some(9.0))]);
}

#[test]
fn a_point_has_its_exemplars_once_although_cumulative_points_repeat_them() {
    let mut store = SeriesStore::new(9, usize::MAX);
    let exemplar = |time: u64, value, trace_id: Vec<u8>| proto::Exemplar {
        time_unix_nano: time * 1_000_000,
        value: Some(value),
        span_id: vec![2; 8],
        trace_id,
        ..Default::default()
    };
    let all = [
        exemplar(1500, ExemplarValue::AsInt(7), vec![1; 16]),
        exemplar(1600, ExemplarValue::AsInt(8), Vec::new()),
        exemplar(2500, ExemplarValue::AsDouble(0.5), vec![1; 16]),
    ];
    for (time, count) in [(2, 2), (3, 3), (4, 3)] {
        let point = NumberDataPoint {
            time_unix_nano: time * 1_000_000_000,
            value: Some(Number::AsInt(9)),
            exemplars: all[..count].to_vec(),
            ..Default::default()
        };
        let data = Sum { data_points: vec![point], is_monotonic: true, aggregation_temporality: 2 };
        store.add(&received("shop", "a", metric("", Data::Sum(data))));
    }
    let series = store.all.values().next().expect("it is kept");
    let found: Vec<_> = series.points.iter().map(|point| serde_json::json!(point.exemplars)).collect();
    let shown = |time: u64, value: f64| {
        serde_json::json!([{
        "time": time, "value": value, "trace": "01".repeat(16), "span": "02".repeat(8) }])
    };
    assert_eq!(found, [shown(1500, 7.0), shown(2500, 0.5), serde_json::json!([])]);
    assert_eq!(store.bytes, series.bytes);
}

#[test]
fn the_same_increment_again_is_a_change() {
    let mut store = SeriesStore::new(3, usize::MAX);
    let mut add = |time| store.add(&received("shop", "a", counter("orders", time, 5, DELTA)))[0].1;
    assert_eq!([add(1), add(2), add(2)], [true, true, false]);
}

#[test]
fn replicas_of_a_service_have_series_of_their_own() {
    let mut store = SeriesStore::new(3, usize::MAX);
    let mut add = |instance| store.add(&received("shop", instance, counter("orders", 1, 3, 2)))[0];
    let (a, b) = (add("a"), add("b"));
    assert!(a.0 != b.0 && a.1 && b.1);
    assert_eq!([add("a"), add("b")], [(a.0, false), (b.0, false)]);
}

#[test]
fn memory_is_bounded_and_the_series_without_new_points_go_first() {
    let mut store = SeriesStore::new(16, 100_000);
    let (busy, _) = store.add(&received("shop", "a", counter("busy", 0, 0, 2)))[0];
    for time in 1..size_within(200..=1000).into() {
        store.add(&received("shop", "a", counter("busy", time, 1, 2)));
        store.add(&received("shop", "a", counter(&format!("{time}{}", "x".repeat(10_000)), time, 1, 2)));
        assert!(store.bytes <= 100_000, "{}", store.bytes);
    }
    assert_eq!(store.all.get(&busy).map(|series| series.points.len()), Some(16));
    assert_eq!(store.bytes, store.all.values().map(|series| series.bytes).sum::<usize>());
    assert!(store.all.values().count() > 10);
}
