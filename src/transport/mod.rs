//! Transports: each makes one attempt to send a batch and returns one verdict.
//!
//! ```text
//! pipeline::worker ─ Payload, deadline ─► Transport::send ─ Verdict ─► pipeline::retry
//!                                               │
//!               ┌───────────────────────────────┼──────────────────────────┐
//!         http/ (ureq)             grpc/ (over the pure http2)       file, console (write)
//!               └───────────────┬───────────────┘
//!      connect and send: connect (dial, proxy, tls), stream, gzip
//!      JSON:             json
//!      judge responses:  response, calendar
//!      hide secrets:     redact
//! ```
//!
//! A transport never retries: `pipeline::retry` decides what follows from a [`Verdict`].
//!
//! | Task | Place |
//! |---|---|
//! | list retryable HTTP statuses | `RETRYABLE` in `response/mod.rs` |
//! | list retryable gRPC statuses | `RETRYABLE` in `grpc/status.rs` |
//! | turn a response into a verdict | `http/response.rs`, `grpc/status.rs`; its body: `response/` |
//! | turn a failed connection into a verdict | `connect.rs`; TLS: `tls/fault.rs` |
//! | read and verify certificates | `tls/`; when they change: `Connector::reload` in `connect.rs` |
//! | choose an address of a host | `dial.rs` |
//! | choose a proxy | `proxy.rs` |
//! | renew headers that change | `credentials.rs` |
//! | compress bodies | `gzip.rs` |
//! | convert requests to JSON | `json.rs` |
//! | remove secrets from messages | `redact.rs` |
//! | end an attempt by its deadline | `stream.rs` |
//! | end an attempt from another thread | `Interrupter` in `dial.rs` |
//! | send the requests of a probe | `http/probe_request.rs`, `grpc/probe_request.rs` |
//! | replace the network in tests | `tests/gate.rs` |
//!
//! Lock order: `HttpConnector::connector` (held while a connection is made), then `Interrupter::state`, then
//! `Mailbox::messages`. `Interrupter::notice`, the timeline and the recorded certificate of a probe have leaf locks. A
//! forked child opens its own transports, so it never meets a lock that a thread of its parent holds.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::ConnectionSettings;
use crate::process::{Driver, lock};
use crate::record::Signal;

pub mod base64;
pub mod calendar;
mod connect;
#[cfg(feature = "json")]
mod console;
mod credentials;
mod dial;
#[cfg(feature = "json")]
mod file;
#[cfg(test)]
#[path = "tests/gate.rs"]
pub(crate) mod gate;
#[cfg(feature = "grpc")]
mod grpc;
mod gzip;
mod http;
#[cfg(feature = "json")]
mod json;
mod proxy;
mod redact;
mod response;
mod stream;
mod tls;

#[cfg(feature = "probe")]
pub(crate) use self::{
    connect::Timeline,
    credentials::with_current_headers,
    http::{ProbeFailure, ProbeRequest, ProbeResponse},
    response::{Oddity, RETRYABLE as RETRYABLE_STATUSES, TOO_LONG},
    stream::Stream,
    tls::TlsConnector,
};
#[cfg(feature = "receiver")]
pub(crate) use self::{proxy::status_name, response::is_media_type};
use dial::Interrupter;
#[cfg(feature = "grpc")]
pub(crate) use grpc::GrpcSpec;
pub(crate) use http::HttpSpec;
#[cfg(feature = "json")]
use json::encode as encode_json;
#[cfg(all(feature = "json", feature = "receiver"))]
pub(crate) use json::write as write_json;
pub(crate) use tls::{TlsFault, TlsFaultKind};

/// Sends one request at a time and never retries.
pub(crate) trait Transport: Send {
    /// Returns the interrupter of attempts over the network. `None` for transports that write to a file or to standard
    /// output, because such a write cannot be interrupted.
    fn attempts(&self) -> Option<&Arc<Interrupter>> {
        None
    }

    /// Ends the effect of an earlier [cut](Self::cutter), so that the next attempt can run.
    fn forget_cut(&mut self) {
        self.attempts().into_iter().for_each(|attempts| attempts.forget_cut());
    }

    /// Encodes the request of the next `send`, unless the transport sends protobuf. Returns false if the encoded
    /// request has more than `max_bytes`, or if the payload cannot be encoded.
    fn encode(&mut self, _: &Payload<'_>, _max_bytes: usize) -> bool {
        true
    }

    /// Makes one attempt. It returns by `deadline`, whatever the network does.
    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict;

    /// Returns the status of the response to the last `send`, if there was a response.
    fn last_status(&self) -> Option<ResponseStatus> {
        None
    }

    /// Takes a message about the certificates, to be reported as a problem of the configuration.
    fn take_notice(&mut self) -> Option<String> {
        lock(&self.attempts()?.notice).take()
    }

    /// Returns a function that, from another thread, ends a running `send` if possible, and all later ones immediately.
    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        ending(self.attempts(), Interrupter::interrupt_for_good)
    }

    /// Returns a function that, from another thread, ends a running `send` if possible, and later ones until
    /// [`forget_cut`](Self::forget_cut) is called. The attempts after that call use a new connection.
    fn cutter(&self) -> Box<dyn Fn() + Send + Sync> {
        ending(self.attempts(), Interrupter::cut)
    }
}

/// Returns a function that calls `end` on the interrupter, if there is one.
// Captures the interrupter instead of ureq's agent: a clone of the agent would keep the connection open.
fn ending(attempts: Option<&Arc<Interrupter>>, end: fn(&Interrupter)) -> Box<dyn Fn() + Send + Sync> {
    let attempts = attempts.cloned();
    Box::new(move || attempts.iter().for_each(|attempts| end(attempts)))
}

/// The records of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) signal: Signal,
    /// A complete `Export…ServiceRequest`, uncompressed, in pieces.
    pub(crate) body: &'a [&'a [u8]],
}

impl Payload<'_> {
    fn len(&self) -> usize {
        self.body.iter().map(|piece| piece.len()).sum()
    }
}

/// Fails. Validation refuses JSON in builds without it, so no request gets here.
#[cfg(not(feature = "json"))]
fn encode_json(_: &mut Vec<u8>, _: &Payload<'_>, _: usize) -> bool {
    false
}

/// Empties the buffer of an encoded request, and frees most of a large one.
fn shrink(text: &mut Vec<u8>) {
    text.clear();
    text.shrink_to(1 << 20);
}

/// The status of a response, for self-observation: the number of an HTTP status, or the name of a gRPC status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseStatus {
    Http(u16),
    Grpc(String),
}

/// The result of one attempt. Only `pipeline::retry` decides what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// Final: the collector accepted all but `rejected` records. If `rejected` is 0, the message is a warning.
    AcceptedPartly {
        rejected: u64,
        message: String,
    },
    /// The same request may be sent again; `after` is the delay that the server asked for.
    TryLater {
        after: Option<Duration>,
        reason: String,
    },
    /// The host is unknown or unreachable, it refused the connection, or the file cannot be written. The same request
    /// may be sent again.
    Unreachable {
        reason: String,
    },
    /// The proxy refused the credentials or the destination. The same request may be sent again, but only after
    /// minutes: each attempt repeats the password, and proxies lock accounts.
    ProxyRefused {
        reason: String,
    },
    /// The records may be accepted in several smaller requests.
    TooLarge {
        reason: String,
    },
    /// The collector does not accept this signal; it may accept others.
    NotTaken {
        reason: String,
    },
    /// Final: nothing was accepted.
    Refused {
        reason: String,
    },
}

impl Verdict {
    /// Closes the connection if the server cannot serve now and the host has several addresses, so that the next
    /// attempt can use another address. If the server asks for a delay, the connection is kept.
    fn discard_connection(&self, interrupter: &dial::Interrupter) {
        if matches!(self, Self::TryLater { after: None, .. }) {
            interrupter.discard();
        }
    }

    /// Passes the text of the verdict through `edit`.
    fn map_text(mut self, edit: impl FnOnce(String) -> String) -> Self {
        match &mut self {
            Self::Accepted => {}
            Self::AcceptedPartly { message: text, .. }
            | Self::TryLater { reason: text, .. }
            | Self::Unreachable { reason: text }
            | Self::ProxyRefused { reason: text }
            | Self::TooLarge { reason: text }
            | Self::NotTaken { reason: text }
            | Self::Refused { reason: text } => *text = edit(std::mem::take(text)),
        }
        self
    }
}

/// The response to an empty gRPC call, with secrets redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallResponse {
    /// gRPC status code; 0 is success.
    pub(crate) code: u32,
    /// Name of the code, such as `UNAVAILABLE`.
    pub(crate) name: String,
    /// Message of the server, which may be empty.
    pub(crate) message: String,
    /// Defect of a successful response.
    pub(crate) odd: Option<&'static str>,
    /// True if an exporter would not drop records after this response.
    pub(crate) is_retryable: bool,
}

/// Why a transport cannot be set up, as a message without secrets.
#[derive(Debug)]
pub(crate) struct SetupError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SetupError {
    fn caused_by(message: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self { message: message.into(), source: Some(Box::new(source)) }
    }
}

impl<T: Into<String>> From<T> for SetupError {
    fn from(message: T) -> Self {
        Self { message: message.into(), source: None }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// A function that opens a transport, in this process or in a forked child.
pub(crate) type Opener = Box<dyn Fn() -> Box<dyn Transport> + Send + Sync>;

/// Prepares an HTTP transport.
///
/// # Errors
/// Returns an error if a setting cannot be used.
pub(crate) fn http(settings: &ConnectionSettings, driver: Driver) -> Result<Opener, SetupError> {
    let (spec, settings) = (HttpSpec::new(settings)?, settings.clone());
    Ok(Box::new(move || credentials::renewing(spec.open(driver, None), &settings, driver)))
}

/// Prepares a gRPC transport.
///
/// # Errors
/// Returns an error if a setting cannot be used, or this build has no gRPC.
#[cfg(feature = "grpc")]
pub(crate) fn grpc(settings: &ConnectionSettings, driver: Driver) -> Result<Opener, SetupError> {
    let (spec, settings) = (GrpcSpec::new(settings)?, settings.clone());
    Ok(Box::new(move || credentials::renewing(spec.open(driver), &settings, driver)))
}

#[cfg(not(feature = "grpc"))]
pub(crate) fn grpc(_: &ConnectionSettings, _: Driver) -> Result<Opener, SetupError> {
    Err("this build cannot send over gRPC; build standpipe with its feature \"grpc\"".into())
}

/// Prepares a transport that writes lines of JSON, to a file or to standard output. With `is_patient`, a failed write
/// to standard output is retried.
///
/// # Errors
/// Returns an error if the file cannot be opened, or this build has no JSON.
#[cfg(feature = "json")]
pub(crate) fn lines(settings: &ConnectionSettings, is_patient: bool) -> Result<Opener, SetupError> {
    if settings.transport == crate::config::Transport::Console {
        return Ok(Box::new(move || Box::new(console::Console::new(is_patient))));
    }
    let settings = file::checked(&settings.file)?;
    Ok(Box::new(move || Box::new(file::FileTransport::new(settings.clone()))))
}

#[cfg(not(feature = "json"))]
pub(crate) fn lines(_: &ConnectionSettings, _: bool) -> Result<Opener, SetupError> {
    Err("this build cannot write JSON; build standpipe with its feature \"json\"".into())
}

/// Makes the first letter lower-case if it is ASCII, as in our messages; those of the operating system begin with an
/// upper-case letter.
fn lower_first(text: &str) -> String {
    let mut lower = text.to_owned();
    if let Some(first) = lower.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    lower
}
