//! Transports: each makes one attempt to send a batch and returns one verdict.
//!
//! ```text
//! pipeline::worker ─ Payload, deadline ─► Transport::send ─ Verdict ─► pipeline::retry
//!                                               │
//!               ┌───────────────────────────────┼──────────────────────────┐
//!         http/ (ureq)             grpc/ (over the pure http2)       console/ (prints)
//!               └───────────────┬───────────────┘
//!      connect and send: connect (dial, proxy, tls), stream, gzip
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
//! | read and verify certificates | `tls/` |
//! | choose an address of a host | `dial.rs` |
//! | choose a proxy | `proxy.rs` |
//! | compress bodies | `gzip.rs` |
//! | remove secrets from messages | `redact.rs` |
//! | end an attempt by its deadline | `stream.rs` |
//! | end an attempt from another thread | `Interrupter` in `dial.rs` |
//! | send the requests of a probe | `http/probe_request.rs`, `grpc/probe_request.rs` |
//! | replace the network in tests | `tests/gate.rs` |
//!
//! Lock order: `HttpConnector::connector` (held while a connection is made), then `Interrupter::state`, then
//! `Mailbox::messages`. The timeline and the recorded certificate of a probe have leaf locks. A forked child opens its
//! own transports, so it never meets a lock that a thread of its parent holds.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use crate::config::ConnectionSettings;
use crate::process::Driver;
use crate::record::Signal;

pub(crate) mod base64;
pub mod calendar;
mod connect;
#[cfg(feature = "console")]
mod console;
mod dial;
#[cfg(test)]
#[path = "tests/gate.rs"]
pub(crate) mod gate;
#[cfg(feature = "grpc")]
mod grpc;
mod gzip;
mod http;
mod proxy;
mod redact;
mod response;
mod stream;
mod tls;

#[cfg(feature = "probe")]
pub(crate) use self::{
    connect::Timeline,
    http::{ProbeEnd, ProbeFailure, ProbeRequest, ProbeResponse},
    response::{Oddity, RETRYABLE as RETRYABLE_STATUSES, TOO_LONG},
    stream::Stream,
    tls::TlsConnector,
};
#[cfg(feature = "receiver")]
pub(crate) use self::{proxy::status_name, response::is_media_type};
#[cfg(all(feature = "console", feature = "receiver"))]
pub(crate) use console::json::write as write_json;
#[cfg(feature = "grpc")]
pub(crate) use grpc::GrpcSpec;
pub(crate) use http::HttpSpec;
pub(crate) use tls::TlsFault;
#[cfg(feature = "grpc")]
pub(crate) use tls::TlsFaultKind;

/// Sends one request at a time and never retries.
pub(crate) trait Transport: Send {
    /// Ends the effect of an earlier [cut](Self::cutter), so that the next attempt can run.
    fn forget_cut(&mut self) {}

    /// Makes one attempt. It returns by `deadline`, whatever the network does.
    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict;

    /// Returns a function that, from another thread, ends a running `send` if possible, and all later ones immediately.
    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync>;

    /// Returns a function that, from another thread, ends a running `send` if possible, and later ones until
    /// [`forget_cut`](Self::forget_cut) is called. The attempts after that call use a new connection.
    fn cutter(&self) -> Box<dyn Fn() + Send + Sync>;
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
    /// No server listens at the address, or the host does not exist. Nothing was sent; the request may be sent again.
    Unreachable {
        reason: String,
    },
    /// The proxy refused the credentials or the destination. The same request may be sent again, but only after minutes:
    /// each attempt repeats the password, and proxies lock accounts.
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
#[cfg(feature = "probe")]
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
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "only TLS has causes"))]
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

/// Prepares a gRPC transport.
///
/// # Errors
/// Returns an error if a setting cannot be used, or this build has no gRPC.
#[cfg(feature = "grpc")]
pub(crate) fn grpc(settings: &ConnectionSettings, driver: Driver) -> Result<Opener, SetupError> {
    let spec = GrpcSpec::new(settings)?;
    Ok(Box::new(move || Box::new(spec.open(driver))))
}

#[cfg(not(feature = "grpc"))]
pub(crate) fn grpc(_: &ConnectionSettings, _: Driver) -> Result<Opener, SetupError> {
    Err("this build cannot send over gRPC; build standpipe with its feature \"grpc\"".into())
}

/// Prepares a transport that prints requests instead of sending them. With `is_patient`, a failed write is retried.
///
/// # Errors
/// Returns an error if this build has no console exporter.
#[cfg(feature = "console")]
pub(crate) fn console(is_patient: bool) -> Result<Opener, SetupError> {
    Ok(Box::new(move || Box::new(console::Console::new(is_patient))))
}

#[cfg(not(feature = "console"))]
pub(crate) fn console(_: bool) -> Result<Opener, SetupError> {
    Err("this build cannot print; build standpipe with its feature \"console\"".into())
}

/// Makes the first letter lower-case, as in our messages; those of the operating system begin with an upper-case
/// letter.
fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}
