//! What a process has left behind in the spool: the requests in its segments, then what was in its queues, and then the
//! spans that were open.

use std::collections::VecDeque;
use std::{fmt, io};

use super::clock::{Jump, now_ms};
use super::directory::Directory;
use super::journal::{Entry, Found, Journal, Limits};
use super::recorder::{Leftover, Map, Place, Unreadable, stored_name};
use super::storage::{Files, shorten};
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
    /// `None` if its file cannot be read: that one stays where it is.
    recorder: Option<Leftover>,
    loaded: [Option<Source>; Signal::COUNT],
    /// Since when what was in its queues waits, in milliseconds since 1970: the recorder does not tell when they got it.
    taken_over: u64,
    _lock: Map,
}

/// Where a request that is being sent was.
#[derive(Debug)]
enum Source {
    Journal,
    Recorder(Place),
}

/// Why nothing of an instance can be delivered.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Its process lives, or another delivers it.
    InUse,
    /// It was made by an exporter of another name.
    OtherExporter(String),
    Unreadable(Unreadable),
    Io(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("in use"),
            Self::OtherExporter(name) => {
                write!(f, "left by an exporter \"{name}\": one of that name delivers it, or standpipe drain")
            }
            Self::Unreadable(unreadable) => write!(f, "left alone: {unreadable}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Estate {
    /// Takes over what an instance has left, if it is of this exporter, or of any.
    pub(crate) fn take_over(
        directory: &Directory,
        instance: &str,
        exporter: Option<&str>,
        limits: Limits,
        boot_id: [u8; 16],
    ) -> Result<Self, Refusal> {
        let lock = with_fork_lock(|| directory.lock_recorder(instance))?.ok_or(Refusal::InUse)?;
        let mut recorder = match Leftover::read(&directory.recorder_path(instance), boot_id)? {
            Ok(recorder) => Some(recorder),
            // its process died before it could write anything
            Err(Unreadable::NotReady) => None,
            Err(unreadable) => return Err(Refusal::Unreadable(unreadable)),
        };
        let of = recorder.as_ref().map(|recorder| recorder.header.exporter.as_str());
        if exporter.is_some() && of.is_some() && exporter.map(stored_name) != of {
            return Err(Refusal::OtherExporter(of.unwrap_or_default().to_owned()));
        }
        let files = Files::new(directory.path(), instance);
        let (mut journal, Found { cut, left_alone }) = Journal::open(files, limits)?;
        let path = |segment| journal.storage().path(segment);
        let cut = cut.iter().map(|(segment, bytes)| {
            // Nothing can be read there, and the next start is not to report it again.
            let _ = shorten(&path(*segment), *bytes);
            format!("{}: {bytes} bytes at the end are cut off", path(*segment).display())
        });
        let left_alone_notes = left_alone
            .iter()
            .map(|(segment, error)| format!("{}: left alone: {error}", path(*segment).display()));
        let mut notes: Vec<_> = cut.chain(left_alone_notes).collect();
        if let Some(recorder) = &mut recorder {
            let left = recorder.leave_to_entries(|place| journal.has_whole(place))?;
            // before the entries are delivered and gone; where that fails, these slots are not free yet
            match recorder.note_settled(&left) {
                Ok(()) => recorder.release_free_slots(),
                Err(error) => {
                    let path = directory.recorder_path(instance);
                    notes.push(format!("{}: a request may be sent twice: {error}", path.display()));
                }
            }
        }
        Ok(Self {
            directory: directory.clone(),
            instance: instance.to_owned(),
            journal,
            is_left_alone: !left_alone.is_empty(),
            notes,
            noted: (0, 0),
            recorder,
            loaded: [const { None }; Signal::COUNT],
            taken_over: now_ms(),
            _lock: lock,
        })
    }

    /// When its process began, in milliseconds since 1970.
    pub(crate) fn created(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.header.created)
    }

    pub(crate) fn has_pending(&self, signal: Signal) -> bool {
        self.journal.pending(signal).entries > 0
            || self.recorder.as_ref().is_some_and(|recorder| recorder.has(signal))
    }

    /// The next request of a signal, oldest first.
    pub(crate) fn next(&mut self, signal: Signal) -> io::Result<Option<Entry>> {
        if let Some(entry) = self.journal.next(signal)? {
            self.loaded[signal as usize] = Some(Source::Journal);
            return Ok(Some(entry));
        }
        let Some(request) = self.recorder.as_mut().and_then(|recorder| recorder.next(signal)) else {
            return Ok(None);
        };
        self.loaded[signal as usize] = Some(Source::Recorder(request.place));
        Ok(Some(Entry { signal, records: request.records, time_ms: self.taken_over, body: request.body }))
    }

    /// The request of this signal that is in hand is not to be sent again.
    pub(crate) fn settle(&mut self, signal: Signal) -> io::Result<()> {
        match (self.loaded[signal as usize].take(), &self.recorder) {
            (Some(Source::Journal), _) => self.journal.done(signal),
            (Some(Source::Recorder(place)), Some(recorder)) => recorder.settle(&place),
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
        let records = take_damage(&mut self.journal, notes);
        let Some(Leftover { damaged, unproven, .. }) = self.recorder else { return records };
        let path = self.directory.recorder_path(&self.instance);
        let noted = std::mem::replace(&mut self.noted, (damaged, unproven));
        if damaged > noted.0 {
            let places = describe(damaged - noted.0, "damaged place");
            notes.push(format!("{}: {places}; the file will be kept as *.damaged", path.display()));
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
        // segments that are still there keep their lock
        if self.is_left_alone || self.journal.has_segments() {
            return;
        }
        let is_damaged = self.recorder.is_some_and(|recorder| recorder.damaged > 0);
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
        records.iter_mut().zip(damage.records).for_each(|(sum, records)| *sum += records);
        notes.push(format!("{}: {damage}", journal.storage().path(segment).display()));
    }
    records
}

fn describe(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// All that others have left of this exporter, or of any, oldest first, and what is worth reporting.
pub(super) fn take_over_all(
    directory: &Directory,
    exporter: Option<&str>,
    limits: Limits,
    boot_id: [u8; 16],
) -> io::Result<(VecDeque<Estate>, Vec<String>)> {
    let (mut estates, mut notes) = (Vec::new(), Vec::new());
    for instance in directory.orphans()? {
        let segments = directory.path().join(format!("{instance}-*.segment"));
        notes.push(format!("{}: left alone: their recorder is gone", segments.display()));
    }
    for instance in directory.instances()? {
        let note = match Estate::take_over(directory, &instance, exporter, limits, boot_id) {
            Ok(estate) => {
                estates.push(estate);
                continue;
            }
            Err(Refusal::InUse) => continue,
            Err(refusal) => refusal,
        };
        notes.push(format!("{}: {note}", directory.recorder_path(&instance).display()));
    }
    estates.sort_by_key(Estate::created);
    let mut estates = estates.into();
    // of requests, only the headers are read by now
    tidy(&mut estates, &mut notes);
    Ok((estates, notes))
}

/// Notes what was found damaged in estates, and removes those of which all is settled. Returns the damaged records.
pub(super) fn tidy(estates: &mut VecDeque<Estate>, notes: &mut Vec<String>) -> [u64; Signal::COUNT] {
    let mut damaged = [0; Signal::COUNT];
    for mut estate in std::mem::take(estates) {
        let records = estate.take_damage(notes);
        damaged.iter_mut().zip(records).for_each(|(sum, records)| *sum += records);
        match estate.is_settled() {
            true => estate.remove(notes),
            false => estates.push_back(estate),
        }
    }
    damaged
}
