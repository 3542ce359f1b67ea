//! Encodes a span as OTLP `Span`, field by field while it is open.
//!
//! The first 54 bytes, the head, have fixed positions: identity, times, kind and flags can be overwritten in place. The
//! other fields follow in the order in which the program sets them, which protobuf permits.

use super::attribute_writer::AttributeWriter;
use super::buffer::{Buffer, field_len};
use super::copies::Copies;
use super::id::{SpanId, TraceId};
use super::key_filter::KeyBit;
use super::schema::tag::{Event as event, Link as link, Span as tag, Status as status};
use super::{SpanLimits, SpanRef, Value};

/// Bit of `SpanFlags`: the bit [`REMOTE`] is valid.
const REMOTE_KNOWN: u32 = 0x100;
/// Bit of `SpanFlags`: the context of the parent, or of the link's target, is remote.
const REMOTE: u32 = 0x200;

/// Offsets in the head of a record, whose length is fixed.
pub(super) mod head {
    pub(in crate::record) const LEN: usize = 54;
    pub(in crate::record) const TRACE_ID: usize = 2;
    pub(in crate::record) const SPAN_ID: usize = 20;
    pub(in crate::record) const START_TIME: usize = 29;
    pub(in crate::record) const END_TIME: usize = 38;
    pub(in crate::record) const KIND: usize = 47;
    pub(in crate::record) const FLAGS: usize = 50;
}

/// The head of a record, with the tags and lengths that all heads share.
const HEAD: [u8; head::LEN] = {
    let mut fixed = [0; head::LEN];
    [fixed[head::TRACE_ID - 2], fixed[head::TRACE_ID - 1]] = [tag::trace_id, 16];
    [fixed[head::SPAN_ID - 2], fixed[head::SPAN_ID - 1]] = [tag::span_id, 8];
    fixed[head::START_TIME - 1] = tag::start_time_unix_nano;
    fixed[head::END_TIME - 1] = tag::end_time_unix_nano;
    fixed[head::KIND - 1] = tag::kind;
    [fixed[head::FLAGS - 2], fixed[head::FLAGS - 1]] = [tag::flags, 1];
    fixed
};

/// The role of a span in a trace. The specification defines exactly these five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SpanKind {
    /// An operation inside the program.
    #[default]
    Internal = 1,
    /// Handles a request from a remote client.
    Server = 2,
    /// Sends a request and waits for the response.
    Client = 3,
    /// Sends a message that a consumer processes later.
    Producer = 4,
    /// Processes a message that another program sent.
    Consumer = 5,
}

impl SpanKind {
    /// Returns the kind with this number of the protocol; `Internal` for an unknown number.
    #[cfg(any(feature = "ffi", feature = "receiver"))]
    pub(crate) fn from_number(number: i32) -> Self {
        let others = [Self::Server, Self::Client, Self::Producer, Self::Consumer];
        others.into_iter().find(|kind| *kind as i32 == number).unwrap_or_default()
    }
}

/// The outcome of a span. `Ok` is final; an error can be replaced by a later error or by `Ok`. The specification lets a
/// program set only these two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status<'a> {
    /// The operation succeeded, even if errors were recorded.
    Ok,
    /// The operation failed, for this reason.
    Error(&'a str),
}

/// The properties of a span that are known at its start.
#[derive(Clone, Copy)]
pub(crate) struct SpanHead<'a> {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) parent_is_remote: bool,
    pub(crate) trace_flags: u8,
    pub(crate) trace_state: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: SpanKind,
    pub(crate) start: u64,
}

/// The span to which a link points, or the parent that a span gets after its start.
pub(crate) struct OtherSpan<'a> {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) is_remote: bool,
    /// For a link: the trace flags of its target. For a parent: the new trace flags of the span that gets the parent.
    pub(crate) trace_flags: u8,
    pub(crate) trace_state: &'a str,
}

/// The bytes of a span and the state needed until its end. Reused by [`begin`](SpanRecord::begin).
#[derive(Default)]
pub(crate) struct SpanRecord {
    pub(super) attributes: AttributeWriter,
    limits: SpanLimits,
    /// The code of the status that was set last.
    status: u8,
    start: u64,
    events: u32,
    links: u32,
    pub(super) dropped_events: u32,
    pub(super) dropped_links: u32,
    /// Copies from which the next process recovers the span if this process dies before the span ends.
    pub(super) copies: Option<Box<Copies>>,
}

/// Status codes of OTLP. 0 means that no status is set.
const OK: u8 = 1;
const ERROR: u8 = 2;

impl SpanRecord {
    /// Sets the limits of the next spans, and the maximum size of each.
    pub(crate) fn limit(&mut self, limits: &SpanLimits, max_bytes: usize) {
        self.attributes.limit(max_bytes, limits.value_length);
        self.limits = *limits;
    }

    pub(crate) fn free(&mut self) {
        *self = Self { copies: self.copies.take(), ..Self::default() };
    }

    /// Starts a new span in the old storage.
    #[inline(always)]
    pub(crate) fn begin(&mut self, head: &SpanHead<'_>) {
        if !self.attributes.is_reset {
            return self.begin_anew(&{ *head });
        }
        self.attributes.begin_again();
        self.start = head.start;
        self.write_head(head);
    }

    /// Starts a new span if the previous span in this storage has changed state that the fast path does not reset.
    #[inline(never)]
    fn begin_anew(&mut self, head: &SpanHead<'_>) {
        self.attributes.begin(tag::attributes, self.limits.attributes, head::LEN);
        self.status = 0;
        self.start = head.start;
        (self.events, self.links) = (0, 0);
        (self.dropped_events, self.dropped_links) = (0, 0);
        self.write_head(head);
        if self.copies.is_some() {
            self.attributes.is_reset = false;
            self.begin_copies();
        }
    }

    #[inline(always)]
    fn write_head(&mut self, head: &SpanHead<'_>) {
        if !self.write_short_head(head) {
            // Passes a copy, so that the optimizer can keep the head itself in registers.
            self.write_any_head(&{ *head });
        }
    }

    /// Writes a head with a short name and no tracestate, if it fits without growing the buffer (the fast path).
    #[inline(always)]
    fn write_short_head(&mut self, head: &SpanHead<'_>) -> bool {
        let SpanHead { parent, trace_state: "", name, .. } = *head else { return false };
        if !matches!(name.len(), 1..0x80) {
            return false;
        }
        let between = if parent.is_some() { 12 } else { 2 };
        let Some(mut out) = self.attributes.buffer.claim_ready(head::LEN + between + name.len()) else {
            return false;
        };
        write_fixed(head, out.chunk());
        let name_field = [tag::name, name.len() as u8];
        match parent {
            Some(parent) => {
                let field: &mut [u8; 12] = out.chunk();
                field[..2].copy_from_slice(&[tag::parent_span_id, 8]);
                field[2..10].copy_from_slice(&parent.0);
                field[10..].copy_from_slice(&name_field);
            }
            None => *out.chunk() = name_field,
        }
        out.put_short(name.as_bytes());
        true
    }

    #[inline(never)]
    fn write_any_head(&mut self, head: &SpanHead<'_>) {
        let parent = head.parent.as_ref().map_or(&[][..], |parent| &parent.0);
        let fields = [
            (tag::parent_span_id, parent),
            (tag::trace_state, head.trace_state.as_bytes()),
            (tag::name, head.name.as_bytes()),
        ];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let len: usize = fields.clone().map(|(_, value)| field_len(value.len())).sum();
        let Some(mut out) = self.attributes.buffer.claim(head::LEN + len) else { return };
        write_fixed(head, out.chunk());
        fields.for_each(|(tag, value)| out.field(*tag, value));
    }

    /// For a span that has just begun, returns the `COUNT` bytes of storage from the start of its name on; `None` if
    /// the storage ends earlier.
    #[inline(always)]
    pub(crate) fn begun_name<const COUNT: usize>(&self, head: &SpanHead<'_>) -> Option<&[u8; COUNT]> {
        // The name is the last field of every head.
        let buffer = &self.attributes.buffer;
        buffer.storage_from(buffer.position().checked_sub(head.name.len())?)
    }

    /// Changes the parent of a span after its start, and with it the trace id, the flags and the trace state.
    pub(crate) fn set_parent(&mut self, parent: &OtherSpan<'_>) {
        self.write_over(head::TRACE_ID, parent.trace_id.0);
        self.write_over(head::FLAGS, flags(parent.trace_flags, parent.is_remote).to_le_bytes());
        // Only the trace state may shrink. It is replaced first, so the record does not outgrow its limit in between.
        self.attributes.replace_field(tag::trace_state, parent.trace_state.as_bytes());
        self.attributes.replace_field(tag::parent_span_id, &parent.span_id.0);
        self.update_copies();
    }

    /// Changes the ids, the trace flags and the trace state of a span after its start.
    pub(crate) fn set_identity(&mut self, span: &SpanRef, trace_state: &str) {
        self.write_over(head::TRACE_ID, span.trace_id.0);
        self.write_over(head::SPAN_ID, span.span_id.0);
        // Overwrites only the first byte of the flags: the other bytes say whether the parent is remote.
        self.write_over(head::FLAGS, [span.trace_flags]);
        self.attributes.replace_field(tag::trace_state, trace_state.as_bytes());
        self.update_copies();
    }

    /// Renames the span. Returns `COUNT` bytes of storage that start with the name; `None` if there are fewer, if the
    /// name becomes empty, or if the record outgrows its limit.
    pub(crate) fn set_name<const COUNT: usize>(&mut self, name: &str) -> Option<&[u8; COUNT]> {
        let end = self.attributes.replace_field(tag::name, name.as_bytes());
        self.update_copies();
        self.attributes.buffer.storage_from(end?.checked_sub(name.len())?)
    }

    /// Overwrites bytes of the head.
    #[inline]
    fn write_over<const COUNT: usize>(&mut self, place: usize, bytes: [u8; COUNT]) {
        if let Some(written) = self.attributes.buffer.written(Buffer::START + place) {
            *written = bytes;
        }
    }

    /// Like [`set`](Self::set), with the fast path inlined at the call site: for literal keys.
    #[inline(always)]
    pub(crate) fn set_inlined(&mut self, key: &str, value: Value<'_>) {
        match self.attributes.tasks {
            0 => self.attributes.put_inlined(tag::attributes, key, value),
            _ => self.set_with_tasks(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        match self.attributes.tasks {
            0 => self.attributes.put(key, value),
            _ => self.set_with_tasks(key, value),
        }
    }

    #[inline(always)]
    fn set_with_tasks(&mut self, key: &str, value: Value<'_>) {
        let bit = KeyBit::of(key.as_bytes());
        match value {
            Value::Str(text) => self.set_text(key, bit, text),
            Value::Int(number) => self.set_int(key, bit, number),
            other => self.set_any(key, bit, other),
        }
    }

    // The slow path for records with `tasks`: one function for each frequent kind of value.

    #[inline(never)]
    fn set_text(&mut self, key: &str, bit: KeyBit, text: &str) {
        self.close_sub_message();
        self.attributes.put_text(key, bit, text);
        self.update_copies();
    }

    #[inline(never)]
    fn set_int(&mut self, key: &str, bit: KeyBit, number: i64) {
        self.close_sub_message();
        self.attributes.put_int(key, bit, number);
        self.update_copies();
    }

    #[inline(never)]
    fn set_any(&mut self, key: &str, bit: KeyBit, value: Value<'_>) {
        self.close_sub_message();
        self.attributes.put_hashed(key, bit, value);
        self.update_copies();
    }

    pub(crate) fn set_kind(&mut self, kind: SpanKind) {
        self.close_sub_message();
        self.write_over(head::KIND, [kind as u8]);
        self.update_copies();
    }

    pub(crate) fn set_status(&mut self, status: Status<'_>) {
        match self.status {
            // OpenTelemetry: `Ok` is final, and replaces an error. A later error replaces an earlier one.
            OK => return,
            ERROR => self.attributes.take_back(tag::status),
            _ => self.close_sub_message(),
        }
        let (code, message) = match status {
            Status::Ok => (OK, ""),
            Status::Error(message) => (ERROR, message),
        };
        self.status = code;
        self.attributes.is_reset = false;
        let message_len = if message.is_empty() { 0 } else { field_len(message.len()) };
        let Some(mut out) = self.attributes.buffer.claim(field_len(message_len + 2)) else { return };
        out.byte(tag::status);
        out.varint(message_len as u64 + 2);
        if message_len > 0 {
            out.field(status::message, message.as_bytes());
        }
        out.put(&[status::code, code]);
        self.update_copies();
    }

    pub(crate) fn has_status(&self) -> bool {
        self.status != 0
    }

    /// Opens an event. Returns false if the span has the maximum number of events, or outgrows its limit.
    pub(crate) fn open_event(&mut self, name: &str, time: u64) -> bool {
        self.close_sub_message();
        self.attributes.is_reset = false;
        if self.events >= self.limits.events {
            self.dropped_events += 1;
            return false;
        }
        self.events += 1;
        self.write_event(name, time).is_some()
    }

    /// Writes the fixed fields of an event; `None` if the record outgrows its limit.
    fn write_event(&mut self, name: &str, time: u64) -> Option<()> {
        let nested = self.attributes.buffer.open(tag::events)?;
        let name_len = if name.is_empty() { 0 } else { field_len(name.len()) };
        let mut out = self.attributes.buffer.claim(9 + name_len)?;
        out.byte(event::time_unix_nano);
        out.fixed64(time);
        if name_len > 0 {
            out.field(event::name, name.as_bytes());
        }
        let (tag, dropped_tag) = (event::attributes, event::dropped_attributes_count);
        self.attributes.open_sub_message(nested, tag, self.limits.event_attributes, dropped_tag);
        Some(())
    }

    /// Opens a link. Returns false if the span has the maximum number of links, or outgrows its limit.
    pub(crate) fn open_link(&mut self, target: &OtherSpan<'_>) -> bool {
        self.close_sub_message();
        self.attributes.is_reset = false;
        if self.links >= self.limits.links {
            self.dropped_links += 1;
            return false;
        }
        self.links += 1;
        self.write_link(target).is_some()
    }

    /// Writes the fixed fields of a link; `None` if the record outgrows its limit.
    fn write_link(&mut self, target: &OtherSpan<'_>) -> Option<()> {
        let nested = self.attributes.buffer.open(tag::links)?;
        let state_len = if target.trace_state.is_empty() { 0 } else { field_len(target.trace_state.len()) };
        // Trace id, span id and state with tag and length, and the flags with a tag.
        let mut out = self.attributes.buffer.claim(18 + 10 + state_len + 5)?;
        out.field(link::trace_id, &target.trace_id.0);
        out.field(link::span_id, &target.span_id.0);
        if state_len > 0 {
            out.field(link::trace_state, target.trace_state.as_bytes());
        }
        out.byte(link::flags);
        out.put(&flags(target.trace_flags, target.is_remote).to_le_bytes());
        let (tag, dropped_tag) = (link::attributes, link::dropped_attributes_count);
        self.attributes.open_sub_message(nested, tag, self.limits.link_attributes, dropped_tag);
        Some(())
    }

    /// Sets an attribute of the open event or link, if there is one.
    #[inline(always)]
    pub(crate) fn set_in_sub_message(&mut self, key: &str, value: Value<'_>) {
        self.attributes.set_in_sub_message(key, value);
    }

    /// Ends the open event or link: closes it now if the span is copied; otherwise the next write closes it.
    #[inline]
    pub(crate) fn end_sub_message(&mut self) {
        if self.attributes.is_copied() {
            self.copy_sub_message();
        }
    }

    #[inline]
    pub(super) fn close_sub_message(&mut self) {
        self.attributes.close_sub_message();
    }

    /// Ends the span and returns its framed bytes; `None` if it is too large to ever be sent.
    #[inline(always)]
    pub(crate) fn finish(&mut self, end: u64) -> Option<&[u8]> {
        if !self.attributes.is_reset {
            self.complete();
        }
        // The end must not precede the start, even if the clock was set back: collectors reject such spans.
        self.write_over(head::END_TIME, end.max(self.start).to_le_bytes());
        self.attributes.buffer.framed()
    }

    /// Closes the open event or link, and writes the numbers of dropped items.
    #[inline(never)]
    fn complete(&mut self) {
        self.close_sub_message();
        self.attributes.write_count(tag::dropped_attributes_count, self.attributes.dropped);
        self.attributes.write_count(tag::dropped_events_count, self.dropped_events);
        self.attributes.write_count(tag::dropped_links_count, self.dropped_links);
    }

    /// Returns the size of the storage that the record keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.attributes.capacity()
    }
}

/// Writes the head: the tags and lengths that all heads share, and the values of this span.
#[inline(always)]
fn write_fixed(head: &SpanHead<'_>, fixed: &mut [u8; head::LEN]) {
    *fixed = HEAD;
    fixed[head::TRACE_ID..][..16].copy_from_slice(&head.trace_id.0);
    fixed[head::SPAN_ID..][..8].copy_from_slice(&head.span_id.0);
    fixed[head::START_TIME..][..8].copy_from_slice(&head.start.to_le_bytes());
    fixed[head::KIND] = head.kind as u8;
    fixed[head::FLAGS..].copy_from_slice(&flags(head.trace_flags, head.parent_is_remote).to_le_bytes());
}

#[inline]
fn flags(trace_flags: u8, is_remote: bool) -> u32 {
    u32::from(trace_flags) | REMOTE_KNOWN | if is_remote { REMOTE } else { 0 }
}

#[cfg(test)]
mod tests;
