//! Which statements does a text of TOML hold, and what is wrong with each? The parser's events, read one by one.

use std::borrow::Cow;
use std::cell::Cell;
use std::mem;
use std::ops::Range;

use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::{EventReceiver, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, Expected, ParseError, Raw, Source, Span};

use super::TextPlaces;
use super::table::{Conflict, Origin, Part, Table, TracerLevel, level_below, separate_enable};
use crate::config::document::Mistake;
use crate::config::error::{Fault, FindingSeverity};
use crate::config::key::Key;
use crate::config::node::{Integer, Node, Places as _, Tree};
use crate::config::path::dotted;
use crate::config::section::{FIRST_NAMES, Owner, Section, is_known_somewhere};

/// Tables, arrays and parts of a key within each other; far more than any configuration needs.
const MAX_DEPTH: usize = 32;
/// A longer key is none, so that messages that name it stay short.
const MAX_KEY_BYTES: usize = 4_096;
/// After this many mistakes a text is not read any further …
const MAX_MISTAKES: usize = 100;
/// … nor after this many headers and values: a large configuration has hundreds.
const MAX_VALUES: usize = 20_000;

/// How often a text is read again without quotes that take in other lines.
const MAX_RETRIES: usize = 3;
/// A character that is an error wherever it stands, and stays in its line.
const NOWHERE_ALLOWED: &str = "\u{1}";

/// What is wrong, and what to write instead.
type Words = (&'static str, &'static str);
const TOO_DEEP: Words = ("nested deeper than 32 levels", "write it flatter");
const NO_HEADER: Words = ("malformed table header", "write it like [tracer.otel], alone in its line");
const NO_KEY: Words =
    ("not a key", "write key = value; quote a key that holds more than letters, digits, - and _");
const NO_VALUE: Words = ("key without a value", "write key = value");
const NO_END: Words = ("never closed, nothing is read from here on", "close it");
const NO_TOML: Words = ("too many mistakes, nothing is read from here on", "is this a TOML file?");
const TOO_LONG: Words = ("more than 20000 values, nothing is read from here on", "write a shorter file");
const FOREIGN_LINE_ENDS: Words =
    ("lines end in a carriage return alone, nothing is read from here on", "end them with a line feed");

/// What could be read of a text.
pub(super) struct Read {
    pub(super) root: Node,
    /// In the order of the text.
    pub(super) mistakes: Vec<Mistake>,
    /// The statements that they are in.
    pub(super) broken: Vec<Range<usize>>,
}

pub(super) fn read(text: &str, places: &TextPlaces<'_>) -> Read {
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
    stray_returns(text).nth(MAX_MISTAKES + 1).and_then(|_| stray_returns(text).next())
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

/// A table header, or a key with its value.
struct Statement<'d> {
    start: usize,
    kind: StatementKind,
    key: Vec<Part<'d>>,
    key_flaw: Option<Words>,
    /// Whether the bracket of a header is closed, or `=` follows a key.
    is_complete: bool,
    /// Something follows that does not belong there.
    has_rest: bool,
    /// It has taken in the rest of the text.
    is_unclosed: bool,
    /// The first quote in it that is not closed in its line, and so hides the brackets behind it.
    open_quote: Option<usize>,
    value: Option<Node>,
    /// What this reader found in the value, at its place.
    fault: Option<(usize, Fault)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StatementKind {
    Header,
    /// `[[…]]`.
    ElementHeader,
    Assignment,
    /// A line that begins as no statement does.
    Stray,
    /// An error in a comment or a line end.
    Blank,
}

/// An array or an inline table that is open.
struct Frame<'d> {
    at: usize,
    depth: usize,
    contents: Contents<'d>,
}

enum Contents<'d> {
    List(Vec<Node>),
    Table {
        table: Table<'d>,
        /// The key whose value is being read.
        key: Vec<Part<'d>>,
        level: TracerLevel,
    },
    /// The parser passes over it.
    Skipped,
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

    fn begin(&mut self, start: usize, kind: StatementKind) -> &mut Statement<'d> {
        self.statement.insert(Statement {
            start,
            kind,
            key: Vec::new(),
            key_flaw: None,
            is_complete: false,
            has_rest: false,
            is_unclosed: false,
            open_quote: None,
            value: None,
            fault: None,
        })
    }

    fn begin_header(&mut self, span: Span, kind: StatementKind) {
        self.begin(span.start(), kind);
        self.count_value();
    }

    fn count_value(&mut self) {
        self.values += 1;
        if self.values > MAX_VALUES && !self.has_stopped {
            self.stop(self.statement.as_ref().map_or(0, |statement| statement.start), TOO_LONG);
        }
    }

    /// Leaves out everything from a place on.
    fn stop(&mut self, at: usize, (what, fix): Words) {
        let path = self.current.path.clone();
        self.report(at, Owner::Unknown, &path, Fault::new(what, fix));
        self.broken.push(at..usize::MAX);
        self.has_stopped = true;
    }

    fn report(&mut self, at: usize, owner: Owner, path: &[String], fault: Fault) {
        let key = dotted(&path.iter().map(String::as_str).collect::<Vec<_>>());
        let finding = fault.found(FindingSeverity::Error, Some(self.places.location(at)), key);
        self.mistakes.push(Mistake { owner, finding });
    }

    /// Puts a value into what is open.
    fn put(&mut self, value: Node) {
        if self.has_stopped {
            return;
        }
        let Some(frame) = self.open.last_mut() else {
            if let Some(statement) = &mut self.statement {
                statement.value = Some(value);
            }
            return;
        };
        match &mut frame.contents {
            Contents::List(nodes) => nodes.push(value),
            Contents::Table { table, key, level } => {
                let mut key = mem::take(key);
                separate_enable(&mut key, *level, value.as_table().is_some());
                if let Err(conflict) = table.set(&key, value) {
                    let fault = self.conflict(&conflict);
                    self.fault_in_value(conflict.at, fault);
                }
            }
            Contents::Skipped => {}
        }
    }

    fn fault_in_value(&mut self, at: usize, fault: Fault) {
        if let Some(statement) = &mut self.statement {
            statement.fault.get_or_insert((at, fault));
        }
    }

    /// How deep the value is that comes next, and the level of a table in its place.
    fn position(&self) -> (usize, TracerLevel) {
        match (self.open.last(), &self.statement) {
            (Some(Frame { depth, contents: Contents::Table { key, level, .. }, .. }), _) => {
                (depth + key.len(), level_below(*level, key))
            }
            (Some(frame), _) => (frame.depth, None),
            (None, Some(statement)) => (statement.key.len(), level_below(self.current.level, &statement.key)),
            (None, None) => (0, None),
        }
    }

    /// Opens an array or an inline table; `false` if it is not read.
    fn open(&mut self, span: Span, contents: impl FnOnce(TracerLevel) -> Contents<'d>) -> bool {
        self.count_value();
        let (depth, level) = self.position();
        let is_read = depth < MAX_DEPTH && !self.has_stopped;
        let contents = if is_read { contents(level) } else { Contents::Skipped };
        if !is_read {
            self.too_deep();
        }
        let depth = if matches!(contents, Contents::List(_)) { depth + 1 } else { depth };
        self.open.push(Frame { at: span.start(), depth, contents });
        is_read
    }

    fn too_deep(&mut self) {
        if let Some(statement) = &mut self.statement {
            statement.key_flaw = Some(TOO_DEEP);
        }
    }

    fn close(&mut self, span: Span) {
        // the parser closes what the text does not, with a bracket of no width
        if let Some(statement) = self.statement.as_mut().filter(|_| span.is_empty()) {
            statement.is_unclosed = true;
        }
        let Some(Frame { at, contents, .. }) = self.open.pop() else { return };
        match contents {
            Contents::List(nodes) => self.put(Node { at, value: Tree::List(nodes) }),
            Contents::Table { table, .. } => self.put(Node { at, value: table.into_tree() }),
            Contents::Skipped => {}
        }
    }

    fn raw(&self, span: Span, encoding: Option<Encoding>) -> Raw<'d> {
        let text = self.source.input().get(span.start()..span.end()).unwrap_or_default();
        Raw::new_unchecked(text, encoding, span)
    }

    /// A part of the key of an inline table.
    fn inner_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let raw = self.raw(span, encoding);
        self.note_open_quote(raw, span, encoding);
        let mut name = Cow::Borrowed("");
        raw.decode_key(&mut name, error);
        let Some(Frame { depth, contents: Contents::Table { key, .. }, .. }) = self.open.last_mut() else {
            return;
        };
        if *depth + key.len() < MAX_DEPTH {
            key.push(Part { name, at: span.start() });
        } else {
            self.too_deep();
        }
    }

    /// A part of the key of a statement.
    fn outer_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let raw = self.raw(span, encoding);
        let start = span.start();
        self.note_stray_quotes(span);
        let statement = match &mut self.statement {
            Some(statement) => statement,
            None => self.begin(start, StatementKind::Assignment),
        };
        if statement.key_flaw.is_some() {
            return;
        }
        if span.end() - statement.start > MAX_KEY_BYTES {
            statement.key_flaw = Some(NO_KEY);
        } else if statement.key.len() >= MAX_DEPTH {
            statement.key_flaw = Some(TOO_DEEP);
        } else if let Some((name, flaw)) = key_part(raw, encoding, error) {
            statement.key_flaw = flaw;
            statement.key.push(Part { name, at: start });
        } else {
            statement.key_flaw = Some(NO_KEY);
        }
    }

    /// Whether this is a text of several lines that goes on to the end of the document.
    fn is_open_ended(&self, span: Span) -> bool {
        let text = self.raw(span, None).as_str();
        let quote = ["\"\"\"", "'''"].into_iter().find(|quote| text.starts_with(quote));
        let is_last = span.end() == self.source.input().len();
        is_last && quote.is_some_and(|quote| text.len() < 2 * quote.len() || !text.ends_with(quote))
    }

    /// Headers and keys end with their line, whatever the parser takes for text of several lines.
    fn note_stray_quotes(&mut self, span: Span) {
        let text = self.raw(span, None).as_str();
        if (text.starts_with("\"\"\"") || text.starts_with("'''")) && text.contains('\n') {
            self.stray_quotes.get_or_insert(span.start()..span.start() + 3);
        }
    }

    /// Remembers a text of one line that is not closed there.
    fn note_open_quote(&mut self, raw: Raw<'d>, span: Span, encoding: Option<Encoding>) {
        // a value that is not there has no quote either
        let is_open = is_one_line(encoding) && !raw.is_empty() && !is_closed(raw.as_str());
        if let Some(statement) = self.statement.as_mut().filter(|_| is_open) {
            statement.open_quote.get_or_insert(span.start());
        }
    }

    fn finish_statement(&mut self, end: usize) {
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
        let is_word = self.source.input()[at..].starts_with(|c: char| c.is_ascii_alphabetic());
        // the parser takes `info` for a misspelt `inf`, and `yes` for text without quotes
        if what.starts_with("string values must be quoted") || is_word && what.starts_with("invalid ") {
            let key = match path {
                [_, _, name] => Section::at(path).and_then(|section| section.key(name)),
                _ => None,
            };
            let advice = key.map_or("write text in \"quotes\", or true, false or a number", Key::advice);
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

/// The name of a part of a key, and what is wrong with it; `None` if there is no name at all.
fn key_part<'d>(
    raw: Raw<'d>,
    encoding: Option<Encoding>,
    error: &mut dyn ErrorSink,
) -> Option<(Cow<'d, str>, Option<Words>)> {
    let text = raw.as_str();
    if encoding.is_none() {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let end = text.bytes().position(|byte| !is_bare(byte)).unwrap_or(text.len());
        let flaw = (end < text.len()).then_some(NO_VALUE);
        return (end > 0).then(|| (text[..end].into(), flaw));
    }
    if !is_one_line(encoding) || !is_closed(text) {
        return None;
    }
    let mut name = Cow::Borrowed("");
    raw.decode_key(&mut name, error);
    Some((name, None))
}

fn is_one_line(encoding: Option<Encoding>) -> bool {
    matches!(encoding, Some(Encoding::BasicString | Encoding::LiteralString))
}

/// Whether a text of one line has its second quote.
fn is_closed(text: &str) -> bool {
    text.len() > 1 && text.ends_with(&text[..1])
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

fn tree_of(raw: Raw<'_>, span: Span, error: &mut dyn ErrorSink) -> Tree {
    let mut text = Cow::Borrowed("");
    match raw.decode_scalar(&mut text, error) {
        ScalarKind::String => Tree::Text(text.into_owned()),
        ScalarKind::Boolean(value) => Tree::Bool(value),
        ScalarKind::Float => {
            let value = text.parse().unwrap_or(f64::NAN);
            Tree::Float { written: text.into_owned(), value }
        }
        ScalarKind::Integer(radix) => {
            let end = if text.starts_with('-') { i128::MIN } else { i128::MAX };
            let value = i128::from_str_radix(&text, radix.value()).unwrap_or(end);
            Tree::Integer(Integer { written: text.into_owned(), value })
        }
        ScalarKind::DateTime => {
            // the parser leaves it to others whether there is such a day
            if let Err(fault) = toml::de::DeValue::parse(&text) {
                error.report_error(ParseError::new(fault.message().to_owned()).with_unexpected(span));
            }
            Tree::Date
        }
    }
}

impl EventReceiver for Reader<'_, '_> {
    fn std_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.begin_header(span, StatementKind::Header);
    }

    fn array_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.begin_header(span, StatementKind::ElementHeader);
    }

    fn std_table_close(&mut self, span: Span, error: &mut dyn ErrorSink) {
        self.key_val_sep(span, error);
    }

    fn array_table_close(&mut self, span: Span, error: &mut dyn ErrorSink) {
        self.key_val_sep(span, error);
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        if self.open.is_empty() {
            self.outer_key(span, encoding, error);
        } else {
            self.inner_key(span, encoding, error);
        }
    }

    fn key_val_sep(&mut self, _: Span, _: &mut dyn ErrorSink) {
        if let Some(statement) = self.statement.as_mut().filter(|_| self.open.is_empty()) {
            statement.is_complete = true;
        }
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        self.count_value();
        let raw = self.raw(span, encoding);
        let is_open_ended = self.is_open_ended(span);
        if let Some(statement) = &mut self.statement {
            statement.is_unclosed |= is_open_ended;
        }
        self.note_open_quote(raw, span, encoding);
        let value = tree_of(raw, span, error);
        self.put(Node { at: span.start(), value });
    }

    fn array_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span, |_| Contents::List(Vec::new()))
    }

    fn array_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.close(span);
    }

    fn inline_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        let table = Table::new(Origin::Explicit);
        self.open(span, |level| Contents::Table { table, key: Vec::new(), level })
    }

    fn inline_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.close(span);
    }

    /// A token that is out of place.
    fn error(&mut self, span: Span, _: &mut dyn ErrorSink) {
        let raw = self.raw(span, None);
        if let Some(frame) = self.open.last() {
            // the parser passes over what such a bracket opens, and reports only where that is closed
            if matches!(frame.contents, Contents::Table { .. }) && matches!(raw.as_str(), "[" | "{") {
                self.open.push(Frame { at: span.start(), depth: MAX_DEPTH, contents: Contents::Skipped });
            }
            return;
        }
        let is_open_ended = self.is_open_ended(span);
        let statement = match &mut self.statement {
            Some(statement) => statement,
            None => self.begin(span.start(), StatementKind::Stray),
        };
        statement.has_rest = true;
        statement.is_unclosed |= is_open_ended;
        let has_value = statement.kind == StatementKind::Assignment && statement.is_complete;
        if !has_value {
            self.note_stray_quotes(span);
        }
    }

    fn newline(&mut self, span: Span, _: &mut dyn ErrorSink) {
        if self.open.is_empty() {
            self.finish_statement(span.start());
        }
    }
}
