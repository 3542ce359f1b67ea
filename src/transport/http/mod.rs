//! OTLP over HTTP/1.1, by ureq.
//!
//! `connection` makes the connections that ureq uses, `response` turns a response into a verdict, and `probe_request`
//! sends empty requests for a probe.

mod connection;
#[cfg(feature = "probe")]
mod probe_request;
mod response;

use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use ureq::{Agent, SendBody};

use self::connection::{HttpConnector, Unresolved};
#[cfg(feature = "probe")]
pub(crate) use self::probe_request::{ProbeEnd, ProbeFailure, ProbeRequest, ProbeResponse};
use super::connect::{NetworkError, Route, Timeline};
use super::dial::Interrupter;
use super::gzip::Compressor;
use super::proxy::Proxy;
use super::redact::Secrets;
use super::{Payload, SetupError, Transport, Verdict};
use crate::config::{Compression, ConnectionSettings};
use crate::process::{Driver, first_use};
use crate::record::Signal;

const PROTOBUF: &str = "application/x-protobuf";
/// Time after which an idle connection is not reused. Load balancers drop idle connections after a minute or more.
const IDLE_AGE: Duration = Duration::from_secs(50);
/// Size of a read, and maximum length of a response head.
const READ_BYTES: usize = 16 << 10;
/// Size of a write.
const WRITE_BYTES: usize = 64 << 10;

/// Checked settings of an HTTP transport.
#[derive(Debug, Clone)]
pub(crate) struct HttpSpec {
    config: ureq::config::Config,
    route: Route,
    urls: [Url; Signal::COUNT],
    headers: Vec<(HeaderName, HeaderValue)>,
    secrets: Arc<Secrets>,
    compression: Compression,
    /// Scheme and authority of the server behind a proxy that forwards requests.
    origin: Option<Arc<str>>,
}

/// URL of a signal.
#[derive(Clone)]
struct Url {
    /// URL for ureq: that of the server, or of the proxy that forwards the request.
    called: String,
    /// URL of the server without secrets, for messages.
    shown: String,
}

// Written by hand, because the URL may contain a secret.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Url").field(&self.shown).finish()
    }
}

impl HttpSpec {
    /// Checks the settings that only this transport can check: certificates, header text and the proxy.
    ///
    /// # Errors
    /// Returns an error if a setting cannot be used.
    pub(crate) fn new(settings: &ConnectionSettings) -> Result<Self, SetupError> {
        let route = Route::new(settings, None)?;
        let real = settings.url(Signal::Traces);
        let origin = route.forwarder().map(|_| Arc::from(split_target(&real).0));
        let hidden_targets = Signal::ALL.into_iter().flat_map(|signal| hidden_words(settings, signal));
        let secrets = route.secrets(settings, hidden_targets);
        let config = Agent::config_builder()
            .user_agent(settings.full_user_agent())
            .accept(PROTOBUF)
            // Compressed responses could be decompression bombs.
            .accept_encoding("identity")
            // The body of an error response contains the reason.
            .http_status_as_error(false)
            // Following a redirect would send telemetry and credentials to another host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Our connector handles proxies.
            .proxy(None)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(IDLE_AGE)
            .output_buffer_size(WRITE_BYTES)
            .input_buffer_size(READ_BYTES)
            // ureq mistakes a head that fills the buffer for a closed connection, and would retry.
            .max_response_header_size(READ_BYTES - 1);
        Ok(Self {
            config: config.build(),
            urls: Signal::ALL.map(|signal| url(settings, signal, route.forwarder())),
            headers: headers(settings, route.forwarder())?,
            route,
            secrets: Arc::new(secrets),
            compression: settings.compression,
            origin,
        })
    }

    /// Creates a transport. It connects at its first request.
    pub(crate) fn open(&self, driver: Driver) -> Http {
        self.open_with(driver, None)
    }

    fn open_with(&self, driver: Driver, timeline: Option<Arc<Mutex<Timeline>>>) -> Http {
        let interrupter = Arc::new(Interrupter::default());
        let connector = Mutex::new(self.route.open(&interrupter, driver));
        let connector = HttpConnector { connector, origin: self.origin.clone(), timeline };
        let agent = Agent::with_parts(self.config.clone(), connector, Unresolved);
        Http { spec: self.clone(), agent, compressor: Compressor::default(), interrupter }
    }

    /// Returns the proxy if the proxy, not the server, refused the request.
    fn refusing_proxy(&self, answer: &Response<ureq::Body>) -> Option<&Proxy> {
        let is_refusal = answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        self.route.forwarder().filter(|_| is_refusal)
    }
}

/// Returns the URL of a signal. If a proxy forwards requests, it is the proxy's URL with the server's path and query.
fn url(settings: &ConnectionSettings, signal: Signal, forwarder: Option<&Proxy>) -> Url {
    let (url, shown) = (settings.url(signal), settings.shown_url(signal));
    let called = match forwarder {
        Some(proxy) => {
            let scheme = if proxy.is_tls() { "https" } else { "http" };
            format!("{scheme}://{}{}", proxy.shown(), split_target(&url).1)
        }
        None => url,
    };
    Url { called, shown }
}

/// Splits a URL into its origin (scheme and authority) and its target (path and query).
fn split_target(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    url.split_at(url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at))
}

/// Returns the words of a URL's target that messages must not show.
fn hidden_words(settings: &ConnectionSettings, signal: Signal) -> Vec<String> {
    let (url, shown) = (settings.url(signal), settings.shown_url(signal));
    let target = split_target(&url).1;
    let words = target.split(['/', '?', '&', ';', '=']).filter(|word| !shown.contains(word));
    words.chain(target.split_once('?').map(|(_, query)| query)).map(str::to_owned).collect()
}

/// Returns the headers of every request. A proxy that forwards requests also gets the server's host and its own
/// credentials, unless these headers are configured: a header that occurs twice would make the request invalid.
fn headers(
    settings: &ConnectionSettings,
    forwarder: Option<&Proxy>,
) -> Result<Vec<(HeaderName, HeaderValue)>, SetupError> {
    let all = settings.headers.iter();
    let configured = all.map(|(name, value)| sensitive_header(&name.to_ascii_lowercase(), value.expose()));
    let mut headers = configured.collect::<Result<Vec<_>, _>>()?;
    if let Some(proxy) = forwarder {
        let url = settings.url(Signal::Traces);
        let host = split_target(&url).0.trim_start_matches("http://");
        let mut added = vec![sensitive_header("host", host)?];
        if let Some(value) = proxy.authorization() {
            added.push(sensitive_header("proxy-authorization", &value)?);
        }
        added.retain(|(name, _)| headers.iter().all(|(given, _)| given != name));
        headers.extend(added);
    }
    Ok(headers)
}

/// Returns a header whose value ureq and `Debug` do not show.
fn sensitive_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SetupError> {
    let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
    let (name, mut value) =
        header.ok_or_else(|| format!("header {name}: its name or value is not allowed in HTTP"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Posts batches over one kept connection.
#[derive(Debug)]
pub(crate) struct Http {
    spec: HttpSpec,
    agent: Agent,
    compressor: Compressor,
    interrupter: Arc<Interrupter>,
}

impl Http {
    /// Makes one attempt, which ends within `left`.
    fn post(&mut self, payload: &Payload<'_>, left: Duration) -> Result<Response<ureq::Body>, ureq::Error> {
        // The first request of a process initializes a static of ureq, just before ureq calls the resolver. Forks are
        // delayed until then.
        let _first = first_use::begin();
        let url = &self.spec.urls[payload.signal as usize];
        let request = self.agent.post(&url.called).config().timeout_global(Some(left)).build();
        let request =
            self.spec.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = request.header(header::CONTENT_TYPE, PROTOBUF);
        match self.spec.compression {
            Compression::None => request
                // Without a length, ureq sends the body of a reader in chunks.
                .header(header::CONTENT_LENGTH, payload.len())
                .send(SendBody::from_reader(&mut BodyReader { rest: payload.body, read: 0 })),
            Compression::Gzip => {
                let compressed = self.compressor.compress(payload.body);
                request.header(header::CONTENT_ENCODING, "gzip").send(compressed)
            }
        }
    }
}

impl Transport for Http {
    fn forget_cut(&mut self) {
        self.interrupter.forget_cut();
    }

    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        let request = format!("post {}", self.spec.urls[payload.signal as usize].shown);
        let left = deadline.saturating_duration_since(Instant::now());
        // Without this check, a connection would be opened for nothing, and the reason would be a timeout.
        if left.is_zero() {
            return Verdict::TryLater { after: None, reason: format!("{request}: no time left") };
        }
        let answer = self.post(payload, left);
        let is_broken = self.interrupter.is_broken();
        let verdict = match answer {
            Ok(answer) => match self.spec.refusing_proxy(&answer) {
                Some(proxy) => proxy.name(proxy.refusal(answer.status())).verdict(&request),
                None => response::judge(answer, &request),
            },
            // After an interruption, the error is not the server's.
            Err(_) if is_broken => NetworkError::TimedOut.verdict(&request),
            Err(error) => response::failure_verdict(error, &request),
        };
        verdict.map_text(|text| self.spec.secrets.redact(text))
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        self.interrupter.ending(Interrupter::interrupt_for_good)
    }

    fn cutter(&self) -> Box<dyn Fn() + Send + Sync> {
        self.interrupter.ending(Interrupter::cut)
    }
}

/// Reads the pieces of a body as one stream, directly into ureq's buffer, without an intermediate copy.
#[derive(Debug)]
struct BodyReader<'a> {
    rest: &'a [&'a [u8]],
    /// Bytes of the first piece that are already read.
    read: usize,
}

impl Read for BodyReader<'_> {
    /// Fills `into` as far as possible, because each call causes one write to the connection.
    fn read(&mut self, mut into: &mut [u8]) -> io::Result<usize> {
        let room = into.len();
        while let Some((first, rest)) = self.rest.split_first() {
            let count = (first.len() - self.read).min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&first[self.read..self.read + count]);
            into = later;
            self.read += count;
            if self.read < first.len() {
                break;
            }
            (self.rest, self.read) = (rest, 0);
        }
        Ok(room - into.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use super::*;
    use crate::config::{Exporter, Proxy};

    #[test]
    fn after_a_cut_no_connection_is_opened() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let exporter = Exporter::http(endpoint).proxy(Proxy::Off);
        let mut transport = HttpSpec::new(&exporter.connection).unwrap().open(Driver::OwnThread);
        transport.forget_cut();
        transport.cutter()();
        let payload = Payload { signal: Signal::Traces, body: &[] };
        let verdict = transport.send(&payload, Instant::now() + Duration::from_secs(20));
        assert!(matches!(verdict, Verdict::TryLater { .. }), "{verdict:?}");
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn pieces_are_read_as_one_whatever_the_buffers_are() {
        let pieces: [&[u8]; 5] = [b"ab", b"", b"cdefg", b"h", b""];
        for room in 1..10 {
            let (mut body, mut into) = (BodyReader { rest: &pieces, read: 0 }, vec![0; room]);
            let mut all = Vec::new();
            loop {
                match body.read(&mut into).unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&into[..count]),
                }
                assert!(all.len() % room == 0 || all.len() == 8, "buffers are filled: {room}");
            }
            assert_eq!(all, b"abcdefgh");
        }
    }

    #[test]
    fn a_forwarding_proxy_gets_host_and_credentials_unless_they_are_configured() {
        let variable =
            |name: &str| (name == "http_proxy").then(|| "http://shop:hunter2@proxy:3128".to_owned());
        let url = "http://collector:4318/v1/traces";
        let proxy = super::Proxy::choose(Proxy::FromEnvironment, url, variable).unwrap().unwrap();
        let headers = |exporter: Exporter| {
            let headers = headers(&exporter.connection, Some(&proxy)).unwrap();
            assert!(!format!("{headers:?}").contains("c2hvcDpodW50ZXIy"), "{headers:?}");
            let shown = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            shown.collect::<Vec<_>>()
        };
        let exporter = Exporter::http("http://collector:4318");
        let added = ["host: collector:4318", "proxy-authorization: Basic c2hvcDpodW50ZXIy"];
        assert_eq!(headers(exporter.clone()), added);
        let exporter = exporter.header("Host", "x").header("proxy-authorization", "y");
        assert_eq!(headers(exporter), ["host: x", "proxy-authorization: y"]);
    }
}
