//! How a trace gets from one process into the next: W3C trace context in the headers of requests.

use standpipe::Context;

use crate::http::Request;

/// The context of the caller. What is not well-formed is left out: a new trace begins.
pub(crate) fn extract(request: &Request) -> Context {
    // the standards let lists come in pieces, as several headers; of two parents neither counts
    Context::from_headers(|name| Some(request.headers(name).collect::<Vec<_>>().join(",")))
}

/// The headers that make what the called service does a part of this thread's context.
pub(crate) fn inject() -> Vec<(&'static str, String)> {
    Context::current().headers()
}
