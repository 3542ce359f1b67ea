//! The journal of an outage: requests in the order of their appends, from which each signal takes its oldest, until the
//! collector has answered.
//!
//! What a completed append has written survives the process; what a completed sync has covered survives power loss. An entry
//! is marked or removed only when it is done: delivery is at least once, and after a crash at most the entry in hand of each
//! signal is sent again. Each signal has its own segments and bound, so that one that the collector never takes displaces no
//! other. Time is an argument, and [`Storage`] does all I/O.

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

/// Entries of a signal. Each takes 40 bytes of memory, 10 MiB in all: a request of each signal every second for a day.
const MAX_ENTRIES: usize = (1 << 18) / Signal::COUNT;
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Reads of one entry in a row that fail before it counts as damaged: about two minutes, as the worker pauses between them.
const MAX_FAILED_READS: u32 = 24;

/// Entries in segments, and what is known of them. Bodies stay in the storage.
#[derive(Debug)]
pub(crate) struct Journal<S> {
    pub(super) storage: S,
    pub(super) limits: Limits,
    segments: BTreeMap<u64, Segment>,
    /// The segment of each signal that appends go to: none of an earlier process, and none whose end is uncertain.
    current: [Option<u64>; Signal::COUNT],
    next_segment: u64,
    /// Bytes of segments that are not in use and yet on the disk.
    left_alone: u64,
    lanes: [Lane; Signal::COUNT],
    /// What was found damaged, by segment.
    damage: BTreeMap<u64, Damage>,
    last_sync: Option<Instant>,
}

/// The bounds of a journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Of all segments of one signal together, headers included.
    pub(crate) bytes: u64,
    /// How long an entry is worth sending.
    pub(crate) age: Duration,
    /// Of one segment, unless a single entry is larger.
    pub(crate) segment_bytes: u64,
    pub(crate) sync: SpoolSync,
}

impl Limits {
    /// Limits of a journal that is only read.
    pub(crate) const NONE: Self =
        Self { bytes: u64::MAX, age: Duration::MAX, segment_bytes: u64::MAX, sync: SpoolSync::Never };
}

/// A request that is in the caller's hands until `done` or `put_back`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) signal: Signal,
    pub(crate) records: u64,
    pub(crate) time_ms: u64,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    /// The signal of its entries. One of an earlier process may have others, too.
    signal: Signal,
    /// What the file has at most: a failed append may have written less.
    bytes: u64,
    /// Entries that are not done.
    left: u64,
    is_synced: bool,
    /// Whether it is to be kept, under another name, when all its entries are done.
    is_damaged: bool,
}

impl<S: Storage> Journal<S> {
    /// Opens what the storage holds. Only headers are read; [`next`](Self::next) checks the bodies.
    ///
    /// # Errors
    ///
    /// The storage cannot be listed. A segment that cannot be read is left alone instead.
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
        // a segment is never without a header
        if len == 0 && self.storage.header_len() > 0 {
            scan.damage.add_place(0);
        }
        let is_damaged = scan.had_damage || scan.damage.places > 0;
        if scan.damage.places > 0 {
            self.damage.insert(id, scan.damage);
        }
        let signal = scan.pending.first().map_or(Signal::Traces, |slot| slot.header.signal);
        // An earlier process may have died before its sync.
        let (left, is_synced) = (scan.pending.len() as u64, false);
        let segment = Segment { signal, bytes: len, left, is_synced, is_damaged };
        self.segments.insert(id, segment);
        scan.pending.into_iter().for_each(|slot| self.lanes[slot.header.signal as usize].push(slot));
        Ok(())
    }

    /// Appends a request whose body is in pieces. Just before it is written, `note` learns where.
    ///
    /// # Errors
    ///
    /// `StorageFull` if a bound would be exceeded: that of the signal or that of one entry. No part of the request will ever
    /// be returned as an entry, and later appends are not impaired.
    pub(crate) fn append(
        &mut self,
        signal: Signal,
        records: u64,
        body: &[&[u8]],
        now_ms: u64,
        note: impl FnOnce(Place),
    ) -> io::Result<()> {
        self.sweep();
        let full = || io::Error::new(StorageFull, "its signal has used up its part of spool-bytes");
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
            // Part of the entry may be there: what followed it would have another place than its header claims.
            self.current[signal as usize] = None;
            self.sweep();
            return Err(error);
        }
        self.lanes[signal as usize].push(Slot { place, header });
        self.note_records();
        Ok(())
    }

    /// The end of the signal's current segment, if it has room.
    fn place_for(&self, header: &Header) -> Option<Place> {
        let current = self.current[header.signal as usize]
            .and_then(|id| Some(Place { segment: id, offset: self.segments.get(&id)?.bytes }));
        let fits = |place: &Place| {
            place.offset + header.entry_len() <= self.limits.segment_bytes.min(MAX_SEGMENT_BYTES)
        };
        current.filter(fits)
    }

    fn begin_segment(&mut self, signal: Signal) -> io::Result<Place> {
        // A number is tried once: the call may fail and yet leave a file.
        let id = self.next_segment;
        self.next_segment = id.saturating_add(1);
        self.current[signal as usize] = None;
        self.storage.create(id)?;
        let bytes = self.storage.header_len();
        self.segments.insert(id, Segment { signal, bytes, left: 0, is_synced: false, is_damaged: false });
        self.current[signal as usize] = Some(id);
        Ok(Place { segment: id, offset: bytes })
    }

    /// Has the storage note how many records are pending: a later process that finds fewer knows what was lost.
    pub(crate) fn note_records(&mut self) {
        self.storage.note_records(self.records());
    }

    /// Records that are pending, by signal.
    pub(crate) fn records(&self) -> [u64; Signal::COUNT] {
        Signal::ALL.map(|signal| self.lanes[signal as usize].records)
    }

    /// Takes the oldest entry of a signal in hand; none while another one is. Damaged entries are skipped and counted.
    ///
    /// # Errors
    ///
    /// The entry cannot be read at the moment. It stays the oldest until it can, expires, or has failed too often: it must not
    /// hold up all others for good.
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
            // Without its mark, a later process meets and counts it again.
            let _ = self.settle_first(signal, Mark::Damaged);
        }
        Ok(None)
    }

    /// The body of an entry; `None` if it is not what was written.
    fn body(&mut self, Slot { place, header }: Slot) -> io::Result<Option<Vec<u8>>> {
        let mut body = vec![0; header.body_len as usize];
        match self.storage.read(place.segment, place.offset + HEADER_LEN as u64, &mut body) {
            Ok(()) => Ok((checksum([&body[..]]) == header.body_crc).then_some(body)),
            Err(error) if error.kind() == UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an entry at this place will be sent: it is pending and whole.
    ///
    /// # Errors
    ///
    /// That cannot be found out at the moment.
    pub(crate) fn has_whole(&mut self, place: Place) -> io::Result<bool> {
        let mut slots = self.lanes.iter().flat_map(|lane| &lane.slots);
        let Some(slot) = slots.find(|slot| slot.place == place).copied() else { return Ok(false) };
        match self.body(slot) {
            Err(error) if lacks_resources(&error) => Err(error),
            body => Ok(matches!(body, Ok(Some(_)))),
        }
    }

    /// The collector has answered for the entry in hand.
    ///
    /// # Errors
    ///
    /// The entry is done for this process, but a later one may send it again.
    pub(crate) fn done(&mut self, signal: Signal) -> io::Result<()> {
        if self.is_in_hand(signal) { self.settle_first(signal, Mark::Done) } else { Ok(()) }
    }

    /// Takes the oldest entry of a signal in hand without reading it. Returns its time.
    pub(crate) fn take_unread(&mut self, signal: Signal) -> Option<u64> {
        let lane = &mut self.lanes[signal as usize];
        let time_ms = lane.slots.front()?.header.time_ms;
        lane.is_in_hand = true;
        Some(time_ms)
    }

    /// Returns whether an entry of the signal is in hand.
    pub(crate) fn is_in_hand(&self, signal: Signal) -> bool {
        self.lanes[signal as usize].is_in_hand
    }

    /// The entry in hand could not be sent: it is the oldest again.
    pub(crate) fn put_back(&mut self, signal: Signal) {
        self.lanes[signal as usize].is_in_hand = false;
    }

    /// Returns the number of entries that wait for the collector, including the one in hand.
    pub(crate) fn pending(&self, signal: Signal) -> usize {
        self.lanes[signal as usize].slots.len()
    }

    /// What was found damaged since the last call, by segment.
    pub(crate) fn take_damage(&mut self) -> BTreeMap<u64, Damage> {
        mem::take(&mut self.damage)
    }

    /// Whether segments are left, be it only because they could not be removed.
    pub(crate) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Gives up the entries that are too old, except those in hand. Returns the records of each signal.
    pub(crate) fn expire(&mut self, now_ms: u64) -> [u64; Signal::COUNT] {
        self.sweep();
        let oldest = self.limits.age.as_millis();
        // All are looked at, as the clock may have been set back between two appends.
        let is_old = |slot: &Slot| u128::from(now_ms.saturating_sub(slot.header.time_ms)) > oldest;
        Signal::ALL.map(|signal| {
            let expired = self.lanes[signal as usize].take(is_old);
            // Without their marks, they expire again in a later process.
            let _ = self.settle(&expired, Mark::Done);
            expired.iter().map(|slot| u64::from(slot.header.records)).sum()
        })
    }

    /// The clock was set forward: entries are as old as before. On the disk they keep their times.
    pub(crate) fn shift_times(&mut self, jump: Jump) {
        let slots = self.lanes.iter_mut().flat_map(|lane| &mut lane.slots);
        slots.for_each(|slot| jump.shift(&mut slot.header.time_ms));
    }

    /// Syncs if the policy wants it now: call it after each append and, for [`SpoolSync::EverySecond`], from time to time.
    ///
    /// # Errors
    ///
    /// What is not synced stays due.
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

    /// Syncs all entries, whatever the policy. Marks may be lost: that costs a request sent twice.
    ///
    /// # Errors
    ///
    /// The last of them, after every segment was tried.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for (id, segment) in self.segments.iter_mut().filter(|(_, segment)| segment.needs_sync()) {
            let synced = unless_gone(self.storage.sync(*id));
            segment.is_synced = synced.is_ok();
            result = synced.and(result);
        }
        result
    }

    /// What all segments take, those that were left alone included.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().fold(self.left_alone, |bytes, segment| bytes.saturating_add(segment.bytes))
    }

    /// What the segments of a signal take.
    pub(crate) fn bytes_of(&self, signal: Signal) -> u64 {
        let own = self.segments.values().filter(|segment| segment.signal == signal);
        own.fold(0, |bytes: u64, segment| bytes.saturating_add(segment.bytes))
    }

    fn settle_first(&mut self, signal: Signal, mark: Mark) -> io::Result<()> {
        let first = self.lanes[signal as usize].pop();
        self.settle(first.as_slice(), mark)
    }

    /// Entries have left their lane: removes segments that have no others, and marks entries in those that do.
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

    /// Removes the segments without pending entries, and sets those aside in which something was damaged. One for which that
    /// fails still counts, and the next sweep tries again.
    fn sweep(&mut self) {
        let storage = &mut self.storage;
        let mut is_gone = |id, is_damaged| unless_gone(storage.retire(id, is_damaged)).is_ok();
        self.segments.retain(|id, segment| segment.left > 0 || !is_gone(*id, segment.is_damaged));
    }
}

/// A file that another program has removed needs no sync, no mark and no removal.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == NotFound { Ok(()) } else { Err(error) })
}

impl Segment {
    /// Without pending entries, it is about to be removed, or gone by a removal that was reported to fail.
    fn needs_sync(&self) -> bool {
        self.left > 0 && !self.is_synced
    }
}

#[cfg(test)]
mod tests;
