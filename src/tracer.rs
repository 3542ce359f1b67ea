//! Spans at the call site: who makes them, and the guard that is one.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

use crate::context::{self, Clock, Entered, SpanContext, unix_nanos};
use crate::fork;
use crate::outlet::Outlet;
use crate::record::{LinkTarget, Scope, Signal, SpanHead, SpanKind, SpanRecord, Status, Value};

/// A thread keeps so many finished spans' storage, each up to so many bytes.
const POOLED: usize = 16;
const POOLED_BYTES: usize = 16 << 10;

/// Makes spans of one scope. Got from [`Telemetry::tracer`](crate::Telemetry::tracer); cheap to clone and to share.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let tracer = telemetry.tracer("shop");
/// let mut checkout = tracer.span("checkout");
/// checkout.set("order.id", 4711);
/// {
///     let mut payment = tracer.span("payment"); // a child of checkout
///     payment.set("amount", 12.5);
/// } // sent
/// ```
#[derive(Clone)]
pub struct Tracer {
    source: Arc<Source>,
}

/// What the spans of a tracer have in common.
struct Source {
    outlet: Arc<Outlet>,
    scope: Arc<Scope>,
}

impl Tracer {
    pub(crate) fn new(outlet: Arc<Outlet>, scope: Arc<Scope>) -> Self {
        Self { source: Arc::new(Source { outlet, scope }) }
    }

    /// Starts a span, a child of this thread's current one, and makes it current until it is dropped.
    #[inline]
    pub fn span(&self, name: &str) -> Span {
        self.build(name).start()
    }

    /// Starts a span step by step: with another parent, another start, not as the current one.
    pub fn build<'a>(&'a self, name: &'a str) -> SpanBuilder<'a> {
        SpanBuilder { tracer: self, name, parent: Parent::Current, kind: SpanKind::Internal, start: None }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("scope", &self.source.scope.name).finish_non_exhaustive()
    }
}

/// A span before its start. Got from [`Tracer::build`].
///
/// ```
/// # use standpipe::{SpanContext, SpanKind};
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let incoming = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
/// let span = tracer.build("GET /orders").parent(&incoming).kind(SpanKind::Server).start();
/// assert_eq!(span.context().trace_id(), incoming.trace_id());
/// ```
#[derive(Debug)]
#[must_use = "a span begins with start()"]
pub struct SpanBuilder<'a> {
    tracer: &'a Tracer,
    name: &'a str,
    parent: Parent<'a>,
    kind: SpanKind,
    start: Option<SystemTime>,
}

#[derive(Debug)]
enum Parent<'a> {
    Current,
    None,
    Given(&'a SpanContext),
}

impl<'a> SpanBuilder<'a> {
    /// A child of this context instead of the thread's current span.
    pub fn parent(mut self, parent: &'a SpanContext) -> Self {
        self.parent = Parent::Given(parent);
        self
    }

    /// The first span of a new trace.
    pub fn root(mut self) -> Self {
        self.parent = Parent::None;
        self
    }

    /// The role of the span among its neighbours; internal unless set.
    pub fn kind(mut self, kind: SpanKind) -> Self {
        self.kind = kind;
        self
    }

    /// When it started, if not now.
    pub fn start_time(mut self, time: SystemTime) -> Self {
        self.start = Some(time);
        self
    }

    /// Starts the span and makes it the thread's current one until it is dropped.
    pub fn start(self) -> Span {
        let current = context::current();
        let (clock, now) = current.as_ref().map_or_else(Clock::start, |(_, clock, now)| (*clock, *now));
        let parent = match self.parent {
            Parent::Current => current.map(|(context, ..)| context),
            Parent::Given(parent) => Some(parent.clone()),
            Parent::None => None,
        };
        let context = parent.as_ref().map_or_else(SpanContext::root, SpanContext::child);
        let start = self.start.map_or(now, unix_nanos);
        let open = (!context::silenced()).then(|| {
            let head = SpanHead {
                trace_id: context.trace_id,
                span_id: context.span_id,
                parent: parent.as_ref().map(|parent| parent.span_id),
                parent_is_remote: parent.as_ref().is_some_and(|parent| parent.is_remote),
                trace_flags: context.flags,
                trace_state: context.tracestate(),
                name: self.name,
                start,
            };
            OpenSpan::begin(&self.tracer.source, &head, self.kind)
        });
        let entered = context::enter(&context, clock);
        Span { open: open.flatten(), context, clock, entered, end: None, not_send: PhantomData }
    }
}

/// A span that is open: the thread's current one until it is dropped, which ends and sends it.
///
/// Got from [`Tracer::span`]. It stays on its thread; [`context`](Self::context) carries it to others:
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let span = tracer.span("parent");
/// let context = span.context().clone();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let child = tracer.build("child").parent(&context).start();
///         assert_eq!(child.context().trace_id(), context.trace_id());
///     });
/// });
/// ```
#[must_use = "a span ends when it is dropped: give it a name"]
pub struct Span {
    /// `None` where nothing is recorded; the context is carried all the same.
    open: Option<Box<OpenSpan>>,
    context: SpanContext,
    clock: Clock,
    entered: Option<Entered>,
    end: Option<u64>,
    /// It is on this thread's stack of spans.
    not_send: PhantomData<*const ()>,
}

impl Span {
    /// Sets an attribute. The last value of a key counts; above the limit an attribute is dropped and counted.
    #[inline]
    pub fn set<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) -> &mut Self {
        if let Some(open) = &mut self.open {
            open.record.set(key, value.into());
        }
        self
    }

    /// Notes that something happened, now: `span.event("cache miss").set("key", "a")`.
    pub fn event(&mut self, name: &str) -> SpanPart<'_> {
        let time = self.clock.now();
        self.event_at(name, time)
    }

    /// Notes that something happened, then.
    pub fn event_with_time(&mut self, name: &str, time: SystemTime) -> SpanPart<'_> {
        self.event_at(name, unix_nanos(time))
    }

    fn event_at(&mut self, name: &str, time: u64) -> SpanPart<'_> {
        SpanPart::open(self.open.as_deref_mut(), |record| record.open_event(name, time))
    }

    /// Points at another span that has to do with this one: `span.link(&context).set("why", "batch")`.
    pub fn link(&mut self, context: &SpanContext) -> SpanPart<'_> {
        let target = LinkTarget {
            trace_id: context.trace_id,
            span_id: context.span_id,
            is_remote: context.is_remote,
            trace_flags: context.flags,
            trace_state: context.tracestate(),
        };
        SpanPart::open(self.open.as_deref_mut(), |record| record.open_link(&target))
    }

    /// Says how it went. `Ok` is final; an error can be replaced by a later one.
    pub fn status(&mut self, status: Status<'_>) -> &mut Self {
        if let Some(open) = &mut self.open {
            open.record.set_status(status);
        }
        self
    }

    /// The role of the span among its neighbours.
    pub fn kind(&mut self, kind: SpanKind) -> &mut Self {
        if let Some(open) = &mut self.open {
            open.record.set_kind(kind);
        }
        self
    }

    /// What identifies the span to others.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Ends the span at a time of its own; one before its start counts as its start.
    pub fn end_at(mut self, time: SystemTime) {
        self.end = Some(unix_nanos(time));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(entered) = self.entered.take() {
            entered.leave();
        }
        if let Some(open) = self.open.take() {
            open.finish(self.end.unwrap_or_else(|| self.clock.now()));
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("context", &self.context).finish_non_exhaustive()
    }
}

/// An event or a link of a span that takes attributes; it is complete when it is dropped.
#[derive(Debug)]
pub struct SpanPart<'a>(Option<&'a mut SpanRecord>);

impl<'a> SpanPart<'a> {
    fn open(open: Option<&'a mut OpenSpan>, write: impl FnOnce(&mut SpanRecord) -> bool) -> Self {
        let record = open.map(|open| &mut open.record);
        Self(record.and_then(|record| write(record).then_some(record)))
    }

    /// Sets an attribute; the last value of a key counts.
    #[allow(clippy::return_self_not_must_use)]
    pub fn set<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Self {
        if let Some(record) = &mut self.0 {
            record.set_in_part(key, value.into());
        }
        self
    }
}

impl Drop for SpanPart<'_> {
    fn drop(&mut self) {
        if let Some(record) = &mut self.0 {
            record.close_part();
        }
    }
}

/// A span's record and where it goes. Reused on its thread, tracer and all: starting a span of the same
/// tracer again touches no shared counter.
struct OpenSpan {
    record: SpanRecord,
    source: Arc<Source>,
    generation: u32,
}

thread_local! {
    // boxed, as spans are moved about while they are open
    #[allow(clippy::vec_box)]
    static POOL: RefCell<Vec<Box<OpenSpan>>> = const { RefCell::new(Vec::new()) };
}

impl OpenSpan {
    /// `None` if there is no exporter to send it.
    fn begin(source: &Arc<Source>, head: &SpanHead<'_>, kind: SpanKind) -> Option<Box<Self>> {
        let largest = source.outlet.largest_record(Signal::Traces)?;
        let pooled = POOL.try_with(|pool| pool.try_borrow_mut().ok()?.pop()).ok().flatten();
        let mut open = pooled.unwrap_or_else(|| {
            Box::new(Self { record: SpanRecord::default(), source: Arc::clone(source), generation: 0 })
        });
        if !Arc::ptr_eq(&open.source, source) {
            open.source = Arc::clone(source);
        }
        open.generation = fork::generation();
        open.record.begin(head, source.outlet.limits(), largest);
        open.record.set_kind(kind);
        Some(open)
    }

    fn finish(mut self: Box<Self>, end: u64) {
        // a span that was open across a fork is the parent's to send
        if self.generation == fork::generation() {
            match self.record.finish(end) {
                Some(record) => self.source.outlet.push_span(&self.source.scope, record),
                None => self.source.outlet.turn_away_large_span(),
            }
        }
        if self.record.capacity() > POOLED_BYTES {
            return;
        }
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut() {
                if pool.len() < POOLED {
                    pool.push(self);
                }
            }
        });
    }
}
