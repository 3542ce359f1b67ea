//! What are queue, batch, throttle, retry and the reader of metrics given? Their settings, with the defaults.

use std::time::Duration;

use crate::record::{Severity, Signal};

/// What happens to a record that finds the queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// The caller waits until there is room: nothing is lost, callers slow down.
    #[default]
    Block,
    /// The new record is dropped and counted: callers never wait.
    DropNewest,
}

/// The queue's section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) when_full: WhenFull,
    /// How long a blocked caller waits at most; `None` = until there is room.
    pub(crate) block_timeout: Option<Duration>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { records: 32_768, bytes: 16 << 20, when_full: WhenFull::Block, block_timeout: None }
    }
}

/// The batch's section: how large one request may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchSettings {
    pub(crate) records: usize,
    /// Of the whole uncompressed request body.
    pub(crate) bytes: usize,
}

impl Default for BatchSettings {
    fn default() -> Self {
        // collectors refuse more than 4 MiB by default; the 64 KiB below it are room for their own counting
        Self { records: 8_192, bytes: (4 << 20) - (64 << 10) }
    }
}

/// The throttle's section: when a round of sending may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaceSettings {
    /// The shortest time between the starts of two rounds.
    pub(crate) throttle: Duration,
    /// How long an incomplete batch may wait for more.
    pub(crate) linger: Duration,
}

impl Default for PaceSettings {
    fn default() -> Self {
        Self { throttle: Duration::from_secs(1), linger: Duration::ZERO }
    }
}

/// The retry's section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetrySettings {
    pub(crate) first_delay: Duration,
    pub(crate) max_delay: Duration,
    /// A server's `Retry-After` is honoured up to this.
    pub(crate) max_retry_after: Duration,
    /// A batch that could not be delivered in this time is dropped and counted.
    pub(crate) give_up_after: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(60),
            give_up_after: Duration::from_secs(300),
        }
    }
}

/// Which signals an exporter sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signals([bool; Signal::COUNT]);

impl Signals {
    pub(crate) const ALL: Self = Self([true; Signal::COUNT]);

    pub(crate) fn of(signals: &[Signal]) -> Self {
        Self(Signal::ALL.map(|signal| signals.contains(&signal)))
    }

    #[inline]
    pub(crate) fn contain(self, signal: Signal) -> bool {
        self.0[signal as usize]
    }

    /// Those that are sent, always in the same order.
    pub(in crate::config) fn iter(self) -> impl Iterator<Item = Signal> {
        Signal::ALL.into_iter().filter(move |&signal| self.contain(signal))
    }
}

/// The least severity of the log records that are exported; `None` lets none pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level(pub(in crate::config) Option<Severity>);

impl Default for Level {
    fn default() -> Self {
        Self(Some(Severity::Info))
    }
}

impl Level {
    /// What lets no log record pass.
    pub(in crate::config) const DISABLE: Self = Self(None);

    /// The words of files; code may also name the steps between them.
    pub(in crate::config) const NAMES: [(&'static str, Level); 6] = [
        ("trace", Level(Some(Severity::Trace))),
        ("debug", Level(Some(Severity::Debug))),
        ("info", Level(Some(Severity::Info))),
        ("warn", Level(Some(Severity::Warn))),
        ("error", Level(Some(Severity::Error))),
        ("disable", Level::DISABLE),
    ];

    /// The least number of a severity that passes.
    pub(crate) fn least_severity(self) -> u8 {
        self.0.map_or(u8::MAX, Severity::number)
    }

    pub(in crate::config) fn name(self) -> String {
        self.0.map_or_else(|| "disable".to_owned(), |severity| severity.name().to_ascii_lowercase())
    }
}

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
    pub(in crate::config) const NAMES: [(&'static str, Self); 3] =
        [("cumulative", Self::Cumulative), ("delta", Self::Delta), ("lowmemory", Self::LowMemory)];

    /// As files spell it.
    pub(in crate::config) fn name(self) -> &'static str {
        // the table is in the order of the variants
        Self::NAMES[self as usize].0
    }
}

impl Histograms {
    pub(in crate::config) const NAMES: [(&'static str, Self); 2] =
        [("explicit", Self::Explicit), ("exponential", Self::Exponential)];

    /// As files spell it.
    pub(in crate::config) fn name(self) -> &'static str {
        // the table is in the order of the variants
        Self::NAMES[self as usize].0
    }
}

/// The section of metrics: when they are pushed, and in what form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeriodicReaderSettings {
    pub(crate) interval: Duration,
    pub(crate) temporality: Temporality,
    pub(crate) histograms: Histograms,
}

impl Default for PeriodicReaderSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            temporality: Temporality::default(),
            histograms: Histograms::default(),
        }
    }
}

/// What a word means, in any case.
pub(in crate::config) fn parse<T: Copy>(names: &[(&str, T)], text: &str) -> Option<T> {
    names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_known_by_its_name_in_any_case() {
        for (name, level) in Level::NAMES {
            assert_eq!(level.name(), name);
            assert_eq!(parse(&Level::NAMES, &name.to_uppercase()), Some(level));
        }
        assert_eq!(parse(&Level::NAMES, "verbose"), None);
        assert_eq!(parse(&Level::NAMES, ""), None);
    }

    #[test]
    fn a_level_lets_its_own_severity_pass_and_all_above() {
        assert_eq!(Level::default().least_severity(), 9);
        assert_eq!(Level(Some(Severity::Warn2)).least_severity(), 14);
        assert_eq!(Level(Some(Severity::Warn2)).name(), "warn2");
        assert!(Level::DISABLE.least_severity() > Severity::Fatal4.number());
    }

    #[test]
    fn forms_of_metrics_are_known_by_their_names_in_any_case() {
        for (name, temporality) in Temporality::NAMES {
            assert_eq!(temporality.name(), name);
            assert_eq!(parse(&Temporality::NAMES, &name.to_uppercase()), Some(temporality));
        }
        for (name, histograms) in Histograms::NAMES {
            assert_eq!(histograms.name(), name);
            assert_eq!(parse(&Histograms::NAMES, &name.to_uppercase()), Some(histograms));
        }
        assert_eq!(parse(&Temporality::NAMES, "low-memory"), None);
    }
}
