//! Starts the threads of the library, with a name and with asynchronous signals blocked.
//!
//! The system runs the handler of a signal on any thread that does not block it. A program's handlers are written for
//! the program's own threads. On a thread of the library, a handler would interrupt a request, or use thread-locals
//! that the program never set there.
//!
//! Synchronous signals (faults) stay unblocked: the kernel kills a process that blocks a fault, and the program's
//! crash handler would not run.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// The thread that does an exporter's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Driver {
    /// A thread that the exporter starts. The exporter may start further threads.
    #[default]
    OwnThread,
    /// The threads of callers. The exporter starts no thread at all.
    Caller,
}

/// Starts a thread.
///
/// # Errors
/// Returns the system's error if it cannot create a thread.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // The new thread inherits the signal mask of the thread that starts it.
    let _blocked = signals::block();
    Builder::new().name(name.into()).spawn(work)
}

/// Like [`spawn`], for a thread that ends before its scope.
///
/// # Errors
/// Returns the system's error if it cannot create a thread.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let _blocked = signals::block();
    Builder::new().name(name.into()).spawn_scoped(scope, work)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_vendor = "apple"))]
#[allow(unsafe_code)]
mod signals {
    use std::ffi::c_int;
    use std::ptr;

    /// At least as large as the C library's `sigset_t` on all of these systems.
    #[repr(C, align(16))]
    struct Set([u64; 16]);

    unsafe extern "C" {
        fn sigfillset(set: *mut Set) -> c_int;
        fn sigdelset(set: *mut Set, signal: c_int) -> c_int;
        fn pthread_sigmask(how: c_int, set: *const Set, before: *mut Set) -> c_int;
    }

    const SIG_SETMASK: c_int = match () {
        _ if !cfg!(any(target_os = "linux", target_os = "android")) => 3,
        _ if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) => 4,
        _ if cfg!(any(target_arch = "mips", target_arch = "mips32r6")) => 3,
        _ if cfg!(any(target_arch = "mips64", target_arch = "mips64r6")) => 3,
        _ => 2,
    };

    /// SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV, SIGBUS and SIGSYS. Systems whose `SIG_SETMASK` is not 2 use
    /// BSD's numbers for the last two.
    const SYNCHRONOUS: [c_int; 7] = match SIG_SETMASK {
        2 => [4, 5, 6, 8, 11, 7, 31],
        _ => [4, 5, 6, 8, 11, 10, 12],
    };

    /// Guard: signals are blocked until the guard is dropped, which restores the former mask.
    pub(super) struct Blocked(Option<Set>);

    /// Blocks all signals of this thread except the synchronous ones.
    pub(super) fn block() -> Blocked {
        let (mut all, mut before) = (Set([0; 16]), Set([0; 16]));
        // SAFETY: both sets are at least as large as the C library's. They outlive the calls, which keep no pointer.
        let is_blocked = unsafe {
            sigfillset(&raw mut all) == 0
                && SYNCHRONOUS.iter().all(|signal| sigdelset(&raw mut all, *signal) == 0)
                && pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut before) == 0
        };
        Blocked(is_blocked.then_some(before))
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            if let Some(before) = &self.0 {
                // SAFETY: `pthread_sigmask` itself has filled the set, and with a null pointer it does not return the
                // previous mask.
                unsafe { pthread_sigmask(SIG_SETMASK, &raw const *before, ptr::null_mut()) };
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_vendor = "apple")))]
mod signals {
    pub(super) struct Blocked;

    pub(super) fn block() -> Blocked {
        Blocked
    }
}
