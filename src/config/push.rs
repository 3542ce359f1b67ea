//! The section of metrics: when they are pushed, and in what form.

use std::time::Duration;

use super::settings::parse;

/// Over which stretch of time the sums of metrics go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Temporality {
    /// Since the start of the program: a push that is lost is made good by the next.
    #[default]
    Cumulative,
    /// Since the last push, for counters and histograms; up-down counters stay cumulative.
    Delta,
    /// As [`Delta`](Self::Delta) for counters and histograms that the program updates; what callbacks observe
    /// stays cumulative, so that nothing must be remembered between two pushes.
    LowMemory,
}

/// How histograms divide their values, unless an instrument has bounds of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Histograms {
    /// Fifteen bounds from 0 to 10,000.
    #[default]
    Explicit,
    /// At most 160 buckets of equal ratio, as fine as the values allow.
    Exponential,
}

impl Temporality {
    pub(super) const NAMES: [(&'static str, Self); 3] =
        [("cumulative", Self::Cumulative), ("delta", Self::Delta), ("lowmemory", Self::LowMemory)];

    /// In any case.
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse(&Self::NAMES, text)
    }

    /// As files spell it.
    pub(super) fn name(self) -> &'static str {
        // the table is in the order of the variants
        Self::NAMES[self as usize].0
    }
}

impl Histograms {
    const NAMES: [(&'static str, Self); 2] =
        [("explicit", Self::Explicit), ("exponential", Self::Exponential)];

    /// In any case.
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse(&Self::NAMES, text)
    }

    /// As files spell it.
    pub(super) fn name(self) -> &'static str {
        // the table is in the order of the variants
        Self::NAMES[self as usize].0
    }
}

/// The section of metrics: when they are pushed, and in what form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PushSettings {
    pub(crate) interval: Duration,
    pub(crate) temporality: Temporality,
    pub(crate) histograms: Histograms,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            temporality: Temporality::default(),
            histograms: Histograms::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_metrics_are_known_by_their_names_in_any_case() {
        for (name, temporality) in Temporality::NAMES {
            assert_eq!(temporality.name(), name);
            assert_eq!(Temporality::parse(&name.to_uppercase()), Some(temporality));
        }
        for (name, histograms) in Histograms::NAMES {
            assert_eq!(histograms.name(), name);
            assert_eq!(Histograms::parse(&name.to_uppercase()), Some(histograms));
        }
        assert_eq!(Temporality::parse("low-memory"), None);
    }
}
