//! From a file or a text to a configuration.

use std::path::Path;

use super::document::{Document, Mistake};
use super::env::Variables;
use super::error::{ConfigError, Finding, FindingSeverity, Location};
use super::expand::{MAX_FILE_BYTES, Surroundings, read_bounded};
use super::node::{Node, Tree};
use super::section::{FIRST_NAMES, Owner};
#[cfg(feature = "yaml")]
use super::yaml;
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
    let format = Format::of(path);
    let mut document = format.parse(&name, &text)?;
    if format.is_mistaken(&document, &text) {
        format.tell_of_the_other(&mut document);
    }
    let surroundings = Surroundings::new(path.parent().unwrap_or(Path::new("")));
    read::read(document, &surroundings, &Variables::of_process())
}

/// Reads text; paths in it start at the working directory, and the environment is not asked.
pub(super) fn read_text(text: &str, format: Format) -> Result<Config, ConfigError> {
    let name = match format {
        Format::Toml => "<toml>",
        Format::Yaml => "<yaml>",
    };
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(name, "larger than 1 MiB".to_owned()));
    }
    read::read(format.parse(name, text)?, &Surroundings::new(""), &Variables::default())
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    Yaml,
}

impl Format {
    /// YAML is known by its extension; everything else is TOML.
    fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_yaml = ["yaml", "yml"].iter().any(|known| known.eq_ignore_ascii_case(extension));
        if is_yaml { Self::Yaml } else { Self::Toml }
    }

    fn other(self) -> Self {
        match self {
            Self::Toml => Self::Yaml,
            Self::Yaml => Self::Toml,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// Whether a text that is wrong in this format is right in the other.
    fn is_mistaken(self, document: &Document<'_>, text: &str) -> bool {
        if document.mistakes.is_empty() && document.root.as_table().is_some() {
            return false;
        }
        let has_sections = |root: &Node| FIRST_NAMES.iter().any(|name| root.get(name).is_some());
        self.other().parse("", text).is_ok_and(|other| other.mistakes.is_empty() && has_sections(&other.root))
    }

    /// One mistake, the name of the file, in place of one in every line.
    fn tell_of_the_other(self, document: &mut Document<'_>) {
        let (own, other) = (self.name(), self.other().name());
        let finding = Finding {
            severity: FindingSeverity::Error,
            location: Some(document.places.location(0)),
            key: String::new(),
            what: format!("this is {other}, but by its name the file is {own}"),
            fix: format!("let its name end in .{}", other.to_ascii_lowercase()),
        };
        document.mistakes = vec![Mistake { owner: Owner::Unknown, finding }];
        document.root.value = Tree::Null;
    }

    /// # Errors
    ///
    /// If this build cannot read the format.
    fn parse<'d>(self, file: &'d str, text: &'d str) -> Result<Document<'d>, ConfigError> {
        match self {
            Self::Toml => Ok(toml::parse(file, text)),
            #[cfg(feature = "yaml")]
            Self::Yaml => Ok(yaml::parse(file, text)),
            #[cfg(not(feature = "yaml"))]
            Self::Yaml => Err(ConfigError::unreadable(Finding {
                severity: FindingSeverity::Error,
                location: Some(Location { file: file.to_owned(), line: 1, column: 1 }),
                key: String::new(),
                what: "this build cannot read YAML".to_owned(),
                fix: "build standpipe with its feature \"yaml\", or write the same as TOML".to_owned(),
            })),
        }
    }
}

fn unreadable(file: &str, what: String) -> ConfigError {
    let location = Some(Location { file: file.to_owned(), line: 1, column: 1 });
    let fix = "name a readable file of TOML or YAML, at most 1 MiB".to_owned();
    ConfigError::unreadable(Finding {
        severity: FindingSeverity::Error,
        location,
        key: String::new(),
        what,
        fix,
    })
}
