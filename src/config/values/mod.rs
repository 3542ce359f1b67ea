//! Values in files and variables: pure functions that parse and format them. This file contains the enums.

pub(super) mod endpoint;
pub(super) mod header;
pub(super) mod no_proxy;
pub(super) mod units;

use crate::config::ProviderName;
use crate::context::Propagator;
use crate::record::{Severity, Signal};

/// An enum whose values have names in files and variables.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All names. The first name of a value is shown.
    const NAMES: &'static [(&'static str, Self)];

    fn names() -> Vec<&'static str> {
        Self::NAMES.iter().map(|(name, _)| *name).collect()
    }

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
    /// From the first measurement to the export. If an export is lost, the next one contains its values.
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
    /// At most 160 buckets per sign. Their bounds grow exponentially, by the smallest factor that the values allow.
    Exponential,
}

/// Which measurements become [exemplars](crate::guide::signals#exemplars) of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ExemplarFilter {
    /// Measurements made in a span that is sampled and recorded by this process.
    #[default]
    TraceBased,
    /// All measurements, even those made outside of a span.
    AlwaysOn,
    /// None.
    AlwaysOff,
}

/// The kind of an instrument, as a [`View`](crate::View) selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InstrumentKind {
    /// A [`Counter`](crate::Counter).
    Counter,
    /// An [`UpDownCounter`](crate::UpDownCounter).
    UpDownCounter,
    /// A [`Gauge`](crate::Gauge).
    Gauge,
    /// A [`Histogram`](crate::Histogram).
    Histogram,
    /// A counter with a callback.
    ObservableCounter,
    /// An up-down counter with a callback.
    ObservableUpDownCounter,
    /// A gauge with a callback.
    ObservableGauge,
}

impl InstrumentKind {
    /// Returns whether a callback reports the values.
    pub(crate) fn is_observable(self) -> bool {
        matches!(self, Self::ObservableCounter | Self::ObservableUpDownCounter | Self::ObservableGauge)
    }

    /// Returns whether the instrument is a monotonic sum.
    pub(crate) fn is_counter(self) -> bool {
        matches!(self, Self::Counter | Self::ObservableCounter)
    }

    /// Returns whether the instrument exports its last value.
    pub(crate) fn is_gauge(self) -> bool {
        matches!(self, Self::Gauge | Self::ObservableGauge)
    }
}

/// The protocol of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Protobuf over HTTP/1.1.
    #[default]
    Http,
    /// JSON over HTTP/1.1; needs the `json` feature.
    HttpJson,
    /// Protobuf over gRPC, which is HTTP/2; needs the `grpc` feature, which is on by default.
    Grpc,
    /// OTLP JSON in a file; needs the `json` feature.
    File,
    /// OTLP JSON on standard output; needs the `console` feature.
    Console,
}

impl Transport {
    /// Returns `http`, `http/json`, `grpc`, `file` or `console`.
    pub fn name(self) -> &'static str {
        Named::name(self)
    }

    /// Returns the port of endpoints without port and scheme.
    pub(in crate::config) fn default_port(self) -> u16 {
        // Files and the console have no port; the value is not used.
        if self == Self::Grpc { 4317 } else { 4318 }
    }

    /// Returns whether a request that fails is sent again.
    pub(in crate::config) fn retries(self) -> bool {
        self != Self::Console
    }

    /// Returns whether the transport uses a network connection.
    pub(crate) fn connects(self) -> bool {
        self.is_http() || self == Self::Grpc
    }

    /// Returns whether requests are sent over HTTP/1.1, in protobuf or JSON.
    pub(crate) fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::HttpJson)
    }

    /// Returns the default endpoint.
    pub(in crate::config) fn default_endpoint(self) -> &'static str {
        match self {
            Self::Http | Self::HttpJson => "http://localhost:4318",
            Self::Grpc => "http://localhost:4317",
            Self::File => "",
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

/// The certificate authorities that are trusted unless [`Exporter::ca_pem`](crate::Exporter::ca_pem) replaces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Roots {
    /// Mozilla's list, which is bundled with this library. Needs no files.
    #[default]
    Bundled,
    /// The operating system's list, or the one that `SSL_CERT_FILE` and `SSL_CERT_DIR` name. The list is read at the
    /// start; an empty list is an error. Needs the feature `system-roots`.
    System,
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

/// Finds attributes of the resource. [`Config::detect`](crate::Config::detect) enables detectors.
///
/// A detector reads files of the system; one that finds nothing adds nothing. Attributes that the program, a file or a
/// variable sets take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Detector {
    /// `host.name`, `host.arch`, and outside of containers `host.id`, the machine id.
    Host,
    /// `os.type`, `os.name`, `os.version` and `os.description`.
    Os,
    /// `process.pid`, `process.creation.time` and `process.executable.name`. Arguments are not read.
    Process,
    /// `container.id`.
    Container,
    /// `service.name` and `service.instance.id`, which are sent even without this detector. It exists because other
    /// SDKs have a detector of this name.
    Service,
}

impl Detector {
    /// All detectors.
    pub const ALL: [Self; 5] = [Self::Host, Self::Os, Self::Process, Self::Container, Self::Service];
}

/// Implements [`Named`] for enums. Each name is followed by the variant that it stands for.
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
    ExemplarFilter { "trace_based" => TraceBased, "always_on" => AlwaysOn, "always_off" => AlwaysOff }
    InstrumentKind {
        "counter" => Counter, "up_down_counter" => UpDownCounter, "gauge" => Gauge, "histogram" => Histogram,
        "observable_counter" => ObservableCounter, "observable_up_down_counter" => ObservableUpDownCounter,
        "observable_gauge" => ObservableGauge
    }
    // `https` is an alias of `http` in files.
    Transport {
        "http" => Http, "https" => Http, "http/json" => HttpJson, "grpc" => Grpc, "file" => File, "console" => Console
    }
    Compression { "none" => None, "gzip" => Gzip }
    Proxy { "env" => FromEnvironment, "off" => Off }
    Roots { "bundled" => Bundled, "system" => System }
    Detector { "host" => Host, "os" => Os, "process" => Process, "container" => Container, "service" => Service }
    Propagator { "tracecontext" => TraceContext, "baggage" => Baggage, "b3" => B3, "b3multi" => B3Multi }
    ProviderName { "internal" => Internal, "application" => Application }
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
