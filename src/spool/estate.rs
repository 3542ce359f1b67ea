//! What a process has left behind in the spool: the requests in its segments, then what was in its queues, and then the
//! spans that were open.

use std::collections::VecDeque;
use std::{array, fs, io};

use super::clock::{Jump, now_ms};
use super::directory::{Directory, lock_file};
use super::entry::Owner;
use super::journal::{Entry, Journal, Limits};
use super::recorder::{Leftover, Map, Place, Unreadable};
use super::scan::Found;
use super::storage::{Files, not_ours, shorten};
use crate::process::with_fork_lock;
use crate::record::Signal;

/// All that one instance has left. It is locked: no other process delivers it.
#[derive(Debug)]
pub(crate) struct Estate {
    directory: Directory,
    instance: String,
    journal: Journal<Files>,
    /// Whether it has segments that are left alone: these keep their lock.
    is_left_alone: bool,
    /// What was found of it that is worth reporting.
    notes: Vec<String>,
    /// What of the recorder's damage and of its unproven chunks was noted.
    noted: (u64, u64),
    /// Records that were in segments and are not there any more, by signal, until they are counted.
    lost: [u64; Signal::COUNT],
    recorder: Result<Leftover, Unreadable>,
    loaded: [Option<Source>; Signal::COUNT],
    /// Since when what was in its queues waits, in milliseconds since 1970: the recorder does not tell when they got it.
    taken_over: u64,
    /// Of the recorder, unless it is missing. Each segment has its own.
    _lock: Option<Map>,
}

/// Where a request that is being sent was.
#[derive(Debug)]
enum Source {
    Journal,
    Recorder(Place),
}

impl Estate {
    /// Takes over what an instance has left of this owner, or of any; `None` if its process lives, or another delivers it.
    ///
    /// # Errors
    /// Why nothing of it can be delivered.
    pub(crate) fn take_over(
        directory: &Directory,
        instance: &str,
        wanted: Option<&Owner>,
        limits: Limits,
        boot_id: [u8; 16],
    ) -> Result<Option<Self>, String> {
        let path = directory.recorder_path(instance);
        let (lock, mut recorder) = match with_fork_lock(|| lock_file(&path)) {
            Ok(Some(lock)) => (Some(lock), Leftover::read(&path, boot_id)),
            Ok(None) if fs::symlink_metadata(&path).is_ok() => return Ok(None),
            Ok(None) => (None, Err(Unreadable::Missing)),
            Err(error) => (None, Err(error.into())),
        };
        let owner = recorder.as_ref().ok().map(|recorder| recorder.header.owner.clone());
        if wanted.is_some() && owner.is_some() && owner.as_ref() != wanted {
            return Err(format!("{}: {}", path.display(), not_ours(owner.as_ref())));
        }
        let mut files = Files::new(directory.path(), instance);
        (files.owner, files.wanted) = (owner, wanted.cloned());
        let opened = Journal::open(files, limits).map_err(|error| format!("{}: {error}", path.display()));
        let (mut journal, Found { cut, cut_records, left_alone }) = opened?;
        // its process lives without its recorder, or is about to end
        if journal.storage().is_in_use {
            return Ok(None);
        }
        let segment_path = |segment| journal.storage().path(segment);
        let cut = cut.iter().map(|(segment, bytes)| {
            // Nothing can be read there, and the next start is not to report it again.
            let _ = shorten(&segment_path(*segment), *bytes);
            format!("{}: {bytes} bytes at the end are cut off", segment_path(*segment).display())
        });
        let left_alone_notes = left_alone
            .iter()
            .map(|(segment, error)| format!("{}: left alone: {error}", segment_path(*segment).display()));
        let mut notes: Vec<_> = cut.chain(left_alone_notes).collect();
        let has_pending = Signal::ALL.into_iter().any(|signal| journal.pending(signal).entries > 0);
        let mut lost = [0; Signal::COUNT];
        match &mut recorder {
            // what is there, if anything, is not this owner's
            Err(Unreadable::Missing) if !has_pending => {}
            Err(unreadable) => {
                notes.push(format!("{}: {unreadable}", path.display()));
                // no queue has these records
                lost = cut_records;
            }
            Ok(recorder) => {
                let left = recorder
                    .leave_to_entries(|place| journal.has_whole(place))
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                // before the entries are delivered and gone; where that fails, these slots are not free yet
                match recorder.note_settled(&left) {
                    Ok(()) => recorder.release_free_slots(),
                    Err(error) => {
                        notes.push(format!("{}: a request may be sent twice: {error}", path.display()))
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
            // so that the next process does not count them again
            journal.note_records();
            let segments = directory.path().join(format!("{instance}-*.segment"));
            let are = if records == 1 { "record is" } else { "records are" };
            let why = "files were removed, cut off or damaged";
            notes.push(format!("{}: {records} {are} lost: {why}", segments.display()));
        }
        Ok(Some(Self {
            directory: directory.clone(),
            instance: instance.to_owned(),
            journal,
            is_left_alone: !left_alone.is_empty(),
            notes,
            noted: (0, 0),
            lost,
            recorder,
            loaded: [const { None }; Signal::COUNT],
            taken_over: now_ms(),
            _lock: lock,
        }))
    }

    /// When its process began, in milliseconds since 1970.
    pub(crate) fn created(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.header.created)
    }

    pub(crate) fn has_pending(&self, signal: Signal) -> bool {
        self.journal.pending(signal).entries > 0
            || self.recorder.as_ref().is_ok_and(|recorder| recorder.has(signal))
    }

    /// The next request of a signal, oldest first.
    pub(crate) fn next(&mut self, signal: Signal) -> io::Result<Option<Entry>> {
        if let Some(entry) = self.journal.next(signal)? {
            self.loaded[signal as usize] = Some(Source::Journal);
            return Ok(Some(entry));
        }
        let Some(request) = self.recorder.as_mut().ok().and_then(|recorder| recorder.next(signal)) else {
            return Ok(None);
        };
        self.loaded[signal as usize] = Some(Source::Recorder(request.place));
        Ok(Some(Entry { signal, records: request.records, time_ms: self.taken_over, body: request.body }))
    }

    /// The request of this signal that is in hand is not to be sent again.
    pub(crate) fn settle(&mut self, signal: Signal) -> io::Result<()> {
        match (self.loaded[signal as usize].take(), &self.recorder) {
            (Some(Source::Journal), _) => self.journal.done(signal),
            (Some(Source::Recorder(place)), Ok(recorder)) => recorder.settle(&place),
            _ => Ok(()),
        }
    }

    /// Whether a request of this signal is in hand.
    pub(crate) fn is_loaded(&self, signal: Signal) -> bool {
        self.loaded[signal as usize].is_some()
    }

    pub(crate) fn expire(&mut self, now_ms: u64) -> [u64; Signal::COUNT] {
        self.journal.expire(now_ms)
    }

    /// The clock was set forward: what is there is as old as before.
    pub(crate) fn shift_times(&mut self, jump: Jump) {
        self.journal.shift_times(jump);
        jump.shift(&mut self.taken_over);
    }

    /// Bytes that it takes on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.journal.bytes() + self.recorder.as_ref().map_or(0, Leftover::bytes)
    }

    /// Bytes that its requests of a signal take.
    pub(crate) fn bytes_of(&self, signal: Signal) -> u64 {
        self.journal.bytes_of(signal)
    }

    /// Whether all is settled.
    pub(crate) fn is_settled(&self) -> bool {
        Signal::ALL.into_iter().all(|signal| !self.has_pending(signal) && !self.is_loaded(signal))
    }

    /// Moves what is worth reporting to `notes`. Returns the records that are damaged, by signal.
    pub(crate) fn take_damage(&mut self, notes: &mut Vec<String>) -> [u64; Signal::COUNT] {
        notes.append(&mut self.notes);
        let mut records = take_damage(&mut self.journal, notes);
        add(&mut records, std::mem::take(&mut self.lost));
        let Ok(Leftover { damaged, unproven, lost, lost_bytes, .. }) = &mut self.recorder else {
            return records;
        };
        let path = self.directory.recorder_path(&self.instance);
        let (damaged, unproven) = (*damaged, *unproven);
        let noted = std::mem::replace(&mut self.noted, (damaged, unproven));
        if damaged > noted.0 {
            let places = describe(damaged - noted.0, "damaged place");
            let (lost, bytes) = (std::mem::take(lost), std::mem::take(lost_bytes));
            add(&mut records, lost);
            let mut what = format!("{} lost", describe(lost.iter().sum(), "record"));
            if bytes > 0 {
                what.push_str(&format!(", and an unknown number of records in {bytes} bytes"));
            }
            notes.push(format!("{}: {places}: {what}; the file will be kept as *.damaged", path.display()));
        }
        if unproven > noted.1 {
            let chunks = describe(unproven - noted.1, "chunk");
            let why = "may not have reached the disk before the system ended, and cannot be delivered";
            notes.push(format!("{}: {chunks} {why}", path.display()));
        }
        records
    }

    /// Removes the files of an instance of which all is settled, or sets its recorder aside if that is damaged.
    pub(crate) fn remove(self, notes: &mut Vec<String>) {
        // while segments are there, a recorder that is missing is a loss
        if self.is_left_alone || self.journal.has_segments() {
            return;
        }
        let is_damaged = match &self.recorder {
            Ok(recorder) => recorder.damaged > 0,
            Err(unreadable) if unreadable.is_damage() => true,
            Err(_) => return,
        };
        if let Err(error) = self.directory.remove_recorder(&self.instance, is_damaged) {
            let path = self.directory.recorder_path(&self.instance);
            notes.push(format!("{}: it cannot be removed: {error}", path.display()));
        }
    }
}

/// Notes which segments of a journal were found damaged. Returns the records of entries with an intact header.
pub(crate) fn take_damage(journal: &mut Journal<Files>, notes: &mut Vec<String>) -> [u64; Signal::COUNT] {
    let mut records = [0; Signal::COUNT];
    for (segment, damage) in journal.take_damage() {
        add(&mut records, damage.records);
        notes.push(format!("{}: {damage}", journal.storage().path(segment).display()));
    }
    records
}

fn add(sums: &mut [u64; Signal::COUNT], records: [u64; Signal::COUNT]) {
    sums.iter_mut().zip(records).for_each(|(sum, records)| *sum += records);
}

fn describe(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// All that others have left of this owner, or of any, oldest first, and what is worth reporting.
pub(super) fn take_over_all(
    directory: &Directory,
    wanted: Option<&Owner>,
    limits: Limits,
    boot_id: [u8; 16],
) -> io::Result<(VecDeque<Estate>, Vec<String>)> {
    directory.remove_incomplete()?;
    let (mut estates, mut notes) = (Vec::new(), Vec::new());
    for instance in directory.instances()? {
        match Estate::take_over(directory, &instance, wanted, limits, boot_id) {
            Ok(estate) => estates.extend(estate),
            Err(note) => notes.push(note),
        }
    }
    estates.sort_by_key(Estate::created);
    Ok((estates.into(), notes))
}

/// Notes what was found damaged in estates, and removes those of which all is settled. Returns the damaged records.
pub(super) fn tidy(estates: &mut VecDeque<Estate>, notes: &mut Vec<String>) -> [u64; Signal::COUNT] {
    let mut damaged = [0; Signal::COUNT];
    for mut estate in std::mem::take(estates) {
        let records = estate.take_damage(notes);
        add(&mut damaged, records);
        match estate.is_settled() {
            true => estate.remove(notes),
            false => estates.push_back(estate),
        }
    }
    damaged
}
