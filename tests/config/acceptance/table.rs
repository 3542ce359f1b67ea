//! Tables of rows, and their check.

use crate::acceptance::outcome::Outcome;

/// An input, and its expected outcome.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) given: &'static str,
    /// Some of the settings, in the form of an [`Outcome`], and all diagnostics, in order: the lines that begin with
    /// `error: `, `warning: ` or `note: `.
    pub(crate) expected: &'static [&'static str],
}

pub(crate) const fn row(what: &'static str, given: &'static str, expected: &'static [&'static str]) -> Row {
    Row { what, given, expected }
}

/// The diagnostics of a file that describes no exporter.
pub(crate) const NO_EXPORTER: &str = "warning: 1:1: describes no exporter: there is no tracer.<id> with type = \
    \"open-telemetry\", no metrics.open-telemetry, and no telemetry.exporters with server.telemetry; standpipe init writes a \
    file to begin with";

/// Rows whose inputs are read in the same way.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) read: fn(&str) -> Outcome,
    pub(crate) rows: &'static [Row],
}

/// Checks every row of every table, and reports all failures.
#[track_caller]
pub(crate) fn hold(tables: &[Table]) {
    let mut failures = Vec::new();
    for table in tables {
        for row in table.rows {
            let outcome = (table.read)(row.given);
            if let Err(difference) = outcome.compare(row.expected) {
                failures.push(format!("{}: {}\n{}\n{difference}\n", table.name, row.what, row.given));
            }
        }
    }
    assert!(failures.is_empty(), "{} rows do not hold\n\n{}", failures.len(), failures.join("\n"));
}
