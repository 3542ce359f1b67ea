//! The document that the TOML and YAML parsers return: a tree of values and a list of syntax errors, each with its
//! place.

use std::ops::Range;

use super::Location;
use super::error::Diagnostic;
use super::section::Owner;

/// A parsed document. If it has mistakes, the tree contains only the parts that could be read. After a syntax error in
/// YAML, the tree is empty.
pub(super) struct Document<'d> {
    pub(super) root: Node,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) places: Places<'d>,
}

/// A syntax error, and the section that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) owner: Owner,
    pub(super) diagnostic: Diagnostic,
}

/// A value and its place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Node {
    /// Offset of the value in bytes; [`Places`] turns it into line and column.
    pub(super) at: usize,
    pub(super) value: Tree,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Tree {
    /// Null, which only YAML has.
    #[default]
    Null,
    Bool(bool),
    Integer(Integer),
    /// A floating-point number, with its text for messages.
    Float {
        written: String,
        value: f64,
    },
    Text(String),
    /// Text of a YAML file into which the values of variables were inserted. It is not searched for further references.
    #[cfg(feature = "yaml")]
    Inserted {
        /// The text of the file, with its references. Messages show it instead of `text` if `is_secret`.
        written: String,
        text: String,
        is_secret: bool,
    },
    /// A date or a time, which only TOML has. No setting has this type, so the value is not kept.
    Date,
    List(Vec<Node>),
    /// Fields in the order of the document, with distinct names.
    Table(Vec<Field>),
}

/// A whole number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Integer {
    /// The text of the number, for messages.
    pub(super) written: String,
    /// The value, saturated at the bounds of `i128`.
    pub(super) value: i128,
}

/// One entry of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Offset of the name in bytes.
    pub(super) at: usize,
    pub(super) node: Node,
}

/// Converts places, which are byte offsets, to lines and columns.
pub(super) struct Places<'d> {
    pub(super) file: &'d str,
    pub(super) text: &'d str,
    /// Known positions in ascending order; the first is the start of the text.
    marks: Vec<Mark>,
    /// Ranges of the text in which a syntax error has been reported.
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
    /// Indexes the start of every line, and every 1,024th character of a long line, so that counting a column is cheap.
    /// In YAML, a lone carriage return ends a line, too.
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

    /// Notes that a syntax error in this range has been reported.
    pub(super) fn spoil(&mut self, part: Range<usize>) {
        self.spoilt.push(part);
    }

    /// Returns whether a syntax error has been reported at this place. Another diagnostic would only repeat the error.
    pub(super) fn is_spoilt(&self, at: usize) -> bool {
        self.spoilt.iter().any(|part| part.contains(&at))
    }
}

impl Node {
    pub(super) fn as_table(&self) -> Option<&[Field]> {
        if let Tree::Table(fields) = &self.value { Some(fields) } else { None }
    }

    /// Returns the text of a string, unless it contains a secret.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Tree::Text(text) => Some(text),
            #[cfg(feature = "yaml")]
            Tree::Inserted { text, is_secret: false, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns a field by its name; `None` if the field is absent or the node is not a table.
    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.as_table()?.iter().find(|field| field.name == name)
    }

    /// Returns the node at a path of names.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| Some(&node.get(name)?.node))
    }

    /// Returns the type of the value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Tree::Null => "nothing",
            Tree::Bool(_) => "a boolean",
            Tree::Integer(_) => "an integer",
            Tree::Float { .. } => "a float",
            Tree::Text(_) => "a string",
            #[cfg(feature = "yaml")]
            Tree::Inserted { .. } => "a string",
            Tree::Date => "a date",
            Tree::List(_) => "an array",
            Tree::Table(_) => "a table",
        }
    }
}
