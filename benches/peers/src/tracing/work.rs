//! The measured spans, written as in an instrumented program.

use std::hint::black_box;

use tracing::{Span, info, info_span};

use super::Case;
use crate::support::program::Burst;
use crate::support::workload::{TRACE, text};

pub(super) const NOTE: &str = "a root with a remote parent and 15 children, each entered and left; three strings of 11 \
    to 23 bytes, an integer and a bool; the event has a message and a number; levels from INFO; everything is sent to \
    standpipe's own receiver and must arrive";

/// A span with five fields. The keys are constants; `black_box` hides the values from the compiler.
macro_rules! span {
    ($name:expr) => {
        info_span!(
            target: text::SCOPE,
            $name,
            http.route = black_box(text::ROUTE.1),
            server.address = black_box(text::HOST.1),
            cloud.region = black_box(text::ZONE.1),
            http.response.status_code = black_box(text::STATUS.1),
            cache.hit = black_box(text::CACHED.1),
        )
    };
}

/// Returns a burst of whole traces. `adopt` sets the remote parent of a root.
pub(super) fn burst(case: &Case, adopt: impl Fn(&Span) + 'static) -> Burst {
    match case.events {
        0 => Box::new(move |spans| (0..spans / TRACE).for_each(|_| trace(&adopt, || {}))),
        _ => Box::new(move |spans| (0..spans / TRACE).for_each(|_| trace(&adopt, event))),
    }
}

fn trace(adopt: impl Fn(&Span), within: impl Fn()) {
    let root = root();
    adopt(&root);
    let _in_root = root.enter();
    within();
    for _ in 1..TRACE {
        let _in_child = child().entered();
        within();
    }
}

/// Starts the root span of a trace.
pub(crate) fn root() -> Span {
    span!(text::ROOT)
}

/// Starts a child of the current span.
pub(crate) fn child() -> Span {
    span!(text::CHILD)
}

fn event() {
    info!(target: text::SCOPE, { order.id = black_box(4711) }, "order placed");
}
