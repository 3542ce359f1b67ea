//! Frames: a head of nine bytes, then a payload (RFC 9113, sections 4.1 and 6). [`Frame::read`] checks the rules that
//! depend on the frame alone, except for window increments of 0 and for settings (see [`Settings::each`]).

#[cfg(test)]
mod tests;

use std::fmt;

/// The client's connection preface (section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEAD_BYTES: usize = 9;
/// Smallest permitted SETTINGS_MAX_FRAME_SIZE, and the maximum payload that we accept.
pub(crate) const MIN_MAX_FRAME: usize = 16_384;
const MAX_MAX_FRAME: u32 = (1 << 24) - 1;
pub(crate) const MAX_STREAM: u32 = (1 << 31) - 1;

pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RESET: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GO_AWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// An error code of GOAWAY or RST_STREAM (section 7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const NO_ERROR: Self = Self(0);
    pub(crate) const PROTOCOL: Self = Self(1);
    pub(crate) const FLOW_CONTROL: Self = Self(3);
    pub(crate) const FRAME_SIZE: Self = Self(6);
    pub(crate) const REFUSED_STREAM: Self = Self(7);
    pub(crate) const CANCEL: Self = Self(8);
    pub(crate) const COMPRESSION: Self = Self(9);
    pub(crate) const ENHANCE_YOUR_CALM: Self = Self(11);
    pub(crate) const INADEQUATE_SECURITY: Self = Self(12);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[rustfmt::skip]
        const NAMES: [&str; 14] = [
            "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
            "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
            "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
        ];
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "code {}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A connection error (section 5.4.1): the peer broke a rule that the whole connection depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Code to send to the peer in GOAWAY.
    pub(crate) code: Code,
    /// Reason, for messages.
    pub(crate) what: &'static str,
}

impl Fault {
    pub(crate) fn protocol(what: &'static str) -> Self {
        Self { code: Code::PROTOCOL, what }
    }

    pub(crate) fn size(what: &'static str) -> Self {
        Self { code: Code::FRAME_SIZE, what }
    }

    pub(crate) fn flow(what: &'static str) -> Self {
        Self { code: Code::FLOW_CONTROL, what }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            // The first bit is reserved and ignored (section 4.1).
            stream: u32::from_be_bytes(stream) & MAX_STREAM,
        }
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A well-formed frame. The connection checks whether the frame is allowed at this point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// `flow` is the length that counts against the windows, padding included (section 6.1).
    Data {
        stream: u32,
        content: &'a [u8],
        flow: usize,
        ends_stream: bool,
    },
    Headers {
        stream: u32,
        block: &'a [u8],
        ends_stream: bool,
        ends_block: bool,
    },
    Continuation {
        stream: u32,
        block: &'a [u8],
        ends_block: bool,
    },
    Reset {
        stream: u32,
        code: Code,
    },
    Settings(Settings<'a>),
    SettingsAck,
    Ping([u8; 8]),
    PingAck,
    GoAway {
        last_stream: u32,
        code: Code,
        debug: &'a [u8],
    },
    /// Stream 0 is the connection. An increment of 0 is a connection error there, and a stream error elsewhere.
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    PushPromise,
    /// PRIORITY, and frames of unknown types, which must be ignored (section 4.1).
    Meaningless,
}

impl<'a> Frame<'a> {
    /// Reads a frame. `payload` is as long as the head says.
    pub(crate) fn read(head: Head, payload: &'a [u8]) -> Result<Self, Fault> {
        let stream = head.stream;
        match head.kind {
            kind::DATA | kind::HEADERS | kind::CONTINUATION | kind::PRIORITY | kind::RESET if stream == 0 => {
                return Err(Fault::protocol("a stream frame on stream 0"));
            }
            kind::SETTINGS | kind::PING | kind::GO_AWAY if stream != 0 => {
                return Err(Fault::protocol("a connection frame on a stream"));
            }
            _ => {}
        }
        let ends_stream = head.has(flag::END_STREAM);
        let ends_block = head.has(flag::END_HEADERS);
        Ok(match head.kind {
            kind::DATA => {
                let content = unpadded(head, payload)?;
                Frame::Data { stream, content, flow: payload.len(), ends_stream }
            }
            kind::HEADERS => {
                let mut block = unpadded(head, payload)?;
                if head.has(flag::PRIORITY) {
                    // Five bytes of dependency and weight, which are ignored (section 5.3.2).
                    block = block.get(5..).ok_or(Fault::size("HEADERS without the announced priority"))?;
                }
                Frame::Headers { stream, block, ends_stream, ends_block }
            }
            kind::CONTINUATION => Frame::Continuation { stream, block: payload, ends_block },
            kind::PRIORITY => {
                let _: [u8; 5] = exactly(payload, "PRIORITY with a wrong length")?;
                Frame::Meaningless
            }
            kind::RESET => {
                let code = exactly(payload, "RST_STREAM with a wrong length")?;
                Frame::Reset { stream, code: Code(u32::from_be_bytes(code)) }
            }
            kind::SETTINGS => match head.has(flag::ACK) {
                true if payload.is_empty() => Frame::SettingsAck,
                false if payload.len() % 6 == 0 => Frame::Settings(Settings(payload)),
                _ => return Err(Fault::size("SETTINGS with a wrong length")),
            },
            kind::PUSH_PROMISE => Frame::PushPromise,
            kind::PING => {
                let payload = exactly(payload, "PING with a wrong length")?;
                if head.has(flag::ACK) { Frame::PingAck } else { Frame::Ping(payload) }
            }
            kind::GO_AWAY => {
                let Some(([a, b, c, d, code @ ..], debug)) = payload.split_first_chunk::<8>() else {
                    return Err(Fault::size("GOAWAY with a wrong length"));
                };
                let last_stream = u32::from_be_bytes([*a, *b, *c, *d]) & MAX_STREAM;
                Frame::GoAway { last_stream, code: Code(u32::from_be_bytes(*code)), debug }
            }
            kind::WINDOW_UPDATE => {
                let increment = exactly(payload, "WINDOW_UPDATE with a wrong length")?;
                let increment = u32::from_be_bytes(increment) & MAX_STREAM;
                Frame::WindowUpdate { stream, increment }
            }
            _ => Frame::Meaningless,
        })
    }
}

fn exactly<const LENGTH: usize>(payload: &[u8], otherwise: &'static str) -> Result<[u8; LENGTH], Fault> {
    payload.try_into().map_err(|_| Fault::size(otherwise))
}

fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], Fault> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (length, rest) = payload.split_first().ok_or(Fault::size("padding without its length"))?;
    // The padding may fill the payload, but not exceed it (section 6.1).
    let end = rest.len().checked_sub(usize::from(*length));
    end.map(|end| &rest[..end]).ok_or(Fault::protocol("padding longer than its frame"))
}

/// The payload of SETTINGS: pairs of an identifier (see [`setting`]) and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings<'a>(&'a [u8]);

impl<'a> Settings<'a> {
    /// Returns the settings in the order in which they must be applied (section 6.5.3), or a fault for a wrong value.
    pub(crate) fn each(self) -> impl Iterator<Item = Result<(u16, u32), Fault>> + 'a {
        self.0.chunks_exact(6).map(|entry| {
            let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            let (id, value) = (number(&entry[..2]) as u16, number(&entry[2..]));
            match id {
                setting::ENABLE_PUSH if value > 1 => {
                    Err(Fault::protocol("SETTINGS_ENABLE_PUSH is neither 0 nor 1"))
                }
                setting::INITIAL_WINDOW_SIZE if value > MAX_STREAM => {
                    Err(Fault::flow("SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1"))
                }
                setting::MAX_FRAME_SIZE if !(MIN_MAX_FRAME as u32..=MAX_MAX_FRAME).contains(&value) => {
                    Err(Fault::protocol("SETTINGS_MAX_FRAME_SIZE out of range"))
                }
                _ => Ok((id, value)),
            }
        })
    }
}

/// Writes the head of a frame, to be followed by `length` bytes of payload. All lengths here fit into 24 bits.
pub(crate) fn write_head(kind: u8, flags: u8, stream: u32, length: usize, out: &mut Vec<u8>) {
    let [_, length @ ..] = (length as u32).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

pub(crate) fn write_settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    write_head(kind::SETTINGS, 0, 0, settings.len() * 6, out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(crate) fn write_settings_ack(out: &mut Vec<u8>) {
    write_head(kind::SETTINGS, flag::ACK, 0, 0, out);
}

pub(crate) fn write_ping_ack(payload: [u8; 8], out: &mut Vec<u8>) {
    write_head(kind::PING, flag::ACK, 0, payload.len(), out);
    out.extend_from_slice(&payload);
}

pub(crate) fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write_head(kind::WINDOW_UPDATE, 0, stream, 4, out);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(crate) fn write_reset(stream: u32, code: Code, out: &mut Vec<u8>) {
    write_head(kind::RESET, 0, stream, 4, out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(crate) fn write_go_away(last_stream: u32, code: Code, out: &mut Vec<u8>) {
    write_head(kind::GO_AWAY, 0, 0, 8, out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Writes a header block as HEADERS and as many CONTINUATION frames as it takes.
pub(crate) fn write_headers(
    stream: u32,
    block: &[u8],
    ends_stream: bool,
    max_frame: usize,
    out: &mut Vec<u8>,
) {
    let (first, mut rest) = block.split_at(block.len().min(max_frame));
    let ends_stream = if ends_stream { flag::END_STREAM } else { 0 };
    let ends_block = |rest: &[u8]| if rest.is_empty() { flag::END_HEADERS } else { 0 };
    write_head(kind::HEADERS, ends_stream | ends_block(rest), stream, first.len(), out);
    out.extend_from_slice(first);
    while !rest.is_empty() {
        let (next, after) = rest.split_at(rest.len().min(max_frame));
        rest = after;
        write_head(kind::CONTINUATION, ends_block(rest), stream, next.len(), out);
        out.extend_from_slice(next);
    }
}
