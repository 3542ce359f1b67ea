use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use standpipe::receiver::proto::{AnyValue, Event, KeyValue, Link, LogRecord, Span, Status, Value};

use super::*;
use crate::cli::style::{ColorChoice, plain_style};
use crate::cli::terminal::TerminalInfo;
use crate::cli::text;

const START: u64 = 1_700_000_000_000_000_000;

/// A span of trace `trace`, from `from` to `to` in microseconds.
fn span(trace: u8, id: u8, parent: u8, name: &str, kind: SpanKind, from: u64, to: u64) -> Span {
    Span {
        trace_id: vec![trace; 16],
        span_id: vec![id; 8],
        parent_span_id: if parent == 0 { Vec::new() } else { vec![parent; 8] },
        name: name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: START + from * 1000,
        end_time_unix_nano: START + to * 1000,
        ..Span::default()
    }
}

fn set(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value) }
}

fn event(name: &str, at: u64, attributes: Vec<KeyValue>) -> Event {
    Event { time_unix_nano: START + at * 1000, name: name.to_owned(), attributes, ..Event::default() }
}

/// A log record of a span, `at` microseconds after [`START`].
fn log(trace: u8, span: u8, severity: i32, body: &str, at: u64) -> LogRecord {
    LogRecord {
        time_unix_nano: START + at * 1000,
        severity_number: severity,
        body: Some(AnyValue { value: Some(Value::StringValue(body.to_owned())) }),
        trace_id: vec![trace; 16],
        span_id: vec![span; 8],
        ..LogRecord::default()
    }
}

fn shop() -> Vec<(&'static str, Span)> {
    let mut checkout = span(0xa1, 1, 0, "POST /checkout", SpanKind::Server, 0, 412_400);
    checkout.attributes = vec![set("http.request.method", "POST"), set("url.path", "/checkout")];
    let cart = span(0xa1, 2, 1, "load cart", SpanKind::Internal, 2_000, 39_300);
    let mut query = span(0xa1, 3, 2, "SELECT carts", SpanKind::Client, 5_500, 36_000);
    query.attributes = vec![set("db.system.name", "postgresql")];
    let mut pay = span(0xa1, 4, 1, "POST /payments", SpanKind::Client, 41_000, 399_000);
    pay.events = vec![event("retry", 190_000, vec![set("reason", "connection reset")])];
    let mut charge = span(0xa1, 5, 4, "charge card", SpanKind::Server, 215_000, 390_000);
    charge.status = Some(Status { code: StatusCode::Error.into(), message: "card declined".to_owned() });
    charge.events = vec![event(
        "exception",
        360_000,
        vec![set("exception.type", "Declined"), set("exception.stacktrace", "at main\nat start")],
    )];
    let mut receipt = span(0xb2, 6, 0, "send receipt", SpanKind::Consumer, 500_000, 500_090);
    receipt.links = vec![
        Link { trace_id: vec![0xa1; 16], span_id: vec![1; 8], ..Link::default() },
        Link { trace_id: vec![0xc3; 16], span_id: vec![9; 8], ..Link::default() },
    ];
    receipt.dropped_attributes_count = 2;
    vec![
        ("mailer", receipt),
        ("payments", charge),
        ("storefront", query),
        ("storefront", cart),
        ("storefront", pay),
        ("storefront", checkout),
    ]
}

fn drawn(spans: &[(&str, Span)], style: &Style) -> String {
    drawn_with_logs(spans, &[], style)
}

fn drawn_with_logs(spans: &[(&str, Span)], logs: &[LogRecord], style: &Style) -> String {
    drawn_as(spans, logs, Options::default(), style)
}

fn drawn_as(spans: &[(&str, Span)], logs: &[LogRecord], options: Options, style: &Style) -> String {
    let view = |(service, span): &'_ (&'_ str, Span)| (service.to_string(), span.clone());
    let owned: Vec<(String, Span)> = spans.iter().map(view).collect();
    let views: Vec<SpanView<'_>> = owned
        .iter()
        .map(|(service, span)| SpanView { scope: "shop", ..SpanView::bare(span, service) })
        .collect();
    let logs: Vec<LogView<'_>> = logs.iter().map(|log| LogView { log, service: "payments" }).collect();
    draw(&views, &logs, options, &mut Palette::default(), style).join("\n")
}

#[test]
fn the_shop_is_drawn_as_it_happened() {
    let expected = [
        "trace a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 ──────── 22:13:20.000Z · 5 spans · 412 ms · 1 error",
        "                                ╷0         ╷100 ms     ╷200 ms    ╷300 ms",
        "POST /checkout      storefront  ████████████████████████████████████████████████    412 ms",
        "│  server  http.request.method=POST  url.path=/checkout",
        "├─ load cart        storefront  ████▌                                              37.3 ms",
        "│  ╰─ SELECT carts  storefront  ▐███▏                                              30.5 ms",
        "│        client  db.system.name=postgresql",
        "╰─ POST /payments   storefront      ▕█████████████████◆███████████████████████▍     358 ms",
        "   │  client",
        "   │  ◆ retry  at 149 ms  reason=\"connection reset\"",
        "   ╰─ charge card   payments                             ████████████████◆███▍      175 ms",
        "         server",
        "         ✗ card declined",
        "         ◆ exception  at 145 ms  exception.type=Declined  +1",
        "from  storefront  scope shop",
        "from  payments  scope shop",
        "",
        "trace b2b2b2b2  send receipt  mailer  consumer ─────────────────── 22:13:20.500Z · 90.0 µs",
        "   ↗ POST /checkout  in trace a1a1a1a1",
        "   ↗ span 09090909  in trace c3c3c3c3",
        "   2 attributes above the limits, dropped",
        "from  mailer  scope shop",
    ];
    assert_eq!(drawn(&shop(), &plain_style(90)), expected.join("\n"));
}

#[test]
fn what_was_logged_in_a_span_is_beneath_it_in_the_order_of_time() {
    let mut declined = log(0xa1, 5, 17, "card declined", 380_000);
    declined.attributes = vec![set("reason", "no funds")];
    let mut asked = log(0xa1, 5, 9, "asked the bank", 230_000);
    asked.event_name = "bank.asked".to_owned();
    let seen = LogRecord { time_unix_nano: 0, observed_time_unix_nano: START, ..log(0xa1, 5, 14, "odd", 0) };
    let drawing = drawn_with_logs(&shop(), &[declined, asked, seen], &plain_style(90));
    let expected = [
        "         ✗ card declined",
        "         WARN2  odd  before it began",
        "         INFO   bank.asked  asked the bank  at 15.0 ms",
        "         ◆ exception  at 145 ms  exception.type=Declined  +1",
        "         ERROR  card declined  at 165 ms  reason=\"no funds\"",
        "from  storefront",
    ];
    assert!(drawing.contains(&expected.join("\n")), "{drawing}");
}

#[test]
fn the_color_of_a_log_record_is_that_of_its_severity() {
    let logs = [log(0xa1, 1, 9, "fine", 1), log(0xa1, 1, 13, "hm", 2), log(0xa1, 1, 17, "no", 3)];
    let drawing = drawn_with_logs(&shop(), &logs, &Style { color: true, ..plain_style(100) });
    for colored in ["\x1b[38;5;28mINFO\x1b[0m", "\x1b[1;38;5;136mWARN\x1b[0m", "\x1b[1;38;5;167mERROR\x1b[0m"]
    {
        assert!(drawing.contains(colored), "{drawing}");
    }
}

#[test]
fn what_was_logged_outside_of_the_spans_comes_after_the_traces() {
    let elsewhere = log(0xa1, 9, 13, "not in a span of this trace", 2_000);
    let nowhere = LogRecord { trace_id: Vec::new(), span_id: Vec::new(), ..log(0, 0, 9, "open", 1_000) };
    let later = LogRecord { time_unix_nano: START + 3_000_000, ..nowhere.clone() };
    let drawing = drawn_with_logs(&shop(), &[elsewhere, nowhere, later], &plain_style(70));
    let expected = [
        "from  C  mailer  scope shop",
        "",
        "logs outside of these spans ──────────────────────────── 3 log records",
        "22:13:20.001Z  payments  INFO   open",
        "22:13:20.002Z  payments  WARN   not in a span of this trace",
        "22:13:20.003Z  payments  INFO   open",
    ];
    assert!(drawing.ends_with(&expected.join("\n")), "{drawing}");
    let only_logs = drawn_with_logs(&[], &[log(0xa1, 9, 9, "", 1_000)], &plain_style(70));
    assert_eq!(only_logs.lines().last(), Some("22:13:20.001Z  payments  INFO"));
}

#[test]
fn many_log_records_are_counted_instead_of_listed() {
    let many = |span| (0..100).map(move |number| log(0xa1, span, 9, "again", number)).collect::<Vec<_>>();
    let drawing = drawn_with_logs(&shop(), &many(4), &plain_style(90));
    assert_eq!(drawing.matches("again").count(), 6);
    assert!(drawing.contains("   │  and 94 log records more\n"), "{drawing}");
    let drawing = drawn_with_logs(&shop(), &many(9), &plain_style(90));
    assert_eq!(drawing.matches("again").count(), 12);
    assert!(drawing.ends_with("\nand 88 more"), "{drawing}");
}

#[test]
fn ascii_draws_the_same_tree() {
    let style = Style::decide(ColorChoice::Never, true, &TerminalInfo::default());
    let logs = [log(0xa1, 1, 9, "smörgås", 1), log(0xa1, 9, 9, "smörgås", 1)];
    let drawing = drawn_with_logs(&shop(), &logs, &style);
    assert!(drawing.is_ascii(), "{drawing}");
    assert!(drawing.contains("|  `- SELECT carts  storefront  -===="), "{drawing}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut spans = shop();
    let name = "a very long name of a span that nobody should choose ".repeat(4);
    let mut wide = span(0xa1, 7, 5, &name, SpanKind::Internal, 300_000, 310_000);
    wide.attributes = vec![set("note", &"注文".repeat(100))];
    wide.events = (0..20).map(|number| event(&name, 300_000 + number, Vec::new())).collect();
    spans.push(("a service with a long name of its own", wide));
    spans.push(("storefront", span(0xa1, 9, 0, "never ends", SpanKind::Internal, 0, u64::MAX / 2_000)));
    let logs: Vec<LogRecord> = (0..30).map(|number| log(0xa1, 7 + number % 2, 21, &name[1..], 1)).collect();
    for width in [44, 45, 59, 66, 67, 100, 240] {
        let drawing = drawn_with_logs(&spans, &logs, &plain_style(width));
        for line in drawing.lines() {
            assert!(text::width(line) <= width, "{} > {width}: {line}", text::width(line));
            assert!(!line.ends_with(' '), "{line:?}");
        }
        assert!(drawing.contains("and 14 events"), "{drawing}");
    }
}

#[test]
fn a_hostile_span_cannot_move_the_cursor() {
    let mut hostile = span(0xa1, 1, 0, "\x1b[2J\nfake", SpanKind::Server, 0, 10);
    hostile.attributes = vec![set("\x1b]0;title\x07", "\r")];
    hostile.events = vec![event("\u{9b}1A", 5, Vec::new())];
    hostile.status = Some(Status { code: StatusCode::Error.into(), message: "\x08\x08".to_owned() });
    let mut logs = [log(0xa1, 1, 0, "\x1b[2J\r\n", 1), log(0xa1, 2, 0, "\x1b[2J\r\n", 1)];
    for log in &mut logs {
        log.severity_text = "\x1b[1m".to_owned();
        log.event_name = "\u{9b}1A".to_owned();
        log.attributes = vec![set("\x1b]0;title\x07", "\r")];
    }
    let drawing = drawn_with_logs(&[("\x1b[1m", hostile)], &logs, &plain_style(100));
    assert!(drawing.chars().all(|c| c == '\n' || !c.is_control()), "{drawing:?}");
}

#[test]
fn nothing_received_draws_nothing() {
    assert!(draw(&[], &[], Options::default(), &mut Palette::default(), &plain_style(100)).is_empty());
}

#[test]
fn like_siblings_share_a_row_and_those_with_something_to_say_do_not() {
    let mut spans = shop();
    spans.extend((0..48_u8).map(|number| {
        let from = 6_000 + 500 * u64::from(number);
        ("storefront", span(0xa1, 100 + number, 2, "SELECT items", SpanKind::Client, from, from + 400))
    }));
    spans[20].1.status = Some(Status { code: StatusCode::Error.into(), message: "deadlock".to_owned() });
    spans[21].1.events = vec![event("retry", 7_000, Vec::new())];
    spans[22].1.end_time_unix_nano += 1_000_000;
    let drawing = drawn(&spans, &plain_style(100));
    assert_eq!(drawing.matches("SELECT items").count(), 3, "{drawing}");
    assert!(drawing.contains("├─ SELECT items ×46  storefront  "), "{drawing}");
    assert!(drawing.contains("client  46 spans in all, the longest 1.40 ms\n"), "{drawing}");
    assert!(drawing.contains("✗ deadlock"), "{drawing}");
    let full = drawn_as(&spans, &[], Options { full: true, ..Options::default() }, &plain_style(100));
    assert_eq!(full.matches("SELECT items").count(), 48, "{full}");
}

#[test]
fn a_large_trace_is_cut_at_a_depth_and_its_errors_are_shown() {
    let mut spans = vec![("shop", span(0xa1, 1, 0, "root", SpanKind::Server, 0, 1_000_000))];
    let mut add = |id: u64, parent: u64| {
        let mut deep = span(0xa1, 1, 1, &format!("span {id}"), SpanKind::Internal, id, id + 1);
        deep.span_id = id.to_be_bytes().to_vec();
        deep.parent_span_id = if parent == 0 { vec![1; 8] } else { parent.to_be_bytes().to_vec() };
        spans.push(("shop", deep));
    };
    for branch in 1..=10_u64 {
        add(branch * 1000, 0);
        (1..1000).for_each(|number| add(branch * 1000 + number, branch * 1000 + number - 1));
    }
    spans[5000].1.status = Some(Status { code: StatusCode::Error.into(), message: "far below".to_owned() });
    let drawing = drawn(&spans, &plain_style(100));
    assert!(drawing.contains("10001 spans"), "{drawing}");
    assert!(drawing.contains("✗ far below"), "{drawing}");
    let hidden = drawing.lines().filter_map(|line| line.split('+').nth(1)?.strip_suffix(" spans below"));
    let hidden: usize = hidden.map(|number| number.parse::<usize>().expect("a number")).sum();
    let rows = drawing.lines().filter(|line| line.contains("  shop  ") && !line.starts_with("from")).count();
    assert_eq!((rows, hidden), (61, 10_001 - 61));
}

#[test]
fn ten_thousand_roots_are_counted() {
    let spans: Vec<(&str, Span)> = (0..10_000_u64)
        .map(|id| {
            let mut root = span(0xa1, 1, 0, &format!("root {id}"), SpanKind::Server, id, id + 1);
            root.span_id = id.to_be_bytes().to_vec();
            ("shop", root)
        })
        .collect();
    let drawing = drawn(&spans, &plain_style(100));
    assert!(drawing.lines().count() < 200 && drawing.contains("\nand 9940 spans more"), "{drawing}");
}

#[test]
fn in_full_nothing_is_cut_and_long_texts_go_on_below() {
    let mut spans = shop();
    let statement = "SELECT everything FROM carts ".repeat(20);
    spans[2].1.attributes.extend([
        set("db.query.text", &statement),
        set("thread.id", "7"),
        set("code.line", "1"),
    ]);
    spans[2].1.trace_state = "a=1".to_owned();
    let full = drawn_as(&spans, &[], Options { full: true, ..Options::default() }, &plain_style(80));
    let squeezed: String = full.chars().filter(|c| !c.is_whitespace() && *c != '│').collect();
    let statement: String = statement.chars().filter(|c| !c.is_whitespace()).collect();
    for part in
        [&statement, "thread.id=7", "code.line=1", "span0303030303030303parent0202020202020202tracestatea=1"]
    {
        assert!(squeezed.contains(part), "no {part} in {full}");
    }
    assert!(full.contains(" at start") && full.lines().all(|line| text::width(line) <= 80), "{full}");
    let folded = drawn(&spans, &plain_style(80));
    assert!(!folded.contains("thread.id") && folded.contains("  +2\n"), "{folded}");
}

#[test]
fn narrow_terminals_have_marks_for_services_and_the_narrowest_no_bars() {
    let narrow = drawn(&shop(), &plain_style(70));
    assert!(narrow.contains("├─ load cart        A  ███"), "{narrow}");
    assert!(narrow.contains("\nfrom  B  payments  scope shop"), "{narrow}");
    let narrowest = drawn(&shop(), &plain_style(50));
    assert!(narrowest.contains("\n├─ load cart                               37.3 ms\n"), "{narrowest}");
    assert!(!narrowest.contains('█') && !narrowest.contains('╷'), "{narrowest}");
}

#[test]
fn a_partial_trace_says_what_is_missing_at_every_width() {
    for width in [44, 60, 80, 100, 160] {
        let options =
            Options { heading: Heading::Partial("root span missing".to_owned()), ..Options::default() };
        let drawing = drawn_as(&shop()[1..2], &[], options, &plain_style(width));
        let heading: Vec<&str> = drawing.lines().take(if width < 100 { 2 } else { 1 }).collect();
        assert!(heading[0].starts_with("trace a1a1a1a1"), "{heading:?}");
        assert!(heading.concat().contains("partial · root span missing"), "{heading:?}");
        assert!(heading.iter().all(|line| text::width(line) <= width), "{heading:?}");
    }
}

#[test]
fn what_comes_late_is_drawn_below_what_was_drawn_before() {
    let owned = shop();
    let mut views: Vec<SpanView<'_>> =
        owned[1..].iter().map(|(service, span)| SpanView::bare(span, service)).collect();
    views.retain(|view| {
        ["POST /checkout", "POST /payments", "charge card"].contains(&view.span.name.as_str())
    });
    views.iter_mut().for_each(|view| view.is_past = view.span.name != "charge card");
    let options = Options { heading: Heading::Late("1 late span".to_owned()), ..Options::default() };
    let style = Style { color: true, ..plain_style(100) };
    let lines = draw(&views, &[], options, &mut Palette::default(), &style);
    assert!(lines[0].contains("a1a1a1a1\x1b[0m \x1b[38;5;136m+1 late span"), "{lines:?}");
    assert!(lines[2].starts_with("\x1b[38;5;244mPOST /checkout\x1b[0m  "), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("\x1b[1;38;5;167mcharge card")), "{lines:?}");
}

/// A chain of this many spans, each the parent of the next.
fn chain(length: u8) -> Vec<Span> {
    (1..=length)
        .map(|id| span(0xa1, id, id - 1, &format!("span {id}"), SpanKind::Internal, id.into(), 1_000))
        .collect()
}

#[test]
fn what_is_looked_for_keeps_its_row_however_deep_it_is() {
    let spans = chain(90);
    let mut views: Vec<SpanView<'_>> = spans.iter().map(|span| SpanView::bare(span, "shop")).collect();
    views.iter_mut().for_each(|view| view.is_wanted = view.span.name == "span 90");
    let lines = draw(&views, &[], Options::default(), &mut Palette::default(), &plain_style(100));
    assert!(lines.iter().any(|line| line.contains("span 90  ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("span 59  ")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("span 60  ")), "{lines:?}");
}

#[test]
fn the_logs_of_spans_without_a_row_are_shown_and_an_error_among_them_keeps_its_span() {
    let spans: Vec<(&str, Span)> = chain(90).into_iter().map(|span| ("shop", span)).collect();
    let logs = [log(0xa1, 80, 9, "far below", 1), log(0xa1, 85, 17, "broken", 2)];
    let drawing = drawn_with_logs(&spans, &logs, &plain_style(100));
    let heading = drawing.lines().next().unwrap_or_default();
    assert!(heading.ends_with("90 spans · 999 µs · 1 error log"), "{heading}");
    assert!(drawing.contains("span 85  ") && drawing.contains("ERROR  broken"), "{drawing}");
    assert!(
        drawing.contains("logs outside of these spans ") && drawing.contains("INFO   far below"),
        "{drawing}"
    );
}

#[test]
fn an_exception_and_an_error_are_listed_however_many_came_before() {
    let mut busy = span(0xa1, 1, 0, "busy", SpanKind::Server, 0, 100_000);
    busy.events = (0..20).map(|number| event(&format!("step {number}"), number, Vec::new())).collect();
    busy.events.push(event("exception", 30, Vec::new()));
    let mut logs: Vec<LogRecord> =
        (0..20).map(|number| log(0xa1, 1, 9, &format!("line {number}"), number)).collect();
    logs.push(log(0xa1, 1, 21, "out of memory", 40));
    let drawing = drawn_with_logs(&[("shop", busy)], &logs, &plain_style(100));
    assert!(drawing.contains("◆ exception") && drawing.contains("FATAL  out of memory"), "{drawing}");
    assert!(drawing.contains("◆ step 4 ") && !drawing.contains("◆ step 5 "), "{drawing}");
    assert!(drawing.contains("and 15 events, 15 log records more"), "{drawing}");
}

#[test]
fn a_wider_terminal_does_not_cut_the_id() {
    let root = ("shop", span(0xa1, 1, 0, "root", SpanKind::Server, 0, 412_400));
    let spans = [root, ("shop", span(0xa1, 2, 1, "child", SpanKind::Client, 0, 412_400))];
    for width in 70..100 {
        let drawing = drawn(&spans, &plain_style(width));
        assert!(drawing.contains(&"a1".repeat(16)), "{width}: {drawing}");
    }
}

#[test]
fn traces_of_one_span_take_one_line_each() {
    let mut failed = span(2, 2, 0, "refund", SpanKind::Server, 10, 20);
    failed.status = Some(Status { code: StatusCode::Error.into(), message: String::new() });
    failed.attributes = vec![set("http.route", "/refund")];
    let spans = [
        ("shop", span(1, 1, 0, "checkout", SpanKind::Internal, 0, 5)),
        ("shop", failed),
        ("shop", span(3, 3, 0, &"long ".repeat(50), SpanKind::Internal, 30, 31)),
    ];
    let views = spans.each_ref().map(|(service, span)| SpanView::bare(span, service));
    let lines = draw(&views, &[], Options::default(), &mut Palette::default(), &plain_style(80));
    let first = "trace 01010101  checkout  shop ───────────────────────── 22:13:20.000Z · 5.00 µs";
    assert_eq!((lines.len(), lines[0].as_str()), (3, first));
    assert!(lines[1].starts_with("trace 02020202  refund  shop  ✗  server  http"), "{lines:#?}");
    assert!(lines.iter().all(|line| text::width(line) == 80), "{lines:#?}");
}

#[test]
fn a_resource_is_drawn_once_until_it_changes() {
    let spans = shop();
    let views: Vec<SpanView<'_>> = spans
        .iter()
        .map(|(service, span)| SpanView { scope: "shop", ..SpanView::bare(span, service) })
        .collect();
    let mut palette = Palette::default();
    let mut origins = |views: &[SpanView<'_>]| {
        let lines = draw(views, &[], Options::default(), &mut palette, &plain_style(100));
        lines.iter().filter(|line| line.starts_with("from ")).count()
    };
    assert_eq!((origins(&views), origins(&views)), (3, 0));
    let resource = [set("service.version", "2")];
    let changed: Vec<SpanView<'_>> =
        views.iter().map(|view| SpanView { resource: &resource, ..*view }).collect();
    assert_eq!((origins(&changed), origins(&views)), (3, 0));
    let scoped: Vec<SpanView<'_>> = views.iter().map(|view| SpanView { scope: "new", ..*view }).collect();
    assert_eq!(origins(&scoped), 3);
}

#[test]
fn an_event_that_is_a_log_record_as_well_is_listed_once() {
    let mut busy = span(0xa1, 1, 0, "busy", SpanKind::Server, 0, 100_000);
    busy.events =
        vec![event("retry", 10, Vec::new()), event("retry", 20, Vec::new()), event("sent", 30, Vec::new())];
    let logs = [log(0xa1, 1, 9, "retry", 10)];
    let drawing = drawn_with_logs(&[("shop", busy)], &logs, &plain_style(100));
    assert_eq!(
        (drawing.matches("INFO   retry").count(), drawing.matches("◆ retry").count()),
        (1, 1),
        "{drawing}"
    );
    assert!(drawing.contains("◆ sent"), "{drawing}");
}

#[test]
fn an_error_without_a_message_is_a_mark() {
    let mut spans = shop();
    spans[1].1.status = Some(Status { code: StatusCode::Error.into(), message: String::new() });
    let drawing = drawn(&spans, &plain_style(90));
    assert!(drawing.contains("         server\n         ✗\n"), "{drawing}");
}
