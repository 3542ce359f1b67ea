//! Trace context in and out.

use standpipe::bridge::tracing::SpanExt;
use standpipe::{Config, Sampler, SpanContext};
use tracing::{info, info_span, span::Span};

use super::stage::{as_texts, run, run_config};

const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

fn remote(traceparent: &str) -> SpanContext {
    SpanContext::from_traceparent(traceparent).unwrap().with_tracestate("vendor=1")
}

#[test]
fn a_span_continues_the_trace_of_its_caller() {
    let arrived = run(|| {
        let _around = info_span!("around").entered();
        let request = info_span!("request", early = 1);
        assert!(request.set_parent(&remote(SAMPLED)));
        let _entered = request.enter();
        assert!(!request.set_parent(&remote(UNSAMPLED)), "too late");
        info_span!("child").in_scope(|| {});
        let onward = request.context().unwrap();
        assert_eq!(SpanContext::current().as_ref(), Some(&onward));
        assert_eq!(Span::current().context().as_ref(), Some(&onward));
        assert!(onward.traceparent().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert_eq!(onward.tracestate(), "vendor=1");
    });
    let request = &arrived.span("request").span;
    assert_eq!(request.parent_span_id, remote(SAMPLED).span_id().to_bytes());
    assert_eq!((request.trace_state.as_str(), request.flags & 0x300), ("vendor=1", 0x300));
    assert_eq!(as_texts(&request.attributes), ["early=1"]);
    arrived.assert_child("child", "request");
}

#[test]
fn what_the_caller_did_not_record_is_not_recorded_here() {
    let arrived = run(|| {
        let request = info_span!("request", early = 1);
        assert!(request.set_parent(&remote(UNSAMPLED)));
        request.in_scope(|| {
            info!("left out");
            info_span!("child").in_scope(|| {});
            assert!(!SpanContext::current().unwrap().is_sampled());
        });
    });
    assert!(arrived.names().is_empty() && arrived.logs.is_empty());
}

#[test]
fn a_caller_that_records_is_followed_though_nothing_else_is_kept() {
    let config = Config::new().sampler(Sampler::trace_id_ratio(0.0).parent_based());
    let arrived = run_config(
        config,
        |layer| layer,
        |_| {
            // The loop that takes requests has a span in an unsampled trace.
            let _serving = info_span!("serving").entered();
            let request = info_span!("request", early = 1);
            assert!(request.set_parent(&remote(SAMPLED)));
            request.in_scope(|| info_span!("child").in_scope(|| {}));
        },
    );
    assert_eq!(arrived.names(), ["child", "request"]);
    assert_eq!(as_texts(&arrived.span("request").span.attributes), ["early=1"]);
}

#[test]
fn a_link_can_be_added() {
    let arrived = run(|| info_span!("batch").add_link(&remote(SAMPLED)));
    let link = &arrived.span("batch").span.links[0];
    assert_eq!(
        (&link.span_id[..], link.trace_state.as_str()),
        (&remote(SAMPLED).span_id().to_bytes()[..], "vendor=1")
    );
}

#[test]
fn a_context_that_was_entered_is_the_parent_of_tracing_spans() {
    let arrived = run(|| {
        let remote = remote(SAMPLED);
        let _entered = remote.enter();
        info_span!("request").in_scope(|| {});
    });
    assert_eq!(arrived.span("request").span.parent_span_id, remote(SAMPLED).span_id().to_bytes());
}

#[test]
fn without_the_layer_there_is_no_context() {
    let span = info_span!("nobody listens");
    assert!(!span.set_parent(&remote(SAMPLED)));
    assert_eq!(span.context(), None);
    span.add_link(&remote(SAMPLED));
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry());
    let span = info_span!("no layer");
    assert!(!span.set_parent(&remote(SAMPLED)));
    assert_eq!(span.context(), None);
}
