//! Connections to a server, directly or through a proxy, in plain text or over TLS. HTTP and gRPC share this code.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dial::{Dialer, Interrupter, Lookup};
use super::proxy::{Proxy, host_and_port};
use super::redact::Secrets;
use super::response::printable;
use super::stream::Stream;
use super::tls::{self, TlsConnector};
use super::{SetupError, TlsFault, TlsFaultKind, Verdict, lower_first};
use crate::config::{ConnectionSettings, TlsSettings, demand};
use crate::process::{Driver, lock};
use crate::record::Signal;

/// The checked connection settings of an exporter. All its signals have the same scheme, host and port.
#[derive(Debug, Clone)]
pub(super) struct Route {
    host: String,
    port: u16,
    /// Unix socket of the server: its path, or a null character and its abstract name.
    socket: Option<String>,
    pub(super) proxy: Option<Proxy>,
    /// True if the proxy opens a tunnel to the server, false if it forwards requests.
    is_tunnelled: bool,
    proxy_tls: Option<TlsConnector>,
    tls: Option<TlsConnector>,
    /// Certificates with which `proxy_tls` and `tls` were made.
    tls_settings: Arc<TlsSettings>,
    max_age: Duration,
}

impl Route {
    /// Checks the settings. If `protocol` is given, TLS must negotiate it (ALPN), and a proxy must open a tunnel.
    ///
    /// # Errors
    /// Returns an error if the endpoint, headers, certificates or proxy cannot be used.
    pub(super) fn new(settings: &ConnectionSettings, protocol: Option<&[u8]>) -> Result<Self, SetupError> {
        settings.check_head().map_err(|error| error.to_string())?;
        let url = settings.url(Signal::Traces);
        let (host, port) = host_and_port(&url).ok_or("the endpoint cannot be read")?;
        let is_https = url.starts_with("https:");
        let proxy = Proxy::choose(settings.proxy, &url, |name| std::env::var(name).ok())?;
        let proxy_host = proxy.as_ref().filter(|proxy| proxy.is_tls()).map(|proxy| proxy.peer().0);
        if !is_https {
            tls::check(&settings.tls)?;
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            socket: settings.parsed().ok().and_then(|endpoint| endpoint.socket),
            is_tunnelled: is_https || protocol.is_some(),
            proxy_tls: proxy_host.map(|host| TlsConnector::new(&settings.tls, host, None)).transpose()?,
            tls: is_https.then(|| TlsConnector::new(&settings.tls, host, protocol)).transpose()?,
            proxy,
            tls_settings: Arc::new(settings.tls.clone()),
            max_age: settings.max_age,
        })
    }

    /// Makes connections keep the certificate of the server, for a probe.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be used.
    pub(super) fn record_certificates(&mut self, settings: &TlsSettings) -> Result<(), SetupError> {
        self.tls = self.tls.take().map(|tls| tls.recording(settings)).transpose()?;
        Ok(())
    }

    /// Returns the proxy if it forwards requests.
    pub(super) fn forwarder(&self) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| !self.is_tunnelled)
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the texts that no message may show, even if a server or a proxy repeats them: the secrets of the proxy,
    /// the values of the headers, the hidden texts of the settings, and `others`.
    pub(super) fn secrets(&self, settings: &ConnectionSettings, others: Vec<String>) -> Secrets {
        let all: Vec<String> = self.proxy.iter().flat_map(Proxy::secrets).chain(others).collect();
        let of_headers = settings.headers.iter().map(|(_, value)| value.expose());
        Secrets::new(all.iter().map(String::as_str).chain(of_headers).chain(settings.hidden_texts()))
    }

    /// Returns host and port of the server; for a Unix socket, only the host.
    pub(super) fn authority(&self) -> String {
        if self.socket.is_some() { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// Returns a connector for one transport of one process.
    pub(super) fn open(&self, interrupter: &Arc<Interrupter>, driver: Driver) -> Connector {
        let (host, port) = self.proxy.as_ref().map_or((self.host.as_str(), self.port), Proxy::peer);
        // Each transport has its own session cache: a forked child must not share a lock with its parent.
        let without_sessions = |tls: &Option<TlsConnector>| tls.as_ref().map(TlsConnector::without_sessions);
        let (proxy_tls, tls) = (without_sessions(&self.proxy_tls), without_sessions(&self.tls));
        Connector {
            lookup: Lookup::new(host, port, driver),
            dialer: Dialer::new(Arc::clone(interrupter), driver),
            route: Self { proxy_tls, tls, ..self.clone() },
        }
    }
}

/// A connection, or the error of the step that failed.
type Connected = Result<Stream, NetworkError>;

/// Opens the connections of one transport.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) route: Route,
    pub(super) lookup: Lookup,
    dialer: Dialer,
}

impl Connector {
    /// Opens a connection, and notes the time and the result of each step in `timeline`.
    pub(super) fn connect(&mut self, deadline: Instant, timeline: &mut Timeline) -> Connected {
        self.reload();
        let stream = self.reach(deadline, timeline).map_err(|error| match &self.route.proxy {
            Some(proxy) => proxy.name(error),
            None => error,
        })?;
        timeline.connected = Some(Instant::now());
        let Some(tls) = &self.route.tls else { return Ok(stream) };
        let secured = tls.connect(stream);
        // Taken before the result is checked, because a probe shows invalid certificates, too.
        timeline.certificate = tls.take_certificate();
        let stream = secured.map_err(|error| match NetworkError::from(error) {
            // A retry may succeed, because the next attempt uses the new certificates.
            NetworkError::Tls(fault) if self.reload() => {
                NetworkError::Tls(TlsFault { kind: TlsFaultKind::Passing, ..fault })
            }
            error => error,
        })?;
        timeline.secured = Some(Instant::now());
        if let Stream::Tls(tls) = &stream {
            timeline.tls_version = tls.session.version();
        }
        Ok(stream)
    }

    /// Reads the files of certificates again. If they have changed, the next handshake uses the new certificates, and
    /// the result is true. If a new certificate cannot be used, the old ones stay in use, and a notice is left.
    fn reload(&mut self) -> bool {
        let is_tls = self.route.tls.is_some() || self.route.proxy_tls.is_some();
        if !is_tls || !demand::CREDENTIALS.is_raised() {
            return false;
        }
        self.try_reload().unwrap_or_else(|error| {
            let notice = format!("the new certificates cannot be used, so the old ones stay: {error}");
            *lock(&self.dialer.interrupter.notice) = Some(notice);
            false
        })
    }

    fn try_reload(&mut self) -> Result<bool, String> {
        let Some(settings) = self.route.tls_settings.reread()? else { return Ok(false) };
        let reload = |tls: &Option<TlsConnector>| tls.as_ref().map(|tls| tls.with(&settings)).transpose();
        let tls = reload(&self.route.tls).map_err(|error| error.to_string())?;
        self.route.proxy_tls = reload(&self.route.proxy_tls).map_err(|error| error.to_string())?;
        (self.route.tls, self.route.tls_settings) = (tls, Arc::new(settings));
        Ok(true)
    }

    /// Opens a connection to the server, or to a proxy that forwards requests.
    fn reach(&mut self, deadline: Instant, timeline: &mut Timeline) -> Connected {
        if let Some(socket) = &self.route.socket {
            timeline.resolved = Some(Instant::now());
            let socket = self.dialer.connect_to_socket(socket, deadline)?;
            return Ok(Stream::new(socket, deadline, self.route.max_age));
        }
        timeline.addresses = self.lookup.addresses(deadline).map_err(NetworkError::of_lookup)?;
        timeline.resolved = Some(Instant::now());
        let socket = self.dialer.connect(&timeline.addresses, deadline)?;
        timeline.peer = socket.peer_addr().ok();
        let mut stream = Stream::new(socket, deadline, self.route.max_age);
        if let Some(tls) = &self.route.proxy_tls {
            stream = tls.connect(stream)?;
        }
        if let Some(proxy) = self.route.proxy.as_ref().filter(|_| self.route.is_tunnelled) {
            proxy.open_tunnel(&mut stream, &self.route.authority())?;
        }
        Ok(stream)
    }
}

/// Times and results of the steps of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    pub(crate) resolved: Option<Instant>,
    /// Addresses of the server, or of the proxy.
    pub(crate) addresses: Vec<SocketAddr>,
    /// When the connection to the server, or to a proxy that forwards requests, was open.
    pub(crate) connected: Option<Instant>,
    /// Address that accepted the connection.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) secured: Option<Instant>,
    /// Certificate of the server in DER, even if it is not valid.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) tls_version: &'static str,
    /// First bytes from the server, decrypted. Over gRPC, the bytes after the last frame that was taken.
    pub(crate) first_bytes: Vec<u8>,
}

/// Why a connection failed.
#[derive(Debug)]
pub(crate) enum NetworkError {
    TimedOut,
    HostNotFound(io::Error),
    Io(io::Error),
    Tls(TlsFault),
    /// The proxy itself answered with an error. `advice` is set if the proxy asked for credentials, rejected them
    /// (407), or refused to connect to the server (403).
    ProxyStatus {
        status: String,
        advice: Option<String>,
    },
    /// An error of the proxy or of the connection to it, with the name of the proxy.
    AtProxy {
        proxy: String,
        error: Box<NetworkError>,
    },
}

impl NetworkError {
    fn of_lookup(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::TimedOut,
            // The lookup could not begin, because no thread or file descriptor was available.
            _ if error.raw_os_error().is_some() => Self::Io(error),
            _ => Self::HostNotFound(error),
        }
    }

    /// Returns the verdict on a request. TLS faults are final, unless they may pass by themselves (see
    /// [`TlsFault::is_passing`]). Other errors are retryable.
    pub(super) fn verdict(&self, request: &str) -> Verdict {
        self.verdict_with(format!("{request}: {}", self.what()))
    }

    fn verdict_with(&self, reason: String) -> Verdict {
        use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound};
        // `NotFound` means that the path of a Unix socket does not exist.
        const ABSENT: [ErrorKind; 4] = [ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound];
        match self {
            Self::AtProxy { error, .. } => error.verdict_with(reason),
            Self::ProxyStatus { advice: Some(_), .. } => Verdict::ProxyRefused { reason },
            // A retry would fail for the same reason.
            Self::Tls(fault) if !fault.is_passing() => Verdict::Refused { reason },
            Self::HostNotFound(_) => Verdict::Unreachable { reason },
            Self::Io(error) if ABSENT.contains(&error.kind()) => Verdict::Unreachable { reason },
            Self::TimedOut | Self::Io(_) | Self::Tls(_) | Self::ProxyStatus { .. } => {
                Verdict::TryLater { after: None, reason }
            }
        }
    }

    /// Describes the error, in one line.
    pub(super) fn what(&self) -> String {
        match self {
            Self::TimedOut => "no answer in time".to_owned(),
            Self::HostNotFound(error) if error.kind() == ErrorKind::NotFound => "host not found".to_owned(),
            Self::HostNotFound(error) | Self::Io(error) => lower_first(&printable(&error.to_string())),
            Self::Tls(fault) => format!("tls: {}", printable(&fault.what)),
            Self::ProxyStatus { status, advice: None } => status.clone(),
            Self::ProxyStatus { status, advice: Some(advice) } => format!("{status}; {advice}"),
            Self::AtProxy { proxy, error } => format!("{proxy}: {}", error.what()),
        }
    }
}

/// Any error may come from TLS, because some servers refuse a client certificate only after the handshake.
impl From<io::Error> for NetworkError {
    fn from(error: io::Error) -> Self {
        match tls::fault(&error) {
            Some(fault) => Self::Tls(fault),
            None if error.kind() == ErrorKind::TimedOut => Self::TimedOut,
            None => Self::Io(error),
        }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())
    }
}

impl Error for NetworkError {}
