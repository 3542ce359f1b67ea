//! One empty call of a probe, and its response or failure in detail.

use std::io::ErrorKind;
use std::time::Instant;

use super::super::response::printable;
use super::super::tcp::is_hang_up;
use super::super::{CallResponse, Payload, ProbeFailure, TlsFault, TlsFaultKind, Verdict, lower_first};
use super::Grpc;
use super::failure::{self, NO_HTTP2};
use super::status::{self, NO_NUMBER, ReceivedStatus, Status};
use crate::http2::conn::Response;
use crate::record::Signal;

impl Grpc {
    /// Calls the method of a signal with nothing. It is over by the deadline; the connection is kept for the next.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) fn try_export(
        &mut self,
        signal: Signal,
        deadline: Instant,
    ) -> Result<CallResponse, ProbeFailure> {
        let reply = match self.call(&Payload { signal, body: &[] }, deadline) {
            Ok(answer) => reply(&answer),
            // the server did answer, in its way
            Err(failure @ failure::CallFailure::Reset(code)) => {
                response_of(Status::of_reset(code), failure.what())
            }
            Err(failure) => return Err(shown(failure, |text| self.redact(text))),
        };
        Ok(CallResponse { message: self.redact(reply.message), ..reply })
    }
}

fn reply(answer: &Response) -> CallResponse {
    match status::read(answer) {
        None => response_of(Status::UNKNOWN, NO_NUMBER.to_owned()),
        Some(ReceivedStatus { status: Status::OK, .. }) => success(answer),
        Some(received) => response_of(received.status, received.message),
    }
}

fn response_of(status: Status, message: String) -> CallResponse {
    CallResponse { code: status.0, name: status.name(), message, odd: None }
}

fn success(answer: &Response) -> CallResponse {
    let (message, odd) = match status::read_success(answer) {
        Ok(Verdict::AcceptedPartly { message, .. }) => (printable(&message), None),
        Ok(_) => (String::new(), None),
        Err(odd) => (String::new(), Some(odd)),
    };
    CallResponse { odd, ..response_of(Status::OK, message) }
}

/// Servers and proxies may repeat what they were sent when they fail, too.
fn shown(failure: failure::CallFailure, redact: impl FnOnce(String) -> String) -> ProbeFailure {
    match failure {
        failure::CallFailure::TimedOut => ProbeFailure::TimedOut,
        failure::CallFailure::Proxy(error) => {
            ProbeFailure::Proxy(redact(lower_first(&printable(&error.to_string()))))
        }
        failure::CallFailure::Tls(fault) => {
            ProbeFailure::Tls(TlsFault { what: printable(&fault.what), ..fault })
        }
        failure::CallFailure::NoHttp2 => {
            ProbeFailure::Tls(TlsFault { kind: TlsFaultKind::NoHttp2, what: NO_HTTP2.to_owned() })
        }
        failure::CallFailure::Io(error) if is_hang_up(&error) => ProbeFailure::Closed,
        other => ProbeFailure::Io { kind: ErrorKind::Other, text: redact(other.what()) },
    }
}
