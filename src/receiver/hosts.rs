//! Which hosts a request may be meant for.
//!
//! A web page can have its own name stand for 127.0.0.1 (DNS rebinding) and then send to whatever listens there, with the
//! name of its own host. No other program of this machine has a reason to use such a name.

use std::net::{IpAddr, Ipv6Addr};

use super::refusal::Refusal;

/// What containers call the machine that they run on. Names below `internal` cannot be registered.
const HOST_OF_CONTAINERS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];
/// Characters of a host that is repeated to its client.
const LONGEST: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    Any,
    /// Names and addresses of this machine, and the address that is listened on.
    Local(IpAddr),
}

impl Hosts {
    /// For a listener on `address`: one that is reached from elsewhere is called by names that are not known here.
    pub(super) fn of(address: IpAddr, local_only: bool) -> Self {
        if local_only && address.is_loopback() { Hosts::Local(address) } else { Hosts::Any }
    }

    /// Checks the host that a request is meant for.
    pub(super) fn check<'a>(self, mut hosts: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
        let Hosts::Local(address) = self else { return Ok(()) };
        match hosts.find(|host| !is_local(host, address)) {
            None => Ok(()),
            Some(host) => {
                let host: String = host.chars().take(LONGEST).collect();
                Err(Refusal::new(
                    403,
                    format!("requests for {host:?} are not taken here, only for localhost"),
                ))
            }
        }
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
        let refusal = Hosts::Local(LISTENING.into()).check([host.as_str()].into_iter()).unwrap_err();
        assert!(refusal.message.len() < 200);
    }
}
