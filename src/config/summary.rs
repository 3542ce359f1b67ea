//! The effective configuration: each setting with its value and its origin, and a machine-readable summary of each
//! exporter.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::settings::kind::SettingValue;
use super::settings::{SettingRow, SummaryField, rows};
use super::{Config, Exporter, Location, ProviderName, header, section, text, units};
use crate::escape::{escape_all_but, shows_itself};
use crate::record::Signal;

/// The origin of the value of a [`Setting`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SettingSource {
    /// The default: no value was set.
    #[default]
    Default,
    /// An environment variable of this name set it.
    Environment(String),
    /// The program set it with a method of [`Exporter`](crate::Exporter) or [`Config`](crate::Config).
    Code,
    /// A configuration file set it, at this place.
    File(Location),
}

impl SettingSource {
    /// Returns the place in the file, if a file set the value.
    pub fn location(&self) -> Option<&Location> {
        if let Self::File(location) = self { Some(location) } else { None }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::Default => f.write_str("default"),
            SettingSource::Code => f.write_str("code"),
            SettingSource::Environment(variable) => f.write_str(variable),
            SettingSource::File(location) => location.fmt(f),
        }
    }
}

/// One effective setting. Returned by [`Exporter::effective`](crate::Exporter::effective) and
/// [`Config::effective`](crate::Config::effective).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The key as files spell it, for example `queue-records`.
    pub key: &'static str,
    /// The value as a file would spell it; secrets are `***`.
    pub value: String,
    /// The origin of the value.
    pub source: SettingSource,
}

impl Setting {
    /// Returns whether a line of a file that sets this key to this value may be shown. The value of an unknown key is
    /// shown only if it is a number, a short word or an address without a path. A line of `headers` must never be
    /// shown. The caller excludes such lines, because this function treats the name of a header as an unknown key.
    pub fn is_harmless(key: &str, value: &str) -> bool {
        text::is_showable(value) && (section::is_harmless(key) || text::is_plain(key, value))
    }

    /// Makes a setting from a value that contains no secret. Control characters of the value are escaped.
    pub(super) fn new(key: &'static str, value: &str, source: SettingSource) -> Self {
        Self { key, value: escape_all_but(shows_itself, value).into_owned(), source }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.source)
    }
}

/// The effective settings of one exporter, without secrets. Returned by [`Config::summaries`] and printed by
/// `standpipe check --json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExporterSummary {
    /// The exporter's name, without the prefix of its provider.
    pub id: String,
    /// The signals that are sent: `traces`, `logs`, `metrics`.
    pub signals: Vec<&'static str>,
    /// `http`, `http/json`, `grpc`, `file` or `console`.
    pub transport: &'static str,
    /// The destination of each signal: the full URL for HTTP; scheme, host and port for gRPC; the path of a file;
    /// `stdout` for the console. The query of a URL is `***`, because it often contains a key.
    pub endpoints: BTreeMap<&'static str, String>,
    /// Whether the connection is encrypted and the server's certificate verified.
    pub tls: bool,
    /// The names of the headers, in lower case; `***` for one that looks like a value.
    pub headers: Vec<String>,
    /// Further settings, such as `timeout_ms`, in the order in which they are printed; see [`setting`](Self::setting).
    pub settings: Vec<(&'static str, SummaryValue)>,
    /// The resource attribute `service.name`, with references such as `%{env:NAME}%` not expanded.
    pub service_name: String,
    /// Percentage of recorded traces among those that begin in this process.
    pub sampling: f64,
    /// `internal` or `application`, if the exporter was assigned to a [provider](Exporter::provider).
    pub route: Option<&'static str>,
}

impl ExporterSummary {
    /// Returns the setting of this name, such as `throttle_ms`; null if the exporter does not have it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::config::SummaryValue;
    /// use standpipe::{Config, Exporter};
    ///
    /// let exporter = Exporter::http("localhost").timeout(Duration::from_secs(3));
    /// let summary = Config::new().exporter(exporter).summaries().remove(0);
    /// assert_eq!(*summary.setting("timeout_ms"), SummaryValue::Number(3_000));
    /// ```
    pub fn setting(&self, name: &str) -> &SummaryValue {
        let found = self.settings.iter().find(|(known, _)| *known == name);
        found.map_or(&SummaryValue::Null, |(_, value)| value)
    }
}

// Written by hand, as for the ledger: with serde's derive macro, a program would be built from a third more crates.
/// Writes the settings next to the other fields, not in a nested object.
impl Serialize for ExporterSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, signals, transport, endpoints, tls, headers, settings, service_name, sampling, route } =
            self;
        // A map, because the number of settings varies.
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("signals", signals)?;
        map.serialize_entry("transport", transport)?;
        map.serialize_entry("endpoints", endpoints)?;
        map.serialize_entry("tls", tls)?;
        map.serialize_entry("headers", headers)?;
        for (name, value) in settings {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("service_name", service_name)?;
        map.serialize_entry("sampling", sampling)?;
        map.serialize_entry("route", route)?;
        map.end()
    }
}

/// The value of a setting in an [`ExporterSummary`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SummaryValue {
    /// The setting does not affect the exporter, or there is no limit.
    Null,
    /// A switch.
    Bool(bool),
    /// Milliseconds, bytes or records.
    Number(u64),
    /// The text that a file would contain; secrets are `***`.
    Text(String),
}

impl Serialize for SummaryValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl Config {
    /// Returns a summary of each exporter, in the order of [`exporters`](Self::exporters).
    pub fn summaries(&self) -> Vec<ExporterSummary> {
        self.exporters.iter().map(|exporter| self.summary(exporter)).collect()
    }

    fn summary(&self, exporter: &Exporter) -> ExporterSummary {
        let fields = rows().filter_map(|row| Some((row, row.in_summary.as_ref()?)));
        let (of_metrics, others): (Vec<_>, Vec<_>) =
            fields.partition(|(_, field)| field.signals == [Signal::Metrics]);
        let value = |(row, field): (&'static SettingRow, &SummaryField)| {
            // A setting that no signal of the exporter uses is null, so that all objects have the same fields.
            let is_sent = field.signals.iter().any(|&signal| exporter.signals.contain(signal));
            let value = match row.kind.get(exporter) {
                _ if !is_sent => SummaryValue::Null,
                Some(SettingValue::Duration(time)) => SummaryValue::Number(units::millis(time)),
                Some(SettingValue::NoLimit) => SummaryValue::Null,
                Some(SettingValue::Number(number)) => SummaryValue::Number(number as u64),
                Some(SettingValue::Bool(value)) => SummaryValue::Bool(value),
                _ => SummaryValue::Text(exporter.shown(row)),
            };
            (field.name, value)
        };
        let provider = self.provider(exporter);
        let connects = exporter.connection.transport.connects();
        let headers = exporter.connection.headers.iter().filter(|_| connects);
        ExporterSummary {
            id: exporter.own_name().to_owned(),
            signals: exporter.signals.iter().map(Signal::name).collect(),
            transport: exporter.connection.transport.name(),
            endpoints: exporter.endpoints().into_iter().map(|(signal, url)| (signal.name(), url)).collect(),
            tls: connects && exporter.connection.parsed().is_ok_and(|endpoint| endpoint.tls),
            headers: headers.map(|(name, _)| header::shown_name(name).to_ascii_lowercase()).collect(),
            // The order of the JSON fields is part of the format. Fields that affect only metrics come last.
            settings: others.into_iter().chain(of_metrics).map(value).collect(),
            service_name: provider.shown_service_name(),
            sampling: provider.sampling(),
            route: exporter.provider().map(ProviderName::name),
        }
    }
}

/// A map of a few entries, such as the origins of settings.
///
/// Searches linearly. This is fast enough for a handful of entries and needs far less code than a tree or a hash table.
#[derive(Debug, Clone, Default)]
pub(super) struct SmallMap<K, V>(Vec<(K, V)>);

impl<K: PartialEq, V> SmallMap<K, V> {
    pub(super) fn get<Q: PartialEq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.iter().find(|(known, _)| known.borrow() == key).map(|(_, value)| value)
    }

    /// Sets the value of a key and replaces an earlier one.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }
}

/// The origin of each setting, and the text to show instead of its value, such as the path of a file.
pub(super) type Origins<K> = SmallMap<K, (SettingSource, Option<String>)>;

impl<K: PartialEq + Borrow<str>> Origins<K> {
    pub(super) fn source(&self, key: &str) -> SettingSource {
        self.get(key).map(|(source, _)| source.clone()).unwrap_or_default()
    }

    pub(super) fn shown(&self, key: &str) -> Option<&str> {
        self.get(key)?.1.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_key_that_comes_twice_the_last_value_counts_in_the_place_of_the_first() {
        let mut few = SmallMap::default();
        for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
            few.insert(key, value);
        }
        assert_eq!((few.get("a"), few.get("b"), few.get("c")), (Some(&3), Some(&2), None));
        assert_eq!(few.0, [("a", 3), ("b", 2)]);
    }
}
