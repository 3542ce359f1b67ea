//! A report as it grows: each stage lasts from the end of the one before it.

use std::time::Instant;

use super::words::Words;
use super::{Outcome, Stage, StageKind};
use crate::config::escape::{escape_all_but, shows_itself};

/// The stages so far.
pub(super) struct Stages {
    done: Vec<Stage>,
    since: Instant,
}

impl Stages {
    pub(super) fn begin(now: Instant) -> Self {
        Self { done: Vec::new(), since: now }
    }

    pub(super) fn pass(&mut self, kind: StageKind, at: Instant, detail: impl Into<String>) {
        self.push(kind, at, Outcome::Passed { detail: detail.into() });
    }

    pub(super) fn fail(&mut self, kind: StageKind, at: Instant, words: Words) {
        self.push(kind, at, Outcome::Failed { what: words.what, advice: words.advice });
    }

    pub(super) fn push(&mut self, kind: StageKind, at: Instant, outcome: Outcome) {
        let shown = |text: String| escape_all_but(shows_itself, &text).into_owned();
        // peers and proxies have their say in them
        let outcome = match outcome {
            Outcome::Passed { detail } => Outcome::Passed { detail: shown(detail) },
            Outcome::Noted { detail } => Outcome::Noted { detail: shown(detail) },
            Outcome::Failed { what, advice } => Outcome::Failed { what: shown(what), advice: shown(advice) },
        };
        let took = at.saturating_duration_since(self.since);
        self.since = at.max(self.since);
        self.done.push(Stage { kind, took, outcome });
    }

    pub(super) fn finish(self) -> Vec<Stage> {
        self.done
    }
}
