//! A builder sets attributes and links before the start, in any order of calls, and only if the span is recorded.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use standpipe::receiver::ReceivedSpan;
use standpipe::{IntoValue, Sampler, SpanContext, SpanKind, Value};

use crate::detached::sent;

const INCOMING: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A value that must not be read.
struct Unread;

impl IntoValue for Unread {
    fn with_value(self, _: impl FnOnce(Value<'_>)) {
        panic!("it was read");
    }
}

#[test]
fn the_order_of_calls_on_a_builder_does_not_matter() {
    let (incoming, start) =
        (SpanContext::from_traceparent(INCOMING).unwrap(), UNIX_EPOCH + Duration::from_secs(7));
    let spans = sent(Sampler::default(), |tracer| {
        let (client, text) = (SpanKind::Client, || String::from("owned"));
        let build = |name| tracer.span_builder(name).start_time(start);
        build("a").set("n", 1).set("t", text()).link(&incoming).parent(&incoming).kind(client).start().end();
        build("b").kind(client).parent(&incoming).link(&incoming).set("n", 1).set("t", text()).start().end();
        build("c")
            .set("n", 1)
            .kind(client)
            .set("t", text())
            .parent(&incoming)
            .link(&incoming)
            .detached()
            .end();
        build("d")
            .kind(client)
            .link(&incoming)
            .set("n", 1)
            .parent(&incoming)
            .set("t", text())
            .detached()
            .end();
    });
    let shape = |received: &ReceivedSpan| {
        let span = &received.span;
        let links: Vec<_> = span.links.iter().map(|link| link.span_id.clone()).collect();
        (span.attributes.clone(), links, span.parent_span_id.clone(), span.kind, span.start_time_unix_nano)
    };
    assert_eq!(spans.len(), 4);
    assert!(spans.iter().all(|span| shape(span) == shape(&spans[0])), "{spans:?}");
    let (attributes, links, parent, kind, begun) = shape(&spans[0]);
    assert_eq!(attributes.iter().map(|pair| pair.key.as_str()).collect::<Vec<_>>(), ["n", "t"]);
    assert_eq!(spans[0].attribute("t"), "owned");
    assert_eq!((links, kind, begun), (vec![parent], 3, 7_000_000_000));
}

#[test]
fn of_a_key_that_is_set_twice_before_the_start_the_last_value_counts() {
    let spans = sent(Sampler::default(), |tracer| {
        let mut span = tracer.span_builder("a").set("k", 1).set("k", "two").set("none", None::<i64>).start();
        span.set("later", true);
    });
    assert_eq!(spans[0].attribute("k"), "two");
    assert_eq!(spans[0].span.attributes.len(), 2);
}

#[test]
fn attributes_of_a_span_that_is_not_recorded_are_never_read() {
    let spans = sent(Sampler::always_off(), |tracer| {
        assert!(!tracer.span_builder("root").set("k", Unread).start().is_recording());
        assert!(!tracer.span_builder("detached").set("k", Unread).detached().is_recording());
        let _outer = tracer.span("outer");
        tracer.span_builder("child").set("k", Unread).start_time(SystemTime::now()).start().end();
        tracer.span_builder("child").set("k", Unread).start().end();
    });
    assert!(spans.is_empty(), "{spans:?}");
}

#[test]
fn a_built_span_is_open_and_current_until_it_is_dropped() {
    let spans = sent(Sampler::default(), |tracer| {
        let parent = tracer.span_builder("parent").set("k", 1).start();
        assert_eq!(SpanContext::current().as_ref(), Some(parent.context()));
        tracer.span("child").end();
    });
    assert_eq!([&spans[0].span.name, &spans[1].span.name], ["child", "parent"]);
    assert_eq!(spans[0].span.parent_span_id, spans[1].span.span_id);
}
