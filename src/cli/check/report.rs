//! Draws the settings in a section for each exporter, then each problem with the line of the file that causes it.

use std::fs;

use standpipe::Exporter;
use standpipe::config::{Diagnostic, DiagnosticSeverity, ProviderName, Setting, SettingSource};

use super::Subject;
use super::examine::{Examined, SERVICE_NAME};
use crate::cli::describe;
use crate::cli::snippet::Syntax;
use crate::cli::style::{Ink, Style};
use crate::cli::table::{self, Column, GAP, Table, Text};

/// Minimum width of the column of values.
const MIN_VALUE: usize = 10;
/// On a terminal narrower than this, the origin of a value gets a separate line if it does not fit next to the value.
const NARROW: usize = 72;

/// The library's advice for a file with too many syntax errors to be a configuration.
const NO_TOML: &str = "is this a TOML file?";
/// Maximum number of syntax errors shown for a file with the advice [`NO_TOML`].
const MAX_OF_GARBAGE: usize = 3;

/// Advice for an environment without exporters.
const ADVICE: [&str; 2] = [
    "no exporter: OTEL_TRACES_EXPORTER, OTEL_LOGS_EXPORTER and OTEL_METRICS_EXPORTER are all none",
    "to write a file with all variables: standpipe init env",
];

/// Draws the sections, then the problems. Unless `all`, an exporter's settings with default values are only counted. An
/// empty line follows each section and each problem.
pub(super) fn draw(subject: &Subject, examined: &Examined, all: bool, style: &Style) -> Vec<String> {
    let (mut sections, diagnostics) = (sections(examined), &examined.diagnostics);
    for section in sections.iter_mut().filter(|_| !all) {
        // The service name is shown even if it has its default value, because every user should set it.
        let before = section.settings.len();
        section.settings.retain(is_telling);
        section.folded = before - section.settings.len();
    }
    let mut lines = draw_sections(&sections, style);
    let source = Source::of(subject, &examined.handed_in);
    let (of_all, of_lines): (Vec<&Diagnostic>, Vec<_>) =
        diagnostics.iter().partition(|diagnostic| diagnostic.fix == NO_TOML);
    let most = if of_all.is_empty() { of_lines.len() } else { MAX_OF_GARBAGE.min(of_lines.len()) };
    for diagnostic in of_all.iter().chain(&of_lines[..most]) {
        lines.extend(source.draw(diagnostic, style));
        lines.push(String::new());
    }
    if most < of_lines.len() {
        lines.extend([format!("and {} more", of_lines.len() - most), String::new()]);
    }
    // An empty file needs no advice here, because the library reports it as a diagnostic.
    if *subject == Subject::Environment && sections.is_empty() && diagnostics.is_empty() {
        lines.extend(ADVICE.map(str::to_owned));
        lines.push(String::new());
    }
    lines
}

/// Settings of one exporter, or settings that several exporters share.
#[derive(Debug)]
struct Section {
    /// Kind of the section, and the name of the exporter; the name is empty for shared settings.
    title: (String, String),
    /// Signals and their endpoints.
    destinations: Vec<(String, String)>,
    settings: Vec<Setting>,
    /// Number of settings that are not shown, because they have their default values.
    folded: usize,
}

fn is_telling(setting: &Setting) -> bool {
    setting.source != SettingSource::Default || setting.key == SERVICE_NAME
}

/// Returns the sections: the settings of all exporters; then, for each provider with exporters, its shared settings and
/// each of its exporters. The output calls a provider a route.
fn sections(examined: &Examined) -> Vec<Section> {
    let (internal, application) = (ProviderName::Internal, ProviderName::Application);
    let has_routes = examined.exporters.iter().any(|(exporter, _)| exporter.provider().is_some());
    let exporters_of = |route| {
        let is_its = move |(exporter, _): &&(Exporter, _)| {
            (exporter.provider() == Some(application)) == (route == application)
        };
        examined.exporters.iter().filter(is_its).collect::<Vec<_>>()
    };
    let all = "all exporters";
    let groups = match has_routes {
        // If no exporter names a provider, one group has all settings and exporters.
        false => vec![(all, "", vec![None, Some(internal), Some(application)], exporters_of(internal))],
        true => vec![
            (all, "", vec![None], Vec::new()),
            ("internal route", "internal route, ", vec![Some(internal)], exporters_of(internal)),
            ("application route", "application route, ", vec![Some(application)], exporters_of(application)),
        ],
    };
    let mut sections = Vec::new();
    for (title, before, scopes, exporters) in groups {
        if exporters.is_empty() && !scopes.contains(&None) {
            continue;
        }
        // A shared setting with its default value is shown only if it is the service name and the group has exporters.
        let is_shown = |setting: &Setting| {
            is_telling(setting) && (setting.source != SettingSource::Default || !exporters.is_empty())
        };
        let general = examined.general.iter().filter(|(scope, _)| scopes.contains(scope)).map(|(_, it)| it);
        let settings: Vec<_> = general.filter(|it| is_shown(it)).cloned().collect();
        if !settings.is_empty() {
            let title = (title.to_owned(), String::new());
            sections.push(Section { title, destinations: Vec::new(), settings, folded: 0 });
        }
        sections.extend(exporters.into_iter().map(|(exporter, summary)| {
            let endpoints = exporter.endpoints().into_iter();
            let destinations = endpoints.map(|(signal, url)| (signal.name().to_owned(), url)).collect();
            let title = (format!("{before}exporter "), summary.id.clone());
            Section { title, destinations, settings: exporter.effective(), folded: 0 }
        }));
    }
    sections
}

fn draw_sections(sections: &[Section], style: &Style) -> Vec<String> {
    let columns = Columns::for_all(sections, style);
    let mut lines = Vec::new();
    for Section { title: (kind, name), destinations, settings, folded } in sections {
        lines.push(style.line().put(Ink::FAINT, kind).put(Ink::PLAIN.bold(), name).finish());
        for (signal, url) in destinations {
            lines.extend(columns.pair(signal, (Ink::PLAIN.bold(), url)));
        }
        if !settings.is_empty() {
            lines.push(columns.layout.row(["key", "value", "from"].map(|head| Text::new(Ink::FAINT, head))));
        }
        lines.extend(settings.iter().flat_map(|setting| columns.row(setting)));
        if *folded > 0 {
            let defaults =
                format!("{} at their defaults; see --all", describe::count(*folded as u64, "setting"));
            lines.push(style.line().pad_to(GAP).put_rest(Ink::FAINT, &defaults).finish());
        }
        lines.push(String::new());
    }
    lines
}

/// Columns of all sections.
struct Columns<'a> {
    style: &'a Style,
    /// Key, value and origin. On a narrow terminal, the origin is left out of the table if it does not fit.
    layout: Table<'a>,
    /// Column in which the values begin.
    value: usize,
}

impl<'a> Columns<'a> {
    fn for_all(sections: &[Section], style: &'a Style) -> Self {
        let widest = |head: &str, cell: fn(&Setting) -> String| {
            let settings = sections.iter().flat_map(|section| &section.settings);
            table::widest(settings.map(cell), style).max(head.len())
        };
        let key = widest("key", |setting| setting.key.to_owned());
        let from = Column::cut(widest("", |setting| setting.source.to_string())).uncut();
        let from = if style.width < NARROW { from.optional() } else { from };
        let value = Column::between(MIN_VALUE, widest("value", |setting| setting.value.clone()));
        let layout = Table::new(style, GAP, [Column::cut(key).uncut(), value, from]);
        Self { style, layout, value: GAP + key + GAP }
    }

    fn row(&self, Setting { key, value, source, .. }: &Setting) -> Vec<String> {
        let is_default = *source == SettingSource::Default;
        let ink = if is_default { Ink::FAINT } else { Ink::PLAIN };
        let from = source.to_string();
        if self.layout.is_complete() {
            let texts = [(Ink::PLAIN, *key), (ink, value), (Ink::FAINT, &from)];
            return vec![self.layout.row(texts.map(|(ink, text)| Text::new(ink, text)))];
        }
        let mut lines = self.pair(key, (ink, value));
        if !is_default {
            lines.push(self.below(Ink::FAINT, &format!("from {from}")));
        }
        lines
    }

    /// Draws a key and its value, uncut. On a narrow terminal, a value that does not fit gets a separate line.
    fn pair(&self, key: &str, (ink, value): (Ink, &str)) -> Vec<String> {
        let mut line = self.style.line();
        line.pad_to(GAP).put(Ink::PLAIN, key);
        if self.style.width < NARROW && self.value + self.style.width_of(value) > self.style.width {
            return vec![line.finish(), self.below(ink, value)];
        }
        vec![line.pad_to(self.value).put(ink, value).finish()]
    }

    fn below(&self, ink: Ink, text: &str) -> String {
        self.style.line().pad_to(GAP + GAP).put(ink, text).finish()
    }
}

/// Text of the configuration, for quotations.
struct Source {
    /// Text of the file or of standard input; empty for the environment, and for a file that cannot be read again.
    text: String,
    syntax: Syntax,
}

impl Source {
    fn of(subject: &Subject, handed_in: &str) -> Self {
        let (text, syntax) = match subject {
            // A pipe cannot be read twice: the second read would block.
            Subject::File(file) if file.is_file() => {
                (fs::read_to_string(file).unwrap_or_default(), Syntax::of(file))
            }
            Subject::Stdin => (handed_in.to_owned(), Syntax::guess(handed_in)),
            Subject::File(_) | Subject::Environment => (String::new(), Syntax::default()),
        };
        Self { text, syntax }
    }

    fn draw(&self, diagnostic: &Diagnostic, style: &Style) -> Vec<String> {
        let Diagnostic { severity, location, key, what, fix, .. } = diagnostic;
        let mut title = style.line();
        let (severity, ink) = shown(*severity);
        title.put(ink, severity).put(Ink::PLAIN, ": ");
        if !key.is_empty() {
            title.put(Ink::PLAIN.bold(), key).put(Ink::PLAIN, ": ");
        }
        let mut lines = vec![title.put(Ink::PLAIN, what).finish()];
        let margin = location.as_ref().map_or(1, |location| location.line.to_string().len());
        let marked = |mark, text: &str| {
            style.line().pad_to(margin).put(Ink::FAINT, mark).space(1).put(Ink::PLAIN, text).finish()
        };
        if let Some(location) = location {
            lines.push(marked("-->", &location.to_string()));
            let place = (location.line, location.column);
            let is_of_headers = key.split('.').any(|part| part.starts_with("headers"));
            if let Some((line, caret)) = self.syntax.quote(&self.text, place, is_of_headers) {
                let number = format!("{} | ", location.line);
                lines.push(style.line().space(1).put(Ink::FAINT, &number).put(Ink::PLAIN, &line).finish());
                // `caret` counts characters, but an escaped character is several cells wide.
                let caret = style.width_of(&line.chars().take(caret).collect::<String>());
                let mut mark = style.line();
                mark.space(1 + margin).put(Ink::FAINT, " |").space(1 + caret).put(ink, "^");
                lines.push(mark.finish());
            }
        }
        if !fix.is_empty() {
            lines.push(marked("  =", fix));
        }
        lines
    }
}

/// Returns the severity as a word, and its ink.
pub(super) fn shown(severity: DiagnosticSeverity) -> (&'static str, Ink) {
    match severity {
        DiagnosticSeverity::Error => ("error", Ink::BAD.bold()),
        DiagnosticSeverity::Warning => ("warning", Ink::WARNING.bold()),
        _ => ("note", Ink::FAINT.bold()),
    }
}

#[cfg(test)]
mod tests;
