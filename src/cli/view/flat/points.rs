//! Which columns and details does `receive` show of a data point?

use standpipe::receiver::ReceivedMetric;

use super::Layout;
use super::row::{Cell, Row, SERVICE, TIME, is_tight, name_width};
use crate::cli::describe;
use crate::cli::point_view::{self, Point, PointView};
use crate::cli::style::{Ink, Style};
use crate::cli::table::GAP;
use crate::cli::{spark, text};

const KIND: usize = 9;
/// After time, service and name.
const KIND_AT: usize = 3;
/// Of a number, or the bars of a histogram: one for each of the 16 buckets that most have.
const VALUE: usize = 16;
/// All columns but the name.
const BESIDE_NAME: usize = TIME + SERVICE + KIND + VALUE + 4 * GAP;

/// What a batch holds: a summary and rows.
pub(super) fn list(
    metrics: &[ReceivedMetric],
    layout: Layout,
    style: &Style,
) -> (String, impl Iterator<Item = Row>) {
    let points: usize = metrics.iter().map(ReceivedMetric::point_count).sum();
    let points = describe::count(points as u64, "data point");
    let views = metrics.iter().flat_map(point_view::of_received);
    let content = format!("{points} in {}", describe::count(metrics.len() as u64, "metric"));
    (content, views.map(move |view| row(&view, layout, style)))
}

fn row(view: &PointView<'_>, layout: Layout, style: &Style) -> Row {
    let is_tight = is_tight(BESIDE_NAME, layout, style);
    let beside = if is_tight { BESIDE_NAME - KIND - GAP } else { BESIDE_NAME };
    let name_width = name_width(beside, layout, style);
    let kind = view.kind();
    let kind_width = text::width(&kind).max(KIND);
    // a long kind takes its room from the value
    let value_width = (KIND + VALUE).saturating_sub(kind_width).min(VALUE);
    let (value, measures) = match view.point {
        Point::Number(_) | Point::Missing => (view.value(), String::new()),
        Point::Histogram(_) | Point::Exponential(_) | Point::Summary(_) => {
            (spark::bars(&view.buckets(), value_width, style), view.value())
        }
    };
    let mut cells = vec![
        Cell::new(Ink::FAINT, view.unix_nanos().map(describe::time_of_day).unwrap_or_default(), TIME),
        Cell::new(Ink::of_name(view.service), view.service, SERVICE),
        Cell::new(Ink::PLAIN.bold(), &view.metric.name, name_width),
        Cell::pushing(Ink::PLAIN, value, value_width),
    ];
    let mut details = vec![(Ink::PLAIN, measures), (Ink::FAINT, describe::attributes(view.attributes()))];
    match is_tight {
        true => details.insert(0, (Ink::FAINT, kind)),
        false => cells.insert(KIND_AT, Cell::new(Ink::FAINT, kind, kind_width)),
    }
    Row { cells, details, below: Vec::new() }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
    use standpipe::receiver::proto::{
        AnyValue, Buckets, Data, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
        HistogramDataPoint, KeyValue, Metric, Number, NumberDataPoint, Value,
    };

    use super::*;
    use crate::cli::style::plain_style;

    const NOON: u64 = 1_700_049_600_000_000_000;

    fn attributes(key: &str) -> Vec<KeyValue> {
        let value = Some(AnyValue { value: Some(Value::StringValue("SE".to_owned())) });
        vec![KeyValue { key: key.to_owned(), value, ..Default::default() }]
    }

    fn gauge(name: &str, unit: &str) -> Metric {
        let point = |value| NumberDataPoint {
            time_unix_nano: NOON,
            value: Some(Number::AsInt(value)),
            attributes: attributes("country"),
            ..Default::default()
        };
        let data = Some(Data::Gauge(Gauge { data_points: vec![point(7), point(8)] }));
        Metric { name: name.to_owned(), unit: unit.to_owned(), data, ..Default::default() }
    }

    fn histogram() -> Metric {
        let point = HistogramDataPoint {
            time_unix_nano: NOON,
            count: 6,
            sum: Some(90.0),
            min: Some(0.5),
            max: Some(42.0),
            bucket_counts: vec![1, 0, 3, 2],
            explicit_bounds: vec![1.0, 10.0, 20.0],
            attributes: attributes("country"),
            ..Default::default()
        };
        let data = Some(Data::Histogram(Histogram { data_points: vec![point], ..Default::default() }));
        Metric { name: "checkout.time".to_owned(), unit: "ms".to_owned(), data, ..Default::default() }
    }

    fn drawn(metric: &Metric, layout: Layout, width: usize) -> Vec<String> {
        let style = plain_style(width);
        point_view::of(metric, "storefront")
            .iter()
            .flat_map(|view| row(view, layout, &style).draw(layout, &style))
            .collect()
    }

    #[test]
    fn each_point_is_a_line_if_it_has_the_room() {
        let expected = [
            "12:00:00.000Z  storefront    carts                         gauge      7 cart            country=SE",
            "12:00:00.000Z  storefront    carts                         gauge      8 cart            country=SE",
        ];
        assert_eq!(drawn(&gauge("carts", "{cart}"), Layout::Whole, 80), expected);
        let narrow = "12:00:00.000Z  storefront    carts                   gauge      7 cart";
        assert_eq!(
            drawn(&gauge("carts", "{cart}"), Layout::Cut, 80)[..2],
            [narrow, "               country=SE"]
        );
    }

    #[test]
    fn no_terminal_is_so_narrow_that_a_name_is_left_out() {
        let expected = ["12:00:00.000Z  storefront    checkou…  7 cart", "               gauge  country=SE"];
        assert_eq!(drawn(&gauge("checkouts", "{cart}"), Layout::Cut, 48)[..2], expected);
    }

    #[test]
    fn a_histogram_has_bars_and_measures() {
        let expected = "12:00:00.000Z  storefront    checkout.time                 histogram  ▃▁█▆              \
                        count=6 sum=90 min=0.5 max=42 ms  country=SE";
        assert_eq!(drawn(&histogram(), Layout::Whole, 80), [expected]);
        let expected = [
            "12:00:00.000Z  storefront    checkout.time           histogram  ▃▁█▆",
            "               count=6 sum=90 min=0.5 max=42 ms  country=SE",
        ];
        assert_eq!(drawn(&histogram(), Layout::Cut, 80), expected);
    }

    #[test]
    fn bars_fit_beside_the_longest_kind() {
        let positive = Some(Buckets { bucket_counts: vec![1; 160], ..Default::default() });
        let point = ExponentialHistogramDataPoint { positive, ..Default::default() };
        let aggregation_temporality = AggregationTemporality::Delta as i32;
        let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality };
        let metric = Metric { data: Some(Data::ExponentialHistogram(data)), ..Default::default() };
        for width in [66, 80, 100] {
            let line = &drawn(&metric, Layout::Cut, width)[0];
            assert!(line.ends_with("  exponential delta  ████████"), "{line}");
        }
    }

    #[test]
    fn a_metric_without_points_is_not_passed_over() {
        let empty = Metric { name: "carts".to_owned(), ..Default::default() };
        let expected = "               storefront    carts                         unset      no data points";
        assert_eq!(drawn(&empty, Layout::Whole, 80), [expected]);
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = "checkout.time.".repeat(40);
        let metric = gauge(&long, &long);
        for width in [66, 80, 100, 200] {
            for metric in [&metric, &histogram()] {
                let lines = drawn(metric, Layout::Cut, width);
                assert!(lines.iter().all(|line| text::width(line) <= width), "{lines:?}");
            }
        }
        let whole = &drawn(&metric, Layout::Whole, 80)[0];
        assert!(whole.contains(&format!("7 {long}")) && whole.contains("country=SE"), "{whole}");
    }

    #[test]
    fn a_hostile_metric_cannot_move_the_cursor() {
        let hostile = "\x1b[2J\r\n\u{9b}";
        let mut metric = gauge(hostile, hostile);
        let Some(Data::Gauge(gauge)) = &mut metric.data else { panic!("it is a gauge") };
        gauge.data_points[0].attributes = attributes(hostile);
        for layout in [Layout::Whole, Layout::Cut] {
            let lines = drawn(&metric, layout, 100);
            assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        }
    }
}
