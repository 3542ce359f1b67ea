//! Layout of a flight recorder file, without I/O. `proto/spool.md` describes it byte by byte.
//!
//! ```text
//! 0       4096                slot_headers_at      open_spans_at        data_at
//! ┌───────┬───────────────────┬────────────────────┬────────────────────┬───────────────────────────┐
//! │ page  │ resource          │ slot headers, 64 B │ open spans         │ slots, SLOT_BYTES each    │
//! │ header│ (OTLP bytes)      │ state, committed … │ 2 copies + length  │ frames of a chunk's bytes │
//! └───────┴───────────────────┴────────────────────┴────────────────────┴───────────────────────────┘
//! ```
//!
//! Each part begins at a page boundary. A CRC32C covers the page header and the resource, except the words that change.
//! A process can die between two stores, so each of these words has its own redundancy instead (guarded numbers and
//! codewords, see `record::slot`).

use std::{fmt, io};

use crate::record::{CODEWORDS, Chunk, OpenSpanBytes, Signal, SlotHeader};
use crate::spool::checksum;
use crate::spool::crc32c::find_flipped_bit;
use crate::spool::segment::Owner;

pub(super) const MAGIC: [u8; 8] = *b"SPFLIGHT";
const VERSION: u32 = 3;
/// Byte order mark. Numbers have the byte order of the machine, so only machines with the same byte order read a file.
const BYTE_ORDER: u32 = 0x0102_0304;
pub(super) const PAGE: usize = 4096;
pub(super) const SLOT_BYTES: usize = Chunk::SLOT_BYTES;
pub(super) const SLOT_HEADER_BYTES: usize = size_of::<SlotHeader>();
pub(super) const OPEN_SPAN_SLOT_BYTES: usize = size_of::<OpenSpanBytes>();
/// Limits that a reader checks, so that a damaged header cannot cause allocations without bound.
const MAX_SLOTS: u32 = 1 << 23;
const MAX_RESOURCE_BYTES: u32 = 16 << 20;
const MAX_OPEN_SPANS: u32 = 1 << 16;

/// Offsets in the page header.
const BYTE_ORDER_AT: usize = 12;
const RESOURCE_BYTES_AT: usize = 24;
const CHECKSUM_AT: usize = 28;
pub(super) const READY_AT: usize = 68;
pub(super) const ALIVE_AT: usize = 72;
/// Offset of the numbers of records in segments, by signal, as guarded words. A number is never too high, so a loss is
/// proven if fewer records are found.
pub(super) const SPOOLED_AT: usize = 76;
const OWNER_AT: usize = SPOOLED_AT + 4 * Signal::COUNT;

/// Values at [`READY_AT`]: the exporter runs, or was closed. Spans that were open when the exporter was closed do not
/// count as interrupted.
pub(super) const READY: u32 = CODEWORDS[0];
pub(super) const CLOSED: u32 = CODEWORDS[1];
/// Unit of the number at [`ALIVE_AT`], in milliseconds.
pub(super) const ALIVE_MS: u64 = 100;

/// The page header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) slots: u32,
    pub(crate) resource_bytes: u32,
    /// Number of places for open spans.
    pub(crate) open_spans: u32,
    /// Start of the exporter, in milliseconds since 1970.
    pub(crate) created: u64,
    /// Boot id of the system. After a reboot, which changes the id, unsynced pages may be missing.
    pub(crate) boot_id: [u8; 16],
    /// Common part of the instance's file names.
    pub(crate) instance: u64,
    pub(crate) owner: Owner,
}

/// Why a recorder cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Missing,
    /// The file is empty or its first page is all zeros. Its name is that of a recorder, but the header is lost.
    Blank,
    NotARecorder,
    OtherVersion(u32),
    OtherByteOrder,
    Damaged,
    /// The file name is not that of the instance in the header: the file is a copy, or was renamed.
    Renamed,
    Io(io::Error),
}

impl Header {
    /// Returns the first page. The page says that the exporter runs and has no records in segments.
    pub(super) fn to_page(&self, resource: &[u8]) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE);
        page.extend(MAGIC);
        for word in [VERSION, BYTE_ORDER, SLOT_BYTES as u32, self.slots, self.resource_bytes, 0] {
            page.extend(word.to_ne_bytes());
        }
        page.extend(self.created.to_ne_bytes());
        page.extend(self.boot_id);
        // Big-endian, so that a hex dump shows the digits of the file name.
        page.extend(self.instance.to_be_bytes());
        page.extend(self.open_spans.to_ne_bytes());
        page.extend(READY.to_ne_bytes());
        // The number at `ALIVE_AT` and the record counts start at 0.
        page.extend([0; OWNER_AT - ALIVE_AT]);
        self.owner.encode(&mut page);
        page.resize(PAGE, 0);
        let checksum = checksum_of(&page, resource);
        page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_ne_bytes());
        page
    }

    /// Reads the first page, and verifies the checksum of the page and of the resource at the start of `behind`.
    /// Corrects a single flipped bit.
    pub(super) fn read_corrected(page: &mut [u8; PAGE], behind: &mut [u8]) -> Result<Self, Unreadable> {
        let as_found = Self::read_checked(page, behind);
        // The flipped bit may be in the magic or the version, too. If no single bit explains the error, return the
        // error.
        let may_be_damaged = matches!(
            as_found,
            Err(Unreadable::Damaged | Unreadable::NotARecorder | Unreadable::OtherVersion(_))
        );
        if !may_be_damaged {
            return as_found;
        }
        // The resource's length decides which bytes the checksum covers, so its bits are tried one by one.
        for (at, bit) in (RESOURCE_BYTES_AT..CHECKSUM_AT).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit)))
        {
            page[at] ^= bit;
            let corrected = Self::read_checked(page, behind);
            if corrected.is_ok() {
                return corrected;
            }
            page[at] ^= bit;
        }
        correct_bit(page, behind).map_or(as_found, |()| Self::read_checked(page, behind))
    }

    fn read_checked(page: &[u8; PAGE], behind: &[u8]) -> Result<Self, Unreadable> {
        let header = Self::read(page)?;
        let resource = behind.get(..header.resource_bytes as usize).ok_or(Unreadable::Damaged)?;
        let is_intact = page[CHECKSUM_AT..CHECKSUM_AT + 4] == checksum_of(page, resource).to_ne_bytes();
        if is_intact { Ok(header) } else { Err(Unreadable::Damaged) }
    }

    pub(super) fn read(page: &[u8; PAGE]) -> Result<Self, Unreadable> {
        let word = |at: usize| u32::from_ne_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        match () {
            () if *page == [0; PAGE] => return Err(Unreadable::Blank),
            () if page[..8] != MAGIC => return Err(Unreadable::NotARecorder),
            () if word(BYTE_ORDER_AT) == BYTE_ORDER.swap_bytes() => return Err(Unreadable::OtherByteOrder),
            () if word(8) != VERSION => return Err(Unreadable::OtherVersion(word(8))),
            () => {}
        }
        let header = Self {
            slots: word(20),
            resource_bytes: word(RESOURCE_BYTES_AT),
            open_spans: word(64),
            created: u64::from_ne_bytes(page[32..40].try_into().map_err(|_| Unreadable::Damaged)?),
            boot_id: page[40..56].try_into().map_err(|_| Unreadable::Damaged)?,
            instance: u64::from_be_bytes(page[56..64].try_into().map_err(|_| Unreadable::Damaged)?),
            owner: Owner::decode(&page[OWNER_AT..]).ok_or(Unreadable::Damaged)?,
        };
        let is_sound = word(BYTE_ORDER_AT) == BYTE_ORDER
            && word(16) as usize == SLOT_BYTES
            && header.slots <= MAX_SLOTS
            && header.resource_bytes <= MAX_RESOURCE_BYTES
            && header.open_spans <= MAX_OPEN_SPANS;
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

/// Corrects the flipped bit in the page or in the resource. Returns `None` if no single bit explains the difference
/// between the checksums.
fn correct_bit(page: &mut [u8; PAGE], behind: &mut [u8]) -> Option<()> {
    let resource_bytes = u32::from_ne_bytes(page[RESOURCE_BYTES_AT..CHECKSUM_AT].try_into().ok()?) as usize;
    let resource = behind.get_mut(..resource_bytes)?;
    let stored = u32::from_ne_bytes(page[CHECKSUM_AT..CHECKSUM_AT + 4].try_into().ok()?);
    let difference = stored ^ checksum_of(page, resource);
    if difference.is_power_of_two() {
        // The flipped bit is in the stored checksum.
        page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&(stored ^ difference).to_ne_bytes());
        return Some(());
    }
    let (head, rest) = page.split_at_mut(CHECKSUM_AT);
    let (middle, last) = rest[4..].split_at_mut(OWNER_AT - CHECKSUM_AT - 4);
    let mut checked = [head, &mut middle[..READY_AT - CHECKSUM_AT - 4], last, resource].into_iter().flatten();
    let (byte, bit) = find_flipped_bit(PAGE - 4 - (OWNER_AT - READY_AT) + resource_bytes, difference)?;
    *checked.nth(byte)? ^= bit;
    Some(())
}

/// Returns the checksum of the first page and the resource, without the checksum and the words that change.
fn checksum_of(page: &[u8], resource: &[u8]) -> u32 {
    checksum([&page[..CHECKSUM_AT], &page[CHECKSUM_AT + 4..READY_AT], &page[OWNER_AT..], resource])
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LOST: &str = "an unknown number of queued records is lost";
        const KEPT: &str = "the file will be kept as *.damaged";
        match self {
            Self::Missing => write!(f, "the flight recorder is missing: {LOST}"),
            Self::Blank => write!(f, "the flight recorder is empty or zeroed: {LOST}; {KEPT}"),
            Self::Damaged => {
                write!(f, "the flight recorder is cut off or its header is damaged: {LOST}; {KEPT}")
            }
            Self::NotARecorder => f.write_str("left alone: it is not a flight recorder"),
            Self::OtherVersion(version) => {
                write!(
                    f,
                    "left alone: its layout has the version {version}, which this program does not know"
                )
            }
            Self::OtherByteOrder => {
                f.write_str("left alone: it was written on a machine with another byte order")
            }
            Self::Renamed => f.write_str("left alone: it is a copy, or was renamed"),
            Self::Io(error) => write!(f, "left alone: it cannot be read: {error}"),
        }
    }
}
