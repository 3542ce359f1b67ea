//! Why a call got no response, and the verdict that follows.

use std::io::{self, ErrorKind};

use super::super::response::printable;
use super::super::{TlsFault, TlsFaultKind, Verdict, lower_first, tcp, tls};
use super::status::Status;
use crate::http2::conn::{GoAway, HeadTooLong};
use crate::http2::frame::{Code, Fault};

/// Of a handshake that led to something else.
pub(super) const NO_HTTP2: &str = "the server offers no HTTP/2, which gRPC needs";

#[derive(Debug)]
pub(super) enum CallFailure {
    TimedOut,
    HostNotFound,
    Io(io::Error),
    Proxy(io::Error),
    Tls(TlsFault),
    /// The server does not speak HTTP/2 over TLS.
    NoHttp2,
    /// The server closed the connection, with this reason.
    Left(String),
    /// The server broke a rule of HTTP/2.
    Fault(Fault),
    HeadTooLong(HeadTooLong),
    /// The server has not processed the request, for this reason.
    Unprocessed(String),
    Reset(Code),
    TooLong(&'static str),
    Malformed(&'static str),
}

impl CallFailure {
    pub(super) fn of_lookup(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
            // The lookup could not even begin: no thread or no file was left for it.
            _ if error.raw_os_error().is_some() => Self::Io(error),
            // Each system words it differently.
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

    pub(super) fn left(go_away: Option<&GoAway>) -> Self {
        Self::Left(quote("the server closed the connection", go_away))
    }

    pub(super) fn unprocessed(go_away: Option<&GoAway>) -> Self {
        Self::Unprocessed(quote("the server takes no calls", go_away))
    }

    /// The same for a call that this side ended: its time is up, and the server is not to blame.
    pub(super) fn broken_off(self) -> Self {
        match self {
            Self::Io(_) | Self::Left(_) | Self::Proxy(_) => Self::TimedOut,
            // a handshake that breaks off may be taken for that of a server that misses a client certificate
            Self::Tls(TlsFault { kind: TlsFaultKind::ClientCertificateWanted, .. }) => Self::TimedOut,
            other => other,
        }
    }

    /// Whether the connection broke, without an answer.
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

    /// A problem of the network is retryable; one of certificates or of the protocol is not.
    pub(super) fn verdict(self, target: &str) -> Verdict {
        let what = self.what();
        let reason = format!("call {target}: {what}");
        match self {
            Self::Tls(fault) if fault.is_passing() => Verdict::TryLater { after: None, reason },
            Self::HostNotFound => Verdict::Unreachable { reason },
            Self::Io(error) => tcp::failure_verdict(&error, reason),
            Self::Proxy(why) if why.kind() == ErrorKind::PermissionDenied => Verdict::ProxyRefused { reason },
            Self::TimedOut | Self::Proxy(_) | Self::Left(_) | Self::Unprocessed(_) => {
                Verdict::TryLater { after: None, reason }
            }
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

/// What happened, and the reason in the server's GOAWAY.
fn quote(what: &str, go_away: Option<&GoAway>) -> String {
    match go_away {
        None => what.to_owned(),
        Some(go_away) if go_away.text.is_empty() => format!("{what}: {}", go_away.code),
        Some(go_away) => format!("{what}: {}: {}", go_away.code, printable(&go_away.text)),
    }
}

impl From<io::Error> for CallFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Io(error),
        }
    }
}

impl From<HeadTooLong> for CallFailure {
    fn from(head: HeadTooLong) -> Self {
        Self::HeadTooLong(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::conn::Conn;

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
        // the system's message
        let no_file = lower_first(&io::Error::from_raw_os_error(24).to_string());
        let passing = TlsFault {
            kind: TlsFaultKind::Passing,
            what: "the server ended the handshake: InternalError".to_owned(),
        };
        let wanted = TlsFault {
            kind: TlsFaultKind::ClientCertificateWanted,
            what: "client certificate required".to_owned(),
        };
        for (failure, expected) in [
            (CallFailure::TimedOut, later("no answer in time")),
            (CallFailure::Tls(passing), later("tls: the server ended the handshake: InternalError")),
            (CallFailure::HostNotFound, unreachable("host not found")),
            (CallFailure::Io(refusal()), unreachable("connection refused")),
            (CallFailure::Proxy(refusal()), later("proxy: connection refused")),
            (CallFailure::left(None), later("the server closed the connection")),
            (CallFailure::unprocessed(None), later("the server takes no calls")),
            (CallFailure::Reset(Code::CANCEL), later("CANCELLED: the server broke the call off: CANCEL")),
            (CallFailure::of_lookup(ErrorKind::NotFound.into()), unreachable("host not found")),
            (CallFailure::of_lookup(ErrorKind::TimedOut.into()), later("no answer in time")),
            (CallFailure::Io(io::Error::from_raw_os_error(24)).broken_off(), later("no answer in time")),
            (CallFailure::left(None).broken_off(), later("no answer in time")),
            (CallFailure::Proxy(ErrorKind::InvalidData.into()).broken_off(), later("no answer in time")),
            (CallFailure::Tls(wanted).broken_off(), later("no answer in time")),
            (CallFailure::of_lookup(io::Error::from_raw_os_error(24)), later(&no_file)),
            (CallFailure::of_proxy(ErrorKind::TimedOut.into()), later("no answer in time")),
            (CallFailure::of_stream(ErrorKind::TimedOut.into()), later("no answer in time")),
        ] {
            assert_eq!(failure.verdict(TARGET), expected);
        }
    }

    #[test]
    fn trouble_with_certificates_or_with_what_speaks_there_is_for_good() {
        let expired =
            TlsFault { kind: TlsFaultKind::Expired, what: "the server's certificate has expired".to_owned() };
        for (failure, expected) in [
            (CallFailure::Tls(expired), refused("tls: the server's certificate has expired")),
            (CallFailure::NoHttp2, refused("tls: the server offers no HTTP/2, which gRPC needs")),
            (
                CallFailure::Fault(Fault::protocol("the peer speaks HTTP/1: is this the HTTP port, 4318?")),
                refused("no HTTP/2 as it should be: the peer speaks HTTP/1: is this the HTTP port, 4318?"),
            ),
            (
                CallFailure::HeadTooLong(HeadTooLong { limit: 99 }),
                refused("the headers are too long: the server takes 99 bytes of them"),
            ),
            (
                CallFailure::Reset(Code::PROTOCOL),
                refused("INTERNAL: the server broke the call off: PROTOCOL_ERROR"),
            ),
            (
                CallFailure::TooLong("the answer is longer than 4 MiB"),
                refused("the answer is longer than 4 MiB"),
            ),
            (CallFailure::Malformed("a second head"), refused("a second head")),
        ] {
            assert_eq!(failure.verdict(TARGET), expected);
        }
    }

    #[test]
    fn a_server_that_leaves_is_quoted_on_one_line() {
        let go_away = |text: &[u8]| {
            let mut conn = Conn::new();
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
        let spares = [
            CallFailure::unprocessed(None),
            CallFailure::Reset(Code::CANCEL),
            CallFailure::TooLong(""),
            CallFailure::Malformed(""),
        ];
        assert!(spares.iter().all(|failure| failure.spares_connection() && !failure.is_break()));
        let breaks = [CallFailure::Io(ErrorKind::BrokenPipe.into()), CallFailure::left(None)];
        assert!(breaks.iter().all(|failure| failure.is_break() && !failure.spares_connection()));
        let neither = [CallFailure::TimedOut, CallFailure::Fault(Fault::protocol("")), CallFailure::NoHttp2];
        assert!(!neither.iter().any(|failure| failure.is_break() || failure.spares_connection()));
    }
}
