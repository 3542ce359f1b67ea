//! The format of a segment file: its header, the header of each entry, and the scan that finds the entries.
//!
//! ```text
//! ┌──────────────────────┬──────────────────────────┬──────┬──────────────────────────┬──────┬─────────────
//! │ segment header       │ entry header, 32 bytes   │ body │ entry header             │ body │ …
//! │ magic, owner, CRC    │ magic, mark, len, 2 CRCs │      │                          │      │
//! └──────────────────────┴──────────────────────────┴──────┴──────────────────────────┴──────┴─────────────
//! ```
//!
//! The scan walks from header to header. After a damaged entry it searches for the magic of the next intact header, so
//! only the damaged entry is lost, not the rest of the file. `proto/spool.md` describes the bytes.

use std::ops::Range;
use std::{array, fmt, io};

use super::crc32c::checksum;
use super::storage::Storage;
use crate::record::Signal;

/// First bytes of an entry. UTF-8 never contains the byte 0xf5, so a search through a damaged request seldom finds
/// these bytes by accident.
pub(crate) const MAGIC: [u8; 4] = [0xf5, b's', b'p', b'l'];
const VERSION: u8 = 2;

/// First bytes of a segment. They differ from [`MAGIC`] in the first byte, so a search for the next entry does not stop
/// at a damaged segment header.
const SEGMENT_MAGIC: [u8; 4] = [0xf6, b's', b'p', b's'];
/// Length of a segment's header without the names of the owner, and maximum length of the whole header.
const SEGMENT_HEAD_LEN: usize = 12;
pub(crate) const MAX_SEGMENT_HEADER_LEN: u64 = SEGMENT_HEAD_LEN as u64 + 2 * (1 + u8::MAX as u64);

pub(crate) const HEADER_LEN: usize = 32;
/// Offset of the mark in the header. No checksum covers the mark, so it can be set in place.
pub(crate) const MARK: u64 = 6;
/// Maximum length of a body. It bounds the memory that a damaged length can make a reader allocate.
pub(crate) const MAX_BODY_LEN: u32 = 64 << 20;

/// The exporter and service whose records a file holds. The next start of the same owner delivers the file, even if the
/// exporter's endpoint has changed since. Names are cut to 255 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) service: String,
    pub(crate) exporter: String,
}

impl Owner {
    pub(crate) fn new(service: &str, exporter: &str) -> Self {
        let stored = |name: &str| {
            let end = (0..=name.len().min(u8::MAX.into())).rev().find(|end| name.is_char_boundary(*end));
            name[..end.unwrap_or(0)].to_owned()
        };
        Self { service: stored(service), exporter: stored(exporter) }
    }

    /// Appends both names, each preceded by its length in one byte.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for name in [&self.service, &self.exporter] {
            out.push(name.len() as u8);
            out.extend(name.as_bytes());
        }
    }

    /// Reads both names at the beginning of `bytes`.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut name = || {
            let (len, rest) = bytes.split_first()?;
            let (name, rest) = rest.split_at_checked(usize::from(*len))?;
            bytes = rest;
            String::from_utf8(name.to_vec()).ok()
        };
        Some(Self { service: name()?, exporter: name()? })
    }

    /// Returns the header of a segment of this owner.
    pub(crate) fn segment_header(&self, instance: &str, segment: u64) -> Vec<u8> {
        let mut header = vec![0; SEGMENT_HEAD_LEN];
        self.encode(&mut header);
        let len = header.len() as u16;
        header[..4].copy_from_slice(&SEGMENT_MAGIC);
        header[4] = VERSION;
        header[6..8].copy_from_slice(&len.to_le_bytes());
        let crc = segment_crc(&header, instance, segment);
        header[8..12].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// Reads a segment's header. Returns the owner and the header's length, or `None` if the header is damaged.
    ///
    /// # Errors
    /// Returns the version in the file if this program does not know that version.
    pub(crate) fn of_segment(bytes: &[u8], instance: &str, segment: u64) -> Result<Option<(Self, u64)>, u8> {
        let Some(head) = bytes.first_chunk::<SEGMENT_HEAD_LEN>() else { return Ok(None) };
        let len = u16::from_le_bytes([head[6], head[7]]);
        let crc = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let header = bytes.get(..len.into()).filter(|header| header.len() >= SEGMENT_HEAD_LEN);
        match header.filter(|header| segment_crc(header, instance, segment) == crc) {
            Some(header) => Ok(Self::decode(&header[SEGMENT_HEAD_LEN..]).map(|owner| (owner, len.into()))),
            None if head[..4] == SEGMENT_MAGIC && head[4] != VERSION => Err(head[4]),
            None => Ok(None),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exporter \"{}\" of service \"{}\"", self.exporter, self.service)
    }
}

/// Returns the checksum over the file's name and the header without the checksum. Magic and version are replaced by the
/// known ones, so a flipped bit in them does no harm.
fn segment_crc(header: &[u8], instance: &str, segment: u64) -> u32 {
    let names = &header[SEGMENT_HEAD_LEN..];
    checksum([instance.as_bytes(), &segment.to_le_bytes(), &SEGMENT_MAGIC, &[VERSION], &header[5..8], names])
}

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) signal: Signal,
    pub(crate) records: u32,
    /// Time of the append, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    pub(crate) body_len: u32,
    pub(crate) body_crc: u32,
}

/// Where an entry begins. The header's checksum includes the place, so a copy of an entry at another place is not taken
/// for an entry. Such a copy exists if the value of an attribute contains bytes of a segment, or if a file system
/// exposes an old block after a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

/// An entry of a segment, without its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    pub(crate) header: Header,
}

/// State of an entry, and the byte that stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Pending = 0,
    /// The entry is delivered or expired. Every unknown byte means pending, and this byte differs from zero in four
    /// bits, so a flipped bit can cause an entry to be sent twice, but not to be lost.
    Done = 0x5a,
    /// The entry was found damaged and was counted. Its segment is kept.
    Damaged = 0xa5,
}

impl Mark {
    fn of(byte: u8) -> Self {
        [Self::Done, Self::Damaged].into_iter().find(|mark| *mark as u8 == byte).unwrap_or(Self::Pending)
    }
}

/// Result of decoding the bytes at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    Valid {
        header: Header,
        mark: Mark,
    },
    /// The beginning of a header, cut by the end of the file.
    Torn,
    Corrupt,
}

impl Header {
    /// Creates the header of an entry whose body is in pieces. Returns `None` for too long a body or too many records.
    pub(crate) fn new(signal: Signal, records: u64, time_ms: u64, body: &[&[u8]]) -> Option<Self> {
        let len: u64 = body.iter().map(|piece| piece.len() as u64).sum();
        let body_len = u32::try_from(len).ok().filter(|len| *len <= MAX_BODY_LEN)?;
        let records = u32::try_from(records).ok()?;
        Some(Self { signal, records, time_ms, body_len, body_crc: checksum(body.iter().copied()) })
    }

    /// Encodes the header of a pending entry.
    pub(crate) fn encode(&self, place: Place) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = code(self.signal);
        bytes[8..16].copy_from_slice(&self.time_ms.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.records.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = header_crc(&bytes, place);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header at the beginning of `bytes`, which may be shorter than a header only at the segment's end.
    pub(crate) fn decode(bytes: &[u8], place: Place) -> Decoded {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            let is_beginning = MAGIC.iter().chain(&[VERSION]).zip(bytes).all(|(known, byte)| known == byte);
            return if is_beginning { Decoded::Torn } else { Decoded::Corrupt };
        };
        let Some(signal) = Signal::ALL.into_iter().find(|signal| code(*signal) == bytes[5]) else {
            return Decoded::Corrupt;
        };
        let header = Self {
            signal,
            time_ms: u64::from_le_bytes(field(bytes, 8)),
            records: u32::from_le_bytes(field(bytes, 16)),
            body_len: u32::from_le_bytes(field(bytes, 20)),
            body_crc: u32::from_le_bytes(field(bytes, 24)),
        };
        let is_valid = bytes[..4] == MAGIC
            && bytes[4] == VERSION
            && header.body_len <= MAX_BODY_LEN
            && u32::from_le_bytes(field(bytes, 28)) == header_crc(bytes, place);
        if is_valid {
            Decoded::Valid { header, mark: Mark::of(bytes[MARK as usize]) }
        } else {
            Decoded::Corrupt
        }
    }

    /// Returns the length of header and body.
    pub(crate) fn entry_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.body_len)
    }
}

/// Returns the byte of a signal in the format, which does not depend on the order of the enum.
fn code(signal: Signal) -> u8 {
    match signal {
        Signal::Traces => 1,
        Signal::Logs => 2,
        Signal::Metrics => 3,
    }
}

/// Returns the checksum over the place and the header without mark and checksum. It covers the body's checksum, and so
/// the body.
fn header_crc(bytes: &[u8; HEADER_LEN], place: Place) -> u32 {
    let (segment, offset) = (place.segment.to_le_bytes(), place.offset.to_le_bytes());
    let mark = MARK as usize;
    checksum([&segment[..], &offset, &bytes[..mark], &bytes[mark + 1..28]])
}

fn field<const LEN: usize>(bytes: &[u8; HEADER_LEN], start: usize) -> [u8; LEN] {
    array::from_fn(|index| bytes[start + index])
}

/// Bytes that the scan reads at once: many small entries, or the header of a large entry and little of its body.
const WINDOW: u64 = 16 << 10;

/// Maximum length of a segment. It bounds the scan at the start of a program.
pub(crate) const MAX_SEGMENT_BYTES: u64 = 128 << 20;

/// The entries and the damage found in one segment.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Pending entries. Their bodies are inside the segment, but not checked yet.
    pub(crate) pending: Vec<Slot>,
    pub(crate) damage: Damage,
    /// True if an earlier process found and counted a damaged entry.
    pub(crate) had_damage: bool,
    /// Length of the partial entry at the end: the process died in an append, or the disk was full.
    pub(crate) cut_bytes: u64,
    /// Header of that partial entry; `None` if the header itself is incomplete, or the entry is not pending.
    pub(crate) cut: Option<Header>,
}

/// Findings of [`Journal::open`](super::journal::Journal::open), apart from the entries.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Segments that end with a partial entry, left by a failed append, with the length of the partial entry.
    pub(crate) cut: Vec<(u64, u64)>,
    /// Records of these partial entries by signal, as far as their headers are complete.
    pub(crate) cut_records: [u64; Signal::COUNT],
    /// Segments that are unreadable, of unknown layout or of another owner, with the reason. They are neither used nor
    /// removed.
    pub(crate) left_alone: Vec<(u64, io::Error)>,
}

/// Bytes and records that cannot be delivered: the bytes have changed or cannot be read, or the file is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) places: u64,
    /// Offset of the first damaged place in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Records of entries with an intact header. The number of records that follow a damaged header is unknown.
    pub(crate) records: [u64; Signal::COUNT],
    /// True if the file no longer exists.
    pub(crate) is_gone: bool,
}

impl Damage {
    pub(crate) fn add_place(&mut self, offset: u64) {
        self.offset = if self.places == 0 { offset } else { self.offset.min(offset) };
        self.places += 1;
    }

    /// Returns whether the number of lost records is unknown.
    pub(crate) fn hides_records(&self) -> bool {
        self.records.iter().all(|records| *records == 0)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { places: number, offset, bytes, .. } = self;
        let records = match self.records.iter().sum::<u64>() {
            0 => "an unknown number of records is".to_owned(),
            1 => "1 record is".to_owned(),
            records => format!("{records} records are"),
        };
        if self.is_gone {
            return write!(f, "another program has removed the file: {records} lost");
        }
        let (places, at) = if *number == 1 { ("place", "at") } else { ("places", "from") };
        write!(
            f,
            "{number} damaged {places} of {bytes} bytes {at} offset {offset}: {records} lost; the file will be kept as *.damaged"
        )
    }
}

/// Scans a segment whose entries are in `range`.
///
/// # Errors
///
/// Returns an error if the segment cannot be read or is longer than [`MAX_SEGMENT_BYTES`].
pub(crate) fn scan(storage: &mut impl Storage, segment: u64, range: Range<u64>) -> io::Result<Scan> {
    let len = range.end;
    if len > MAX_SEGMENT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than a segment can be"));
    }
    let mut window = Window { storage, segment, len, start: 0, bytes: Vec::new() };
    let mut scan = Scan::default();
    let (mut offset, mut is_damaged) = (range.start, false);
    while offset < len {
        let bytes = window.at(offset)?;
        let place = Place { segment, offset };
        let decoded = Header::decode(bytes, place);
        match decoded {
            Decoded::Valid { header, mark } if header.entry_len() <= len - offset => {
                match mark {
                    Mark::Pending => scan.pending.push(Slot { place, header }),
                    Mark::Done => {}
                    Mark::Damaged => scan.had_damage = true,
                }
                is_damaged = false;
                offset += header.entry_len();
            }
            Decoded::Torn if is_damaged => {
                scan.damage.bytes += len - offset;
                break;
            }
            // After a failed append, nothing was appended to the segment, so the segment ends here.
            Decoded::Valid { .. } | Decoded::Torn => {
                scan.cut_bytes = len - offset;
                scan.cut = match decoded {
                    Decoded::Valid { header, mark: Mark::Pending } => Some(header),
                    _ => None,
                };
                break;
            }
            Decoded::Corrupt => {
                let next = bytes[1..].iter().position(|byte| *byte == MAGIC[0]);
                let skipped = next.map_or(bytes.len(), |index| index + 1) as u64;
                if !is_damaged {
                    scan.damage.add_place(offset);
                }
                scan.damage.bytes += skipped;
                is_damaged = true;
                offset += skipped;
            }
        }
    }
    Ok(scan)
}

/// A read-ahead buffer over a segment.
struct Window<'a, S> {
    storage: &'a mut S,
    segment: u64,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<S: Storage> Window<'_, S> {
    /// Returns the bytes from `offset` on: at least a header, unless the segment ends before.
    fn at(&mut self, offset: u64) -> io::Result<&[u8]> {
        let wanted_end = self.len.min(offset + HEADER_LEN as u64);
        if wanted_end > self.start + self.bytes.len() as u64 {
            self.bytes.resize(WINDOW.min(self.len - offset) as usize, 0);
            if self.storage.read(self.segment, offset, &mut self.bytes).is_err() {
                // A bad sector in a body must not hide the entries around it, so the header alone is read.
                self.bytes.truncate((wanted_end - offset) as usize);
                self.storage.read(self.segment, offset, &mut self.bytes)?;
            }
            self.start = offset;
        }
        Ok(&self.bytes[(offset - self.start) as usize..])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: Place = Place { segment: 7, offset: 4711 };

    fn header() -> Header {
        Header::new(Signal::Logs, 3, 1_700_000_000_000, &[b"body"]).expect("it is short")
    }

    /// The example of `proto/spool.md`: other programs and later versions read these bytes.
    #[test]
    fn the_bytes_are_those_of_the_description() {
        let expected = "f573706c 02020000 0068e5cf8b010000 03000000 04000000";
        let digits: String = header().encode(PLACE).iter().map(|byte| format!("{byte:02x}")).collect();
        let (fields, checksums) = digits.split_at(48);
        assert_eq!(fields, expected.replace(' ', ""));
        let description = include_str!("../../proto/spool.md");
        assert!(
            description.contains(&format!("{expected} {} {}", &checksums[..8], &checksums[8..])),
            "{checksums}"
        );
    }

    #[test]
    fn the_mark_is_no_part_of_what_is_checked() {
        let mut bytes = header().encode(PLACE);
        for byte in 0..=u8::MAX {
            bytes[MARK as usize] = byte;
            let mark = match byte {
                0x5a => Mark::Done,
                0xa5 => Mark::Damaged,
                _ => Mark::Pending,
            };
            assert_eq!(Header::decode(&bytes, PLACE), Decoded::Valid { header: header(), mark });
        }
    }

    #[test]
    fn a_copy_in_another_place_is_no_entry() {
        let bytes = header().encode(PLACE);
        for place in [Place { segment: 8, ..PLACE }, Place { offset: 4712, ..PLACE }] {
            assert_eq!(Header::decode(&bytes, place), Decoded::Corrupt);
        }
    }

    #[test]
    fn another_version_is_not_read_though_its_checksum_is_right() {
        let mut bytes = header().encode(PLACE);
        bytes[4] = 3;
        let crc = header_crc(&bytes, PLACE);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::decode(&bytes, PLACE), Decoded::Corrupt);
    }

    #[test]
    fn part_of_a_header_is_torn_and_other_bytes_are_corrupt() {
        let bytes = header().encode(PLACE);
        for len in 0..HEADER_LEN {
            assert_eq!(Header::decode(&bytes[..len], PLACE), Decoded::Torn);
        }
        for other in [&b"{"[..], b"\xf5spl\x03", &[0; HEADER_LEN - 1], &[0; HEADER_LEN]] {
            assert_eq!(Header::decode(other, PLACE), Decoded::Corrupt, "{other:?}");
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_refused_on_both_sides() {
        assert_eq!(Header::new(Signal::Logs, 1, 0, &[&vec![0; MAX_BODY_LEN as usize], b"x"]), None);
        let of = |body_len| Header::decode(&Header { body_len, ..header() }.encode(PLACE), PLACE);
        assert!(matches!(of(MAX_BODY_LEN), Decoded::Valid { .. }));
        assert_eq!(of(MAX_BODY_LEN + 1), Decoded::Corrupt);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            signal in prop::sample::select(&Signal::ALL[..]),
            records: u32,
            time_ms: u64,
            body_len in 0..=MAX_BODY_LEN,
            body_crc: u32,
            segment: u64,
            offset: u64,
        ) {
            let header = Header { signal, records, time_ms, body_len, body_crc };
            let place = Place { segment, offset };
            let decoded = Header::decode(&header.encode(place), place);
            prop_assert_eq!(decoded, Decoded::Valid { header, mark: Mark::Pending });
        }
    }
}
