//! Where a value came from.

use std::fmt;

use super::Location;
use crate::config::escape::{escape_all_but, shows_itself};

/// Where the value of a [`Setting`] came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// Nobody set it.
    #[default]
    Default,
    /// An environment variable of this name set it.
    Environment(String),
    /// The program set it with a method of [`Exporter`](crate::Exporter) or [`Config`](crate::Config).
    Code,
    /// A configuration file set it; the place is that of the value.
    File(Location),
}

impl Source {
    /// The place in a file, if it came from one.
    pub fn location(&self) -> Option<&Location> {
        match self {
            Source::File(location) => Some(location),
            Source::Default | Source::Code | Source::Environment(_) => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::Code => f.write_str("code"),
            Source::Environment(variable) => f.write_str(variable),
            Source::File(location) => location.fmt(f),
        }
    }
}

/// One setting as it will be used; from [`Exporter::effective`](crate::Exporter::effective) or
/// [`Config::effective`](crate::Config::effective).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The key as files spell it, for example `queue-records`.
    pub key: &'static str,
    /// The value as a file would spell it; secrets are `***`.
    pub value: String,
    /// Who set it.
    pub source: Source,
}

impl Setting {
    /// `value` may hold no secret; what could disturb a terminal is escaped.
    pub(super) fn new(key: &'static str, value: &str, source: Source) -> Self {
        Self { key, value: escape_all_but(shows_itself, value).into_owned(), source }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.source)
    }
}
