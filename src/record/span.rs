//! A span, written as OTLP `Span` while it is open.

use super::buffer::{Buffer, field_len};
use super::id::{SpanId, TraceId};
use super::keyed::{Keyed, PartRules, Rules};
use super::{SpanLimits, Value};

/// Tags of `Span`.
mod tag {
    pub(super) const TRACE_ID: u8 = 0x0a;
    pub(super) const SPAN_ID: u8 = 0x12;
    pub(super) const TRACE_STATE: u8 = 0x1a;
    pub(super) const PARENT_SPAN_ID: u8 = 0x22;
    pub(super) const NAME: u8 = 0x2a;
    pub(super) const KIND: u8 = 0x30;
    pub(super) const START_TIME: u8 = 0x39;
    pub(super) const END_TIME: u8 = 0x41;
    pub(super) const ATTRIBUTE: u8 = 0x4a;
    pub(super) const DROPPED_ATTRIBUTES: u8 = 0x50;
    pub(super) const EVENT: u8 = 0x5a;
    pub(super) const DROPPED_EVENTS: u8 = 0x60;
    pub(super) const LINK: u8 = 0x6a;
    pub(super) const DROPPED_LINKS: u8 = 0x70;
    pub(super) const STATUS: u8 = 0x7a;
    pub(super) const FLAGS: [u8; 2] = [0x85, 0x01];

    pub(super) mod event {
        pub(in super::super) const TIME: u8 = 0x09;
        pub(in super::super) const NAME: u8 = 0x12;
        pub(in super::super) const ATTRIBUTE: u8 = 0x1a;
        pub(in super::super) const DROPPED_ATTRIBUTES: u8 = 0x20;
    }

    pub(super) mod link {
        pub(in super::super) const TRACE_ID: u8 = 0x0a;
        pub(in super::super) const SPAN_ID: u8 = 0x12;
        pub(in super::super) const TRACE_STATE: u8 = 0x1a;
        pub(in super::super) const ATTRIBUTE: u8 = 0x22;
        pub(in super::super) const DROPPED_ATTRIBUTES: u8 = 0x28;
        pub(in super::super) const FLAGS: u8 = 0x35;
    }

    pub(super) mod status {
        pub(in super::super) const MESSAGE: u8 = 0x12;
        pub(in super::super) const CODE: u8 = 0x18;
    }
}

/// `SpanFlags`: whether a parent or linked context is remote is known, and that it is.
const REMOTE_KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;

/// The fields of a span that can be replaced.
const STATUS: usize = 0;
const NAME: usize = 1;
const PARENT: usize = 2;
const TRACE_STATE: usize = 3;

/// The start of a record, which is always the same long.
mod head {
    pub(super) const LEN: usize = 43;
    pub(super) const TRACE_ID: usize = 2;
    pub(super) const FLAGS: usize = 39;
}

/// The role of a span among its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SpanKind {
    /// Work inside the program.
    #[default]
    Internal = 1,
    /// Handles a request from elsewhere.
    Server = 2,
    /// Makes a request and waits for its answer.
    Client = 3,
    /// Leaves a message for others.
    Producer = 4,
    /// Handles a message left by others.
    Consumer = 5,
}

/// How a span ended. `Ok` is final; an error can be replaced by a later error or by `Ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<'a> {
    /// The program says that it went well, whatever else was noted.
    Ok,
    /// It failed; the text says why.
    Error(&'a str),
}

/// What is known when a span starts.
pub(crate) struct SpanHead<'a> {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) parent_is_remote: bool,
    pub(crate) trace_flags: u8,
    pub(crate) trace_state: &'a str,
    pub(crate) name: &'a str,
    pub(crate) start: u64,
}

/// Whose child a span becomes after its start.
pub(crate) struct NewParent<'a> {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) is_remote: bool,
    /// Of the span itself.
    pub(crate) trace_flags: u8,
    pub(crate) trace_state: &'a str,
}

/// What a link points at.
pub(crate) struct LinkTarget<'a> {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) is_remote: bool,
    pub(crate) trace_flags: u8,
    pub(crate) trace_state: &'a str,
}

/// A span's bytes and what must be remembered until its end. Reused by [`begin`](SpanRecord::begin).
#[derive(Debug, Default)]
pub(crate) struct SpanRecord {
    pub(super) keyed: Keyed,
    limits: SpanLimits,
    kind: SpanKind,
    /// The status is final.
    is_ok: bool,
    start: u64,
    events: u32,
    links: u32,
    pub(super) dropped_events: u32,
    pub(super) dropped_links: u32,
}

impl SpanRecord {
    /// Starts a new span in the old storage.
    #[inline]
    pub(crate) fn begin(&mut self, head: &SpanHead<'_>, limits: &SpanLimits, max_bytes: usize) {
        let rules = Rules { tag: tag::ATTRIBUTE, most: limits.attributes, value_length: limits.value_length };
        self.keyed.begin(rules, max_bytes);
        self.limits = *limits;
        self.kind = SpanKind::Internal;
        self.is_ok = false;
        self.start = head.start;
        (self.events, self.links) = (0, 0);
        (self.dropped_events, self.dropped_links) = (0, 0);
        self.write_head(head);
    }

    #[inline]
    fn write_head(&mut self, head: &SpanHead<'_>) {
        let parent_len = if head.parent.is_some() { 10 } else { 0 };
        let state_len = if head.trace_state.is_empty() { 0 } else { field_len(head.trace_state.len()) };
        let name_len = if head.name.is_empty() { 0 } else { field_len(head.name.len()) };
        let parent_at = self.keyed.buffer.position() + head::LEN;
        let state_at = parent_at + parent_len;
        let name_at = state_at + state_len;
        let Some(mut out) = self.keyed.buffer.claim(head::LEN + parent_len + state_len + name_len) else {
            return;
        };
        let fixed: &mut [u8; head::LEN] = out.chunk();
        fixed[..2].copy_from_slice(&[tag::TRACE_ID, 16]);
        fixed[head::TRACE_ID..18].copy_from_slice(&head.trace_id.0);
        fixed[18..20].copy_from_slice(&[tag::SPAN_ID, 8]);
        fixed[20..28].copy_from_slice(&head.span_id.0);
        fixed[28] = tag::START_TIME;
        fixed[29..37].copy_from_slice(&head.start.to_le_bytes());
        fixed[37..39].copy_from_slice(&tag::FLAGS);
        fixed[head::FLAGS..].copy_from_slice(&flags(head.trace_flags, head.parent_is_remote).to_le_bytes());
        if let Some(parent) = head.parent {
            let field: &mut [u8; 10] = out.chunk();
            field[..2].copy_from_slice(&[tag::PARENT_SPAN_ID, 8]);
            field[2..].copy_from_slice(&parent.0);
        }
        if state_len > 0 {
            out.field(tag::TRACE_STATE, head.trace_state.as_bytes());
        }
        if name_len > 0 {
            out.field(tag::NAME, head.name.as_bytes());
        }
        if parent_len > 0 {
            self.keyed.note(PARENT, parent_at);
        }
        if state_len > 0 {
            self.keyed.note(TRACE_STATE, state_at);
        }
        if name_len > 0 {
            self.keyed.note(NAME, name_at);
        }
    }

    /// Makes the span a child of another one than it was begun as.
    pub(crate) fn set_parent(&mut self, parent: &NewParent<'_>) {
        self.keyed.close_part();
        let start = Buffer::START;
        if let Some(trace_id) = self.keyed.buffer.written(start + head::TRACE_ID) {
            *trace_id = parent.trace_id.0;
        }
        if let Some(bytes) = self.keyed.buffer.written(start + head::FLAGS) {
            *bytes = flags(parent.trace_flags, parent.is_remote).to_le_bytes();
        }
        self.set_text(PARENT, tag::PARENT_SPAN_ID, &parent.span_id.0);
        self.set_text(TRACE_STATE, tag::TRACE_STATE, parent.trace_state.as_bytes());
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.set_text(NAME, tag::NAME, name.as_bytes());
    }

    /// Nothing is left of a field whose new value is empty.
    fn set_text(&mut self, place: usize, tag: u8, text: &[u8]) {
        if text.is_empty() {
            return self.keyed.take_back(place);
        }
        if let Some(mut out) = self.keyed.replace(place, field_len(text.len())) {
            out.field(tag, text);
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        self.keyed.set(key, value);
    }

    pub(crate) fn set_kind(&mut self, kind: SpanKind) {
        self.kind = kind;
    }

    pub(crate) fn set_status(&mut self, status: Status<'_>) {
        if self.is_ok {
            return;
        }
        let (code, message) = match status {
            Status::Ok => (1, ""),
            Status::Error(message) => (2, message),
        };
        let message_len = if message.is_empty() { 0 } else { field_len(message.len()) };
        let Some(mut out) = self.keyed.replace(STATUS, field_len(message_len + 2)) else { return };
        out.byte(tag::STATUS);
        out.varint(message_len as u64 + 2);
        if message_len > 0 {
            out.field(tag::status::MESSAGE, message.as_bytes());
        }
        out.put(&[tag::status::CODE, code]);
        self.is_ok = status == Status::Ok;
    }

    /// Whether somebody has said how it went.
    #[cfg(feature = "tracing")]
    pub(crate) fn has_status(&self) -> bool {
        self.keyed.has(STATUS)
    }

    /// Opens an event; false when the span has as many as it may.
    pub(crate) fn open_event(&mut self, name: &str, time: u64) -> bool {
        self.close_part();
        if self.events >= self.limits.events {
            self.dropped_events += 1;
            return false;
        }
        self.events += 1;
        self.write_event(name, time).is_some()
    }

    /// `None` if there is no room for it.
    fn write_event(&mut self, name: &str, time: u64) -> Option<()> {
        let nested = self.keyed.buffer.open(tag::EVENT)?;
        let name_len = if name.is_empty() { 0 } else { field_len(name.len()) };
        let mut out = self.keyed.buffer.claim(9 + name_len)?;
        out.byte(tag::event::TIME);
        out.fixed64(time);
        if name_len > 0 {
            out.field(tag::event::NAME, name.as_bytes());
        }
        let (tag, dropped_tag) = (tag::event::ATTRIBUTE, tag::event::DROPPED_ATTRIBUTES);
        self.keyed.open_part(nested, PartRules { tag, most: self.limits.event_attributes, dropped_tag });
        Some(())
    }

    /// Opens a link; false when the span has as many as it may.
    pub(crate) fn open_link(&mut self, target: &LinkTarget<'_>) -> bool {
        self.close_part();
        if self.links >= self.limits.links {
            self.dropped_links += 1;
            return false;
        }
        self.links += 1;
        self.write_link(target).is_some()
    }

    /// `None` if there is no room for it.
    fn write_link(&mut self, target: &LinkTarget<'_>) -> Option<()> {
        let nested = self.keyed.buffer.open(tag::LINK)?;
        let state_len = if target.trace_state.is_empty() { 0 } else { field_len(target.trace_state.len()) };
        let mut out = self.keyed.buffer.claim(18 + 10 + state_len + 5)?;
        out.field(tag::link::TRACE_ID, &target.trace_id.0);
        out.field(tag::link::SPAN_ID, &target.span_id.0);
        if state_len > 0 {
            out.field(tag::link::TRACE_STATE, target.trace_state.as_bytes());
        }
        out.byte(tag::link::FLAGS);
        out.fixed32(flags(target.trace_flags, target.is_remote));
        let (tag, dropped_tag) = (tag::link::ATTRIBUTE, tag::link::DROPPED_ATTRIBUTES);
        self.keyed.open_part(nested, PartRules { tag, most: self.limits.link_attributes, dropped_tag });
        Some(())
    }

    /// Sets an attribute of the event or link that is open.
    pub(crate) fn set_in_part(&mut self, key: &str, value: Value<'_>) {
        self.keyed.set_in_part(key, value);
    }

    /// Ends the event or link that is open.
    #[inline]
    pub(crate) fn close_part(&mut self) {
        self.keyed.close_part();
    }

    /// Ends the span and gives its framed bytes; `None` if it has outgrown what can ever be sent.
    #[inline]
    pub(crate) fn finish(&mut self, end: u64) -> Option<&[u8]> {
        self.close_part();
        if let Some(mut out) = self.keyed.buffer.claim(11) {
            out.put(&[tag::KIND, self.kind as u8, tag::END_TIME]);
            // a clock set back must not make a span that collectors refuse
            out.fixed64(end.max(self.start));
        }
        self.keyed.write_count(tag::DROPPED_ATTRIBUTES, self.keyed.dropped());
        self.keyed.write_count(tag::DROPPED_EVENTS, self.dropped_events);
        self.keyed.write_count(tag::DROPPED_LINKS, self.dropped_links);
        self.keyed.framed()
    }

    /// How much storage the record holds on to.
    pub(crate) fn capacity(&self) -> usize {
        self.keyed.capacity()
    }
}

fn flags(trace_flags: u8, is_remote: bool) -> u32 {
    u32::from(trace_flags) | REMOTE_KNOWN | if is_remote { REMOTE } else { 0 }
}

#[cfg(test)]
mod tests;
