//! Reads values of a file: checks their types, parses units, and expands `%{env:NAME}%` and `%{file:path}%`.

use std::cell::Cell;
use std::env::VarError;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::error::{Advice, Checked, Fault, Words};
use crate::config::node::{Integer, Node, Tree};
use crate::config::text::{quoted, shortened, unshown};
use crate::config::{text, units};

pub(crate) const PERCENT_ADVICE: &str = "write a percentage like 100 or 0.1";

/// Advice for a value where a boolean is expected.
pub(crate) const TRUE_OR_FALSE: &str = "write true or false, without quotes";
/// Advice for a value where a whole number is expected.
pub(crate) const WHOLE_NUMBER: &str = "write a whole number, without quotes";

/// Makes the fault of a value that has another type than the setting.
pub(crate) fn wrong_type(node: &Node, advice: Advice) -> Fault {
    Fault::new(format!("found {}", node.kind()), advice)
}

/// A string in which references to secrets are expanded.
pub(crate) struct Text<'v> {
    /// The text of the file, without expanded secrets. Only this form may be shown.
    pub(crate) written: &'v str,
    pub(crate) text: String,
    /// True if `text` contains an expanded secret.
    pub(crate) is_secret: bool,
}

impl Text<'_> {
    /// Prepends the text to a fault, without expanded secrets.
    pub(crate) fn fault(&self, fault: Fault) -> Fault {
        fault.of(quoted(self.written))
    }

    /// Reads the text. A fault begins with the text, without expanded secrets.
    pub(super) fn parse<T>(&self, parse: impl Fn(&str) -> Checked<T>) -> Checked<T> {
        parse(&self.text).map_err(|fault| self.fault(fault))
    }
}

pub(crate) fn text<'v>(node: &'v Node, resolver: &Resolver, advice: Advice) -> Checked<Text<'v>> {
    text_in(node, node, resolver, advice)
}

/// Returns the text of a part of `whole`. If the part is not text, the fault is about all of `whole`.
pub(super) fn text_in<'v>(
    part: &'v Node,
    whole: &Node,
    resolver: &Resolver,
    advice: Advice,
) -> Checked<Text<'v>> {
    #[cfg(feature = "yaml")]
    if let Tree::Inserted { written, text, is_secret } = &part.value {
        let written = if *is_secret { written } else { text };
        return Ok(Text { written, text: text.clone(), is_secret: *is_secret });
    }
    resolver.expand(part.as_text().ok_or_else(|| wrong_type(whole, advice))?)
}

/// Returns the known word that equals the value, ignoring case.
pub(crate) fn word<'k>(
    node: &Node,
    resolver: &Resolver,
    advice: Advice,
    known: &[&'k str],
) -> Checked<&'k str> {
    let text = text(node, resolver, advice)?;
    let found = known.iter().find(|known| known.eq_ignore_ascii_case(&text.text));
    found.copied().ok_or_else(|| {
        // An expanded secret must not influence the advice.
        let word = if text.is_secret { "" } else { text.text.as_str() };
        let fix = text::did_you_mean(word, known).map_or(advice.into(), Words::from);
        text.fault(Fault::new("is not known", fix))
    })
}

/// Returns text; a number without quotes counts as text.
pub(crate) fn loose_text<'v>(node: &'v Node, resolver: &Resolver, advice: Advice) -> Checked<Text<'v>> {
    match &node.value {
        Tree::Integer(Integer { written, .. }) | Tree::Float { written, .. } => {
            Ok(Text { written, text: written.clone(), is_secret: false })
        }
        _ => text(node, resolver, advice),
    }
}

/// Returns a percentage. Text is accepted, because environment variables contain only text.
pub(crate) fn percent(node: &Node, resolver: &Resolver) -> Checked<f64> {
    let checked = |number: f64| (!number.is_nan()).then_some(number);
    let not_a_number = || Fault::new("is not a number", PERCENT_ADVICE);
    match &node.value {
        Tree::Integer(number) => Ok(number.value as f64),
        Tree::Float { value, written } => checked(*value).ok_or_else(|| not_a_number().of(written)),
        _ => text(node, resolver, PERCENT_ADVICE)?
            .parse(|text| text.trim().parse().ok().and_then(checked).ok_or_else(not_a_number)),
    }
}

/// Returns a duration in Go's syntax, in which units are required.
pub(crate) fn go_duration(node: &Node, resolver: &Resolver, advice: Advice) -> Checked<Duration> {
    match &node.value {
        Tree::Integer(Integer { written, .. }) => {
            units::parse_go_duration(written).map_err(|fault| fault.of(shortened(written)))
        }
        _ => text(node, resolver, advice)?.parse(units::parse_go_duration),
    }
}

pub(crate) fn bool(node: &Node) -> Checked<bool> {
    let Tree::Bool(value) = node.value else { return Err(wrong_type(node, TRUE_OR_FALSE)) };
    Ok(value)
}

/// Returns a duration: a number of milliseconds, or a string with number and unit.
pub(crate) fn duration(node: &Node, resolver: &Resolver, advice: Advice) -> Checked<Duration> {
    match &node.value {
        Tree::Integer(number) => whole(number).map(Duration::from_millis),
        _ => text(node, resolver, advice)?.parse(units::parse_duration),
    }
}

/// Returns a size: a number of bytes, or a string with number and unit.
pub(crate) fn bytes(node: &Node, resolver: &Resolver, advice: Advice) -> Checked<u64> {
    match &node.value {
        Tree::Integer(number) => whole(number),
        _ => text(node, resolver, advice)?.parse(units::parse_size),
    }
}

pub(crate) fn count(node: &Node) -> Checked<u64> {
    let Tree::Integer(number) = &node.value else { return Err(wrong_type(node, WHOLE_NUMBER)) };
    whole(number)
}

fn whole(number: &Integer) -> Checked<u64> {
    let (what, fix) = match number.value < 0 {
        true => ("is negative", "write a positive number"),
        false => ("is too large", "write a smaller number"),
    };
    u64::try_from(number.value).map_err(|_| Fault::new(what, fix).of(shortened(&number.written)))
}

/// The size limit of the configuration and of each file that it names.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Limit for all files and variables that one configuration reads, because a short text can name a large file many
/// times.
const MAX_EXPANDED_BYTES: usize = 16 << 20;
/// Minimum that a lookup subtracts from that limit, even if it reads less, because opening a file takes time as well.
const MIN_CHARGE: usize = 4 << 10;
/// Paths of open file descriptors, which are read even if they are pipes: a shell passes `<(command)` as `/dev/fd/63`.
const DESCRIPTOR_DIRECTORIES: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// Expands references to secrets, such as `%{env:NAME}%` and `%{file:path}%`, and reads files that values name.
pub(crate) struct Resolver {
    /// Directory at which relative paths start.
    directory: PathBuf,
    environment: fn(&str) -> Result<String, VarError>,
    /// Remaining bytes of [`MAX_EXPANDED_BYTES`].
    left: Cell<usize>,
}

impl Resolver {
    /// Makes a resolver for the environment of the process; `directory` is that of the configuration file.
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            environment: |name| std::env::var(name),
            left: Cell::new(MAX_EXPANDED_BYTES),
        }
    }

    /// Returns the absolute path of a file that is read again later, after the working directory may have changed.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        let path = self.directory.join(path);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Expands the references in a value. Expanded text is not searched for further references.
    pub(crate) fn expand<'v>(&self, written: &'v str) -> Checked<Text<'v>> {
        let mut text = String::with_capacity(written.len());
        let mut rest = written;
        // One pass from left to right. Expanded text is appended to `text` and never becomes part of `rest`.
        while let Some((before, after)) = rest.split_once("%{") {
            let Some((reference, after)) = after.split_once("}%") else {
                return Fault::err("unclosed %{", "close it with }%, like %{env:NAME}%");
            };
            text.push_str(before);
            text.push_str(&self.look_up(reference)?);
            rest = after;
        }
        text.push_str(rest);
        // `rest` is shorter than the whole value if and only if a reference was expanded.
        Ok(Text { written, text, is_secret: rest.len() < written.len() })
    }

    /// Reads a file that the configuration names.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        // The minimum is charged before the file is opened, so that no file is opened once the budget is used up.
        self.charge(0)?;
        let bytes = read_bounded(&self.directory.join(path))?;
        self.charge(bytes.len())?;
        Ok(bytes)
    }

    /// Subtracts the bytes of one lookup from the limit.
    fn charge(&self, bytes: usize) -> Result<(), ReadError> {
        let left = self.left.get().checked_sub(bytes.max(MIN_CHARGE));
        // The first lookup beyond the limit fails, and so do all later ones.
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(ReadError::TooMuch)
    }

    fn look_up(&self, reference: &str) -> Checked<String> {
        match reference.split_once(':') {
            Some(("env", name)) => self.look_up_variable(name.trim()),
            Some(("file", path)) => self.look_up_file(path.trim()),
            _ => Fault::err("unknown kind of %{…}%", "write %{env:NAME}% or %{file:path}%"),
        }
    }

    fn look_up_variable(&self, name: &str) -> Checked<String> {
        let state = match (self.environment)(name) {
            Ok(text) if text.is_empty() => "empty",
            Ok(text) => {
                return self.charge(text.len()).map(|()| text).map_err(|cause| {
                    let what = format!("cannot read environment variable {}: {cause}", quoted(name));
                    Fault::new(what, "name fewer or shorter ones")
                });
            }
            Err(VarError::NotPresent) => "not set",
            Err(VarError::NotUnicode(_)) => "not UTF-8",
        };
        Fault::err(format!("environment variable {} is {state}", quoted(name)), "set it to the value")
    }

    fn look_up_file(&self, path: &str) -> Checked<String> {
        let fault =
            |state| Fault::new(format!("file {} is {state}", quoted(path)), "write the value into it");
        let bytes = self.read(path).map_err(|cause| unreadable(path, path, &cause))?;
        let text = String::from_utf8(bytes).map_err(|_| fault("not UTF-8"))?;
        // Editors end a file with a line break, which is not part of the secret.
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() { Err(fault("empty")) } else { Ok(text.to_owned()) }
    }
}

/// Returns the fault of a file that cannot be read; `written` is its path in the configuration, `path` the expanded
/// path.
pub(crate) fn unreadable(written: &str, path: &str, cause: &ReadError) -> Fault {
    let Some(text) = unshown(path).or_else(|| unshown(written)) else {
        let what = format!("cannot read file {}: {cause}", quoted(written));
        return Fault::new(what, "write the path of a readable file");
    };
    Fault::new(format!("{text} where a path is expected"), "write it to a file and give its path")
}

/// The reason why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Directory,
    /// Not a regular file. Opening a pipe without a writer, or reading from some devices, never returns.
    NotRegular,
    TooLarge,
    /// With the number of the first invalid line.
    NotUtf8(usize),
    /// All files and variables of the configuration together exceed [`MAX_EXPANDED_BYTES`].
    TooMuch,
    /// This build has no YAML parser.
    #[cfg(not(feature = "yaml"))]
    NoYaml,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => f.write_str("no such file"),
            Self::Io(error) => error.kind().fmt(f),
            Self::Directory => f.write_str("is a directory"),
            Self::NotRegular => f.write_str("is not a regular file"),
            Self::TooLarge => f.write_str("larger than 1 MiB"),
            Self::NotUtf8(line) => write!(f, "not UTF-8 in line {line}"),
            Self::TooMuch => {
                write!(f, "all files and variables together are larger than {} MiB", MAX_EXPANDED_BYTES >> 20)
            }
            #[cfg(not(feature = "yaml"))]
            Self::NoYaml => f.write_str("this build cannot read YAML"),
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if let Self::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a whole file within the limit.
pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>, ReadError> {
    // Checked before the file is opened: opening a pipe without a writer would block.
    let kind = fs::metadata(path)?.file_type();
    let is_readable = kind.is_file() || DESCRIPTOR_DIRECTORIES.iter().any(|place| path.starts_with(place));
    match kind.is_dir() {
        true => Err(ReadError::Directory),
        false if is_readable => read_at_most(&mut File::open(path)?),
        false => Err(ReadError::NotRegular),
    }
}

/// Reads a stream to its end within the limit.
pub(crate) fn read_at_most(reader: &mut dyn Read) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    // Reading one byte more than allowed shows whether the stream exceeds the limit.
    reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES { Err(ReadError::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn resolver() -> Resolver {
        Resolver {
            directory: Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            environment: |name| match name {
                "TOKEN" => Ok("hunter2".to_owned()),
                "NESTED" => Ok("%{env:TOKEN}%".to_owned()),
                "EMPTY" => Ok(String::new()),
                "LATIN" => Err(VarError::NotUnicode(OsString::new())),
                _ => Err(VarError::NotPresent),
            },
            left: Cell::new(MAX_EXPANDED_BYTES),
        }
    }

    #[test]
    fn references_are_replaced_wherever_they_stand() {
        for (text, expanded) in [
            ("Bearer %{env:TOKEN}%", "Bearer hunter2"),
            ("%{env:TOKEN}%%{env: TOKEN }%!", "hunter2hunter2!"),
            ("%{env:NESTED}%", "%{env:TOKEN}%"),
        ] {
            let read = resolver().expand(text).expect(text);
            assert_eq!((&*read.text, read.is_secret), (expanded, true), "{text:?}");
        }
        for text in ["", "100%", "%7B{x}%", "{env:TOKEN}"] {
            let read = resolver().expand(text).expect(text);
            assert_eq!((&*read.text, read.is_secret), (text, false), "{text:?}");
        }
    }

    #[test]
    fn a_file_is_found_beside_the_configuration_and_loses_its_last_line_break() {
        let main = resolver().expand("%{file:main.rs}%").expect("this crate's own file");
        assert!(main.is_secret && main.text.ends_with('}'), "{:?}", main.text);
    }

    #[test]
    fn a_missing_secret_is_named() {
        for (text, what) in [
            ("%{env:MISSING}%", "environment variable \"MISSING\" is not set"),
            ("%{env:EMPTY}%", "environment variable \"EMPTY\" is empty"),
            ("%{env:LATIN}%", "environment variable \"LATIN\" is not UTF-8"),
            ("%{env:}%", "environment variable \"\" is not set"),
            ("%{env:A=B}%", "environment variable *** (3 characters) is not set"),
            ("%{file:no/such}%", "cannot read file \"no/such\": no such file"),
            ("%{file:config}%", "cannot read file \"config\": is a directory"),
            ("%{vault:x}%", "unknown kind of %{…}%"),
            ("%{TOKEN}%", "unknown kind of %{…}%"),
            ("%{env:TOKEN", "unclosed %{"),
        ] {
            assert_eq!(resolver().expand(text).map(|_| ()).expect_err(text).what, what, "{text:?}");
        }
    }
}
