//! Copies of an open span in memory that survives the process: one in the file of each flight recorder (see
//! `spool/recorder`). The scope of the span precedes each copy.
//!
//! A change that only appends at most [`STROKE`] bytes is repeated in the copies. Any other change writes the whole
//! record to a second copy and then switches to it, so that a process that dies in between leaves a complete copy.

use std::sync::Arc;

use super::Scope;
use super::buffer::Buffer;
use super::slot::OpenSpanSlot;
use super::span::SpanRecord;

/// Number of bytes that are written to a copy at once. A constant length needs neither a loop nor a call.
pub(super) const STROKE: usize = 64;

/// The slots of a span, one per flight recorder. Usually there is one.
pub(super) struct Copies {
    first: OpenSpanSlot,
    others: Vec<OpenSpanSlot>,
    scope: Option<Arc<Scope>>,
}

impl Copies {
    /// Makes empty copies in these slots, or returns `None` if there are no slots.
    pub(super) fn new(mut slots: Vec<OpenSpanSlot>) -> Option<Self> {
        Some(Self { first: slots.pop()?, others: slots, scope: None })
    }

    /// Sets the scope of the next spans.
    pub(super) fn set_scope(&mut self, scope: &Arc<Scope>) {
        self.scope = Some(Arc::clone(scope));
        self.first.forget_header();
        self.others.iter_mut().for_each(OpenSpanSlot::forget_header);
    }

    /// Copies the new bytes of a record, or the whole record. If the record is too large, the copies stay as they
    /// were.
    #[inline(always)]
    pub(super) fn update(&mut self, record: &mut Buffer) {
        match self.append(record) {
            true => record.set_copied(true),
            false => self.replace(record),
        }
    }

    /// The fast path: appends the new bytes. Returns false if there are too many, or if earlier bytes have changed.
    #[inline(always)]
    fn append(&mut self, record: &Buffer) -> bool {
        let Some((bytes, count)) = record.new_bytes() else { return false };
        let is_only = self.others.is_empty();
        self.first.append(bytes, count) && (is_only || self.append_to_others(bytes, count))
    }

    #[cold]
    fn append_to_others(&mut self, bytes: &[u8; STROKE], count: u32) -> bool {
        self.others.iter_mut().all(|slot| slot.append(bytes, count))
    }

    /// Copies the whole record and, in front of it, the header with its scope.
    #[inline(never)]
    pub(super) fn replace(&mut self, record: &mut Buffer) {
        // A record that has outgrown its limit lacks a part and is never sent, so the last complete copy is kept.
        let Some(scope) = self.scope.as_ref().filter(|_| !record.has_outgrown()) else { return };
        let is_copied = self.first.replace(scope.run_header(), record.bytes(Buffer::START));
        record.set_copied(is_copied);
        if !self.others.is_empty() {
            self.replace_others(record);
        }
    }

    #[cold]
    fn replace_others(&mut self, record: &Buffer) {
        let Some(scope) = &self.scope else { return };
        let (run_header, record) = (scope.run_header(), record.bytes(Buffer::START));
        self.others.iter_mut().for_each(|slot| _ = slot.replace(run_header, record));
    }

    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.others.iter_mut().for_each(OpenSpanSlot::clear);
    }
}

impl SpanRecord {
    /// Copies open spans to these slots from now on. The scope must be set next.
    pub(crate) fn copy_to(&mut self, slots: Vec<OpenSpanSlot>) {
        self.copies = Copies::new(slots).map(Box::new);
        self.attributes.is_reset = false;
    }

    /// Sets the scope of the next spans.
    pub(crate) fn set_scope(&mut self, scope: &Arc<Scope>) {
        if let Some(copies) = &mut self.copies {
            copies.set_scope(scope);
        }
    }

    /// Stops copying, so that several changes are copied together by [`resume_copies`](Self::resume_copies).
    #[inline(always)]
    pub(crate) fn pause_copies(&mut self) {
        self.attributes.set_copied(false);
    }

    /// Copies the changes since [`pause_copies`](Self::pause_copies) and, from now on, every change.
    #[inline(always)]
    pub(crate) fn resume_copies(&mut self) {
        if self.copies.is_some() {
            self.attributes.set_copied(true);
            self.end_sub_message();
        }
    }

    #[inline(never)]
    pub(super) fn begin_copies(&mut self) {
        if let Some(copies) = &mut self.copies {
            self.attributes.set_copied(true);
            copies.replace(&mut self.attributes.buffer);
        }
    }

    #[inline]
    pub(super) fn update_copies(&mut self) {
        if self.attributes.is_copied() {
            self.write_copies();
        }
    }

    #[inline(always)]
    pub(super) fn write_copies(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.update(&mut self.attributes.buffer);
        }
    }

    /// Clears the copies, because the span has ended and its record was enqueued.
    #[inline(always)]
    pub(crate) fn clear_copies(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.clear();
            self.attributes.set_copied(false);
        }
    }

    #[inline(never)]
    pub(super) fn copy_sub_message(&mut self) {
        self.close_sub_message();
        self.write_copies();
    }
}
