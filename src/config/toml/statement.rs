//! What becomes of a statement: does it go into the tree, or what is wrong with it, and whose mistake is it?

use std::mem;

use toml_parser::{Expected, ParseError};

use super::table::{Conflict, Origin, Part, level_below, separate_enable};
use super::{CurrentTable, Reader};
use crate::config::error::{DiagnosticSeverity, Fault};
use crate::config::node::Mistake;
use crate::config::node::{Node, Places as _};
use crate::config::section::{FIRST_NAMES, Owner, Section, is_known_somewhere};
use crate::config::text::dotted;

/// After this many mistakes a text is not read any further.
pub(super) const MAX_MISTAKES: usize = 100;
/// What is wrong, and what to write instead.
pub(super) type Words = (&'static str, &'static str);
pub(super) const TOO_DEEP: Words = ("nested deeper than 32 levels", "write it flatter");
const NO_HEADER: Words = ("malformed table header", "write it like [tracer.otel], alone in its line");
pub(super) const NO_KEY: Words =
    ("not a key", "write key = value; quote a key that holds more than letters, digits, - and _");
pub(super) const NO_VALUE: Words = ("key without a value", "write key = value");
const NO_END: Words = ("never closed, nothing is read from here on", "close it");
const NO_TOML: Words = ("too many mistakes, nothing is read from here on", "is this a TOML file?");

/// A table header, or a key with its value.
pub(super) struct Statement<'d> {
    pub(super) start: usize,
    pub(super) kind: StatementKind,
    pub(super) key: Vec<Part<'d>>,
    pub(super) key_flaw: Option<Words>,
    /// Whether the bracket of a header is closed, or `=` follows a key.
    pub(super) is_complete: bool,
    /// Something follows that does not belong there.
    pub(super) has_rest: bool,
    /// It has taken in the rest of the text.
    pub(super) is_unclosed: bool,
    /// The first quote in it that is not closed in its line, and so hides the brackets behind it.
    pub(super) open_quote: Option<usize>,
    pub(super) value: Option<Node>,
    /// What this reader found in the value, at its place.
    pub(super) fault: Option<(usize, Fault)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementKind {
    Header,
    /// `[[…]]`.
    ElementHeader,
    Assignment,
    /// A line that begins as no statement does.
    Stray,
    /// An error in a comment or a line end.
    Blank,
}

/// What became of a statement.
enum Outcome {
    /// It is in the tree, unless the parser has reported an error.
    Read,
    /// It is left out, and there is nothing to report.
    Silent,
    /// It is left out for this reason.
    Words(Words),
    /// There is a mistake in it at this place.
    Fault(usize, Fault),
}

impl<'d> Reader<'_, 'd> {
    pub(super) fn finish_statement(&mut self, end: usize) {
        let error = self.first_error.take();
        let is_open = !mem::take(&mut self.open).is_empty();
        let error_at = error.as_ref().and_then(ParseError::unexpected).map(|span| span.start());
        if let (None, Some(at)) = (&self.statement, error_at) {
            self.begin(at.min(end), StatementKind::Blank);
        }
        let Some(mut statement) = self.statement.take().filter(|_| !self.has_stopped) else { return };
        statement.is_unclosed |= is_open;
        if let Some(at) = statement.open_quote.filter(|_| statement.is_unclosed) {
            self.stray_quotes.get_or_insert(at..at + 1);
        }
        let path_of_table = self.current.path.clone();
        let (outcome, path) = match statement.kind {
            StatementKind::Header | StatementKind::ElementHeader => {
                let outcome = self.take_header(&mut statement);
                (outcome, self.current.path.clone())
            }
            _ => {
                let names = statement.key.iter().map(|part| part.name.to_string());
                let path = path_of_table.iter().cloned().chain(names).collect();
                (self.take_assignment(&mut statement), path)
            }
        };
        let owner = Owner::of(&path);
        let found = match (outcome, error) {
            (Outcome::Silent, _) => return,
            (Outcome::Words(words), _) => {
                let path = without_strays(path, &statement, path_of_table.len());
                Some((statement.start, Fault::new(words.0, words.1), path))
            }
            (Outcome::Fault(at, fault), _) => Some((at, fault, path)),
            (Outcome::Read, Some(error)) => {
                let at = error_at.unwrap_or(statement.start);
                Some((at, self.in_our_words(at, &error, &path), path))
            }
            (Outcome::Read, None) => None,
        };
        let Some((at, fault, path)) = found else { return };
        if self.mistakes.len() >= MAX_MISTAKES {
            return self.stop(statement.start, NO_TOML);
        }
        let text = &self.source.input()[statement.start..end];
        let is_anybodys = statement.is_unclosed || swallows_a_section(text);
        let owner = if is_anybodys { Owner::Unknown } else { owner };
        self.report(at, owner, &path, fault);
        self.broken.push(statement.start..end.max(statement.start + 1));
    }

    fn take_header(&mut self, statement: &mut Statement<'d>) -> Outcome {
        let mut stored = mem::take(&mut statement.key);
        let path: Vec<String> = stored.iter().map(|part| part.name.to_string()).collect();
        let is_element = statement.kind == StatementKind::ElementHeader;
        let flaw = match statement.key_flaw {
            Some(TOO_DEEP) => Some(TOO_DEEP),
            None if statement.is_complete && !statement.has_rest => None,
            _ => Some(NO_HEADER),
        };
        self.current = CurrentTable { path, is_lost: true, ..CurrentTable::default() };
        if let Some(flaw) = flaw {
            return Outcome::Words(flaw);
        }
        let opened = if is_element {
            self.root.open_element(&stored, statement.start)
        } else {
            self.current.level = level_below(Some(0), &stored);
            separate_enable(&mut stored, Some(0), true);
            self.root.open(&stored, statement.start)
        };
        self.current.is_lost = self.root.descend(&stored, Origin::Header).is_err();
        self.current.stored = stored;
        match opened {
            Ok(()) => Outcome::Read,
            Err(conflict) => Outcome::Fault(conflict.at, self.conflict(&conflict)),
        }
    }

    fn take_assignment(&mut self, statement: &mut Statement<'d>) -> Outcome {
        if self.current.is_lost {
            // the header excuses what stands below it, but not the loss of all that follows
            return if statement.is_unclosed { Outcome::Words(NO_END) } else { Outcome::Silent };
        }
        let flaw = match (statement.kind, statement.key_flaw) {
            (StatementKind::Blank, _) => return Outcome::Read,
            (StatementKind::Stray, _) => Some(NO_KEY),
            // a key with something right behind it, like a colon
            (_, Some(NO_VALUE)) if statement.is_complete => Some(NO_KEY),
            (_, None) if !statement.is_complete => Some(NO_VALUE),
            (_, flaw) => flaw,
        };
        if let Some(flaw) = flaw {
            return Outcome::Words(flaw);
        }
        let Some(value) = statement.value.take() else { return Outcome::Read };
        let mut key = statement.key.clone();
        separate_enable(&mut key, self.current.level, value.as_table().is_some());
        let table = self.root.descend(&self.current.stored, Origin::Header);
        match table.and_then(|table| table.set(&key, value)) {
            Err(conflict) => Outcome::Fault(conflict.at, self.conflict(&conflict)),
            Ok(()) => statement.fault.take().map_or(Outcome::Read, |(at, fault)| Outcome::Fault(at, fault)),
        }
    }

    pub(super) fn conflict(&self, conflict: &Conflict) -> Fault {
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
        let is_word = self.source.input()[at..].starts_with(|c: char| c.is_ascii_alphabetic());
        // the parser takes `info` for a misspelt `inf`, and `yes` for text without quotes
        if what.starts_with("string values must be quoted") || is_word && what.starts_with("invalid ") {
            let key = match path {
                [_, _, name] => Section::at(path).and_then(|section| section.row(name)),
                _ => None,
            };
            let advice = key.map_or("write text in \"quotes\", or true, false or a number", |row| row.advice);
            return Fault::new("not a value", advice);
        }
        let fix = match error.expected() {
            _ if !of_date.is_empty() => format!("expected {of_date}"),
            None | Some([]) => String::new(),
            Some(expected) => {
                format!("expected {}", expected.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
        };
        Fault::new(what.to_owned(), fix)
    }

    /// Leaves out everything from a place on.
    pub(super) fn stop(&mut self, at: usize, (what, fix): Words) {
        let path = self.current.path.clone();
        self.report(at, Owner::Unknown, &path, Fault::new(what, fix));
        self.broken.push(at..usize::MAX);
        self.has_stopped = true;
    }

    fn report(&mut self, at: usize, owner: Owner, path: &[String], fault: Fault) {
        let key = dotted(&path.iter().map(String::as_str).collect::<Vec<_>>());
        let diagnostic = fault.found(DiagnosticSeverity::Error, Some(self.places.location(at)), key);
        self.mistakes.push(Mistake { owner, diagnostic });
    }
}

/// A path without words at its end that are the name of nothing: where no value follows, they may be the rest of a broken
/// text, and so of a secret.
fn without_strays(mut path: Vec<String>, statement: &Statement<'_>, table_len: usize) -> Vec<String> {
    let is_header = matches!(statement.kind, StatementKind::Header | StatementKind::ElementHeader);
    let is_known = |word: &String| is_known_somewhere(word) || FIRST_NAMES.contains(&word.as_str());
    while !is_header && path.len() > table_len && !path.last().is_some_and(is_known) {
        path.pop();
    }
    path
}

/// Whether a broken statement goes on over a line that would begin a section of ours.
fn swallows_a_section(statement: &str) -> bool {
    statement.lines().skip(1).any(|line| {
        let name = line.trim_start_matches(['[', ' ', '\t', '"', '\'']);
        FIRST_NAMES.iter().any(|first| name.starts_with(first))
    })
}

fn shown(expected: &Expected) -> String {
    match expected {
        Expected::Literal("\n") => "newline".to_owned(),
        Expected::Literal(text) => format!("`{text}`"),
        Expected::Description(words) => (*words).to_owned(),
        _ => "something else".to_owned(),
    }
}
