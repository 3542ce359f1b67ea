//! How a trace gets from one process into the next: W3C trace context in the headers of requests.

use standpipe::SpanContext;

use crate::http::Request;

/// The span of the caller, if the request names one. What is not well-formed counts as none: a new trace begins.
pub(crate) fn extract(request: &Request) -> Option<SpanContext> {
    let caller = SpanContext::from_traceparent(request.header("traceparent")?).ok()?;
    // the standard lets it come in pieces, as several headers
    let state: Vec<&str> = request.headers("tracestate").collect();
    Some(caller.with_tracestate(&state.join(",")))
}

/// The headers that make what the called service does a part of this thread's current span.
pub(crate) fn inject() -> Vec<(&'static str, String)> {
    let Some(current) = SpanContext::current() else { return Vec::new() };
    let mut headers = vec![("traceparent", current.traceparent())];
    if !current.tracestate().is_empty() {
        headers.push(("tracestate", current.tracestate().to_owned()));
    }
    headers
}
