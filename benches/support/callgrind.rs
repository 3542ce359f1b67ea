//! Counts instructions with callgrind. Unlike times, the counts do not depend on the load of the machine.
//!
//! The count of a short run is subtracted from that of a long run, so that start and end cancel out.

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
    /// Returns the instructions per span from two runs, of which the long one has `more` additional spans.
    pub(crate) fn between(short_run: (u64, u64), long_run: (u64, u64), more: u64) -> Self {
        let each = |short: u64, long: u64| (long as f64 - short as f64) / more as f64;
        Self { caller: each(short_run.0, long_run.0), others: each(short_run.1, long_run.1) }
    }
}

/// Returns why instructions cannot be counted here, or `None` if they can.
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

/// Counts the instructions per span, from a run with `short` and a run with `long` spans.
///
/// The child reads the number of spans from its setting `spans`.
///
/// # Errors
/// Returns an error if a run fails, or if valgrind's files cannot be read.
pub(crate) fn per_span(
    part: &str,
    settings: &[(&str, &dyn Display)],
    (short, long): (u64, u64),
) -> Result<Instructions, Error> {
    let count = |spans: u64| count(part, &[settings, &[("spans", &spans)]].concat(), &[]);
    Ok(Instructions::between(count(short)?, count(long)?, long - short))
}

/// Function that encloses the work of every thread except the main one.
pub(crate) const OTHER_THREADS: &str = "thread_start";

/// Counts the instructions of the main thread and of all other threads in one run.
///
/// If `within` is not empty, only the instructions in functions with these names are counted.
///
/// # Errors
/// Returns an error if the run fails, or if valgrind's files cannot be read.
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
        // There is one file for each thread, numbered in the order of their start.
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

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        // The folder is next to the program, so it is below the target directory.
        let path = env::current_exe()?.with_file_name(format!("callgrind-{}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the target directory and does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
