//! OTLP over HTTP/1.1 (RFC 9112), read strictly: heads and bodies in, answers out, over any `BufRead`. Only
//! `connection` uses the socket.

mod body;
mod connection;
mod response;

use std::io::{self, BufRead, Read};

pub(super) use connection::{OnPageRequest, page_server, serve};
pub(super) use response::send;

use self::body::Framing;
use super::content::{Coding, Format};
use super::refusal::{Hosts, Refusal, RefusalKind};
use super::wire::TLS_HANDSHAKE;
use crate::record::Signal;
use crate::transport::is_media_type;

/// Why a request cannot be read.
#[derive(Debug)]
enum ReadError {
    /// The client left or the receiver was stopped, so there is no client to answer.
    Gone,
    Refused(Refusal),
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        ReadError::Refused(refusal)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The timeout of a socket is reported as WouldBlock on Unix and as TimedOut elsewhere.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                Refusal::new(408, "the request took too long to arrive").into()
            }
            _ => ReadError::Gone,
        }
    }
}

/// The checked head of an OTLP request.
struct Plan {
    signal: Signal,
    framing: Framing,
    expects_continue: bool,
    coding: Coding,
    format: Format,
}

impl Plan {
    fn of(head: &Head, hosts: Hosts, max_body_bytes: usize) -> Result<Self, Refusal> {
        head.check_host()?;
        hosts.check(head.hosts())?;
        let signal = signal_of(head).ok_or_else(|| Refusal::no_such_path(Signal::path))?;
        Refusal::unless(head.method == "POST", 405, "method not allowed: use POST")?;
        let format = format_of(head)?;
        let coding = content_coding(head)?;
        let framing = Framing::of(head)?;
        // A body that is too long is refused before it is read, and before `100 Continue` is sent.
        if matches!(framing, Framing::Length(length) if length > max_body_bytes as u64) {
            return Err(Refusal::too_large(max_body_bytes));
        }
        let expects_continue = match head.single("expect")? {
            None => false,
            Some(expectation) if expectation.eq_ignore_ascii_case("100-continue") => true,
            Some(_) => return Err(Refusal::new(417, "unsupported expectation: send 100-continue")),
        };
        Ok(Self { signal, framing, expects_continue, coding, format })
    }
}

/// Returns the signal of the head's path.
fn signal_of(head: &Head) -> Option<Signal> {
    Signal::ALL.into_iter().find(|signal| signal.path() == head.path())
}

/// Returns the format of the body, which is also that of the answer.
fn format_of(head: &Head) -> Result<Format, Refusal> {
    let content_type = head.single("content-type")?.unwrap_or_default();
    let formats = [("application/x-protobuf", Format::Protobuf), ("application/json", Format::Json)];
    let known = formats.into_iter().find(|(name, _)| is_media_type(content_type, name));
    let message = "unsupported content type: send application/x-protobuf or application/json";
    known.map(|(_, format)| format).ok_or_else(|| Refusal::new(415, message))
}

fn content_coding(head: &Head) -> Result<Coding, Refusal> {
    let coding = head.single("content-encoding")?.unwrap_or("identity");
    let codings = [("identity", Coding::Identity), ("gzip", Coding::Gzip)];
    let known = codings.into_iter().find(|(name, _)| coding.eq_ignore_ascii_case(name));
    let refusal = || Refusal::new(415, "unsupported content encoding: send gzip or identity");
    known.map(|(_, coding)| coding).ok_or_else(|| refusal().of_kind(RefusalKind::Compression))
}

/// A request line and its header fields.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    method: String,
    target: String,
    /// False for HTTP/1.0.
    is_http11: bool,
    /// Names in lower case.
    headers: Vec<(String, String)>,
}

impl Head {
    /// Returns the values of all fields with this lower-case name.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a field, which may occur only once.
    fn single(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Refusal::new(400, format!("more than one {name} header"))),
            None => Ok(first),
        }
    }

    /// Returns the path of the target, without the query and without the authority of an absolute target.
    fn path(&self) -> &str {
        split_target(&self.target).1
    }

    /// Checks that an HTTP/1.1 request names its host once (RFC 9112, section 3.2). The check runs after the head is
    /// read, because a refusal is written in the format that `content-type` names.
    fn check_host(&self) -> Result<(), Refusal> {
        let has_host = self.single("host")?.is_some();
        Refusal::unless(has_host || !self.is_http11, 400, "missing Host header")
    }

    /// Returns the hosts that the request names in its target and its headers.
    fn hosts(&self) -> impl Iterator<Item = &str> {
        split_target(&self.target).0.into_iter().chain(self.values("host"))
    }

    /// Returns whether the client wants to keep the connection.
    fn keeps_alive(&self) -> bool {
        let asks_for = |token: &str| {
            let mut items = self.values("connection").flat_map(|value| value.split(','));
            items.any(|item| item.trim().eq_ignore_ascii_case(token))
        };
        (self.is_http11 || asks_for("keep-alive")) && !asks_for("close")
    }
}

/// Splits a target into authority (host and port of an absolute target), path and query. If an absolute target has no
/// path, the path is `/`.
pub fn split_target(target: &str) -> (Option<&str>, &str, &str) {
    let (authority, rest) = match target.split_at_checked("http://".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http://") => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), rest)
        }
        _ => (None, target),
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    (authority, if path.is_empty() { "/" } else { path }, query)
}

/// Reads a head of at most `limit` bytes, including the empty line at its end.
fn read_head(reader: &mut impl BufRead, limit: usize) -> Result<Head, ReadError> {
    refuse_what_is_not_http(reader)?;
    let mut lines = Lines { reader, left: limit };
    let (method, target, is_http11) = parse_request_line(&lines.next()?)?;
    let mut headers = Vec::new();
    let mut line = lines.next()?;
    while !line.is_empty() {
        headers.push(parse_field(&line)?);
        line = lines.next()?;
    }
    Ok(Head { method, target, is_http11, headers })
}

/// Refuses other protocols by their first byte: they may never send the line end that the head's reader would wait for.
fn refuse_what_is_not_http(reader: &mut impl BufRead) -> Result<(), ReadError> {
    match reader.fill_buf()?.first() {
        None => Err(ReadError::Gone),
        Some(byte) if is_token_byte(*byte) => Ok(()),
        Some(&TLS_HANDSHAKE) => {
            let refusal = Refusal::new(400, "TLS handshake at an HTTP port without TLS");
            Err(refusal.of_kind(RefusalKind::Tls).into())
        }
        Some(_) => Err(Refusal::new(400, "not an HTTP request").into()),
    }
}

/// Reader of lines that end in CRLF, with one byte limit for all of them.
struct Lines<'a, R> {
    reader: &'a mut R,
    left: usize,
}

impl<R: BufRead> Lines<'_, R> {
    fn next(&mut self) -> Result<String, ReadError> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(self.left as u64).read_until(b'\n', &mut line)?;
        self.left -= read;
        if line.last() != Some(&b'\n') {
            return Err(match self.left {
                0 => Refusal::new(431, "request header fields too large").into(),
                _ => ReadError::Gone,
            });
        }
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(Refusal::new(400, "a line must end in CR LF").into());
        };
        let has_control = line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
        Refusal::unless(!has_control, 400, "control character in the request head")?;
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}

/// Returns the method, the target, and whether the version is HTTP/1.1.
fn parse_request_line(line: &str) -> Result<(String, String, bool), Refusal> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        [method, target, _] if !is_token(method) || target.is_empty() => {}
        [method, target, version @ ("HTTP/1.1" | "HTTP/1.0")] => {
            return Ok((method.to_owned(), target.to_owned(), version == "HTTP/1.1"));
        }
        // Most likely HTTP/2 at the wrong port.
        [_, _, version] if version.starts_with("HTTP/") => {
            let what = "unsupported HTTP version: this port speaks HTTP/1.1 and HTTP/1.0";
            return Err(Refusal::new(505, what).of_kind(RefusalKind::GrpcAtHttpPort));
        }
        _ => {}
    }
    Err(Refusal::new(400, "malformed request line"))
}

fn parse_field(line: &str) -> Result<(String, String), Refusal> {
    // A space before the colon or at the start of a line (a folded line) enables request smuggling (RFC 9112, section
    // 5.1).
    let (name, value) = line.split_once(':').ok_or_else(|| Refusal::new(400, "header without a colon"))?;
    Refusal::unless(is_token(name), 400, "malformed header name")?;
    Ok((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
}

fn is_token(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMIT: usize = 1024;

    fn read(text: &str) -> Result<Head, ReadError> {
        read_head(&mut text.as_bytes(), LIMIT)
    }

    fn refusal(text: &str) -> u16 {
        match read(text) {
            Err(ReadError::Refused(refusal)) => refusal.status,
            other => panic!("{text:?} was not refused: {other:?}"),
        }
    }

    #[test]
    fn a_head_is_read_up_to_its_empty_line() {
        let text = "POST /v1/traces HTTP/1.1\r\nHost: a\r\nX-Thing:\t spaced out \r\n\r\nbody";
        let mut reader = text.as_bytes();
        let head = read_head(&mut reader, LIMIT).unwrap();
        assert_eq!((head.method.as_str(), head.path()), ("POST", "/v1/traces"));
        assert_eq!(head.values("x-thing").collect::<Vec<_>>(), ["spaced out"]);
        assert_eq!(reader, b"body");
    }

    #[test]
    fn malformed_heads_are_refused() {
        for text in [
            "POST /\r\n\r\n",
            "POST  / HTTP/1.1\r\n\r\n",
            "PO(ST / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / FTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\nHost: a\n\n",
            "POST / HTTP/1.1\r\nHost : a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
            "\0\0\0",
            "\u{16}\u{3}\u{1}",
        ] {
            assert_eq!(refusal(text), 400, "{text:?}");
        }
        assert_eq!(refusal("PRI * HTTP/2.0\r\n\r\n"), 505);
    }

    #[test]
    fn http11_names_its_host_once() {
        for (text, is_allowed) in [
            ("POST / HTTP/1.1\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("POST / HTTP/1.0\r\n\r\n", true),
        ] {
            assert_eq!(read(text).unwrap().check_host().is_ok(), is_allowed, "{text:?}");
        }
    }

    #[test]
    fn a_head_above_the_limit_is_refused_and_no_more_than_the_limit_is_read() {
        let text = format!("POST / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(2 * LIMIT));
        let mut reader = text.as_bytes();
        let Err(ReadError::Refused(refusal)) = read_head(&mut reader, LIMIT) else { panic!("not refused") };
        assert_eq!(refusal.status, 431);
        assert_eq!(reader.len(), text.len() - LIMIT);
    }

    #[test]
    fn a_client_that_leaves_within_the_head_gets_no_answer() {
        assert!(matches!(read("POST /v1/tra"), Err(ReadError::Gone)));
        assert!(matches!(read(""), Err(ReadError::Gone)));
    }

    #[test]
    fn the_path_is_found_in_every_form_of_target() {
        for (target, path) in [
            ("/v1/traces", "/v1/traces"),
            ("/v1/traces?a=b?c", "/v1/traces"),
            ("http://localhost:4318/v1/traces?a", "/v1/traces"),
            ("HTTP://localhost:4318/v1/traces", "/v1/traces"),
            ("http://localhost", "/"),
            ("http://localhost?a=/v1/traces", "/"),
            ("*", "*"),
        ] {
            let head = read(&format!("POST {target} HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap();
            assert_eq!(head.path(), path);
        }
    }

    #[test]
    fn keep_alive_follows_version_and_connection_header() {
        for (version, connection, expected) in [
            ("1.1", "", true),
            ("1.1", "Connection: Close\r\n", false),
            ("1.1", "Connection: foo, close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: keep-alive\r\n", true),
        ] {
            let head = read(&format!("POST / HTTP/{version}\r\nHost: a\r\n{connection}\r\n")).unwrap();
            assert_eq!(head.keeps_alive(), expected, "{version} {connection}");
        }
    }
}
