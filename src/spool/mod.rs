//! Inspection of a spool's directory: [`inspect`] reads it without changing anything, as `standpipe spool` does. The
//! [guide](crate::guide::spool) describes what a spool is.
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

// Records that survive the process, in the directory of an exporter:
//
//  queue ─► chunks in Recorder ─► batch ─► collector
//           (a mapped file)         │        ▲
//                                   ▼        │ oldest first
//                                 Journal ───┤
//                       (segments of requests)│
//                  Estate of a dead process ──┘
//
// `recorder` has the queue's chunks: what was accepted survives the death of the process. `journal` has requests that could not be
// delivered; it is a state machine over `storage`, which tests replace by one that fails. `segment` is the format of a file of
// requests, and finds the entries there, damaged or not. `estate` is what another process has left of both, for delivery and for
// an inspection. `proto/spool.md` describes the bytes.

mod contents;
pub(crate) mod crc32c;
mod directory;
mod estate;
mod journal;
mod lane;
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
pub use estate::inspect;
use estate::{Estate, Search, take_damage, tidy};
use journal::{Entry, Journal, Limits};
use lane::{Jump, now_ms};
use recorder::Header;
pub(crate) use recorder::Recorder;
use segment::{Owner, Place};
use storage::Files;
#[cfg(test)]
pub(crate) use storage::tests::faults;

/// Of one segment, unless a single request is larger.
const SEGMENT_BYTES: u64 = 8 << 20;
/// Spans that may be open at a time and survive the process.
const OPEN_SPANS: u32 = 512;
/// How often what is due from time to time is done, while there is something.
const TICK: Duration = Duration::from_secs(1);
/// When the directory is looked at again for what others have left: a process that was killed just before this one began may
/// have been there still.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const NEXT_LOOKS: Duration = Duration::from_secs(60);

/// What one exporter keeps in its directory.
#[derive(Debug)]
pub(crate) struct Spool {
    search: Search,
    instance: String,
    recorder: Arc<Recorder>,
    journal: Journal<Files>,
    /// Signals that the exporter takes. Each has an equal part of `limits.bytes`.
    signals: u64,
    next_tick: Option<Instant>,
    next_look: Option<Instant>,
    /// When the last tick was, by both clocks.
    last_tick: Option<(Instant, u64)>,
    /// What was noted once is not noted again.
    noted: BTreeSet<Note>,
    /// What others have left, oldest first.
    estates: VecDeque<Estate>,
    /// Of each signal, when the request in hand came to the disk, in milliseconds since 1970.
    loaded_since: [u64; Signal::COUNT],
    /// What was damaged, since it was last asked for.
    damaged: [Dropped; Signal::COUNT],
    notes: Vec<Note>,
}

/// A request that was taken from the spool, and stays there until it is settled.
#[derive(Debug)]
pub(crate) struct SpooledRequest {
    pub(crate) records: u64,
    pub(crate) body: Vec<u8>,
    /// Whether this process has accepted its records.
    pub(crate) is_own: bool,
}

/// Records that were dropped: those of this process, and those that others have left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) own: u64,
    pub(crate) of_others: u64,
}

impl Note {
    /// A finding that states all missing records.
    fn new(message: String) -> Self {
        Self { message, is_unaccounted: false }
    }
}

impl Spool {
    /// Opens the spool of an exporter of as many signals, with as many slots, and finds what others have left.
    ///
    /// # Errors
    /// When the directory cannot be used, or has no room.
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
            segment_bytes: SEGMENT_BYTES.min(storage::longest_file()),
            sync: settings.sync,
        };
        let owner = Owner::new(service_name(resource), exporter);
        let wanted = (!settings.drains).then(|| owner.clone());
        let search = Search { directory, wanted, limits, boot_id: boot_id() };
        let (mut estates, mut notes) = search.take_over_all()?;
        // of requests, only the headers are read by now
        let damaged = tidy(&mut estates, &mut notes);
        // a process that dies again and again does not fill the disk
        let left: u64 = estates.iter().map(Estate::bytes).sum();
        let is_full = left > limits.bytes;
        let has_queue = !is_full && !settings.drains;
        if is_full && !settings.drains {
            notes.push(Note::new(format!(
                "a process that dies loses its queue: {left} bytes of others are there already"
            )));
        }
        let (instance, new) = search.directory.create_recorder()?;
        let header = Header {
            slots: if has_queue { slots as u32 } else { 0 },
            open_spans: if has_queue && settings.open_spans { OPEN_SPANS } else { 0 },
            resource_bytes: resource.len() as u32,
            created: now_ms(),
            boot_id: search.boot_id,
            instance: u64::from_str_radix(&instance, 16).unwrap_or_default(),
            owner: owner.clone(),
        };
        let created = Recorder::create(&new, header.clone(), resource).or_else(|error| match error.kind() {
            // A full disk must not be in the way of the delivery of other processes' records.
            StorageFull | QuotaExceeded | FileTooLarge if !estates.is_empty() => {
                Recorder::without_room(&new, header, error)
            }
            _ => Err(error),
        });
        // A full disk may have given a part of the file.
        let recorder = created.inspect_err(|_| new.discard())?;
        let unfit = recorder.unfit.as_ref().map(|why| format!("a process that dies loses its queue: {why}"));
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
            next_look: None,
            last_tick: None,
            noted: notes.iter().cloned().collect(),
            estates,
            loaded_since: [0; Signal::COUNT],
            damaged: damaged.map(|of_others| Dropped { own: 0, of_others }),
            notes,
        })
    }

    /// What it found since the last call that is worth reporting.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        if self.recorder.is_lost() {
            let path = self.search.directory.recorder_path(&self.instance);
            let what = "the flight recorder was truncated or cannot be read: its records are lost, and counted as damaged; until \
                        the next start a process that dies loses its queue; keep jobs that clean up away from the spool";
            self.note(Note::new(format!("{}: {what}", path.display())));
        }
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Does what is due from time to time, and returns what was dropped for its age; `None` if nothing is due.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<[Dropped; Signal::COUNT]> {
        if self.next_tick.is_some_and(|next| now < next) {
            return None;
        }
        self.next_tick = Some(now + TICK);
        self.follow_clock(now);
        self.recorder.note_alive();
        // what came since the last tick, however long ago the last sync was
        if self.search.limits.sync != SpoolSync::Never {
            let synced = self.journal.sync();
            self.note_unsynced(synced);
        }
        if self.recorder.slots() > 0 && !self.recorder.has_all() && !self.recorder.is_lost() {
            let what = "some records are in memory only, and a process that dies loses them: the flight recorder had no room in a \
                        row for them; a larger queue-bytes makes it larger";
            self.note(Note::new(what.to_owned()));
        }
        match self.next_look {
            None => self.next_look = Some(now + FIRST_LOOK),
            Some(next) if next <= now => {
                self.next_look = Some(now + NEXT_LOOKS);
                self.look();
            }
            Some(_) => {}
        }
        Some(self.expire())
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        let is_busy =
            self.recorder.has_open_spans() || Signal::ALL.into_iter().any(|signal| self.has_pending(signal));
        if is_busy { self.next_tick } else { self.next_look.max(self.next_tick) }
    }

    /// Whether the request of this signal that is in hand is not worth sending any more.
    pub(crate) fn is_too_old(&self, signal: Signal) -> bool {
        let age = now_ms().saturating_sub(self.loaded_since[signal as usize]);
        u128::from(age) > self.search.limits.age.as_millis()
    }

    /// Nothing gets older because the clock was set forward, as on a device that begins in 1970 and asks the network for the time.
    fn follow_clock(&mut self, now: Instant) {
        let now = (now, now_ms());
        let last = self.last_tick.replace(now);
        let Some(jump) = last.and_then(|last| Jump::between(last, now)) else { return };
        self.journal.shift_times(jump);
        self.estates.iter_mut().for_each(|estate| estate.shift_times(jump));
        self.loaded_since.iter_mut().for_each(|since| jump.shift(since));
    }

    /// Takes over what others have left since the last look.
    fn look(&mut self) {
        match self.search.take_over_all() {
            Ok((estates, notes)) => {
                self.estates.extend(estates);
                notes.into_iter().for_each(|note| self.note(note));
                self.tidy();
            }
            Err(error) => {
                self.note(Note::new(format!("what others have left cannot be looked for: {error}")))
            }
        }
    }

    /// Notes what is worth reporting, once.
    fn note(&mut self, note: Note) {
        if self.noted.insert(note.clone()) {
            self.notes.push(note);
        }
    }

    /// Writes a request to the disk. Just before, `note_entry` learns its segment and its offset there.
    ///
    /// # Errors
    /// When the disk has no room for the request. Then no part of it is kept.
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

    /// What the journal may take of a signal: an equal part of all, less what others have left of the same signal. What they
    /// have left of no single signal is taken from all.
    fn share_of(&self, signal: Signal) -> u64 {
        let sum = |bytes: &dyn Fn(&Estate) -> u64| self.estates.iter().map(bytes).sum::<u64>();
        let of_signals: u64 =
            Signal::ALL.into_iter().map(|of| sum(&|estate| estate.journal.bytes_of(of))).sum();
        let of_none = sum(&Estate::bytes).saturating_sub(of_signals);
        let share = self.search.limits.bytes.saturating_sub(of_none) / self.signals;
        share.saturating_sub(sum(&|estate| estate.journal.bytes_of(signal)))
    }

    /// Makes what was written safe from power loss, if that is due. A later call tries again if it fails.
    pub(crate) fn sync_if_due(&mut self, now: Instant) {
        let synced = self.journal.sync_if_due(now);
        self.note_unsynced(synced);
    }

    fn note_unsynced(&mut self, synced: io::Result<()>) {
        if let Err(error) = synced {
            self.note(Note::new(format!("requests on disk may not survive a power loss: {error}")));
        }
    }

    /// Whether it is there only for what others have left.
    pub(crate) fn drains(&self) -> bool {
        self.search.wanted.is_none()
    }

    pub(crate) fn has_pending(&self, signal: Signal) -> bool {
        self.journal.pending(signal) > 0 || self.estates.iter().any(|estate| estate.has_pending(signal))
    }

    /// The oldest request of a signal.
    ///
    /// # Errors
    /// When it cannot be read now.
    pub(crate) fn next(&mut self, signal: Signal) -> io::Result<Option<SpooledRequest>> {
        let next = self.estates.iter_mut().find_map(|estate| estate.next(signal).transpose());
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

    /// The request of this signal that is in hand is not to be sent again.
    ///
    /// # Errors
    /// When that cannot be noted: the next process may send it once more.
    pub(crate) fn settle(&mut self, signal: Signal) -> io::Result<()> {
        let Some(at) = self.estates.iter().position(|estate| estate.is_loaded(signal)) else {
            return self.journal.done(signal);
        };
        let settled = self.estates[at].settle(signal);
        self.tidy();
        settled
    }

    /// Takes the oldest request of this process and this signal in hand without reading it: the caller has its bytes.
    pub(crate) fn take_unread(&mut self, signal: Signal) {
        if let Some(time_ms) = self.journal.take_unread(signal) {
            self.loaded_since[signal as usize] = time_ms;
        }
    }

    /// The request of this signal that is in hand could not be sent: it is the oldest again.
    pub(crate) fn put_back(&mut self, signal: Signal) {
        self.journal.put_back(signal);
    }

    /// Drops what is too old. Returns what that was, by signal.
    fn expire(&mut self) -> [Dropped; Signal::COUNT] {
        let now = now_ms();
        let own = self.journal.expire(now);
        let mut dropped = Signal::ALL.map(|signal| Dropped { own: own[signal as usize], of_others: 0 });
        for estate in &mut self.estates {
            let of_others = estate.journal.expire(now);
            dropped.iter_mut().zip(of_others).for_each(|(dropped, records)| dropped.of_others += records);
        }
        self.tidy();
        dropped
    }

    /// What could not be read of requests since the last call, by signal.
    pub(crate) fn take_damaged(&mut self) -> [Dropped; Signal::COUNT] {
        std::mem::take(&mut self.damaged)
    }

    /// Notes what was found damaged, and removes what others have left and is settled.
    fn tidy(&mut self) {
        let mut notes = Vec::new();
        let own = take_damage(&mut self.journal, &mut notes);
        let of_others = tidy(&mut self.estates, &mut notes);
        notes.into_iter().for_each(|note| self.note(note));
        for (damaged, (own, of_others)) in self.damaged.iter_mut().zip(own.into_iter().zip(of_others)) {
            damaged.own += own;
            damaged.of_others += of_others;
        }
    }

    /// The exporter ends: what is left is for the next process.
    pub(crate) fn close(&mut self) {
        let _ = self.journal.sync();
        // also those that could not be removed
        let has_segments = self.journal.has_segments();
        if !self.recorder.close() {
            return;
        }
        // what cannot be removed is found empty by the next process
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

/// If the start of the exporter fails, no worker has closed the spool, and the file of the recorder would stay.
impl Drop for Spool {
    fn drop(&mut self) {
        if self.next_tick.is_none() && self.recorder.is_unused() && !self.journal.has_segments() {
            let _ = fs::remove_file(self.search.directory.recorder_path(&self.instance));
        }
    }
}

/// Which start of the system this is; zeros if the system does not know.
fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&hex, 16).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests;
