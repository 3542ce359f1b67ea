//! Configuration in code, in a TOML or YAML file, or in environment variables.
//!
//! `Telemetry::start` takes a [`Config`], which contains [`Exporter`]s and optionally a second provider, the
//! [`Application`]. [`Sampler`], [`SpanLimits`], [`LogLimits`] and enums such as [`Compression`] and [`WhenFull`] are
//! values of its settings. An invalid configuration is reported as a [`ConfigError`], which contains every
//! [`Diagnostic`] at once. [`Setting`] and [`ExporterSummary`] describe the effective configuration: each value and its
//! origin. The guide lists [every setting](crate::guide::configuration) and [every
//! variable](crate::guide::environment).
//!
//! In the source, each setting of an exporter is one row in `delivery.rs`, `connection.rs` or `file.rs` of
//! `config/settings`, next to its default and the builder's method. `config/settings/mod.rs` explains how to add one.

// code ───────────────────────→ Exporter ─→ Config ─→ validate ─→ Telemetry::start
// file → toml, yaml → node → read ─┤                     └ ConfigError: all diagnostics, and the usable exporters
// variables → env ─────────────────┘

pub(crate) mod demand;
mod env;
mod error;
mod exporter;
mod node;
pub(crate) mod provider;
mod read;
mod section;
mod settings;
mod summary;
mod text;
mod toml;
mod validate;
mod values;
pub(crate) mod view;
#[cfg(feature = "yaml")]
mod yaml;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::record::Severity;
pub use crate::record::{IdGenerator, LogLimits, SpanLimits};
pub use error::{ConfigError, Diagnostic, DiagnosticSeverity, Location};
pub use exporter::Exporter;
#[cfg(feature = "grpc")]
pub(crate) use header::is_reserved_by_grpc;
pub use header::{Credentials, RequestToSign};
pub(crate) use header::{HeaderSource, Signer};
pub(crate) use no_proxy::proxy_for;
pub(crate) use provider::ProviderSettings;
pub use provider::{
    Application, AttributeCondition, ComposableSampler, ParentOrigin, ProviderName, Sampler, SamplingRule,
};
#[cfg(feature = "yaml")]
pub use read::declarative::to_declarative;
pub(crate) use read::value::read_bounded;
#[cfg(feature = "json")]
pub(crate) use settings::FileSettings;
pub(crate) use settings::TlsSettings;
pub(crate) use settings::{
    BatchSettings, ConnectionSettings, MAX_QUEUE_RECORDS, PaceSettings, PeriodicReaderSettings,
    QueueSettings, RetrySettings, SpoolSettings,
};
pub use summary::{ExporterSummary, Setting, SettingSource, SummaryValue};
pub(crate) use text::Secret;
#[cfg(feature = "ffi")]
pub(crate) use text::quote;
pub use values::{
    Compression, Detector, ExemplarFilter, Histograms, InstrumentKind, Proxy, Roots, SpoolSync, Temporality,
    Transport, WhenFull,
};
pub(crate) use values::{Level, Signals};
pub use view::View;
pub(crate) use view::{KeySelection, OVERFLOW, ViewAggregation, check_bounds};

use self::settings::general::{
    DETECT, DISABLED, DROP_BUDGET, EXEMPLARS, EndSettings, GeneralRow, LOG_LIMITS, PROPAGATORS,
    SELF_OBSERVATION, SPAN_LIMITS,
};
use self::summary::SmallMap;
use self::values::{endpoint, header, no_proxy, units};
#[cfg(doc)]
use crate::ProblemKind;
use crate::context::{Propagator, Propagators};
use crate::problem::{Problem, ProblemHook};
use crate::record::IntoValue;

/// Everything that `Telemetry::start` needs: the description of the program, and its exporters.
///
/// Built in code, read from a file with [`Config::from_file`], or from the environment with [`Config::from_env`]. A
/// value set in code takes precedence over the file, and the file over the environment. The methods check nothing:
/// `Telemetry::start` reports all errors at once. Without an exporter, all telemetry is a no-op.
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
    /// Settings of the program's own provider.
    pub(crate) main: ProviderSettings,
    pub(crate) application: ProviderSettings,
    /// Exporters of both providers.
    pub(crate) exporters: Vec<Exporter>,
    pub(crate) span_limits: SpanLimits,
    pub(crate) log_limits: LogLimits,
    /// Keys of baggage entries that become attributes.
    pub(crate) baggage_attributes: Vec<String>,
    pub(crate) id_generator: Option<Arc<dyn IdGenerator>>,
    /// Lowest severity of the log records of a scope.
    pub(crate) scope_levels: Vec<(String, Severity)>,
    pub(crate) detectors: Vec<Detector>,
    pub(crate) propagators: Propagators,
    pub(crate) exemplars: ExemplarFilter,
    pub(crate) self_observation: bool,
    pub(crate) disabled: bool,
    pub(crate) end: EndSettings,
    /// Origins of the settings that do not belong to one provider or exporter.
    sources: SmallMap<&'static str, SettingSource>,
    pub(crate) on_problem: Option<ProblemHook>,
    diagnostics: Vec<Diagnostic>,
}

impl Config {
    /// Returns a configuration without exporters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resource attribute `service.name`.
    pub fn service_name(self, name: &str) -> Self {
        self.resource("service.name", name)
    }

    /// Sets the fallback for the resource attribute `service.name`. The fallback is used if neither
    /// [`service_name`](Self::service_name) nor the file or the environment sets a name. The order of the calls does
    /// not matter.
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

    /// Sets a resource attribute, which describes the program and is sent with every request. A second value for the
    /// same key replaces the first.
    pub fn resource(mut self, key: &str, value: impl IntoValue) -> Self {
        value.with_value(|value| self.main.set_resource(key, value, None, SettingSource::Code));
        self
    }

    /// Sets the URL of the schema to which the names of the resource attributes conform. If no URL is set and
    /// [detectors](Self::detect) find attributes, the schema URL of the detectors is used.
    pub fn schema_url(mut self, url: &str) -> Self {
        self.main.set_schema_url(url);
        self
    }

    /// Enables detectors, which add attributes of the host, the operating system, the process and the container to the
    /// resource. By default, none is enabled. `Telemetry::start` reads a few files once, which takes less than a
    /// millisecond; a forked child reads them again. Attributes that are set take precedence.
    ///
    /// ```
    /// use standpipe::Config;
    /// use standpipe::config::Detector;
    ///
    /// let config = Config::new().detect([Detector::Host, Detector::Container]); // or Detector::ALL
    /// # let _ = config;
    /// ```
    pub fn detect(mut self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        demand::DETECTORS.raise();
        self.detectors = detectors.into_iter().collect();
        self.set_in_code([&DETECT])
    }

    /// Sets the formats in which [`Telemetry::propagators`](crate::Telemetry::propagators) reads and writes contexts.
    /// The default is W3C Trace Context and Baggage. An empty list propagates nothing.
    ///
    /// ```
    /// use standpipe::{Config, Propagator, Telemetry};
    ///
    /// // as OTEL_PROPAGATORS=b3multi,baggage does
    /// let config = Config::new().propagators([Propagator::B3Multi, Propagator::Baggage]);
    /// let caller = Telemetry::start(config)?.propagators().extract_env();
    /// # assert!(caller.span().is_none());
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    pub fn propagators(mut self, propagators: impl IntoIterator<Item = Propagator>) -> Self {
        self.propagators = Propagators::new(propagators);
        self.set_in_code([&PROPAGATORS])
    }

    /// Sets which measurements become [exemplars](crate::guide::signals#exemplars). By default, measurements made in
    /// sampled spans do.
    pub fn exemplars(mut self, filter: ExemplarFilter) -> Self {
        self.exemplars = filter;
        self.set_in_code([&EXEMPLARS])
    }

    /// Adds an exporter. Each exporter has its own worker and one queue per signal. It receives every record of its
    /// [signals](Exporter::signals), except log records below its [level](Exporter::level).
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporters.push(exporter);
        self
    }

    /// Changes each exporter that is already configured. Values set here take precedence over file and environment.
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

    /// Adds the second provider, which [`Telemetry::application`](crate::Telemetry::application) returns. If this
    /// method is called again, the new application replaces the earlier one and its exporters.
    pub fn application(mut self, application: Application) -> Self {
        self.exporters.retain(|exporter| exporter.provider() != Some(ProviderName::Application));
        self.application = application.settings;
        self.exporters.extend(application.exporters.into_iter().map(|mut exporter| {
            exporter.assign(ProviderName::Application);
            exporter
        }));
        self
    }

    /// Disables the telemetry: no exporter is started. Incoming trace context is still propagated unchanged.
    pub fn disabled(mut self, disabled: bool) -> Self {
        self.disabled = disabled;
        self.set_in_code([&DISABLED])
    }

    /// Sets how long the drop of a [`Telemetry`](crate::Telemetry) that was not shut down may take; 2 s unless set.
    /// With zero, the drop does not wait: queued records are lost and counted.
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
        self.set_in_code([&DROP_BUDGET])
    }

    /// Sets how much one span may carry.
    pub fn span_limits(mut self, limits: SpanLimits) -> Self {
        self.span_limits = limits;
        self.set_in_code(&SPAN_LIMITS)
    }

    /// Adds [`otel.sdk.*` metrics](crate::guide::operations#self-observation): the [`Ledger`](crate::Ledger) of all
    /// exporters, the numbers of spans and log records, and the durations of exports. The metric exporters of the
    /// program's own provider send them. Off unless set.
    pub fn self_observation(mut self, on: bool) -> Self {
        demand::SELF_OBSERVATION.raise();
        self.set_self_observation(on, SettingSource::Code);
        self
    }

    /// Sets which traces are recorded. By default, a span is recorded if it has no parent or if its parent is
    /// recorded.
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

    /// Adds a view, which changes how measurements of the instruments that it selects are exported.
    ///
    /// ```
    /// use standpipe::{Config, View};
    ///
    /// let config = Config::new().view(View::new("http.*").remove(["user_agent.original"]));
    /// # let _ = config;
    /// ```
    pub fn view(mut self, view: View) -> Self {
        demand::VIEWS.raise();
        self.main.views.push(view);
        self
    }

    /// Sets the generator of the ids of spans and traces, for example to make trace ids that begin with the time. Spans
    /// then start on a slower path. The generator must not start spans.
    pub fn id_generator(mut self, generator: impl IdGenerator + 'static) -> Self {
        self.id_generator = Some(Arc::new(generator));
        self
    }

    /// Sets the lowest severity of the log records of a scope, which is the name of a logger. Lower records are
    /// neither built nor counted, whatever the [level](Exporter::level) of an exporter.
    pub fn scope_level(mut self, scope: &str, least: Severity) -> Self {
        self.scope_levels.push((scope.to_owned(), least));
        self
    }

    /// Sets how much one log record may carry.
    pub fn log_limits(mut self, limits: LogLimits) -> Self {
        self.log_limits = limits;
        self.set_in_code(&LOG_LIMITS)
    }

    /// Copies baggage to attributes: a span or log record that begins while the current [`Baggage`](crate::Baggage)
    /// contains one of these keys gets an attribute with that key and value. An attribute set by the program takes
    /// precedence. Unless this method is called, no key is copied.
    ///
    /// Other programs send baggage, so list only keys that are safe to keep. With at least one key, spans start on a
    /// slower path, because each reads the thread's baggage.
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

    /// Sets the hook that receives problems at run time, each kind at most once per minute and signal. The library
    /// itself never prints. The guide explains [every message](crate::guide::messages).
    ///
    /// The hook runs on a thread of the exporter, so it should return soon. Problems of the kinds
    /// [`Configuration`](ProblemKind::Configuration) and [`NoServiceName`](ProblemKind::NoServiceName) are reported on
    /// the thread that starts the telemetry. [Without threads](crate::Telemetry::start_manual), the hook runs in the
    /// calls that drive the exporter, never while a record is emitted. A second `on_problem` replaces the hook.
    ///
    /// - Records that the hook emits to the same telemetry, directly or through a bridge, are not enqueued but counted
    ///   as [suppressed](crate::ledger::NotEnqueued::suppressed): otherwise, one report could cause the next.
    /// - The hook may emit records to another telemetry. It never waits for room in the queue of that telemetry. A
    ///   [flush](crate::Telemetry::flush) called by the hook returns at once, and a
    ///   [shutdown](crate::Telemetry::shutdown) is started but not waited for.
    /// - All Unix signals except those for faults, such as `SIGSEGV`, are blocked on the thread of the exporter, and in
    ///   a process that the hook starts.
    /// - A hook that owns a handle of the same telemetry forms a reference cycle: neither is ever freed.
    ///
    /// The same rules apply to the callbacks of metrics.
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

    /// Returns the exporters, in the order in which they were added or appear in the file.
    pub fn exporters(&self) -> &[Exporter] {
        &self.exporters
    }

    /// Returns the settings that do not belong to one exporter, with their values and origins.
    pub fn effective(&self) -> Vec<Setting> {
        let mut settings = self.main.effective(["service-name", "resource", "sampler"]);
        if self.exporters.iter().any(|exporter| exporter.provider() == Some(ProviderName::Application)) {
            let keys = ["application.service-name", "application.resource", "application.sampler"];
            settings.extend(self.application.effective(keys));
        }
        let setting = |it: &'static GeneralRow| Setting::new(it.key, &it.kind.show(self), self.source(it));
        settings.extend(settings::general::rows().map(setting));
        let view = |view: &View| Setting::new("view", view.shown_pattern(), view.source.clone());
        settings.extend(self.main.views.iter().chain(&self.application.views).map(view));
        if !self.baggage_attributes.is_empty() {
            let keys = self.baggage_attributes.join(", ");
            settings.push(Setting::new("baggage-attributes", &keys, SettingSource::Code));
        }
        settings
    }

    /// Returns the warnings and notes about the file or the environment. Errors are in a [`ConfigError`] instead.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn set_in_code(mut self, rows: impl IntoIterator<Item = &'static GeneralRow>) -> Self {
        for row in rows {
            self.sources.insert(row.key, SettingSource::Code);
        }
        self
    }

    fn set_self_observation(&mut self, on: bool, source: SettingSource) {
        self.self_observation = on;
        self.sources.insert(SELF_OBSERVATION.key, source);
    }

    fn source(&self, row: &GeneralRow) -> SettingSource {
        self.sources.get(row.key).cloned().unwrap_or_default()
    }

    /// Returns the settings that the exporter shares with all others of its provider.
    pub(crate) fn provider(&self, exporter: &Exporter) -> &ProviderSettings {
        let is_applications = exporter.provider() == Some(ProviderName::Application);
        if is_applications { &self.application } else { &self.main }
    }

    /// Applies every rule to the values of all origins, before anything is started.
    ///
    /// # Errors
    ///
    /// Returns all diagnostics if at least one is an error.
    pub(crate) fn validate(self) -> Result<Self, ConfigError> {
        validate::validate(self, Vec::new(), &[])
    }
}

/// Shows the [effective](Config::effective) settings, which contain no secret.
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
