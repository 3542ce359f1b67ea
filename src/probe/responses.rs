//! Pure: what a collector's responses to empty exports mean, over HTTP and over gRPC.

#[cfg(test)]
mod tests;

use super::Outcome;
use super::advice::{self, Problem};
use super::endpoint::path_mistake;
use crate::config::Compression;
use crate::record::Signal;
use crate::transport::{CallResponse, Oddity, ProbeResponse, TOO_LONG};

const OK: u32 = 0;
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;
const UNAUTHENTICATED: u32 = 16;

/// The empty export over HTTP.
pub(super) struct SentExport<'a> {
    /// As it may be shown.
    pub(super) path: &'a str,
    pub(super) signals: &'a [Signal],
    /// The names of the headers that the user set.
    pub(super) headers: &'a [&'a str],
    pub(super) is_compressed: bool,
}

/// The last stage's outcome.
pub(super) fn judge(reply: &ProbeResponse, sent: &SentExport<'_>) -> Outcome {
    match reply.status {
        200..300 => success(reply, sent),
        300..400 => failed(redirected(reply)),
        _ => failed(refused(reply, sent)),
    }
}

fn failed(problem: Problem) -> Outcome {
    Outcome::Failed { what: problem.what, advice: problem.advice }
}

/// An exporter judges the same, so that a probe is content with what counts as delivered.
fn success(reply: &ProbeResponse, sent: &SentExport<'_>) -> Outcome {
    let status = &reply.status_text;
    let usual = || format!("are host, port and path right? usual is {}", usual(sent));
    let detail = match &reply.body {
        Err(Oddity::Foreign) => {
            let kind = &reply.content_type;
            let what = format!("{status}: the server answers, but not as a collector would: with {kind}");
            return failed(Problem::new(what, usual()));
        }
        Err(Oddity::TooLong) => return failed(Problem::new(format!("{status}: {TOO_LONG}"), usual())),
        Err(Oddity::Odd(what)) => return Outcome::Noted { detail: format!("{status}, but {what}") },
        Ok(message) if message.is_empty() => status.clone(),
        Ok(message) => format!("{status}, and the collector says: {message}"),
    };
    // an empty request is welcome on any path, but records would not be
    if let Some(mistake) = path_mistake(sent.path, sent.signals) {
        return Outcome::Noted { detail: format!("{status}, but {}: {}", mistake.what, mistake.advice) };
    }
    Outcome::Passed { detail }
}

fn redirected(reply: &ProbeResponse) -> Problem {
    let status = &reply.status_text;
    let advice = "redirects are not followed: set the endpoint to where it should go";
    match &reply.location {
        Some(location) => Problem::new(format!("{status} to {location}"), advice),
        None => Problem::new(status.clone(), advice),
    }
}

fn refused(reply: &ProbeResponse, sent: &SentExport<'_>) -> Problem {
    if reply.status == 400 && wants_tls(reply) {
        return advice::speaks_tls();
    }
    let is_lost = matches!(reply.status, 400 | 404 | 405 | 501);
    if let Some(mistake) = path_mistake(sent.path, sent.signals).filter(|_| is_lost) {
        return Problem::new(format!("{}: {}", reply.status_text, mistake.what), mistake.advice);
    }
    let path = if sent.path.is_empty() { "/" } else { sent.path };
    let usual = usual(sent);
    match reply.status {
        401 | 403 | 407 => Problem::new(message_of(reply), credentials(sent.headers)),
        404 | 501 => Problem::new(
            format!("{}: nothing is taken at {path}", reply.status_text),
            match sent.path == usual {
                true => "is it a collector, and does it take this signal at this path?".to_owned(),
                false => format!("is the path right? usual is {usual}"),
            },
        ),
        405 => Problem::new(
            format!("{}: nothing can be posted to {path}", reply.status_text),
            match sent.path == usual {
                true => "is it a collector?".to_owned(),
                false => format!("is it a collector? is the path right? usual is {usual}"),
            },
        ),
        413 => Problem::new(
            message_of(reply),
            "not even an empty request is taken: look into the server's limits",
        ),
        415 if sent.is_compressed => Problem::new(
            message_of(reply),
            "does the server take gzip, and OTLP as protobuf? try compression = \"none\"",
        ),
        415 => {
            Problem::new(message_of(reply), "does the server take OTLP as protobuf, application/x-protobuf?")
        }
        429 => Problem::new(message_of(reply), "the server is there, but asks for patience: try again later"),
        505 => Problem::new(
            message_of(reply),
            "is it a gRPC port? write the collector's HTTP port, usually 4318, or choose grpc as the transport",
        ),
        502 | 504 => Problem::new(message_of(reply), "a gateway is there, but not the collector behind it"),
        500..600 => Problem::new(message_of(reply), "the server is there, but in trouble: look into its log"),
        _ => Problem::new(message_of(reply), "is it a collector?"),
    }
}

/// The status, and what the body adds; a page in HTML adds nothing.
fn message_of(reply: &ProbeResponse) -> String {
    match &reply.body {
        Ok(text) if !text.is_empty() && !reply.content_type.contains("html") => {
            format!("{}: {text}", reply.status_text)
        }
        _ => reply.status_text.clone(),
    }
}

/// The usual servers' messages for plain HTTP at a TLS port.
fn wants_tls(reply: &ProbeResponse) -> bool {
    let Ok(text) = &reply.body else { return false };
    let text = text.to_ascii_lowercase();
    ["https server", "https port", "ssl-enabled server port", "requires tls"]
        .iter()
        .any(|phrase| text.contains(phrase))
}

/// Advice if the server rejects the credentials; the headers are those that the user set.
pub(super) fn credentials(headers: &[&str]) -> String {
    if headers.iter().any(|name| name.eq_ignore_ascii_case("authorization")) {
        return "an authorization header is sent: is its value right, with a word like Bearer in front, and not out of date?".to_owned();
    }
    match headers {
        [] => "no authorization header is sent: set headers".to_owned(),
        names => {
            let names = names.join(", ").to_ascii_lowercase();
            format!("no authorization header is sent, only {names}: is that what the server wants?")
        }
    }
}

fn usual(sent: &SentExport<'_>) -> &'static str {
    sent.signals.first().copied().unwrap_or(Signal::Traces).path()
}

/// The empty calls over gRPC.
pub(super) struct SentCalls<'a> {
    /// The names of the headers that the user set.
    pub(super) headers: &'a [&'a str],
    pub(super) compression: Compression,
}

/// The last stage's outcome: good only if every signal is taken.
pub(super) fn judge_calls(replies: &[(Signal, CallResponse)], sent: &SentCalls<'_>) -> Outcome {
    let is_refused = |(_, reply): &&(Signal, CallResponse)| reply.code != OK;
    let Some((_, refusal)) = replies.iter().find(is_refused) else { return taken(replies) };
    let of_it: Vec<&str> = replies
        .iter()
        .filter(|(_, reply)| reply.code == refusal.code)
        .map(|(signal, _)| signal.name())
        .collect();
    let problem = match of_it.len() == replies.len() {
        true => refused_call(refusal, sent),
        false => refused_calls(&of_it.join(" and "), refusal, sent),
    };
    Outcome::Failed { what: problem.what, advice: problem.advice }
}

/// The signals that are taken, if others are not.
pub(super) fn taken_alone(replies: &[(Signal, CallResponse)]) -> Option<String> {
    let taken = replies.iter().filter(|(_, reply)| reply.code == OK);
    let taken: Vec<&str> = taken.map(|(signal, _)| signal.name()).collect();
    (!taken.is_empty() && taken.len() < replies.len()).then(|| taken.join(" and "))
}

fn taken(replies: &[(Signal, CallResponse)]) -> Outcome {
    // the exporter takes that for a success, too
    if let Some(odd) = replies.iter().find_map(|(_, reply)| reply.odd) {
        return Outcome::Noted { detail: format!("OK, but {odd}") };
    }
    match replies.iter().find(|(_, reply)| !reply.message.is_empty()) {
        Some((_, reply)) => {
            Outcome::Passed { detail: format!("OK, and the collector says: {}", reply.message) }
        }
        None => Outcome::Passed { detail: "OK".to_owned() },
    }
}

/// Some signals are taken, and these are not.
fn refused_calls(signals: &str, reply: &CallResponse, sent: &SentCalls<'_>) -> Problem {
    if reply.code == UNIMPLEMENTED {
        return Problem::new(
            format!("{}: the server takes no {signals}", reply.name),
            format!("give the collector a pipeline for {signals}, or do not send them there"),
        );
    }
    let problem = refused_call(reply, sent);
    Problem::new(format!("{signals}: {}", problem.what), problem.advice)
}

fn refused_call(reply: &CallResponse, sent: &SentCalls<'_>) -> Problem {
    let advice = match reply.code {
        UNAUTHENTICATED | PERMISSION_DENIED => credentials(sent.headers),
        UNIMPLEMENTED | NOT_FOUND if mentions(reply, "compress") => uncompressed(),
        UNIMPLEMENTED | NOT_FOUND => "is it the gRPC port of a collector, usually 4317?".to_owned(),
        RESOURCE_EXHAUSTED => "the server is there, but asks for patience: try again later".to_owned(),
        UNAVAILABLE => "the server is there, but not ready, or not the collector behind it".to_owned(),
        DEADLINE_EXCEEDED => "is the collector overloaded?".to_owned(),
        INTERNAL | INVALID_ARGUMENT if sent.compression == Compression::Gzip => uncompressed(),
        _ => "the server is there, but in trouble: look into its log".to_owned(),
    };
    Problem::new(message_of_call(reply), advice)
}

fn uncompressed() -> String {
    "does the server take gzip? try compression = \"none\"".to_owned()
}

fn mentions(reply: &CallResponse, word: &str) -> bool {
    reply.message.to_ascii_lowercase().contains(word)
}

fn message_of_call(reply: &CallResponse) -> String {
    match reply.message.is_empty() {
        true => reply.name.clone(),
        false => format!("{}: {}", reply.name, reply.message),
    }
}
