//! Reads the versions of the committed figures from the git history.

use std::path::Path;
use std::process::{Command, Output};
use std::{io, str};

use crate::committed::Committed;

/// Path of the file in the repository.
const FILE: &str = "benches/figures.toml";

/// Error type of the benchmarks.
type Error = Box<dyn std::error::Error>;

/// Returns all committed versions, newest first, or the reason why the history is not available.
///
/// # Errors
/// Returns an error if the history is available but cannot be read.
pub(crate) fn versions(folder: &Path) -> Result<Result<Vec<Committed>, String>, Error> {
    let shallow = match git(folder, &["rev-parse", "--is-shallow-repository"]) {
        Ok(said) if said.status.success() => text(&said)?.trim() == "true",
        Ok(_) => return Ok(Err("there is no git history here".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Err("git is not installed".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    if shallow {
        return Ok(Err(
            "this is a shallow clone: the history of benches/figures.toml is not in it".to_owned()
        ));
    }
    // A merge commit contains the changes of its branch, so only first parents are listed.
    let listed = git(folder, &["log", "--first-parent", "--format=%H", "--", FILE])?;
    if !listed.status.success() {
        return Err(format!("git log: {}", String::from_utf8_lossy(&listed.stderr).trim_end()).into());
    }
    let mut versions = Vec::new();
    for commit in text(&listed)?.lines() {
        let shown = git(folder, &["show", &format!("{commit}:./{FILE}")])?;
        // A commit that removed the file contains no version of it.
        if shown.status.success() {
            versions.push(Committed::read(text(&shown)?).map_err(|error| format!("in {commit}: {error}"))?);
        }
    }
    Ok(Ok(versions))
}

fn git(folder: &Path, arguments: &[&str]) -> io::Result<Output> {
    Command::new("git").arg("-C").arg(folder).args(arguments).output()
}

fn text(output: &Output) -> Result<&str, str::Utf8Error> {
    str::from_utf8(&output.stdout)
}
