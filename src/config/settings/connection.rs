//! Connection and retry settings: defaults, a row for each setting, the builder's methods, and the URLs derived from
//! them.

use std::sync::Arc;
use std::time::Duration;

use super::delivery::bytes;
use super::kind::{Field, Kind, field, file, word};
use super::{
    FileSettings, MAX_DURATION, POSITIVE, SettingRow, SummaryField, TlsSettings, VariableNames, setters,
    settings, table,
};
use crate::config::endpoint::{Endpoint, PathRule};
use crate::config::error::{Checked, Fault};
use crate::config::header::{self, CredentialsResult};
use crate::config::text::shown;
use crate::config::validate as rules;
use crate::config::values::Named;
use crate::config::{
    Compression, Exporter, HeaderSource, Proxy, RequestToSign, Roots, Secret, SettingSource, Signer,
    Transport, demand,
};
use crate::record::Signal;

settings! {
    /// Connection settings for HTTP and gRPC.
    #[derive(Clone)]
    ConnectionSettings {
        pub(crate) transport: Transport = Transport::Http,
        /// Endpoint with expanded secrets; [`url`](Self::url) derives the URL of a signal from it.
        pub(crate) endpoint: String = Transport::Http.default_endpoint().to_owned(),
        /// Endpoint for messages, without text that may be a secret.
        pub(crate) shown_endpoint: String = Transport::Http.default_endpoint().to_owned(),
        /// How the path of a request is derived from the endpoint.
        pub(in crate::config) path_rule: PathRule = PathRule::default(),
        /// Whether a gRPC endpoint without a scheme is plaintext; with `None`, only a loopback address is.
        pub(in crate::config) insecure: Option<bool> = None,
        /// Names and values of headers. `Debug` hides the values.
        pub(crate) headers: Vec<(String, Secret)> = Vec::new(),
        /// Sources of headers whose values change; each replaces a header of the same name.
        pub(crate) header_sources: Vec<HeaderSource> = Vec::new(),
        /// Function that signs requests.
        pub(crate) signer: Option<Signer> = None,
        /// True if the value of a header contains an expanded secret, or comes from a function.
        pub(in crate::config) has_secret_header: bool = false,
        /// Time limit of one attempt, from name resolution to the last byte of the response.
        pub(crate) timeout: Duration = Duration::from_secs(10),
        pub(crate) compression: Compression = Compression::None,
        /// Time after which a connection is not reused.
        pub(crate) max_age: Duration = MAX_DURATION,
        /// Maximum size of a response.
        pub(crate) response_bytes: usize = 4 << 20,
        pub(crate) proxy: Proxy = Proxy::FromEnvironment,
        pub(crate) tls: TlsSettings = TlsSettings::default(),
        pub(crate) file: FileSettings = FileSettings::default(),
        /// Product that precedes `standpipe/<version> (rust)` in the `User-Agent`.
        pub(crate) user_agent: Option<String> = None,
        /// True if `user_agent` contains an expanded secret, which only the server may see.
        pub(crate) hides_user_agent: bool = false,
    }

    /// Settings for failed attempts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    RetrySettings {
        /// Time after which an undelivered batch is dropped and counted.
        pub(crate) give_up_after: Duration = Duration::from_secs(300),
        pub(crate) first_delay: Duration = Duration::from_millis(250),
        pub(crate) max_delay: Duration = Duration::from_secs(30),
        /// Longest pause that a server can request with `Retry-After`.
        pub(crate) max_retry_after: Duration = Duration::from_secs(60),
    }
}

/// Makes the [`Field`] for a duration whose largest value, [`MAX_DURATION`], represents no limit.
macro_rules! unlimited {
    ($($name:ident).+) => {
        Field {
            get: |owner| Some(owner.$($name).+).filter(|time| *time != MAX_DURATION),
            set: |owner, time| owner.$($name).+ = time.unwrap_or(MAX_DURATION),
        }
    };
}

// The transport is read before the endpoint, because the default port and scheme depend on it.
table! { ADDRESS from PLAIN:
    /// protocol of requests; `file` appends them to a file, `console` prints them; `disable` switches the exporter off
    TRANSPORT "transport" {
        kind: Kind::Word {
            names: Transport::names,
            get: |exporter| exporter.connection.transport.name().to_owned(),
            set: |exporter, word| Transport::parse(word).into_iter().for_each(|it| exporter.set_transport(it)),
            variables: &[("http/protobuf", "http"), ("grpc", "grpc"), ("http/json", "http/json")],
        },
        advice: "write \"http\", \"http/json\", \"grpc\", \"file\", \"console\" or \"disable\"",
        variables: VariableNames::OfExporter("PROTOCOL"),
        in_tracetest: Some(("exporter.type", "write type: collector")),
        rule: |exporter| {
            rules::transport(exporter.connection.transport, cfg!(feature = "grpc"), cfg!(feature = "json"))
        },
    }
    /// a URL, `host`, `host:port`, or a Unix socket: `unix:/path` or `unix-abstract:name`; over HTTP, port 443 without
    /// a scheme means `https`, and the path of each signal is appended if the endpoint has no path
    ENDPOINT "endpoint" {
        kind: Kind::Endpoint,
        advice: "write a URL like \"http://localhost:4318\"",
        variables: VariableNames::OfExporter("ENDPOINT"),
        in_tracetest: Some(("exporter.collector.endpoint", "write an address like localhost:4317")),
        applies_to: Transport::connects,
        rule: |exporter| rules::endpoint(exporter, cfg!(feature = "tls")),
    }
    /// a list of `"Name: value"`, one such string, or a table; values are never shown
    HEADERS "headers" {
        kind: Kind::Headers,
        advice: "write a list like [\"Name: value\"], one such string, or a table",
        variables: VariableNames::OfExporter("HEADERS"),
        applies_to: Transport::connects,
        rule: rules::head,
    }
}

table! { CONNECTION from CONNECTED:
    /// time limit of one attempt, from name resolution to the end of the response; an attempt of one signal delays the
    /// other signals by at most this time; with `none`, the limit is `give-up-after`
    TIMEOUT "timeout" {
        kind: Kind::Limit { field: unlimited!(connection.timeout), range: POSITIVE },
        advice: "write a duration like \"10s\", or \"none\"",
        variables: VariableNames::OfExporter("TIMEOUT"),
        in_summary: Some(SummaryField { name: "timeout_ms", signals: &Signal::ALL }),
    }
    /// time after which an undelivered batch is dropped and counted, or `none` for no limit; during a shutdown, the
    /// budget of the shutdown applies
    GIVE_UP_AFTER "give-up-after" {
        applies_to: Transport::retries,
        kind: Kind::Limit { field: unlimited!(retry.give_up_after), range: POSITIVE },
        advice: "write a duration like \"5m\", or \"none\"",
        variables: VariableNames::OfSignals([
            "OTEL_BSP_EXPORT_TIMEOUT",
            "OTEL_BLRP_EXPORT_TIMEOUT",
            "OTEL_METRIC_EXPORT_TIMEOUT",
        ]),
    }
    /// first step of the exponential back-off; each step doubles, and the pause is a random time below the step
    RETRY_FIRST_DELAY "retry-first-delay" {
        applies_to: Transport::retries,
        kind: Kind::Duration { field: field!(retry.first_delay), range: POSITIVE },
        advice: "write a duration like \"250ms\"",
    }
    /// longest step of the back-off
    RETRY_MAX_DELAY "retry-max-delay" {
        applies_to: Transport::retries,
        kind: Kind::Duration { field: field!(retry.max_delay), range: POSITIVE },
        advice: "write a duration like \"30s\"",
        rule: rules::max_delay,
    }
    /// longest pause that a server can request with `Retry-After`; if it requests more, the batch is sent again after
    /// this time
    MAX_RETRY_AFTER "max-retry-after" {
        kind: Kind::Duration { field: field!(retry.max_retry_after), range: POSITIVE },
        advice: "write a duration like \"1m\"",
    }
    /// time after which a connection is replaced by a new one, before its next request, or `none` for no limit; the
    /// new connection looks up the host again and prefers another of its addresses
    MAX_CONNECTION_AGE "max-connection-age" {
        kind: Kind::Limit { field: unlimited!(connection.max_age), range: POSITIVE },
        advice: "write a duration like \"5m\", or \"none\"",
    }
    /// compression of request bodies
    COMPRESSION "compression" {
        kind: word!(Compression, connection.compression, &[("gzip", "gzip"), ("none", "none")]),
        advice: "write \"none\" or \"gzip\"",
        variables: VariableNames::OfExporter("COMPRESSION"),
        rule: |exporter| rules::compression(exporter.connection.compression, cfg!(feature = "gzip")),
    }
    /// maximum number of bytes in a response; a longer one counts as refused
    RESPONSE_BYTES "response-bytes" {
        kind: bytes(field!(connection.response_bytes), 1 << 10..=64 << 20, "the most a response may hold"),
        advice: "write a size like \"4 MiB\" or a number of bytes",
    }
    /// `env`: uses `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`; loopback is always reached directly
    PROXY "proxy" {
        kind: word!(Proxy, connection.proxy, &[]),
        advice: "write \"env\" or \"off\"; HTTPS_PROXY or HTTP_PROXY sets the address of a proxy",
    }
    /// certificate authorities that replace all other roots, PEM; the file is read again when it changes
    CA_FILE "ca-file" {
        kind: file!(connection.tls.ca, "bundled roots"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CERTIFICATE"),
        rule: |exporter| rules::pem(exporter.connection.tls.ca.as_deref(), "CERTIFICATE"),
    }
    /// certificate authorities that are trusted in addition to the roots, PEM; the file is read again when it changes
    EXTRA_CA_FILE "extra-ca-file" {
        kind: file!(connection.tls.extra_ca, "none"),
        advice: "write the path of a PEM file",
        rule: |exporter| rules::pem(exporter.connection.tls.extra_ca.as_deref(), "CERTIFICATE"),
    }
    /// certificate authorities to trust unless `ca-file` is set: `bundled`, the list in this library, or `system`,
    /// the list of the operating system, which needs the feature `system-roots`
    ROOTS "roots" {
        kind: word!(Roots, connection.tls.roots, &[]),
        advice: "write \"bundled\" or \"system\"",
        rule: rules::roots,
    }
    /// client certificate, PEM; requires `client-key-file`; both files are read again when they change
    CLIENT_CERTIFICATE_FILE "client-certificate-file" {
        kind: file!(connection.tls.client_certificate, "none"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CLIENT_CERTIFICATE"),
        partner: Some(&CLIENT_KEY_FILE),
        rule: |exporter| rules::pem(exporter.connection.tls.client().map(|(chain, _)| chain), "CERTIFICATE"),
    }
    /// private key of the client certificate, PEM
    CLIENT_KEY_FILE "client-key-file" {
        kind: file!(connection.tls.client_key, "none"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CLIENT_KEY"),
        partner: Some(&CLIENT_CERTIFICATE_FILE),
        rule: |exporter| rules::pem(exporter.connection.tls.client().map(|(_, key)| key), "PRIVATE KEY"),
    }
    /// product to put before `standpipe/<version> (rust)` in the `User-Agent`; nothing by default
    USER_AGENT "user-agent" {
        kind: Kind::Text {
            set: |exporter, product, is_secret| {
                exporter.connection.user_agent = Some(product);
                exporter.connection.hides_user_agent = is_secret;
            },
            show: |exporter| shown(&exporter.connection.full_user_agent()).into_owned(),
        },
        advice: "write a product like \"shop/1.2\"",
        rule: rules::user_agent,
    }
}

setters! {
    /// Sets the time limit of one attempt, from name resolution to the last byte of the response; 10 s unless set. An
    /// attempt that hangs delays the other signals of the exporter by at most this time.
    timeout(timeout: Duration) sets connection.timeout of TIMEOUT;
    /// Sets the time after which an undelivered batch is dropped and counted; 5 minutes unless set. During a shutdown,
    /// the budget of the shutdown applies instead.
    give_up_after(longest: Duration) sets retry.give_up_after of GIVE_UP_AFTER;
    /// Limits the pause that a server can request with `Retry-After`; 1 minute unless set. After the pause, the batch
    /// is sent again.
    max_retry_after(longest: Duration) sets retry.max_retry_after of MAX_RETRY_AFTER;
    /// Sets the time after which a connection is replaced by a new one, before its next request; none unless set. Each
    /// new connection resolves the host again. Within each address family (IPv4 or IPv6), it tries the address of the
    /// previous connection last, so that requests spread over all servers behind the name.
    max_connection_age(longest: Duration) sets connection.max_age of MAX_CONNECTION_AGE;
    /// Limits the size of a response in bytes; 4 MiB unless set, 1 KiB to 64 MiB. If a response is longer, the records
    /// of its request count as refused, because such a server is probably not a collector.
    response_bytes(bytes: usize) sets connection.response_bytes of RESPONSE_BYTES;
    /// Sets whether proxies from the environment are used; the default is [`Proxy::FromEnvironment`].
    proxy(proxy: Proxy) sets connection.proxy of PROXY;
    /// Sets the roots to trust. Unless set, the roots that are bundled with this library are trusted.
    roots(roots: Roots) sets connection.tls.roots of ROOTS;
}

impl Exporter {
    /// Sets the compression of request bodies; none unless set.
    pub fn compression(mut self, compression: Compression) -> Self {
        // Programs contain the compressor only if they call this method or read a file or variables.
        if compression == Compression::Gzip {
            demand::GZIP.raise();
        }
        self.connection.compression = compression;
        self.set_in_code(&COMPRESSION)
    }

    /// Adds a header to every request. Its value is never shown. A line break in it is an error at start.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.add_header(&name.into(), &value.into(), SettingSource::Code);
        self.set_in_code(&HEADERS)
    }

    /// Adds headers whose values change, such as a token that expires. The function runs before a request, once per
    /// [`valid_for`](crate::config::Credentials::valid_for), on a separate thread, so that the request ends in time
    /// even if the function hangs. [Without threads](crate::Telemetry::start_manual), it runs on the thread that drives
    /// the exporter.
    ///
    /// If the function fails, the problem is reported with its error, which must not contain a secret, and the records
    /// wait as in an outage. If the server refuses the headers (401, 403, `UNAUTHENTICATED`, `PERMISSION_DENIED`), the
    /// function is called again, and the request is repeated at once if the headers have changed; otherwise it is
    /// repeated with back-off until `give-up-after`. Over gRPC, the headers are metadata. A forked child does not reuse
    /// the headers of its parent, but calls the function again. Values are never shown.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::{Exporter, config::Credentials};
    ///
    /// # fn fetch_token() -> std::io::Result<(String, Duration)> { Ok((String::new(), Duration::from_secs(3600))) }
    /// let exporter = Exporter::http("https://collector.example").headers_from(|| {
    ///     let (token, lifetime) = fetch_token()?;
    ///     let lifetime = lifetime.mul_f64(0.8);
    ///     Ok(Credentials::new().header("Authorization", format!("Bearer {token}")).valid_for(lifetime))
    /// });
    /// # let _ = exporter;
    /// ```
    pub fn headers_from(mut self, get: impl Fn() -> CredentialsResult + Send + Sync + 'static) -> Self {
        demand::CREDENTIALS.raise();
        self.connection.has_secret_header = true;
        self.connection.header_sources.push(HeaderSource { get: Arc::new(get), written: None });
        self
    }

    /// Adds headers that sign each request over HTTP, such as those of AWS Signature Version 4. The function runs for
    /// each attempt, as the last step, on the thread of the exporter, and must not wait. It gets the URL, the headers
    /// and the body as it is sent. If it fails, the problem is reported and the records wait as in an outage.
    /// [`valid_for`](crate::config::Credentials::valid_for) has no effect on the returned headers, because each attempt
    /// is signed again. Over gRPC, this is an error at start.
    ///
    /// ```
    /// use standpipe::{Exporter, config::Credentials};
    ///
    /// # fn sign(_: &str, _: &[(&str, &str)], _: &[&[u8]]) -> String { String::new() }
    /// let exporter = Exporter::http("https://xray.eu-west-1.amazonaws.com").sign_with(|request| {
    ///     let signature = sign(request.url, request.headers, request.body);
    ///     Ok(Credentials::new().header("Authorization", signature))
    /// });
    /// # let _ = exporter;
    /// ```
    pub fn sign_with(
        mut self,
        sign: impl Fn(&RequestToSign<'_>) -> CredentialsResult + Send + Sync + 'static,
    ) -> Self {
        demand::CREDENTIALS.raise();
        self.connection.has_secret_header = true;
        self.connection.signer = Some(Signer(Arc::new(sign)));
        self
    }

    /// Sets the first and the longest step of the exponential back-off; 250 ms and 30 s unless set.
    pub fn retry_delays(mut self, first: Duration, max: Duration) -> Self {
        self.retry.first_delay = first;
        self.retry.max_delay = max;
        self.set_in_code(&RETRY_FIRST_DELAY).set_in_code(&RETRY_MAX_DELAY)
    }

    /// Sets a product, such as `shop/1.2`, that precedes `standpipe/<version> (rust)` in the `User-Agent`.
    pub fn user_agent(mut self, product: impl Into<String>) -> Self {
        self.connection.user_agent = Some(product.into());
        self.connection.hides_user_agent = false;
        self.set_in_code(&USER_AGENT)
    }
}

/// Maximum size of headers, endpoint and user agent together. Many servers accept less. Over HTTP, the head of a
/// request must fit into one write of 64 KiB. The other 32 KiB of this write are for the credentials of a proxy and
/// for the name of the host, which is inserted if the proxy forwards the request.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Bytes of a colon, a space and CRLF.
const FIELD_FRAMING: usize = 4;

impl ConnectionSettings {
    /// Returns the destination of a signal: the full URL for HTTP; scheme, host and port for gRPC; `stdout` for the
    /// console; the path of a file.
    ///
    /// A malformed endpoint is returned unchanged, because validation reports it before anything is sent.
    pub(crate) fn url(&self, signal: Signal) -> String {
        self.meaning(&self.endpoint, signal)
    }

    /// Returns the destination of a signal for messages, without text that may be a secret.
    pub(crate) fn shown_url(&self, signal: Signal) -> String {
        let shown = Endpoint::parse(&self.shown_endpoint, self.transport, self.insecure).ok();
        let socket = shown.and_then(|shown| shown.shown_socket()).filter(|_| self.transport.connects());
        socket.unwrap_or_else(|| self.meaning(&self.shown_endpoint, signal))
    }

    /// Checks the length of endpoint, user agent and headers together. Inspects only lengths, because each of hundreds
    /// of exporters may have a value that was read from a large file.
    ///
    /// # Errors
    /// Returns an error if the total exceeds the limit for the head of a request.
    pub(crate) fn check_head(&self) -> Result<(), Fault> {
        let length = |(name, value): &(String, Secret)| name.len() + value.expose().len() + FIELD_FRAMING;
        let product = self.user_agent.as_ref().map_or(0, String::len);
        let bytes = self.headers.iter().map(length).sum::<usize>() + product + self.endpoint.len();
        let limit = format!("a request can carry {} KiB of them", MAX_HEAD_BYTES >> 10);
        let names = "headers, endpoint and user-agent";
        let what = format!("{names} are {bytes} bytes long together, and {limit}");
        Fault::unless(bytes <= MAX_HEAD_BYTES, what, "write shorter ones")
    }

    /// Checks the headers after one of them has changed.
    ///
    /// # Errors
    /// Returns an error that names the header without its value.
    pub(crate) fn check_headers(&self) -> Result<(), Fault> {
        for (index, (name, value)) in self.headers.iter().enumerate() {
            self.check_header(index, name, value)?;
        }
        self.check_head()
    }

    /// Checks the header at an index. Its number, counted from 1, identifies it in the message if its name must not be
    /// shown.
    pub(in crate::config) fn check_header(&self, index: usize, name: &str, value: &Secret) -> Checked {
        header::check(index + 1, name, value.expose())?;
        if self.transport == Transport::Grpc { header::check_metadata(name) } else { Ok(()) }
    }

    /// Returns the `User-Agent`: the configured product, then `standpipe/<version> (rust)`.
    pub(crate) fn full_user_agent(&self) -> String {
        let own = concat!("standpipe/", env!("CARGO_PKG_VERSION"), " (rust)");
        match &self.user_agent {
            Some(token) => format!("{token} {own}"),
            None => own.to_owned(),
        }
    }

    /// Returns host and port if they contain an expanded secret.
    pub(crate) fn hidden_authority(&self) -> Option<&str> {
        let used = authority(&self.endpoint);
        (used != authority(&self.shown_endpoint)).then_some(used)
    }

    /// Returns the host and the user agent, each only if it contains an expanded secret. Messages must not show these
    /// texts, even if a server repeats them.
    pub(crate) fn hidden_texts(&self) -> impl Iterator<Item = &str> {
        let host = self.hidden_authority().map(|authority| match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        });
        host.into_iter().chain(self.user_agent.as_deref().filter(|_| self.hides_user_agent))
    }

    /// Returns scheme, host and port of the shown endpoint, if it can be parsed.
    pub(crate) fn shown_origin(&self) -> Option<String> {
        Some(Endpoint::parse(&self.shown_endpoint, self.transport, self.insecure).ok()?.origin())
    }

    /// Parses the endpoint.
    pub(crate) fn parsed(&self) -> Result<Endpoint, Fault> {
        Endpoint::parse(&self.endpoint, self.transport, self.insecure)
    }

    /// Returns host and port of the server, or the path of its Unix socket without a port. Returns `None` if the
    /// address contains a secret, or if the exporter does not connect to a server.
    pub(crate) fn server(&self) -> Option<(String, Option<u16>)> {
        let connects = self.transport.connects() && self.hidden_authority().is_none();
        let endpoint = self.parsed().ok().filter(|_| connects)?;
        if let Some(socket) = &endpoint.socket {
            return Some((socket.replace('\0', "@"), None));
        }
        let (host, port) = endpoint.host_and_port();
        Some((host.trim_matches(['[', ']']).to_owned(), Some(port)))
    }

    fn meaning(&self, endpoint: &str, signal: Signal) -> String {
        let understood = Endpoint::parse(endpoint, self.transport, self.insecure);
        match (self.transport, understood) {
            (Transport::Console, _) => self.transport.default_endpoint().to_owned(),
            (Transport::File, _) => self.file.path.display().to_string(),
            (Transport::Grpc, Ok(understood)) => understood.origin(),
            (_, Ok(understood)) => understood.url(signal.path(), self.path_rule),
            (_, Err(_)) => endpoint.to_owned(),
        }
    }
}

/// Returns host and port of an endpoint, even if it is malformed.
fn authority(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
