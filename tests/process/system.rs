//! Replaces the system's name look-up and thread start: counts calls, and answers for names that end in `.test`.
//!
//! The linker prefers the symbols below to those of the C library, in the whole test program.

#![allow(unsafe_code, reason = "this takes the place of functions of the C library")]
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of threads that were started.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// True if threads that are started from now on never begin their work.
static NO_THREAD_BEGINS: AtomicBool = AtomicBool::new(false);
/// Number of names that were looked up.
static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);
/// True if the look-ups of [`SLOW`] and [`RETURNING`] may succeed. Not a lock, because a fork could leave it locked.
static IS_ANSWERED: AtomicBool = AtomicBool::new(false);
/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(50);

/// A name whose look-up hangs until [`answer`].
pub(crate) const SLOW: &str = "slow.test";

/// A name that no host has before [`answer`].
pub(crate) const RETURNING: &str = "returning.test";

/// A name that no host has.
pub(crate) const UNKNOWN: &str = "unknown.test";

/// Returns the numbers of threads started and names looked up so far.
pub(crate) fn counts() -> (usize, usize) {
    (THREADS.load(Ordering::SeqCst), LOOK_UPS.load(Ordering::SeqCst))
}

/// Lets the look-ups of [`SLOW`] and [`RETURNING`] succeed.
pub(crate) fn answer() {
    IS_ANSWERED.store(true, Ordering::SeqCst);
}

/// Makes threads that are started from now on never begin their work.
pub(crate) fn let_no_thread_begin() {
    NO_THREAD_BEGINS.store(true, Ordering::SeqCst);
}

type Work = extern "C" fn(*mut c_void) -> *mut c_void;

type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Work, *mut c_void) -> c_int;

// SAFETY: has the name, the arguments and the effect of the C library's function. It also counts the thread, and may
// replace its work.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    work: Work,
    argument: *mut c_void,
) -> c_int {
    // Looked up once, before the first fork, because `dlsym` takes a lock.
    static NEXT: OnceLock<Create> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        // SAFETY: the function has this type.
        unsafe {
            mem::transmute::<*mut c_void, Create>(next(c"pthread_create", c"__interceptor_pthread_create"))
        }
    });
    THREADS.fetch_add(1, Ordering::SeqCst);
    let work = if NO_THREAD_BEGINS.load(Ordering::SeqCst) { never_begin } else { work };
    // SAFETY: passes the arguments on to the C library's function.
    unsafe { next(thread, attributes, work, argument) }
}

/// Returns the original of a function of this module: that of the C library, or that of a sanitizer, because the
/// sanitizer must see the call. A sanitizer gives its function a second name for this case.
fn next(name: &CStr, of_sanitizer: &CStr) -> *mut c_void {
    // SAFETY: both arguments are C strings, and only an address is returned.
    unsafe {
        match libc::dlsym(libc::RTLD_DEFAULT, of_sanitizer.as_ptr()) {
            none if none.is_null() => libc::dlsym(libc::RTLD_NEXT, name.as_ptr()),
            found => found,
        }
    }
}

extern "C" fn never_begin(_: *mut c_void) -> *mut c_void {
    loop {
        // SAFETY: only waits for a signal.
        unsafe { libc::pause() };
    }
}

type GetAddrInfo = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const libc::addrinfo,
    *mut *mut libc::addrinfo,
) -> c_int;

// SAFETY: has the name, the arguments and the effect of the C library's function, except for hosts in `.test`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    LOOK_UPS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: as for the C library's function, a name that is not null is a C string.
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
    // SAFETY: the function has this type; the C library's `freeaddrinfo` frees its result.
    unsafe {
        let next: GetAddrInfo = mem::transmute(next(c"getaddrinfo", c"__interceptor_getaddrinfo"));
        next(node, service, hints, found)
    }
}
