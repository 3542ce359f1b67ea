//! Which settings are not of one exporter? One row each, as in [`settings`](crate::config::settings).
//!
//! Service name, resource and sampler are of a [`provider`](crate::config::provider), and read by hand.

use std::time::Duration;

use crate::config::Config;
use crate::config::settings::kind::{Field, field};
use crate::config::settings::settings;
use crate::config::units;

/// All that there is to know of one setting.
pub(in crate::config) struct GeneralRow {
    /// As `standpipe check` shows it, and files spell it that have it.
    pub(in crate::config) key: &'static str,
    pub(in crate::config) kind: GeneralKind,
    /// The first of these environment variables that is set counts.
    pub(in crate::config) variables: &'static [&'static str],
}

/// What values a general setting has.
pub(in crate::config) enum GeneralKind {
    Bool(Field<Config, bool>),
    Count(Field<Config, u32>),
    /// A length, or any.
    Length(Field<Config, Option<usize>>),
    Duration(Field<Config, Duration>),
}

settings! {
    /// How the telemetry ends.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    EndSettings {
        /// How long a drop without a shutdown may take.
        pub(crate) drop_budget: Duration = Duration::from_secs(2),
    }
}

pub(in crate::config) static DISABLED: GeneralRow = GeneralRow {
    key: "disabled",
    kind: GeneralKind::Bool(field!(disabled)),
    variables: &["OTEL_SDK_DISABLED"],
};

pub(in crate::config) static SELF_OBSERVATION: GeneralRow =
    GeneralRow { key: "self-observation", kind: GeneralKind::Bool(field!(self_observation)), variables: &[] };

/// In code alone: the program knows how long it may take to end.
pub(in crate::config) static DROP_BUDGET: GeneralRow =
    GeneralRow { key: "drop-budget", kind: GeneralKind::Duration(field!(end.drop_budget)), variables: &[] };

/// What [`SpanLimits`](crate::config::SpanLimits) holds.
pub(in crate::config) static SPAN_LIMITS: [GeneralRow; 6] = [
    GeneralRow {
        key: "span-limits.attributes",
        kind: GeneralKind::Count(field!(span_limits.attributes)),
        variables: &["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", ATTRIBUTE_COUNT],
    },
    GeneralRow {
        key: "span-limits.events",
        kind: GeneralKind::Count(field!(span_limits.events)),
        variables: &["OTEL_SPAN_EVENT_COUNT_LIMIT"],
    },
    GeneralRow {
        key: "span-limits.links",
        kind: GeneralKind::Count(field!(span_limits.links)),
        variables: &["OTEL_SPAN_LINK_COUNT_LIMIT"],
    },
    GeneralRow {
        key: "span-limits.event-attributes",
        kind: GeneralKind::Count(field!(span_limits.event_attributes)),
        variables: &["OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"],
    },
    GeneralRow {
        key: "span-limits.link-attributes",
        kind: GeneralKind::Count(field!(span_limits.link_attributes)),
        variables: &["OTEL_LINK_ATTRIBUTE_COUNT_LIMIT"],
    },
    GeneralRow {
        key: "span-limits.value-length",
        kind: GeneralKind::Length(field!(span_limits.value_length)),
        variables: &["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", ATTRIBUTE_VALUE_LENGTH],
    },
];

/// What [`LogLimits`](crate::config::LogLimits) holds.
pub(in crate::config) static LOG_LIMITS: [GeneralRow; 2] = [
    GeneralRow {
        key: "log-limits.attributes",
        kind: GeneralKind::Count(field!(log_limits.attributes)),
        variables: &["OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", ATTRIBUTE_COUNT],
    },
    GeneralRow {
        key: "log-limits.value-length",
        kind: GeneralKind::Length(field!(log_limits.value_length)),
        variables: &["OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", ATTRIBUTE_VALUE_LENGTH],
    },
];

/// Those of spans and of log records alike.
const ATTRIBUTE_COUNT: &str = "OTEL_ATTRIBUTE_COUNT_LIMIT";
const ATTRIBUTE_VALUE_LENGTH: &str = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT";

/// All rows, in the order in which they are read and shown.
pub(in crate::config) fn rows() -> impl Iterator<Item = &'static GeneralRow> {
    [&DISABLED, &SELF_OBSERVATION, &DROP_BUDGET].into_iter().chain(&SPAN_LIMITS).chain(&LOG_LIMITS)
}

impl GeneralKind {
    /// The value that a configuration has, for people.
    pub(in crate::config) fn show(&self, config: &Config) -> String {
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

/// No two rows have the same key.
impl PartialEq for GeneralRow {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
