//! The versions of the committed figures that the history knows.

use std::path::Path;
use std::process::{Command, Output};
use std::{io, str};

use crate::committed::Committed;
use crate::support::Error;

/// The file, as git names it.
const FILE: &str = "benches/figures.toml";

/// All committed versions, the newest first; or why there are none to be had.
///
/// # Errors
/// When git fails in the middle, or when a version cannot be read.
pub(crate) fn versions(folder: &Path) -> Result<Result<Vec<Committed>, String>, Error> {
    let shallow = match git(folder, &["rev-parse", "--is-shallow-repository"]) {
        Ok(output) if output.status.success() => text(&output)?.trim() == "true",
        Ok(_) => return Ok(Err("there is no git history here".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Err("git is not installed".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    if shallow {
        return Ok(Err("this is a shallow clone without the history of benches/figures.toml".to_owned()));
    }
    // a merge brings in what has been said on its branch
    let listed = git(folder, &["log", "--first-parent", "--format=%H", "--", FILE])?;
    if !listed.status.success() {
        return Err(format!("git log: {}", String::from_utf8_lossy(&listed.stderr).trim_end()).into());
    }
    let mut versions = Vec::new();
    for commit in text(&listed)?.lines() {
        let shown = git(folder, &["show", &format!("{commit}:./{FILE}")])?;
        // a commit that took the file away has no version of it
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
