//! Which requests does the page answer? Those of its own scripts, and of a person at this machine.
//!
//! A web page elsewhere can make a browser send requests here, and by a name of its own that stands for 127.0.0.1 (DNS
//! rebinding) even read the answers. Only `Host` betrays that, and `Origin` and `Sec-Fetch-Site` the rest.

use std::net::{IpAddr, SocketAddr};

/// Headers that the decision to answer depends on, each at most once.
const DECISIVE: [&str; 5] = ["host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];

/// The head of a request. No request of the page has a body.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: String,
    query: Vec<(String, String)>,
    /// Names in lower case.
    headers: &'a [(String, String)],
}

/// Why a request is not answered as it wishes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) why: &'static str,
}

const OTHER_SITE: Refused = Refused { status: 403, why: "this page answers no other site" };

impl<'a> Request<'a> {
    pub(super) fn new(method: &'a str, target: &str, headers: &'a [(String, String)]) -> Self {
        // its host is checked by the header: no proxy stands before this page
        let target = match target.strip_prefix("http://") {
            Some(absolute) => absolute.find('/').map_or("/", |slash| &absolute[slash..]),
            None => target,
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self { method, path: decode(path), query: query.collect(), headers }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the query; empty if it is not given.
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    /// Checks that it comes from the page itself, or was typed by a person.
    pub(super) fn check(&self, listening: SocketAddr) -> Result<(), Refused> {
        if DECISIVE.iter().any(|name| self.headers.iter().filter(|(given, _)| given == name).count() > 1) {
            return Err(Refused { status: 400, why: "a header that may come once came twice" });
        }
        let Some(host) = self.header("host").filter(|host| is_host_of(host, listening)) else {
            return Err(Refused { status: 403, why: "this page is served for this machine's address only" });
        };
        // a link of another site leads here, but no script of it may ask
        let is_link = self.header("sec-fetch-mode") == Some("navigate")
            && self.header("sec-fetch-dest") == Some("document")
            && !self.path.starts_with("/api/");
        let is_own = self.header("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
        let origin = self.header("origin").map(|origin| origin.strip_prefix("http://") == Some(host));
        if (!is_own || origin == Some(false)) && !is_link {
            return Err(OTHER_SITE);
        }
        match self.method {
            "GET" | "HEAD" => Ok(()),
            "POST" if origin == Some(true) => Ok(()),
            "POST" => Err(OTHER_SITE),
            _ => Err(Refused { status: 405, why: "only GET is answered" }),
        }
    }
}

/// A name can be anyone's, but for `localhost`; an address cannot be rebound.
fn is_host_of(host: &str, listening: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    if port != Some(listening.port()) {
        return false;
    }
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match literal.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !listening.ip().is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// `%2F` and `+` as what they stand for.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        rest = if escaped.is_some() { &behind[2..] } else { behind };
        bytes.push(escaped.unwrap_or(if *first == b'+' { b' ' } else { *first }));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, listening: &str) -> Option<u16> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().expect("a request line").split(' ');
        let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
        let fields = lines.map(|line| line.split_once(": ").expect("a header"));
        let headers: Vec<_> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let checked = Request::new(method, target, &headers).check(listening.parse().expect("an address"));
        checked.err().map(|refused| refused.status)
    }

    #[test]
    fn a_target_is_taken_apart() {
        for target in
            ["/api/traces?q=a%20b+c%26&since=3", "http://localhost:4319/api/traces?q=a+b%20c%26&since=3"]
        {
            let request = Request::new("GET", target, &[]);
            assert_eq!((request.path.as_str(), request.parameter("q")), ("/api/traces", "a b c&"));
            assert_eq!((request.parameter("since"), request.parameter("none")), ("3", ""));
        }
    }

    #[test]
    fn only_this_machines_addresses_are_answered_on_loopback() {
        for host in ["127.0.0.1:4319", "localhost:4319", "LOCALHOST:4319", "[::1]:4319", "127.9.9.9:4319"] {
            assert_eq!(check(&format!("GET / HTTP/1.1\r\nHost: {host}"), "127.0.0.1:4319"), None, "{host}");
        }
        for host in [
            "evil.test:4319",
            "localhost.evil.test:4319",
            "127.0.0.1.evil.test:4319",
            "127.0.0.1:80",
            "127.0.0.1",
            "192.168.0.1:4319",
            "localhost:4319@evil.test",
            "",
        ] {
            assert_eq!(
                check(&format!("GET / HTTP/1.1\r\nHost: {host}"), "127.0.0.1:4319"),
                Some(403),
                "{host}"
            );
        }
        assert_eq!(check("GET / HTTP/1.1", "127.0.0.1:4319"), Some(403));
        let two = "GET / HTTP/1.1\r\nHost: localhost:4319\r\nHost: localhost:4319";
        assert_eq!(check(two, "127.0.0.1:4319"), Some(400));
        // elsewhere by address only: a name may be rebound
        assert_eq!(check("GET / HTTP/1.1\r\nHost: 192.168.0.1:4319", "0.0.0.0:4319"), None);
        assert_eq!(check("GET / HTTP/1.1\r\nHost: evil.test:4319", "0.0.0.0:4319"), Some(403));
    }

    #[test]
    fn no_other_site_is_answered() {
        let get = |site: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: localhost:4319\r\nSec-Fetch-Site: {site}");
            check(&head, "127.0.0.1:4319")
        };
        assert_eq!((get("same-origin"), get("none")), (None, None));
        assert_eq!((get("cross-site"), get("same-site")), (Some(403), Some(403)));
        let link = "cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document";
        assert_eq!(get(link), None, "a link of another site");
        assert_eq!(get(&link.replace("document", "iframe")), Some(403));
        let data = format!("GET /api/state HTTP/1.1\r\nHost: localhost:4319\r\nSec-Fetch-Site: {link}");
        assert_eq!(check(&data, "127.0.0.1:4319"), Some(403));
        let post = |origin: &str| {
            check(&format!("POST / HTTP/1.1\r\nHost: localhost:4319\r\n{origin}"), "127.0.0.1:4319")
        };
        assert_eq!(post("Origin: http://localhost:4319"), None);
        assert_eq!(post("Origin: http://localhost:4318"), Some(403));
        assert_eq!(post("X: y"), Some(403));
        for second in ["Origin: http://localhost:4319", "Origin: http://evil.test", "ORIGIN: null"] {
            assert_eq!(post(&format!("Origin: http://localhost:4319\r\n{second}")), Some(400), "{second}");
        }
        assert_eq!(check("PUT / HTTP/1.1\r\nHost: localhost:4319", "127.0.0.1:4319"), Some(405));
    }
}
