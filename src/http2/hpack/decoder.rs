//! The HPACK decoder (RFC 7541, sections 3 and 6), with the static table and the dynamic table that follows it
//! (sections 2.3 and 4), and Huffman-coded strings (section 5.2).

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Field, Malformed, OVERHEAD, take_integer, take_string};

const MAX_CODE_BITS: usize = 30;
const CODE_BITS: u64 = (1 << MAX_CODE_BITS) - 1;

/// All bytes in the order of their codes. The end-of-string symbol is last and not listed.
const BYTES_BY_CODE: [u8; 256] = bytes_by_code();
/// For each code length, where the range of its codes ends.
const ENDS: [End; MAX_CODE_BITS + 1] = ends();

/// End of the codes of one length. The codes of one length are a range, which begins where the shorter codes end.
#[derive(Clone, Copy)]
struct End {
    /// First code after the codes of this length, extended to [`MAX_CODE_BITS`] bits with zeros.
    code: u32,
    /// Number of symbols with codes up to this length.
    symbols: u16,
}

/// Decodes the header blocks of a connection. There is one decoder per connection, because each block builds on those
/// before it.
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

/// The dynamic table, newest entry first.
pub(super) struct Table {
    pub(super) entries: VecDeque<Entry>,
    /// Size of all entries.
    pub(super) size: usize,
    /// Maximum size. The peer may lower this limit and raise it again.
    pub(super) max_size: usize,
}

/// An entry of the dynamic table.
pub(super) struct Entry {
    /// Shared, because two bytes of a block can repeat a long name: copies would let a small block allocate much
    /// memory.
    pub(super) name: Arc<[u8]>,
    pub(super) value: Vec<u8>,
}

impl Table {
    pub(super) fn new(max_size: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, max_size }
    }

    /// Returns the field with this index.
    pub(super) fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Malformed> {
        let position = index.checked_sub(1).ok_or(Malformed("index 0 is not a field"))?;
        if let Some((name, value)) = STATIC_FIELDS.get(position) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(position - STATIC_FIELDS.len());
        entry.map(|entry| (&*entry.name, &*entry.value)).ok_or(Malformed("an index is beyond the tables"))
    }

    /// Returns the name of the field with this index. The name may outlive the entry.
    pub(super) fn name(&self, index: usize) -> Result<Arc<[u8]>, Malformed> {
        let position = index.checked_sub(STATIC_FIELDS.len() + 1);
        match position.and_then(|position| self.entries.get(position)) {
            Some(entry) => Ok(entry.name.clone()),
            None => self.field(index).map(|(name, _)| name.into()),
        }
    }

    pub(super) fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict(max_size);
    }

    /// Adds an entry, and evicts old ones to make room. An entry larger than the table only empties it (section 4.4).
    pub(super) fn add(&mut self, entry: Entry) {
        let room = self.max_size.checked_sub(entry.size());
        // Evicted before the insertion, so that the table never exceeds its size.
        self.evict(room.unwrap_or(0));
        if room.is_some() {
            self.size += entry.size();
            self.entries.push_front(entry);
        }
    }

    /// Evicts the oldest entries until the table is not larger than `size`.
    fn evict(&mut self, size: usize) {
        while self.size > size {
            let Some(evicted) = self.entries.pop_back() else { break };
            self.size -= evicted.size();
        }
    }
}

impl Entry {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD
    }
}

/// The static table (appendix A). The first field has index 1.
#[rustfmt::skip]
pub(super) static STATIC_FIELDS: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""),
    ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""),
    ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""),
    ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

/// Decodes a Huffman-coded string (RFC 7541, section 5.2 and appendix B).
///
/// The code is canonical: the order of the bytes by code and the number of codes of each length define it. The codes of
/// one length are a range of consecutive numbers; the decoder compares the next 30 bits with the end of each range
/// (extended to 30 bits), from the shortest codes to the longest. This linear search takes at most 30 steps per byte.
/// It is slower than a state machine with large tables, but responses carry only a few short fields.
pub(super) fn decode_huffman(encoded: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Bytes { encoded, bits: 0, count: 0 };
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next()? {
        decoded.push(byte);
    }
    // The connection's dynamic table may keep the string for a long time.
    decoded.shrink_to_fit();
    Ok(decoded)
}

/// Decodes a string byte by byte.
struct Bytes<'a> {
    encoded: &'a [u8],
    /// The lowest `count` bits have been taken from `encoded` and have not been decoded yet.
    bits: u64,
    count: usize,
}

impl Bytes<'_> {
    /// Decodes the next byte, or returns `None` at the end of the string.
    fn next(&mut self) -> Result<Option<u8>, Malformed> {
        while let (0..MAX_CODE_BITS, Some((&byte, rest))) = (self.count, self.encoded.split_first()) {
            self.bits = self.bits << 8 | u64::from(byte);
            self.count += 8;
            self.encoded = rest;
        }
        let ahead = self.ahead();
        let mut start = End { code: 0, symbols: 0 };
        let mut length = 0;
        // Terminates, because the end of the last range is above every 30-bit number.
        while ahead >= ENDS[length].code {
            start = ENDS[length];
            length += 1;
        }
        if length > self.count {
            return self.padding().map(|()| None);
        }
        self.count -= length;
        let symbol = usize::from(start.symbols) + ((ahead - start.code) >> (MAX_CODE_BITS - length)) as usize;
        match BYTES_BY_CODE.get(symbol) {
            Some(&byte) => Ok(Some(byte)),
            None => Err(Malformed("a string contains the code for its end")),
        }
    }

    /// Returns the next [`MAX_CODE_BITS`] bits, extended with ones after the end, as in the padding.
    fn ahead(&self) -> u32 {
        let ahead = match self.count.checked_sub(MAX_CODE_BITS) {
            Some(later) => self.bits >> later,
            None => !(!self.bits << (MAX_CODE_BITS - self.count)),
        };
        (ahead & CODE_BITS) as u32
    }

    /// Checks the remaining bits, which are not a complete code: they must be padding, at most 7 bits and all ones.
    fn padding(&self) -> Result<(), Malformed> {
        let ones = (1 << self.count) - 1;
        match self.count {
            8.. => Err(Malformed("the padding of a string is longer than 7 bits")),
            _ if self.bits & ones != ones => Err(Malformed("the padding of a string is not all ones")),
            _ => Ok(()),
        }
    }
}

const fn bytes_by_code() -> [u8; 256] {
    let (mut bytes, mut ends, mut byte) = ([0; 256], ENDS, 0);
    while byte < bytes.len() {
        // Counting sort by the length of the code: bytes with shorter codes come first.
        let place = &mut ends[HUFFMAN_LENGTHS[byte] as usize - 1].symbols;
        bytes[*place as usize] = byte as u8;
        *place += 1;
        byte += 1;
    }
    bytes
}

const fn ends() -> [End; MAX_CODE_BITS + 1] {
    let mut ends = [End { code: 0, symbols: 0 }; MAX_CODE_BITS + 1];
    let mut symbol = 0;
    while symbol < HUFFMAN_LENGTHS.len() {
        ends[HUFFMAN_LENGTHS[symbol] as usize].symbols += 1;
        symbol += 1;
    }
    let mut length = 1;
    while length <= MAX_CODE_BITS {
        let (shorter, end) = (ends[length - 1], &mut ends[length]);
        end.code = shorter.code + ((end.symbols as u32) << (MAX_CODE_BITS - length));
        end.symbols += shorter.symbols;
        length += 1;
    }
    ends
}

/// Code lengths of appendix B, in bits: of each byte, then of the end-of-string symbol.
///
/// In a canonical code, shorter codes come first, and codes of one length are in the order of their symbols. The
/// lengths therefore define all codes.
#[rustfmt::skip]
const HUFFMAN_LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
