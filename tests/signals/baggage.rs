//! Baggage is propagated with its context, and only the selected entries become attributes of records.

mod header;

use std::thread;

use standpipe::receiver::Receiver;
use standpipe::{Baggage, Config, Context, SpanContext, Telemetry};

use crate::support::process;
use crate::support::scene::{LONG, gathering, start_with};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Runs a program to its end, and returns the receiver with its records.
fn received(config: Config, program: impl FnOnce(&Telemetry)) -> Receiver {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(config.exporter(gathering(&receiver)));
    program(&telemetry);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(ledger.lost(), 0, "{ledger}");
    receiver
}

fn customer() -> Baggage {
    Baggage::new().with("user.id", "4711").with("secret", "s3cret")
}

fn current() -> String {
    Baggage::current().header()
}

#[test]
fn chosen_keys_become_attributes_of_spans_and_log_records() {
    let config = Config::new().baggage_attributes(["user.id", "shop.country"]);
    let receiver = received(config, |telemetry| {
        let (tracer, logger) = (telemetry.tracer("shop"), telemetry.logger("shop"));
        let _entered = customer().enter();
        let _root = tracer.span("root");
        tracer.span("child").end();
        tracer.span_builder("detached").detached().end();
        logger.info("logged").set("amount", 12.5).event_name("paid").emit();
        let _other = Baggage::current().with("user.id", "7").enter();
        tracer.span("own").set("user.id", 42);
        logger.info("own").set("user.id", 42).emit();
        tracer.span("other").end();
        drop(_other);
        let _none = Baggage::new().enter();
        tracer.span("none").end();
    });
    let spans = receiver.spans();
    let named = |name: &str| spans.iter().find(|span| span.name() == name).expect(name);
    for (name, user) in [("root", "4711"), ("child", "4711"), ("detached", "4711"), ("other", "7")] {
        assert_eq!(named(name).attribute("user.id"), user, "{name}");
        assert_eq!(named(name).span.attributes.len(), 1, "{name}");
    }
    assert_eq!(named("own").attribute("user.id"), 42);
    assert_eq!(named("own").span.attributes.len(), 1);
    assert_eq!(named("none").span.attributes.len(), 0);
    let [logged, own] = &receiver.logs()[..] else { panic!("two records were made") };
    assert_eq!(logged.attribute("user.id"), "4711");
    assert_eq!(logged.body(), "logged");
    assert_eq!((logged.log.attributes.len(), logged.log.event_name.as_str()), (2, "paid"));
    assert_eq!(own.attribute("user.id"), 42);
    assert_eq!(own.log.attributes.len(), 1);
}

#[test]
fn unless_keys_are_chosen_no_record_has_an_attribute_of_the_baggage() {
    let receiver = received(Config::new(), |telemetry| {
        let _entered = customer().enter();
        let _span = telemetry.tracer("shop").span("checkout");
        telemetry.tracer("shop").span("payment").end();
        telemetry.logger("shop").info("paid").emit();
    });
    assert!(receiver.spans().iter().all(|received| received.span.attributes.is_empty()));
    assert!(receiver.logs().iter().all(|received| received.log.attributes.is_empty()));
    assert_eq!((receiver.span_count(), receiver.log_count()), (2, 1));
}

#[test]
fn the_chosen_keys_are_among_the_settings() {
    let settings = |config: Config| config.effective().iter().map(ToString::to_string).collect::<Vec<_>>();
    let chosen = settings(Config::new().baggage_attributes(["user.id", "shop.country"]));
    let row = chosen.iter().find(|setting| setting.starts_with("baggage-attributes")).unwrap();
    assert!(row.contains("user.id, shop.country"), "{row}");
    assert_eq!(settings(Config::new()).len() + 1, chosen.len());
}

#[test]
fn baggage_goes_to_another_thread_with_its_context() {
    let _entered = customer().enter();
    let there = thread::spawn(Context::current().wrap(current)).join().unwrap();
    assert_eq!(there, "user.id=4711,secret=s3cret");
    assert_eq!(thread::spawn(current).join().unwrap(), "");
}

#[test]
fn a_context_replaces_the_baggage_and_a_span_context_leaves_it() {
    let _entered = customer().enter();
    let before = current();
    let span = SpanContext::from_traceparent(PARENT).unwrap();
    {
        let _span = span.enter();
        assert_eq!(current(), before);
    }
    assert_eq!(Context::from(span.clone()).run(current), "");
    assert_eq!(Context::new().run(current), "");
    assert_eq!(Context::from(span).with_baggage(Baggage::new().with("a", "1")).run(current), "a=1");
    assert_eq!(current(), before);
}

#[test]
fn an_empty_context_is_current_until_its_own_guard_is_dropped() {
    let span = SpanContext::from_traceparent(PARENT).unwrap();
    let _entered = (span.enter(), customer().enter());
    let before = (SpanContext::current(), current());
    let (first, second) = (Context::new().enter(), Context::new().enter());
    drop(first);
    assert_eq!((SpanContext::current(), current().as_str()), (None, ""));
    drop(second);
    assert_eq!((SpanContext::current(), current()), before);
}

#[test]
fn headers_carry_span_and_baggage_each_without_the_other() {
    let read = |headers: &[(&str, &str)]| {
        let context = Context::from_headers(|name| {
            headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        });
        (context.span().map(SpanContext::traceparent), context.baggage().header(), context.headers())
    };
    let owned = |headers: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let all = [("traceparent", PARENT), ("tracestate", "a=1"), ("baggage", "user.id=4711;p,b=%20")];
    let (parent, baggage) = (Some(PARENT.to_owned()), all[2].1.to_owned());
    assert_eq!(read(&all), (parent.clone(), baggage.clone(), owned(&all)));
    assert_eq!(read(&all[..1]), (parent, String::new(), owned(&all[..1])));
    assert_eq!(read(&all[2..]), (None, baggage.clone(), owned(&all[2..])));
    // an invalid traceparent does not affect the baggage
    let broken = [("traceparent", "what?"), ("baggage", "user.id=4711;p,what?,b=%20")];
    assert_eq!(read(&broken), (None, baggage, owned(&all[2..])));
    assert_eq!(read(&[]), (None, String::new(), Vec::new()));
}

#[test]
fn a_process_finds_the_context_it_was_started_in() {
    const NAME: &str = "a_process_finds_the_context_it_was_started_in";
    if process::task().is_some() {
        return process::report(format!("{:?}", Context::from_env().headers()));
    }
    let variables = [("TRACEPARENT", PARENT), ("TRACESTATE", "a=1"), ("BAGGAGE", "b=2")];
    let expected = [("traceparent", PARENT), ("tracestate", "a=1"), ("baggage", "b=2")];
    assert_eq!(process::run_with(NAME, "report the context", &variables), [format!("{expected:?}")]);
}
