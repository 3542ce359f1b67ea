//! How does work that goes on elsewhere stay in its trace? It takes the context along: to a thread, a channel, a process.

use super::clock::Clock;
use super::{ContextGuard, SpanContext, current, w3c};

/// The context of a thread: the span it is in. It is what work takes along to another thread, through a channel, or in the
/// headers of a request; [`SpanContext`] is the span's part of it. A clone is cheap.
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
}

impl Context {
    /// One of no span.
    pub fn new() -> Self {
        Self::default()
    }

    /// This thread's context.
    pub fn current() -> Self {
        match current::current() {
            Some((span, clock)) => Self { span: Some(span), clock },
            None => Self::new(),
        }
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
    pub fn from_headers<V: AsRef<str>>(header: impl FnMut(&'static str) -> Option<V>) -> Self {
        Self { span: SpanContext::from_headers(header), clock: None }
    }

    /// The context that this process was started in, from the environment: `TRACEPARENT` and `TRACESTATE`.
    pub fn from_env() -> Self {
        Self::from_headers(w3c::variable)
    }

    /// The span, if there is one.
    pub fn span(&self) -> Option<&SpanContext> {
        self.span.as_ref()
    }

    /// Gives `set` the headers that carry the context to another process: `traceparent` and `tracestate`, as far as there is
    /// something to carry. The names are in lower case, and the values need no escaping.
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

    /// Makes this the thread's context until the guard is dropped: spans that are started here become children of its span.
    /// One of no span keeps the thread out of the spans that it is in: the next one begins a trace.
    pub fn enter(&self) -> ContextGuard {
        match &self.span {
            Some(span) => ContextGuard::enter(span, self.clock),
            None => ContextGuard::enter_no_span(),
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
        Self { span: Some(span), clock: None }
    }
}
