//! Where is a span found if its process dies before its end? In a place of each flight recorder, with its scope in front.

use std::sync::Arc;

use super::Scope;
use super::buffer::Buffer;
use super::slot::OpenSpanSlot;
use super::span::SpanRecord;

/// What is appended to a copy at once.
pub(super) const STROKE: usize = 64;

/// The places of a span that survive the process, one for each flight recorder: mostly there is one.
#[derive(Debug)]
pub(super) struct Copies {
    first: OpenSpanSlot,
    others: Vec<OpenSpanSlot>,
    scope: Option<Arc<Scope>>,
}

impl Copies {
    /// `None` if there is no place.
    pub(super) fn new(mut slots: Vec<OpenSpanSlot>) -> Option<Self> {
        Some(Self { first: slots.pop()?, others: slots, scope: None })
    }

    /// The next spans are of this scope.
    pub(super) fn set_scope(&mut self, scope: &Arc<Scope>) {
        self.scope = Some(Arc::clone(scope));
        self.first.forget_header();
        self.others.iter_mut().for_each(OpenSpanSlot::forget_header);
    }

    /// Copies what is new in a record, or all of it. Of one that is too large the copies stay as they were.
    #[inline(always)]
    pub(super) fn update(&mut self, record: &mut Buffer) {
        match self.append(record) {
            true => record.set_copied(true),
            false => self.replace(record),
        }
    }

    /// The fast path: little is new, and nothing else has changed. False if not.
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

    /// Copies all of a record, behind its scope.
    #[inline(never)]
    pub(super) fn replace(&mut self, record: &mut Buffer) {
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
    /// From now on spans survive the process in these places while they are open. Their scope is to be set.
    pub(crate) fn copy_to(&mut self, slots: Vec<OpenSpanSlot>) {
        self.copies = Copies::new(slots).map(Box::new);
    }

    /// The next spans are of this scope.
    pub(crate) fn set_scope(&mut self, scope: &Arc<Scope>) {
        if let Some(copies) = &mut self.copies {
            copies.set_scope(scope);
        }
    }

    /// Several things are set and then copied together, by [`resume_copies`](Self::resume_copies).
    #[inline(always)]
    pub(crate) fn pause_copies(&mut self) {
        self.attributes.set_copied(false);
    }

    /// Copies what has changed to where it survives the process, as all that is set from now on.
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

    /// The span has ended, and is where it goes from here.
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
