//! Judges and answers calls, on threads: as many as a connection has calls at a time, within the bound that all connections share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::call::Head;
use super::delivery::deliver;
use super::session::{Call, Outcome};
use super::shared_connection::SharedConnection;
use crate::process::{contain_panic, spawn_scoped};
use crate::receiver::answer::Answer;
use crate::receiver::budget::{Permit, Permits};
use crate::receiver::refusal::{COME_AGAIN_AFTER, Refusal};
use crate::receiver::request_sink;
use crate::receiver::state::ActiveRequest;
use crate::receiver::store::{Protocol, ReceivedRequest};

pub(super) struct Handler<'a> {
    pub(super) connection: &'a SharedConnection<'a>,
    /// That of the connection.
    pub(super) number: u64,
}

impl<'a> Handler<'a> {
    pub(super) fn answer(&self, call: Call) {
        let _guard = HangUpOnPanic(self.connection);
        let Call { stream, outcome } = call;
        if let Some((answer, _active)) = self.judge(outcome, None) {
            // the client may have lost interest
            let _ = deliver(self.connection, stream, &answer);
        }
        self.connection.let_go(stream);
    }

    /// Counts a call and says what to answer; `None` if the receiver was stopped.
    pub(super) fn judge(
        &self,
        outcome: Outcome,
        decided: Option<Answer>,
    ) -> Option<(Answer, ActiveRequest<'a>)> {
        let shared = self.connection.shared;
        let (head, body_bytes, refusal) = match outcome {
            Outcome::Whole { head, plan, body, share } => {
                let content = plan.read(&body, shared.settings.max_body_bytes, share);
                let body_bytes = body.len();
                drop(body);
                match content {
                    Ok(content) => {
                        return request_sink::take_in(
                            shared,
                            self.describe(head, body_bytes),
                            content,
                            decided,
                        );
                    }
                    Err(refusal) => (Some(head), body_bytes, refusal),
                }
            }
            Outcome::Refused { head, refusal } => (head, 0, refusal),
        };
        let answer = self.refuse(&refusal);
        let request = head.map(|head| self.describe(head, body_bytes));
        let active = self.turn_down(request, &refusal, &answer);
        Some((answer, active))
    }

    pub(super) fn turn_down(
        &self,
        request: Option<ReceivedRequest>,
        refusal: &Refusal,
        answer: &Answer,
    ) -> ActiveRequest<'a> {
        let shared = self.connection.shared;
        request_sink::turn_down(shared, Protocol::Grpc, self.number, request, refusal, answer)
    }

    fn describe(&self, head: Head, body_bytes: usize) -> ReceivedRequest {
        ReceivedRequest {
            connection: self.number,
            protocol: Protocol::Grpc,
            signal: head.signal(),
            method: head.method,
            path: head.path,
            headers: head.headers,
            body_bytes,
            decoded: false,
            records: 0,
            status: None,
            grpc_status: None,
            received_at: Instant::now(),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Answer {
        let answer = Answer::status(refusal.status).message(refusal.message.as_str());
        match refusal.status {
            // a client that asks so does not know gRPC
            405 | 415 => {
                let place = self.connection.shared.addresses.http;
                let text = format!("{}; OTLP over HTTP is at http://{place}\n", refusal.message);
                answer.header("content-type", "text/plain").body(text).without_grpc_status()
            }
            503 => answer.retry_delay(COME_AGAIN_AFTER),
            501 => answer.header("grpc-accept-encoding", "identity,gzip"),
            _ => answer,
        }
    }
}

/// A callback that panics costs the client its connection, as the thread of the answer is the only one who knows.
struct HangUpOnPanic<'a>(&'a SharedConnection<'a>);

impl Drop for HangUpOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abandon();
        }
    }
}

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
