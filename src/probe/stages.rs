//! The stages on the way to a collector: resolve, connect, TLS, HTTP/2, export. The first failure ends them.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Instant;

use super::advice::{self, Problem, Target};
use super::certificate::Certificate;
use super::endpoint::{Endpoint, EndpointUrl};
use super::responses::{self, SentCalls, SentExport};
use super::{StageKind, Stages};
use crate::config::{Compression, ConnectionSettings};
use crate::process::Driver;
use crate::record::Signal;
use crate::transport::{
    CallResponse, DeadlineStream, GrpcSpec, HttpSpec, ProbeEnd, ProbeFailure, ProbeRequest, ReadWrite,
    TlsFaultKind, TlsPeek, peek, tls_fault,
};

/// More addresses than these are only counted.
const MOST_ADDRESSES: usize = 4;

const HTTP2: &[u8] = b"h2";

/// What the stages of one endpoint share.
pub(super) struct ProbeTarget<'a> {
    pub(super) settings: &'a ConnectionSettings,
    pub(super) spec: &'a HttpSpec,
    pub(super) url: &'a EndpointUrl,
    pub(super) deadline: Instant,
}

impl ProbeTarget<'_> {
    /// Reports the stages up to TLS; whether all of them passed.
    fn enter(&self, request: &ProbeRequest, stages: &mut Stages) -> bool {
        let (timeline, proxy) = (&request.timeline, self.spec.proxy());
        // A request that did not fail went through all stages, so that this stands for none.
        let none = ProbeFailure::Closed;
        let failure = if let ProbeEnd::Failed(failure) = &request.end { failure } else { &none };
        let Some(at) = timeline.resolved else {
            let who = match &proxy {
                Some(proxy) => format!("the proxy {proxy}"),
                None => format!("\"{}\"", self.url.shown_host),
            };
            stages.fail(StageKind::Resolve, request.ended, advice::unresolved(&who, failure));
            return false;
        };
        stages.pass(StageKind::Resolve, at, self.addresses(request));
        let Some(at) = timeline.connected else {
            let transport = self.settings.transport;
            let target = Target { addresses: self.addresses(request), proxy: proxy.as_deref(), transport };
            stages.fail(StageKind::Connect, request.ended, advice::unconnected(&target, failure));
            return false;
        };
        stages.pass(StageKind::Connect, at, self.connection(request));
        if !self.url.is_tls {
            return true;
        }
        // a server may refuse a client's certificate when it has long been greeted
        let Some(at) = timeline.secured.filter(|_| !matches!(failure, ProbeFailure::Tls(_))) else {
            stages.fail(StageKind::Tls, request.ended, self.unsecured(request, failure));
            return false;
        };
        stages.pass(StageKind::Tls, at, self.tls(request));
        true
    }

    fn addresses(&self, request: &ProbeRequest) -> String {
        let all = &request.timeline.addresses;
        let has_proxy = self.spec.proxy().is_some();
        let show = |address| match has_proxy {
            true => format!("proxy {address}"),
            false => self.url.shown_address(address),
        };
        let shown: Vec<String> = all.iter().take(MOST_ADDRESSES).map(|address| show(*address)).collect();
        match all.len() {
            0..=MOST_ADDRESSES => shown.join(", "),
            count => format!("{} and {} more", shown.join(", "), count - MOST_ADDRESSES),
        }
    }

    fn connection(&self, request: &ProbeRequest) -> String {
        match (self.spec.proxy(), request.timeline.peer) {
            (Some(proxy), _) => format!("by way of the proxy {proxy}"),
            (None, Some(peer)) => self.url.shown_address(peer),
            (None, None) => "connected".to_owned(),
        }
    }

    /// What is known of an encrypted connection.
    fn tls(&self, request: &ProbeRequest) -> String {
        let peek = self.peek(request, None);
        let certificate = peek.as_ref().and_then(|peek| Certificate::parse(peek.certificate.as_ref()?));
        let version = peek.and_then(|peek| peek.version).unwrap_or("TLS");
        match certificate {
            Some(certificate) => format!("{version}, {certificate}"),
            None if self.settings.tls.ca.is_some() => "certificate verified by ca-file".to_owned(),
            None => "certificate verified by the bundled roots".to_owned(),
        }
    }

    fn unsecured(&self, request: &ProbeRequest, failure: &ProbeFailure) -> Problem {
        let kind = match failure {
            ProbeFailure::Tls(fault) => Some(fault.kind),
            ProbeFailure::Closed => None,
            _ => return advice::unsecured(failure, self.url, self.settings.tls.ca.is_some(), None),
        };
        // what begins as TLS and goes on as something else is broken, not another protocol
        if kind == Some(TlsFaultKind::NotTls) && is_record(&request.timeline.first_bytes) {
            return advice::broken_tls();
        }
        // A second handshake shows an unknown issuer, and whether the server asked for a client certificate.
        let is_worth_it = matches!(
            kind,
            None | Some(
                TlsFaultKind::UnknownIssuer
                    | TlsFaultKind::ClientCertificateRefused
                    | TlsFaultKind::Other
                    | TlsFaultKind::Passing
            )
        );
        let peek = if is_worth_it { self.peek(request, None) } else { None };
        if peek.as_ref().is_some_and(|peek| peek.misses_client) {
            return advice::no_client_certificate();
        }
        let is_unknown = kind == Some(TlsFaultKind::UnknownIssuer);
        let certificate = peek.filter(|_| is_unknown).and_then(|peek| Certificate::parse(&peek.certificate?));
        advice::unsecured(failure, self.url, self.settings.tls.ca.is_some(), certificate.as_ref())
    }

    /// A handshake over a second connection to the same address; none through a proxy.
    fn peek(&self, request: &ProbeRequest, protocol: Option<&[u8]>) -> Option<TlsPeek> {
        Some(peek(self.settings, &self.url.host, self.server(request)?, protocol, self.deadline))
    }

    /// The address for a second connection; none through a proxy.
    fn server(&self, request: &ProbeRequest) -> Option<SocketAddr> {
        request.timeline.peer.filter(|_| self.spec.proxy().is_none())
    }
}

/// Goes through all stages of an endpoint of OTLP over HTTP: one empty export.
pub(super) fn ask_http(target: &ProbeTarget<'_>, endpoint: &Endpoint, stages: &mut Stages) {
    let request = target.spec.try_export(endpoint.signal, target.deadline);
    if !target.enter(&request, stages) {
        return;
    }
    match &request.end {
        ProbeEnd::Answered(reply) => {
            let names: Vec<&str> = target.settings.headers.iter().map(|(name, _)| name.as_str()).collect();
            let sent = SentExport {
                path: &target.url.shown_path,
                signals: &endpoint.signals,
                headers: &names,
                is_compressed: target.settings.compression == Compression::Gzip,
            };
            let is_retryable = responses::RETRYABLE.contains(&reply.status);
            stages.answer(request.ended, responses::judge(reply, &sent), is_retryable);
        }
        ProbeEnd::Failed(failure) => {
            let problem = advice::unanswered(failure, protocol(target, &request, failure), target.url.is_tls);
            stages.fail(StageKind::Export, request.ended, problem);
        }
        // only where no export was wanted
        ProbeEnd::Connected => {}
    }
}

/// The peer's protocol. If it closes the connection without a response, it is tried in others.
fn protocol(target: &ProbeTarget<'_>, request: &ProbeRequest, failure: &ProbeFailure) -> Protocol {
    let protocol = protocol_of(&request.timeline.first_bytes);
    let hung_up = protocol == Protocol::Nothing && *failure == ProbeFailure::Closed;
    let Some(peer) = target.server(request).filter(|_| hung_up && !target.url.is_tls) else {
        return protocol;
    };
    let greeted = DeadlineStream::connect(peer, target.deadline).and_then(|mut stream| greet(&mut stream));
    if greeted.is_ok_and(|answer| protocol_of(&answer) == Protocol::Http2) {
        return Protocol::Http2;
    }
    if shows_certificate(target, request) { Protocol::Tls } else { Protocol::Nothing }
}

/// Goes through all stages of an endpoint of OTLP over gRPC: one empty call for each signal.
pub(super) fn ask_grpc(target: &ProbeTarget<'_>, spec: &GrpcSpec, endpoint: &Endpoint, stages: &mut Stages) {
    let request = target.spec.try_connect(endpoint.signal, target.deadline);
    if !target.enter(&request, stages) {
        return;
    }
    // Through a proxy there is no second connection: the call will show it.
    if target.spec.proxy().is_none() {
        match agree_on_http2(target, &request) {
            Ok(()) => stages.pass(StageKind::Http2, Instant::now(), "speaks HTTP/2"),
            Err(problem) => return stages.fail(StageKind::Http2, Instant::now(), problem),
        }
    }
    match call(target, spec, &endpoint.signals) {
        Ok(replies) => {
            let names: Vec<&str> = target.settings.headers.iter().map(|(name, _)| name.as_str()).collect();
            let sent = SentCalls { headers: &names, compression: target.settings.compression };
            if let Some(signals) = responses::taken_alone(&replies) {
                stages.pass(StageKind::Export, Instant::now(), format!("OK for {signals}"));
            }
            let is_retryable = |(_, reply): &(_, CallResponse)| responses::is_retryable(reply.code);
            let is_retryable = replies.iter().all(is_retryable);
            stages.answer(Instant::now(), responses::judge_calls(&replies, &sent), is_retryable);
        }
        Err(failure) => {
            let problem = advice::uncalled(&failure, target.url, target.settings.tls.ca.is_some());
            stages.fail(StageKind::Export, Instant::now(), problem);
        }
    }
}

/// Probes each signal: a collector may take one and not another.
fn call(
    target: &ProbeTarget<'_>,
    spec: &GrpcSpec,
    signals: &[Signal],
) -> Result<Vec<(Signal, CallResponse)>, ProbeFailure> {
    let mut caller = spec.open(Driver::OwnThread);
    signals.iter().map(|signal| Ok((*signal, caller.try_export(*signal, target.deadline)?))).collect()
}

/// Sends the HTTP/2 preface, and expects HTTP/2 in return.
fn agree_on_http2(target: &ProbeTarget<'_>, request: &ProbeRequest) -> Result<(), Problem> {
    let Some(peer) = target.server(request) else {
        return Err(advice::no_grpc(&ProbeFailure::Closed, Protocol::Nothing));
    };
    let answer = match target.url.is_tls {
        false => DeadlineStream::connect(peer, target.deadline).and_then(|mut stream| greet(&mut stream)),
        true => {
            let refused = || TlsPeek::none(ErrorKind::NotConnected.into());
            let peek = target.peek(request, Some(HTTP2)).unwrap_or_else(refused);
            greet(&mut *agreed(peek, target)?)
        }
    };
    let (protocol, failure) = match answer {
        Ok(bytes) => (protocol_of(&bytes), ProbeFailure::Closed),
        Err(error) => (Protocol::Nothing, failure(&error)),
    };
    match (protocol, &failure) {
        (Protocol::Http2, _) => Ok(()),
        (_, ProbeFailure::Tls(_)) => {
            Err(advice::unsecured(&failure, target.url, target.settings.tls.ca.is_some(), None))
        }
        (Protocol::Nothing, ProbeFailure::Closed) if shows_certificate(target, request) => {
            Err(advice::speaks_tls())
        }
        _ => Err(advice::no_grpc(&failure, protocol)),
    }
}

/// A connection on which both have agreed on HTTP/2.
fn agreed(peek: TlsPeek, target: &ProbeTarget<'_>) -> Result<Box<dyn ReadWrite>, Problem> {
    match peek.stream {
        Ok(stream) if peek.protocol.as_deref() == Some(HTTP2) => Ok(stream),
        Ok(_) => Err(advice::no_http2()),
        Err(_) if peek.misses_client => Err(advice::no_client_certificate()),
        Err(error) => match failure(&error) {
            ProbeFailure::TimedOut => Err(advice::no_grpc(&ProbeFailure::TimedOut, Protocol::Nothing)),
            failure => Err(advice::unsecured(&failure, target.url, target.settings.tls.ca.is_some(), None)),
        },
    }
}

fn shows_certificate(target: &ProbeTarget<'_>, request: &ProbeRequest) -> bool {
    !target.url.is_tls && target.peek(request, None).is_some_and(|peek| peek.certificate.is_some())
}

fn failure(error: &io::Error) -> ProbeFailure {
    match (tls_fault(error), error.kind()) {
        (Some(fault), _) => ProbeFailure::Tls(fault),
        (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => ProbeFailure::TimedOut,
        (None, _) => ProbeFailure::Closed,
    }
}

/// The client's connection preface, with empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// The head of a frame is enough to know the protocol.
const ENOUGH: usize = 9;

/// The first bytes of the answer; none if the peer closes without one.
///
/// # Errors
/// When nothing came before the connection broke or its time was up.
fn greet(stream: &mut dyn ReadWrite) -> io::Result<Vec<u8>> {
    // A peer that closes the connection may have sent the reason before; that explains more than the failed write.
    let _ = stream.write_all(GREETING).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    let mut piece = [0; ENOUGH];
    while answer.len() < ENOUGH {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if answer.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(answer)
}

/// The protocol of a peer, as far as its first bytes show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Nothing,
    Http1,
    Http2,
    Tls,
    Unknown,
}

const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const ALERT: u8 = 0x15;
const HANDSHAKE: u8 = 0x16;

/// Whether the first byte is one of those that a TLS record begins with.
fn is_record(first_bytes: &[u8]) -> bool {
    matches!(first_bytes, [0x14..=0x17, ..])
}

fn protocol_of(first_bytes: &[u8]) -> Protocol {
    match first_bytes {
        [] => Protocol::Nothing,
        // the version of every TLS record begins with a 3
        [ALERT | HANDSHAKE, 3, ..] => Protocol::Tls,
        // an alert may come a byte at a time
        [ALERT | HANDSHAKE] => Protocol::Tls,
        // length, type, flags, stream 0: the first frame of an HTTP/2 server
        [_, _, _, SETTINGS | GO_AWAY, 0 | 1, 0, 0, 0, 0, ..] => Protocol::Http2,
        bytes if bytes.starts_with(b"HTTP/1.") => Protocol::Http1,
        _ => Protocol::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_known_by_its_first_bytes() {
        for (bytes, protocol) in [
            (&b""[..], Protocol::Nothing),
            (b"HTTP/1.1 400 Bad Request\r\n", Protocol::Http1),
            (b"HTTP/1.0 200", Protocol::Http1),
            (b"\x15\x03\x01\x00\x02\x02\x46", Protocol::Tls),
            (b"\x15", Protocol::Tls),
            (b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", Protocol::Http2),
            (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", Protocol::Http2),
            (b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", Protocol::Http2),
            (b"\x00\x00\x00\x04", Protocol::Unknown),
            (b"SSH-2.0-OpenSSH_9.6", Protocol::Unknown),
            (b"220 mail.example ESMTP", Protocol::Unknown),
        ] {
            assert_eq!(protocol_of(bytes), protocol, "{bytes:?}");
        }
    }
}
