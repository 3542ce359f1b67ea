//! Asks the collectors.

use std::time::Duration;

use standpipe::{Exporter, ExporterSummary, probe};

use super::stages::{Asked, Outcome, Stage};

/// Longer than this nobody waits in front of a terminal.
const LONGEST: Duration = Duration::from_secs(10);

/// Asks every endpoint of the exporter, for no longer than an attempt of it may take.
pub(super) fn ask(exporter: &Exporter, summary: &ExporterSummary) -> Vec<Asked> {
    let budget = Duration::from_millis(summary.timeout_ms).min(LONGEST);
    probe::probe(exporter, budget).endpoints.into_iter().map(Asked::from).collect()
}

impl From<probe::EndpointReport> for Asked {
    fn from(report: probe::EndpointReport) -> Self {
        Self { endpoint: report.url, stages: report.stages.into_iter().map(Stage::from).collect() }
    }
}

impl From<probe::Stage> for Stage {
    fn from(stage: probe::Stage) -> Self {
        let outcome = match stage.outcome {
            probe::Outcome::Passed { detail } => Outcome::Passed(detail),
            probe::Outcome::Failed { what, advice } => Outcome::Failed { what, advice },
            probe::Outcome::Noted { detail } => Outcome::Noted(detail),
            // there is none yet that this command does not know
            _ => Outcome::Noted(String::new()),
        };
        Self { name: stage.kind.name().to_owned(), took: stage.took, outcome }
    }
}
