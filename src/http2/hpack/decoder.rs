//! The HPACK decoder (RFC 7541, sections 3 and 6).

use super::table::{Entry, Table};
use super::{Field, Malformed, OVERHEAD, take_integer, take_string};

/// Decodes the header blocks of a connection. There is one decoder per connection, because each block builds on those
/// before it.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(super) table: Table,
    table_limit: usize,
    list_limit: usize,
}

/// The fields of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum List {
    Fields(Vec<Field>),
    /// The list exceeds the limit. It was not kept, but the table was updated, so the next block can be decoded.
    TooLong,
}

impl Decoder {
    /// Creates a decoder. `table_limit` is our SETTINGS_HEADER_TABLE_SIZE; `list_limit` is the maximum size of a list,
    /// counted as for SETTINGS_MAX_HEADER_LIST_SIZE (name, value and 32 bytes per field).
    pub(crate) fn new(table_limit: usize, list_limit: usize) -> Self {
        Self { table: Table::new(table_limit), table_limit, list_limit }
    }

    /// Decodes one complete block.
    ///
    /// # Errors
    /// Returns an error if the block breaks a rule. The state of the table is then unknown, so the connection must end
    /// (section 4.3 of RFC 9113).
    pub(crate) fn decode(&mut self, block: &[u8]) -> Result<List, Malformed> {
        let mut rest = block;
        self.size_updates(&mut rest)?;
        let mut list = Listed { fields: Vec::new(), room: Some(self.list_limit) };
        while let Some(first) = rest.first() {
            match first {
                // Indexed field (section 6.1).
                0x80.. => {
                    let (name, value) = self.table.field(take_integer(&mut rest, 7)?)?;
                    list.add(name, value);
                }
                // Literal with incremental indexing (section 6.2.1).
                0x40.. => {
                    let entry = self.literal(&mut rest, 6)?;
                    list.add(&entry.name, &entry.value);
                    self.table.add(entry);
                }
                0x20.. => return Err(Malformed("a table size update comes after a field")),
                // Literal without indexing or never indexed (sections 6.2.2 and 6.2.3). The difference matters to
                // intermediaries only.
                0x00.. => {
                    let entry = self.literal(&mut rest, 4)?;
                    list.add(&entry.name, &entry.value);
                }
            }
        }
        Ok(list.room.map_or(List::TooLong, |_| List::Fields(list.fields)))
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

    /// Takes a literal field, whose name may be an index.
    fn literal(&self, rest: &mut &[u8], prefix: u32) -> Result<Entry, Malformed> {
        let name = match take_integer(rest, prefix)? {
            0 => take_string(rest)?.into(),
            index => self.table.name(index)?,
        };
        Ok(Entry { name, value: take_string(rest)? })
    }
}

/// The list of one block, up to the limit.
struct Listed {
    fields: Vec<Field>,
    /// Remaining room; `None` once the limit has been exceeded.
    room: Option<usize>,
}

impl Listed {
    /// Counts a field, and keeps it if all fields so far fit.
    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.room = self.room.and_then(|room| room.checked_sub(name.len() + value.len() + OVERHEAD));
        match self.room {
            Some(_) => self.fields.push(Field { name: name.to_vec(), value: value.to_vec() }),
            // The memory is freed immediately; decoding continues only for the table.
            None => self.fields = Vec::new(),
        }
    }
}
