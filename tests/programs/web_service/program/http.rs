//! The part of HTTP/1.1 that a small service needs: one request per connection, with limits and a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_BODY_BYTES: usize = 16 << 10;
/// Time limit for reading a request, and for writing its response.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A request of a client.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// Reads a request. Returns `None` if the client closes the connection before it sends one.
    ///
    /// # Errors
    /// Returns the response to a request that is malformed, too large or too slow.
    pub(crate) fn read(stream: &TcpStream) -> Result<Option<Self>, Response> {
        let mut input = Input { stream, deadline: Instant::now() + TIMEOUT, bytes: Vec::new() };
        let Some(head) = input.head()? else { return Ok(None) };
        let mut request = Self::parse_head(&head)?;
        let length = request.body_length()?;
        let Some(body) = input.body(length)? else { return Ok(None) };
        request.body = String::from_utf8(body).map_err(|_| Response::text(400, "the body is no text"))?;
        Ok(Some(request))
    }

    fn parse_head(head: &[u8]) -> Result<Self, Response> {
        let bad = |what: &str| Response::text(400, what);
        let head = std::str::from_utf8(head).map_err(|_| bad("the head is no text"))?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(bad("the first line is not: method, target, version"));
        };
        if !is_token(method) || !target.starts_with('/') || target.contains(|c: char| c.is_control()) {
            return Err(bad("the first line is not: method, target, version"));
        }
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(Response::text(505, "HTTP/1.1 is spoken here"));
        }
        let headers =
            lines.map(header).collect::<Option<Vec<_>>>().ok_or_else(|| bad("a header is broken"))?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: String::new(),
        };
        match request.header("host") {
            None if version == "HTTP/1.1" => Err(bad("one host header is needed")),
            _ => Ok(request),
        }
    }

    fn body_length(&self) -> Result<usize, Response> {
        if self.headers("transfer-encoding").next().is_some() {
            return Err(Response::text(501, "a body needs a content-length here"));
        }
        if self.headers("content-length").next().is_none() {
            return Ok(0);
        }
        // Refuses more than one `content-length`, because such requests are used to smuggle another request past a
        // proxy.
        let length = self.header("content-length").filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let length = length.ok_or_else(|| Response::text(400, "the content-length is no number"))?;
        match length.parse() {
            Ok(length) if length <= MAX_BODY_BYTES => Ok(length),
            _ if length.is_empty() => Err(Response::text(400, "the content-length is no number")),
            _ => Err(Response::text(413, "the body is too long")),
        }
    }

    /// Returns the value of a header that occurs once. A repeated header is ambiguous and gives `None`.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns all values of a header. `name` must be in lower case.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the number called `name` in a query or a form, such as `order=4711&items=2`.
pub(crate) fn number(pairs: &str, name: &str) -> Option<u64> {
    let mut pairs = pairs.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name)?.1.parse().ok()
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    let is_sound = is_token(name) && !value.contains(|c: char| c.is_control() && c != '\t');
    is_sound.then(|| (name.to_ascii_lowercase(), value.to_owned()))
}

/// Returns whether `text` is a token, as methods and names of headers must be.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// The bytes of a connection that arrive before the deadline.
struct Input<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    bytes: Vec<u8>,
}

impl Input<'_> {
    /// Reads the first line and the headers, without the empty line after them.
    fn head(&mut self) -> Result<Option<Vec<u8>>, Response> {
        const END: &[u8] = b"\r\n\r\n";
        loop {
            if let Some(end) = self.bytes.windows(END.len()).position(|window| window == END) {
                let mut head: Vec<u8> = self.bytes.drain(..end + END.len()).collect();
                head.truncate(end);
                return Ok(Some(head));
            }
            if self.bytes.len() > MAX_HEAD_BYTES {
                return Err(Response::text(431, "the head is too long"));
            }
            if !self.read_more()? {
                return Ok(None);
            }
        }
    }

    fn body(&mut self, length: usize) -> Result<Option<Vec<u8>>, Response> {
        while self.bytes.len() < length {
            if !self.read_more()? {
                return Ok(None);
            }
        }
        // A connection serves one request, so bytes after the body are discarded.
        self.bytes.truncate(length);
        Ok(Some(std::mem::take(&mut self.bytes)))
    }

    /// Reads more bytes. Returns false at the end of the input.
    fn read_more(&mut self) -> Result<bool, Response> {
        let too_slow = || Response::text(408, "the request did not arrive in time");
        let mut some = [0; 4096];
        match read_until(self.stream, &mut some, self.deadline) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.bytes.extend_from_slice(&some[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(too_slow())
            }
            Err(_) => Ok(false),
        }
    }
}

/// A response of a service.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// The allowed method, if the request had another method.
    allow: Option<&'static str>,
}

impl Response {
    pub(crate) fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allow: None }
    }

    /// Returns the response to a request with the wrong method.
    pub(crate) fn wrong_method(right: &'static str) -> Self {
        Self { allow: Some(right), ..Self::text(405, format!("{right} is the method to use")) }
    }

    /// Sends the response and closes the write side. The response to `HEAD` has no body.
    pub(crate) fn send(&self, stream: &TcpStream, method: &str) -> io::Result<()> {
        let Self { status, text, allow } = self;
        let allow = allow.map(|method| format!("allow: {method}\r\n")).unwrap_or_default();
        let (reason, length) = (reason(*status), text.len() + 1);
        let mut answer = format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {length}\r\n{allow}connection: close\r\n\r\n"
        );
        if method != "HEAD" {
            answer.push_str(text);
            answer.push('\n');
        }
        stream.set_write_timeout(Some(TIMEOUT))?;
        (&mut &*stream).write_all(answer.as_bytes())?;
        stream.shutdown(Shutdown::Write)
    }
}

/// Waits until the client closes the connection. If the server closed it first, with bytes still unread, the
/// connection would be reset, and the response could be lost.
pub(crate) fn hang_up(stream: &TcpStream) {
    let deadline = Instant::now() + TIMEOUT;
    let mut unread = [0; 4096];
    while read_until(stream, &mut unread, deadline).is_ok_and(|count| count > 0) {}
}

fn read_until(mut stream: &TcpStream, bytes: &mut [u8], deadline: Instant) -> io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.read(bytes)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
