//! Which keys may stand beside each other in TOML? Tables grow key by key here; a key that is taken is a [`Conflict`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::config::node::{Field, Node, Tree};
use crate::config::section::{ENABLE, ENABLE_TABLE};

/// One part of a dotted key, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Part<'d> {
    pub(super) name: Cow<'d, str>,
    pub(super) at: usize,
}

/// A table that may still grow.
#[derive(Debug)]
pub(super) struct Table<'d> {
    origin: Origin,
    fields: BTreeMap<Cow<'d, str>, Slot<'d>>,
}

/// What made a table. It decides what may be added later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A header or braces of its own.
    Explicit,
    /// The header of a table inside it.
    Header,
    /// A dotted key.
    DottedKey,
}

#[derive(Debug)]
struct Slot<'d> {
    key_at: usize,
    value: Value<'d>,
}

#[derive(Debug)]
enum Value<'d> {
    /// A value that cannot grow, inline tables included.
    Complete(Node),
    /// A table, and its place.
    Table(usize, Table<'d>),
    /// The tables of `[[…]]`, each with its place.
    Elements(Vec<(usize, Table<'d>)>),
}

/// A key that is set already.
#[derive(Debug)]
pub(super) struct Conflict {
    /// Where the second key stands.
    pub(super) at: usize,
    /// Where the first one stands.
    pub(super) first_at: usize,
    /// The name and the kind of a value that the second key takes for a table.
    pub(super) not_a_table: Option<(String, &'static str)>,
}

impl<'d> Table<'d> {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, fields: BTreeMap::new() }
    }

    /// The table that a path leads to. Tables on the way that do not exist yet are made.
    pub(super) fn descend(&mut self, path: &[Part<'d>], origin: Origin) -> Result<&mut Self, Conflict> {
        let mut table = self;
        for part in path {
            let slot = match table.fields.entry(part.name.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Slot { key_at: part.at, value: Value::Table(part.at, Self::new(origin)) })
                }
                Entry::Occupied(occupied) => occupied.into_mut(),
            };
            let first_at = slot.key_at;
            let conflict = |not_a_table| Conflict { at: part.at, first_at, not_a_table };
            table = match &mut slot.value {
                Value::Complete(node) => {
                    return Err(conflict(Some((part.name.clone().into_owned(), node.kind()))));
                }
                Value::Table(_, next) => {
                    if origin == Origin::DottedKey {
                        if next.origin == Origin::Explicit {
                            return Err(conflict(None));
                        }
                        next.origin = origin;
                    }
                    next
                }
                Value::Elements(elements) => match elements.last_mut() {
                    Some((_, last)) if origin == Origin::Header => last,
                    _ => return Err(conflict(None)),
                },
            };
        }
        Ok(table)
    }

    /// Sets the value of a dotted key; the first value of a key stays.
    pub(super) fn set(&mut self, key: &[Part<'d>], value: Node) -> Result<(), Conflict> {
        let Some((last, path)) = key.split_last() else { return Ok(()) };
        match self.descend(path, Origin::DottedKey)?.fields.entry(last.name.clone()) {
            Entry::Occupied(taken) => {
                Err(Conflict { at: last.at, first_at: taken.get().key_at, not_a_table: None })
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Slot { key_at: last.at, value: Value::Complete(value) });
                Ok(())
            }
        }
    }

    /// Opens the table of a header at `at`. Of a table that is there already the keys stay, and are joined by the new ones.
    pub(super) fn open(&mut self, header: &[Part<'d>], at: usize) -> Result<(), Conflict> {
        let Some((last, path)) = header.split_last() else { return Ok(()) };
        match self.descend(path, Origin::Header)?.fields.entry(last.name.clone()) {
            Entry::Vacant(vacant) => {
                let value = Value::Table(at, Self::new(Origin::Explicit));
                vacant.insert(Slot { key_at: last.at, value });
                Ok(())
            }
            Entry::Occupied(taken) => {
                let slot = taken.into_mut();
                let conflict = Conflict { at: last.at, first_at: slot.key_at, not_a_table: None };
                let Value::Table(table_at, table) = &mut slot.value else { return Err(conflict) };
                let is_new = table.origin == Origin::Header;
                table.origin = Origin::Explicit;
                (slot.key_at, *table_at) = (last.at, at);
                if is_new { Ok(()) } else { Err(conflict) }
            }
        }
    }

    /// Adds one more table to the list of a header `[[…]]` at `at`.
    pub(super) fn open_element(&mut self, header: &[Part<'d>], at: usize) -> Result<(), Conflict> {
        let Some((last, path)) = header.split_last() else { return Ok(()) };
        let slot = self
            .descend(path, Origin::Header)?
            .fields
            .entry(last.name.clone())
            .or_insert_with(|| Slot { key_at: last.at, value: Value::Elements(Vec::new()) });
        let conflict = Conflict { at: last.at, first_at: slot.key_at, not_a_table: None };
        let Value::Elements(elements) = &mut slot.value else { return Err(conflict) };
        elements.push((at, Self::new(Origin::Explicit)));
        Ok(())
    }

    /// The finished table, with its fields in the order of the document.
    pub(super) fn into_tree(self) -> Tree {
        let field = |(name, slot): (Cow<'d, str>, Slot<'d>)| {
            let node_of = |(at, table): (usize, Self)| Node { at, value: table.into_tree() };
            let node = match slot.value {
                Value::Complete(node) => node,
                Value::Table(at, table) => node_of((at, table)),
                Value::Elements(elements) => {
                    let at = elements.first().map_or(slot.key_at, |(at, _)| *at);
                    Node { at, value: Tree::List(elements.into_iter().map(node_of).collect()) }
                }
            };
            Field { name: name.into_owned(), at: slot.key_at, node }
        };
        let mut fields: Vec<Field> = self.fields.into_iter().map(field).collect();
        fields.sort_by_cached_key(|field| field.at);
        Tree::Table(fields)
    }
}

/// How many parts of `tracer.<id>` lead to a table; `None` for tables elsewhere.
pub(super) type TracerLevel = Option<usize>;

/// The level of what a key in a table of this level leads to.
pub(super) fn level_below(level: TracerLevel, key: &[Part<'_>]) -> TracerLevel {
    let starts_well = level? > 0 || key.first().is_none_or(|first| first.name == "tracer");
    level.map(|level| level + key.len()).filter(|level| starts_well && *level <= 2)
}

/// Lets a tracer have both `enable` and `enable.<signal>`, which is not TOML, but how tracers are written: the second
/// becomes one part, and a table `enable` gets a name of its own.
pub(super) fn separate_enable(key: &mut Vec<Part<'_>>, level: TracerLevel, is_table: bool) {
    let Some(index) = level.and_then(|level| 2_usize.checked_sub(level)) else { return };
    let is_in_tracer = level != Some(0) || key.first().is_some_and(|first| first.name == "tracer");
    if !is_in_tracer || key.get(index).is_none_or(|part| part.name != ENABLE) {
        return;
    }
    if index + 1 < key.len() {
        let leaf = key.remove(index + 1);
        key[index].name = format!("{ENABLE_TABLE}{}", leaf.name).into();
    } else if is_table {
        key[index].name = ENABLE_TABLE.into();
    }
}
