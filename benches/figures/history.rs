//! Reads the committed versions of `benches/figures.toml` from the git history.

use std::path::Path;
use std::process::{Command, Output};
use std::{io, str};

use crate::committed::Committed;
use crate::support::Error;

/// Path of the file, relative to the root of the repository.
const FILE: &str = "benches/figures.toml";

/// Returns all committed versions, beginning with the newest, or the reason why there is no history.
///
/// # Errors
/// Returns an error if git fails in an existing history, or if a version cannot be parsed.
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
    // `--first-parent`: a merge is one version, which includes the reasons given on its branch.
    let listed = git(folder, &["log", "--first-parent", "--format=%H", "--", FILE])?;
    if !listed.status.success() {
        return Err(format!("git log: {}", String::from_utf8_lossy(&listed.stderr).trim_end()).into());
    }
    let mut versions = Vec::new();
    for commit in text(&listed)?.lines() {
        let shown = git(folder, &["show", &format!("{commit}:./{FILE}")])?;
        // A commit that deleted the file has no version of it.
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
