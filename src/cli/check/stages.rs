//! How far did a probe of an endpoint get? Stage by stage, with the time of each.

use std::time::Duration;

use standpipe::Exporter;
use standpipe::config::{ExporterSummary, SummaryValue};
use standpipe::probe::{self, StageKind};

use crate::cli::describe;
use crate::cli::style::{Ink, Style};

/// Behind the mark; the longest of the usual names is `settings`.
const NAME_WIDTH: usize = 8;
const TIME_WIDTH: usize = 8;
/// A user in front of a terminal does not wait longer.
const LONGEST: Duration = Duration::from_secs(10);

/// One endpoint that was probed. Apart from the library's own types, so that tests can make one up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProbedEndpoint {
    /// Without secrets.
    pub(super) endpoint: String,
    /// Those that were gone through, in their order; nothing follows a failure.
    pub(super) stages: Vec<Stage>,
}

/// One step on the way to an answer, such as `connect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) took: Duration,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With details of it.
    Passed(String),
    /// Neither good nor bad, such as what could not be tried.
    Noted(String),
    Failed {
        what: String,
        advice: String,
    },
}

impl ProbedEndpoint {
    pub(super) fn has_failed(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage.outcome, Outcome::Failed { .. }))
    }

    /// Whether some of what is sent there would arrive.
    pub(super) fn takes_something(&self) -> bool {
        let is_taken = |stage: &Stage| !matches!(stage.outcome, Outcome::Failed { .. });
        self.stages.iter().any(|stage| stage.name == StageKind::Export.name() && is_taken(stage))
    }

    /// What went wrong, in one line, if something did.
    pub(super) fn failure(&self, exporter: &Exporter) -> Option<String> {
        let name = exporter.name();
        self.stages.iter().find_map(|stage| match &stage.outcome {
            Outcome::Failed { what, advice } => {
                let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
                Some(format!("exporter {name:?}: {}: {}: {what}{advice}", self.endpoint, stage.name))
            }
            Outcome::Passed(_) | Outcome::Noted(_) => None,
        })
    }

    /// The endpoint and whose it is, a line for each stage, and an empty one.
    pub(super) fn draw(&self, exporter: &Exporter, style: &Style) -> Vec<String> {
        let mut title = style.line();
        title.put(Ink::FAINT, "probed ").put(Ink::PLAIN.bold(), &self.endpoint);
        title.put(Ink::FAINT, " for ").put(Ink::PLAIN, exporter.name());
        let mut lines = vec![title.finish()];
        lines.extend(self.stages.iter().flat_map(|stage| stage.draw(style)));
        lines.push(String::new());
        lines
    }
}

impl Stage {
    fn draw(&self, style: &Style) -> Vec<String> {
        let (ink, mark, detail, advice) = match &self.outcome {
            Outcome::Passed(detail) => (Ink::GOOD.bold(), style.glyphs.check, detail, None),
            Outcome::Noted(detail) => (Ink::FAINT.bold(), "-", detail, None),
            Outcome::Failed { what, advice } => (Ink::BAD.bold(), style.glyphs.cross, what, Some(advice)),
        };
        // the marks differ in width, what follows them does not
        let name_at = 2 + style.width_of(style.glyphs.check).max(style.width_of(style.glyphs.cross)) + 1;
        let detail_at = name_at + NAME_WIDTH + TIME_WIDTH + 2;
        let took = u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX);
        let mut line = style.line();
        line.space(2).put(ink, mark).pad_to(name_at).put(Ink::PLAIN, &self.name);
        if !matches!(self.outcome, Outcome::Noted(_)) {
            line.put_right(Ink::FAINT, &describe::duration(took, style), detail_at - 2);
        }
        line.pad_to(detail_at).put(Ink::PLAIN, detail);
        let mut lines = vec![line.finish()];
        if let Some(advice) = advice.filter(|advice| !advice.is_empty()) {
            let mut line = style.line();
            line.pad_to(name_at).put(Ink::FAINT, "=").space(1).put(Ink::PLAIN, advice);
            lines.push(line.finish());
        }
        lines
    }
}

/// Probes every endpoint of the exporter, for no longer than an attempt of it may take.
pub(super) fn probe(exporter: &Exporter, summary: &ExporterSummary) -> Vec<ProbedEndpoint> {
    let budget = match summary.setting("timeout_ms") {
        SummaryValue::Number(timeout) => LONGEST.min(Duration::from_millis(*timeout)),
        _ => LONGEST,
    };
    probe::probe(exporter, budget).endpoints.into_iter().map(ProbedEndpoint::from).collect()
}

impl From<probe::EndpointReport> for ProbedEndpoint {
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

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    fn stage(name: &str, micros: u64, outcome: Outcome) -> Stage {
        Stage { name: name.to_owned(), took: Duration::from_micros(micros), outcome }
    }

    fn probed(last: Stage) -> ProbedEndpoint {
        let resolve = stage("resolve", 1_500, Outcome::Passed("127.0.0.1:4318".to_owned()));
        ProbedEndpoint { endpoint: "http://localhost:4318/v1/traces".to_owned(), stages: vec![resolve, last] }
    }

    fn refused() -> ProbedEndpoint {
        let what = "connection refused".to_owned();
        let advice = "is a collector running? try: standpipe receive".to_owned();
        probed(stage("connect", 40, Outcome::Failed { what, advice }))
    }

    #[test]
    fn a_failure_is_drawn_with_its_stage_and_its_advice() {
        let expected = [
            "probed http://localhost:4318/v1/traces for otlp",
            "  ✓ resolve  1.50 ms  127.0.0.1:4318",
            "  ✗ connect  40.0 µs  connection refused",
            "    = is a collector running? try: standpipe receive",
            "",
        ];
        assert_eq!(refused().draw(&Exporter::http("localhost"), &plain_style(80)), expected);
    }

    #[test]
    fn a_note_is_neither_good_nor_bad() {
        let probed = probed(stage("export", 0, Outcome::Noted("this version cannot try it".to_owned())));
        let exporter = Exporter::http("localhost");
        assert!(!probed.has_failed());
        assert_eq!(probed.failure(&exporter), None);
        assert_eq!(
            probed.draw(&exporter, &plain_style(80))[2],
            "  - export            this version cannot try it"
        );
    }

    #[test]
    fn a_failure_is_told_to_programs_in_one_line() {
        let failure = refused().failure(&Exporter::http("localhost").named("shop"));
        assert!(refused().has_failed());
        assert_eq!(
            failure.as_deref(),
            Some(
                "exporter \"shop\": http://localhost:4318/v1/traces: connect: connection refused; \
                 is a collector running? try: standpipe receive"
            )
        );
    }
}
