//! The flight recorder: the queue's chunks in a memory-mapped file, so that accepted records survive `kill -9` without
//! a system call.
//!
//! A chunk of the queue takes one or more adjacent slots (4 KiB each) of the file instead of heap memory. The page
//! cache belongs to the kernel, so the bytes stay when the process dies, and the next process reads them from the file
//! ([`OrphanedQueue`]). A record in a slot costs one Release store more than a record on the heap (5 instructions of
//! 93, measured).
//!
//! # States of a slot
//! ```text
//!          take: committed = 0, …, state = signal (last)
//!   FREE ────────────────────────────────────────────────► in use
//!    ▲                                                       │ append: bytes, then committed
//!    │                                                       │ seal: checksum, then sealed
//!    │                                                       │ spool: entry place, spooled, entry written, settled
//!    └───────────────────────────────────────────────────────┘
//!          drop: state = FREE, then back to the pool; or kept, if the exporter has ended (`keeps_records`)
//! ```
//!
//! # Order of stores
//! The process may be killed between any two instructions, and the next process reads the result of the stores made
//! until then. Header words have Release stores, so neither compiler nor CPU moves an earlier store behind them: a
//! header never describes bytes that are not there. The matching acquire is the lock of the file, which the kernel
//! releases only after the death of the process; the next process takes the lock and reads the file by `read(2)`.
//! `record::slot` lists the order for each step. A test single-steps a child by ptrace and recovers the file after each
//! instruction.
//!
//! # Faults
//! All blocks of the file are allocated by `Recorder::create`, so a full disk is an error there, and not in a later
//! store. If the file is truncated or a page cannot be read, the SIGBUS handler in [`map`] keeps the process alive: the
//! recorder and its records are lost and counted, and chunks are on the heap from then on.

mod layout;
#[allow(unsafe_code)]
mod map;
mod orphaned_queue;

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::process::lock;
use crate::record::{
    Chunk, FREE, LOST, MAX_GUARDED, OpenSpanBytes, OpenSpanSlot, Signal, Slot, SlotHeader, SlotOwner,
    SlotPlace, guard,
};
use crate::spool::directory::NewFile;
use crate::spool::now_ms;
use crate::spool::storage::{check_file_size, open_own};
use layout::{
    ALIVE_AT, ALIVE_MS, CLOSED, OPEN_SPAN_SLOT_BYTES, PAGE, READY_AT, SLOT_BYTES, SLOT_HEADER_BYTES,
    SPOOLED_AT,
};
pub(super) use layout::{Header, Unreadable};
pub(super) use map::Map;
use map::{ForkFlag, Protected};
pub(super) use orphaned_queue::{OrphanedQueue, Place};

/// The mapped file of one exporter, and the pools of its slots.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Declared first: the registration must be dropped before `map`, to which it refers.
    _protected: Protected,
    map: Map,
    _lock: Arc<Map>,
    fork_flag: ForkFlag,
    header: Header,
    pool: Mutex<Pool>,
    open_spans: Mutex<Pool>,
    next_order: AtomicU32,
    /// True once the exporter has ended: slots that are dropped keep their records for the next process.
    keeps_records: AtomicBool,
    /// Reason why the recorder has no slots: an unsuitable file system or a full disk.
    pub(super) unfit: Option<io::Error>,
    /// True once a chunk found no slot, and always without slots: some records are in memory only.
    has_missed: AtomicBool,
}

/// Allocator of slots: next fit over a bitmap.
#[derive(Debug)]
struct Pool {
    in_use: Vec<bool>,
    /// Where the next search begins.
    next: usize,
}

impl Recorder {
    /// Writes the parts that `header` describes to an empty file, then gives the file its final name. A file with a
    /// final name is therefore complete. If it is blank, it was damaged later.
    pub(super) fn create(new: &NewFile, mut header: Header, resource: &[u8]) -> io::Result<Arc<Self>> {
        let file = &new.file;
        let unfit = check_file_system(file).err();
        if unfit.is_some() {
            (header.slots, header.open_spans) = (0, 0);
        }
        check_file_size(header.file_bytes())?;
        allocate(file, header.file_bytes())?;
        file.write_all_at(&header.to_page(resource), 0)?;
        file.write_all_at(resource, PAGE as u64)?;
        let mut slot_header = [0; SLOT_HEADER_BYTES];
        slot_header[..4].copy_from_slice(&FREE.to_ne_bytes());
        file.write_all_at(&slot_header.repeat(header.slots as usize), header.slot_headers_at() as u64)?;
        let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let map = Map::of_file(file, usize::try_from(header.file_bytes()).map_err(too_large)?)?;
        let recorder = Self::of_map(map, &new.lock, header, unfit)?;
        new.publish()?;
        Ok(recorder)
    }

    /// Returns a recorder without slots, whose file has no name. Used if the disk has no room for the file, and if the
    /// spool only drains: a named file would remain if the process were killed.
    pub(super) fn unnamed(new: &NewFile, header: Header, unfit: Option<io::Error>) -> io::Result<Arc<Self>> {
        new.discard();
        let map = Map::to_keep_lock(&new.file)?;
        Self::of_map(map, &new.lock, Header { slots: 0, open_spans: 0, ..header }, unfit)
    }

    fn of_map(map: Map, lock: &Arc<Map>, header: Header, unfit: Option<io::Error>) -> io::Result<Arc<Self>> {
        let fork_flag = ForkFlag::new()?;
        let pool = |slots: u32| Mutex::new(Pool { in_use: vec![false; slots as usize], next: 0 });
        Ok(Arc::new(Self {
            _protected: Protected::new(map.start, map.bytes, fork_flag.word()),
            map,
            _lock: Arc::clone(lock),
            fork_flag,
            pool: pool(header.slots),
            open_spans: pool(header.open_spans),
            next_order: AtomicU32::new(0),
            keeps_records: AtomicBool::new(false),
            has_missed: AtomicBool::new(header.slots == 0),
            header,
            unfit,
        }))
    }

    /// Takes adjacent slots for a chunk of this signal whose first record has `bytes` bytes: enough for a full chunk of
    /// such records or, if fewer adjacent slots are free, enough for this record alone. Returns `None` if not even
    /// these are free, and in a forked child.
    pub(crate) fn take(self: &Arc<Self>, signal: Signal, bytes: usize) -> Option<Slot> {
        if !self.fork_flag.is_set() {
            return None;
        }
        let bytes = bytes.max(1);
        let [wanted, needed] =
            [Chunk::BYTES / bytes, 1].map(|records| (records.max(1) * bytes).div_ceil(SLOT_BYTES));
        let is_countable = needed * SLOT_BYTES <= MAX_GUARDED as usize;
        let taken = is_countable.then(|| lock(&self.pool).take(wanted, needed)).flatten();
        let Some((number, slots)) = taken else {
            self.has_missed.store(true, Ordering::SeqCst);
            return None;
        };
        let mut slot = self.slot(number, slots);
        slot.begin(signal, self.next_order.fetch_add(1, Ordering::Relaxed), slots);
        // If the file was truncated, the stores above have raised SIGBUS, and the recorder is now lost.
        self.fork_flag.is_set().then_some(slot)
    }

    /// Makes the [`Slot`] for slots that were just taken from the pool.
    #[allow(unsafe_code)]
    fn slot(self: &Arc<Self>, number: usize, slots: usize) -> Slot {
        let header_at = self.header.slot_headers_at() + number * size_of::<SlotHeader>();
        let data_at = self.header.data_at() + number * SLOT_BYTES;
        assert!(data_at + slots * SLOT_BYTES <= self.map.bytes, "the pool has as many slots as the file");
        // SAFETY: header and data are within the mapping, which lives as long as this recorder. A forked child does not
        // have the mapping, and does not use the slot, because the flag is 0 there. Headers are atomic, and have the
        // right alignment and size. The pool gives each slot to one chunk at a time, so nothing else in this process
        // refers to the data; other processes do not write the file before this one has ended.
        unsafe {
            let header = self.map.start.add(header_at).cast::<SlotHeader>().as_ref();
            let is_mapped = mem::transmute::<&AtomicU32, &'static AtomicU32>(self.fork_flag.word());
            let data = self.map.start.add(data_at).as_ptr();
            let data = std::slice::from_raw_parts_mut(data, slots * SLOT_BYTES);
            Slot::new(SlotPlace { header, is_mapped, owner: Arc::clone(self) as _, number }, data)
        }
    }

    /// Takes a place for a span while it is open. Returns `None` if no place is free, and in a forked child.
    #[allow(unsafe_code)]
    pub(crate) fn take_open_span(self: &Arc<Self>) -> Option<OpenSpanSlot> {
        if !self.fork_flag.is_set() {
            return None;
        }
        let (number, _) = lock(&self.open_spans).take(1, 1)?;
        let at = self.header.open_spans_at() + number * OPEN_SPAN_SLOT_BYTES;
        assert!(
            at + OPEN_SPAN_SLOT_BYTES <= self.header.data_at(),
            "the pool has as many places as the file"
        );
        // SAFETY: as in `slot`. The word is borrowed as shared, and the copies are borrowed as exclusive, each by a
        // separate reference.
        unsafe {
            let bytes = self.map.start.add(at).cast::<OpenSpanBytes>().as_ptr();
            let is_mapped = mem::transmute::<&AtomicU32, &'static AtomicU32>(self.fork_flag.word());
            let (header, copies) = (&(*bytes).committed, &mut (*bytes).copies);
            Some(OpenSpanSlot::new(
                SlotPlace { header, is_mapped, owner: Arc::clone(self) as _, number },
                copies,
            ))
        }
    }

    /// Returns whether the recorder has places for open spans.
    pub(crate) fn has_open_spans(&self) -> bool {
        self.header.open_spans > 0
    }

    /// Stores the current time. If the process dies, interrupted spans do not end before the last stored time.
    pub(super) fn note_alive(&self) {
        if self.has_open_spans() {
            let since = now_ms().saturating_sub(self.header.created) / ALIVE_MS;
            self.store(ALIVE_AT, guard(since.min(MAX_GUARDED.into()) as u32));
        }
    }

    /// Stores how many records are in segments, by signal.
    pub(super) fn note_spooled(&self, records: [u64; Signal::COUNT]) {
        let words = guarded(records).into_iter().enumerate();
        words.for_each(|(signal, word)| self.store(SPOOLED_AT + 4 * signal, word));
    }

    /// Stores a word of the first page.
    #[allow(unsafe_code)]
    fn store(&self, at: usize, value: u32) {
        assert!(at % align_of::<AtomicU32>() == 0 && at < PAGE, "it is a word of the first page");
        // A recorder without a name has no first page.
        if self.fork_flag.is_set() && self.map.bytes >= PAGE {
            // SAFETY: the word is within the mapping, is aligned, and is used as this type only
            unsafe { self.map.start.add(at).cast::<AtomicU32>().as_ref() }.store(value, Ordering::Release);
        }
    }

    /// Closes the recorder: slots that are dropped from now on keep their records for the next process, and open spans
    /// no longer count as interrupted. Returns whether no records are left.
    pub(super) fn close(&self) -> bool {
        self.store(READY_AT, CLOSED);
        self.keeps_records.store(true, Ordering::SeqCst);
        self.is_lost() || !lock(&self.pool).in_use.contains(&true)
    }

    /// Returns whether no chunk was ever stored, and no open span is stored now. Returns false in a forked child.
    pub(super) fn is_unused(&self) -> bool {
        let has_open_spans = lock(&self.open_spans).in_use.contains(&true);
        self.fork_flag.is_set() && self.next_order.load(Ordering::Relaxed) == 0 && !has_open_spans
    }

    /// Returns whether the file was truncated, or could not be read, while it was in use.
    pub(super) fn is_lost(&self) -> bool {
        self.fork_flag.word().load(Ordering::Acquire) == LOST
    }

    /// Makes dropped slots keep their records from now on, as if the process had been killed.
    #[cfg(test)]
    pub(crate) fn abandon(&self) {
        self.keeps_records.store(true, Ordering::SeqCst);
    }

    /// Returns the bytes of a recorder file without slots. The file stores `spooled`, the number of records in segments
    /// by signal.
    pub(super) fn empty_file(&self, spooled: [u64; Signal::COUNT]) -> Vec<u8> {
        let header = Header { slots: 0, open_spans: 0, resource_bytes: 0, ..self.header.clone() };
        let mut page = header.to_page(&[]);
        page[READY_AT..][..4].copy_from_slice(&CLOSED.to_ne_bytes());
        page.splice(
            SPOOLED_AT..SPOOLED_AT + 4 * Signal::COUNT,
            guarded(spooled).into_iter().flat_map(u32::to_ne_bytes),
        );
        page
    }

    pub(crate) fn slots(&self) -> usize {
        self.header.slots as usize
    }

    /// Returns whether a slot was free for every chunk so far, and the slots are not lost.
    pub(crate) fn has_all(&self) -> bool {
        !self.has_missed.load(Ordering::SeqCst) && !self.is_lost()
    }
}

/// Stores in the recorder of a dead process how many records are in its segments.
pub(super) fn note_spooled(path: &Path, records: [u64; Signal::COUNT]) -> io::Result<()> {
    check_file_size(PAGE as u64)?;
    let file = open_own(path, OpenOptions::new().write(true))?;
    file.write_all_at(guarded(records).map(u32::to_ne_bytes).as_flattened(), SPOOLED_AT as u64)
}

/// Returns the guarded words of record counts, which saturate at [`MAX_GUARDED`].
fn guarded(records: [u64; Signal::COUNT]) -> [u32; Signal::COUNT] {
    records.map(|records| guard(records.min(MAX_GUARDED.into()) as u32))
}

impl SlotOwner for Recorder {
    fn keeps_records(&self) -> bool {
        self.keeps_records.load(Ordering::SeqCst)
    }

    fn take_back(&self, number: usize, slots: usize) {
        lock(&self.pool).take_back(number, slots);
    }

    fn take_back_open_span(&self, number: usize) {
        lock(&self.open_spans).take_back(number, 1);
    }
}

impl Pool {
    /// Takes `wanted` adjacent slots, or `needed` adjacent slots if no run of free slots is long enough. Returns the
    /// index of the first slot, and the number of slots.
    fn take(&mut self, wanted: usize, needed: usize) -> Option<(usize, usize)> {
        let all = self.in_use.len();
        let mut taken = None;
        // The second range finds the runs of slots that begin before `next`.
        'search: for slots in [self.next..all, 0..all.min(self.next + wanted - 1)] {
            let mut free = 0;
            for slot in slots {
                free = if self.in_use[slot] { 0 } else { free + 1 };
                if free == wanted {
                    taken = Some((slot + 1 - wanted, wanted));
                    break 'search;
                } else if free == needed && taken.is_none() {
                    taken = Some((slot + 1 - needed, needed));
                }
            }
        }
        let (first, slots) = taken?;
        self.in_use[first..first + slots].fill(true);
        self.next = first + slots;
        taken
    }

    /// Takes slots back. If they are the last ones before `next`, the next search begins with them, so the slots that a
    /// chunk gives back unused do not become a gap.
    fn take_back(&mut self, number: usize, slots: usize) {
        self.in_use[number..number + slots].fill(false);
        if number + slots == self.next {
            self.next = number;
        }
    }
}

/// Allocates all blocks of a file.
#[allow(unsafe_code)]
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(not(target_env = "gnu"))]
    use libc::posix_fallocate;
    #[cfg(target_env = "gnu")]
    use libc::posix_fallocate64 as posix_fallocate;

    in_steps(bytes, |at, len| {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let (at, len) = (at.try_into().map_err(too_large)?, len.try_into().map_err(too_large)?);
        // SAFETY: a call on an open file
        match unsafe { posix_fallocate(file.as_raw_fd(), at, len) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    })
}

/// Calls `allocate` for 1 MiB at a time. A signal, such as that of a profiler's timer, interrupts the call, and the
/// file system may then undo the whole allocation of that call. With small steps, the allocation still makes progress.
fn in_steps(bytes: u64, mut allocate: impl FnMut(u64, u64) -> io::Result<()>) -> io::Result<()> {
    const STEP: u64 = 1 << 20;
    let mut done = 0;
    while done < bytes {
        let len = STEP.min(bytes - done);
        match allocate(done, len) {
            Ok(()) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fails unless the file system is known to overwrite blocks in place. Copy-on-write file systems allocate a block for
/// each overwrite, so a full disk would raise SIGBUS in the middle of a record.
#[allow(unsafe_code)]
#[allow(clippy::unnecessary_cast, reason = "the type differs between machines")]
fn check_file_system(file: &File) -> io::Result<()> {
    const TMPFS: i64 = 0x0102_1994;
    const EXT: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    let mut found = mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the call fills the structure that it is given
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the structure contains only numbers, and the call has filled it
    match unsafe { found.assume_init() }.f_type as i64 {
        TMPFS | EXT | XFS => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "only tmpfs, ext4 and xfs overwrite a file in place; choose a directory on one of them",
        )),
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
