//! An endpoint of OTLP over gRPC: whether HTTP/2 is spoken there. An export is not tried: this version cannot.

use std::io::{self, ErrorKind};
use std::time::Instant;

use super::speech::{self, Speech};
use super::stages::Stages;
use super::way::Way;
use super::words::{self, Words};
use super::{Endpoint, StageKind, http2};
use crate::transport::{Conversation, Failure, Look, Timed, Trial, tls_fault};

const HTTP2: &[u8] = b"h2";

/// Goes through all stages but the export.
pub(super) fn ask(way: &Way<'_>, endpoint: &Endpoint, stages: &mut Stages) {
    let trial = way.plan.try_connect(endpoint.signal, way.deadline);
    if !way.enter(&trial, stages) {
        return;
    }
    match greet(way, &trial) {
        Ok(detail) => {
            stages.pass(StageKind::Http2, Instant::now(), detail);
            let detail = "this version cannot send over gRPC yet, so no export was tried";
            stages.note(StageKind::Export, Instant::now(), detail);
        }
        Err(words) => stages.fail(StageKind::Http2, Instant::now(), words),
    }
}

/// Says hello in HTTP/2.
fn greet(way: &Way<'_>, trial: &Trial) -> Result<&'static str, Words> {
    let Some(peer) = way.server(trial) else { return Err(words::no_grpc(&Failure::Closed, Speech::Nothing)) };
    let answer = match way.place.is_tls {
        false => Timed::connect(peer, way.deadline).and_then(|mut stream| http2::greet(&mut stream)),
        true => {
            let refused = || Look::none(ErrorKind::NotConnected.into());
            let look = way.look(trial, Some(HTTP2)).unwrap_or_else(refused);
            match agreed(look)? {
                Some(mut stream) => http2::greet(&mut *stream),
                None => return Ok("HTTP/2, agreed on in the TLS handshake"),
            }
        }
    };
    let (speech, failure) = match answer {
        Ok(bytes) => (speech::of(&bytes), Failure::Closed),
        Err(error) => (Speech::Nothing, failure(&error)),
    };
    match (speech, &failure) {
        (Speech::Http2, _) => Ok("speaks HTTP/2"),
        (_, Failure::Tls(_)) => Err(words::unsecured(&failure, way.place, true, None)),
        (Speech::Nothing, Failure::Closed) if shows_certificate(way, trial) => Err(words::speaks_tls()),
        _ => Err(words::no_grpc(&failure, speech)),
    }
}

/// A connection on which both have agreed on HTTP/2; none if only the user's own roots could have verified it.
fn agreed(look: Look) -> Result<Option<Box<dyn Conversation>>, Words> {
    let chose_http2 = look.protocol.as_deref() == Some(HTTP2);
    match look.stream {
        Ok(stream) if chose_http2 => Ok(Some(stream)),
        Err(_) if chose_http2 => Ok(None),
        Err(error) if failure(&error) == Failure::TimedOut => {
            Err(words::no_grpc(&Failure::TimedOut, Speech::Nothing))
        }
        _ => Err(words::no_http2()),
    }
}

fn shows_certificate(way: &Way<'_>, trial: &Trial) -> bool {
    !way.place.is_tls && way.look(trial, None).is_some_and(|look| look.certificate.is_some())
}

fn failure(error: &io::Error) -> Failure {
    match (tls_fault(error), error.kind()) {
        (Some(fault), _) => Failure::Tls(fault),
        (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => Failure::TimedOut,
        (None, _) => Failure::Closed,
    }
}
