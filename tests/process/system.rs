//! The system's look-up and its threads, counted and, for names that end in `.test`, played.
//!
//! The symbols below stand before those of the C library, for the whole program that this is a part of.

#![allow(unsafe_code, reason = "this takes the place of functions of the C library")]
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Every thread that was started.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Whether threads that are started from now on never get to their work.
static NO_THREAD_BEGINS: AtomicBool = AtomicBool::new(false);
/// Every name that was looked up.
static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);
/// Whether the look-up of [`SLOW`] may come to its answer. No lock: a process that forks could leave it locked.
static IS_ANSWERED: AtomicBool = AtomicBool::new(false);
/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(50);

/// A name whose look-up hangs until [`answer`].
pub(crate) const SLOW: &str = "slow.test";

/// A name that no host has before [`answer`].
pub(crate) const RETURNING: &str = "returning.test";

/// A name that no host has.
pub(crate) const UNKNOWN: &str = "unknown.test";

/// How many threads were started and names looked up so far.
pub(crate) fn counts() -> (usize, usize) {
    (THREADS.load(Ordering::SeqCst), LOOK_UPS.load(Ordering::SeqCst))
}

/// Lets the look-ups of [`SLOW`] and [`RETURNING`] come to their answer.
pub(crate) fn answer() {
    IS_ANSWERED.store(true, Ordering::SeqCst);
}

/// Has no thread that is started from now on get to its work.
pub(crate) fn let_no_thread_begin() {
    NO_THREAD_BEGINS.store(true, Ordering::SeqCst);
}

type Work = extern "C" fn(*mut c_void) -> *mut c_void;

type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Work, *mut c_void) -> c_int;

// SAFETY: the name is the C library's, with its arguments and what it does; a thread is counted, and may be given
// another work.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    work: Work,
    argument: *mut c_void,
) -> c_int {
    // found before the first fork: the look-up takes a lock
    static NEXT: OnceLock<Create> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        // SAFETY: what is found has this type.
        unsafe {
            mem::transmute::<*mut c_void, Create>(next(c"pthread_create", c"__interceptor_pthread_create"))
        }
    });
    THREADS.fetch_add(1, Ordering::SeqCst);
    let work = if NO_THREAD_BEGINS.load(Ordering::SeqCst) { never_begin } else { work };
    // SAFETY: the C library's own is given what this was given.
    unsafe { next(thread, attributes, work, argument) }
}

/// The function that one of these stands before: the C library's, or what a sanitizer has in its place. A sanitizer must see
/// the function called, and gives its own a second name, as it reckons with this.
fn next(name: &CStr, of_sanitizer: &CStr) -> *mut c_void {
    // SAFETY: both are names, and only an address is asked for.
    unsafe {
        match libc::dlsym(libc::RTLD_DEFAULT, of_sanitizer.as_ptr()) {
            none if none.is_null() => libc::dlsym(libc::RTLD_NEXT, name.as_ptr()),
            found => found,
        }
    }
}

extern "C" fn never_begin(_: *mut c_void) -> *mut c_void {
    loop {
        // SAFETY: waits for a signal, and touches nothing.
        unsafe { libc::pause() };
    }
}

type GetAddrInfo = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const libc::addrinfo,
    *mut *mut libc::addrinfo,
) -> c_int;

// SAFETY: the name is the C library's, with its arguments and what it does; only some names are others.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    LOOK_UPS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: as of the C library's own, a name that is not null is a C string.
    let name = if node.is_null() { c"" } else { unsafe { CStr::from_ptr(node) } };
    if name.to_bytes() == SLOW.as_bytes() {
        let begun = Instant::now();
        while !IS_ANSWERED.load(Ordering::SeqCst) && begun.elapsed() < LONG {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let is_gone = name.to_bytes() == RETURNING.as_bytes() && !IS_ANSWERED.load(Ordering::SeqCst);
    if is_gone || name.to_bytes() == UNKNOWN.as_bytes() {
        return libc::EAI_NONAME;
    }
    let is_played = name.to_bytes().ends_with(b".test");
    let node = if is_played { c"127.0.0.1".as_ptr() } else { node };
    // SAFETY: what is found has this type; what it finds is freed by the C library's `freeaddrinfo`.
    unsafe {
        let next: GetAddrInfo = mem::transmute(next(c"getaddrinfo", c"__interceptor_getaddrinfo"));
        next(node, service, hints, found)
    }
}
