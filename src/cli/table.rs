//! Lays out tables: widths of columns, cut texts, and columns that are left out on a narrow terminal.
//!
//! Used by the ledger, the metrics, `spool`, the settings of `check`, and the lists of `receive` and `show`.

use std::borrow::Cow;

use super::style::{Ink, Line, Style};

/// Terminal cells between two columns.
pub(crate) const GAP: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    least: usize,
    most: usize,
    long_text: LongText,
    when_narrow: WhenNarrow,
}

/// Treatment of a text that is wider than its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongText {
    /// The text is cut to the column.
    Cut,
    /// The text is cut at the end of the line, and pushes the columns after it to the right.
    Push,
    /// The text is never cut, and pushes the columns after it to the right.
    Whole,
    /// The text is right-aligned in its column and never cut: if it is too wide, it pushes the columns after it.
    Right,
}

/// Treatment of a column if the table is wider than the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenNarrow {
    Stays,
    /// All columns of this kind are left out together.
    IsLeftOut,
    /// If the table is still too wide, columns of this kind are left out one by one, the last column first.
    IsLeftOutLast,
}

impl Column {
    /// Returns a column of `width` cells. Longer texts are cut.
    pub(crate) const fn cut(width: usize) -> Self {
        Self::between(width, width)
    }

    /// Returns a column that uses the free cells of the line, and is between `least` and `most` cells wide.
    pub(crate) const fn between(least: usize, most: usize) -> Self {
        Self { least, most, long_text: LongText::Cut, when_narrow: WhenNarrow::Stays }
    }

    /// Returns a column whose overlong texts push the next columns to the right, and are cut at the end of the line.
    pub(crate) const fn pushing(width: usize) -> Self {
        Self { long_text: LongText::Push, ..Self::cut(width) }
    }

    /// Returns a right-aligned column, for numbers.
    pub(crate) const fn right(width: usize) -> Self {
        Self { long_text: LongText::Right, ..Self::cut(width) }
    }

    /// Never cuts texts of the column.
    pub(crate) const fn uncut(self) -> Self {
        Self { long_text: LongText::Whole, ..self }
    }

    /// Leaves the column out if the table is too wide, together with all other optional columns.
    pub(crate) const fn optional(self) -> Self {
        Self { when_narrow: WhenNarrow::IsLeftOut, ..self }
    }

    /// Leaves the column out if the table is too wide even without the optional columns.
    pub(crate) const fn if_room(self) -> Self {
        Self { when_narrow: WhenNarrow::IsLeftOutLast, ..self }
    }
}

/// Content of one cell of the table: one or more texts that share the width of the column.
pub(crate) struct Text<'a> {
    /// For each text, the gap before it, its ink, and the text.
    pieces: Vec<(usize, Ink, Cow<'a, str>)>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(ink: Ink, text: impl Into<Cow<'a, str>>) -> Self {
        Self { pieces: vec![(0, ink, text.into())] }
    }

    /// Appends a text. An empty text adds no gap.
    pub(crate) fn and(mut self, gap: usize, ink: Ink, text: impl Into<Cow<'a, str>>) -> Self {
        self.pieces.push((gap, ink, text.into()));
        self
    }

    pub(crate) fn width(&self, style: &Style) -> usize {
        self.shown().map(|(gap, _, text)| gap + style.width_of(text)).sum()
    }

    fn shown(&self) -> impl Iterator<Item = &(usize, Ink, Cow<'a, str>)> {
        self.pieces.iter().filter(|(.., text)| !text.is_empty())
    }

    fn put(&self, line: &mut Line<'_>, room: usize) {
        let end = line.width().saturating_add(room);
        for (gap, ink, text) in self.shown() {
            let room = end.saturating_sub(line.width() + gap);
            if room > 0 {
                line.space(*gap).put_within(*ink, text, room);
            }
        }
    }
}

/// Columns with their final widths.
pub(crate) struct Table<'a> {
    style: &'a Style,
    indent: usize,
    /// The columns; `None` for those that are left out.
    columns: Vec<Option<Column>>,
}

impl<'a> Table<'a> {
    /// Fits the columns into the width of the terminal.
    pub(crate) fn new(style: &'a Style, indent: usize, columns: impl IntoIterator<Item = Column>) -> Self {
        let mut table = Self { style, indent, columns: columns.into_iter().map(Some).collect() };
        if table.least_width() > style.width {
            let stays = |column: &Column| column.when_narrow != WhenNarrow::IsLeftOut;
            table.columns.iter_mut().for_each(|column| *column = column.filter(stays));
        }
        let goes = |column: &Option<Column>| {
            column.is_some_and(|column| column.when_narrow == WhenNarrow::IsLeftOutLast)
        };
        while table.least_width() > style.width {
            // If no further column may be left out, lines may be longer than the width.
            let Some(last) = table.columns.iter().rposition(goes) else { break };
            table.columns[last] = None;
        }
        // The free cells go to the flexible columns, from left to right.
        let mut room = style.width.saturating_sub(table.least_width());
        for column in table.columns.iter_mut().flatten() {
            let width = column.most.min(column.least + room);
            room -= width.saturating_sub(column.least);
            (column.least, column.most) = (width, width);
        }
        table
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.columns.iter().all(Option::is_some)
    }

    /// Returns the width of a column, or 0 if it is left out.
    pub(crate) fn width_of(&self, column: usize) -> usize {
        self.columns[column].map_or(0, |column| column.most)
    }

    /// Draws a row. `texts` has a text for every column, including those that are left out.
    pub(crate) fn row<'t>(&self, texts: impl IntoIterator<Item = Text<'t>>) -> String {
        let mut line = self.style.line();
        line.space(self.indent);
        let columns = self.columns.iter().zip(texts);
        put(columns.filter_map(|(column, text)| Some(((*column)?, text))), &mut line);
        line.finish()
    }

    fn least_width(&self) -> usize {
        let shown = self.columns.iter().flatten().filter(|column| column.most > 0);
        (self.indent + shown.map(|column| column.least + GAP).sum::<usize>()).saturating_sub(GAP)
    }
}

/// Puts texts into their columns and returns where a further column would begin. An empty column takes no room.
pub(crate) fn put<'t>(cells: impl IntoIterator<Item = (Column, Text<'t>)>, line: &mut Line<'_>) -> usize {
    let mut start = line.width();
    for (Column { most: width, long_text, .. }, text) in cells {
        if width == 0 && text.shown().next().is_none() {
            continue;
        }
        let aligned = match long_text {
            LongText::Right => (start + width).saturating_sub(text.width(line.style)),
            _ => start,
        };
        // After a text that is too long for its column, `start` is further to the right, and so are all later cells.
        line.pad_to(aligned);
        let room = match long_text {
            LongText::Cut => width.min(line.room()),
            LongText::Push => line.room(),
            LongText::Whole | LongText::Right => usize::MAX,
        };
        text.put(line, room);
        start = line.width().max(start + width) + GAP;
    }
    start
}

/// Returns the width of the widest of `texts`.
pub(crate) fn widest<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, style: &Style) -> usize {
    texts.into_iter().map(|text| style.width_of(text.as_ref())).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    fn row(table: &Table<'_>, texts: &[&'static str]) -> String {
        table.row(texts.iter().map(|text| Text::new(Ink::PLAIN, *text)))
    }

    #[test]
    fn a_flexible_column_takes_what_the_others_leave() {
        let columns = [Column::cut(4), Column::between(6, 12), Column::right(5)];
        let texts = ["name", "a long description", "7"];
        let drawn = |width| row(&Table::new(&plain_style(width), 1, columns), &texts);
        assert_eq!(drawn(40), " name  a long desc…      7");
        assert_eq!(drawn(22), " name  a long …      7");
        assert_eq!(drawn(20), " name  a lon…      7");
    }

    #[test]
    fn optional_columns_go_together_and_others_only_if_that_is_not_enough() {
        let columns = [
            Column::cut(4),
            Column::right(4).if_room(),
            Column::right(4).optional(),
            Column::cut(4).optional(),
        ];
        let drawn = |width| {
            let style = plain_style(width);
            let table = Table::new(&style, 0, columns);
            (row(&table, &["name", "1", "2", "last"]), table.is_complete())
        };
        assert_eq!(drawn(22), ("name     1     2  last".to_owned(), true));
        assert_eq!(drawn(21), ("name     1".to_owned(), false));
        assert_eq!(drawn(9), ("name".to_owned(), false));
    }

    #[test]
    fn a_long_text_is_cut_pushes_or_stays_whole_as_its_column_says() {
        let drawn = |column: Column| {
            let style = plain_style(16);
            let mut line = style.line();
            let texts = [(column, "checkout.duration"), (Column::cut(3), "end"), (Column::cut(0), "")];
            put(texts.map(|(column, text)| (column, Text::new(Ink::PLAIN, text))), &mut line);
            line.finish()
        };
        assert_eq!(drawn(Column::cut(8)), "checkou…  end");
        assert_eq!(drawn(Column::pushing(8)), "checkout.durati…");
        assert_eq!(drawn(Column::cut(8).uncut()), "checkout.duration");
        assert_eq!(drawn(Column::pushing(20)), "checkout.durati…");
    }
}
