//! The tables of what is set, and the problems below them.

use std::fs;
use std::path::Path;

use standpipe::{DiagnosticSeverity, Exporter, ProviderName, Setting, SettingSource};

use super::Subject;
use super::examine::{Examined, General, Scope};
use super::problem::{Origin, Problem};
use crate::cli::paint::{Ink, Look};
use crate::cli::snippet::Syntax;

const GAP: usize = 2;
/// The least that is left of a value.
const LEAST_VALUE: usize = 10;
/// Below this many cells the origin of a value has a line of its own, if it would have no room beside it.
const NARROW: usize = 72;

/// For an environment that describes nothing.
const ADVICE: [&str; 2] = [
    "looked for OTEL_TRACES_EXPORTER, OTEL_LOGS_EXPORTER and OTEL_METRICS_EXPORTER that are not none",
    "standpipe init env writes a file to begin with",
];

/// Everything there is to say about a subject before anybody is asked.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) origin: Origin,
    tables: Vec<Table>,
    problems: Vec<Problem>,
    /// What to do if nothing at all is configured.
    advice: Option<[&'static str; 2]>,
}

/// The settings of one exporter, or of all.
#[derive(Debug)]
struct Table {
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
        let tables = tables(examined);
        // that a file describes nothing is one of its problems
        let is_empty = *subject == Subject::Environment && tables.is_empty() && problems.is_empty();
        let advice = is_empty.then_some(ADVICE);
        Self { origin: origin(subject, &examined.handed_in), tables, problems, advice }
    }

    /// The tables, then the problems, with an empty line after each.
    pub(super) fn draw(&self, look: &Look) -> Vec<String> {
        let columns = Columns::for_all(&self.tables, look);
        let mut lines = Vec::new();
        for table in &self.tables {
            lines.extend(table.draw(&columns, look));
            lines.push(String::new());
        }
        for problem in &self.problems {
            lines.extend(problem.draw(&self.origin, look));
            lines.push(String::new());
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
fn tables(examined: &Examined) -> Vec<Table> {
    let of_route = |route: ProviderName| {
        let is_its = move |(exporter, _): &&(Exporter, _)| {
            (exporter.provider() == Some(ProviderName::Application)) == (route == ProviderName::Application)
        };
        examined.exporters.iter().filter(is_its).map(|(exporter, _)| exporter).collect::<Vec<_>>()
    };
    let has_routes = examined.exporters.iter().any(|(exporter, _)| exporter.provider().is_some());
    if !has_routes {
        let has_exporters = !examined.exporters.is_empty();
        let rows = rows(&examined.general, |_| true, has_exporters);
        let exporters = of_route(ProviderName::Internal);
        let exporters = exporters.into_iter().map(|exporter| Table::of_exporter("", exporter));
        return Table::of_all("all exporters", rows).into_iter().chain(exporters).collect();
    }
    let everything = rows(&examined.general, |scope| scope == Scope::Everything, false);
    let mut tables: Vec<Table> = Table::of_all("all exporters", everything).into_iter().collect();
    for route in [ProviderName::Internal, ProviderName::Application] {
        let exporters = of_route(route);
        if exporters.is_empty() {
            continue;
        }
        let title = format!("{} route", route.name());
        tables.extend(Table::of_all(
            &title,
            rows(&examined.general, |scope| scope == Scope::Provider(route), true),
        ));
        let before = format!("{title}, ");
        tables.extend(exporters.into_iter().map(|exporter| Table::of_exporter(&before, exporter)));
    }
    tables
}

/// Those of a scope that somebody set, and the name of the service in any case: it is the first thing to set.
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

impl Table {
    /// `None` if there is nothing in it.
    fn of_all(title: &str, rows: Vec<Row>) -> Option<Self> {
        let title = (title.to_owned(), String::new());
        (!rows.is_empty()).then_some(Self { title, destinations: Vec::new(), rows })
    }

    fn of_exporter(route: &str, exporter: &Exporter) -> Self {
        let destinations = exporter.endpoints().into_iter();
        Self {
            title: (format!("{route}exporter "), exporter.name().to_owned()),
            destinations: destinations.map(|(signal, url)| (signal.name().to_owned(), url)).collect(),
            rows: exporter.effective().iter().map(Row::from).collect(),
        }
    }

    fn draw(&self, columns: &Columns, look: &Look) -> Vec<String> {
        let mut title = look.line();
        title.put(Ink::FAINT, &self.title.0).put(Ink::PLAIN.bold(), &self.title.1);
        let mut lines = vec![title.finish()];
        for (signal, url) in &self.destinations {
            lines.extend(columns.pair(signal, (Ink::PLAIN.bold(), url), look));
        }
        lines.push(columns.heads(look));
        lines.extend(self.rows.iter().flat_map(|row| columns.row(row, look)));
        lines
    }
}

/// Where the columns of the tables begin, the same for all of them.
struct Columns {
    value: usize,
    /// `None`: in a line of its own.
    from: Option<usize>,
}

impl Columns {
    fn for_all(tables: &[Table], look: &Look) -> Self {
        let widest = |cell: fn(&Row) -> &str| {
            let rows = tables.iter().flat_map(|table| &table.rows);
            rows.map(|row| look.width_of(cell(row))).max().unwrap_or(0)
        };
        let value = GAP + widest(|row| &row.key).max("key".len()) + GAP;
        let room = look.width.saturating_sub(value + GAP + widest(|row| &row.from));
        if room < LEAST_VALUE && look.width < NARROW {
            return Self { value, from: None };
        }
        let width = widest(|row| &row.value).clamp("value".len(), room.max(LEAST_VALUE));
        Self { value, from: Some(value + width + GAP) }
    }

    fn heads(&self, look: &Look) -> String {
        let mut line = look.line();
        line.pad_to(GAP).put(Ink::FAINT, "key").pad_to(self.value).put(Ink::FAINT, "value");
        if let Some(column) = self.from {
            line.pad_to(column).put(Ink::FAINT, "from");
        }
        line.finish()
    }

    fn row(&self, row: &Row, look: &Look) -> Vec<String> {
        let ink = if row.is_default { Ink::FAINT } else { Ink::PLAIN };
        if let Some(column) = self.from {
            let mut line = look.line();
            line.pad_to(GAP).put(Ink::PLAIN, &row.key).pad_to(self.value);
            line.put_within(ink, &row.value, column - self.value - GAP).pad_to(column);
            line.put(Ink::FAINT, &row.from);
            return vec![line.finish()];
        }
        let mut lines = self.pair(&row.key, (ink, &row.value), look);
        if !row.is_default {
            lines.push(below(Ink::FAINT, &format!("from {}", row.from), look));
        }
        lines
    }

    /// A key and its value, which is never cut; where it would not fit it has a line of its own.
    fn pair(&self, key: &str, (ink, value): (Ink, &str), look: &Look) -> Vec<String> {
        let mut line = look.line();
        line.pad_to(GAP).put(Ink::PLAIN, key);
        if self.from.is_none() && self.value + look.width_of(value) > look.width {
            return vec![line.finish(), below(ink, value, look)];
        }
        line.pad_to(self.value).put(ink, value);
        vec![line.finish()]
    }
}

fn below(ink: Ink, text: &str, look: &Look) -> String {
    let mut line = look.line();
    line.pad_to(GAP + GAP).put(ink, text);
    line.finish()
}

#[cfg(test)]
mod tests;
