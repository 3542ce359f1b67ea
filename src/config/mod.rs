//! Configuration in code, in a file of TOML or YAML, or in environment variables.
//!
//! [`Config`] with its [`Exporter`]s and a second provider's [`Application`] is what `Telemetry::start` takes; [`Sampler`],
//! [`SpanLimits`], [`LogLimits`] and the choices of an exporter, from [`Compression`] to [`WhenFull`], are their values. A
//! configuration that is wrong is a [`ConfigError`] with every [`Diagnostic`] at once. [`Setting`] and [`ExporterSummary`]
//! say what a configuration comes to and who set it. The guide lists
//! [every setting](crate::guide::configuration) and [every variable](crate::guide::environment).
//!
//! In the source, a setting of an exporter is one row beside its default and the builder's method, in
//! `config/settings/delivery.rs` or `config/settings/connection.rs`; `config/settings/mod.rs` says what remains to be done.

// code ───────────────────────→ Exporter ─→ Config ─→ validate ─→ Telemetry::start
// file → toml, yaml → node → read ─┤                     └ error: every diagnostic, and what is usable without
// variables → env ─────────────────┘                              the broken exporters

pub(crate) mod demand;
mod env;
mod error;
mod exporter;
mod node;
mod provider;
mod read;
pub(crate) mod sampler;
mod section;
mod settings;
mod summary;
mod text;
mod toml;
mod validate;
mod values;
#[cfg(feature = "yaml")]
mod yaml;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::record::{LogLimits, SpanLimits};
pub use error::{ConfigError, Diagnostic, DiagnosticSeverity, Location};
pub use exporter::Exporter;
#[cfg(feature = "grpc")]
pub(crate) use header::is_reserved_by_grpc;
pub(crate) use no_proxy::proxy_for;
pub(crate) use provider::ProviderSettings;
pub use provider::{Application, ProviderName};
pub use sampler::Sampler;
pub(crate) use settings::TlsSettings;
pub(crate) use settings::{
    BatchSettings, ConnectionSettings, MOST_QUEUE_RECORDS, PaceSettings, PeriodicReaderSettings,
    QueueSettings, RetrySettings, SpoolSettings,
};
pub use summary::{ExporterSummary, Setting, SettingSource, SummaryValue};
pub(crate) use text::Secret;
pub use values::{Compression, Histograms, Proxy, SpoolSync, Temporality, Transport, WhenFull};
pub(crate) use values::{Level, Signals};

use self::settings::general::{
    DISABLED, DROP_BUDGET, EndSettings, GeneralRow, LOG_LIMITS, SELF_OBSERVATION, SPAN_LIMITS,
};
use self::summary::Few;
use self::values::{endpoint, header, no_proxy, units};
#[cfg(doc)]
use crate::ProblemKind;
use crate::problem::{Problem, ProblemHook};
use crate::record::IntoValue;

/// Everything that `Telemetry::start` needs to know: who is speaking, and where it goes.
///
/// Built in code, read from a file with [`Config::from_file`], or from the environment with [`Config::from_env`]; what
/// is set in code wins over the file, and the file over the environment. Nothing is checked while it is built: what is
/// wrong comes out of `Telemetry::start`, all at once. Without an exporter everything is a no-op.
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
#[must_use]
pub struct Config {
    /// Of all exporters that are not the application's.
    pub(crate) main: ProviderSettings,
    pub(crate) application: ProviderSettings,
    /// Of both providers.
    pub(crate) exporters: Vec<Exporter>,
    pub(crate) span_limits: SpanLimits,
    pub(crate) log_limits: LogLimits,
    /// The keys of baggage that become attributes.
    pub(crate) baggage_attributes: Vec<String>,
    pub(crate) self_observation: bool,
    pub(crate) disabled: bool,
    pub(crate) end: EndSettings,
    /// Who set what is not of one provider or exporter.
    sources: Few<&'static GeneralRow, SettingSource>,
    pub(crate) on_problem: Option<ProblemHook>,
    diagnostics: Vec<Diagnostic>,
}

impl Config {
    /// A configuration that exports nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resource attribute `service.name`.
    pub fn service_name(self, name: &str) -> Self {
        self.resource("service.name", name)
    }

    /// Sets the resource attribute `service.name` that is sent if no other is set: not by
    /// [`service_name`](Self::service_name), whichever is called first, nor by the file or the environment.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// // shop, unless the user sets OTEL_SERVICE_NAME
    /// let config = Config::from_env()?.default_service_name("shop");
    /// # let _ = config;
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    pub fn default_service_name(mut self, name: &str) -> Self {
        self.main.default_name = Some(name.to_owned());
        self
    }

    /// Sets an attribute of the program itself, sent with every request; of a key set twice the last value counts.
    pub fn resource(mut self, key: &str, value: impl IntoValue) -> Self {
        value.with_value(|value| self.main.set_resource(key, value, SettingSource::Code));
        self
    }

    /// Adds an exporter; each has its own worker, with a queue for each of its signals, and gets every record of its signals and its level.
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporters.push(exporter);
        self
    }

    /// Changes the exporters that are there: what is set here wins over file and environment.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::{Config, Exporter};
    ///
    /// # let from_file = Config::new().exporter(Exporter::http("localhost"));
    /// let config = from_file.map_exporters(|exporter| exporter.timeout(Duration::from_secs(3)));
    /// # let _ = config;
    /// ```
    pub fn map_exporters(mut self, change: impl FnMut(Exporter) -> Exporter) -> Self {
        self.exporters = self.exporters.into_iter().map(change).collect();
        self
    }

    /// Adds the second provider, which [`Telemetry::application`](crate::Telemetry::application) gives; the last one
    /// set counts.
    pub fn application(mut self, application: Application) -> Self {
        self.exporters.retain(|exporter| exporter.provider() != Some(ProviderName::Application));
        self.application = application.settings;
        self.exporters.extend(application.exporters.into_iter().map(|mut exporter| {
            exporter.assign(ProviderName::Application);
            exporter
        }));
        self
    }

    /// Starts nothing at all, whatever is configured; trace context is still handed on, just as it came.
    pub fn disabled(mut self, disabled: bool) -> Self {
        self.disabled = disabled;
        self.set_in_code([&DISABLED]);
        self
    }

    /// Sets how long the drop of a [`Telemetry`](crate::Telemetry) that was not shut down may take; 2 s unless set. With
    /// zero nothing is waited for: what is queued is lost and counted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::{Config, Telemetry};
    ///
    /// // a command that ends at once must not keep its user waiting
    /// let telemetry = Telemetry::start(Config::from_env_if_set()?.drop_budget(Duration::from_millis(300)))?;
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    pub fn drop_budget(mut self, budget: Duration) -> Self {
        self.end.drop_budget = budget;
        self.set_in_code([&DROP_BUDGET]);
        self
    }

    /// Sets how much one span may carry.
    pub fn span_limits(mut self, limits: SpanLimits) -> Self {
        self.span_limits = limits;
        self.set_in_code(&SPAN_LIMITS);
        self
    }

    /// Exports the [`Ledger`](crate::Ledger) of all exporters as `otel.sdk.*` metrics, through those of the program's
    /// own provider that send metrics; not unless set.
    pub fn self_observation(mut self, on: bool) -> Self {
        demand::SELF_OBSERVATION.raise();
        self.set_self_observation(on, SettingSource::Code);
        self
    }

    /// Sets which traces are recorded; by default those that the parent's process records, and all that begin here.
    ///
    /// ```
    /// use standpipe::{Config, Sampler};
    ///
    /// // one in a hundred of the traces that begin here
    /// let config = Config::new().sampler(Sampler::trace_id_ratio(0.01).parent_based());
    /// # let _ = config;
    /// ```
    pub fn sampler(mut self, sampler: Sampler) -> Self {
        self.main.set_sampler(sampler, None, SettingSource::Code);
        self
    }

    /// Sets how much one log record may carry.
    pub fn log_limits(mut self, limits: LogLimits) -> Self {
        self.log_limits = limits;
        self.set_in_code(&LOG_LIMITS);
        self
    }

    /// Gives every span and log record that begins while the current [`Baggage`](crate::Baggage) has one of these keys an
    /// attribute of that key and value; what the program sets itself replaces it. None unless set.
    ///
    /// Baggage comes from callers: name the keys that are safe to keep. Spans then start on a slower path, as each looks at
    /// the thread's baggage.
    ///
    /// ```
    /// use standpipe::{Baggage, Config};
    ///
    /// let config = Config::new().baggage_attributes(["user.id"]);
    /// # let telemetry = standpipe::Telemetry::start(config).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// let _entered = Baggage::new().with("user.id", "4711").enter();
    /// let _span = tracer.span("checkout"); // has the attribute user.id
    /// ```
    pub fn baggage_attributes<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.baggage_attributes = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Is called with trouble at run time, once per kind, signal and period; the library itself never prints.
    ///
    /// It is called on a thread of the exporter, so it should return soon; with
    /// [`Configuration`](ProblemKind::Configuration) and [`NoServiceName`](ProblemKind::NoServiceName) on the thread that
    /// starts the telemetry. [Without threads](crate::Telemetry::start_manual) it is called on the one that gives the exporter
    /// time, never while a record is made. The last one set counts.
    ///
    /// What it records for the same telemetry, by a bridge or not, is not enqueued and counted as
    /// [suppressed](crate::ledger::NotEnqueued::suppressed): one report would lead to the next. It may record for another
    /// telemetry, where it never waits for room. A [flush](crate::Telemetry::flush) there waits for nothing, and a
    /// [shutdown](crate::Telemetry::shutdown) only begins. All signals are blocked on this thread, and in a process that the
    /// hook starts. A hook that owns a handle of the same telemetry is never dropped, nor is the memory of the telemetry, as
    /// each owns the other. The same holds for the callbacks of metrics.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::new().on_problem(|problem| eprintln!("telemetry: {problem}"));
    /// # let _ = config;
    /// ```
    pub fn on_problem(mut self, hook: impl Fn(&Problem) + Send + Sync + 'static) -> Self {
        self.on_problem = Some(Arc::new(hook));
        self
    }

    /// The exporters, in the order in which they were added or stand in the file.
    pub fn exporters(&self) -> &[Exporter] {
        &self.exporters
    }

    /// The settings that are not of one exporter, with their values and where these came from.
    pub fn effective(&self) -> Vec<Setting> {
        let mut settings = self.main.effective(["service-name", "resource", "sampler"]);
        if self.exporters.iter().any(|exporter| exporter.provider() == Some(ProviderName::Application)) {
            let keys = ["application.service-name", "application.resource", "application.sampler"];
            settings.extend(self.application.effective(keys));
        }
        let setting =
            |row: &'static GeneralRow| Setting::new(row.key, &row.kind.show(self), self.source(row));
        settings.extend(settings::general::rows().map(setting));
        if !self.baggage_attributes.is_empty() {
            let keys = self.baggage_attributes.join(", ");
            settings.push(Setting::new("baggage-attributes", &keys, SettingSource::Code));
        }
        settings
    }

    /// Warnings and notes: what was noticed in the file or in the environment and did not stop it.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn set_in_code(&mut self, rows: impl IntoIterator<Item = &'static GeneralRow>) {
        for row in rows {
            self.sources.insert(row, SettingSource::Code);
        }
    }

    fn set_self_observation(&mut self, on: bool, source: SettingSource) {
        self.self_observation = on;
        self.sources.insert(&SELF_OBSERVATION, source);
    }

    fn source(&self, row: &'static GeneralRow) -> SettingSource {
        self.sources.get(&row).cloned().unwrap_or_default()
    }

    /// What the exporter shares with all others of its provider.
    pub(crate) fn provider(&self, exporter: &Exporter) -> &ProviderSettings {
        match exporter.provider() {
            Some(ProviderName::Application) => &self.application,
            Some(ProviderName::Internal) | None => &self.main,
        }
    }

    /// The last word before anything is started: every rule, for values of any source.
    ///
    /// # Errors
    ///
    /// All diagnostics, if at least one is an error.
    pub(crate) fn validate(self) -> Result<Self, ConfigError> {
        validate::validate(self, Vec::new(), &[])
    }
}

/// As [`effective`](Config::effective): no secret is in it.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Config");
        for Setting { key, value, .. } in self.effective() {
            shown.field(key, &format_args!("{value}"));
        }
        shown.field("exporters", &self.exporters).field("diagnostics", &self.diagnostics);
        shown.finish_non_exhaustive()
    }
}
