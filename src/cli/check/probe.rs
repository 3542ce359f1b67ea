//! Asks the collectors.

use std::time::Duration;

use standpipe::Exporter;
use standpipe::probe::{self, EndpointReport};

use super::stages::{Asked, Outcome, Stage};

/// A collector that takes longer is of no use to anyone who waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks every endpoint of the exporter.
pub(super) fn ask(exporter: &Exporter) -> Vec<Asked> {
    probe::probe(exporter, PATIENCE).endpoints.into_iter().map(Asked::from).collect()
}

impl From<EndpointReport> for Asked {
    fn from(report: EndpointReport) -> Self {
        Self { endpoint: report.url, stages: report.stages.into_iter().map(Stage::from).collect() }
    }
}

impl From<probe::Stage> for Stage {
    fn from(stage: probe::Stage) -> Self {
        let outcome = match stage.outcome {
            probe::Outcome::Failed { what, advice } => Outcome::Failed { what, advice },
            probe::Outcome::Passed { detail } => Outcome::Passed(detail),
            probe::Outcome::Noted { detail } => Outcome::Untried(detail),
            // an outcome of a later version: shown as it describes itself
            other => Outcome::Untried(format!("{other:?}")),
        };
        Self { name: stage.kind.name().to_owned(), took: stage.took, outcome }
    }
}
