//! An answer whose status is a success: what it says, for an export and for a probe alike.

use std::io::{ErrorKind, Read};

use ureq::http::{Response, header};

use super::{ANSWER_BYTES, printable, status_text};
use crate::transport::Verdict;
use crate::transport::gzip::decompress;
use crate::transport::response::{self, read_success};

/// An answer longer than this is none.
const LONGEST_ANSWER: u64 = 4 << 20;

/// What a success says.
#[derive(Debug)]
pub(super) enum Success {
    Read(response::Success),
    TooLong,
}

/// In words.
pub(super) fn too_long() -> String {
    format!("the answer is longer than {} MiB", LONGEST_ANSWER >> 20)
}

/// The collector has the batch, whatever becomes of the rest of its answer; but it must have been a collector.
pub(super) fn judge(answer: &mut Response<ureq::Body>, url: &str) -> Verdict {
    match read(answer) {
        Success::Read(response::Success::Accepted) => Verdict::Accepted,
        Success::Read(response::Success::Partly { rejected, message }) => {
            Verdict::AcceptedPartly { rejected, message }
        }
        Success::Read(response::Success::Odd(what)) => {
            Verdict::AcceptedPartly { rejected: 0, message: format!("post {url}: {what}") }
        }
        Success::Read(response::Success::Foreign) => {
            let (status, kind) = (status_text(answer.status()), printable(&content_type(answer)));
            let reason = format!(
                "post {url}: {status}: the server answers, but not as a collector would: with {kind}; are host, port and path right?"
            );
            Verdict::Refused { reason }
        }
        Success::TooLong => Verdict::Refused { reason: format!("post {url}: {}", too_long()) },
    }
}

/// Reads an answer to its end, so that the connection can be used again, but keeps little of it.
pub(super) fn read(answer: &mut Response<ureq::Body>) -> Success {
    let content_type = content_type(answer);
    let is_packed = is_packed(answer);
    let mut reader = answer.body_mut().as_reader();
    let mut body = Vec::new();
    let mut is_whole = (&mut reader).take(ANSWER_BYTES).read_to_end(&mut body).is_ok();
    let mut skipped = body.len() as u64;
    let mut scratch = [0; 4096];
    while is_whole {
        match reader.read(&mut scratch) {
            Ok(0) => break,
            Ok(count) => skipped += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => is_whole = false,
        }
        if skipped > LONGEST_ANSWER {
            return Success::TooLong;
        }
    }
    Success::Read(read_success(&content_type, &unpacked(body, is_packed), is_whole))
}

/// Whether the server compressed its answer, although that was not asked for.
pub(super) fn is_packed(answer: &Response<ureq::Body>) -> bool {
    let encoding = answer.headers().get(header::CONTENT_ENCODING);
    encoding.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// A body as the server meant it. One that cannot be unpacked, or holds more than is kept of an answer, stays as it is.
pub(super) fn unpacked(body: Vec<u8>, is_packed: bool) -> Vec<u8> {
    let unpacked = is_packed.then(|| decompress(&body, ANSWER_BYTES as usize).ok()).flatten();
    unpacked.unwrap_or(body)
}

/// Empty if there is none.
pub(super) fn content_type(answer: &Response<ureq::Body>) -> String {
    let value = answer.headers().get(header::CONTENT_TYPE);
    // one that is no text is a type all the same
    value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}
