//! Pure: where everything is in the file of a flight recorder. `proto/spool.md` describes it byte by byte.

use std::fmt;

use crate::record::{Chunk, OpenSpanBytes, SlotHeader};
use crate::spool::checksum;

const MAGIC: [u8; 8] = *b"SPFLIGHT";
const VERSION: u32 = 2;
/// A file is read on machines of the byte order that it was written on.
const BYTE_ORDER: u32 = 0x0102_0304;
pub(super) const PAGE: usize = 4096;
pub(super) const SLOT_BYTES: usize = Chunk::SLOT_BYTES;
pub(super) const SLOT_HEADER_BYTES: usize = size_of::<SlotHeader>();
pub(super) const OPEN_SPAN_SLOT_BYTES: usize = size_of::<OpenSpanBytes>();
/// The most that a reader accepts: a file whose header was damaged must not make it allocate without bound.
const MOST_SLOTS: u32 = 1 << 23;
const MOST_RESOURCE_BYTES: u32 = 16 << 20;
const MOST_OPEN_SPANS: u32 = 1 << 16;
const MOST_NAME_BYTES: usize = 255;

/// Places in the header.
const CHECKSUM_AT: usize = 28;
pub(super) const READY_AT: usize = 68;
pub(super) const ALIVE_AT: usize = 72;
const NAME_AT: usize = 76;

/// What stands at [`READY_AT`], after 0: the file can be read; and its exporter has ended in order, so that what is there of
/// open spans does not count.
pub(super) const READY: u32 = 1;
pub(super) const CLOSED: u32 = 2;
/// What a unit at [`ALIVE_AT`] is.
pub(super) const ALIVE_MS: u64 = 100;

/// What the first page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) slots: u32,
    pub(crate) resource_bytes: u32,
    /// How many spans that are open have a place.
    pub(crate) open_spans: u32,
    /// Milliseconds since 1970.
    pub(crate) created: u64,
    /// Of the system's start: memory of another one may not have reached the disk.
    pub(crate) boot_id: [u8; 16],
    /// What its files are named by.
    pub(crate) instance: u64,
    /// The exporter whose records these are, as [`stored_name`] has it.
    pub(crate) exporter: String,
}

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Its process died before the first record.
    NotReady,
    NotARecorder,
    OtherVersion(u32),
    OtherByteOrder,
    Damaged,
    /// Another file is the one that its process wrote.
    Renamed,
}

impl Header {
    /// The first page, without the mark that the file is ready.
    pub(super) fn to_page(&self, resource: &[u8]) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE);
        page.extend(MAGIC);
        for word in [VERSION, BYTE_ORDER, SLOT_BYTES as u32, self.slots, self.resource_bytes, 0] {
            page.extend(word.to_ne_bytes());
        }
        page.extend(self.created.to_ne_bytes());
        page.extend(self.boot_id);
        // in the order of the name's digits
        page.extend(self.instance.to_be_bytes());
        page.extend(self.open_spans.to_ne_bytes());
        // not ready, and alive at the start
        page.extend([0; NAME_AT - READY_AT]);
        let name = stored_name(&self.exporter);
        page.push(name.len() as u8);
        page.extend(name.as_bytes());
        page.resize(PAGE, 0);
        let checksum = checksum_of(&page, resource);
        page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_ne_bytes());
        page
    }

    /// Whether the page and the resource are as they were written.
    pub(super) fn is_intact(page: &[u8; PAGE], resource: &[u8]) -> bool {
        page[CHECKSUM_AT..CHECKSUM_AT + 4] == checksum_of(page, resource).to_ne_bytes()
    }

    pub(super) fn read(page: &[u8; PAGE]) -> Result<Self, Unreadable> {
        let word = |at: usize| u32::from_ne_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        match () {
            () if *page == [0; PAGE] => return Err(Unreadable::NotReady),
            () if page[..8] != MAGIC => return Err(Unreadable::NotARecorder),
            () if word(12) == BYTE_ORDER.swap_bytes() => return Err(Unreadable::OtherByteOrder),
            () if word(8) != VERSION => return Err(Unreadable::OtherVersion(word(8))),
            () if word(READY_AT) == 0 => return Err(Unreadable::NotReady),
            () => {}
        }
        let name_bytes = page[NAME_AT] as usize;
        let name = &page[NAME_AT + 1..NAME_AT + 1 + name_bytes];
        let header = Self {
            slots: word(20),
            resource_bytes: word(24),
            open_spans: word(64),
            created: u64::from_ne_bytes(page[32..40].try_into().map_err(|_| Unreadable::Damaged)?),
            boot_id: page[40..56].try_into().map_err(|_| Unreadable::Damaged)?,
            instance: u64::from_be_bytes(page[56..64].try_into().map_err(|_| Unreadable::Damaged)?),
            exporter: String::from_utf8(name.to_vec()).map_err(|_| Unreadable::Damaged)?,
        };
        let is_sound = word(12) == BYTE_ORDER
            && word(16) as usize == SLOT_BYTES
            && header.slots <= MOST_SLOTS
            && header.resource_bytes <= MOST_RESOURCE_BYTES
            && header.open_spans <= MOST_OPEN_SPANS;
        if is_sound { Ok(header) } else { Err(Unreadable::Damaged) }
    }

    pub(super) fn slot_headers_at(&self) -> usize {
        PAGE + (self.resource_bytes as usize).next_multiple_of(PAGE)
    }

    pub(super) fn open_spans_at(&self) -> usize {
        self.slot_headers_at() + (self.slots as usize * SLOT_HEADER_BYTES).next_multiple_of(PAGE)
    }

    pub(super) fn data_at(&self) -> usize {
        self.open_spans_at() + (self.open_spans as usize * OPEN_SPAN_SLOT_BYTES).next_multiple_of(PAGE)
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.data_at() as u64 + u64::from(self.slots) * SLOT_BYTES as u64
    }
}

/// As much of an exporter's name as the header has room for: exporters whose names begin alike are one.
pub(crate) fn stored_name(name: &str) -> &str {
    let mut end = name.len().min(MOST_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Of the first page and the resource, but for what changes.
fn checksum_of(page: &[u8], resource: &[u8]) -> u32 {
    checksum([&page[..CHECKSUM_AT], &page[CHECKSUM_AT + 4..READY_AT], &page[NAME_AT..], resource])
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("it was never used"),
            Self::NotARecorder => f.write_str("it is no flight recorder"),
            Self::OtherVersion(version) => {
                write!(f, "its layout has the version {version}, which is not known here")
            }
            Self::OtherByteOrder => f.write_str("it was written on a machine of another byte order"),
            Self::Damaged => f.write_str("its header is damaged"),
            Self::Renamed => f.write_str("it is a copy or renamed"),
        }
    }
}
