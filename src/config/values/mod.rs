//! Values as files and variables spell them: pure functions from text to a value and back. The choices among a few words are
//! in this file.

pub(super) mod endpoint;
pub(super) mod header;
pub(super) mod no_proxy;
pub(super) mod units;

use crate::record::{Severity, Signal};

/// A choice whose values have names in files and variables.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All names; the first name of a value is the one that is shown.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the value of a name, in any case.
    fn parse(text: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
    }

    /// Returns the name as files spell it.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

/// What happens to a record that finds the queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// The caller waits until there is room: nothing is lost, callers slow down.
    #[default]
    Block,
    /// The new record is dropped and counted: callers never wait.
    DropNewest,
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

impl Level {
    /// What lets no log record pass.
    pub(in crate::config) const DISABLE: Self = Self(None);

    /// The least number of a severity that passes.
    pub(crate) fn least_severity(self) -> u8 {
        self.0.map_or(u8::MAX, Severity::number)
    }

    /// Returns the name, also of the steps that only code can set.
    pub(in crate::config) fn shown(self) -> String {
        self.0.map_or_else(|| "disable".to_owned(), |severity| severity.name().to_ascii_lowercase())
    }
}

impl Named for Level {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("trace", Level(Some(Severity::Trace))),
        ("debug", Level(Some(Severity::Debug))),
        ("info", Level(Some(Severity::Info))),
        ("warn", Level(Some(Severity::Warn))),
        ("error", Level(Some(Severity::Error))),
        ("disable", Level::DISABLE),
    ];
}

/// Over which stretch of time the sums of metrics go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Histograms {
    /// Fifteen bounds from 0 to 10,000.
    #[default]
    Explicit,
    /// At most 160 buckets of equal ratio, as fine as the values allow.
    Exponential,
}

impl Named for Temporality {
    const NAMES: &'static [(&'static str, Self)] =
        &[("cumulative", Self::Cumulative), ("delta", Self::Delta), ("lowmemory", Self::LowMemory)];
}

impl Named for Histograms {
    const NAMES: &'static [(&'static str, Self)] =
        &[("explicit", Self::Explicit), ("exponential", Self::Exponential)];
}

/// How requests travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Protobuf, posted over HTTP/1.1.
    #[default]
    Http,
    /// Protobuf over gRPC, which is HTTP/2; needs the `grpc` feature, which is on by default.
    Grpc,
    /// OTLP JSON, printed on standard output; needs the `console` feature, and no file can ask for it.
    Console,
}

impl Transport {
    /// As files spell it, or the environment.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Console => "console",
        }
    }

    /// The port of endpoints that name neither a port nor a scheme.
    pub(in crate::config) fn default_port(self) -> u16 {
        match self {
            // of no meaning to what is printed
            Self::Http | Self::Console => 4318,
            Self::Grpc => 4317,
        }
    }

    /// Whether there is someone at the other end: an address, and all that a request on its way needs.
    pub(crate) fn connects(self) -> bool {
        self != Self::Console
    }

    /// Where a collector is expected if nothing is said, or what else is written to.
    pub(in crate::config) fn default_endpoint(self) -> &'static str {
        match self {
            Self::Http => "http://localhost:4318",
            Self::Grpc => "http://localhost:4317",
            Self::Console => "stdout",
        }
    }
}

/// `https` is a name that some use for `http`; `console` cannot be written in a file.
impl Named for Transport {
    const NAMES: &'static [(&'static str, Self)] =
        &[("http", Self::Http), ("https", Self::Http), ("grpc", Self::Grpc)];
}

/// How a request body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Sent as it is.
    #[default]
    None,
    /// `Content-Encoding: gzip`; needs the `gzip` feature.
    Gzip,
}

impl Named for Compression {
    const NAMES: &'static [(&'static str, Self)] = &[("none", Self::None), ("gzip", Self::Gzip)];
}

/// Whether proxies named by the environment are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proxy {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are obeyed; `HTTP_PROXY` not under CGI
    /// (`REQUEST_METHOD` is set). Plain HTTP is posted to the proxy in absolute form; `https` and gRPC go by `CONNECT`.
    ///
    /// `NO_PROXY` is read as curl and Go read it: entries between commas or spaces, each a name with all below it, an
    /// address, `host:port`, a network like `10.0.0.0/8` or `*`. Loopback is always reached directly.
    #[default]
    FromEnvironment,
    /// Always connect directly.
    Off,
}

impl Named for Proxy {
    const NAMES: &'static [(&'static str, Self)] = &[("env", Self::FromEnvironment), ("off", Self::Off)];
}

/// When requests in the [spool](crate::Exporter::spool) are safe from power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SpoolSync {
    /// When they are written: each costs the worker a synchronization of some milliseconds.
    EveryBatch,
    /// A second after they were written at the latest.
    #[default]
    EverySecond,
    /// When the system gets to it.
    Never,
}

impl Named for SpoolSync {
    const NAMES: &'static [(&'static str, Self)] =
        &[("batch", Self::EveryBatch), ("1s", Self::EverySecond), ("none", Self::Never)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_known_by_its_name_in_any_case() {
        for (name, level) in Level::NAMES.iter().copied() {
            assert_eq!(level.name(), name);
            assert_eq!(Level::parse(&name.to_uppercase()), Some(level));
        }
        assert_eq!(Level::parse("verbose"), None);
        assert_eq!(Level::parse(""), None);
    }

    #[test]
    fn a_level_lets_its_own_severity_pass_and_all_above() {
        assert_eq!(Level::default().least_severity(), 1);
        assert_eq!(Level(Some(Severity::Warn2)).least_severity(), 14);
        assert_eq!(Level(Some(Severity::Warn2)).shown(), "warn2");
        assert!(Level::DISABLE.least_severity() > Severity::Fatal4.number());
    }

    #[test]
    fn forms_of_metrics_are_known_by_their_names_in_any_case() {
        for (name, temporality) in Temporality::NAMES.iter().copied() {
            assert_eq!(temporality.name(), name);
            assert_eq!(Temporality::parse(&name.to_uppercase()), Some(temporality));
        }
        for (name, histograms) in Histograms::NAMES.iter().copied() {
            assert_eq!(histograms.name(), name);
            assert_eq!(Histograms::parse(&name.to_uppercase()), Some(histograms));
        }
        assert_eq!(Temporality::parse("low-memory"), None);
    }
}
