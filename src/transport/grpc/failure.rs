//! Why there is no answer, and what that means.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};

use super::super::answer::printable;
use super::super::{TlsFault, TlsFaultKind, Verdict, lower_first, tls};
use super::http2::conn::{Farewell, HeadTooLong};
use super::http2::frame::{Code, Fault};
use super::status::Status;

/// Of a handshake that led to something else.
pub(super) const NO_HTTP2: &str = "the server offers no HTTP/2, which gRPC needs";

#[derive(Debug)]
pub(super) enum Failure {
    TimedOut,
    HostNotFound,
    Io(io::Error),
    Proxy(io::Error),
    Tls(TlsFault),
    /// The server does not speak HTTP/2 over TLS.
    NoHttp2,
    /// The server closed the connection; what it said of the reason.
    Left(String),
    /// The server broke a rule of HTTP/2.
    Fault(Fault),
    HeadTooLong(HeadTooLong),
    /// The server has not looked at the request; what it said of the reason.
    Unprocessed(String),
    Reset(Code),
    TooLong(&'static str),
    Malformed(&'static str),
}

impl Failure {
    pub(super) fn of_lookup(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
            // nobody could be asked: no thread or no file was left for it
            _ if error.raw_os_error().is_some() => Self::Io(error),
            // systems have many words for it
            _ => Self::HostNotFound,
        }
    }

    pub(super) fn of_proxy(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Proxy(error),
        }
    }

    /// Of a connection that may be encrypted: servers refuse a client's certificate after the handshake, too.
    pub(super) fn of_stream(error: io::Error) -> Self {
        tls::fault(&error).map_or_else(|| error.into(), Self::Tls)
    }

    pub(super) fn left(farewell: Option<&Farewell>) -> Self {
        Self::Left(quote("the server closed the connection", farewell))
    }

    pub(super) fn unprocessed(farewell: Option<&Farewell>) -> Self {
        Self::Unprocessed(quote("the server takes no calls", farewell))
    }

    /// Of a call that was broken off from this side: its time is up, and what broke is nobody else's fault.
    pub(super) fn broken_off(self) -> Self {
        match self {
            Self::Io(_) | Self::Left(_) | Self::Proxy(_) => Self::TimedOut,
            // a handshake that breaks off may be taken for that of a server that misses a client certificate
            Self::Tls(TlsFault { kind: TlsFaultKind::ClientCertificateWanted, .. }) => Self::TimedOut,
            other => other,
        }
    }

    /// Whether the connection broke, rather than anything being said on it.
    pub(super) fn is_break(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Left(_))
    }

    /// Whether only this call failed.
    pub(super) fn spares_connection(&self) -> bool {
        matches!(
            self,
            Self::HeadTooLong(_)
                | Self::Reset(_)
                | Self::TooLong(_)
                | Self::Malformed(_)
                | Self::Unprocessed(_)
        )
    }

    /// Trouble on the way is for trying again; trouble with certificates or with what speaks there is not.
    pub(super) fn verdict(self, target: &str) -> Verdict {
        let what = self.what();
        let reason = format!("call {target}: {what}");
        match self {
            Self::Tls(fault) if fault.is_passing() => Verdict::TryLater { after: None, reason },
            Self::TimedOut
            | Self::HostNotFound
            | Self::Io(_)
            | Self::Proxy(_)
            | Self::Left(_)
            | Self::Unprocessed(_) => Verdict::TryLater { after: None, reason },
            Self::Tls(_)
            | Self::NoHttp2
            | Self::Fault(_)
            | Self::HeadTooLong(_)
            | Self::TooLong(_)
            | Self::Malformed(_) => Verdict::Refused { reason },
            Self::Reset(code) => Status::of_reset(code).verdict(target, &what, None),
        }
    }

    /// In words.
    pub(super) fn what(&self) -> String {
        match self {
            Self::TimedOut => "no answer in time".to_owned(),
            Self::HostNotFound => "host not found".to_owned(),
            Self::Io(error) => lower_first(&printable(&error.to_string())),
            Self::Proxy(error) => format!("proxy: {}", lower_first(&printable(&error.to_string()))),
            Self::Tls(fault) => format!("tls: {}", printable(&fault.what)),
            Self::NoHttp2 => format!("tls: {NO_HTTP2}"),
            Self::Left(what) | Self::Unprocessed(what) => what.clone(),
            Self::Fault(fault) => format!("no HTTP/2 as it should be: {}", fault.what),
            Self::HeadTooLong(HeadTooLong { limit }) => {
                format!("the headers are too long: the server takes {limit} bytes of them")
            }
            Self::Reset(code) => format!("the server broke the call off: {code}"),
            Self::TooLong(what) | Self::Malformed(what) => (*what).to_owned(),
        }
    }
}

/// What happened, and what the server said when it left.
fn quote(what: &str, farewell: Option<&Farewell>) -> String {
    match farewell {
        None => what.to_owned(),
        Some(farewell) if farewell.text.is_empty() => format!("{what}: {}", farewell.code),
        Some(farewell) => format!("{what}: {}: {}", farewell.code, printable(&farewell.text)),
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Io(error),
        }
    }
}

impl From<HeadTooLong> for Failure {
    fn from(head: HeadTooLong) -> Self {
        Self::HeadTooLong(head)
    }
}
