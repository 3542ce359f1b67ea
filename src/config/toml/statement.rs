//! What do the parser's events say of one statement: which key has it, which value, and where does it end?

use std::borrow::Cow;
use std::mem;

use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ParseError, Raw, Source};

use super::table::{Conflict, Part, Table, TracerLevel, level_below, separate_enable};
use crate::config::node::{Integer, Node, Tree};

/// What is wrong, and what to write instead.
pub(super) type Words = (&'static str, &'static str);
const NO_HEADER: Words = ("malformed table header", "write it like [tracer.otel], alone in its line");
const NO_KEY: Words =
    ("not a key", "write key = value; quote a key that holds more than letters, digits, - and _");
const NO_VALUE: Words = ("key without a value", "write key = value");
const TOO_DEEP: Words = ("nested deeper than 32 levels", "write it flatter");

/// Tables, arrays and parts of a key within each other; far more than any configuration needs.
const MAX_DEPTH: usize = 32;
/// A longer key is none, so that messages that name it stay short.
const MAX_KEY_BYTES: usize = 4_096;

/// A table header, or a key with its value.
#[derive(Default)]
pub(super) struct Statement<'d> {
    text: &'d str,
    /// Where `text` begins.
    text_at: usize,
    pub(super) start: usize,
    /// Behind its line break.
    pub(super) end: usize,
    pub(super) kind: Kind,
    pub(super) key: Vec<Part<'d>>,
    pub(super) value: Option<Node>,
    /// Why it cannot be read at all.
    pub(super) flaw: Option<Words>,
    pub(super) conflict: Option<Conflict>,
    /// The first one; those that follow are mostly its echo.
    error: Option<ParseError>,
    /// Its value has not come to an end.
    pub(super) is_unclosed: bool,
    /// The first quote that is not closed in its line, and so hides the brackets behind it.
    pub(super) open_quote: Option<usize>,
    /// How many headers and values it holds.
    pub(super) values: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing, or a comment.
    #[default]
    Blank,
    Header,
    /// `[[…]]`.
    ElementHeader,
    Assignment,
}

impl<'d> Statement<'d> {
    /// Reads the statement that begins with the line at a place, in a table of this level.
    pub(super) fn read(text: &'d str, at: usize, level: TracerLevel) -> Self {
        let mut end = line_end(text, at);
        loop {
            let statement = Self::parse(&text[at..end], at, level);
            // headers and keys end with their line, whatever the parser takes for text of several lines
            if !statement.is_unclosed || end == text.len() {
                return statement;
            }
            // twice as much each time: all attempts together cost little more than the last one
            end = line_end(text, end + (end - at));
        }
    }

    fn parse(text: &'d str, text_at: usize, level: TracerLevel) -> Self {
        let mut statement = Self { text, text_at, start: text_at, ..Self::default() };
        let (source, mut events) = (Source::new(text), Vec::new());
        let mut checked = ValidateWhitespace::new(&mut events, source);
        let mut bounded = RecursionGuard::new(&mut checked, MAX_DEPTH as u32);
        let mut error = None;
        let tokens = source.lex().into_vec();
        parse_document(&tokens, &mut bounded, &mut |found| keep_first(&mut error, found));
        let mut depth = 0_isize;
        let end = events.iter().position(|event| {
            depth += match event.kind() {
                EventKind::ArrayOpen | EventKind::InlineTableOpen => 1,
                EventKind::ArrayClose | EventKind::InlineTableClose => -1,
                _ => 0,
            };
            event.kind() == EventKind::Newline && depth <= 0
        });
        let text_end = end.map_or(text.len(), |end| events[end].span().end());
        statement.end = text_at + text_end;
        events.truncate(end.unwrap_or(events.len()));
        let is_complete = statement.take_events(events, level);
        if let Some(error) = error.filter(|error| end.is_none() || place(error) < text_end) {
            keep_first(&mut statement.error, error);
        }
        let has_value = statement.kind == Kind::Assignment && is_complete;
        statement.flaw = match (statement.kind, statement.flaw) {
            (Kind::Blank, _) | (_, Some(TOO_DEEP)) => statement.flaw,
            (Kind::Assignment, None) => Some(NO_VALUE).filter(|_| !has_value),
            // a key with something right behind it, like a colon
            (Kind::Assignment, Some(NO_VALUE)) if has_value => Some(NO_KEY),
            (Kind::Assignment, flaw) => flaw,
            (_, flaw) => Some(NO_HEADER).filter(|_| flaw.is_some() || !is_complete),
        };
        statement.is_unclosed = end.is_none() && has_value && matches!(statement.flaw, None | Some(TOO_DEEP));
        statement
    }

    /// Where the parser found an error, and what it is.
    pub(super) fn error(&self) -> Option<(usize, &ParseError)> {
        self.error.as_ref().map(|error| (self.text_at + place(error), error))
    }

    /// Returns whether there is the bracket that closes a header, alone in its line, or the `=` behind a key.
    fn take_events(&mut self, events: Vec<Event>, level: TracerLevel) -> bool {
        let is_blank = |event: &Event| matches!(event.kind(), EventKind::Whitespace | EventKind::Comment);
        let mut events = events.into_iter().filter(|event| !is_blank(event)).peekable();
        self.start += events.peek().map_or(0, |event| event.span().start());
        let mut is_complete = false;
        while let Some(event) = events.next() {
            match event.kind() {
                EventKind::StdTableOpen => (self.kind, self.values) = (Kind::Header, 1),
                EventKind::ArrayTableOpen => (self.kind, self.values) = (Kind::ElementHeader, 1),
                EventKind::StdTableClose | EventKind::ArrayTableClose | EventKind::KeyValSep => {
                    is_complete = true;
                }
                EventKind::SimpleKey => {
                    if self.kind == Kind::Blank {
                        self.kind = Kind::Assignment;
                    }
                    if self.flaw.is_none() {
                        let part = self.outer_part(&event);
                        self.key.extend(part);
                    }
                }
                EventKind::Error if self.kind == Kind::Blank => {
                    (self.kind, self.flaw) = (Kind::Assignment, Some(NO_KEY));
                }
                EventKind::Error => is_complete &= self.kind == Kind::Assignment,
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    let (depth, level) = (self.key.len(), level_below(level, &self.key));
                    let value = self.value(&event, &mut events, depth, level);
                    self.value.get_or_insert(value);
                }
                _ => {}
            }
        }
        is_complete
    }

    fn value(
        &mut self,
        event: &Event,
        events: &mut dyn Iterator<Item = Event>,
        depth: usize,
        level: TracerLevel,
    ) -> Node {
        self.values += 1;
        let value = match event.kind() {
            EventKind::Scalar => self.scalar(event),
            kind => {
                if depth >= MAX_DEPTH {
                    self.flaw.get_or_insert(TOO_DEEP);
                }
                self.contents(kind, events, depth, level)
            }
        };
        Node { at: self.text_at + event.span().start(), value }
    }

    /// What is in an array or an inline table.
    fn contents(
        &mut self,
        kind: EventKind,
        events: &mut dyn Iterator<Item = Event>,
        depth: usize,
        level: TracerLevel,
    ) -> Tree {
        let (is_table, level) =
            (kind == EventKind::InlineTableOpen, level.filter(|_| kind == EventKind::InlineTableOpen));
        let depth = if is_table { depth } else { depth + 1 };
        let (mut nodes, mut table, mut key) = (Vec::new(), Table::default(), Vec::new());
        while let Some(event) = events.next() {
            match event.kind() {
                EventKind::ArrayClose if !is_table => break,
                EventKind::InlineTableClose if is_table => break,
                EventKind::SimpleKey if depth + key.len() >= MAX_DEPTH => {
                    _ = self.flaw.get_or_insert(TOO_DEEP)
                }
                EventKind::SimpleKey => {
                    let (_, name) = self.name(&event);
                    key.push(Part { name, at: self.text_at + event.span().start() });
                }
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    let value = self.value(&event, events, depth + key.len(), level_below(level, &key));
                    let mut key = mem::take(&mut key);
                    separate_enable(&mut key, level, value.as_table().is_some());
                    if !is_table {
                        nodes.push(value);
                    } else if let Err(conflict) = table.set(&key, value) {
                        self.conflict.get_or_insert(conflict);
                    }
                }
                _ => {}
            }
        }
        if is_table { table.into_tree() } else { Tree::List(nodes) }
    }

    fn raw(&mut self, event: &Event) -> Raw<'d> {
        let span = event.span();
        let text = &self.text[span.start()..span.end()];
        // a value that is not there has no quote either
        if is_one_line(event) && !text.is_empty() && !is_closed(text) {
            self.open_quote.get_or_insert(self.text_at + span.start());
        }
        Raw::new_unchecked(text, event.encoding(), span)
    }

    /// A part of a key, as it is written and decoded.
    fn name(&mut self, event: &Event) -> (&'d str, Cow<'d, str>) {
        let raw = self.raw(event);
        let mut name = Cow::Borrowed("");
        raw.decode_key(&mut name, &mut |error| keep_first(&mut self.error, error));
        (raw.as_str(), name)
    }

    /// A part of the statement's own key; if something is wrong with it, as much of it as is a name.
    fn outer_part(&mut self, event: &Event) -> Option<Part<'d>> {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let (text, decoded) = self.name(event);
        let bare_end = text.bytes().position(|byte| !is_bare(byte)).unwrap_or(text.len());
        let (flaw, name) = match event.encoding() {
            _ if self.key.len() >= MAX_DEPTH => (Some(TOO_DEEP), None),
            _ if event.span().end() > MAX_KEY_BYTES => (Some(NO_KEY), None),
            None if bare_end == 0 => (Some(NO_KEY), None),
            None => (Some(NO_VALUE).filter(|_| bare_end < text.len()), Some(text[..bare_end].into())),
            Some(_) if is_one_line(event) && is_closed(text) => (None, Some(decoded)),
            Some(_) if is_one_line(event) => (Some(NO_KEY), None),
            Some(_) if is_closed(text) => (Some(NO_KEY), Some(decoded)),
            // the first two of its quotes are a name
            Some(_) => (Some(NO_KEY), Some("".into())),
        };
        self.flaw = flaw;
        name.map(|name| Part { name, at: self.text_at + event.span().start() })
    }

    fn scalar(&mut self, event: &Event) -> Tree {
        let raw = self.raw(event);
        let mut text = Cow::Borrowed("");
        let mut sink = |error| keep_first(&mut self.error, error);
        match raw.decode_scalar(&mut text, &mut sink) {
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
                    sink(ParseError::new(fault.message().to_owned()).with_unexpected(event.span()));
                }
                Tree::Date
            }
        }
    }
}

/// Behind the line break that follows a place.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    rest.iter().position(|&byte| byte == b'\n').map_or(text.len(), |length| at + length + 1)
}

fn place(error: &ParseError) -> usize {
    error.unexpected().map_or(0, |span| span.start())
}

fn keep_first(first: &mut Option<ParseError>, error: ParseError) {
    if first.as_ref().is_none_or(|first| place(&error) < place(first)) {
        *first = Some(error);
    }
}

fn is_one_line(event: &Event) -> bool {
    matches!(event.encoding(), Some(Encoding::BasicString | Encoding::LiteralString))
}

/// Whether a quoted text ends with the quotes that it begins with.
fn is_closed(text: &str) -> bool {
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| text.starts_with(quote));
    quote.is_some_and(|quote| text.len() >= 2 * quote.len() && text.ends_with(quote))
}
