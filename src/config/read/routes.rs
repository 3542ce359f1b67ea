//! `telemetry.exporters.<name>` and `server.telemetry`, which chooses among them: as Tracetest and Qualitytrace have it.

use super::report::Report;
use super::value::{self, Unusable};
use crate::config::error::Fault;
use crate::config::expand::Surroundings;
use crate::config::key::Key;
use crate::config::node::{Field, Node, Tree};
use crate::config::path::{dotted, shortened};
use crate::config::section::{EXPORTERS, SERVER, Section};
use crate::config::{Exporter, RouteName, RouteSettings, Signals, Source, Transport, suggest};
use crate::record::Signal;
use crate::sample::Sampler;

const SERVICE_NAME: &str = "serviceName";
const SAMPLING: &str = "sampling";
const INTERVAL: &str = "metricsReaderInterval";
const EXPORTER: &str = "exporter";
const TYPE: &str = "type";
const COLLECTOR: &str = "collector";
const ENDPOINT: &str = "endpoint";
const OF_AN_EXPORTER: [&str; 4] = [SERVICE_NAME, SAMPLING, INTERVAL, EXPORTER];

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
        self.tell_of_unknown(telemetry, &EXPORTERS[..1], &EXPORTERS[1..]);
        self.table(root, &EXPORTERS).unwrap_or_default()
    }

    fn choices<'t>(&mut self, root: &'t Node) -> Vec<Choice<'t>> {
        let Some(fields) = self.table(root, &SERVER) else {
            return Vec::new();
        };
        self.tell_of_unknown(fields, &SERVER, &CHOICES.map(|(key, _)| key));
        let mut choices = Vec::new();
        for (key, route) in CHOICES {
            let Some(field) = given(fields, key) else { continue };
            match value::text(&field.node, self.surroundings) {
                Ok(exporter) => choices.push(Choice { route, key, at: field.node.at, exporter }),
                Err(unusable) => self.refuse(
                    &Section::Server,
                    &[key],
                    &field.node,
                    "write the name of an exporter below telemetry.exporters",
                    unusable,
                ),
            }
        }
        choices
    }

    fn route(&mut self, choice: &Choice<'_>, exporters: &[Field]) -> Option<ChosenRoute> {
        let field = self.chosen(choice, exporters)?;
        let section = Section::Exporter(field.name.clone());
        let Some(fields) = field.node.as_table() else {
            let path = dotted(section.path());
            self.report.wrong_type(Some(&section), path, &field.node, "write its keys below it");
            return None;
        };
        let mut exporter =
            Exporter::of_route(field.name.clone(), dotted(section.path()), self.report.location(field.at));
        exporter.route = Some(choice.route);
        self.choose_signals(choice, &mut exporter);
        let settings = self.settings(&section, fields);
        self.interval(&section, fields, &mut exporter);
        self.destination(&section, field, fields, &mut exporter);
        self.tell_of_unknown(fields, &section.path(), &OF_AN_EXPORTER);
        Some(ChosenRoute { at: choice.at, name: choice.route, section, settings, exporter })
    }

    /// The exporter of exactly this name, or else of this name in another case.
    fn chosen<'t>(&mut self, choice: &Choice<'_>, exporters: &'t [Field]) -> Option<&'t Field> {
        let wanted = &choice.exporter.text;
        let exactly = exporters.iter().find(|field| field.name == *wanted);
        let nearly = || {
            let wanted = wanted.to_lowercase();
            exporters.iter().find(|field| field.name.to_lowercase() == wanted)
        };
        let found = exactly.or_else(nearly);
        if found.is_none() {
            let mut known: Vec<&str> = exporters.iter().map(|field| field.name.as_str()).collect();
            known.sort_unstable();
            let fix = match known.is_empty() {
                true => "describe it below telemetry.exporters".to_owned(),
                false => format!("write one of {}", listed(&known)),
            };
            let what = format!("there is no exporter {:?}", shortened(choice.exporter.written));
            let path = dotted(SERVER.into_iter().chain([choice.key]));
            self.report.error(Some(&Section::Server), choice.at, path, what, fix);
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

    fn settings(&mut self, section: &Section, fields: &[Field]) -> RouteSettings {
        let mut settings = RouteSettings::default();
        settings.set_sampler(Sampler::trace_id_ratio(1.0), Some(100.0), Source::Default);
        if let Some(field) = given(fields, SERVICE_NAME) {
            match value::loose_text(&field.node, self.surroundings) {
                Ok(name) if name.text.is_empty() => {}
                Ok(value::Text { written, text, is_secret }) => {
                    let source = self.report.source(field.node.at);
                    match is_secret {
                        true => settings.set_secret_service_name(&text, written, source),
                        false => settings.set_service_name(&text, source),
                    }
                }
                Err(unusable) => {
                    self.refuse(section, &[SERVICE_NAME], &field.node, "write a name like shop", unusable);
                }
            }
        }
        if let Some(field) = given(fields, SAMPLING) {
            match value::percent(&field.node, self.surroundings) {
                Ok(percent) => {
                    let percent = percent.clamp(0.0, 100.0);
                    // the same division as in the programs that this is read for, so that both keep the same traces
                    let sampler = Sampler::trace_id_ratio(percent / 100.0);
                    settings.set_sampler(sampler, Some(percent), self.report.source(field.node.at));
                }
                Err(unusable) => {
                    let advice = "write a number of percent like 100 or 0.1";
                    self.refuse(section, &[SAMPLING], &field.node, advice, unusable);
                }
            }
        }
        settings
    }

    fn interval(&mut self, section: &Section, fields: &[Field], exporter: &mut Exporter) {
        // what such a file leaves open is its own default, not ours
        exporter.push.interval = std::time::Duration::from_secs(10);
        let Some(field) = given(fields, INTERVAL) else { return };
        match value::go_duration(&field.node, self.surroundings) {
            Ok(interval) => {
                exporter.push.interval = interval;
                exporter.record(Key::Interval, self.report.source(field.node.at), None);
            }
            Err(unusable) => {
                self.refuse(section, &[INTERVAL], &field.node, "write a duration like 10s", unusable);
            }
        }
    }

    /// `exporter.type` and `exporter.collector.endpoint`.
    fn destination(
        &mut self,
        section: &Section,
        declared: &Field,
        fields: &[Field],
        exporter: &mut Exporter,
    ) {
        exporter.set_transport(Transport::Grpc, Source::Default);
        let advice = "write type: collector";
        let missing = |reader: &mut Self| {
            let path = path_of(section, &[EXPORTER, TYPE]);
            reader.report.error(Some(section), declared.at, path, "missing", advice);
        };
        let Some(inner) = self.nested(section, fields, &[EXPORTER]) else {
            return missing(self);
        };
        self.tell_of_unknown(inner, &[&section.path()[..], &[EXPORTER]].concat(), &[TYPE, COLLECTOR]);
        match given(inner, TYPE) {
            None => missing(self),
            Some(field) => match value::text(&field.node, self.surroundings) {
                Ok(text) if text.text == COLLECTOR => {
                    exporter.set_transport(Transport::Grpc, self.report.source(field.node.at));
                }
                Ok(text) => {
                    let fault = text.fault(Fault::new("is not known", advice));
                    self.refuse(section, &[EXPORTER, TYPE], &field.node, advice, fault.into());
                }
                Err(unusable) => self.refuse(section, &[EXPORTER, TYPE], &field.node, advice, unusable),
            },
        }
        let path = [EXPORTER, COLLECTOR];
        let Some(collector) = self.nested(section, inner, &path) else { return };
        self.tell_of_unknown(collector, &[&section.path()[..], &path].concat(), &[ENDPOINT]);
        let Some(field) = given(collector, ENDPOINT) else { return };
        match value::text(&field.node, self.surroundings) {
            Ok(value::Text { written, text, is_secret }) => {
                exporter.set_endpoint(text, is_secret.then_some(written), self.report.source(field.node.at));
            }
            Err(unusable) => {
                let path = [EXPORTER, COLLECTOR, ENDPOINT];
                self.refuse(section, &path, &field.node, "write an address like localhost:4317", unusable);
            }
        }
    }

    /// The table at a path below the root; what is null is as good as absent.
    fn table<'t>(&mut self, root: &'t Node, path: &[&str]) -> Option<&'t [Field]> {
        let mut node = root;
        for (depth, name) in path.iter().enumerate() {
            node = &given(node.as_table()?, name)?.node;
            if node.as_table().is_none() {
                // `server` may be anything: only what is below it is ours
                if path[..=depth] != SERVER[..1] {
                    let path = dotted(path[..=depth].iter().copied());
                    self.report.wrong_type(Some(&Section::Server), path, node, "write its keys below it");
                }
                return None;
            }
        }
        node.as_table()
    }

    /// The table under the last of some keys of an exporter.
    fn nested<'t>(&mut self, section: &Section, fields: &'t [Field], path: &[&str]) -> Option<&'t [Field]> {
        let field = given(fields, path.last()?)?;
        let inner = field.node.as_table();
        if inner.is_none() {
            let path = path_of(section, path);
            self.report.wrong_type(Some(section), path, &field.node, "write its keys below it");
        }
        inner
    }

    fn refuse(&mut self, section: &Section, key: &[&str], node: &Node, advice: &str, unusable: Unusable) {
        let path = path_of(section, key);
        match unusable {
            Unusable::WrongType => self.report.wrong_type(Some(section), path, node, advice),
            Unusable::Faulty(fault) => self.report.error(Some(section), node.at, path, fault.what, fault.fix),
        }
    }

    fn tell_of_unknown(&mut self, fields: &[Field], path: &[&str], known: &[&'static str]) {
        for field in fields.iter().filter(|field| !known.contains(&field.name.as_str())) {
            let meant = if self.report.has_room() {
                suggest::nearest(&field.name, known.iter().copied())
            } else {
                None
            };
            let fix =
                meant.map_or_else(|| "remove it".to_owned(), |meant| format!("did you mean {meant:?}?"));
            let path = dotted(path.iter().copied().chain([field.name.as_str()]));
            self.report.warning(field.at, path, "unknown key", fix);
        }
    }

    /// Exporters that are described and never used: mostly the choice was forgotten.
    fn tell_of_idle(&mut self, exporters: &[Field], choices: &[Choice<'_>]) {
        let chosen: Vec<String> = choices.iter().map(|choice| choice.exporter.text.to_lowercase()).collect();
        for field in exporters {
            if chosen.contains(&field.name.to_lowercase()) {
                continue;
            }
            let path = dotted(EXPORTERS.into_iter().chain([field.name.as_str()]));
            let what = "not started: server.telemetry does not choose it";
            if choices.is_empty() {
                let fix = format!("write {} as server.telemetry.exporter", shortened(&field.name));
                self.report.warning(field.at, path, what, fix);
            } else {
                self.report.note(field.at, path, what, "");
            }
        }
    }
}

fn path_of(section: &Section, key: &[&str]) -> String {
    dotted(section.path().into_iter().chain(key.iter().copied()))
}

/// The field of a name, unless it is null.
fn given<'t>(fields: &'t [Field], name: &str) -> Option<&'t Field> {
    fields.iter().find(|field| field.name == name && field.node.value != Tree::Null)
}

fn listed(names: &[&str]) -> String {
    const MOST: usize = 20;
    let mut shown: Vec<String> =
        names.iter().take(MOST).map(|name| format!("{:?}", shortened(name))).collect();
    if names.len() > MOST {
        shown.push(format!("{} more", names.len() - MOST));
    }
    shown.join(", ")
}
