//! An event or a link of a span, while it is written.

use std::fmt;
use std::time::SystemTime;

use super::open::OpenSpan;
use crate::context::{SpanContext, unix_nanos};
use crate::record::{LinkTarget, SpanRecord, Value};

/// An event or a link of a span that takes attributes; it is complete when it is dropped.
pub struct SpanPart<'a>(Option<&'a mut SpanRecord>);

impl<'a> SpanPart<'a> {
    fn open(open: Option<&'a mut OpenSpan>, write: impl FnOnce(&mut OpenSpan) -> bool) -> Self {
        Self(open.and_then(|open| write(open).then_some(&mut open.record)))
    }

    pub(super) fn event(open: Option<&'a mut OpenSpan>, name: &str) -> Self {
        Self::open(open, |open| open.record.open_event(name, open.clock.now()))
    }

    pub(super) fn event_with_time(open: Option<&'a mut OpenSpan>, name: &str, time: SystemTime) -> Self {
        Self::open(open, |open| open.record.open_event(name, unix_nanos(time)))
    }

    pub(super) fn link(open: Option<&'a mut OpenSpan>, context: &SpanContext) -> Self {
        let target = LinkTarget {
            trace_id: context.trace_id,
            span_id: context.span_id,
            is_remote: context.is_remote,
            trace_flags: context.flags,
            trace_state: context.tracestate(),
        };
        Self::open(open, |open| open.record.open_link(&target))
    }

    /// Sets an attribute in place: for a loop over many.
    #[inline]
    pub fn add<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) {
        if let Some(record) = &mut self.0 {
            record.set_in_part(key, value.into());
        }
    }

    /// Sets an attribute; the last value of a key counts.
    #[allow(clippy::return_self_not_must_use)]
    pub fn set<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Self {
        self.add(key, value);
        self
    }
}

// what was set may be anything, also a secret
impl fmt::Debug for SpanPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanPart").finish_non_exhaustive()
    }
}

impl Drop for SpanPart<'_> {
    fn drop(&mut self) {
        if let Some(record) = &mut self.0 {
            record.close_part();
        }
    }
}
