//! Connection and retry settings with their defaults, a row for each setting, the builder's methods, and the URL and head of a
//! request that follow from them.

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
    /// What HTTP and gRPC need alike.
    #[derive(Clone)]
    ConnectionSettings {
        pub(crate) transport: Transport = Transport::Http,
        /// As given, secrets put in; [`url`](Self::url) is what it means.
        pub(crate) endpoint: String = Transport::Http.default_endpoint().to_owned(),
        /// The endpoint for messages: without what may be a secret.
        pub(crate) shown_endpoint: String = Transport::Http.default_endpoint().to_owned(),
        /// What becomes of the endpoint's path.
        pub(in crate::config) path_rule: PathRule = PathRule::default(),
        /// Whether a gRPC endpoint without a scheme is plaintext; `None`: only on loopback.
        pub(in crate::config) insecure: Option<bool> = None,
        /// Names as given, values hidden from `Debug`.
        pub(crate) headers: Vec<(String, Secret)> = Vec::new(),
        /// Whether the value of a header came from elsewhere, as secrets do.
        pub(in crate::config) has_secret_header: bool = false,
        /// One attempt, from the look-up of the name to the last byte of the answer.
        pub(crate) timeout: Duration = Duration::from_secs(10),
        pub(crate) compression: Compression = Compression::None,
        pub(crate) proxy: Proxy = Proxy::FromEnvironment,
        pub(crate) tls: TlsSettings = TlsSettings::default(),
        /// A token in front of `standpipe/<version>` in the `User-Agent`.
        pub(crate) user_agent: Option<String> = None,
        /// Whether that came from elsewhere, as secrets do: then it is only shown to the server.
        pub(crate) hides_user_agent: bool = false,
    }

    /// What follows when an attempt fails.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    RetrySettings {
        /// A batch that could not be delivered in this time is dropped and counted.
        pub(crate) give_up_after: Duration = Duration::from_secs(300),
        pub(crate) first_delay: Duration = Duration::from_millis(250),
        pub(crate) max_delay: Duration = Duration::from_secs(30),
        /// A server's `Retry-After` is honoured up to this.
        pub(crate) max_retry_after: Duration = Duration::from_secs(60),
    }
}

/// Certificates, as PEM text.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// Instead of the bundled roots.
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) client_certificate: Option<Vec<u8>>,
    pub(crate) client_key: Option<Vec<u8>>,
}

impl TlsSettings {
    /// Certificate chain and private key, where both are set.
    pub(crate) fn client(&self) -> Option<(&[u8], &[u8])> {
        self.client_certificate.as_deref().zip(self.client_key.as_deref())
    }
}

/// The [`Field`] of a duration whose largest value, [`MAX_DURATION`], stands for no limit.
macro_rules! unlimited {
    ($($name:ident).+) => {
        Field {
            get: |owner| Some(owner.$($name).+).filter(|time| *time != MAX_DURATION),
            set: |owner, time| owner.$($name).+ = time.unwrap_or(MAX_DURATION),
        }
    };
}

// the transport comes before the endpoint, whose meaning depends on it
table! { ADDRESS from PLAIN:
    /// how requests travel; `disable` for off
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
    /// a URL, `host` or `host:port`; without a path, that of each signal is appended, but not for gRPC
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
    /// one attempt, from the look-up of the name to the end of the answer; the other signals wait for it no longer
    /// than that; `none`: the time of its batch bounds it
    TIMEOUT "timeout" {
        kind: Kind::Limit { field: unlimited!(connection.timeout), range: POSITIVE },
        advice: "write a duration like \"10s\", or \"none\"",
        variables: VariableNames::OfExporter("TIMEOUT"),
        in_summary: Some(SummaryField { name: "timeout_ms", signals: &Signal::ALL }),
    }
    /// a batch that could not be delivered in this time, if it is not `none`, is dropped and counted; in a shutdown its
    /// budget counts
    GIVE_UP_AFTER "give-up-after" {
        kind: Kind::Limit { field: unlimited!(retry.give_up_after), range: POSITIVE },
        advice: "write a duration like \"5m\", or \"none\"",
        variables: VariableNames::OfSignals([
            "OTEL_BSP_EXPORT_TIMEOUT",
            "OTEL_BLRP_EXPORT_TIMEOUT",
            "OTEL_METRIC_EXPORT_TIMEOUT",
        ]),
    }
    /// first step of the back-off, which doubles from there; the pause is random below the step
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
    /// longest pause that a server can ask for with `Retry-After`; after it the batch is sent again
    MAX_RETRY_AFTER "max-retry-after" {
        kind: Kind::Duration { field: field!(retry.max_retry_after), range: POSITIVE },
        advice: "write a duration like \"1m\"",
    }
    /// of request bodies
    COMPRESSION "compression" {
        kind: word!(Compression, connection.compression, &[("gzip", "gzip"), ("none", "none")]),
        advice: "write \"none\" or \"gzip\"",
        variables: VariableNames::OfExporter("COMPRESSION"),
        rule: rules::compression,
    }
    /// `env`: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are obeyed; loopback is always reached
    /// directly
    PROXY "proxy" {
        kind: word!(Proxy, connection.proxy, &[]),
        advice: "write \"env\" or \"off\"; HTTPS_PROXY or HTTP_PROXY sets the address of a proxy",
    }
    /// certificate authorities to trust instead, PEM
    CA_FILE "ca-file" {
        kind: file!(connection.tls.ca, "bundled roots"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CERTIFICATE"),
        rule: |exporter| rules::pem(exporter.connection.tls.ca.as_deref(), "CERTIFICATE"),
    }
    /// certificate to present, PEM, with its key below
    CLIENT_CERTIFICATE_FILE "client-certificate-file" {
        kind: file!(connection.tls.client_certificate, "none"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CLIENT_CERTIFICATE"),
        partner: Some(&CLIENT_KEY_FILE),
        rule: |exporter| {
            let client = exporter.connection.tls.client();
            rules::pem(client.map(|(certificate, _)| certificate), "CERTIFICATE")
        },
    }
    /// private key of the certificate above, PEM
    CLIENT_KEY_FILE "client-key-file" {
        kind: file!(connection.tls.client_key, "none"),
        advice: "write the path of a PEM file",
        variables: VariableNames::OfExporter("CLIENT_KEY"),
        partner: Some(&CLIENT_CERTIFICATE_FILE),
        rule: |exporter| {
            let client = exporter.connection.tls.client();
            rules::pem(client.map(|(_, key)| key), "PRIVATE KEY")
        },
    }
    /// a product of yours goes in front
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
    /// Bounds one attempt, from the look-up of the name to the last byte of the answer; 10 s unless set. One that
    /// hangs holds the other signals of the exporter up for as long, and no longer.
    timeout(timeout: Duration) sets connection.timeout of TIMEOUT;
    /// Drops and counts a batch that could not be delivered in this time; 5 minutes unless set. During a shutdown its
    /// budget counts instead.
    give_up_after(longest: Duration) sets retry.give_up_after of GIVE_UP_AFTER;
    /// Bounds the pause that a server can ask for with `Retry-After`; 1 minute unless set. After it the batch is sent again.
    max_retry_after(longest: Duration) sets retry.max_retry_after of MAX_RETRY_AFTER;
    /// Decides whether the proxies named by the environment are used; they are unless set.
    proxy(proxy: Proxy) sets connection.proxy of PROXY;
}

impl Exporter {
    /// Sets how request bodies are compressed; not at all unless set.
    pub fn compression(mut self, compression: Compression) -> Self {
        if compression == Compression::Gzip {
            demand::GZIP.raise();
        }
        self.connection.compression = compression;
        self.set_in_code(&COMPRESSION)
    }

    /// Adds a header to every request. Its value is never shown; a line break in it is an error at start.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.add_header(&name.into(), &value.into(), SettingSource::Code);
        self.set_in_code(&HEADERS)
    }

    /// Trusts the certificate authorities in this PEM text instead of the bundled ones.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.tls.ca = Some(pem.into());
        self.set_in_code(&CA_FILE)
    }

    /// Presents a client certificate: a chain and its private key, both as PEM text. The key is never shown.
    pub fn client_pem(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<String>) -> Self {
        self.connection.tls.client_certificate = Some(certificate.into());
        self.connection.tls.client_key = Some(key.into().into_bytes());
        self.set_in_code(&CLIENT_CERTIFICATE_FILE).set_in_code(&CLIENT_KEY_FILE)
    }

    /// Sets the delay before the first retry and the longest one that doubling may reach; 250 ms and 30 s unless set.
    pub fn retry_delays(mut self, first: Duration, max: Duration) -> Self {
        self.retry.first_delay = first;
        self.retry.max_delay = max;
        self.set_in_code(&RETRY_FIRST_DELAY).set_in_code(&RETRY_MAX_DELAY)
    }

    /// Puts a product of your own, like `shop/1.2`, in front of `standpipe/<version>` in the `User-Agent`.
    pub fn user_agent(mut self, product: impl Into<String>) -> Self {
        self.connection.user_agent = Some(product.into());
        self.connection.hides_user_agent = false;
        self.set_in_code(&USER_AGENT)
    }
}

/// No server takes more. Over HTTP the head of a request must fit into one write of 64 KiB, or secrets could not be put
/// into it; what is not counted, such as the host's name and a proxy's credentials, has the other half of it.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// A colon, a space and the end of the line.
const FIELD_FRAMING: usize = 4;

impl ConnectionSettings {
    /// The full URL that a signal is posted to; for gRPC scheme, host and port; what is printed goes to `stdout`.
    ///
    /// An endpoint that cannot be understood is returned as it is: validation has reported it before anything is sent.
    pub(crate) fn url(&self, signal: Signal) -> String {
        self.meaning(&self.endpoint, signal)
    }

    /// The same for messages: without what may be a secret.
    pub(crate) fn shown_url(&self, signal: Signal) -> String {
        self.meaning(&self.shown_endpoint, signal)
    }

    /// Counts what endpoint, user-agent and headers add to the head of every request, without a look at their text: there
    /// may be hundreds of exporters that each have a whole file in it.
    ///
    /// # Errors
    /// When there is more than a request can carry.
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

    /// Who sends: the user's token, then ours.
    pub(crate) fn full_user_agent(&self) -> String {
        let own = concat!("standpipe/", env!("CARGO_PKG_VERSION"));
        match &self.user_agent {
            Some(token) => format!("{token} {own}"),
            None => own.to_owned(),
        }
    }

    /// Host and port, if they are not to be shown.
    pub(crate) fn hidden_authority(&self) -> Option<&str> {
        let used = authority(&self.endpoint);
        (used != authority(&self.shown_endpoint)).then_some(used)
    }

    /// What beside headers is not to be shown, even if a server repeats it.
    pub(crate) fn hidden_texts(&self) -> impl Iterator<Item = &str> {
        let host = self.hidden_authority().map(|authority| match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        });
        host.into_iter().chain(self.user_agent.as_deref().filter(|_| self.hides_user_agent))
    }

    /// Scheme, host and port without what may be a secret, if they can be understood so.
    pub(crate) fn shown_origin(&self) -> Option<String> {
        Some(Endpoint::parse(&self.shown_endpoint, self.transport, self.insecure).ok()?.origin())
    }

    /// The endpoint, if it can be understood.
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

/// Host and port of an endpoint, whether it is understood or not.
fn authority(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
