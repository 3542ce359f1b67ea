//! A program in any language sends all signals, and each record arrives unchanged.

use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{Severity, SpanKind, Status, Value};

use crate::library::{Built, Language, compiler, finish, library, script};

fn span<'a>(spans: &'a [ReceivedSpan], name: &str) -> &'a ReceivedSpan {
    spans.iter().find(|span| span.name() == name).unwrap_or_else(|| panic!("there is no span {name}"))
}

/// Checks the records that programs of every language emit.
fn assert_story(receiver: &Receiver) {
    let (spans, logs) = (receiver.spans(), receiver.logs());
    let (checkout, payment) = (span(&spans, "checkout"), span(&spans, "payment"));
    assert_eq!((checkout.kind(), checkout.parent_id()), (SpanKind::Server, None));
    assert_eq!((checkout.scope_name(), checkout.service_name()), ("till", "shop"));
    assert_eq!(checkout.attribute("order.id"), 4711);
    assert_eq!(checkout.attribute("card"), "visa");
    assert_eq!(checkout.attribute("total"), 12.5);
    assert_eq!(checkout.attribute("express"), true);
    assert_eq!(payment.parent_id(), Some(checkout.span_id()));
    assert_eq!(payment.trace_id(), checkout.trace_id());
    assert_eq!(payment.status(), Some(Status::Error("card declined")));
    let events = payment.events();
    assert_eq!((events.len(), events[0].name()), (1, "retry"));
    assert_eq!(events[0].attribute("attempt"), 2);
    assert!(payment.start_time() >= checkout.start_time() && payment.end_time() <= checkout.end_time());

    assert_eq!(logs[0].body(), "declined");
    assert_eq!((logs[0].severity(), logs[0].scope_name()), (Some(Severity::Warn), "till"));
    assert_eq!((logs[0].trace_id(), logs[0].span_id()), (Some(payment.trace_id()), Some(payment.span_id())));
    assert_eq!(logs[0].attribute("amount"), 12.5);

    let orders = receiver.metric("orders").unwrap();
    assert_eq!((orders.unit(), orders.description()), ("{order}", "all"));
    assert_eq!(orders.value(&[("country", "SE")]), 3);
    assert_eq!(receiver.metric("heat").unwrap().value(()), 21.5);
    let total = receiver.metric("total").unwrap();
    let point = total.point(()).unwrap();
    assert_eq!((point.count(), point.sum(), point.bounds()), (2, Some(50.0), [1.0, 10.0].as_slice()));
}

/// Checks the records that only the C and C++ program emits.
fn assert_rest_of_story(receiver: &Receiver) {
    let (spans, logs) = (receiver.spans(), receiver.logs());
    assert_eq!((spans.len(), logs.len()), (5, 2));
    assert_eq!(span(&spans, "checkout").attribute("cut"), "abc");
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);

    let request = span(&spans, "request");
    assert_eq!(request.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(request.parent_id().unwrap().to_string(), "00f067aa0ba902b7");
    assert_eq!((request.kind(), request.span.trace_state.as_str()), (SpanKind::Consumer, "rojo=1"));
    assert_eq!((request.start_time(), request.duration()), (then, Duration::from_millis(500)));
    assert_eq!((request.links().len(), request.links()[0].trace_id()), (1, request.trace_id()));
    assert_eq!(span(&spans, "called").parent_id(), request.parent_id());

    let kinds = span(&spans, "kinds");
    assert_eq!((kinds.attributes().len(), kinds.status()), (11, Some(Status::Ok)));
    assert_eq!(kinds.attribute("str"), "grüß");
    assert_eq!(kinds.attribute("mended"), "a\u{fffd}");
    assert_eq!(kinds.attribute("int"), i64::MIN);
    assert_eq!(kinds.attribute("bool"), true);
    assert_eq!(kinds.attribute("bytes"), [0, 255_u8].as_slice());
    assert_eq!(kinds.attribute("strs"), ["a", "b\u{fffd}"]);
    assert_eq!(kinds.attribute("ints"), [1, -2]);
    assert_eq!(kinds.attribute("doubles"), [0.5]);
    assert_eq!(kinds.attribute("bools"), [true, false]);
    let map = Value::Map(&[("inner", Value::Ints(&[1, -2]))]);
    assert_eq!(kinds.attribute("array"), [Value::Str("x"), map]);
    assert_eq!(kinds.attribute("map"), map);

    assert_eq!(logs[1].body(), 7);
    assert_eq!((logs[1].severity(), logs[1].severity_text()), (Some(Severity::Fatal3), "PANIC"));
    assert_eq!((logs[1].event_name(), logs[1].time()), ("stock.empty", then));
    assert_eq!(receiver.metric("stock").unwrap().value(()), -3);
    assert_eq!(receiver.metric("litres").unwrap().value(()), 0.75);
}

/// Asserts that the ledger that the program printed last agrees with the received records.
fn assert_ledger(printed: &str, receiver: &Receiver) {
    let ledger: Json = serde_json::from_str(printed).unwrap();
    let exporter = &ledger["exporters"][0];
    for (signal, count) in [("traces", receiver.span_count()), ("logs", receiver.log_count())] {
        assert_eq!(exporter[signal]["delivered"], count, "{ledger}");
        assert_eq!(exporter[signal]["not_enqueued"]["queue_full"], 0, "{ledger}");
    }
    assert_eq!((&exporter["name"], &ledger["open_spans"]["count"]), (&Json::from("otlp"), &Json::from(0)));
}

fn tell_in(language: Language) {
    let Some(program) = Built::new("story", language) else { return };
    let receiver = Receiver::start().unwrap();
    let printed = program.run(&[&receiver.endpoint()]);
    assert_story(&receiver);
    assert_rest_of_story(&receiver);
    assert_ledger(&printed, &receiver);
}

#[test]
fn a_program_in_c99_sends_all_signals() {
    tell_in(Language::C99);
}

#[test]
fn a_program_in_cxx17_sends_all_signals() {
    tell_in(Language::Cxx17);
}

/// Runs a script with the library and the endpoint as arguments, if its interpreter can be started; `version` is the
/// option with which the interpreter prints its version.
fn run_by(interpreter: &str, version: &str, name: &str) -> Option<Receiver> {
    // An interpreter for another machine cannot load the library.
    compiler(Language::C99)?;
    if let Err(error) = Command::new(interpreter).arg(version).output() {
        crate::support::skip(format_args!("there is no {interpreter}: {error}"));
        return None;
    }
    let receiver = Receiver::start().unwrap();
    finish(Command::new(interpreter).arg(script(name)).arg(library()).arg(receiver.endpoint()), &[]);
    Some(receiver)
}

fn tell_by(interpreter: &str, version: &str, name: &str) {
    let Some(receiver) = run_by(interpreter, version, name) else { return };
    assert_story(&receiver);
    assert_eq!((receiver.span_count(), receiver.log_count()), (2, 1));
}

#[test]
fn spans_of_the_cxx_wrapper_end_with_their_scope() {
    let Some(program) = Built::new("shop.cpp", Language::Cxx17) else { return };
    let receiver = Receiver::start().unwrap();
    let printed = program.run(&[&receiver.endpoint()]);
    assert_eq!(printed, "4 of 4 spans and logs delivered\n");
    let trace = receiver.only_trace();
    let (checkout, payment) = (trace.span("checkout"), trace.span("payment"));
    assert_eq!(payment.parent().unwrap().received().name(), "checkout");
    assert_eq!(checkout.received().attribute("order.id"), 4711);
    assert_eq!(checkout.received().attribute("card"), "visa");
    assert_eq!(checkout.received().attribute("express"), true);
    assert_eq!(payment.received().status(), Some(Status::Error("card declined")));
    assert_eq!(payment.received().events()[0].attribute("amount"), 12.5);
    assert_eq!(payment.logs()[0].body(), "card declined");
    // A span that an exception leaves is ended, too.
    assert_eq!(trace.span("refund").received().status(), Some(Status::Error("no such order")));
    assert_eq!(receiver.metric("orders").unwrap().value(&[("country", "SE")]), 3);
    let point = receiver.metric("checkout.duration").unwrap();
    assert_eq!((point.unit(), point.point(()).unwrap().bounds()), ("ms", [10.0, 100.0].as_slice()));
}

#[test]
fn the_metrics_of_the_guide_arrive() {
    let Some(program) = Built::new("metrics", Language::C99) else { return };
    let receiver = Receiver::start().unwrap();
    program.run_with(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.endpoint())]);
    assert_eq!(receiver.metric("orders").unwrap().value(&[("country", "SE")]), 3);
    let duration = receiver.metric("checkout.duration").unwrap();
    let point = duration.point(()).unwrap();
    assert_eq!((duration.unit(), point.count(), point.sum()), ("ms", 2, Some(292.0)));
    assert_eq!(receiver.metric("stock").unwrap().value(()), 40.0);
}

#[test]
fn the_python_of_the_guide_shows_its_trace() {
    let Some(receiver) = run_by("python3", "--version", "shop.py") else { return };
    let trace = receiver.only_trace();
    assert_eq!(trace.root().received().attribute("order.id"), 4711);
    assert_eq!(trace.span("payment").received().status(), Some(Status::Error("card declined")));
}

#[test]
fn a_program_in_python_sends_all_signals_by_ctypes() {
    tell_by("python3", "--version", "story.py");
}

#[test]
fn a_program_in_lua_sends_all_signals_by_luajit() {
    tell_by("luajit", "-v", "story.lua");
}

#[test]
fn the_program_of_the_guide_shows_its_trace() {
    let Some(program) = Built::new("shop", Language::C99) else { return };
    let receiver = Receiver::start().unwrap();
    let printed = program.run_with(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.endpoint())]);
    assert_eq!(printed, "3 of 3 records delivered\n");
    let trace = receiver.only_trace();
    assert_eq!(trace.root().received().name(), "checkout");
    let payment = trace.span("payment");
    assert_eq!(payment.parent().unwrap().received().name(), "checkout");
    assert_eq!(payment.logs()[0].body(), "card declined");
}
