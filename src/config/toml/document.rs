//! A document and the places in it.

use toml::de::DeTable;

use super::lost;
use super::outline::{Malformed, Outline, WayBack};
use super::scan::scan;
use super::tree;
use crate::config::error::{DiagnosticSeverity, Fault, Location};
use crate::config::node::Mistake;
use crate::config::node::{Node, Places};
use crate::config::section::{Owner, Section};
use crate::config::text::dotted;

/// More are only counted: a file with so many is no configuration.
const MAX_MISTAKES: usize = 101;
/// And of what was lost behind them.
const MAX_LOSSES: usize = 20;

/// A document that has been scanned; its edited text is handed to the parser by [`TomlDocument::parse`].
pub(super) struct TomlDocument<'d> {
    file: &'d str,
    text: &'d str,
    outline: Outline<'d>,
    way_back: WayBack,
    marks: Vec<Mark>,
    /// Statements with a mistake in their TOML, in their order: what was read of them is not worth another word.
    spoilt: Vec<usize>,
}

/// A place whose line and column are known.
#[derive(Debug, Clone, Copy)]
struct Mark {
    offset: usize,
    line: usize,
    column: usize,
}

/// Who found a mistake.
enum Reason<'m> {
    Scan(&'m Malformed),
    Parse(&'m str),
}

impl<'d> TomlDocument<'d> {
    /// The document with what could be read, and every mistake, up to a bound: at most one for each statement.
    /// `file` is how it is called in messages.
    pub(super) fn parse(file: &'d str, text: &'d str) -> (Self, Node, Vec<Mistake>) {
        // the mark that some editors put first is no character of the first line
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let outline = scan(text);
        let (edited, way_back) = outline.edited();
        let mut document = Self { file, text, outline, way_back, marks: mark(text), spoilt: Vec::new() };
        let edited = without_stray_returns(&edited);
        let (root, errors) = DeTable::parse_recoverable(&edited);
        let mut mistakes = document.mistakes(&errors);
        let root = tree::node_of(&root);
        // after too many mistakes nobody is started anyhow
        if (1..=MAX_MISTAKES).contains(&mistakes.len()) {
            mistakes.extend(document.losses(&root));
        }
        (document, root, mistakes)
    }

    fn mistakes(&mut self, errors: &[toml::de::Error]) -> Vec<Mistake> {
        let malformed = self.outline.malformed().iter().map(|found| (found.at, Reason::Scan(found)));
        let errors = errors.iter().map(|error| {
            let start = error.span().map_or(0, |span| span.start);
            (self.way_back.original(start), Reason::Parse(error.message()))
        });
        let mut found: Vec<(usize, Reason<'_>)> = malformed.chain(errors).collect();
        found.sort_by_cached_key(|(place, _)| *place);
        // what follows a first mistake in a statement is mostly its echo
        found.dedup_by_key(|(place, _)| self.outline.statement_at(*place));

        let shown = &found[..found.len().min(MAX_MISTAKES)];
        let mut mistakes: Vec<Mistake> =
            shown.iter().map(|(place, reason)| self.mistake(*place, reason)).collect();
        let spoilt = shown.iter().filter_map(|(place, _)| self.outline.statement_at(*place)).collect();
        if let Some((place, _)) = found.get(MAX_MISTAKES) {
            let what = format!("{} more mistakes from here on", found.len() - MAX_MISTAKES);
            let fault = Fault::new(what, "is this a TOML file?");
            let diagnostic = fault.found(DiagnosticSeverity::Error, Some(self.location_of(*place)), "");
            mistakes.push(Mistake { owner: Owner::Unknown, diagnostic });
        }
        self.spoilt = spoilt;
        mistakes
    }

    /// What is missing in the tree although nothing is wrong with it: whoever it belongs to cannot be started.
    fn losses(&self, root: &Node) -> Vec<Mistake> {
        const LOST: Malformed =
            Malformed { at: 0, what: "not read because of a mistake above it", fix: "mend that first" };
        let lost = lost::statements(&self.outline, &self.way_back, root);
        let unspoilt = lost.into_iter().filter(|number| self.spoilt.binary_search(number).is_err());
        let mut losses: Vec<Mistake> = unspoilt
            .map(|number| self.mistake(self.outline.start_of(number), &Reason::Scan(&LOST)))
            .filter(|mistake| mistake.owner != Owner::Other)
            .take(MAX_LOSSES)
            .collect();
        // there may be more, of others
        if losses.len() == MAX_LOSSES {
            losses.iter_mut().for_each(|mistake| mistake.owner = Owner::Unknown);
        }
        losses
    }

    fn mistake(&self, place: usize, reason: &Reason<'_>) -> Mistake {
        let fault = match reason {
            Reason::Scan(malformed) => Fault::new(malformed.what, malformed.fix),
            Reason::Parse(message) => self.in_our_words(place, message),
        };
        let owner = self.outline.owner_at(place);
        let path = match reason {
            Reason::Scan(_) => self.outline.path_without_strays(place),
            Reason::Parse(_) => self.outline.path_at(place),
        };
        let key = dotted(&path.iter().map(String::as_str).collect::<Vec<_>>());
        let diagnostic = fault.found(DiagnosticSeverity::Error, Some(self.location_of(place)), key);
        Mistake { owner, diagnostic }
    }

    /// Splits the parser's message into what is wrong and what to write.
    fn in_our_words(&self, place: usize, message: &str) -> Fault {
        if message == "duplicate key" {
            return match self.outline.earlier_twin(place) {
                Some(twin) => Fault::duplicate_key(self.location_of(twin).line),
                None => Fault::new("duplicate key", "remove one of the two"),
            };
        }
        let is_word = self.text[place..].starts_with(|c: char| c.is_ascii_alphabetic());
        // the parser takes `info` for a misspelt `inf`, and `yes` for text without quotes
        if message.starts_with("string values must be quoted") || is_word && message.starts_with("invalid ") {
            return Fault::new("not a value", self.advice_at(place));
        }
        let (what, fix) = match message.split_once(", expected ") {
            Some((what, "nothing")) => (what, String::new()),
            Some((what, expected)) => (what, format!("expected {expected}")),
            None => (message, String::new()),
        };
        Fault::new(what.to_owned(), fix)
    }

    /// What to write at a place where no value could be read.
    fn advice_at(&self, place: usize) -> &'static str {
        let path = self.outline.path_at(place);
        let key = match path.as_slice() {
            [_, _, name] => Section::at(&path).and_then(|section| section.row(name)),
            _ => None,
        };
        key.map_or("write text in \"quotes\", or true, false or a number", |row| row.advice)
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

impl Places for TomlDocument<'_> {
    fn location(&self, at: usize) -> Location {
        self.location_of(self.way_back.original(at))
    }

    fn is_spoilt(&self, at: usize) -> bool {
        let statement = self.outline.statement_at(self.way_back.original(at));
        statement.is_some_and(|statement| self.spoilt.binary_search(&statement).is_ok())
    }
}

/// The parser takes a carriage return alone for a line break and goes on behind it, which can cost it the next line.
/// Another character that cannot stand anywhere is an error too, and stays in its line.
fn without_stray_returns(text: &str) -> String {
    let mut rest = text.chars().peekable();
    let mut kept = String::with_capacity(text.len());
    while let Some(character) = rest.next() {
        let is_stray = character == '\r' && rest.peek() != Some(&'\n');
        kept.push(if is_stray { '\u{1}' } else { character });
    }
    kept
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
        let (document, ..) = TomlDocument::parse("f", &text);
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
        assert_eq!(TomlDocument::parse("f", "").0.location_of(0).to_string(), "f:1:1");
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        let (document, _, mistakes) = TomlDocument::parse("f", "\u{feff}= 1");
        assert_eq!(mistakes[0].diagnostic.location, Some(document.location_of(0)));
        assert_eq!(document.location_of(0).to_string(), "f:1:1");
    }
}
