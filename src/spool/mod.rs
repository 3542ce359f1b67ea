//! Inspection of a spool's directory: [`inspect`] reads the directory without changing it, as `standpipe spool` does.
//! The [guide](crate::guide::spool) explains the spool.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! # let directory = std::env::temp_dir().join(format!("standpipe-doc-inspect-{}", std::process::id()));
//! # let exporter = standpipe::Exporter::http("http://localhost:4318").spool(&directory);
//! # let config = standpipe::Config::new().exporter(exporter).drop_budget(std::time::Duration::from_secs(60));
//! # drop(standpipe::Telemetry::start(config)?);
//! for instance in standpipe::spool::inspect(&directory)? {
//!     println!("{}: {} records", instance.id, instance.records());
//! }
//! # std::fs::remove_dir_all(&directory)?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The spool keeps the records of one exporter on disk, in two parts: the flight recorder is a write-ahead log of the
// queue, and the journal is a log of requests that could not be delivered. `proto/spool.md` describes the bytes of
// both.
//
//   caller ─► chunk in a Recorder slot ─► batch ─► collector
//             <id>.recorder, mapped         │         ▲
//                                           ▼         │ oldest first
//                                        Journal ─────┤
//                          <id>-<n>.segment files     │
//                                                     │
//             OrphanedSpool of a dead process ────────┘
//             (its segments, then its queue, then its open spans)
//
// # Files
// `recorder` maps the queue's chunks, `journal` is a state machine over `storage` (tests replace the storage with one
// that fails), `segment` is the format of the journal's files, `orphaned_spool` reads the files of a dead process for
// delivery and inspection, and `directory` names, creates and locks files.
//
// # No record is lost
// At every moment between its acceptance and its outcome, a record is in at least one place on disk:
// 1. `Queue::enqueue` returns after the record is committed in a recorder slot (one Release store after the copy).
// 2. A batch that cannot be delivered is appended to the journal before its slots are marked as settled. A slot stores
//    the place of the entry before the entry is written (`note_entry`). If the process dies after the append and before
//    the mark, both copies exist, and the next process drops the copy in the slot (`OrphanedQueue::leave_to_entries`).
// 3. A slot is freed only after its records have an outcome or are in the journal, and a journal entry is marked as
//    done only after its records have an outcome. If the process dies earlier, the next process sends the records:
//    delivery is at least once, and at most one request per signal is sent twice.
//
// Exceptions to this rule are counted or reported: metrics that the worker collects, which are in memory until they are
// spooled; a chunk that finds no slot (`Recorder::has_all`); a file that was truncated or damaged; and, after a power
// loss, data that was not synced.
//
// # Locks and forks
// Each file is locked by `flock`, and a mapping of the file keeps the lock. Mappings are made with `MADV_DONTFORK`, so
// a forked child has neither memory nor lock; `ForkFlag` reads 0 there, which turns every use of a slot in a child into
// a no-op. Files are opened and locked under the fork lock (`process::with_fork_lock`): a child forked between `open`
// and `mmap` would share the lock for its whole life. In-process mutexes (`Recorder::pool`, `Recorder::open_spans`) are
// leaves: a thread that holds one of them takes no other lock.

mod contents;
pub(crate) mod crc32c;
mod directory;
mod journal;
mod lane;
mod orphaned_spool;
mod recorder;
mod segment;
mod storage;

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::config::{SpoolSettings, SpoolSync};
use crate::problem::Note;
use crate::record::{Signal, service_name};
pub use contents::{Contents, Instance};
pub(crate) use crc32c::checksum;
use directory::Directory;
use journal::{Entry, Journal, Limits};
use lane::{Jump, now_ms};
pub use orphaned_spool::inspect;
use orphaned_spool::{OrphanedSpool, Search, take_damage, tidy};
use recorder::Header;
pub(crate) use recorder::Recorder;
use segment::{Owner, Place};
use storage::Files;
#[cfg(test)]
pub(crate) use storage::tests::faults;

/// Maximum size of a segment, unless a single request is larger.
const SEGMENT_BYTES: u64 = 8 << 20;
/// Number of places for open spans in the flight recorder. A span without a place is not delivered if the process dies
/// before the span ends.
const OPEN_SPANS: u32 = 512;
/// Interval of [`Spool::tick`] while records are pending, or if the recorder has places for open spans.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay of the second search for files of dead processes: a process that was killed just before this one started may
/// not have ended yet during the first search.
const FIRST_SEARCH_DELAY: Duration = Duration::from_secs(1);
const SEARCH_INTERVAL: Duration = Duration::from_secs(60);

/// The files of one exporter in its spool directory, and the files that it took over from dead processes.
pub(crate) struct Spool {
    search: Search,
    instance: String,
    recorder: Arc<Recorder>,
    journal: Journal<Files>,
    /// Number of signals that the exporter takes. Each has an equal share of `limits.bytes`.
    signals: u64,
    next_tick: Option<Instant>,
    next_search: Option<Instant>,
    /// Time of the last tick, by the monotonic and the system clock.
    last_tick: Option<(Instant, u64)>,
    /// All notes so far, so that no note is reported twice.
    noted: BTreeSet<Note>,
    /// Files that were taken over from dead processes, oldest first.
    orphans: VecDeque<OrphanedSpool>,
    /// Time at which the request *in hand* (the one being sent) was written, by signal, in milliseconds since 1970.
    loaded_since: [u64; Signal::COUNT],
    /// Damaged and lost records since the last [`Spool::take_damaged`].
    damaged: [Dropped; Signal::COUNT],
    notes: Vec<Note>,
}

/// A request that was read from the spool. It stays on disk until [`Spool::settle`].
pub(crate) struct SpooledRequest {
    pub(crate) records: u64,
    pub(crate) body: Vec<u8>,
    /// True if this process accepted the records, false if a dead process did.
    pub(crate) is_own: bool,
}

/// Numbers of dropped records: those of this process, and those that dead processes left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) own: u64,
    pub(crate) of_others: u64,
}

impl Note {
    /// Creates a note about a problem that loses no records other than those that the ledger counts.
    fn new(message: String) -> Self {
        Self { message, is_unaccounted: false }
    }
}

impl Spool {
    /// Opens the spool of an exporter that takes `signals` signals, creates a recorder with `slots` slots, and takes
    /// over files of dead processes. Returns `None` if the settings have no directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be used. Also fails on a full disk, unless dead processes have left
    /// files: their delivery frees space.
    pub(crate) fn open(
        settings: &SpoolSettings,
        exporter: &str,
        resource: &[u8],
        slots: usize,
        signals: usize,
    ) -> io::Result<Option<Self>> {
        let Some(path) = &settings.directory else { return Ok(None) };
        let directory = if settings.drains { Directory::open_existing(path) } else { Directory::open(path) };
        let open = |directory| Self::open_in(directory, settings, exporter, resource, slots, signals);
        directory.and_then(open).map(Some).map_err(|error| {
            io::Error::new(error.kind(), format!("the spool \"{}\": {error}", path.display()))
        })
    }

    fn open_in(
        directory: Directory,
        settings: &SpoolSettings,
        exporter: &str,
        resource: &[u8],
        slots: usize,
        signals: usize,
    ) -> io::Result<Self> {
        let limits = Limits {
            bytes: settings.bytes as u64,
            age: settings.age.unwrap_or(Duration::MAX),
            segment_bytes: SEGMENT_BYTES.min(storage::max_file_bytes()),
            sync: settings.sync,
        };
        let owner = Owner::new(service_name(resource), exporter);
        let wanted = (!settings.drains).then(|| owner.clone());
        let search = Search { directory, wanted, limits, boot_id: boot_id() };
        let (mut orphans, mut notes) = search.take_over_all()?;
        // Only the headers of requests have been read so far; damaged bodies are found later.
        let damaged = tidy(&mut orphans, &mut notes);
        // A program that crashes in a loop must not fill the disk with recorders.
        let left: u64 = orphans.iter().map(OrphanedSpool::bytes).sum();
        let is_full = left > limits.bytes;
        if is_full && !settings.drains {
            notes.push(Note::new(format!(
                "queued records are lost if this process dies: files of dead processes already take {left} bytes, more than spool-bytes"
            )));
        }
        let (instance, new) = search.directory.create_recorder()?;
        let header = Header {
            slots: if is_full { 0 } else { slots as u32 },
            open_spans: if !is_full && settings.open_spans { OPEN_SPANS } else { 0 },
            resource_bytes: resource.len() as u32,
            created: now_ms(),
            boot_id: search.boot_id,
            instance: u64::from_str_radix(&instance, 16).unwrap_or_default(),
            owner: owner.clone(),
        };
        let unnamed = |unfit| Recorder::unnamed(&new, header.clone(), unfit);
        let created = match settings.drains {
            true => unnamed(None),
            false => Recorder::create(&new, header.clone(), resource).or_else(|error| match error.kind() {
                // A full disk must not prevent the delivery of other processes' records, which frees space.
                StorageFull | QuotaExceeded | FileTooLarge if !orphans.is_empty() => unnamed(Some(error)),
                _ => Err(error),
            }),
        };
        // `posix_fallocate` may leave a partial file on a full disk.
        let recorder = created.inspect_err(|_| new.discard())?;
        let unfit =
            recorder.unfit.as_ref().map(|why| format!("queued records are lost if this process dies: {why}"));
        notes.extend(unfit.map(Note::new));
        let mut files = Files::new(search.directory.path(), &instance);
        (files.recorder, files.owner) = (Some(Arc::clone(&recorder)), Some(owner));
        let (journal, _) = Journal::open(files, limits)?;
        Ok(Self {
            search,
            instance,
            recorder,
            journal,
            signals: signals.max(1) as u64,
            next_tick: None,
            next_search: None,
            last_tick: None,
            noted: notes.iter().cloned().collect(),
            orphans,
            loaded_since: [0; Signal::COUNT],
            damaged: damaged.map(|of_others| Dropped { own: 0, of_others }),
            notes,
        })
    }

    /// Returns the notes since the last call, to be reported to the program.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        if self.recorder.is_lost() {
            let path = self.search.directory.recorder_path(&self.instance);
            let what = "the flight recorder was truncated or cannot be read: its records are lost, and counted as damaged; until \
                        the next start, queued records are lost if this process dies; keep jobs that clean up away from the spool";
            self.note(Note::new(format!("{}: {what}", path.display())));
        }
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Syncs unless the policy is `Never`, searches for files of dead processes if a search is due, and drops expired
    /// requests. Returns the dropped records, or `None` if no tick is due.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<[Dropped; Signal::COUNT]> {
        if self.next_tick.is_some_and(|next| now < next) {
            return None;
        }
        self.next_tick = Some(now + TICK_INTERVAL);
        self.follow_clock(now);
        self.recorder.note_alive();
        // `sync_if_due` skips a sync within a second of the last sync. A request that was appended in that second would
        // stay unsynced until a later append or tick.
        if self.search.limits.sync != SpoolSync::Never {
            let synced = self.journal.sync();
            self.note_unsynced(synced);
        }
        if self.recorder.slots() > 0 && !self.recorder.has_all() && !self.recorder.is_lost() {
            let what = "some records are in memory only, and are lost if this process dies: the flight recorder had no adjacent \
                        free slots for them; a larger queue-bytes makes it larger";
            self.note(Note::new(what.to_owned()));
        }
        match self.next_search {
            None => self.next_search = Some(now + FIRST_SEARCH_DELAY),
            Some(next) if next <= now => {
                self.next_search = Some(now + SEARCH_INTERVAL);
                self.search_again();
            }
            Some(_) => {}
        }
        Some(self.expire())
    }

    /// Returns when [`tick`](Self::tick) is due next. Without pending records and without places for open spans, that
    /// is the time of the next search, so that an idle worker sleeps longer.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        let is_busy =
            self.recorder.has_open_spans() || Signal::ALL.into_iter().any(|signal| self.has_pending(signal));
        if is_busy { self.next_tick } else { self.next_search.max(self.next_tick) }
    }

    /// Returns whether the request in hand of this signal is older than `spool-age`.
    pub(crate) fn is_too_old(&self, signal: Signal) -> bool {
        let age = now_ms().saturating_sub(self.loaded_since[signal as usize]);
        u128::from(age) > self.search.limits.age.as_millis()
    }

    /// Corrects ages after the system clock was set forward. For example, a device without a battery-backed clock
    /// starts in 1970, and later gets the time from the network.
    fn follow_clock(&mut self, now: Instant) {
        let now = (now, now_ms());
        let last = self.last_tick.replace(now);
        let Some(jump) = last.and_then(|last| Jump::between(last, now)) else { return };
        self.journal.shift_times(jump);
        self.orphans.iter_mut().for_each(|orphan| orphan.shift_times(jump));
        self.loaded_since.iter_mut().for_each(|since| jump.shift(since));
    }

    /// Takes over the files of processes that died since the last search.
    fn search_again(&mut self) {
        match self.search.take_over_all() {
            Ok((orphans, notes)) => {
                self.orphans.extend(orphans);
                notes.into_iter().for_each(|note| self.note(note));
                self.tidy();
            }
            Err(error) => self.note(Note::new(format!(
                "the directory cannot be searched for files of dead processes: {error}"
            ))),
        }
    }

    /// Adds a note for [`take_notes`](Self::take_notes), unless it was reported before.
    fn note(&mut self, note: Note) {
        if self.noted.insert(note.clone()) {
            self.notes.push(note);
        }
    }

    /// Appends a request to the journal. Just before the write, calls `note_entry` with the segment and the offset of
    /// the entry.
    ///
    /// # Errors
    /// Returns an error if the signal's share has no room, or the disk fails. No part of the request is then kept.
    pub(crate) fn append(
        &mut self,
        signal: Signal,
        records: u64,
        body: &[&[u8]],
        note_entry: &dyn Fn(u32, u32),
    ) -> io::Result<()> {
        self.journal.limits.bytes = self.share_of(signal);
        let note = |Place { segment, offset }| {
            if let (Ok(segment), Ok(offset)) = (segment.try_into(), offset.try_into()) {
                note_entry(segment, offset);
            }
        };
        self.journal.append(signal, records, body, now_ms(), note)
    }

    /// Returns the bytes that the journal may use for a signal: an equal share of `spool-bytes`, minus the bytes of the
    /// same signal that dead processes left. Files of dead processes that belong to no single signal, such as
    /// recorders, reduce the share of every signal.
    fn share_of(&self, signal: Signal) -> u64 {
        let sum = |bytes: &dyn Fn(&OrphanedSpool) -> u64| self.orphans.iter().map(bytes).sum::<u64>();
        let of_signals: u64 =
            Signal::ALL.into_iter().map(|of| sum(&|orphan| orphan.journal.bytes_of(of))).sum();
        let of_none = sum(&OrphanedSpool::bytes).saturating_sub(of_signals);
        let share = self.search.limits.bytes.saturating_sub(of_none) / self.signals;
        share.saturating_sub(sum(&|orphan| orphan.journal.bytes_of(signal)))
    }

    /// Syncs written requests if the policy requires a sync now. A later call repeats a sync that failed.
    pub(crate) fn sync_if_due(&mut self, now: Instant) {
        let synced = self.journal.sync_if_due(now);
        self.note_unsynced(synced);
    }

    fn note_unsynced(&mut self, synced: io::Result<()>) {
        if let Err(error) = synced {
            self.note(Note::new(format!("requests on disk may not survive a power loss: {error}")));
        }
    }

    /// Returns whether the spool was opened by `standpipe drain`: such a spool only delivers the records that other
    /// processes left.
    pub(crate) fn drains(&self) -> bool {
        self.search.wanted.is_none()
    }

    pub(crate) fn has_pending(&self, signal: Signal) -> bool {
        self.journal.pending(signal) > 0 || self.orphans.iter().any(|orphan| orphan.has_pending(signal))
    }

    /// Takes in hand the oldest request of a signal, and returns it. Requests of dead processes come first.
    ///
    /// # Errors
    /// Returns an error if the request cannot be read now. A later call tries again.
    pub(crate) fn next(&mut self, signal: Signal) -> io::Result<Option<SpooledRequest>> {
        let next = self.orphans.iter_mut().find_map(|orphan| orphan.next(signal).transpose());
        self.tidy();
        if let Some(entry) = next.transpose()? {
            return Ok(Some(self.load(entry, false)));
        }
        let entry = self.journal.next(signal);
        self.tidy();
        Ok(entry?.map(|entry| self.load(entry, true)))
    }

    fn load(&mut self, entry: Entry, is_own: bool) -> SpooledRequest {
        self.loaded_since[entry.signal as usize] = entry.time_ms;
        SpooledRequest { records: entry.records, body: entry.body, is_own }
    }

    /// Settles the request in hand of this signal: it will not be sent again.
    ///
    /// # Errors
    /// Returns an error if the mark cannot be written. The next process may then send the request once more.
    pub(crate) fn settle(&mut self, signal: Signal) -> io::Result<()> {
        let Some(at) = self.orphans.iter().position(|orphan| orphan.is_loaded(signal)) else {
            return self.journal.done(signal);
        };
        let settled = self.orphans[at].settle(signal);
        self.tidy();
        settled
    }

    /// Takes in hand the oldest request that this process wrote for the signal. The request is not read, because the
    /// caller still has its bytes.
    pub(crate) fn take_unread(&mut self, signal: Signal) {
        if let Some(time_ms) = self.journal.take_unread(signal) {
            self.loaded_since[signal as usize] = time_ms;
        }
    }

    /// Makes the signal's request in hand the oldest pending request again, if this process wrote it.
    pub(crate) fn put_back(&mut self, signal: Signal) {
        self.journal.put_back(signal);
    }

    /// Drops expired requests. Returns the number of dropped records, by signal.
    fn expire(&mut self) -> [Dropped; Signal::COUNT] {
        let now = now_ms();
        let mut dropped = self.journal.expire(now).map(|own| Dropped { own, of_others: 0 });
        for orphan in &mut self.orphans {
            let of_others = orphan.journal.expire(now);
            dropped.iter_mut().zip(of_others).for_each(|(dropped, records)| dropped.of_others += records);
        }
        self.tidy();
        dropped
    }

    /// Returns the number of records that were found damaged or lost since the last call, by signal.
    pub(crate) fn take_damaged(&mut self) -> [Dropped; Signal::COUNT] {
        std::mem::take(&mut self.damaged)
    }

    /// Counts and reports newly found damage, and removes the files of dead processes whose records are all settled.
    fn tidy(&mut self) {
        let mut notes = Vec::new();
        let own = take_damage(&mut self.journal, &mut notes);
        let of_others = tidy(&mut self.orphans, &mut notes);
        notes.into_iter().for_each(|note| self.note(note));
        for (damaged, (own, of_others)) in self.damaged.iter_mut().zip(own.into_iter().zip(of_others)) {
            damaged.own += own;
            damaged.of_others += of_others;
        }
    }

    /// Closes the spool at the end of the exporter, and leaves unsettled records to the next process.
    pub(crate) fn close(&mut self) {
        let _ = self.journal.sync();
        // This includes settled segments that could not be removed. Their recorder must stay: if the header of such a
        // segment is damaged, only the recorder names the segment's owner.
        let has_segments = self.journal.has_segments();
        if !self.recorder.close() {
            return;
        }
        // A failure is ignored: the next process finds the recorder empty and removes it.
        let _ = match has_segments {
            true => {
                let file = self.recorder.empty_file(self.journal.records());
                self.search.directory.replace_recorder(&self.instance, &file)
            }
            false => fs::remove_file(self.search.directory.recorder_path(&self.instance)),
        };
        self.journal.storage.locks.clear();
    }
}

/// Removes an unused recorder if the exporter failed to start: then no worker calls [`Spool::close`].
impl Drop for Spool {
    fn drop(&mut self) {
        if self.next_tick.is_none() && self.recorder.is_unused() && !self.journal.has_segments() {
            let _ = fs::remove_file(self.search.directory.recorder_path(&self.instance));
        }
    }
}

/// Returns the kernel's boot id, or zeros if it cannot be read.
fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&hex, 16).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests;
