//! Any value in a span or a log record arrives as valid OTLP, and does not affect other records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use standpipe::config::SpanLimits;
use standpipe::receiver::proto::KeyValue;
use standpipe::receiver::{ReceivedLog, ReceivedSpan, ReceivedValue, Receiver};
use standpipe::{Config, Exporter, Logger, Span, SpanContext, Status, Telemetry, Value};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum nesting of arrays or maps that is sent.
const MAX_DEPTH: usize = 30;

/// Exports a span that `fill` has filled, between two plain ones in the same batch. Returns the received span.
fn arrived(fill: impl FnOnce(&mut Span)) -> ReceivedSpan {
    arrived_with(Config::new(), fill)
}

fn arrived_with(config: Config, fill: impl FnOnce(&mut Span)) -> ReceivedSpan {
    let receiver = Receiver::start().expect("loopback has a free port");
    let telemetry = Telemetry::start(config.exporter(Exporter::http(receiver.endpoint())))
        .expect("a sound configuration");
    let tracer = telemetry.tracer("shop");
    // The first request is held, so that the next three spans are sent in one request.
    receiver.pause();
    tracer.span("opens the connection").end();
    assert!(receiver.wait_for_held(1, PATIENCE));
    tracer.span("before").end();
    {
        let mut span = tracer.span("hostile");
        fill(&mut span);
    }
    tracer.span("after").end();
    receiver.resume();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (4, 0), "a poisoned batch: {ledger}");
    assert_eq!(receiver.request_count(), 2, "they did not go together");
    let mut spans = receiver.spans();
    assert_eq!(spans.len(), 4);
    spans.retain(|span| span.span.name == "hostile");
    spans.remove(0)
}

fn keys(attributes: &[KeyValue]) -> Vec<&str> {
    attributes.iter().map(|attribute| attribute.key.as_str()).collect()
}

#[test]
fn nan_and_infinities_arrive_as_they_are() {
    let numbers =
        [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 2.0, f64::MAX];
    let span = arrived(|span| {
        for (index, number) in numbers.iter().enumerate() {
            span.set(&format!("number {index}"), *number);
        }
        span.set("all", numbers.as_slice());
        span.event("measured").set("nan", f64::NAN);
    });
    let bits = |value: ReceivedValue<'_>| value.as_f64().unwrap_or_else(|| panic!("{value:?}")).to_bits();
    for (index, number) in numbers.iter().enumerate() {
        assert_eq!(bits(span.attribute(&format!("number {index}"))), number.to_bits(), "{number}");
    }
    let all: Vec<u64> = span.attribute("all").items().into_iter().map(bits).collect();
    assert_eq!(all, numbers.map(f64::to_bits));
}

#[test]
fn integers_of_every_size_arrive_and_what_does_not_fit_is_pinned() {
    let span = arrived(|span| {
        span.set("least", i64::MIN).set("minus one", -1).set("most", i64::MAX).set("too many", u64::MAX);
    });
    assert_eq!(span.attribute("least"), i64::MIN);
    assert_eq!(span.attribute("minus one"), -1);
    assert_eq!(span.attribute("most"), i64::MAX);
    assert_eq!(span.attribute("too many"), i64::MAX);
}

#[test]
fn ids_are_never_zero_and_a_parent_of_zeros_is_none() {
    for header in [
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
    ] {
        assert!(SpanContext::from_traceparent(header).is_err(), "{header}");
    }
    let span = arrived(|_| {});
    assert_eq!((span.span.trace_id.len(), span.span.span_id.len()), (16, 8));
    assert!(span.span.trace_id.iter().any(|byte| *byte != 0));
    assert!(span.span.span_id.iter().any(|byte| *byte != 0));
    assert_eq!(span.span.parent_span_id, [0; 0], "no parent is no bytes, not zeros");
}

#[test]
fn a_span_never_ends_before_it_starts() {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint()))).unwrap();
    let tracer = telemetry.tracer("shop");
    let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
    let before_all = UNIX_EPOCH - Duration::from_secs(1);
    let after_all = UNIX_EPOCH + Duration::from_secs(1 << 36);
    for (start, end, expected) in [
        (at(20), at(10), (20_000_000_000, 20_000_000_000)),
        (at(20), before_all, (20_000_000_000, 20_000_000_000)),
        (before_all, at(10), (0, 10_000_000_000)),
        (after_all, at(10), (u64::MAX, u64::MAX)),
        (at(10), after_all, (10_000_000_000, u64::MAX)),
    ] {
        tracer.span_builder("timed").start_time(start).start().end_at(end);
        assert_eq!(telemetry.flush(PATIENCE), standpipe::FlushOutcome::Complete);
        let span = receiver.take().remove(0).span;
        assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), expected);
    }
    // A span that starts in the future and ends now.
    tracer.span_builder("timed").start_time(SystemTime::now() + Duration::from_secs(3600)).start().end();
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    let span = receiver.take().remove(0).span;
    assert_eq!(span.end_time_unix_nano, span.start_time_unix_nano);
}

#[test]
fn nul_and_control_characters_and_every_plane_of_unicode_arrive() {
    let controls: String = (0..=0x9f_u8).map(char::from).collect();
    // A `str` has no lone surrogates, so only the result of a lossy conversion can be set.
    let replaced = String::from_utf8_lossy(b"\xed\xa0\x80 \xff\xfe").into_owned();
    let texts = [controls.as_str(), "\0", "\u{feff}\u{202e}\u{10ffff}\u{1f980}e\u{301}", &replaced];
    let span = arrived(|span| {
        for (index, text) in texts.iter().enumerate() {
            span.set(&format!("text {index}"), *text);
        }
        span.set("a\0b\n", "key with controls");
        span.event(&controls).set(&controls, controls.as_str());
        span.status(Status::Error(&controls));
        let bytes: Vec<u8> = (0..=255).collect();
        span.set("bytes", &bytes);
    });
    for (index, expected) in texts.iter().enumerate() {
        assert_eq!(span.attribute(&format!("text {index}")), *expected);
    }
    assert_eq!(span.attribute("a\0b\n"), "key with controls");
    assert_eq!(span.span.events[0].name, controls);
    assert_eq!(span.span.events[0].attributes[0].key, controls);
    assert_eq!(span.span.status.as_ref().unwrap().message, controls);
    assert_eq!(span.attribute("bytes"), &(0..=255).collect::<Vec<u8>>());
}

#[test]
fn names_of_nothing_arrive_as_nothing() {
    let receiver = Receiver::start().unwrap();
    let config = Config::new().service_name("").exporter(Exporter::http(receiver.endpoint()));
    let telemetry = Telemetry::start(config).unwrap();
    {
        let mut span = telemetry.tracer("").span("");
        span.set("empty", "").set("no bytes", [0_u8; 0].as_slice()).set("no values", [0_i64; 0].as_slice());
        span.event("");
        span.status(Status::Error(""));
    }
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
    let span = receiver.spans().remove(0);
    assert_eq!((span.span.name.as_str(), span.scope.name.as_str()), ("", ""));
    assert_eq!(span.attribute("empty"), "");
    assert_eq!(span.attribute("no bytes"), [0_u8; 0].as_slice());
    assert_eq!(span.attribute("no values"), [0_i64; 0]);
    assert_eq!(span.span.events.len(), 1);
    assert_eq!(span.span.status.as_ref().unwrap().code, 2);
    assert!(span.service_name().starts_with("unknown_service"), "{}", span.service_name());
}

#[test]
fn an_attribute_without_a_key_is_not_sent_but_counted() {
    let span = arrived_with(Config::new().resource("", "nothing"), |span| {
        span.set("", 1).set("kept", 2).set("", 3);
        span.event("seen").set("", 4).set("kept", 5);
    });
    assert_eq!(keys(&span.span.attributes), ["kept"]);
    assert_eq!(span.span.dropped_attributes_count, 2);
    assert_eq!(keys(&span.span.events[0].attributes), ["kept"]);
    assert_eq!(span.span.events[0].dropped_attributes_count, 1);
    assert!(!keys(&span.resource.attributes).contains(&""));
}

#[test]
fn huge_keys_and_values_arrive_whole() {
    let (key, value) = ("k".repeat(300_000), "v".repeat(500_000));
    let span = arrived(|span| {
        span.set(&key, value.as_str()).set("small", 1);
        span.event("seen").set(&key, value.as_str());
    });
    assert!(span.attribute(&key) == value, "the huge attribute is another");
    assert_eq!(span.attribute("small"), 1);
    assert!(span.span.events[0].attributes[0].key == key);
}

#[test]
fn a_span_larger_than_any_request_is_counted_and_takes_no_other_with_it() {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint()))).unwrap();
    let tracer = telemetry.tracer("shop");
    let huge = "v".repeat(5_000_000);
    tracer.span("before").end();
    tracer.span("huge value").set("value", huge.as_str()).set("more", 1);
    tracer.span("huge key").set(&huge, 1);
    tracer.span(&huge).end();
    tracer.span("huge event").event(&huge).set("more", 1);
    tracer.span("huge status").status(Status::Error(&huge));
    tracer.span("after").end();
    let ledger = telemetry.shutdown(PATIENCE);
    let total = ledger.total();
    assert_eq!((total.delivered, total.not_enqueued.too_large, ledger.lost()), (2, 5, 5), "{ledger}");
    let names: Vec<String> = receiver.spans().iter().map(|span| span.span.name.clone()).collect();
    assert_eq!(names, ["before", "after"]);
}

/// The value repeats the same text, so it needs little memory.
#[test]
fn a_list_with_more_bytes_than_32_bits_can_count_is_counted_and_takes_no_other_with_it() {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint()))).unwrap();
    let tracer = telemetry.tracer("shop");
    let text = "v".repeat(1 << 20);
    let list = vec![text.as_str(); 5000];
    let lists = [Value::Strs(&list); 20];
    tracer.span("list").set("list", Value::Strs(&list[..4096]));
    tracer.span("lists").set("lists", Value::Array(&lists));
    tracer.span("lists in a map").set("lists", Value::Map(&[("lists", Value::Array(&lists))]));
    tracer.span("after").end();
    telemetry
        .meter("shop")
        .counter("orders")
        .add(1, &[("list", Value::Strs(&list)), ("shop", Value::Int(7))]);
    let ledger = telemetry.shutdown(PATIENCE);
    let traces = &ledger.exporters[0].traces;
    assert_eq!((traces.delivered, traces.not_enqueued.too_large), (1, 3), "{ledger}");
    assert_eq!(receiver.spans()[0].span.name, "after");
    assert_eq!(receiver.metrics()[0].metric.name, "orders");
}

#[test]
fn attributes_above_the_limit_are_dropped_and_their_count_sent() {
    let span = arrived(|span| {
        for index in 0..200 {
            span.set(&format!("key {index}"), index);
        }
        // The value of an existing key may still change.
        span.set("key 0", "changed").set("key 199", "still too many");
        let mut event = span.event("seen");
        for index in 0..130 {
            event.set(&format!("key {index}"), index);
        }
    });
    assert_eq!(span.span.attributes.len(), 128);
    assert_eq!(span.span.dropped_attributes_count, 73);
    assert_eq!(span.attribute("key 0"), "changed");
    assert_eq!(span.attribute("key 127"), 127);
    assert!(span.attribute("key 128").is_none());
    let event = &span.span.events[0];
    assert_eq!((event.attributes.len(), event.dropped_attributes_count), (128, 2));
}

#[test]
fn events_and_links_above_the_limit_are_dropped_and_their_count_sent() {
    let limits = SpanLimits::default().link_attributes(1);
    let span = arrived_with(Config::new().span_limits(limits), |span| {
        let context = span.context().clone();
        for _ in 0..130 {
            span.event("seen").set("a", 1);
            span.link(&context).set("a", 1).set("b", 2);
        }
    });
    assert_eq!((span.span.events.len(), span.span.dropped_events_count), (128, 2));
    assert_eq!((span.span.links.len(), span.span.dropped_links_count), (128, 2));
    assert!(span.span.links.iter().all(|link| keys(&link.attributes) == ["a"]));
    assert!(span.span.links.iter().all(|link| link.dropped_attributes_count == 1));
}

#[test]
fn limits_of_zero_leave_nothing_but_the_counts() {
    let limits = SpanLimits::default()
        .attributes(0)
        .events(0)
        .links(0)
        .event_attributes(0)
        .link_attributes(0)
        .value_length(0);
    let span = arrived_with(Config::new().span_limits(limits), |span| {
        let context = span.context().clone();
        span.set("a", 1);
        span.event("seen").set("a", 1);
        span.link(&context).set("a", 1);
    });
    let span = span.span;
    assert_eq!((span.attributes.len(), span.events.len(), span.links.len()), (0, 0, 0));
    let dropped = (span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count);
    assert_eq!(dropped, (1, 1, 1));
}

#[test]
fn of_one_key_the_last_value_arrives_once() {
    let span = arrived(|span| {
        span.set("a", 1).set("b", "first").set("a", "a longer value than before").set("b", true).set("c", 3);
        span.set("a", 4);
        span.set("map", Value::Map(&[("x", Value::Int(1)), ("y", Value::Int(2)), ("x", Value::Int(3))]));
        span.event("seen").set("a", 1).set("a", 2);
    });
    let mut sorted = keys(&span.span.attributes);
    sorted.sort_unstable();
    assert_eq!(sorted, ["a", "b", "c", "map"]);
    assert_eq!(span.attribute("a"), 4);
    assert_eq!(span.attribute("b"), true);
    assert_eq!(span.span.dropped_attributes_count, 0);
    assert_eq!(span.attribute("map"), Value::Map(&[("x", Value::Int(3)), ("y", Value::Int(2))]));
    let event = &span.span.events[0];
    assert_eq!((event.attributes.len(), event.dropped_attributes_count), (1, 0));
}

#[test]
fn values_are_cut_to_their_length_in_characters_not_bytes() {
    let limits = SpanLimits::default().value_length(3);
    let span = arrived_with(Config::new().span_limits(limits), |span| {
        span.set("ascii", "abcdef").set("fits", "äöü").set("wide", "äöüß").set("crab", "🦀🦀🦀🦀");
        span.set("a key is never cut", true).set("number", 123_456);
        span.set("bytes", [1, 2, 3, 4, 5_u8].as_slice());
        span.set("strings", ["abcdef", "a"].as_slice());
        span.set("map", Value::Map(&[("also never cut", Value::Str("äöüß"))]));
        span.event("nor is a name").set("text", "abcdef");
        span.status(Status::Error("nor is a message"));
    });
    for (key, expected) in [("ascii", "abc"), ("fits", "äöü"), ("wide", "äöü"), ("crab", "🦀🦀🦀")]
    {
        assert_eq!(span.attribute(key), expected, "{key}");
    }
    assert_eq!(span.attribute("a key is never cut"), true);
    assert_eq!(span.attribute("number"), 123_456);
    assert_eq!(span.attribute("bytes"), [1, 2, 3_u8].as_slice());
    assert_eq!(span.attribute("strings"), ["abc", "a"]);
    assert_eq!(span.attribute("map"), Value::Map(&[("also never cut", Value::Str("äöü"))]));
    assert_eq!(span.events()[0].name(), "nor is a name");
    assert_eq!(span.events()[0].attribute("text"), "abc");
    assert_eq!(span.span.status.as_ref().unwrap().message, "nor is a message");
}

/// Calls `use_it` with a number inside `depth` nested arrays, or maps.
fn nested(depth: usize, maps: bool, use_it: &mut dyn FnMut(Value<'_>)) {
    wrapped(Value::Int(7), depth, maps, use_it);
}

fn wrapped(value: Value<'_>, depth: usize, maps: bool, use_it: &mut dyn FnMut(Value<'_>)) {
    match (depth, maps) {
        (0, _) => use_it(value),
        (_, true) => wrapped(Value::Map(&[("in", value)]), depth - 1, maps, use_it),
        (_, false) => wrapped(Value::Array(&[value]), depth - 1, maps, use_it),
    }
}

fn depth(value: ReceivedValue<'_>) -> usize {
    match (&value.items()[..], &value.entries()[..]) {
        ([item], []) => 1 + depth(*item),
        ([], [(_, entry)]) => 1 + depth(*entry),
        _ if value == 7 => 0,
        _ => panic!("{value:?}"),
    }
}

/// Decoders refuse a whole request with more than a hundred nested messages. An array is two nested messages, a map
/// three.
#[test]
fn a_deep_value_arrives_and_one_that_decoders_would_refuse_is_dropped_and_counted() {
    for maps in [false, true] {
        let span = arrived(|span| {
            nested(MAX_DEPTH, maps, &mut |value| _ = span.set("deep", value));
            for too_deep in [MAX_DEPTH + 1, 64, 65, 1000] {
                nested(too_deep, maps, &mut |value| _ = span.set("too deep", value));
            }
            let mut event = span.event("seen");
            nested(MAX_DEPTH, maps, &mut |value| {
                event.set("deep", value);
            });
        });
        assert_eq!(depth(span.attribute("deep")), MAX_DEPTH);
        assert_eq!(keys(&span.span.attributes), ["deep"]);
        assert_eq!(span.span.dropped_attributes_count, 4);
        assert_eq!(depth(span.events()[0].attribute("deep")), MAX_DEPTH);
    }
}

#[test]
fn the_deepest_value_may_end_in_a_list() {
    let span = arrived(|span| {
        let mut event = span.event("seen");
        let bottom = [("in", Value::Strs(&["seven"]))];
        wrapped(Value::Map(&bottom), MAX_DEPTH - 1, true, &mut |value| {
            event.set("deep", value);
        });
    });
    assert_eq!(span.span.events[0].attributes.len(), 1);
}

#[test]
fn a_resource_that_decoders_would_refuse_spoils_no_batch() {
    let mut config = Config::new().service_name("shop");
    nested(65, true, &mut |value| config = config.clone().resource("too deep", value));
    let span = arrived_with(config, |_| {});
    assert_eq!(span.resource_attribute("service.name"), "shop");
    assert!(span.resource_attribute("too deep").is_none());
}

/// Exports the log records that `emit` emits, between two plain ones in the same batch. Returns the received records.
fn arrived_logs(emit: impl FnOnce(&Logger)) -> Vec<ReceivedLog> {
    let receiver = Receiver::start().expect("loopback has a free port");
    // Nothing is sent before the shutdown, so that all records are in one request.
    let exporter =
        Exporter::http(receiver.endpoint()).linger(Duration::from_secs(3600)).queue_bytes(64 << 20);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).expect("a sound configuration");
    let logger = telemetry.logger("shop");
    logger.info("before").emit();
    emit(&logger);
    logger.info("after").emit();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(
        (ledger.total().dropped.total(), receiver.request_count()),
        (0, 1),
        "a poisoned batch: {ledger}"
    );
    let mut logs = receiver.logs();
    let innocent = [logs.remove(0), logs.pop().expect("two innocent records")];
    assert_eq!((innocent[0].body().as_str(), innocent[1].body().as_str()), (Some("before"), Some("after")));
    logs
}

#[test]
fn bodies_of_every_kind_of_text_and_number_arrive() {
    let controls: String = (0..=0x9f_u8).map(char::from).collect();
    let huge = "v".repeat(500_000);
    let texts = ["", "\0", controls.as_str(), "\u{feff}\u{202e}\u{10ffff}e\u{301}", huge.as_str()];
    let numbers = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    let logs = arrived_logs(|logger| {
        for text in texts {
            logger.info(text).severity_text(text).event_name(text).set("key", text).emit();
        }
        numbers.iter().for_each(|number| logger.info(*number).emit());
        logger.info(u64::MAX).emit();
    });
    for (log, expected) in logs.iter().zip(texts) {
        assert!(log.body() == expected && log.attribute("key") == expected);
        assert!(log.log.severity_text == expected && log.log.event_name == expected);
    }
    for (log, number) in logs[texts.len()..].iter().zip(numbers) {
        assert_eq!(log.body().as_f64().map(f64::to_bits), Some(number.to_bits()));
    }
    assert_eq!(logs[10].body(), i64::MAX);
}

#[test]
fn a_body_nested_too_deeply_is_left_out_and_counted() {
    let mut deep = Value::Int(1);
    for _ in 0..MAX_DEPTH {
        deep = Value::Map(vec![("key", deep)].leak());
    }
    let too_deep = Value::Array(vec![deep].leak());
    let abyss = (0..10_000).fold(too_deep, |value, _| Value::Array(vec![value].leak()));
    let logs = arrived_logs(|logger| {
        for body in [deep, too_deep, abyss] {
            logger.info(body).set("kept", 1).emit();
        }
    });
    let seen = |log: &ReceivedLog| (log.log.body.is_some(), log.log.dropped_attributes_count);
    assert_eq!(logs.iter().map(seen).collect::<Vec<_>>(), [(true, 0), (false, 1), (false, 1)]);
    assert!(logs.iter().all(|log| log.attribute("kept").is_some()), "the rest of the record is sent");
}

#[test]
fn a_log_record_larger_than_any_request_is_counted_and_takes_no_other_with_it() {
    let huge = "v".repeat(5_000_000);
    let logs = arrived_logs(|logger| {
        logger.info(huge.as_str()).set("more", 1).emit();
        logger.info("huge value").set("value", huge.as_str()).set("more", 1).emit();
        logger.info("huge name").event_name(&huge).event_name("small").emit();
        logger.info("huge severity").severity_text(&huge).emit();
    });
    assert!(logs.is_empty(), "{} are there", logs.len());
}

#[test]
fn times_beyond_the_clock_are_pinned() {
    let logs = arrived_logs(|logger| {
        logger.info("before all").time(UNIX_EPOCH - Duration::from_secs(1)).emit();
        logger.info("after all").time(UNIX_EPOCH + Duration::from_secs(1 << 36)).emit();
    });
    assert_eq!((logs[0].log.time_unix_nano, logs[1].log.time_unix_nano), (0, u64::MAX));
}
