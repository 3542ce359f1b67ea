//! The answers of the page: files of this program, JSON, and a stream that reports changes. The receiver's HTTP/1 server reads
//! the requests and limits the connections.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use standpipe::receiver::{Answer, ReceivedRequest, Receiver, RefusedRequest};

use super::request::{Refused, Request};
use super::{Shared, api};

/// A browser opens six at most, of each of its windows. A further one takes the place of the one that was idle for longest.
const MAX_CONNECTIONS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// A browser has six connections for all its tabs: with more streams than this the next tab would hang. Others poll.
const MAX_STREAMS: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// News at most so often.
const NEWS_INTERVAL: Duration = Duration::from_millis(250);
/// How often a stream is looked at whether its browser is still there.
const GONE_INTERVAL: Duration = Duration::from_millis(200);
/// Requests that may wait for the end of a stream. Each holds a connection, so the others are refused at once.
const MAX_WAITING_STREAMS: usize = 4;
const STREAM_WAIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Headers of every answer.
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

/// Scripts and styles: name, content type, content.
const ASSETS: [(&str, &str, &str); 10] = [
    ("app.js", SCRIPT, include_str!("assets/app.js")),
    ("dom.js", SCRIPT, include_str!("assets/dom.js")),
    ("rows.js", SCRIPT, include_str!("assets/rows.js")),
    ("traces.js", SCRIPT, include_str!("assets/traces.js")),
    ("trace.js", SCRIPT, include_str!("assets/trace.js")),
    ("span.js", SCRIPT, include_str!("assets/span.js")),
    ("logs.js", SCRIPT, include_str!("assets/logs.js")),
    ("metrics.js", SCRIPT, include_str!("assets/metrics.js")),
    ("services.js", SCRIPT, include_str!("assets/services.js")),
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer to one request.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Cow<'static, [u8]>,
    /// What a browser may keep, and asks about with this.
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

    /// An error in words, for a person.
    pub(super) fn failed(status: u16, why: impl Into<String>) -> Self {
        Self { status, ..Self::text(why.into()) }
    }

    fn asset(content_type: &'static str, content: &'static str, request: &Request<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let known = request.header("if-none-match").unwrap_or_default().split(',').map(str::trim);
        // A proxy or a browser may mark a tag as weak; for the same bytes that makes no difference.
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
        match has_body || self.status == 304 {
            true => answer.body(self.body),
            false => answer.header("content-length", self.body.len().to_string()),
        }
    }
}

/// Serves for as long as the process lives.
pub(super) fn start(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let listening = listener.local_addr()?;
    let limits = Receiver::builder().max_header_bytes(MAX_HEAD_BYTES);
    let limits = limits.max_connections(MAX_CONNECTIONS).read_timeout(IDLE_TIMEOUT);
    limits.serve_pages(listener, move |request, socket| answer(request, listening, &shared, socket))
}

fn answer(
    request: Result<&ReceivedRequest, &RefusedRequest>,
    listening: SocketAddr,
    shared: &Arc<Shared>,
    socket: &TcpStream,
) -> Option<Answer> {
    let failed = |status, why: &str| Some(Response::failed(status, why).into_answer(true));
    let request = match request {
        Ok(ReceivedRequest { method, path, headers, .. }) => Request::new(method, path, headers),
        Err(refused) => return failed(refused.status, &refused.message),
    };
    if let Err(Refused { status, why }) = request.check(listening) {
        return failed(status, why);
    }
    if request.path != "/api/events" || request.method != "GET" {
        return Some(respond(&request, shared).into_answer(request.method != "HEAD"));
    }
    let Some(place) = StreamPlace::wait(shared) else {
        return failed(503, "too many tabs have a stream; poll instead");
    };
    // An error means that the browser has left.
    let _ = stream(socket, shared);
    drop(place);
    None
}

/// One of a limited number of places, given back when it is dropped.
struct StreamPlace<'a>(&'a AtomicUsize);

impl<'a> StreamPlace<'a> {
    fn take(taken: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let take = |taken: usize| (taken < limit).then_some(taken + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| Self(taken))
    }

    /// Takes a place for a stream. If there is none, a few requests wait for one: a tab that is reloaded may be here before
    /// the end of its old stream is noticed.
    fn wait(shared: &'a Shared) -> Option<Self> {
        let take = || Self::take(&shared.streams, MAX_STREAMS);
        take().or_else(|| {
            let _waiting = Self::take(&shared.waiting_streams, MAX_WAITING_STREAMS)?;
            let waits = STREAM_WAIT_TIMEOUT.as_millis() / GONE_INTERVAL.as_millis();
            (0..waits).find_map(|_| {
                thread::sleep(GONE_INTERVAL);
                take()
            })
        })
    }
}

impl Drop for StreamPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn respond(request: &Request<'_>, shared: &Arc<Shared>) -> Response {
    let path = request.path.as_str();
    if let Some(rest) = path.strip_prefix("/api/") {
        return api::respond(rest, request, shared);
    }
    if request.method == "POST" {
        return Response::failed(405, "only GET is answered");
    }
    if let Some(name) = path.strip_prefix("/assets/") {
        let found = ASSETS.iter().find(|(asset, ..)| *asset == name);
        return match found {
            Some((_, content_type, content)) => Response::asset(content_type, content, request),
            None => Response::failed(404, "no such file"),
        };
    }
    let view = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match view {
        "" | "trace" | "logs" | "metrics" | "services" | "requests" => {
            Response::asset("text/html; charset=utf-8", INDEX, request)
        }
        _ => Response::failed(404, "no such page; traces are at /"),
    }
}

/// Reports the version of the store when it changes. What is new the page asks for itself.
fn stream(mut socket: &TcpStream, shared: &Shared) -> io::Result<()> {
    let fields = HEADERS.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{fields}\
         cache-control: no-store\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes())?;
    socket.set_nonblocking(true)?;
    let mut seen = None;
    loop {
        let version = shared.wait_for_news(seen, GONE_INTERVAL);
        if is_gone(socket) {
            return Ok(());
        }
        if version != seen {
            socket.write_all(format!("data: {}\n\n", version.unwrap_or(0)).as_bytes())?;
            seen = version;
            thread::sleep(NEWS_INTERVAL);
        }
    }
}

/// Whether the browser has closed the connection. What it sends on it is passed over.
fn is_gone(mut socket: &TcpStream) -> bool {
    match socket.read(&mut [0; 1024]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_parses_no_text_as_html_and_asks_no_other_machine() {
        for (name, _, content) in ASSETS.into_iter().chain([("index.html", "", INDEX)]) {
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
        let bytes: usize = ASSETS.iter().map(|(_, _, content)| content.len()).sum::<usize>() + INDEX.len();
        assert!(bytes < 120_000, "{bytes} bytes");
    }
}
