//! Tables for people: aligned, the first column to the left and figures to the right.

/// A table that is printed when it is complete.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const COLUMNS: usize>(head: [&str; COLUMNS]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    /// Adds a row; what is missing at its end is left blank.
    pub(crate) fn row<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        self.rows.push(cells.to_vec());
    }

    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}\n");
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cell = |row: &'_ Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let width =
            |column| self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = widths.iter().enumerate().map(|(column, width)| match column {
                0 => format!("{:<width$}", cell(row, 0)),
                // what it should be is text
                _ if column == columns - 1 => cell(row, column),
                _ => format!("{:>width$}", cell(row, column)),
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
            if number == 0 {
                println!("  {}", "-".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1)));
            }
        }
        println!();
    }
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
