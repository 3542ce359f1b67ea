//! Finds the entries of a segment: walks from header to header and, behind damage, on to the next intact one.

use std::ops::Range;
use std::{fmt, io};

use super::entry::{Decoded, HEADER_LEN, Header, MAGIC, Mark, Place};
use super::storage::Storage;
use crate::record::Signal;

/// Read at once: many small entries, or little more than the header of a large one.
const WINDOW: u64 = 16 << 10;

/// A longer file is no segment, and nothing to search through at the start of a program.
pub(crate) const LONGEST_SEGMENT: u64 = 128 << 20;

/// What was found in one segment.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Offset and header of each entry that is not done. Their bodies are in the segment, but unchecked.
    pub(crate) pending: Vec<(u64, Header)>,
    /// How often bytes had to be skipped, and how many.
    pub(crate) damaged_places: u64,
    pub(crate) damaged_bytes: u64,
    /// Whether an earlier process has found an entry damaged, which it has counted.
    pub(crate) had_damage: bool,
    /// Bytes at the end of an append that did not succeed: its process died, or the disk was full.
    pub(crate) cut_bytes: u64,
    /// Header of the entry that they are of, if all of it is there.
    pub(crate) cut: Option<Header>,
}

/// What a journal found when it was opened, apart from its entries.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Segments that end with a part of an entry, as an append that did not succeed leaves it, and how long it is.
    pub(crate) cut: Vec<(u64, u64)>,
    /// Records of these entries, by signal, as far as their headers tell.
    pub(crate) cut_records: [u64; Signal::COUNT],
    /// Segments that cannot be read or are not recognised, and why. The journal neither uses nor removes them.
    pub(crate) left_alone: Vec<(u64, io::Error)>,
}

/// What cannot be delivered because its bytes have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) places: u64,
    pub(crate) bytes: u64,
    /// Records of entries whose header is intact; a damaged header hides how many there were.
    pub(crate) records: [u64; Signal::COUNT],
    /// Whether the file is not there any more.
    pub(crate) is_gone: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { places: number, bytes, .. } = self;
        let records = match self.records.iter().sum::<u64>() {
            0 => "an unknown number of records is".to_owned(),
            1 => "1 record is".to_owned(),
            records => format!("{records} records are"),
        };
        if self.is_gone {
            return write!(f, "another program has removed the file: {records} lost");
        }
        let places = if *number == 1 { "place" } else { "places" };
        write!(
            f,
            "{number} damaged {places} of {bytes} bytes: {records} lost; the file will be kept as *.damaged"
        )
    }
}

/// Looks through a segment whose entries are in this range.
///
/// # Errors
///
/// The segment cannot be read or is too long.
pub(crate) fn scan(storage: &mut impl Storage, segment: u64, range: Range<u64>) -> io::Result<Scan> {
    let len = range.end;
    if len > LONGEST_SEGMENT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than a segment can be"));
    }
    let mut window = Window { storage, segment, len, start: 0, bytes: Vec::new() };
    let mut scan = Scan::default();
    let (mut offset, mut is_damaged) = (range.start, false);
    while offset < len {
        let bytes = window.at(offset)?;
        let decoded = Header::decode(bytes, Place { segment, offset });
        match decoded {
            Decoded::Valid { header, mark } if header.entry_len() <= len - offset => {
                match mark {
                    Mark::Pending => scan.pending.push((offset, header)),
                    Mark::Done => {}
                    Mark::Damaged => scan.had_damage = true,
                }
                is_damaged = false;
                offset += header.entry_len();
            }
            Decoded::Torn if is_damaged => {
                scan.damaged_bytes += len - offset;
                break;
            }
            // nothing is ever written behind it
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
                scan.damaged_places += u64::from(!is_damaged);
                scan.damaged_bytes += skipped;
                is_damaged = true;
                offset += skipped;
            }
        }
    }
    Ok(scan)
}

/// The part of a segment that is in memory.
struct Window<'a, S> {
    storage: &'a mut S,
    segment: u64,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<S: Storage> Window<'_, S> {
    /// The bytes from `offset` on: at least a header, unless the segment ends before.
    fn at(&mut self, offset: u64) -> io::Result<&[u8]> {
        let wanted_end = self.len.min(offset + HEADER_LEN as u64);
        if wanted_end > self.start + self.bytes.len() as u64 {
            self.bytes.resize(WINDOW.min(self.len - offset) as usize, 0);
            if self.storage.read(self.segment, offset, &mut self.bytes).is_err() {
                // a body that cannot be read must not hide the entries around it
                self.bytes.truncate((wanted_end - offset) as usize);
                self.storage.read(self.segment, offset, &mut self.bytes)?;
            }
            self.start = offset;
        }
        Ok(&self.bytes[(offset - self.start) as usize..])
    }
}
