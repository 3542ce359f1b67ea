//! What is a transport given? Where requests go, how they travel, and what they carry beside records.

use std::fmt;
use std::time::Duration;

use crate::config::endpoint::{Endpoint, PathRule};
use crate::config::error::Fault;
use crate::config::{Secret, header};
use crate::record::Signal;

/// No server takes more. Over HTTP the head of a request must fit into one write of 64 KiB, or secrets could not be put
/// into it; what is not counted, such as the host's name and a proxy's credentials, has the other half of it.
const MOST_HEAD_BYTES: usize = 32 << 10;
/// A colon, a space and the end of the line.
const FIELD_FRAMING: usize = 4;

/// The transport's section: what HTTP and gRPC need alike.
#[derive(Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) transport: Transport,
    /// As given, secrets put in; [`url`](Self::url) is what it means.
    pub(crate) endpoint: String,
    /// The endpoint for messages: without what may be a secret.
    pub(crate) shown_endpoint: String,
    /// What becomes of the endpoint's path.
    pub(in crate::config) path_rule: PathRule,
    /// Names as given, values hidden from `Debug`.
    pub(crate) headers: Vec<(String, Secret)>,
    /// One attempt, from the look-up of the name to the last byte of the answer.
    pub(crate) timeout: Duration,
    pub(crate) compression: Compression,
    pub(crate) proxy: Proxy,
    pub(crate) tls: TlsSettings,
    /// A token in front of `standpipe/<version>` in the `User-Agent`.
    pub(crate) user_agent: Option<String>,
    /// Whether that came from elsewhere, as secrets do: then it is only shown to the server.
    pub(crate) hides_user_agent: bool,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        let transport = Transport::default();
        Self {
            transport,
            endpoint: transport.default_endpoint().to_owned(),
            shown_endpoint: transport.default_endpoint().to_owned(),
            path_rule: PathRule::default(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            compression: Compression::None,
            proxy: Proxy::FromEnvironment,
            tls: TlsSettings::default(),
            user_agent: None,
            hides_user_agent: false,
        }
    }
}

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
    pub(crate) fn check_head(&self) -> Result<(), String> {
        let headers =
            self.headers.iter().map(|(name, value)| name.len() + value.expose().len() + FIELD_FRAMING);
        let product = self.user_agent.as_ref().map_or(0, String::len);
        let bytes = headers.sum::<usize>() + product + self.endpoint.len();
        match bytes > MOST_HEAD_BYTES {
            true => Err(format!(
                "headers, endpoint and user-agent are {bytes} bytes long together, and a request can carry {} KiB of them",
                MOST_HEAD_BYTES >> 10
            )),
            false => Ok(()),
        }
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
    pub(in crate::config) fn shown_origin(&self) -> Option<String> {
        Some(Endpoint::parse(&self.shown_endpoint, self.transport).ok()?.origin())
    }

    /// The endpoint, if it can be understood.
    pub(in crate::config) fn parsed(&self) -> Result<Endpoint, Fault> {
        Endpoint::parse(&self.endpoint, self.transport)
    }

    fn meaning(&self, endpoint: &str, signal: Signal) -> String {
        let understood = Endpoint::parse(endpoint, self.transport);
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

// by hand: the endpoint may hold a secret
impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("endpoint", &self.shown_endpoint)
            .field(
                "headers",
                &self.headers.iter().map(|(name, _)| header::shown_name(name)).collect::<Vec<_>>(),
            )
            .field("timeout", &self.timeout)
            .field("compression", &self.compression)
            .field("proxy", &self.proxy)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Certificates, as PEM text.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// Instead of the bundled roots.
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) client_certificate: Option<Vec<u8>>,
    pub(crate) client_key: Option<Secret>,
}

impl TlsSettings {
    /// Certificate chain and private key, where both are set.
    pub(crate) fn client(&self) -> Option<(&[u8], &Secret)> {
        self.client_certificate.as_deref().zip(self.client_key.as_ref())
    }
}

// by hand: certificates are pages of numbers
impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("ca_bytes", &self.ca.as_ref().map(Vec::len))
            .field("client_certificate_bytes", &self.client_certificate.as_ref().map(Vec::len))
            .finish()
    }
}

/// How requests travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Protobuf, posted over HTTP/1.1.
    #[default]
    Http,
    /// Protobuf over gRPC, which is HTTP/2; needs the `grpc` feature, which is on by default.
    Grpc,
    /// OTLP JSON, printed on standard output; needs the `console` feature, and no file can ask for it.
    Console,
}

impl Transport {
    /// What a file may write; `https` is what some write for `http`.
    pub(in crate::config) const NAMES: [(&'static str, Self); 3] =
        [("http", Self::Http), ("https", Self::Http), ("grpc", Self::Grpc)];

    /// As files spell it, or the environment.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Console => "console",
        }
    }

    /// The port of endpoints that name neither a port nor a scheme.
    pub(in crate::config) fn default_port(self) -> u16 {
        match self {
            // of no meaning to what is printed
            Self::Http | Self::Console => 4318,
            Self::Grpc => 4317,
        }
    }

    /// Whether there is someone at the other end: an address, and all that a request on its way needs.
    pub(crate) fn connects(self) -> bool {
        self != Self::Console
    }

    /// Where a collector is expected if nothing is said, or what else is written to.
    pub(in crate::config) fn default_endpoint(self) -> &'static str {
        match self {
            Self::Http => "http://localhost:4318",
            Self::Grpc => "http://localhost:4317",
            Self::Console => "stdout",
        }
    }
}

/// How a request body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Sent as it is.
    #[default]
    None,
    /// `Content-Encoding: gzip`; needs the `gzip` feature.
    Gzip,
}

impl Compression {
    pub(in crate::config) const NAMES: [(&'static str, Self); 2] =
        [("none", Self::None), ("gzip", Self::Gzip)];

    /// As files spell it.
    pub(in crate::config) fn name(self) -> &'static str {
        // the table is in the order of the variants
        Self::NAMES[self as usize].0
    }
}

/// Whether proxies named by the environment are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Proxy {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are obeyed; `HTTP_PROXY` not under CGI
    /// (`REQUEST_METHOD` is set). Plain HTTP is posted to the proxy in absolute form; `https` and gRPC go by `CONNECT`.
    ///
    /// `NO_PROXY` is read as curl and Go read it: entries between commas or spaces, each a name with all below it, an
    /// address, `host:port`, a network like `10.0.0.0/8` or `*`. Loopback is always reached directly.
    #[default]
    FromEnvironment,
    /// Always connect directly.
    Off,
}

impl Proxy {
    pub(in crate::config) const NAMES: [(&'static str, Self); 2] =
        [("env", Self::FromEnvironment), ("off", Self::Off)];

    /// As files spell it.
    pub(in crate::config) fn name(self) -> &'static str {
        // the table is in the order of the variants
        Self::NAMES[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_and_keys_are_not_printed() {
        let tls = TlsSettings {
            ca: Some(b"ROOT".to_vec()),
            client_certificate: Some(b"CERTIFICATE".to_vec()),
            client_key: Some(Secret::new("hunter2")),
        };
        assert_eq!(
            format!("{tls:?}"),
            "TlsSettings { ca_bytes: Some(4), client_certificate_bytes: Some(11) }"
        );
    }
}
