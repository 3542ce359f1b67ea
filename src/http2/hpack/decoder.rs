//! Reads header blocks (RFC 7541, sections 3 and 6).

use std::sync::Arc;

use super::table::{Entry, Table};
use super::{Field, Malformed, OVERHEAD, Text, take_integer};

/// Decodes the header blocks of a connection. One for its whole life: each block builds on those before it.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(super) table: Table,
    table_limit: usize,
    list_limit: usize,
}

/// What a block says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum List {
    Fields(Vec<Field>),
    /// More than the limit. Nothing of it was kept, but the next block can be decoded.
    TooLong,
}

impl Decoder {
    /// `table_limit` is what we announced as SETTINGS_HEADER_TABLE_SIZE. A list may have `list_limit` bytes, counted as
    /// SETTINGS_MAX_HEADER_LIST_SIZE counts them: a field is its name, its value and 32.
    pub(crate) fn new(table_limit: usize, list_limit: usize) -> Self {
        Self { table: Table::new(table_limit), table_limit, list_limit }
    }

    /// Decodes one whole block.
    ///
    /// # Errors
    /// When it breaks a rule. What the table should be is not known then, so the connection must end.
    pub(crate) fn decode(&mut self, block: &[u8]) -> Result<List, Malformed> {
        let mut rest = block;
        self.size_updates(&mut rest)?;
        let mut list = Listed { fields: Vec::new(), room: Some(self.list_limit) };
        while let Some(first) = rest.first() {
            match first {
                0x80.. => self.indexed(&mut rest, &mut list)?,
                0x40.. => self.indexing(&mut rest, &mut list)?,
                0x20.. => return Err(Malformed("a table size update comes after a field")),
                // not indexed this time, or never: the difference only matters to intermediaries
                0x00.. => list.add_literal(&self.literal(&mut rest, 4)?),
            }
        }
        Ok(match list.room {
            Some(_) => List::Fields(list.fields),
            None => List::TooLong,
        })
    }

    fn size_updates(&mut self, rest: &mut &[u8]) -> Result<(), Malformed> {
        while let Some(0x20..=0x3f) = rest.first() {
            let size = take_integer(rest, 5)?;
            if size > self.table_limit {
                return Err(Malformed("a table size update is above the limit"));
            }
            self.table.resize(size);
        }
        Ok(())
    }

    /// A field that is in one of the tables.
    fn indexed(&self, rest: &mut &[u8], list: &mut Listed) -> Result<(), Malformed> {
        let (name, value) = self.table.field(take_integer(rest, 7)?)?;
        if list.has_room(name.len() + value.len() + OVERHEAD) {
            list.fields.push(Field { name: name.to_vec(), value: value.to_vec() });
        }
        Ok(())
    }

    /// A field that becomes an entry of the table.
    fn indexing(&mut self, rest: &mut &[u8], list: &mut Listed) -> Result<(), Malformed> {
        let literal = self.literal(rest, 6)?;
        list.add_literal(&literal);
        if self.table.make_room(literal.size()) {
            self.table.add(literal.into_entry());
        }
        Ok(())
    }

    /// A field that is spelled out, but for its name perhaps.
    fn literal<'a>(&self, rest: &mut &'a [u8], prefix: u32) -> Result<Literal<'a>, Malformed> {
        let name = match take_integer(rest, prefix)? {
            0 => Name::Spelled(Text::take(rest)?),
            index => Name::Indexed(self.table.name(index)?),
        };
        Ok(Literal { name, value: Text::take(rest)? })
    }
}

/// The list of one block, while there is room for it.
struct Listed {
    fields: Vec<Field>,
    /// `None` once it was not enough.
    room: Option<usize>,
}

impl Listed {
    /// Counts a field of `size`; `false` if it is not to be kept.
    fn has_room(&mut self, size: usize) -> bool {
        self.room = self.room.and_then(|room| room.checked_sub(size));
        if self.room.is_none() {
            self.fields = Vec::new();
        }
        self.room.is_some()
    }

    fn add_literal(&mut self, literal: &Literal<'_>) {
        if self.has_room(literal.size()) {
            self.fields.push(Field { name: literal.name.to_vec(), value: literal.value.to_vec() });
        }
    }
}

struct Literal<'a> {
    name: Name<'a>,
    value: Text<'a>,
}

impl Literal<'_> {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD
    }

    fn into_entry(self) -> Entry {
        let name = match self.name {
            Name::Indexed(name) => name,
            Name::Spelled(text) => text.to_vec().into(),
        };
        Entry { name, value: self.value.to_vec() }
    }
}

enum Name<'a> {
    /// Of an entry that may be evicted before the name is used.
    Indexed(Arc<[u8]>),
    Spelled(Text<'a>),
}

impl Name<'_> {
    fn len(&self) -> usize {
        match self {
            Name::Indexed(name) => name.len(),
            Name::Spelled(text) => text.len(),
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        match self {
            Name::Indexed(name) => name.to_vec(),
            Name::Spelled(text) => text.to_vec(),
        }
    }
}
