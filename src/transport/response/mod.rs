//! Status and body of a collector's response. Pure; reads untrusted bytes.

mod json;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(super) use self::json::status_message;
use self::json::{Fault, PartialSuccess};
use super::Verdict;
use crate::record::wire::{Fields, Raw};

/// Maximum characters of a message: enough for an explanation, and short enough for a log line.
const MAX_MESSAGE_CHARS: usize = 512;

/// Maximum `Duration` of protobuf: ten thousand years.
const MAX_DELAY_SECONDS: u64 = 315_576_000_000;

/// Message and delay in the body of an error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusMessage {
    /// One line of at most 512 characters.
    pub(crate) message: String,
    /// Delay that the server asks for. The caller limits it.
    pub(crate) retry_delay: Option<Duration>,
}

/// Reads the body of a successful response in protobuf, of any signal. A prefix of a body still has the count, which
/// comes first, and the start of the message.
///
/// # Errors
/// Returns `Odd` if the body is not an `Export…ServiceResponse`.
pub(crate) fn read_partial_success(body: &[u8], is_prefix: bool) -> Result<Verdict, Oddity> {
    partial_success(body, is_prefix).map(Verdict::from).ok_or(Oddity::Odd(UNREADABLE))
}

fn partial_success(body: &[u8], is_prefix: bool) -> Option<PartialSuccess> {
    let fields = if is_prefix { Fields::of_prefix } else { Fields::of };
    let mut partial = PartialSuccess::default();
    for field in fields(body) {
        match field.ok()? {
            (1, Raw::Bytes(message)) => {
                for field in fields(message) {
                    match field.ok()? {
                        (1, Raw::Varint(rejected)) => partial.rejected = (rejected as i64).max(0) as u64,
                        (2, Raw::Bytes(text)) => {
                            partial.error_message = match is_prefix {
                                // A prefix may end inside a character.
                                true => String::from_utf8_lossy(text).into_owned(),
                                false => std::str::from_utf8(text).ok()?.to_owned(),
                            }
                        }
                        (1 | 2, _) => return None,
                        _ => {}
                    }
                }
            }
            (1, _) => return None,
            _ => {}
        }
    }
    Some(partial)
}

/// Reads the body of an error response. Returns `None` if it is not a `google.rpc.Status`, or if the status is empty.
pub(crate) fn read_status(body: &[u8]) -> Option<StatusMessage> {
    let (mut message, mut delay) = (String::new(), None);
    for field in Fields::of(body) {
        match field.ok()? {
            (1, Raw::Varint(_code)) => {}
            (2, Raw::Bytes(text)) => message = printable(std::str::from_utf8(text).ok()?),
            (3, Raw::Bytes(detail)) => delay = delay.or(retry_delay(detail)?),
            (1..=3, _) => return None,
            _ => {}
        }
    }
    // Plain text may parse as a message that has only unknown fields. Such a message is not a status.
    let is_status = !message.is_empty() || delay.is_some();
    is_status.then_some(StatusMessage { message, retry_delay: delay })
}

/// Returns the delay in a detail (`google.protobuf.Any`): `Some(None)` if the detail is not a `google.rpc.RetryInfo` or
/// its delay is invalid, and `None` if the bytes are not an `Any`.
fn retry_delay(detail: &[u8]) -> Option<Option<Duration>> {
    let (mut type_url, mut value) = ("", &[][..]);
    for field in Fields::of(detail) {
        match field.ok()? {
            (1, Raw::Bytes(text)) => type_url = std::str::from_utf8(text).ok()?,
            (2, Raw::Bytes(bytes)) => value = bytes,
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some(if type_url.ends_with("google.rpc.RetryInfo") { delay_of(value) } else { None })
}

/// Returns the delay of a `RetryInfo` if it is in the valid range.
fn delay_of(info: &[u8]) -> Option<Duration> {
    let (mut delay, mut seconds, mut nanos) = (None, 0, 0);
    for field in Fields::of(info) {
        match field.ok()? {
            (1, Raw::Bytes(message)) => {
                for field in Fields::of(message) {
                    match field.ok()? {
                        (1, Raw::Varint(number)) => seconds = number as i64,
                        (2, Raw::Varint(number)) => nanos = number as i32,
                        (1 | 2, _) => return None,
                        _ => {}
                    }
                }
                delay = Some(sensible(seconds, nanos));
            }
            (1, _) => return None,
            _ => {}
        }
    }
    delay?
}

fn sensible(seconds: i64, nanos: i32) -> Option<Duration> {
    let (seconds, nanos) = (u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
    (seconds <= MAX_DELAY_SECONDS && nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
}

/// Makes a server's text safe for a log line: shortens it, and replaces control characters, which terminals obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(MAX_MESSAGE_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Why the body of a successful response cannot be read as an export response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// The collector has the batch, but its response has a defect.
    Odd(&'static str),
    /// The response is not from a collector.
    Foreign,
    TooLong,
}

impl From<PartialSuccess> for Verdict {
    fn from(partial: PartialSuccess) -> Self {
        let (rejected, message) = (partial.rejected, printable(&partial.error_message));
        // Some collectors send an empty partial success if everything was accepted.
        match rejected == 0 && message.is_empty() {
            true => Self::Accepted,
            false => Self::AcceptedPartly { rejected, message },
        }
    }
}

/// How much of a body was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// The beginning of the body: all of the body arrived, but the rest was not kept.
    Prefix,
    /// The connection ended inside the body.
    BrokenOff,
}

/// Reads the body of a successful response, of any signal.
pub(crate) fn read_success(content_type: &str, body: &[u8], extent: Extent) -> Result<Verdict, Oddity> {
    let is = |name: &str| is_media_type(content_type, name);
    let read = || read_partial_success(body, extent == Extent::Prefix);
    // The caller replaces an absent content type by the request's. An empty name, as in `;`, counts as protobuf.
    if is("") || is("application/x-protobuf") || is("application/protobuf") {
        return if extent == Extent::BrokenOff { Err(Oddity::Odd(CUT_SHORT)) } else { read() };
    }
    if extent == Extent::Whole && body.is_empty() {
        return Ok(Verdict::Accepted);
    }
    if is("application/json") {
        return match json::read(body) {
            (partial, Ok(())) if extent == Extent::Whole => Ok(partial.into()),
            (partial, Err(Fault::CutShort)) if extent == Extent::Prefix && partial.rejected > 0 => {
                Ok(partial.into())
            }
            (_, Ok(()) | Err(Fault::CutShort)) => Err(Oddity::Odd(CUT_SHORT)),
            (_, Err(Fault::Foreign)) => Err(Oddity::Foreign),
        };
    }
    // The content type may be a guess of the server's HTTP library, so a body that begins like a protobuf response is
    // read. If the body is text, it can only parse as unknown fields, never as a count.
    let is_likely = extent != Extent::BrokenOff && body.starts_with(PARTIAL_SUCCESS);
    is_likely.then(read).and_then(Result::ok).ok_or(Oddity::Foreign)
}

/// The message for [`Oddity::TooLong`].
pub(crate) const TOO_LONG: &str = "the response is longer than response-bytes";
/// Maximum bytes of a response that are kept, both before and after decompression. The rest is skipped.
pub(super) const KEPT_BYTES: usize = 64 << 10;
pub(super) const CUT_SHORT: &str = "the answer was cut short";
pub(super) const UNREADABLE: &str = "the answer cannot be read";
/// First byte of a non-empty response in protobuf: field 1, a message.
const PARTIAL_SUCCESS: &[u8] = b"\x0a";

/// Returns whether a content type has this name, regardless of case and parameters.
pub(crate) fn is_media_type(content_type: &str, name: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(name)
}

/// Statuses after which the same batch is sent again. OTLP lists these four and forbids retries after other errors.
pub(crate) const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// Returns the verdict on an error status. `after` is the delay that the server asks for, which only a retry uses.
pub(super) fn status_verdict(status: u16, after: Option<Duration>, reason: String) -> Verdict {
    match status {
        status if RETRYABLE.contains(&status) => Verdict::TryLater { after, reason },
        413 => Verdict::TooLarge { reason },
        // Each signal has its own path. The server does not know this path, accepts no POST there, or does not
        // implement it.
        404 | 405 | 501 => Verdict::NotTaken { reason },
        _ => Verdict::Refused { reason },
    }
}
