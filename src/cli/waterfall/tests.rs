use standpipe::receiver::proto::common::v1::any_value::Value;
use standpipe::receiver::proto::common::v1::{AnyValue, KeyValue};
use standpipe::receiver::proto::logs::v1::LogRecord;
use standpipe::receiver::proto::trace::v1::span::{Event, Link, SpanKind};
use standpipe::receiver::proto::trace::v1::status::StatusCode;
use standpipe::receiver::proto::trace::v1::{Span, Status};

use super::*;
use crate::cli::paint::{ColorChoice, Surroundings, plain_look};
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
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn event(name: &str, at: u64, attributes: Vec<KeyValue>) -> Event {
    Event { time_unix_nano: START + at * 1000, name: name.to_owned(), attributes, ..Event::default() }
}

/// A log record of a span, `at` so many microseconds.
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

fn drawn(spans: &[(&str, Span)], look: &Look) -> String {
    drawn_with_logs(spans, &[], look)
}

fn drawn_with_logs(spans: &[(&str, Span)], logs: &[LogRecord], look: &Look) -> String {
    let view = |(service, span): &'_ (&'_ str, Span)| (service.to_string(), span.clone());
    let owned: Vec<(String, Span)> = spans.iter().map(view).collect();
    let views: Vec<SpanView<'_>> =
        owned.iter().map(|(service, span)| SpanView { span, service, scope: "shop" }).collect();
    let logs: Vec<LogView<'_>> = logs.iter().map(|log| LogView { log, service: "payments" }).collect();
    draw(&views, &logs, &mut Palette::default(), look).join("\n")
}

#[test]
fn the_shop_is_drawn_as_it_happened() {
    let expected = [
        "trace a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 ──────────────────────── 5 spans · 412 ms · 1 error",
        "                                ╷0         ╷100 ms     ╷200 ms    ╷300 ms",
        "POST /checkout      storefront  ████████████████████████████████████████████████    412 ms",
        "│  server · shop  http.request.method=POST  url.path=/checkout",
        "├─ load cart        storefront  ████▌                                              37.3 ms",
        "│  │  internal · shop",
        "│  ╰─ SELECT carts  storefront  ▐███▏                                              30.5 ms",
        "│        client · shop  db.system.name=postgresql",
        "╰─ POST /payments   storefront      ▕█████████████████◆███████████████████████▍     358 ms",
        "   │  client · shop",
        "   │  ◆ retry  at 149 ms  reason=\"connection reset\"",
        "   ╰─ charge card   payments                             ████████████████◆███▍      175 ms",
        "         server · shop",
        "         ✗ card declined",
        "         ◆ exception  at 145 ms  exception.type=Declined",
        "",
        "trace b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 ────────────────────── 1 span · 90.0 µs · no errors",
        "                                ╷0        ╷20 µs     ╷40 µs     ╷60 µs    ╷80 µs",
        "send receipt        mailer      ████████████████████████████████████████████████   90.0 µs",
        "   consumer · shop",
        "   ↗ POST /checkout  in trace a1a1a1a1",
        "   ↗ span 09090909  in trace c3c3c3c3",
        "   2 attributes above the limits, dropped",
    ];
    assert_eq!(drawn(&shop(), &plain_look(90)), expected.join("\n"));
}

#[test]
fn what_was_logged_in_a_span_is_beneath_it_in_the_order_of_time() {
    let mut declined = log(0xa1, 5, 17, "card declined", 380_000);
    declined.attributes = vec![set("reason", "no funds")];
    let mut asked = log(0xa1, 5, 9, "asked the bank", 230_000);
    asked.event_name = "bank.asked".to_owned();
    let seen = LogRecord { time_unix_nano: 0, observed_time_unix_nano: START, ..log(0xa1, 5, 14, "odd", 0) };
    let drawing = drawn_with_logs(&shop(), &[declined, asked, seen], &plain_look(90));
    let expected = [
        "         ✗ card declined",
        "         WARN2  odd  before it began",
        "         INFO   bank.asked  asked the bank  at 15.0 ms",
        "         ◆ exception  at 145 ms  exception.type=Declined",
        "         ERROR  card declined  at 165 ms  reason=\"no funds\"",
        "",
    ];
    assert!(drawing.contains(&expected.join("\n")), "{drawing}");
}

#[test]
fn the_color_of_a_log_record_is_that_of_its_severity() {
    let logs = [log(0xa1, 1, 9, "fine", 1), log(0xa1, 1, 13, "hm", 2), log(0xa1, 1, 17, "no", 3)];
    let drawing = drawn_with_logs(&shop(), &logs, &Look { color: true, ..plain_look(100) });
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
    let drawing = drawn_with_logs(&shop(), &[elsewhere, nowhere, later], &plain_look(70));
    let expected = [
        "   2 attributes above the limits, dropped",
        "",
        "logs outside of these spans ──────────────────────────── 3 log records",
        "22:13:20.001Z  payments  INFO   open",
        "22:13:20.002Z  payments  WARN   not in a span of this trace",
        "22:13:20.003Z  payments  INFO   open",
    ];
    assert!(drawing.ends_with(&expected.join("\n")), "{drawing}");
    let only_logs = drawn_with_logs(&[], &[log(0xa1, 9, 9, "", 1_000)], &plain_look(70));
    assert_eq!(only_logs.lines().last(), Some("22:13:20.001Z  payments  INFO"));
}

#[test]
fn many_log_records_are_counted_instead_of_listed() {
    let many = |span| (0..100).map(move |number| log(0xa1, span, 9, "again", number)).collect::<Vec<_>>();
    let drawing = drawn_with_logs(&shop(), &many(4), &plain_look(90));
    assert_eq!(drawing.matches("again").count(), 6);
    assert!(drawing.contains("   │  and 94 log records more\n"), "{drawing}");
    let drawing = drawn_with_logs(&shop(), &many(9), &plain_look(90));
    assert_eq!(drawing.matches("again").count(), 12);
    assert!(drawing.ends_with("\nand 88 more"), "{drawing}");
}

#[test]
fn ascii_draws_the_same_tree() {
    let look = Look::decide(ColorChoice::Never, true, &Surroundings::default());
    let logs = [log(0xa1, 1, 9, "smörgås", 1), log(0xa1, 9, 9, "smörgås", 1)];
    let drawing = drawn_with_logs(&shop(), &logs, &look);
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
    let logs: Vec<LogRecord> = (0..30).map(|number| log(0xa1, 7 + number % 2, 21, &name, 1)).collect();
    for width in [44, 45, 59, 66, 67, 100, 240] {
        let drawing = drawn_with_logs(&spans, &logs, &plain_look(width));
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
    let drawing = drawn_with_logs(&[("\x1b[1m", hostile)], &logs, &plain_look(100));
    assert!(drawing.chars().all(|c| c == '\n' || !c.is_control()), "{drawing:?}");
}

#[test]
fn nothing_received_draws_nothing() {
    assert!(draw(&[], &[], &mut Palette::default(), &plain_look(100)).is_empty());
}

/// Every element is closed in its order, attributes are quoted, and no text holds a bare `<` or `&`.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect(piece);
        assert!(!text.contains('>') && tag.matches('"').count() % 2 == 0, "{piece}");
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;"].iter().any(|known| entity.starts_with(known)), "{piece}");
        }
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{ffff}'), "{piece:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{piece}");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn the_picture_is_xml_with_a_bar_for_every_span_and_a_line_for_every_remark() {
    let owned = shop();
    let views: Vec<SpanView<'_>> =
        owned.iter().map(|(service, span)| SpanView { span, service, scope: "shop" }).collect();
    let logs = [log(0xa1, 5, 17, "a < b && \"c\"\x1b", 380_000), log(0xa1, 9, 9, "elsewhere", 1)];
    let logs: Vec<LogView<'_>> = logs.iter().map(|log| LogView { log, service: "payments" }).collect();
    let svg = draw_svg(&views, &logs);
    assert_well_formed(&svg);
    for (service, span) in &owned {
        let (name, service) = (format!(">{}</text>", span.name), format!(">{service}</text>"));
        assert!(svg.contains(&name) && svg.contains(&service), "{name} {service}: {svg}");
    }
    assert_eq!(svg.matches(" rx=\"2\"/>").count(), owned.len());
    for text in [
        ">1 error<",
        ">412 ms<",
        ">100 ms<",
        ">✗ card declined",
        ">◆ retry",
        ">↗ POST /checkout",
        ">ERROR",
        "a &lt; b &amp;&amp; \"c\"\\u{1b}",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(!svg.contains("elsewhere") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn nothing_in_a_record_can_leave_the_picture() {
    let mut hostile = span(0xa1, 1, 0, "</svg><script>&\u{ffff}", SpanKind::Server, 10, 0);
    hostile.events = vec![event(&"注文".repeat(1000), u64::MAX / 2000, vec![set("\"><a", "<\n\u{ffff}")])];
    let hostile = [hostile, span(0xa1, 2, 1, &"x".repeat(100_000), SpanKind::Server, 0, u64::MAX / 2_000)];
    let views: Vec<SpanView<'_>> =
        hostile.iter().map(|span| SpanView { span, service: "<&>", scope: "" }).collect();
    let svg = draw_svg(&views, &[]);
    assert_well_formed(&svg);
    assert!(svg.len() < 10_000 && !svg.contains("<script"), "{} bytes", svg.len());
    assert_well_formed(&draw_svg(&[], &[]));
}
