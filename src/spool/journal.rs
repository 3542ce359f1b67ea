//! The journal: a segmented write-ahead log of requests that could not be delivered.
//!
//! ```text
//!            append                     next, take_unread            done
//!  request ─────────► Pending ─────────────────────────► in hand ─────────────► Done: marked, or segment removed
//!                      │  ▲                                │
//!                      │  └────────── put_back ────────────┘
//!                      ├─ expire ────► Done
//!                      └─ bad CRC ───► Damaged: counted, the segment is kept as *.damaged
//! ```
//!
//! An entry is *in hand* while it is being sent. A segment is removed when all its entries are done, so the log needs
//! no compaction. The index (one [`Lane`] per signal) is in memory and is rebuilt from the entry headers at
//! [`Journal::open`]; bodies stay on disk and are checked when they are read. An append writes the header and each
//! piece of the body, `next` reads once, and `done` writes one byte or unlinks the file.
//!
//! # No entry is lost
//! - An appended entry survives the death of the process, because its bytes are in the page cache. A synced entry
//!   survives a power loss, too.
//! - After a failed append, nothing more is appended to the same segment: the next entry would begin behind the partial
//!   entry, and not at the offset that the checksum of its header includes. A reader treats a partial entry at the end
//!   of a segment as an unfinished append, not as damage.
//! - An entry is marked, or removed with its segment, only after the outcome of its records is known (such as
//!   delivered, expired or damaged). Delivery is therefore at least once: after a crash, at most the entry in hand of
//!   each signal is sent again.
//!
//! Each signal has its own segments and byte limit, so a signal that the collector never accepts cannot displace
//! another. The journal reads no clock and does no I/O itself: the time is an argument, and [`Storage`] does the I/O.

use std::collections::BTreeMap;
use std::io::ErrorKind::{NotFound, StorageFull, UnexpectedEof};
use std::ops::Range;
use std::time::{Duration, Instant};
use std::{array, io, mem};

use super::crc32c::checksum;
use super::lane::{Jump, Lane};
use super::segment::{Damage, Found, HEADER_LEN, Header, MARK, MAX_SEGMENT_BYTES, Mark, Place, Slot, scan};
use super::storage::{Storage, lacks_resources};
use crate::config::SpoolSync;
use crate::record::Signal;

/// Maximum number of entries of a signal: one request per second for a day. An entry takes 40 bytes of memory, so the
/// entries of all signals take at most 10 MiB.
const MAX_ENTRIES: usize = (1 << 18) / Signal::COUNT;
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Consecutive failed reads after which an entry counts as damaged. The worker pauses between reads, so an entry fails
/// this often within about two minutes.
const MAX_FAILED_READS: u32 = 24;

/// The segments and an index of their pending entries.
pub(crate) struct Journal<S> {
    pub(super) storage: S,
    pub(super) limits: Limits,
    segments: BTreeMap<u64, Segment>,
    /// Segment for the next append of each signal. Never a segment of an earlier process or with a failed append.
    current: [Option<u64>; Signal::COUNT],
    next_segment: u64,
    /// Size of the segments that could not be scanned. They are not used, but count against the limit, because they
    /// occupy the disk.
    left_alone: u64,
    lanes: [Lane; Signal::COUNT],
    /// Damage that was found since the last [`take_damage`](Self::take_damage), by segment.
    damage: BTreeMap<u64, Damage>,
    last_sync: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum size of all segments of one signal, headers included.
    pub(crate) bytes: u64,
    /// Age at which an entry expires.
    pub(crate) age: Duration,
    /// Maximum size of a segment, unless a single entry is larger.
    pub(crate) segment_bytes: u64,
    pub(crate) sync: SpoolSync,
}

impl Limits {
    /// Limits of a journal that is only read.
    pub(crate) const NONE: Self =
        Self { bytes: u64::MAX, age: Duration::MAX, segment_bytes: u64::MAX, sync: SpoolSync::Never };
}

/// A request that the caller holds until [`Journal::done`] or [`Journal::put_back`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) signal: Signal,
    pub(crate) records: u64,
    pub(crate) time_ms: u64,
    pub(crate) body: Vec<u8>,
}

struct Segment {
    /// Signal of the entries. A segment of another process may mix signals; then this is the signal of the first
    /// pending entry.
    signal: Signal,
    /// Upper bound of the file's length: a failed append may have written only a part of its entry.
    bytes: u64,
    /// Number of entries that are not done.
    left: u64,
    is_synced: bool,
    /// True if the file is kept as `*.damaged` when all its entries are done.
    is_damaged: bool,
}

impl<S: Storage> Journal<S> {
    /// Opens the segments of the storage. Only headers are read; [`next`](Self::next) checks the bodies.
    ///
    /// # Errors
    ///
    /// Returns an error if the storage cannot be listed. A single segment that cannot be read is not an error: it is
    /// left alone.
    pub(crate) fn open(mut storage: S, limits: Limits) -> io::Result<(Self, Found)> {
        let mut listed = storage.list()?;
        listed.sort_by_key(|(id, _)| *id);
        let mut journal = Self {
            storage,
            limits,
            segments: BTreeMap::new(),
            current: [None; Signal::COUNT],
            next_segment: listed.last().map_or(0, |(id, _)| id.saturating_add(1)),
            left_alone: 0,
            lanes: array::from_fn(|_| Lane::default()),
            damage: BTreeMap::new(),
            last_sync: None,
        };
        let mut found = Found::default();
        for (id, range) in listed {
            let bytes = range.as_ref().map_or(0, |range| range.end);
            if let Err(error) = range.and_then(|range| journal.adopt(id, range, &mut found)) {
                journal.left_alone = journal.left_alone.saturating_add(bytes);
                found.left_alone.push((id, error));
            }
        }
        journal.sweep();
        Ok((journal, found))
    }

    fn adopt(&mut self, id: u64, range: Range<u64>, found: &mut Found) -> io::Result<()> {
        let len = range.end;
        let mut scan = scan(&mut self.storage, id, range)?;
        if scan.cut_bytes > 0 {
            found.cut.push((id, scan.cut_bytes));
        }
        if let Some(header) = scan.cut {
            found.cut_records[header.signal as usize] += u64::from(header.records);
        }
        // A segment gets its name after its header is written, so an empty segment was truncated.
        if len == 0 && self.storage.header_len() > 0 {
            scan.damage.add_place(0);
        }
        let is_damaged = scan.had_damage || scan.damage.places > 0;
        if scan.damage.places > 0 {
            self.damage.insert(id, scan.damage);
        }
        let signal = scan.pending.first().map_or(Signal::Traces, |slot| slot.header.signal);
        // The segment counts as not synced, because the process that wrote it may have died before the sync.
        let (left, is_synced) = (scan.pending.len() as u64, false);
        let segment = Segment { signal, bytes: len, left, is_synced, is_damaged };
        self.segments.insert(id, segment);
        scan.pending.into_iter().for_each(|slot| self.lanes[slot.header.signal as usize].push(slot));
        Ok(())
    }

    /// Appends a request whose body is in pieces. Just before the write, calls `note` with the place of the entry.
    ///
    /// # Errors
    ///
    /// Returns `StorageFull` if the request exceeds a limit, and otherwise the error of the storage. After an error, no
    /// part of the request is ever returned as an entry, and later appends are not affected.
    pub(crate) fn append(
        &mut self,
        signal: Signal,
        records: u64,
        body: &[&[u8]],
        now_ms: u64,
        note: impl FnOnce(Place),
    ) -> io::Result<()> {
        self.sweep();
        let full = || io::Error::new(StorageFull, "the signal has used up its share of spool-bytes");
        let header = Header::new(signal, records, now_ms, body).ok_or_else(full)?;
        let place = self.place_for(&header);
        let segment_header = if place.is_some() { 0 } else { self.storage.header_len() };
        let own = self.left_alone.saturating_add(self.bytes_of(signal));
        let bytes = own.saturating_add(segment_header + header.entry_len());
        if bytes > self.limits.bytes || self.lanes[signal as usize].slots.len() >= MAX_ENTRIES {
            return Err(full());
        }
        let place = place.map_or_else(|| self.begin_segment(signal), Ok)?;
        let encoded = header.encode(place);
        let pieces: Vec<&[u8]> = [&encoded[..]].into_iter().chain(body.iter().copied()).collect();
        note(place);
        let written = self.storage.append(place.segment, &pieces);
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.bytes += header.entry_len();
            segment.left += u64::from(written.is_ok());
            segment.is_synced = false;
        }
        if let Err(error) = written {
            // A part of the entry may be in the file, and the next entry would not begin at the offset that its
            // header's checksum includes. So the next append begins a new segment.
            self.current[signal as usize] = None;
            self.sweep();
            return Err(error);
        }
        self.lanes[signal as usize].push(Slot { place, header });
        self.note_records();
        Ok(())
    }

    /// Returns the end of the signal's current segment, if the entry fits.
    fn place_for(&self, header: &Header) -> Option<Place> {
        let current = self.current[header.signal as usize]
            .and_then(|id| Some(Place { segment: id, offset: self.segments.get(&id)?.bytes }));
        let fits = |place: &Place| {
            place.offset + header.entry_len() <= self.limits.segment_bytes.min(MAX_SEGMENT_BYTES)
        };
        current.filter(fits)
    }

    fn begin_segment(&mut self, signal: Signal) -> io::Result<Place> {
        // Each segment number is used once, because a failed call may leave a file with that number.
        let id = self.next_segment;
        self.next_segment = id.saturating_add(1);
        self.current[signal as usize] = None;
        self.storage.create(id)?;
        let bytes = self.storage.header_len();
        self.segments.insert(id, Segment { signal, bytes, left: 0, is_synced: false, is_damaged: false });
        self.current[signal as usize] = Some(id);
        Ok(Place { segment: id, offset: bytes })
    }

    /// Stores the number of pending records, so that a later process that finds fewer records can count the lost ones.
    pub(crate) fn note_records(&mut self) {
        self.storage.note_records(self.records());
    }

    /// Returns the number of pending records, by signal.
    pub(crate) fn records(&self) -> [u64; Signal::COUNT] {
        Signal::ALL.map(|signal| self.lanes[signal as usize].records)
    }

    /// Reads the oldest entry of a signal and takes it in hand. Returns `None` if no entry is pending, or one is
    /// already in hand. Damaged entries are skipped and counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the entry cannot be read now. The entry stays the oldest until it is read or expires, or
    /// until [`MAX_FAILED_READS`] reads have failed: a bad sector must not block all later entries.
    pub(crate) fn next(&mut self, signal: Signal) -> io::Result<Option<Entry>> {
        if self.is_in_hand(signal) {
            return Ok(None);
        }
        while let Some(slot) = self.lanes[signal as usize].slots.front().copied() {
            let Slot { place, header } = slot;
            let mut is_gone = false;
            match self.body(slot) {
                Ok(Some(body)) => {
                    let lane = &mut self.lanes[signal as usize];
                    (lane.is_in_hand, lane.failed_reads) = (true, 0);
                    let (records, time_ms) = (u64::from(header.records), header.time_ms);
                    return Ok(Some(Entry { signal, records, time_ms, body }));
                }
                Ok(None) => {}
                Err(error) if error.kind() == NotFound => is_gone = true,
                Err(error) if lacks_resources(&error) => return Err(error),
                Err(error) => {
                    let failed_reads = &mut self.lanes[signal as usize].failed_reads;
                    *failed_reads += 1;
                    if *failed_reads < MAX_FAILED_READS {
                        return Err(error);
                    }
                }
            }
            let damage = self.damage.entry(place.segment).or_default();
            damage.add_place(place.offset);
            damage.bytes += header.entry_len();
            damage.is_gone |= is_gone;
            damage.records[signal as usize] += u64::from(header.records);
            if let Some(segment) = self.segments.get_mut(&place.segment) {
                segment.is_damaged = true;
            }
            // If the mark cannot be written, a later process counts the entry again.
            let _ = self.settle_first(signal, Mark::Damaged);
        }
        Ok(None)
    }

    /// Reads the body of an entry. Returns `None` if its checksum is wrong or its end is missing.
    fn body(&mut self, Slot { place, header }: Slot) -> io::Result<Option<Vec<u8>>> {
        let mut body = vec![0; header.body_len as usize];
        match self.storage.read(place.segment, place.offset + HEADER_LEN as u64, &mut body) {
            Ok(()) => Ok((checksum([&body[..]]) == header.body_crc).then_some(body)),
            Err(error) if error.kind() == UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the entry at this place is pending and intact, so that it will be sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the process lacks memory or file descriptors to read the entry.
    pub(crate) fn has_whole(&mut self, place: Place) -> io::Result<bool> {
        let mut slots = self.lanes.iter().flat_map(|lane| &lane.slots);
        let Some(slot) = slots.find(|slot| slot.place == place).copied() else { return Ok(false) };
        match self.body(slot) {
            Err(error) if lacks_resources(&error) => Err(error),
            body => Ok(matches!(body, Ok(Some(_)))),
        }
    }

    /// Marks the entry in hand as done or, if no other entry of its segment is pending, removes the segment. Must be
    /// called only when the outcome of the entry's records is known.
    ///
    /// # Errors
    ///
    /// Returns an error if the mark cannot be written. A later process may then send the entry again.
    pub(crate) fn done(&mut self, signal: Signal) -> io::Result<()> {
        if self.is_in_hand(signal) { self.settle_first(signal, Mark::Done) } else { Ok(()) }
    }

    /// Takes in hand the oldest entry of a signal, without reading it. Returns the time of its append.
    pub(crate) fn take_unread(&mut self, signal: Signal) -> Option<u64> {
        let lane = &mut self.lanes[signal as usize];
        let time_ms = lane.slots.front()?.header.time_ms;
        lane.is_in_hand = true;
        Some(time_ms)
    }

    pub(crate) fn is_in_hand(&self, signal: Signal) -> bool {
        self.lanes[signal as usize].is_in_hand
    }

    /// Puts the entry in hand back, as the oldest.
    pub(crate) fn put_back(&mut self, signal: Signal) {
        self.lanes[signal as usize].is_in_hand = false;
    }

    /// Returns the number of entries that wait for the collector, including the one in hand.
    pub(crate) fn pending(&self, signal: Signal) -> usize {
        self.lanes[signal as usize].slots.len()
    }

    /// Returns the damage found since the last call, by segment.
    pub(crate) fn take_damage(&mut self) -> BTreeMap<u64, Damage> {
        mem::take(&mut self.damage)
    }

    /// Returns whether segments exist, including settled ones that could not be removed.
    pub(crate) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Drops expired entries, except those in hand. Returns the number of dropped records, by signal.
    pub(crate) fn expire(&mut self, now_ms: u64) -> [u64; Signal::COUNT] {
        self.sweep();
        let oldest = self.limits.age.as_millis();
        // All entries are checked, not only the first ones: the clock may have been set back between two appends.
        let is_old = |slot: &Slot| u128::from(now_ms.saturating_sub(slot.header.time_ms)) > oldest;
        Signal::ALL.map(|signal| {
            let expired = self.lanes[signal as usize].take(is_old);
            // If the marks cannot be written, the entries expire again in a later process.
            let _ = self.settle(&expired, Mark::Done);
            expired.iter().map(|slot| u64::from(slot.header.records)).sum()
        })
    }

    /// Corrects the ages of entries after a jump of the clock. The times on disk do not change.
    pub(crate) fn shift_times(&mut self, jump: Jump) {
        let slots = self.lanes.iter_mut().flat_map(|lane| &mut lane.slots);
        slots.for_each(|slot| jump.shift(&mut slot.header.time_ms));
    }

    /// Syncs if the policy requires a sync now. Must be called after each append. With [`SpoolSync::EverySecond`], the
    /// caller must also sync periodically, by this function or by [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// Returns an error if a sync fails. A later call tries again.
    pub(crate) fn sync_if_due(&mut self, now: Instant) -> io::Result<()> {
        let is_due = match self.limits.sync {
            SpoolSync::EveryBatch => true,
            SpoolSync::EverySecond => {
                self.last_sync.is_none_or(|last| now.saturating_duration_since(last) >= SYNC_INTERVAL)
            }
            SpoolSync::Never => false,
        };
        if !is_due || !self.segments.values().any(Segment::needs_sync) {
            return Ok(());
        }
        self.last_sync = Some(now);
        self.sync()
    }

    /// Syncs all entries, whatever the policy. Marks are not synced: a lost mark only means that a request is sent
    /// twice.
    ///
    /// # Errors
    ///
    /// Returns the last error. After an error, the remaining segments are still synced.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for (id, segment) in self.segments.iter_mut().filter(|(_, segment)| segment.needs_sync()) {
            let synced = unless_gone(self.storage.sync(*id));
            segment.is_synced = synced.is_ok();
            result = synced.and(result);
        }
        result
    }

    /// Returns the size of all segments, including those that are left alone.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().fold(self.left_alone, |bytes, segment| bytes.saturating_add(segment.bytes))
    }

    /// Returns the size of the segments of a signal.
    pub(crate) fn bytes_of(&self, signal: Signal) -> u64 {
        let own = self.segments.values().filter(|segment| segment.signal == signal);
        own.fold(0, |bytes: u64, segment| bytes.saturating_add(segment.bytes))
    }

    fn settle_first(&mut self, signal: Signal, mark: Mark) -> io::Result<()> {
        let first = self.lanes[signal as usize].pop();
        self.settle(first.as_slice(), mark)
    }

    /// Settles entries that were taken out of their lane: removes the segments that have no pending entry left, and
    /// marks the entries in the segments that remain.
    fn settle(&mut self, slots: &[Slot], mark: Mark) -> io::Result<()> {
        for Slot { place, .. } in slots {
            if let Some(segment) = self.segments.get_mut(&place.segment) {
                segment.left -= 1;
            }
        }
        if !slots.is_empty() {
            self.note_records();
        }
        self.sweep();
        let mut result = Ok(());
        for Slot { place, .. } in slots {
            if self.segments.contains_key(&place.segment) {
                let marked = self.storage.write_byte(place.segment, place.offset + MARK, mark as u8);
                result = unless_gone(marked).and(result);
            }
        }
        result
    }

    /// Removes the segments without pending entries, or renames them if they are damaged. A segment that can be neither
    /// removed nor renamed still counts against the limit, and the next sweep tries again.
    fn sweep(&mut self) {
        let storage = &mut self.storage;
        let mut is_gone = |id, is_damaged| unless_gone(storage.retire(id, is_damaged)).is_ok();
        self.segments.retain(|id, segment| segment.left > 0 || !is_gone(*id, segment.is_damaged));
    }
}

/// Treats a missing file as success: a file that another program removed needs no sync, mark or removal.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == NotFound { Ok(()) } else { Err(error) })
}

impl Segment {
    /// Segments without pending entries need no sync: they are about to be removed, or their removal failed.
    fn needs_sync(&self) -> bool {
        self.left > 0 && !self.is_synced
    }
}

#[cfg(test)]
mod tests;
