//! Refusals of requests, each with a message for the client and a kind for the program that runs the receiver; and the
//! check of the hosts that a request names.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::answer::Answer;
use super::store::{Protocol, ReceivedRequest};
use crate::record::Signal;

/// Time that a client is asked to wait when memory is short.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Names by which containers reach their host. Names below `internal` cannot be registered, so no web page has one.
const HOST_OF_CONTAINERS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];
/// Maximum characters of a host name that a message quotes.
const MAX_SHOWN_CHARS: usize = 100;

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The path is not an OTLP path.
    Path,
    /// The method is not POST.
    Method,
    /// The content type is not supported.
    ContentType,
    /// The compression is not supported.
    Compression,
    /// The body cannot be decompressed, or is not a message of its content type and path.
    Undecodable,
    /// The request exceeds [`Builder::max_body_bytes`](super::Builder::max_body_bytes) or
    /// [`Builder::max_memory_bytes`](super::Builder::max_memory_bytes), or its head is too long.
    TooLarge,
    /// Other requests use the memory that the request needs. The client may retry.
    Busy,
    /// The request took too long to arrive.
    Late,
    /// The request is for another host: see [`Builder::local_hosts_only`](super::Builder::local_hosts_only).
    Host,
    /// A gRPC request at the HTTP port.
    GrpcAtHttpPort,
    /// An HTTP/1 request at the gRPC port.
    HttpAtGrpcPort,
    /// A TLS handshake, which the receiver does not support.
    Tls,
    /// The request violates HTTP.
    Malformed,
}

/// A request that the receiver itself refused; a scripted [`Answer`](super::Answer) is not a refusal.
///
/// Every refused request is passed to [`Builder::on_refusal`](super::Builder::on_refusal).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RefusedRequest {
    /// Reason of the refusal.
    pub kind: RefusalKind,
    /// Protocol of the listener.
    pub protocol: Protocol,
    /// HTTP status of the answer. Over gRPC, the client sees the corresponding gRPC code.
    pub status: u16,
    /// Message to the client.
    pub message: String,
    /// The request, as far as it was read; `None` if its head could not be read, or if there was no memory for it.
    pub request: Option<ReceivedRequest>,
}

/// The error answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) kind: RefusalKind,
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    /// Creates a refusal of the kind that corresponds to the status.
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        let kind = match status {
            403 => RefusalKind::Host,
            404 => RefusalKind::Path,
            405 => RefusalKind::Method,
            408 => RefusalKind::Late,
            413 | 431 => RefusalKind::TooLarge,
            415 => RefusalKind::ContentType,
            503 => RefusalKind::Busy,
            _ => RefusalKind::Malformed,
        };
        Self { kind, status, message: message.into() }
    }

    /// Refuses the request unless a condition is met.
    pub(super) fn unless(is_met: bool, status: u16, message: &'static str) -> Result<(), Self> {
        if is_met { Ok(()) } else { Err(Self::new(status, message)) }
    }

    /// Changes the kind.
    pub(super) fn of_kind(self, kind: RefusalKind) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn undecodable(message: impl Into<String>) -> Self {
        Self::new(400, message).of_kind(RefusalKind::Undecodable)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(413, format!("request body too large: the limit is {limit} bytes"))
    }

    /// Refuses a path, and names the paths of all signals.
    pub(super) fn no_such_path(path_of: impl Fn(Signal) -> &'static str) -> Self {
        let places = Signal::ALL.map(|signal| format!("{} go to {}", signal.name(), path_of(signal)));
        Self::new(404, format!("no such path: {}", places.join(", ")))
    }

    /// Returns the answer for the client.
    pub(super) fn answer(&self) -> Answer {
        let answer = Answer::status(self.status).message(self.message.as_str());
        if self.status == 503 { answer.retry_delay(RETRY_DELAY) } else { answer }
    }

    /// Describes the refusal for the program that runs the receiver.
    pub(super) fn describe(&self, protocol: Protocol, request: Option<ReceivedRequest>) -> RefusedRequest {
        let (kind, status, message) = (self.kind, self.status, self.message.clone());
        RefusedRequest { kind, protocol, status, message, request }
    }
}

/// Hosts that requests may name: all, or only names and addresses of this machine and the listener's address.
///
/// A web page can make its own host name resolve to 127.0.0.1 (DNS rebinding) and then send requests to local servers
/// under that name. No local program has a reason to use such a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hosts(Option<IpAddr>);

impl Hosts {
    /// Creates the check for a listener on `address`. A listener that other machines can reach has names that are
    /// unknown here, so the check accepts all hosts.
    pub(super) fn of(address: IpAddr, local_only: bool) -> Self {
        Self(Some(address).filter(|address| local_only && address.is_loopback()))
    }

    /// Checks the hosts that a request names.
    pub(super) fn check<'a>(self, mut hosts: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
        let other = self.0.and_then(|address| hosts.find(|host| !is_local(host, address)));
        other.map_or(Ok(()), |host| {
            let host: String = host.chars().take(MAX_SHOWN_CHARS).collect();
            Err(Refusal::new(403, format!("requests for host {host:?} are refused; use localhost")))
        })
    }
}

/// Returns whether web pages of an origin (`http://localhost:3000`) come from this machine. Names by which a container
/// reaches its host, such as `host.docker.internal`, do not count: no browser on the host uses them.
pub(super) fn is_local_origin(origin: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    host.is_some_and(|host| is_local(host, Ipv6Addr::LOCALHOST.into()) && !host.contains(".internal"))
}

fn is_local(host: &str, address: IpAddr) -> bool {
    let Some(name) = without_port(host) else { return false };
    if let Some(ip) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return ip.parse::<Ipv6Addr>().is_ok_and(|ip| is_own(ip.into(), address));
    }
    if let Ok(ip) = name.parse::<IpAddr>() {
        return is_own(ip, address);
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || HOST_OF_CONTAINERS.contains(&name.as_str())
}

fn is_own(ip: IpAddr, address: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip == address.to_canonical()
}

fn without_port(host: &str) -> Option<&str> {
    match host.rsplit_once(':') {
        // If the host is an address in brackets, the last colon may be part of the address.
        Some((_, port)) if port.ends_with(']') => Some(host),
        Some((name, port)) => port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name),
        None => Some(host),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LISTENING: [u8; 4] = [127, 0, 0, 1];

    #[test]
    fn a_host_is_local_if_no_one_else_can_own_its_name() {
        for host in [
            "localhost",
            "localhost:4318",
            "LocalHost.:4318",
            "traces.localhost:4318",
            "127.0.0.1",
            "127.0.0.1:4318",
            "127.8.9.1:1",
            "[::1]",
            "[::1]:4318",
            "[::ffff:127.0.0.1]:4318",
            "host.docker.internal:4318",
        ] {
            assert!(is_local(host, LISTENING.into()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:4318",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example:4318",
            "localhost:4318@evil.example",
            "evil.example:80:80",
            "192.168.0.1:4318",
            "[2001:db8::1]:4318",
            "[::1",
            "::1]:80",
            "localhost:x",
        ] {
            assert!(!is_local(host, LISTENING.into()), "{host}");
        }
    }

    #[test]
    fn all_hosts_are_taken_unless_asked_otherwise_and_off_loopback() {
        let check = |address: [u8; 4], local_only| {
            Hosts::of(address.into(), local_only).check(["localhost", "evil.example"].into_iter())
        };
        assert_eq!(check(LISTENING, false), Ok(()));
        assert_eq!(check([0, 0, 0, 0], true), Ok(()));
        assert_eq!(check([192, 168, 0, 1], true), Ok(()));
        let refusal = check(LISTENING, true).unwrap_err();
        assert_eq!(refusal.status, 403);
        assert!(refusal.message.contains("\"evil.example\""), "{}", refusal.message);
    }

    #[test]
    fn a_long_host_is_not_repeated_in_full() {
        let host = "x".repeat(30_000);
        let refusal = Hosts::of(LISTENING.into(), true).check([host.as_str()].into_iter()).unwrap_err();
        assert!(refusal.message.len() < 200);
    }
}
