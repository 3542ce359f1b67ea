//! Delays forks while a foreign library initializes one of its statics at its first use.
//!
//! A child that is forked during the initialization would find the static half initialized, and would wait forever for
//! the thread that initializes it. So a fork waits until the first use is over. No lock is held during the use: the
//! foreign code may call the program's logger, which may do anything, even wait for the thread that forks. For the same
//! reason, a fork waits for a limited time only. The initialization takes far less time. So if a use lasts longer, the
//! fork assumes that the logger is running and that the initialization has not begun.

use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{STARTING, generation, lock, with_fork_lock};

/// Maximum time that a fork waits. Even on a busy machine, a thread that is in a first use gets the processor within
/// this time. A fork at any other time does not wait.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Time between two checks while a fork waits.
const PAUSE: Duration = Duration::from_micros(200);

/// True once the static is initialized, in this process or in an ancestor.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Number of threads that use the library while its static may not be initialized yet.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// True if this thread is one of those that `UNDER_WAY` counts.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Guard: exists for as long as the use lasts.
pub(crate) struct FirstUse {
    generation: u32,
}

/// Announces a use. Returns `None` if the static is already initialized.
pub(crate) fn begin() -> Option<FirstUse> {
    if IS_OVER.load(Ordering::Acquire) {
        return None;
    }
    // Without the fork lock, the use could begin after a fork has checked that no first use is under way.
    with_fork_lock(|| UNDER_WAY.fetch_add(1, Ordering::SeqCst));
    IS_HERE.set(true);
    Some(FirstUse { generation: generation() })
}

/// Notes that the static is initialized.
pub(crate) fn end() {
    if !IS_OVER.load(Ordering::Relaxed) {
        IS_OVER.store(true, Ordering::Release);
    }
}

impl Drop for FirstUse {
    fn drop(&mut self) {
        // If the program's logger has forked during the use, the child has reset the count and must not decrement it.
        if self.generation == generation() {
            UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
        }
        let _ = IS_HERE.try_with(|is_here| is_here.set(false));
    }
}

/// Takes the fork lock once no other thread is in a first use, or after [`MAX_WAIT`].
pub(super) fn lock_for_fork() -> MutexGuard<'static, ()> {
    let mut begun = None;
    loop {
        let held = lock(&STARTING);
        let waited = begun.get_or_insert_with(Instant::now).elapsed();
        if !is_under_way() || waited >= MAX_WAIT {
            return held;
        }
        drop(held);
        thread::sleep(PAUSE);
    }
}

/// Resets the count in a child, whose only thread is the one that forked.
pub(super) fn forget_other_threads() {
    UNDER_WAY.store(0, Ordering::SeqCst);
}

fn is_under_way() -> bool {
    let is_here = IS_HERE.try_with(Cell::get).unwrap_or(false);
    !is_here && UNDER_WAY.load(Ordering::SeqCst) > 0 && !IS_OVER.load(Ordering::Acquire)
}
