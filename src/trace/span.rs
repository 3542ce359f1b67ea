//! [`Span`], a guard that ends and sends the span when it is dropped, and the builders of its events and links. An
//! event or a link is a protobuf message inside the span's message. Dropping its builder completes it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::SystemTime;

use super::builder::SimplyStarted;
use super::open::OpenSpan;
use super::{AsError, span};
use crate::context::{Entered, SpanContext, unix_nanos};
use crate::record::{Exception, IntoValue, OtherSpan, SpanKind, SpanRecord, Status, Value};

/// An open span: the thread's current span until it is dropped, which ends and sends it.
///
/// If a panic of its thread drops the span, it gets an `exception` event and, unless a status was set, the status
/// `Error`.
///
/// From [`Tracer::span`](crate::Tracer::span). A span cannot move to another thread. A clone of its
/// [`context`](Self::context) can, and makes the span the parent of spans that start there:
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
    /// `None` if nothing is recorded.
    pub(super) open: Option<Box<OpenSpan>>,
    pub(super) entered: Option<Entered>,
    /// Context of an unrecorded span. Recorded spans keep theirs in `open`.
    pub(super) unrecorded: Option<SpanContext>,
    /// Not `Send`: the span is on this thread's stack.
    pub(super) not_send: PhantomData<*const ()>,
}

impl Span {
    /// Returns whether the span is recorded: the sampler keeps it, and an exporter exports spans. Check this before you
    /// compute expensive attributes:
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

    /// Returns the context that identifies the span to others. An unsampled span has its own id as well. Without an
    /// exporter, this is the context of the parent or, without a parent, a new sampled context, so that other processes
    /// may record their part of the trace.
    #[inline]
    pub fn context(&self) -> &SpanContext {
        match (&self.open, &self.unrecorded) {
            (Some(open), _) => &open.context,
            (None, Some(context)) => context,
            (None, None) => unreachable!("a span that is not recorded has a context of its own"),
        }
    }

    /// Ends the span at `time`, or at its start time if `time` is earlier.
    pub fn end_at(mut self, time: SystemTime) {
        self.finish(Some(unix_nanos(time)));
    }

    /// Ends the span now, as dropping it does.
    pub fn end(self) {}

    #[inline(always)]
    pub(super) fn started((open, span, entered): SimplyStarted) -> Self {
        let unrecorded = open.is_none().then(|| SpanContext::of(span, None));
        Self { open, entered: Some(entered), unrecorded, not_send: PhantomData }
    }

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

// Taken by value, so the arguments travel in registers and the caller has no drop glue.
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

/// The result of a setter, for chained calls: `span.set("a", 1).set("b", 2)`. It has all methods of the span.
///
/// A `Chain` borrows the span. So the compiler rejects code that keeps the `Chain` of a temporary span, which would end
/// with the statement. Such a span would measure nothing, and would not be the parent of the following spans:
///
/// ```compile_fail,E0716
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let tracer = telemetry.tracer("shop");
/// let _span = tracer.span("checkout").set("order.id", 4711); // error: temporary value dropped while borrowed
/// ```
///
/// Use [`SpanBuilder::set`](crate::SpanBuilder::set) instead: `tracer.span_builder("checkout").set("order.id",
/// 4711).start()`.
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

/// Does nothing, but extends the borrow until the value is dropped.
impl<S> Drop for Chain<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl<S: fmt::Debug> fmt::Debug for Chain<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The methods that all spans have. `open_mut` returns `None` for a span that is not recorded.
macro_rules! setters {
    ($span:ident, $start:literal) => {
        #[allow(private_interfaces, reason = "the trait is sealed")]
        impl span::sealed::Open for $span {
            #[inline]
            fn open(&mut self) -> Option<&mut OpenSpan> {
                self.open_mut()
            }
        }

        impl $span {
            /// Sets an attribute, replacing an earlier value of the key. An attribute beyond the limit is dropped and
            /// counted.
            // `always`: most keys are literals, which the compiler then writes by constant stores.
            #[inline(always)]
            pub fn set(&mut self, key: &str, value: impl IntoValue) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.set_inlined(key, value);
                }
                Chain(self)
            }

            /// Changes the name of the span.
            pub fn rename(&mut self, name: &str) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.rename(name);
                }
                Chain(self)
            }

            /// Adds an event at the current time: `span.event("cache miss").set("key", "a")`.
            pub fn event(&mut self, name: &str) -> EventBuilder<'_> {
                EventBuilder::new(self.open_mut(), name, None)
            }

            /// Adds an event at `time`.
            pub fn event_with_time(&mut self, name: &str, time: SystemTime) -> EventBuilder<'_> {
                EventBuilder::new(self.open_mut(), name, Some(time))
            }

            /// Adds a link to a related span: `span.link(&context).set("why", "batch")`.
            pub fn link(&mut self, context: &SpanContext) -> LinkBuilder<'_> {
                LinkBuilder::new(self.open_mut(), context)
            }

            /// Sets the status. `Ok` is final. An error can be replaced by a later status.
            pub fn status(&mut self, status: Status<'_>) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    open.record.set_status(status);
                }
                Chain(self)
            }

            /// Records an error: the status `Error` with its message, the attribute `error.type`, and an event
            /// `exception` with its type, its message and its causes.
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
            /// The type is the static type of the error. It is left out for a `dyn Error`, including one in a `Box`
            /// or an `anyhow::Error`. To give `error.type` another value, set it afterwards.
            ///
            /// [`RecordErr`](crate::RecordErr) does the same for a `Result`.
            pub fn error<Kind>(&mut self, error: &(impl AsError<Kind> + ?Sized)) -> Chain<'_, Self> {
                self.error_with(error, &[])
            }

            /// Records an error like [`error`](Self::error), with further attributes of the event, which replace the
            /// error's own attributes with the same keys: `span.error_with(&error, &[("attempt", 3.into())])`.
            pub fn error_with<Kind>(
                &mut self,
                error: &(impl AsError<Kind> + ?Sized),
                attributes: &[(&str, Value<'_>)],
            ) -> Chain<'_, Self> {
                if let Some(open) = self.open_mut() {
                    span::record_error(open, error, attributes);
                }
                Chain(self)
            }

            /// Sets the kind of the span.
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

/// The event or link that is being written; `None` if the span is not recorded. Dropping it completes the message.
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

/// An event of a span, to which attributes can be added. It is complete when this value is dropped. From
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
            // Uses the span's clock, so that the event lies within the span even if the wall clock is set meanwhile.
            open.record.open_event(name, time.map_or_else(|| open.clock.now(), unix_nanos))
        }))
    }
}

/// A link of a span, to which attributes can be added. It is complete when this value is dropped. From
/// [`Span::link`](crate::Span::link).
pub struct LinkBuilder<'a>(SubMessageGuard<'a>);

impl<'a> LinkBuilder<'a> {
    pub(crate) fn new(open: Option<&'a mut OpenSpan>, context: &SpanContext) -> Self {
        let target = OtherSpan {
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
            /// Sets an attribute, replacing an earlier value of the key. An attribute beyond the limit is dropped and
            /// counted.
            #[inline]
            pub fn set(&mut self, key: &str, value: impl IntoValue) -> &mut Self {
                if let Some(record) = &mut self.0.0 {
                    value.with_value(|value| record.set_in_sub_message(key, value));
                }
                self
            }
        }

        // Omits the attributes, which may contain secrets.
        impl fmt::Debug for $builder<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($builder)).finish_non_exhaustive()
            }
        })*
    };
}

attributes!(EventBuilder LinkBuilder);

/// A [`Span`](crate::Span) or a [`DetachedSpan`](crate::DetachedSpan).
pub trait AnySpan: sealed::Open {}

impl<S: sealed::Open> AnySpan for S {}

#[allow(
    private_interfaces,
    reason = "sealed: code outside of the crate can neither name nor call what is in it"
)]
pub(super) mod sealed {
    use super::OpenSpan;

    pub trait Open {
        /// `None` if nothing is recorded.
        fn open(&mut self) -> Option<&mut OpenSpan>;
    }
}

/// Records the error of a `Result` on a span, and returns the `Result`: `query().record_err(&mut span)?`.
///
/// ```
/// use std::{fs, io};
/// use standpipe::{RecordErr, Tracer};
///
/// fn load(tracer: &Tracer) -> io::Result<String> {
///     let mut span = tracer.span("load settings");
///     fs::read_to_string("/no/such/file").record_err(&mut span)
/// }
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// assert_eq!(load(&telemetry.tracer("shop")).unwrap_err().kind(), io::ErrorKind::NotFound);
/// ```
pub trait RecordErr<Kind> {
    /// Records the error, if there is one, like [`Span::error`](crate::Span::error), and returns the result
    /// unchanged.
    ///
    /// # Errors
    /// Returns the original error.
    #[must_use = "the result is returned unchanged, and may be an error"]
    fn record_err(self, span: &mut impl AnySpan) -> Self;
}

impl<T, E: AsError<Kind>, Kind> RecordErr<Kind> for Result<T, E> {
    #[inline]
    fn record_err(self, span: &mut impl AnySpan) -> Self {
        if let (Err(error), Some(open)) = (&self, span.open()) {
            record_error(open, error, &[]);
        }
        self
    }
}

#[cold]
pub(super) fn record_error<Kind>(
    open: &mut OpenSpan,
    error: &(impl AsError<Kind> + ?Sized),
    more: &[(&str, Value<'_>)],
) {
    record_exception(open, &Exception::of(error), more);
}

fn record_exception(open: &mut OpenSpan, exception: &Exception, more: &[(&str, Value<'_>)]) {
    open.record.set_status(Status::Error(&exception.message));
    if let Some(name) = exception.type_name {
        open.record.set("error.type", Value::Str(name));
    }
    let mut event = EventBuilder::new(Some(open), "exception", None);
    exception.set(|key, value| _ = event.set(key, value));
    more.iter().for_each(|(key, value)| _ = event.set(key, *value));
}

/// Records a panic on the span that it ends; `time` is the end of the span. Keeps a status that was set before.
#[cold]
#[inline(never)]
pub(super) fn record_panic(open: &mut OpenSpan, time: u64) {
    let record = &mut open.record;
    if !record.has_status() {
        record.set_status(Status::Error("panicked"));
    }
    if record.open_event("exception", time) {
        record.set_in_sub_message("exception.type", Value::Str("panic"));
        record.set_in_sub_message("exception.message", Value::Str("the thread panicked"));
    }
}
