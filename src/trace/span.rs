//! [`Span`], a guard on its thread's stack of spans that ends and sends the span when it is dropped; and the builders of its
//! events and links, each a message inside the span's that is open until its builder is dropped.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::SystemTime;

use super::open::OpenSpan;
use super::{AsError, error};
use crate::context::{Entered, SpanContext, unix_nanos};
use crate::record::{IntoValue, LinkTarget, SpanKind, SpanRecord, Status};

/// A span that is open: the thread's current one until it is dropped, which ends and sends it.
///
/// One that a panic of its thread drops has the status `Error`, unless another one was set, and an event `exception`.
///
/// Got from [`Tracer::span`](crate::Tracer::span). It stays on its thread; [`context`](Self::context) carries it to
/// others:
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let span = tracer.span("parent");
/// let context = span.context().clone();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let child = tracer.span_builder("child").parent(&context).start();
///         assert_eq!(child.context().trace_id(), context.trace_id());
///     });
/// });
/// ```
#[must_use = "a span ends when it is dropped: give it a name, not `_`"]
pub struct Span {
    /// `None` where nothing is recorded.
    pub(super) open: Option<Box<OpenSpan>>,
    pub(super) entered: Option<Entered>,
    /// Of a span that is not recorded; another one has it in `open`.
    pub(super) unrecorded: Option<SpanContext>,
    /// It is on this thread's stack of spans.
    pub(super) not_send: PhantomData<*const ()>,
}

impl Span {
    /// Whether what is set here goes anywhere: not if the sampler left the span out, nor without an exporter.
    /// Saves the work for attributes that are costly to make:
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// # let basket = ["tea", "milk"];
    /// let mut span = tracer.span("checkout");
    /// if span.is_recording() {
    ///     span.set("basket", basket.join(", ").as_str());
    /// }
    /// ```
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.open.is_some()
    }

    /// What identifies the span to others; an unsampled span has an id of its own, too. Without an exporter it is the
    /// context of the span around it, or of the parent that was given; if there is none either, a new one that leaves
    /// it to others what they record.
    #[inline]
    pub fn context(&self) -> &SpanContext {
        match (&self.open, &self.unrecorded) {
            (Some(open), _) => &open.context,
            (None, Some(context)) => context,
            (None, None) => unreachable!("a span that is not recorded has a context of its own"),
        }
    }

    /// Ends the span at a time of its own; one before its start counts as its start.
    pub fn end_at(mut self, time: SystemTime) {
        self.finish(Some(unix_nanos(time)));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    #[inline]
    fn finish(&mut self, end: Option<u64>) {
        end_span(self.open.take(), self.entered.take(), end);
    }

    #[inline]
    pub(super) fn open_mut(&mut self) -> Option<&mut OpenSpan> {
        self.open.as_deref_mut()
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        self.finish(None);
    }
}

/// Its arguments are passed in registers, and nothing is left to be dropped behind it.
#[inline(never)]
fn end_span(open: Option<Box<OpenSpan>>, entered: Option<Entered>, end: Option<u64>) {
    if let Some(entered) = entered {
        entered.leave();
    }
    if let Some(open) = open {
        open.finish(end);
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("context", self.context()).finish_non_exhaustive()
    }
}

/// A span of which more can be set: `span.set("a", 1).set("b", 2)`. What it can do is what the span can.
///
/// It borrows the span for as long as it exists. So the compiler refuses to keep it of a span that ends with the statement,
/// as it has no name. This would measure nothing, and make nothing the parent of what follows:
///
/// ```compile_fail,E0716
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let _span = tracer.span("checkout").set("order.id", 4711); // error: temporary value dropped while borrowed
/// ```
///
/// [`SpanBuilder::set`](crate::SpanBuilder::set) is meant for it: `tracer.span_builder("checkout").set("order.id", 4711).start()`.
pub struct Chain<'a, S>(pub(super) &'a mut S);

impl<S> Deref for Chain<'_, S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        self.0
    }
}

impl<S> DerefMut for Chain<'_, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut S {
        self.0
    }
}

/// Does nothing, but the borrow lasts until then.
impl<S> Drop for Chain<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl<S: fmt::Debug> fmt::Debug for Chain<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The methods that all spans have; `open_mut` gives `None` where nothing is recorded.
macro_rules! setters {
    ($span:ident, $start:literal) => {
        #[allow(private_interfaces, reason = "the trait is sealed")]
        impl error::sealed::Open for $span {
            #[inline]
            fn open(&mut self) -> Option<&mut OpenSpan> {
                self.open_mut()
            }
        }

        impl $span {
            /// Sets an attribute, and replaces the value that the key had. Above the limit an attribute is dropped and
            /// counted.
            // Always: the key is mostly a literal, which the compiler then writes by constant stores.
            #[inline(always)]
            pub fn set(&mut self, key: &str, value: impl IntoValue) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.set_inlined(key, value);
                }
                Chain(self)
            }

            /// Gives it another name.
            pub fn rename(&mut self, name: &str) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.rename(name);
                }
                Chain(self)
            }

            /// Notes that something happened, now: `span.event("cache miss").set("key", "a")`.
            pub fn event(&mut self, name: &str) -> EventBuilder<'_> {
                EventBuilder::new(self.open_mut(), name, None)
            }

            /// Notes that something happened, then.
            pub fn event_with_time(&mut self, name: &str, time: SystemTime) -> EventBuilder<'_> {
                EventBuilder::new(self.open_mut(), name, Some(time))
            }

            /// Points at another span that has to do with this one: `span.link(&context).set("why", "batch")`.
            pub fn link(&mut self, context: &SpanContext) -> LinkBuilder<'_> {
                LinkBuilder::new(self.open_mut(), context)
            }

            /// Says how it went. `Ok` is final; an error can be replaced by a later one.
            pub fn status(&mut self, status: Status<'_>) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.record.set_status(status);
                }
                Chain(self)
            }

            /// Records an error: the status `Error` with its message, the attribute `error.type`, and an event `exception` with
            /// its type, its message and its causes.
            ///
            /// ```
            /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
            /// # let tracer = telemetry.tracer("shop");
            #[doc = concat!("let mut span = tracer.span_builder(\"parse\").", $start, "();")]
            /// if let Err(error) = "4711!".parse::<u32>() {
            ///     span.error(&error);
            /// }
            /// ```
            ///
            /// The type is the one that the compiler knows: it is left out for a `dyn Error`, also one in a `Box` or an
            /// `anyhow::Error`. To give `error.type` another value, set it afterwards.
            ///
            /// [`RecordErr`](crate::RecordErr) does the same for a `Result`.
            pub fn error<Kind>(&mut self, error: &(impl AsError<Kind> + ?Sized)) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    error::record(open, error);
                }
                Chain(self)
            }

            /// The role of the span among its neighbours.
            pub fn kind(&mut self, kind: SpanKind) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.record.set_kind(kind);
                }
                Chain(self)
            }
        }
    };
}

pub(super) use setters;

setters!(Span, "start");

/// The event or link that is being written; `None` where nothing is recorded. Dropping it completes the message.
struct SubMessageGuard<'a>(Option<&'a mut SpanRecord>);

impl<'a> SubMessageGuard<'a> {
    fn open(open: Option<&'a mut OpenSpan>, write: impl FnOnce(&mut OpenSpan) -> bool) -> Self {
        Self(open.and_then(|open| write(open).then_some(&mut open.record)))
    }
}

impl Drop for SubMessageGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(record) = &mut self.0 {
            record.end_sub_message();
        }
    }
}

/// An event of a span that takes attributes; it is complete when it is dropped. Got from
/// [`Span::event`](crate::Span::event).
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let mut span = telemetry.tracer("shop").span("checkout");
/// span.event("retry").set("attempt", 2).set("reason", "timeout");
/// ```
pub struct EventBuilder<'a>(SubMessageGuard<'a>);

impl<'a> EventBuilder<'a> {
    pub(crate) fn new(open: Option<&'a mut OpenSpan>, name: &str, time: Option<SystemTime>) -> Self {
        Self(SubMessageGuard::open(open, |open| {
            open.record.open_event(name, time.map_or_else(|| open.clock.now(), unix_nanos))
        }))
    }
}

/// A link of a span that takes attributes; it is complete when it is dropped. Got from
/// [`Span::link`](crate::Span::link).
pub struct LinkBuilder<'a>(SubMessageGuard<'a>);

impl<'a> LinkBuilder<'a> {
    pub(crate) fn new(open: Option<&'a mut OpenSpan>, context: &SpanContext) -> Self {
        let target = LinkTarget {
            trace_id: context.trace_id,
            span_id: context.span_id,
            is_remote: context.is_remote,
            trace_flags: context.flags,
            trace_state: context.tracestate(),
        };
        Self(SubMessageGuard::open(open, |open| open.record.open_link(&target)))
    }
}

macro_rules! attributes {
    ($($builder:ident)*) => {
        $(impl $builder<'_> {
            /// Sets an attribute, and replaces the value that the key had. Above the limit an attribute is dropped and
            /// counted.
            #[inline]
            pub fn set(&mut self, key: &str, value: impl IntoValue) -> &mut Self {
                if let Some(record) = &mut self.0.0 {
                    value.with_value(|value| record.set_in_sub_message(key, value));
                }
                self
            }
        }

        // what was set may be anything, also a secret
        impl fmt::Debug for $builder<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($builder)).finish_non_exhaustive()
            }
        })*
    };
}

attributes!(EventBuilder LinkBuilder);
