use std::time::Duration;

use super::super::style::plain_style;
use super::*;

fn records(text: &str) -> Records {
    Records::from_json(text.as_bytes()).expect("it is OTLP")
}

fn span(trace: &str, id: u8, parent: &str) -> Records {
    records(&format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{trace}","spanId":"{id:02x}","name":"span {id}",
        "parentSpanId":"{parent}","startTimeUnixNano":"1","endTimeUnixNano":"2"}}]}}]}}]}}"#
    ))
}

fn log(trace: &str, body: &str) -> Records {
    records(&format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[
        {{"traceId":"{trace}","spanId":"01","severityNumber":9,"body":{{"stringValue":"{body}"}}}}]}}]}}]}}"#
    ))
}

/// A view of trees, its output, and the time of its start.
struct Bench {
    view: View,
    out: Vec<u8>,
    start: Instant,
}

impl Bench {
    fn new(filter: Filter) -> Self {
        let options = Options { tree: true, filter, ..Options::default() };
        let view = View::new(&options, false, 1 << 20, plain_style(80));
        Self { view, out: Vec::new(), start: Instant::now() }
    }

    fn add(&mut self, records: &Records) -> String {
        let added = self.view.add(records, None, self.start, &mut self.out);
        added.expect("a vector has room");
        self.written()
    }

    fn after(&mut self, seconds: u64) -> String {
        let drawn = self.view.draw_due(self.start + Duration::from_secs(seconds), &mut self.out);
        drawn.expect("a vector has room");
        self.written()
    }

    fn written(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).expect("it is UTF-8")
    }
}

#[test]
fn a_log_record_of_no_trace_is_shown_at_once_and_one_of_a_trace_in_its_span() {
    let mut bench = Bench::new(Filter::default());
    assert!(bench.add(&log("", "alone")).contains("INFO    alone"));
    assert_eq!(bench.add(&log("aa", "inside")), "");
    assert_eq!(bench.add(&span("aa", 1, "")), "");
    assert_eq!(bench.view.open().as_deref(), Some("1 trace open · 1 span"));
    let tree = bench.after(1);
    assert!(
        tree.starts_with("\ntrace aa  span 1 ──") && tree.contains("\n   INFO   inside  before it began\n"),
        "{tree}"
    );
    assert_eq!(bench.view.open(), None);
    // An empty line follows a tree.
    assert!(bench.add(&log("", "alone")).starts_with("\n00:00:00"));
    assert!(bench.add(&log("", "alone")).starts_with("00:00:00"));
}

#[test]
fn a_log_record_whose_trace_never_comes_is_shown_alone() {
    let mut bench = Bench::new(Filter::default());
    assert_eq!(bench.add(&log("aa", "unsampled")), "");
    assert!(bench.after(6).contains("INFO    unsampled                     aa/01"));
}

#[test]
fn a_partial_trace_says_what_is_missing_and_why_it_is_drawn() {
    let heading = |records: &[Records], seconds| {
        let mut bench = Bench::new(Filter::default());
        records.iter().for_each(|records| drop(bench.add(records)));
        bench.after(seconds)
    };
    let heading_of = |text: String| text.lines().take(2).collect::<Vec<_>>().join(" ");
    assert!(heading_of(heading(&[span("aa", 2, "01")], 6)).contains("partial · root span missing"));
    let parents = heading_of(heading(&[span("aa", 1, ""), span("aa", 3, "02"), span("aa", 5, "04")], 6));
    assert!(parents.contains("partial · 2 parents missing"), "{parents}");

    let mut bench = Bench::new(Filter::default());
    bench.view.assembler = Assembler::new(1);
    let early = heading_of(bench.add(&span("aa", 2, "01")));
    assert!(early.contains("partial · root span missing · too many are open"), "{early}");

    let mut bench = Bench::new(Filter::default());
    for second in 0..10 {
        let now = bench.start + Duration::from_secs(3 * second);
        let added = bench.view.add(&span("aa", 2, "01"), None, now, &mut bench.out);
        added.expect("a vector has room");
    }
    assert!(heading_of(bench.after(30)).contains("root span missing · open for 30 s"));
}

#[test]
fn what_is_late_of_a_trace_that_is_not_shown_is_not_shown_either() {
    let filter = Filter { names: vec!["span 9".to_owned()], ..Filter::default() };
    let mut bench = Bench::new(filter);
    bench.add(&span("aa", 1, ""));
    assert_eq!(bench.after(1), "");
    bench.add(&span("aa", 2, "01"));
    assert_eq!(bench.after(8), "");
    assert_eq!(bench.add(&log("", "alone")), "");
}

#[test]
fn a_trace_is_found_by_what_was_logged_in_it() {
    let mut bench = Bench::new(Filter { names: vec!["declined".to_owned()], ..Filter::default() });
    bench.add(&log("aa", "card declined"));
    bench.add(&span("aa", 1, ""));
    bench.add(&log("bb", "card accepted"));
    bench.add(&span("bb", 1, ""));
    let drawn = bench.after(1);
    assert!(drawn.contains("trace aa ") && !drawn.contains("trace bb "), "{drawn}");
}

#[test]
fn a_trace_that_was_filtered_out_is_not_continued_as_if_it_had_been_shown() {
    let mut bench = Bench::new(Filter { names: vec!["span 2".to_owned()], ..Filter::default() });
    bench.add(&span("aa", 1, ""));
    assert_eq!(bench.after(1), "");
    bench.add(&span("aa", 2, "01"));
    let first = bench.after(3);
    assert!(first.contains("partial · earlier records were filtered out"), "{first}");
    bench.add(&span("aa", 12, "02"));
    assert!(bench.after(5).contains("trace aa +1 late span "));
}

/// A push of counters. The time of each point in seconds is the same as its value.
fn push(values: &[(&str, i64)]) -> Records {
    let metric = |(name, value): &(&str, i64)| {
        format!(
            r#"{{"name":"{name}","sum":{{"isMonotonic":true,"aggregationTemporality":2,
            "dataPoints":[{{"timeUnixNano":"{value}000000000","asInt":"{value}"}}]}}}}"#
        )
    };
    let metrics = values.iter().map(metric).collect::<Vec<_>>().join(",");
    records(&format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"without points"}},{metrics}]}}]}}]}}"#
    ))
}

#[test]
fn only_series_that_changed_are_drawn_with_their_change() {
    let mut bench = Bench::new(Filter::default());
    let first = bench.add(&push(&[("orders", 3), ("errors", 0)]));
    let lines: Vec<&str> = first.lines().collect();
    assert!(lines[0].ends_with(" 00:00:03.000Z · 2 series") && lines.len() == 3, "{first}");
    let second = bench.add(&push(&[("orders", 9), ("errors", 0)]));
    let lines: Vec<&str> = second.lines().skip(1).collect();
    assert!(lines[0].ends_with("Z · 1 of 2 series changed") && lines.len() == 2, "{second}");
    let row = lines[1];
    assert!(
        row.starts_with("orders  counter") && row.contains("  ▅█  ") && row.ends_with("  9  +6"),
        "{row}"
    );
    assert_eq!(bench.add(&push(&[("orders", 9), ("errors", 0)])), "");
}

#[test]
fn many_series_are_counted_instead_of_listed() {
    let names: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
    let values: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let drawn = Bench::new(Filter::default()).add(&push(&values));
    assert_eq!((drawn.lines().count(), drawn.lines().last()), (14, Some("and 28 more series")));
}
