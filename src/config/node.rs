//! What do the readers of TOML and YAML yield? The document as a tree, its mistakes, and the places in it.

use super::Location;
use super::error::Diagnostic;
use super::section::Owner;

/// What could be read, what could not, and where everything stands.
pub(super) struct Document<'d> {
    pub(super) root: Node,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) places: Box<dyn Places + 'd>,
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
    /// A place that the [`Places`] of the document know; places are in the order of the document.
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

/// Knows where in a file the places of a document are.
pub(super) trait Places {
    fn location(&self, at: usize) -> Location;

    /// Whether a mistake in the syntax has been reported there already, so that more words would be its echo.
    fn is_spoilt(&self, at: usize) -> bool;
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
