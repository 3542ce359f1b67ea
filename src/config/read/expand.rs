//! How do secrets get into a value? By `%{env:NAME}%` and `%{file:path}%`, which name where they are.

use std::cell::Cell;
use std::env::VarError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::config::error::Fault;
use crate::config::text::{quoted, unshown};

/// No file that a configuration names, nor the configuration itself, may be larger than this.
pub(in crate::config) const MAX_FILE_BYTES: u64 = 1 << 20;
/// All that one configuration may bring in: a short text can name the same large file without end …
const MAX_BROUGHT_IN: usize = 16 << 20;
/// … and each look-up counts at least this, because opening a file takes its time too.
const LEAST_CHARGE: usize = 4 << 10;
/// Where the system shows what is open already: a shell hands `<(command)` over as `/dev/fd/63`.
const HANDED_OVER: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// A value with its secrets put in.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) struct Expanded {
    pub(in crate::config) text: String,
    /// Whether anything was put in: then the text must not be shown.
    pub(in crate::config) is_secret: bool,
}

/// Where the secrets are looked up.
pub(in crate::config) struct Surroundings {
    /// Relative paths start here.
    directory: PathBuf,
    environment: fn(&str) -> Result<String, VarError>,
    /// How much more may be brought in.
    left: Cell<usize>,
}

impl Surroundings {
    /// The process' own environment; `directory` is the one of the configuration file.
    pub(in crate::config) fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            environment: |name| std::env::var(name),
            left: Cell::new(MAX_BROUGHT_IN),
        }
    }

    /// Puts the secrets into a value. Text that came from elsewhere is not searched again.
    pub(in crate::config) fn expand(&self, text: &str) -> Result<Expanded, Fault> {
        let mut expanded = String::with_capacity(text.len());
        let mut is_secret = false;
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("%{") {
            let Some((reference, after)) = after.split_once("}%") else {
                return Err(Fault::new("unclosed %{", "close it with }%, like %{env:NAME}%"));
            };
            expanded.push_str(before);
            expanded.push_str(&self.look_up(reference)?);
            is_secret = true;
            rest = after;
        }
        expanded.push_str(rest);
        Ok(Expanded { text: expanded, is_secret })
    }

    /// A file named by the configuration, or why it cannot be read.
    pub(in crate::config) fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.charge(0)?;
        let bytes = read_bounded(&self.directory.join(path))?;
        self.charge(bytes.len())?;
        Ok(bytes)
    }

    /// Takes off what is brought in; an error in words if that is too much.
    fn charge(&self, bytes: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(bytes.max(LEAST_CHARGE));
        // after a first thing that is too much nothing else is looked at
        self.left.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(()),
            None => Err(format!("all that is brought in is more than {} MiB", MAX_BROUGHT_IN >> 20)),
        }
    }

    fn look_up(&self, reference: &str) -> Result<String, Fault> {
        match reference.split_once(':') {
            Some(("env", name)) => self.look_up_variable(name.trim()),
            Some(("file", path)) => self.look_up_file(path.trim()),
            _ => Err(Fault::new("unknown kind of %{…}%", "write %{env:NAME}% or %{file:path}%")),
        }
    }

    fn look_up_variable(&self, name: &str) -> Result<String, Fault> {
        let fault = |state| {
            Fault::new(format!("environment variable {} is {state}", quoted(name)), "set it to the value")
        };
        match self.variable(name) {
            Ok(text) if text.is_empty() => Err(fault("empty")),
            Ok(text) => match self.charge(text.len()) {
                Ok(()) => Ok(text),
                Err(cause) => Err(Fault::new(
                    format!("cannot read environment variable {}: {cause}", quoted(name)),
                    "name fewer or shorter ones",
                )),
            },
            Err(VarError::NotPresent) => Err(fault("not set")),
            Err(VarError::NotUnicode(_)) => Err(fault("not UTF-8")),
        }
    }

    fn variable(&self, name: &str) -> Result<String, VarError> {
        // such names make the standard library panic on some systems
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(VarError::NotPresent);
        }
        (self.environment)(name)
    }

    fn look_up_file(&self, path: &str) -> Result<String, Fault> {
        let fault =
            |state| Fault::new(format!("file {} is {state}", quoted(path)), "write the value into it");
        let bytes = self.read(path).map_err(|cause| unreadable(path, path, &cause))?;
        let text = String::from_utf8(bytes).map_err(|_| fault("not UTF-8"))?;
        // editors end a file with a line break; no secret does
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() { Err(fault("empty")) } else { Ok(text.to_owned()) }
    }
}

/// Says that a file cannot be read; `written` is its path as the configuration spells it, `path` with secrets put in.
pub(in crate::config) fn unreadable(written: &str, path: &str, cause: &str) -> Fault {
    match unshown(path).or_else(|| unshown(written)) {
        Some(text) => {
            Fault::new(format!("{text} where a path is expected"), "write it to a file and name that")
        }
        None => Fault::new(
            format!("cannot read file {}: {cause}", quoted(written)),
            "write the path of a readable file",
        ),
    }
}

/// The whole file, or why not, in words.
pub(in crate::config) fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let in_words = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        kind => kind.to_string(),
    };
    let kind = fs::metadata(path).map_err(in_words)?.file_type();
    if kind.is_dir() {
        return Err("is a directory".to_owned());
    }
    // to open a pipe without a writer would take for ever, and so would many a device
    if !kind.is_file() && !HANDED_OVER.iter().any(|place| path.starts_with(place)) {
        return Err("is not a regular file".to_owned());
    }
    let mut file = File::open(path).map_err(in_words)?;
    let bytes = read_at_most(&mut file).map_err(in_words)?;
    bytes.ok_or_else(|| "larger than 1 MiB".to_owned())
}

/// All that there is to read, or `None` if that is too much.
pub(in crate::config) fn read_at_most(reader: &mut dyn Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn surroundings() -> Surroundings {
        Surroundings {
            directory: Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            environment: |name| match name {
                "TOKEN" => Ok("hunter2".to_owned()),
                "NESTED" => Ok("%{env:TOKEN}%".to_owned()),
                "EMPTY" => Ok(String::new()),
                "LATIN" => Err(VarError::NotUnicode(OsString::new())),
                _ => Err(VarError::NotPresent),
            },
            left: Cell::new(MAX_BROUGHT_IN),
        }
    }

    #[test]
    fn references_are_replaced_wherever_they_stand() {
        for (text, expanded) in [
            ("Bearer %{env:TOKEN}%", "Bearer hunter2"),
            ("%{env:TOKEN}%%{env: TOKEN }%!", "hunter2hunter2!"),
            ("%{env:NESTED}%", "%{env:TOKEN}%"),
        ] {
            let expected = Expanded { text: expanded.to_owned(), is_secret: true };
            assert_eq!(surroundings().expand(text), Ok(expected), "{text:?}");
        }
        for text in ["", "100%", "%7B{x}%", "{env:TOKEN}"] {
            let expected = Expanded { text: text.to_owned(), is_secret: false };
            assert_eq!(surroundings().expand(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_file_is_found_beside_the_configuration_and_loses_its_last_line_break() {
        let main = surroundings().expand("%{file:main.rs}%").expect("this crate's own file");
        assert!(main.is_secret && main.text.ends_with('}'), "{:?}", main.text);
    }

    #[test]
    fn a_missing_secret_is_named() {
        for (text, what) in [
            ("%{env:MISSING}%", "environment variable \"MISSING\" is not set"),
            ("%{env:EMPTY}%", "environment variable \"EMPTY\" is empty"),
            ("%{env:LATIN}%", "environment variable \"LATIN\" is not UTF-8"),
            ("%{env:}%", "environment variable \"\" is not set"),
            ("%{env:A=B}%", "environment variable \"A=B\" is not set"),
            ("%{file:no/such}%", "cannot read file \"no/such\": no such file"),
            ("%{file:config}%", "cannot read file \"config\": is a directory"),
            ("%{vault:x}%", "unknown kind of %{…}%"),
            ("%{TOKEN}%", "unknown kind of %{…}%"),
            ("%{env:TOKEN", "unclosed %{"),
        ] {
            assert_eq!(surroundings().expand(text).expect_err(text).what, what, "{text:?}");
        }
    }
}
