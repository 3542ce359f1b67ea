//! Mapped memory of a file, its behavior in a fork, and the SIGBUS handler that keeps the process alive when the file
//! is truncated or cannot be read. All unsafe code of the recorder is here, except the division into slots, the stores
//! to the first page, and single system calls.
//!
//! # SIGBUS
//! The kernel raises SIGBUS on a thread that touches a page that the file no longer has. If the address is in the
//! mapping of a recorder, the handler marks the recorder as lost, replaces the whole mapping by anonymous memory, and
//! the thread continues. Every other SIGBUS goes to the previous handler, with its mask and flags, or has the effect
//! that it would have had without this handler.
//!
//! The handler is installed once, with the first recorder, and never removed, because another library may have saved
//! its address. It reads only atomics in a fixed table and waits for no other thread, so it is async-signal-safe and
//! works in a forked child.
//!
//! # Forks
//! `MADV_DONTFORK` keeps the file's mapping out of a forked child, where an access would raise SIGSEGV. The
//! [`ForkFlag`] is a page with `MADV_WIPEONFORK`, which reads as zero in the child. Each use of a slot first checks
//! this flag, at the cost of one load.
//!
//! # Memory ordering
//! [`Protected::new`] stores `bytes` and `state` of an entry before `start` (Release). The handler loads `start`
//! (Acquire), then the other two, then `start` again, and ignores the entry if `start` has changed (a seqlock without a
//! writer count). So the handler never combines values of two mappings.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{io, mem, process};

use crate::record::{LOST, MAPPED};

/// A shared mapping that a forked child does not have.
#[derive(Debug)]
pub(in crate::spool) struct Map {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
    /// Process that made the mapping.
    process: u32,
}

// SAFETY: a `Map` is only an address and a length; the code that divides the mapping decides how the memory is shared
unsafe impl Send for Map {}
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `bytes` bytes of a file. All of its blocks must be allocated, so that no access fails for lack of
    /// space.
    pub(super) fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        let map = Self::shared(file, bytes)?;
        map.populate()?;
        Ok(map)
    }

    /// Maps a file only to keep its lock. The mapping is never read or written, so the file may be empty.
    pub(in crate::spool) fn to_keep_lock(file: &File) -> io::Result<Self> {
        // The kernel rounds up to a page.
        Self::shared(file, 1)
    }

    fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        let map = Self::new(bytes, libc::MAP_SHARED, file.as_raw_fd())?;
        map.advise(libc::MADV_DONTFORK)?;
        Ok(map)
    }

    fn new(bytes: usize, flags: c_int, file: c_int) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { start, bytes, process: process::id() })
    }

    /// Faults in all pages, so that no caller waits for a page fault.
    fn populate(&self) -> io::Result<()> {
        const MADV_POPULATE_WRITE: c_int = 23;
        match self.advise(MADV_POPULATE_WRITE) {
            // Linux before 5.14 lacks the advice. There, the first write to a page takes about 2 µs more.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }

    fn advise(&self, advice: c_int) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping, and no advice used here changes the bytes that this process reads
        match unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // In a forked child, the address may belong to another mapping.
        if process::id() == self.process {
            // SAFETY: the range was mapped by one call, and no reference to it is left
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// A word that is [`MAPPED`] or [`LOST`] in this process and 0 in every forked child, including those of raw `clone`
/// calls.
#[derive(Debug)]
pub(super) struct ForkFlag(Map);

impl ForkFlag {
    pub(super) fn new() -> io::Result<Self> {
        // The kernel rounds up to a page.
        let map = Map::new(size_of::<AtomicU32>(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        map.advise(libc::MADV_WIPEONFORK)?;
        let flag = Self(map);
        flag.word().store(MAPPED, Ordering::Relaxed);
        Ok(flag)
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is larger than the word, aligned to a page, and used as this type only
        unsafe { self.0.start.cast::<AtomicU32>().as_ref() }
    }

    pub(super) fn is_set(&self) -> bool {
        self.word().load(Ordering::Relaxed) == MAPPED
    }
}

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// The previous handler of SIGBUS and its flags, installed by the program or another library.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);
/// Mappings of this process and its ancestors. Mappings beyond 128 are not protected.
static TABLE: [Entry; 128] = [const { Entry::new() }; 128];

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// `start` of an entry that is claimed and not filled yet. No mapping begins at this address.
const CLAIMED: usize = 1;

/// A table entry: a mapping, or free.
struct Entry {
    /// 0 if the entry is free.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// The [`ForkFlag`] that the handler sets to [`LOST`]. It is 0 in a forked child, which does not have the mapping.
    state: AtomicPtr<AtomicU32>,
}

impl Entry {
    const fn new() -> Self {
        let (start, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { start, bytes, state: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Claims the entry if it is free.
    fn claim(&self) -> bool {
        self.start.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Replaces the mapping by anonymous memory if it contains the address and belongs to this process.
    fn replace(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let (bytes, state) = (self.bytes.load(Ordering::Acquire), self.state.load(Ordering::Acquire));
        let is_there = start > CLAIMED && address.checked_sub(start).is_some_and(|offset| offset < bytes);
        // If `start` has changed, `bytes` and `state` may belong to another mapping.
        if !is_there || self.start.load(Ordering::Acquire) != start {
            return false;
        }
        // SAFETY: the faulting thread is using the mapping, so the recorder and its state still exist. In a forked
        // child, the page of the state still exists, but reads as 0.
        let state = unsafe { &*state };
        if state.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Set the mark before the bytes are replaced, so that a thread that reads zeros also sees the mark.
        state.store(LOST, Ordering::SeqCst);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the range is the recorder's own mapping, which stays readable and writable at the same address
        unsafe { libc::mmap(start as *mut c_void, bytes, access, flags, -1, 0) != libc::MAP_FAILED }
    }
}

/// Registration of a mapping with the SIGBUS handler. Dropping this value ends the registration.
#[derive(Debug)]
pub(super) struct Protected(Option<&'static AtomicUsize>);

impl Protected {
    /// Registers a mapping. The handler sets `state` to [`LOST`] when a page is missing; mapping and `state` must
    /// outlive the result.
    pub(super) fn new(mapping: NonNull<u8>, length: usize, state: &AtomicU32) -> Self {
        if !IS_INSTALLED.swap(true, Ordering::SeqCst) {
            install();
        }
        let Some(entry) = TABLE.iter().find(|entry| entry.claim()) else { return Self(None) };
        entry.bytes.store(length, Ordering::Release);
        entry.state.store(ptr::from_ref(state).cast_mut(), Ordering::Release);
        entry.start.store(mapping.as_ptr() as usize, Ordering::Release);
        Self(Some(&entry.start))
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        self.0.iter().for_each(|start| start.store(0, Ordering::Release));
    }
}

/// Installs the handler with the mask and flags of the previous one, which then apply to both handlers. Does nothing if
/// the handler is already installed. May run inside a signal handler, where `sigaction` is allowed.
fn install() {
    // SAFETY: all zeros is a valid `sigaction`. The calls fill or read the structure that they are given, and the
    // handler does what a handler of SIGBUS may do.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let handler: Handler = on_sigbus;
        let is_known = libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut action) == 0;
        if !is_known || action.sa_sigaction == handler as usize {
            return;
        }
        PREVIOUS_FLAGS.store(action.sa_flags, Ordering::SeqCst);
        PREVIOUS_HANDLER.store(action.sa_sigaction, Ordering::SeqCst);
        let has_handler = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        let flags = if has_handler { action.sa_flags & !libc::SA_RESETHAND } else { libc::SA_ONSTACK };
        (action.sa_sigaction, action.sa_flags) = (handler as usize, flags | libc::SA_SIGINFO);
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, whose address is set if its code is that of a fault; `errno`
    // belongs to this thread
    let (errno, is_fault, address) = unsafe {
        let is_fault = (libc::BUS_ADRALN..=libc::BUS_MCEERR_AR).contains(&(*info).si_code);
        (*libc::__errno_location(), is_fault, (*info).si_addr() as usize)
    };
    if !is_fault || !TABLE.iter().any(|entry| entry.replace(address)) {
        pass_on(signal, info, context, is_fault);
    }
    // SAFETY: as above; `errno` is restored, because the interrupted code may be about to read it
    unsafe { *libc::__errno_location() = errno };
}

/// Calls the previous handler, or has the effect that the signal would have had without this handler.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    let flags = PREVIOUS_FLAGS.load(Ordering::SeqCst);
    let handler = match flags & libc::SA_RESETHAND {
        0 => PREVIOUS_HANDLER.load(Ordering::SeqCst),
        _ => PREVIOUS_HANDLER.swap(libc::SIG_DFL, Ordering::SeqCst),
    };
    // SAFETY: `signal` and `raise` may be called in a handler. A handler that is neither SIG_DFL nor SIG_IGN is the
    // address of a function that was installed for this signal, with three arguments if the flags contain SA_SIGINFO.
    unsafe {
        match handler {
            libc::SIG_IGN if !is_fault => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
                // A fault recurs when this handler returns, with its address for the core dump. A signal that was sent
                // does not recur, so raise it again.
                if !is_fault {
                    libc::raise(signal);
                }
            }
            _ if flags & libc::SA_SIGINFO != 0 => {
                mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            _ => mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal),
        }
    }
    // The previous handler may have installed another action: the handler of Rust's standard library restores the
    // default action for an unknown fault. `install` replaces that action, and stores it as the previous one.
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
        install();
    }
}
