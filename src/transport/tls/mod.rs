//! TLS: trusted authorities, encrypted connections, and the meaning of errors. Verification is never off.
//!
//! `connector` reads the user's certificates and makes connections, `recorder` keeps the certificates of servers for a probe,
//! `fault` explains errors of rustls. Without the feature "tls", `absent` stands in for all of them.

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
