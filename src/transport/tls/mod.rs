//! TLS: trusted authorities, encrypted connections, and explanations of errors. Verification is always on.
//!
//! `connector` reads the user's certificates and opens connections, `recorder` keeps the certificates of servers for a
//! probe, `fault` explains errors of rustls. Without the feature "tls", `absent` replaces all of them.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod connector;
#[cfg(feature = "tls")]
mod fault;
#[cfg(all(feature = "tls", feature = "probe"))]
mod recorder;

#[cfg(not(feature = "tls"))]
pub(crate) use self::absent::*;
#[cfg(feature = "tls")]
pub(crate) use self::connector::{Session, TlsConnector, check};
#[cfg(feature = "tls")]
pub(crate) use self::fault::fault;

/// Why a TLS connection failed.
#[cfg_attr(
    not(all(feature = "probe", feature = "tls")),
    allow(dead_code, reason = "only TLS has such faults, and only a probe has advice for each kind")
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFault {
    pub(crate) kind: TlsFaultKind,
    /// Explanation with names and dates.
    pub(crate) what: String,
}

impl TlsFault {
    /// Returns whether the fault is retryable. Faults of certificates or of the protocol are permanent.
    pub(super) fn is_passing(&self) -> bool {
        self.kind == TlsFaultKind::Passing
    }
}

/// Kinds of TLS faults, by their remedy.
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
    /// Another fault of certificates or of the supported versions and ciphers.
    Other,
    /// A temporary fault: a later attempt may succeed.
    Passing,
}
