//! The parts of a YAML document while it is read: scalars by the core schema of YAML 1.2, open tables with their merges, and
//! the budget that bounds the growth by aliases.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::mem;

use granit_parser::{ScalarStyle, Tag};

use crate::config::error::Fault;
use crate::config::node::{Field, Integer, Node, Places, Tree};

/// Values and keys of a document, those that aliases repeat and those kept for aliases included. A hundred times what
/// any configuration needs, and read in a few hundredths of a second.
pub(super) const MAX_VALUES: usize = 20_000;
/// Bytes of their text: one long text must not be repeated without end either.
pub(super) const MAX_TEXT: usize = 4 << 20;
/// The key of a merge.
pub(super) const MERGE: &str = "<<";

/// The weight of a part of the tree, or what is left for the rest of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) values: usize,
    pub(super) text: usize,
    /// Levels of lists and tables in it, itself included.
    pub(super) levels: usize,
}

impl Weight {
    /// The budget of a document.
    pub(super) const BUDGET: Self = Self { values: MAX_VALUES, text: MAX_TEXT, levels: 0 };
    /// A list or a table without anything in it.
    pub(super) const COLLECTION: Self = Self { values: 1, text: 0, levels: 1 };

    pub(super) fn of_text(text: &str) -> Self {
        Self { values: 1, text: text.len(), levels: 0 }
    }

    /// Puts a part into a list or a table. Cannot overflow: parts are within the budget.
    pub(super) fn put_in(&mut self, part: Weight) {
        self.values += part.values;
        self.text += part.text;
        self.levels = self.levels.max(part.levels + 1);
    }

    /// Takes a part from the budget, before the part is made.
    ///
    /// # Errors
    /// When the part is beyond the budget.
    pub(super) fn charge(&mut self, part: Weight) -> Result<(), Fault> {
        let fault = |what| Fault::new(what, "write a smaller file, with fewer aliases");
        let values = self.values.checked_sub(part.values);
        self.values = values.ok_or_else(|| fault(format!("more than {MAX_VALUES} values")))?;
        let text = self.text.checked_sub(part.text);
        self.text = text.ok_or_else(|| fault(format!("more than {} MiB of text", MAX_TEXT >> 20)))?;
        Ok(())
    }
}

/// A list or a table that is open.
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
    /// The index of the field `<<` that brings in other tables.
    merge: Option<usize>,
    turn: Turn,
}

#[derive(Default)]
enum Turn {
    #[default]
    Key,
    Value {
        name: String,
        at: usize,
    },
    /// The value is left out: the mistake in its key has been reported.
    RefusedValue,
}

/// Why a key was refused, with its name if that is known.
pub(super) type RefusedKey = (Option<String>, Fault);

impl OpenTable {
    pub(super) fn awaits_key(&self) -> bool {
        matches!(self.turn, Turn::Key)
    }

    /// Returns the key whose value is being read.
    pub(super) fn current_name(&self) -> Option<&str> {
        match &self.turn {
            Turn::Value { name, .. } => Some(name),
            Turn::RefusedValue | Turn::Key => None,
        }
    }

    pub(super) fn take_key(&mut self, node: Node, places: &Places<'_>) -> Result<(), RefusedKey> {
        // until it is known to be good
        self.turn = Turn::RefusedValue;
        let at = node.at;
        let name = name_of(node).map_err(|fault| (None, fault))?;
        if let Some(&first_at) = self.names.get(&name) {
            let fault = Fault::duplicate_key(places.location(first_at).line);
            return Err((Some(name), fault));
        }
        self.names.insert(name.clone(), at);
        self.turn = Turn::Value { name, at };
        Ok(())
    }

    /// Makes the key just taken one that brings in other tables.
    pub(super) fn merge_next(&mut self) {
        self.merge.get_or_insert(self.fields.len());
    }

    pub(super) fn take_value(&mut self, node: Node) {
        if let Turn::Value { name, at } = mem::take(&mut self.turn) {
            self.fields.push(Field { name, at, node });
        }
    }

    /// Returns the fields, with those that `<<` brings in where it stood; own ones win, then those that come first.
    ///
    /// A fault is about the value of `<<`, which is then left out, and comes with its place.
    pub(super) fn close(self) -> (Vec<Field>, Option<(usize, Fault)>) {
        let Self { mut fields, names, merge, .. } = self;
        let Some(position) = merge else {
            return (fields, None);
        };
        let source = fields.remove(position).node;
        let at = source.at;
        let Some(tables) = tables_of(source) else {
            let fault =
                Fault::new("<< brings in tables only", "write an alias of a table, or a list of them");
            return (fields, Some((at, fault)));
        };
        let mut seen = HashSet::new();
        let is_new = |field: &Field| !names.contains_key(&field.name) && seen.insert(field.name.clone());
        let brought: Vec<Field> = tables.into_iter().flatten().filter(is_new).collect();
        fields.splice(position..position, brought);
        (fields, None)
    }
}

fn name_of(key: Node) -> Result<String, Fault> {
    let kind = match key.value {
        Tree::Text(text) => return Ok(text),
        Tree::Integer(integer) => return Ok(integer.written),
        Tree::Float { written, .. } => return Ok(written),
        Tree::Bool(value) => return Ok(value.to_string()),
        Tree::List(_) => "a list",
        _ => key.kind(),
    };
    Fault::err(format!("found {kind} as a key"), "write text")
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

/// Returns whether a tag makes a scalar text: `!!str`, or `!`, which says "do not guess".
///
/// # Errors
/// Other tags make types that a configuration has no use for, mostly those of other programs.
pub(super) fn asks_for_text(tag: Option<&Tag>) -> Result<bool, Fault> {
    let Some(tag) = tag else { return Ok(false) };
    let is_text = tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() == Some("str");
    if is_text || matches!((tag.handle(), tag.suffix()), ("", "!") | ("!", "")) {
        return Ok(true);
    }
    Fault::err("an unknown tag", "remove it, or write !!str for text; text that begins with ! needs quotes")
}

/// Reads a scalar. Only plain ones mean anything but text.
pub(super) fn scalar(text: Cow<'_, str>, style: ScalarStyle, is_text: bool) -> Tree {
    if is_text || style != ScalarStyle::Plain {
        return Tree::Text(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Tree::Null,
        "true" | "True" | "TRUE" => return Tree::Bool(true),
        "false" | "False" | "FALSE" => return Tree::Bool(false),
        _ => {}
    }
    let written = text.into_owned();
    match (integer(&written), float(&written)) {
        (Some(value), _) => Tree::Integer(Integer { written, value }),
        (None, Some(value)) => Tree::Float { written, value },
        (None, None) => Tree::Text(written),
    }
}

fn integer(text: &str) -> Option<i128> {
    let (digits, radix, end) = if let Some(octal) = text.strip_prefix("0o") {
        (octal, 8, i128::MAX)
    } else if let Some(hexadecimal) = text.strip_prefix("0x") {
        (hexadecimal, 16, i128::MAX)
    } else if let Some(negative) = text.strip_prefix('-') {
        (negative, 10, i128::MIN)
    } else {
        (text.strip_prefix('+').unwrap_or(text), 10, i128::MAX)
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    // with its sign, because the lowest number has no positive twin; only what is beyond the scale fails now
    let signed = if radix == 10 { text } else { digits };
    Some(i128::from_str_radix(signed, radix).unwrap_or(end))
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" if text.starts_with('-') => return Some(f64::NEG_INFINITY),
        ".inf" | ".Inf" | ".INF" => return Some(f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if unsigned == text => return Some(f64::NAN),
        _ => {}
    }
    // Rust knows words like `inf` and `infinity`, which are text in YAML
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_number { text.parse().ok() } else { None }
}
