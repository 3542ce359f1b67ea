//! `telemetry.exporters.<name>` and `server.telemetry`, which chooses among them: as Tracetest and Qualitytrace have it.

mod exporter;

use self::exporter::ExporterReader;
use super::report::Report;
use super::value;
use crate::config::error::Fault;
use crate::config::expand::Surroundings;
use crate::config::key::Key;
use crate::config::node::{Field, Node, Tree};
use crate::config::path::{dotted, quoted, shown};
use crate::config::section::{EXPORTERS, SERVER, Section};
use crate::config::{Exporter, RouteName, RouteSettings, Signals};
use crate::record::Signal;

/// What to do about something that is no table.
const BELOW_IT: &str = "write its keys below it";

/// The keys of `server.telemetry`, and the route that each of them describes.
const CHOICES: [(&str, RouteName); 2] =
    [("exporter", RouteName::Internal), ("applicationExporter", RouteName::Application)];

/// A route that is configured.
pub(super) struct ChosenRoute {
    /// Where it was chosen.
    pub(super) at: usize,
    pub(super) name: RouteName,
    pub(super) section: Section,
    pub(super) settings: RouteSettings,
    pub(super) exporter: Exporter,
}

/// The routes that a document describes; what is wrong with exporters that nobody chose does not matter.
pub(super) fn read(root: &Node, surroundings: &Surroundings, report: &mut Report<'_>) -> Vec<ChosenRoute> {
    let mut reader = RouteReader { surroundings, report };
    let exporters = reader.exporters(root);
    let choices = reader.choices(root);
    reader.tell_of_idle(exporters, &choices);
    choices.iter().filter_map(|choice| reader.route(choice, exporters)).collect()
}

struct RouteReader<'r, 'd> {
    surroundings: &'r Surroundings,
    report: &'r mut Report<'d>,
}

/// That a route uses the exporter of a name.
struct Choice<'t> {
    route: RouteName,
    key: &'static str,
    at: usize,
    exporter: value::Text<'t>,
}

impl RouteReader<'_, '_> {
    fn exporters<'t>(&mut self, root: &'t Node) -> &'t [Field] {
        let Some(telemetry) = self.table(root, &EXPORTERS[..1]) else {
            return &[];
        };
        tell_of_unknown(self.report, telemetry, &EXPORTERS[..1], &EXPORTERS[1..]);
        self.table(root, &EXPORTERS).unwrap_or_default()
    }

    fn choices<'t>(&mut self, root: &'t Node) -> Vec<Choice<'t>> {
        let Some(fields) = self.table(root, &SERVER) else {
            return Vec::new();
        };
        tell_of_unknown(self.report, fields, &SERVER, &CHOICES.map(|(key, _)| key));
        let mut choices = Vec::new();
        for (key, route) in CHOICES {
            let Some(field) = given(fields, key) else { continue };
            match value::text(&field.node, self.surroundings) {
                Ok(exporter) => choices.push(Choice { route, key, at: field.node.at, exporter }),
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

    fn route(&mut self, choice: &Choice<'_>, exporters: &[Field]) -> Option<ChosenRoute> {
        let field = self.chosen(choice, exporters)?;
        let section = Section::Exporter(field.name.clone());
        let reader = ExporterReader {
            section: &section,
            declared_at: field.at,
            surroundings: self.surroundings,
            report: self.report,
        };
        let (mut exporter, settings) = reader.read(&field.node)?;
        exporter.route = Some(choice.route);
        self.choose_signals(choice, &mut exporter);
        Some(ChosenRoute { at: choice.at, name: choice.route, section, settings, exporter })
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
            // the other route has nothing to do with it
            self.report.lone_error(choice.at, path, Fault::new(what, fix));
        }
        found
    }

    fn choose_signals(&mut self, choice: &Choice<'_>, exporter: &mut Exporter) {
        exporter.signals = match choice.route {
            RouteName::Internal => Signals::of(&[Signal::Traces, Signal::Metrics]),
            RouteName::Application => Signals::of(&[Signal::Traces]),
        };
        exporter.record(Key::Signals, self.report.source(choice.at), None);
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
    fn tell_of_idle(&mut self, exporters: &[Field], choices: &[Choice<'_>]) {
        for field in exporters {
            if choices.iter().any(|choice| is_alike(&field.name, &choice.exporter.text)) {
                continue;
            }
            let path = dotted(&[&EXPORTERS[..], &[&field.name]].concat());
            let what = "not started: server.telemetry does not choose it";
            if choices.is_empty() {
                let fix = format!("write {} as server.telemetry.exporter", shown(&field.name));
                self.report.warning(field.at, path, what, fix);
            } else {
                self.report.note(field.at, path, what, "");
            }
        }
    }
}

fn tell_of_unknown(report: &mut Report<'_>, fields: &[Field], path: &[&str], known: &[&'static str]) {
    for field in fields.iter().filter(|field| !known.contains(&field.name.as_str())) {
        let key = dotted(&[path, &[&field.name]].concat());
        report.unknown_key(field.at, key, &field.name, known);
    }
}

/// The field of a name, unless it is null.
fn given<'t>(fields: &'t [Field], name: &str) -> Option<&'t Field> {
    fields.iter().find(|field| field.name == name && field.node.value != Tree::Null)
}

/// Whether two names differ only in their case.
fn is_alike(one: &str, other: &str) -> bool {
    one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}

/// The first names in the order of the alphabet, and how many more there are.
fn listed(fields: &[Field]) -> String {
    const MOST: usize = 20;
    let mut shown: Vec<String> = Vec::new();
    let mut last = None;
    // one after the other: a sort for a message would be as much code as the rest of it
    while let Some(next) = fields.iter().map(|field| &field.name).filter(|name| Some(*name) > last).min() {
        if shown.len() == MOST {
            shown.push(format!("{} more", fields.len() - MOST));
            break;
        }
        shown.push(quoted(next));
        last = Some(next);
    }
    shown.join(", ")
}
