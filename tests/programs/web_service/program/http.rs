//! As much of HTTP/1.1 as a small service needs: one request on each connection, with limits and a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const LONGEST_HEAD: usize = 8 << 10;
const LONGEST_BODY: usize = 16 << 10;
/// For a request to arrive, and for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a client asks.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// Reads a request. `None` if the client went away before there was one.
    ///
    /// # Errors
    /// What to answer to something that is no request, or too large, or too slow.
    pub(crate) fn read(stream: &TcpStream) -> Result<Option<Self>, Response> {
        let mut input = Input { stream, deadline: Instant::now() + PATIENCE, bytes: Vec::new() };
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
        // several lengths are how requests are smuggled past a proxy
        let length = self.header("content-length").filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let length = length.ok_or_else(|| Response::text(400, "the content-length is no number"))?;
        match length.parse() {
            Ok(length) if length <= LONGEST_BODY => Ok(length),
            _ if length.is_empty() => Err(Response::text(400, "the content-length is no number")),
            _ => Err(Response::text(413, "the body is too long")),
        }
    }

    /// The value of a header that may be there once. If it is there more often, it is ambiguous.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// The values of a header, which is called by its name in lower case.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The number called `name` in `order=4711&items=2`, as queries and forms are written.
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

/// What methods and names of headers are made of.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// What arrives, until the deadline.
struct Input<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    bytes: Vec<u8>,
}

impl Input<'_> {
    /// The first line and the headers, without the empty line behind them.
    fn head(&mut self) -> Result<Option<Vec<u8>>, Response> {
        const END: &[u8] = b"\r\n\r\n";
        loop {
            if let Some(end) = self.bytes.windows(END.len()).position(|window| window == END) {
                let mut head: Vec<u8> = self.bytes.drain(..end + END.len()).collect();
                head.truncate(end);
                return Ok(Some(head));
            }
            if self.bytes.len() > LONGEST_HEAD {
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
        // this connection serves one request: what comes behind it is not asked for
        self.bytes.truncate(length);
        Ok(Some(std::mem::take(&mut self.bytes)))
    }

    /// False if no more will come.
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

/// What a service answers.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// The method that would have been right.
    allow: Option<&'static str>,
}

impl Response {
    pub(crate) fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allow: None }
    }

    /// To a method that is not the one to use.
    pub(crate) fn wrong_method(right: &'static str) -> Self {
        Self { allow: Some(right), ..Self::text(405, format!("{right} is the method to use")) }
    }

    /// Sends it as the last thing on this connection. The answer to `HEAD` has no body.
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
        stream.set_write_timeout(Some(PATIENCE))?;
        (&mut &*stream).write_all(answer.as_bytes())?;
        stream.shutdown(Shutdown::Write)
    }
}

/// Waits for the client to close the connection: closed here, with something unread, it would be reset, and the answer
/// might be lost.
pub(crate) fn hang_up(stream: &TcpStream) {
    let deadline = Instant::now() + PATIENCE;
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
