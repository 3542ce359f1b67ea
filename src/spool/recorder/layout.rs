//! Pure: where everything is in the file of a flight recorder. `proto/spool.md` describes it byte by byte.

use std::{fmt, io};

use crate::record::{CODEWORDS, Chunk, OpenSpanBytes, Signal, SlotHeader};
use crate::spool::checksum;
use crate::spool::crc32c::find_flipped_bit;
use crate::spool::segment::Owner;

pub(super) const MAGIC: [u8; 8] = *b"SPFLIGHT";
const VERSION: u32 = 3;
/// A file is read on machines of the byte order that it was written on.
const BYTE_ORDER: u32 = 0x0102_0304;
pub(super) const PAGE: usize = 4096;
pub(super) const SLOT_BYTES: usize = Chunk::SLOT_BYTES;
pub(super) const SLOT_HEADER_BYTES: usize = size_of::<SlotHeader>();
pub(super) const OPEN_SPAN_SLOT_BYTES: usize = size_of::<OpenSpanBytes>();
/// The most that a reader accepts: a file whose header was damaged must not make it allocate without bound.
const MAX_SLOTS: u32 = 1 << 23;
const MAX_RESOURCE_BYTES: u32 = 16 << 20;
const MAX_OPEN_SPANS: u32 = 1 << 16;

/// Places in the header.
const BYTE_ORDER_AT: usize = 12;
const RESOURCE_BYTES_AT: usize = 24;
const CHECKSUM_AT: usize = 28;
pub(super) const READY_AT: usize = 68;
pub(super) const ALIVE_AT: usize = 72;
/// Guarded numbers of the records in segments, by signal: never more than there are, so that fewer prove a loss.
pub(super) const SPOOLED_AT: usize = 76;
const OWNER_AT: usize = SPOOLED_AT + 4 * Signal::COUNT;

/// The words at [`READY_AT`]: the exporter is at work; and it has ended in order, so that open spans do not count.
pub(super) const READY: u32 = CODEWORDS[0];
pub(super) const CLOSED: u32 = CODEWORDS[1];
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
    pub(crate) owner: Owner,
}

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Missing,
    /// It is empty, or its first page is all zero: it was a recorder, and no version can read it.
    Blank,
    NotARecorder,
    OtherVersion(u32),
    OtherByteOrder,
    Damaged,
    /// Another file is the one that its process wrote.
    Renamed,
    Io(io::Error),
}

impl Header {
    /// The first page of a file that is ready, without records in segments.
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
        page.extend(READY.to_ne_bytes());
        // alive at the start
        page.extend([0; OWNER_AT - ALIVE_AT]);
        self.owner.encode(&mut page);
        page.resize(PAGE, 0);
        let checksum = checksum_of(&page, resource);
        page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_ne_bytes());
        page
    }

    /// Reads the first page and checks it with the resource at the start of `behind`. A single flipped bit is corrected.
    pub(super) fn read_corrected(page: &mut [u8; PAGE], behind: &mut [u8]) -> Result<Self, Unreadable> {
        let as_found = Self::read_checked(page, behind);
        // A file that differs in more than a bit of magic or version is not a damaged recorder.
        let may_be_damaged = matches!(
            as_found,
            Err(Unreadable::Damaged | Unreadable::NotARecorder | Unreadable::OtherVersion(_))
        );
        if !may_be_damaged {
            return as_found;
        }
        // The bits of the length decide which bytes are checked, so they are tried one by one.
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

/// Flips the bit that the checksum of the page and the resource is wrong by, if there is one.
fn correct_bit(page: &mut [u8; PAGE], behind: &mut [u8]) -> Option<()> {
    let resource_bytes = u32::from_ne_bytes(page[RESOURCE_BYTES_AT..CHECKSUM_AT].try_into().ok()?) as usize;
    let resource = behind.get_mut(..resource_bytes)?;
    let stored = u32::from_ne_bytes(page[CHECKSUM_AT..CHECKSUM_AT + 4].try_into().ok()?);
    let difference = stored ^ checksum_of(page, resource);
    if difference.is_power_of_two() {
        // The bit is one of the checksum itself.
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

/// Of the first page and the resource, but for what changes.
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
            Self::NotARecorder => f.write_str("left alone: it is no flight recorder"),
            Self::OtherVersion(version) => {
                write!(f, "left alone: its layout has the version {version}, which is not known here")
            }
            Self::OtherByteOrder => {
                f.write_str("left alone: it was written on a machine of another byte order")
            }
            Self::Renamed => f.write_str("left alone: it is a copy or renamed"),
            Self::Io(error) => write!(f, "left alone: it cannot be read: {error}"),
        }
    }
}
