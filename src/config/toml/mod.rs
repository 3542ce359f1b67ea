//! How does a text of TOML become a document, and how does a wrong line leave all others as they are?
//!
//! ```text
//! text → toml_parser: tokens → events ─→ Reader: statements ─→ Table ─→ Node
//!                                └ errors ──┴─→ at most one mistake per statement, at its place
//! ```
//!
//! The parser reports what is wrong and goes on with the next line. `events` collects its events into statements, a table
//! header or a key with its value each; `table` knows which of them may stand beside each other.

mod events;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::document::Document;
use super::error::Location;
use super::node::Places;

/// What can be read of a text; `file` is how it is called in messages.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    // the byte order mark that some editors write first is no character of the first line
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut places = TextPlaces { file, text, marks: mark(text), broken: Vec::new() };
    let read = events::read(text, &places);
    places.broken = read.broken;
    Document { root: read.root, mistakes: read.mistakes, places: Box::new(places) }
}

/// Finds lines and columns in a text. A place is an offset in bytes.
struct TextPlaces<'d> {
    file: &'d str,
    text: &'d str,
    /// In the order of the text; the first is at its start.
    marks: Vec<Mark>,
    /// Statements with a mistake, in the order of the text.
    broken: Vec<Range<usize>>,
}

/// A place whose line and column are known.
#[derive(Debug, Clone, Copy)]
struct Mark {
    offset: usize,
    line: usize,
    column: usize,
}

impl Places for TextPlaces<'_> {
    fn location(&self, at: usize) -> Location {
        let at = at.min(self.text.len());
        let after = self.marks.partition_point(|mark| mark.offset <= at);
        let mark = self.marks[after.saturating_sub(1)];
        let column = mark.column + self.text[mark.offset..at].chars().count();
        Location { file: self.file.to_owned(), line: mark.line, column }
    }

    fn is_spoilt(&self, at: usize) -> bool {
        let after = self.broken.partition_point(|statement| statement.start <= at);
        after.checked_sub(1).is_some_and(|last| self.broken[last].contains(&at))
    }
}

/// Marks every start of a line, and places within long lines, so that no search for a column is long.
fn mark(text: &str) -> Vec<Mark> {
    const STRIDE: usize = 1_024;
    let mut mark = Mark { offset: 0, line: 1, column: 1 };
    let mut marks = vec![mark];
    let (mut line, mut column) = (1, 1);
    for (offset, character) in text.char_indices() {
        if offset - mark.offset >= STRIDE {
            mark = Mark { offset, line, column };
            marks.push(mark);
        }
        column += 1;
        if character == '\n' {
            (line, column) = (line + 1, 1);
            mark = Mark { offset: offset + 1, line, column };
            marks.push(mark);
        }
    }
    marks
}
