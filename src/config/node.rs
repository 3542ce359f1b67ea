//! The document that the readers of TOML and YAML return: a tree of values, syntax errors, and the location of each.

use std::ops::Range;

use super::Location;
use super::error::Diagnostic;
use super::section::Owner;

/// A document, as far as it could be read.
pub(super) struct Document<'d> {
    pub(super) root: Node,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) places: Places<'d>,
}

/// A mistake in the syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) owner: Owner,
    pub(super) diagnostic: Diagnostic,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Offset of the value in bytes; [`Places`] turns it into line and column.
    pub(super) at: usize,
    pub(super) value: Tree,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    /// Nothing: only YAML can say so.
    Null,
    Bool(bool),
    Integer(Integer),
    /// As it was written, and what it means.
    Float {
        written: String,
        value: f64,
    },
    Text(String),
    /// A date or a time: only TOML knows them.
    Date,
    List(Vec<Node>),
    /// In the order of the document; no name twice.
    Table(Vec<Field>),
}

/// A whole number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Integer {
    /// For messages.
    pub(super) written: String,
    /// Kept at the ends of its scale if it is beyond them.
    pub(super) value: i128,
}

/// One entry of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Where the name stands.
    pub(super) at: usize,
    pub(super) node: Node,
}

/// Finds lines and columns in the text of a document. A place is an offset in bytes.
pub(super) struct Places<'d> {
    file: &'d str,
    text: &'d str,
    /// In the order of the text; the first is at its start.
    marks: Vec<Mark>,
    /// Parts of the text with a reported syntax error.
    spoilt: Vec<Range<usize>>,
}

/// A place whose line and column are known.
#[derive(Clone, Copy)]
struct Mark {
    offset: usize,
    line: usize,
    column: usize,
}

impl<'d> Places<'d> {
    /// Marks every start of a line, and places within long lines, so that no search for a column is long. In YAML, also a
    /// carriage return alone ends a line.
    pub(super) fn new(file: &'d str, text: &'d str, is_yaml: bool) -> Self {
        const STRIDE: usize = 1_024;
        let mut here = Mark { offset: 0, line: 1, column: 1 };
        let mut marks = vec![here];
        for character in text.chars() {
            here.offset += character.len_utf8();
            here.column += 1;
            let is_return = is_yaml && character == '\r' && !text[here.offset..].starts_with('\n');
            if character == '\n' || is_return {
                (here.line, here.column) = (here.line + 1, 1);
            }
            if here.column % STRIDE == 1 {
                marks.push(here);
            }
        }
        Self { file, text, marks, spoilt: Vec::new() }
    }

    pub(super) fn location(&self, at: usize) -> Location {
        let at = at.min(self.text.len());
        let after = self.marks.partition_point(|mark| mark.offset <= at);
        let mark = self.marks[after.saturating_sub(1)];
        let column = mark.column + self.text[mark.offset..at].chars().count();
        Location { file: self.file.to_owned(), line: mark.line, column }
    }

    /// Marks a part whose syntax error has been reported.
    pub(super) fn spoil(&mut self, part: Range<usize>) {
        self.spoilt.push(part);
    }

    /// Returns whether a syntax error has been reported there, so that another diagnostic would repeat it.
    pub(super) fn is_spoilt(&self, at: usize) -> bool {
        self.spoilt.iter().any(|part| part.contains(&at))
    }
}

impl Node {
    pub(super) fn as_table(&self) -> Option<&[Field]> {
        match &self.value {
            Tree::Table(fields) => Some(fields),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The field of a table; `None` also if this is no table.
    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.as_table()?.iter().find(|field| field.name == name)
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Tree::Null => "nothing",
            Tree::Bool(_) => "a boolean",
            Tree::Integer(_) => "an integer",
            Tree::Float { .. } => "a float",
            Tree::Text(_) => "a string",
            Tree::Date => "a date",
            Tree::List(_) => "an array",
            Tree::Table(_) => "a table",
        }
    }
}
