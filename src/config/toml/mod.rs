//! How does a text of TOML become a document, and how does a wrong line leave all others as they are?
//!
//! ```text
//! text ─→ Statement: toml_parser's tokens → events, of one statement ─→ Reader ─→ Table ─→ Node
//!                                             └ the first error ──────────┴─→ at most one mistake, at its place
//! ```
//!
//! The text is read statement by statement, a table header or a key with its value each. A statement ends with its line,
//! unless its value goes on in the next one: only then are more lines shown to the parser. `reader` takes a statement over
//! or says what is wrong with it; `table` knows which of them may stand beside each other.

mod reader;
mod statement;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::reader::{LONE_RETURN_MARK, MAX_MISTAKES, Reader};
use super::error::Location;
use super::node::{Document, Node, Places};

/// What can be read of a text; `file` is how it is called in messages.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    // the byte order mark that some editors write first is no character of the first line
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_stray = |at: &usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    let stray_returns: Vec<usize> = text.match_indices('\r').map(|(at, _)| at).filter(is_stray).collect();
    // more of them than mistakes are reported: they are the line ends of the text
    let foreign_end = stray_returns.get(MAX_MISTAKES + 1).and_then(|_| stray_returns.first().copied());

    let mut readable = text[..foreign_end.unwrap_or(text.len())].to_owned();
    for &at in stray_returns.iter().filter(|_| foreign_end.is_none()) {
        readable.replace_range(at..=at, LONE_RETURN_MARK);
    }
    // so that all that is closed is seen to end
    readable.push('\n');
    let places = TextPlaces { file, text, marks: mark(text), broken: Vec::new() };
    let mut reader = Reader::new(&readable, places);
    reader.read(foreign_end);
    let root = Node { at: 0, value: reader.root.into_tree() };
    Document { root, mistakes: reader.mistakes, places: Box::new(reader.places) }
}

/// Finds lines and columns in a text. A place is an offset in bytes.
struct TextPlaces<'d> {
    file: &'d str,
    text: &'d str,
    /// In the order of the text; the first is at its start.
    marks: Vec<Mark>,
    /// Statements with a mistake.
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
        self.broken.iter().any(|statement| statement.contains(&at))
    }
}

/// Marks every start of a line, and places within long lines, so that no search for a column is long.
fn mark(text: &str) -> Vec<Mark> {
    const STRIDE: usize = 1_024;
    let mut here = Mark { offset: 0, line: 1, column: 1 };
    let mut marks = vec![here];
    for character in text.chars() {
        here.offset += character.len_utf8();
        here.column += 1;
        if character == '\n' {
            (here.line, here.column) = (here.line + 1, 1);
        }
        if here.column % STRIDE == 1 {
            marks.push(here);
        }
    }
    marks
}
