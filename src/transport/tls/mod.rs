//! TLS: whom the transports trust, how they connect, and what is wrong when they cannot. Verification is never off.
//!
//! `certificates` reads the user's settings, `handshake` connects, `session` and `peek` are connections for gRPC and for a
//! probe, `fault` explains errors of rustls. Without the feature "tls", `absent` stands in for all of them.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod fault;
#[cfg(feature = "tls")]
mod handshake;
#[cfg(all(feature = "tls", feature = "probe"))]
mod peek;
#[cfg(all(feature = "tls", feature = "grpc"))]
mod session;

#[cfg(feature = "probe")]
use std::io;

#[cfg(not(feature = "tls"))]
pub(crate) use self::absent::*;
#[cfg(feature = "tls")]
pub(crate) use self::fault::{fault, fault_of};
#[cfg(feature = "tls")]
pub(super) use self::handshake::{Handshakes, Secured};
#[cfg(all(feature = "tls", feature = "probe"))]
pub(crate) use self::peek::peek;
#[cfg(all(feature = "tls", feature = "grpc"))]
pub(super) use self::session::{Connector, Session};
#[cfg(feature = "probe")]
use super::deadline_stream::ReadWrite;

/// Why there is no encrypted connection.
#[cfg_attr(
    not(all(feature = "probe", feature = "tls")),
    allow(dead_code, reason = "only TLS has such faults, and only a probe has advice for each kind")
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFault {
    pub(crate) kind: TlsFaultKind,
    /// In words, with the names and dates that it is about.
    pub(crate) what: String,
}

impl TlsFault {
    /// Faults of certificates or of the protocol are permanent; all others are retryable.
    pub(super) fn is_passing(&self) -> bool {
        self.kind == TlsFaultKind::Passing
    }
}

/// The kinds of TLS faults that can be mended in different ways.
#[cfg_attr(
    not(all(feature = "probe", feature = "tls")),
    allow(dead_code, reason = "only TLS has such faults, and only a probe has advice for each kind")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsFaultKind {
    NotTls,
    UnknownIssuer,
    Expired,
    NotValidYet,
    WrongHost,
    Authority,
    ClientCertificateWanted,
    ClientCertificateRefused,
    NoHttp2,
    /// Another fault of certificates or of what the two sides can do.
    Other,
    /// Neither: a later attempt may succeed.
    Passing,
}

/// What a server sent in a TLS handshake that a probe made to look at it.
#[cfg(feature = "probe")]
pub(crate) struct TlsPeek {
    /// In DER, as it was shown; nothing in it has been verified unless there is a stream.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) version: Option<&'static str>,
    /// The protocol that the server chose, if it did.
    pub(crate) protocol: Option<Vec<u8>>,
    /// Whether the server asked for a client's certificate, and ended the handshake when it got none.
    pub(crate) misses_client: bool,
    /// An encrypted connection to a verified server, or why there is none.
    pub(crate) stream: io::Result<Box<dyn ReadWrite>>,
}

#[cfg(feature = "probe")]
impl TlsPeek {
    pub(crate) fn none(error: io::Error) -> Self {
        Self { certificate: None, version: None, protocol: None, misses_client: false, stream: Err(error) }
    }
}
