//! Parts of a YAML document: scalars of the YAML 1.2 core schema, the substitution of variables in them, open tables
//! with merge keys, and the budget that bounds the expansion of aliases (the "billion laughs" attack).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::mem;

use granit_parser::{ScalarStyle, Tag};

use crate::config::error::Fault;
use crate::config::node::{Field, Integer, Node, Places, Tree};

/// Maximum number of values and keys of a document, including copies for aliases. No configuration needs more than a
/// hundredth of the maximum. A document with the maximum is read in a few hundredths of a second.
pub(super) const MAX_VALUES: usize = 20_000;
/// Maximum number of bytes in the text of all values and keys, because aliases could also repeat one long text.
pub(super) const MAX_TEXT: usize = 4 << 20;
/// The merge key.
pub(super) const MERGE: &str = "<<";

/// The cost of a part of the tree, or the remaining budget of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) values: usize,
    pub(super) text: usize,
    /// Levels of nested lists and tables, including the part itself.
    pub(super) levels: usize,
}

impl Weight {
    /// The budget of a document.
    pub(super) const BUDGET: Self = Self { values: MAX_VALUES, text: MAX_TEXT, levels: 0 };
    /// The cost of an empty list or table.
    pub(super) const COLLECTION: Self = Self { values: 1, text: 0, levels: 1 };

    pub(super) fn of_text(text: &str) -> Self {
        Self { values: 1, text: text.len(), levels: 0 }
    }

    /// Adds the cost of an element. Cannot overflow, because all parts are within the budget.
    pub(super) fn put_in(&mut self, part: Weight) {
        self.values += part.values;
        self.text += part.text;
        self.levels = self.levels.max(part.levels + 1);
    }

    /// Subtracts a part from the budget, before the part is created.
    ///
    /// # Errors
    /// Returns an error if the budget is exceeded.
    pub(super) fn charge(&mut self, part: Weight) -> Result<(), Fault> {
        let fault = |what| Fault::new(what, "write a smaller file, with fewer aliases");
        let values = self.values.checked_sub(part.values);
        self.values = values.ok_or_else(|| fault(format!("more than {MAX_VALUES} values")))?;
        let text = self.text.checked_sub(part.text);
        self.text = text.ok_or_else(|| fault(format!("more than {} MiB of text", MAX_TEXT >> 20)))?;
        Ok(())
    }
}

/// A list or a table that is still open.
pub(super) struct Frame {
    pub(super) at: usize,
    /// Number of its anchor; 0 if it has none.
    pub(super) anchor: usize,
    pub(super) weight: Weight,
    pub(super) contents: Contents,
}

pub(super) enum Contents {
    List(Vec<Node>),
    Table(OpenTable),
}

/// A table, whose keys and values arrive alternately.
#[derive(Default)]
pub(super) struct OpenTable {
    fields: Vec<Field>,
    /// Place of each key.
    names: HashMap<String, usize>,
    /// Index of the merge key among the fields.
    merge: Option<usize>,
    turn: Turn,
}

#[derive(Default)]
enum Turn {
    #[default]
    Key,
    /// The name of the key, and its place.
    Value(String, usize),
    /// The next value is ignored, because its key is invalid, which has been reported.
    RefusedValue,
}

/// The fault of an invalid key, with its name if it has one.
pub(super) type RefusedKey = (Option<String>, Fault);

impl OpenTable {
    pub(super) fn awaits_key(&self) -> bool {
        matches!(self.turn, Turn::Key)
    }

    /// Returns the key whose value is being read.
    pub(super) fn current_name(&self) -> Option<&str> {
        match &self.turn {
            Turn::Value(name, _) => Some(name),
            Turn::RefusedValue | Turn::Key => None,
        }
    }

    pub(super) fn take_key(&mut self, node: Node, places: &Places<'_>) -> Result<(), RefusedKey> {
        // Corrected below if the key is valid.
        self.turn = Turn::RefusedValue;
        let at = node.at;
        let name = name_of(node).map_err(|fault| (None, fault))?;
        if let Some(&first_at) = self.names.get(&name) {
            let fault = Fault::duplicate_key(places.location(first_at).line);
            return Err((Some(name), fault));
        }
        self.names.insert(name.clone(), at);
        self.turn = Turn::Value(name, at);
        Ok(())
    }

    /// Marks the last key as a merge key.
    pub(super) fn merge_next(&mut self) {
        // The key `<<` has just been taken, so its value will be the next field.
        self.merge.get_or_insert(self.fields.len());
    }

    pub(super) fn take_value(&mut self, node: Node) {
        if let Turn::Value(name, at) = mem::take(&mut self.turn) {
            self.fields.push(Field { name, at, node });
        }
    }

    /// Returns the fields. Merged fields take the place of `<<`; explicit keys take precedence over merged ones, and
    /// earlier tables over later ones.
    ///
    /// If the value of `<<` is invalid, it is ignored, and a fault with its place is returned.
    pub(super) fn close(self) -> (Vec<Field>, Option<(usize, Fault)>) {
        let Self { mut fields, names, merge, .. } = self;
        let Some(position) = merge else { return (fields, None) };
        let source = fields.remove(position).node;
        let at = source.at;
        let Some(tables) = tables_of(source) else {
            let fix = "write an alias of a table, or a list of them";
            return (fields, Some((at, Fault::new("<< can only merge tables", fix))));
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
    let table = |node: Node| if let Tree::Table(fields) = node.value { Some(fields) } else { None };
    match source.value {
        Tree::List(nodes) => nodes.into_iter().map(table).collect(),
        _ => table(source).map(|fields| vec![fields]),
    }
}

/// Returns whether a tag turns a scalar into text: `!!str`, or `!`, which prevents the detection of other types.
///
/// # Errors
/// Returns an error for any other tag, because it creates a type that no setting has.
pub(super) fn asks_for_text(tag: Option<&Tag>) -> Result<bool, Fault> {
    let Some(tag) = tag else { return Ok(false) };
    let is_text = tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() == Some("str");
    if is_text || matches!((tag.handle(), tag.suffix()), ("", "!") | ("!", "")) {
        return Ok(true);
    }
    Fault::err("an unknown tag", "remove it, or write !!str for text; quote text that begins with !")
}

/// Returns the value of an environment variable; `None` if it is unset.
pub(in crate::config) type Lookup<'l> = &'l dyn Fn(&str) -> Result<Option<String>, Fault>;

/// A scalar in which variables are substituted.
#[derive(Default)]
pub(super) struct Substituted {
    pub(super) text: String,
    /// True if the text contains the value of a variable.
    pub(super) is_inserted: bool,
    /// True if one of these variables is not OpenTelemetry's own, so that its value may be a secret.
    pub(super) is_secret: bool,
}

/// Substitutes `${NAME}`, `${env:NAME}` and `${NAME:-default}` by the rules of OpenTelemetry's declarative
/// configuration: `$$` becomes `$`, a reference that overlaps a `$$` is not substituted, and inserted text is not
/// searched again.
///
/// # Errors
/// Returns an error if a reference is malformed, a variable is not UTF-8, or the text becomes too long.
pub(super) fn substitute(written: &str, lookup: Lookup<'_>) -> Result<Substituted, Fault> {
    let is_part = |c: char| matches!(c, '!'..='|' | '~' | ' ' | '\t');
    let mut done = Substituted::default();
    for (index, mut rest) in written.split("$$").enumerate() {
        done.text.push_str(if index > 0 { "$" } else { "" });
        while let Some(start) = rest.find("${") {
            let (before, reference) = rest.split_at(start);
            done.text.push_str(before);
            let content = &reference[2..];
            let (content, after) = content.split_at(content.find(|c| !is_part(c)).unwrap_or(content.len()));
            match after.strip_prefix('}').filter(|_| !content.is_empty()) {
                Some(after) => {
                    done.insert(content, lookup)?;
                    rest = after;
                }
                // `content` is empty, or no `}` closes it, nor any `${` within it. `content` is copied as a whole,
                // because a search from each `${` would take quadratic time.
                None => {
                    done.text.push_str("${");
                    done.text.push_str(content);
                    rest = after;
                }
            }
        }
        done.text.push_str(rest);
    }
    Ok(done)
}

impl Substituted {
    fn insert(&mut self, content: &str, lookup: Lookup<'_>) -> Result<(), Fault> {
        let reference = reference(content).or_else(|| reference(content.strip_prefix("env:")?));
        let Some((name, default)) = reference else {
            let what = "a reference is neither ${NAME} nor ${NAME:-default}";
            return Fault::err(what, "write one of these, or $$ for a dollar sign");
        };
        match (lookup(name)?.filter(|value| !value.is_empty()), default) {
            (Some(value), _) => {
                self.is_inserted = true;
                self.is_secret |= !name.starts_with("OTEL_");
                self.text.push_str(&value);
            }
            (None, default) => self.text.push_str(default.unwrap_or_default()),
        }
        // Checked here as well as for the whole document, so that a short text cannot insert a long value many times.
        let mut budget = Weight::BUDGET;
        budget.charge(Weight::of_text(&self.text))
    }
}

/// Splits `NAME` or `NAME:-default`.
pub(in crate::config) fn reference(content: &str) -> Option<(&str, Option<&str>)> {
    let end = content.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(content.len());
    let (name, rest) = content.split_at(end);
    let is_name = name.starts_with(|c: char| !c.is_ascii_digit());
    let default = rest.strip_prefix(":-");
    (is_name && (rest.is_empty() || default.is_some())).then_some((name, default))
}

/// Parses a scalar. Only plain scalars, without quotes, have types other than text.
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
    let (digits, radix) = match (text.strip_prefix("0o"), text.strip_prefix("0x")) {
        (Some(octal), _) => (octal, 8),
        (None, Some(hexadecimal)) => (hexadecimal, 16),
        (None, None) => (text.strip_prefix(['-', '+']).unwrap_or(text), 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    // Parsed with its sign, because `i128::MIN` has no positive counterpart. Numbers out of range are saturated.
    let signed = if radix == 10 { text } else { digits };
    let end = if text.starts_with('-') { i128::MIN } else { i128::MAX };
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
    // Rust also parses words such as `inf`, which are text in YAML.
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_number { text.parse().ok() } else { None }
}
