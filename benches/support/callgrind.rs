//! Counts instructions with callgrind. Unlike times, the counts are the same on a busy machine.
//!
//! The count of a short run is subtracted from that of a long run, which cancels start and shutdown.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::{env, fs, io};

use super::{Error, child};

/// Instructions per span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instructions {
    /// Instructions of the main thread, which emits the spans.
    pub(crate) caller: f64,
    /// Instructions of all other threads.
    pub(crate) others: f64,
}

impl Instructions {
    /// Computes the instructions per span from the counts of two runs. The second run had `more` additional spans.
    pub(crate) fn between(short_run: (u64, u64), long_run: (u64, u64), more: u64) -> Self {
        let each = |short: u64, long: u64| (long as f64 - short as f64) / more as f64;
        Self { caller: each(short_run.0, long_run.0), others: each(short_run.1, long_run.1) }
    }
}

/// Returns the reason why instructions cannot be counted, or `None` if they can.
pub(crate) fn unavailable() -> Option<String> {
    let version =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match version {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("valgrind does not run: {status}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("valgrind is not installed".to_owned()),
        Err(error) => Some(format!("valgrind does not run: {error}")),
    }
}

/// Returns the instructions per span of a part.
///
/// The part runs twice in a child, with `short` and with `long` spans as the value of its setting `spans`.
pub(crate) fn per_span(
    part: &str,
    settings: &[(&str, &dyn Display)],
    (short, long): (u64, u64),
) -> Result<Instructions, Error> {
    let count = |spans: u64| count(part, &[settings, &[("spans", &spans)]].concat(), &[]);
    Ok(Instructions::between(count(short)?, count(long)?, long - short))
}

/// Name of the function in which all threads except the main thread run.
pub(crate) const OTHER_THREADS: &str = "thread_start";

/// Returns the instructions of the main thread and of all other threads in one run.
///
/// If `within` is not empty, only instructions inside of functions with these names are counted.
pub(crate) fn count(
    part: &str,
    settings: &[(&str, &dyn Display)],
    within: &[&str],
) -> Result<(u64, u64), Error> {
    let folder = Folder::new()?;
    let mut wrapper = vec![
        "valgrind".to_owned(),
        "--tool=callgrind".to_owned(),
        "--separate-threads=yes".to_owned(),
        format!("--callgrind-out-file={}", folder.0.join("out").display()),
    ];
    wrapper.extend(within.iter().map(|name| format!("--toggle-collect=*{name}*")));
    child::play(&wrapper, part, settings)?;
    let (mut caller, mut others) = (0, 0);
    for entry in fs::read_dir(&folder.0)? {
        let entry = entry?;
        // There is one file per thread, numbered in the order of their start.
        match entry.file_name().to_string_lossy().strip_prefix("out-") {
            Some("01") => caller += total(&entry.path())?,
            Some(_) => others += total(&entry.path())?,
            None => {}
        }
    }
    if caller == 0 {
        return Err("valgrind counted nothing".into());
    }
    Ok((caller, others))
}

fn total(path: &Path) -> Result<u64, Error> {
    let text = fs::read_to_string(path)?;
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.ok_or("no total in valgrind's file")?.trim().parse()?)
}

/// Temporary folder, which is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        // Next to the executable, which is inside of the target directory.
        let path = env::current_exe()?.with_file_name(format!("callgrind-{}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is harmless inside of the target directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
