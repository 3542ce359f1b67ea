//! How do events and links get attributes? Each is a message inside the span's, open until its builder is dropped.

use std::fmt;
use std::time::SystemTime;

use super::open::OpenSpan;
use crate::context::{SpanContext, unix_nanos};
use crate::record::{IntoValue, LinkTarget, SpanRecord};

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
