//! The static table, and the dynamic table that follows it (RFC 7541, sections 2.3 and 4).

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Malformed, OVERHEAD};

/// The dynamic table, newest entry first.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) entries: VecDeque<Entry>,
    /// Size of all entries.
    pub(super) size: usize,
    /// Maximum size. The peer may lower this limit and raise it again.
    pub(super) max_size: usize,
}

/// An entry of the dynamic table.
#[derive(Debug)]
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
pub(super) static STATIC_FIELDS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
