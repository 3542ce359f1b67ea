//! Without the feature `spool`, and on other systems than Linux, chunks lie on the heap: there is no slot at all.

use super::copies::STROKE;

#[derive(Debug)]
pub(crate) enum Slot {}

#[derive(Debug)]
pub(crate) enum Settler {}

#[derive(Debug)]
pub(crate) enum OpenSpanSlot {}

impl OpenSpanSlot {
    pub(super) fn forget_header(&mut self) {
        match *self {}
    }

    pub(super) fn replace(&mut self, _: &[u8], _: &[u8]) -> bool {
        match *self {}
    }

    pub(super) fn append(&mut self, _: &[u8; STROKE], _: u32) -> bool {
        match *self {}
    }

    pub(super) fn clear(&mut self) {
        match *self {}
    }
}

impl Slot {
    pub(super) fn len(&self) -> usize {
        match *self {}
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match *self {}
    }

    pub(super) fn is_lost(&self) -> bool {
        match *self {}
    }

    pub(super) fn has_room(&self, _: usize) -> bool {
        match *self {}
    }

    pub(super) fn append(&mut self, _: &[u8]) {
        match *self {}
    }

    pub(super) fn commit(&self) {
        match *self {}
    }

    pub(super) fn shrink(&mut self) {
        match *self {}
    }

    pub(super) fn seal(&self, _: u32) {
        match *self {}
    }

    pub(super) fn note_entry(&self, _: u32, _: u32) {
        match *self {}
    }

    pub(super) fn settle(&self) {
        match *self {}
    }

    pub(super) fn settler(&self, _: usize) -> Option<Settler> {
        match *self {}
    }
}

impl Settler {
    pub(super) fn is_lost(&self) -> bool {
        match *self {}
    }

    pub(super) fn note_entry(&self, _: u32, _: u32) {
        match *self {}
    }

    pub(super) fn settle(&self) {
        match *self {}
    }
}
