//! Pure: what stands in the body of an HTTP answer whose status is a success. Whatever is no collector answers with one,
//! too: a page to log in on, a load balancer's greeting. An export and a probe judge by this alone.

#[cfg(test)]
mod tests;

use super::json::{self, Fault};
use super::{Answer, partly, read_partial_success};

/// What a success says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Success {
    Accepted,
    /// `rejected` may be 0, then the message is a warning.
    Partly {
        rejected: u64,
        message: String,
    },
    /// The collector has the batch, but something is wrong with its answer.
    Odd(&'static str),
    /// No collector answered.
    Foreign,
}

/// Reads the body of a success, of any signal. If it is not whole, its end did not come.
pub(crate) fn read_success(content_type: &str, body: &[u8], is_whole: bool) -> Success {
    match Kind::of(content_type) {
        Kind::Protobuf if is_whole => of_answer(read_partial_success(body)),
        Kind::Protobuf => Success::Odd(CUT_SHORT),
        _ if is_whole && body.is_empty() => Success::Accepted,
        Kind::Json => match json::read(body) {
            Ok(partial) if is_whole => of_answer(partly(partial.rejected, &partial.error_message)),
            Ok(_) | Err(Fault::CutShort) => Success::Odd(CUT_SHORT),
            Err(Fault::Foreign) => Success::Foreign,
        },
        // servers that do not say what they send let their library guess it; text can pass for unknown fields only
        Kind::Other if is_whole && body.starts_with(PARTIAL_SUCCESS) => match read_partial_success(body) {
            Answer::Unreadable => Success::Foreign,
            answer => of_answer(answer),
        },
        Kind::Other => Success::Foreign,
    }
}

const CUT_SHORT: &str = "the answer was cut short";
const UNREADABLE: &str = "the answer cannot be read";
/// What an answer in protobuf begins with if it is not empty: field 1, a message.
const PARTIAL_SUCCESS: &[u8] = b"\x0a";

fn of_answer(answer: Answer) -> Success {
    match answer {
        Answer::Accepted => Success::Accepted,
        Answer::Partly { rejected, message } => Success::Partly { rejected, message },
        Answer::Unreadable => Success::Odd(UNREADABLE),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Also where the type is missing: protobuf was asked for.
    Protobuf,
    Json,
    Other,
}

impl Kind {
    fn of(content_type: &str) -> Self {
        let is = |name: &str| is_media_type(content_type, name);
        match () {
            () if is("") || is("application/x-protobuf") || is("application/protobuf") => Self::Protobuf,
            () if is("application/json") => Self::Json,
            () => Self::Other,
        }
    }
}

/// Whether a content type is of this name, whatever its letters' case and its parameters.
pub(crate) fn is_media_type(content_type: &str, name: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(name)
}
