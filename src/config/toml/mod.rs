//! Reads TOML: Stalwart's `[tracer.<id>]` and `[metrics.open-telemetry]`.
//!
//! ```text
//! text → scan → parser → tracer, metrics → Exporter
//!          └──────┴──────────┴─────→ findings, each with its place
//! ```

mod cursor;
mod document;
mod metrics;
mod outline;
mod reader;
mod report;
mod scan;
mod section;
mod tracer;
mod value;

use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable};

use self::document::Document;
use self::reader::SectionReader;
use self::report::Report;
use self::section::Section;
use super::error::{ConfigError, Finding, FindingSeverity, Location};
use super::expand::{MAX_FILE_BYTES, Surroundings, read_bounded};
use super::{Config, Exporter, Source, validate};

/// Reads a file; paths in it start at its directory.
pub(super) fn read_file(path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let bytes = read_bounded(path).map_err(|cause| unreadable(&name, format!("cannot read: {cause}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|&&byte| byte == b'\n').count() + 1;
        unreadable(&name, format!("not UTF-8 in line {line}"))
    })?;
    read(&name, &text, &Surroundings::new(path.parent().unwrap_or(Path::new(""))))
}

/// Reads text; paths in it start at the working directory.
pub(super) fn read_str(text: &str) -> Result<Config, ConfigError> {
    const NAME: &str = "<toml>";
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(NAME, "larger than 1 MiB".to_owned()));
    }
    read(NAME, text, &Surroundings::new(""))
}

fn read(file: &str, text: &str, surroundings: &Surroundings) -> Result<Config, ConfigError> {
    let document = Document::new(file, text);
    let (root, mistakes) = document.parse();
    let mut found = Found { surroundings, report: Report::new(&document, mistakes), exporters: Vec::new() };
    found.read_tracers(root.get_ref());
    let self_observation = found.read_metrics(root.get_ref());
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
    fn reader<'f>(&'f mut self, section: &'f Section, key: &Spanned<DeString<'_>>) -> SectionReader<'f, 'd> {
        SectionReader::new(section, key, self.surroundings, &mut self.report)
    }

    fn read_tracers(&mut self, root: &DeTable<'_>) {
        let Some(tracers) = root.get("tracer") else {
            return;
        };
        let Some(table) = tracers.get_ref().as_table() else {
            return self.report.wrong_type(None, "tracer", tracers, "write tables like [tracer.otel]");
        };
        let mut tracers: Vec<_> = table.iter().collect();
        tracers.sort_by_key(|(id, _)| id.span().start);
        for (id, tracer) in tracers {
            let section = Section::Tracer(id.get_ref().to_string());
            if let Some(exporter) = tracer::read(self.reader(&section, id), tracer) {
                self.exporters.push((id.span().start, section, exporter));
            }
        }
    }

    /// The rest of `metrics` is somebody else's. Returns whether the ledger is to be exported, if that is said.
    fn read_metrics(&mut self, root: &DeTable<'_>) -> Option<(bool, Source)> {
        let section = Section::Metrics;
        let [first, second] = section.path();
        let (key, table) = root.get(first)?.get_ref().as_table()?.get_key_value(second)?;
        let metrics = metrics::read(self.reader(&section, key), table)?;
        self.exporters.push((key.span().start, Section::Metrics, metrics.exporter));
        metrics.self_observation
    }
}

fn unreadable(file: &str, what: String) -> ConfigError {
    let location = Some(Location { file: file.to_owned(), line: 1, column: 1 });
    let fix = "name a readable file of TOML, at most 1 MiB".to_owned();
    ConfigError::unreadable(Finding {
        severity: FindingSeverity::Error,
        location,
        key: String::new(),
        what,
        fix,
    })
}
