//! The outcome of a configuration, as lines to compare with the expected lines of a table's row.

use std::collections::BTreeSet;
use std::fmt::Display;

use standpipe::config::{DiagnosticSeverity, ExporterSummary, Setting, SummaryValue};
use standpipe::{Config, ConfigError};

/// The value of every secret in these tests.
const SECRET: &str = "hunter2";

/// | line | meaning |
/// |---|---|
/// | `exporters = a, b` | the ids of exporters that can be started, or `none` |
/// | `timeout = 10s` | a setting of the only exporter; with several exporters `id/timeout = 10s`, or `route/…` |
/// | `timeout from default` | the origin of a setting |
/// | `traces → http://…` | the destination of a signal |
/// | `check sampling = 100` | a field of the JSON summary |
/// | `service-name = shop` | a setting of all exporters |
///
/// A row states `resource absent` for a line that must be missing.
#[derive(Debug)]
pub(crate) struct Outcome {
    settings: BTreeSet<String>,
    diagnostics: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(read: Result<Config, ConfigError>) -> Self {
        let (config, diagnostics) = match read {
            Ok(config) => {
                let diagnostics = config.diagnostics().to_vec();
                (config, diagnostics)
            }
            Err(error) => {
                let diagnostics = error.diagnostics().to_vec();
                (error.into_usable(), diagnostics)
            }
        };
        let told = diagnostics.iter().map(|diagnostic| {
            let weight = if diagnostic.severity == DiagnosticSeverity::Error { "error: " } else { "" };
            format!("{weight}{diagnostic}").replace("<toml>:", "").replace("<yaml>:", "")
        });
        let outcome = Self { settings: settings_of(&config), diagnostics: told.collect() };
        let everything = format!("{outcome:?} {config:?} {diagnostics:?}");
        assert!(!everything.contains(SECRET), "a secret is seen: {everything}");
        outcome
    }

    /// Removes the locations of diagnostics, for rows whose locations differ between the formats.
    pub(crate) fn without_places(mut self) -> Self {
        for diagnostic in &mut self.diagnostics {
            if let Some((weight, (_, rest))) =
                diagnostic.split_once(": ").and_then(|(weight, rest)| Some((weight, place_of(rest)?)))
            {
                *diagnostic = format!("{weight}: {rest}");
            }
        }
        self
    }

    /// Returns the outcome as lines, so that a child process can report it. [`Self::from_lines`] parses them.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.diagnostics.iter().chain(&self.settings).cloned().collect()
    }

    pub(crate) fn from_lines(lines: Vec<String>) -> Self {
        let (diagnostics, settings) = lines.into_iter().partition(|line| is_diagnostic(line));
        Self { diagnostics, settings: BTreeSet::from_iter::<Vec<String>>(settings) }
    }

    /// Compares with the lines of a row. Other settings are ignored. The error shows what differs.
    pub(crate) fn compare(&self, expected: &[&str]) -> Result<(), String> {
        let (diagnostics, settings): (Vec<&str>, Vec<&str>) =
            expected.iter().partition(|line| is_diagnostic(line));
        let mut settings: Vec<String> = settings.into_iter().map(str::to_owned).collect();
        let says_who_starts = settings.iter().any(|line| line.starts_with("exporters = "));
        if diagnostics.iter().any(|line| line.starts_with("error: ")) && !says_who_starts {
            // Unless the row names exporters, its error must keep every exporter from starting.
            settings.push("exporters = none".to_owned());
        }
        settings.retain(|line| match line.strip_suffix(" absent") {
            Some(key) => self.settings.iter().any(|other| other.starts_with(&format!("{key} = "))),
            None => !self.settings.contains(line),
        });
        if self.diagnostics == diagnostics && settings.is_empty() {
            return Ok(());
        }
        let mut difference = String::new();
        if self.diagnostics != diagnostics {
            difference += &format!("expected {diagnostics:#?}\nfound    {:#?}\n", self.diagnostics);
        }
        for line in settings {
            let key = line.split([' ', '=']).next().unwrap_or_default();
            let found: Vec<&String> = self.settings.iter().filter(|other| other.contains(key)).collect();
            difference += &format!("expected {line}\nfound    {found:#?}\n");
        }
        Err(difference)
    }
}

fn is_diagnostic(line: &str) -> bool {
    ["error: ", "warning: ", "note: "].iter().any(|weight| line.starts_with(weight))
}

/// Splits `line:column: rest`.
fn place_of(text: &str) -> Option<(&str, &str)> {
    let (place, rest) = text.split_once(": ")?;
    let (line, column) = place.split_once(':')?;
    (line.parse::<u32>().is_ok() && column.parse::<u32>().is_ok()).then_some((place, rest))
}

fn settings_of(config: &Config) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let summaries = config.summaries();
    let ids: Vec<&str> = summaries.iter().map(|summary| summary.id.as_str()).collect();
    lines.insert(format!("exporters = {}", if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }));
    for setting in config.effective() {
        add(&mut lines, "", &setting);
    }
    for (exporter, summary) in config.exporters().iter().zip(&summaries) {
        let prefix = match ids.len() {
            1 => String::new(),
            _ => format!("{}/", exporter.provider().map_or(&*summary.id, |route| route.name())),
        };
        for setting in exporter.effective() {
            add(&mut lines, &prefix, &setting);
        }
        for (signal, url) in &summary.endpoints {
            lines.insert(format!("{prefix}{signal} → {url}"));
        }
        lines.extend(
            summary_of(summary).into_iter().map(|(key, value)| format!("{prefix}check {key} = {value}")),
        );
    }
    lines
}

fn add(lines: &mut BTreeSet<String>, prefix: &str, setting: &Setting) {
    let Setting { key, value, source, .. } = setting;
    lines.insert(format!("{prefix}{key} = {value}"));
    lines.insert(format!("{prefix}{key} from {source}").replace("<toml>:", "").replace("<yaml>:", ""));
}

fn summary_of(summary: &ExporterSummary) -> [(&'static str, String); 13] {
    let setting = |name| match summary.setting(name) {
        SummaryValue::Text(text) => (name, text.clone()),
        value => (name, serde_json::to_string(value).unwrap()),
    };
    [
        ("id", summary.id.clone()),
        ("signals", summary.signals.join(", ")),
        ("transport", summary.transport.to_owned()),
        ("tls", summary.tls.to_string()),
        ("headers", summary.headers.join(", ")),
        setting("level"),
        setting("throttle_ms"),
        setting("lossy"),
        setting("timeout_ms"),
        setting("interval_ms"),
        ("service_name", summary.service_name.clone()),
        ("sampling", summary.sampling.to_string()),
        ("route", or_null(summary.route)),
    ]
}

fn or_null(value: Option<impl Display>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}
