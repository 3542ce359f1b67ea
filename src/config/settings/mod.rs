//! The settings of an exporter: one row each, next to the field with its default and the builder's method.
//!
//! # Adding a setting
//!
//! 1. Add the field with its default, the row and the method in [`delivery`] or [`connection`]. Validation, messages,
//!    `standpipe check`, and the code that reads files and variables iterate over the rows and need no change.
//! 2. Use the setting in `pipeline/` or `transport/`.
//! 3. Add it to the table of `guide/configuration.md` and to `cli/init/telemetry.toml`. Tests compare both with the
//!    rows and print the expected text.
//!
//! Settings that do not belong to one exporter are in [`general`].

pub(super) mod connection;
pub(super) mod delivery;
pub(super) mod file;
pub(super) mod general;
pub(super) mod kind;

use std::ops::RangeInclusive;
use std::time::Duration;

use self::kind::Kind;
use crate::config::error::{Advice, Checked};
use crate::config::{Exporter, Transport};
use crate::record::Signal;

pub(crate) use self::connection::*;
pub(crate) use self::delivery::*;
pub(crate) use self::file::*;

/// Returns all rows, in the order in which they are read and shown.
pub(crate) fn rows() -> impl Iterator<Item = &'static SettingRow> {
    [ADDRESS, FILES, DELIVERY, CONNECTION, SPOOLING].into_iter().flatten().copied()
}

/// The description of one setting.
pub(crate) struct SettingRow {
    /// Key in messages and in files of Stalwart's layout, which has `[tracer.…]` and `[metrics.…]`. Identifies the row.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// Advice for an invalid value: what to write instead.
    pub(crate) advice: Advice,
    /// Meaning of the setting in one sentence, for the tables of the documentation.
    #[cfg(test)]
    pub(crate) doc: &'static str,
    pub(crate) variables: VariableNames,
    /// Whether files of Stalwart's layout may contain the setting: in `[tracer.…]` or `[metrics.…]`, depending on its
    /// signals.
    pub(crate) is_in_tables: bool,
    /// Dotted path below `telemetry.exporters.<name>` in files of Tracetest's layout, and the advice for it; `None` if
    /// such files cannot contain the setting.
    pub(crate) in_tracetest: Option<(&'static str, Advice)>,
    /// Field of [`ExporterSummary`](crate::config::ExporterSummary); `None` if the summary does not contain it.
    pub(crate) in_summary: Option<SummaryField>,
    /// Signals that the setting affects.
    pub(crate) signals: &'static [Signal],
    /// Returns whether the setting affects exporters with this transport.
    pub(crate) applies_to: fn(Transport) -> bool,
    /// Setting that must be set together with this one.
    pub(crate) partner: Option<&'static SettingRow>,
    /// Additional rule for the value, if the setting applies to the transport of the exporter.
    pub(crate) rule: fn(&Exporter) -> Checked,
}

/// OpenTelemetry's environment variables for a setting.
pub(crate) enum VariableNames {
    /// `OTEL_EXPORTER_OTLP_<name>`, and `OTEL_EXPORTER_OTLP_<signal>_<name>` for each signal.
    OfExporter(&'static str),
    /// One variable each for traces, logs and metrics; empty for a signal without a variable.
    OfSignals([&'static str; Signal::COUNT]),
}

/// A setting in the summary of an exporter.
pub(crate) struct SummaryField {
    /// Name of the field; for durations it ends in `_ms`.
    pub(crate) name: &'static str,
    /// The field is null for exporters that send none of these signals. These may differ from the signals of the row,
    /// because the format of the summary is fixed.
    pub(crate) signals: &'static [Signal],
}

impl SettingRow {
    /// Defaults for the fields of a row.
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
        applies_to: |_| true,
        partner: None,
        rule: |_| Ok(()),
    };

    /// Defaults for rows that affect only exporters with a network connection.
    pub(crate) const CONNECTED: Self = Self { applies_to: Transport::connects, ..Self::PLAIN };

    /// Defaults for rows that affect only exporters that write files.
    pub(crate) const WRITTEN: Self = Self { applies_to: |it| matches!(it, Transport::File), ..Self::PLAIN };

    /// Returns whether the setting affects an exporter.
    pub(crate) fn matters_to(&self, exporter: &Exporter) -> bool {
        let is_sent = self.signals.iter().any(|&signal| exporter.signals.contain(signal));
        is_sent && (self.applies_to)(exporter.connection.transport)
    }
}

/// Longest duration of a setting. It keeps every deadline within the range of `Instant`.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(365 * 86_400);
pub(crate) const ANY: RangeInclusive<Duration> = Duration::ZERO..=MAX_DURATION;
const POSITIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=MAX_DURATION;
/// Signals whose records callers enqueue. The worker collects metrics itself, once per interval.
const RECORDS: &[Signal] = &[Signal::Traces, Signal::Logs];

/// Defines structs of settings: the fields that rows set, each with its default.
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

/// Defines rows by name and key, and a list of them. The base provides the fields that a row omits. The doc comment of
/// a row is its sentence in the tables of the documentation.
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

/// Defines methods of the builder that only store their value.
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
