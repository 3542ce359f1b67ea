//! Connection and retry settings: defaults, a row for each setting, the builder's methods, and the URLs derived from
//! them.

use std::time::Duration;

use super::kind::{Field, Kind, field, file, word};
use super::{
    MAX_DURATION, POSITIVE, SettingRow, SummaryField, TracetestSpelling, VariableNames, setters, settings,
    table,
};
use crate::config::endpoint::{Endpoint, PathRule};
use crate::config::error::Fault;
use crate::config::text::shown;
use crate::config::validate as rules;
use crate::config::values::Named;
use crate::config::{Compression, Exporter, Proxy, Secret, SettingSource, Transport, demand};
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
        /// True if the value of a header contains an expanded secret.
        pub(in crate::config) has_secret_header: bool = false,
        /// Time limit of one attempt, from name resolution to the last byte of the response.
        pub(crate) timeout: Duration = Duration::from_secs(10),
        pub(crate) compression: Compression = Compression::None,
        pub(crate) proxy: Proxy = Proxy::FromEnvironment,
        pub(crate) tls: TlsSettings = TlsSettings::default(),
        /// Product that precedes `standpipe/<version>` in the `User-Agent`.
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
        /// Longest `Retry-After` of a server that is honored.
        pub(crate) max_retry_after: Duration = Duration::from_secs(60),
    }
}

/// Certificates, as PEM text.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// Certificate authorities that replace the bundled roots.
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) client_certificate: Option<Vec<u8>>,
    pub(crate) client_key: Option<Vec<u8>>,
}

impl TlsSettings {
    /// Returns certificate chain and private key if both are set.
    pub(crate) fn client(&self) -> Option<(&[u8], &[u8])> {
        self.client_certificate.as_deref().zip(self.client_key.as_deref())
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
    /// protocol of requests; `disable` switches the exporter off
    TRANSPORT "transport" {
        kind: Kind::Word {
            names: || Transport::NAMES.iter().map(|(name, _)| *name).collect(),
            get: |exporter| exporter.connection.transport.name().to_owned(),
            set: |exporter, word| Transport::parse(word).into_iter().for_each(|it| exporter.set_transport(it)),
            variables: &[("http/protobuf", "http"), ("grpc", "grpc"), ("http/json", "http")],
        },
        advice: "write \"http\", \"grpc\" or \"disable\"",
        variables: VariableNames::OfExporter("PROTOCOL"),
        in_tracetest: Some(TracetestSpelling { key: "exporter.type", advice: "write type: collector" }),
        rule: rules::transport,
        remark: |word| {
            let what = "http/protobuf is used: this version cannot send JSON";
            (word == "http/json").then(|| Fault::new(what, "write http/protobuf"))
        },
    }
    /// a URL, `host` or `host:port`; over HTTP, port 443 without a scheme means `https`, and the path of each signal is
    /// appended if the endpoint has no path
    ENDPOINT "endpoint" {
        kind: Kind::Endpoint,
        advice: "write a URL like \"http://localhost:4318\"",
        variables: VariableNames::OfExporter("ENDPOINT"),
        in_tracetest: Some(TracetestSpelling {
            key: "exporter.collector.endpoint",
            advice: "write an address like localhost:4317",
        }),
        needs_connection: true,
        rule: rules::endpoint,
    }
    /// a list of `"Name: value"`, one such string, or a table; values are never shown
    HEADERS "headers" {
        kind: Kind::Headers,
        advice: "write a list like [\"Name: value\"], one such string, or a table",
        variables: VariableNames::OfExporter("HEADERS"),
        needs_connection: true,
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
        kind: Kind::Duration { field: field!(retry.first_delay), range: POSITIVE },
        advice: "write a duration like \"250ms\"",
    }
    /// longest step of the back-off
    RETRY_MAX_DELAY "retry-max-delay" {
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
    /// compression of request bodies
    COMPRESSION "compression" {
        kind: word!(Compression, connection.compression, &[("gzip", "gzip"), ("none", "none")]),
        advice: "write \"none\" or \"gzip\"",
        variables: VariableNames::OfExporter("COMPRESSION"),
        rule: rules::compression,
    }
    /// `env`: uses `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`; loopback is always reached directly
    PROXY "proxy" {
        kind: word!(Proxy, connection.proxy, &[]),
        advice: "write \"env\" or \"off\"; HTTPS_PROXY or HTTP_PROXY sets the address of a proxy",
    }
    /// certificate authorities that replace the bundled roots, PEM
    CA_FILE "ca-file" {
        kind: file!(connection.tls.ca, "bundled roots"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CERTIFICATE"),
        rule: |exporter| rules::pem(exporter.connection.tls.ca.as_deref(), "CERTIFICATE"),
    }
    /// client certificate, PEM; requires `client-key-file`
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
    /// product to put before `standpipe/<version>` in the `User-Agent`; nothing by default
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
    /// Sets whether proxies from the environment are used; the default is [`Proxy::FromEnvironment`].
    proxy(proxy: Proxy) sets connection.proxy of PROXY;
}

impl Exporter {
    /// Sets the compression of request bodies; none unless set.
    pub fn compression(mut self, compression: Compression) -> Self {
        // Only this call and the readers link the compressor.
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

    /// Trusts the certificate authorities in this PEM text instead of the bundled ones.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.tls.ca = Some(pem.into());
        self.set_in_code(&CA_FILE)
    }

    /// Sets the client certificate: a chain and its private key, both as PEM text. The key is never shown.
    pub fn client_pem(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<String>) -> Self {
        self.connection.tls.client_certificate = Some(certificate.into());
        self.connection.tls.client_key = Some(key.into().into_bytes());
        self.set_in_code(&CLIENT_CERTIFICATE_FILE).set_in_code(&CLIENT_KEY_FILE)
    }

    /// Sets the first and the longest step of the exponential back-off; 250 ms and 30 s unless set.
    pub fn retry_delays(mut self, first: Duration, max: Duration) -> Self {
        self.retry.first_delay = first;
        self.retry.max_delay = max;
        self.set_in_code(&RETRY_FIRST_DELAY).set_in_code(&RETRY_MAX_DELAY)
    }

    /// Sets a product, such as `shop/1.2`, that precedes `standpipe/<version>` in the `User-Agent`.
    pub fn user_agent(mut self, product: impl Into<String>) -> Self {
        self.connection.user_agent = Some(product.into());
        self.connection.hides_user_agent = false;
        self.set_in_code(&USER_AGENT)
    }
}

/// Maximum size of the part of a request's head that a configuration determines. Many servers accept less. Over HTTP,
/// the head must fit into one write of 64 KiB. The other 32 KiB are for the name of the host, which is inserted if a
/// proxy forwards the request, and for the credentials of the proxy.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Bytes of a colon, a space and CRLF.
const FIELD_FRAMING: usize = 4;

impl ConnectionSettings {
    /// Returns the destination of a signal: the full URL for HTTP; scheme, host and port for gRPC; `stdout` for the
    /// console.
    ///
    /// A malformed endpoint is returned unchanged, because validation reports it before anything is sent.
    pub(crate) fn url(&self, signal: Signal) -> String {
        self.meaning(&self.endpoint, signal)
    }

    /// Returns the destination of a signal for messages, without text that may be a secret.
    pub(crate) fn shown_url(&self, signal: Signal) -> String {
        self.meaning(&self.shown_endpoint, signal)
    }

    /// Checks the length of endpoint, user agent and headers together. Inspects only lengths, because each of hundreds
    /// of exporters may have a value that was read from a large file.
    ///
    /// # Errors
    /// Returns an error if the total exceeds the limit for the head of a request.
    pub(crate) fn check_head(&self) -> Result<(), Fault> {
        let headers =
            self.headers.iter().map(|(name, value)| name.len() + value.expose().len() + FIELD_FRAMING);
        let product = self.user_agent.as_ref().map_or(0, String::len);
        let bytes = headers.sum::<usize>() + product + self.endpoint.len();
        if bytes <= MAX_HEAD_BYTES {
            return Ok(());
        }
        let names = "headers, endpoint and user-agent";
        let limit = format!("a request can carry {} KiB of them", MAX_HEAD_BYTES >> 10);
        Fault::err(format!("{names} are {bytes} bytes long together, and {limit}"), "write shorter ones")
    }

    /// Returns the `User-Agent`: the configured product, then `standpipe/<version>`.
    pub(crate) fn full_user_agent(&self) -> String {
        let own = concat!("standpipe/", env!("CARGO_PKG_VERSION"));
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

    /// Returns texts other than headers that messages must not show, even if a server repeats them.
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

    fn meaning(&self, endpoint: &str, signal: Signal) -> String {
        let understood = Endpoint::parse(endpoint, self.transport, self.insecure);
        match (self.transport, understood) {
            (Transport::Console, _) => self.transport.default_endpoint().to_owned(),
            (Transport::Http, Ok(understood)) => understood.url(signal.path(), self.path_rule),
            (Transport::Grpc, Ok(understood)) => understood.origin(),
            (_, Err(_)) => endpoint.to_owned(),
        }
    }
}

/// Returns host and port of an endpoint, even if it is malformed.
fn authority(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
