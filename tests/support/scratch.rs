//! A place for the files of a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, process};

/// An empty directory that is removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub(crate) fn new_in(place: &Path) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("scratch-{}-{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = place.join(name);
        // A process with the same id may have been killed before it removed its directory.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the place of tests is writable");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).expect("the place of tests is writable");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed stays below the target directory and does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
