//! One empty request of a probe: its timeline and its response or failure.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::time::Instant;

use ureq::Agent;
use ureq::http::{Response, header};
use ureq::unversioned::transport::Connector;

use super::response::{
    Success, content_type, header_text, of_proxy, printable, read_success, shown_location, status_text,
    tls_fault, too_long,
};
use super::socket::Unresolved;
use super::timeline::{RecordConnection, RecordTls, RecordedLookup, Timeline, TimelineRecorder};
use super::{ANSWER_BYTES, Http, HttpSpec, PROTOBUF, socket};
use crate::process::Driver;
use crate::record::Signal;
use crate::transport::happy_eyeballs::Dialer;
use crate::transport::redact::Secrets;
use crate::transport::response::{self, is_media_type, read_status};
use crate::transport::{Payload, TlsFault, lower_first};

/// One request of a probe, done.
#[derive(Debug)]
pub(crate) struct ProbeRequest {
    pub(crate) timeline: Timeline,
    pub(crate) ended: Instant,
    pub(crate) end: ProbeEnd,
}

#[derive(Debug)]
pub(crate) enum ProbeEnd {
    /// There is a connection, and nothing more was wanted.
    Connected,
    Answered(ProbeResponse),
    Failed(ProbeFailure),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeFailure {
    TimedOut,
    Tls(TlsFault),
    /// The proxy's words.
    Proxy(String),
    /// The peer ended the connection.
    Closed,
    /// Something was answered that is no HTTP/1.
    NotHttp,
    Io {
        kind: ErrorKind,
        text: String,
    },
}

/// An answer, without what a server may have repeated of our secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeResponse {
    pub(crate) status: u16,
    /// The status with its name.
    pub(crate) status_text: String,
    /// In lower case; empty if there is none.
    pub(crate) content_type: String,
    pub(crate) location: Option<String>,
    pub(crate) body: ProbeBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeBody {
    /// Nothing worth repeating; a success is plain.
    Fine,
    /// Text, or the message of a protobuf status.
    Text(String),
    /// A success that is one in spite of this.
    Odd(&'static str),
    /// A success of something that is no collector.
    Foreign,
    /// Too long to be an answer; the message.
    TooLong(String),
}

impl HttpSpec {
    /// Posts nothing to where a signal goes. It is over by the deadline.
    pub(crate) fn try_export(&self, signal: Signal, deadline: Instant) -> ProbeRequest {
        self.attempt(signal, deadline, true)
    }

    /// Only opens a connection there, with TLS if the URL asks for it.
    pub(crate) fn try_connect(&self, signal: Signal, deadline: Instant) -> ProbeRequest {
        self.attempt(signal, deadline, false)
    }

    /// Where the connection goes if not to the server: host and port of the proxy.
    pub(crate) fn proxy(&self) -> Option<String> {
        let proxy = self.forwarded.as_ref().or(self.config.proxy());
        proxy.map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
    }

    fn attempt(&self, signal: Signal, deadline: Instant, goes_on: bool) -> ProbeRequest {
        let recorder = TimelineRecorder::new(self.config.proxy().is_some());
        let agent = agent(self, &recorder, goes_on);
        let mut http =
            Http { spec: self.clone(), agent, compressed: Vec::new(), interrupter: Arc::default() };
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = match left.is_zero() {
            true => Err(ureq::Error::Timeout(ureq::Timeout::Global)),
            false => http.post(&Payload { signal, body: &[] }, left),
        };
        let end = match answer {
            Ok(answer) if self.is_refused_by_proxy(&answer) => {
                ProbeEnd::Failed(ProbeFailure::Proxy(status_text(answer.status())))
            }
            Ok(answer) => ProbeEnd::Answered(reply(answer, &self.secrets)),
            Err(ureq::Error::ConnectionFailed) if !goes_on && recorder.read().connected.is_some() => {
                ProbeEnd::Connected
            }
            Err(error) => ProbeEnd::Failed(failure(&error, &self.secrets)),
        };
        ProbeRequest { timeline: recorder.read(), ended: Instant::now(), end }
    }
}

/// The same agent as an exporter's, with a recorder in its layers.
fn agent(spec: &HttpSpec, recorder: &TimelineRecorder, goes_on: bool) -> Agent {
    let lookup = RecordedLookup { recorder: recorder.clone(), lookup: spec.lookup(Driver::OwnThread) };
    let dialer = Dialer::new(Arc::default(), Driver::OwnThread);
    let connector = socket::plain_connector(lookup, dialer);
    let connector = connector.chain(RecordConnection(recorder.clone()));
    #[cfg(feature = "tls")]
    let connector = connector.chain(super::tls::connector(spec));
    let connector =
        connector.chain(RecordTls { recorder: recorder.clone(), goes_on }).chain(spec.forward.clone());
    Agent::with_parts(spec.config.clone(), connector, Unresolved)
}

fn failure(error: &ureq::Error, secrets: &Secrets) -> ProbeFailure {
    if let Some(fault) = tls_fault(error) {
        return ProbeFailure::Tls(TlsFault { what: printable(&fault.what), ..fault });
    }
    match error {
        ureq::Error::Timeout(_) => ProbeFailure::TimedOut,
        ureq::Error::ConnectProxyFailed(why) => ProbeFailure::Proxy(secrets.redact(of_proxy(why))),
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            ProbeFailure::NotHttp
        }
        ureq::Error::Io(error) => match error.kind() {
            ErrorKind::TimedOut => ProbeFailure::TimedOut,
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => ProbeFailure::Closed,
            kind => ProbeFailure::Io { kind, text: lower_first(&printable(&error.to_string())) },
        },
        other => {
            let text = secrets.redact(lower_first(&printable(&other.to_string())));
            ProbeFailure::Io { kind: ErrorKind::Other, text }
        }
    }
}

fn reply(mut answer: Response<ureq::Body>, secrets: &Secrets) -> ProbeResponse {
    let status = answer.status();
    let content_type = secrets.redact(printable(&content_type(&answer))).to_ascii_lowercase();
    let location =
        header_text(&answer, header::LOCATION).map(|location| secrets.redact(shown_location(location)));
    let body = match status.is_success() {
        true => success_body(read_success(&mut answer)),
        false => refusal_body(&mut answer, &content_type),
    };
    let body = match body {
        ProbeBody::Text(text) => ProbeBody::Text(secrets.redact(text)),
        body => body,
    };
    ProbeResponse { status: status.as_u16(), status_text: status_text(status), content_type, location, body }
}

fn success_body(success: Success) -> ProbeBody {
    match success {
        Success::Read(response::Success::Accepted) => ProbeBody::Fine,
        Success::Read(response::Success::Partly { message, .. }) => ProbeBody::Text(printable(&message)),
        Success::Read(response::Success::Odd(what)) => ProbeBody::Odd(what),
        Success::Read(response::Success::Foreign) => ProbeBody::Foreign,
        Success::TooLong => ProbeBody::TooLong(too_long()),
    }
}

/// What came before an error may still say why.
fn refusal_body(answer: &mut Response<ureq::Body>, content_type: &str) -> ProbeBody {
    let mut bytes = Vec::new();
    let _ = answer.body_mut().as_reader().take(ANSWER_BYTES).read_to_end(&mut bytes);
    read_refusal(&bytes, content_type)
}

/// Pure: what a body of this type says.
fn read_refusal(bytes: &[u8], content_type: &str) -> ProbeBody {
    if bytes.is_empty() {
        return ProbeBody::Fine;
    }
    if is_media_type(content_type, PROTOBUF) {
        let status = read_status(bytes);
        return status.map_or(ProbeBody::Fine, |status| ProbeBody::Text(printable(&status.message)));
    }
    ProbeBody::Text(printable(&String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_a_refusal_is_read_as_what_it_says_it_is() {
        let text = |text: &str| ProbeBody::Text(text.to_owned());
        for (bytes, content_type, expected) in [
            (&b""[..], "text/html", ProbeBody::Fine),
            (b"\x08\x03\x12\x06bad id", PROTOBUF, text("bad id")),
            (b"\x08", PROTOBUF, ProbeBody::Fine),
            (b"no\r\nway", "", text("no  way")),
            (b"<html>", "text/html", text("<html>")),
        ] {
            assert_eq!(read_refusal(bytes, content_type), expected, "{content_type} {bytes:?}");
        }
    }
}
