//! Results of the probes: the stages of each endpoint, and the last line of `check` with the totals.

use std::time::Duration;

use standpipe::Exporter;
use standpipe::config::{DiagnosticSeverity, ExporterSummary, SummaryValue};
use standpipe::probe::{self, EndpointReport, Outcome, Stage, StageKind};

use super::examine::Examined;
use super::report::shown;
use crate::cli::describe;
use crate::cli::style::{Ink, Style};

/// Width of a stage's name. The longest name is `settings`.
const NAME_WIDTH: usize = 8;
const TIME_WIDTH: usize = 8;
/// Maximum time for a probe, because a user waits for the result.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Probes all endpoints of the exporter. The smaller of `timeout` and [`MAX_PROBE_TIMEOUT`] limits all probes together.
pub(super) fn probe(exporter: &Exporter, summary: &ExporterSummary) -> Vec<EndpointReport> {
    let budget = match summary.setting("timeout_ms") {
        SummaryValue::Number(timeout) => MAX_PROBE_TIMEOUT.min(Duration::from_millis(*timeout)),
        _ => MAX_PROBE_TIMEOUT,
    };
    probe::probe(exporter, budget).endpoints
}

/// Describes the failure of an endpoint in one line; `None` if the probe succeeded.
pub(super) fn failure(endpoint: &EndpointReport, exporter: &Exporter) -> Option<String> {
    let stage = endpoint.failure()?;
    let Outcome::Failed { what, advice } = &stage.outcome else { return None };
    let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
    Some(format!("exporter {:?}: {}: {}: {what}{advice}", exporter.name(), endpoint.url, stage.kind))
}

/// Draws the endpoint with the name of its exporter, each stage with its advice, and an empty line.
pub(super) fn draw(endpoint: &EndpointReport, exporter: &Exporter, style: &Style) -> Vec<String> {
    let mut title = style.line();
    title.put(Ink::FAINT, "probed ").put(Ink::PLAIN.bold(), &endpoint.url);
    let mut lines = vec![title.put(Ink::FAINT, " for ").put(Ink::PLAIN, exporter.name()).finish()];
    lines.extend(endpoint.stages.iter().flat_map(|stage| draw_stage(stage, style)));
    lines.push(String::new());
    lines
}

fn draw_stage(stage: &Stage, style: &Style) -> Vec<String> {
    let (ink, mark, detail, advice) = match &stage.outcome {
        Outcome::Passed { detail } => (Ink::GOOD.bold(), style.glyph("✓"), detail.as_str(), ""),
        Outcome::Failed { what, advice } => {
            (Ink::BAD.bold(), style.glyph("✗"), what.as_str(), advice.as_str())
        }
        Outcome::Noted { detail } => (Ink::FAINT.bold(), "-", detail.as_str(), ""),
        // `Outcome` is non-exhaustive, but has no other variant yet.
        _ => (Ink::FAINT.bold(), "-", "", ""),
    };
    // The ASCII forms of `✓` and `✗` differ in width, so all names begin after the wider form.
    let name_at = 2 + style.width_of(style.glyph("✓")).max(style.width_of(style.glyph("✗"))) + 1;
    let detail_at = name_at + NAME_WIDTH + TIME_WIDTH + 2;
    let mut line = style.line();
    line.space(2).put(ink, mark).pad_to(name_at).put(Ink::PLAIN, stage.kind.name());
    if !matches!(stage.outcome, Outcome::Noted { .. }) {
        let took = u64::try_from(stage.took.as_nanos()).unwrap_or(u64::MAX);
        let took = describe::duration(took, style);
        line.pad_to((detail_at - 2).saturating_sub(style.width_of(&took))).put(Ink::FAINT, &took);
    }
    let mut lines = vec![line.pad_to(detail_at).put(Ink::PLAIN, detail).finish()];
    if !advice.is_empty() {
        lines.push(style.line().pad_to(name_at).put(Ink::FAINT, "= ").put(Ink::PLAIN, advice).finish());
    }
    lines
}

/// Totals that the last line shows.
#[derive(Debug, Default)]
pub(super) struct Totals {
    exporters: usize,
    /// Number of exporters with an endpoint that failed.
    unanswered: usize,
    /// Whether an endpoint accepts at least one signal.
    takes_something: bool,
    errors: usize,
    warnings: usize,
    notes: usize,
}

impl Totals {
    /// Computes the totals. `probed` has the endpoint reports of each exporter.
    pub(super) fn new(examined: &Examined, probed: &[Vec<EndpointReport>]) -> Self {
        let has_failed = |endpoint: &&EndpointReport| !endpoint.is_good();
        let is_taken = |stage: &Stage| {
            stage.kind == StageKind::Export && !matches!(stage.outcome, Outcome::Failed { .. })
        };
        let failures = probed.iter().flatten().filter(has_failed).count();
        Self {
            exporters: examined.exporters.len(),
            unanswered: probed.iter().filter(|endpoints| endpoints.iter().any(|it| has_failed(&it))).count(),
            takes_something: probed.iter().flatten().any(|endpoint| endpoint.stages.iter().any(is_taken)),
            errors: examined.count(DiagnosticSeverity::Error) + failures,
            warnings: examined.count(DiagnosticSeverity::Warning),
            notes: examined.count(DiagnosticSeverity::Note),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.errors > 0
    }

    /// Draws the last line. `name` is the name of the checked file or environment.
    pub(super) fn draw(&self, name: &str, style: &Style) -> String {
        let usable = self.exporters - self.unanswered;
        let mut text = match usable {
            0 => "no usable exporter".to_owned(),
            usable => describe::count(usable as u64, "usable exporter"),
        };
        for (severity, count) in [
            (DiagnosticSeverity::Error, self.errors),
            (DiagnosticSeverity::Warning, self.warnings),
            (DiagnosticSeverity::Note, self.notes),
        ] {
            if count > 0 {
                text += &format!(", {}", describe::count(count as u64, shown(severity).0));
            }
        }
        text += match (usable, self.exporters) {
            (0, 0) => "; nothing would be sent",
            (0, _) if self.takes_something => "; not everything would arrive",
            (0, _) => "; nothing would arrive",
            _ => "",
        };
        let (ink, mark) = match (self.errors, usable) {
            // A configuration without exporters is valid, but it should not look like success.
            (0, 0) => (Ink::WARNING, "!"),
            (0, _) => (Ink::GOOD, style.glyph("✓")),
            _ => (Ink::BAD, style.glyph("✗")),
        };
        let mut line = style.line();
        line.put(ink.bold(), mark).space(1).put(Ink::PLAIN.bold(), name);
        line.put(Ink::PLAIN, ": ").put(Ink::PLAIN, &text).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use standpipe::config::Proxy;

    use super::super::super::style::plain_style;
    use super::*;

    #[test]
    fn a_failure_is_drawn_with_its_stage_and_its_advice() {
        // The listener is dropped at the end of this statement, so nothing listens on the port.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        let exporter = Exporter::http(format!("http://{address}")).proxy(Proxy::Off).named("shop");
        let report = probe::probe(&exporter, Duration::from_secs(10));
        let lines = draw(&report.endpoints[0], &exporter, &plain_style(80));
        assert!(lines[0].ends_with(" for shop") && lines[1].starts_with("  ✓ resolve  "), "{lines:#?}");
        assert!(lines[2].starts_with("  ✗ connect  ") && lines[2].contains("refused"), "{lines:#?}");
        assert_eq!(lines[3..], ["    = is a collector running? try: standpipe receive", ""]);
        let failure = failure(&report.endpoints[0], &exporter).unwrap();
        assert!(failure.starts_with("exporter \"shop\": http://127.0.0.1:"), "{failure}");
        assert!(failure.ends_with("; is a collector running? try: standpipe receive"), "{failure}");
    }

    #[test]
    fn the_sum_says_whether_anything_would_arrive() {
        let sum = |exporters, unanswered, errors, warnings| {
            let sum = Totals { exporters, unanswered, errors, warnings, ..Totals::default() };
            assert_eq!(sum.has_failed(), errors > 0);
            sum.draw("otlp.toml", &plain_style(80))
        };
        assert_eq!(sum(2, 0, 0, 1), "✓ otlp.toml: 2 usable exporters, 1 warning");
        assert_eq!(sum(0, 0, 0, 0), "! otlp.toml: no usable exporter; nothing would be sent");
        assert_eq!(sum(0, 0, 2, 0), "✗ otlp.toml: no usable exporter, 2 errors; nothing would be sent");
        assert_eq!(sum(2, 1, 1, 0), "✗ otlp.toml: 1 usable exporter, 1 error");
        assert_eq!(sum(1, 1, 1, 0), "✗ otlp.toml: no usable exporter, 1 error; nothing would arrive");
        let partly =
            Totals { exporters: 1, unanswered: 1, takes_something: true, errors: 1, ..Totals::default() };
        assert_eq!(
            partly.draw("otlp.toml", &plain_style(80)),
            "✗ otlp.toml: no usable exporter, 1 error; not everything would arrive"
        );
    }
}
