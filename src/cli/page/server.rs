//! How does the page get to the browser? By a small HTTP/1.1 server: files of this program, answers as JSON, and a stream that
//! reports that something is new.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::request::{Refused, Request};
use super::{Shared, api};

/// A browser opens six at most, of each of its windows.
const MOST_CONNECTIONS: usize = 64;
/// A browser has six connections for all its tabs: with more streams than this the next tab would hang. Others poll.
const MOST_STREAMS: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// News at most so often.
const NEWS_INTERVAL: Duration = Duration::from_millis(250);
/// How often a stream is looked at whether its browser is still there.
const GONE_INTERVAL: Duration = Duration::from_millis(200);
/// How long a stream waits for the end of another.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// How long to wait when the system accepts no connection (out of file descriptors, mostly).
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(50);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

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

    fn asset(content_type: &'static str, content: &'static str, request: &Request) -> Self {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let is_known = request.header("if-none-match") == Some(&etag);
        let (status, content) = if is_known { (304, "") } else { (200, content) };
        Self { status, content_type, body: content.as_bytes().into(), etag: Some(etag) }
    }

    fn write(&self, out: &mut impl Write, has_body: bool, keeps_alive: bool) -> io::Result<()> {
        let mut head = head(self.status, self.content_type);
        match &self.etag {
            Some(etag) => head += &format!("etag: {etag}\r\ncache-control: no-cache\r\n"),
            None => head += "cache-control: no-store\r\n",
        }
        if self.status != 304 {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        if !keeps_alive {
            head += "connection: close\r\n";
        }
        head += "\r\n";
        out.write_all(head.as_bytes())?;
        out.write_all(if has_body { &self.body } else { &[] })
    }
}

/// The status and what every answer has, without the empty line.
fn head(status: u16, content_type: &str) -> String {
    let reason = match status {
        200 => "OK",
        202 => "Accepted",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\ncontent-security-policy: {POLICY}\r\n\
         x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n\
         cross-origin-opener-policy: same-origin\r\nreferrer-policy: no-referrer\r\n"
    )
}

/// Serves for as long as the process lives.
pub(super) fn start(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let listening = listener.local_addr()?;
    let open = Arc::new(AtomicUsize::new(0));
    let accept = move || loop {
        let Ok((socket, _)) = listener.accept() else {
            thread::sleep(ACCEPT_BACK_OFF);
            continue;
        };
        let place = Place::take(&open, MOST_CONNECTIONS);
        let shared = shared.clone();
        if let Some(place) = place {
            let serve = move || {
                let _place = place;
                // the browser has left
                let _ = serve(&socket, listening, &shared);
            };
            // without a thread the connection is closed, and the browser tries again
            let _ = thread::Builder::new().name("standpipe-page".to_owned()).spawn(serve);
        }
    };
    thread::Builder::new().name("standpipe-page".to_owned()).spawn(accept)?;
    Ok(())
}

/// One of a limited number, given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        if taken.fetch_add(1, Ordering::Relaxed) >= most {
            taken.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(taken.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(socket: &TcpStream, listening: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(IDLE_TIMEOUT))?;
    let mut reader = BufReader::new(Incoming { socket, until: Instant::now() + IDLE_TIMEOUT });
    while let Some(request) = Request::read(&mut reader)? {
        reader.get_mut().until = Instant::now() + IDLE_TIMEOUT;
        let checked = request.and_then(|request| request.check(listening).map(|()| request));
        let request = match checked {
            Ok(request) => request,
            Err(Refused { status, why }) => {
                return Response::failed(status, why).write(&mut &*socket, true, false);
            }
        };
        if request.path == "/api/events" && request.method == "GET" {
            return stream(socket, shared);
        }
        let keeps_alive = request.keeps_alive();
        respond(&request, shared).write(&mut &*socket, request.method != "HEAD", keeps_alive)?;
        if !keeps_alive {
            break;
        }
    }
    Ok(())
}

/// A socket whose next request must be there by a moment, however slowly it comes.
struct Incoming<'a> {
    socket: &'a TcpStream,
    until: Instant,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.read(buffer)
    }
}

fn respond(request: &Request, shared: &Arc<Shared>) -> Response {
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
    // a tab that is reloaded may be here before its old stream is seen to be gone
    let waits = MOST_WAIT.as_millis() / GONE_INTERVAL.as_millis();
    let place = (0..=waits).find_map(|_| {
        Place::take(&shared.streams, MOST_STREAMS).or_else(|| {
            thread::sleep(GONE_INTERVAL);
            None
        })
    });
    let Some(_place) = place else {
        return Response::failed(503, "too many tabs have a stream; poll instead").write(
            &mut socket,
            true,
            false,
        );
    };
    let mut head = head(200, "text/event-stream");
    head += "cache-control: no-store\r\nconnection: close\r\n\r\n";
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
