//! The results: a table with one row for each server, transport and case.

use std::fmt;

use crate::Error;

/// The outcome of a case, with details.
pub(crate) enum Outcome {
    Ok(String),
    Failed(String),
    Skipped(String),
}

/// A case on a server.
pub(crate) struct Row {
    pub(crate) server: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) what: String,
    pub(crate) outcome: Outcome,
}

/// All rows, in the order they were run.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a row and shows it at once, on standard error: a run takes minutes.
    pub(crate) fn push(&mut self, row: Row) {
        eprintln!("{} {} {}: {}", row.server, row.transport, row.what, row.outcome);
        self.rows.push(row);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |cell: fn(&Row) -> &str, head: &str| {
            let cells = self.rows.iter().map(|row| cell(row).chars().count());
            cells.chain([head.len()]).max().unwrap_or_default()
        };
        let server = widest(|row| row.server, "server");
        let transport = widest(|row| row.transport, "transport");
        let what = widest(|row| &row.what, "what");
        writeln!(f, "{:server$}  {:transport$}  {:what$}  result", "server", "transport", "what")?;
        writeln!(f, "{}", "-".repeat(server + transport + what + 4 + "  result".len()))?;
        for row in &self.rows {
            let Row { server: name, transport: by, what: case, outcome } = row;
            writeln!(f, "{name:server$}  {by:transport$}  {case:what$}  {outcome}")?;
        }
        let count = |is: fn(&Outcome) -> bool| self.rows.iter().filter(|row| is(&row.outcome)).count();
        write!(
            f,
            "\n{} ok, {} failed, {} skipped",
            count(|outcome| matches!(outcome, Outcome::Ok(_))),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        )
    }
}

impl From<Result<String, Error>> for Outcome {
    fn from(result: Result<String, Error>) -> Self {
        match result {
            Ok(text) => Self::Ok(text),
            Err(error) => Self::Failed(error.to_string().replace('\n', "; ")),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = match self {
            Self::Ok(text) => ("ok", text),
            Self::Failed(text) => ("FAILED", text),
            Self::Skipped(text) => ("SKIPPED", text),
        };
        match text.is_empty() {
            true => f.write_str(word),
            false => write!(f, "{word}: {text}"),
        }
    }
}
