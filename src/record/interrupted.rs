//! Completes a span that was open when its process died: it ends at the last known time of the process, with the
//! status `Error` and the attribute `standpipe.interrupted`.

use super::chunk::{RECORD, content};
use super::schema::tag::{Event as event, Span as tag, Status as status};
use super::schema::{self, Part};
use super::slot::{RESOURCE_TAG, SCOPE_TAG};
use super::span::head;
use super::wire::encode_field;
use super::{Signal, SpanId, frames};

/// The encoded `KeyValue` `standpipe.interrupted = true`.
const ATTRIBUTE: &[u8] = b"\x0a\x15standpipe.interrupted\x12\x02\x10\x01";
const MESSAGE: &[u8] = b"the process ended while the span was open";
const ERROR: [u8; 2] = [status::code, 2];
/// Flag of a sampled span.
const SAMPLED: u8 = 1;

/// The bytes of an open span, with the fields of its scope and resource.
pub(crate) struct InterruptedSpan {
    /// Fields of the resource; `None` if the exporter's resource applies.
    pub(crate) resource: Option<Vec<u8>>,
    pub(crate) scope: Vec<u8>,
    record: Vec<u8>,
}

impl InterruptedSpan {
    /// Reads a copy of an open span. Returns `None` if it is damaged.
    pub(crate) fn read(copy: &[u8]) -> Option<Self> {
        let (mut resource, mut at) = (None, 0);
        for frame in frames(copy) {
            at += frame.len();
            match (frame[0], content(frame)) {
                (RESOURCE_TAG, own) => resource = own,
                (SCOPE_TAG, Some(scope)) => {
                    let (resource, scope) = (resource.map(<[u8]>::to_vec), scope.to_vec());
                    let span = Self { resource, scope, record: copy[at..].to_vec() };
                    return span.is_whole().then_some(span);
                }
                _ => break,
            }
        }
        None
    }

    fn is_whole(&self) -> bool {
        let Some((head, fields)) = self.record.split_at_checked(head::LEN) else { return false };
        let tags = [(0, tag::trace_id), (head::TRACE_ID + 16, tag::span_id)];
        let has_tags = tags.iter().all(|(at, tag)| head[*at] == *tag);
        let is_valid = |part, bytes| schema::is_valid(part, Signal::Traces, bytes);
        has_tags
            // A truncated field would end the iteration early.
            && frames(fields).map(<[u8]>::len).sum::<usize>() == fields.len()
            && self.resource.as_deref().is_none_or(|resource| is_valid(Part::Resource, resource))
            && is_valid(Part::Scope, &self.scope)
            && is_valid(Part::Record, &self.record)
    }

    /// Returns whether the span is to be sent. A detached span is copied before its sampling is decided; if the process
    /// died before the decision, the span is not sent.
    pub(crate) fn is_sampled(&self) -> bool {
        self.record[head::FLAGS] & SAMPLED != 0
    }

    pub(crate) fn span_id(&self) -> SpanId {
        SpanId(self.bytes(head::SPAN_ID))
    }

    /// Returns the time of the start or of an event of the span, whichever is latest, in nanoseconds since 1970.
    pub(crate) fn last_time(&self) -> u64 {
        let start = u64::from_le_bytes(self.bytes(head::START_TIME));
        let events = frames(&self.record[head::LEN..]).filter(|field| field[0] == tag::events);
        let times = events.filter_map(|event| match content(event)? {
            [event::time_unix_nano, time @ ..] => time.first_chunk().map(|time| u64::from_le_bytes(*time)),
            _ => None,
        });
        times.fold(start, u64::max)
    }

    /// Returns the framed span, ended at this time.
    pub(crate) fn framed(&self, end: u64) -> Vec<u8> {
        let (head, fields) = self.record.split_at(head::LEN);
        let mut record = head.to_vec();
        record[head::END_TIME..][..8].copy_from_slice(&end.to_le_bytes());
        // The status of the interruption replaces the program's.
        let is_kept = |field: &&[u8]| field[0] != tag::status;
        frames(fields).filter(is_kept).for_each(|field| record.extend_from_slice(field));
        encode_field(tag::attributes, ATTRIBUTE, &mut record);
        let mut status = Vec::new();
        encode_field(status::message, MESSAGE, &mut status);
        status.extend(ERROR);
        encode_field(tag::status, &status, &mut record);
        let mut frame = Vec::new();
        encode_field(RECORD, &record, &mut frame);
        frame
    }

    fn bytes<const COUNT: usize>(&self, at: usize) -> [u8; COUNT] {
        self.record[at..].first_chunk().copied().unwrap_or([0; COUNT])
    }
}

/// Returns the id of a span that this library has written, from its frame.
pub(crate) fn span_id_of(frame: &[u8]) -> Option<SpanId> {
    Some(SpanId(*content(frame)?.get(head::SPAN_ID..)?.first_chunk()?))
}
