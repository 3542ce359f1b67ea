//! The API that users call in their own tests, without protobuf types: the fixture, typed access, and traces as trees.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use serde_json::json;
use standpipe::receiver::{Answer, Receiver, TestTelemetry, Trace};
use standpipe::{Config, Severity, Signal, SpanId, SpanKind, Status, TraceId, Tracer, Value};

use crate::client::{Client, post_json};

/// A checkout of two spans, the second with an error.
fn check_out(tracer: &Tracer) -> TraceId {
    let mut checkout = tracer.span("checkout");
    checkout.set("phases", 2).set("card", "visa");
    let mut payment = tracer.span("payment");
    payment.event("retry").set("attempt", 2);
    payment.status(Status::Error("card declined"));
    checkout.context().trace_id()
}

/// Returns the message of the panic in `work`.
fn message_of(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it does not panic");
    *panic.downcast::<String>().expect("a formatted message")
}

#[test]
fn an_attribute_compares_with_what_it_was_set_to_and_with_nothing_else() {
    let test = TestTelemetry::start();
    let mut span = test.tracer("shop").span("checkout");
    let mixed = [Value::Int(1), Value::Str("a")];
    span.set("int", 2).set("float", 2.0).set("text", "2").set("bool", true).set("bytes", [2_u8].as_slice());
    span.set("ints", [1, 2_i64].as_slice())
        .set("texts", ["a", "b"].as_slice())
        .set("mixed", mixed.as_slice());
    span.set("map", Value::Map(&[("a", Value::Int(1)), ("b", Value::Bools(&[true]))]));
    span.end();
    let span = test.received().spans().remove(0);

    let (int, float, text) = (span.attribute("int"), span.attribute("float"), span.attribute("text"));
    assert!(int == 2 && int == 2_u8 && int == 2_u64 && int == 2_i64 && int == Some(2));
    assert!(int != 3 && int != 2.0 && int != "2" && int != true && int != None::<i64> && int != float);
    assert!(float == 2.0 && float == 2.0_f32 && float != 2 && float != 2.5);
    let owned = String::from("2");
    assert!(text == "2" && text == owned && text != "" && text != 2 && text == Value::Str("2"));
    assert!(span.attribute("bool") == true && span.attribute("bool") != false);
    assert!(span.attribute("bytes") == [2_u8].as_slice() && span.attribute("bytes") != [3_u8].as_slice());

    assert_eq!(span.attribute("ints"), [1, 2]);
    assert_eq!(span.attribute("ints"), [1, 2_i64].as_slice());
    assert!(span.attribute("ints") != [1] && span.attribute("ints") != [1, 3] && span.attribute("ints") != 1);
    assert_eq!(span.attribute("texts"), vec!["a", "b"]);
    assert_eq!(span.attribute("mixed"), mixed);
    assert_eq!(span.attribute("map"), Value::Map(&[("b", Value::Bools(&[true])), ("a", Value::Int(1))]));
    assert!(span.attribute("map") != Value::Map(&[("a", Value::Int(1))]));
    assert_eq!(span.attribute("map").get("a"), 1);

    let absent = span.attribute("coupon");
    assert!(absent.is_none() && absent == None::<&str> && absent == span.attribute("another"));
    assert!(
        absent != 0 && absent != "" && absent != false && absent != [0; 0] && absent != Value::Array(&[])
    );
}

#[test]
fn a_failed_comparison_shows_the_value_or_that_there_is_none() {
    let test = TestTelemetry::start();
    test.tracer("shop")
        .span("checkout")
        .set("phases", 3)
        .set("card", "a \"b\"")
        .set("all", [1, 2_i64].as_slice());
    let span = test.received().spans().remove(0);
    let message = message_of(|| assert_eq!(span.attribute("phases"), 2));
    assert!(message.contains("left: 3\n right: 2"), "{message}");
    let message = message_of(|| assert_eq!(span.attribute("coupon"), "x"));
    assert!(message.contains("left: absent\n right: \"x\""), "{message}");
    let shown = |key| (span.attribute(key).to_string(), format!("{:?}", span.attribute(key)));
    assert_eq!(shown("card"), ("a \"b\"".into(), r#""a \"b\"""#.into()));
    assert_eq!(shown("all"), ("[1, 2]".into(), "[1, 2]".into()));
}

#[test]
fn a_span_is_read_as_the_program_made_it() {
    let test = TestTelemetry::start_with(Config::new().service_name("shop"));
    let tracer = test.tracer("till");
    let before = SystemTime::now();
    let linked = tracer.span_builder("linked").root().start().context().clone();
    let root = tracer.span("root");
    let parent = root.context().clone();
    let mut span = tracer.span_builder("call").kind(SpanKind::Client).start();
    span.event("sent").set("bytes", 12);
    span.link(&linked).set("why", "retry");
    span.status(Status::Ok);
    let own = span.context().clone();
    span.end();
    root.end();

    let spans = test.received().spans();
    let [_, span, root] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((span.name(), span.kind(), span.status()), ("call", SpanKind::Client, Some(Status::Ok)));
    assert_eq!(
        (span.trace_id(), span.span_id(), span.parent_id()),
        (own.trace_id(), own.span_id(), Some(parent.span_id()))
    );
    assert_eq!((root.kind(), root.status(), root.parent_id()), (SpanKind::Internal, None, None));
    assert_eq!((span.scope_name(), span.service_name()), ("till", "shop"));
    assert_eq!(span.end_time().duration_since(span.start_time()).unwrap(), span.duration());
    assert!(span.duration() <= root.duration() && root.duration() < Duration::from_secs(3600));
    assert!(root.start_time() + Duration::from_secs(1) > before);
    let (event, link) = (span.events()[0], span.links()[0]);
    assert_eq!(event.name(), "sent");
    assert_eq!(event.attribute("bytes"), 12);
    assert!(event.time() >= span.start_time() && event.time() <= span.end_time());
    assert_eq!((link.trace_id(), link.span_id()), (linked.trace_id(), linked.span_id()));
    assert_eq!(link.attribute("why"), "retry");
}

#[test]
fn a_log_record_is_read_as_the_program_made_it() {
    let test = TestTelemetry::start();
    let span = test.tracer("shop").span("checkout");
    let logger = test.logger("till");
    logger.warn("declined").set("amount", 12.5).event_name("card.declined").emit();
    let context = span.context().clone();
    span.end();
    logger.record(Severity::Debug3, 7).severity_text("fine").emit();

    let logs = test.received().logs();
    assert_eq!(logs[0].body(), "declined");
    assert_eq!((logs[0].severity(), logs[0].event_name()), (Some(Severity::Warn), "card.declined"));
    assert_eq!((logs[0].trace_id(), logs[0].span_id()), (Some(context.trace_id()), Some(context.span_id())));
    assert_eq!(logs[0].attribute("amount"), 12.5);
    assert_eq!((logs[0].scope_name(), logs[0].service_name()), ("till", "test"));
    assert_eq!(logs[1].body(), 7);
    assert_eq!((logs[1].severity(), logs[1].severity_text()), (Some(Severity::Debug3), "fine"));
    assert_eq!((logs[1].trace_id(), logs[1].span_id()), (None, None));
}

#[test]
fn a_metric_is_read_by_its_attributes_whatever_the_instrument() {
    let test = TestTelemetry::start();
    let meter = test.meter("shop");
    let orders = meter.build("orders").unit("{order}").description("paid orders").counter();
    orders.add(3, &[("country", "SE"), ("kind", "web")]);
    orders.add(4, ());
    meter.gauge("load").record(0.5, ());
    let sizes = meter.build("sizes").bounds(&[1.0, 10.0]).histogram();
    [0.5, 5.0, 50.0, 60.0].iter().for_each(|size| sizes.record(*size, ()));
    meter.build("fine").exponential().histogram().record(2.0, ());

    let received = test.received();
    let orders = received.metric("orders").unwrap();
    assert_eq!((orders.name(), orders.unit(), orders.description()), ("orders", "{order}", "paid orders"));
    assert_eq!(orders.value(&[("kind", "web"), ("country", "SE")]), 3);
    assert_eq!(orders.value(()), 4);
    assert!(
        orders.value(&[("country", "SE")]).is_none()
            && orders.value(&[("country", "NO"), ("kind", "web")]).is_none()
    );
    assert_eq!(received.metric("load").unwrap().value(()), 0.5);
    let sizes = received.metric("sizes").unwrap();
    let point = sizes.points()[0];
    assert_eq!((point.count(), point.sum()), (4, Some(115.5)));
    assert_eq!((point.bounds(), point.bucket_counts()), (&[1.0, 10.0][..], &[1, 1, 2][..]));
    assert!(sizes.value(()).is_none() && received.metric("none").is_none());
    let fine = received.metric("fine").unwrap();
    assert_eq!(fine.point(()).map(|point| (point.count(), point.sum())), Some((1, Some(2.0))));

    orders_again(&test);
    assert_eq!(test.received().metric("orders").unwrap().value(()), 5, "not the newest");
}

fn orders_again(test: &TestTelemetry) {
    test.meter("shop").build("orders").unit("{order}").description("paid orders").counter().add(1, ());
}

#[test]
fn a_trace_is_a_tree_of_its_own_spans_and_log_records() {
    let test = TestTelemetry::start();
    let tracer = test.tracer("shop");
    let id = check_out(&tracer);
    {
        let _other = tracer.span("other");
        test.logger("shop").info("elsewhere").emit();
    }
    {
        let _checkout = tracer.span("checkout");
        for _ in 0..2 {
            let _parcel = tracer.span("parcel");
            tracer.span("label").end();
            test.logger("shop").info("packed").emit();
        }
    }
    let receiver = test.finish();
    let trace = receiver.trace(id);
    assert_eq!((trace.id(), trace.names()), (id, vec!["checkout", "payment"]));
    assert_eq!(trace.root().attribute("phases"), 2);
    assert_eq!(trace.span("payment").parent().unwrap().name(), "checkout");
    assert!(trace.logs().is_empty() && trace.find("other").is_none());

    let traces = receiver.traces();
    let names: Vec<_> = traces.iter().map(Trace::names).collect();
    let deep = vec!["checkout", "parcel", "label", "parcel", "label"];
    assert_eq!(names, [vec!["checkout", "payment"], vec!["other"], deep]);
    let parcels = traces[2].root().children();
    assert_eq!(parcels.iter().map(|span| span.name()).collect::<Vec<_>>(), ["parcel", "parcel"]);
    assert_eq!(parcels[1].children()[0].name(), "label");
    assert_eq!((parcels[1].logs().len(), traces[2].logs().len()), (1, 2));
    traces[2].assert_tree(
        "checkout
            parcel
                label

            parcel
                label",
    );
}

#[test]
fn another_tree_fails_and_shows_both() {
    let test = TestTelemetry::start();
    check_out(&test.tracer("shop"));
    let trace = test.received().only_trace();
    trace.assert_tree("checkout\n  payment");
    for wrong in [
        "",
        "checkout",
        "checkout\npayment",
        "checkout\n  ship",
        "payment\n  checkout",
        "checkout\n  payment\n  ship",
    ] {
        let message = message_of(|| trace.assert_tree(wrong));
        assert!(message.contains(&trace.to_string()), "{message}");
        assert!(wrong.lines().all(|line| message.contains(line.trim())), "{message}");
    }
    let message = message_of(|| _ = trace.span("ship"));
    assert!(message.starts_with("no span \"ship\" in trace") && message.contains("╰─ payment"), "{message}");
}

#[test]
fn what_is_not_one_trace_fails_and_shows_them() {
    let test = TestTelemetry::start();
    message_of_str(|| _ = test.received().only_trace());
    test.tracer("shop").span("one").end();
    test.tracer("shop").span("two").end();
    let message = message_of(|| _ = test.received().only_trace());
    assert!(
        message.starts_with("2 traces") && message.contains("\none") && message.contains("\ntwo"),
        "{message}"
    );
}

/// Asserts that `work` panics with the text that a received trace is missing.
fn message_of_str(work: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it does not panic");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no trace was received"));
}

/// A receiver with these spans: id, parent, start in ms, name. Each lasts 2.5 ms.
fn with_spans(spans: &[(&str, &str, u64, &str)]) -> Receiver {
    let receiver = Receiver::start().unwrap();
    let span = |(id, parent, start, name): &(&str, &str, u64, &str)| {
        let (start, end) = (start * 1_000_000, start * 1_000_000 + 2_500_000);
        json!({ "traceId": "5b8efff798038103d269b633813fc60c", "spanId": id, "parentSpanId": parent, "name": name,
            "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string() })
    };
    let spans: Vec<_> = spans.iter().map(span).collect();
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let reply =
        Client::connect(&receiver).ask(&post_json(Signal::Traces, "", request.to_string().as_bytes()));
    assert_eq!(reply.status, 200);
    receiver
}

const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";
const C: &str = "cccccccccccccccc";
const D: &str = "dddddddddddddddd";

#[test]
fn a_drawn_trace_has_guides_durations_and_what_happened() {
    let trace = with_spans(&[(D, C, 3, "d"), (B, A, 1, "b"), (C, A, 2, "c"), (A, "", 0, "a")]).only_trace();
    let drawn = [
        "trace 5b8efff798038103d269b633813fc60c: 4 spans, no errors",
        "a  2.5ms",
        "├─ b  2.5ms",
        "╰─ c  2.5ms",
        "   ╰─ d  2.5ms",
    ];
    assert_eq!(trace.to_string(), drawn.join("\n"));

    let test = TestTelemetry::start();
    {
        let tracer = test.tracer("shop");
        let _outer = tracer.span("outer");
        check_out(&tracer);
        test.logger("shop").warn("too late").set("by", 3).emit();
        tracer.span_builder("bye").kind(SpanKind::Producer).start().end();
    }
    let drawn = test.received().only_trace().to_string();
    let starts = [
        "outer",
        "│  WARN too late  by=3",
        "├─ checkout",
        "│  ╰─ payment",
        "│        ✗ card declined",
        "│        ◆ retry  attempt=2",
        "╰─ bye  producer",
    ];
    assert_eq!(drawn.lines().count(), 1 + starts.len(), "{drawn}");
    for (line, start) in drawn.lines().skip(1).zip(starts) {
        assert!(line.starts_with(start), "{line:?} instead of {start:?} in\n{drawn}");
    }
    assert!(drawn.contains("  phases=2  card=\"visa\"\n"), "{drawn}");
}

#[test]
fn lost_parents_circles_and_repeated_ids_show_every_span_once() {
    let names = |spans: &[(&str, &str, u64, &str)]| {
        with_spans(spans).only_trace().names().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&[(A, A, 0, "a")]), ["a"]);
    assert_eq!(names(&[(A, B, 0, "a"), (B, A, 1, "b"), (C, B, 2, "c")]), ["a", "b", "c"]);
    assert_eq!(names(&[(A, "", 0, "a"), (A, "", 0, "again"), (B, A, 1, "b")]), ["a", "b", "again"]);
    let orphan = with_spans(&[(B, A, 0, "b")]).only_trace();
    assert_eq!(orphan.root().parent_id(), Some(A.parse::<SpanId>().unwrap()));
    assert!(orphan.to_string().ends_with("   parent aaaaaaaaaaaaaaaa is missing"), "{orphan}");
}

#[test]
fn what_the_receiver_refuses_first_is_received_after_a_retry() {
    let test = TestTelemetry::start();
    test.receiver().script([Answer::status(503), Answer::status(503)]);
    check_out(&test.tracer("shop"));
    assert_eq!(test.received().span_count(), 2);
    assert_eq!(test.ledger().exporters[0].name, "test");
}
