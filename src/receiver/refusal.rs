//! Refusals: a message for the client, and a kind for the program that runs the receiver; and the hosts that requests may be for.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::answer::Answer;
use super::store::{Protocol, ReceivedRequest};
use crate::record::Signal;

/// Delay before a client that finds no room may retry.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What containers call the machine that they run on. Names below `internal` cannot be registered.
const HOST_OF_CONTAINERS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];
/// Characters of a host that is repeated to its client.
const MAX_SHOWN_CHARS: usize = 100;

/// What is wrong with a request that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// It goes to a path that takes no telemetry.
    Path,
    /// It is no POST.
    Method,
    /// Its content type is none that can be read.
    ContentType,
    /// It is compressed in a way that cannot be read.
    Compression,
    /// Its body is not what its content type and its path promise.
    Undecodable,
    /// It is larger than [`Builder::max_body_bytes`](super::Builder::max_body_bytes) or
    /// [`Builder::max_memory_bytes`](super::Builder::max_memory_bytes) allows, or its head is too long.
    TooLarge,
    /// Others take the memory that it needs. The client may retry.
    Busy,
    /// It took too long to arrive.
    Late,
    /// It is meant for another host: see [`Builder::local_hosts_only`](super::Builder::local_hosts_only).
    Host,
    /// A gRPC request at the port for HTTP.
    GrpcAtHttpPort,
    /// An HTTP/1 request at the port for gRPC.
    HttpAtGrpcPort,
    /// A TLS handshake, which the receiver does not support.
    Tls,
    /// It breaks the rules of HTTP.
    Malformed,
}

/// A request that was refused by itself, not by an [`Answer`](super::Answer) that was ordered.
///
/// [`Builder::on_refusal`](super::Builder::on_refusal) is shown each of them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RefusedRequest {
    /// What is wrong with it.
    pub kind: RefusalKind,
    /// The protocol of the port that it came to.
    pub protocol: Protocol,
    /// The HTTP status of the answer. Over gRPC, what the client sees is the gRPC code that goes with it.
    pub status: u16,
    /// The message that the client gets.
    pub message: String,
    /// The request, as far as it could be read; `None` without a readable head.
    pub request: Option<ReceivedRequest>,
}

/// A request that gets an error for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) kind: RefusalKind,
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    /// Of the kind that the status stands for.
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

    /// The same, of another kind.
    pub(super) fn of_kind(self, kind: RefusalKind) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn undecodable(message: impl Into<String>) -> Self {
        Self::new(400, message).of_kind(RefusalKind::Undecodable)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(413, format!("request body too large: the limit is {limit} bytes"))
    }

    /// For a request that unfolds to more than all requests together may take.
    pub(super) fn too_large_in_memory(limit: usize) -> Self {
        Self::new(413, format!("request body too large: it unfolds to more than {limit} bytes in memory"))
    }

    /// For a request that may be retried, when others are done.
    pub(super) fn too_much_at_a_time() -> Self {
        Self::new(503, "too much at a time on all connections; try again")
    }

    /// Refuses a path, and names those of all signals.
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

/// The hosts that requests may be for: all, or names and addresses of this machine and the address that is listened on.
///
/// A web page can have its own name stand for 127.0.0.1 (DNS rebinding) and then send to whatever listens there, with the name
/// of its own host. No other program of this machine has a reason to use such a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hosts(Option<IpAddr>);

impl Hosts {
    /// For a listener on `address`: one that is reached from elsewhere is called by names that are not known here.
    pub(super) fn of(address: IpAddr, local_only: bool) -> Self {
        Self(Some(address).filter(|address| local_only && address.is_loopback()))
    }

    /// Checks the host that a request is meant for.
    pub(super) fn check<'a>(self, mut hosts: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
        let other = self.0.and_then(|address| hosts.find(|host| !is_local(host, address)));
        other.map_or(Ok(()), |host| {
            let host: String = host.chars().take(MAX_SHOWN_CHARS).collect();
            Err(Refusal::new(403, format!("requests for {host:?} are not taken here, only for localhost")))
        })
    }
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
        // the last colon of an address in brackets may be within
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
