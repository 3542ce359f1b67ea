//! Contexts from C: scopes, in the caller's memory, that make a span or a context current; and the headers to send.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::input::CText;
use super::{Code, Out, TextBuffer};
use crate::context::{Baggage, Context, ContextGuard, SpanContext};
use crate::trace::OpenSpan;

/// Size of the buffer for a `traceparent`, with its zero byte.
const TRACEPARENT: usize = 56;

/// `standpipe_scope`: the entered context and the thread that entered it. All zeros mean that nothing was entered.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) thread: u64,
    pub(super) entered: [u64; 2],
    pub(super) reserved: u64,
}

impl Scope {
    const NOTHING: Self = Self { thread: 0, entered: [0; 2], reserved: 0 };

    fn of(guard: ContextGuard) -> Self {
        Self { thread: this_thread(), entered: guard.into_numbers(), ..Self::NOTHING }
    }
}

/// Returns a number that is unique among all threads of this process, including ended ones.
fn this_thread() -> u64 {
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    static LAST: AtomicUsize = AtomicUsize::new(0);
    if NUMBER.get() == 0 {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get() as u64
}

exported! {
    fn standpipe_span_enter(span: Option<&mut OpenSpan>, scope: Out<'_, Scope>) -> Code {
        if scope.is_null() {
            return Code::INVALID_ARGUMENT;
        }
        scope.put(span.map_or(Scope::NOTHING, |span| Scope::of(span.enter())));
        Code::OK
    }

    fn standpipe_context_enter(
        traceparent: CText<'_>,
        tracestate: CText<'_>,
        baggage: CText<'_>,
        scope: Out<'_, Scope>,
    ) -> Code {
        if scope.is_null() {
            return Code::INVALID_ARGUMENT;
        }
        let context = Context::from_headers(|name| match name {
            "traceparent" => traceparent.option(),
            "tracestate" => tracestate.option(),
            "baggage" => baggage.option(),
            _ => None,
        });
        scope.put(Scope::of(context.enter()));
        Code::OK
    }

    fn standpipe_scope_leave(scope: Option<&mut Scope>) -> Code {
        let Some(scope) = scope.filter(|scope| scope.thread != 0) else { return Code::OK };
        if scope.thread != this_thread() {
            return Code::WRONG_THREAD;
        }
        let entered = std::mem::replace(scope, Scope::NOTHING).entered;
        drop(ContextGuard::from_numbers(entered));
        Code::OK
    }

    fn standpipe_span_ids(
        span: Option<&mut OpenSpan>,
        trace_id: Out<'_, [u8; 16]>,
        span_id: Out<'_, [u8; 8]>,
        flags: Out<'_, u8>,
    ) -> Code {
        let context = known(span);
        let ids =
            context.as_ref().map(|context| (context.trace_id().to_bytes(), context.span_id().to_bytes()));
        let (trace, span) = ids.unwrap_or_default();
        trace_id.put(trace);
        span_id.put(span);
        flags.put(context.as_ref().map_or(0, SpanContext::flags));
        found(context.as_ref())
    }

    fn standpipe_span_traceparent(span: Option<&mut OpenSpan>, out: TextBuffer<'_>) -> Code {
        let context = known(span);
        out.write(&context.as_ref().map(SpanContext::traceparent).unwrap_or_default(), TRACEPARENT);
        found(context.as_ref())
    }

    fn standpipe_span_tracestate(span: Option<&mut OpenSpan>, out: TextBuffer<'_>, room: usize) -> usize {
        out.write(known(span).as_ref().map_or("", SpanContext::tracestate), room)
    }

    fn standpipe_baggage(out: TextBuffer<'_>, room: usize) -> usize {
        out.write(&Baggage::current().header(), room)
    }
}

/// Returns the context of the span or, for null, of the thread's current span.
fn known(span: Option<&mut OpenSpan>) -> Option<SpanContext> {
    match span {
        Some(span) => Some(span.settled_context().clone()),
        None => SpanContext::current(),
    }
}

fn found(context: Option<&SpanContext>) -> Code {
    if context.is_some() { Code::OK } else { Code::NO_SPAN }
}
