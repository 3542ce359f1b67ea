//! One destination and all that can be set about it.

mod origin;
mod shown;

use std::time::Duration;

use self::origin::{Origin, Table};
use super::error::Fault;
use super::few::Few;
use super::key::Key;
use super::{
    BatchSettings, Compression, Histograms, HttpSettings, Level, PaceSettings, Proxy, PushSettings,
    QueueSettings, RetrySettings, RouteName, Secret, Signals, Source, Temporality, Transport, WhenFull,
    endpoint, header,
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
pub struct Exporter {
    id: String,
    /// What describes it in a file or in the environment; `None` for one made in code.
    table: Option<Table>,
    pub(super) route: Option<RouteName>,
    pub(crate) queue: QueueSettings,
    pub(crate) batch: BatchSettings,
    pub(crate) pace: PaceSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) http: HttpSettings,
    pub(crate) level: Level,
    pub(crate) signals: Signals,
    pub(crate) push: PushSettings,
    origins: Few<Key, Origin>,
    /// Beside `http.headers`, one for each.
    header_sources: Vec<Source>,
    /// What was asked for and cannot be done: it is not started without.
    refused: Vec<(Key, Source, Fault)>,
}

impl Exporter {
    /// An exporter that posts all [signals](Self::signals) as protobuf over HTTP. The endpoint is a URL,
    /// `host:port` or `host`.
    ///
    /// | given | posted to |
    /// |---|---|
    /// | `host`, `host:port` | `http://`, port 4318 if absent, path `/v1/traces`, `/v1/logs` or `/v1/metrics` |
    /// | a URL without a path | its port, or that of its scheme; path as above |
    /// | a URL with a path | exactly there, whatever the signal |
    pub fn http(endpoint: impl Into<String>) -> Self {
        let mut exporter = Self::new("otlp".to_owned(), None);
        exporter.set_transport(Transport::Http, Source::Code);
        exporter.set_endpoint(endpoint.into(), None, Source::Code);
        exporter
    }

    /// An exporter that sends all [signals](Self::signals) as protobuf over gRPC. The endpoint is a URL, `host:port` or
    /// `host`; needs the `grpc` feature, which is on by default.
    ///
    /// | given | called at |
    /// |---|---|
    /// | `host`, `host:port` | without TLS, port 4317 if absent |
    /// | `http://…`, `https://…` | without or with TLS; its port, or that of its scheme; a path means nothing |
    ///
    /// [Headers](Self::header) are sent as metadata; those that gRPC writes itself, like `te` and `grpc-timeout`, are an
    /// error at start. All else is as over HTTP: queue, batches, deadlines, retries and the ledger.
    ///
    /// ```
    /// use standpipe::{Compression, Config, Exporter, Telemetry};
    ///
    /// # let receiver = standpipe::receiver::Receiver::start()?;
    /// # let endpoint = receiver.grpc_endpoint();
    /// # /*
    /// let endpoint = "localhost:4317";
    /// # */
    /// let exporter = Exporter::grpc(endpoint).compression(Compression::Gzip).header("x-tenant", "seven");
    /// let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter))?;
    /// telemetry.tracer("shop").span("checkout").set("order.id", 4711);
    /// let ledger = telemetry.shutdown(std::time::Duration::from_secs(2));
    /// assert_eq!(ledger.lost(), 0);
    /// # assert_eq!(receiver.span_count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn grpc(endpoint: impl Into<String>) -> Self {
        let mut exporter = Self::new("otlp".to_owned(), None);
        exporter.set_transport(Transport::Grpc, Source::Code);
        exporter.set_endpoint(endpoint.into(), None, Source::Code);
        exporter
    }

    /// An exporter that prints all [signals](Self::signals) on standard output, as OTLP JSON: each request is one line.
    /// Needs the `console` feature; what is said about endpoints, connections and retries means nothing to it.
    ///
    /// Output that cannot be written, because its reader is gone, is counted as refused. A pipe that nobody reads holds
    /// the exporter up, and with a full queue its callers, too, unless [`when_full`](Self::when_full) says otherwise;
    /// a shutdown still ends in time.
    ///
    /// ```no_run
    /// use standpipe::{Config, Exporter, Telemetry};
    ///
    /// let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(Exporter::console()))?;
    /// telemetry.tracer("shop").span("checkout").set("order.id", 4711);
    /// // {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},…
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    pub fn console() -> Self {
        let mut exporter = Self::new("console".to_owned(), None);
        exporter.set_transport(Transport::Console, Source::Code);
        exporter
    }

    fn new(id: String, table: Option<Table>) -> Self {
        Self {
            id,
            table,
            route: None,
            queue: QueueSettings::default(),
            batch: BatchSettings::default(),
            pace: PaceSettings::default(),
            retry: RetrySettings::default(),
            http: HttpSettings::default(),
            level: Level::default(),
            signals: Signals::ALL,
            push: PushSettings::default(),
            origins: Few::new(),
            header_sources: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Names the exporter in problems and statistics; `otlp` or `console` unless set. No two exporters may share an id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Chooses what is sent; all three signals unless set. None at all is an error at start.
    ///
    /// ```
    /// use standpipe::{Exporter, Signal};
    ///
    /// let traces = Exporter::http("http://localhost:4318/v1/traces").signals([Signal::Traces]);
    /// # let _ = traces;
    /// ```
    #[must_use]
    pub fn signals(mut self, signals: impl IntoIterator<Item = Signal>) -> Self {
        self.signals = Signals::of(&signals.into_iter().collect::<Vec<_>>());
        self.set_in_code(Key::Signals)
    }

    /// Sets the least severity of the log records that are sent, [`Severity::Info`] unless set; with `None` not one
    /// is. Spans are not touched by it.
    ///
    /// ```
    /// use standpipe::{Exporter, Severity};
    ///
    /// let exporter = Exporter::http("http://localhost:4318");
    /// let loud = exporter.clone().level(Severity::Warn);
    /// let silent = exporter.level(None);
    /// # let _ = (loud, silent);
    /// ```
    #[must_use]
    pub fn level(mut self, least: impl Into<Option<Severity>>) -> Self {
        self.level = Level(least.into());
        self.set_in_code(Key::Level)
    }

    /// Sets the time between two pushes of metrics; 1 minute unless set, 1 ms to 365 days. The first push comes
    /// after one interval, the last one at shutdown.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.push.interval = interval;
        self.set_in_code(Key::Interval)
    }

    /// Sets over which stretch of time the sums of metrics go; since the start of the program unless set.
    #[must_use]
    pub fn temporality(mut self, temporality: Temporality) -> Self {
        self.push.temporality = temporality;
        self.set_in_code(Key::Temporality)
    }

    /// Sets how histograms without bounds of their own divide their values; by fifteen fixed bounds unless set.
    #[must_use]
    pub fn histograms(mut self, histograms: Histograms) -> Self {
        self.push.histograms = histograms;
        self.set_in_code(Key::Histograms)
    }

    /// Adds a header to every request. Its value is never shown; a line break in it is an error at start.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.add_header(&name.into(), &value.into(), Source::Code);
        self.set_in_code(Key::Headers)
    }

    /// Bounds one attempt, from the look-up of the name to the last byte of the answer; 10 s unless set. One that
    /// hangs holds the other signals of the exporter up for as long, and no longer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.http.timeout = timeout;
        self.set_in_code(Key::Timeout)
    }

    /// Decides what happens to a record that finds the queue full; the caller waits unless set.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.queue.when_full = when_full;
        self.set_in_code(Key::Lossy)
    }

    /// Bounds how long a caller waits for room in the queue, after which the record is dropped and counted;
    /// unbounded unless set. Means nothing with [`WhenFull::DropNewest`].
    #[must_use]
    pub fn block_timeout(mut self, longest: Duration) -> Self {
        self.queue.block_timeout = Some(longest);
        self.set_in_code(Key::BlockTimeout)
    }

    /// Bounds the queue of each signal in records; 32,768 unless set, at most 16,777,215.
    #[must_use]
    pub fn queue_records(mut self, records: usize) -> Self {
        self.queue.records = records;
        self.set_in_code(Key::QueueRecords)
    }

    /// Bounds the queue of each signal in bytes; 16 MiB unless set, 1 KiB to 4 GiB. An exporter of all three signals may so hold
    /// three times as much, if none of them can be delivered.
    #[must_use]
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue.bytes = bytes;
        self.set_in_code(Key::QueueBytes)
    }

    /// Bounds one request in records; 8,192 unless set. More than the queue holds is fine: the smaller bound counts.
    #[must_use]
    pub fn batch_records(mut self, records: usize) -> Self {
        self.batch.records = records;
        self.set_in_code(Key::BatchRecords)
    }

    /// Bounds one uncompressed request in bytes; 4032 KiB unless set, 1 KiB to 64 MiB. A request that
    /// is compressed is a second copy of its records, so several records together take no more than an eighth of the queue's
    /// bytes, but 32 KiB in any case.
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch.bytes = bytes;
        self.set_in_code(Key::BatchBytes)
    }

    /// Sets the shortest time between the starts of two sending rounds of a signal; 1 s unless set, zero for none.
    #[must_use]
    pub fn throttle(mut self, throttle: Duration) -> Self {
        self.pace.throttle = throttle;
        self.set_in_code(Key::Throttle)
    }

    /// Sets how long an incomplete batch may wait for more records; zero unless set.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.pace.linger = linger;
        self.set_in_code(Key::Linger)
    }

    /// Sets how request bodies are compressed; not at all unless set.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.http.compression = compression;
        self.set_in_code(Key::Compression)
    }

    /// Trusts the certificate authorities in this PEM text instead of the bundled ones.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.http.tls.ca = Some(pem.into());
        self.set_in_code(Key::CaFile)
    }

    /// Presents a client certificate: a chain and its private key, both as PEM text. The key is never shown.
    #[must_use]
    pub fn client_pem(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<String>) -> Self {
        self.http.tls.client = Some((certificate.into(), Secret::new(key)));
        self.set_in_code(Key::ClientCertificateFile).set_in_code(Key::ClientKeyFile)
    }

    /// Decides whether the proxies named by the environment are used; they are unless set.
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.http.proxy = proxy;
        self.set_in_code(Key::Proxy)
    }

    /// Drops and counts a batch that could not be delivered in this time; 5 minutes unless set. During a shutdown its
    /// budget counts instead.
    #[must_use]
    pub fn give_up_after(mut self, longest: Duration) -> Self {
        self.retry.give_up_after = longest;
        self.set_in_code(Key::GiveUpAfter)
    }

    /// Sets the delay before the first retry and the longest one that doubling may reach; 250 ms and 30 s unless set.
    #[must_use]
    pub fn retry_delays(mut self, first: Duration, max: Duration) -> Self {
        self.retry.first_delay = first;
        self.retry.max_delay = max;
        self.set_in_code(Key::RetryFirstDelay).set_in_code(Key::RetryMaxDelay)
    }

    /// Puts a product of your own, like `shop/1.2`, in front of `standpipe/<version>` in the `User-Agent`.
    #[must_use]
    pub fn user_agent(mut self, product: impl Into<String>) -> Self {
        self.http.user_agent = Some(product.into());
        self.http.hides_user_agent = false;
        self.set_in_code(Key::UserAgent)
    }

    /// The id that [`Exporter::id`] or the file gave it.
    pub fn name(&self) -> &str {
        &self.id
    }

    /// The route it belongs to; `None` unless a file or [`Application`](crate::Application) tells two apart.
    pub fn route(&self) -> Option<RouteName> {
        self.route
    }

    /// Where each signal that is sent goes: the full URL that is posted to, or scheme, host and port for gRPC. A query,
    /// where people put keys, is `***`. What is printed goes to `stdout`.
    pub fn endpoints(&self) -> Vec<(Signal, String)> {
        self.signals.iter().map(|signal| (signal, self.http.shown_url(signal))).collect()
    }

    /// The name in problems and in the ledger, where the exporters of both routes stand together: the id, or
    /// `application/<id>` on the application's route.
    pub fn label(&self) -> String {
        match self.route {
            Some(RouteName::Application) => format!("application/{}", self.id),
            Some(RouteName::Internal) | None => self.id.clone(),
        }
    }

    /// Chooses how requests travel; the default endpoint goes with it.
    pub(super) fn set_transport(&mut self, transport: Transport, source: Source) {
        if self.source(Key::Endpoint) == Source::Default {
            self.http.endpoint = transport.default_endpoint().to_owned();
            self.http.shown_endpoint = transport.default_endpoint().to_owned();
        }
        self.http.transport = transport;
        self.record(Key::Transport, source, None);
    }

    /// `text` has its secrets put in; `written` is what the file says, if that is something else.
    pub(super) fn set_endpoint(&mut self, text: String, written: Option<&str>, source: Source) {
        self.http.shown_endpoint = endpoint::shown(written.unwrap_or(&text));
        self.http.endpoint = text;
        self.record(Key::Endpoint, source, None);
    }

    pub(super) fn add_header(&mut self, name: &str, value: &str, source: Source) {
        self.http.headers.push((header::trim(name).to_owned(), Secret::new(header::trim(value))));
        self.header_sources.push(source);
    }

    fn set_in_code(mut self, key: Key) -> Self {
        self.record(key, Source::Code, None);
        self
    }
}
