//! How is a problem drawn? With the line of the file that it is in.

use standpipe::config::{Diagnostic, DiagnosticSeverity};

use crate::cli::snippet::{Snippet, Syntax};
use crate::cli::style::{Ink, Style};
use crate::cli::text;

/// Where problems are: the file, to quote from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) name: String,
    /// As it is on the disk; empty if it cannot be read again.
    pub(super) text: String,
    pub(super) syntax: Syntax,
}

/// What was found, apart from the library's own type so that tests can make one up.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) severity: DiagnosticSeverity,
    /// Line and column, from 1.
    pub(super) place: Option<(usize, usize)>,
    pub(super) key: String,
    pub(super) what: String,
    pub(super) fix: String,
}

impl From<&Diagnostic> for Problem {
    fn from(diagnostic: &Diagnostic) -> Self {
        Self {
            severity: diagnostic.severity,
            place: diagnostic.location.as_ref().map(|location| (location.line, location.column)),
            key: diagnostic.key.clone(),
            what: diagnostic.what.clone(),
            fix: diagnostic.fix.clone(),
        }
    }
}

impl Problem {
    pub(super) fn draw(&self, origin: &Origin, style: &Style) -> Vec<String> {
        let mut title = style.line();
        title.put(ink(self.severity), name(self.severity)).put(Ink::PLAIN, ": ");
        if !self.key.is_empty() {
            title.put(Ink::PLAIN.bold(), &self.key).put(Ink::PLAIN, ": ");
        }
        title.put(Ink::PLAIN, &self.what);
        let mut lines = vec![title.finish()];

        let margin = self.place.map_or(1, |(line, _)| line.to_string().len());
        if let Some((line, column)) = self.place {
            let place = format!("{}:{line}:{column}", origin.name);
            lines.push(beside(margin, "-->", &place, style));
            let is_of_headers = self.key.split('.').any(|part| part == "headers");
            let cut = if is_of_headers { Snippet::of_headers } else { Snippet::cut };
            if let Some(snippet) = cut(&origin.text, origin.syntax, line, column) {
                lines.extend(self.quote(line, &snippet, style));
            }
        }
        if !self.fix.is_empty() {
            lines.push(beside(margin, "  =", &self.fix, style));
        }
        lines
    }

    fn quote(&self, number: usize, snippet: &Snippet, style: &Style) -> [String; 2] {
        let number = number.to_string();
        let mut quoted = style.line();
        quoted.space(1).put(Ink::FAINT, &number).put(Ink::FAINT, " | ").put(Ink::PLAIN, &snippet.line);
        // Escaped characters are wider than the one that was counted.
        let before: String = snippet.line.chars().take(snippet.caret).collect();
        let caret = text::width(&text::printable(&before, style.charset));
        let mut mark = style.line();
        mark.space(1 + number.len()).put(Ink::FAINT, " |").space(1 + caret).put(ink(self.severity), "^");
        [quoted.finish(), mark.finish()]
    }
}

/// The severity, as text.
pub(super) fn name(severity: DiagnosticSeverity) -> &'static str {
    match severity {
        DiagnosticSeverity::Error => "error",
        DiagnosticSeverity::Warning => "warning",
        _ => "note",
    }
}

fn ink(severity: DiagnosticSeverity) -> Ink {
    match severity {
        DiagnosticSeverity::Error => Ink::BAD.bold(),
        DiagnosticSeverity::Warning => Ink::WARNING.bold(),
        _ => Ink::FAINT.bold(),
    }
}

/// A line beside the quoted one, marked in the margin where that has its number.
fn beside(margin: usize, mark: &str, text: &str, style: &Style) -> String {
    let mut line = style.line();
    line.pad_to(margin).put(Ink::FAINT, mark).space(1).put(Ink::PLAIN, text);
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    fn origin(name: &str, text: &str) -> Origin {
        Origin { name: name.to_owned(), text: text.to_owned(), syntax: Syntax::of(name.as_ref()) }
    }

    fn problem(place: Option<(usize, usize)>, key: &str, what: &str, fix: &str) -> Problem {
        Problem {
            severity: DiagnosticSeverity::Error,
            place,
            key: key.to_owned(),
            what: what.to_owned(),
            fix: fix.to_owned(),
        }
    }

    #[test]
    fn a_problem_has_its_line_in_every_syntax() {
        let found = problem(Some((2, 11)), "sampling", "\"all\" is no number", "write 100");
        for (file, text) in
            [("a.toml", "x = 1\nsampling= \"all\""), ("a.yaml", "x: 1\nsampling: \"all\" # %")]
        {
            let lines = found.draw(&origin(file, text), &plain_style(80));
            let separator = if file == "a.toml" { '=' } else { ':' };
            let expected = [
                "error: sampling: \"all\" is no number".to_owned(),
                format!(" --> {file}:2:11"),
                format!(" 2 | sampling{separator} \"all\""),
                "   |           ^".to_owned(),
                "   = write 100".to_owned(),
            ];
            assert_eq!(lines, expected);
        }
    }

    #[test]
    fn the_value_of_a_header_is_not_shown_though_it_has_the_name_of_a_key() {
        let found = problem(Some((2, 9)), "tracer.otel.headers", "value of header \"level\" is bad", "");
        for (file, text) in [
            ("a.toml", "[tracer.otel.headers]\nlevel = \"hunter2\""),
            ("a.yaml", "headers:\n  level: hunter2"),
        ] {
            let lines = found.draw(&origin(file, text), &plain_style(80)).concat();
            assert!(lines.contains("level") && !lines.contains("hunter2"), "{lines}");
        }
    }

    #[test]
    fn a_problem_without_a_place_has_no_line() {
        let found = problem(None, "OTEL_EXPORTER_OTLP_TIMEOUT", "\"soon\" is no number", "write 10000");
        let lines = found.draw(&origin("environment", ""), &plain_style(80));
        let expected = ["error: OTEL_EXPORTER_OTLP_TIMEOUT: \"soon\" is no number", "   = write 10000"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn control_characters_of_the_file_do_not_reach_the_terminal() {
        let origin = origin("\x1b[2J.toml", "timeout = \"\x1b[2J\" x");
        let lines = problem(Some((1, 18)), "\x07", "\x1b", "\r").draw(&origin, &plain_style(80));
        assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        let caret = lines[3].find('^').expect("a caret");
        assert_eq!(lines[2].chars().nth(caret), Some('x'), "{lines:#?}");
    }
}
