//! Memory of a file, and what a fork does with it. All that is unsafe here, but for the division into slots.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::record::MAPPED;

/// A shared mapping that a forked child does not have.
#[derive(Debug)]
pub(in crate::spool) struct Map {
    start: NonNull<u8>,
    bytes: usize,
    /// Which process has it.
    process: u32,
}

// SAFETY: it is an address; how the memory is shared is up to those who divide it
unsafe impl Send for Map {}
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first bytes of a file, all of whose blocks are allocated: no access can fail later for want of room.
    pub(super) fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        let map = Self::shared(file, bytes)?;
        map.populate()?;
        Ok(map)
    }

    /// Keeps the lock of a file, and is never read or written: the file may be empty.
    pub(in crate::spool) fn to_keep_lock(file: &File) -> io::Result<Self> {
        // the system rounds up to a page
        Self::shared(file, 1)
    }

    fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        let map = Self::new(bytes, libc::MAP_SHARED, file.as_raw_fd())?;
        map.advise(libc::MADV_DONTFORK)?;
        Ok(map)
    }

    fn new(bytes: usize, flags: c_int, file: c_int) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the system finds a place for it
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { start, bytes, process: process::id() })
    }

    /// Has the system prepare all pages, so that no caller waits for one.
    fn populate(&self) -> io::Result<()> {
        const MADV_POPULATE_WRITE: c_int = 23;
        match self.advise(MADV_POPULATE_WRITE) {
            // Linux before 5.14: the first write to a page takes some microseconds more
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }

    fn advise(&self, advice: c_int) -> io::Result<()> {
        // SAFETY: the whole of this mapping; no advice that is given here changes what the process that made it reads
        match unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // in a forked child something else may be there
        if process::id() == self.process {
            // SAFETY: it was mapped whole, and what refers to it is gone
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// A word that is [`MAPPED`] or [`LOST`](crate::record::LOST) in this process, and 0 in each child that is forked, whatever way.
#[derive(Debug)]
pub(super) struct ForkFlag(Map);

impl ForkFlag {
    pub(super) fn new() -> io::Result<Self> {
        // the system rounds up to a page
        let map = Map::new(size_of::<AtomicU32>(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        map.advise(libc::MADV_WIPEONFORK)?;
        let flag = Self(map);
        flag.word().store(MAPPED, Ordering::Relaxed);
        Ok(flag)
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is larger and its pages are aligned to more; it is used as this type alone
        unsafe { self.0.start().cast::<AtomicU32>().as_ref() }
    }

    pub(super) fn is_set(&self) -> bool {
        self.word().load(Ordering::Relaxed) == MAPPED
    }
}
