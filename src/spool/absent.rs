//! Without the feature `spool`, and on other systems than Linux, no exporter has a spool: configuration refuses it.

#[cfg(feature = "spool")]
#[path = "contents.rs"]
mod contents;

use std::io;
#[cfg(feature = "spool")]
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::config::SpoolSettings;
use crate::record::{OpenSpanSlot, Signal, Slot};

#[cfg(feature = "spool")]
pub use contents::{Contents, Instance};

/// What each process has in the directory of a spool.
///
/// # Errors
/// Always: only Linux has a spool.
#[cfg(feature = "spool")]
pub fn inspect(_: impl AsRef<Path>) -> io::Result<Vec<Instance>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has a spool"))
}

#[derive(Debug)]
pub(crate) enum Spool {}

#[derive(Debug)]
pub(crate) enum Recorder {}

pub(crate) struct SpooledRequest {
    pub(crate) records: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) is_own: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropped {
    pub(crate) own: u64,
    pub(crate) of_others: u64,
}

pub(crate) fn checksum<'a>(_: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    0
}

impl Spool {
    pub(crate) fn open(
        settings: &SpoolSettings,
        _: &str,
        _: &[u8],
        _: usize,
        _: usize,
    ) -> io::Result<Option<Self>> {
        if settings.directory.is_some() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has a spool"));
        }
        Ok(None)
    }

    pub(crate) fn drains(&self) -> bool {
        match *self {}
    }

    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        match *self {}
    }

    pub(crate) fn tick(&mut self, _: Instant) -> Option<[Dropped; Signal::COUNT]> {
        match *self {}
    }

    pub(crate) fn sync_if_due(&mut self, _: Instant) {
        match *self {}
    }

    pub(crate) fn next_tick(&self) -> Option<Instant> {
        match *self {}
    }

    pub(crate) fn is_too_old(&self, _: Signal) -> bool {
        match *self {}
    }

    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn append(
        &mut self,
        _: Signal,
        _: u64,
        _: &[&[u8]],
        _: impl FnOnce(u32, u32),
    ) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn has_pending(&self, _: Signal) -> bool {
        match *self {}
    }

    pub(crate) fn next(&mut self, _: Signal) -> io::Result<Option<SpooledRequest>> {
        match *self {}
    }

    pub(crate) fn settle(&mut self, _: Signal) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn take_unread(&mut self, _: Signal) {
        match *self {}
    }

    pub(crate) fn put_back(&mut self, _: Signal) {
        match *self {}
    }

    pub(crate) fn take_damaged(&mut self) -> [Dropped; Signal::COUNT] {
        match *self {}
    }

    pub(crate) fn close(&mut self) {
        match *self {}
    }
}

impl Recorder {
    pub(crate) fn slots(&self) -> usize {
        match *self {}
    }

    pub(crate) fn take(self: &Arc<Self>, _: Signal, _: usize) -> Option<Slot> {
        match **self {}
    }

    pub(crate) fn take_open_span(self: &Arc<Self>) -> Option<OpenSpanSlot> {
        match **self {}
    }

    #[cfg(test)]
    pub(crate) fn abandon(&self) {
        match *self {}
    }

    pub(crate) fn has_all(&self) -> bool {
        match *self {}
    }
}

/// There are no calls that could fail.
#[cfg(test)]
pub(crate) mod faults {
    pub(crate) fn set(_: Option<Box<dyn Fn() -> bool>>) {}
}
