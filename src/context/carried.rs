//! How does work that goes on elsewhere stay in its trace? It takes the context along: to a thread, a channel, a process.

use super::baggage::{BAGGAGE, Baggage};
use super::clock::Clock;
use super::{ContextGuard, SpanContext, current, w3c};

/// The context of a thread: the span it is in, and the [`Baggage`] it has. It is what work takes along to another thread,
/// through a channel, or in the headers of a request. A clone is cheap.
///
/// ```
/// use std::thread;
/// use standpipe::Context;
///
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let checkout = tracer.span("checkout");
/// thread::spawn(Context::current().wrap(move || {
///     let _payment = tracer.span("payment"); // a child of checkout
/// }));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Context {
    span: Option<SpanContext>,
    /// The span's, where it is of this process: times on all threads agree.
    clock: Option<Clock>,
    baggage: Baggage,
}

impl Context {
    /// One of no span and no baggage.
    pub fn new() -> Self {
        Self::default()
    }

    /// This thread's context.
    pub fn current() -> Self {
        let (span, clock) = match current::current() {
            Some((span, clock)) => (Some(span), clock),
            None => (None, None),
        };
        Self { span, clock, baggage: Baggage::current() }
    }

    /// The caller's context, from the headers of a request; what is not there or cannot be used is left out.
    ///
    /// `header` gives the value of a header by its name, which is in lower case. A header that is there several times is
    /// one list in several parts: join them with commas.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use standpipe::{Context, SpanKind, Tracer};
    ///
    /// fn serve(tracer: &Tracer, headers: &HashMap<String, String>) {
    ///     let _caller = Context::from_headers(|name| headers.get(name)).enter();
    ///     let _request = tracer.build("GET /orders").kind(SpanKind::Server).start(); // of the caller's trace
    /// }
    /// ```
    pub fn from_headers<V: AsRef<str>>(mut header: impl FnMut(&'static str) -> Option<V>) -> Self {
        let span = SpanContext::from_headers(&mut header);
        let baggage =
            header(BAGGAGE).map_or_else(Baggage::new, |header| Baggage::from_header(header.as_ref()));
        Self { span, clock: None, baggage }
    }

    /// The context that this process was started in, from the environment: `TRACEPARENT`, `TRACESTATE` and `BAGGAGE`.
    pub fn from_env() -> Self {
        Self::from_headers(w3c::variable)
    }

    /// The span, if there is one.
    pub fn span(&self) -> Option<&SpanContext> {
        self.span.as_ref()
    }

    /// The baggage, which may be empty.
    pub fn baggage(&self) -> &Baggage {
        &self.baggage
    }

    /// The same with this baggage instead of its own.
    #[must_use]
    pub fn with_baggage(self, baggage: Baggage) -> Self {
        Self { baggage, ..self }
    }

    /// Gives `set` the headers that carry the context to another process: `traceparent`, `tracestate` and `baggage`, as far
    /// as there is something to carry. The names are in lower case, and the values need no escaping.
    ///
    /// ```
    /// use std::process::Command;
    /// use standpipe::Context;
    ///
    /// let mut command = Command::new("backup");
    /// Context::current().inject(|name, value| {
    ///     command.env(name.to_ascii_uppercase(), value); // from_env reads them there
    /// });
    /// ```
    pub fn inject(&self, mut set: impl FnMut(&'static str, &str)) {
        if let Some(span) = &self.span {
            span.inject(&mut set);
        }
        if !self.baggage.is_empty() {
            set(BAGGAGE, &self.baggage.header());
        }
    }

    /// What [`inject`](Self::inject) gives, as a list: for builders that each step consumes.
    ///
    /// ```no_run
    /// use standpipe::Context;
    ///
    /// let mut request = ureq::get("http://localhost:8080/stock");
    /// for (name, value) in Context::current().headers() {
    ///     request = request.header(name, value);
    /// }
    /// request.call()?;
    /// # Ok::<(), ureq::Error>(())
    /// ```
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        self.inject(|name, value| headers.push((name, value.to_owned())));
        headers
    }

    /// Makes this the thread's context until the guard is dropped: spans that are started here become children of its span,
    /// and its baggage is current. It replaces all that the thread is in: where it has no span, the next one begins a
    /// trace, and where it has no baggage, there is none.
    pub fn enter(&self) -> ContextGuard {
        let entered = match &self.span {
            Some(span) => ContextGuard::enter(span, self.clock),
            None => ContextGuard::enter_no_span(),
        };
        match self.baggage.is_empty() && Baggage::current().is_empty() {
            true => entered,
            false => entered.and_baggage(&self.baggage),
        }
    }

    /// Does `work` in this context. A thread pool such as rayon's gets it by reference:
    ///
    /// ```
    /// # use standpipe::Context;
    /// # let (orders, ship) = ([1, 2, 3], |_order: &u64| {});
    /// let context = Context::current();
    /// # /*
    /// orders.par_iter().for_each(|order| context.run(|| ship(order)));
    /// # */
    /// # orders.iter().for_each(|order| context.run(|| ship(order)));
    /// ```
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// The same work in this context, wherever it is done: for [`std::thread::spawn`], or a queue of closures.
    pub fn wrap<T>(self, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        move || self.run(work)
    }
}

impl From<SpanContext> for Context {
    fn from(span: SpanContext) -> Self {
        Self { span: Some(span), ..Self::default() }
    }
}
