//! Reads the sections of Tracetest and Qualitytrace: `telemetry.exporters.<name>` is an exporter with its provider, and
//! `server.telemetry` chooses among them. The variables `TRACETEST_…` replace values of such files.

use std::collections::HashSet;
use std::time::Duration;

use super::program::{self, given};
use super::section::Report;
use crate::config::env::Variables;
use crate::config::error::Fault;
use crate::config::node::{Field, Node, Tree};
use crate::config::read::value;
use crate::config::sampler::Sampler;
use crate::config::section::{CHOICES, EXPORTERS, OF_PROGRAM, OF_PROVIDER, SERVER, Section};
use crate::config::settings::kind::{Kind, SettingValue};
use crate::config::settings::{SIGNALS, SettingRow, TRANSPORT, TracetestSpelling, rows};
use crate::config::text::{dotted, quoted, shown};
use crate::config::{Exporter, ProviderName, ProviderSettings, SettingSource, Signals, Transport};
use crate::record::Signal;

/// The one type of exporter that all of these programs know.
const COLLECTOR: &str = "collector";

/// What such a file leaves open is its own default, not ours.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// What to do about a key of an exporter that stands beside those of the program.
const OF_EXPORTER: &str = "write it in [tracer.<id>], [metrics.open-telemetry] or telemetry.exporters.<name>";

/// What to do about something that is no table.
const BELOW_IT: &str = "write its keys below it";

/// A provider that is configured.
pub(super) struct ChosenProvider {
    /// Where it was chosen.
    pub(super) at: usize,
    pub(super) name: ProviderName,
    pub(super) section: Section,
    pub(super) settings: ProviderSettings,
    pub(super) exporter: Exporter,
}

/// The providers that a document describes; what is wrong with exporters that are not chosen does not matter.
/// The program's own provider begins with what is said of the `program`; the application's has nothing of it.
pub(super) fn read(root: &Node, report: &mut Report<'_>, program: &ProviderSettings) -> Vec<ChosenProvider> {
    let mut reader = ProviderReader { report, program };
    let exporters = reader.exporters(root);
    let choices = reader.choices(root);
    reader.report_idle(exporters, &choices);
    choices.iter().filter_map(|choice| reader.provider(choice, exporters)).collect()
}

struct ProviderReader<'r, 'd> {
    report: &'r mut Report<'d>,
    program: &'r ProviderSettings,
}

/// That a provider uses the exporter of a name.
struct Choice<'t> {
    provider: ProviderName,
    key: &'static str,
    at: usize,
    exporter: value::Text<'t>,
}

impl ProviderReader<'_, '_> {
    fn exporters<'t>(&mut self, root: &'t Node) -> &'t [Field] {
        let Some(telemetry) = self.table(root, &EXPORTERS[..1]) else {
            return &[];
        };
        let known = [&EXPORTERS[1..], &OF_PROGRAM].concat();
        let is_of_exporter = |field: &&Field| {
            ["tracer", "metrics"].contains(&&*field.name) || rows().any(|row| row.key == field.name)
        };
        let (misplaced, others): (Vec<_>, Vec<_>) = telemetry.iter().partition(is_of_exporter);
        for field in misplaced {
            let key = dotted(&[EXPORTERS[0], &field.name]);
            self.report.warning(field.at, key, Fault::new("not a key of the program", OF_EXPORTER));
        }
        warn_of_unknown(self.report, others, &EXPORTERS[..1], &known);
        self.table(root, &EXPORTERS).unwrap_or_default()
    }

    fn choices<'t>(&mut self, root: &'t Node) -> Vec<Choice<'t>> {
        let Some(fields) = self.table(root, &SERVER) else {
            return Vec::new();
        };
        warn_of_unknown(self.report, fields, &SERVER, &CHOICES.map(|(key, _)| key));
        let mut choices = Vec::new();
        for (key, provider) in CHOICES {
            let Some(field) = given(fields, key) else { continue };
            match value::text(&field.node, self.report.surroundings) {
                Ok(exporter) => choices.push(Choice { provider, key, at: field.node.at, exporter }),
                Err(unusable) => {
                    let path = dotted(&[&SERVER[..], &[key]].concat());
                    let advice = "write the name of an exporter below telemetry.exporters";
                    let fault = unusable.into_fault(&field.node, advice);
                    self.report.lone_error(field.node.at, path, fault);
                }
            }
        }
        choices
    }

    fn provider(&mut self, choice: &Choice<'_>, exporters: &[Field]) -> Option<ChosenProvider> {
        let field = self.chosen(choice, exporters)?;
        let section = Section::Exporter(field.name.clone());
        let reader = ExporterReader { section: &section, declared_at: field.at, report: self.report };
        let settings = match choice.provider {
            ProviderName::Internal => self.program.clone(),
            ProviderName::Application => ProviderSettings::default(),
        };
        let (mut exporter, settings) = reader.read(&field.node, settings)?;
        exporter.assign(choice.provider);
        self.choose_signals(choice, &mut exporter);
        Some(ChosenProvider { at: choice.at, name: choice.provider, section, settings, exporter })
    }

    /// The exporter of exactly this name, or else of this name in another case.
    fn chosen<'t>(&mut self, choice: &Choice<'_>, exporters: &'t [Field]) -> Option<&'t Field> {
        let wanted = &choice.exporter.text;
        let exactly = exporters.iter().find(|field| field.name == *wanted);
        let nearly = || exporters.iter().find(|field| is_alike(&field.name, wanted));
        let found = exactly.or_else(nearly);
        if found.is_none() {
            let fix = match exporters.is_empty() {
                true => "describe it below telemetry.exporters".to_owned(),
                false => format!("write one of {}", listed(exporters)),
            };
            let what = format!("there is no exporter {}", quoted(choice.exporter.written));
            let path = dotted(&[&SERVER[..], &[choice.key]].concat());
            // the other provider has nothing to do with it
            self.report.lone_error(choice.at, path, Fault::new(what, fix));
        }
        found
    }

    fn choose_signals(&mut self, choice: &Choice<'_>, exporter: &mut Exporter) {
        exporter.signals = match choice.provider {
            ProviderName::Internal => Signals::of(&[Signal::Traces, Signal::Metrics]),
            ProviderName::Application => Signals::of(&[Signal::Traces]),
        };
        exporter.record(&SIGNALS, self.report.source(choice.at), None);
    }

    /// The table at a path below the root; what is null is as good as absent.
    fn table<'t>(&mut self, root: &'t Node, path: &[&str]) -> Option<&'t [Field]> {
        let mut node = root;
        for (depth, name) in path.iter().enumerate() {
            node = &given(node.as_table()?, name)?.node;
            if node.as_table().is_none() {
                // `server` may be anything: only what is below it is ours
                if path[..=depth] != SERVER[..1] {
                    let path = dotted(&path[..=depth]);
                    self.report.wrong_type(Some(&Section::Server), path, node, BELOW_IT);
                }
                return None;
            }
        }
        node.as_table()
    }

    /// Exporters that are described and never used: mostly the choice was forgotten.
    fn report_idle(&mut self, exporters: &[Field], choices: &[Choice<'_>]) {
        for field in exporters {
            if choices.iter().any(|choice| is_alike(&field.name, &choice.exporter.text)) {
                continue;
            }
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

/// Reads one exporter that a provider has chosen.
struct ExporterReader<'r, 'd> {
    section: &'r Section,
    declared_at: usize,
    report: &'r mut Report<'d>,
}

impl<'r> ExporterReader<'r, '_> {
    /// The exporter, and what is its provider's; `None` if it is no table. What cannot be taken over is reported.
    fn read(mut self, node: &Node, settings: ProviderSettings) -> Option<(Exporter, ProviderSettings)> {
        let path = dotted(&self.section.path());
        let Some(fields) = node.as_table() else {
            self.report.wrong_type(Some(self.section), path, node, BELOW_IT);
            return None;
        };
        let declared = self.report.location(self.declared_at);
        let mut exporter = Exporter::of_tracetest(self.section.exporter_id(), path, declared);
        exporter.reader.interval = DEFAULT_INTERVAL;
        exporter.set_transport(Transport::Grpc);
        let provider = self.provider(fields, settings);
        let has_type = given(fields, "exporter").is_some_and(|exporter| {
            exporter.node.as_table().is_some_and(|fields| given(fields, "type").is_some())
        });
        if !has_type {
            let fault = Fault::new("missing", "write type: collector");
            let path = dotted(&self.below(&["exporter", "type"]));
            self.report.error(Some(self.section), self.declared_at, path, fault);
        }
        self.settings(fields, &[], &mut exporter);
        // these programs send plaintext unless the endpoint says https
        exporter.connection.insecure = Some(true);
        Some((exporter, provider))
    }

    fn provider(&mut self, fields: &[Field], mut settings: ProviderSettings) -> ProviderSettings {
        if *settings.sampler_source() == SettingSource::Default {
            settings.set_sampler(Sampler::trace_id_ratio(1.0), Some(100.0), SettingSource::Default);
        }
        let (path, section) = (self.section.path(), Some(self.section));
        program::read_provider(fields, OF_PROVIDER, &path, section, &mut settings, self.report);
        settings
    }

    /// Takes over the settings below a path, and warns of keys that lead to none.
    fn settings(&mut self, fields: &[Field], path: &[&'static str], exporter: &mut Exporter) {
        let spellings = || rows().filter_map(|row| Some((row, row.in_tracetest.as_ref()?)));
        let mut known: Vec<&'static str> = if path.is_empty() { OF_PROVIDER.to_vec() } else { Vec::new() };
        known.extend(spellings().filter_map(|(_, spelling)| spelling.path.strip_prefix(path)?.first()));
        warn_of_unknown(self.report, fields, &self.below(path), &known);
        for field in fields.iter().filter(|field| field.node.value != Tree::Null) {
            let Some(name) = known.iter().find(|name| **name == field.name) else { continue };
            let path = [path, &[*name]].concat();
            let is_of_provider = path.len() == 1 && OF_PROVIDER.contains(name);
            match (spellings().find(|(_, spelling)| spelling.path == path), field.node.as_table()) {
                (Some((row, spelling)), _) => self.setting(row, spelling, &field.node, exporter),
                (None, Some(fields)) => self.settings(fields, &path, exporter),
                (None, None) if is_of_provider => {}
                (None, None) => {
                    let key = dotted(&self.below(&path));
                    self.report.wrong_type(Some(self.section), key, &field.node, BELOW_IT);
                }
            }
        }
    }

    fn setting(
        &mut self,
        row: &'static SettingRow,
        spelling: &TracetestSpelling,
        node: &Node,
        exporter: &mut Exporter,
    ) {
        let (surroundings, source) = (self.report.surroundings, self.report.source(node.at));
        let taken = match &row.kind {
            _ if *row == TRANSPORT => value::text(node, surroundings).and_then(|text| {
                if text.text != COLLECTOR {
                    return Err(text.fault(Fault::new("is not known", spelling.advice)).into());
                }
                exporter.record(row, source, None);
                Ok(())
            }),
            Kind::Duration { .. } => value::go_duration(node, surroundings)
                .map(|duration| exporter.apply(row, SettingValue::Duration(duration), source)),
            kind => {
                kind.read(node, surroundings, spelling.advice).map(|value| exporter.apply(row, value, source))
            }
        };
        if let Err(unusable) = taken {
            let fault = unusable.into_fault(node, spelling.advice);
            self.report.error(Some(self.section), node.at, dotted(&self.below(spelling.path)), fault);
        }
    }

    /// A path of the document.
    fn below(&self, path: &[&'r str]) -> Vec<&'r str> {
        let section: &'r Section = self.section;
        [&section.path()[..], path].concat()
    }
}

fn warn_of_unknown<'t>(
    report: &mut Report<'_>,
    fields: impl IntoIterator<Item = &'t Field>,
    path: &[&str],
    known: &[&'static str],
) {
    for field in fields.into_iter().filter(|field| !known.contains(&field.name.as_str())) {
        let key = dotted(&[path, &[&field.name]].concat());
        report.unknown_key(field.at, key, &field.name, known);
    }
}

/// Whether two names differ only in their case.
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

const PREFIX: &str = "TRACETEST";

/// Replaces every value below `telemetry` and `server.telemetry` whose path, in capitals and with `_`, is the name of
/// a variable.
pub(super) fn apply_overrides(root: &mut Node, variables: &Variables, report: &mut Report<'_>) {
    let mut used = HashSet::new();
    for path in [&EXPORTERS[..1], &SERVER[..]] {
        let mut name = PREFIX.to_owned();
        let mut node = Some(&mut *root);
        for part in path {
            push(&mut name, part);
            node = node.and_then(|node| field_of(node, part));
        }
        if let Some(node) = node {
            replace(node, &name, variables, report, &mut used);
            for unused in variables.names().filter(|known| is_below(known, &name) && !used.contains(*known)) {
                let what = "the file has no such key";
                report.ignore(unused, Fault::new(what, "write the key in the file, or unset it"));
            }
        }
    }
}

/// Whether a variable is for something below what another would be for.
fn is_below(variable: &str, name: &str) -> bool {
    variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
}

fn replace(
    node: &mut Node,
    name: &str,
    variables: &Variables,
    report: &mut Report<'_>,
    used: &mut HashSet<String>,
) {
    match &mut node.value {
        Tree::Table(fields) => {
            // names that no variable has are not spelt out: there may be many names, and long ones
            if !variables.names().any(|known| known.starts_with(name)) {
                return;
            }
            for field in fields {
                let mut name = name.to_owned();
                push(&mut name, &field.name);
                replace(&mut field.node, &name, variables, report, used);
            }
        }
        Tree::List(_) => {}
        value => match variables.get(name) {
            Some(Ok(text)) => {
                *value = Tree::Text(text.to_owned());
                report.replace(node.at, name.to_owned());
                used.insert(name.to_owned());
            }
            Some(Err(not_utf8)) => {
                report.ignore(name, not_utf8.into());
                used.insert(name.to_owned());
            }
            None => {}
        },
    }
}

fn push(name: &mut String, part: &str) {
    // shells have no other characters in names
    let in_capitals = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.push('_');
    name.extend(part.chars().map(in_capitals));
}

fn field_of<'n>(node: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    match &mut node.value {
        Tree::Table(fields) => {
            fields.iter_mut().find(|field| field.name == name).map(|field| &mut field.node)
        }
        _ => None,
    }
}

#[cfg(all(test, unix, feature = "grpc"))]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use crate::config::env::Variables;
    use crate::config::read::value::Surroundings;
    use crate::config::{read, toml};

    #[test]
    fn a_variable_that_is_no_text_is_told_and_the_files_value_stays() {
        let text = "telemetry.exporters.c.exporter.type = 'collector'\n\
                    telemetry.exporters.c.serviceName = 'shop'\n\
                    server.telemetry.exporter = 'c'\n";
        let name = "TRACETEST_TELEMETRY_EXPORTERS_C_SERVICENAME";
        let variables: Variables = [(name, OsString::from_vec(vec![0xff]))].into_iter().collect();
        let config = read::read(toml::parse("f", text), &Surroundings::new(""), &variables).expect("usable");
        assert_eq!(config.summaries()[0].service_name, "shop");
        let told: Vec<String> = config.diagnostics().iter().map(ToString::to_string).collect();
        assert!(
            told.contains(&format!("warning: {name}: ignored: is not UTF-8; set it to text")),
            "{told:?}"
        );
    }
}
