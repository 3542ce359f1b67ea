//! How is one record listed? In columns, with details after or below them.

use super::Layout;
use crate::cli::style::{Ink, Style};
use crate::cli::table::{self, Column, GAP, Text};
use crate::cli::text;

pub(super) const TIME: usize = 13;
pub(super) const SERVICE: usize = 12;
/// The column of a name where lines are whole, and the widest where they are cut.
const NAME: usize = 28;
const LONGEST_NAME: usize = 40;
/// On a narrow screen a name is worth more than what stands behind it.
const LEAST_NAME: usize = 8;

/// What is known about one record.
pub(crate) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) details: Vec<Detail>,
    /// What happened in it: a line each, or where lines are whole the end of its line.
    pub(super) below: Vec<Vec<Detail>>,
}

/// A text, and what it is written with.
pub(super) type Detail = (Ink, String);

/// A text in a column.
pub(super) struct Cell {
    column: Column,
    ink: Ink,
    text: String,
}

impl Cell {
    /// A text that is cut to its column.
    pub(super) fn new(ink: Ink, text: impl Into<String>, width: usize) -> Self {
        Self { column: Column::cut(width), ink, text: text.into() }
    }

    /// A text that pushes what is behind it to the right.
    pub(super) fn pushing(ink: Ink, text: impl Into<String>, width: usize) -> Self {
        Self { column: Column::pushing(width), ink, text: text.into() }
    }
}

/// Whether a name that has to share the line with `beside` other terminal cells has too little left.
pub(super) fn is_tight(beside: usize, layout: Layout, style: &Style) -> bool {
    layout == Layout::Cut && style.width < beside + LEAST_NAME
}

/// The width of a name that has to share the line with `beside` other terminal cells.
pub(super) fn name_width(beside: usize, layout: Layout, style: &Style) -> usize {
    match layout {
        Layout::Cut => style.width.saturating_sub(beside).clamp(LEAST_NAME, LONGEST_NAME),
        Layout::Whole => NAME,
    }
}

impl Row {
    /// One line; where lines are cut a second if the details have no room behind the columns, and one for each of those below.
    pub(crate) fn draw(&self, layout: Layout, style: &Style) -> Vec<String> {
        let mut first = style.line();
        let cells = self.cells.iter().map(|cell| fitted(cell.column, cell.ink, &cell.text, layout));
        let end = table::put(cells, &mut first);
        let mut details = all_fitted(&self.details, layout);
        let width: usize = details.iter().map(|(_, text)| text.width(style) + GAP).sum();
        let mut next_lines: Vec<_> = self.below.iter().map(|details| all_fitted(details, layout)).collect();
        if layout == Layout::Whole {
            details.extend(next_lines.drain(..).flatten());
        }
        if layout == Layout::Whole || details.is_empty() || end + width <= style.width + GAP {
            first.pad_to(end);
            table::put(details, &mut first);
        } else {
            next_lines.insert(0, details);
        }
        let next_lines = next_lines.into_iter().map(|details| {
            let mut line = style.line();
            line.space(TIME + GAP);
            table::put(details, &mut line);
            line.finish()
        });
        std::iter::once(first.finish()).chain(next_lines).collect()
    }
}

/// A text in its column, which cuts nothing where lines are whole.
fn fitted(column: Column, ink: Ink, text: &str, layout: Layout) -> (Column, Text<'_>) {
    let column = if layout == Layout::Whole { column.uncut() } else { column };
    (column, Text::new(ink, text::shorten(text)))
}

fn all_fitted(details: &[Detail], layout: Layout) -> Vec<(Column, Text<'_>)> {
    let details = details.iter().filter(|(_, text)| !text.is_empty());
    details.map(|(ink, text)| fitted(Column::pushing(0), *ink, text, layout)).collect()
}
