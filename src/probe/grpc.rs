//! An endpoint of OTLP over gRPC: whether HTTP/2 is spoken there, and what becomes of an empty call for each signal.

use std::io::{self, ErrorKind};
use std::time::Instant;

use super::calls::{self, Asked};
use super::speech::{self, Speech};
use super::stages::Stages;
use super::way::Way;
use super::words::{self, Words};
use super::{Endpoint, StageKind, http2};
use crate::record::Signal;
use crate::transport::{CallReply, Conversation, Failure, GrpcPlan, Look, Timed, Trial, tls_fault};

const HTTP2: &[u8] = b"h2";

/// Goes through all stages.
pub(super) fn ask(way: &Way<'_>, plan: &GrpcPlan, endpoint: &Endpoint, stages: &mut Stages) {
    let trial = way.plan.try_connect(endpoint.signal, way.deadline);
    if !way.enter(&trial, stages) {
        return;
    }
    // through a proxy nobody is greeted: the call will find out
    if way.plan.proxy().is_none() {
        match greet(way, &trial) {
            Ok(()) => stages.pass(StageKind::Http2, Instant::now(), "speaks HTTP/2"),
            Err(words) => return stages.fail(StageKind::Http2, Instant::now(), words),
        }
    }
    match call(way, plan, &endpoint.signals) {
        Ok(replies) => {
            let names: Vec<&str> = way.settings.headers.iter().map(|(name, _)| name.as_str()).collect();
            let asked = Asked { headers: &names, compression: way.settings.compression };
            if let Some(signals) = calls::taken_alone(&replies) {
                stages.pass(StageKind::Export, Instant::now(), format!("OK for {signals}"));
            }
            stages.push(StageKind::Export, Instant::now(), calls::judge(&replies, &asked));
        }
        Err(failure) => {
            let words = words::uncalled(&failure, way.place, way.settings.tls.ca.is_some());
            stages.fail(StageKind::Export, Instant::now(), words);
        }
    }
}

/// Asks about each signal: a collector may take one and not another.
fn call(way: &Way<'_>, plan: &GrpcPlan, signals: &[Signal]) -> Result<Vec<(Signal, CallReply)>, Failure> {
    let mut caller = plan.open();
    signals.iter().map(|signal| Ok((*signal, caller.try_export(*signal, way.deadline)?))).collect()
}

/// Says hello in HTTP/2.
fn greet(way: &Way<'_>, trial: &Trial) -> Result<(), Words> {
    let Some(peer) = way.server(trial) else { return Err(words::no_grpc(&Failure::Closed, Speech::Nothing)) };
    let answer = match way.place.is_tls {
        false => Timed::connect(peer, way.deadline).and_then(|mut stream| http2::greet(&mut stream)),
        true => {
            let refused = || Look::none(ErrorKind::NotConnected.into());
            let look = way.look(trial, Some(HTTP2)).unwrap_or_else(refused);
            http2::greet(&mut *agreed(look, way)?)
        }
    };
    let (speech, failure) = match answer {
        Ok(bytes) => (speech::of(&bytes), Failure::Closed),
        Err(error) => (Speech::Nothing, failure(&error)),
    };
    match (speech, &failure) {
        (Speech::Http2, _) => Ok(()),
        (_, Failure::Tls(_)) => {
            Err(words::unsecured(&failure, way.place, way.settings.tls.ca.is_some(), None))
        }
        (Speech::Nothing, Failure::Closed) if shows_certificate(way, trial) => Err(words::speaks_tls()),
        _ => Err(words::no_grpc(&failure, speech)),
    }
}

/// A connection on which both have agreed on HTTP/2.
fn agreed(look: Look, way: &Way<'_>) -> Result<Box<dyn Conversation>, Words> {
    match look.stream {
        Ok(stream) if look.protocol.as_deref() == Some(HTTP2) => Ok(stream),
        Ok(_) => Err(words::no_http2()),
        Err(_) if look.misses_client => Err(words::no_client_certificate()),
        Err(error) => match failure(&error) {
            Failure::TimedOut => Err(words::no_grpc(&Failure::TimedOut, Speech::Nothing)),
            failure => Err(words::unsecured(&failure, way.place, way.settings.tls.ca.is_some(), None)),
        },
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
