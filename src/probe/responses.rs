//! Interprets a collector's responses to empty exports, over HTTP and gRPC. All functions are pure.

#[cfg(test)]
mod tests;

use super::Outcome;
use super::advice::{self, Problem};
use super::endpoint::path_mistake;
use crate::record::Signal;
use crate::transport::{CallResponse, Oddity, ProbeResponse, TOO_LONG};

/// gRPC status of a successful call.
pub(super) const OK: u32 = 0;
const TRY_LATER: &str = "the server refuses requests for now: try again later";
const SERVER_FAILED: &str = "the server failed to process the request: check its log";

/// The empty exports that were sent to an endpoint.
pub(super) struct Sent<'a> {
    /// Displayable path of the URL.
    pub(super) path: &'a str,
    pub(super) signals: &'a [Signal],
    /// Names of the headers that the user set.
    pub(super) headers: &'a [&'a str],
    pub(super) is_compressed: bool,
}

/// Returns the outcome of the export stage over HTTP.
pub(super) fn judge(reply: &ProbeResponse, sent: &Sent<'_>) -> Outcome {
    match reply.status {
        200..300 => success(reply, sent),
        300..400 => failed(redirected(reply)),
        _ => failed(refused(reply, sent)),
    }
}

fn failed(problem: Problem) -> Outcome {
    Outcome::Failed { what: problem.what, advice: problem.advice }
}

/// Judges a response with a success status. The stage passes only if an exporter would count the records as delivered.
fn success(reply: &ProbeResponse, sent: &Sent<'_>) -> Outcome {
    let status = &reply.status_text;
    let usual = || format!("are host, port and path right? the usual path is {}", usual(sent));
    let detail = match &reply.body {
        Err(Oddity::Foreign) => {
            let kind = &reply.content_type;
            let what = format!("{status}: the answer is not from a collector: content type {kind}");
            return failed(Problem::new(what, usual()));
        }
        Err(Oddity::TooLong) => return failed(Problem::new(format!("{status}: {TOO_LONG}"), usual())),
        Err(Oddity::Odd(what)) => return Outcome::Noted { detail: format!("{status}, but {what}") },
        Ok(message) if message.is_empty() => status.clone(),
        Ok(message) => format!("{status}, and the collector says: {message}"),
    };
    // Some servers accept an empty request even on a path where they would refuse records.
    if let Some(mistake) = path_mistake(sent.path, sent.signals) {
        return Outcome::Noted { detail: format!("{status}, but {}: {}", mistake.what, mistake.advice) };
    }
    Outcome::Passed { detail }
}

fn redirected(reply: &ProbeResponse) -> Problem {
    let status = &reply.status_text;
    let advice = "redirects are not followed: set the endpoint to the final URL";
    let to = reply.location.as_ref().map(|location| format!(" to {location}")).unwrap_or_default();
    Problem::new(format!("{status}{to}"), advice)
}

fn refused(reply: &ProbeResponse, sent: &Sent<'_>) -> Problem {
    if reply.status == 400 && wants_tls(reply) {
        return advice::speaks_tls();
    }
    // Only these statuses can come from a wrong path.
    let is_lost = matches!(reply.status, 400 | 404 | 405 | 501);
    if let Some(mistake) = path_mistake(sent.path, sent.signals).filter(|_| is_lost) {
        return Problem::new(format!("{}: {}", reply.status_text, mistake.what), mistake.advice);
    }
    let path = if sent.path.is_empty() { "/" } else { sent.path };
    let (usual, status) = (usual(sent), &reply.status_text);
    let advice = match reply.status {
        404 | 501 => {
            let what = format!("{status}: no telemetry is accepted at {path}");
            let is_usual = "is it a collector, and does it accept this signal at this path?".to_owned();
            let advice = format!("is the path right? the usual path is {usual}");
            return Problem::new(what, if sent.path == usual { is_usual } else { advice });
        }
        405 => {
            let what = format!("{status}: POST is not allowed at {path}");
            let advice = format!("is it a collector? is the path right? the usual path is {usual}");
            return Problem::new(what, if sent.path == usual { "is it a collector?" } else { &advice });
        }
        401 | 403 | 407 => &credentials(sent.headers),
        413 => "even an empty request is too large: check the server's limits",
        415 if sent.is_compressed => {
            "does the server accept gzip, and OTLP as protobuf? try compression = \"none\""
        }
        415 => "does the server accept OTLP as protobuf, application/x-protobuf?",
        429 => TRY_LATER,
        505 => {
            "is it a gRPC port? write the collector's HTTP port, usually 4318, or choose grpc as the transport"
        }
        502 | 504 => "a gateway answers, but the collector behind it does not",
        500..600 => SERVER_FAILED,
        _ => "is it a collector?",
    };
    Problem::new(message_of(reply), advice)
}

/// Returns the status and the message in the body. HTML pages are not quoted.
fn message_of(reply: &ProbeResponse) -> String {
    match &reply.body {
        Ok(text) if !text.is_empty() && !reply.content_type.contains("html") => {
            format!("{}: {text}", reply.status_text)
        }
        _ => reply.status_text.clone(),
    }
}

/// Returns whether the response is the message with which common servers answer plain HTTP at a TLS port.
fn wants_tls(reply: &ProbeResponse) -> bool {
    let Ok(text) = &reply.body else { return false };
    let text = text.to_ascii_lowercase();
    ["https server", "https port", "ssl-enabled server port", "requires tls"]
        .iter()
        .any(|phrase| text.contains(phrase))
}

/// Returns the advice for rejected credentials. `headers` are those that the user set.
pub(super) fn credentials(headers: &[&str]) -> String {
    if headers.iter().any(|name| name.eq_ignore_ascii_case("authorization")) {
        return "an authorization header is sent: is its value right, with a scheme such as Bearer, and not expired?".to_owned();
    }
    match headers {
        [] => "no authorization header is sent: set headers".to_owned(),
        names => {
            let names = names.join(", ").to_ascii_lowercase();
            format!("no authorization header is sent, only {names}: is that what the server wants?")
        }
    }
}

fn usual(sent: &Sent<'_>) -> &'static str {
    sent.signals.first().copied().unwrap_or(Signal::Traces).path()
}

/// Returns the outcome of the export stage over gRPC, which passes only if every signal is accepted.
pub(super) fn judge_calls(replies: &[(Signal, CallResponse)], sent: &Sent<'_>) -> Outcome {
    let is_refused = |(_, reply): &&(Signal, CallResponse)| reply.code != OK;
    let Some((_, refusal)) = replies.iter().find(is_refused) else { return taken(replies) };
    failed(match signals_with(refusal.code, replies) {
        // All signals have this status, so none has to be named.
        None => refused_call(refusal, sent),
        Some(signals) if refusal.name == "UNIMPLEMENTED" => Problem::new(
            format!("{}: the server does not accept {signals}", refusal.name),
            format!("give the collector a pipeline for {signals}, or do not send them there"),
        ),
        Some(signals) => {
            let problem = refused_call(refusal, sent);
            Problem::new(format!("{signals}: {}", problem.what), problem.advice)
        }
    })
}

/// Returns the signals with this status, or `None` if no signal or every signal has this status.
pub(super) fn signals_with(code: u32, replies: &[(Signal, CallResponse)]) -> Option<String> {
    let those = replies.iter().filter(|(_, reply)| reply.code == code);
    let those: Vec<&str> = those.map(|(signal, _)| signal.name()).collect();
    (!those.is_empty() && those.len() < replies.len()).then(|| those.join(" and "))
}

fn taken(replies: &[(Signal, CallResponse)]) -> Outcome {
    // The exporter counts an odd answer with the status OK as a success, too.
    if let Some(odd) = replies.iter().find_map(|(_, reply)| reply.odd) {
        return Outcome::Noted { detail: format!("OK, but {odd}") };
    }
    let says = replies.iter().find(|(_, reply)| !reply.message.is_empty());
    let says = says.map(|(_, reply)| format!(", and the collector says: {}", reply.message));
    Outcome::Passed { detail: format!("OK{}", says.unwrap_or_default()) }
}

fn refused_call(reply: &CallResponse, sent: &Sent<'_>) -> Problem {
    const UNCOMPRESSED: &str = "does the server accept gzip? try compression = \"none\"";
    let advice = match reply.name.as_str() {
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => &credentials(sent.headers),
        "UNIMPLEMENTED" | "NOT_FOUND" if reply.message.to_ascii_lowercase().contains("compress") => {
            UNCOMPRESSED
        }
        "UNIMPLEMENTED" | "NOT_FOUND" => advice::GRPC_PORT,
        "RESOURCE_EXHAUSTED" => TRY_LATER,
        "UNAVAILABLE" => "the server answers, but is not ready, or cannot reach the collector behind it",
        "DEADLINE_EXCEEDED" => "is the collector overloaded?",
        "INTERNAL" | "INVALID_ARGUMENT" if sent.is_compressed => UNCOMPRESSED,
        _ => SERVER_FAILED,
    };
    let colon = if reply.message.is_empty() { "" } else { ": " };
    Problem::new(format!("{}{colon}{}", reply.name, reply.message), advice)
}
