//! A first walk over a TOML document, before the parser sees it.
//!
//! Three things that the parser cannot do are done here, without moving a position that is ever shown:
//!
//! - `enable = true` beside `enable.log-exporter = true` is not TOML, but it is what tracers are written
//!   with: the second key becomes `"enable.log-exporter"`, and a table `enable` becomes `"enable."`;
//! - a line that is no statement would end the parser's work: it is reported and blanked, and the rest is read;
//! - nesting is bounded, so that no document can exhaust the stack of whoever walks it.

use std::ops::Range;

use toml::de::DeValue;

/// Tables and arrays within each other; far more than any configuration needs.
const MAX_DEPTH: usize = 32;

/// The name under which a table `enable` of a tracer is handed on.
pub(super) const ENABLE_TABLE: &str = "enable.";

/// What the walk found out.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// What the parser is to read instead of the document.
    pub(super) text: String,
    /// Lines that were blanked.
    pub(super) malformed: Vec<Malformed>,
    edits: Vec<Edit>,
    statements: Vec<Statement>,
    tables: Vec<Table>,
}

/// A line that is no TOML statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Offset in the document.
    pub(super) at: usize,
    pub(super) what: &'static str,
    pub(super) fix: &'static str,
}

/// Whose setting a place in the document belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Tracer(String),
    /// A section that is not ours.
    Other,
    /// It could be anybody's.
    Unknown,
}

#[derive(Debug)]
struct Statement {
    start: usize,
    /// Of the key, without the table it stands in.
    key: Range<usize>,
    table: usize,
    /// Whether it swallowed the rest of the document.
    unclosed: bool,
}

#[derive(Debug, Default)]
struct Table {
    path: Vec<String>,
    kind: TableKind,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TableKind {
    #[default]
    Plain,
    /// An element of an array, `[[…]]`: it has no name of its own.
    Element,
    /// Its header could not be read; what stands in it is not handed on.
    Malformed,
}

#[derive(Debug)]
struct Edit {
    /// In the document.
    range: Range<usize>,
    replacement: String,
    /// Where the replacement starts in the edited text.
    lands_at: usize,
}

impl Outline {
    pub(super) fn of(document: &str) -> Self {
        Scanner::new(document).run()
    }

    /// The offset in the document of an offset in the edited text.
    pub(super) fn original(&self, edited: usize) -> usize {
        let after = self.edits.partition_point(|edit| edit.lands_at <= edited);
        let Some(edit) = after.checked_sub(1).and_then(|index| self.edits.get(index)) else {
            return edited;
        };
        let within = edited - edit.lands_at;
        match within.checked_sub(edit.replacement.len()) {
            Some(beyond) => edit.range.end + beyond,
            // inside a replacement only one of the same length has a counterpart for every byte
            None if edit.replacement.len() == edit.range.len() => edit.range.start + within,
            None => edit.range.start,
        }
    }

    /// The statement that a place in the document belongs to, as a number to compare.
    pub(super) fn statement_at(&self, original: usize) -> Option<usize> {
        self.statements.partition_point(|statement| statement.start <= original).checked_sub(1)
    }

    /// The whole key of the statement at a place; empty if none could be read.
    pub(super) fn path_at(&self, document: &str, original: usize) -> Vec<String> {
        let Some(statement) = self.statement_at(original).map(|index| &self.statements[index]) else {
            return Vec::new();
        };
        let mut path = self.tables[statement.table].path.clone();
        let key = &document[statement.key.clone()];
        path.extend(Scanner::new(key).key().parts.into_iter().map(|part| decode(&key[part])));
        path
    }

    pub(super) fn owner_at(&self, document: &str, original: usize) -> Owner {
        let unclosed = self.statement_at(original).is_some_and(|index| self.statements[index].unclosed);
        let mut path = self.path_at(document, original).into_iter();
        match (path.next().as_deref(), path.next()) {
            _ if unclosed => Owner::Unknown,
            (Some("tracer"), Some(id)) => Owner::Tracer(id),
            (Some("tracer"), None) | (None, _) => Owner::Unknown,
            (Some(_), _) => Owner::Other,
        }
    }

    /// An earlier statement in the same table that sets the same key.
    pub(super) fn earlier_twin(&self, document: &str, original: usize) -> Option<usize> {
        let index = self.statement_at(original)?;
        let path = self.path_at(document, original);
        let table = self.statements[index].table;
        let twin = self.statements[..index].iter().rev().take_while(|earlier| earlier.table == table);
        // bounded: a document with thousands of duplicates needs no thousand searches of thousands
        let twin = twin.take(1_000).find(|earlier| self.path_at(document, earlier.start) == path)?;
        Some(twin.start)
    }
}

/// The parts of a dotted key.
#[derive(Debug, Default)]
struct DottedKey {
    parts: Vec<Range<usize>>,
    /// Whether it ended as a key does, and not at something strange.
    whole: bool,
}

/// Nesting went deeper than [`MAX_DEPTH`].
struct TooDeep;

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    outline: Outline,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str) -> Self {
        let outline = Outline { tables: vec![Table::default()], ..Outline::default() };
        Self { text, at: 0, outline }
    }

    /// Every statement takes its first byte and the rest of its last line, so this ends.
    fn run(mut self) -> Outline {
        self.skip_blank();
        while self.peek().is_some() {
            if self.peek() == Some(b'[') {
                self.header();
            } else {
                self.key_and_value();
            }
            self.skip_blank();
        }
        self.outline.text = self.edited();
        self.outline
    }

    fn header(&mut self) {
        let start = self.at;
        let is_array = self.rest().starts_with("[[");
        self.at += if is_array { 2 } else { 1 };
        let key_start = self.at;
        let key = self.key();
        let closed = key.whole && self.take(if is_array { "]]" } else { "]" });
        let key_end = key.parts.last().map_or(key_start, |part| part.end);
        let path: Vec<String> = key.parts.iter().map(|part| decode(&self.text[part.clone()])).collect();
        let too_deep = path.len() > MAX_DEPTH;
        let kind = match (closed && self.line_is_over() && !too_deep, is_array) {
            (true, false) => TableKind::Plain,
            (true, true) => TableKind::Element,
            (false, _) => TableKind::Malformed,
        };
        if kind == TableKind::Plain {
            self.rename_enable(&[], &key.parts, true);
        }
        self.skip_line();
        // only the two parts that tell a tracer are known for sure of a header that is cut off
        let path = if too_deep { path.into_iter().take(2).collect() } else { path };
        self.outline.tables.push(Table { path, kind });
        self.push_statement(start, key_end..key_end);
        if kind == TableKind::Malformed {
            self.blank(start);
            self.malformed(start, if too_deep { TOO_DEEP } else { BAD_HEADER });
        }
    }

    fn key_and_value(&mut self) {
        let start = self.at;
        let edits = self.outline.edits.len();
        let table = self.outline.tables.len() - 1;
        let key = self.key();
        let key_end = key.parts.last().map_or(start, |part| part.end);
        self.push_statement(start, start..key_end);
        let in_malformed_table = self.outline.tables[table].kind == TableKind::Malformed;
        if !key.whole || !self.take("=") {
            self.skip_line();
            self.blank(start);
            if !in_malformed_table {
                self.malformed(start, if key.whole { NO_VALUE } else { BAD_KEY });
            }
            return;
        }
        self.skip_spaces();
        let value_start = self.at;
        let base = self.renamable_base(table);
        let outcome = match self.descend(base.as_deref(), &key.parts, 0) {
            Ok(inner) => self.value(inner.as_deref(), key.parts.len()),
            Err(too_deep) => Err(too_deep),
        };
        if outcome.is_err() {
            self.at = value_start;
            self.skip_nested();
        }
        let unclosed = self.at >= self.text.len() && self.has_open_end(value_start);
        self.skip_line();
        if let Some(statement) = self.outline.statements.last_mut() {
            statement.unclosed = unclosed;
        }
        if outcome.is_err() || in_malformed_table {
            self.outline.edits.truncate(edits);
            self.blank(start);
        }
        if outcome.is_err() && !in_malformed_table {
            self.malformed(start, TOO_DEEP);
        }
    }
}

type Reason = (&'static str, &'static str);

const TOO_DEEP: Reason = ("nested deeper than 32 levels", "write it flatter");
const BAD_HEADER: Reason = ("malformed table header", "write it like [tracer.otel], alone in its line");
const BAD_KEY: Reason = ("not a key", "write it like key = \"value\"; quote keys with other than letters, digits, - and _");
const NO_VALUE: Reason = ("key without a value", "write it like key = \"value\"");
