//! What a walk over a document found out: which statement stands where, and what the parser should read.

use std::ops::Range;

use toml::de::DeValue;

use super::cursor::Cursor;
use super::lost::PathMark;
use crate::config::section::{FIRST_NAMES, Owner, is_known_somewhere};

/// The statements of a document, and the text that is handed to the parser in its place.
#[derive(Debug, Default)]
pub(super) struct Outline<'d> {
    document: &'d str,
    edits: Vec<Edit>,
    statements: Vec<Statement>,
    tables: Vec<Table>,
    malformed: Vec<Malformed>,
}

/// A statement that is reported here because the parser does not see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) at: usize,
    pub(super) what: &'static str,
    pub(super) fix: &'static str,
}

/// A table header, or a key with its value.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) start: usize,
    /// Of the key, without the table it stands in; empty for a header.
    pub(super) key: Range<usize>,
    pub(super) table: usize,
    /// Whether it swallowed the rest of the document.
    pub(super) is_unclosed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) path: Vec<String>,
    pub(super) kind: TableKind,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    #[default]
    Plain,
    /// `[[…]]`: one of many, so that its keys have no path of their own.
    Element,
    /// The header could not be read; what stands below it is not handed on.
    Malformed,
}

#[derive(Debug)]
struct Edit {
    /// In the document.
    range: Range<usize>,
    replacement: String,
}

impl<'d> Outline<'d> {
    pub(super) fn new(document: &'d str) -> Self {
        Self { document, tables: vec![Table::default()], ..Self::default() }
    }

    pub(super) fn push_table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// The table that is being filled, and its number.
    pub(super) fn last_table(&self) -> (usize, &Table) {
        let last = self.tables.len() - 1;
        (last, &self.tables[last])
    }

    pub(super) fn push_statement(&mut self, statement: Statement) {
        self.statements.push(statement);
    }

    pub(super) fn push_malformed(&mut self, malformed: Malformed) {
        self.malformed.push(malformed);
    }

    /// Replaces a part of the document; edits come in its order.
    pub(super) fn replace(&mut self, range: Range<usize>, replacement: String) {
        self.edits.push(Edit { range, replacement });
    }

    /// Hides a part of the document from the parser, together with all edits in it.
    pub(super) fn blank(&mut self, range: Range<usize>) {
        self.forget_edits(range.start);
        let keep_line_breaks = |byte| if byte == b'\n' { '\n' } else { ' ' };
        let replacement = self.document[range.clone()].bytes().map(keep_line_breaks).collect();
        self.replace(range, replacement);
    }

    /// Lets the document end here.
    pub(super) fn cut(&mut self, start: usize) {
        self.forget_edits(start);
        self.replace(start..self.document.len(), String::new());
    }

    fn forget_edits(&mut self, start: usize) {
        while self.edits.last().is_some_and(|edit| edit.range.start >= start) {
            self.edits.pop();
        }
    }

    /// Statements that the parser does not see.
    pub(super) fn malformed(&self) -> &[Malformed] {
        &self.malformed
    }

    /// What the parser is to read, and the way back from there.
    pub(super) fn edited(&self) -> (String, WayBack) {
        let mut text = String::with_capacity(self.document.len() + 16 * self.edits.len());
        let mut way_back = WayBack::default();
        let mut copied = 0;
        for edit in &self.edits {
            text.push_str(&self.document[copied..edit.range.start]);
            way_back.steps.push((text.len(), edit.range.start));
            text.push_str(&edit.replacement);
            way_back.steps.push((text.len(), edit.range.end));
            copied = edit.range.end;
        }
        text.push_str(&self.document[copied..]);
        (text, way_back)
    }

    /// The number of the statement that a place belongs to.
    pub(super) fn statement_at(&self, place: usize) -> Option<usize> {
        self.statements.partition_point(|statement| statement.start <= place).checked_sub(1)
    }

    /// The keys with values that the parser should have read, by their numbers and with their whole paths.
    pub(super) fn assignments(&self) -> impl Iterator<Item = (usize, PathMark)> {
        let of_path = |path: &[String]| path.iter().fold(PathMark::default(), |mark, part| mark.with(part));
        let tables: Vec<PathMark> = self.tables.iter().map(|table| of_path(&table.path)).collect();
        let is_read = |statement: &Statement| {
            let is_plain = self.tables[statement.table].kind == TableKind::Plain;
            is_plain && !statement.key.is_empty()
        };
        let read = self.statements.iter().enumerate().filter(move |(_, statement)| is_read(statement));
        read.map(move |(number, statement)| {
            let parts = self.parts_of_key(statement);
            (number, parts.iter().fold(tables[statement.table], |mark, part| mark.with(part)))
        })
    }

    pub(super) fn start_of(&self, number: usize) -> usize {
        self.statements[number].start
    }

    /// The whole key of the statement at a place; empty if there is none.
    pub(super) fn path_at(&self, place: usize) -> Vec<String> {
        self.statement_at(place).map(|number| self.path_of(&self.statements[number])).unwrap_or_default()
    }

    /// The same without words at its end that are the name of nothing: where no value follows, they may be the rest of a
    /// broken text, and so of a secret.
    pub(super) fn path_without_strays(&self, place: usize) -> Vec<String> {
        let mut path = self.path_at(place);
        let statement = self.statement_at(place).map(|number| &self.statements[number]);
        let of_table = statement.map_or(0, |statement| self.tables[statement.table].path.len());
        let is_known = |word: &String| is_known_somewhere(word) || FIRST_NAMES.contains(&word.as_str());
        while path.len() > of_table && !path.last().is_some_and(is_known) {
            path.pop();
        }
        path
    }

    /// Whom a mistake at this place concerns.
    pub(super) fn owner_at(&self, place: usize) -> Owner {
        let Some(statement) = self.statement_at(place).map(|number| &self.statements[number]) else {
            return Owner::Unknown;
        };
        // one that is not closed may have swallowed anything
        if statement.is_unclosed { Owner::Unknown } else { Owner::of(&self.path_of(statement)) }
    }

    /// Where the key of the statement at a place was set before.
    pub(super) fn earlier_twin(&self, place: usize) -> Option<usize> {
        let number = self.statement_at(place)?;
        // joined, because one switch may be written as one part or as two
        let path = self.path_of(&self.statements[number]).join(".");
        // bounded: many duplicates must not cost a search through the whole document each
        let mut earlier = self.statements[..number].iter().rev().take(200);
        earlier.find(|earlier| self.path_of(earlier).join(".") == path).map(|earlier| earlier.start)
    }

    fn path_of(&self, statement: &Statement) -> Vec<String> {
        let mut path = self.tables[statement.table].path.clone();
        path.extend(self.parts_of_key(statement));
        path
    }

    fn parts_of_key(&self, statement: &Statement) -> Vec<String> {
        let key = &self.document[statement.key.clone()];
        Cursor::new(key).key().parts.into_iter().map(|part| decode(&key[part])).collect()
    }
}

/// From offsets in the edited text to offsets in the document.
#[derive(Debug, Default)]
pub(super) struct WayBack {
    /// Offset in the edited text, offset in the document: the start and the end of every edit.
    steps: Vec<(usize, usize)>,
}

impl WayBack {
    /// A place inside a replacement becomes the place where that starts.
    pub(super) fn original(&self, edited: usize) -> usize {
        let after = self.steps.partition_point(|(from, _)| *from <= edited);
        let Some((from, to)) = after.checked_sub(1).map(|step| self.steps[step]) else {
            return edited;
        };
        let is_inside_replacement = after % 2 == 1;
        if is_inside_replacement { to } else { to + (edited - from) }
    }
}

/// A part of a key without its quotes.
pub(super) fn decode(part: &str) -> String {
    let quoted = part.starts_with(['"', '\'']).then(|| DeValue::parse(part).ok()).flatten();
    quoted.as_ref().and_then(|value| value.get_ref().as_str()).unwrap_or(part).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::text::{encode, quote};

    #[test]
    fn what_is_quoted_is_decoded_as_the_same() {
        for text in ["", "otel", "a.b", "a\"b\\c", "line\nbreak\u{7f}\u{85}", "ü 🎈", "'"] {
            assert_eq!(decode(&quote(text)), text);
            assert_eq!(decode(&encode(text)), text);
        }
        assert_eq!(encode("log-exporter_2"), "log-exporter_2");
        assert_eq!(decode("'a\\b'"), "a\\b");
    }

    #[test]
    fn every_place_finds_its_way_back_through_the_edits() {
        let document = "one two three";
        let mut outline = Outline::new(document);
        outline.replace(4..7, "a longer text".to_owned());
        outline.blank(8..10);
        let (text, way_back) = outline.edited();
        assert_eq!(text, "one a longer text   ree");
        for (edited, original) in
            [("one", "one"), (" a", " t"), ("a longer", "two"), ("text", "two"), ("ree", "ree")]
        {
            let from = text.find(edited).expect(edited);
            let to = document.find(original).expect(original);
            assert_eq!(way_back.original(from), to, "{edited:?}");
        }
        assert_eq!(way_back.original(text.len()), document.len());
    }
}
