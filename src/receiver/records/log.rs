//! A log record that was received, without its protobuf message.

use std::time::SystemTime;

use super::value::{self, ReceivedValue};
use super::{ReceivedLog, span_id, time, trace_id};
use crate::record::{Severity, SpanId, TraceId};

impl ReceivedLog {
    /// The body, most often a text.
    ///
    /// ```
    /// use standpipe::Severity;
    /// use standpipe::receiver::TestTelemetry;
    ///
    /// let test = TestTelemetry::start();
    /// test.logger("shop").warn("declined").set("amount", 12.5).emit();
    /// let log = test.received().logs().remove(0);
    /// assert_eq!(log.body(), "declined");
    /// assert_eq!(log.severity(), Some(Severity::Warn));
    /// assert_eq!(log.attribute("amount"), 12.5);
    /// ```
    pub fn body(&self) -> ReceivedValue<'_> {
        ReceivedValue::of(self.log.body.as_ref())
    }

    /// How much it matters; `None` if the sender did not say.
    pub fn severity(&self) -> Option<Severity> {
        u8::try_from(self.log.severity_number).ok().and_then(Severity::from_number)
    }

    /// The severity as its source spells it.
    pub fn severity_text(&self) -> &str {
        &self.log.severity_text
    }

    /// The name of the event that it is; empty for other log records.
    pub fn event_name(&self) -> &str {
        &self.log.event_name
    }

    /// When it happened; when it was noticed, if the sender only knows that.
    pub fn time(&self) -> SystemTime {
        time(self.unix_nanos())
    }

    pub(super) fn unix_nanos(&self) -> u64 {
        match self.log.time_unix_nano {
            0 => self.log.observed_time_unix_nano,
            time => time,
        }
    }

    /// The trace that it belongs to, if any.
    pub fn trace_id(&self) -> Option<TraceId> {
        Some(trace_id(&self.log.trace_id)).filter(|id| id.is_valid())
    }

    /// The span that it belongs to, if any.
    pub fn span_id(&self) -> Option<SpanId> {
        Some(span_id(&self.log.span_id)).filter(|id| id.is_valid())
    }

    /// The value of the log record's attribute `key`.
    pub fn attribute(&self, key: &str) -> ReceivedValue<'_> {
        ReceivedValue::find(&self.log.attributes, key)
    }

    /// All attributes of the log record, in the order they were sent.
    pub fn attributes(&self) -> Vec<(&str, ReceivedValue<'_>)> {
        value::entries_of(&self.log.attributes)
    }
}
