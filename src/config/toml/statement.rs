//! What do the parser's events say of one statement: which key has it, which value, and where does it end?

use std::borrow::Cow;
use std::mem;

use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::{EventReceiver, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, ParseError, Raw, Source, Span};

use super::table::{Conflict, Part, Table, TracerLevel, level_below, separate_enable};
use crate::config::node::{Integer, Node, Tree};

/// What is wrong, and what to write instead.
pub(super) type Words = (&'static str, &'static str);
pub(super) const TOO_DEEP: Words = ("nested deeper than 32 levels", "write it flatter");
pub(super) const NO_KEY: Words =
    ("not a key", "write key = value; quote a key that holds more than letters, digits, - and _");
pub(super) const NO_VALUE: Words = ("key without a value", "write key = value");

/// After this many headers and values a text is not read any further: a large configuration has hundreds.
pub(super) const MAX_VALUES: usize = 20_000;
/// Tables, arrays and parts of a key within each other; far more than any configuration needs.
const MAX_DEPTH: usize = 32;
/// A longer key is none, so that messages that name it stay short.
const MAX_KEY_BYTES: usize = 4_096;

/// A table header, or a key with its value. Its places are those of the whole text.
pub(super) struct Statement<'d> {
    text: &'d str,
    /// Where `text` begins.
    text_at: usize,
    pub(super) start: usize,
    /// Behind its line break; `None` if it has not come to an end yet.
    pub(super) end: Option<usize>,
    pub(super) kind: Kind,
    /// Whether the bracket of a header is closed and alone in its line, or `=` follows a key.
    pub(super) is_complete: bool,
    /// What is wrong with its key or its depth.
    pub(super) flaw: Option<Words>,
    pub(super) conflict: Option<Conflict>,
    /// The first one of the parser; those that follow are mostly its echo.
    pub(super) error: Option<ParseError>,
    /// The first quote that is not closed in its line, and so hides the brackets behind it.
    pub(super) open_quote: Option<usize>,
    pub(super) values: usize,
    /// The arrays and inline tables that are open, outermost first. The first one stands for the statement itself: a list
    /// of its value, with its key.
    open: Vec<Frame<'d>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing, or a comment.
    Blank,
    /// What begins as no statement does.
    Stray,
    Header,
    /// `[[…]]`.
    ElementHeader,
    Assignment,
}

struct Frame<'d> {
    at: usize,
    depth: usize,
    /// The key whose value is being read.
    key: Vec<Part<'d>>,
    level: TracerLevel,
    contents: Contents<'d>,
}

enum Contents<'d> {
    List(Vec<Node>),
    Table(Table<'d>),
    /// The parser passes over it.
    Skipped,
}

impl<'d> Statement<'d> {
    /// Reads the first statement of a text; what follows may spoil all but its `end`.
    pub(super) fn parse(text: &'d str, text_at: usize, level: TracerLevel) -> Self {
        let contents = Contents::List(Vec::new());
        let mut statement = Self {
            text,
            text_at,
            start: text_at,
            end: None,
            kind: Kind::Blank,
            is_complete: false,
            flaw: None,
            conflict: None,
            error: None,
            open_quote: None,
            values: 0,
            open: vec![Frame { at: text_at, depth: 0, key: Vec::new(), level, contents }],
        };
        let source = Source::new(text);
        let tokens = source.lex().into_vec();
        let start = |error: &ParseError| error.unexpected().map(|span| span.start());
        let mut first: Option<ParseError> = None;
        let mut keep_first = |error: ParseError| {
            if first.as_ref().is_none_or(|first| start(&error) < start(first)) {
                first = Some(error);
            }
        };
        parse_document(&tokens, &mut ValidateWhitespace::new(&mut statement, source), &mut keep_first);
        statement.error = first;
        statement
    }

    /// The parts of its key, and its value.
    pub(super) fn into_parts(mut self) -> (Vec<Part<'d>>, Option<Node>) {
        let Frame { key, contents, .. } = self.open.swap_remove(0);
        let Contents::List(mut values) = contents else { return (key, None) };
        (key, values.pop())
    }

    pub(super) fn key(&self) -> &[Part<'d>] {
        &self.open[0].key
    }

    /// Whether its value may take more lines than the first one. Headers and keys do not, whatever the parser says.
    pub(super) fn may_go_on(&self) -> bool {
        self.kind == Kind::Assignment && self.is_complete && matches!(self.flaw, None | Some(TOO_DEEP))
    }

    pub(super) fn is_header(&self) -> bool {
        matches!(self.kind, Kind::Header | Kind::ElementHeader)
    }

    /// Where the parser's error is.
    pub(super) fn error_at(&self) -> usize {
        let span = self.error.as_ref().and_then(ParseError::unexpected);
        span.map_or(self.start, |span| self.text_at + span.start())
    }

    fn begin(&mut self, span: Span, kind: Kind) {
        if self.kind == Kind::Blank {
            (self.kind, self.start) = (kind, self.text_at + span.start());
        }
    }

    fn is_outermost(&self) -> bool {
        self.open.len() == 1
    }

    fn raw(&self, span: Span, encoding: Option<Encoding>) -> Raw<'d> {
        Raw::new_unchecked(&self.text[span.start()..span.end()], encoding, span)
    }

    fn flaw(&mut self, words: Words) {
        self.flaw.get_or_insert(words);
    }

    fn note_open_quote(&mut self, raw: Raw<'d>, encoding: Option<Encoding>, at: usize) {
        // a value that is not there has no quote either
        if is_one_line(encoding) && !raw.is_empty() && !is_closed(raw.as_str()) {
            self.open_quote.get_or_insert(at);
        }
    }

    /// Puts a value into what is open.
    fn put(&mut self, value: Node) {
        let Some(frame) = self.open.last_mut().filter(|_| self.values <= MAX_VALUES) else { return };
        match &mut frame.contents {
            Contents::List(nodes) => nodes.push(value),
            Contents::Table(table) => {
                let mut key = mem::take(&mut frame.key);
                separate_enable(&mut key, frame.level, value.as_table().is_some());
                if let Err(conflict) = table.set(&key, value) {
                    self.conflict.get_or_insert(conflict);
                }
            }
            Contents::Skipped => {}
        }
    }

    /// Opens an array or an inline table; `false` if it is not read.
    fn open(&mut self, span: Span, contents: Contents<'d>) -> bool {
        self.values += 1;
        let Some(Frame { depth, key, level, .. }) = self.open.last() else { return false };
        let (depth, level) = (depth + key.len(), level_below(*level, key));
        let is_read = depth < MAX_DEPTH;
        let (depth, level, contents) = match contents {
            _ if !is_read => (depth, None, Contents::Skipped),
            Contents::List(_) => (depth + 1, None, contents),
            _ => (depth, level, contents),
        };
        if !is_read {
            self.flaw(TOO_DEEP);
        }
        self.open.push(Frame { at: self.text_at + span.start(), depth, key: Vec::new(), level, contents });
        is_read
    }

    fn close(&mut self) {
        if self.is_outermost() {
            return;
        }
        let Some(Frame { at, contents, .. }) = self.open.pop() else { return };
        match contents {
            Contents::List(nodes) => self.put(Node { at, value: Tree::List(nodes) }),
            Contents::Table(table) => self.put(Node { at, value: table.into_tree() }),
            Contents::Skipped => {}
        }
    }
}

impl EventReceiver for Statement<'_> {
    fn std_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.begin(span, Kind::Header);
        self.values += 1;
    }

    fn array_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.begin(span, Kind::ElementHeader);
        self.values += 1;
    }

    fn std_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.is_complete = true;
    }

    fn array_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.is_complete = true;
    }

    fn key_val_sep(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.is_complete |= self.is_outermost();
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        self.begin(span, Kind::Assignment);
        let raw = self.raw(span, encoding);
        let mut name = Cow::Borrowed("");
        raw.decode_key(&mut name, error);
        if self.is_outermost() {
            if self.flaw.is_some() {
                return;
            }
            let is_too_long = span.end() > MAX_KEY_BYTES;
            let (kept, flaw) = if is_too_long { (None, Some(NO_KEY)) } else { outer_name(raw, encoding, name) };
            self.flaw = flaw;
            let Some(kept) = kept else { return };
            name = kept;
        }
        self.note_open_quote(raw, encoding, self.text_at + span.start());
        let Some(frame) = self.open.last_mut() else { return };
        if frame.depth + frame.key.len() < MAX_DEPTH {
            frame.key.push(Part { name, at: self.text_at + span.start() });
        } else {
            self.flaw(TOO_DEEP);
        }
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        self.values += 1;
        let raw = self.raw(span, encoding);
        let at = self.text_at + span.start();
        self.note_open_quote(raw, encoding, at);
        let value = tree_of(raw, span, error);
        self.put(Node { at, value });
    }

    fn array_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span, Contents::List(Vec::new()))
    }

    fn array_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.close();
    }

    fn inline_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span, Contents::Table(Table::default()))
    }

    fn inline_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.close();
    }

    /// A token that is out of place.
    fn error(&mut self, span: Span, _: &mut dyn ErrorSink) {
        if self.is_outermost() {
            self.begin(span, Kind::Stray);
            self.is_complete &= self.kind == Kind::Assignment;
        } else if matches!(self.open.last(), Some(Frame { contents: Contents::Table(_), .. }))
            && matches!(self.raw(span, None).as_str(), "[" | "{")
        {
            // the parser passes over what such a bracket opens, and reports only where that is closed
            let contents = Contents::Skipped;
            self.open.push(Frame { at: span.start(), depth: MAX_DEPTH, key: Vec::new(), level: None, contents });
        }
    }

    fn newline(&mut self, span: Span, _: &mut dyn ErrorSink) {
        if self.is_outermost() {
            self.end.get_or_insert(self.text_at + span.end());
        }
    }
}

/// The name of a part of a statement's key, as far as there is one, and what is wrong with it.
fn outer_name<'d>(
    raw: Raw<'d>,
    encoding: Option<Encoding>,
    decoded: Cow<'d, str>,
) -> (Option<Cow<'d, str>>, Option<Words>) {
    let text = raw.as_str();
    match encoding {
        None => {
            let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            let end = text.bytes().position(|byte| !is_bare(byte)).unwrap_or(text.len());
            let flaw = if end == 0 { NO_KEY } else { NO_VALUE };
            ((end > 0).then(|| text[..end].into()), (end == 0 || end < text.len()).then_some(flaw))
        }
        _ if is_one_line(encoding) => {
            if is_closed(text) { (Some(decoded), None) } else { (None, Some(NO_KEY)) }
        }
        // the first two quotes are a name
        _ => (Some(if is_closed(text) { decoded } else { "".into() }), Some(NO_KEY)),
    }
}

fn is_one_line(encoding: Option<Encoding>) -> bool {
    matches!(encoding, Some(Encoding::BasicString | Encoding::LiteralString))
}

/// Whether a quoted text ends with the quotes that it begins with.
fn is_closed(text: &str) -> bool {
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| text.starts_with(quote));
    quote.is_some_and(|quote| text.len() >= 2 * quote.len() && text.ends_with(quote))
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
