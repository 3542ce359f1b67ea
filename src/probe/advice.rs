//! Explains why a stage failed, with advice. All functions are pure.

use std::io::ErrorKind;

use super::certificate::Certificate;
use super::endpoint::EndpointUrl;
use super::stages::Protocol;
use crate::config::Transport;
use crate::transport::{ProbeFailure, TlsFault, TlsFaultKind};

const SILENT: &str = "no answer in time";
const CLOSED: &str = "the server closed the connection without an answer";

const CHECK_NAME: &str = "is the name right? in a container, is it on the same network?";
pub(super) const GRPC_PORT: &str = "is it the gRPC port of a collector, usually 4317?";
const HTTP_PORT: &str = "is it the port of a collector, usually 4318 for HTTP?";
const NOT_HTTP_PORT: &str = "is it the HTTP port? the gRPC port is usually 4317";
const MAY_BE_PLAIN: &str = "does this port speak TLS? if not, write http://";
const AROUND_PROXY: &str = "set proxy = \"off\" or NO_PROXY to bypass it";

/// A problem and its advice, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) advice: String,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into() }
    }
}

/// Explains why a host was not found.
pub(super) fn unresolved(who: &str, failure: &ProbeFailure) -> Problem {
    match failure {
        ProbeFailure::TimedOut => {
            let what = format!("the DNS lookup timed out for {who}");
            Problem::new(what, "is there a network? is the name right?")
        }
        // The system's message for EAI_AGAIN.
        ProbeFailure::Io { text, .. } if text.contains("emporary failure") => {
            let what = format!("the DNS lookup failed temporarily for {who}");
            Problem::new(what, format!("{CHECK_NAME} is there a network at all?"))
        }
        _ => Problem::new(format!("host not found: {who}"), CHECK_NAME),
    }
}

/// The peer of a connection.
pub(super) struct Target<'a> {
    /// Addresses, in the form that may be shown.
    pub(super) addresses: String,
    /// Host and port of the proxy, if there is one.
    pub(super) proxy: Option<&'a str>,
    pub(super) transport: Transport,
}

/// Explains why there is no connection.
pub(super) fn unconnected(target: &Target<'_>, failure: &ProbeFailure) -> Problem {
    let who = match target.proxy {
        Some(proxy) => format!("the proxy {proxy}"),
        None => target.addresses.clone(),
    };
    let proxy_down = format!("is the proxy running? {AROUND_PROXY}");
    let (what, advice) = match failure {
        ProbeFailure::Proxy { status, advice } => {
            let usual = || format!("does it allow this host and port? {AROUND_PROXY}");
            let what = format!("{who} does not connect to the collector: {status}");
            return Problem::new(what, advice.clone().unwrap_or_else(usual));
        }
        ProbeFailure::Io { kind: ErrorKind::ConnectionRefused, .. } => {
            let advice = match (target.proxy, target.transport) {
                (Some(_), _) => proxy_down.as_str(),
                (None, Transport::Grpc) => {
                    "is a collector running, and does it take gRPC on this port, usually 4317? try: standpipe receive"
                }
                (None, _) => "is a collector running? try: standpipe receive",
            };
            (format!("connection refused by {who}"), advice)
        }
        ProbeFailure::TimedOut => {
            let advice = "are host and port right? does a firewall block it?";
            (format!("no answer in time from {who}"), advice)
        }
        ProbeFailure::Io { kind: ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable, .. } => {
            (format!("no route to {who}"), "is the network up? is a VPN needed?")
        }
        ProbeFailure::Closed => (format!("connection closed at once by {who}"), ""),
        ProbeFailure::Io { text, .. } | ProbeFailure::Fault(text) => (format!("{who}: {text}"), ""),
        ProbeFailure::Tls(fault) => (format!("{who}: {}", fault.what), ""),
        ProbeFailure::NotHttp => (format!("{who} does not speak HTTP"), "is it a proxy?"),
    };
    Problem::new(what, advice)
}

/// Explains why TLS failed. The name of an untrusted issuer is taken from `certificate`.
pub(super) fn unsecured(
    failure: &ProbeFailure,
    url: &EndpointUrl,
    has_ca: bool,
    certificate: Option<&Certificate>,
) -> Problem {
    match failure {
        ProbeFailure::Tls(fault) => faulty(fault, url, has_ca, certificate),
        ProbeFailure::TimedOut => {
            let what = "the server accepts the connection, but does not answer the TLS handshake in time";
            Problem::new(what, MAY_BE_PLAIN)
        }
        ProbeFailure::Closed => {
            Problem::new("the server closed the connection in the TLS handshake", MAY_BE_PLAIN)
        }
        ProbeFailure::NotHttp | ProbeFailure::Proxy { .. } => Problem::new("the TLS handshake failed", ""),
        ProbeFailure::Io { text, .. } | ProbeFailure::Fault(text) => {
            Problem::new(format!("the TLS handshake failed: {text}"), "")
        }
    }
}

fn faulty(fault: &TlsFault, url: &EndpointUrl, has_ca: bool, certificate: Option<&Certificate>) -> Problem {
    let what = fault.what.clone();
    let advice = match fault.kind {
        TlsFaultKind::UnknownIssuer => return unknown_issuer(what, has_ca, certificate),
        TlsFaultKind::ClientCertificateWanted => "set client-certificate-file and client-key-file",
        TlsFaultKind::NoHttp2 => NOT_HTTP_PORT,
        TlsFaultKind::WrongHost => {
            let advice = "set the endpoint to a name in the certificate, or get a certificate for this host";
            // rustls quotes the real host, which may be secret.
            return Problem::new(what.replace(url.host.as_str(), &url.shown_host), advice);
        }
        TlsFaultKind::NotTls => "write http:// instead of https://",
        TlsFaultKind::Expired => "renew it; is this machine's clock right?",
        TlsFaultKind::NotValidYet => "is this machine's clock right?",
        TlsFaultKind::ClientCertificateRefused => "does the server trust the certificate's issuer?",
        TlsFaultKind::Authority => {
            "create a server certificate; a self-signed certificate needs basicConstraints=CA:FALSE"
        }
        TlsFaultKind::Passing => "this may be temporary: try again later, and check the server's log",
        TlsFaultKind::Other => "",
    };
    Problem::new(what, advice)
}

fn unknown_issuer(what: String, has_ca: bool, certificate: Option<&Certificate>) -> Problem {
    let Some(certificate) = certificate else {
        return Problem::new(what, "set ca-file to the certificate of its issuer");
    };
    let issuer = &certificate.issuer;
    let signed = if certificate.is_self_signed() { "it is self-signed, " } else { "" };
    let advice = if has_ca { "ca-file does not contain" } else { "set ca-file to" };
    let advice = format!("{advice} the certificate of \"{issuer}\"");
    Problem::new(format!("{what}: {signed}\"{issuer}\""), advice)
}

/// Explains why an export over HTTP got no response.
pub(super) fn unanswered(failure: &ProbeFailure, protocol: Protocol, is_tls: bool) -> Problem {
    match (protocol, failure) {
        (Protocol::Http2, _) => {
            let advice = "write the collector's HTTP port, usually 4318, or choose grpc as the transport";
            Problem::new("this port speaks gRPC (HTTP/2)", advice)
        }
        (Protocol::Tls, _) => speaks_tls(),
        (_, ProbeFailure::TimedOut) => {
            Problem::new(SILENT, format!("{HTTP_PORT} is the collector overloaded?"))
        }
        (_, ProbeFailure::Closed) if is_tls => {
            Problem::new(CLOSED, "is it a gRPC port? the HTTP port is usually 4318")
        }
        (_, ProbeFailure::Closed) => Problem::new(CLOSED, HTTP_PORT),
        (_, ProbeFailure::NotHttp) => Problem::new("the answer is not HTTP", HTTP_PORT),
        (_, ProbeFailure::Proxy { status, advice }) => {
            let what = format!("the proxy refuses the request: {status}");
            Problem::new(what, advice.clone().unwrap_or_default())
        }
        (_, ProbeFailure::Io { text, .. } | ProbeFailure::Fault(text)) => {
            Problem::new(format!("the request failed: {text}"), "")
        }
        (_, ProbeFailure::Tls(fault)) => Problem::new(fault.what.clone(), ""),
    }
}

/// Explains why a gRPC call got no response, though there is a connection.
pub(super) fn uncalled(failure: &ProbeFailure, url: &EndpointUrl, has_ca: bool) -> Problem {
    match failure {
        ProbeFailure::Tls(_) => unsecured(failure, url, has_ca, None),
        ProbeFailure::TimedOut => Problem::new(SILENT, format!("{GRPC_PORT} is the collector overloaded?")),
        ProbeFailure::Closed | ProbeFailure::NotHttp => Problem::new(CLOSED, GRPC_PORT),
        ProbeFailure::Proxy { status: text, .. }
        | ProbeFailure::Io { text, .. }
        | ProbeFailure::Fault(text) => Problem::new(format!("the call failed: {text}"), GRPC_PORT),
    }
}

/// Explains why the peer did not respond in HTTP/2.
pub(super) fn no_grpc(failure: &ProbeFailure, protocol: Protocol) -> Problem {
    let may_want_tls = format!("{GRPC_PORT} does it want TLS? then write https://");
    match (protocol, failure) {
        (Protocol::Http1, _) => Problem::new("this port speaks HTTP/1", NOT_HTTP_PORT),
        (Protocol::Tls, _) => speaks_tls(),
        (Protocol::Unknown, _) => Problem::new("the answer is not HTTP/2", GRPC_PORT),
        (_, ProbeFailure::TimedOut) => Problem::new(SILENT, may_want_tls),
        _ => Problem::new(CLOSED, may_want_tls),
    }
}

pub(super) fn speaks_tls() -> Problem {
    Problem::new("this port speaks TLS", "write https:// instead of http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: ErrorKind, text: &str) -> ProbeFailure {
        ProbeFailure::Io { kind, text: text.to_owned() }
    }

    fn tls(kind: TlsFaultKind, what: &str) -> ProbeFailure {
        ProbeFailure::Tls(TlsFault { kind, what: what.to_owned() })
    }

    fn line(problem: &Problem) -> String {
        format!("{} | {}", problem.what, problem.advice)
    }

    #[test]
    fn a_name_without_an_address_is_told_apart_from_a_silent_name_server() {
        for (failure, expected) in [
            (
                io(ErrorKind::Other, "failed to lookup address information: Name or service not known"),
                "host not found: \"collector\" | is the name right? in a container, is it on the same network?",
            ),
            (
                io(
                    ErrorKind::Other,
                    "failed to lookup address information: Temporary failure in name resolution",
                ),
                "the DNS lookup failed temporarily for \"collector\" | is the name right? in a container, is it \
             on the same network? is there a network at all?",
            ),
            (
                ProbeFailure::TimedOut,
                "the DNS lookup timed out for \"collector\" | is there a network? is the name right?",
            ),
        ] {
            assert_eq!(line(&unresolved("\"collector\"", &failure)), expected);
        }
    }

    #[test]
    fn each_way_not_to_connect_has_its_words() {
        let direct =
            Target { addresses: "127.0.0.1:4318".to_owned(), proxy: None, transport: Transport::Http };
        let refused = io(ErrorKind::ConnectionRefused, "connection refused");
        let unreachable = io(ErrorKind::NetworkUnreachable, "network is unreachable");
        for (failure, expected) in [
            (
                &refused,
                "connection refused by 127.0.0.1:4318 | is a collector running? try: standpipe receive",
            ),
            (
                &ProbeFailure::TimedOut,
                "no answer in time from 127.0.0.1:4318 | are host and port right? does a firewall block it?",
            ),
            (&unreachable, "no route to 127.0.0.1:4318 | is the network up? is a VPN needed?"),
        ] {
            assert_eq!(line(&unconnected(&direct, failure)), expected);
        }
        let proxied = Target { proxy: Some("proxy:3128"), ..direct };
        for (failure, expected) in [
            (
                &refused,
                "connection refused by the proxy proxy:3128 | is the proxy running? set proxy = \"off\" or NO_PROXY to bypass it",
            ),
            (
                &ProbeFailure::Proxy { status: "502 Bad Gateway".to_owned(), advice: None },
                "the proxy proxy:3128 does not connect to the collector: 502 Bad Gateway | does it allow this \
             host and port? set proxy = \"off\" or NO_PROXY to bypass it",
            ),
            (
                &ProbeFailure::Proxy {
                    status: "407 Proxy Authentication Required".to_owned(),
                    advice: Some("set user and password in HTTPS_PROXY".to_owned()),
                },
                "the proxy proxy:3128 does not connect to the collector: 407 Proxy Authentication Required | set user and \
             password in HTTPS_PROXY",
            ),
        ] {
            assert_eq!(line(&unconnected(&proxied, failure)), expected);
        }
    }

    #[test]
    fn an_unknown_issuer_is_named_when_it_is_known_who_it_is() {
        let url = "https://localhost:4318/v1/traces";
        let url = EndpointUrl::parse(url, url).unwrap();
        let failure = tls(TlsFaultKind::UnknownIssuer, "the server's certificate has an unknown issuer");
        let certificate = |subject: &str| Certificate {
            subject: subject.to_owned(),
            issuer: "Test CA".to_owned(),
            until: "2027-01-01".to_owned(),
        };
        for (certificate, has_ca, expected) in [
            (
                None,
                false,
                "the server's certificate has an unknown issuer | set ca-file to the certificate of its issuer",
            ),
            (
                Some(certificate("collector.test")),
                false,
                "the server's certificate has an unknown issuer: \"Test CA\" | set ca-file to the certificate of \"Test CA\"",
            ),
            (
                Some(certificate("collector.test")),
                true,
                "the server's certificate has an unknown issuer: \"Test CA\" | ca-file does not contain the certificate of \
             \"Test CA\"",
            ),
            (
                Some(certificate("Test CA")),
                false,
                "the server's certificate has an unknown issuer: it is self-signed, \"Test CA\" | set ca-file to the \
             certificate of \"Test CA\"",
            ),
        ] {
            assert_eq!(line(&unsecured(&failure, &url, has_ca, certificate.as_ref())), expected);
        }
    }

    #[test]
    fn a_host_that_is_not_to_be_seen_is_not_named_by_its_certificate_fault() {
        let url = EndpointUrl::parse("https://hidden.example/", "https://%{env:HOST}%/").unwrap();
        let failure =
            tls(TlsFaultKind::WrongHost, "the server's certificate is not valid for host hidden.example");
        let problem = unsecured(&failure, &url, false, None);
        assert_eq!(problem.what, "the server's certificate is not valid for host ***");
    }

    #[test]
    fn who_speaks_something_else_is_told_what_to_write() {
        let (grpc, https) = ("this port speaks gRPC (HTTP/2)", "this port speaks TLS");
        for (protocol, failure, what) in [
            (Protocol::Http2, ProbeFailure::NotHttp, grpc),
            (Protocol::Http2, ProbeFailure::Closed, grpc),
            (Protocol::Http2, ProbeFailure::TimedOut, grpc),
            (Protocol::Tls, ProbeFailure::NotHttp, https),
            (Protocol::Tls, ProbeFailure::Closed, https),
            (Protocol::Nothing, ProbeFailure::TimedOut, "no answer in time"),
            (Protocol::Nothing, ProbeFailure::Closed, "the server closed the connection without an answer"),
            (Protocol::Unknown, ProbeFailure::NotHttp, "the answer is not HTTP"),
        ] {
            assert_eq!(unanswered(&failure, protocol, false).what, what, "{protocol:?} {failure:?}");
        }
        for (protocol, failure, what) in [
            (Protocol::Http1, ProbeFailure::Closed, "this port speaks HTTP/1"),
            (Protocol::Tls, ProbeFailure::Closed, https),
            (Protocol::Unknown, ProbeFailure::Closed, "the answer is not HTTP/2"),
            (Protocol::Nothing, ProbeFailure::TimedOut, "no answer in time"),
            (Protocol::Nothing, ProbeFailure::Closed, "the server closed the connection without an answer"),
        ] {
            assert_eq!(no_grpc(&failure, protocol).what, what, "{protocol:?} {failure:?}");
        }
    }
}
