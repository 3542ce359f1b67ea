//! The first use of foreign code that initialises a static of it.
//!
//! A child forked in that moment would find the static half made and wait for it for ever, so a fork waits for the moment
//! to pass. No lock is held meanwhile: the foreign code may call the program's logger, which may do anything, and may
//! itself wait for the thread that forks. Hence the fork's wait has a bound, and a use that lasts longer than this stands
//! in the logger and has not begun with the static.

use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{STARTING, generation, lock, with_fork_lock};

/// How long a fork waits: longer than a busy machine keeps a thread from running. Only the first request of a process can
/// cost a fork as much.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often a fork looks whether it may go on.
const PAUSE: Duration = Duration::from_micros(200);

/// Whether the static is initialised, in this process or in one that it was forked from.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Threads that are in the moment.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread is one of them.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Lasts as long as the use.
#[derive(Debug)]
pub(crate) struct FirstUse {
    generation: u32,
}

/// Announces a use; `None` if it cannot be the first.
pub(crate) fn begin() -> Option<FirstUse> {
    if IS_OVER.load(Ordering::Acquire) {
        return None;
    }
    // a fork that is under way has seen that there was none
    with_fork_lock(|| UNDER_WAY.fetch_add(1, Ordering::SeqCst));
    IS_HERE.set(true);
    Some(FirstUse { generation: generation() })
}

/// Notes that the static is initialised.
pub(crate) fn end() {
    if !IS_OVER.load(Ordering::Relaxed) {
        IS_OVER.store(true, Ordering::Release);
    }
}

impl Drop for FirstUse {
    fn drop(&mut self) {
        // a child that was forked by the logger has none under way
        if self.generation == generation() {
            UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
        }
        let _ = IS_HERE.try_with(|is_here| is_here.set(false));
    }
}

/// Takes the lock that is held across a fork, when no other thread is in the moment.
pub(super) fn lock_for_fork() -> MutexGuard<'static, ()> {
    let mut begun = None;
    loop {
        let held = lock(&STARTING);
        let waited = begun.get_or_insert_with(Instant::now).elapsed();
        if !is_under_way() || waited >= LONGEST_WAIT {
            return held;
        }
        drop(held);
        thread::sleep(PAUSE);
    }
}

/// In a child: its only thread is the one that forked.
pub(super) fn forget_other_threads() {
    UNDER_WAY.store(0, Ordering::SeqCst);
}

fn is_under_way() -> bool {
    let is_here = IS_HERE.try_with(Cell::get).unwrap_or(false);
    !is_here && UNDER_WAY.load(Ordering::SeqCst) > 0 && !IS_OVER.load(Ordering::Acquire)
}
