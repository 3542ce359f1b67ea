//! What must hold for every pair of `traceparent` and `tracestate`.

use standpipe::SpanContext;

/// Limits of the standard for what is propagated.
const STATE_BYTES: usize = 512;
const STATE_MEMBERS: usize = 32;

/// The first line of an input is the `traceparent`, the rest the `tracestate`.
pub fn check(text: &str) {
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
