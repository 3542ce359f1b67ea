//! A builder sets attributes and links before the start, in any order of calls, and only if the span is recorded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use standpipe::config::IdGenerator;
use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{Config, IntoValue, Sampler, SpanContext, SpanId, SpanKind, TraceId, Value};

use crate::detached::sent;
use crate::support::points::attributes;
use crate::support::scene::{LONG, exporter, start_with};

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

#[test]
fn a_link_has_the_attributes_that_it_is_created_with() {
    let incoming = SpanContext::from_traceparent(INCOMING).unwrap();
    let spans = sent(Sampler::default(), |tracer| {
        let why = [("why", "batch".into()), ("at", 7.into())];
        let build = || tracer.span_builder("a").link_with(&incoming, &why);
        build().link(&incoming).start().end();
        build().link(&incoming).detached().end();
    });
    assert_eq!(spans.len(), 2);
    for span in spans {
        let links = span.span.links.iter().map(|link| attributes(&link.attributes));
        assert_eq!(links.collect::<Vec<_>>(), ["why=batch,at=7", ""]);
    }
}

/// Numbers the ids from one.
#[derive(Default)]
struct Numbers {
    traces: AtomicU64,
    spans: AtomicU64,
    is_random: bool,
}

impl IdGenerator for Numbers {
    fn trace_id(&self) -> TraceId {
        let number = u128::from(1 + self.traces.fetch_add(1, Ordering::Relaxed));
        TraceId::from_bytes(number.to_be_bytes()).unwrap()
    }

    fn span_id(&self) -> SpanId {
        let number = 1 + self.spans.fetch_add(1, Ordering::Relaxed);
        assert!(number != 4, "on purpose");
        SpanId::from_bytes(number.to_be_bytes()).unwrap()
    }

    fn is_random(&self) -> bool {
        self.is_random
    }
}

#[test]
fn a_generator_makes_all_ids_and_promises_random_ones_only_if_they_are() {
    for (is_random, flags) in [(false, "01"), (true, "03")] {
        let receiver = Receiver::start().unwrap();
        let config = Config::new().id_generator(Numbers { is_random, ..Numbers::default() });
        let telemetry = start_with(config.exporter(exporter(&receiver)));
        let tracer = telemetry.tracer("shop");
        {
            let root = tracer.span("root");
            let (trace, span) = (format!("{:032x}", 1), format!("{:016x}", 1));
            assert_eq!(root.context().traceparent(), format!("00-{trace}-{span}-{flags}"));
            let child = tracer.span("child");
            assert_eq!(child.context().traceparent(), format!("00-{trace}-{:016x}-{flags}", 2));
            let mut detached = tracer.span_builder("detached").root().detached();
            assert_eq!(detached.context().traceparent(), format!("00-{:032x}-{:016x}-{flags}", 2, 3));
            // The generator panics, so a random id is used.
            assert!(tracer.span("fourth").context().span_id().to_bytes()[..4] != [0; 4]);
        }
        assert_eq!(telemetry.shutdown(LONG).total().delivered, 4);
        let ids: Vec<_> = receiver.spans().iter().map(|span| span.span.span_id.clone()).collect();
        assert!(ids.contains(&1_u64.to_be_bytes().to_vec()) && ids.contains(&3_u64.to_be_bytes().to_vec()));
    }
}

/// Panics in every method.
struct Broken;

impl IdGenerator for Broken {
    fn trace_id(&self) -> TraceId {
        panic!("on purpose")
    }

    fn span_id(&self) -> SpanId {
        panic!("on purpose")
    }

    fn is_random(&self) -> bool {
        panic!("on purpose")
    }
}

#[test]
fn a_generator_that_always_panics_costs_no_span() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(Config::new().id_generator(Broken).exporter(exporter(&receiver)));
    let tracer = telemetry.tracer("shop");
    {
        let root = tracer.span("root");
        assert_eq!((root.is_recording(), root.context().flags()), (true, 1));
        tracer.span("child").end();
        tracer.span_builder("detached").detached().end();
    }
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 3);
    let ids: std::collections::HashSet<_> =
        receiver.spans().iter().map(|span| span.span.span_id.clone()).collect();
    assert_eq!(ids.len(), 3);
}
