//! What all instruments of a program stand on.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use crate::config::PeriodicReaderSettings;
use crate::context::unix_nanos;
use crate::process;
use crate::record::random;

/// Different problems that are told; whoever has more than these makes them up at run time.
const MOST_COMPLAINTS: usize = 200;

/// What every instrument knows: for whom it measures, and whom to tell of trouble.
pub(super) struct Ground {
    /// The settings of each exporter of metrics: an instrument has a store for each.
    pub(super) pushes: Vec<PeriodicReaderSettings>,
    /// Of the hashes of attributes, so that nobody can make them collide on purpose.
    pub(super) seed: u64,
    // locked only while no fork can happen, as a child goes on using it
    complaints: Mutex<Complaints>,
    start_in_child: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What the program should know, told with the next collection, each once.
#[derive(Default)]
struct Complaints {
    waiting: Vec<String>,
    known: HashSet<String>,
}

impl Ground {
    pub(super) fn new(pushes: Vec<PeriodicReaderSettings>) -> Self {
        Self { pushes, seed: random(), complaints: Mutex::default(), start_in_child: OnceLock::new() }
    }

    pub(super) fn now(&self) -> u64 {
        unix_nanos(SystemTime::now())
    }

    pub(super) fn start_in_child_by(&self, start: impl Fn() + Send + Sync + 'static) {
        // set once, by whoever made it
        let _ = self.start_in_child.set(Box::new(start));
    }

    /// The first measurement in a forked child.
    pub(super) fn measured_in_child(&self) {
        if let Some(start) = self.start_in_child.get() {
            start();
        }
    }

    #[cold]
    pub(super) fn complain(&self, what: String) {
        process::with_fork_lock(|| self.complain_undisturbed(what));
    }

    /// The same where no fork can happen already.
    pub(super) fn complain_undisturbed(&self, what: String) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if complaints.known.len() < MOST_COMPLAINTS && complaints.known.insert(what.clone()) {
            complaints.waiting.push(what);
        }
    }

    pub(super) fn take_complaints(&self) -> Vec<String> {
        process::with_fork_lock(|| {
            std::mem::take(&mut self.complaints.lock().unwrap_or_else(PoisonError::into_inner).waiting)
        })
    }
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground").field("pushes", &self.pushes).finish_non_exhaustive()
    }
}
