//! What it means when no answer came.

use ureq::http::Response;

use super::{printable, status_text};
use crate::transport::{Verdict, lower_first, tls};

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
    match error {
        // the one time-out that is set is for the whole attempt
        ureq::Error::Timeout(_) => late(url),
        ureq::Error::Io(error) => match tls::fault(error) {
            Some(fault) => refused(format!("tls: {}", printable(&fault.what))),
            None => later(lower_first(&printable(&error.to_string()))),
        },
        ureq::Error::HostNotFound => later("host not found".to_owned()),
        ureq::Error::ConnectionFailed | ureq::Error::BodyStalled => later("connection failed".to_owned()),
        ureq::Error::ConnectProxyFailed(why) => later(format!("proxy: {}", printable(why))),
        ureq::Error::LargeResponseHeader(..) => refused("the head of the answer is too long".to_owned()),
        ureq::Error::Protocol(why) => {
            let why = printable(&why.to_string());
            refused(format!("the answer is not HTTP: {why}; OTLP over HTTP is usually at port 4318"))
        }
        other => refused(lower_first(&printable(&other.to_string()))),
    }
}
