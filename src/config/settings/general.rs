//! Settings that do not belong to one exporter: one row each, as in [`settings`](crate::config::settings).
//!
//! Service name, resource and sampler belong to a [`provider`](crate::config::provider) and have no row.

use std::time::Duration;

use crate::config::Config;
use crate::config::settings::kind::{Field, field};
use crate::config::settings::settings;
use crate::config::units;

/// The description of one setting.
pub(crate) struct GeneralRow {
    /// Key in the output of `standpipe check`, and in files. Identifies the row.
    pub(crate) key: &'static str,
    pub(crate) kind: GeneralKind,
    /// Environment variables, of which the first valid one is used.
    pub(crate) variables: &'static [&'static str],
}

/// The kind of a general setting, with the accessors of its value.
pub(crate) enum GeneralKind {
    Bool(Field<Config, bool>),
    Count(Field<Config, u32>),
    /// A maximum length, or no limit.
    Length(Field<Config, Option<usize>>),
    Duration(Field<Config, Duration>),
}

settings! {
    /// Settings of the shutdown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    EndSettings {
        /// Longest time that a drop without a shutdown may take.
        pub(crate) drop_budget: Duration = Duration::from_secs(2),
    }
}

pub(crate) static DISABLED: GeneralRow =
    row("disabled", GeneralKind::Bool(field!(disabled)), &["OTEL_SDK_DISABLED"]);

pub(crate) static SELF_OBSERVATION: GeneralRow =
    row("self-observation", GeneralKind::Bool(field!(self_observation)), &[]);

/// Set only in code, because the program knows how long it may take to exit.
pub(crate) static DROP_BUDGET: GeneralRow =
    row("drop-budget", GeneralKind::Duration(field!(end.drop_budget)), &[]);

/// Defines the rows of a struct of limits. A row is a key, the kind of its setting, a field and its variables.
macro_rules! limits {
    ($($key:literal: $kind:ident $($name:ident).+, $variables:expr;)*) => {
        [$(row($key, GeneralKind::$kind(field!($($name).+)), &$variables)),*]
    };
}

/// The fields of [`SpanLimits`](crate::config::SpanLimits).
pub(crate) static SPAN_LIMITS: [GeneralRow; 6] = limits! {
    "span-limits.attributes": Count span_limits.attributes, ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", ATTRIBUTE_COUNT];
    "span-limits.events": Count span_limits.events, ["OTEL_SPAN_EVENT_COUNT_LIMIT"];
    "span-limits.links": Count span_limits.links, ["OTEL_SPAN_LINK_COUNT_LIMIT"];
    "span-limits.event-attributes": Count span_limits.event_attributes, ["OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"];
    "span-limits.link-attributes": Count span_limits.link_attributes, ["OTEL_LINK_ATTRIBUTE_COUNT_LIMIT"];
    "span-limits.value-length": Length span_limits.value_length, ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", ATTRIBUTE_VALUE_LENGTH];
};

/// The fields of [`LogLimits`](crate::config::LogLimits).
pub(crate) static LOG_LIMITS: [GeneralRow; 2] = limits! {
    "log-limits.attributes": Count log_limits.attributes, ["OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", ATTRIBUTE_COUNT];
    "log-limits.value-length": Length log_limits.value_length, ["OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", ATTRIBUTE_VALUE_LENGTH];
};

const fn row(key: &'static str, kind: GeneralKind, variables: &'static [&'static str]) -> GeneralRow {
    GeneralRow { key, kind, variables }
}

/// Variables that apply to both spans and log records.
const ATTRIBUTE_COUNT: &str = "OTEL_ATTRIBUTE_COUNT_LIMIT";
const ATTRIBUTE_VALUE_LENGTH: &str = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT";

/// Returns all rows, in the order in which they are read and shown.
pub(crate) fn rows() -> impl Iterator<Item = &'static GeneralRow> {
    [&DISABLED, &SELF_OBSERVATION, &DROP_BUDGET].into_iter().chain(&SPAN_LIMITS).chain(&LOG_LIMITS)
}

impl GeneralKind {
    /// Returns the value of a configuration as text.
    pub(crate) fn show(&self, config: &Config) -> String {
        match self {
            Self::Bool(field) => (field.get)(config).to_string(),
            Self::Count(field) => (field.get)(config).to_string(),
            Self::Length(field) => {
                (field.get)(config).map_or_else(|| "any".to_owned(), |most| most.to_string())
            }
            Self::Duration(field) => units::show_duration((field.get)(config)),
        }
    }
}
