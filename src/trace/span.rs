//! What is a span while it is open? A guard on its thread's stack of spans; dropping it ends and sends the span.

use std::fmt;
use std::marker::PhantomData;
use std::time::SystemTime;

use super::open::OpenSpan;
use super::{EventBuilder, LinkBuilder};
use crate::context::{Entered, SpanContext, unix_nanos};
use crate::record::{IntoValue, SpanKind, Status};

/// A span that is open: the thread's current one until it is dropped, which ends and sends it.
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
///         let child = tracer.build("child").parent(&context).start();
///         assert_eq!(child.context().trace_id(), context.trace_id());
///     });
/// });
/// ```
#[must_use = "a span ends when it is dropped: give it a name"]
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
    fn open_mut(&mut self) -> Option<&mut OpenSpan> {
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

/// The methods that all spans have; `open_mut` gives `None` where nothing is recorded.
macro_rules! setters {
    ($span:ident) => {
        impl $span {
            /// Sets an attribute, and replaces the value that the key had. Above the limit an attribute is dropped and
            /// counted.
            #[inline]
            pub fn set(&mut self, key: &str, value: impl IntoValue) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    value.with_value(|value| open.record.set(key, value));
                }
                self
            }

            /// Gives it another name.
            pub fn rename(&mut self, name: &str) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set_name(name);
                }
                self
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
            pub fn status(&mut self, status: Status<'_>) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set_status(status);
                }
                self
            }

            /// The role of the span among its neighbours.
            pub fn kind(&mut self, kind: SpanKind) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set_kind(kind);
                }
                self
            }
        }
    };
}

pub(super) use setters;

setters!(Span);
