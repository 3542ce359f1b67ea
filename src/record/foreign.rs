//! Fields that only records of another SDK have: the number of items that the other SDK dropped, and unknown severities
//! and times.

use super::{LogEnd, LogRecord, Severity, SpanHead, SpanLimits, SpanRecord};

impl SpanRecord {
    /// Like [`begin`](Self::begin), but without limits.
    pub(crate) fn begin_foreign(&mut self, head: &SpanHead<'_>, max_bytes: usize) {
        // The other SDK has already applied its own limits.
        self.limit(&SpanLimits::of_each(u32::MAX), max_bytes);
        self.begin(head);
    }

    /// Adds the numbers of items that the other SDK dropped because of its limits. Must be the last call before the end
    /// of a span.
    pub(crate) fn add_dropped(&mut self, attributes: u32, events: u32, links: u32) {
        self.attributes.is_reset = false;
        self.attributes.dropped = self.attributes.dropped.saturating_add(attributes);
        self.dropped_events = self.dropped_events.saturating_add(events);
        self.dropped_links = self.dropped_links.saturating_add(links);
    }

    /// Ends the open event or link, from which the other SDK dropped this number of `attributes`.
    pub(crate) fn close_sub_message_with_dropped(&mut self, attributes: u32) {
        if let Some(part) = &mut self.attributes.sub_message {
            part.dropped = part.dropped.saturating_add(attributes);
        }
        self.close_sub_message();
    }
}

impl LogRecord {
    /// Like [`finish`](Self::finish), for a record whose severity may be unknown. A time of 0 means that the time is
    /// unknown.
    pub(crate) fn finish_foreign(&mut self, severity: Option<Severity>, end: &LogEnd) -> Option<&[u8]> {
        self.write_end(severity.map_or(0, Severity::number), None, end)
    }
}
