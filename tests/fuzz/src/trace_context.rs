//! Invariants of every pair of `traceparent` and `tracestate`, and of every `baggage`.

use standpipe::{Baggage, SpanContext};

/// Limits of W3C's standards for propagated headers.
const STATE_BYTES: usize = 512;
const STATE_MEMBERS: usize = 32;
const BAGGAGE_BYTES: usize = 8192;
const BAGGAGE_MEMBERS: usize = 64;

/// Reads an input in two ways: all of it as a `baggage`; and its first line as a `traceparent`, with the rest as a
/// `tracestate`.
pub fn check(text: &str) {
    check_baggage(text);
    check_context(text);
}

fn check_baggage(text: &str) {
    let baggage = Baggage::from_header(text);
    let header = baggage.header();
    assert!(header.len() <= BAGGAGE_BYTES, "{} bytes are propagated", header.len());
    assert!(baggage.iter().count() <= BAGGAGE_MEMBERS, "propagated: {header}");
    assert!(header.bytes().all(|byte| matches!(byte, 0x21..=0x7e)), "no header value: {header:?}");
    assert_eq!(Baggage::from_header(&header), baggage, "propagated differently by the next service");
}

fn check_context(text: &str) {
    let (parent, state) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(context) = SpanContext::from_traceparent(parent) else { return };
    assert!(context.is_remote(), "a context from a header is remote");
    let context = context.with_tracestate(state);

    let header = context.traceparent();
    let again = SpanContext::from_traceparent(&header).expect("what is propagated can be read");
    let ids = |context: &SpanContext| (context.trace_id(), context.span_id(), context.is_sampled());
    assert_eq!(ids(&again), ids(&context), "propagated as {header}");
    assert_eq!(again.traceparent(), header);

    let kept = context.tracestate();
    assert!(kept.len() <= STATE_BYTES, "{} bytes are propagated", kept.len());
    assert!(kept.split(',').count() <= STATE_MEMBERS, "propagated: {kept}");
    assert!(kept.bytes().all(|byte| matches!(byte, 0x20..=0x7e)), "no header value: {kept:?}");
    assert_eq!(again.with_tracestate(kept).tracestate(), kept, "propagated differently by the next service");
}
