//! What do the sections of a document mean, whichever format it was written in?
//!
//! ```text
//! Document → program, tracer, metrics, providers → Exporter, ProviderSettings
//!      └──────────────────┴──────────────────→ diagnostics, each with its place
//! ```

pub(super) mod expand;
mod file;
mod overrides;
mod program;
mod report;
mod section;
mod stalwart;
mod tracetest;
pub(super) mod value;

use self::expand::Surroundings;
use self::report::{Others, Report};
use self::section::SectionReader;
use super::env::Variables;
use super::error::{ConfigError, Diagnostic, DiagnosticSeverity, Fault};
use super::node::Document;
use super::node::{Field, Node, Places, Tree};
use super::section::{EXPORTERS, FIRST_NAMES, METRICS, SERVER, Section};
use super::text::dotted;
use super::{Config, Exporter, ProviderName, env, validate};

/// Each has a queue and a thread of its own; there are not as many collectors.
const MAX_EXPORTERS: usize = 256;

/// The configuration that a document describes; what it leaves open is looked for among the variables.
pub(super) fn read(
    document: Document<'_>,
    surroundings: &Surroundings,
    variables: &Variables,
) -> Result<Config, ConfigError> {
    let Document { mut root, mistakes, places } = document;
    let has_mistakes = !mistakes.is_empty();
    // in a text without any of our sections a mistake may be what they are missing for
    let is_ours = FIRST_NAMES.iter().any(|name| root.get(name).is_some());
    let mut report = Report::new(&*places, mistakes, if is_ours { Others::Spared } else { Others::Counted });
    if !matches!(root.value, Tree::Table(_) | Tree::Null) {
        report.wrong_type(None, "", &root, "write keys and their values");
    }
    overrides::apply(&mut root, variables, &mut report);
    let mut found = Found { surroundings, report, config: Config::new(), exporters: Vec::new() };
    found.read_tracers(&root);
    found.read_metrics(&root);
    found.config.main = program::read(&root, surroundings, &mut found.report);
    found.read_providers(&root);
    let has_strays = stalwart::warn_of_strays(&root, &mut found.report);
    found.exporters.sort_by_cached_key(|(at, ..)| *at);

    let Found { report, mut config, exporters, .. } = found;
    let is_broken = |index: &usize| report.is_broken(&exporters[*index].1);
    let broken: Vec<usize> = (0..exporters.len()).filter(is_broken).collect();
    config.exporters = exporters.into_iter().map(|(_, _, exporter)| exporter).collect();
    let mut diagnostics = report.into_diagnostics();
    // a mistake may be what is missing for an exporter, and so may the name of a section
    let is_error = |diagnostic: &Diagnostic| diagnostic.severity == DiagnosticSeverity::Error;
    let is_explained = has_mistakes || has_strays || diagnostics.iter().any(is_error);
    if !is_explained && !describes_something(&root) {
        diagnostics.push(nothing_described(&root, &*places));
    }
    diagnostics.extend(env::fill(&mut config, variables));
    validate::validate(config, diagnostics, &broken)
}

/// Whether there is a section of ours, be it switched off.
fn describes_something(root: &Node) -> bool {
    let has_tracers =
        root.get("tracer").and_then(|field| field.node.as_table()).is_some_and(|t| !t.is_empty());
    let has =
        |[first, second]: [&str; 2]| root.get(first).is_some_and(|field| field.node.get(second).is_some());
    has_tracers || [METRICS, EXPORTERS, SERVER].into_iter().any(has)
}

fn nothing_described(root: &Node, places: &dyn Places) -> Diagnostic {
    if root.get("service").is_some_and(|service| service.node.get("pipelines").is_some()) {
        let what =
            "this is a configuration of the OpenTelemetry Collector, which receives what programs send";
        let fix = "configure the program: standpipe init writes a file, whose endpoint is the Collector's otlp receiver";
        let fault = Fault::new(what, fix);
        return fault.found(DiagnosticSeverity::Error, Some(places.location(0)), "");
    }
    let what = "describes no exporter: there is no tracer.<id> with type = \"open-telemetry\", no \
                metrics.open-telemetry, and no telemetry.exporters with server.telemetry";
    let fault = Fault::new(what, "standpipe init writes a file to begin with");
    fault.found(DiagnosticSeverity::Warning, Some(places.location(0)), "")
}

/// What has been found in a document so far.
struct Found<'r, 'd> {
    surroundings: &'r Surroundings,
    report: Report<'d>,
    /// Without its exporters.
    config: Config,
    /// With their places and sections.
    exporters: Vec<(usize, Section, Exporter)>,
}

impl<'d> Found<'_, 'd> {
    fn reader<'f>(&'f mut self, section: &'f Section, field: &Field) -> SectionReader<'f, 'd> {
        SectionReader::new(section, field.at, self.surroundings, &mut self.report)
    }

    fn read_tracers(&mut self, root: &Node) {
        let Some(tracers) = root.get("tracer") else {
            return;
        };
        let Some(fields) = tracers.node.as_table() else {
            return self.report.wrong_type(None, "tracer", &tracers.node, "write tables like [tracer.otel]");
        };
        for field in fields {
            let section = Section::Tracer(field.name.clone());
            let Some(exporter) = stalwart::read_tracer(self.reader(&section, field), &field.node) else {
                continue;
            };
            if self.exporters.len() >= MAX_EXPORTERS {
                let what = format!("more than {MAX_EXPORTERS} exporters, no tracer is read from here on");
                return self.report.error(
                    Some(&section),
                    field.at,
                    dotted(&section.path()),
                    what,
                    "remove some",
                );
            }
            self.exporters.push((field.at, section, exporter));
        }
    }

    /// The rest of `metrics` is of other programs.
    fn read_metrics(&mut self, root: &Node) {
        let [first, second] = METRICS;
        let Some(field) = root.get(first).and_then(|metrics| metrics.node.get(second)) else {
            return;
        };
        let Some(metrics) = stalwart::read_metrics(self.reader(&Section::Metrics, field), &field.node) else {
            return;
        };
        self.exporters.push((field.at, Section::Metrics, metrics.exporter));
        if let Some((on, source)) = metrics.self_observation {
            self.config.set_self_observation(on, source);
        }
    }

    fn read_providers(&mut self, root: &Node) {
        for provider in tracetest::read(root, self.surroundings, &mut self.report, &self.config.main) {
            match provider.name {
                ProviderName::Internal => self.config.main = provider.settings,
                ProviderName::Application => self.config.application = provider.settings,
            }
            self.exporters.push((provider.at, provider.section, provider.exporter));
        }
    }
}
