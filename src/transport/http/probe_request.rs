//! One empty request of a probe, with its timeline and its response or failure.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ureq::Error;
use ureq::http::{Response, header};

use super::HttpSpec;
use super::connection::network_error;
use super::response::{content_type, error_text, header_text, printable, read_success, shown_location};
use crate::config::ConnectionSettings;
use crate::process::{Driver, lock};
use crate::record::Signal;
use crate::transport::connect::{NetworkError, Timeline};
use crate::transport::dial::is_hang_up;
use crate::transport::proxy::{Proxy, status_text};
use crate::transport::redact::Secrets;
use crate::transport::response::{self, Oddity};
use crate::transport::{Payload, SetupError, TlsFault, Verdict, lower_first};

/// A finished step of a probe: a request with its response, or for gRPC the opening of a connection.
#[derive(Debug)]
pub(crate) struct ProbeRequest<T> {
    pub(crate) timeline: Timeline,
    pub(crate) ended: Instant,
    pub(crate) result: Result<T, ProbeFailure>,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeFailure {
    TimedOut,
    Tls(TlsFault),
    /// The proxy itself answered with an error. `advice` is set for the statuses 403 and 407.
    Proxy {
        status: String,
        advice: Option<String>,
    },
    /// The peer closed the connection.
    Closed,
    /// The response is not HTTP/1.
    NotHttp,
    /// The peer violated the protocol, or the client cannot make this request.
    Fault(String),
    Io {
        kind: ErrorKind,
        text: String,
    },
}

impl ProbeFailure {
    /// Returns whether an exporter would drop records after this failure, instead of sending them again.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::NotHttp | Self::Fault(_) => true,
            Self::Tls(fault) => !fault.is_passing(),
            Self::TimedOut | Self::Proxy { .. } | Self::Closed | Self::Io { .. } => false,
        }
    }
}

/// A response, with secrets redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeResponse {
    pub(crate) status: u16,
    /// Status with its name, such as `502 Bad Gateway`.
    pub(crate) status_text: String,
    /// Content type in lower case; empty if absent.
    pub(crate) content_type: String,
    pub(crate) location: Option<String>,
    /// Text, or the message of a protobuf status or partial success, which may be empty. `Err` is the defect of a
    /// successful response.
    pub(crate) body: Result<String, Oddity>,
}

impl HttpSpec {
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

    /// Posts one empty request to the URL of a signal, and waits for the response until the deadline.
    pub(crate) fn try_export(&self, signal: Signal, deadline: Instant) -> ProbeRequest<ProbeResponse> {
        let shared = Arc::new(Mutex::new(Timeline::default()));
        let mut http = self.open(Driver::OwnThread, Some(Arc::clone(&shared)));
        let left = deadline.saturating_duration_since(Instant::now());
        let (payload, timed_out) = (Payload { signal, body: &[] }, Error::Timeout(ureq::Timeout::Global));
        let answer = if left.is_zero() { Err(timed_out) } else { http.post(&payload, left) };
        let result = answer.map_err(|error| failure(error, &self.secrets)).and_then(|answer| {
            match self.refusing_proxy(&answer) {
                Some(proxy) => Err(proxy.refusal(answer.status()).into_probe()),
                None => Ok(reply(answer, self)),
            }
        });
        ProbeRequest { timeline: lock(&shared).clone(), ended: Instant::now(), result }
    }
}

impl NetworkError {
    /// Returns the error as a probe reports it: without the name of the proxy, which the probe adds to its messages.
    pub(in crate::transport) fn into_probe(self) -> ProbeFailure {
        use ProbeFailure as Failure;
        match self {
            Self::TimedOut => Failure::TimedOut,
            Self::Tls(fault) => Failure::Tls(TlsFault { what: response::printable(&fault.what), ..fault }),
            Self::Io(it) if is_hang_up(&it) || it.kind() == ErrorKind::UnexpectedEof => Failure::Closed,
            Self::Io(ref error) | Self::HostNotFound(ref error) => {
                Failure::Io { kind: error.kind(), text: self.what() }
            }
            Self::ProxyStatus { status, advice } => Failure::Proxy { status, advice },
            Self::AtProxy { error, .. } => error.into_probe(),
        }
    }
}

fn failure(error: Error, secrets: &Secrets) -> ProbeFailure {
    match network_error(error).map(NetworkError::into_probe) {
        Ok(failure) => failure,
        Err(Error::Protocol(_) | Error::Http(_) | Error::LargeResponseHeader(..)) => ProbeFailure::NotHttp,
        Err(other) => {
            let text = secrets.redact(lower_first(&printable(&other.to_string())));
            let is_io = matches!(other, Error::ConnectionFailed | Error::BodyStalled);
            if is_io { ProbeFailure::Io { kind: ErrorKind::Other, text } } else { ProbeFailure::Fault(text) }
        }
    }
}

fn reply(mut answer: Response<ureq::Body>, spec: &HttpSpec) -> ProbeResponse {
    let secrets = &spec.secrets;
    let status = answer.status();
    let content_type = secrets.redact(printable(&content_type(&answer))).to_ascii_lowercase();
    let location = header_text(&answer, header::LOCATION).map(|it| secrets.redact(shown_location(it)));
    let text = match status.is_success() {
        true => read_success(&mut answer, spec).map(|verdict| match verdict {
            Verdict::AcceptedPartly { message, .. } => printable(&message),
            _ => String::new(),
        }),
        false => Ok(error_text(&mut answer, &content_type)),
    };
    let body = text.map(|text| secrets.redact(text));
    ProbeResponse { status: status.as_u16(), status_text: status_text(status), content_type, location, body }
}
