//! Tables to which keys are added one by one. Setting a key twice is a [`Conflict`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::config::node::{Field, Node, Tree};
use crate::config::section::{ENABLE, ENABLE_TABLE};

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
                Value::Elements(elements) if origin == Origin::Header => {
                    elements.last_mut().ok_or(conflict)?
                }
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

    /// Opens the table of a header at `at`, or adds a table to its array. An existing table keeps its keys, and new
    /// keys are added to it.
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
                // A tracer's switches may use both forms: dotted keys and a table `enable`.
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
