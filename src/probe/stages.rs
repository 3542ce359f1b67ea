//! The stages of a probe: resolve, connect, TLS, HTTP/2, export. The first failure ends the probe.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use super::advice::{self, Problem, Target};
use super::certificate::Certificate;
use super::endpoint::{Endpoint, EndpointUrl};
use super::responses::{self, Sent};
use super::{StageKind, Stages};
use crate::config::{Compression, ConnectionSettings};
use crate::process::Driver;
use crate::transport::{
    GrpcSpec, HttpSpec, ProbeFailure, ProbeRequest, RETRYABLE_STATUSES, Stream, Timeline, TlsConnector,
    TlsFaultKind,
};

/// Maximum number of addresses that are shown. Further ones are only counted.
const MAX_ADDRESSES: usize = 4;

/// The endpoint to probe, with its proxy and deadline.
pub(super) struct ProbeTarget<'a> {
    pub(super) settings: &'a ConnectionSettings,
    pub(super) endpoint: &'a Endpoint,
    pub(super) url: &'a EndpointUrl,
    /// Host and port of the proxy, if there is one.
    pub(super) proxy: Option<String>,
    pub(super) deadline: Instant,
}

impl ProbeTarget<'_> {
    /// Records the stages up to TLS. Returns whether all of them passed.
    fn enter<T>(&self, request: &ProbeRequest<T>, stages: &mut Stages) -> bool {
        let timeline = &request.timeline;
        // After a success, `Closed` is only a placeholder: every stage has passed, so no stage reports it.
        let failure = request.result.as_ref().err().unwrap_or(&ProbeFailure::Closed);
        let Some(at) = timeline.resolved else {
            let who = match &self.proxy {
                Some(proxy) => format!("the proxy {proxy}"),
                None => format!("\"{}\"", self.url.shown_host),
            };
            let problem = advice::unresolved(&who, failure);
            stages.fail(StageKind::Resolve, request.ended, problem, failure.is_final());
            return false;
        };
        if self.url.socket.is_none() {
            stages.pass(StageKind::Resolve, at, self.addresses(timeline));
        }
        let Some(at) = timeline.connected else {
            let transport = self.settings.transport;
            let proxy = self.proxy.as_deref();
            let addresses = self.url.socket.clone().unwrap_or_else(|| self.addresses(timeline));
            let target = Target { addresses, proxy, transport };
            let problem = advice::unconnected(&target, failure);
            stages.fail(StageKind::Connect, request.ended, problem, failure.is_final());
            return false;
        };
        stages.pass(StageKind::Connect, at, self.connection(timeline));
        if !self.url.is_tls {
            return true;
        }
        let fault = if let ProbeFailure::Tls(fault) = failure { Some(fault.kind) } else { None };
        // A server without HTTP/2 is not a failure of the TLS stage: the HTTP/2 stage reports it later.
        match (timeline.secured, fault) {
            // The server ended the handshake because it does not speak HTTP/2.
            (None, Some(TlsFaultKind::NoHttp2)) => true,
            (Some(at), None | Some(TlsFaultKind::NoHttp2)) => {
                stages.pass(StageKind::Tls, at, self.tls(timeline));
                true
            }
            // A server may refuse a client certificate even after the handshake, so `secured` may have a time here.
            _ => {
                let is_unknown = fault == Some(TlsFaultKind::UnknownIssuer);
                let certificate = certificate(timeline).filter(|_| is_unknown);
                let problem = advice::unsecured(failure, self.url, self.has_ca(), certificate.as_ref());
                stages.fail(StageKind::Tls, request.ended, problem, failure.is_final());
                false
            }
        }
    }

    fn has_ca(&self) -> bool {
        self.settings.tls.ca.is_some()
    }

    fn addresses(&self, timeline: &Timeline) -> String {
        let all = &timeline.addresses;
        let show = |address| match self.proxy {
            Some(_) => format!("proxy {address}"),
            None => self.url.shown_address(address),
        };
        let shown: Vec<String> = all.iter().take(MAX_ADDRESSES).map(|address| show(*address)).collect();
        match all.len() {
            0..=MAX_ADDRESSES => shown.join(", "),
            count => format!("{} and {} more", shown.join(", "), count - MAX_ADDRESSES),
        }
    }

    fn connection(&self, timeline: &Timeline) -> String {
        match (&self.proxy, timeline.peer) {
            _ if self.url.socket.is_some() => self.url.socket.clone().unwrap_or_default(),
            (Some(proxy), _) => format!("by way of the proxy {proxy}"),
            (None, Some(peer)) => self.url.shown_address(peer),
            (None, None) => "connected".to_owned(),
        }
    }

    /// Describes a TLS connection.
    fn tls(&self, timeline: &Timeline) -> String {
        match certificate(timeline) {
            Some(certificate) => format!("{}, {certificate}", timeline.tls_version),
            None if self.has_ca() => "certificate verified by ca-file".to_owned(),
            None => "certificate verified by the bundled roots".to_owned(),
        }
    }

    /// Returns the names of the headers that the user set.
    fn headers(&self) -> Vec<&str> {
        self.settings.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Describes the empty exports that are sent to the endpoint.
    fn sent<'s>(&'s self, headers: &'s [&'s str]) -> Sent<'s> {
        let is_compressed = self.settings.compression == Compression::Gzip;
        Sent { path: &self.url.shown_path, signals: &self.endpoint.signals, headers, is_compressed }
    }

    /// Returns the address for a second connection; `None` behind a proxy.
    fn server(&self, timeline: &Timeline) -> Option<SocketAddr> {
        timeline.peer.filter(|_| self.proxy.is_none())
    }

    /// Returns whether a server that did not answer in plaintext sends a certificate in a TLS handshake.
    fn shows_certificate(&self, timeline: &Timeline) -> bool {
        let Some(server) = self.server(timeline).filter(|_| !self.url.is_tls) else { return false };
        let settings = &self.settings.tls;
        let tls = TlsConnector::new(settings, &self.url.host, None).and_then(|tls| tls.recording(settings));
        let Ok(tls) = tls else { return false };
        // It does not matter whether the certificate is valid.
        let _ = Stream::connect(server, self.deadline).and_then(|stream| tls.connect(stream));
        tls.take_certificate().is_some()
    }
}

fn certificate(timeline: &Timeline) -> Option<Certificate> {
    Certificate::parse(timeline.certificate.as_ref()?)
}

/// Runs all stages of an OTLP/HTTP endpoint, with one empty export. Returns whether the collector answered.
pub(super) fn probe_http(target: &ProbeTarget<'_>, spec: &HttpSpec, stages: &mut Stages) -> bool {
    // One request is enough for all signals of a URL.
    let request = spec.try_export(target.endpoint.signals[0], target.deadline);
    if !target.enter(&request, stages) {
        return false;
    }
    match &request.result {
        Ok(reply) => {
            let outcome = responses::judge(reply, &target.sent(&target.headers()));
            stages.answer(request.ended, outcome, RETRYABLE_STATUSES.contains(&reply.status));
        }
        Err(failure) => {
            let protocol = protocol(target, &request.timeline, failure);
            let problem = advice::unanswered(failure, protocol, target.url.is_tls);
            stages.fail(StageKind::Export, request.ended, problem, failure.is_final());
        }
    }
    request.result.is_ok()
}

/// Returns the peer's protocol. If the peer closed the connection without a response, other protocols are tried.
fn protocol(target: &ProbeTarget<'_>, timeline: &Timeline, failure: &ProbeFailure) -> Protocol {
    let protocol = protocol_of(&timeline.first_bytes);
    // Other protocols are tried only if the peer closed a plaintext connection without sending a byte, and not through
    // a proxy, because a second connection would send the proxy's credentials again.
    let hung_up = protocol == Protocol::Nothing && *failure == ProbeFailure::Closed;
    let Some(server) = target.server(timeline).filter(|_| hung_up && !target.url.is_tls) else {
        return protocol;
    };
    if greet(server, target.deadline).is_ok_and(|answer| protocol_of(&answer) == Protocol::Http2) {
        return Protocol::Http2;
    }
    if target.shows_certificate(timeline) { Protocol::Tls } else { Protocol::Nothing }
}

/// Runs all stages of an OTLP/gRPC endpoint, with one empty call for each signal.
pub(super) fn probe_grpc(target: &ProbeTarget<'_>, spec: &GrpcSpec, stages: &mut Stages) {
    let mut caller = spec.open(Driver::OwnThread);
    let request = caller.try_connect(target.deadline);
    if !target.enter(&request, stages) {
        return;
    }
    if let Err(failure) = &request.result {
        let problem = not_http2(target, &request.timeline, failure);
        return stages.fail(StageKind::Http2, request.ended, problem, failure.is_final());
    }
    stages.pass(StageKind::Http2, request.ended, "speaks HTTP/2");
    // A collector may accept one signal and not another, so each one is tried.
    let signals = target.endpoint.signals.iter();
    let replies: Result<Vec<_>, _> = signals
        .map(|signal| caller.try_export(*signal, target.deadline).map(|reply| (*signal, reply)))
        .collect();
    match replies {
        Ok(replies) => {
            // If only some signals are accepted, the report names them in a stage before the failed one.
            if let Some(signals) = responses::signals_with(responses::OK, &replies) {
                stages.pass(StageKind::Export, Instant::now(), format!("OK for {signals}"));
            }
            let is_retryable = replies.iter().all(|(_, reply)| reply.is_retryable);
            let outcome = responses::judge_calls(&replies, &target.sent(&target.headers()));
            stages.answer(Instant::now(), outcome, is_retryable);
        }
        Err(failure) => {
            let problem = advice::uncalled(&failure, target.url, target.has_ca());
            stages.fail(StageKind::Export, Instant::now(), problem, failure.is_final());
        }
    }
}

/// Explains why a peer did not answer the preface of HTTP/2.
fn not_http2(target: &ProbeTarget<'_>, timeline: &Timeline, failure: &ProbeFailure) -> Problem {
    match (protocol_of(&timeline.first_bytes), failure) {
        (_, ProbeFailure::Tls(_)) => advice::unsecured(failure, target.url, target.has_ca(), None),
        (Protocol::Nothing, failure)
            if *failure != ProbeFailure::TimedOut && target.shows_certificate(timeline) =>
        {
            advice::speaks_tls()
        }
        (protocol, failure) => advice::no_grpc(failure, protocol),
    }
}

/// The client's connection preface, with empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// Number of bytes that suffice to recognize the protocol: the head of an HTTP/2 frame.
const ENOUGH: u64 = 9;

/// Sends the HTTP/2 preface to a peer, and returns the first bytes of its response.
fn greet(address: SocketAddr, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = Stream::connect(address, deadline)?;
    stream.write_all(GREETING)?;
    let mut answer = Vec::new();
    // An error after some bytes does not matter, because the bytes show the protocol.
    let _ = stream.take(ENOUGH).read_to_end(&mut answer);
    Ok(answer)
}

/// The protocol of a peer, recognized by its first bytes.
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

fn protocol_of(first_bytes: &[u8]) -> Protocol {
    match first_bytes {
        [] => Protocol::Nothing,
        // The version in every TLS record begins with 3.
        [ALERT | HANDSHAKE, 3, ..] => Protocol::Tls,
        // An alert may arrive byte by byte.
        [ALERT | HANDSHAKE] => Protocol::Tls,
        // The first frame of an HTTP/2 server: three bytes of length, the type, the flags, and stream 0.
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
