//! Settings that do not belong to one exporter: one row each, as in [`settings`](crate::config::settings).
//!
//! Service name, resource and sampler belong to a [`provider`](crate::config::provider) and have no row.

use std::time::Duration;

use crate::config::error::Fault;
use crate::config::settings::kind::{Field, field};
use crate::config::settings::settings;
use crate::config::text::{quoted, what_to_write, words};
use crate::config::values::Named;
use crate::config::{Config, Detector, ExemplarFilter, units};
use crate::context::{Propagator, Propagators};

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
    Words(WordList),
}

/// Accessors of a list of words, each of which stands for a value.
pub(crate) struct WordList {
    /// True if the list has exactly one word.
    pub(crate) is_one: bool,
    /// All words.
    pub(crate) names: fn() -> Vec<&'static str>,
    show: fn(&Config) -> String,
    /// Ignores unknown words.
    pub(crate) set: fn(&mut Config, &[&str]),
}

impl WordList {
    /// Splits the text of a variable or a file.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        if self.is_one { vec![text] } else { words(text) }
    }

    /// Returns the reason why the list cannot contain a word, if there is one.
    pub(crate) fn fault(&self, word: &str) -> Option<Fault> {
        let is_it = |known: &str| known.eq_ignore_ascii_case(word);
        let names = (self.names)();
        if names.iter().any(|name| is_it(name)) {
            return None;
        }
        let fault = match FOREIGN_FORMATS.iter().find(|(name, ..)| is_it(name)) {
            Some((_, what, fix)) => Fault::new(*what, *fix),
            None => Fault::new("is not known", what_to_write(word, &names)),
        };
        Some(fault.of(quoted(word)))
    }
}

/// Makes the kind of a field that is a collection of named values.
macro_rules! words {
    ($type:ident $field:ident $collect:path) => {
        GeneralKind::Words(WordList {
            is_one: false,
            names: || $type::names().into_iter().chain(["none"]).collect(),
            show: |config| {
                let names: Vec<_> = config.$field.iter().map(|value| value.name()).collect();
                if names.is_empty() { "none".to_owned() } else { names.join(",") }
            },
            set: |config, words| config.$field = $collect(words.iter().filter_map(|word| $type::parse(word))),
        })
    };
}

settings! {
    /// Settings of the shutdown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    EndSettings {
        /// Time limit for the drop of a `Telemetry` that was not shut down.
        pub(crate) drop_budget: Duration = Duration::from_secs(2),
    }
}

pub(crate) static DISABLED: GeneralRow =
    row("disabled", GeneralKind::Bool(field!(disabled)), &["OTEL_SDK_DISABLED"]);

pub(crate) static DETECT: GeneralRow =
    row("detect", words!(Detector detectors Vec::from_iter), &["OTEL_RESOURCE_DETECTORS"]);

pub(crate) static PROPAGATORS: GeneralRow =
    row("propagators", words!(Propagator propagators Propagators::new), &["OTEL_PROPAGATORS"]);

pub(crate) static EXEMPLARS: GeneralRow = row(
    "exemplars",
    GeneralKind::Words(WordList {
        is_one: true,
        names: ExemplarFilter::names,
        show: |config| config.exemplars.name().to_owned(),
        set: |config, words| {
            let filter = words.iter().find_map(|word| ExemplarFilter::parse(word));
            config.exemplars = filter.unwrap_or_default();
        },
    }),
    &["OTEL_METRICS_EXEMPLAR_FILTER"],
);

/// Propagators that only other SDKs support, each with what is wrong and what to write.
const FOREIGN_FORMATS: &[(&str, &str, &str)] = &[
    ("jaeger", "is deprecated and not supported", "write tracecontext, which Jaeger reads"),
    ("ottrace", "is deprecated and not supported", "write tracecontext or b3"),
    ("xray", "is not supported: only AWS reads it", "write tracecontext"),
];

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
    [&DISABLED, &DETECT, &PROPAGATORS, &EXEMPLARS, &SELF_OBSERVATION, &DROP_BUDGET]
        .into_iter()
        .chain(&SPAN_LIMITS)
        .chain(&LOG_LIMITS)
}

impl GeneralKind {
    /// Sets a count or a length. A number that is too large for the field becomes its maximum.
    pub(crate) fn set_count(&self, config: &mut Config, count: u64) {
        match self {
            Self::Count(field) => (field.set)(config, u32::try_from(count).unwrap_or(u32::MAX)),
            Self::Length(field) => (field.set)(config, usize::try_from(count).ok()),
            _ => {}
        }
    }

    /// Returns the value of a configuration as text.
    pub(crate) fn show(&self, config: &Config) -> String {
        match self {
            Self::Bool(field) => (field.get)(config).to_string(),
            Self::Count(field) => (field.get)(config).to_string(),
            Self::Length(field) => (field.get)(config).map_or("any".to_owned(), |most| most.to_string()),
            Self::Words(list) => (list.show)(config),
            Self::Duration(field) => units::show_duration((field.get)(config)),
        }
    }
}
