use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use standpipe::receiver::proto::{
    AnyValue, Buckets, Data, Exemplar, ExemplarValue, ExponentialHistogram, ExponentialHistogramDataPoint,
    Gauge, Histogram, HistogramDataPoint, KeyValue, Metric, Number, NumberDataPoint, Sum, Value as Any,
};

use super::*;
use crate::cli::series::tests::received;
use crate::cli::style::{ColorChoice, plain_style};
use crate::cli::terminal::TerminalInfo;
use crate::cli::text;

const START: u64 = 1_700_000_000_000_000_000;

fn set(key: &str, value: &str) -> Vec<KeyValue> {
    let value = AnyValue { value: Some(Any::StringValue(value.to_owned())) };
    vec![KeyValue { key: key.to_owned(), value: Some(value) }]
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

/// A point of push number `push`.
fn point(push: u64, value: Number, attributes: &[KeyValue]) -> NumberDataPoint {
    NumberDataPoint {
        time_unix_nano: START + push * 1_000_000,
        value: Some(value),
        attributes: attributes.to_vec(),
        ..NumberDataPoint::default()
    }
}

fn sum(points: Vec<NumberDataPoint>, is_monotonic: bool, temporality: AggregationTemporality) -> Data {
    Data::Sum(Sum { data_points: points, is_monotonic, aggregation_temporality: temporality.into() })
}

fn counter(name: &str, push: u64, values: &[(&str, i64)]) -> Metric {
    let points =
        values.iter().map(|(outcome, value)| point(push, Number::AsInt(*value), &set("outcome", outcome)));
    metric(name, "", sum(points.collect(), true, AggregationTemporality::Cumulative))
}

fn gauge(name: &str, push: u64, value: f64) -> Metric {
    let data_points = vec![point(push, Number::AsDouble(value), &[])];
    metric(name, "Cel", Data::Gauge(Gauge { data_points }))
}

fn histogram(push: u64, bucket_counts: &[u64]) -> Metric {
    let point = HistogramDataPoint {
        time_unix_nano: START + push * 1_000_000,
        count: bucket_counts.iter().sum(),
        sum: Some(1234.5),
        min: Some(3.0),
        max: Some(412.345),
        bucket_counts: bucket_counts.to_vec(),
        ..HistogramDataPoint::default()
    };
    let data = Data::Histogram(Histogram { data_points: vec![point], ..Histogram::default() });
    metric("checkout.duration", "ms", data)
}

fn exponential(push: u64) -> Metric {
    let buckets = Buckets { bucket_counts: (0..80).collect(), ..Buckets::default() };
    let point = ExponentialHistogramDataPoint {
        time_unix_nano: START + push * 1_000_000,
        count: 3160,
        sum: Some(31_600.0),
        positive: Some(buckets),
        ..ExponentialHistogramDataPoint::default()
    };
    let data = ExponentialHistogram { data_points: vec![point], ..ExponentialHistogram::default() };
    metric("page.render", "ms", Data::ExponentialHistogram(data))
}

/// Four pushes of one service, and one push of another.
fn shop() -> Vec<(&'static str, Metric)> {
    let carts = |push, value| {
        let points = vec![point(push, Number::AsInt(value), &[])];
        metric("carts.open", "", sum(points, false, AggregationTemporality::Cumulative))
    };
    vec![
        // Points may arrive out of order.
        ("storefront", counter("orders", 4, &[("paid", 9), ("declined", 1)])),
        ("storefront", counter("orders", 1, &[("paid", 1)])),
        ("storefront", counter("orders", 2, &[("paid", 1)])),
        ("storefront", counter("orders", 3, &[("paid", 8)])),
        ("storefront", carts(1, 2)),
        ("storefront", carts(2, 4)),
        ("storefront", carts(3, 1)),
        ("storefront", carts(4, 0)),
        ("storefront", histogram(3, &[1, 0, 0])),
        ("storefront", histogram(4, &[1, 0, 7])),
        ("storefront", exponential(4)),
        ("warehouse", gauge("temperature", 4, 21.5)),
    ]
}

fn drawn(metrics: &[(&str, Metric)], style: &Style) -> Vec<String> {
    let metrics: Vec<ReceivedMetric> =
        metrics.iter().map(|(service, metric)| received(service, "", metric.clone())).collect();
    draw(&metrics, &mut Palette::default(), style)
}

#[test]
fn every_series_has_a_row_with_its_newest_value_and_a_line() {
    let expected = [
        "metrics ────────────────────────────────────────────────────────────────── 6 series · 13 data points",
        "storefront  carts.open                up-down      ▅█▃▁              0",
        "storefront  checkout.duration ms      histogram    ▂▁█               mean 154  n=8, 3..412",
        "storefront  orders  outcome=declined  counter         █              1",
        "storefront  orders  outcome=paid      counter      ▂▁█▂              9",
        "storefront  page.render ms            exponential  ▂▂▂▃▃▃▄▄▅▅▆▆▇▇██  mean 10   n=3160",
        "warehouse   temperature Cel           gauge        █                 21.5",
    ];
    assert_eq!(drawn(&shop(), &plain_style(100)), expected);
}

#[test]
fn the_latest_exemplars_are_listed_with_their_traces() {
    let exemplar = |number: u8| Exemplar {
        time_unix_nano: START + u64::from(number) * 1_000_000,
        value: Some(ExemplarValue::AsDouble(f64::from(number) / 4.0)),
        trace_id: vec![number; 16],
        span_id: vec![2; 8],
        ..Exemplar::default()
    };
    let mut point = point(9, Number::AsDouble(21.5), &[]);
    point.exemplars = (1..6).map(exemplar).collect();
    let metrics = [("shop", metric("temperature", "Cel", Data::Gauge(Gauge { data_points: vec![point] })))];
    let expected = [
        "metrics ──────────────────────────────────────────────────────────────────── 1 series · 1 data point",
        "shop  temperature Cel  gauge  █                 21.5",
        "exemplar  22:13:20.005Z  05050505050505050505050505050505  1.25 Cel  temperature",
        "exemplar  22:13:20.004Z  04040404040404040404040404040404  1 Cel  temperature",
        "exemplar  22:13:20.003Z  03030303030303030303030303030303  0.750 Cel  temperature",
    ];
    assert_eq!(drawn(&metrics, &plain_style(100)), expected);
}

#[test]
fn where_a_row_has_no_room_it_has_a_second_line() {
    let expected = [
        "metrics ────────────────────────── 6 series · 13 data points",
        "storefront  carts.open            ▅█▃▁          0",
        "            up-down",
        "storefront  checkout.duration ms  ▂▁█           mean 154",
        "            histogram  n=8, 3..412",
        "storefront  orders                   █          1",
        "            counter  outcome=declined",
        "storefront  orders                ▂▁█▂          9",
        "            counter  outcome=paid",
        "storefront  page.render ms        ▂▂▃▃▄▄▅▆▆▇▇█  mean 10",
        "            exponential  n=3160",
        "warehouse   temperature Cel       █             21.5",
        "            gauge",
    ];
    assert_eq!(drawn(&shop(), &plain_style(60)), expected);
}

#[test]
fn a_counter_is_drawn_by_its_rises_whether_it_sends_them_or_its_total() {
    let delta = |push, value| {
        let points = vec![point(push, Number::AsInt(value), &[])];
        metric("orders", "", sum(points, true, AggregationTemporality::Delta))
    };
    let line = |metrics: &[(&str, Metric)]| {
        let lines = drawn(metrics, &plain_style(100));
        lines[1].chars().filter(|c| ('▁'..='█').contains(c)).collect::<String>()
    };
    assert_eq!(line(&[("shop", delta(1, 1)), ("shop", delta(2, 0)), ("shop", delta(3, 7))]), "▂▁█");
    let totals =
        [(1, 1), (2, 1), (3, 8)].map(|(push, total)| ("shop", counter("orders", push, &[("", total)])));
    assert_eq!(line(&totals), "▂▁█");
}

#[test]
fn ascii_draws_the_same_table() {
    let style = Style::decide(ColorChoice::Never, true, &TerminalInfo::default());
    let lines = drawn(&shop(), &style);
    assert!(lines.iter().all(|line| line.is_ascii()), "{lines:#?}");
    assert!(lines[1].contains("=#-_"), "{lines:#?}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let long = "a.name.of.a.metric.that.is.much.too.long.".repeat(4);
    let mut metrics = shop();
    metrics.push(("a service with a long name of its own", gauge(&long, 1, 1e-300)));
    metrics.push(("注文", metric(&long, &long, exponential(1).data.expect("it has data"))));
    metrics.push(("storefront", counter(&"注文".repeat(20), 1, &[(&long, i64::MIN)])));
    for width in [44, 59, 66, 80, 100, 140, 240] {
        for line in drawn(&metrics, &plain_style(width)) {
            assert!(text::width(&line) <= width, "{} > {width}: {line}", text::width(&line));
            assert!(!line.ends_with(' '), "{line:?}");
        }
    }
}

#[test]
fn thousands_of_series_are_not_all_listed() {
    let many: Vec<_> = (0..2000).map(|number| ("shop", gauge(&format!("gauge.{number}"), 1, 1.0))).collect();
    let lines = drawn(&many, &plain_style(100));
    assert_eq!(lines.len(), MAX_LISTED + 2);
    assert_eq!(lines.last().map(String::as_str), Some("and 1960 more series"));
}

#[test]
fn a_hostile_metric_cannot_move_the_cursor() {
    let hostile = "\x1b[2J\r\n\u{9b}";
    let mut metric = counter(hostile, 1, &[(hostile, 1)]);
    metric.unit = hostile.to_owned();
    for width in [44, 100, 200] {
        let lines = drawn(&[(hostile, metric.clone())], &plain_style(width));
        assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
    }
}

#[test]
fn nothing_measured_draws_nothing() {
    assert!(draw(&[], &mut Palette::default(), &plain_style(100)).is_empty());
    let empty = Metric { name: "orders".to_owned(), ..Metric::default() };
    assert!(drawn(&[("shop", empty)], &plain_style(100)).is_empty());
}

fn bars_of(values: &[f64], cells: usize) -> String {
    bars(values, cells, &plain_style(80))
}

#[test]
fn the_largest_is_the_highest_and_little_is_more_than_nothing() {
    assert_eq!(bars_of(&[0.0, 0.001, 2.0, 3.5, 7.0], 10), "▁▂▃▅█");
    assert_eq!(bars_of(&[0.0, 0.0], 10), "▁▁");
}

#[test]
fn many_values_share_the_cells_they_have() {
    let values: Vec<f64> = (0..1000).map(f64::from).collect();
    assert_eq!(bars_of(&values, 7), "▂▃▄▅▆▇█");
    assert_eq!(bars_of(&values, 1), "█");
    // Ten equal values in four cells: cells with different numbers of values have the same height.
    assert_eq!(bars_of(&[5.0; 10], 4), "████");
}

#[test]
fn there_is_a_line_for_every_input() {
    assert_eq!((bars_of(&[], 10), bars_of(&[1.0], 0)), (String::new(), String::new()));
    assert_eq!(bars_of(&[f64::NAN, f64::NEG_INFINITY, -1.0, 1.0], 10), "▁▁▁█");
    assert_eq!(bars_of(&[f64::INFINITY, f64::MAX, 1.0], 10), "██▂");
    assert_eq!(bars_of(&[f64::MAX; 9], 2), "██");
}

#[test]
fn ascii_has_bars_too() {
    let ascii = Style { charset: Charset::Ascii, ..plain_style(80) };
    assert_eq!(bars(&[0.0, 1.0, 4.0, 7.0], 10, &ascii), "_.=#");
}

#[test]
fn a_counter_that_begins_anew_rises_by_all_it_has() {
    assert_eq!(rises(&[2.0, 2.0, 5.0, 1.0, 4.0]), [2.0, 0.0, 3.0, 1.0, 3.0]);
    assert!(rises(&[]).is_empty());
}

#[test]
fn measured_values_keep_three_digits() {
    let cases = [
        (0.0, "0"),
        (2.0, "2"),
        (-7.0, "-7"),
        (0.0123, "0.012"),
        (3.456, "3.46"),
        (34.56, "34.6"),
        (345.6, "346"),
        (12_345.6, "12346"),
        (1e-9, "1e-9"),
        (1e300, "1e300"),
        (f64::NAN, "NaN"),
    ];
    for (value, text) in cases {
        assert_eq!(rounded(value), text);
    }
}
