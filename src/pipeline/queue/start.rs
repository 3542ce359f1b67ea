//! Whether the worker can be waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A worker that was started. In a forked child its thread may never get to its work: it may wait for a lock that a thread
/// of the parent held at the fork. So it is waited for without limit only once it has shown that it runs.
#[derive(Debug)]
pub(crate) struct Start {
    due: Instant,
    has_begun: AtomicBool,
}

impl Start {
    /// One that must have begun to run by then.
    pub(crate) fn due(by: Instant) -> Self {
        Self { due: by, has_begun: AtomicBool::new(false) }
    }

    /// To be called by the worker itself.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Until when to wait for it at most; `None` once it has begun.
    pub(crate) fn limit(&self) -> Option<Instant> {
        if self.has_begun.load(Ordering::Acquire) { None } else { Some(self.due) }
    }
}
