//! The queue of a dead process, read from its flight recorder file.
//!
//! The file is read by `read(2)`, not mapped: values cannot change between check and use, and a truncated file causes
//! an error instead of SIGBUS. Nothing in the file is trusted; lengths are checked against the layout, and each damaged
//! part is counted.
//!
//! # Proof
//! A chunk that the worker has sealed is proven by its CRC32C. An unsealed chunk was being filled when the process
//! died: its committed bytes are complete, because the bytes are stored before the length, and its well-formed frames
//! are trusted. If the system was rebooted since, only chunks with a valid checksum are trusted: pages may have reached
//! the disk in any order.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::layout::{
    ALIVE_AT, ALIVE_MS, CLOSED, Header, MAGIC, OPEN_SPAN_SLOT_BYTES, PAGE, READY_AT, SLOT_BYTES,
    SLOT_HEADER_BYTES, SPOOLED_AT, Unreadable,
};
use crate::record::schema::{self, Part};
use crate::record::wire::encode_field;
use crate::record::{
    Chunk, FREE, InterruptedSpan, OPEN_SPAN_BYTES, RECORD, RESOURCE_RECORDS, RESOURCE_TAG, SCOPE_RECORDS,
    SCOPE_TAG, SECOND_COPY, Signal, SlotHeader, SpanId, content, decode_codeword, frames, guard, records_in,
    span_id_of, unguard,
};
use crate::spool::checksum;
use crate::spool::directory::instance_name;
use crate::spool::segment::Place as EntryPlace;
use crate::spool::storage::{check_file_size, open_own};

/// The chunks in the file of a dead process. Only [`settle`](Self::settle), [`note_settled`](Self::note_settled) and
/// [`release_free_slots`](Self::release_free_slots) change the file, so an inspection can read the file while its
/// process lives.
pub(crate) struct OrphanedQueue {
    /// Path of the file, which is open only while it is read or written.
    path: PathBuf,
    pub(crate) header: Header,
    resource: Vec<u8>,
    chunks: VecDeque<OrphanedChunk>,
    /// Spans that were open, with the numbers of their places.
    interrupted: BTreeMap<SpanId, (u32, InterruptedSpan)>,
    /// Last time that the process is known to have lived, in nanoseconds since 1970.
    last_alive: u64,
    /// True if the system was rebooted after the process wrote the file: then only a checksum proves that bytes are
    /// intact.
    is_of_other_boot: bool,
    /// Lower bound of the records that were in segments when the process died, by signal.
    pub(crate) spooled: [u64; Signal::COUNT],
    /// Number of chunks and open spans with damage.
    pub(crate) damaged: u64,
    /// Records that were lost by this damage, by signal, and bytes with an unknown number of further lost records.
    pub(crate) lost: [u64; Signal::COUNT],
    pub(crate) lost_bytes: u64,
    /// Number of chunks that may not have reached the disk before the system was booted again.
    pub(crate) unproven: u64,
}

#[derive(Debug, Clone, Copy)]
struct OrphanedChunk {
    number: u32,
    signal: Signal,
    order: u32,
    committed: u32,
    settled: u32,
    sealed: u32,
    checksum: u32,
    /// End of the bytes that the entry at `entry` contains, if that entry was written.
    spooled: u32,
    entry: EntryPlace,
}

/// Where the records of a request are in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Slot of the chunk; `None` for spans that were open.
    pub(crate) slot: Option<u32>,
    /// Places for open spans that hold these records: interrupted spans, or ended spans that the slot holds, too.
    open_spans: Vec<u32>,
}

/// Records of one chunk, or spans that were open, as a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OrphanedRequest {
    pub(crate) place: Place,
    pub(crate) records: u64,
    /// An encoded `Export…ServiceRequest`.
    pub(crate) body: Vec<u8>,
}

impl OrphanedQueue {
    /// Reads the headers and the open spans of the file. The chunks themselves are read by [`next`](Self::next).
    pub(crate) fn read(path: &Path, boot_id: [u8; 16]) -> Result<Self, Unreadable> {
        let file = open_own(path, OpenOptions::new().read(true))?;
        let bytes = file.metadata()?.len();
        let mut page = [0; PAGE];
        let page_bytes = PAGE.min(bytes as usize);
        file.read_exact_at(&mut page[..page_bytes], 0)?;
        let is_cut =
            (1..PAGE).contains(&page_bytes) && MAGIC.iter().zip(&page[..page_bytes]).all(|(a, b)| a == b);
        if is_cut {
            return Err(Unreadable::Damaged);
        }
        // The length of the resource may have a flipped bit. Nearly every resource fits in a page, so at least a page
        // is read.
        let claimed = Header::read(&page).map_or(0, |header| header.resource_bytes as usize).max(PAGE);
        let mut resource = vec![0; bytes.saturating_sub(PAGE as u64).min(claimed as u64) as usize];
        file.read_exact_at(&mut resource, PAGE as u64)?;
        let header = Header::read_corrected(&mut page, &mut resource)?;
        if header.data_at() as u64 > bytes {
            return Err(Unreadable::Damaged);
        }
        resource.truncate(header.resource_bytes as usize);
        if path.file_stem().and_then(OsStr::to_str) != Some(&instance_name(header.instance)) {
            return Err(Unreadable::Renamed);
        }
        let mut slot_headers = vec![0; header.slots as usize * SLOT_HEADER_BYTES];
        file.read_exact_at(&mut slot_headers, header.slot_headers_at() as u64)?;
        let (mut chunks, mut damaged) = (Vec::new(), 0);
        for (number, slot) in (0u32..).zip(slot_headers.chunks_exact(SLOT_HEADER_BYTES)) {
            match OrphanedChunk::read(number, slot, header.slots) {
                Some(chunk) => chunks.extend(chunk.filter(|chunk| chunk.committed > chunk.settled)),
                None => damaged += 1,
            }
        }
        chunks.sort_by_key(|chunk| chunk.order);
        let is_of_other_boot = header.boot_id != boot_id;
        let spooled = |signal| unguard(word(&page, SPOOLED_AT / 4 + signal as usize)).unwrap_or(0).into();
        let mut left = Self {
            path: path.to_owned(),
            header,
            resource,
            chunks: chunks.into(),
            interrupted: BTreeMap::new(),
            last_alive: 0,
            is_of_other_boot,
            // After another boot, the recorder on disk may be older or newer than the segments, so its count says
            // nothing about them.
            spooled: if is_of_other_boot { [0; Signal::COUNT] } else { Signal::ALL.map(spooled) },
            damaged,
            lost: [0; Signal::COUNT],
            lost_bytes: damaged * SLOT_BYTES as u64,
            unproven: 0,
        };
        // Open spans have no checksum, so they cannot be trusted after another boot.
        let is_closed = decode_codeword(word(&page, READY_AT / 4)) == decode_codeword(CLOSED);
        if !is_closed && !is_of_other_boot {
            let alive = unguard(word(&page, ALIVE_AT / 4)).unwrap_or(0);
            left.read_open_spans(&file, u64::from(alive) * ALIVE_MS)?;
        }
        Ok(left)
    }

    fn read_open_spans(&mut self, file: &File, alive_ms: u64) -> io::Result<()> {
        let mut places = vec![0; self.header.open_spans as usize * OPEN_SPAN_SLOT_BYTES];
        file.read_exact_at(&mut places, self.header.open_spans_at() as u64)?;
        self.last_alive = self.header.created.saturating_add(alive_ms).saturating_mul(1_000_000);
        for (number, place) in (0u32..).zip(places.chunks_exact(OPEN_SPAN_SLOT_BYTES)) {
            let committed = unguard(word(place, 0));
            if committed == Some(0) {
                continue;
            }
            let copy = committed.and_then(|committed| {
                let copies = &mut place[8..].chunks_exact(OPEN_SPAN_BYTES);
                let copy = copies.nth(usize::from(committed & SECOND_COPY != 0))?;
                copy.get(..(committed & !SECOND_COPY) as usize)
            });
            match copy.and_then(InterruptedSpan::read) {
                Some(span) if !span.is_sampled() => {}
                Some(span) => {
                    self.last_alive = self.last_alive.max(span.last_time());
                    self.interrupted.insert(span.span_id(), (number, span));
                }
                None => {
                    self.damaged += 1;
                    self.lost[Signal::Traces as usize] += 1;
                }
            }
        }
        Ok(())
    }

    /// Removes the records that are also in an entry of a segment, according to `has_entry`: the process died after it
    /// wrote the entry and before it settled the slot. Returns the slots of these records, each with the number of
    /// bytes that are now settled.
    ///
    /// # Errors
    /// Returns the errors of `has_entry`.
    pub(crate) fn leave_to_entries(
        &mut self,
        mut has_entry: impl FnMut(EntryPlace) -> io::Result<bool>,
    ) -> io::Result<Vec<(u32, u32)>> {
        let (mut last, mut left) = (None, Vec::new());
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.spooled > chunk.settled) {
            // `has_entry` reads the whole entry. Adjacent chunks often share an entry, so the last result is kept.
            let is_there = match last {
                Some((place, is_there)) if place == chunk.entry => is_there,
                _ => has_entry(chunk.entry)?,
            };
            last = Some((chunk.entry, is_there));
            if is_there {
                chunk.settled = chunk.spooled;
                left.push((chunk.number, chunk.settled));
            }
        }
        self.chunks.retain(|chunk| chunk.committed > chunk.settled);
        Ok(left)
    }

    /// Stores in the file how many bytes of these slots are settled.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. The next process may then send the records once more.
    pub(crate) fn note_settled(&self, slots: &[(u32, u32)]) -> io::Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let file = open_own(&self.path, OpenOptions::new().write(true))?;
        slots.iter().try_for_each(|(number, settled)| {
            let at = (self.slot_header_at(*number) + offset_of!(SlotHeader, settled)) as u64;
            check_file_size(at + 4)?;
            file.write_all_at(&guard(*settled).to_ne_bytes(), at)
        })
    }

    /// Takes interrupted spans for one request, as many as a chunk could hold.
    fn next_interrupted(&mut self) -> Option<OrphanedRequest> {
        let (mut numbers, mut spans) = (Vec::new(), Vec::new());
        while let Some((_, (number, span))) = self.interrupted.pop_first() {
            numbers.push(number);
            spans.push(span);
            if spans.len() * OPEN_SPAN_BYTES >= Chunk::BYTES {
                break;
            }
        }
        let scopes = spans.iter().map(|span| ScopeRecords {
            resource: span.resource.as_deref().unwrap_or(&self.resource),
            scope: &span.scope,
            is_whole: true,
            records: span.framed(self.last_alive),
        });
        let (body, records) = (request_of(scopes), spans.len() as u64);
        let place = Place { slot: None, open_spans: numbers };
        (records > 0).then_some(OrphanedRequest { place, records, body })
    }

    /// Returns the blocks of free slots to the file system, so that a program that crashes in a loop does not leave a
    /// whole recorder each time. Does nothing if the recorder is damaged, because a slot may then only seem to be free.
    #[allow(unsafe_code)]
    pub(crate) fn release_free_slots(&self) {
        if self.damaged > 0 {
            return;
        }
        let Ok(file) = open_own(&self.path, OpenOptions::new().write(true)) else { return };
        let mut in_use: Vec<_> = self.chunks.iter().map(|chunk| (chunk.number, chunk.slots())).collect();
        in_use.sort_unstable();
        let end = (self.header.slots, 0);
        let mut free_from = 0;
        for (number, slots) in in_use.into_iter().chain([end]) {
            let at = |slot: u32| self.header.data_at() as u64 + u64::from(slot) * SLOT_BYTES as u64;
            let (offset, bytes) = (at(free_from), at(number).saturating_sub(at(free_from)));
            if let (Ok(offset), Ok(bytes @ 1..)) = (offset.try_into(), bytes.try_into()) {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                // SAFETY: a call on an open file; if it fails, the blocks stay allocated
                unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) };
            }
            free_from = free_from.max(number + slots);
        }
    }

    /// Returns the disk space of the file.
    pub(crate) fn bytes(&self) -> u64 {
        fs::symlink_metadata(&self.path).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Takes the records of the oldest chunk of a signal as a request. After the last chunk of traces, takes spans that
    /// were open. Damaged records are counted and left out.
    pub(crate) fn next(&mut self, signal: Signal) -> Option<OrphanedRequest> {
        while let Some(at) = self.chunks.iter().position(|chunk| chunk.signal == signal) {
            let chunk = self.chunks.remove(at)?;
            if let Some(request) = self.request(&chunk) {
                return Some(request);
            }
        }
        if signal == Signal::Traces { self.next_interrupted() } else { None }
    }

    fn request(&mut self, chunk: &OrphanedChunk) -> Option<OrphanedRequest> {
        let mut data = vec![0; chunk.committed as usize];
        let at = self.header.data_at() as u64 + u64::from(chunk.number) * SLOT_BYTES as u64;
        let file = open_own(&self.path, OpenOptions::new().read(true));
        if file.and_then(|file| file.read_exact_at(&mut data, at)).is_err() {
            self.damaged += 1;
            self.lost_bytes += u64::from(chunk.committed - chunk.settled);
            return None;
        }
        // A flipped bit in the data changes several bits of a CRC. If the two checksums differ in a single bit, that
        // bit has flipped in the stored checksum, and the data are intact.
        let is_proven =
            chunk.sealed == chunk.committed && (checksum([&data[..]]) ^ chunk.checksum).count_ones() <= 1;
        let proof = match is_proven {
            true => Proof::Checksum,
            false if self.is_of_other_boot => {
                self.unproven += 1;
                return None;
            }
            false if chunk.sealed == 0 => Proof::Framing,
            false => Proof::None,
        };
        let mut open_spans = Vec::new();
        if chunk.signal == Signal::Traces && !self.interrupted.is_empty() {
            // A span in a chunk has ended. If its place is in use, the process died before it freed the place.
            let ended = |id| self.interrupted.remove(&id).map(|(number, _)| number);
            open_spans.extend(frames(&data).filter_map(span_id_of).filter_map(ended));
        }
        let ((body, records), lost_records, lost_bytes) = build(chunk, &data, &self.resource, proof);
        self.damaged += u64::from(lost_records > 0 || lost_bytes > 0);
        self.lost[chunk.signal as usize] += lost_records;
        self.lost_bytes += lost_bytes as u64;
        let place = Place { slot: Some(chunk.number), open_spans };
        (records > 0).then_some(OrphanedRequest { place, records, body })
    }

    /// Frees the places of a request whose records have an outcome.
    pub(crate) fn settle(&self, place: &Place) -> io::Result<()> {
        let file = open_own(&self.path, OpenOptions::new().write(true))?;
        let clear = |(at, word): (usize, u32)| {
            check_file_size(at as u64 + 4)?;
            file.write_all_at(&word.to_ne_bytes(), at as u64)
        };
        let open_span =
            |number: &u32| (self.header.open_spans_at() + *number as usize * OPEN_SPAN_SLOT_BYTES, 0);
        let slot = |number| (self.slot_header_at(number), FREE);
        // The slot is freed last: as long as a copy of an open span exists, the slot shows that the span has ended.
        place.open_spans.iter().map(open_span).chain(place.slot.map(slot)).try_for_each(clear)
    }

    fn slot_header_at(&self, number: u32) -> usize {
        self.header.slot_headers_at() + number as usize * SLOT_HEADER_BYTES
    }

    /// Returns whether records of this signal are left to take.
    pub(crate) fn has(&self, signal: Signal) -> bool {
        self.chunks.iter().any(|chunk| chunk.signal == signal)
            || signal == Signal::Traces && !self.interrupted.is_empty()
    }
}

impl OrphanedChunk {
    /// Returns the number of slots that the records occupy.
    fn slots(&self) -> u32 {
        self.committed.div_ceil(SLOT_BYTES as u32)
    }

    /// Reads the header of a slot. Returns `Some(None)` for a free slot, and `None` for a header that no recorder
    /// wrote.
    fn read(number: u32, header: &[u8], all_slots: u32) -> Option<Option<Self>> {
        let Some(&signal) = Signal::ALL.get(decode_codeword(word(header, 0))?) else { return Some(None) };
        let number_at = |at| unguard(word(header, at));
        // A sealed chunk does not grow, so its sealed length replaces a damaged `committed`.
        let (sealed, committed) = (number_at(5), number_at(1));
        let committed = committed.or(sealed.filter(|sealed| *sealed > 0))?;
        let entry = number_at(8).zip(number_at(9));
        let (segment, offset) = entry.unwrap_or_default();
        let chunk = Self {
            number,
            signal,
            committed,
            // If the number is unknown, 0 is used, and the records may be sent twice.
            settled: number_at(2).filter(|settled| *settled <= committed).unwrap_or(0),
            order: number_at(3).unwrap_or(0),
            sealed: sealed.unwrap_or(0),
            checksum: word(header, 6),
            spooled: number_at(7).filter(|end| entry.is_some() && *end <= committed).unwrap_or(0),
            entry: EntryPlace { segment: segment.into(), offset: offset.into() },
        };
        let slots = number_at(4).unwrap_or(chunk.slots().max(1));
        let is_sound = slots > 0
            && number.checked_add(slots).is_some_and(|end| end <= all_slots)
            && chunk.slots() <= slots
            && chunk.sealed <= committed;
        is_sound.then_some(Some(chunk))
    }
}

fn word(header: &[u8], at: usize) -> u32 {
    header[4 * at..4 * at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

/// Evidence that the bytes of a chunk are intact.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Checksum,
    /// The process died before it sealed the chunk: well-formed frames are trusted.
    Framing,
    None,
}

/// Builds a request from the records of a chunk after the offset `settled`. Returns the body and the number of records
/// of the request, the number of lost records, and the number of bytes at the end in which no frame can be found.
fn build(chunk: &OrphanedChunk, data: &[u8], resource: &[u8], proof: Proof) -> ((Vec<u8>, u64), u64, usize) {
    let (end, damaged) = match proof {
        Proof::Checksum => (data.len(), None),
        Proof::Framing | Proof::None => examine(chunk.signal, data),
    };
    // A `settled` inside a frame is damaged, so 0 is used: sending records twice is better than losing them.
    let mut starts = offsets(&data[..end]).map(|(start, _)| start);
    let settled = chunk.settled as usize;
    let settled = if settled >= end || starts.any(|at| at == settled) { settled } else { 0 };
    let (mut scopes, mut own_resource) = (Vec::<ScopeRecords<'_>>::new(), None);
    let (mut records, mut lost_records, mut read) = (0, 0, 0);
    for (start, frame) in offsets(&data[..end]) {
        let is_whole = damaged != Some(start);
        match (frame[0], content(frame), scopes.last_mut()) {
            (RESOURCE_TAG, Some(resource), _) => own_resource = Some((resource, is_whole)),
            (SCOPE_TAG, Some(scope), _) => {
                let (resource, resource_is_whole) = own_resource.take().unwrap_or((resource, true));
                let is_whole = is_whole && resource_is_whole;
                scopes.push(ScopeRecords { resource, scope, is_whole, records: Vec::new() });
            }
            (RECORD, _, Some(_)) if start < settled => {}
            (RECORD, _, Some(scope)) => {
                let count = records_in(chunk.signal, frame) as u64;
                if is_whole && scope.is_whole && proof != Proof::None {
                    scope.records.extend_from_slice(frame);
                    records += count;
                } else {
                    lost_records += count.max(1);
                }
            }
            _ => break,
        }
        read = start + frame.len();
    }
    ((request_of(scopes), records), lost_records, data.len() - read.max(settled))
}

/// Returns the end of the frames found in a chunk, and the offset of the damaged frame if only one is damaged. If the
/// bytes after that frame are not all intact frames, its length is not trusted, and the end is the start of that frame.
fn examine(signal: Signal, data: &[u8]) -> (usize, Option<usize>) {
    let (mut end, mut damaged) = (0, None);
    for (start, frame) in offsets(data) {
        let part = match frame[0] {
            RESOURCE_TAG => Part::Resource,
            SCOPE_TAG => Part::Scope,
            RECORD => Part::Record,
            _ => break,
        };
        let is_valid = |bytes: &[u8]| !bytes.is_empty() && schema::is_valid(part, signal, bytes);
        if !content(frame).is_some_and(is_valid) {
            if let Some(first) = damaged {
                return (first, None);
            }
            damaged = Some(start);
        }
        end = start + frame.len();
    }
    match damaged {
        Some(first) if end < data.len() => (first, None),
        _ => (end, damaged),
    }
}

/// Returns the frames with their offsets.
fn offsets(data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    frames(data).scan(0, |end, frame| {
        let start = std::mem::replace(end, *end + frame.len());
        Some((start, frame))
    })
}

/// Framed records of one scope.
struct ScopeRecords<'a> {
    /// Encoded fields of the resource and of the scope. In the request, both precede the records.
    resource: &'a [u8],
    scope: &'a [u8],
    /// True if `resource` and `scope` are intact.
    is_whole: bool,
    records: Vec<u8>,
}

/// Returns the body of a request with these records.
fn request_of<'a>(scopes: impl IntoIterator<Item = ScopeRecords<'a>>) -> Vec<u8> {
    let mut body = Vec::new();
    for ScopeRecords { resource, scope, records, .. } in scopes {
        if !records.is_empty() {
            let mut resource_records = resource.to_vec();
            encode_field(SCOPE_RECORDS, &[scope, &records].concat(), &mut resource_records);
            encode_field(RESOURCE_RECORDS, &resource_records, &mut body);
        }
    }
    body
}
