//! The spool directory: file names, creation and locks. Only the user who owns the directory has access to it (mode
//! 0700), and only one process writes each file.
//!
//! | Name | Content |
//! |---|---|
//! | `<instance>.recorder` | flight recorder of one exporter in one process |
//! | `<instance>-<number>.segment` | undelivered requests of that exporter |
//! | `<instance>.new` | file being created; renamed when it is complete |
//! | `*.damaged` | file that was set aside |
//!
//! An exporter holds an `flock` on each of its files until the exporter ends or the process dies. A file that can be
//! locked is therefore no longer in use.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::recorder::Map;
use super::storage::{check_file_size, create, open_own, user};
use crate::process::with_fork_lock;
use crate::record::random;

const RECORDER: &str = ".recorder";
const NEW: &str = ".new";

#[derive(Debug, Clone)]
pub(crate) struct Directory(PathBuf);

/// A locked file that does not have its final name yet. A mapping keeps the lock (see [`lock_file`]). `file` is a
/// separate descriptor without a lock, so a child that is forked now does not inherit the lock.
pub(super) struct NewFile {
    pub(super) file: File,
    pub(super) lock: Arc<Map>,
    path: PathBuf,
    name: PathBuf,
}

impl NewFile {
    /// Creates and locks a file at `path` that [`publish`](Self::publish) renames to `name`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created, or another process removed it before it was locked.
    pub(super) fn create(path: PathBuf, name: PathBuf) -> io::Result<Self> {
        with_fork_lock(|| {
            let file = create(&path)?;
            let lock = lock_file(&path).and_then(|lock| Ok(lock.ok_or(io::ErrorKind::ResourceBusy)?));
            let lock = lock.inspect_err(|_| drop(fs::remove_file(&path)))?;
            Ok(Self { file, lock: Arc::new(lock), path, name })
        })
    }

    /// Renames the file to its final name, which must not exist yet.
    pub(super) fn publish(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.name) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(&self.path, &self.name),
        }
    }

    /// Removes the file if it was not published.
    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Directory {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created, or if [`open_existing`](Self::open_existing) fails.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open_existing(path)
    }

    /// Opens a directory that exists.
    ///
    /// # Errors
    /// Returns an error if the path does not exist, is not a directory, is a symbolic link, belongs to another user, or
    /// has permissions for other users.
    pub(crate) fn open_existing(path: &Path) -> io::Result<Self> {
        // A trailing slash would make the system follow a symbolic link.
        let path: PathBuf = path.components().collect();
        let found = fs::symlink_metadata(&path)?;
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        match found.mode() & 0o777 {
            _ if found.is_symlink() => refuse("it is a symbolic link; name the directory itself".to_owned()),
            _ if !found.is_dir() => refuse("it is not a directory".to_owned()),
            _ if found.uid() != user() => {
                refuse(format!("it belongs to the user with the id {}", found.uid()))
            }
            mode if mode & 0o077 != 0 => refuse(format!("others can use it (mode {mode:o}); run chmod 700")),
            _ => Ok(Self(path)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn recorder_path(&self, instance: &str) -> PathBuf {
        self.0.join(format!("{instance}{RECORDER}"))
    }

    /// Creates and locks a file for a recorder, with a random instance name.
    pub(super) fn create_recorder(&self) -> io::Result<(String, NewFile)> {
        for _ in 0..16 {
            let instance = instance_name(random());
            match NewFile::create(self.new_path(&instance), self.recorder_path(&instance)) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                new => return Ok((instance, new?)),
            }
        }
        Err(io::Error::other("another process removes every file that is created there"))
    }

    /// Replaces an empty recorder by a small file, which still names the owner of the segments.
    pub(super) fn replace_recorder(&self, instance: &str, page: &[u8]) -> io::Result<()> {
        let new = self.new_path(instance);
        let written = check_file_size(page.len() as u64)
            .and_then(|()| create(&new))
            .and_then(|mut file| io::Write::write_all(&mut file, page));
        let replaced = written.and_then(|()| fs::rename(&new, self.recorder_path(instance)));
        // A full disk may have left a partial file.
        replaced.inspect_err(|_| drop(fs::remove_file(&new)))
    }

    fn new_path(&self, instance: &str) -> PathBuf {
        self.0.join(format!("{instance}{NEW}"))
    }

    /// Returns the instances that have a recorder or segments. Removes incomplete files of dead processes.
    pub(super) fn instances(&self) -> io::Result<BTreeSet<String>> {
        let mut instances = BTreeSet::new();
        for entry in fs::read_dir(&self.0)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let path = self.0.join(&name);
            let is_incomplete = name.strip_suffix(NEW).is_some_and(is_instance);
            if is_incomplete && matches!(with_fork_lock(|| lock_file(&path)), Ok(Some(_))) {
                let _ = fs::remove_file(path);
            }
            instances.extend(instance_of(&name).map(str::to_owned));
        }
        Ok(instances)
    }
}

/// Locks a file for as long as the returned mapping lives, or returns `None` if it is locked or does not exist.
///
/// A lock belongs to the open file description, which the mapping keeps alive after the descriptor is closed; a forked
/// child does not inherit the mapping. The caller must hold the fork lock: a child forked while the descriptor is open
/// would share the lock.
pub(super) fn lock_file(path: &Path) -> io::Result<Option<Map>> {
    let file = match open_own(path, OpenOptions::new().read(true).write(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // Another process may have delivered and removed the file between `open` and `flock`.
    if try_lock(&file, libc::LOCK_EX)? && is_at(path, &file)? {
        Map::to_keep_lock(&file).map(Some)
    } else {
        Ok(None)
    }
}

/// Returns whether a living process uses a file. Takes a shared lock for a moment, so that several processes can check
/// a file at the same time.
pub(super) fn is_in_use(path: &Path) -> io::Result<bool> {
    with_fork_lock(|| {
        let file = open_own(path, OpenOptions::new().read(true))?;
        try_lock(&file, libc::LOCK_SH).map(|is_locked| !is_locked)
    })
}

/// Returns the instance of a recorder or segment with this file name.
pub(super) fn instance_of(name: &str) -> Option<&str> {
    let segment = || Some(name.strip_suffix(".segment")?.rsplit_once('-')?.0);
    name.strip_suffix(RECORDER).or_else(segment).filter(|instance| is_instance(instance))
}

/// Returns the common part of an instance's file names.
pub(super) fn instance_name(instance: u64) -> String {
    format!("{instance:016x}")
}

/// Returns whether `name` is an instance name in the spelling of this library. Files with other names are ignored.
pub(super) fn is_instance(name: &str) -> bool {
    u64::from_str_radix(name, 16).is_ok_and(|instance| instance_name(instance) == name)
}

/// Returns whether `file` is still the file at `path`.
pub(super) fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let file = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (file.dev(), file.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks a file for as long as it is open or mapped. Returns false if it is already locked.
#[allow(unsafe_code)]
fn try_lock(file: &File, kind: c_int) -> io::Result<bool> {
    // SAFETY: a call on an open file
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}
