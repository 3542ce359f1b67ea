//! Failures of calls without a response, and their verdicts.

use std::io::{self, ErrorKind};

use super::super::connect::NetworkError;
use super::super::response::printable;
use super::super::{TlsFault, TlsFaultKind, Verdict};
use super::status::Status;
use crate::http2::client::GoAway;
use crate::http2::frame::{Code, Fault};

#[derive(Debug)]
pub(super) enum CallFailure {
    Network(NetworkError),
    /// The server closed the connection, with this reason.
    Left(String),
    /// The server violated HTTP/2.
    Fault(Fault),
    /// The request headers exceed this limit of the server.
    HeadTooLong(usize),
    /// The server has not processed the request, for this reason.
    Unprocessed(String),
    Reset(Code),
    Malformed(&'static str),
}

impl CallFailure {
    pub(super) const TIMED_OUT: Self = Self::Network(NetworkError::TimedOut);

    /// Returns the failure of a TLS handshake that did not negotiate HTTP/2.
    pub(super) fn no_http2() -> Self {
        let what = "the server offers no HTTP/2, which gRPC needs".to_owned();
        Self::Network(NetworkError::Tls(TlsFault { kind: TlsFaultKind::NoHttp2, what }))
    }

    pub(super) fn left(go_away: Option<&GoAway>) -> Self {
        Self::Left(quote("the server closed the connection", go_away))
    }

    pub(super) fn unprocessed(go_away: Option<&GoAway>) -> Self {
        Self::Unprocessed(quote("the server accepts no calls", go_away))
    }

    /// Converts the failure of a call that this side interrupted: most network errors and a closed connection become a
    /// timeout, because the interruption, not the server, probably caused them.
    pub(super) fn broken_off(self) -> Self {
        match self {
            // An interruption causes no TLS fault except one that looks as if the server required a client certificate.
            Self::Network(NetworkError::Tls(ref fault))
                if fault.kind != TlsFaultKind::ClientCertificateWanted =>
            {
                self
            }
            Self::Network(_) | Self::Left(_) => Self::TIMED_OUT,
            other => other,
        }
    }

    /// Returns whether the connection broke without a response.
    pub(super) fn is_break(&self) -> bool {
        matches!(self, Self::Network(NetworkError::Io(_)) | Self::Left(_))
    }

    /// Returns whether only this call failed and the connection can be reused.
    pub(super) fn keeps_connection(&self) -> bool {
        !matches!(self, Self::Network(_) | Self::Left(_) | Self::Fault(_))
    }

    /// Returns the verdict. Network errors are retryable; violations of HTTP/2 and permanent TLS faults are not.
    pub(super) fn verdict(self, target: &str) -> Verdict {
        let reason = format!("call {target}: {}", self.what());
        match self {
            Self::Network(error) => error.verdict(&format!("call {target}")),
            Self::Left(_) | Self::Unprocessed(_) => Verdict::TryLater { after: None, reason },
            Self::Fault(_) | Self::HeadTooLong(_) | Self::Malformed(_) => Verdict::Refused { reason },
            Self::Reset(code) => Status::of_reset(code).verdict(target, &self.what(), None),
        }
    }

    /// Describes the failure, in one line.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Network(error) => error.what(),
            Self::Left(what) | Self::Unprocessed(what) => what.clone(),
            Self::Fault(fault) => format!("the server broke the HTTP/2 protocol: {}", fault.what),
            Self::HeadTooLong(limit) => {
                format!("the request headers are too long: the server accepts {limit} bytes")
            }
            Self::Reset(code) => format!("the server reset the call: {code}"),
            Self::Malformed(what) => (*what).to_owned(),
        }
    }
}

/// Returns `what`, followed by the code and the text of the server's GOAWAY, if it sent one.
fn quote(what: &str, go_away: Option<&GoAway>) -> String {
    match go_away {
        None => what.to_owned(),
        Some(go_away) if go_away.text.is_empty() => format!("{what}: {}", go_away.code),
        Some(go_away) => format!("{what}: {}: {}", go_away.code, printable(&go_away.text)),
    }
}

/// Treats a TLS connection that ends without `close_notify` as closed.
impl From<io::Error> for CallFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::left(None),
            _ => Self::Network(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::client::ClientConnection;

    const TARGET: &str = "http://localhost:4317";

    fn later(reason: &str) -> Verdict {
        Verdict::TryLater { after: None, reason: format!("call {TARGET}: {reason}") }
    }

    fn unreachable(reason: &str) -> Verdict {
        Verdict::Unreachable { reason: format!("call {TARGET}: {reason}") }
    }

    fn refused(reason: &str) -> Verdict {
        Verdict::Refused { reason: format!("call {TARGET}: {reason}") }
    }

    #[test]
    fn trouble_on_the_way_is_for_trying_again() {
        let refusal = || io::Error::new(ErrorKind::ConnectionRefused, "Connection refused");
        let tls = |kind, what: &str| NetworkError::Tls(TlsFault { kind, what: what.to_owned() });
        let passing = tls(TlsFaultKind::Passing, "the server ended the handshake: InternalError");
        let wanted = || tls(TlsFaultKind::ClientCertificateWanted, "client certificate required");
        let network = CallFailure::Network;
        let at_proxy = |error| {
            network(NetworkError::AtProxy {
                proxy: "proxy p:1 (HTTP_PROXY)".to_owned(),
                error: Box::new(error),
            })
        };
        for (failure, expected) in [
            (CallFailure::TIMED_OUT, later("no answer in time")),
            (network(passing), later("tls: the server ended the handshake: InternalError")),
            (network(NetworkError::HostNotFound(ErrorKind::NotFound.into())), unreachable("host not found")),
            (refusal().into(), unreachable("connection refused")),
            (
                at_proxy(NetworkError::Io(refusal())),
                unreachable("proxy p:1 (HTTP_PROXY): connection refused"),
            ),
            (
                at_proxy(NetworkError::ProxyStatus { status: "502 Bad Gateway".to_owned(), advice: None }),
                later("proxy p:1 (HTTP_PROXY): 502 Bad Gateway"),
            ),
            (CallFailure::left(None), later("the server closed the connection")),
            (CallFailure::unprocessed(None), later("the server accepts no calls")),
            (CallFailure::Reset(Code::CANCEL), later("CANCELLED: the server reset the call: CANCEL")),
            (CallFailure::from(refusal()).broken_off(), later("no answer in time")),
            (CallFailure::left(None).broken_off(), later("no answer in time")),
            (at_proxy(wanted()).broken_off(), later("no answer in time")),
            (network(wanted()).broken_off(), later("no answer in time")),
            (CallFailure::from(io::Error::from(ErrorKind::TimedOut)), later("no answer in time")),
        ] {
            assert_eq!(failure.verdict(TARGET), expected);
        }
    }

    #[test]
    fn only_an_expired_certificate_is_trouble_that_may_pass() {
        let expired =
            TlsFault { kind: TlsFaultKind::Expired, what: "the server's certificate has expired".to_owned() };
        for (failure, expected) in [
            (
                CallFailure::Network(NetworkError::Tls(expired)),
                later("tls: the server's certificate has expired"),
            ),
            (CallFailure::no_http2(), refused("tls: the server offers no HTTP/2, which gRPC needs")),
            (
                CallFailure::Fault(Fault::protocol("the peer speaks HTTP/1: is this the HTTP port, 4318?")),
                refused(
                    "the server broke the HTTP/2 protocol: the peer speaks HTTP/1: is this the HTTP port, 4318?",
                ),
            ),
            (
                CallFailure::HeadTooLong(99),
                refused("the request headers are too long: the server accepts 99 bytes"),
            ),
            (
                CallFailure::Reset(Code::PROTOCOL),
                refused("INTERNAL: the server reset the call: PROTOCOL_ERROR"),
            ),
            (
                CallFailure::Malformed("the response is longer than response-bytes"),
                refused("the response is longer than response-bytes"),
            ),
            (CallFailure::Malformed("a second header block"), refused("a second header block")),
        ] {
            assert_eq!(failure.verdict(TARGET), expected);
        }
    }

    #[test]
    fn a_server_that_leaves_is_quoted_on_one_line() {
        let go_away = |text: &[u8]| {
            let mut conn = ClientConnection::new();
            let length = 8 + text.len() as u8;
            let script = [
                &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11][..],
                text,
            ]
            .concat();
            conn.receive(&script).expect("it is a greeting and a farewell");
            CallFailure::left(conn.go_away()).verdict(TARGET)
        };
        assert_eq!(go_away(b""), later("the server closed the connection: ENHANCE_YOUR_CALM"));
        let expected = "the server closed the connection: ENHANCE_YOUR_CALM: too many pings";
        assert_eq!(go_away(b"too\nmany\x1bpings"), later(expected));
    }

    #[test]
    fn only_a_call_that_failed_by_itself_spares_its_connection() {
        let spares =
            [CallFailure::unprocessed(None), CallFailure::Reset(Code::CANCEL), CallFailure::Malformed("")];
        assert!(spares.iter().all(|failure| failure.keeps_connection() && !failure.is_break()));
        let breaks = [CallFailure::from(io::Error::from(ErrorKind::BrokenPipe)), CallFailure::left(None)];
        assert!(breaks.iter().all(|failure| failure.is_break() && !failure.keeps_connection()));
        let neither =
            [CallFailure::TIMED_OUT, CallFailure::Fault(Fault::protocol("")), CallFailure::no_http2()];
        assert!(!neither.iter().any(|failure| failure.is_break() || failure.keeps_connection()));
    }
}
