//! Parses one statement: its key, its value and its end. Tables collect the statements; setting a key twice is a
//! [`Conflict`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;

use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ParseError, Raw, Source};

use crate::config::node::{Field, Integer, Node, Tree};
use crate::config::section::{ENABLE, ENABLE_TABLE};
use crate::config::text::is_bare;

/// The reason why a statement cannot be used, and what to write instead.
pub(super) type Flaw = (&'static str, &'static str);
const BAD_HEADER: Flaw = ("malformed table header", "write it like [tracer.otel], alone in its line");
const BAD_KEY: Flaw =
    ("not a key", "write key = value; quote a key that holds more than letters, digits, - and _");
const NO_VALUE: Flaw = ("key without a value", "write key = value");
const TOO_DEEP: Flaw = ("nested deeper than 32 levels", "write fewer levels");

/// Maximum nesting depth of tables, arrays and parts of a key.
const MAX_DEPTH: usize = 32;
/// Number of headers and values after which the rest of a text is ignored. A large configuration has hundreds.
pub(super) const MAX_VALUES: usize = 20_000;
/// Longest accepted key. It bounds the length of messages that quote one.
const MAX_KEY_BYTES: usize = 4_096;

type Events = std::vec::IntoIter<Event>;

/// A table header, or a key with its value.
#[derive(Default)]
pub(super) struct Statement<'d> {
    text: &'d str,
    /// Offset of `text` in the document.
    text_at: usize,
    pub(super) start: usize,
    /// Offset after its line break.
    pub(super) end: usize,
    pub(super) kind: Kind,
    pub(super) key: Vec<Part<'d>>,
    pub(super) value: Option<Node>,
    /// Reason why the statement cannot be used at all.
    pub(super) flaw: Option<Flaw>,
    pub(super) conflict: Option<Conflict>,
    /// First error of the parser and its place. Later errors are usually consequences of the first.
    pub(super) error: Option<(usize, ParseError)>,
    /// True if the end of the value was not found.
    pub(super) is_unclosed: bool,
    /// Place of the first quote that is not closed in its line.
    pub(super) open_quote: Option<usize>,
    /// Number of headers and values in the statement.
    pub(super) values: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An empty line, or a comment.
    #[default]
    Blank,
    Header,
    /// `[[…]]`.
    ElementHeader,
    Assignment,
}

impl<'d> Statement<'d> {
    /// Reads the statement whose first line begins at the offset `at`.
    pub(super) fn read(text: &'d str, at: usize) -> Self {
        let mut end = line_end(text, at);
        loop {
            let statement = Self::parse(&text[at..end], at);
            // `is_unclosed` is true only for values: a key never continues in the next line, even if the parser takes
            // quotes in it for the start of a multi-line string.
            if !statement.is_unclosed || end == text.len() || statement.values > MAX_VALUES {
                return statement;
            }
            // Quadrupling the text bounds the cost of all attempts by 4/3 of the last one.
            end = line_end(text, end + 3 * (end - at));
        }
    }

    fn parse(text: &'d str, text_at: usize) -> Self {
        let indent = text.len() - text.trim_start_matches([' ', '\t']).len();
        let mut statement = Self { text, text_at, start: text_at + indent, ..Self::default() };
        // The parser skips a byte order mark at the start of its input, which here is not the start of the file.
        statement.flaw = text.starts_with('\u{feff}').then_some(BAD_KEY);
        let (source, mut events) = (Source::new(text), Vec::new());
        let mut checked = ValidateWhitespace::new(&mut events, source);
        let mut bounded = RecursionGuard::new(&mut checked, MAX_DEPTH as u32);
        let tokens = source.lex().into_vec();
        parse_document(&tokens, &mut bounded, &mut |error| statement.keep_first(error));

        let (mut is_complete, mut has_end) = (false, false);
        statement.end = text_at + text.len();
        let mut events = events.into_iter();
        while let Some(event) = events.next().filter(|_| statement.values <= MAX_VALUES) {
            match event.kind() {
                EventKind::StdTableOpen => (statement.kind, statement.values) = (Kind::Header, 1),
                EventKind::ArrayTableOpen => (statement.kind, statement.values) = (Kind::ElementHeader, 1),
                EventKind::SimpleKey if !is_complete && statement.flaw.is_none() => {
                    statement.push_part(&event)
                }
                EventKind::StdTableClose | EventKind::ArrayTableClose | EventKind::KeyValSep => {
                    is_complete = true;
                }
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    let value = statement.value(&event, &mut events, statement.key.len());
                    statement.value.get_or_insert(value);
                }
                EventKind::Error if statement.kind == Kind::Blank => {
                    (statement.kind, statement.flaw) = (Kind::Assignment, Some(BAD_KEY));
                }
                // Nothing may follow a header in its line.
                EventKind::Error => is_complete &= statement.kind == Kind::Assignment,
                EventKind::Newline => {
                    (statement.end, has_end) = (text_at + event.span().end(), true);
                    break;
                }
                _ => {}
            }
        }
        statement.error = statement.error.filter(|(at, _)| !has_end || *at < statement.end);
        statement.flaw = match (statement.kind, statement.flaw, is_complete) {
            (Kind::Blank, ..) | (_, Some(TOO_DEEP), _) | (_, None, true) => statement.flaw,
            (Kind::Header | Kind::ElementHeader, ..) => Some(BAD_HEADER),
            (_, None, false) => Some(NO_VALUE),
            // A key is followed by an unexpected character, such as a colon.
            (_, Some(_), true) => Some(BAD_KEY),
            (_, flaw, false) => flaw,
        };
        let is_readable = matches!(statement.flaw, None | Some(TOO_DEEP));
        statement.is_unclosed = !has_end && is_readable && is_complete && statement.kind == Kind::Assignment;
        statement
    }

    /// Adds a part of the statement's key. Of a malformed part, only the valid name at its beginning is added.
    fn push_part(&mut self, event: &Event) {
        if self.kind == Kind::Blank {
            self.kind = Kind::Assignment;
        }
        let (text, part) = self.part(event);
        let bare_end = text.find(|c| !is_bare(c)).unwrap_or(text.len());
        let (flaw, part) = match event.encoding() {
            _ if self.key.len() >= MAX_DEPTH => (Some(TOO_DEEP), None),
            _ if event.span().end() > MAX_KEY_BYTES => (Some(BAD_KEY), None),
            None if bare_end == 0 => (Some(BAD_KEY), None),
            None if bare_end < text.len() => {
                (Some(NO_VALUE), Some(Part { name: text[..bare_end].into(), ..part }))
            }
            Some(Encoding::MlBasicString | Encoding::MlLiteralString) => (Some(BAD_KEY), Some(part)),
            _ if self.open_quote.is_some() => (Some(BAD_KEY), None),
            _ => (None, Some(part)),
        };
        self.flaw = flaw;
        self.key.extend(part);
    }

    /// Reads a value, including nested values.
    fn value(&mut self, event: &Event, events: &mut Events, depth: usize) -> Node {
        self.values += 1;
        let at = self.text_at + event.span().start();
        let is_table = event.kind() == EventKind::InlineTableOpen;
        if event.kind() == EventKind::Scalar {
            return Node { at, value: self.scalar(event) };
        }
        if depth >= MAX_DEPTH {
            self.flaw.get_or_insert(TOO_DEEP);
        }
        // An array adds one level. A table adds none itself: each part of a key in it adds one.
        let depth = if is_table { depth } else { depth + 1 };
        let (mut nodes, mut table, mut key) = (Vec::new(), Table::default(), Vec::new());
        while let Some(event) = events.next().filter(|_| self.values <= MAX_VALUES) {
            match event.kind() {
                EventKind::ArrayClose if !is_table => break,
                EventKind::InlineTableClose if is_table => break,
                EventKind::SimpleKey if depth + key.len() < MAX_DEPTH => key.push(self.part(&event).1),
                EventKind::SimpleKey => self.flaw = Some(TOO_DEEP),
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    let value = self.value(&event, events, depth + key.len());
                    let key = mem::take(&mut key);
                    if !is_table {
                        nodes.push(value);
                    } else if let Err(conflict) = table.set(&[], &key, value) {
                        self.conflict.get_or_insert(conflict);
                    }
                }
                _ => {}
            }
        }
        Node { at, value: if is_table { table.into_tree() } else { Tree::List(nodes) } }
    }

    /// Returns the text of a part of a key, and the decoded part.
    fn part(&mut self, event: &Event) -> (&'d str, Part<'d>) {
        let raw = self.raw(event);
        let mut name = Cow::Borrowed("");
        raw.decode_key(&mut name, &mut |error| self.keep_first(error));
        (raw.as_str(), Part { name, at: self.text_at + event.span().start() })
    }

    fn raw(&mut self, event: &Event) -> Raw<'d> {
        let span = event.span();
        let text = &self.text[span.start()..span.end()];
        let quote = match event.encoding() {
            Some(Encoding::BasicString) => "\"",
            Some(Encoding::LiteralString) => "'",
            _ => "",
        };
        // An empty text is a missing value, which has no quotes.
        if !text.is_empty() && (text == quote || !text.ends_with(quote)) {
            self.open_quote.get_or_insert(self.text_at + span.start());
        }
        Raw::new_unchecked(text, event.encoding(), span)
    }

    fn keep_first(&mut self, error: ParseError) {
        let at = self.text_at + error.unexpected().map_or(0, |span| span.start());
        if self.error.as_ref().is_none_or(|(first, _)| at <= *first) {
            self.error = Some((at, error));
        }
    }

    fn scalar(&mut self, event: &Event) -> Tree {
        let raw = self.raw(event);
        let mut text = Cow::Borrowed("");
        match raw.decode_scalar(&mut text, &mut |error| self.keep_first(error)) {
            ScalarKind::String => Tree::Text(text.into_owned()),
            ScalarKind::Boolean(value) => Tree::Bool(value),
            ScalarKind::Float => {
                Tree::Float { value: text.parse().unwrap_or(f64::NAN), written: text.into() }
            }
            ScalarKind::Integer(radix) => {
                let end = if text.starts_with('-') { i128::MIN } else { i128::MAX };
                // A number beyond `i128` becomes the nearest bound, which every setting refuses as out of range.
                let value = i128::from_str_radix(&text, radix.value()).unwrap_or(end);
                Tree::Integer(Integer { written: text.into_owned(), value })
            }
            // No setting is a date, so the date is not validated.
            ScalarKind::DateTime => Tree::Date,
        }
    }
}

/// Returns the offset after the next line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    rest.iter().position(|&byte| byte == b'\n').map_or(text.len(), |length| at + length + 1)
}

/// One part of a dotted key, and its place.
#[derive(Debug, Clone)]
pub(super) struct Part<'d> {
    pub(super) name: Cow<'d, str>,
    pub(super) at: usize,
}

/// A table to which keys can be added.
#[derive(Debug, Default)]
pub(super) struct Table<'d> {
    at: usize,
    origin: Origin,
    /// Fields by name, each with the place of the name.
    fields: BTreeMap<Cow<'d, str>, (usize, Value<'d>)>,
}

/// The syntax that created a table. It decides which keys may be added later.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The header of this table, or braces.
    #[default]
    Explicit,
    /// The header of a nested table.
    Header,
    /// A dotted key.
    DottedKey,
}

#[derive(Debug)]
enum Value<'d> {
    /// A value that cannot be extended, such as an inline table.
    Complete(Node),
    Table(Table<'d>),
    /// An array of tables, from `[[…]]`.
    Elements(Vec<Table<'d>>),
}

/// A key that is set twice.
#[derive(Debug)]
pub(super) struct Conflict {
    /// Place of the second key.
    pub(super) at: usize,
    /// Place of the first key.
    pub(super) first_at: usize,
    /// Name and type of the first value, if the second key uses it as a table.
    pub(super) not_a_table: Option<(String, &'static str)>,
}

impl<'d> Table<'d> {
    fn new(at: usize, origin: Origin) -> Self {
        Self { at, origin, fields: BTreeMap::new() }
    }

    /// Returns the table at a path. Missing tables are created.
    fn descend(&mut self, path: &[Part<'d>], origin: Origin) -> Result<&mut Self, Conflict> {
        let mut table = self;
        for Part { name, at } in path {
            let made = || (*at, Value::Table(Self::new(*at, origin)));
            let (first_at, value) = table.fields.entry(name_of_table(name)).or_insert_with(made);
            let mut conflict = Conflict { at: *at, first_at: *first_at, not_a_table: None };
            table = match value {
                Value::Table(next)
                    if origin == Origin::Header || next.origin != Origin::Explicit || name == ENABLE =>
                {
                    if origin == Origin::DottedKey {
                        next.origin = origin;
                    }
                    next
                }
                Value::Elements(tables) if origin == Origin::Header => tables.last_mut().ok_or(conflict)?,
                Value::Complete(node) => {
                    conflict.not_a_table = Some((name.to_string(), node.kind()));
                    return Err(conflict);
                }
                _ => return Err(conflict),
            };
        }
        Ok(table)
    }

    /// Sets the value of a dotted key in the table of a header. The first value of a key is kept.
    pub(super) fn set(&mut self, header: &[Part<'d>], key: &[Part<'d>], value: Node) -> Result<(), Conflict> {
        let Some((Part { name, at }, path)) = key.split_last() else { return Ok(()) };
        let table = self.descend(header, Origin::Header)?.descend(path, Origin::DottedKey)?;
        let name = if value.as_table().is_some() { name_of_table(name) } else { name.clone() };
        if let Some(&(first_at, _)) = table.fields.get(&name) {
            return Err(Conflict { at: *at, first_at, not_a_table: None });
        }
        table.fields.insert(name, (*at, Value::Complete(value)));
        Ok(())
    }

    /// Opens the table of a header at `at`. A header `[[…]]` adds a table to an array. Any other existing table keeps
    /// its keys, and new keys are added to it.
    pub(super) fn open(&mut self, header: &[Part<'d>], at: usize, is_element: bool) -> Result<(), Conflict> {
        let Some((Part { name, at: key_at }, path)) = header.split_last() else { return Ok(()) };
        let made = || match is_element {
            true => (*key_at, Value::Elements(Vec::new())),
            false => (*key_at, Value::Table(Self::new(at, Origin::Header))),
        };
        let fields = &mut self.descend(path, Origin::Header)?.fields;
        let (first_at, value) = fields.entry(name_of_table(name)).or_insert_with(made);
        let conflict = Conflict { at: *key_at, first_at: *first_at, not_a_table: None };
        match value {
            Value::Elements(elements) if is_element => elements.push(Self::new(at, Origin::Explicit)),
            Value::Table(table) if !is_element => {
                // A tracer may set its switches with dotted keys (`enable.<signal>`), and then again in a table
                // `enable`.
                let is_new =
                    table.origin == Origin::Header || name == ENABLE && table.origin == Origin::DottedKey;
                (*first_at, table.at, table.origin) = (*key_at, at, Origin::Explicit);
                return if is_new { Ok(()) } else { Err(conflict) };
            }
            _ => return Err(conflict),
        }
        Ok(())
    }

    /// Returns whether keys can be added to the table of a header.
    pub(super) fn has(&mut self, header: &[Part<'d>]) -> bool {
        self.descend(header, Origin::Header).is_ok()
    }

    /// Returns the finished table, with its fields in the order of the document.
    pub(super) fn into_tree(self) -> Tree {
        let node_of = |table: Self| Node { at: table.at, value: table.into_tree() };
        let has_enable = self.fields.contains_key(ENABLE);
        let field = |(name, (at, value)): (Cow<'d, str>, (usize, Value<'d>))| {
            let node = match value {
                Value::Complete(node) => node,
                Value::Table(table) => node_of(table),
                Value::Elements(elements) => {
                    let first_at = elements.first().map_or(at, |first| first.at);
                    Node { at: first_at, value: Tree::List(elements.into_iter().map(node_of).collect()) }
                }
            };
            let name = if name == ENABLE_TABLE && !has_enable { ENABLE.into() } else { name };
            Field { name: name.into_owned(), at, node }
        };
        let mut fields: Vec<Field> = self.fields.into_iter().map(field).collect();
        fields.sort_by_cached_key(|field| field.at);
        Tree::Table(fields)
    }
}

/// Returns the name under which a table is stored. Stalwart's files may set both `enable` and `enable.<signal>`, which
/// TOML does not allow. Therefore a table `enable` is stored separately from a value of that name.
fn name_of_table<'d>(name: &Cow<'d, str>) -> Cow<'d, str> {
    if name == ENABLE { ENABLE_TABLE.into() } else { name.clone() }
}
