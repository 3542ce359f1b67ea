//! The directory of a simulated program's spool, in memory if the system has `/dev/shm`.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::process::atomic::AtomicU64;

/// A directory that is removed when this value is dropped.
pub(super) struct Disk(pub(super) PathBuf);

impl Disk {
    pub(super) fn new() -> Self {
        // Several tests may run at the same time.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = place.join(format!(
            "standpipe-simulation-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        ));
        let _ = fs::remove_dir_all(&path);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        builder.mode(0o700);
        builder.create(&path).expect("there is room for a directory");
        Self(path)
    }

    /// Returns the name of a file in the directory; `None` if there is no file.
    pub(super) fn first_file(&self) -> Option<String> {
        let mut files = fs::read_dir(&self.0).ok()?;
        files.find_map(|file| file.ok()?.file_name().into_string().ok())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
