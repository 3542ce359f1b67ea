//! An exporter: one destination with its settings, and the source of each setting.

use std::fmt;
use std::time::Duration;

use super::demand;
use super::endpoint::PathRule;
use super::error::{Diagnostic, DiagnosticSeverity, Fault};
#[cfg(feature = "ffi")]
use super::settings::LOSSY;
use super::settings::kind::SettingValue;
use super::settings::{ENDPOINT, LONGEST, SettingRow, TRANSPORT, rows};
use super::summary::Origins;
use super::text::quoted;
use super::{
    BatchSettings, ConnectionSettings, Level, Location, PaceSettings, PeriodicReaderSettings, ProviderName,
    QueueSettings, RetrySettings, Secret, Setting, SettingSource, Signals, SpoolSettings, Transport,
    WhenFull, endpoint, header,
};
use crate::record::{Severity, Signal};

/// Where telemetry goes, and at what pace: a collector's address with its queue, batches, retries and secrets.
///
/// Start with [`Exporter::http`] or [`Exporter::console`]; every other method overrides one default. Nothing is checked
/// here: `Telemetry::start` reports whatever is out of range, with the key that files use for the setting.
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
    /// With the provider's prefix: see [`in_provider`].
    name: String,
    /// What describes it in a file or in the environment; `None` for one made in code.
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
    origins: Origins<&'static SettingRow>,
    /// Beside `http.headers`, one for each.
    header_sources: Vec<SettingSource>,
    /// What was asked for and cannot be done: it is not started without.
    pub(super) refused: Vec<(&'static SettingRow, SettingSource, Fault)>,
}

impl Exporter {
    /// An exporter that posts all [signals](Self::signals) as protobuf over HTTP. The endpoint is a base URL,
    /// `host:port` or `host`.
    ///
    /// | given | posted to |
    /// |---|---|
    /// | `host`, `host:port` | `http://`, port 4318 if absent, path `/v1/traces`, `/v1/logs` or `/v1/metrics` |
    /// | `https://host` | port 443, or 80 with `http://`; path as above |
    /// | `https://host/otlp` | `/otlp/v1/traces`, `/otlp/v1/logs` or `/otlp/v1/metrics` |
    /// | `https://host/otlp/v1/traces` | the same: the path of a signal at the end is replaced |
    ///
    /// [`http_verbatim`](Self::http_verbatim) posts to a URL as it is. Headers with credentials that are sent to another
    /// machine over `http://` are reported as a warning.
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

    /// An exporter that posts to exactly this URL, whatever the signal: nothing is appended to its path.
    ///
    /// Choose one signal with [`signals`](Self::signals): few servers accept several at one path, so that is a warning.
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

    /// An exporter that sends all [signals](Self::signals) as protobuf over gRPC. The endpoint is a URL, `host:port` or
    /// `host`; needs the `grpc` feature, which is on by default.
    ///
    /// | given | called at |
    /// |---|---|
    /// | `host`, `host:port` | with TLS, without it on loopback (`localhost`, `127.0.0.1`, `[::1]`); port 4317 if absent |
    /// | `http://…`, `https://…` | without or with TLS; its port, or that of its scheme; a path means nothing |
    ///
    /// [Headers](Self::header) are sent as metadata; those that gRPC writes itself, like `te` and `grpc-timeout`, are an
    /// error at start. All else is as over HTTP: queue, batches, deadlines, retries and the ledger.
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

    /// An exporter that prints all [signals](Self::signals) on standard output, as OTLP JSON: each request is one line.
    /// Needs the `console` feature; what is said about endpoints, connections and retries means nothing to it.
    ///
    /// Output that cannot be written, because its reader is gone, is counted as refused. A pipe that is not read holds
    /// the exporter up, and with a full queue its callers, too, unless [`when_full`](Self::when_full) says otherwise;
    /// a shutdown still ends in time.
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
            signals: Signals::default(),
            reader: PeriodicReaderSettings::default(),
            spool: SpoolSettings::default(),
            origins: Origins::default(),
            header_sources: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Names the exporter in problems, diagnostics and the ledger; `otlp` or `console` unless set. No two exporters of
    /// a provider may share a name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = in_provider(self.provider, name.into());
        self
    }

    /// The name that [`Exporter::named`] or the file gave it, with `application/` in front on the application's provider:
    /// problems and the ledger are of both.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The provider it belongs to; `None` unless a file or [`Application`](crate::Application) tells two apart.
    pub fn provider(&self) -> Option<ProviderName> {
        self.provider
    }

    /// Where each signal that is sent goes: the full URL that is posted to, or scheme, host and port for gRPC. A query,
    /// where people put keys, is `***`. What is printed goes to `stdout`.
    pub fn endpoints(&self) -> Vec<(Signal, String)> {
        self.signals.iter().map(|signal| (signal, self.connection.shown_url(signal))).collect()
    }

    /// Every setting that makes a difference to what is sent, with its value and where that came from, always in
    /// the same order. Secrets are `***`; of headers the names are shown.
    pub fn effective(&self) -> Vec<Setting> {
        let rows = rows().filter(|row| row.matters_to(self));
        rows.map(|row| Setting::new(row.key, &self.shown(row), self.source(row))).collect()
    }

    /// Returns the time limit of one attempt: that of its batch, if it has none of its own.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        let timeout = self.connection.timeout;
        if timeout == LONGEST { self.retry.give_up_after } else { timeout }
    }

    pub(super) fn shown(&self, row: &'static SettingRow) -> String {
        self.origins.shown(&row).map_or_else(|| row.kind.show(self), str::to_owned)
    }
}

/// As [`effective`](Exporter::effective), but without the path of the endpoint: no secret is in it.
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
    /// As diagnostics name it.
    path: String,
    location: Option<Location>,
    /// Whether the file is one of Tracetest, which spells some keys in its own way.
    is_of_tracetest: bool,
}

/// The prefix of the application's exporters, whose names need only differ from each other.
const APPLICATION: &str = "application/";

fn in_provider(provider: Option<ProviderName>, name: String) -> String {
    match provider {
        Some(ProviderName::Application) if !name.starts_with(APPLICATION) => format!("{APPLICATION}{name}"),
        _ => name,
    }
}

/// What the readers of files and variables do with it.
impl Exporter {
    /// All defaults of Stalwart's files, where `lossy` alone decides whether records are lost: callers wait without limit.
    /// Log records below `info` are not sent. `path` is the name of the table in diagnostics.
    pub(super) fn of_table(name: String, path: String, location: Location) -> Self {
        let mut exporter =
            Self::new(name, Some(Table { path, location: Some(location), is_of_tracetest: false }));
        exporter.queue.block_timeout = None;
        exporter.level = Level(Some(Severity::Info));
        exporter
    }

    /// All defaults; for Tracetest's files, which spell some keys in their own way.
    pub(super) fn of_tracetest(name: String, path: String, location: Location) -> Self {
        let table = Table { path, location: Some(location), is_of_tracetest: true };
        Self { level: Level(Some(Severity::Info)), ..Self::new(name, Some(table)) }
    }

    /// All defaults for what environment variables describe: OpenTelemetry's processors drop what finds no room.
    pub(super) fn of_environment(name: String, path: String) -> Self {
        let mut exporter = Self::new(name, Some(Table { path, location: None, is_of_tracetest: false }));
        exporter.queue.when_full = WhenFull::DropNewest;
        exporter
    }

    /// Makes it one of a provider's.
    pub(super) fn assign(&mut self, provider: ProviderName) {
        self.name = in_provider(Some(provider), self.own_name().to_owned());
        self.provider = Some(provider);
    }

    /// The name among the exporters of its provider.
    pub(super) fn own_name(&self) -> &str {
        match self.provider {
            Some(ProviderName::Application) => self.name.strip_prefix(APPLICATION).unwrap_or(&self.name),
            Some(ProviderName::Internal) | None => &self.name,
        }
    }

    /// Takes over what a file or a variable says.
    pub(super) fn apply(&mut self, row: &'static SettingRow, value: SettingValue, source: SettingSource) {
        let shown = row.kind.set(self, value, &source);
        self.record(row, source, shown);
    }

    /// Remembers where a value came from, and what to show for it if not the value.
    pub(super) fn record(&mut self, row: &'static SettingRow, source: SettingSource, shown: Option<String>) {
        self.origins.insert(row, (source, shown));
    }

    /// Keeps the exporter from being started: a setting was asked for, but cannot be used.
    pub(super) fn refuse(&mut self, row: &'static SettingRow, source: SettingSource, fault: Fault) {
        self.record(row, source.clone(), None);
        self.refused.push((row, source, fault));
    }

    pub(super) fn source(&self, row: &'static SettingRow) -> SettingSource {
        self.origins.source(&row)
    }

    pub(super) fn is_set(&self, row: &'static SettingRow) -> bool {
        self.source(row) != SettingSource::Default
    }

    /// Drops what finds no room, unless a file or the environment says otherwise.
    #[cfg(feature = "ffi")]
    pub(crate) fn lossy_unless_set(self) -> Self {
        if self.is_set(&LOSSY) { self } else { self.when_full(WhenFull::DropNewest) }
    }

    pub(super) fn header_source(&self, index: usize) -> &SettingSource {
        self.header_sources.get(index).unwrap_or(&SettingSource::Default)
    }

    /// What is wrong with a setting, at the place the value came from or else where the exporter is declared.
    pub(super) fn diagnostic(
        &self,
        severity: DiagnosticSeverity,
        row: &SettingRow,
        source: &SettingSource,
        fault: Fault,
    ) -> Diagnostic {
        let (location, key) = match source {
            SettingSource::Environment(variable) => (None, variable.clone()),
            _ => (
                source.location().or(self.location()).cloned(),
                format!("{}.{}", self.path(), self.spelt(row)),
            ),
        };
        fault.found(severity, location, key)
    }

    fn spelt(&self, row: &SettingRow) -> &'static str {
        let is_of_tracetest = self.table.as_ref().is_some_and(|table| table.is_of_tracetest);
        row.in_tracetest.as_ref().filter(|_| is_of_tracetest).map_or(row.key, |spelling| spelling.key)
    }

    /// The exporter in diagnostics: as its file or its program knows it.
    pub(super) fn path(&self) -> String {
        self.table
            .as_ref()
            .map_or_else(|| format!("exporter {}", quoted(&self.name)), |table| table.path.clone())
    }

    /// Where the exporter as a whole is described, if that is in a file.
    pub(super) fn location(&self) -> Option<&Location> {
        self.table.as_ref().and_then(|table| table.location.as_ref())
    }

    /// Chooses how requests travel; the default endpoint goes with it.
    pub(super) fn set_transport(&mut self, transport: Transport) {
        if !self.is_set(&ENDPOINT) {
            self.set_endpoint(transport.default_endpoint().to_owned(), None);
        }
        self.connection.transport = transport;
    }

    /// `text` has its secrets put in; `written` is what the file says, if that is something else.
    pub(super) fn set_endpoint(&mut self, text: String, written: Option<&str>) {
        self.connection.endpoint = text;
        let written = written.unwrap_or(&self.connection.endpoint);
        self.connection.shown_endpoint = match self.connection.parsed() {
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
