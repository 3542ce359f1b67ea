//! The layers that there are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process;

static NEXT: AtomicU64 = AtomicU64::new(1);
static GONE: AtomicU64 = AtomicU64::new(0);
/// Locked only while no fork can happen, or a child might find it locked for ever.
static THERE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Tells a layer from all others, those that are gone included.
pub(super) struct Number(u64);

impl Number {
    pub(super) fn next() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        process::with_fork_lock(|| lock().push(number));
        Self(number)
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        process::with_fork_lock(|| lock().retain(|number| *number != self.0));
        GONE.fetch_add(1, Ordering::Release);
    }
}

/// How many layers are gone.
#[inline]
pub(super) fn gone() -> u64 {
    GONE.load(Ordering::Acquire)
}

/// The numbers of all that are not.
pub(super) fn there() -> Vec<u64> {
    process::with_fork_lock(|| lock().clone())
}

fn lock() -> MutexGuard<'static, Vec<u64>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}
