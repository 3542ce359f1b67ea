//! The files of a dead process: its undelivered requests in segments, its queue, and the spans that were open.
//!
//! [`Search`] takes the files over for delivery, at the start of an exporter and periodically. [`inspect`] reads them
//! for `standpipe spool`. An inspection changes nothing and takes no exclusive locks, so other processes can use the
//! directory meanwhile.
//!
//! An exporter delivers the segments first, then the queue, then the open spans: that is the order in which their
//! records were emitted. A recorder that is damaged or missing does not prevent the delivery of intact segments.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{array, fs, io, mem};

use super::contents::Instance;
use super::directory::{Directory, instance_of, is_in_use, lock_file};
use super::journal::{Entry, Journal, Limits};
use super::lane::{Jump, now_ms};
use super::recorder::{Map, OrphanedQueue, Place, Unreadable};
use super::segment::{Found, Owner};
use super::storage::{DAMAGED, Files, not_ours, retire, shorten};
use crate::escape::count;
use crate::problem::Note;
use crate::process::with_fork_lock;
use crate::record::Signal;

/// The search for files of dead processes in a directory.
pub(super) struct Search {
    pub(super) directory: Directory,
    /// Owner whose files are taken over; `None` for every owner.
    pub(super) wanted: Option<Owner>,
    pub(super) limits: Limits,
    pub(super) boot_id: [u8; 16],
}

/// The files of one instance. Except during an inspection, they are locked, so that no other process delivers them.
pub(crate) struct OrphanedSpool {
    /// Path of the recorder, which may be missing.
    path: PathBuf,
    pub(super) journal: Journal<Files>,
    /// True if segments cannot be read or belong to another owner. In this case the recorder is kept.
    is_left_alone: bool,
    notes: Vec<Note>,
    /// Damage of the recorder that was already reported: the number of damaged places, and the number of chunks that
    /// may not have reached the disk.
    noted: (u64, u64),
    /// Records that have disappeared from the segments, by signal. Reset when they are counted.
    lost: [u64; Signal::COUNT],
    recorder: Result<OrphanedQueue, Unreadable>,
    /// Place in the recorder of the request in hand, by signal; `None` if the request is in a segment, or none is in
    /// hand.
    loaded: [Option<Place>; Signal::COUNT],
    /// Time of the takeover, in milliseconds since 1970. The age of queued records is counted from this time, because
    /// the recorder does not store when they were enqueued.
    taken_over: u64,
    /// Lock of the recorder; `None` if the recorder is missing. Each segment has its own lock.
    _lock: Option<Map>,
}

impl Search {
    /// Takes over the files of all dead processes, oldest first. Returns them and the notes to report.
    pub(super) fn take_over_all(&self) -> io::Result<(VecDeque<OrphanedSpool>, Vec<Note>)> {
        let (mut orphans, mut notes) = (Vec::new(), Vec::new());
        for instance in self.directory.instances()? {
            match self.take_over(&instance) {
                Ok(orphan) => orphans.extend(orphan),
                Err(error) => {
                    let path = self.directory.recorder_path(&instance);
                    notes.push(Note::new(format!("{}: {error}", path.display())));
                }
            }
        }
        orphans.sort_by_key(OrphanedSpool::created);
        Ok((orphans.into(), notes))
    }

    /// Takes over the files of an instance, or returns `None` if its process lives or another process delivers them.
    fn take_over(&self, instance: &str) -> io::Result<Option<OrphanedSpool>> {
        let path = self.directory.recorder_path(instance);
        let (lock, recorder) = match with_fork_lock(|| lock_file(&path)) {
            Ok(Some(lock)) => (Some(lock), OrphanedQueue::read(&path, self.boot_id)),
            Ok(None) if fs::symlink_metadata(&path).is_ok() => return Ok(None),
            Ok(None) => (None, Err(Unreadable::Missing)),
            Err(error) => (None, Err(error.into())),
        };
        let owner = recorder.as_ref().ok().map(|recorder| recorder.header.owner.clone());
        if self.wanted.is_some() && owner.is_some() && owner != self.wanted {
            return Err(not_ours(owner.as_ref()));
        }
        let mut files = Files::new(self.directory.path(), instance);
        (files.owner, files.wanted) = (owner, self.wanted.clone());
        let orphan = OrphanedSpool::open(&path, files, self.limits, recorder, lock)?;
        // A segment may be in use without a locked recorder: if the recorder was removed, or while its exporter ends.
        Ok((!orphan.journal.storage.is_in_use).then_some(orphan))
    }
}

impl OrphanedSpool {
    fn open(
        path: &Path,
        files: Files,
        limits: Limits,
        mut recorder: Result<OrphanedQueue, Unreadable>,
        lock: Option<Map>,
    ) -> io::Result<Self> {
        let (mut journal, Found { cut, cut_records, left_alone }) = Journal::open(files, limits)?;
        let may_change = !journal.storage.is_read_only && !journal.storage.is_in_use;
        let mut notes = Vec::new();
        for (segment, bytes) in cut {
            let path = journal.storage.path(segment);
            if may_change {
                // These bytes are not a complete entry. If they stayed, every start would report them again.
                let _ = shorten(&path, bytes);
            }
            notes.push(Note::new(format!("{}: {bytes} bytes of an incomplete request", path.display())));
        }
        for (segment, error) in &left_alone {
            notes.push(Note {
                message: format!("{}: left alone: {error}", journal.storage.path(*segment).display()),
                is_unaccounted: true,
            });
        }
        let has_pending = Signal::ALL.into_iter().any(|signal| journal.pending(signal) > 0);
        let mut lost = [0; Signal::COUNT];
        match &mut recorder {
            // If no entry of this owner is pending, a missing recorder does not prove a loss.
            Err(Unreadable::Missing) if !has_pending => {}
            Err(unreadable) => {
                notes.push(Note {
                    message: format!("{}: {unreadable}", path.display()),
                    is_unaccounted: true,
                });
                // The recorder's slots keep records until the append of the entry is complete. The records of a
                // partial entry are therefore lost with the recorder.
                lost = cut_records;
            }
            Ok(recorder) => {
                let left = recorder.leave_to_entries(|place| journal.has_whole(place))?;
                if may_change {
                    // Note the slots as settled now: once the entries are delivered and removed, nothing else shows
                    // that these records were delivered. If the note cannot be written, keep the blocks of the slots,
                    // because the next process still reads them.
                    match recorder.note_settled(&left) {
                        Ok(()) => recorder.release_free_slots(),
                        Err(error) => notes.push(Note::new(format!(
                            "{}: a request may be sent twice: {error}",
                            path.display()
                        ))),
                    }
                }
                let found = journal.records();
                if left_alone.is_empty() {
                    lost = array::from_fn(|signal| recorder.spooled[signal].saturating_sub(found[signal]));
                }
            }
        }
        let records: u64 = lost.iter().sum();
        if records > 0 {
            if may_change {
                // Corrects the recorder's count, so that the next process does not count the loss again.
                journal.note_records();
            }
            let segments = path.with_extension("").display().to_string();
            let are = if records == 1 { "record is" } else { "records are" };
            let why = "files were removed, cut off or damaged";
            notes.push(Note::new(format!("{segments}-*.segment: {records} {are} lost: {why}")));
        }
        Ok(Self {
            path: path.to_owned(),
            journal,
            is_left_alone: !left_alone.is_empty(),
            notes,
            noted: (0, 0),
            lost,
            recorder,
            loaded: [const { None }; Signal::COUNT],
            taken_over: now_ms(),
            _lock: lock,
        })
    }

    /// Returns when the exporter started, in milliseconds since 1970; 0 if this is unknown.
    fn created(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.header.created)
    }

    pub(crate) fn has_pending(&self, signal: Signal) -> bool {
        self.journal.pending(signal) > 0 || self.recorder.as_ref().is_ok_and(|recorder| recorder.has(signal))
    }

    /// Takes in hand the oldest request of a signal.
    pub(crate) fn next(&mut self, signal: Signal) -> io::Result<Option<Entry>> {
        if let Some(entry) = self.journal.next(signal)? {
            return Ok(Some(entry));
        }
        let Some(request) = self.recorder.as_mut().ok().and_then(|recorder| recorder.next(signal)) else {
            return Ok(None);
        };
        self.loaded[signal as usize] = Some(request.place);
        Ok(Some(Entry { signal, records: request.records, time_ms: self.taken_over, body: request.body }))
    }

    /// Settles the request in hand of this signal: it will not be sent again.
    pub(crate) fn settle(&mut self, signal: Signal) -> io::Result<()> {
        match (self.loaded[signal as usize].take(), &self.recorder) {
            (Some(place), Ok(recorder)) => recorder.settle(&place),
            _ => self.journal.done(signal),
        }
    }

    /// Returns whether a request of this signal is in hand.
    pub(crate) fn is_loaded(&self, signal: Signal) -> bool {
        self.loaded[signal as usize].is_some() || self.journal.is_in_hand(signal)
    }

    /// Corrects ages after a jump of the clock.
    pub(crate) fn shift_times(&mut self, jump: Jump) {
        self.journal.shift_times(jump);
        jump.shift(&mut self.taken_over);
    }

    /// Returns the disk space of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.journal.bytes() + self.recorder.as_ref().map_or(0, OrphanedQueue::bytes)
    }

    /// Returns whether no record is pending or in hand.
    pub(crate) fn is_settled(&self) -> bool {
        Signal::ALL.into_iter().all(|signal| !self.has_pending(signal) && !self.is_loaded(signal))
    }

    /// Moves the notes of this instance to `notes`. Returns the number of damaged and lost records, by signal.
    pub(crate) fn take_damage(&mut self, notes: &mut Vec<Note>) -> [u64; Signal::COUNT] {
        notes.append(&mut self.notes);
        let mut records = take_damage(&mut self.journal, notes);
        add(&mut records, mem::take(&mut self.lost));
        let Ok(OrphanedQueue { damaged, unproven, lost, lost_bytes, .. }) = &mut self.recorder else {
            return records;
        };
        let path = &self.path;
        let (damaged, unproven) = (*damaged, *unproven);
        let noted = mem::replace(&mut self.noted, (damaged, unproven));
        if damaged > noted.0 {
            let places = describe_new(damaged - noted.0, damaged, "damaged place");
            let (lost, bytes) = (mem::take(lost), mem::take(lost_bytes));
            add(&mut records, lost);
            let mut what = format!("{} lost", count(lost.iter().sum(), "record"));
            if bytes > 0 {
                what.push_str(&format!(", and an unknown number of records in {bytes} bytes"));
            }
            notes.push(Note {
                message: format!("{}: {places}: {what}; the file will be kept as *.damaged", path.display()),
                is_unaccounted: bytes > 0,
            });
        }
        if unproven > noted.1 {
            let chunks = describe_new(unproven - noted.1, unproven, "chunk");
            let why = "may not have reached the disk before the system ended, and cannot be delivered";
            notes.push(Note { message: format!("{}: {chunks} {why}", path.display()), is_unaccounted: true });
        }
        records
    }

    /// Removes the recorder of a settled instance, or renames it if it is damaged. The journal removes the segments.
    pub(crate) fn remove(self, notes: &mut Vec<Note>) {
        // The recorder stays while segments exist: its absence would be reported as a loss.
        if self.is_left_alone || self.journal.has_segments() {
            return;
        }
        let is_damaged = match &self.recorder {
            Ok(recorder) => recorder.damaged > 0,
            Err(Unreadable::Blank | Unreadable::Damaged) => true,
            Err(_) => return,
        };
        if let Err(error) = retire(&self.path, is_damaged) {
            notes.push(Note::new(format!("{}: it cannot be removed: {error}", self.path.display())));
        }
    }
}

/// Adds a note for each damaged segment of a journal. Returns the number of records in damaged entries, by signal, as
/// far as the headers of the entries are intact.
pub(crate) fn take_damage(journal: &mut Journal<Files>, notes: &mut Vec<Note>) -> [u64; Signal::COUNT] {
    let mut records = [0; Signal::COUNT];
    for (segment, damage) in journal.take_damage() {
        add(&mut records, damage.records);
        // During an inspection, a missing file is not reported: another process may have delivered and removed it.
        if !damage.is_gone || !journal.storage.is_read_only {
            notes.push(Note {
                message: format!("{}: {damage}", journal.storage.path(segment).display()),
                is_unaccounted: damage.hides_records(),
            });
        }
    }
    records
}

fn add(sums: &mut [u64; Signal::COUNT], records: [u64; Signal::COUNT]) {
    sums.iter_mut().zip(records).for_each(|(sum, records)| *sum += records);
}

/// Describes newly found damage. The text includes the total, because a note equal to an earlier one is not reported.
fn describe_new(new: u64, all: u64, what: &str) -> String {
    match new == all {
        true => count(new, what),
        false => format!("{} ({all} so far)", count(new, &format!("more {what}"))),
    }
}

/// Adds notes about newly found damage, and removes the files of settled instances. Returns the number of damaged and
/// lost records, by signal.
pub(super) fn tidy(orphans: &mut VecDeque<OrphanedSpool>, notes: &mut Vec<Note>) -> [u64; Signal::COUNT] {
    let mut damaged = [0; Signal::COUNT];
    for mut orphan in mem::take(orphans) {
        let records = orphan.take_damage(notes);
        add(&mut damaged, records);
        if orphan.is_settled() { orphan.remove(notes) } else { orphans.push_back(orphan) }
    }
    damaged
}

/// Returns the contents of a spool directory: one [`Instance`] per exporter of a process, oldest first. Records that a
/// running process moves from its queue to a segment during the call may be missing.
///
/// # Errors
/// Returns an error if the path cannot be read, is not a directory, is a symbolic link, belongs to another user, or has
/// permissions for other users.
pub fn inspect(directory: impl AsRef<Path>) -> io::Result<Vec<Instance>> {
    let directory = Directory::open_existing(directory.as_ref())?;
    let mut instances = BTreeMap::<String, Instance>::new();
    for entry in fs::read_dir(directory.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = instance_of(name.strip_suffix(DAMAGED).unwrap_or(&name)) else { continue };
        let new = || Instance { id: id.to_owned(), ..Instance::default() };
        let instance = instances.entry(id.to_owned()).or_insert_with(new);
        instance.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        if name.ends_with(DAMAGED) {
            let why = "kept because it is damaged; its intact records were delivered";
            instance.problems.push(format!("{name}: {why}"));
        }
    }
    let mut instances: Vec<_> = instances.into_values().collect();
    for instance in &mut instances {
        examine(&directory, instance)?;
    }
    instances.sort_by_key(|instance| instance.started);
    Ok(instances)
}

/// Reads the owner, the start, the undelivered records and the problems of an instance.
fn examine(directory: &Directory, instance: &mut Instance) -> io::Result<()> {
    let path = directory.recorder_path(&instance.id);
    let recorder = match path.symlink_metadata() {
        Ok(_) => OrphanedQueue::read(&path, super::boot_id()),
        Err(_) => Err(Unreadable::Missing),
    };
    let is_missing = matches!(recorder, Err(Unreadable::Missing));
    instance.is_running = is_in_use(&path).unwrap_or(false);
    let mut files = Files::new(directory.path(), &instance.id);
    files.is_read_only = true;
    let mut orphan = OrphanedSpool::open(&path, files, Limits::NONE, recorder, None)?;
    instance.is_running |= orphan.journal.storage.is_in_use;
    let owner = orphan.recorder.as_ref().ok().map(|recorder| recorder.header.owner.clone());
    if let Some(Owner { service, exporter }) = owner.or(orphan.journal.storage.owner.take()) {
        (instance.service, instance.exporter) = (Some(service), Some(exporter));
    }
    instance.started = orphan.recorder.as_ref().ok().and_then(|recorder| time(recorder.header.created));
    let mut notes = Vec::new();
    for signal in Signal::ALL {
        loop {
            let entry = match orphan.next(signal) {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    notes.push(Note::new(format!("{}: a request cannot be read: {error}", instance.id)));
                    break;
                }
            };
            let mut oldest = None;
            match orphan.loaded[signal as usize].take() {
                Some(place) if place.slot.is_none() => instance.open_spans += entry.records,
                Some(_) => {}
                None => {
                    // The storage is read-only, so this only takes the entry out of the index.
                    let _ = orphan.journal.done(signal);
                    oldest = time(entry.time_ms);
                }
            }
            instance.add(signal, entry.records, entry.body.len() as u64, oldest);
        }
    }
    // Files can look damaged while a process changes or removes them, so damage of a recorder is noted only if no
    // process uses the file.
    if !instance.is_running && (is_missing || matches!(is_in_use(&path), Ok(false))) {
        orphan.take_damage(&mut notes);
    } else {
        take_damage(&mut orphan.journal, &mut notes);
    }
    let prefix = format!("{}/", directory.path().display());
    let problems =
        notes.iter().map(|note| note.message.strip_prefix(&prefix).unwrap_or(&note.message).to_owned());
    instance.problems.extend(problems);
    Ok(())
}

fn time(unix_ms: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms))
}
