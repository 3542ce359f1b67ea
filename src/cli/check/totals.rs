//! What does the last line of `check` state? How many exporters are usable, and the number of problems.

use standpipe::config::DiagnosticSeverity;

use super::examine::Examined;
use super::problem;
use super::report::Report;
use super::stages::ProbedEndpoint;
use crate::cli::describe;
use crate::cli::style::{Ink, Style};

/// How much there is of everything.
#[derive(Debug)]
pub(super) struct Totals {
    exporters: usize,
    /// Exporters with an endpoint that failed.
    unanswered: usize,
    /// Whether an endpoint that was probed accepts something.
    takes_something: bool,
    errors: usize,
    warnings: usize,
    notes: usize,
}

impl Totals {
    /// `probed` are the endpoints of each exporter.
    pub(super) fn new(report: &Report, examined: &Examined, probed: &[Vec<ProbedEndpoint>]) -> Self {
        let failed =
            |endpoints: &Vec<ProbedEndpoint>| endpoints.iter().filter(|probed| probed.has_failed()).count();
        let failures: usize = probed.iter().map(failed).sum();
        Self {
            exporters: examined.exporters.len(),
            unanswered: probed.iter().filter(|endpoints| failed(endpoints) > 0).count(),
            takes_something: probed.iter().flatten().any(ProbedEndpoint::takes_something),
            errors: report.count(DiagnosticSeverity::Error) + failures,
            warnings: report.count(DiagnosticSeverity::Warning),
            notes: report.count(DiagnosticSeverity::Note),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.errors > 0
    }

    /// One line, about what has this name.
    pub(super) fn draw(&self, name: &str, style: &Style) -> String {
        let usable = self.exporters - self.unanswered;
        let mut parts = vec![match usable {
            0 => "no usable exporter".to_owned(),
            usable => describe::count(usable as u64, "usable exporter"),
        }];
        for (severity, count) in [
            (DiagnosticSeverity::Error, self.errors),
            (DiagnosticSeverity::Warning, self.warnings),
            (DiagnosticSeverity::Note, self.notes),
        ] {
            if count > 0 {
                parts.push(describe::count(count as u64, problem::name(severity)));
            }
        }
        let (ink, mark) = match (self.errors, usable) {
            // Nothing is wrong with a file that exports nothing, but it must not be mistaken for one that does.
            (0, 0) => (Ink::WARNING.bold(), style.glyphs.attention),
            (0, _) => (Ink::GOOD.bold(), style.glyphs.check),
            _ => (Ink::BAD.bold(), style.glyphs.cross),
        };
        let end = match (usable, self.exporters) {
            (0, 0) => "; nothing would be sent",
            (0, _) if self.takes_something => "; not everything would arrive",
            (0, _) => "; nothing would arrive",
            _ => "",
        };
        let mut line = style.line();
        line.put(ink, mark).space(1).put(Ink::PLAIN.bold(), name).put(Ink::PLAIN, ": ");
        line.put(Ink::PLAIN, &parts.join(", ")).put(Ink::PLAIN, end);
        line.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    #[test]
    fn the_sum_says_whether_anything_would_arrive() {
        let sum = |exporters, unanswered, errors, warnings| {
            let sum = Totals { exporters, unanswered, takes_something: false, errors, warnings, notes: 0 };
            assert_eq!(sum.has_failed(), errors > 0);
            sum.draw("otlp.toml", &plain_style(80))
        };
        assert_eq!(sum(2, 0, 0, 1), "✓ otlp.toml: 2 usable exporters, 1 warning");
        assert_eq!(sum(0, 0, 0, 0), "! otlp.toml: no usable exporter; nothing would be sent");
        assert_eq!(sum(0, 0, 2, 0), "✗ otlp.toml: no usable exporter, 2 errors; nothing would be sent");
        assert_eq!(sum(2, 1, 1, 0), "✗ otlp.toml: 1 usable exporter, 1 error");
        assert_eq!(sum(1, 1, 1, 0), "✗ otlp.toml: no usable exporter, 1 error; nothing would arrive");
        let partly =
            Totals { exporters: 1, unanswered: 1, takes_something: true, errors: 1, warnings: 0, notes: 0 };
        assert_eq!(
            partly.draw("otlp.toml", &plain_style(80)),
            "✗ otlp.toml: no usable exporter, 1 error; not everything would arrive"
        );
    }
}
