//! Pure: what a collector's answers to empty calls over gRPC mean.

use super::Outcome;
use super::answers::credentials;
use super::words::Words;
use crate::config::Compression;
use crate::record::Signal;
use crate::transport::CallReply;

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

/// What was asked.
pub(super) struct Asked<'a> {
    /// The names of the headers that the user set.
    pub(super) headers: &'a [&'a str],
    pub(super) compression: Compression,
}

/// The last stage's outcome: good only if every signal is taken.
pub(super) fn judge(replies: &[(Signal, CallReply)], asked: &Asked<'_>) -> Outcome {
    let is_refused = |(_, reply): &&(Signal, CallReply)| reply.code != OK;
    let Some((_, refusal)) = replies.iter().find(is_refused) else { return taken(replies) };
    let of_it: Vec<&str> = replies
        .iter()
        .filter(|(_, reply)| reply.code == refusal.code)
        .map(|(signal, _)| signal.name())
        .collect();
    let words = match of_it.len() == replies.len() {
        true => refused(refusal, asked),
        false => refused_only(&of_it.join(" and "), refusal, asked),
    };
    Outcome::Failed { what: words.what, advice: words.advice }
}

/// The signals that are taken, if others are not.
pub(super) fn taken_alone(replies: &[(Signal, CallReply)]) -> Option<String> {
    let taken = replies.iter().filter(|(_, reply)| reply.code == OK);
    let taken: Vec<&str> = taken.map(|(signal, _)| signal.name()).collect();
    (!taken.is_empty() && taken.len() < replies.len()).then(|| taken.join(" and "))
}

fn taken(replies: &[(Signal, CallReply)]) -> Outcome {
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
fn refused_only(signals: &str, reply: &CallReply, asked: &Asked<'_>) -> Words {
    if reply.code == UNIMPLEMENTED {
        return Words::new(
            format!("{}: the server takes no {signals}", reply.name),
            format!("give the collector a pipeline for {signals}, or do not send them there"),
        );
    }
    let words = refused(reply, asked);
    Words::new(format!("{signals}: {}", words.what), words.advice)
}

fn refused(reply: &CallReply, asked: &Asked<'_>) -> Words {
    let advice = match reply.code {
        UNAUTHENTICATED | PERMISSION_DENIED => credentials(asked.headers),
        UNIMPLEMENTED | NOT_FOUND if speaks_of(reply, "compress") => uncompressed(),
        UNIMPLEMENTED | NOT_FOUND => "is it the gRPC port of a collector, usually 4317?".to_owned(),
        RESOURCE_EXHAUSTED => "the server is there, but asks for patience: try again later".to_owned(),
        UNAVAILABLE => "the server is there, but not ready, or not the collector behind it".to_owned(),
        DEADLINE_EXCEEDED => "is the collector overloaded?".to_owned(),
        INTERNAL | INVALID_ARGUMENT if asked.compression == Compression::Gzip => uncompressed(),
        _ => "the server is there, but in trouble: look into its log".to_owned(),
    };
    Words::new(said(reply), advice)
}

fn uncompressed() -> String {
    "does the server take gzip? try compression = \"none\"".to_owned()
}

fn speaks_of(reply: &CallReply, word: &str) -> bool {
    reply.message.to_ascii_lowercase().contains(word)
}

fn said(reply: &CallReply) -> String {
    match reply.message.is_empty() {
        true => reply.name.clone(),
        false => format!("{}: {}", reply.name, reply.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(u32, &str); 5] = [
        (OK, "OK"),
        (INTERNAL, "INTERNAL"),
        (UNIMPLEMENTED, "UNIMPLEMENTED"),
        (UNAVAILABLE, "UNAVAILABLE"),
        (UNAUTHENTICATED, "UNAUTHENTICATED"),
    ];

    fn reply(code: u32, message: &str) -> CallReply {
        let (_, name) = NAMES.iter().find(|(known, _)| *known == code).expect("a known code");
        CallReply { code, name: (*name).to_owned(), message: message.to_owned(), odd: None }
    }

    fn judged(replies: [CallReply; 3], compression: Compression) -> String {
        let replies: Vec<_> = Signal::ALL.into_iter().zip(replies).collect();
        match judge(&replies, &Asked { headers: &[], compression }) {
            Outcome::Passed { detail } => detail,
            Outcome::Failed { what, advice } => format!("{what} | {advice}"),
            Outcome::Noted { detail } => format!("note: {detail}"),
        }
    }

    #[test]
    fn what_is_good_for_all_signals_is_said_once() {
        let ok = || reply(OK, "");
        assert_eq!(judged([ok(), ok(), ok()], Compression::None), "OK");
        assert_eq!(
            judged([ok(), reply(OK, "too old"), ok()], Compression::None),
            "OK, and the collector says: too old"
        );
        let odd = CallReply { odd: Some("the answer has no message"), ..ok() };
        assert_eq!(judged([ok(), ok(), odd], Compression::None), "note: OK, but the answer has no message");
        let no = || reply(UNAUTHENTICATED, "who are you?");
        assert_eq!(
            judged([no(), no(), no()], Compression::None),
            "UNAUTHENTICATED: who are you? | no authorization header is sent: set headers"
        );
        let no = || reply(UNIMPLEMENTED, "");
        assert_eq!(
            judged([no(), no(), no()], Compression::None),
            "UNIMPLEMENTED | is it the gRPC port of a collector, usually 4317?"
        );
    }

    #[test]
    fn a_signal_that_alone_is_not_taken_is_named() {
        let ok = || reply(OK, "");
        let no = || reply(UNIMPLEMENTED, "unknown service");
        assert_eq!(
            judged([ok(), no(), ok()], Compression::None),
            "UNIMPLEMENTED: the server takes no logs | \
             give the collector a pipeline for logs, or do not send them there"
        );
        assert_eq!(
            judged([no(), ok(), no()], Compression::None),
            "UNIMPLEMENTED: the server takes no traces and metrics | \
             give the collector a pipeline for traces and metrics, or do not send them there"
        );
        assert_eq!(
            judged([ok(), ok(), reply(UNAVAILABLE, "full")], Compression::None),
            "metrics: UNAVAILABLE: full | the server is there, but not ready, or not the collector behind it"
        );
    }

    #[test]
    fn what_is_taken_is_named_only_beside_what_is_not() {
        let named = |codes: [u32; 3]| {
            let replies = codes.map(|code| reply(code, ""));
            taken_alone(&Signal::ALL.into_iter().zip(replies).collect::<Vec<_>>())
        };
        assert_eq!(named([OK, UNIMPLEMENTED, OK]).as_deref(), Some("traces and metrics"));
        assert_eq!(named([UNIMPLEMENTED, OK, UNAVAILABLE]).as_deref(), Some("logs"));
        assert_eq!((named([OK; 3]), named([INTERNAL; 3])), (None, None));
    }

    #[test]
    fn a_server_that_cannot_unpack_is_recognized() {
        let none = "does the server take gzip? try compression = \"none\"";
        let no = || reply(UNIMPLEMENTED, "Content is compressed with `gzip` which isn't supported");
        let judgement = judged([no(), no(), no()], Compression::Gzip);
        assert!(judgement.ends_with(none), "{judgement}");
        let no = || reply(INTERNAL, "");
        assert_eq!(judged([no(), no(), no()], Compression::Gzip), format!("INTERNAL | {none}"));
        assert!(judged([no(), no(), no()], Compression::None).ends_with("look into its log"));
    }
}
