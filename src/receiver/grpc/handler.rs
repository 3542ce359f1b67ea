//! Decodes and answers the calls of a connection on threads: one thread for each open call, within the limit that all
//! connections share.

use std::collections::VecDeque;
use std::thread::Scope;

use parking_lot::Mutex;

use super::call::Head;
use super::delivery::deliver;
use super::session::{Call, Outcome};
use super::shared_connection::SharedConnection;
use crate::process::{contain_panic, spawn_scoped};
use crate::receiver::answer::Answer;
use crate::receiver::budget::Share;
use crate::receiver::refusal::Refusal;
use crate::receiver::request_sink::{Answered, take_in, turn_down};
use crate::receiver::store::{Protocol, ReceivedRequest};

pub(super) struct Handler<'a> {
    pub(super) connection: &'a SharedConnection<'a>,
    /// Number of the connection.
    pub(super) number: u64,
    pool: Mutex<Pool>,
}

/// Calls that wait for a thread, and the number of threads. A thread ends when it finds no waiting call.
#[derive(Default)]
struct Pool {
    calls: VecDeque<Call>,
    threads: usize,
}

impl<'a> Handler<'a> {
    pub(super) fn new(connection: &'a SharedConnection<'a>, number: u64) -> Self {
        Self { connection, number, pool: Mutex::default() }
    }

    /// Answers a call on a new thread if the limit allows. Otherwise the call waits for one of the running threads.
    pub(super) fn take_on<'scope>(&'scope self, call: Call, scope: &'scope Scope<'scope, '_>) {
        let Some(permit) = self.enqueue(call) else { return };
        let started = spawn_scoped(scope, format!("standpipe-in-{}", self.number), move || {
            while let Some(call) = self.next() {
                self.answer(call);
            }
            drop(permit);
        });
        if started.is_err() {
            // The call stays queued for a running thread. If no thread runs, the call waits until a later call starts
            // a thread; the client may give up first.
            self.pool.lock().threads -= 1;
        }
    }

    /// Queues a call. Returns the permit for a new thread, or `None` if no further thread is allowed. The first thread
    /// of a connection needs no permit (`Some(None)`), so no other connection can keep its calls waiting.
    fn enqueue(&self, call: Call) -> Option<Option<Share>> {
        let mut pool = self.pool.lock();
        pool.calls.push_back(call);
        let permits = &self.connection.shared.threads;
        // `next` ends a thread under the same lock, so no call is left without a thread.
        let permit = if pool.threads == 0 { None } else { Some(permits.share_of(1)?) };
        pool.threads += 1;
        Some(permit)
    }

    fn next(&self) -> Option<Call> {
        let mut pool = self.pool.lock();
        let call = pool.calls.pop_front();
        if call.is_none() {
            pool.threads -= 1;
        }
        call
    }

    fn answer(&self, call: Call) {
        let Call { stream, outcome } = call;
        let answered = contain_panic(|| {
            if let Some((answer, _active)) = self.judge(outcome, None) {
                // An error means that the client has left.
                let _ = deliver(self.connection, stream, &answer);
            }
        });
        // A panic in a callback ends the connection. The panic was reported when it happened.
        if answered.is_err() {
            self.connection.abandon();
        }
        // The stream is released even after a panic: otherwise, it would count against the limit forever.
        self.connection.release(stream);
    }

    /// Decodes and counts a call. Returns its answer, or `None` if the receiver was stopped.
    pub(super) fn judge(&self, outcome: Outcome, decided: Option<Answer>) -> Option<Answered<'a>> {
        let shared = self.connection.shared;
        let (head, body_bytes, refusal) = match outcome {
            Outcome::Whole { head, plan, body, share } => {
                let content = plan.read(&body, shared.settings.max_body_bytes, share);
                let body_bytes = body.len();
                // The body is freed before the callbacks run, because they may take long.
                drop(body);
                match content {
                    Ok(content) => {
                        let request = self.describe(head, body_bytes);
                        return take_in(shared, request, content, decided);
                    }
                    Err(refusal) => (Some(head), body_bytes, refusal),
                }
            }
            Outcome::Refused { head, refusal } => (head.map(|(head, _)| head), 0, refusal),
        };
        let answer = self.refuse(&refusal);
        let request = head.map(|head| self.describe(head, body_bytes));
        let active = turn_down(shared, Protocol::Grpc, self.number, request, &refusal, &answer);
        Some((answer, active))
    }

    fn describe(&self, head: Head, body_bytes: usize) -> ReceivedRequest {
        let signal = head.signal();
        let Head { method, path, headers } = head;
        let request = ReceivedRequest::new(self.number, Protocol::Grpc, method, path, headers);
        ReceivedRequest { signal, body_bytes, ..request }
    }

    fn refuse(&self, refusal: &Refusal) -> Answer {
        let answer = refusal.answer();
        match refusal.status {
            // A client that sends such a request does not speak gRPC.
            405 | 415 => {
                let place = self.connection.shared.addresses.http;
                let text = format!("{}; OTLP over HTTP is at http://{place}\n", refusal.message);
                answer.header("content-type", "text/plain").body(text).without_grpc_status()
            }
            501 => answer.header("grpc-accept-encoding", "identity,gzip"),
            _ => answer,
        }
    }
}
