//! Where a call is judged and answered.

use std::thread;
use std::time::Instant;

use super::call::Head;
use super::delivery::deliver;
use super::line::Line;
use super::session::{Call, Matter};
use crate::receiver::answer::Answer;
use crate::receiver::reception;
use crate::receiver::refusal::{COME_AGAIN_AFTER, Refusal};
use crate::receiver::store::{Protocol, ReceivedRequest};

pub(super) struct Desk<'a> {
    pub(super) line: &'a Line<'a>,
    /// That of the connection.
    pub(super) number: u64,
}

impl Desk<'_> {
    pub(super) fn answer(&self, call: Call) {
        let _guard = HangUpOnPanic(self.line);
        let Call { stream, matter } = call;
        if let Some(answer) = self.judge(matter, None) {
            // the client may have lost interest
            let _ = deliver(self.line, stream, &answer);
        }
        self.line.let_go(stream);
    }

    /// Counts a call and says what to answer; `None` if the receiver was stopped.
    pub(super) fn judge(&self, matter: Matter, decided: Option<Answer>) -> Option<Answer> {
        let shared = self.line.shared;
        let (head, body_bytes, refusal) = match matter {
            Matter::Whole { head, plan, body, share } => {
                let content = plan.read(&body, shared.settings.max_body_bytes, share);
                let body_bytes = body.len();
                drop(body);
                match content {
                    Ok(content) => {
                        return reception::take_in(shared, self.describe(head, body_bytes), content, decided);
                    }
                    Err(refusal) => (Some(head), body_bytes, refusal),
                }
            }
            Matter::Refused { head, refusal } => (head, 0, refusal),
        };
        let answer = self.refuse(&refusal);
        let request = head.map(|head| self.describe(head, body_bytes));
        reception::turn_down(shared, Protocol::Grpc, request, &refusal, &answer);
        Some(answer)
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
            // whoever asks so does not know gRPC
            405 | 415 => {
                let place = self.line.shared.doors.http;
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
struct HangUpOnPanic<'a>(&'a Line<'a>);

impl Drop for HangUpOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abandon();
        }
    }
}
