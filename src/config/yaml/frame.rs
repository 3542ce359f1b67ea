//! What is open while a document is read, and how much may it become? Aliases let a short text stand for an endless tree.

use std::collections::{HashMap, HashSet};
use std::mem;

use crate::config::error::Fault;
use crate::config::node::{Field, Node, Tree};

pub(super) struct Frame {
    pub(super) at: usize,
    /// The number that aliases know it by, 0 if none does.
    pub(super) anchor: usize,
    pub(super) weight: Weight,
    pub(super) contents: Contents,
}

pub(super) enum Contents {
    List(Vec<Node>),
    Table(OpenTable),
}

/// A table, of which keys and values come in turn.
#[derive(Default)]
pub(super) struct OpenTable {
    fields: Vec<Field>,
    /// Where each key stands.
    names: HashMap<String, usize>,
    merge: Option<Merge>,
    turn: Turn,
}

/// What `<<` brings in.
struct Merge {
    key_at: usize,
    /// How many fields stood before it.
    position: usize,
    /// Null until its value has come.
    source: Node,
}

#[derive(Default)]
enum Turn {
    #[default]
    Key,
    Value(Key),
}

enum Key {
    Name {
        name: String,
        at: usize,
    },
    Merge,
    /// Its value is left out: the mistake has been reported.
    Refused,
}

/// Why a key was refused.
pub(super) enum KeyFault {
    /// The name, and where it stands already.
    Duplicate {
        name: String,
        first_at: usize,
    },
    Other(Fault),
}

impl OpenTable {
    pub(super) fn awaits_key(&self) -> bool {
        matches!(self.turn, Turn::Key)
    }

    /// The key whose value is being read.
    pub(super) fn current_name(&self) -> Option<&str> {
        match &self.turn {
            Turn::Value(Key::Name { name, .. }) => Some(name),
            Turn::Value(Key::Merge) => Some("<<"),
            Turn::Value(Key::Refused) | Turn::Key => None,
        }
    }

    pub(super) fn take_merge_key(&mut self, at: usize) -> Result<(), KeyFault> {
        if let Some(merge) = &self.merge {
            let first_at = merge.key_at;
            self.turn = Turn::Value(Key::Refused);
            return Err(KeyFault::Duplicate { name: "<<".to_owned(), first_at });
        }
        let source = Node { at, value: Tree::Null };
        self.merge = Some(Merge { key_at: at, position: self.fields.len(), source });
        self.turn = Turn::Value(Key::Merge);
        Ok(())
    }

    pub(super) fn take_key(&mut self, node: Node) -> Result<(), KeyFault> {
        // until it is known to be good
        self.turn = Turn::Value(Key::Refused);
        let at = node.at;
        let name = name_of(node.value).map_err(KeyFault::Other)?;
        if let Some(&first_at) = self.names.get(&name) {
            return Err(KeyFault::Duplicate { name, first_at });
        }
        self.names.insert(name.clone(), at);
        self.turn = Turn::Value(Key::Name { name, at });
        Ok(())
    }

    pub(super) fn take_value(&mut self, node: Node) {
        match mem::take(&mut self.turn) {
            Turn::Value(Key::Name { name, at }) => self.fields.push(Field { name, at, node }),
            Turn::Value(Key::Merge) => {
                if let Some(merge) = &mut self.merge {
                    merge.source = node;
                }
            }
            Turn::Value(Key::Refused) | Turn::Key => {}
        }
    }

    /// The fields, with those that `<<` brings in where it stood; own ones win, then those that come first.
    ///
    /// A fault is about the value of `<<`, which is then left out, and comes with its place.
    pub(super) fn close(self) -> (Vec<Field>, Option<(usize, Fault)>) {
        let Self { mut fields, names, merge, .. } = self;
        let Some(Merge { position, source, .. }) = merge else {
            return (fields, None);
        };
        let at = source.at;
        let Some(tables) = tables_of(source) else {
            let fault =
                Fault::new("<< brings in tables only", "write an alias of a table, or a list of them");
            return (fields, Some((at, fault)));
        };
        let mut brought: Vec<Field> = Vec::new();
        let mut seen = HashSet::new();
        for field in tables.into_iter().flatten() {
            if !names.contains_key(&field.name) && seen.insert(field.name.clone()) {
                brought.push(field);
            }
        }
        fields.splice(position..position, brought);
        (fields, None)
    }
}

fn name_of(key: Tree) -> Result<String, Fault> {
    let found = match key {
        Tree::Text(text) => return Ok(text),
        Tree::Integer(integer) => return Ok(integer.written),
        Tree::Float { written, .. } => return Ok(written),
        Tree::Bool(value) => return Ok(value.to_string()),
        Tree::Null => "nothing",
        Tree::Date => "a date",
        Tree::List(_) => "a list",
        Tree::Table(_) => "a table",
    };
    Err(Fault::new(format!("found {found} as a key"), "write text"))
}

fn tables_of(source: Node) -> Option<Vec<Vec<Field>>> {
    let table = |node: Node| match node.value {
        Tree::Table(fields) => Some(fields),
        _ => None,
    };
    match source.value {
        Tree::List(nodes) => nodes.into_iter().map(table).collect(),
        _ => table(source).map(|fields| vec![fields]),
    }
}

/// Values and keys of a document, those that aliases repeat and those kept for aliases included. A hundred times what
/// any configuration needs, and read in a few hundredths of a second.
pub(super) const MAX_VALUES: usize = 20_000;
/// Bytes of their text: one long text must not be repeated without end either.
pub(super) const MAX_TEXT: usize = 4 << 20;

/// What a part of the tree weighs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) values: usize,
    pub(super) text: usize,
    /// Levels of lists and tables in it, itself included.
    pub(super) levels: usize,
}

impl Weight {
    pub(super) fn of_text(text: &str) -> Self {
        Self { values: 1, text: text.len(), levels: 0 }
    }

    /// A list or a table without anything in it.
    pub(super) fn of_collection() -> Self {
        Self { values: 1, text: 0, levels: 1 }
    }

    /// Puts a part into a list or a table. Cannot overflow: parts are within the budget.
    pub(super) fn put_in(&mut self, part: Weight) {
        self.values += part.values;
        self.text += part.text;
        self.levels = self.levels.max(part.levels + 1);
    }
}

/// What is left for the rest of a document.
#[derive(Debug)]
pub(super) struct Budget {
    values: usize,
    text: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { values: MAX_VALUES, text: MAX_TEXT }
    }

    /// To be asked before anything is made, so that nothing is made beyond it.
    ///
    /// # Errors
    ///
    /// What is too much.
    pub(super) fn charge(&mut self, weight: Weight) -> Result<(), String> {
        let values = self.values.checked_sub(weight.values);
        self.values = values.ok_or_else(|| format!("more than {MAX_VALUES} values"))?;
        let text = self.text.checked_sub(weight.text);
        self.text = text.ok_or_else(|| format!("more than {} MiB of text", MAX_TEXT >> 20))?;
        Ok(())
    }
}
