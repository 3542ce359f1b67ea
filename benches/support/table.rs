//! Tables for people: aligned on a terminal, the first column to the left and figures to the right; in Markdown for the
//! README, where a peer that is ahead is marked.

/// A table that is printed when it is complete.
pub(crate) struct Table {
    rows: Vec<Row>,
    /// Whether each row is a contender, and not each column.
    has_contenders_in_rows: bool,
    /// Heads of columns of which the largest figure is best, if the contenders are in rows.
    of_more: Vec<String>,
    /// Heads of columns that are not in the contest.
    limits: Vec<String>,
    notes: Vec<String>,
}

struct Row {
    cells: Vec<String>,
    better: Better,
}

/// Which of two figures is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// Contenders whose names begin so are our own.
const OWN: &str = "standpipe";
/// The last column of many tables; the README has figures, not aims.
const TARGET: &str = "target";

impl Table {
    pub(crate) fn new<const COLUMNS: usize>(head: [&str; COLUMNS]) -> Self {
        let head = Row { cells: head.map(str::to_owned).to_vec(), better: Better::Less };
        let (limits, notes, of_more) = (Vec::new(), Vec::new(), Vec::new());
        Self { rows: vec![head], has_contenders_in_rows: false, of_more, limits, notes }
    }

    /// One with a contender in each row; the largest figure is best in columns with these heads.
    pub(crate) fn of_contenders<const COLUMNS: usize>(head: [&str; COLUMNS], of_more: &[&str]) -> Self {
        let of_more = of_more.iter().map(|head| (*head).to_owned()).collect();
        Self { has_contenders_in_rows: true, of_more, ..Self::new(head) }
    }

    /// Adds a row; what is missing at its end is left blank. Of its figures the smallest is best.
    pub(crate) fn row<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        self.rows.push(Row { cells: cells.to_vec(), better: Better::Less });
    }

    /// Adds a row of figures of which the largest is best.
    pub(crate) fn row_of_more<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        self.rows.push(Row { cells: cells.to_vec(), better: Better::More });
    }

    /// Says that the column (or row) with this head is no peer but a limit, as a bare socket is: it is never marked.
    pub(crate) fn limit(&mut self, head: &str) {
        self.limits.push(head.to_owned());
    }

    /// Adds something that one must know to read the table; it stands below it.
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
                // what it should be is text
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

    /// The table and its notes; what a peer does better than we is in bold.
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

    /// Whether the figure of this row in this column is a peer's, and better than the best of our own.
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
        // where we have several, the best of them is the bar
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

    /// Not the targets, and no column without anything in it.
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

/// The number that a cell begins with, in the smallest of its units, so that 900 ns are less than 1 µs.
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

/// The figure alone; what follows it in brackets is not.
fn bold(cell: &str) -> String {
    match cell.split_once(" (") {
        Some((figure, rest)) => format!("**{}** ({}", escaped(figure), escaped(rest)),
        None => format!("**{}**", escaped(cell)),
    }
}

/// With nothing in it that ends a cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

/// `1234567.8` as `1,234,568`.
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

/// With one place behind the point.
pub(crate) fn tenths(number: f64) -> String {
    format!("{number:.1}")
}

/// With two places behind the point.
pub(crate) fn hundredths(number: f64) -> String {
    format!("{number:.2}")
}

/// Bytes as MiB.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
