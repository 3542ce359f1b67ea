use super::*;
use crate::cli::style::plain_style;

#[test]
fn a_heading_says_when_a_batch_came_and_what_is_in_it() {
    let line = heading("3 log records", Some(Protocol::Http), 1_700_049_600_005_000_000, &plain_style(50));
    assert_eq!(line, "── 12:00:00.005Z 3 log records over HTTP ─────────");
}

mod of_spans {
    use standpipe::receiver::proto::{AnyValue, Event, KeyValue, Span, Status, Value};

    use super::super::*;
    use crate::cli::style::plain_style;

    const NOON: u64 = 1_700_049_600_000_000_000;

    fn span(name: &str) -> Span {
        let value = AnyValue { value: Some(Value::StringValue("/checkout".to_owned())) };
        Span {
            trace_id: vec![0xab; 16],
            span_id: vec![0xcd; 8],
            name: name.to_owned(),
            kind: 2,
            start_time_unix_nano: NOON,
            end_time_unix_nano: NOON + 31_200_000,
            attributes: vec![KeyValue { key: "url.path".to_owned(), value: Some(value) }],
            ..Span::default()
        }
    }

    fn drawn(span: &Span, layout: Layout, width: usize) -> Vec<String> {
        let style = plain_style(width);
        span_row(&SpanView::bare(span, "storefront"), layout, false, &style).draw(&style)
    }

    fn failed(name: &str, message: &str) -> Span {
        Span { status: Some(Status { code: 2, message: message.to_owned() }), ..span(name) }
    }

    #[test]
    fn a_span_is_one_line_where_lines_are_whole() {
        let lines = drawn(&failed("POST /checkout", "card declined"), Layout::Whole, 100);
        let expected = "12:00:00.000Z  storefront    POST /checkout                server     31.2 ms  error  \
                        abababab/cdcdcdcd  card declined  url.path=/checkout";
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn on_a_narrow_terminal_the_details_have_a_line_of_their_own() {
        let lines = drawn(&failed("POST /checkout", "card declined"), Layout::Cut, 80);
        let expected = [
            "12:00:00.000Z  storefront    POST /checkout            server     31.2 ms  error",
            "               abababab/cdcdcdcd  card declined  url.path=/checkout",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn events_are_behind_their_span_where_lines_are_whole_and_below_it_elsewhere() {
        let event = |number: u64| Event {
            time_unix_nano: NOON + number * 1_000_000,
            name: format!("retry {number}"),
            attributes: span("").attributes,
            ..Event::default()
        };
        let busy = Span { events: (1..=8).map(event).collect(), ..span("POST /checkout") };
        let lines = drawn(&busy, Layout::Whole, 100);
        let [line] = &lines[..] else { panic!("{lines:#?}") };
        assert!(line.contains("◆ retry 1  at 1.00 ms  url.path=/checkout  ◆ retry 2  at"), "{line}");
        assert!(line.ends_with("◆ retry 6  at 6.00 ms  url.path=/checkout  and 2 events more"), "{line}");
        let lines = drawn(&busy, Layout::Cut, 80);
        assert_eq!(lines[2], "               ◆ retry 1  at 1.00 ms  url.path=/checkout");
        assert_eq!((lines.len(), lines[8].trim()), (9, "and 2 events more"));
    }

    #[test]
    fn no_terminal_is_so_narrow_that_a_name_is_left_out() {
        let expected = [
            "12:00:00.000Z  storefront    POST /c…   31.2 ms",
            "               server  abababab/cdcdcdcd  url.p…",
        ];
        let lines = drawn(&span("POST /checkout"), Layout::Cut, 48);
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = failed(&"checkout ".repeat(40), &"declined ".repeat(40));
        for width in [66, 80, 100, 200] {
            assert!(drawn(&long, Layout::Cut, width).iter().all(|line| text::width(line) <= width));
        }
        let whole = &drawn(&long, Layout::Whole, 80)[0];
        assert!(whole.contains(&long.name) && whole.contains("url.path=/checkout"), "{whole}");
    }

    #[test]
    fn a_hostile_span_cannot_move_the_cursor() {
        let mut hostile = failed("\x1b[2J\x1b[H", "\x1b]0;owned\x07");
        hostile.attributes[0].key = "a\r\nb\u{9b}".to_owned();
        for layout in [Layout::Whole, Layout::Cut] {
            let lines = drawn(&hostile, layout, 100);
            assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        }
    }
}

mod of_logs {
    use standpipe::receiver::proto::{AnyValue, KeyValue, LogRecord, Value};

    use super::super::*;
    use crate::cli::style::plain_style;

    fn any(text: &str) -> Option<AnyValue> {
        Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) })
    }

    fn log(body: &str) -> LogRecord {
        LogRecord {
            time_unix_nano: 1_700_049_600_000_000_000,
            severity_number: 13,
            body: any(body),
            attributes: vec![KeyValue { key: "order.id".to_owned(), value: any("4711") }],
            trace_id: vec![0xab; 16],
            span_id: vec![0xcd; 8],
            ..LogRecord::default()
        }
    }

    fn drawn(log: &LogRecord, layout: Layout, width: usize) -> Vec<String> {
        log_row(&LogView { log, service: "storefront" }, describe::attributes(&log.attributes), layout)
            .draw(&plain_style(width))
    }

    #[test]
    fn a_log_record_is_one_line_if_it_has_the_room() {
        let expected = "12:00:00.000Z  storefront    WARN    card declined                 \
                        abababab/cdcdcdcd  order.id=4711";
        assert_eq!(drawn(&log("card declined"), Layout::Whole, 80), [expected]);
        assert_eq!(drawn(&log("card declined"), Layout::Cut, 100), [expected]);
    }

    #[test]
    fn on_a_narrow_terminal_the_details_have_a_line_of_their_own() {
        let expected = [
            "12:00:00.000Z  storefront    WARN    card declined",
            "               abababab/cdcdcdcd  order.id=4711",
        ];
        assert_eq!(drawn(&log("card declined"), Layout::Cut, 80), expected);
    }

    #[test]
    fn a_log_record_with_nothing_but_a_body_is_one_line() {
        let bare =
            LogRecord { attributes: Vec::new(), trace_id: Vec::new(), span_id: Vec::new(), ..log("x") };
        let full = LogRecord { body: any(&"x".repeat(200)), ..bare.clone() };
        assert_eq!(drawn(&bare, Layout::Cut, 80).len(), 1);
        assert_eq!(drawn(&full, Layout::Cut, 80).len(), 1);
    }

    #[test]
    fn an_event_has_its_name_before_its_body() {
        let event = LogRecord { event_name: "order.paid".to_owned(), ..log("twice") };
        let line = &drawn(&event, Layout::Whole, 100)[0];
        assert!(line.contains("WARN    order.paid  twice  "), "{line}");
    }

    #[test]
    fn a_strange_severity_is_shown_and_does_not_take_the_line() {
        let strange = LogRecord { severity_text: "notice".to_owned(), ..log("disk") };
        assert!(drawn(&strange, Layout::Cut, 100)[0].contains("  notice(13)  disk"));
        let endless = LogRecord { severity_text: "severe".repeat(100), ..log("disk") };
        assert!(drawn(&endless, Layout::Cut, 100)[0].contains("  disk"));
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = "declined ".repeat(100);
        let long_event = LogRecord { event_name: long.clone(), ..log(&long) };
        for width in [66, 80, 100, 200] {
            for log in [&log(&long), &long_event] {
                let lines = drawn(log, Layout::Cut, width);
                assert!(lines.iter().all(|line| text::width(line) <= width), "{lines:?}");
            }
        }
        let whole = &drawn(&log(&long), Layout::Whole, 80)[0];
        assert!(whole.contains(&long) && whole.contains("order.id=4711"), "{whole}");
    }

    #[test]
    fn a_hostile_log_record_cannot_move_the_cursor() {
        let hostile = "\x1b[2J\r\n\u{9b}\u{202e}";
        let mut log = log(hostile);
        log.severity_text = hostile.to_owned();
        log.event_name = hostile.to_owned();
        log.attributes[0].key = hostile.to_owned();
        for layout in [Layout::Whole, Layout::Cut] {
            let view = LogView { log: &log, service: hostile };
            let lines = log_row(&view, describe::attributes(&log.attributes), layout).draw(&plain_style(100));
            assert!(lines.concat().chars().all(|c| !c.is_control() && c != '\u{202e}'), "{lines:?}");
        }
    }
}

mod of_points {
    use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
    use standpipe::receiver::proto::{
        AnyValue, Buckets, Data, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
        HistogramDataPoint, KeyValue, Metric, Number, NumberDataPoint, Value,
    };

    use super::super::*;
    use crate::cli::style::plain_style;

    const NOON: u64 = 1_700_049_600_000_000_000;

    fn attributes(key: &str) -> Vec<KeyValue> {
        let value = Some(AnyValue { value: Some(Value::StringValue("SE".to_owned())) });
        vec![KeyValue { key: key.to_owned(), value }]
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
        let rows = point_rows(metric, "storefront", layout, &style).into_iter();
        rows.flat_map(|row| row.draw(&style)).collect()
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
