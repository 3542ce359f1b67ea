//! `standpipe check`: what a configuration comes to, and what is wrong with it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use standpipe::{Config, ConfigError, Exporter, Finding, FindingSeverity, Setting, Source, Telemetry};

use super::paint::{Ink, Look};
use super::snippet::Snippet;
use super::{Failure, UNUSABLE, complain, describe, print, text};

const GAP: usize = 2;

/// Checks a file and prints what was found.
pub(crate) fn run(file: &Path, look: &Look) -> Result<ExitCode, Failure> {
    let name = file.display().to_string();
    let (config, mut findings) = match Config::from_file(file) {
        Ok(config) => {
            let findings = config.findings().to_vec();
            (config, findings)
        }
        Err(error) if error.is_unreadable() => {
            let reasons: Vec<&str> = error.findings().iter().map(|finding| finding.what.as_str()).collect();
            complain(&text::printable(&format!("{name}: {}", reasons.join("; ")), look.charset));
            return Ok(ExitCode::from(UNUSABLE));
        }
        Err(error) => with_findings(error),
    };
    let config = match Telemetry::start(config.clone()) {
        Ok(telemetry) => {
            telemetry.shutdown(Duration::ZERO);
            config
        }
        // What only shows when everything is put together: a certificate that is none, a thread too many.
        Err(error) => {
            let (usable, more) = with_findings(error);
            findings.extend(more);
            usable
        }
    };
    let report = Report {
        file: name,
        text: quotable(file),
        general: config.effective().into_iter().filter(is_set).map(Row::from).collect(),
        exporters: config.exporters().iter().map(Section::from).collect(),
        problems: findings.iter().map(Problem::from).collect(),
    };
    print(&report.draw(look))?;
    Ok(if report.count(Weight::Error) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn with_findings(error: ConfigError) -> (Config, Vec<Finding>) {
    let findings = error.findings().to_vec();
    (error.into_usable(), findings)
}

/// The file's text once more, to quote from; a pipe has been emptied and would only be waited for.
fn quotable(file: &Path) -> String {
    let is_file = fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    if is_file { fs::read_to_string(file).unwrap_or_default() } else { String::new() }
}

/// Everything there is to say about one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) file: String,
    /// As it is on the disk, for the lines around problems; empty if it cannot be read.
    pub(crate) text: String,
    /// What was set that is not of one exporter.
    pub(crate) general: Vec<Row>,
    pub(crate) exporters: Vec<Section>,
    pub(crate) problems: Vec<Problem>,
}

/// The settings of one exporter.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) id: String,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) from: String,
    pub(crate) is_default: bool,
}

#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) weight: Weight,
    /// Line and column, from 1.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) key: String,
    pub(crate) what: String,
    pub(crate) fix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    Error,
    Warning,
    Note,
}

impl Weight {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::Error => Ink::BAD.bold(),
            Self::Warning => Ink::WARNING.bold(),
            Self::Note => Ink::FAINT.bold(),
        }
    }
}

impl From<&Exporter> for Section {
    fn from(exporter: &Exporter) -> Self {
        let rows = exporter.effective().into_iter().map(Row::from).collect();
        Self { id: exporter.name().to_owned(), rows }
    }
}

impl From<Setting> for Row {
    fn from(setting: Setting) -> Self {
        Self {
            key: setting.key.to_owned(),
            is_default: !is_set(&setting),
            value: setting.value,
            from: setting.source.to_string(),
        }
    }
}

fn is_set(setting: &Setting) -> bool {
    setting.source != Source::Default
}

impl From<&Finding> for Problem {
    fn from(finding: &Finding) -> Self {
        Self {
            weight: match finding.severity {
                FindingSeverity::Error => Weight::Error,
                FindingSeverity::Warning => Weight::Warning,
                FindingSeverity::Note => Weight::Note,
            },
            place: finding.location.as_ref().map(|location| (location.line, location.column)),
            key: finding.key.clone(),
            what: finding.what.clone(),
            fix: finding.fix.clone(),
        }
    }
}

impl Report {
    pub(crate) fn count(&self, weight: Weight) -> u64 {
        self.problems.iter().filter(|problem| problem.weight == weight).count() as u64
    }

    /// What is set for all exporters, the table of each, then each problem, then the sum.
    pub(crate) fn draw(&self, look: &Look) -> Vec<String> {
        let mut lines = Vec::new();
        let columns = Columns::for_all(self, look);
        if !self.general.is_empty() {
            let mut title = look.line();
            title.put(Ink::FAINT, "all exporters");
            lines.push(title.finish());
            lines.extend(table(&self.general, &columns, look));
            lines.push(String::new());
        }
        for section in &self.exporters {
            lines.extend(section.draw(&columns, look));
            lines.push(String::new());
        }
        for problem in &self.problems {
            lines.extend(problem.draw(self, look));
            lines.push(String::new());
        }
        lines.push(self.summary(look));
        lines
    }

    fn summary(&self, look: &Look) -> String {
        let mut parts = vec![match self.exporters.len() {
            0 => "no usable exporter".to_owned(),
            exporters => describe::count(exporters as u64, "usable exporter"),
        }];
        for weight in [Weight::Error, Weight::Warning, Weight::Note] {
            let count = self.count(weight);
            if count > 0 {
                parts.push(describe::count(count, weight.name()));
            }
        }
        let (ink, mark) = match self.count(Weight::Error) {
            // Nothing is wrong with a file that exports nothing, but nobody should take it for one that does.
            0 if self.exporters.is_empty() => (Ink::WARNING.bold(), look.glyphs.attention),
            0 => (Ink::GOOD.bold(), look.glyphs.check),
            _ => (Ink::BAD.bold(), look.glyphs.cross),
        };
        let mut line = look.line();
        line.put(ink, mark).space(1).put(Ink::PLAIN.bold(), &self.file).put(Ink::PLAIN, ": ");
        line.put(Ink::PLAIN, &parts.join(", "));
        if self.exporters.is_empty() {
            line.put(Ink::PLAIN, "; nothing would be sent");
        }
        line.finish()
    }
}

/// Where the columns of the table begin, the same for all exporters.
struct Columns {
    value: usize,
    from: usize,
}

impl Columns {
    fn for_all(report: &Report, look: &Look) -> Self {
        let widest = |cell: fn(&Row) -> &str| {
            let rows = report.general.iter().chain(report.exporters.iter().flat_map(|section| &section.rows));
            rows.map(|row| text::width(&text::printable(cell(row), look.charset))).max().unwrap_or(0)
        };
        let value = GAP + widest(|row| &row.key).max("key".len()) + GAP;
        let room = look.width.saturating_sub(value + GAP + widest(|row| &row.from)).max(10);
        Self { value, from: value + widest(|row| &row.value).clamp("value".len(), room) + GAP }
    }
}

impl Section {
    fn draw(&self, columns: &Columns, look: &Look) -> Vec<String> {
        let mut title = look.line();
        title.put(Ink::FAINT, "exporter ").put(Ink::PLAIN.bold(), &self.id);
        let mut lines = vec![title.finish()];
        lines.extend(table(&self.rows, columns, look));
        lines
    }
}

fn table(rows: &[Row], columns: &Columns, look: &Look) -> Vec<String> {
    let mut lines =
        vec![cells([(Ink::FAINT, "key"), (Ink::FAINT, "value"), (Ink::FAINT, "from")], columns, look)];
    for row in rows {
        let ink = if row.is_default { Ink::FAINT } else { Ink::PLAIN };
        let shown = [(Ink::PLAIN, row.key.as_str()), (ink, &row.value), (Ink::FAINT, &row.from)];
        lines.push(cells(shown, columns, look));
    }
    lines
}

fn cells([key, value, from]: [(Ink, &str); 3], columns: &Columns, look: &Look) -> String {
    let mut line = look.line();
    line.pad_to(GAP).put(key.0, key.1).pad_to(columns.value);
    line.put_within(value.0, value.1, columns.from - columns.value - GAP).pad_to(columns.from);
    line.put(from.0, from.1);
    line.finish()
}

impl Problem {
    fn draw(&self, report: &Report, look: &Look) -> Vec<String> {
        let mut title = look.line();
        title.put(self.weight.ink(), self.weight.name()).put(Ink::PLAIN, ": ");
        if !self.key.is_empty() {
            title.put(Ink::PLAIN.bold(), &self.key).put(Ink::PLAIN, ": ");
        }
        title.put(Ink::PLAIN, &self.what);
        let mut lines = vec![title.finish()];

        let margin = self.place.map_or(1, |(line, _)| line.to_string().len());
        if let Some((line, column)) = self.place {
            lines.push(beside(margin, "-->", Ink::PLAIN, &format!("{}:{line}:{column}", report.file), look));
            if let Some(snippet) = Snippet::cut(&report.text, line, column) {
                lines.extend(self.quote(line, &snippet, look));
            }
        }
        if !self.fix.is_empty() {
            lines.push(beside(margin, "  =", Ink::PLAIN, &self.fix, look));
        }
        lines
    }

    fn quote(&self, number: usize, snippet: &Snippet, look: &Look) -> [String; 2] {
        let number = number.to_string();
        let mut quoted = look.line();
        quoted.space(1).put(Ink::FAINT, &number).put(Ink::FAINT, " | ").put(Ink::PLAIN, &snippet.line);
        // Escaped characters are wider than the one that was counted.
        let before: String = snippet.line.chars().take(snippet.caret).collect();
        let caret = text::width(&text::printable(&before, look.charset));
        let mut mark = look.line();
        mark.space(1 + number.len()).put(Ink::FAINT, " |").space(1 + caret).put(self.weight.ink(), "^");
        [quoted.finish(), mark.finish()]
    }
}

/// A line beside the quoted one, marked in the margin where that has its number.
fn beside(margin: usize, mark: &str, ink: Ink, text: &str, look: &Look) -> String {
    let mut line = look.line();
    line.pad_to(margin).put(Ink::FAINT, mark).space(1).put(ink, text);
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::paint::plain_look;
    use super::*;

    fn row(key: &str, value: &str, from: &str) -> Row {
        Row {
            key: key.to_owned(),
            value: value.to_owned(),
            from: from.to_owned(),
            is_default: from == "default",
        }
    }

    fn problem(weight: Weight, place: Option<(usize, usize)>, key: &str, what: &str, fix: &str) -> Problem {
        Problem { weight, place, key: key.to_owned(), what: what.to_owned(), fix: fix.to_owned() }
    }

    #[test]
    fn values_have_their_origin_and_problems_their_line() {
        let report = Report {
            file: "otlp.toml".to_owned(),
            text: "[tracer.otel]\ntype = \"otel\"\nendpont = \"x\"\ntimeout = \"0s\"\n".to_owned(),
            general: vec![row("self-observation", "true", "otlp.toml:9:20")],
            exporters: vec![Section {
                id: "otel".to_owned(),
                rows: vec![
                    row("endpoint", "http://localhost:4318", "default"),
                    row("lossy", "true", "otlp.toml:7:9"),
                ],
            }],
            problems: vec![
                problem(
                    Weight::Warning,
                    Some((3, 1)),
                    "tracer.otel.endpont",
                    "unknown key",
                    "did you mean \"endpoint\"?",
                ),
                problem(Weight::Error, Some((4, 11)), "tracer.otel.timeout", "0s is too short", ""),
                problem(Weight::Note, None, "", "nothing else", ""),
            ],
        };
        let expected = [
            "all exporters",
            "  key               value                  from",
            "  self-observation  true                   otlp.toml:9:20",
            "",
            "exporter otel",
            "  key               value                  from",
            "  endpoint          http://localhost:4318  default",
            "  lossy             true                   otlp.toml:7:9",
            "",
            "warning: tracer.otel.endpont: unknown key",
            " --> otlp.toml:3:1",
            " 3 | endpont = ***",
            "   | ^",
            "   = did you mean \"endpoint\"?",
            "",
            "error: tracer.otel.timeout: 0s is too short",
            " --> otlp.toml:4:11",
            " 4 | timeout = \"0s\"",
            "   |           ^",
            "",
            "note: nothing else",
            "",
            "✗ otlp.toml: 1 usable exporter, 1 error, 1 warning, 1 note",
        ];
        assert_eq!(report.draw(&plain_look(100)), expected);
    }

    #[test]
    fn a_file_without_exporters_is_not_taken_for_a_good_one() {
        let report = Report { file: "otlp.toml".to_owned(), ..Report::default() };
        assert_eq!(report.draw(&plain_look(80)), ["! otlp.toml: no usable exporter; nothing would be sent"]);
    }

    #[test]
    fn a_long_value_leaves_room_for_its_origin() {
        let section =
            Section { id: "otel".to_owned(), rows: vec![row("endpoint", &"x".repeat(500), "otlp.toml:4:1")] };
        let report = Report { file: "otlp.toml".to_owned(), exporters: vec![section], ..Report::default() };
        let lines = report.draw(&plain_look(80));
        assert!(lines.iter().all(|line| text::width(line) <= 80), "{lines:#?}");
        assert!(lines[2].ends_with("…  otlp.toml:4:1"), "{}", lines[2]);
    }

    #[test]
    fn control_characters_of_the_file_do_not_reach_the_terminal() {
        let report = Report {
            file: "\x1b[2J.toml".to_owned(),
            text: "timeout = \"\x1b[2J\" x".to_owned(),
            problems: vec![problem(Weight::Error, Some((1, 18)), "\x07", "\x1b", "\r")],
            ..Report::default()
        };
        let lines = report.draw(&plain_look(80));
        assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        let caret = lines[3].find('^').expect("a caret");
        assert_eq!(lines[2].chars().nth(caret), Some('x'), "{lines:#?}");
    }
}
