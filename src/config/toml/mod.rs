//! Reads TOML: Stalwart's `[tracer.<id>]`.
//!
//! ```text
//! text → scan → parser → tracer → Exporter
//!          └──────┴─────────┴───→ findings, each with its place
//! ```

mod cursor;
mod document;
mod outline;
mod report;
mod scan;
mod tracer;
mod value;

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::document::{Document, dotted};
use self::report::Report;
use self::tracer::TracerReader;
use super::error::{ConfigError, Finding, FindingSeverity, Location};
use super::expand::{MAX_FILE_BYTES, Surroundings, read_bounded};
use super::{Config, Exporter, validate};

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

/// How a tracer is called in findings.
pub(super) fn tracer_path(id: &str) -> String {
    dotted(["tracer", id])
}

fn read(file: &str, text: &str, surroundings: &Surroundings) -> Result<Config, ConfigError> {
    let document = Document::new(file, text);
    let (root, mistakes) = document.parse();
    let mut report = Report::new(&document, mistakes);
    let exporters = read_tracers(root.get_ref(), surroundings, &mut report);
    note_metrics(root.get_ref(), &mut report);

    let broken: Vec<usize> =
        (0..exporters.len()).filter(|&index| report.is_broken(exporters[index].name())).collect();
    let config = Config { exporters, ..Config::new() };
    validate::validate(config, report.into_findings(), &broken)
}

fn read_tracers(root: &DeTable<'_>, surroundings: &Surroundings, report: &mut Report<'_>) -> Vec<Exporter> {
    let Some(tracers) = root.get("tracer") else {
        return Vec::new();
    };
    let Some(table) = tracers.get_ref().as_table() else {
        report.wrong_type(None, "tracer", tracers, "write tables like [tracer.otel]");
        return Vec::new();
    };
    let mut tracers: Vec<_> = table.iter().collect();
    tracers.sort_by_key(|(id, _)| id.span().start);
    let read = |(id, tracer)| TracerReader::new(id, tracer, surroundings, report).read();
    tracers.into_iter().filter_map(read).collect()
}

/// Metrics are configured in the same file, but nothing sends them yet.
fn note_metrics(root: &DeTable<'_>, report: &mut Report<'_>) {
    fn child<'t, 'd>(value: &'t Spanned<DeValue<'d>>, key: &str) -> Option<&'t Spanned<DeValue<'d>>> {
        value.get_ref().as_table()?.get(key)
    }
    let metrics = root.get("metrics").and_then(|metrics| child(metrics, "open-telemetry"));
    let Some(transport) = metrics.and_then(|section| child(section, "transport")) else {
        return;
    };
    if matches!(transport.get_ref().as_str(), Some("disable" | "disabled")) {
        return;
    }
    let key = "metrics.open-telemetry".to_owned();
    report.note(transport.span().start, key, "not read: this version sends no metrics", "");
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
