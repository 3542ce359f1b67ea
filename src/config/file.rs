//! From a file or a text to a configuration.

use std::path::Path;

use super::env::Variables;
use super::error::{ConfigError, Finding, FindingSeverity, Location};
use super::expand::{MAX_FILE_BYTES, Surroundings, read_bounded};
use super::{Config, read, toml};

/// Reads a file; paths in it start at its directory.
pub(super) fn read_file(path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let bytes = read_bounded(path).map_err(|cause| unreadable(&name, format!("cannot read: {cause}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|&&byte| byte == b'\n').count() + 1;
        unreadable(&name, format!("not UTF-8 in line {line}"))
    })?;
    let surroundings = Surroundings::new(path.parent().unwrap_or(Path::new("")));
    read::read(toml::parse(&name, &text), &surroundings, &Variables::of_process())
}

/// Reads text; paths in it start at the working directory.
pub(super) fn read_toml(text: &str) -> Result<Config, ConfigError> {
    const NAME: &str = "<toml>";
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(NAME, "larger than 1 MiB".to_owned()));
    }
    read::read(toml::parse(NAME, text), &Surroundings::new(""), &Variables::default())
}

fn unreadable(file: &str, what: String) -> ConfigError {
    let location = Some(Location { file: file.to_owned(), line: 1, column: 1 });
    let fix = "name a readable file of TOML, at most 1 MiB".to_owned();
    ConfigError::unreadable(Finding {
        severity: FindingSeverity::Error,
        location,
        key: String::new(),
        what,
        fix,
    })
}
