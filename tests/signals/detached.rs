//! A detached span may be moved, shared and ended anywhere, and may get its parent late.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{Config, Exporter, Sampler, SpanContext, SpanKind, Status, Telemetry, Tracer};

const PATIENCE: Duration = Duration::from_secs(20);
const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// Runs `work` with a tracer, and returns the received spans.
pub(crate) fn sent(sampler: Sampler, work: impl FnOnce(&Tracer)) -> Vec<ReceivedSpan> {
    let receiver = Receiver::start().unwrap();
    let config = Config::new().sampler(sampler).exporter(Exporter::http(receiver.endpoint()));
    let telemetry = Telemetry::start(config).unwrap();
    work(&telemetry.tracer("shop"));
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    receiver.spans()
}

fn incoming(traceparent: &str) -> SpanContext {
    SpanContext::from_traceparent(traceparent).unwrap().with_tracestate("vendor=1")
}

#[test]
fn it_is_ended_by_whoever_drops_it_on_any_thread() {
    let spans = sent(Sampler::default(), |tracer| {
        let mut span = tracer.span_builder("order").kind(SpanKind::Consumer).detached();
        span.set("before", 1);
        thread::scope(|scope| {
            scope.spawn(move || {
                span.set("after", 2).status(Status::Error("late")).rename("late order");
                span.event("moved").set("to", "another thread");
            });
        });
    });
    let span = &spans[0].span;
    assert_eq!((spans.len(), span.name.as_str()), (1, "late order"));
    assert_eq!(span.attributes.iter().map(|pair| pair.key.as_str()).collect::<Vec<_>>(), ["before", "after"]);
    assert_eq!((span.events.len(), span.status.as_ref().unwrap().message.as_str()), (1, "late"));
}

#[test]
fn it_is_current_only_where_and_while_it_is_entered() {
    let spans = sent(Sampler::default(), |tracer| {
        let shared = Mutex::new(tracer.span_builder("parent").detached());
        assert_eq!(SpanContext::current(), None);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let entered = shared.lock().unwrap().enter();
                    tracer.span("child").end();
                    drop(entered);
                    assert_eq!(SpanContext::current(), None);
                });
            }
        });
    });
    let parent = spans.iter().find(|received| received.span.name == "parent").unwrap();
    let children: Vec<_> = spans.iter().filter(|received| received.span.name == "child").collect();
    assert_eq!(children.len(), 2);
    assert!(children.iter().all(|child| child.span.parent_span_id == parent.span.span_id));
}

#[test]
fn its_parent_may_change_until_its_context_is_seen() {
    let spans = sent(Sampler::default(), |tracer| {
        let _around = tracer.span("around");
        let mut span = tracer.span_builder("handle").detached();
        span.set("kept", true);
        assert!(span.set_parent(&incoming(SAMPLED)));
        assert_eq!(span.context().tracestate(), "vendor=1");
        assert!(!span.set_parent(&incoming(UNSAMPLED)), "it has been seen");
    });
    let handle = spans.iter().find(|received| received.span.name == "handle").unwrap();
    let incoming = incoming(SAMPLED);
    assert_eq!(handle.span.trace_id, incoming.trace_id().to_bytes());
    assert_eq!(handle.span.parent_span_id, incoming.span_id().to_bytes());
    assert_eq!((handle.span.trace_state.as_str(), handle.span.flags), ("vendor=1", 0x301));
    assert_eq!(handle.span.attributes[0].key, "kept");
}

#[test]
fn a_parent_that_comes_late_decides_what_is_recorded() {
    let never = Sampler::trace_id_ratio(0.0).parent_based();
    let spans = sent(never, |tracer| {
        let mut unwanted = tracer.span_builder("unwanted").detached();
        unwanted.set("lost", 1);
        let mut wanted = tracer.span_builder("wanted").detached();
        wanted.set("kept", 1);
        assert!(wanted.set_parent(&incoming(SAMPLED)));
        drop(wanted.enter());
    });
    assert_eq!(spans.len(), 1);
    assert_eq!((spans[0].span.name.as_str(), spans[0].span.attributes.len()), ("wanted", 1));
    let none = sent(Sampler::default(), |tracer| {
        let mut span = tracer.span_builder("unwanted").detached();
        assert!(span.set_parent(&incoming(UNSAMPLED)));
        assert!(!span.context().is_sampled() && !span.is_recording());
    });
    assert_eq!(none.len(), 0);
}

#[test]
fn without_an_exporter_it_only_hands_on_the_context_it_was_given() {
    let telemetry = Telemetry::start(Config::new()).unwrap();
    let tracer = telemetry.tracer("shop");
    let mut alone = tracer.span_builder("alone").detached();
    drop(alone.enter());
    let entered = alone.enter();
    assert_eq!(SpanContext::current(), None);
    drop(entered);
    let incoming = incoming(SAMPLED);
    let mut child = tracer.span_builder("child").parent(&incoming).detached();
    let _entered = child.enter();
    assert_eq!(SpanContext::current().as_ref(), Some(&incoming));
}

#[test]
fn a_context_that_is_entered_is_the_parent_of_what_follows() {
    let spans = sent(Sampler::default(), |tracer| {
        let incoming = incoming(SAMPLED);
        let (first, second) = (incoming.enter(), incoming.enter());
        drop(first);
        tracer.span("child").end();
        drop(second);
        tracer.span("alone").end();
    });
    let incoming = incoming(SAMPLED);
    assert_eq!(
        (spans[0].span.name.as_str(), &spans[0].span.parent_span_id[..]),
        ("child", &incoming.span_id().to_bytes()[..])
    );
    assert_eq!((spans[1].span.name.as_str(), spans[1].span.parent_span_id.len()), ("alone", 0));
}
