//! Answers the requests of browsers: files of this program, JSON, and an event stream that reports changes.
//!
//! The receiver's HTTP/1 server reads the requests and limits the connections.
//!
//! # Access
//! Only the page's own scripts, and a user who opens the address or follows a link, get an answer. A foreign web page
//! can make a browser send requests here. With a domain name that resolves to 127.0.0.1 (DNS rebinding), the foreign
//! page could even read the answers.
//! [`Request::check`] recognizes rebinding by `Host`, and other cross-site requests by `Origin` and `Sec-Fetch-Site`.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use standpipe::receiver::{Answer, ReceivedRequest, Receiver, RefusedRequest, split_target};
use standpipe::shared::decode_percent;

use super::{Page, api};

/// Maximum number of connections. A browser opens up to six. A further connection replaces the one that was idle for
/// longest.
const MAX_CONNECTIONS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Maximum number of event streams. A browser has six connections for all tabs: if streams used all six, the next tab
/// would hang. Further tabs poll.
const MAX_STREAMS: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum interval between two events of a stream.
const NEWS_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a stream checks whether the browser has closed the connection.
const GONE_INTERVAL: Duration = Duration::from_millis(200);

/// Headers that the access checks read. A request may have each of them at most once.
const DECISIVE: [&str; 5] = ["host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];
/// Headers of every answer. They forbid scripts from other sites, requests to other sites, and frames.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
];

const INDEX: &str = include_str!("assets/index.html");

/// Returns the names and the contents of files below `assets/`.
macro_rules! assets {
    ($($name:literal)+) => {
        [$(($name, include_str!(concat!("assets/", $name)))),+]
    };
}

/// Scripts and styles: name, content.
const ASSETS: [(&str, &str); 13] = assets! {
    "app.js" "dom.js" "rows.js" "traces.js" "trace.js" "profile.js" "charts.js" "files.js" "span.js" "logs.js"
    "metrics.js" "services.js" "style.css"
};
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer to one request.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Cow<'static, [u8]>,
    /// Entity tag of an answer that the browser may cache and revalidate.
    pub(super) etag: Option<String>,
}

impl Response {
    pub(super) fn json(body: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => Self { status: 200, content_type: JSON, body: body.into(), etag: None },
            Err(error) => Self::failed(500, error.to_string()),
        }
    }

    pub(super) fn text(body: String) -> Self {
        Self { status: 200, content_type: TEXT, body: body.into_bytes().into(), etag: None }
    }

    /// Returns an error with a message for a user.
    pub(super) fn failed(status: u16, why: impl Into<String>) -> Self {
        Self { status, ..Self::text(why.into()) }
    }

    fn asset(content_type: &'static str, content: &'static str, request: &Request<'_>) -> Self {
        // The hash need not be stable: a new version of this program may have a new tag for the same content.
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let known = request.headers("if-none-match").flat_map(|list| list.split(',')).map(str::trim);
        // RFC 9110, section 13.1.2: the comparison is weak, so `W/` is ignored.
        let is_known =
            known.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == etag || tag == "*");
        let (status, content) = if is_known { (304, "") } else { (200, content) };
        Self { status, content_type, body: content.as_bytes().into(), etag: Some(etag) }
    }

    fn into_answer(self, has_body: bool) -> Answer {
        let answer = Answer::status(self.status).header("content-type", self.content_type);
        let answer = HEADERS.into_iter().fold(answer, |answer, (name, value)| answer.header(name, value));
        let answer = match self.etag {
            Some(etag) => answer.header("etag", etag).header("cache-control", "no-cache"),
            None => answer.header("cache-control", "no-store"),
        };
        // An answer to HEAD has the length that the body of GET would have (RFC 9110, section 9.3.2). A 304 states no
        // length: the 0 of its empty body would be wrong.
        match has_body || self.status == 304 {
            true => answer.body(self.body),
            false => answer.header("content-length", self.body.len().to_string()),
        }
    }
}

/// Starts to serve the page, until the process ends.
pub(super) fn start(listener: TcpListener, page: Arc<Page>) -> io::Result<()> {
    let limits = Receiver::builder().max_header_bytes(MAX_HEAD_BYTES);
    let limits = limits.max_connections(MAX_CONNECTIONS).read_timeout(IDLE_TIMEOUT);
    limits.serve_pages(listener, Arc::new(move |request, socket| answer(request, &page, socket)))
}

fn answer(
    request: Result<(&ReceivedRequest, &[u8]), &RefusedRequest>,
    page: &Arc<Page>,
    socket: &TcpStream,
) -> Option<Answer> {
    let request = match request {
        Ok((ReceivedRequest { method, path, headers, .. }, body)) => {
            Request { body, ..Request::new(method, path, headers) }
        }
        Err(refused) => {
            let has_body = refused.request.as_ref().is_none_or(|request| request.method != "HEAD");
            return Some(Response::failed(refused.status, refused.message.as_str()).into_answer(has_body));
        }
    };
    let checked = request.check(page.address);
    let is_head = request.method == "HEAD";
    let response = if checked.is_ok() && request.path == "/api/events" && request.method != "POST" {
        let place = |taken: usize| (taken < MAX_STREAMS).then_some(taken + 1);
        if page.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, place).is_ok() {
            // An error means that the browser has closed the connection.
            let _ = stream(socket, page, is_head);
            page.streams.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Err(Response::failed(503, "too many pages are open; close some"))
    } else {
        checked.and_then(|()| respond(&request, page))
    };
    Some(response.unwrap_or_else(|failed| failed).into_answer(!is_head))
}

fn respond(request: &Request<'_>, page: &Arc<Page>) -> Result<Response, Response> {
    let path = request.path.as_str();
    if let Some(rest) = path.strip_prefix("/api/") {
        return api::respond(rest, request, page);
    }
    if request.method == "POST" {
        return Err(Response::failed(405, "method not allowed: use GET"));
    }
    if let Some(name) = path.strip_prefix("/assets/") {
        let found = ASSETS.iter().find(|(asset, _)| *asset == name);
        let (_, content) = found.ok_or_else(|| Response::failed(404, "no such path; the page is at /"))?;
        return Ok(Response::asset(if name.ends_with(".css") { STYLE } else { SCRIPT }, content, request));
    }
    match path.trim_start_matches('/').split('/').next().unwrap_or_default() {
        "" | "trace" | "compare" | "logs" | "metrics" | "services" | "requests" => {
            Ok(Response::asset("text/html; charset=utf-8", INDEX, request))
        }
        _ => Err(Response::failed(404, "no such path; the page is at /")),
    }
}

/// Sends the version of the store whenever it changes. The page then requests the new data. For HEAD, sends only the
/// head of the answer.
fn stream(mut socket: &TcpStream, page: &Page, is_head: bool) -> io::Result<()> {
    let fields = HEADERS.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{fields}\
         cache-control: no-store\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes())?;
    if is_head {
        return Ok(());
    }
    socket.set_nonblocking(true)?;
    let mut seen = None;
    loop {
        let version = page.wait_for_news(seen, GONE_INTERVAL);
        if is_gone(socket) {
            return Ok(());
        }
        if version != seen {
            socket.write_all(format!("data: {}\n\n", version.unwrap_or(0)).as_bytes())?;
            seen = version;
            // Changes during this pause are merged into one event.
            thread::sleep(NEWS_INTERVAL);
        }
    }
}

/// Returns whether the browser has closed the connection. Bytes that it sends are ignored.
fn is_gone(mut socket: &TcpStream) -> bool {
    match socket.read(&mut [0; 1024]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// A request. Its body is used only to load a file.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Host and port of an absolute target. They replace the header `Host` (RFC 9112, section 3.2.2).
    authority: Option<&'a str>,
    path: String,
    query: Vec<(String, String)>,
    /// Header fields, with names in lower case.
    headers: &'a [(String, String)],
    pub(super) body: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(method: &'a str, target: &'a str, headers: &'a [(String, String)]) -> Self {
        let (authority, path, query) = split_target(target);
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self { method, authority, path: decode(path), query: query.collect(), headers, body: &[] }
    }

    fn headers<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.headers.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn header<'s>(&'s self, name: &'s str) -> Option<&'s str> {
        self.headers(name).next()
    }

    /// Returns a parameter of the query, or an empty text if it is absent.
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    /// Checks that the request comes from the page itself, or from a user who opened the address or followed a link.
    fn check(&self, listening: SocketAddr) -> Result<(), Response> {
        if let Some(name) = DECISIVE.iter().find(|name| self.headers(name).count() > 1) {
            return Err(Response::failed(400, format!("more than one {name} header")));
        }
        let host = self.authority.or(self.header("host"));
        let Some(host) = host.filter(|host| is_host_of(host, listening)) else {
            let why = "requests for other hosts are refused; use localhost";
            return Err(Response::failed(403, why));
        };
        // A link on another site may open the page, but scripts of that site may not send requests.
        let is_link = self.header("sec-fetch-mode") == Some("navigate")
            && self.header("sec-fetch-dest") == Some("document")
            && !self.path.starts_with("/api/");
        let is_own = self.header("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
        let origin = self.header("origin").map(|origin| origin.strip_prefix("http://") == Some(host));
        let is_other_site = (!is_own || origin == Some(false)) && !is_link;
        match self.method {
            // Browsers always send the origin with POST, so a POST without it is refused.
            method if is_other_site || method == "POST" && origin != Some(true) => Err(Response::failed(
                403,
                "requests from other sites are refused; open the page at its own address",
            )),
            "GET" | "HEAD" | "POST" => Ok(()),
            _ => Err(Response::failed(405, "method not allowed: use GET")),
        }
    }
}

/// Returns whether a host with its port is this page: the port must match, and the name must be `localhost` or an IP
/// address, which cannot be rebound. If the page listens on a loopback address, the IP address must be loopback too.
fn is_host_of(host: &str, listening: SocketAddr) -> bool {
    // An IPv6 address without a port, `[::1]`, contains colons but ends with a bracket.
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    if port != Some(listening.port()) {
        return false;
    }
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match literal.parse::<IpAddr>() {
        // If the page listens on an address that is not loopback, any address may belong to this machine.
        Ok(address) => address.is_loopback() || !listening.ip().is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// Decodes percent-encoding (`%2F`) and `+`.
fn decode(text: &str) -> String {
    decode_percent(text.replace('+', " ").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_parses_no_text_as_html_and_asks_no_other_machine() {
        for (name, content) in ASSETS.into_iter().chain([("index.html", INDEX)]) {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Function(",
                "@import",
            ] {
                assert!(!content.contains(forbidden), "{name} has {forbidden}");
            }
            let addresses = content
                .split("http")
                .skip(1)
                .filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
            for address in addresses {
                assert!(address.starts_with("://www.w3.org/2000/svg"), "{name}: http{}", &address[..30]);
            }
        }
    }

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ASSETS.iter().map(|(_, content)| content.len()).sum::<usize>() + INDEX.len();
        assert!(bytes <= 160 * 1024, "{bytes} bytes");
    }

    fn check(head: &str, listening: &str) -> Option<u16> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().expect("a request line").split(' ');
        let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
        let fields = lines.map(|line| line.split_once(": ").expect("a header"));
        let headers: Vec<_> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let checked = Request::new(method, target, &headers).check(listening.parse().expect("an address"));
        checked.err().map(|response| response.status)
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
        // The host of an absolute target is checked instead of the header `Host`.
        for (target, status) in [
            ("http://localhost:4319", None),
            ("HTTP://127.0.0.1:4319/?q=a", None),
            ("http://localhost:4319?q=a", None),
            ("http://evil.test:4319/", Some(403)),
            ("http://localhost:4318/", Some(403)),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: localhost:4319");
            assert_eq!(check(&head, "127.0.0.1:4319"), status, "{target}");
        }
        // A page on all interfaces answers requests for an address, but not for a name, which could be rebound.
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
