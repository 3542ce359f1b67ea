//! Where a call is judged and answered.

use std::thread;
use std::time::Instant;

use super::call::Head;
use super::delivery::deliver;
use super::session::{Call, Outcome};
use super::shared_connection::SharedConnection;
use crate::receiver::answer::Answer;
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
