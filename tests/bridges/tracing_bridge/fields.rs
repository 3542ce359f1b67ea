//! Fields of every type, at creation and later, and fields that configure the span.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use standpipe::Config;
use standpipe::config::SpanLimits;
use tracing::field::{Empty, debug, display};
use tracing::{Level, info_span, span};

use super::stage::{as_texts, run, run_config, run_with};

#[test]
fn fields_keep_their_kind() {
    let arrived = run(|| {
        info_span!(
            "all",
            truth = true,
            int = -7i64,
            small = 200u8,
            unsigned = 7u64,
            huge = u64::MAX,
            wide = -7i128,
            wider = u128::MAX,
            bytes = &b"ab"[..],
            float = 0.5,
            nan = f64::NAN,
            text = "words",
            owned = String::from("owned"),
            shown = %"shown",
            debugged = ?Some("thing"),
            none = Empty,
            optional = Some(3),
        );
    });
    let expected = [
        "truth=true",
        "int=-7",
        "small=200",
        "unsigned=7",
        "huge=\"18446744073709551615\"",
        "wide=-7",
        "wider=\"340282366920938463463374607431768211455\"",
        "bytes=BytesValue([97, 98])",
        "float=0.5",
        "nan=NaN",
        "text=\"words\"",
        "owned=\"owned\"",
        "shown=\"shown\"",
        "debugged=\"Some(\\\"thing\\\")\"",
        "optional=3",
    ];
    assert_eq!(as_texts(&arrived.span("all").span.attributes), expected);
}

#[test]
fn fields_may_come_late_and_the_last_value_counts() {
    let arrived = run(|| {
        let span = info_span!("late", early = 1, late = Empty, twice = 1);
        span.record("late", 2);
        span.in_scope(|| {
            span.record("twice", 2).record("late", debug("three")).record("unknown", 4);
        });
        span.record("twice", display("four"));
    });
    assert_eq!(
        as_texts(&arrived.span("late").span.attributes),
        ["early=1", "late=\"\\\"three\\\"\"", "twice=\"four\""]
    );
}

#[test]
fn more_fields_than_the_limit_are_counted() {
    let limits = SpanLimits::default().attributes(2);
    let arrived = run_config(
        Config::new().span_limits(limits),
        |layer| layer,
        |_| {
            info_span!("many", a = 1, b = 2, c = 3, d = 4);
        },
    );
    let span = &arrived.span("many").span;
    assert_eq!((span.attributes.len(), span.dropped_attributes_count), (2, 2));
}

#[test]
fn some_fields_are_orders_early_or_late() {
    let arrived = run(|| {
        info_span!(
            "early",
            otel.name = "GET /orders",
            otel.kind = "SERVER",
            otel.status_code = "OK",
            kept = 1
        );
        let late = info_span!(
            "late",
            otel.name = Empty,
            otel.kind = Empty,
            otel.status_code = Empty,
            otel.status_message = Empty,
        );
        late.in_scope(|| {
            late.record("otel.name", "POST /orders");
            late.record("otel.kind", display("Client"));
            late.record("otel.status_message", "out of stock");
            late.record("otel.status_code", "ERROR");
        });
    });
    let early = &arrived.span("GET /orders").span;
    assert_eq!((early.kind, early.status.as_ref().unwrap().code), (SpanKind::Server as i32, 1));
    assert_eq!(as_texts(&early.attributes), ["kept=1"]);
    let late = &arrived.span("POST /orders").span;
    let status = late.status.as_ref().unwrap();
    assert_eq!(
        (late.kind, status.code, status.message.as_str()),
        (SpanKind::Client as i32, 2, "out of stock")
    );
    assert!(late.attributes.is_empty());
}

#[test]
fn orders_that_mean_nothing_change_nothing() {
    let arrived = run(|| {
        info_span!(
            "odd",
            otel.kind = "captain",
            otel.status_code = "maybe",
            otel.other = "kept",
            otel.name = 7
        );
        info_span!("ok", otel.status_code = "ok", otel.status_description = "not an error");
    });
    let odd = &arrived.span("odd").span;
    assert_eq!((odd.kind, odd.status.as_ref()), (SpanKind::Internal as i32, None));
    assert_eq!(as_texts(&odd.attributes), ["otel.other=\"kept\"", "otel.name=7"]);
    assert_eq!(arrived.span("ok").span.status.as_ref().unwrap().code, 1);
}

#[test]
fn where_it_comes_from_and_its_level_are_reported_on_request() {
    let line = line!() + 4;
    let arrived = run_with(
        |layer| layer.location(true).threads(true).level(true),
        || {
            span!(Level::WARN, "level").in_scope(|| tracing::info!("event"));
        },
    );
    let span = &arrived.span("level").span;
    let attributes = as_texts(&span.attributes).join(" ");
    for expected in [
        format!("code.file.path={:?}", file!()),
        format!("code.module.name={:?}", module_path!()),
        format!("code.line.number={line}"),
        "thread.id=".to_owned(),
        format!("thread.name={:?}", std::thread::current().name().unwrap()),
        "level=\"WARN\"".to_owned(),
    ] {
        assert!(attributes.contains(&expected), "{expected} in {attributes}");
    }
    let event = as_texts(&span.events[0].attributes).join(" ");
    assert!(event.contains(&format!("code.line.number={line}")), "{event}");
    assert!(!event.contains("thread."), "{event}");
}

#[test]
fn busy_and_idle_time_add_up_to_the_whole() {
    let mut whole = Duration::ZERO;
    let arrived = run_with(
        |layer| layer.busy_and_idle(true),
        || {
            let begun = Instant::now();
            let span = info_span!("timed");
            span.in_scope(|| span.in_scope(|| {}));
            span.in_scope(|| {});
            drop(span);
            whole = begun.elapsed();
        },
    );
    let received = arrived.span("timed");
    let value = |key: &str| Duration::from_nanos(received.attribute(key).as_i64().unwrap() as u64);
    let (busy, idle) = (value("busy_ns"), value("idle_ns"));
    assert!(!busy.is_zero() && !idle.is_zero());
    assert!(busy + idle <= whole, "{busy:?} + {idle:?} > {whole:?}");
}
