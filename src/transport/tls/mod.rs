//! TLS: trusted authorities, encrypted connections, and explanations of errors. Verification is always on.
//!
//! `connector` reads the user's certificates and opens connections, and keeps the certificates of servers for a probe;
//! `fault` explains errors of rustls. Without the feature "tls", `absent` replaces both.

#[cfg(feature = "tls")]
mod connector;
#[cfg(feature = "tls")]
mod fault;

#[cfg(not(feature = "tls"))]
pub(crate) use self::absent::*;
#[cfg(feature = "tls")]
pub(crate) use self::connector::{Session, TlsConnector, check};
#[cfg(feature = "tls")]
pub(crate) use self::fault::fault;

/// Why a TLS connection failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFault {
    pub(crate) kind: TlsFaultKind,
    /// Explanation with names and dates.
    pub(crate) what: String,
}

impl TlsFault {
    /// Returns whether the fault is retryable. Most faults of certificates or of the protocol are permanent. Faults of
    /// the validity period are not: an expired certificate may be renewed, and a machine that starts with a wrong clock
    /// may set it from the network.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.kind, TlsFaultKind::Passing | TlsFaultKind::Expired | TlsFaultKind::NotValidYet)
    }
}

/// Kinds of TLS faults, by their remedy.
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

/// Replacement for TLS in a build without the feature "tls": its types have no values.
#[cfg(not(feature = "tls"))]
mod absent {
    use std::io;

    use super::TlsFault;
    use crate::config::TlsSettings;
    use crate::transport::SetupError;
    use crate::transport::stream::Stream;

    pub(crate) fn fault(_: &io::Error) -> Option<TlsFault> {
        None
    }

    pub(crate) fn check(_: &TlsSettings) -> Result<(), SetupError> {
        Ok(())
    }

    pub(crate) type TlsConnector = Absent;
    pub(crate) type Session = Absent;

    /// Has no values.
    #[derive(Debug, Clone)]
    pub(crate) enum Absent {}

    impl Absent {
        pub(crate) fn new(_: &TlsSettings, _: &str, _: Option<&[u8]>) -> Result<Self, SetupError> {
            Err("https needs the feature \"tls\"".into())
        }

        pub(crate) fn recording(self, _: &TlsSettings) -> Result<Self, SetupError> {
            match self {}
        }

        pub(crate) fn take_certificate(&self) -> Option<Vec<u8>> {
            match *self {}
        }

        pub(crate) fn without_sessions(&self) -> Self {
            match *self {}
        }

        pub(crate) fn with(&self, _: &TlsSettings) -> Result<Self, SetupError> {
            match *self {}
        }

        pub(crate) fn connect(&self, _: Stream) -> io::Result<Stream> {
            match *self {}
        }

        pub(crate) fn protocol(&self) -> Option<&[u8]> {
            match *self {}
        }

        pub(crate) fn version(&self) -> &'static str {
            match *self {}
        }

        pub(crate) fn read(&mut self, _: &mut Stream, _: &mut [u8]) -> io::Result<usize> {
            match *self {}
        }

        pub(crate) fn write(&mut self, _: &mut Stream, _: &[u8]) -> io::Result<usize> {
            match *self {}
        }
    }
}
