//! Propagates a trace from one process to the next with W3C Trace Context in the headers of requests.

use standpipe::Context;

use crate::http::Request;

/// Returns the context of the caller. Malformed headers are ignored, and a new trace starts.
pub(crate) fn extract(request: &Request) -> Context {
    // The standards allow a list to be split over several headers, so headers are joined. Two joined `traceparent`
    // headers are malformed, as two parents should be.
    Context::from_headers(|name| Some(request.headers(name).collect::<Vec<_>>().join(",")))
}

/// Returns the headers that let the called service join the trace of this thread.
pub(crate) fn inject() -> Vec<(&'static str, String)> {
    Context::current().headers()
}
