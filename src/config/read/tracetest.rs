//! Reads sections in the layout of Tracetest and Qualitytrace: `telemetry.exporters.<name>` describes an exporter and
//! its provider, and `server.telemetry` selects exporters. Variables that begin with `TRACETEST_` replace values of
//! such files.

use std::collections::HashSet;
use std::time::Duration;

use super::Found;
use super::program::{self, given};
use super::table::{BELOW_IT, Report, SectionReader};
use crate::config::env::Variables;
use crate::config::error::Fault;
use crate::config::node::{Field, Node, Tree};
use crate::config::provider::Sampler;
use crate::config::read::value;
use crate::config::section::{CHOICES, EXPORTERS, PROGRAM_KEYS, PROVIDER_KEYS, SERVER, Section, TELEMETRY};
use crate::config::settings::{SIGNALS, TRANSPORT, rows};
use crate::config::text::{dotted, quoted, shown};
use crate::config::{Exporter, ProviderName, SettingSource, Signals, Transport};
use crate::record::Signal;

/// Default interval of metric exports in this layout. Other exporters have another default.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// Advice for a key that is written directly in `telemetry` but belongs to an exporter.
const MISPLACED_ADVICE: &str =
    "write it in [tracer.<id>], [metrics.open-telemetry] or telemetry.exporters.<name>";

/// A provider, and the name of its exporter.
struct Choice<'t> {
    provider: ProviderName,
    key: &'static str,
    at: usize,
    exporter: value::Text<'t>,
}

impl Found<'_> {
    /// Reads the providers of a document. Exporters that are not selected are not checked. The program's own provider
    /// keeps the values that `read_program` has set from `telemetry`; the application's provider begins with defaults.
    pub(super) fn read_providers(&mut self, root: &Node) {
        let described = self.described(root);
        let choices = self.choices(root);
        self.report_idle(described, &choices);
        for choice in choices {
            self.read_provider(&choice, described);
        }
    }

    fn described<'t>(&mut self, root: &'t Node) -> &'t [Field] {
        let Some(telemetry) = self.table(root, &EXPORTERS[..1]) else { return &[] };
        let known = [&EXPORTERS[1..], &PROGRAM_KEYS].concat();
        let is_of_exporter = |field: &&Field| {
            ["tracer", "metrics"].contains(&&*field.name) || rows().any(|row| row.key == field.name)
        };
        let (misplaced, others): (Vec<_>, Vec<_>) = telemetry.iter().partition(is_of_exporter);
        for field in misplaced {
            let key = dotted(&[EXPORTERS[0], &field.name]);
            self.report.warning(field.at, key, Fault::new("not a key of the program", MISPLACED_ADVICE));
        }
        self.warn_of_unknown(others.into_iter(), &EXPORTERS[..1], &known);
        self.table(root, &EXPORTERS).unwrap_or_default()
    }

    fn choices<'t>(&mut self, root: &'t Node) -> Vec<Choice<'t>> {
        let Some(fields) = self.table(root, &SERVER) else { return Vec::new() };
        self.warn_of_unknown(fields.iter(), &SERVER, &CHOICES.map(|(key, _)| key));
        let mut choices = Vec::new();
        for (key, provider) in CHOICES {
            let Some(field) = given(fields, key) else { continue };
            let (node, advice) = (&field.node, "write the name of an exporter below telemetry.exporters");
            match value::text(node, self.report.resolver, advice) {
                Ok(exporter) => choices.push(Choice { provider, key, at: node.at, exporter }),
                Err(fault) => {
                    self.report.lone_error(node.at, dotted(&[&SERVER[..], &[key]].concat()), fault);
                }
            }
        }
        choices
    }

    fn read_provider(&mut self, choice: &Choice<'_>, described: &[Field]) -> Option<()> {
        let field = self.chosen(choice, described)?;
        let section = Section::Exporter(field.name.clone());
        let mut exporter = self.exporter(&section, field)?;
        let (provider, signals): (_, &[Signal]) = match choice.provider {
            ProviderName::Internal => (&mut self.config.main, &[Signal::Traces, Signal::Metrics]),
            ProviderName::Application => (&mut self.config.application, &[Signal::Traces]),
        };
        // In Tracetest's files, a missing `sampling` means that all traces are recorded, regardless of the parent.
        if provider.sampler_source == SettingSource::Default {
            provider.set_sampler(Sampler::trace_id_ratio(1.0), Some(100.0), SettingSource::Default);
        }
        let fields = field.node.as_table().unwrap_or_default();
        program::read_provider(fields, PROVIDER_KEYS, Some(&section), provider, &mut self.report);
        exporter.assign(choice.provider);
        exporter.signals = Signals::of(signals);
        exporter.record(&SIGNALS, self.report.source(choice.at), None);
        self.exporters.push((choice.at, section, exporter));
        Some(())
    }

    /// Returns the exporter with every valid setting, and reports the others. `None` if the value is not a table.
    fn exporter(&mut self, section: &Section, field: &Field) -> Option<Exporter> {
        let declared = self.report.places.location(field.at);
        let mut exporter = Exporter::of_tracetest(section.exporter_id(), dotted(&section.path()), declared);
        exporter.reader.interval = DEFAULT_INTERVAL;
        exporter.set_transport(Transport::Grpc);
        let mut reader = SectionReader::new(section, field, &mut self.report)?;
        let (key, advice) = section.spelling(&TRANSPORT);
        if reader.find(key).is_none_or(|entry| entry.node.value == Tree::Null) {
            reader.missing(key, advice);
        }
        reader.settings(&mut exporter);
        // As in Tracetest, an endpoint without a scheme is plaintext.
        exporter.connection.insecure = Some(true);
        Some(exporter)
    }

    /// Returns the exporter with exactly this name, or else one whose name differs only in case.
    fn chosen<'t>(&mut self, choice: &Choice<'_>, described: &'t [Field]) -> Option<&'t Field> {
        let wanted = &choice.exporter.text;
        let exactly = described.iter().find(|field| field.name == *wanted);
        let nearly = || described.iter().find(|field| is_alike(&field.name, wanted));
        let found = exactly.or_else(nearly);
        if found.is_none() {
            let fix = match described.is_empty() {
                true => "describe it below telemetry.exporters".to_owned(),
                false => format!("write one of {}", listed(described)),
            };
            let what = format!("there is no exporter {}", quoted(choice.exporter.written));
            let path = dotted(&[&SERVER[..], &[choice.key]].concat());
            // The error must not disable the other provider.
            self.report.lone_error(choice.at, path, Fault::new(what, fix));
        }
        found
    }

    /// Returns the table at a path below the root; null counts as absent.
    fn table<'t>(&mut self, root: &'t Node, path: &[&str]) -> Option<&'t [Field]> {
        let mut node = root;
        for (depth, name) in path.iter().enumerate() {
            node = &given(node.as_table()?, name)?.node;
            if node.as_table().is_none() {
                // `server` may belong to another program; only `server.telemetry` is ours.
                if path[..=depth] != SERVER[..1] {
                    let (path, fault) = (dotted(&path[..=depth]), value::wrong_type(node, BELOW_IT));
                    self.report.error(Some(&Section::Server), node.at, path, fault);
                }
                return None;
            }
        }
        node.as_table()
    }

    fn warn_of_unknown<'t>(
        &mut self,
        fields: impl Iterator<Item = &'t Field>,
        path: &[&str],
        known: &[&str],
    ) {
        for field in fields.filter(|field| !known.contains(&field.name.as_str())) {
            let key = dotted(&[path, &[&field.name]].concat());
            self.report.unknown_key(field.at, key, &field.name, known);
        }
    }

    /// Reports exporters that are described but not selected, because the selection is easily forgotten.
    fn report_idle(&mut self, described: &[Field], choices: &[Choice<'_>]) {
        let is_idle = |field: &&Field| !choices.iter().any(|it| is_alike(&field.name, &it.exporter.text));
        for field in described.iter().filter(is_idle) {
            let path = dotted(&[&EXPORTERS[..], &[&field.name]].concat());
            let what = "not started: server.telemetry does not choose it";
            if choices.is_empty() {
                let fix = format!("write {} as server.telemetry.exporter", shown(&field.name));
                self.report.warning(field.at, path, Fault::new(what, fix));
            } else {
                self.report.note(field.at, path, what);
            }
        }
    }
}

/// Returns whether two names are equal except for case.
fn is_alike(one: &str, other: &str) -> bool {
    one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}

/// Lists the first names in alphabetical order, and how many more there are.
fn listed(fields: &[Field]) -> String {
    const MAX_LISTED: usize = 20;
    let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    names.sort_unstable();
    let mut shown: Vec<String> = names.iter().take(MAX_LISTED).map(|name| quoted(name)).collect();
    if names.len() > MAX_LISTED {
        shown.push(format!("{} more", names.len() - MAX_LISTED));
    }
    shown.join(", ")
}

/// Prefix of variables that replace values, and the sections whose values can be replaced.
const PREFIX: &str = "TRACETEST";
const REPLACED: [(&[&str], &str); 2] =
    [(&[TELEMETRY], "TRACETEST_TELEMETRY_"), (&SERVER, "TRACETEST_SERVER_TELEMETRY_")];

/// Replaces values below `telemetry` and `server.telemetry` with those of variables. A variable is named after the
/// path of its value: `TRACETEST_SERVER_TELEMETRY_EXPORTER`. Reports variables for which the file has no key.
pub(super) fn apply_overrides(root: &mut Node, variables: &Variables, report: &mut Report<'_>) {
    let mut used = HashSet::new();
    report.replace(root, PREFIX, variables, &mut used);
    for (path, prefix) in REPLACED {
        let is_unused =
            |name: &&str| root.at(path).is_some() && name.starts_with(prefix) && !used.contains(*name);
        for unused in variables.names().filter(is_unused) {
            let fix = "write the key in the file, or unset it";
            report.ignore(unused, Fault::new("the file has no such key", fix));
        }
    }
}

impl Report<'_> {
    fn replace(&mut self, node: &mut Node, name: &str, variables: &Variables, used: &mut HashSet<String>) {
        match &mut node.value {
            Tree::Table(fields) => {
                // Skips tables for which no variable exists, because a document may have many long names.
                if !variables.names().any(|known| known.starts_with(name)) {
                    return;
                }
                for field in fields {
                    // The name of a shell variable has only ASCII letters, digits and `_`.
                    let part =
                        field.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_ascii_uppercase();
                    self.replace(&mut field.node, &format!("{name}_{part}"), variables, used);
                }
            }
            Tree::List(_) => {}
            value if REPLACED.iter().any(|(_, prefix)| name.starts_with(prefix)) => {
                let Some(given) = variables.get(name) else { return };
                used.insert(name.to_owned());
                match given {
                    Ok(text) => {
                        *value = Tree::Text(text.to_owned());
                        self.replaced.insert(node.at, name.to_owned());
                    }
                    Err(not_utf8) => self.ignore(name, not_utf8),
                }
            }
            _ => {}
        }
    }
}
