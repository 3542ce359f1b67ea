//! What it means when no answer came.

use ureq::http::Response;

use super::{printable, status_text};
use crate::transport::{TlsFault, Verdict, lower_first, tls};

/// The time of an attempt is up.
pub(super) fn late(url: &str) -> Verdict {
    Verdict::TryLater { after: None, reason: format!("post {url}: no answer in time") }
}

/// A proxy that makes our requests does not know us. Its settings may be mended meanwhile.
pub(super) fn by_proxy(answer: &Response<ureq::Body>, url: &str) -> Verdict {
    let reason = format!("post {url}: proxy: {}", status_text(answer.status()));
    Verdict::TryLater { after: None, reason }
}

/// Trouble on the way is for trying again; trouble with certificates or with what speaks there is not.
pub(super) fn verdict(error: &ureq::Error, url: &str) -> Verdict {
    let later = |what: String| Verdict::TryLater { after: None, reason: format!("post {url}: {what}") };
    let refused = |what: String| Verdict::Refused { reason: format!("post {url}: {what}") };
    if let Some(fault) = tls_fault(error) {
        let what = format!("tls: {}", printable(&fault.what));
        return if fault.is_passing() { later(what) } else { refused(what) };
    }
    match error {
        // the one time-out that is set is for the whole attempt
        ureq::Error::Timeout(_) => late(url),
        ureq::Error::Io(error) => later(lower_first(&printable(&error.to_string()))),
        ureq::Error::HostNotFound => later("host not found".to_owned()),
        ureq::Error::ConnectionFailed | ureq::Error::BodyStalled => later("connection failed".to_owned()),
        ureq::Error::ConnectProxyFailed(why) => later(format!("proxy: {}", of_proxy(why))),
        ureq::Error::LargeResponseHeader(..) => refused("the head of the answer is too long".to_owned()),
        ureq::Error::Protocol(why) => {
            let why = printable(&why.to_string());
            refused(format!("the answer is not HTTP: {why}; OTLP over HTTP is usually at port 4318"))
        }
        other => refused(lower_first(&printable(&other.to_string()))),
    }
}

/// Why a proxy opens no tunnel. ureq says `407/407` where a status has a name.
pub(super) fn of_proxy(why: &str) -> String {
    let status = why.strip_prefix("proxy server responded ").and_then(|status| status.split('/').next());
    match status.and_then(|status| status.parse().ok()) {
        Some(status) => status_text(status),
        None => printable(why),
    }
}

/// What an error says of TLS. ureq gives it as it is, within an error of a socket, or within one of its own in there.
pub(super) fn tls_fault(error: &ureq::Error) -> Option<TlsFault> {
    match error {
        #[cfg(feature = "tls")]
        ureq::Error::Rustls(error) => Some(tls::fault_of(error)),
        ureq::Error::Io(error) => {
            tls::fault(error).or_else(|| tls_fault(error.get_ref()?.downcast_ref::<ureq::Error>()?))
        }
        _ => None,
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use std::io;

    use rustls::{AlertDescription, Error};

    use super::*;

    #[test]
    fn an_error_of_tls_is_found_wherever_ureq_puts_it() {
        let alert = || Error::AlertReceived(AlertDescription::InternalError);
        let within = || ureq::Error::Io(io::Error::other(alert()));
        for error in [
            ureq::Error::Rustls(alert()),
            within(),
            ureq::Error::Io(io::Error::other(within())),
            ureq::Error::Io(io::Error::other(ureq::Error::Rustls(alert()))),
        ] {
            let reason = "post http://a: tls: the server ended the handshake: InternalError".to_owned();
            assert_eq!(verdict(&error, "http://a"), Verdict::TryLater { after: None, reason }, "{error:?}");
        }
        let expired = Error::InvalidCertificate(rustls::CertificateError::Expired);
        let reason = "post http://a: tls: the server's certificate has expired".to_owned();
        assert_eq!(verdict(&ureq::Error::Rustls(expired), "http://a"), Verdict::Refused { reason });
        assert_eq!(tls_fault(&ureq::Error::HostNotFound), None);
    }
}
