//! An exporter: one destination with its settings, and the origin of each setting.

use std::fmt;
use std::time::Duration;

use super::demand;
use super::endpoint::PathRule;
use super::error::{Diagnostic, DiagnosticSeverity, Fault};
use super::node::Node;
#[cfg(feature = "ffi")]
use super::settings::LOSSY;
use super::settings::{ENDPOINT, MAX_DURATION, SettingRow, TRANSPORT, rows};
use super::summary::{Origins, SmallMap};
use super::text::quoted;
use super::{
    BatchSettings, ConnectionSettings, Level, Location, PaceSettings, PeriodicReaderSettings, ProviderName,
    QueueSettings, RetrySettings, Secret, Setting, SettingSource, Signals, SpoolSettings, Transport,
    WhenFull, endpoint, header,
};
use crate::record::{Severity, Signal};

/// One destination of telemetry: the address of a collector, with settings for queue, batches, retries and credentials.
///
/// Start with [`Exporter::http`], [`Exporter::grpc`], [`Exporter::file`] or [`Exporter::console`]; every other method
/// overrides one default. The methods check nothing: `Telemetry::start` reports values that are out of range, with the
/// key that the setting has in files.
///
/// ```
/// use std::time::Duration;
/// use standpipe::{Exporter, WhenFull};
///
/// let exporter = Exporter::http("https://collector.example:4318")
///     .header("Authorization", "Bearer hunter2")
///     .when_full(WhenFull::DropNewest)
///     .throttle(Duration::from_millis(200));
/// assert!(!format!("{exporter:?}").contains("hunter2"));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Exporter {
    /// Name with the prefix of the provider: see [`in_provider`].
    name: String,
    /// The section of the file or the variables that describe the exporter; `None` for an exporter made in code.
    table: Option<Table>,
    provider: Option<ProviderName>,
    pub(crate) queue: QueueSettings,
    pub(crate) batch: BatchSettings,
    pub(crate) pace: PaceSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) connection: ConnectionSettings,
    pub(crate) level: Level,
    pub(crate) signals: Signals,
    pub(crate) reader: PeriodicReaderSettings,
    pub(crate) spool: SpoolSettings,
    origins: Origins<&'static str>,
    /// Origin of each header, in the order of `connection.headers`.
    header_sources: Vec<SettingSource>,
    /// Values as a file spells them, with references instead of secrets.
    #[cfg_attr(not(feature = "yaml"), allow(dead_code, reason = "only the writer of YAML reads them"))]
    pub(super) nodes: SmallMap<&'static str, Node>,
    /// Paths of settings that are not directly in the section of the exporter.
    pub(super) paths: SmallMap<&'static str, String>,
    /// Settings that cannot be used although they were requested. They keep the exporter from being started.
    pub(super) refused: Vec<(&'static SettingRow, SettingSource, Fault)>,
}

impl Exporter {
    /// Returns an exporter that posts all [signals](Self::signals) over HTTP, as protobuf or [JSON](Self::json). The
    /// endpoint is a base URL, `host:port` or `host`.
    ///
    /// | given | posted to |
    /// |---|---|
    /// | `host`, `host:port` | `http://`, or `https://` if the port is 443; default port 4318; path `/v1/traces`, `/v1/logs` or `/v1/metrics` |
    /// | `https://host` | port 443, or 80 with `http://`; path as above |
    /// | `https://host/otlp` | `/otlp/v1/traces`, `/otlp/v1/logs` or `/otlp/v1/metrics` |
    /// | `https://host/otlp/v1/traces` | as in the line above: the path of a signal at the end is replaced |
    /// | `unix:/run/otel.sock`, `unix-abstract:name` | a Unix socket; path as in the first line |
    ///
    /// [`http_verbatim`](Self::http_verbatim) posts to an unchanged URL. A warning reports headers with credentials
    /// that would be sent to another machine over `http://`.
    ///
    /// ```
    /// use standpipe::{Exporter, Signal};
    ///
    /// let exporter = Exporter::http("https://collector.example/otlp").signals([Signal::Logs]);
    /// assert_eq!(exporter.endpoints()[0].1, "https://collector.example/otlp/v1/logs");
    /// ```
    pub fn http(endpoint: impl Into<String>) -> Self {
        Self::at(endpoint.into(), Transport::Http, PathRule::BaseOrSignal)
    }

    /// Returns an exporter that posts every signal to exactly this URL, without appending a path.
    ///
    /// Choose one signal with [`signals`](Self::signals): few servers accept several at one path, so several signals
    /// cause a warning.
    ///
    /// ```
    /// use standpipe::{Exporter, Signal};
    ///
    /// let exporter = Exporter::http_verbatim("https://collector.example/ingest").signals([Signal::Logs]);
    /// assert_eq!(exporter.endpoints()[0].1, "https://collector.example/ingest");
    /// ```
    pub fn http_verbatim(url: impl Into<String>) -> Self {
        Self::at(url.into(), Transport::Http, PathRule::Verbatim)
    }

    /// Sends JSON instead of protobuf over HTTP, for servers that accept only JSON. Requests are three times as large
    /// and take the worker longer; queue, retries and ledger work in the same way. Needs the `json` feature. For an
    /// exporter that does not send over HTTP, this is an error at start.
    ///
    /// ```
    /// use standpipe::Exporter;
    ///
    /// let exporter = Exporter::http("https://collector.example").json();
    /// # let _ = exporter;
    /// ```
    pub fn json(mut self) -> Self {
        if !self.connection.transport.is_http() {
            let fault = Fault::new("only HTTP can send JSON", "begin with Exporter::http");
            self.refuse(&TRANSPORT, SettingSource::Code, fault);
        }
        self.connection.transport = Transport::HttpJson;
        self.set_in_code(&TRANSPORT)
    }

    /// Returns an exporter that sends all [signals](Self::signals) as protobuf over gRPC. The endpoint is a URL,
    /// `host:port` or `host`. Needs the `grpc` feature, which is on by default.
    ///
    /// | given | called at |
    /// |---|---|
    /// | `host`, `host:port` | with TLS, except on loopback (`localhost`, `127.0.0.1`, `[::1]`); default port 4317 |
    /// | `http://…` | without TLS; default port 80; a path is ignored with a warning |
    /// | `https://…` | with TLS; default port 443; a path is ignored with a warning |
    /// | `unix:/run/otel.sock`, `unix-abstract:name` | a Unix socket, without TLS |
    ///
    /// [Headers](Self::header) are sent as metadata. Headers that gRPC writes itself or forbids, such as `te` and
    /// `upgrade`, are an error at start. Queue, batches, deadlines, retries and the ledger work as over HTTP.
    ///
    /// ```
    /// use standpipe::{Compression, Config, Exporter, Telemetry};
    ///
    /// # #[cfg(feature = "receiver")] {
    /// # let receiver = standpipe::receiver::Receiver::start()?;
    /// # let endpoint = receiver.grpc_endpoint();
    /// # /*
    /// let endpoint = "localhost:4317";
    /// # */
    /// let exporter = Exporter::grpc(endpoint).compression(Compression::Gzip).header("x-tenant", "seven");
    /// let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter))?;
    /// telemetry.tracer("shop").span("checkout").end();
    /// let ledger = telemetry.shutdown(std::time::Duration::from_secs(2));
    /// assert_eq!(ledger.lost(), 0);
    /// # assert_eq!(receiver.span_count(), 1);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn grpc(endpoint: impl Into<String>) -> Self {
        demand::GRPC.raise();
        Self::at(endpoint.into(), Transport::Grpc, PathRule::default())
    }

    /// Returns an exporter that prints all [signals](Self::signals) on standard output as OTLP JSON, one line per
    /// request. Needs the `console` feature. Settings of endpoints, connections and retries have no effect on it.
    ///
    /// If the reader of the output has ended, further records are counted as refused. If the output is a pipe and its
    /// reader stops reading, the exporter waits. Once the queue is full, callers wait too, unless
    /// [`when_full`](Self::when_full) is [`WhenFull::DropNewest`]. A shutdown still ends in time.
    ///
    /// ```no_run
    /// use standpipe::{Config, Exporter, Telemetry};
    ///
    /// let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(Exporter::console()))?;
    /// telemetry.tracer("shop").span("checkout").end();
    /// // {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},…
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    pub fn console() -> Self {
        let mut exporter = Self::new("console".to_owned(), None);
        exporter.set_transport(Transport::Console);
        exporter.set_in_code(&TRANSPORT)
    }

    fn at(endpoint: String, transport: Transport, path_rule: PathRule) -> Self {
        let mut exporter = Self::new("otlp".to_owned(), None);
        exporter.set_transport(transport);
        exporter.connection.path_rule = path_rule;
        exporter.set_endpoint(endpoint, None);
        exporter.set_in_code(&TRANSPORT).set_in_code(&ENDPOINT)
    }

    fn new(name: String, table: Option<Table>) -> Self {
        Self {
            name,
            table,
            provider: None,
            queue: QueueSettings::default(),
            batch: BatchSettings::default(),
            pace: PaceSettings::default(),
            retry: RetrySettings::default(),
            connection: ConnectionSettings::default(),
            level: Level::default(),
            signals: Signals::ALL,
            reader: PeriodicReaderSettings::default(),
            spool: SpoolSettings::default(),
            origins: Origins::default(),
            header_sources: Vec::new(),
            nodes: SmallMap::default(),
            paths: SmallMap::default(),
            refused: Vec::new(),
        }
    }

    /// Sets the name of the exporter in problems, diagnostics and the ledger; `otlp`, `file` or `console` unless set.
    /// The names of a provider's exporters must be distinct.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = in_provider(self.provider, name.into());
        self
    }

    /// Returns the name, such as `otlp`. The names of the application's exporters begin with `application/`, because
    /// problems and the ledger cover both providers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the provider to which the exporter was assigned, by [`Config::application`](crate::Config::application)
    /// or by `server.telemetry` in a file. Returns `None` otherwise: the exporter then belongs to the program's own
    /// provider.
    pub fn provider(&self) -> Option<ProviderName> {
        self.provider
    }

    /// Returns the destination of each signal: the full URL for HTTP; scheme, host and port for gRPC; `unix:` and
    /// the path of a Unix socket; the path of a file; `stdout` for the console. The query of a URL is `***`, because it
    /// often contains a key.
    pub fn endpoints(&self) -> Vec<(Signal, String)> {
        self.signals.iter().map(|signal| (signal, self.connection.shown_url(signal))).collect()
    }

    /// Returns every setting that affects this exporter, with its value and origin, in a fixed order. Secrets are
    /// `***`. Headers are listed by name, without their values.
    pub fn effective(&self) -> Vec<Setting> {
        let rows = rows().filter(|row| row.matters_to(self));
        rows.map(|row| Setting::new(row.key, &self.shown(row), self.source(row))).collect()
    }

    /// Returns the time limit of one attempt: `timeout`, or `give-up-after` if `timeout` is `none`.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        let timeout = self.connection.timeout;
        if timeout == MAX_DURATION { self.retry.give_up_after } else { timeout }
    }

    pub(super) fn shown(&self, row: &SettingRow) -> String {
        self.origins.shown(row.key).map_or_else(|| row.kind.show(self), str::to_owned)
    }
}

/// Shows the [effective](Exporter::effective) settings, without the path of the endpoint, which may contain a token.
impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Exporter");
        shown.field("name", &self.name);
        for Setting { key, mut value, .. } in self.effective() {
            if key == ENDPOINT.key {
                value = endpoint::without_path(&value);
            }
            shown.field(key, &format_args!("{value}"));
        }
        shown.finish()
    }
}

/// A table of a file, or a group of environment variables.
#[derive(Debug, Clone)]
struct Table {
    /// Key of the section, or name of the group of variables, in diagnostics.
    path: String,
    location: Option<Location>,
    /// True if the file has Tracetest's layout, in which some keys have other names.
    is_of_tracetest: bool,
}

/// Prefix of the application's exporters, so that both providers may use the same name.
const APPLICATION: &str = "application/";

fn in_provider(provider: Option<ProviderName>, name: String) -> String {
    let lacks_prefix = provider == Some(ProviderName::Application) && !name.starts_with(APPLICATION);
    if lacks_prefix { format!("{APPLICATION}{name}") } else { name }
}

/// Functions for the readers of files and variables.
impl Exporter {
    /// Returns an exporter with the defaults of Stalwart's files: callers wait without limit unless `lossy` is set, and
    /// log records below `info` are not sent. `path` is the name of the table in diagnostics.
    pub(super) fn of_table(name: String, path: String, location: Location) -> Self {
        let mut exporter =
            Self::new(name, Some(Table { path, location: Some(location), is_of_tracetest: false }));
        exporter.queue.block_timeout = None;
        exporter.level = Level(Some(Severity::Info));
        exporter
    }

    /// Returns an exporter with the defaults of Tracetest's files: log records below `info` are not sent.
    pub(super) fn of_tracetest(name: String, path: String, location: Location) -> Self {
        let table = Table { path, location: Some(location), is_of_tracetest: true };
        Self { level: Level(Some(Severity::Info)), ..Self::new(name, Some(table)) }
    }

    /// Returns an exporter with the defaults for environment variables and for OpenTelemetry's files. A full queue
    /// drops records, as the queues of OpenTelemetry's processors do. `location` is `None` for variables.
    pub(super) fn of_environment(name: String, path: String, location: Option<Location>) -> Self {
        let mut exporter = Self::new(name, Some(Table { path, location, is_of_tracetest: false }));
        exporter.queue.when_full = WhenFull::DropNewest;
        exporter
    }

    /// Assigns the exporter to a provider.
    pub(super) fn assign(&mut self, provider: ProviderName) {
        self.name = in_provider(Some(provider), self.own_name().to_owned());
        self.provider = Some(provider);
    }

    /// Returns the name without the prefix of the provider.
    pub(super) fn own_name(&self) -> &str {
        let is_prefixed = self.provider == Some(ProviderName::Application);
        self.name.strip_prefix(APPLICATION).filter(|_| is_prefixed).unwrap_or(&self.name)
    }

    /// Records the origin of a value, and the text to show instead of the value, if any.
    pub(super) fn record(&mut self, row: &SettingRow, source: SettingSource, shown: Option<String>) {
        self.origins.insert(row.key, (source, shown));
    }

    /// Keeps the exporter from being started, because a requested setting cannot be used.
    pub(super) fn refuse(&mut self, row: &'static SettingRow, source: SettingSource, fault: Fault) {
        self.record(row, source.clone(), None);
        self.refused.push((row, source, fault));
    }

    pub(super) fn source(&self, row: &SettingRow) -> SettingSource {
        self.origins.source(row.key)
    }

    pub(super) fn is_set(&self, row: &SettingRow) -> bool {
        self.source(row) != SettingSource::Default
    }

    /// Drops records when the queue is full, unless a file or the environment sets something else.
    #[cfg(feature = "ffi")]
    pub(crate) fn lossy_unless_set(self) -> Self {
        if self.is_set(&LOSSY) { self } else { self.when_full(WhenFull::DropNewest) }
    }

    pub(super) fn header_source(&self, index: usize) -> &SettingSource {
        self.header_sources.get(index).unwrap_or(&SettingSource::Default)
    }

    /// Makes a diagnostic about a setting, at the place of the value, or else at that of the exporter.
    pub(super) fn diagnostic(
        &self,
        severity: DiagnosticSeverity,
        row: &SettingRow,
        source: &SettingSource,
        fault: Fault,
    ) -> Diagnostic {
        let (location, key) = match source {
            SettingSource::Environment(variable) => (None, variable.clone()),
            _ => (source.location().or(self.location()).cloned(), self.key(row)),
        };
        fault.found(severity, location, key)
    }

    /// Returns the path of a setting in diagnostics.
    pub(super) fn key(&self, row: &SettingRow) -> String {
        let is_of_tracetest = self.table.as_ref().is_some_and(|table| table.is_of_tracetest);
        let key = row.in_tracetest.filter(|_| is_of_tracetest).map_or(row.key, |(key, _)| key);
        self.paths.get(row.key).cloned().unwrap_or_else(|| format!("{}.{key}", self.path()))
    }

    /// Returns the key of the exporter in diagnostics: its section, or its quoted name.
    pub(super) fn path(&self) -> String {
        let path = self.table.as_ref().map(|table| table.path.clone());
        path.unwrap_or_else(|| format!("exporter {}", quoted(&self.name)))
    }

    /// Returns the place of the exporter's section, if a file describes it.
    pub(super) fn location(&self) -> Option<&Location> {
        self.table.as_ref().and_then(|table| table.location.as_ref())
    }

    /// Sets the transport. An endpoint that is not set becomes the default endpoint of the transport.
    pub(super) fn set_transport(&mut self, transport: Transport) {
        if !self.is_set(&ENDPOINT) {
            self.set_endpoint(transport.default_endpoint().to_owned(), None);
        }
        self.connection.transport = transport;
    }

    /// Sets the endpoint to `text`, in which secrets are expanded; `written` is the text of the file, if it differs.
    pub(super) fn set_endpoint(&mut self, text: String, written: Option<&str>) {
        self.connection.endpoint = text;
        let written = written.unwrap_or(&self.connection.endpoint);
        self.connection.shown_endpoint = match self.connection.parsed() {
            // An empty endpoint is malformed, too, but has nothing to mask.
            Err(_) if !written.is_empty() => endpoint::shown_malformed(written),
            _ => endpoint::shown(written),
        };
    }

    pub(super) fn add_header(&mut self, name: &str, value: &str, source: SettingSource) {
        self.connection.headers.push((header::trim(name).to_owned(), Secret::new(header::trim(value))));
        self.header_sources.push(source);
    }

    pub(super) fn set_in_code(mut self, row: &'static SettingRow) -> Self {
        self.record(row, SettingSource::Code, None);
        self
    }
}
