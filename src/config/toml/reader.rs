//! What becomes of each statement: does it go into the tree, or what is wrong with it, and whose mistake is it?

use toml_parser::{Expected, ParseError};

use super::TextPlaces;
use super::statement::{Kind, MAX_VALUES, NO_KEY, NO_VALUE, Statement, TOO_DEEP, Words};
use super::table::{Conflict, Part, Table, TracerLevel, level_below, separate_enable};
use crate::config::error::{DiagnosticSeverity, Fault};
use crate::config::node::{Mistake, Places as _};
use crate::config::section::{FIRST_NAMES, Owner, Section, is_known_somewhere};
use crate::config::text::dotted;

/// After this many mistakes a text is not read any further.
pub(super) const MAX_MISTAKES: usize = 100;
/// How many statements are ended at an open quote: to find out that they do not end otherwise takes all of the text.
const MAX_CUTS: usize = 3;

const NO_HEADER: Words = ("malformed table header", "write it like [tracer.otel], alone in its line");
const NO_END: Words = ("never closed, nothing is read from here on", "close it");
const NO_TOML: Words = ("too many mistakes, nothing is read from here on", "is this a TOML file?");
const TOO_LONG: Words = ("more than 20000 values, nothing is read from here on", "write a shorter file");
const FOREIGN_LINE_ENDS: Words =
    ("lines end in a carriage return alone, nothing is read from here on", "end them with a line feed");

/// Puts a document together, statement by statement.
pub(super) struct Reader<'t, 'd> {
    text: &'t str,
    pub(super) places: TextPlaces<'d>,
    pub(super) root: Table<'t>,
    pub(super) mistakes: Vec<Mistake>,
    current: CurrentTable<'t>,
    /// Headers and values so far.
    values: usize,
    cuts: usize,
}

/// The table that keys are put into.
#[derive(Default)]
struct CurrentTable<'t> {
    /// As it is written.
    path: Vec<String>,
    /// As it is stored.
    stored: Vec<Part<'t>>,
    level: TracerLevel,
    /// Its header could not be read, and this has been reported: its keys are left out.
    is_lost: bool,
}

/// Why a statement is not in the tree, or not all of it.
enum Problem {
    Words(Words),
    Conflict(Conflict),
    Error(ParseError),
}

impl<'t, 'd> Reader<'t, 'd> {
    pub(super) fn new(text: &'t str, places: TextPlaces<'d>) -> Self {
        let current = CurrentTable { level: Some(0), ..CurrentTable::default() };
        Self { text, places, root: Table::default(), mistakes: Vec::new(), current, values: 0, cuts: 0 }
    }

    /// Reads all of the text; the document has more of it from a line end on that is none of TOML.
    pub(super) fn read(&mut self, foreign_end: Option<usize>) {
        let mut at = 0;
        while at < self.text.len() {
            let (statement, end) = self.next(at);
            self.values += statement.values;
            if self.values > MAX_VALUES {
                return self.stop(statement.start, TOO_LONG);
            }
            let start = statement.start;
            self.take(statement, end);
            if self.mistakes.len() > MAX_MISTAKES {
                self.mistakes.pop();
                self.places.broken.pop();
                return self.stop(start, NO_TOML);
            }
            at = end;
        }
        if let Some(at) = foreign_end {
            self.stop(at, FOREIGN_LINE_ENDS);
        }
    }

    /// The statement that begins with the line at a place, and where it ends.
    fn next(&mut self, at: usize) -> (Statement<'t>, usize) {
        let level = self.current.level;
        let mut end = self.line_end(at);
        loop {
            let statement = Statement::parse(&self.text[at..end], at, level);
            match (statement.end, statement.open_quote) {
                (Some(first), _) if first < end => end = first,
                (None, _) if statement.may_go_on() && end < self.text.len() => {
                    // twice as many each time: all tries together cost little more than the last one
                    end = self.line_end(end + (end - at));
                }
                (None, Some(quote)) if statement.may_go_on() && self.cuts < MAX_CUTS => {
                    self.cuts += 1;
                    end = self.line_end(quote);
                    return (Statement::parse(&self.text[at..end], at, level), end);
                }
                _ => return (statement, end),
            }
        }
    }

    /// Behind the line break that follows a place.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        rest.iter().position(|&byte| byte == b'\n').map_or(self.text.len(), |length| at + length + 1)
    }

    /// Puts a statement into the tree, or reports what is wrong with it.
    fn take(&mut self, mut statement: Statement<'t>, end: usize) {
        let (start, kind, error_at) = (statement.start, statement.kind, statement.error_at());
        let is_unclosed = statement.end.is_none() && statement.may_go_on() && end == self.text.len();
        let (error, conflict) = (statement.error.take(), statement.conflict.take());
        let mut path = if statement.is_header() { Vec::new() } else { self.current.path.clone() };
        let table_len = path.len();
        path.extend(statement.key().iter().map(|part| part.name.to_string()));
        let taken = match kind {
            Kind::Header | Kind::ElementHeader => self.take_header(statement, path.clone()),
            // the header excuses what stands below it, but not the loss of all that follows
            _ if self.current.is_lost && is_unclosed => Err(Problem::Words(NO_END)),
            _ if self.current.is_lost => return,
            Kind::Blank => Ok(()),
            _ => self.take_assignment(statement),
        };
        let found = taken.err().or(conflict.map(Problem::Conflict)).or(error.map(Problem::Error));
        let Some(problem) = found else { return };
        let text = &self.text[start..end];
        let is_anybodys = is_unclosed || swallows_a_section(text);
        let owner = if is_anybodys { Owner::Unknown } else { Owner::of(&path) };
        let (at, fault) = match problem {
            Problem::Words((what, fix)) => {
                let is_header = matches!(kind, Kind::Header | Kind::ElementHeader);
                // where no value follows, words that name nothing may be the rest of a broken text, and so of a secret
                let is_known = |word: &String| is_known_somewhere(word) || FIRST_NAMES.contains(&word.as_str());
                while !is_header && path.len() > table_len && !path.last().is_some_and(is_known) {
                    path.pop();
                }
                (start, Fault::new(what, fix))
            }
            Problem::Conflict(conflict) => (conflict.at, self.conflict(&conflict)),
            Problem::Error(error) => (error_at, self.in_our_words(error_at, &error, &path)),
        };
        self.report(at, owner, &path, fault);
        self.places.broken.push(start..end);
    }

    fn take_header(&mut self, statement: Statement<'t>, path: Vec<String>) -> Result<(), Problem> {
        let (kind, is_complete, flaw) = (statement.kind, statement.is_complete, statement.flaw);
        self.current = CurrentTable { path, is_lost: true, ..CurrentTable::default() };
        match flaw {
            Some(TOO_DEEP) => return Err(Problem::Words(TOO_DEEP)),
            None if is_complete => {}
            _ => return Err(Problem::Words(NO_HEADER)),
        }
        let (start, (mut stored, _)) = (statement.start, statement.into_parts());
        if kind == Kind::Header {
            self.current.level = level_below(Some(0), &stored);
            separate_enable(&mut stored, Some(0), true);
        }
        let opened = self.root.open(&stored, start, kind == Kind::ElementHeader);
        self.current.is_lost = self.root.descend_header(&stored).is_err();
        self.current.stored = stored;
        opened.map_err(Problem::Conflict)
    }

    fn take_assignment(&mut self, statement: Statement<'t>) -> Result<(), Problem> {
        let flaw = match (statement.kind, statement.flaw) {
            (Kind::Stray, _) => Some(NO_KEY),
            // a key with something right behind it, like a colon
            (_, Some(NO_VALUE)) if statement.is_complete => Some(NO_KEY),
            (_, None) if !statement.is_complete => Some(NO_VALUE),
            (_, flaw) => flaw,
        };
        if let Some(flaw) = flaw {
            return Err(Problem::Words(flaw));
        }
        let (mut key, Some(value)) = statement.into_parts() else { return Ok(()) };
        separate_enable(&mut key, self.current.level, value.as_table().is_some());
        let table = self.root.descend_header(&self.current.stored);
        table.and_then(|table| table.set(&key, value)).map_err(Problem::Conflict)
    }

    fn conflict(&self, conflict: &Conflict) -> Fault {
        let line = self.places.location(conflict.first_at).line;
        match &conflict.not_a_table {
            None => Fault::duplicate_key(line),
            Some((name, kind)) => {
                let what = format!("{} is {kind} in line {line}, which has no keys", dotted(&[name]));
                Fault::new(what, "remove one of the two")
            }
        }
    }

    /// Splits the parser's message into what is wrong and what to write.
    fn in_our_words(&self, at: usize, error: &ParseError, path: &[String]) -> Fault {
        // what is wrong with a date comes with what is expected
        let (what, of_date) =
            error.description().split_once(", expected ").unwrap_or((error.description(), ""));
        let is_word = self.text[at..].starts_with(|c: char| c.is_ascii_alphabetic());
        // the parser takes `info` for a misspelt `inf`, and `yes` for text without quotes
        if what.starts_with("string values must be quoted") || is_word && what.starts_with("invalid ") {
            let key = match path {
                [_, _, name] => Section::at(path).and_then(|section| section.row(name)),
                _ => None,
            };
            let advice = key.map_or("write text in \"quotes\", or true, false or a number", |row| row.advice);
            return Fault::new("not a value", advice);
        }
        let shown = |expected: &Expected| match expected {
            Expected::Literal("\n") => "newline".to_owned(),
            Expected::Literal(text) => format!("`{text}`"),
            Expected::Description(words) => (*words).to_owned(),
            _ => "something else".to_owned(),
        };
        let expected: Vec<String> = error.expected().unwrap_or_default().iter().map(shown).collect();
        let expected = if of_date.is_empty() { expected.join(", ") } else { of_date.to_owned() };
        let fix = if expected.is_empty() { expected } else { format!("expected {expected}") };
        Fault::new(what.to_owned(), fix)
    }

    /// Leaves out everything from a place on.
    fn stop(&mut self, at: usize, (what, fix): Words) {
        let path = self.current.path.clone();
        self.report(at, Owner::Unknown, &path, Fault::new(what, fix));
        self.places.broken.push(at..usize::MAX);
    }

    fn report(&mut self, at: usize, owner: Owner, path: &[String], fault: Fault) {
        let key = dotted(&path.iter().map(String::as_str).collect::<Vec<_>>());
        let diagnostic = fault.found(DiagnosticSeverity::Error, Some(self.places.location(at)), key);
        self.mistakes.push(Mistake { owner, diagnostic });
    }
}

/// Whether a broken statement goes on over a line that would begin a section of ours.
fn swallows_a_section(statement: &str) -> bool {
    statement.lines().skip(1).any(|line| {
        let name = line.trim_start_matches(['[', ' ', '\t', '"', '\'']);
        FIRST_NAMES.iter().any(|first| name.starts_with(first))
    })
}
