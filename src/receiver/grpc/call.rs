//! A call: checks of its head, decoding of its message, and the state of its stream.

use std::cmp::Ordering;
use std::time::Instant;

use crate::http2::flow_control::{ReceiveWindow, Window};
use crate::http2::hpack::Field;
use crate::receiver::budget::Share;
use crate::receiver::content::{Coding, Content, Format};
use crate::receiver::refusal::{Hosts, Refusal, RefusalKind};
use crate::record::Signal;
use crate::transport::is_media_type;

/// Length of the prefix of a gRPC message: a flag and a length.
const PREFIX: usize = 5;

/// The headers of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) path: String,
    /// Authority as `host`, then the other headers without pseudo-headers, in the order of arrival.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    /// Checks the fields of a request (RFC 9113, sections 8.2 and 8.3). After an error, which describes the defect, the
    /// caller must reset the stream.
    pub(super) fn of(fields: Vec<Field>) -> Result<Self, &'static str> {
        let [mut method, mut path, mut scheme, mut authority] = [const { None }; 4];
        let mut headers = Vec::with_capacity(fields.len());
        for Field { name, value } in fields {
            check_bytes(&name, &value)?;
            let place = match name.as_slice() {
                b":method" => &mut method,
                b":path" => &mut path,
                b":scheme" => &mut scheme,
                b":authority" => &mut authority,
                [b':', ..] => return Err("an unknown pseudo-header"),
                b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                    return Err("a connection-specific header");
                }
                b"te" if !value.eq_ignore_ascii_case(b"trailers") => return Err("te other than trailers"),
                _ => {
                    headers.push((text(&name), text(&value)));
                    continue;
                }
            };
            if !headers.is_empty() || place.replace(text(&value)).is_some() {
                return Err("a misplaced or repeated pseudo-header");
            }
        }
        let (Some(method), Some(path), Some(_)) = (method, path, scheme) else {
            return Err("a missing pseudo-header");
        };
        let host = authority.map(|authority| ("host".to_owned(), authority));
        headers.splice(..0, host);
        Ok(Self { method, path, headers })
    }

    /// Returns the memory of a call with this head and no message yet.
    pub(super) fn weight(&self) -> usize {
        let texts = self.headers.iter().map(|(name, value)| name.capacity() + value.capacity());
        let headers = self.headers.capacity() * size_of::<(String, String)>() + texts.sum::<usize>();
        size_of::<Stream>() + self.method.capacity() + self.path.capacity() + headers
    }

    /// Returns the values of every header called `name`.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether every content-length of the head equals `bytes`, the length of the body.
    pub(super) fn allows_length(&self, bytes: usize) -> bool {
        self.values("content-length").all(|length| length == bytes.to_string())
    }

    pub(super) fn signal(&self) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.grpc_path() == self.path)
    }
}

fn check_bytes(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    let is_name = |byte: &u8| matches!(byte, b'!'..=b'~') && !byte.is_ascii_uppercase();
    if name.is_empty() || !name.iter().all(is_name) || name[1..].contains(&b':') {
        return Err("a header with a malformed name");
    }
    match value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        true => Err("a control character in a header"),
        false => Ok(()),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A checked head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    signal: Signal,
    /// Compression of messages whose flag says that they are compressed; `None` if the head names no compression.
    coding: Option<Coding>,
}

impl Plan {
    pub(super) fn of(head: &Head, hosts: Hosts) -> Result<Self, Refusal> {
        hosts.check(head.values("host"))?;
        let content_type = head.values("content-type").next().unwrap_or_default();
        let mut names = ["application/grpc", "application/grpc+proto"].iter();
        let is_grpc = names.any(|name| is_media_type(content_type, name));
        Refusal::unless(is_grpc, 415, "unsupported content type: this is the gRPC port")?;
        Refusal::unless(head.method == "POST", 405, "method not allowed: use POST")?;
        let signal = head.signal().ok_or_else(|| Refusal::no_such_path(Signal::grpc_path))?;
        let coding = match head.values("grpc-encoding").next() {
            None | Some("identity") => None,
            Some("gzip") => Some(Coding::Gzip),
            Some(_) => {
                let refusal = Refusal::new(501, "unsupported grpc-encoding: send gzip or identity");
                return Err(refusal.of_kind(RefusalKind::Compression));
            }
        };
        Ok(Self { signal, coding })
    }

    /// Decodes the only message of a complete body.
    pub(super) fn read(self, body: &[u8], limit: usize, share: Share) -> Result<Content, Refusal> {
        let Some((&[flag, length @ ..], message)) = body.split_first_chunk::<PREFIX>() else {
            return Err(Refusal::undecodable("the call has no message"));
        };
        let length = u32::from_be_bytes(length) as usize;
        let coding = match (message.len().cmp(&length), flag, self.coding) {
            (Ordering::Less, ..) => Err("the message is cut short"),
            (Ordering::Greater, ..) => Err("the call has more than one message"),
            (_, 0, _) => Ok(Coding::Identity),
            (_, 1, Some(coding)) => Ok(coding),
            (_, 1, None) => Err("the message is compressed without a grpc-encoding"),
            _ => Err("the message has an unknown flag"),
        };
        let coding = coding.map_err(Refusal::undecodable)?;
        Content::read(self.signal, Format::Protobuf, coding, message, limit, share)
    }
}

/// Returns the length of the whole body: the prefix plus the message length that the prefix announces. While the prefix
/// at the beginning of `body` is incomplete, returns the maximum length.
pub(super) fn announced_length(body: &[u8], limit: usize) -> usize {
    let announced = body.first_chunk::<PREFIX>().map(|[_, length @ ..]| u32::from_be_bytes(*length) as usize);
    announced.unwrap_or(limit).saturating_add(PREFIX)
}

/// Returns whether a body that begins with `body` can be one message of at most `limit` bytes. The prefix announces
/// the length, so the check does not have to wait for the rest of the body.
pub(super) fn fits(body: &[u8], limit: usize) -> bool {
    announced_length(body, limit).max(body.len()) <= limit.saturating_add(PREFIX)
}

/// One stream: an incoming call, then an outgoing answer.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) receive_window: ReceiveWindow,
    pub(super) window: Window,
    /// The call, until it is complete or refused.
    pub(super) incoming: Option<Incoming>,
    /// True from the end of the call, or its refusal, until the stream is released.
    pub(super) in_hand: bool,
    /// Capacity of the body that the handler works on.
    pub(super) in_hand_bytes: usize,
    /// True if the client has sent its last frame.
    pub(super) is_remote_closed: bool,
    /// True if the receiver has sent its last frame.
    pub(super) is_local_closed: bool,
}

pub(super) struct Incoming {
    pub(super) head: Head,
    pub(super) plan: Plan,
    pub(super) body: Vec<u8>,
    /// Reserved memory of the call.
    pub(super) share: Share,
    pub(super) begun: Instant,
}

impl Stream {
    pub(super) fn new(window: u32, is_remote_closed: bool) -> Self {
        Self { window: Window::new(window), is_remote_closed, ..Self::default() }
    }
}
