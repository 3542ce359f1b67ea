//! A context that is this thread's current one for a while.

use std::marker::PhantomData;

use super::SpanContext;
use super::clock::Clock;
use super::current::{self, Entered};

/// Keeps a context this thread's current one until it is dropped. From [`SpanContext::enter`] and
/// [`DetachedSpan::enter`](crate::DetachedSpan::enter). Guards may be dropped in any order.
#[derive(Debug)]
#[must_use = "the context is current until this is dropped: give it a name"]
pub struct ContextGuard {
    entered: Option<Entered>,
    /// It is on this thread's stack of spans.
    not_send: PhantomData<*const ()>,
}

impl ContextGuard {
    #[inline]
    pub(crate) fn enter(context: &SpanContext, clock: Option<Clock>) -> Self {
        Self { entered: current::enter(context, clock), not_send: PhantomData }
    }

    /// One that keeps nothing.
    pub(crate) fn none() -> Self {
        Self { entered: None, not_send: PhantomData }
    }
}

impl Drop for ContextGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(entered) = self.entered.take() {
            entered.leave();
        }
    }
}

impl SpanContext {
    /// The context of this thread's current span, if it is in one: what to hand to another thread or process.
    ///
    /// ```
    /// # use standpipe::SpanContext;
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let incoming = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    /// let span = telemetry.tracer("shop").build("checkout").parent(&incoming).start();
    /// assert_eq!(SpanContext::current().as_ref(), Some(span.context()));
    /// drop(span);
    /// assert_eq!(SpanContext::current(), None);
    /// ```
    pub fn current() -> Option<Self> {
        current::current()
    }

    /// Makes this the thread's current context until the guard is dropped: spans that are started here become its
    /// children, log records carry its ids.
    ///
    /// ```
    /// # use standpipe::SpanContext;
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// let incoming = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    /// let _entered = incoming.enter();
    /// let span = tracer.span("GET /orders"); // of the caller's trace
    /// assert_eq!(span.context().trace_id(), incoming.trace_id());
    /// ```
    pub fn enter(&self) -> ContextGuard {
        ContextGuard::enter(self, None)
    }
}
