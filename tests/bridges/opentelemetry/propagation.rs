//! Contexts pass between standpipe and OpenTelemetry: by W3C headers between processes, and directly within one.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    self, Span as _, TraceContextExt, TraceFlags, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, SpanId, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use proptest::prelude::*;
use standpipe::SpanContext;
use standpipe::bridge::opentelemetry::SpanExporter;
use standpipe::receiver::Receiver;

use crate::support::scene::{LONG, gathering, start};

type Headers = HashMap<String, String>;

/// Returns the headers that OpenTelemetry's propagator writes.
fn inject(context: &trace::SpanContext) -> Headers {
    let mut headers = Headers::new();
    let context = Context::new().with_remote_span_context(context.clone());
    TraceContextPropagator::new().inject_context(&context, &mut headers);
    headers
}

/// Returns the context that OpenTelemetry's propagator reads.
fn extract(headers: &Headers) -> trace::SpanContext {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), headers);
    context.span().span_context().clone()
}

fn our_headers(context: &SpanContext) -> Headers {
    let parent = ("traceparent".to_owned(), context.traceparent());
    let state = ("tracestate".to_owned(), context.tracestate().to_owned());
    Headers::from([parent, state])
}

fn read(headers: &Headers) -> Option<SpanContext> {
    let context = SpanContext::from_traceparent(headers.get("traceparent")?).ok()?;
    Some(context.with_tracestate(headers.get("tracestate").map_or("", String::as_str)))
}

/// A `tracestate` that both sides accept: each key once, and not longer than standpipe keeps.
fn any_state() -> impl Strategy<Value = TraceState> {
    let key = "[a-z0-9][a-z0-9_*/-]{0,8}(@[a-z][a-z0-9]{0,8})?";
    let value = "[!-+\\--<>-~]([ -+\\--<>-~]{0,8}[!-+\\--<>-~])?";
    prop::collection::hash_map(key, value, 0..8)
        .prop_map(|members| TraceState::from_key_value(members).unwrap())
}

fn any_context() -> impl Strategy<Value = trace::SpanContext> {
    let sampled = any::<bool>().prop_map(|sampled| TraceFlags::default().with_sampled(sampled));
    (1u128.., 1u64.., sampled, any_state()).prop_map(|(trace_id, span_id, flags, state)| {
        trace::SpanContext::new(TraceId::from(trace_id), SpanId::from(span_id), flags, true, state)
    })
}

proptest! {
    #[test]
    fn what_one_writes_the_other_reads(theirs in any_context()) {
        let headers = inject(&theirs);
        let ours = read(&headers).unwrap();
        prop_assert_eq!(our_headers(&ours), headers);
        prop_assert_eq!(&extract(&our_headers(&ours)), &theirs);
        // Direct conversion within a process gives the same results as the headers.
        prop_assert_eq!(&SpanContext::try_from(&theirs).unwrap(), &ours);
        prop_assert_eq!(&trace::SpanContext::from(&ours), &theirs);
    }

    #[test]
    fn a_context_of_ours_keeps_its_flags_within_the_process_only(flags in any::<u8>(), is_remote in any::<bool>()) {
        let flags_of = |context: &trace::SpanContext| context.trace_flags().to_u8();
        let context = trace::SpanContext::new(
            7.into(), 8.into(), TraceFlags::new(flags), is_remote, TraceState::default(),
        );
        let ours = SpanContext::try_from(&context).unwrap();
        prop_assert_eq!(ours.is_remote(), is_remote);
        let back = trace::SpanContext::from(&ours);
        prop_assert_eq!((flags_of(&back), back.is_remote()), (flags & 0x03, is_remote));
        // OpenTelemetry's propagator passes on only the sampled flag.
        prop_assert_eq!(flags_of(&extract(&our_headers(&ours))), flags & 0x01);
    }

    #[test]
    fn a_header_that_we_read_names_the_same_ids_to_both(parent in "0[0-9a]-[0-9a-f]{30,33}-[0-9a-f]{15,17}-[0-9a-f]{1,3}") {
        let headers = Headers::from([("traceparent".to_owned(), parent)]);
        let (ours, theirs) = (read(&headers), extract(&headers));
        if let Some(ours) = ours {
            prop_assert_eq!(ours.trace_id().to_bytes(), theirs.trace_id().to_bytes());
            prop_assert_eq!(ours.span_id().to_bytes(), theirs.span_id().to_bytes());
        }
    }
}

#[test]
fn a_context_that_names_nothing_is_none_of_ours() {
    let of = |trace_id: u128, span_id: u64| {
        let (flags, state) = (TraceFlags::SAMPLED, TraceState::default());
        SpanContext::try_from(&trace::SpanContext::new(trace_id.into(), span_id.into(), flags, false, state))
    };
    assert!(of(0, 1).is_err() && of(1, 0).is_err() && of(1, 1).is_ok());
    assert!(SpanContext::try_from(&trace::SpanContext::NONE).is_err());
}

#[test]
fn leaves_out_entries_that_the_other_does_not_take_and_keeps_the_ids() {
    let long = TraceState::from_key_value((0..3).map(|key| (format!("k{key}"), "v".repeat(200)))).unwrap();
    let theirs = trace::SpanContext::new(7.into(), 8.into(), TraceFlags::SAMPLED, false, long);
    let ours = SpanContext::try_from(&theirs).unwrap();
    let value = "v".repeat(200);
    assert_eq!(ours.tracestate(), format!("k0={value},k1={value}"), "no more than 512 bytes");
    assert_eq!(ours.span_id().to_bytes()[7], 8);
    let ours = ours.with_tracestate("one@two@three=1");
    assert_eq!(ours.tracestate(), "one@two@three=1");
    let back = trace::SpanContext::from(&ours);
    assert_eq!((back.trace_state().header().as_str(), back.span_id()), ("", 8.into()));
}

#[test]
fn spans_of_both_make_one_tree() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let provider = SdkTracerProvider::builder().with_span_processor(SpanExporter::new(&telemetry)).build();
    let theirs = provider.tracer("theirs");
    let ours = telemetry.tracer("ours");
    let mut outer = theirs.start("outer");
    let parent = SpanContext::try_from(outer.span_context()).unwrap();
    let middle = ours.span_builder("middle").parent(&parent).start();
    let around = Context::new().with_remote_span_context(middle.context().into());
    theirs.start_with_context("inner", &around).end();
    drop(middle);
    outer.end();
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let spans = receiver.spans();
    let named = |name: &str| spans.iter().find(|span| span.span.name == name).unwrap().span.clone();
    let [outer, middle, inner] = ["outer", "middle", "inner"].map(named);
    assert_eq!((&middle.parent_span_id, &inner.parent_span_id), (&outer.span_id, &middle.span_id));
    assert!([&middle, &inner].iter().all(|span| span.trace_id == outer.trace_id));
}
