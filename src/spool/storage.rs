//! Storage of segments: the file system calls that a journal needs, as a trait, and their implementation by files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{NewFile, is_in_use, lock_file};
use super::recorder::{Map, Recorder, note_spooled};
use super::segment::{MAX_SEGMENT_HEADER_LEN, Owner};
use crate::process::with_fork_lock;
use crate::record::Signal;

/// Suffix of a file that was set aside.
pub(super) const DAMAGED: &str = ".damaged";

/// Numbered files that only grow, except that single bytes (marks) are replaced. A call that fails may have done a part
/// of its work, as after a crash or on a full disk.
pub(crate) trait Storage {
    /// Lists the segments in any order: the number of each, and the range of its entries or the reason why it cannot be
    /// used. The range begins at 0 if the header is damaged. Only an inspection lists segments that another process
    /// uses.
    fn list(&mut self) -> io::Result<Vec<(u64, io::Result<Range<u64>>)>>;
    /// Returns the length of a segment's header.
    fn header_len(&self) -> u64 {
        0
    }
    /// Creates a segment without entries. It must not exist.
    fn create(&mut self, segment: u64) -> io::Result<()>;
    /// Appends all pieces to a segment.
    fn append(&mut self, segment: u64, pieces: &[&[u8]]) -> io::Result<()>;
    fn write_byte(&mut self, segment: u64, offset: u64, byte: u8) -> io::Result<()>;
    /// Fills `buffer`. Fails with `UnexpectedEof` if the segment ends earlier.
    fn read(&mut self, segment: u64, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Returns once the segment and its directory entry would survive a power loss.
    fn sync(&mut self, segment: u64) -> io::Result<()>;
    /// Removes a segment, or renames it if it is damaged, so that it is no longer listed.
    fn retire(&mut self, segment: u64, is_damaged: bool) -> io::Result<()>;
    /// Stores how many records are in all segments, by signal. Called after records are added and before they are
    /// removed, so the stored number is never too high.
    fn note_records(&mut self, _records: [u64; Signal::COUNT]) {}
}

/// Returns whether a call failed for lack of memory or descriptors, which says nothing about the segment.
pub(super) fn lacks_resources(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Segments as files `<instance>-<number>.segment` of a directory, each with its owner in the header and locked while
/// it is in use.
///
/// No file stays open between two calls, so a child that is forked then inherits no descriptor. The cost is one `open`
/// per call.
#[derive(Debug, Default)]
pub(crate) struct Files {
    directory: PathBuf,
    instance: String,
    /// Recorder of this process; `None` for the segments of a dead process.
    pub(super) recorder: Option<Arc<Recorder>>,
    /// Owner of new segments, and of segments with a damaged header; `None` if unknown.
    pub(super) owner: Option<Owner>,
    /// Owner whose segments may be used; `None` for every owner. The segments of others are listed with an error.
    pub(super) wanted: Option<Owner>,
    /// Locks of the segments in use.
    pub(super) locks: BTreeMap<u64, Arc<Map>>,
    /// True if the last [`Storage::list`] found segments that another process uses.
    pub(super) is_in_use: bool,
    /// True for an inspection: segments are listed without locks, and every change is refused.
    pub(super) is_read_only: bool,
}

impl Files {
    /// The directory must exist, and other users must not be able to write to it.
    pub(crate) fn new(directory: impl Into<PathBuf>, instance: impl Into<String>) -> Self {
        Self { directory: directory.into(), instance: instance.into(), ..Self::default() }
    }

    pub(super) fn path(&self, segment: u64) -> PathBuf {
        self.directory.join(self.name(segment))
    }

    fn name(&self, segment: u64) -> String {
        format!("{}-{segment}.segment", self.instance)
    }

    /// Returns the number in the name of one of this instance's segments. Other spellings, such as `007`, are not
    /// segments.
    fn number(&self, name: &OsStr) -> Option<u64> {
        let name = name.to_str()?;
        let number =
            name.strip_prefix(&self.instance)?.strip_prefix('-')?.strip_suffix(".segment")?.parse().ok()?;
        (self.name(number) == name).then_some(number)
    }

    fn open(&self, segment: u64, options: &mut OpenOptions) -> io::Result<File> {
        open_own(&self.path(segment), options)
    }

    /// Returns the number of every segment, in use or not, with its length or the reason why it cannot be used.
    pub(super) fn segments(&self) -> io::Result<Vec<(u64, io::Result<u64>)>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if let Some(number) = self.number(&entry.file_name()) {
                let checked = entry.metadata().and_then(|metadata| check(&metadata).map(|()| metadata.len()));
                segments.push((number, checked));
            }
        }
        Ok(segments)
    }

    /// Returns the owner of a segment, if known, and the offset of its first entry, which is 0 if the header is
    /// damaged.
    ///
    /// # Errors
    /// Returns an error if the segment cannot be read, or has a layout of another version.
    pub(super) fn owner_of(&self, segment: u64, len: u64) -> io::Result<(Option<Owner>, u64)> {
        let mut bytes = vec![0; MAX_SEGMENT_HEADER_LEN.min(len) as usize];
        self.open(segment, OpenOptions::new().read(true))?.read_exact_at(&mut bytes, 0)?;
        match Owner::of_segment(&bytes, &self.instance, segment) {
            Ok(Some((owner, start))) => Ok((Some(owner), start)),
            Ok(None) => Ok((self.owner.clone(), 0)),
            Err(version) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("its layout has the version {version}, which this program does not know"),
            )),
        }
    }

    /// Locks a segment, except for an inspection. Returns the range of its entries, or `None` if the lock is taken.
    fn claim(&mut self, segment: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        let path = self.path(segment);
        if self.is_read_only {
            // A missing file counts as in use: another process has delivered it meanwhile.
            self.is_in_use |= is_in_use(&path).unwrap_or(true);
            let (owner, start) = self.owner_of(segment, len)?;
            self.owner = owner;
            return Ok(Some(start..len));
        }
        let Some(lock) = with_fork_lock(|| lock_file(&path))? else { return Ok(None) };
        let (owner, start) = self.owner_of(segment, len)?;
        if self.wanted.is_some() && owner != self.wanted {
            return Err(not_ours(owner.as_ref()));
        }
        self.locks.insert(segment, Arc::new(lock));
        Ok(Some(start..len))
    }

    /// Fails if the storage is read-only. Called before each change.
    fn check_access(&self) -> io::Result<()> {
        #[cfg(test)]
        tests::faults::strike()?;
        if self.is_read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }
}

/// Returns the error for files of another owner, with the remedy.
pub(super) fn not_ours(owner: Option<&Owner>) -> io::Error {
    let why = match owner {
        Some(owner) => format!(
            "left by {owner}, which delivers it at its next start, or run standpipe drain; give each service a directory"
        ),
        None => "its header, which names the owner, is damaged: standpipe drain delivers it".to_owned(),
    };
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Creates a file with mode 0600. Fails if the name exists or is a symbolic link.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW;
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

/// Opens a file if it is a regular file of this user.
pub(super) fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without O_NONBLOCK, opening a FIFO that someone planted would block.
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Removes the last `bytes` bytes of a file.
pub(super) fn shorten(path: &Path, bytes: u64) -> io::Result<()> {
    let file = open_own(path, OpenOptions::new().write(true))?;
    file.set_len(file.metadata()?.len().saturating_sub(bytes))
}

/// Removes a file, or renames it to `*.damaged` if it is damaged, so that it can be examined.
pub(super) fn retire(path: &Path, is_damaged: bool) -> io::Result<()> {
    if !is_damaged {
        return fs::remove_file(path);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(DAMAGED);
    fs::rename(path, name)
}

/// Returns the maximum file size of this process (`ulimit -f`).
#[allow(unsafe_code, reason = "std does not ask for limits")]
#[allow(clippy::unnecessary_cast, reason = "the type differs between machines")]
pub(super) fn max_file_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call fills the structure that it is given
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur as u64
}

/// Fails if a file may not grow to `end` bytes. A write beyond the limit would raise SIGXFSZ, which ends the process.
pub(super) fn check_file_size(end: u64) -> io::Result<()> {
    match max_file_bytes() {
        longest if end > longest => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("a file of {end} bytes is over this process's limit of {longest} (ulimit -f)"),
        )),
        _ => Ok(()),
    }
}

impl Storage for Files {
    fn list(&mut self) -> io::Result<Vec<(u64, io::Result<Range<u64>>)>> {
        #[cfg(test)]
        tests::faults::strike()?;
        let segments = self.segments()?.into_iter().filter_map(|(number, len)| {
            let claimed = len.and_then(|len| self.claim(number, len)).transpose();
            self.is_in_use |= claimed.is_none();
            Some((number, claimed?))
        });
        Ok(segments.collect())
    }

    fn header_len(&self) -> u64 {
        self.owner.clone().unwrap_or_default().segment_header(&self.instance, 0).len() as u64
    }

    fn create(&mut self, segment: u64) -> io::Result<()> {
        self.check_access()?;
        let header = self.owner.clone().unwrap_or_default().segment_header(&self.instance, segment);
        check_file_size(header.len() as u64)?;
        let new = NewFile::create(self.directory.join(format!("{}.new", self.instance)), self.path(segment))?;
        let written = new.file.write_all_at(&header, 0).and_then(|()| new.publish());
        written.inspect_err(|_| new.discard())?;
        self.locks.insert(segment, new.lock);
        Ok(())
    }

    fn append(&mut self, segment: u64, pieces: &[&[u8]]) -> io::Result<()> {
        self.check_access()?;
        let mut file = self.open(segment, OpenOptions::new().append(true))?;
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        check_file_size(file.metadata()?.len().saturating_add(bytes))?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))
    }

    fn write_byte(&mut self, segment: u64, offset: u64, byte: u8) -> io::Result<()> {
        self.check_access()?;
        check_file_size(offset.saturating_add(1))?;
        self.open(segment, OpenOptions::new().write(true))?.write_all_at(&[byte], offset)
    }

    fn read(&mut self, segment: u64, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        #[cfg(test)]
        tests::faults::strike()?;
        self.open(segment, OpenOptions::new().read(true))?.read_exact_at(buffer, offset)
    }

    fn sync(&mut self, segment: u64) -> io::Result<()> {
        self.check_access()?;
        self.open(segment, OpenOptions::new().write(true))?.sync_data()?;
        // The file's name is in the directory, which needs its own sync.
        File::open(&self.directory)?.sync_all()
    }

    fn retire(&mut self, segment: u64, is_damaged: bool) -> io::Result<()> {
        self.check_access()?;
        retire(&self.path(segment), is_damaged)?;
        self.locks.remove(&segment);
        Ok(())
    }

    fn note_records(&mut self, records: [u64; Signal::COUNT]) {
        match &self.recorder {
            Some(recorder) => recorder.note_spooled(records),
            None if self.is_read_only => {}
            None => {
                let path = self.directory.join(format!("{}.recorder", self.instance));
                // A failure is ignored: if the recorder is missing, there is no place for the counts.
                let _ = note_spooled(&path, records);
            }
        }
    }
}

/// Refuses files that another user or program may have put in the place of a segment.
fn check(metadata: &Metadata) -> io::Result<()> {
    let refuse = |reason| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if !metadata.is_file() {
        return refuse("it is not a regular file");
    }
    if metadata.uid() != user() {
        return refuse("it belongs to another user");
    }
    Ok(())
}

#[allow(unsafe_code, reason = "std does not ask for the user")]
pub(super) fn user() -> u32 {
    // SAFETY: the call has no arguments and cannot fail
    unsafe { libc::geteuid() }
}

#[cfg(test)]
pub(super) mod tests;
