//! Values in files and variables: pure functions that parse and format them. This file contains the enums.

pub(super) mod endpoint;
pub(super) mod header;
pub(super) mod no_proxy;
pub(super) mod units;

use crate::record::{Severity, Signal};

/// An enum whose values have names in files and variables.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All names. The first name of a value is shown.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the value with this name, ignoring case.
    fn parse(text: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
    }

    /// Returns the name in files.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

/// What happens to a new record when the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// The caller waits until the queue has room. No record is lost while callers wait.
    #[default]
    Block,
    /// The new record is dropped and counted. Callers never wait.
    DropNewest,
}

/// The signals that an exporter sends.
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

    /// Returns the signals that are sent, in a fixed order.
    pub(in crate::config) fn iter(self) -> impl Iterator<Item = Signal> {
        Signal::ALL.into_iter().filter(move |&signal| self.contain(signal))
    }
}

/// The lowest severity of log records that are exported; `None` if no log record is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level(pub(in crate::config) Option<Severity>);

impl Level {
    /// Exports no log record.
    pub(in crate::config) const DISABLE: Self = Self(None);

    /// Returns the lowest severity number that is exported.
    pub(crate) fn min_severity(self) -> u8 {
        self.0.map_or(u8::MAX, Severity::number)
    }

    /// Returns the name, including names of severities that only code can set, such as `warn2`.
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

/// The period that sums and histograms of metrics cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Temporality {
    /// Since the start of the program. If an export is lost, the next one contains its values.
    #[default]
    Cumulative,
    /// Since the last export, for counters and histograms. Up-down counters are cumulative.
    Delta,
    /// Like [`Delta`](Self::Delta) for counters and histograms that the program updates. Values from callbacks are
    /// cumulative, so that no value has to be stored between two exports.
    LowMemory,
}

/// The buckets of histograms, unless an instrument defines bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Histograms {
    /// Fifteen bounds from 0 to 10,000.
    #[default]
    Explicit,
    /// At most 160 buckets whose bounds grow exponentially, as fine as the values allow.
    Exponential,
}

/// The protocol of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Protobuf over HTTP/1.1.
    #[default]
    Http,
    /// Protobuf over gRPC, which is HTTP/2; needs the `grpc` feature, which is on by default.
    Grpc,
    /// OTLP JSON on standard output; needs the `console` feature. Files cannot select it.
    Console,
}

impl Transport {
    /// Returns `http`, `grpc` or `console`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Console => "console",
        }
    }

    /// Returns the port of endpoints without port and scheme.
    pub(in crate::config) fn default_port(self) -> u16 {
        match self {
            // The console has no port; the value is not used.
            Self::Http | Self::Console => 4318,
            Self::Grpc => 4317,
        }
    }

    /// Returns whether the transport uses a network connection.
    pub(crate) fn connects(self) -> bool {
        self != Self::Console
    }

    /// Returns the default endpoint.
    pub(in crate::config) fn default_endpoint(self) -> &'static str {
        match self {
            Self::Http => "http://localhost:4318",
            Self::Grpc => "http://localhost:4317",
            Self::Console => "stdout",
        }
    }
}

/// The compression of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// `Content-Encoding: gzip`; needs the `gzip` feature.
    Gzip,
}

/// Whether proxies from the environment are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proxy {
    /// Uses `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`. Under CGI, where `REQUEST_METHOD` is set,
    /// `HTTP_PROXY` is ignored. Plain HTTP requests are sent to the proxy with an absolute URL; `https` and gRPC use a
    /// `CONNECT` tunnel.
    ///
    /// `NO_PROXY` has the semantics of curl and Go: a list, separated by commas or spaces, of names (including their
    /// subdomains), addresses, `host:port`, networks such as `10.0.0.0/8`, or `*`. Loopback is always reached directly.
    #[default]
    FromEnvironment,
    /// Always connects directly.
    Off,
}

/// When requests in the [spool](crate::Exporter::spool) are synchronized to disk, after which they survive a power
/// failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SpoolSync {
    /// Immediately after they are written. Each request takes the worker some milliseconds.
    EveryBatch,
    /// At most a second after they are written.
    #[default]
    EverySecond,
    /// When the operating system writes them back.
    Never,
}

/// Names enums: each name is followed by the variant that it stands for.
macro_rules! named {
    ($($type:ident { $($name:literal => $variant:ident),+ })*) => {$(
        impl Named for $type {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),+];
        }
    )*};
}

named! {
    Temporality { "cumulative" => Cumulative, "delta" => Delta, "lowmemory" => LowMemory }
    Histograms { "explicit" => Explicit, "exponential" => Exponential }
    // `https` is an alias of `http` in files, and `console` is not allowed there.
    Transport { "http" => Http, "https" => Http, "grpc" => Grpc }
    Compression { "none" => None, "gzip" => Gzip }
    Proxy { "env" => FromEnvironment, "off" => Off }
    SpoolSync { "batch" => EveryBatch, "1s" => EverySecond, "none" => Never }
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
        assert_eq!(Level::default().min_severity(), 1);
        assert_eq!(Level(Some(Severity::Warn2)).min_severity(), 14);
        assert_eq!(Level(Some(Severity::Warn2)).shown(), "warn2");
        assert!(Level::DISABLE.min_severity() > Severity::Fatal4.number());
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
