//! One entry of the list: columns, and details after or below them.

use std::borrow::Cow;

use super::super::paint::{Ink, Line, Look};
use super::super::text;
use super::Layout;

pub(super) const TIME: usize = 13;
pub(super) const SERVICE: usize = 12;
pub(super) const GAP: usize = 2;
/// The column of a name where lines are whole, and the widest where they are cut.
const NAME: usize = 28;
const LONGEST_NAME: usize = 40;
/// On a narrow screen a name is worth more than what stands behind it.
const LEAST_NAME: usize = 8;

/// What is known about one record.
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) details: Vec<(Ink, String)>,
}

/// A text in a column.
pub(super) struct Cell {
    ink: Ink,
    text: String,
    width: usize,
    /// The cells it may take of a line that is cut.
    most: usize,
}

impl Cell {
    /// A text that is cut to its column.
    pub(super) fn new(ink: Ink, text: impl Into<String>, width: usize) -> Self {
        Self { ink, text: text.into(), width, most: width }
    }

    /// A text that pushes what is behind it to the right.
    pub(super) fn pushing(ink: Ink, text: impl Into<String>, width: usize) -> Self {
        Self { ink, text: text.into(), width, most: usize::MAX }
    }
}

/// Whether a name that has to share the line with so many other cells has too little left.
pub(super) fn is_tight(beside: usize, layout: Layout, look: &Look) -> bool {
    layout == Layout::Cut && look.width < beside + LEAST_NAME
}

/// The width of a name that has to share the line with so many other cells.
pub(super) fn name_width(beside: usize, layout: Layout, look: &Look) -> usize {
    match layout {
        Layout::Cut => look.width.saturating_sub(beside).clamp(LEAST_NAME, LONGEST_NAME),
        Layout::Whole => NAME,
    }
}

impl Row {
    /// One line, or two where the details have no room behind the columns.
    pub(super) fn draw(&self, layout: Layout, look: &Look) -> Vec<String> {
        let mut first = look.line();
        let end = self.put_cells(&mut first, layout, look);
        let details = self.details.iter().filter(|(_, text)| !text.is_empty());
        let details: Vec<_> = details.map(|(ink, text)| (*ink, text::shorten(text))).collect();
        let fit = details.is_empty() || end + width_of(&details, look) <= look.width;
        if layout == Layout::Whole || fit {
            first.pad_to(end);
            for (ink, text) in details {
                first.put(ink, &text).space(GAP);
            }
            return vec![first.finish()];
        }
        let mut second = look.line();
        second.space(TIME + GAP);
        for (ink, text) in details {
            second.put_rest(ink, &text).space(GAP);
        }
        vec![first.finish(), second.finish()]
    }

    /// Returns where the column after the last one begins.
    fn put_cells(&self, line: &mut Line<'_>, layout: Layout, look: &Look) -> usize {
        let mut end = 0;
        for cell in &self.cells {
            line.pad_to(end);
            let text = text::shorten(&cell.text);
            match layout {
                Layout::Whole => line.put(cell.ink, &text),
                Layout::Cut => {
                    let rest = look.width.saturating_sub(line.width());
                    line.put_within(cell.ink, &text, cell.most.min(rest))
                }
            };
            end = line.width().max(end + cell.width) + GAP;
        }
        end
    }
}

fn width_of(details: &[(Ink, Cow<'_, str>)], look: &Look) -> usize {
    let texts = details.iter().map(|(_, text)| text::width(&text::printable(text, look.charset)));
    texts.sum::<usize>() + GAP * details.len().saturating_sub(1)
}
