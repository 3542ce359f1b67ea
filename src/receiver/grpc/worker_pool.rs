//! Threads that answer the calls of one connection, as many as there are calls at a time, within the bound that all
//! connections share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::process::{contain_panic, spawn_scoped};
use crate::receiver::budget::{Permit, Permits};

/// How long a thread waits for another job before it ends.
const IDLE: Duration = Duration::from_millis(200);

/// Jobs that wait for a thread, and threads that wait for a job.
pub(super) struct WorkerPool<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
    permits: Arc<Permits>,
}

struct State<J> {
    jobs: VecDeque<J>,
    /// Threads, and how many of them wait for a job.
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// What a new thread needs: the first of a connection none, so that no other connection can keep its calls waiting.
enum StartPermit {
    First,
    Permitted(#[allow(dead_code, reason = "it is held until the thread ends")] Permit),
}

impl<J: Send> WorkerPool<J> {
    pub(super) fn new(permits: Arc<Permits>) -> Self {
        let state = State { jobs: VecDeque::new(), threads: 0, idle: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), permits }
    }

    /// Adds a job, and a thread if all are busy and there may be another.
    pub(super) fn add<'scope>(
        &'scope self,
        job: J,
        scope: &'scope Scope<'scope, '_>,
        name: impl FnOnce() -> String,
        work: impl Fn(J) + Send + 'scope,
    ) {
        let Some(start_permit) = self.queue(job) else { return };
        let threads = spawn_scoped(scope, name(), move || {
            while let Some(job) = self.next() {
                // a panic in a callback was reported when it happened, and has closed the connection
                let _ = contain_panic(|| work(job));
            }
            drop(start_permit);
        });
        if threads.is_err() {
            // the job waits for another thread, or the client for its own time-out
            self.state.lock().threads -= 1;
        }
    }

    /// A permit to start a thread, if the job needs one. Without a permit it waits until one of the others is done.
    fn queue(&self, job: J) -> Option<StartPermit> {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        self.changed.notify_one();
        if state.jobs.len() <= state.idle {
            return None;
        }
        let start_permit = match state.threads {
            0 => StartPermit::First,
            _ => StartPermit::Permitted(self.permits.take()?),
        };
        state.threads += 1;
        Some(start_permit)
    }

    /// No more jobs will come.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits for a job. `None` when there was none for a while, or when there will be none: then the thread ends.
    fn next(&self) -> Option<J> {
        let mut state = self.state.lock();
        state.idle += 1;
        let is_waiting = |state: &mut State<J>| state.jobs.is_empty() && !state.is_closed;
        self.changed.wait_while_for(&mut state, is_waiting, IDLE);
        state.idle -= 1;
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.threads -= 1;
        }
        job
    }
}
