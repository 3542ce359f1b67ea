//! What a forked child must know: that it is one.
//!
//! Only the forking thread lives on in a child. Its copies of locks and channels may be held or
//! half-changed by threads that no longer exist, so the child must not touch them: everything that
//! owns a thread or a socket remembers the generation it was made in and is made anew in a later one.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::lock_api::RawMutex as _;

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Held across every fork, so that no child is born while a pipeline is half started.
static STARTING: parking_lot::RawMutex = parking_lot::RawMutex::INIT;
static WATCH: Once = Once::new();

/// How many forks lie between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts to notice forks; forks before the first call need no notice, as there is nothing to renew.
pub(crate) fn watch() {
    WATCH.call_once(register);
}

/// Runs `start` while no fork can happen.
pub(crate) fn undisturbed<T>(start: impl FnOnce() -> T) -> T {
    struct Held;
    impl Drop for Held {
        #[allow(unsafe_code)]
        fn drop(&mut self) {
            // SAFETY: `undisturbed` locked it on this thread, and only the guard's end unlocks it.
            unsafe { STARTING.unlock() }
        }
    }
    STARTING.lock();
    let _held = Held;
    start()
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn register() {
    use std::ffi::c_int;

    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    extern "C" fn before() {
        STARTING.lock();
    }
    extern "C" fn in_parent() {
        // SAFETY: `before` locked it on this very thread.
        unsafe { STARTING.unlock() }
    }
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `before` locked it on the thread that forked, the only one that exists here.
        unsafe { STARTING.unlock() }
    }

    // SAFETY: the handlers are functions for the life of the process and touch only atomics and one
    // raw lock. A failure (no memory) leaves forks unnoticed, which is no worse than not asking.
    unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

#[cfg(not(unix))]
fn register() {}
