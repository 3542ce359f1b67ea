//! A probe over gRPC: a connection, and an empty call for each signal.

use std::io::ErrorKind;
use std::time::Instant;

use super::super::connect::Timeline;
use super::super::proxy::Proxy;
use super::super::response::printable;
use super::super::{CallResponse, Payload, ProbeFailure, ProbeRequest, SetupError, Verdict};
use super::failure::CallFailure;
use super::status::{self, NO_NUMBER, ReceivedStatus, Status};
use super::{Grpc, GrpcSpec};
use crate::config::ConnectionSettings;
use crate::http2::client::Response;
use crate::record::Signal;

impl GrpcSpec {
    /// Prepares a probe, which keeps the certificates of servers.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new).
    pub(crate) fn for_probe(settings: &ConnectionSettings) -> Result<Self, SetupError> {
        let mut spec = Self::new(settings)?;
        spec.route.record_certificates(&settings.tls)?;
        Ok(spec)
    }

    /// Returns host and port of the proxy on the way to the server.
    pub(crate) fn proxy(&self) -> Option<String> {
        self.route.proxy.as_ref().map(Proxy::shown)
    }
}

impl Grpc {
    /// Opens a connection and waits for the server's SETTINGS. The first call uses the connection.
    pub(crate) fn try_connect(&mut self, deadline: Instant) -> ProbeRequest<()> {
        let mut timeline = Timeline::default();
        let greeted = self.client.greet(deadline, &mut timeline);
        let result = greeted.map_err(|failure| self.shown(failure));
        ProbeRequest { timeline, ended: Instant::now(), result }
    }

    /// Sends one empty request for a signal, and waits for the response until the deadline. Keeps the connection.
    ///
    /// # Errors
    /// Returns the reason if there is no response.
    pub(crate) fn try_export(
        &mut self,
        signal: Signal,
        deadline: Instant,
    ) -> Result<CallResponse, ProbeFailure> {
        let reply = match self.call(&Payload { signal, body: &[] }, deadline) {
            Ok(answer) => reply(&answer),
            // The server has responded by resetting the call: the error code of the reset stands for the status.
            Err(failure @ CallFailure::Reset(code)) => {
                let what = failure.what();
                response_of(Status::of_reset(code), what, is_retryable(&failure.verdict("")))
            }
            Err(failure) => return Err(self.shown(failure)),
        };
        Ok(CallResponse { message: self.spec.secrets.redact(reply.message), ..reply })
    }

    /// Describes a failure. Secrets are redacted, because servers may repeat them.
    fn shown(&self, failure: CallFailure) -> ProbeFailure {
        let text = self.spec.secrets.redact(failure.what());
        match failure {
            CallFailure::Network(error) => error.into_probe(),
            CallFailure::Left(_) | CallFailure::Unprocessed(_) => {
                ProbeFailure::Io { kind: ErrorKind::Other, text }
            }
            _ => ProbeFailure::Fault(text),
        }
    }
}

fn reply(answer: &Response) -> CallResponse {
    match status::read(answer) {
        None => response_of(Status::UNKNOWN, NO_NUMBER.to_owned(), false),
        Some(ReceivedStatus { status: Status::OK, .. }) => success(answer),
        Some(received) => {
            let is_retryable = is_retryable(&received.verdict(""));
            response_of(received.status, received.message, is_retryable)
        }
    }
}

fn is_retryable(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::TryLater { .. })
}

fn response_of(status: Status, message: String, is_retryable: bool) -> CallResponse {
    CallResponse { code: status.0, name: status.name(), message, odd: None, is_retryable }
}

fn success(answer: &Response) -> CallResponse {
    let (message, odd) = match status::read_success(answer) {
        Ok(Verdict::AcceptedPartly { message, .. }) => (printable(&message), None),
        Ok(_) => (String::new(), None),
        Err(odd) => (String::new(), Some(odd)),
    };
    CallResponse { odd, ..response_of(Status::OK, message, true) }
}
