//! Tables for the terminal, and as Markdown for the README. In Markdown, figures of peers that are ahead are bold.

/// A table that is printed when it is complete.
pub(crate) struct Table {
    rows: Vec<Row>,
    /// Whether the contenders are in rows. Otherwise they are in columns.
    has_contenders_in_rows: bool,
    /// Headers of the columns in which higher is better, if the contenders are in rows.
    of_more: Vec<String>,
    /// Headers of contenders that are limits, not peers.
    limits: Vec<String>,
    notes: Vec<String>,
}

struct Row {
    cells: Vec<String>,
    better: Better,
}

/// Whether a lower or a higher figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// Prefix of the names of standpipe's own contenders.
const OWN: &str = "standpipe";
/// Header of the column with the targets, which the README does not show.
const TARGET: &str = "target";

impl Table {
    pub(crate) fn new<const COLUMNS: usize>(head: [&str; COLUMNS]) -> Self {
        let head = Row { cells: head.map(str::to_owned).to_vec(), better: Better::Less };
        let (limits, notes, of_more) = (Vec::new(), Vec::new(), Vec::new());
        Self { rows: vec![head], has_contenders_in_rows: false, of_more, limits, notes }
    }

    /// Creates a table with a contender in each row. In the columns `of_more`, higher is better.
    pub(crate) fn of_contenders<const COLUMNS: usize>(head: [&str; COLUMNS], of_more: &[&str]) -> Self {
        let of_more = of_more.iter().map(|head| (*head).to_owned()).collect();
        Self { has_contenders_in_rows: true, of_more, ..Self::new(head) }
    }

    /// Adds a row in which lower is better. Missing cells at its end stay blank.
    pub(crate) fn row<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        self.rows.push(Row { cells: cells.to_vec(), better: Better::Less });
    }

    /// Adds a row in which higher is better.
    pub(crate) fn row_of_more<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        self.rows.push(Row { cells: cells.to_vec(), better: Better::More });
    }

    /// Declares the column (or row) with this header a limit, such as a bare socket. It is never in bold.
    pub(crate) fn limit(&mut self, head: &str) {
        self.limits.push(head.to_owned());
    }

    /// Adds a remark below the table that explains the figures.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}\n");
        let columns = self.columns();
        let width =
            |column| self.rows.iter().map(|row| row.cell(column).chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = widths.iter().enumerate().map(|(column, width)| match column {
                0 => format!("{:<width$}", row.cell(0)),
                // The last column contains text.
                _ if column == columns - 1 => row.cell(column).to_owned(),
                _ => format!("{:>width$}", row.cell(column)),
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
            if number == 0 {
                println!("  {}", "-".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1)));
            }
        }
        println!();
        for note in &self.notes {
            println!("  {note}");
        }
    }

    /// Returns the table and its notes as Markdown. Figures of peers that are ahead are in bold.
    pub(crate) fn markdown(&self) -> String {
        let columns: Vec<usize> = (0..self.columns()).filter(|column| self.is_of_use(*column)).collect();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let Some((head, rows)) = self.rows.split_first() else { return String::new() };
        let mut text = line(columns.iter().map(|column| escaped(head.cell(*column))).collect());
        text += &format!("|---|{}\n", "--:|".repeat(columns.len().saturating_sub(1)));
        for row in rows {
            let cell = |column: &usize| {
                let cell = row.cell(*column);
                match *column > 0 && self.is_ahead(row, *column) {
                    true => bold(cell),
                    false => escaped(cell),
                }
            };
            text += &line(columns.iter().map(cell).collect());
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("- {}\n", escaped(note));
        }
        text
    }

    /// Returns whether the figure is a peer's, and better than the best figure of standpipe.
    fn is_ahead(&self, row: &Row, column: usize) -> bool {
        let (contender, better) = match self.has_contenders_in_rows {
            true => (row.cell(0), self.better_in(column)),
            false => (self.head(column), row.better),
        };
        if is_own(contender) || self.limits.iter().any(|limit| limit == contender) {
            return false;
        }
        let own: Vec<&str> = match self.has_contenders_in_rows {
            true => self.rows.iter().filter(|row| is_own(row.cell(0))).map(|row| row.cell(column)).collect(),
            false => {
                let columns = (1..self.columns()).filter(|column| is_own(self.head(*column)));
                columns.map(|column| row.cell(column)).collect()
            }
        };
        // If standpipe has several figures, the best one counts.
        let own = own.into_iter().filter_map(amount).reduce(|one, other| better.of(one, other));
        own.zip(amount(row.cell(column))).is_some_and(|(own, peer)| better.is_ahead(peer, own))
    }

    fn better_in(&self, column: usize) -> Better {
        let is_of_more = self.of_more.iter().any(|head| head == self.head(column));
        if is_of_more { Better::More } else { Better::Less }
    }

    fn columns(&self) -> usize {
        self.rows.iter().map(|row| row.cells.len()).max().unwrap_or_default()
    }

    fn head(&self, column: usize) -> &str {
        self.rows.first().map_or("", |head| head.cell(column))
    }

    /// Returns whether the column is shown in Markdown. Targets and empty columns are not.
    fn is_of_use(&self, column: usize) -> bool {
        self.head(column) != TARGET && self.rows.iter().any(|row| !row.cell(column).is_empty())
    }
}

impl Row {
    fn cell(&self, column: usize) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }
}

impl Better {
    fn is_ahead(self, one: f64, other: f64) -> bool {
        match self {
            Self::Less => one < other,
            Self::More => one > other,
        }
    }

    fn of(self, one: f64, other: f64) -> f64 {
        if self.is_ahead(one, other) { one } else { other }
    }
}

fn is_own(contender: &str) -> bool {
    contender.starts_with(OWN)
}

/// Returns the number at the beginning of a cell, converted to ns or bytes, so that 900 ns are less than 1 µs.
fn amount(cell: &str) -> Option<f64> {
    let end = cell.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(cell.len());
    let (digits, rest) = cell.split_at(end);
    let number: f64 = digits.replace(',', "").parse().ok()?;
    let unit = rest.split_whitespace().next().unwrap_or_default();
    let scale = match unit {
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    Some(number * scale)
}

/// Formats a figure in bold, but not the ratio in brackets after it.
fn bold(cell: &str) -> String {
    match cell.split_once(" (") {
        Some((figure, rest)) => format!("**{}** ({}", escaped(figure), escaped(rest)),
        None => format!("**{}**", escaped(cell)),
    }
}

/// Escapes the character that ends a cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Formats `1234567.8` as `1,234,568`.
pub(crate) fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with one decimal.
pub(crate) fn tenths(number: f64) -> String {
    format!("{number:.1}")
}

/// Formats a number with two decimals.
pub(crate) fn hundredths(number: f64) -> String {
    format!("{number:.2}")
}

/// Formats bytes as MiB.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
