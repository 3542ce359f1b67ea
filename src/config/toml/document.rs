//! A document and the places in it.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::DeTable;

use super::outline::{Malformed, Outline, Owner, WayBack, encode};
use super::scan::scan;
use super::section::Section;
use crate::config::error::{Finding, FindingSeverity, Location};

/// More are only counted: a file with so many is no configuration.
const MAX_MISTAKES: usize = 101;

/// A document that has been scanned; its edited text is handed to the parser by [`Document::parse`].
pub(super) struct Document<'d> {
    file: &'d str,
    text: &'d str,
    outline: Outline<'d>,
    edited: String,
    way_back: WayBack,
    marks: Vec<Mark>,
}

/// A place whose line and column are known.
#[derive(Debug, Clone, Copy)]
struct Mark {
    offset: usize,
    line: usize,
    column: usize,
}

/// A mistake in the TOML itself.
pub(super) struct Mistake {
    pub(super) owner: Owner,
    pub(super) finding: Finding,
    /// See [`Document::statement_at`].
    pub(super) statement: Option<usize>,
}

/// Who found a mistake.
enum Reason<'m> {
    Scan(&'m Malformed),
    Parse(&'m str),
}

impl<'d> Document<'d> {
    /// `file` is how the document is called in messages.
    pub(super) fn new(file: &'d str, text: &'d str) -> Self {
        // the mark that some editors put first is no character of the first line
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let outline = scan(text);
        let (edited, way_back) = outline.edited();
        Self { file, text, outline, edited, way_back, marks: mark(text) }
    }

    /// What could be read, and every mistake, up to a bound: at most one for each statement.
    pub(super) fn parse(&self) -> (Spanned<DeTable<'_>>, Vec<Mistake>) {
        let (root, errors) = DeTable::parse_recoverable(&self.edited);
        let malformed = self.outline.malformed().iter().map(|found| (found.at, Reason::Scan(found)));
        let errors = errors.iter().map(|error| {
            let start = error.span().map_or(0, |span| span.start);
            (self.way_back.original(start), Reason::Parse(error.message()))
        });
        let mut found: Vec<(usize, Reason<'_>)> = malformed.chain(errors).collect();
        found.sort_by_key(|(place, _)| *place);
        // what follows a first mistake in a statement is mostly its echo
        found.dedup_by_key(|(place, _)| self.outline.statement_at(*place));

        let mut mistakes: Vec<Mistake> =
            found.iter().take(MAX_MISTAKES).map(|(place, reason)| self.mistake(*place, reason)).collect();
        if let Some((place, _)) = found.get(MAX_MISTAKES) {
            let finding = Finding {
                severity: FindingSeverity::Error,
                location: Some(self.location_of(*place)),
                key: String::new(),
                what: format!("{} more mistakes from here on", found.len() - MAX_MISTAKES),
                fix: "is this a TOML file?".to_owned(),
            };
            mistakes.push(Mistake { owner: Owner::Unknown, finding, statement: None });
        }
        (root, mistakes)
    }

    /// The place of an offset that the parser gave.
    pub(super) fn location(&self, edited: usize) -> Location {
        self.location_of(self.way_back.original(edited))
    }

    /// The number of the statement at an offset that the parser gave.
    pub(super) fn statement_at(&self, edited: usize) -> Option<usize> {
        self.outline.statement_at(self.way_back.original(edited))
    }

    fn mistake(&self, place: usize, reason: &Reason<'_>) -> Mistake {
        let (what, fix) = match reason {
            Reason::Scan(malformed) => (malformed.what.to_owned(), malformed.fix.to_owned()),
            Reason::Parse(message) => self.in_our_words(place, message),
        };
        let owner = self.outline.owner_at(place);
        // what nobody here reads can break nothing
        let severity = if owner == Owner::Other { FindingSeverity::Warning } else { FindingSeverity::Error };
        let key = dotted(self.outline.path_at(place).iter().map(String::as_str));
        let finding = Finding { severity, location: Some(self.location_of(place)), key, what, fix };
        Mistake { owner, finding, statement: self.outline.statement_at(place) }
    }

    /// Splits the parser's message into what is wrong and what to write.
    fn in_our_words(&self, place: usize, message: &str) -> (String, String) {
        if message == "duplicate key" {
            let twin = self.outline.earlier_twin(place).map(|twin| self.location_of(twin).line);
            let fix = twin.map_or_else(
                || "remove one of the two".to_owned(),
                |line| format!("it is already set in line {line}; remove one of the two"),
            );
            return (message.to_owned(), fix);
        }
        let is_word = self.text[place..].starts_with(|c: char| c.is_ascii_alphabetic());
        // the parser takes `info` for a misspelt `inf`, and `yes` for text without quotes
        if message.starts_with("string values must be quoted") || is_word && message.starts_with("invalid ") {
            return ("not a value".to_owned(), self.advice_at(place));
        }
        match message.split_once(", expected ") {
            Some((what, "nothing")) => (what.to_owned(), String::new()),
            Some((what, expected)) => (what.to_owned(), format!("expected {expected}")),
            None => (message.to_owned(), String::new()),
        }
    }

    /// What to write at a place where no value could be read.
    fn advice_at(&self, place: usize) -> String {
        let path = self.outline.path_at(place);
        let key = match path.as_slice() {
            [_, _, name] => Section::at(&path).and_then(|section| section.key(name)),
            _ => None,
        };
        key.map_or("write text in \"quotes\", or true, false or a number", |key| key.advice()).to_owned()
    }

    fn location_of(&self, place: usize) -> Location {
        let place = place.min(self.text.len());
        let after = self.marks.partition_point(|mark| mark.offset <= place);
        // the first mark is at 0, so there is one before every place
        let mark = self.marks[after.saturating_sub(1)];
        let column = mark.column + self.text[mark.offset..place].chars().count();
        Location { file: self.file.to_owned(), line: mark.line, column }
    }
}

/// A path as it would be written in a file, with endless parts cut.
pub(super) fn dotted<'p>(path: impl IntoIterator<Item = &'p str>) -> String {
    let parts: Vec<String> = path.into_iter().map(|part| encode(&shortened(part))).collect();
    parts.join(".")
}

/// Text for a message: what is very long helps nobody.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Marks every start of a line and, so that no search is long, places within long lines.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let long = "ü".repeat(3_000);
        let text = format!("a\nöb = 1\r\n\n{long}X\n");
        let document = Document::new("f", &text);
        let place = |wanted: &str| {
            let location = document.location_of(text.find(wanted).expect(wanted));
            (location.line, location.column)
        };
        assert_eq!(place("a"), (1, 1));
        assert_eq!(place("b"), (2, 2));
        assert_eq!(place("1"), (2, 6));
        assert_eq!(place("\r"), (2, 7));
        assert_eq!(place("ü"), (4, 1));
        assert_eq!(place("X"), (4, 3_001));
        assert_eq!(document.location_of(text.len()).line, 5);
        assert_eq!(Document::new("f", "").location_of(0).to_string(), "f:1:1");
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        let document = Document::new("f", "\u{feff}= 1");
        let (_, mistakes) = document.parse();
        assert_eq!(mistakes[0].finding.location, Some(document.location_of(0)));
        assert_eq!(document.location_of(0).to_string(), "f:1:1");
    }
}
