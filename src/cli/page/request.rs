//! Which requests does the page answer? Those of its own scripts, and of a person at this machine.
//!
//! A web page elsewhere can make a browser send requests here, and by a name of its own that stands for 127.0.0.1 (DNS
//! rebinding) even read the answers. Only `Host` betrays that, and `Origin` and `Sec-Fetch-Site` the rest.

use std::io::{self, BufRead, Read};
use std::net::{IpAddr, SocketAddr};

/// The longest head that is read.
const MOST_BYTES: u64 = 16 * 1024;

/// The head of a request. No request of the page has a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    /// Of HTTP/1.0, where a connection is for one request.
    is_old: bool,
    /// Names in lower case.
    headers: Vec<(String, String)>,
}

/// Why a request is not answered as it wishes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) why: &'static str,
}

const OTHER_SITE: Refused = Refused { status: 403, why: "this page answers no other site" };
const MALFORMED: Refused = Refused { status: 400, why: "this is not an HTTP/1.1 request" };

impl Request {
    /// `None` at the end of the connection.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Result<Self, Refused>>> {
        let mut reader = reader.by_ref().take(MOST_BYTES);
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            reader.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                let is_over = lines.is_empty() && line.is_empty();
                let refused = match reader.limit() {
                    0 => Refused { status: 431, why: "the head of the request is too long" },
                    _ => MALFORMED,
                };
                return Ok((!is_over).then_some(Err(refused)));
            }
            match String::from_utf8_lossy(&line).trim_end() {
                "" => return Ok(Some(Self::parse(&lines))),
                line => lines.push(line.to_owned()),
            }
        }
    }

    fn parse(lines: &[String]) -> Result<Self, Refused> {
        let Some((first, rest)) = lines.split_first() else { return Err(MALFORMED) };
        let mut words = first.split(' ');
        let (Some(method), Some(target), Some(version @ ("HTTP/1.1" | "HTTP/1.0")), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(MALFORMED);
        };
        let fields = rest.iter().map(|line| line.split_once(':'));
        let headers = fields.map(|field| {
            let (name, value) = field?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        let Some(headers) = headers.collect() else { return Err(MALFORMED) };
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
        let is_old = version == "HTTP/1.0";
        Ok(Self { method: method.to_owned(), path: decode(path), query: query.collect(), is_old, headers })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the query; empty if it is not given.
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    pub(super) fn keeps_alive(&self) -> bool {
        !self.is_old && !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Checks that it comes from the page itself, or was typed by a person.
    pub(super) fn check(&self, listening: SocketAddr) -> Result<(), Refused> {
        let mut hosts = self.headers.iter().filter(|(name, _)| name == "host");
        let host = match (hosts.next(), hosts.next()) {
            (Some((_, host)), None) if is_host_of(host, listening) => host,
            _ => {
                return Err(Refused {
                    status: 403,
                    why: "this page is served for this machine's address only",
                });
            }
        };
        // a link of another site leads here, but no script of it may ask
        let is_link = self.header("sec-fetch-mode") == Some("navigate")
            && self.header("sec-fetch-dest") == Some("document")
            && !self.path.starts_with("/api/");
        let is_own = self.header("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
        if !is_own && !is_link {
            return Err(OTHER_SITE);
        }
        if self.header("transfer-encoding").is_some()
            || !matches!(self.header("content-length"), None | Some("0"))
        {
            return Err(Refused { status: 413, why: "no request of this page has a body" });
        }
        match self.method.as_str() {
            "GET" | "HEAD" => Ok(()),
            "POST" if self.header("origin") == Some(&format!("http://{host}")) => Ok(()),
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

    fn request(text: &str) -> Request {
        Request::read(&mut text.as_bytes())
            .expect("it can be read")
            .expect("there is one")
            .expect("it is valid")
    }

    fn check(head: &str, listening: &str) -> Option<u16> {
        let listening = listening.parse().expect("an address");
        request(&format!("{head}\r\n\r\n")).check(listening).err().map(|refused| refused.status)
    }

    #[test]
    fn a_request_is_taken_apart() {
        let request =
            request("GET /api/traces?q=a%20b+c%26&since=3 HTTP/1.1\r\nHost: localhost:4319\r\n\r\n");
        assert_eq!((request.path.as_str(), request.parameter("q")), ("/api/traces", "a b c&"));
        assert_eq!((request.parameter("since"), request.parameter("none")), ("3", ""));
        assert_eq!(request.header("host"), Some("localhost:4319"));
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_end_is_no_request() {
        let read = |text: &str| Request::read(&mut text.as_bytes()).expect("it can be read");
        assert_eq!(read(""), None);
        for (text, status) in [
            ("GET / HTTP/1.1\r\nHost: a", 400),
            ("GET / HTTP/2.0\r\n\r\n", 400),
            ("\r\n", 400),
            ("GET / HTTP/1.1\r\nno field\r\n\r\n", 400),
            (&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MOST_BYTES as usize)), 431),
        ] {
            assert_eq!(read(text).and_then(Result::err).map(|refused| refused.status), Some(status));
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
        let two = "GET / HTTP/1.1\r\nHost: localhost:4319\r\nHost: evil.test";
        assert_eq!(check(two, "127.0.0.1:4319"), Some(403));
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
        assert_eq!(post("Origin: http://localhost:4319\r\nContent-Length: 5"), Some(413));
        assert_eq!(check("PUT / HTTP/1.1\r\nHost: localhost:4319", "127.0.0.1:4319"), Some(405));
    }
}
