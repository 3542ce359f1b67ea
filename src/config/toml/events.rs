//! What does each event of the parser add to the statement that is being read?

use std::borrow::Cow;
use std::mem;

use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::EventReceiver;
use toml_parser::{ErrorSink, ParseError, Raw, Span};

use super::Reader;
use super::statement::{NO_KEY, NO_VALUE, Statement, StatementKind, TOO_DEEP, Words};
use super::table::{Origin, Part, Table, TracerLevel, level_below, separate_enable};
use crate::config::error::Fault;
use crate::config::node::{Integer, Node, Tree};

/// Tables, arrays and parts of a key within each other; far more than any configuration needs.
const MAX_DEPTH: usize = 32;
/// A longer key is none, so that messages that name it stay short.
const MAX_KEY_BYTES: usize = 4_096;
/// After this many headers and values a text is not read any further: a large configuration has hundreds.
const MAX_VALUES: usize = 20_000;
const TOO_LONG: Words = ("more than 20000 values, nothing is read from here on", "write a shorter file");

/// An array or an inline table that is open.
pub(super) struct Frame<'d> {
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

impl<'d> Reader<'_, 'd> {
    pub(super) fn begin(&mut self, start: usize, kind: StatementKind) -> &mut Statement<'d> {
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
