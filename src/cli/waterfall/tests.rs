use standpipe::receiver::proto::common::v1::any_value::Value;
use standpipe::receiver::proto::common::v1::{AnyValue, KeyValue};
use standpipe::receiver::proto::trace::v1::span::{Event, Link, SpanKind};
use standpipe::receiver::proto::trace::v1::status::StatusCode;
use standpipe::receiver::proto::trace::v1::{Span, Status};

use super::*;
use crate::cli::paint::{ColorChoice, Surroundings, plain_look};

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
    let view = |(service, span): &'_ (&'_ str, Span)| (service.to_string(), span.clone());
    let owned: Vec<(String, Span)> = spans.iter().map(view).collect();
    let views: Vec<SpanView<'_>> =
        owned.iter().map(|(service, span)| SpanView { span, service, scope: "shop" }).collect();
    draw(&views, look).join("\n")
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
fn ascii_draws_the_same_tree() {
    let look = Look::decide(ColorChoice::Never, true, &Surroundings::default());
    let drawing = drawn(&shop(), &look);
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
    for width in [66, 67, 100, 240] {
        let drawing = drawn(&spans, &plain_look(width));
        for line in drawing.lines() {
            assert!(text::width(line) <= width, "{} > {width}: {line}", text::width(line));
            assert!(!line.ends_with(' '), "{line:?}");
        }
        assert!(drawing.contains("and 14 events more"), "{drawing}");
    }
}

#[test]
fn a_hostile_span_cannot_move_the_cursor() {
    let mut hostile = span(0xa1, 1, 0, "\x1b[2J\nfake", SpanKind::Server, 0, 10);
    hostile.attributes = vec![set("\x1b]0;title\x07", "\r")];
    hostile.events = vec![event("\u{9b}1A", 5, Vec::new())];
    hostile.status = Some(Status { code: StatusCode::Error.into(), message: "\x08\x08".to_owned() });
    let drawing = drawn(&[("\x1b[1m", hostile)], &plain_look(100));
    assert!(drawing.chars().all(|c| c == '\n' || !c.is_control()), "{drawing:?}");
}

#[test]
fn nothing_received_draws_nothing() {
    assert!(draw(&[], &plain_look(100)).is_empty());
}
