//! An endpoint of OTLP over HTTP: one empty export, and what became of it.

use super::answers::{self, Asked};
use super::speech::{self, Speech};
use super::stages::Stages;
use super::way::Way;
use super::{Endpoint, StageKind, http2, words};
use crate::config::Compression;
use crate::transport::{End, Failure, Timed, Trial};

/// Goes through all stages.
pub(super) fn ask(way: &Way<'_>, endpoint: &Endpoint, stages: &mut Stages) {
    let trial = way.plan.try_export(endpoint.signal, way.deadline);
    if !way.enter(&trial, stages) {
        return;
    }
    match &trial.end {
        End::Answered(reply) => {
            let names: Vec<&str> = way.settings.headers.iter().map(|(name, _)| name.as_str()).collect();
            let asked = Asked {
                path: &way.place.shown_path,
                signals: &endpoint.signals,
                headers: &names,
                is_compressed: way.settings.compression == Compression::Gzip,
            };
            stages.push(StageKind::Export, trial.ended, answers::judge(reply, &asked));
        }
        End::Failed(failure) => {
            let words = words::unanswered(failure, speech(way, &trial, failure), way.place.is_tls);
            stages.fail(StageKind::Export, trial.ended, words);
        }
        // only where no export was wanted
        End::Connected => {}
    }
}

/// What the peer speaks. One that hangs up on a question is asked in other languages.
fn speech(way: &Way<'_>, trial: &Trial, failure: &Failure) -> Speech {
    let speech = speech::of(&trial.steps.first_bytes);
    let hung_up = speech == Speech::Nothing && *failure == Failure::Closed;
    let Some(peer) = way.server(trial).filter(|_| hung_up && !way.place.is_tls) else {
        return speech;
    };
    let greeted = Timed::connect(peer, way.deadline).and_then(|mut stream| http2::greet(&mut stream));
    if greeted.is_ok_and(|answer| speech::of(&answer) == Speech::Http2) {
        return Speech::Http2;
    }
    let shows_certificate = way.look(trial, None).is_some_and(|look| look.certificate.is_some());
    if shows_certificate { Speech::Tls } else { Speech::Nothing }
}
