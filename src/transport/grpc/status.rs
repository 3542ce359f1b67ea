//! Retryable gRPC statuses, and the meaning of a response to a call. Pure; reads untrusted bytes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::super::calendar::retry_after;
use super::super::gzip::{Fault, decompress};
use super::super::response::{
    self, CUT_SHORT, UNREADABLE, printable, read_partial_success, read_status, status_verdict,
};
use super::super::{Verdict, base64};
use crate::context::decode_percent;
use crate::http2::client::{MAX_KEPT_BYTES, Response};
use crate::http2::frame::Code;
use crate::http2::hpack::Field;

const PROTOCOL: &str = "application/grpc";
/// Length of a message's prefix: compressed flag and length.
const PREFIX_BYTES: usize = 5;

/// Statuses after which the same batch is sent again, as OTLP lists them. RESOURCE_EXHAUSTED is retryable only if the
/// server names a delay: see [`Status::verdict`].
const RETRYABLE: [Status; 6] = [
    Status::CANCELLED,
    Status::DEADLINE_EXCEEDED,
    Status::ABORTED,
    Status::OUT_OF_RANGE,
    Status::UNAVAILABLE,
    Status::DATA_LOSS,
];

/// The status code of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(pub(super) u32);

impl Status {
    pub(super) const OK: Self = Self(0);
    const CANCELLED: Self = Self(1);
    pub(super) const UNKNOWN: Self = Self(2);
    const DEADLINE_EXCEEDED: Self = Self(4);
    const PERMISSION_DENIED: Self = Self(7);
    const RESOURCE_EXHAUSTED: Self = Self(8);
    const ABORTED: Self = Self(10);
    const OUT_OF_RANGE: Self = Self(11);
    const UNIMPLEMENTED: Self = Self(12);
    const INTERNAL: Self = Self(13);
    const UNAVAILABLE: Self = Self(14);
    const DATA_LOSS: Self = Self(15);
    const UNAUTHENTICATED: Self = Self(16);

    /// Returns the code for a response without a gRPC status, such as the response of a proxy. The code only names the
    /// problem: the verdict follows from the HTTP status.
    fn of_http(status: u16) -> Self {
        match status {
            400 | 431 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            status if response::RETRYABLE.contains(&status) => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }

    /// Returns the code, or `UNKNOWN` if gRPC does not define the code. The code becomes an attribute of metrics, so a
    /// server could otherwise cause any number of series.
    pub(super) fn defined(self) -> Self {
        if self.0 <= Self::UNAUTHENTICATED.0 { self } else { Self::UNKNOWN }
    }

    /// Returns the code for a call that the server reset.
    pub(super) fn of_reset(code: Code) -> Self {
        match code {
            Code::REFUSED_STREAM => Self::UNAVAILABLE,
            Code::CANCEL => Self::CANCELLED,
            Code::ENHANCE_YOUR_CALM => Self::RESOURCE_EXHAUSTED,
            Code::INADEQUATE_SECURITY => Self::PERMISSION_DENIED,
            _ => Self::INTERNAL,
        }
    }

    /// Returns the verdict, given the server's message and the delay that it asks for.
    pub(super) fn verdict(self, target: &str, message: &str, after: Option<Duration>) -> Verdict {
        let reason = self.reason(target, message);
        match self {
            // Retryable only with a delay, and then even if the message says that something is too large.
            Self::RESOURCE_EXHAUSTED if after.is_some() => Verdict::TryLater { after, reason },
            // The same request will always be too large, even if the status is retryable.
            Self::OUT_OF_RANGE | Self::RESOURCE_EXHAUSTED if speaks_of_size(message) => {
                Verdict::TooLarge { reason }
            }
            status if RETRYABLE.contains(&status) => Verdict::TryLater { after, reason },
            // The server accepts the signal, but not this compression.
            Self::UNIMPLEMENTED if speaks_of_compression(message) => Verdict::Refused {
                reason: format!("{reason}; does the server accept gzip? try compression = \"none\""),
            },
            Self::UNIMPLEMENTED => Verdict::NotTaken { reason },
            _ => Verdict::Refused { reason },
        }
    }

    fn reason(self, target: &str, message: &str) -> String {
        let colon = if message.is_empty() { "" } else { ": " };
        format!("call {target}: {}{colon}{message}", self.name())
    }

    pub(super) fn name(self) -> String {
        // In the order of their numbers.
        const NAMES: &str = "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS \
             PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED \
             INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED";
        let name = NAMES.split(' ').nth(self.0 as usize);
        name.map_or_else(|| format!("status {}", self.0), str::to_owned)
    }
}

/// The status that a server sent.
#[derive(Debug)]
pub(super) struct ReceivedStatus {
    pub(super) status: Status,
    pub(super) message: String,
    /// Delay that the server asks for.
    after: Option<Duration>,
    /// HTTP status of a response without a gRPC status. It is more precise than the code in `status`.
    http: Option<u16>,
}

impl ReceivedStatus {
    pub(super) fn verdict(&self, target: &str) -> Verdict {
        match self.http {
            Some(http) => status_verdict(http, self.after, self.status.reason(target, &self.message)),
            None => self.status.verdict(target, &self.message, self.after),
        }
    }
}

/// Message for an unreadable status.
pub(super) const NO_NUMBER: &str = "a grpc-status that is not a number";

/// Returns the verdict on a response. `received` is `None` if the status of the response is malformed.
pub(super) fn judge(received: Option<ReceivedStatus>, answer: &Response, target: &str) -> Verdict {
    match received {
        None => Verdict::Refused { reason: format!("call {target}: {NO_NUMBER}") },
        Some(received) if received.status == Status::OK => read_success(answer).unwrap_or_else(|what| {
            Verdict::AcceptedPartly { rejected: 0, message: format!("call {target}: {what}") }
        }),
        Some(received) => received.verdict(target),
    }
}

/// Returns the status of a response, or `None` if it cannot be read.
pub(super) fn read(answer: &Response) -> Option<ReceivedStatus> {
    // A trailers-only response has a single header block.
    let last = if answer.trailers.is_empty() { &answer.head } else { &answer.trailers };
    let Some(status) = find(last, "grpc-status") else { return Some(read_without_status(answer)) };
    let status = parse_status(status)?;
    let details = find(last, "grpc-status-details-bin").and_then(base64::decode);
    let details = details.and_then(|details| read_status(&details));
    let message = find(last, "grpc-message").map(message_text).unwrap_or_default();
    let (inner, after) = details.map_or_else(Default::default, |status| (status.message, status.retry_delay));
    let message = if message.is_empty() { inner } else { message };
    Some(ReceivedStatus { status, message, after, http: None })
}

/// Reads a successful response. The collector has the batch, whatever the message looks like.
///
/// # Errors
/// Returns the defect of the message.
pub(super) fn read_success(answer: &Response) -> Result<Verdict, &'static str> {
    let Some(([flag, length @ ..], message)) = answer.body.split_first_chunk::<PREFIX_BYTES>() else {
        return Err("the answer has no message");
    };
    let (message, is_whole) = match message.get(..u32::from_be_bytes(*length) as usize) {
        Some(message) => (message, true),
        None if answer.body.len() >= MAX_KEPT_BYTES => (message, false),
        None => return Err(CUT_SHORT),
    };
    let encoding = find(&answer.head, "grpc-encoding").unwrap_or_default();
    // Decompression stops at `MAX_KEPT_BYTES`, because a small message can decompress to a thousand times its length.
    let unpacked = match flag {
        0 => Ok((Cow::Borrowed(message), is_whole)),
        // Servers respond to a gzip request in gzip, some of them regardless of `grpc-accept-encoding`.
        1 if encoding.eq_ignore_ascii_case(b"gzip") => decompress(message, is_whole, MAX_KEPT_BYTES)
            .map(|(message, is_all)| (Cow::Owned(message), is_all)),
        _ => Err(Fault::Unknown),
    };
    let (message, is_all) = unpacked.map_err(|fault| match fault {
        Fault::Unknown => "the answer is compressed in a way that was not asked for",
        Fault::Broken => "the answer cannot be unpacked",
    })?;
    read_partial_success(&message, !is_all).map_err(|_| match (is_all, is_whole) {
        (true, _) => UNREADABLE,
        (false, true) => "the answer is longer than 64 KiB when it is unpacked",
        (false, false) => CUT_SHORT,
    })
}

/// Reads a response without a gRPC status.
fn read_without_status(answer: &Response) -> ReceivedStatus {
    let content_type = find(&answer.head, "content-type").map(lossy).unwrap_or_default();
    let what = match answer.status {
        200 if content_type.starts_with(PROTOCOL) => "the answer has no grpc-status".to_owned(),
        status if content_type.is_empty() => format!("HTTP status {status} without a gRPC status"),
        status => format!("HTTP status {status} with {} instead of gRPC", printable(&content_type)),
    };
    let after = find(&answer.head, "retry-after").map(lossy);
    let after = after.and_then(|after| retry_after(&after, SystemTime::now()));
    let status = Status::of_http(answer.status);
    ReceivedStatus { status, message: what, after, http: Some(answer.status) }
}

fn speaks_of_size(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["larger than", "too large", "too big", "maximum size", "message size", "message length"]
        .iter()
        .any(|words| message.contains(words))
}

fn speaks_of_compression(message: &str) -> bool {
    message.to_ascii_lowercase().contains("compress")
}

fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name == name.as_bytes()).map(|field| field.value.as_slice())
}

fn lossy(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn parse_status(value: &[u8]) -> Option<Status> {
    let text = std::str::from_utf8(value).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok().map(Status))?
}

/// Returns the text of a `grpc-message`, safe for a log line.
fn message_text(value: &[u8]) -> String {
    printable(&decode_percent(value))
}
