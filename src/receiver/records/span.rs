//! A span that was received, without its protobuf message.

use std::time::{Duration, SystemTime};

use super::value::{self, ReceivedValue};
use super::{ReceivedSpan, span_id, time, trace_id};
use crate::record::schema::{Event, Link};
use crate::record::{SpanId, SpanKind, Status, TraceId};

impl ReceivedSpan {
    /// The name.
    pub fn name(&self) -> &str {
        &self.span.name
    }

    /// The id of its trace; an [invalid](TraceId::is_valid) one if the sender's has not 16 bytes.
    pub fn trace_id(&self) -> TraceId {
        trace_id(&self.span.trace_id)
    }

    /// Its id; an [invalid](SpanId::is_valid) one if the sender's has not 8 bytes.
    pub fn span_id(&self) -> SpanId {
        span_id(&self.span.span_id)
    }

    /// The id of its parent; `None` for the root of a trace.
    pub fn parent_id(&self) -> Option<SpanId> {
        Some(span_id(&self.span.parent_span_id)).filter(|id| id.is_valid())
    }

    /// Its kind; one that is not given is internal.
    pub fn kind(&self) -> SpanKind {
        match self.span.kind {
            2 => SpanKind::Server,
            3 => SpanKind::Client,
            4 => SpanKind::Producer,
            5 => SpanKind::Consumer,
            _ => SpanKind::Internal,
        }
    }

    /// How it ended; `None` unless the program set a status.
    pub fn status(&self) -> Option<Status<'_>> {
        let status = self.span.status.as_ref()?;
        match status.code {
            1 => Some(Status::Ok),
            2 => Some(Status::Error(&status.message)),
            _ => None,
        }
    }

    /// When it started.
    pub fn start_time(&self) -> SystemTime {
        time(self.span.start_time_unix_nano)
    }

    /// When it ended.
    pub fn end_time(&self) -> SystemTime {
        time(self.span.end_time_unix_nano)
    }

    /// The time from start to end; zero for a span that ends before it starts.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.span.end_time_unix_nano.saturating_sub(self.span.start_time_unix_nano))
    }

    /// The value of the span's attribute `key`, to compare with what was set.
    ///
    /// ```
    /// # use standpipe::receiver::ReceivedSpan;
    /// fn is_checked(span: &ReceivedSpan) -> bool {
    ///     span.attribute("phases") == 2 && span.attribute("card") == "visa" && span.attribute("coupon").is_none()
    /// }
    /// ```
    pub fn attribute(&self, key: &str) -> ReceivedValue<'_> {
        ReceivedValue::find(&self.span.attributes, key)
    }

    /// All attributes of the span, in the order they were sent.
    pub fn attributes(&self) -> Vec<(&str, ReceivedValue<'_>)> {
        value::entries_of(&self.span.attributes)
    }

    /// Its events, in the order they were sent.
    pub fn events(&self) -> Vec<ReceivedEvent<'_>> {
        self.span.events.iter().map(ReceivedEvent).collect()
    }

    /// Its links, in the order they were sent.
    pub fn links(&self) -> Vec<ReceivedLink<'_>> {
        self.span.links.iter().map(ReceivedLink).collect()
    }
}

/// An event of a span. From [`ReceivedSpan::events`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedEvent<'a>(&'a Event);

impl<'a> ReceivedEvent<'a> {
    /// The name.
    pub fn name(self) -> &'a str {
        &self.0.name
    }

    /// When it happened.
    pub fn time(self) -> SystemTime {
        time(self.unix_nanos())
    }

    pub(super) fn unix_nanos(self) -> u64 {
        self.0.time_unix_nano
    }

    /// The value of the event's attribute `key`.
    pub fn attribute(self, key: &str) -> ReceivedValue<'a> {
        ReceivedValue::find(&self.0.attributes, key)
    }

    /// All attributes of the event, in the order they were sent.
    pub fn attributes(self) -> Vec<(&'a str, ReceivedValue<'a>)> {
        value::entries_of(&self.0.attributes)
    }
}

/// A link of a span to another. From [`ReceivedSpan::links`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedLink<'a>(&'a Link);

impl<'a> ReceivedLink<'a> {
    /// The trace of the other span.
    pub fn trace_id(self) -> TraceId {
        trace_id(&self.0.trace_id)
    }

    /// The id of the other span.
    pub fn span_id(self) -> SpanId {
        span_id(&self.0.span_id)
    }

    /// The value of the link's attribute `key`.
    pub fn attribute(self, key: &str) -> ReceivedValue<'a> {
        ReceivedValue::find(&self.0.attributes, key)
    }
}
