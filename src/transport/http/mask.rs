//! Keeps secrets out of the log and out of messages.
//!
//! ureq writes what it sends to the `log` crate, for every logger that listens. So it is given stand-ins, and the true
//! values are put in their place on the way from its buffer to the socket.

use std::fmt;
use std::iter;
use std::sync::Arc;

use ureq::Proxy;

use crate::config::Secret;
use crate::record::random;
use crate::transport::base64::basic_credentials;
use crate::transport::redact::Secrets;

/// How all our requests begin.
const METHOD: &[u8] = b"POST ";
/// Headers of an answer that ureq and we go by, and that no secret is repeated in.
const PROTOCOL: [&str; 6] =
    ["content-length", "transfer-encoding", "connection", "content-encoding", "retry-after", "date"];
/// Content types that are distinguished.
const TYPES: [&str; 4] = ["application/x-protobuf", "application/json", "text/plain", "text/html"];
/// More than a proxy usually needs.
const ROOM_TO_GROW: usize = 256;

/// What a request's head must not show before it is sent.
#[derive(Clone, Default)]
pub(super) struct Mask {
    hidden: Arc<Vec<Hidden>>,
    /// What a server or a proxy could repeat.
    secrets: Arc<Secrets>,
    forward: Option<Arc<Forward>>,
}

/// A secret in a line of the head: behind `before`, up to a space or the end of the line.
#[derive(Clone)]
struct Hidden {
    before: String,
    stand_in: String,
    value: String,
}

impl Mask {
    /// Notes a header's value and gives what ureq may see of it: random letters of the same length, behind a tab. No
    /// value begins with one, so that a value is never taken for a stand-in.
    pub(super) fn hide_header(&mut self, name: &str, value: &str) -> String {
        self.hide(format!("{name}: "), '\t', value)
    }

    /// Notes what a line of the head says in truth where ureq sees `stand_in`.
    pub(super) fn stand_in(&mut self, name: &str, stand_in: &str, value: &str) {
        self.push(format!("{name}: "), stand_in.to_owned(), value);
    }

    /// Notes a path with its query, and gives a path that ureq may see.
    pub(super) fn hide_target(&mut self, target: &str) -> String {
        self.hide(String::from_utf8_lossy(METHOD).into_owned(), '/', target)
    }

    fn hide(&mut self, before: String, first: char, value: &str) -> String {
        let letters = value.bytes().skip(1).map(|_| char::from(b'a' + (random() % 26) as u8));
        let stand_in: String = iter::once(first).chain(letters).collect();
        self.push(before, stand_in.clone(), value);
        stand_in
    }

    fn push(&mut self, before: String, stand_in: String, value: &str) {
        Arc::make_mut(&mut self.hidden).push(Hidden { before, stand_in, value: value.to_owned() });
    }

    /// Notes what a server or a proxy must not make us show.
    pub(super) fn redact_from_now_on(&mut self, secrets: Secrets) {
        self.secrets = Arc::new(secrets);
    }

    /// From now on requests are for a proxy that makes them itself.
    pub(super) fn forward(&mut self, forward: Forward) {
        self.forward = Some(Arc::new(forward));
    }

    /// A request's head as it is sent; `None` if this is none of a request that we make.
    pub(super) fn unmask(&self, head: &[u8]) -> Option<Vec<u8>> {
        if !head.starts_with(METHOD) {
            return None;
        }
        let mut unmasked = Vec::with_capacity(head.len() + ROOM_TO_GROW);
        // each is unmasked once, in order: short values of one name may have the same stand-in
        let mut waiting: Vec<&Hidden> = self.hidden.iter().collect();
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let is_first = unmasked.is_empty();
            let (name, rest) = match waiting.iter().position(|hidden| hidden.is_in(line)) {
                Some(index) => waiting.remove(index).split(line),
                None if is_first => (METHOD, (&[][..], &line[METHOD.len()..])),
                None => (&[][..], (&[][..], line)),
            };
            let forward = self.forward.as_ref().filter(|_| is_first);
            unmasked.extend_from_slice(name);
            unmasked.extend_from_slice(forward.map_or("", |forward| forward.origin()).as_bytes());
            unmasked.extend_from_slice(rest.0);
            unmasked.extend_from_slice(rest.1);
            unmasked.extend_from_slice(forward.map_or("", |forward| forward.line()).as_bytes());
        }
        Some(unmasked)
    }

    /// Overwrites the secrets in a line of an answer's head, and where a redirect leads in detail.
    pub(super) fn redact_line(&self, line: &mut [u8]) {
        self.secrets.overwrite(delicate(line));
    }

    /// Overwrites the secrets in a piece of a body, which is what `text` has behind `start`. One may have begun before, and
    /// one that begins may end in the next.
    pub(super) fn redact_body(&self, text: &[u8], start: usize, piece: &mut [u8]) {
        self.secrets.overwrite_end(text, start, piece);
    }

    /// Overwrites the secrets in what is not HTTP, which may be TLS: nothing but a secret may be taken for one.
    pub(super) fn redact_foreign(&self, piece: &mut [u8]) {
        self.secrets.overwrite(piece);
    }

    /// The text without the secrets, which a server may have repeated.
    pub(super) fn redact(&self, text: String) -> String {
        self.secrets.redact(text)
    }
}

impl Hidden {
    fn is_in(&self, line: &[u8]) -> bool {
        let stand_in = line.strip_prefix(self.before.as_bytes());
        let after = stand_in.and_then(|rest| rest.strip_prefix(self.stand_in.as_bytes()));
        after.is_some_and(|after| after.is_empty() || after[0] == b'\r' || after[0] == b' ')
    }

    /// The parts of the unmasked line: before the value, the value, and behind it.
    fn split<'a>(&'a self, line: &'a [u8]) -> (&'a [u8], (&'a [u8], &'a [u8])) {
        let behind = &line[self.before.len() + self.stand_in.len()..];
        (self.before.as_bytes(), (self.value.as_bytes(), behind))
    }
}

/// What may be overwritten in a line of a head: not what the protocol itself needs.
fn delicate(line: &mut [u8]) -> &mut [u8] {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(0);
    let is = |known: &str| line[..colon].eq_ignore_ascii_case(known.as_bytes());
    if PROTOCOL.into_iter().any(is) {
        return &mut [];
    }
    if is("location") {
        let value = &mut line[colon..];
        overwrite_details(value);
        return value;
    }
    if is("content-type") {
        let value = &mut line[colon..];
        let kind = TYPES.iter().find_map(|known| Some(find(value, known.as_bytes())? + known.len()));
        return &mut value[kind.unwrap_or(0)..];
    }
    // a colon may stand in what a status line says, and a name may be a secret itself
    line
}

/// User info and query of a URL, where keys may be.
fn overwrite_details(url: &mut [u8]) {
    let end = url.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    let url = &mut url[..end];
    if let Some(query) = url.iter().position(|byte| matches!(byte, b'?' | b'#')) {
        url[query + 1..].fill(b'*');
    }
    let start = find(url, b"://").map_or(0, |at| at + 3);
    let authority = url[start..].iter().position(|byte| *byte == b'/').map_or(url.len(), |at| start + at);
    if let Some(user) = url[start..authority].iter().rposition(|byte| *byte == b'@').filter(|_| start > 0) {
        url[start..start + user].fill(b'*');
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("hidden", &self.hidden.len()).finish()
    }
}

/// What a proxy needs to know beside the request itself.
#[derive(Clone)]
pub(super) struct Forward {
    /// Scheme, host and port of the server.
    origin: String,
    /// A line of the head, if the proxy wants credentials.
    credentials: Option<Secret>,
}

impl Forward {
    /// By this proxy to the server of the URL.
    pub(super) fn new(proxy: &Proxy, url: &str) -> Self {
        let path = url.find("://").and_then(|at| Some(at + 3 + url[at + 3..].find(['/', '?'])?));
        let credentials = (proxy.username().is_some() || proxy.password().is_some()).then(|| {
            let (user, password) =
                (proxy.username().unwrap_or_default(), proxy.password().unwrap_or_default());
            Secret::new(format!("Proxy-Authorization: Basic {}\r\n", basic_credentials(user, password)))
        });
        Self { origin: url[..path.unwrap_or(url.len())].to_owned(), credentials }
    }

    /// Scheme and authority, which go before the path.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The header line to add behind the first line; may be empty.
    pub(super) fn line(&self) -> &str {
        self.credentials.as_ref().map_or("", Secret::expose)
    }
}

// by hand: the origin may be from a variable
impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").finish_non_exhaustive()
    }
}

/// What a proxy's credentials are made of, which it could repeat.
pub(super) fn proxy_secrets(proxy: &Proxy) -> Vec<Secret> {
    let user = proxy.username().unwrap_or_default();
    let password = proxy.password().unwrap_or_default();
    if password.is_empty() {
        return Vec::new();
    }
    vec![Secret::new(password), Secret::new(basic_credentials(user, password))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmasked(mask: &Mask, request: String) -> String {
        let unmasked = mask.unmask(request.as_bytes()).unwrap_or(request.into_bytes());
        String::from_utf8(unmasked).unwrap()
    }

    #[test]
    fn the_values_stand_in_the_head_and_nowhere_else() {
        let mut mask = Mask::default();
        let masked = mask.hide_header("authorization", "Bearer s3cret");
        assert_eq!(masked.len(), "Bearer s3cret".len());
        let request = format!("POST / HTTP/1.1\r\nauthorization: {masked}\r\nx: {masked}\r\n\r\n");
        let expected = format!("POST / HTTP/1.1\r\nauthorization: Bearer s3cret\r\nx: {masked}\r\n\r\n");
        assert_eq!(unmasked(&mask, request), expected);
    }

    #[test]
    fn a_proxy_is_given_the_whole_url_and_who_asks() {
        let proxy = ureq::Proxy::new("http://shop:hunter2@proxy:3128").unwrap();
        let credentials = "Proxy-Authorization: Basic c2hvcDpodW50ZXIy\r\n";
        for target in ["/v1/traces", "/v1/traces?key=s3cret"] {
            let url = format!("http://collector:4318{target}");
            let mut mask = Mask::default();
            mask.forward(Forward::new(&proxy, &url));
            let seen = if target.contains('?') { mask.hide_target(target) } else { target.to_owned() };
            let request = format!("POST {seen} HTTP/1.1\r\nhost: collector:4318\r\n\r\n");
            let expected = format!("POST {url} HTTP/1.1\r\n{credentials}host: collector:4318\r\n\r\n");
            assert_eq!(unmasked(&mask, request), expected);
        }
    }

    #[test]
    fn a_body_is_left_alone() {
        let mut mask = Mask::default();
        let masked = mask.hide_header("a", "b");
        let body = format!("\r\na: {masked}\r\n");
        assert_eq!(unmasked(&mask, body.clone()), body);
    }

    #[test]
    fn a_target_is_hidden_and_lifted() {
        let mut mask = Mask::default();
        let masked = mask.hide_target("/v1/traces?key=s3cret");
        assert!(masked.starts_with('/') && !masked.contains('?'));
        let request = format!("POST {masked} HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(unmasked(&mask, request), "POST /v1/traces?key=s3cret HTTP/1.1\r\nhost: a\r\n\r\n");
    }

    #[test]
    fn equal_stand_ins_are_lifted_in_their_order_and_once() {
        let mut mask = Mask::default();
        let lines: String =
            ["b", "a", "a", "b"].map(|value| format!("x: {}\r\n", mask.hide_header("x", value))).concat();
        let once = unmasked(&mask, format!("POST / HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(once, "POST / HTTP/1.1\r\nx: b\r\nx: a\r\nx: a\r\nx: b\r\n\r\n");
        // behind a proxy there are two masks, one after the other
        assert_eq!(unmasked(&mask, once.clone()), once);
    }

    #[test]
    fn an_answer_is_blotted_but_not_what_the_protocol_needs() {
        let mut mask = Mask::default();
        mask.redact_from_now_on(Secrets::new(["application/x-protobuf-transfer-encoding"]));
        let mut head = b"HTTP/1.1 400 x-protobuf\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\
            Location: http://u:p@a/b?c=d\r\nX: x-protobuf\r\n\r\n"
            .to_vec();
        head.split_inclusive_mut(|byte| *byte == b'\n').for_each(|line| mask.redact_line(line));
        assert_eq!(
            String::from_utf8_lossy(&head),
            "HTTP/1.1 400 **********\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\
             Location: http://***@a/b?***\r\nX: **********\r\n\r\n"
        );
    }
}
