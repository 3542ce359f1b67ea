//! Parses TOML text to a document, and recovers from errors: an invalid statement does not affect the others.
//!
//! ```text
//! text ─→ Statement: tokens → events of toml_parser ─→ Reader ─→ Table ─→ Node
//!                             └ the first error ─────────┴─→ at most one mistake per statement, at its place
//! ```
//!
//! The text is parsed statement by statement: a statement is a table header, or a key with its value. A statement ends
//! with its line unless its value continues in the next one; only then is the parser given more lines. [`Table`]
//! detects statements that contradict each other.

mod statement;
#[cfg(test)]
mod tests;

use toml_parser::{Expected, ParseError};

use self::statement::{Conflict, Flaw, Kind, MAX_VALUES, Part, Statement, Table, line_end};
use super::error::Fault;
use super::node::{Document, Mistake, Node, Places};
use super::section::{FIRST_NAMES, Owner, Section, is_known_somewhere};
use super::text::{dotted, is_bare};

/// Parses a text as far as possible; `file` is its name in messages.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    // The added line break ends the last value.
    let mut bytes = format!("{text}\n").into_bytes();
    for at in 0..text.len() {
        if is_lone_return(&bytes, at) {
            bytes[at] = LONE_RETURN_MARK;
        }
    }
    let readable = String::from_utf8(bytes).unwrap_or_default();
    let mut reader = Reader {
        text: &readable,
        places: Places::new(file, text, false),
        root: Table::default(),
        mistakes: Vec::new(),
        current: CurrentTable::default(),
        values: 0,
        reread: 0,
    };
    reader.read(text.as_bytes());
    let root = Node { at: 0, value: reader.root.into_tree() };
    Document { root, mistakes: reader.mistakes, places: reader.places }
}

fn is_lone_return(text: &[u8], at: usize) -> bool {
    text[at] == b'\r' && text.get(at + 1) != Some(&b'\n')
}

/// Number of syntax errors after which the rest of the text is ignored.
const MAX_MISTAKES: usize = 100;
/// Maximum number of bytes that are parsed again because a broken statement extended over lines of other statements.
const MAX_REREAD: usize = 1 << 18;

/// Control character that replaces a lone carriage return, which the parser would treat as a line end. TOML allows this
/// character nowhere, so the parser reports an error and does not end the line.
const LONE_RETURN_MARK: u8 = 1;

const NEVER_CLOSED: Flaw = ("never closed: the rest is ignored", "close it");
const TOO_MANY_MISTAKES: Flaw = ("too many mistakes: the rest is ignored", "is this a TOML file?");
const TOO_LONG: Flaw = ("more than 20000 values: the rest is ignored", "write a shorter file");
const LONE_RETURN: Flaw = ("the line end is a lone carriage return", "end lines with LF or CRLF");

/// Assembles a document from its statements.
struct Reader<'t, 'd> {
    text: &'t str,
    places: Places<'d>,
    root: Table<'t>,
    mistakes: Vec<Mistake>,
    current: CurrentTable<'t>,
    /// Number of headers and values so far.
    values: usize,
    /// Number of bytes that were parsed again so far.
    reread: usize,
}

/// The table of the last header, to which keys are added.
#[derive(Default)]
struct CurrentTable<'t> {
    /// Path in the text, for messages.
    path: Vec<String>,
    /// Path in the tree.
    stored: Vec<Part<'t>>,
    /// True if the header was invalid, which has been reported. The keys of the table are ignored.
    is_lost: bool,
}

impl<'t> Reader<'t, '_> {
    /// Reads all statements; `written` is the text before lone carriage returns were replaced.
    fn read(&mut self, written: &[u8]) {
        let mut at = 0;
        while at < self.text.len() {
            let statement = self.next(at);
            let start = statement.start;
            at = statement.end;
            self.values += statement.values;
            if self.values > MAX_VALUES {
                return self.stop(start, TOO_LONG);
            }
            let Some((owner, path, mut fault_at, mut fault)) = self.take(statement) else { continue };
            if let Some(lone) = (start..at.min(written.len())).find(|&at| is_lone_return(written, at)) {
                (fault_at, fault) = (lone, Fault::new(LONE_RETURN.0, LONE_RETURN.1));
            }
            if self.mistakes.len() >= MAX_MISTAKES {
                return self.stop(start, TOO_MANY_MISTAKES);
            }
            self.report(fault_at, owner, &path, fault);
            // Values of the broken statement must not cause further diagnostics.
            self.places.spoil(start..at);
        }
    }

    /// Returns the statement whose first line begins at the offset `at`. A broken statement that extends over other
    /// statements is cut off before them.
    fn next(&mut self, at: usize) -> Statement<'t> {
        let mut statement = Statement::read(self.text, at);
        let cut = match statement.open_quote {
            // The open quote hides all brackets after it, so the statement is cut off after the quote's line.
            Some(quote) if statement.is_unclosed => Some(line_end(self.text, quote)),
            _ if statement.is_unclosed => None,
            _ => self.swallowed_section(&statement),
        };
        if let Some(cut) = cut.filter(|_| self.reread < MAX_REREAD) {
            // Counted for `MAX_REREAD`, because parsing many broken statements again could take quadratic time.
            self.reread += statement.end - at;
            statement = Statement::read(&self.text[..cut], at);
            // `NEVER_CLOSED` would be wrong, because the text after the cut is not ignored.
            statement.is_unclosed = false;
        }
        statement
    }

    /// Returns the first line in a broken statement that looks like the beginning of a known section.
    fn swallowed_section(&self, statement: &Statement<'_>) -> Option<usize> {
        let is_broken = statement.error.is_some() || statement.flaw.is_some();
        let text = Some(&self.text[statement.start..statement.end]).filter(|_| is_broken)?;
        let mut lines = text.match_indices('\n').map(|(line_break, _)| line_break + 1);
        let line = lines.find(|&line| {
            let name = text[line..].trim_start_matches(['[', ' ', '\t', '"', '\'']);
            FIRST_NAMES.iter().any(|first| name.starts_with(first))
        });
        line.map(|line| statement.start + line)
    }

    /// Adds a statement to the tree. Returns its error, if any, with owner, key and place.
    fn take(&mut self, mut statement: Statement<'t>) -> Option<(Owner, Vec<String>, usize, Fault)> {
        let is_header = matches!(statement.kind, Kind::Header | Kind::ElementHeader);
        let mut path = if is_header { Vec::new() } else { self.current.path.clone() };
        let table_len = path.len();
        path.extend(statement.key.iter().map(|part| part.name.to_string()));
        if is_header {
            // The table counts as lost until `put` has opened it.
            self.current = CurrentTable { path: path.clone(), is_lost: true, ..CurrentTable::default() };
        } else if self.current.is_lost {
            // The header's error covers the keys of its table, but not an unclosed value, which hides all later text.
            statement.flaw = Some(NEVER_CLOSED).filter(|_| statement.is_unclosed);
            statement.flaw?;
        }
        let has_unknown_owner = statement.is_unclosed || self.swallowed_section(&statement).is_some();
        let owner = if has_unknown_owner { Owner::Unknown } else { Owner::of(&parts(&path)) };
        if let Some((what, fix)) = statement.flaw {
            path.truncate(table_len + shown_parts(&path[table_len..], is_header));
            return Some((owner, path, statement.start, Fault::new(what, fix)));
        }
        let conflict = self.put(&mut statement).err().or(statement.conflict.take());
        let (at, fault) = match (conflict, &statement.error) {
            // An unclosed value hides the rest of the text, which matters more than errors inside of it.
            _ if statement.is_unclosed => (statement.start, Fault::new(NEVER_CLOSED.0, NEVER_CLOSED.1)),
            // A statement can have a conflict and a syntax error. The earlier of the two in the text is reported,
            // because it may have caused the other.
            (Some(conflict), error) if error.as_ref().is_none_or(|(at, _)| conflict.at < *at) => {
                (conflict.at, self.conflict(&conflict))
            }
            (_, Some((at, error))) => (*at, self.in_our_words(*at, error, &path)),
            (_, None) => return None,
        };
        Some((owner, path, at, fault))
    }

    fn put(&mut self, statement: &mut Statement<'t>) -> Result<(), Conflict> {
        let key = std::mem::take(&mut statement.key);
        let is_element = statement.kind == Kind::ElementHeader;
        if let Some(value) = statement.value.take() {
            return self.root.set(&self.current.stored, &key, value);
        }
        if !is_element && statement.kind != Kind::Header {
            return Ok(());
        }
        let opened = self.root.open(&key, statement.start, is_element);
        self.current.is_lost = !self.root.has(&key);
        self.current.stored = key;
        opened
    }

    fn conflict(&self, conflict: &Conflict) -> Fault {
        let line = self.places.location(conflict.first_at).line;
        let Some((name, kind)) = &conflict.not_a_table else { return Fault::duplicate_key(line) };
        let name = dotted(&[name]);
        let what = match *kind {
            "a table" => format!("{name} is an inline table in line {line}, which cannot be extended"),
            kind => format!("{name} is {kind} in line {line}, which has no keys"),
        };
        Fault::new(what, "remove one of the two")
    }

    /// Splits the parser's message into what is wrong and what to write.
    fn in_our_words(&self, at: usize, error: &ParseError, path: &[String]) -> Fault {
        let what = error.description();
        let is_word = self.text[at..].starts_with(|c: char| c.is_ascii_alphabetic());
        // The parser treats `info` as a misspelled `inf`, and `yes` as text without quotes.
        if what.starts_with("string values must be quoted") || is_word && what.starts_with("invalid ") {
            let section = Section::at(&parts(path)).filter(|_| path.len() == 3);
            let row = section.and_then(|section| section.row(&path[2]));
            let advice = row.map_or("write text in \"quotes\", or true, false or a number", |row| row.advice);
            return Fault::new("not a value", advice);
        }
        let shown = |expected: &Expected| match expected {
            Expected::Literal("\n") => "newline".to_owned(),
            Expected::Literal(text) => format!("`{text}`"),
            Expected::Description(words) => (*words).to_owned(),
            _ => "something else".to_owned(),
        };
        let expected: Vec<String> = error.expected().unwrap_or_default().iter().map(shown).collect();
        let fix = match expected.is_empty() {
            false => format!("expected {}", expected.join(", ")),
            true if what == "extra `=`" => "write one =, or quote text that begins with =".to_owned(),
            true if what == "unexpected content" => "remove it, or quote the whole value".to_owned(),
            // All other errors without an expectation are about the digits and signs of a number.
            true => "write a number like 10, or text in \"quotes\"".to_owned(),
        };
        Fault::new(what.to_owned(), fix)
    }

    /// Reports that everything from a place on is ignored.
    fn stop(&mut self, at: usize, (what, fix): Flaw) {
        let path = self.current.path.clone();
        self.report(at, Owner::Unknown, &path, Fault::new(what, fix));
        self.places.spoil(at..usize::MAX);
    }

    fn report(&mut self, at: usize, owner: Owner, path: &[String], fault: Fault) {
        let diagnostic = fault.error(Some(self.places.location(at)), dotted(&parts(path)));
        self.mistakes.push(Mistake { owner, diagnostic });
    }
}

fn parts(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Returns the number of parts of a malformed statement's key that are shown. The rest may belong to an unclosed string
/// and contain a secret.
fn shown_parts(key: &[String], is_header: bool) -> usize {
    let is_first_name = |part: &String| FIRST_NAMES.contains(&part.as_str());
    if !is_header {
        // A key without a value is shown up to its last known part.
        let is_known = |part: &String| is_known_somewhere(part) || is_first_name(part);
        return key.iter().rposition(is_known).map_or(0, |last| last + 1);
    }
    let bare_parts = key.iter().take_while(|part| part.chars().all(is_bare)).count();
    if key.first().is_some_and(is_first_name) { bare_parts } else { 0 }
}
