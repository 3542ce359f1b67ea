//! The file transport: OTLP JSON in a file, one line per request.
//!
//! Each request opens the file, appends its line with one write (`O_APPEND`) and closes the file. So lines of several
//! processes are never mixed, forked children share nothing, and a file that another program moves or deletes is
//! created again.
//!
//! # Rotation
//! If the file would become too large, or is too old, the transport first renames it: `otlp.jsonl` becomes
//! `otlp.jsonl.20260131T235959.123456789Z`, and the oldest of these files are deleted. Only a process that holds a lock
//! (`flock`) on the file renames it, and checks first that the file still has its name. A process that opened the file
//! before the rename appends its line to the renamed file, so no line is lost.
//!
//! # Torn lines
//! On a full disk, a write may store only a part of its line. The lock is also held while a line is written, so that
//! the part can be cut off. If a process died during its write, the next write begins with a newline, which ends the
//! torn line. A process that does not get the lock in time, because the process that holds it is suspended, appends its
//! line without the lock.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::calendar::date_of;
use super::{Payload, SetupError, Transport, Verdict, encode_json, lower_first, shrink};
use crate::config::FileSettings;

/// Maximum length of a line with its end. The Collector's receiver splits longer lines, and then cannot read them.
const MAX_LINE_BYTES: usize = (1 << 20) - 1;
/// Number of attempts to get the lock, one per millisecond. Usually, another process releases it much sooner.
const LOCK_ATTEMPTS: u64 = 100;

/// Opens the file once, and returns the settings with an absolute path, because the program may change its directory.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub(super) fn checked(settings: &FileSettings) -> Result<FileSettings, SetupError> {
    let path = path::absolute(&settings.path).unwrap_or_else(|_| settings.path.clone());
    let opened = open(&path);
    opened.map_err(|error| format!("open {}: {}", path.display(), lower_first(&error.to_string())))?;
    Ok(FileSettings { path, ..settings.clone() })
}

/// Appends requests to a file.
#[derive(Debug)]
pub(super) struct FileTransport {
    settings: FileSettings,
    line: Vec<u8>,
    is_over: Arc<AtomicBool>,
}

impl FileTransport {
    pub(super) fn new(settings: FileSettings) -> Self {
        Self { settings, line: Vec::new(), is_over: Arc::default() }
    }

    /// Appends the line, after a rotation if one is due.
    fn append(&self, now: SystemTime) -> io::Result<()> {
        let path = &self.settings.path;
        let mut target = LockedFile::open(path)?;
        let metadata = target.file.metadata()?;
        if target.is_locked && self.is_due(&metadata, now) && is_at(path, &metadata) {
            let renamed = fs::rename(path, self.rotated_path(now));
            renamed.map_err(|error| io::Error::new(error.kind(), format!("rotate: {error}")))?;
            self.delete_oldest();
            target = LockedFile::open(path)?;
        }
        let mut file = &target.file;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.seek(SeekFrom::Start(length - 1))?;
            let _ = file.read(&mut last)?;
        }
        let end_of_torn: &[u8] = if last == *b"\n" { b"" } else { b"\n" };
        let line = [end_of_torn, &self.line].concat();
        let count = file.write(&line)?;
        if count == line.len() {
            return Ok(());
        }
        // Cuts the part of this line off, unless another process has appended a line without the lock meanwhile.
        if target.is_locked && file.metadata()?.len() == length + count as u64 {
            file.set_len(length)?;
        }
        Err(ErrorKind::StorageFull.into())
    }

    /// Returns whether the file, unless it is empty, is too old or would be too large with the line.
    fn is_due(&self, file: &Metadata, now: SystemTime) -> bool {
        // Not every file system stores the time of creation.
        let since = file.created().or_else(|_| file.modified()).unwrap_or(now);
        let age = now.duration_since(since).unwrap_or_default();
        let is_large = file.len() + self.line.len() as u64 > self.settings.bytes as u64;
        file.len() > 0 && (is_large || self.settings.age.is_some_and(|longest| age >= longest))
    }

    /// Returns the path that the file gets in a rotation. The name ends in the time, so that sorting the names sorts
    /// the files by time.
    fn rotated_path(&self, now: SystemTime) -> PathBuf {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanos) = (since_1970.as_secs(), since_1970.subsec_nanos());
        let (year, month, day) = date_of((seconds / 86_400) as i64);
        let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        let mut path = self.settings.path.clone().into_os_string();
        path.push(format!(".{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{nanos:09}Z"));
        path.into()
    }

    /// Deletes all but the newest rotated files. A file that cannot be deleted is tried again after the next rotation.
    fn delete_oldest(&self) {
        let path = &self.settings.path;
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let is_rotated = |path: &PathBuf| {
            let names = path.file_name().map(|name| name.as_encoded_bytes());
            let end = names.and_then(|other| other.strip_prefix(name.as_encoded_bytes())).unwrap_or_default();
            end.len() == 27 && end.iter().all(|byte| byte.is_ascii_digit() || b".TZ".contains(byte))
        };
        let mut rotated: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_rotated).collect();
        rotated.sort_unstable();
        for oldest in rotated.iter().rev().skip(self.settings.backups) {
            let _ = fs::remove_file(oldest);
        }
    }
}

/// Opens the file, and creates it if it does not exist. On Unix, only its owner may access a new file, because
/// telemetry may be confidential.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    options.mode(0o600);
    options.open(path)
}

/// Returns whether `path` still names this file: another process may have renamed or deleted it.
fn is_at(path: &Path, file: &Metadata) -> bool {
    #[cfg(unix)]
    let id = |file: &Metadata| (file.dev(), file.ino());
    #[cfg(not(unix))]
    let id = Metadata::len;
    fs::metadata(path).is_ok_and(|found| id(&found) == id(file))
}

impl Transport for FileTransport {
    fn encode(&mut self, payload: &Payload<'_>, max_bytes: usize) -> bool {
        let is_encoded = encode_json(&mut self.line, payload, max_bytes.min(MAX_LINE_BYTES - 1));
        self.line.push(b'\n');
        is_encoded
    }

    fn send(&mut self, _: &Payload<'_>, deadline: Instant) -> Verdict {
        let path = self.settings.path.display();
        if self.is_over.load(Ordering::SeqCst) || Instant::now() >= deadline {
            return Verdict::TryLater { after: None, reason: format!("write to {path}: no time left") };
        }
        let written = self.append(SystemTime::now());
        shrink(&mut self.line);
        let Err(error) = written else { return Verdict::Accepted };
        Verdict::Unreachable { reason: format!("write to {path}: {}", lower_first(&error.to_string())) }
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        let is_over = Arc::clone(&self.is_over);
        Box::new(move || is_over.store(true, Ordering::SeqCst))
    }
}

/// An open file with an advisory lock. `is_locked` is false if another process held the lock for too long.
struct LockedFile {
    file: File,
    is_locked: bool,
}

impl LockedFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let is_locked = (0..LOCK_ATTEMPTS).any(|attempt| {
            thread::sleep(Duration::from_millis(attempt.min(1)));
            lock(&file, true)
        });
        Ok(Self { file, is_locked })
    }
}

impl Drop for LockedFile {
    /// Releases the lock explicitly. Closing the file is not enough: a child that was forked meanwhile has the file
    /// open as well, and `flock` keeps the lock until all copies of the descriptor are closed.
    fn drop(&mut self) {
        lock(&self.file, false);
    }
}

/// Takes or releases the lock. Returns false if another process holds it.
#[cfg(unix)]
#[allow(unsafe_code, reason = "std has locks of files only since Rust 1.89")]
fn lock(file: &File, is_taken: bool) -> bool {
    let operation = if is_taken { libc::LOCK_EX | libc::LOCK_NB } else { libc::LOCK_UN };
    // SAFETY: the descriptor is open as long as `file` is borrowed.
    unsafe { libc::flock(file.as_raw_fd(), operation) == 0 }
}

#[cfg(not(unix))]
fn lock(_: &File, _: bool) -> bool {
    true
}

#[cfg(test)]
mod tests;
