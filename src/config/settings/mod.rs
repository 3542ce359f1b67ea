//! The settings of an exporter: one row each, beside the field that holds its value and its default, and the builder's method.
//!
//! A new setting is added in [`delivery`] or [`connection`]: its field with the default, its row, its method. The readers of
//! files and of environment variables, validation, `standpipe check` with its JSON, and messages go through the rows and
//! need no change. What remains is where the setting is used, in `pipeline/` or `transport/`, and texts, which tests hold to
//! the rows and print as they should be: the table of `guide/configuration.md`, and `cli/init/telemetry.toml`. Settings that
//! are not of one exporter are in [`general`].

pub(super) mod connection;
pub(super) mod delivery;
pub(super) mod general;
pub(super) mod kind;

use std::ops::RangeInclusive;
use std::time::Duration;

use self::kind::Kind;
use crate::config::Exporter;
use crate::config::error::Fault;
use crate::record::Signal;

pub(crate) use self::connection::*;
pub(crate) use self::delivery::*;

/// All rows, in the order in which they are read and shown.
pub(crate) fn rows() -> impl Iterator<Item = &'static SettingRow> {
    [ADDRESS, DELIVERY, CONNECTION, SPOOLING].into_iter().flatten().copied()
}

/// All that there is to know of one setting.
pub(crate) struct SettingRow {
    /// As files of the layout `[tracer.…]` and `[metrics.…]`, which is Stalwart's, spell it, and messages.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// What to write, for messages about a value of the wrong kind.
    pub(crate) advice: &'static str,
    /// What it means, in one sentence, for the tables of the documentation.
    #[cfg(test)]
    pub(crate) doc: &'static str,
    pub(crate) variables: VariableNames,
    /// Whether the tables of tracers or of metrics in such files can have it, as its signals say.
    pub(crate) is_in_tables: bool,
    /// As files of the layout `telemetry: exporters:`, which is Tracetest's, spell it, if they have it.
    pub(crate) in_tracetest: Option<TracetestSpelling>,
    /// How [`ExporterSummary`](crate::config::ExporterSummary) has it, if it does.
    pub(crate) in_summary: Option<SummaryField>,
    /// The signals that the setting makes a difference to.
    pub(crate) signals: &'static [Signal],
    /// Whether it is of no use to an exporter that prints.
    pub(crate) needs_connection: bool,
    /// The setting that must be set with it.
    pub(crate) partner: Option<&'static SettingRow>,
    /// A rule beyond the range of its kind. One that needs a connection is not asked of an exporter that prints.
    pub(crate) rule: fn(&Exporter) -> Result<(), Fault>,
    /// What to remark on the word of a variable that is understood, but not done.
    pub(crate) remark: fn(&str) -> Option<Fault>,
}

/// OpenTelemetry's environment variables for a setting.
pub(crate) enum VariableNames {
    /// `OTEL_EXPORTER_OTLP_` and this, and with the name of a signal between them.
    OfExporter(&'static str),
    /// One for traces, logs and metrics each; empty for a signal without one.
    OfSignals([&'static str; Signal::COUNT]),
}

/// How Tracetest's files have a setting.
pub(crate) struct TracetestSpelling {
    /// The path below `telemetry.exporters.<name>`, with dots.
    pub(crate) key: &'static str,
    pub(crate) advice: &'static str,
}

/// How a setting appears in the summary of an exporter.
pub(crate) struct SummaryField {
    /// Ends in `_ms` for durations.
    pub(crate) name: &'static str,
    /// It is null for exporters that send none of these. The form of the summary is fixed, and not always as `signals`.
    pub(crate) signals: &'static [Signal],
}

impl SettingRow {
    /// What a row is that says nothing else.
    pub(crate) const PLAIN: Self = Self {
        key: "",
        kind: Kind::Signals,
        advice: "",
        #[cfg(test)]
        doc: "",
        variables: VariableNames::OfSignals([""; Signal::COUNT]),
        is_in_tables: true,
        in_tracetest: None,
        in_summary: None,
        signals: &Signal::ALL,
        needs_connection: false,
        partner: None,
        rule: |_| Ok(()),
        remark: |_| None,
    };

    /// The base of rows that are of no use to an exporter that prints.
    pub(crate) const CONNECTED: Self = Self { needs_connection: true, ..Self::PLAIN };

    /// Whether the setting makes a difference to what an exporter sends.
    pub(crate) fn matters_to(&self, exporter: &Exporter) -> bool {
        let is_sent = self.signals.iter().any(|&signal| exporter.signals.contain(signal));
        is_sent && (!self.needs_connection || exporter.connection.transport.connects())
    }
}

/// No two rows have the same key.
impl PartialEq for SettingRow {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// Every moment that is computed from a duration must be one that the clock can tell.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(365 * 86_400);
pub(crate) const ANY: RangeInclusive<Duration> = Duration::ZERO..=MAX_DURATION;
const POSITIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=MAX_DURATION;
/// The worker collects metrics itself: nothing waits for room in the queue, and the interval is the pace.
const RECORDS: &[Signal] = &[Signal::Traces, Signal::Logs];

/// Settings of parts of the program: the fields that rows set, each with its default.
macro_rules! settings {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[$doc:meta])* $visibility:vis $field:ident: $type:ty = $default:expr,)*
    })*) => {$(
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$doc])* $visibility $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    )*};
}
use settings;

/// Defines each row by its name and its key, and a list of them; a base has the fields that rows leave out. The comment on a row
/// is its sentence in the tables of the documentation.
macro_rules! table {
    ($list:ident from $base:ident: $($(#[doc = $doc:literal])+ $name:ident $key:literal { $($field:ident: $value:expr,)* })*) => {
        $(
            $(#[doc = $doc])+
            pub(crate) static $name: SettingRow = SettingRow {
                key: $key,
                $($field: $value,)*
                #[cfg(test)]
                doc: concat!($($doc),+),
                ..SettingRow::$base
            };
        )*
        pub(super) static $list: &[&SettingRow] = &[$(&$name),*];
    };
}
use table;

/// The builder's methods that only keep their value.
macro_rules! setters {
    ($($(#[$doc:meta])* $method:ident($value:ident: $type:ty) sets $($name:ident).+ of $row:ident;)*) => {
        impl Exporter {
            $(
                $(#[$doc])*
                pub fn $method(mut self, $value: $type) -> Self {
                    self.$($name).+ = $value;
                    self.set_in_code(&$row)
                }
            )*
        }
    };
}
use setters;

#[cfg(test)]
mod tests;
