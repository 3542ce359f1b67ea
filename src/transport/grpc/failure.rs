//! Why there is no answer, and what that means.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};

use super::super::answer::printable;
use super::super::{TlsFault, Verdict, lower_first, tls};
use super::http2::conn::{Farewell, HeadTooLong};
use super::http2::frame::{Code, Fault};
use super::status::Status;

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
    /// The server has not looked at the request.
    Unprocessed,
    Reset(Code),
    TooLong(&'static str),
    Malformed(&'static str),
}

impl Failure {
    pub(super) fn of_lookup(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
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

    pub(super) fn of_handshake(error: io::Error) -> Self {
        tls::fault(&error).map_or_else(|| error.into(), Self::Tls)
    }

    pub(super) fn left(farewell: Option<&Farewell>) -> Self {
        Self::Left(match farewell {
            None => "the server closed the connection".to_owned(),
            Some(farewell) if farewell.text.is_empty() => {
                format!("the server closed the connection: {}", farewell.code)
            }
            Some(farewell) => {
                format!("the server closed the connection: {}: {}", farewell.code, printable(&farewell.text))
            }
        })
    }

    /// Whether the connection broke, rather than anything being said on it.
    pub(super) fn is_break(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Left(_))
    }

    /// Whether only this call failed.
    pub(super) fn spares_connection(&self) -> bool {
        matches!(
            self,
            Self::HeadTooLong(_) | Self::Reset(_) | Self::TooLong(_) | Self::Malformed(_) | Self::Unprocessed
        )
    }

    /// Trouble on the way is for trying again; trouble with certificates or with what speaks there is not.
    pub(super) fn verdict(self, target: &str) -> Verdict {
        let later = |what: &str| Verdict::TryLater { after: None, reason: format!("call {target}: {what}") };
        let refused = |what: &str| Verdict::Refused { reason: format!("call {target}: {what}") };
        match self {
            Self::TimedOut => later("no answer in time"),
            Self::HostNotFound => later("host not found"),
            Self::Io(error) => later(&lower_first(&printable(&error.to_string()))),
            Self::Proxy(error) => later(&format!("proxy: {}", lower_first(&printable(&error.to_string())))),
            Self::Tls(fault) => refused(&format!("tls: {}", printable(&fault.what))),
            Self::NoHttp2 => refused("tls: the server offers no HTTP/2, which gRPC needs"),
            Self::Left(what) => later(&what),
            Self::Fault(fault) => refused(&format!("no HTTP/2 as it should be: {}", fault.what)),
            Self::HeadTooLong(HeadTooLong { limit }) => {
                refused(&format!("the headers are too long: the server takes {limit} bytes of them"))
            }
            Self::Unprocessed => later("the server takes no calls"),
            Self::Reset(code) => {
                let status = Status::of_reset(code);
                let message = format!("the server broke the call off: {code}");
                status.verdict(target, &message, None)
            }
            Self::TooLong(what) | Self::Malformed(what) => refused(what),
        }
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
