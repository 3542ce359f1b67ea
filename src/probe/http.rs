//! An endpoint of OTLP over HTTP: one empty export, and what became of it.

use std::time::Instant;

use super::answers::{self, Asked};
use super::place::Place;
use super::speech::{self, Speech};
use super::stages::Stages;
use super::way::Way;
use super::words::{self, Words};
use super::{Stage, StageKind, http2};
use crate::config::{Compression, HttpSettings};
use crate::record::Signal;
use crate::transport::{End, Failure, HttpPlan, Timed, Trial};

const WHEN_REFUSED: &str = "is a collector running? try: standpipe receive";

/// Goes through all stages. The signals share the URL.
pub(super) fn ask(
    settings: &HttpSettings,
    signals: &[Signal],
    place: &Place,
    deadline: Instant,
) -> Vec<Stage> {
    let mut stages = Stages::begin(Instant::now());
    let (plan, signal) = match (HttpPlan::new(settings), signals.first()) {
        (Ok(plan), Some(signal)) => (plan, *signal),
        (Err(what), _) => {
            stages.fail(StageKind::Settings, Instant::now(), Words::new(what, ""));
            return stages.finish();
        }
        (_, None) => return stages.finish(),
    };
    let trial = plan.try_export(signal, deadline);
    let proxy = plan.proxy();
    let way = Way { settings, place, proxy: proxy.as_deref(), when_refused: WHEN_REFUSED, deadline };
    if !way.enter(&trial, &mut stages) {
        return stages.finish();
    }
    match &trial.end {
        End::Answered(reply) => {
            let names: Vec<&str> = settings.headers.iter().map(|(name, _)| name.as_str()).collect();
            let is_compressed = settings.compression == Compression::Gzip;
            let asked = Asked { path: &place.shown_path, signals, headers: &names, is_compressed };
            stages.push(StageKind::Export, trial.ended, answers::judge(reply, &asked));
        }
        End::Failed(failure) => {
            let words = words::unanswered(failure, speech(&way, &trial, failure), place.is_tls);
            stages.fail(StageKind::Export, trial.ended, words);
        }
        End::Connected => {}
    }
    stages.finish()
}

/// What the peer speaks. One that hangs up on a question is asked in other languages.
fn speech(way: &Way<'_>, trial: &Trial, failure: &Failure) -> Speech {
    let speech = speech::of(&trial.steps.first_bytes);
    let hung_up = speech == Speech::Nothing && *failure == Failure::Closed;
    let Some(peer) = trial.steps.peer.filter(|_| hung_up && way.proxy.is_none() && !way.place.is_tls) else {
        return speech;
    };
    let greeted = Timed::connect(peer, way.deadline).and_then(|mut stream| http2::greet(&mut stream));
    if greeted.is_ok_and(|answer| speech::of(&answer) == Speech::Http2) {
        return Speech::Http2;
    }
    let shows_certificate = way.look(trial, None).is_some_and(|look| look.certificate.is_some());
    if shows_certificate { Speech::Tls } else { Speech::Nothing }
}
