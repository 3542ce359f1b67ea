//! Where the settings of an exporter came from, and what findings call them.

use super::Exporter;
use crate::config::error::{Fault, Finding, FindingSeverity};
use crate::config::key::Key;
use crate::config::path::quoted;
use crate::config::{Location, Source};

/// A table of a file, or a group of environment variables.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// As findings name it.
    path: String,
    location: Option<Location>,
    /// How it spells its keys.
    spelling: fn(Key) -> &'static str,
}

/// How a setting got its value.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) source: Source,
    /// What to show instead of the value itself, such as the path it was read from.
    pub(super) shown: Option<String>,
}

impl Exporter {
    /// All defaults; readers of files start here. `path` is what findings call the table.
    pub(in crate::config) fn of_table(id: String, path: String, location: Location) -> Self {
        Self::new(id, Some(Table { path, location: Some(location), spelling: Key::name }))
    }

    /// As [`of_table`](Self::of_table), for files that speak of routes and spell their keys in their own way.
    pub(in crate::config) fn of_route(id: String, path: String, location: Location) -> Self {
        Self::new(id, Some(Table { path, location: Some(location), spelling: Key::name_in_routes }))
    }

    /// All defaults; for what environment variables describe.
    pub(in crate::config) fn of_environment(id: String, path: String) -> Self {
        Self::new(id, Some(Table { path, location: None, spelling: Key::name }))
    }

    /// Remembers where a value came from, and what to show for it if not the value.
    pub(in crate::config) fn record(&mut self, key: Key, source: Source, shown: Option<String>) {
        self.origins.insert(key, Origin { source, shown });
    }

    /// Keeps the exporter from being started: a setting was asked for, but cannot be used.
    pub(in crate::config) fn refuse(&mut self, key: Key, source: Source, fault: Fault) {
        self.record(key, source.clone(), None);
        self.refused.push((key, source, fault));
    }

    pub(in crate::config) fn refused(&self) -> &[(Key, Source, Fault)] {
        &self.refused
    }

    pub(in crate::config) fn source(&self, key: Key) -> Source {
        self.origins.get(&key).map_or(Source::Default, |origin| origin.source.clone())
    }

    pub(in crate::config) fn header_source(&self, index: usize) -> &Source {
        self.header_sources.get(index).unwrap_or(&Source::Default)
    }

    /// What is wrong with a setting, at the place the value came from or else where the exporter is declared.
    pub(in crate::config) fn finding(
        &self,
        severity: FindingSeverity,
        key: Key,
        source: &Source,
        fault: Fault,
    ) -> Finding {
        let (location, key) = match source {
            Source::Environment(variable) => (None, variable.clone()),
            _ => (
                source.location().or(self.location()).cloned(),
                format!("{}.{}", self.path(), self.spelt(key)),
            ),
        };
        fault.found(severity, location, key)
    }

    fn spelt(&self, key: Key) -> &'static str {
        self.table.as_ref().map_or(key.name(), |table| (table.spelling)(key))
    }

    /// The exporter in findings: as its file or its program knows it.
    pub(in crate::config) fn path(&self) -> String {
        self.table
            .as_ref()
            .map_or_else(|| format!("exporter {}", quoted(&self.label())), |table| table.path.clone())
    }

    /// Where the exporter as a whole is described, if that is in a file.
    pub(in crate::config) fn location(&self) -> Option<&Location> {
        self.table.as_ref().and_then(|table| table.location.as_ref())
    }
}
