//! What the sections of a document mean, whichever format it was written in.
//!
//! ```text
//! Document → tracer, metrics → Exporter
//!      └──────────┴─────────→ findings, each with its place
//! ```

mod metrics;
mod reader;
mod report;
mod tracer;
mod value;

use self::reader::SectionReader;
use self::report::Report;
use super::document::Document;
use super::error::ConfigError;
use super::expand::Surroundings;
use super::node::{Field, Node};
use super::section::Section;
use super::{Config, Exporter, Source, validate};

/// The configuration that a document describes.
pub(super) fn read(document: Document<'_>, surroundings: &Surroundings) -> Result<Config, ConfigError> {
    let Document { root, mistakes, places } = document;
    let mut found = Found { surroundings, report: Report::new(&*places, mistakes), exporters: Vec::new() };
    found.read_tracers(&root);
    let self_observation = found.read_metrics(&root);
    found.exporters.sort_by_key(|(at, ..)| *at);

    let Found { report, exporters, .. } = found;
    let is_broken = |index: &usize| report.is_broken(&exporters[*index].1);
    let broken: Vec<usize> = (0..exporters.len()).filter(is_broken).collect();
    let mut config = Config::new();
    config.exporters = exporters.into_iter().map(|(_, _, exporter)| exporter).collect();
    if let Some((on, source)) = self_observation {
        config.set_self_observation(on, source);
    }
    validate::validate(config, report.into_findings(), &broken)
}

/// What has been found in a document so far.
struct Found<'r, 'd> {
    surroundings: &'r Surroundings,
    report: Report<'d>,
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
            if let Some(exporter) = tracer::read(self.reader(&section, field), &field.node) {
                self.exporters.push((field.at, section, exporter));
            }
        }
    }

    /// The rest of `metrics` is somebody else's. Returns whether the ledger is to be exported, if that is said.
    fn read_metrics(&mut self, root: &Node) -> Option<(bool, Source)> {
        let section = Section::Metrics;
        let [first, second] = section.path();
        let field = root.get(first)?.node.get(second)?;
        let metrics = metrics::read(self.reader(&section, field), &field.node)?;
        self.exporters.push((field.at, Section::Metrics, metrics.exporter));
        metrics.self_observation
    }
}
