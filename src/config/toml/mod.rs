//! How does a text of TOML become a document, and how does a wrong line leave all others as they are?
//!
//! ```text
//! text → toml_parser: tokens → events ─→ Reader: statements ─→ Table ─→ Node
//!                                └ errors ──┴─→ at most one mistake per statement, at its place
//! ```
//!
//! The parser reports what is wrong and goes on with the next line. `events` collects what it sees into statements, a table
//! header or a key with its value each; `statement` takes one over or says what is wrong with it; `table` knows which of
//! them may stand beside each other.

mod events;
mod statement;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use toml_parser::parser::{ValidateWhitespace, parse_document};
use toml_parser::{ParseError, Source};

use self::events::Frame;
use self::statement::{Statement, Words};
use self::table::{Origin, Part, Table, TracerLevel};
use super::error::Location;
use super::node::{Document, Mistake};
use super::node::{Node, Places};

/// What can be read of a text; `file` is how it is called in messages.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    // the byte order mark that some editors write first is no character of the first line
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut places = TextPlaces { file, text, marks: mark(text), broken: Vec::new() };
    let read = read(text, &places);
    places.broken = read.broken;
    Document { root: read.root, mistakes: read.mistakes, places: Box::new(places) }
}

/// How often a text is read again without quotes that take in other lines.
const MAX_RETRIES: usize = 3;
/// A character that is an error wherever it stands, and stays in its line.
const NOWHERE_ALLOWED: &str = "\u{1}";
const FOREIGN_LINE_ENDS: Words =
    ("lines end in a carriage return alone, nothing is read from here on", "end them with a line feed");

/// What could be read of a text.
struct Read {
    root: Node,
    /// In the order of the text.
    mistakes: Vec<Mistake>,
    /// The statements that they are in.
    broken: Vec<Range<usize>>,
}

fn read(text: &str, places: &TextPlaces<'_>) -> Read {
    let foreign = foreign_line_end(text);
    let mut text = without_stray_returns(&text[..foreign.unwrap_or(text.len())]);
    let mut retries = MAX_RETRIES;
    loop {
        let source = Source::new(&text);
        let first_error = Cell::new(None);
        let mut reader = Reader::new(source, places, &first_error);
        parse_document(
            &source.lex().into_vec(),
            &mut ValidateWhitespace::new(&mut reader, source),
            &mut |error: ParseError| keep_first(&first_error, error),
        );
        reader.finish_statement(text.len());
        if let Some(quotes) = reader.stray_quotes.take().filter(|_| retries > 0) {
            retries -= 1;
            let replacement = NOWHERE_ALLOWED.repeat(quotes.len());
            text.to_mut().replace_range(quotes, &replacement);
            continue;
        }
        if let Some(at) = foreign {
            reader.stop(at, FOREIGN_LINE_ENDS);
        }
        let root = Node { at: 0, value: reader.root.into_tree() };
        return Read { root, mistakes: reader.mistakes, broken: reader.broken };
    }
}

/// The carriage returns without a line feed.
fn stray_returns(text: &str) -> impl Iterator<Item = usize> {
    let is_stray = |at: &usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    text.match_indices('\r').map(|(at, _)| at).filter(is_stray)
}

/// Where the first stray carriage return is, if there are enough to be the line ends of the text.
fn foreign_line_end(text: &str) -> Option<usize> {
    stray_returns(text).nth(statement::MAX_MISTAKES + 1).and_then(|_| stray_returns(text).next())
}

/// The parser would take a carriage return for the end of a line and read the rest as a line of its own.
fn without_stray_returns(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for at in stray_returns(&text.clone()) {
        text.to_mut().replace_range(at..=at, NOWHERE_ALLOWED);
    }
    text
}

/// What follows the first error of a statement is mostly its echo.
fn keep_first(first: &Cell<Option<ParseError>>, error: ParseError) {
    let start = |error: &ParseError| error.unexpected().map(|span| span.start());
    let kept = first.take();
    let is_earlier = kept.as_ref().is_none_or(|kept| start(&error) < start(kept));
    first.set(if is_earlier { Some(error) } else { kept });
}

/// Puts a document together, statement by statement.
struct Reader<'r, 'd> {
    source: Source<'d>,
    places: &'r TextPlaces<'r>,
    /// Of the statement that is being read.
    first_error: &'r Cell<Option<ParseError>>,
    root: Table<'d>,
    current: CurrentTable<'d>,
    statement: Option<Statement<'d>>,
    /// The arrays and inline tables that are open, outermost first.
    open: Vec<Frame<'d>>,
    /// Headers and values so far.
    values: usize,
    /// Nothing is read any more.
    has_stopped: bool,
    /// The first quotes that let a statement take in lines which are not its own.
    stray_quotes: Option<Range<usize>>,
    mistakes: Vec<Mistake>,
    broken: Vec<Range<usize>>,
}

/// The table that keys are put into.
#[derive(Default)]
struct CurrentTable<'d> {
    /// As it is written.
    path: Vec<String>,
    /// As it is stored.
    stored: Vec<Part<'d>>,
    level: TracerLevel,
    /// Its header could not be read, and this has been reported: its keys are left out.
    is_lost: bool,
}

impl<'r, 'd> Reader<'r, 'd> {
    fn new(
        source: Source<'d>,
        places: &'r TextPlaces<'r>,
        first_error: &'r Cell<Option<ParseError>>,
    ) -> Self {
        Self {
            source,
            places,
            first_error,
            root: Table::new(Origin::Explicit),
            current: CurrentTable { level: Some(0), ..CurrentTable::default() },
            statement: None,
            open: Vec::new(),
            values: 0,
            has_stopped: false,
            stray_quotes: None,
            mistakes: Vec::new(),
            broken: Vec::new(),
        }
    }
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
