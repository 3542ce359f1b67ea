//! What can be set: in code, or in a file that [`toml`] reads. Plain data; nothing is started here.
//!
//! ```text
//! code ──────────────→ Exporter ─→ Config ─→ validate ─→ Telemetry::start
//! file → toml → tracer ────┘          error: every finding, and what is usable without the broken
//! ```

mod duration;
mod endpoint;
mod error;
mod expand;
mod exporter;
mod header;
mod key;
mod secret;
mod settings;
mod size;
mod source;
mod suggest;
mod toml;
mod validate;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use error::{ConfigError, Finding, FindingSeverity, Location};
pub use exporter::Exporter;
pub(crate) use secret::Secret;
#[cfg(feature = "tls")]
pub(crate) use settings::TlsSettings;
pub(crate) use settings::{
    BatchSettings, HttpSettings, Level, PaceSettings, PushSettings, QueueSettings, RetrySettings, Signals,
};
pub use settings::{Compression, Histograms, Proxy, Temporality, WhenFull};
pub use source::{Setting, Source};

use crate::problem::{Hook, Problem};
use crate::record::{LogLimits, Resource, SpanLimits, Value};

/// Everything that `Telemetry::start` needs to know: who is speaking, and where it goes.
///
/// Built in code, or read from a file with [`Config::from_file`]. Nothing is checked while it is built: what
/// is wrong comes out of `Telemetry::start`, all at once. Without an exporter everything is a no-op.
///
/// ```
/// use standpipe::{Config, Exporter};
///
/// let config = Config::new()
///     .service_name("shop")
///     .resource("deployment.environment.name", "test")
///     .exporter(Exporter::http("http://localhost:4318"));
/// assert_eq!(config.exporters().len(), 1);
/// ```
#[derive(Clone, Default)]
pub struct Config {
    pub(crate) resource: Resource,
    pub(crate) exporters: Vec<Exporter>,
    pub(crate) span_limits: SpanLimits,
    pub(crate) log_limits: LogLimits,
    pub(crate) self_observation: bool,
    self_observation_source: Source,
    pub(crate) on_problem: Option<Hook>,
    findings: Vec<Finding>,
}

impl Config {
    /// A configuration that exports nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the tracers of a file: every `[tracer.<id>]` whose type is `open-telemetry` or `otel` becomes an
    /// [`Exporter`] of that id. Other sections are not looked at.
    ///
    /// | key | default | meaning |
    /// |---|---|---|
    /// | `type` | – | `open-telemetry` or `otel`; others are left alone |
    /// | `enable` | `true` | `false`: nothing of it is read or started |
    /// | `enable.log-exporter` | `false` | accepted with a warning: this version sends no logs |
    /// | `enable.span-exporter` | `true` | whether spans are sent |
    /// | `transport` | – | `http` (or `https`, the same); `disable`: off |
    /// | `endpoint` | `http://localhost:4318` | as for [`Exporter::http`] |
    /// | `headers` | none | a list of `Name: value`, one such string, or a table |
    /// | `level` | `info` | least severity of what goes with spans, `trace` to `error` or `disable` |
    /// | `throttle` | `1s` | shortest time between two sending rounds |
    /// | `linger` | `0s` | how long an incomplete batch may wait |
    /// | `lossy` | `false` | full queue: `true` drops the new record, `false` lets the caller wait |
    /// | `block-timeout` | none | longest such wait |
    /// | `queue-records`, `queue-bytes` | 32768, 16 MiB | bounds of the queue |
    /// | `batch-records`, `batch-bytes` | 8192, 4032 KiB | bounds of one request |
    /// | `timeout` | `10s` | one attempt |
    /// | `give-up-after` | `5m` | longest time to try to deliver a batch |
    /// | `retry-first-delay`, `retry-max-delay` | `250ms`, `30s` | between attempts |
    /// | `compression` | `none` | or `gzip` |
    /// | `proxy` | `env` | as the environment says, or `off` |
    /// | `ca-file` | bundled roots | PEM file of the authorities to trust |
    /// | `client-certificate-file`, `client-key-file` | none | PEM files to present |
    /// | `user-agent` | – | product in front of `standpipe/<version>` |
    ///
    /// Durations are one whole number and one unit of `d h m s ms`, sizes a number of bytes or a string like
    /// `"16 MiB"` (`KB` and `MB` are ambiguous and refused). `%{env:NAME}%` and `%{file:path}%` in any string
    /// are replaced by what they name, which is never shown. Paths start at the directory of the file.
    ///
    /// [`findings`](Self::findings) tells what was noticed without being an error, such as an unknown key.
    ///
    /// # Errors
    ///
    /// Every error in the file at once, together with what is usable without the broken exporters. A file that
    /// cannot be read, is not UTF-8 or is larger than 1 MiB is [unreadable](ConfigError::is_unreadable).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        toml::read_file(path.as_ref())
    }

    /// Reads the same from text; places in it are shown as `<toml>:line:column`, and paths in it start at the
    /// working directory.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::from_toml_str(
    ///     r#"
    ///     [tracer.otel]
    ///     type = "open-telemetry"
    ///     transport = "http"
    ///     endpoint = "http://localhost:4318"
    ///     throttle = "500ms"
    ///     "#,
    /// )?;
    /// assert_eq!(config.exporters()[0].effective()[4].to_string(), "throttle = 500ms (<toml>:6:16)");
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_file`](Self::from_file).
    pub fn from_toml_str(text: &str) -> Result<Self, ConfigError> {
        toml::read_str(text)
    }

    /// Sets the resource attribute `service.name`.
    #[must_use]
    pub fn service_name(self, name: &str) -> Self {
        self.resource("service.name", name)
    }

    /// Sets an attribute of the program itself, sent with every request; of a key set twice the last value counts.
    #[must_use]
    pub fn resource<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Self {
        self.resource.set(key, value.into());
        self
    }

    /// Adds an exporter; each has its own queue and worker and gets every record of its signals and its level.
    #[must_use]
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporters.push(exporter);
        self
    }

    /// Sets how much one span may carry.
    #[must_use]
    pub fn span_limits(mut self, limits: SpanLimits) -> Self {
        self.span_limits = limits;
        self
    }

    /// Exports the [`Ledger`](crate::Ledger) as `otel.sdk.*` metrics, through every exporter that sends metrics; not
    /// unless set.
    #[must_use]
    pub fn self_observation(mut self, on: bool) -> Self {
        self.set_self_observation(on, Source::Code);
        self
    }

    /// Sets how much one log record may carry.
    #[must_use]
    pub fn log_limits(mut self, limits: LogLimits) -> Self {
        self.log_limits = limits;
        self
    }

    /// Is told of trouble at run time, once per kind and period; the library itself never prints.
    ///
    /// It is called on a worker thread, so it should return soon. The last one set counts.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::new().on_problem(|problem| eprintln!("telemetry: {problem}"));
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn on_problem(mut self, hook: impl Fn(&Problem) + Send + Sync + 'static) -> Self {
        self.on_problem = Some(Arc::new(hook));
        self
    }

    /// The exporters, in the order in which they were added or stand in the file.
    pub fn exporters(&self) -> &[Exporter] {
        &self.exporters
    }

    /// The settings that are not of one exporter, with their values and where these came from: `self-observation`.
    pub fn effective(&self) -> Vec<Setting> {
        vec![Setting {
            key: "self-observation",
            value: self.self_observation.to_string(),
            source: self.self_observation_source.clone(),
        }]
    }

    /// Warnings and notes: what was noticed in the file and did not stop it.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn set_self_observation(&mut self, on: bool, source: Source) {
        self.self_observation = on;
        self.self_observation_source = source;
    }

    /// The last word before anything is started: every rule, for values of any source.
    ///
    /// # Errors
    ///
    /// All findings, if at least one is an error.
    pub(crate) fn validate(self) -> Result<Self, ConfigError> {
        validate::validate(self, Vec::new(), &[])
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("resource", &self.resource)
            .field("exporters", &self.exporters)
            .field("span_limits", &self.span_limits)
            .field("log_limits", &self.log_limits)
            .field("self_observation", &self.self_observation)
            .field("findings", &self.findings)
            .finish_non_exhaustive()
    }
}
