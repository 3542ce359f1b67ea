//! The sections of a file that become exporters, and the keys of each section.

use super::provider::ProviderName;
use super::settings::general::{DETECT, EXEMPLARS, PROPAGATORS, SELF_OBSERVATION};
use super::settings::kind::Kind;
use super::settings::{SettingRow, rows};
use super::text::dotted;
use crate::record::Signal;

/// Keys of `[tracer.<id>]` that decide whether the section becomes an exporter, and for which signals.
pub(super) const TYPE: &str = "type";
pub(super) const ENABLE: &str = "enable";
/// Name under which the TOML parser stores a table `enable` if the section also sets `enable` to a value.
pub(super) const ENABLE_TABLE: &str = "enable.";
pub(super) const ENABLE_LOGS: &str = "enable.log-exporter";
pub(super) const ENABLE_SPANS: &str = "enable.span-exporter";
pub(super) const METRICS: [&str; 2] = ["metrics", "open-telemetry"];
pub(super) const TELEMETRY: &str = "telemetry";
/// Section that describes exporters by name.
pub(super) const EXPORTERS: [&str; 2] = [TELEMETRY, "exporters"];
/// Section that selects exporters by their names.
pub(super) const SERVER: [&str; 2] = ["server", "telemetry"];

/// First parts of the paths of all sections.
pub(super) const FIRST_NAMES: [&str; 4] = ["tracer", METRICS[0], EXPORTERS[0], SERVER[0]];

/// Keys of `server.telemetry`, and the provider for which each of them selects an exporter.
pub(super) const CHOICES: [(&str, ProviderName); 2] =
    [("exporter", ProviderName::Internal), ("applicationExporter", ProviderName::Application)];

/// Keys of `telemetry` that describe the program.
pub(super) const PROGRAM_KEYS: [&str; 7] =
    ["service-name", "resource", "sampling", "views", DETECT.key, PROPAGATORS.key, EXEMPLARS.key];

/// Keys of `telemetry.exporters.<name>` that belong to the provider.
pub(super) const PROVIDER_KEYS: [&str; 2] = ["serviceName", "sampling"];

const TRACER_KEYS: [&str; 4] = [TYPE, ENABLE, ENABLE_LOGS, ENABLE_SPANS];

/// Keys that do not exist but are often expected, and the advice for them.
const EXPECTED: [(&str, &str); 9] = [
    (
        "service-name service.name servicename service",
        "write it in [telemetry], like service-name = \"shop\"",
    ),
    ("sampler sampling sample-rate", "write it in [telemetry], like sampling = 100"),
    ("resource attributes", "write it in [telemetry.resource]"),
    ("url address host server", "did you mean \"endpoint\"?"),
    ("port", "write it in endpoint, like \"http://localhost:4318\""),
    ("protocol", "did you mean \"transport\"?"),
    ("insecure tls ssl", "the scheme of endpoint decides: write http:// or https://"),
    ("ca certificate ca-cert", "did you mean \"ca-file\"?"),
    ("gzip", "write compression = \"gzip\""),
];
const EXPECTED_IN_TRACERS: [(&str, &str); 3] = [
    ("enable.logs enable.log logs log-exporter", "did you mean \"enable.log-exporter\"?"),
    ("enable.spans enable.traces spans traces span-exporter", "did you mean \"enable.span-exporter\"?"),
    ("enabled", "did you mean \"enable\"?"),
];

/// A table that may become an exporter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    /// `[tracer.<id>]`: spans and logs.
    Tracer(String),
    /// `[metrics.open-telemetry]`.
    Metrics,
    /// `telemetry.exporters.<name>`: an exporter of each provider whose key in `server.telemetry` has this name.
    Exporter(String),
    /// `server.telemetry`, which selects the exporters of all providers.
    Server,
}

/// The section to which a place in a document belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    Section(Section),
    /// A section of another program.
    Other,
    /// Possibly any section.
    Unknown,
}

impl Owner {
    /// Returns the section that a syntax error at this path concerns.
    pub(super) fn of(path: &[&str]) -> Self {
        match (Section::at(path), path.first().copied()) {
            (Some(section), _) => Self::Section(section),
            (None, Some("tracer") | None) => Self::Unknown,
            // The error concerns all of `metrics`, of which only `open-telemetry` is read.
            (None, Some("metrics")) if path.len() == 1 => Self::Section(Section::Metrics),
            // Outside of a named exporter, the error may concern any exporter that `server.telemetry` selects.
            (None, Some("telemetry")) => Self::Section(Section::Server),
            (None, Some("server")) if path.len() == 1 => Self::Section(Section::Server),
            (None, Some(_)) => Self::Other,
        }
    }
}

impl Section {
    /// Returns the section that contains a path.
    pub(super) fn at(path: &[&str]) -> Option<Self> {
        match *path {
            ["tracer", id, ..] => Some(Self::Tracer(id.to_owned())),
            [first, second, ..] if [first, second] == METRICS => Some(Self::Metrics),
            [first, second, id, ..] if [first, second] == EXPORTERS => Some(Self::Exporter(id.to_owned())),
            [first, second, ..] if [first, second] == SERVER => Some(Self::Server),
            _ => None,
        }
    }

    pub(super) fn path(&self) -> Vec<&str> {
        match self {
            Self::Tracer(id) => vec!["tracer", id],
            Self::Metrics => METRICS.to_vec(),
            Self::Exporter(name) => [&EXPORTERS[..], &[name]].concat(),
            Self::Server => SERVER.to_vec(),
        }
    }

    /// Returns the name of the exporter in problems and in the ledger.
    pub(super) fn exporter_id(&self) -> String {
        match self {
            Self::Tracer(id) | Self::Exporter(id) => id.clone(),
            Self::Metrics | Self::Server => dotted(&self.path()),
        }
    }

    /// Returns the advice for a value that should be a table.
    pub(super) fn example(&self) -> &'static str {
        match self {
            Self::Tracer(_) => "write a table like [tracer.otel]",
            Self::Metrics => "write a table like [metrics.open-telemetry]",
            Self::Exporter(_) | Self::Server => "write its keys below it",
        }
    }

    /// Returns the setting that has this key in the section.
    pub(super) fn row(&self, name: &str) -> Option<&'static SettingRow> {
        self.rows().find(|row| self.spelling(row).0 == name)
    }

    /// Returns the key of a setting in this section, and what to write for it.
    pub(super) fn spelling(&self, row: &'static SettingRow) -> (&'static str, &'static str) {
        row.in_tracetest.filter(|_| self.is_of_tracetest()).unwrap_or((row.key, row.advice))
    }

    /// Returns every key of the section. A key in a nested table is spelled with dots, such as `enable.log-exporter`.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.rows().map(|row| self.spelling(row).0).chain(self.switches().iter().copied()).collect()
    }

    /// Returns whether the section has the form of Tracetest's files.
    pub(super) fn is_of_tracetest(&self) -> bool {
        matches!(self, Self::Exporter(_))
    }

    /// Returns the advice for a key that exists only in another section.
    pub(super) fn advice_on_misplaced(&self, name: &str) -> &'static str {
        match (self, name) {
            (Self::Tracer(_), "signals") => "write enable.span-exporter and enable.log-exporter",
            (Self::Tracer(_), _) => "write it in [metrics.open-telemetry]",
            (Self::Metrics, ENABLE) => "write transport = \"disable\" to switch metrics off",
            (Self::Metrics | Self::Exporter(_) | Self::Server, _) => "remove it",
        }
    }

    /// Returns the advice for a key that does not exist but is often expected.
    pub(super) fn advice_on_expected(&self, name: &str) -> Option<&'static str> {
        let name = name.replace('_', "-").to_ascii_lowercase();
        let of_tracers = if matches!(self, Self::Tracer(_)) { &EXPECTED_IN_TRACERS[..] } else { &[] };
        let is_it = |(names, _): &&(&str, &str)| names.split(' ').any(|known| known == name);
        of_tracers.iter().chain(&EXPECTED).find(is_it).map(|(_, advice)| *advice)
    }

    fn rows(&self) -> impl Iterator<Item = &'static SettingRow> + use<> {
        let sent: &[Signal] = match self {
            Self::Tracer(_) => &[Signal::Traces, Signal::Logs],
            Self::Metrics => &[Signal::Metrics],
            Self::Exporter(_) | Self::Server => &[],
        };
        let is_of_tracetest = self.is_of_tracetest();
        rows().filter(move |row| match is_of_tracetest {
            true => row.in_tracetest.is_some(),
            false => row.is_in_tables && row.signals.iter().any(|signal| sent.contains(signal)),
        })
    }

    /// Returns the keys of the section that are not settings of an exporter.
    pub(super) fn switches(&self) -> &'static [&'static str] {
        match self {
            Self::Tracer(_) => &TRACER_KEYS,
            Self::Metrics => std::slice::from_ref(&SELF_OBSERVATION.key),
            Self::Exporter(_) => &PROVIDER_KEYS,
            Self::Server => &[],
        }
    }
}

/// Returns whether a setting of this name exists, in any section or only in code.
pub(super) fn is_known_somewhere(name: &str) -> bool {
    let is_setting = rows().any(|row| row.key == name);
    is_setting || TRACER_KEYS.contains(&name) || name == SELF_OBSERVATION.key
}

/// Returns whether a key is known and its value is never a secret.
pub(super) fn is_harmless(name: &str) -> bool {
    let is_of = |row: &SettingRow| {
        let in_tracetest = row.in_tracetest.and_then(|(key, _)| key.rsplit('.').next());
        row.key == name || in_tracetest == Some(name)
    };
    let mut rows = rows().filter(|row| row.is_in_tables && !matches!(row.kind, Kind::Headers));
    let is_switch = TRACER_KEYS.contains(&name) || name == SELF_OBSERVATION.key;
    let is_of_tracetest = PROVIDER_KEYS.contains(&name) || CHOICES.iter().any(|(choice, _)| *choice == name);
    is_switch || is_of_tracetest || PROGRAM_KEYS.contains(&name) || rows.any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_files_can_set_is_of_a_section() {
        let tracer = Section::Tracer("otel".to_owned());
        for row in rows().filter(|row| row.is_in_tables) {
            assert!(tracer.row(row.key).or(Section::Metrics.row(row.key)).is_some(), "{}", row.key);
        }
        for (name, of_tracers, of_metrics) in [
            ("endpoint", true, true),
            ("level", true, false),
            ("throttle", true, false),
            ("interval", false, true),
            ("signals", false, false),
            ("type", false, false),
        ] {
            let found = (tracer.row(name).is_some(), Section::Metrics.row(name).is_some());
            assert_eq!(found, (of_tracers, of_metrics), "{name}");
            assert!(is_known_somewhere(name), "{name}");
        }
        assert!(!is_known_somewhere("endpont"));
    }
}
