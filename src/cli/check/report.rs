//! The settings of each exporter in sections, and below them the problems, each with the line of the file that it is in.

use std::fs;
use std::path::Path;

use standpipe::Exporter;
use standpipe::config::{
    Diagnostic, DiagnosticSeverity, ExporterSummary, ProviderName, Setting, SettingSource,
};

use super::Subject;
use super::examine::{Examined, General, Scope};
use crate::cli::snippet::{Snippet, Syntax};
use crate::cli::style::{Ink, Style};
use crate::cli::table::{self, Column, GAP, Table, Text};
use crate::cli::text;

/// The least that is left of a value.
const LEAST_VALUE: usize = 10;
/// Below this many cells the origin of a value has a line of its own, if it would have no room beside it.
const NARROW: usize = 72;

/// The advice for a file with more errors than a configuration is likely to have.
const NO_TOML: &str = "is this a TOML file?";
/// Mistakes that are shown of such a file.
const MOST_OF_GARBAGE: usize = 3;

/// For an environment that describes nothing.
const ADVICE: [&str; 2] = [
    "looked for OTEL_TRACES_EXPORTER, OTEL_LOGS_EXPORTER and OTEL_METRICS_EXPORTER that are not none",
    "standpipe init env writes a file to begin with",
];

/// Everything that is known about a subject before an endpoint is probed.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) origin: Origin,
    sections: Vec<Section>,
    problems: Vec<Problem>,
    /// What to do if nothing at all is configured.
    advice: Option<[&'static str; 2]>,
}

/// The settings of one exporter, or of all.
#[derive(Debug)]
struct Section {
    /// What it is about, and its name if it has one.
    title: (String, String),
    /// Signals, and where they go.
    destinations: Vec<(String, String)>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: String,
    value: String,
    from: String,
    is_default: bool,
}

impl Report {
    pub(super) fn new(subject: &Subject, examined: &Examined) -> Self {
        let problems: Vec<Problem> = examined.diagnostics.iter().map(Problem::from).collect();
        let sections = sections(examined);
        // that a file describes nothing is one of its problems
        let is_empty = *subject == Subject::Environment && sections.is_empty() && problems.is_empty();
        let advice = is_empty.then_some(ADVICE);
        Self { origin: origin(subject, &examined.handed_in), sections, problems, advice }
    }

    /// The sections, then the problems, with an empty line after each.
    pub(super) fn draw(&self, style: &Style) -> Vec<String> {
        let columns = Columns::for_all(&self.sections, style);
        let mut lines = Vec::new();
        for section in &self.sections {
            lines.extend(section.draw(&columns, style));
            lines.push(String::new());
        }
        let (of_all, of_lines): (Vec<&Problem>, Vec<_>) =
            self.problems.iter().partition(|problem| problem.fix == NO_TOML);
        let most = if of_all.is_empty() { of_lines.len() } else { MOST_OF_GARBAGE.min(of_lines.len()) };
        for problem in of_all.iter().chain(&of_lines[..most]) {
            lines.extend(problem.draw(&self.origin, style));
            lines.push(String::new());
        }
        if most < of_lines.len() {
            lines.extend([format!("and {} more", of_lines.len() - most), String::new()]);
        }
        if let Some(advice) = self.advice {
            lines.extend(advice.map(str::to_owned));
            lines.push(String::new());
        }
        lines
    }

    pub(super) fn count(&self, severity: DiagnosticSeverity) -> usize {
        self.problems.iter().filter(|problem| problem.severity == severity).count()
    }
}

fn origin(subject: &Subject, handed_in: &str) -> Origin {
    let (text, syntax) = match subject {
        Subject::File(file) => (quotable(file), Syntax::of(file)),
        Subject::Stdin => (handed_in.to_owned(), Syntax::guess(handed_in)),
        Subject::Environment => (String::new(), Syntax::default()),
    };
    Origin { name: subject.name(), text, syntax }
}

/// The file's text once more, to quote from; a pipe has been emptied and would only be waited for.
fn quotable(file: &Path) -> String {
    let is_file = fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    if is_file { fs::read_to_string(file).unwrap_or_default() } else { String::new() }
}

/// What all exporters share, then each exporter; if there are two routes, one after the other.
fn sections(examined: &Examined) -> Vec<Section> {
    let of_route = |route: ProviderName| {
        let is_its = move |(exporter, _): &&(Exporter, _)| {
            (exporter.provider() == Some(ProviderName::Application)) == (route == ProviderName::Application)
        };
        examined.exporters.iter().filter(is_its).collect::<Vec<_>>()
    };
    let has_routes = examined.exporters.iter().any(|(exporter, _)| exporter.provider().is_some());
    if !has_routes {
        let has_exporters = !examined.exporters.is_empty();
        let rows = rows(&examined.general, |_| true, has_exporters);
        let exporters = of_route(ProviderName::Internal);
        let exporters = exporters.into_iter().map(|found| Section::of_exporter("", found));
        return Section::of_all("all exporters", rows).into_iter().chain(exporters).collect();
    }
    let everything = rows(&examined.general, |scope| scope == Scope::Everything, false);
    let mut sections: Vec<Section> = Section::of_all("all exporters", everything).into_iter().collect();
    for route in [ProviderName::Internal, ProviderName::Application] {
        let exporters = of_route(route);
        if exporters.is_empty() {
            continue;
        }
        let title = format!("{} route", route.name());
        sections.extend(Section::of_all(
            &title,
            rows(&examined.general, |scope| scope == Scope::Provider(route), true),
        ));
        let before = format!("{title}, ");
        sections.extend(exporters.into_iter().map(|found| Section::of_exporter(&before, found)));
    }
    sections
}

/// The settings of a scope that are not defaults, and the name of the service in any case: it is the first thing to set.
fn rows(general: &[General], is_in: impl Fn(Scope) -> bool, with_name: bool) -> Vec<Row> {
    let is_shown = |general: &&General| {
        let is_name = with_name && general.setting.key == "service-name";
        is_in(general.scope) && (is_name || general.setting.source != SettingSource::Default)
    };
    general.iter().filter(is_shown).map(|general| Row::from(&general.setting)).collect()
}

impl From<&Setting> for Row {
    fn from(setting: &Setting) -> Self {
        Self {
            key: setting.key.to_owned(),
            value: setting.value.clone(),
            from: setting.source.to_string(),
            is_default: setting.source == SettingSource::Default,
        }
    }
}

impl Section {
    /// `None` if there is nothing in it.
    fn of_all(title: &str, rows: Vec<Row>) -> Option<Self> {
        let title = (title.to_owned(), String::new());
        (!rows.is_empty()).then_some(Self { title, destinations: Vec::new(), rows })
    }

    fn of_exporter(route: &str, (exporter, summary): &(Exporter, ExporterSummary)) -> Self {
        let destinations = exporter.endpoints().into_iter();
        Self {
            title: (format!("{route}exporter "), summary.id.clone()),
            destinations: destinations.map(|(signal, url)| (signal.name().to_owned(), url)).collect(),
            rows: exporter.effective().iter().map(Row::from).collect(),
        }
    }

    fn draw(&self, columns: &Columns<'_>, style: &Style) -> Vec<String> {
        let mut title = style.line();
        title.put(Ink::FAINT, &self.title.0).put(Ink::PLAIN.bold(), &self.title.1);
        let mut lines = vec![title.finish()];
        for (signal, url) in &self.destinations {
            lines.extend(columns.pair(signal, (Ink::PLAIN.bold(), url)));
        }
        lines.push(columns.heads());
        lines.extend(self.rows.iter().flat_map(|row| columns.row(row)));
        lines
    }
}

/// The columns of the sections, the same for all of them.
struct Columns<'a> {
    style: &'a Style,
    /// The key, the value, and where it is from: left out on a narrow terminal, it has a line of its own.
    layout: Table<'a>,
    /// Where the values begin.
    value: usize,
}

impl<'a> Columns<'a> {
    fn for_all(sections: &[Section], style: &'a Style) -> Self {
        let widest = |head: &str, cell: fn(&Row) -> &str| {
            let rows = sections.iter().flat_map(|section| &section.rows);
            table::widest(rows.map(cell), style).max(head.len())
        };
        let key = widest("key", |row| &row.key);
        let from = Column::cut(widest("", |row| &row.from)).uncut();
        let from = if style.width < NARROW { from.optional() } else { from };
        let value = Column::between(LEAST_VALUE, widest("value", |row| &row.value));
        let layout = Table::new(style, GAP, [Column::cut(key).uncut(), value, from]);
        Self { style, layout, value: GAP + key + GAP }
    }

    fn heads(&self) -> String {
        self.layout.row(["key", "value", "from"].map(|head| Text::new(Ink::FAINT, head)))
    }

    fn row(&self, row: &Row) -> Vec<String> {
        let ink = if row.is_default { Ink::FAINT } else { Ink::PLAIN };
        if self.layout.is_complete() {
            let texts = [(Ink::PLAIN, &row.key), (ink, &row.value), (Ink::FAINT, &row.from)];
            return vec![self.layout.row(texts.map(|(ink, text)| Text::new(ink, text)))];
        }
        let mut lines = self.pair(&row.key, (ink, &row.value));
        if !row.is_default {
            lines.push(below(Ink::FAINT, &format!("from {}", row.from), self.style));
        }
        lines
    }

    /// A key and its value, which is never cut; where it would not fit it has a line of its own.
    fn pair(&self, key: &str, (ink, value): (Ink, &str)) -> Vec<String> {
        let mut line = self.style.line();
        line.pad_to(GAP).put(Ink::PLAIN, key);
        if !self.layout.is_complete() && self.value + self.style.width_of(value) > self.style.width {
            return vec![line.finish(), below(ink, value, self.style)];
        }
        line.pad_to(self.value).put(ink, value);
        vec![line.finish()]
    }
}

fn below(ink: Ink, text: &str, style: &Style) -> String {
    let mut line = style.line();
    line.pad_to(GAP + GAP).put(ink, text);
    line.finish()
}

/// Where problems are: the file, to quote from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) name: String,
    /// As it is on the disk; empty if it cannot be read again.
    text: String,
    syntax: Syntax,
}

/// What was found, apart from the library's own type so that tests can make one up.
#[derive(Debug)]
struct Problem {
    severity: DiagnosticSeverity,
    /// Line and column, from 1.
    place: Option<(usize, usize)>,
    key: String,
    what: String,
    fix: String,
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
    fn draw(&self, origin: &Origin, style: &Style) -> Vec<String> {
        let mut title = style.line();
        title.put(ink(self.severity), name_of(self.severity)).put(Ink::PLAIN, ": ");
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
            if let Some(snippet) = Snippet::cut(&origin.text, origin.syntax, (line, column), is_of_headers) {
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
pub(super) fn name_of(severity: DiagnosticSeverity) -> &'static str {
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
mod tests;
