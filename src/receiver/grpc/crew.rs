//! Threads that answer the calls of one connection, as many as there are calls at a time.

use std::collections::VecDeque;
use std::thread::{Scope, ScopedJoinHandle};

use parking_lot::{Condvar, Mutex};

use crate::spawn::spawn_scoped;

/// Jobs that wait for someone, and those who wait for a job.
pub(super) struct Crew<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

struct State<J> {
    jobs: VecDeque<J>,
    idle: usize,
    is_closed: bool,
}

impl<J: Send> Crew<J> {
    pub(super) fn new() -> Self {
        let state = State { jobs: VecDeque::new(), idle: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Whether someone new is needed for it, since all others are busy.
    pub(super) fn add(&self, job: J) -> bool {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        self.changed.notify_one();
        state.jobs.len() > state.idle
    }

    /// No more jobs will come.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits for a job. `None` when there will be none.
    fn next(&self) -> Option<J> {
        let mut state = self.state.lock();
        state.idle += 1;
        self.changed.wait_while(&mut state, |state| state.jobs.is_empty() && !state.is_closed);
        state.idle -= 1;
        state.jobs.pop_front()
    }

    /// Starts a thread that does jobs until there are no more.
    ///
    /// # Errors
    /// When the system has no thread to spare.
    pub(super) fn hire<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        name: String,
        work: impl Fn(J) + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, ()>> {
        spawn_scoped(scope, name, move || {
            while let Some(job) = self.next() {
                work(job);
            }
        })
    }
}
