//! The verdict on an HTTP response, or on its absence.

use std::io::{self, Read};
use std::time::SystemTime;

use ureq::Error;
use ureq::http::{HeaderName, Response, header};

use super::connection::network_error;
use super::{HttpSpec, PROTOBUF};
use crate::transport::calendar::retry_after;
use crate::transport::gzip::decompress;
use crate::transport::proxy::status_text;
use crate::transport::response::{
    self, Extent, KEPT_BYTES, Oddity, TOO_LONG, is_media_type, read_status, status_message, status_verdict,
};
use crate::transport::{Verdict, lower_first};

/// Returns the verdict on a response.
pub(super) fn judge(mut answer: Response<ureq::Body>, request: &str, spec: &HttpSpec) -> Verdict {
    let status = answer.status();
    if status.is_success() {
        return judge_success(&mut answer, request, spec);
    }
    if status.is_redirection() {
        return Verdict::Refused { reason: redirected(&answer, request) };
    }
    let after = header_text(&answer, header::RETRY_AFTER);
    let after = after.and_then(|after| retry_after(after, SystemTime::now()));
    let content_type = content_type(&answer);
    let text = error_text(&mut answer, &content_type);
    let reason = match text.is_empty() || !is_text(&content_type) {
        true => format!("{request}: {}", status_text(status)),
        false => format!("{request}: {}: {text}", status_text(status)),
    };
    let status = match status.as_u16() {
        // The official collector sends 400 instead of 413.
        400 if text.to_ascii_lowercase().contains("too large") => 413,
        status => status,
    };
    status_verdict(status, after, reason)
}

/// Returns the message in the body of an error: the `message` of a `google.rpc.Status`. Without a message, returns the
/// body as text, or an empty text if the body is protobuf.
pub(super) fn error_text(answer: &mut Response<ureq::Body>, content_type: &str) -> String {
    // If reading fails, the bytes read so far may still contain the reason.
    let mut body = Vec::new();
    let _ = answer.body_mut().as_reader().take(KEPT_BYTES as u64).read_to_end(&mut body);
    let (body, _) = unpacked(body, answer, Extent::Whole);
    let message = match is_media_type(content_type, PROTOBUF) {
        true => read_status(&body).map(|status| status.message).unwrap_or_default(),
        false => status_message(&body).unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned()),
    };
    printable(&message)
}

/// Returns whether messages quote bodies of this type. HTML pages explain nothing.
fn is_text(content_type: &str) -> bool {
    let is = |name| is_media_type(content_type, name);
    is("") || is("text/plain") || is(PROTOBUF) || content_type.to_ascii_lowercase().contains("json")
}

fn redirected(answer: &Response<ureq::Body>, request: &str) -> String {
    let status = status_text(answer.status());
    let Some(location) = header_text(answer, header::LOCATION).map(shown_location) else {
        return format!("{request}: {status}: redirects are not followed");
    };
    let what = "redirects are not followed; set the endpoint to the final URL";
    format!("{request}: {status} to {location}: {what}")
}

/// Returns the target of a redirect without user info and query, which may contain keys.
pub(super) fn shown_location(location: &str) -> String {
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let start = location.find("://").map_or(0, |at| at + 3);
    let authority_end = location[start..].find('/').map_or(location.len(), |at| start + at);
    let start_of_host = location[start..authority_end].rfind('@').map_or(start, |at| start + at + 1);
    printable(&format!("{}{}", &location[..start], &location[start_of_host..]))
}

pub(super) fn header_text(answer: &Response<ureq::Body>, name: HeaderName) -> Option<&str> {
    answer.headers().get(name)?.to_str().ok()
}

/// Returns one line of at most 200 characters, without control characters.
pub(super) fn printable(text: &str) -> String {
    // A server's text must not control a terminal or forge log lines.
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// Returns the verdict on a success status. If the server is a collector, it has the batch, even if the rest of its
/// response is lost.
fn judge_success(answer: &mut Response<ureq::Body>, request: &str, spec: &HttpSpec) -> Verdict {
    match read_success(answer, spec) {
        Ok(verdict) => verdict,
        Err(Oddity::Odd(what)) => {
            Verdict::AcceptedPartly { rejected: 0, message: format!("{request}: {what}") }
        }
        Err(Oddity::Foreign) => {
            let (status, kind) = (status_text(answer.status()), printable(&content_type(answer)));
            let reason = format!(
                "{request}: {status}: the answer is not from a collector: content type {kind}; are host, port and path right?"
            );
            Verdict::Refused { reason }
        }
        Err(Oddity::TooLong) => Verdict::Refused { reason: format!("{request}: {TOO_LONG}") },
    }
}

/// Reads a response to its end, so that the connection can be reused, but keeps only its beginning. If the response has
/// no content type, the one of the request is assumed.
pub(super) fn read_success(answer: &mut Response<ureq::Body>, spec: &HttpSpec) -> Result<Verdict, Oddity> {
    let mut reader = answer.body_mut().as_reader();
    let mut body = Vec::new();
    let kept = reader.by_ref().take(KEPT_BYTES as u64).read_to_end(&mut body);
    let extent = match kept.and_then(|_| io::copy(&mut reader.take(spec.max_response_bytes), &mut io::sink()))
    {
        Ok(rest) if body.len() as u64 + rest > spec.max_response_bytes => return Err(Oddity::TooLong),
        Ok(0) => Extent::Whole,
        Ok(_) => Extent::Prefix,
        Err(_) => Extent::BrokenOff,
    };
    let (body, extent) = unpacked(body, answer, extent);
    let content_type = content_type(answer);
    let content_type = if content_type.is_empty() { spec.media_type } else { &content_type };
    response::read_success(content_type, &body, extent)
}

/// Decompresses a body that the server compressed without being asked. If that fails, the body stays as it is.
fn unpacked(body: Vec<u8>, answer: &Response<ureq::Body>, extent: Extent) -> (Vec<u8>, Extent) {
    let encoding = answer.headers().get(header::CONTENT_ENCODING);
    let is_packed = encoding.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"));
    let unpacked = is_packed.then(|| decompress(&body, extent != Extent::Prefix, KEPT_BYTES).ok()).flatten();
    let (body, is_all) = unpacked.unwrap_or((body, true));
    // If decompression stopped at the limit, the body is only a prefix.
    (body, if !is_all && extent == Extent::Whole { Extent::Prefix } else { extent })
}

/// Returns the content type; empty if absent.
pub(super) fn content_type(answer: &Response<ureq::Body>) -> String {
    let value = answer.headers().get(header::CONTENT_TYPE);
    // A content type that is not UTF-8 still counts as present.
    value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// Returns the verdict on a request without a response. Network errors are retryable; violations of HTTP and permanent
/// TLS faults are not.
pub(super) fn failure_verdict(error: Error, request: &str) -> Verdict {
    let refused = |what: String| Verdict::Refused { reason: format!("{request}: {what}") };
    match network_error(error) {
        Ok(error) => error.verdict(request),
        Err(Error::ConnectionFailed | Error::BodyStalled) => {
            Verdict::TryLater { after: None, reason: format!("{request}: connection failed") }
        }
        Err(Error::LargeResponseHeader(..)) => refused("the response headers are too long".to_owned()),
        Err(Error::Protocol(why)) => {
            let why = printable(&why.to_string());
            refused(format!("the answer is not HTTP: {why}; OTLP over HTTP is usually at port 4318"))
        }
        Err(other) => refused(lower_first(&printable(&other.to_string()))),
    }
}

#[cfg(test)]
#[cfg(feature = "tls")]
mod tests {
    use std::io;

    use rustls::AlertDescription;

    use super::*;
    use crate::transport::connect::NetworkError;

    #[test]
    fn a_redirect_is_shown_without_query_and_user() {
        for (location, expected) in [
            ("https://a.example/login?token=hunter2", "https://a.example/login"),
            ("https://user:hunter2@a.example/x@y#z", "https://a.example/x@y"),
            ("https://user:hunter2@a.example", "https://a.example"),
            ("/login?next=/", "/login"),
            ("", ""),
        ] {
            assert_eq!(shown_location(location), expected, "{location}");
        }
    }

    #[test]
    fn errors_of_tls_are_found_wherever_they_come_from() {
        let alert = || io::Error::other(rustls::Error::AlertReceived(AlertDescription::InternalError));
        for error in [ureq::Error::Io(alert()), ureq::Error::Other(Box::new(NetworkError::from(alert())))] {
            let reason = "post http://a: tls: the server ended the handshake: InternalError".to_owned();
            assert_eq!(failure_verdict(error, "post http://a"), Verdict::TryLater { after: None, reason });
        }
        let expired = io::Error::other(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired));
        let reason = "post http://a: tls: the server's certificate has expired".to_owned();
        assert_eq!(
            failure_verdict(expired.into(), "post http://a"),
            Verdict::TryLater { after: None, reason }
        );
    }
}
