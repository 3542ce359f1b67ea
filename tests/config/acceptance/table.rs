//! Tables, and how their rows are held.

use crate::acceptance::outcome::Outcome;

/// What is given, and what must come of it.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) given: &'static str,
    /// Settings as an [`Outcome`] spells them, and diagnostics: those that begin with `error: `, `warning: ` or `note: `
    /// are all that may be found, in this order.
    pub(crate) expected: &'static [&'static str],
}

pub(crate) const fn row(what: &'static str, given: &'static str, expected: &'static [&'static str]) -> Row {
    Row { what, given, expected }
}

/// What is found in a file that describes no exporter.
pub(crate) const NO_EXPORTER: &str = "warning: 1:1: describes no exporter: there is no tracer.<id> with type = \
    \"open-telemetry\", no metrics.open-telemetry, and no telemetry.exporters with server.telemetry; standpipe init writes a \
    file to begin with";

/// Rows that are read in the same way.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) read: fn(&str) -> Outcome,
    pub(crate) rows: &'static [Row],
}

/// Holds every row of every table; tells of all that fail.
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
