//! The last line: what it all comes to.

use standpipe::DiagnosticSeverity;

use super::examine::Examined;
use super::problem;
use super::report::Report;
use super::stages::Asked;
use crate::cli::describe;
use crate::cli::paint::{Ink, Look};

/// How much there is of everything.
#[derive(Debug)]
pub(super) struct Sum {
    exporters: usize,
    /// Exporters of which an endpoint was asked in vain.
    unanswered: usize,
    /// Whether anybody who was asked takes something.
    takes_something: bool,
    errors: usize,
    warnings: usize,
    notes: usize,
}

impl Sum {
    /// `asked` are the endpoints of each exporter.
    pub(super) fn new(report: &Report, examined: &Examined, asked: &[Vec<Asked>]) -> Self {
        let failed = |endpoints: &Vec<Asked>| endpoints.iter().filter(|asked| asked.has_failed()).count();
        let failures: usize = asked.iter().map(failed).sum();
        Self {
            exporters: examined.exporters.len(),
            unanswered: asked.iter().filter(|endpoints| failed(endpoints) > 0).count(),
            takes_something: asked.iter().flatten().any(Asked::takes_something),
            errors: report.count(DiagnosticSeverity::Error) + failures,
            warnings: report.count(DiagnosticSeverity::Warning),
            notes: report.count(DiagnosticSeverity::Note),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.errors > 0
    }

    /// One line, about what has this name.
    pub(super) fn draw(&self, name: &str, look: &Look) -> String {
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
            // Nothing is wrong with a file that exports nothing, but nobody should take it for one that does.
            (0, 0) => (Ink::WARNING.bold(), look.glyphs.attention),
            (0, _) => (Ink::GOOD.bold(), look.glyphs.check),
            _ => (Ink::BAD.bold(), look.glyphs.cross),
        };
        let end = match (usable, self.exporters) {
            (0, 0) => "; nothing would be sent",
            (0, _) if self.takes_something => "; not everything would arrive",
            (0, _) => "; nothing would arrive",
            _ => "",
        };
        let mut line = look.line();
        line.put(ink, mark).space(1).put(Ink::PLAIN.bold(), name).put(Ink::PLAIN, ": ");
        line.put(Ink::PLAIN, &parts.join(", ")).put(Ink::PLAIN, end);
        line.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::paint::plain_look;
    use super::*;

    #[test]
    fn the_sum_says_whether_anything_would_arrive() {
        let sum = |exporters, unanswered, errors, warnings| {
            let sum = Sum { exporters, unanswered, takes_something: false, errors, warnings, notes: 0 };
            assert_eq!(sum.has_failed(), errors > 0);
            sum.draw("otlp.toml", &plain_look(80))
        };
        assert_eq!(sum(2, 0, 0, 1), "✓ otlp.toml: 2 usable exporters, 1 warning");
        assert_eq!(sum(0, 0, 0, 0), "! otlp.toml: no usable exporter; nothing would be sent");
        assert_eq!(sum(0, 0, 2, 0), "✗ otlp.toml: no usable exporter, 2 errors; nothing would be sent");
        assert_eq!(sum(2, 1, 1, 0), "✗ otlp.toml: 1 usable exporter, 1 error");
        assert_eq!(sum(1, 1, 1, 0), "✗ otlp.toml: no usable exporter, 1 error; nothing would arrive");
        let partly =
            Sum { exporters: 1, unanswered: 1, takes_something: true, errors: 1, warnings: 0, notes: 0 };
        assert_eq!(
            partly.draw("otlp.toml", &plain_look(80)),
            "✗ otlp.toml: no usable exporter, 1 error; not everything would arrive"
        );
    }
}
