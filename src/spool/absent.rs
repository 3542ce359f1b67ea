//! Stand-in for the spool, used without the feature `spool` and on systems other than Linux. `Spool::open` refuses a
//! spool directory there.

#[cfg(feature = "spool")]
#[path = "contents.rs"]
mod contents;

use std::convert::Infallible;
use std::io;
use std::ops::{Deref, DerefMut};
#[cfg(feature = "spool")]
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::config::SpoolSettings;
use crate::problem::Note;
use crate::record::{OpenSpanSlot, Signal, Slot};

#[cfg(feature = "spool")]
pub use contents::{Contents, Instance};

/// Returns the contents of a spool directory: one [`Instance`] per exporter of a process.
///
/// # Errors
/// Always returns an error, because only Linux has a spool.
#[cfg(feature = "spool")]
pub fn inspect(_: impl AsRef<Path>) -> io::Result<Vec<Instance>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has a spool"))
}

/// A spool that cannot exist, so the compiler removes the code that uses it.
#[derive(Debug)]
pub(crate) struct Spool(Infallible);

/// A flight recorder that cannot exist.
#[derive(Debug)]
pub(crate) struct Recorder(Infallible);

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
}

/// The methods of the spool and its recorder. No type implements the trait: it only gives `Spool` and `Recorder`, which
/// dereference to `dyn Absent`, the signatures of the methods.
pub(crate) trait Absent {
    fn drains(&self) -> bool;
    fn recorder(&self) -> &Arc<Recorder>;
    fn tick(&mut self, now: Instant) -> Option<[Dropped; Signal::COUNT]>;
    fn sync_if_due(&mut self, now: Instant);
    fn next_tick(&self) -> Option<Instant>;
    fn is_too_old(&self, signal: Signal) -> bool;
    fn take_notes(&mut self) -> Vec<Note>;
    fn append(&mut self, _: Signal, _: u64, _: &[&[u8]], _: &dyn Fn(u32, u32)) -> io::Result<()>;
    fn has_pending(&self, signal: Signal) -> bool;
    fn next(&mut self, signal: Signal) -> io::Result<Option<SpooledRequest>>;
    fn settle(&mut self, signal: Signal) -> io::Result<()>;
    fn take_unread(&mut self, signal: Signal);
    fn put_back(&mut self, signal: Signal);
    fn take_damaged(&mut self) -> [Dropped; Signal::COUNT];
    fn close(&mut self);

    fn slots(&self) -> usize;
    fn take(&self, signal: Signal, bytes: usize) -> Option<Slot>;
    fn take_open_span(&self) -> Option<OpenSpanSlot>;
    #[cfg(test)]
    fn abandon(&self);
    fn has_all(&self) -> bool;
}

impl Deref for Spool {
    type Target = dyn Absent;

    fn deref(&self) -> &Self::Target {
        match self.0 {}
    }
}

impl DerefMut for Spool {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self.0 {}
    }
}

impl Deref for Recorder {
    type Target = dyn Absent;

    fn deref(&self) -> &Self::Target {
        match self.0 {}
    }
}

/// Injects no faults: without a spool there are no calls that could fail.
#[cfg(test)]
pub(crate) mod faults {
    pub(crate) fn set(_: Option<Box<dyn Fn() -> bool>>) {}
}
