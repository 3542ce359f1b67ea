//! OTLP over HTTP/1.1, by ureq.
//!
//! `connection` makes the connections that ureq uses, `response` turns a response into a verdict, and `probe_request`
//! sends empty requests for a probe.

mod connection;
#[cfg(feature = "probe")]
mod probe_request;
mod response;

use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use ureq::{Agent, SendBody};

use self::connection::{HttpConnector, Unresolved};
#[cfg(feature = "probe")]
pub(crate) use self::probe_request::{ProbeFailure, ProbeRequest, ProbeResponse};
use super::connect::{NetworkError, Route, Timeline};
use super::credentials::SendsHeaders;
use super::dial::Interrupter;
use super::gzip::Compressor;
use super::proxy::Proxy;
use super::redact::Secrets;
use super::{Payload, ResponseStatus, SetupError, Transport, Verdict, encode_json, shrink};
use crate::config::{self, Compression, ConnectionSettings, RequestToSign, Signer, demand};
use crate::process::{Driver, contain_panic, first_use};
use crate::record::Signal;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
/// Time after which an idle connection is not reused. Load balancers drop idle connections after a minute or more.
const IDLE_AGE: Duration = Duration::from_secs(50);
/// Size of a read, and maximum length of a response head.
const READ_BYTES: usize = 16 << 10;
/// Size of a write.
const WRITE_BYTES: usize = 64 << 10;

/// Checked settings of an HTTP transport. They have no `Debug`, because they contain credentials.
#[derive(Clone)]
pub(crate) struct HttpSpec {
    config: ureq::config::Config,
    route: Route,
    urls: [Url; Signal::COUNT],
    headers: Vec<Header>,
    secrets: Arc<Secrets>,
    signer: Option<Signer>,
    compression: Compression,
    max_response_bytes: u64,
    /// Content type of requests. Also assumed for responses that name none.
    media_type: &'static str,
    /// Scheme and authority of the server behind a proxy that forwards requests.
    origin: Option<Arc<str>>,
}

type Header = (HeaderName, HeaderValue);

/// URL of a signal.
#[derive(Clone)]
struct Url {
    /// URL for ureq: that of the server, or of the proxy that forwards the request.
    called: String,
    /// URL of the server without secrets, for messages.
    shown: String,
}

impl HttpSpec {
    /// Checks the settings that the configuration leaves to the transport: certificates, header text and the proxy.
    ///
    /// # Errors
    /// Returns an error if a setting cannot be used.
    pub(crate) fn new(settings: &ConnectionSettings) -> Result<Self, SetupError> {
        let route = Route::new(settings, None)?;
        let real = settings.url(Signal::Traces);
        let origin = route.forwarder().map(|_| Arc::from(split_target(&real).0));
        let secrets = Arc::new(secrets(settings, &route));
        let is_json = settings.transport == config::Transport::HttpJson;
        let media_type = if is_json { JSON } else { PROTOBUF };
        let config = Agent::config_builder()
            .user_agent(settings.full_user_agent())
            .accept(media_type)
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
            secrets,
            signer: settings.signer.clone(),
            compression: settings.compression,
            max_response_bytes: settings.response_bytes as u64,
            media_type,
            origin,
        })
    }

    /// Creates a transport. It connects at its first request, and stores the steps of its connections in `timeline`.
    pub(crate) fn open(&self, driver: Driver, timeline: Option<Arc<Mutex<Timeline>>>) -> Http {
        let interrupter = Arc::new(Interrupter::default());
        let connector = Mutex::new(self.route.open(&interrupter, driver));
        let connector = HttpConnector { connector, origin: self.origin.clone(), timeline };
        let agent = Agent::with_parts(self.config.clone(), connector, Unresolved);
        // A probe sends this request without records.
        let json = (self.media_type == JSON).then(|| b"{}".to_vec());
        let (spec, compressor) = (self.clone(), Compressor::default());
        Http { secrets: spec.secrets.clone(), spec, agent, compressor, json, interrupter, status: None }
    }

    /// Calls the signing function. Returns the signature's headers and, if no `host` is configured, the signed `host`.
    fn sign(&self, sign: &Signer, url: &Url, body: &[&[u8]]) -> Result<Vec<Header>, String> {
        let url = match &self.origin {
            Some(origin) => format!("{origin}{}", split_target(&url.called).1),
            None => url.called.clone(),
        };
        let host = split_target(&url).0.split_once("://").unwrap_or_default();
        let default_port = if host.0 == "https" { ":443" } else { ":80" };
        let host = host.1.strip_suffix(default_port).unwrap_or(host.1);
        let mut headers = vec![("content-type", self.media_type)];
        if self.compression == Compression::Gzip {
            headers.push(("content-encoding", "gzip"));
        }
        let configured = self.headers.iter();
        headers.extend(configured.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))));
        let has_host = self.headers.iter().any(|(name, _)| name == header::HOST);
        headers.extend((!has_host).then_some(("host", host)));
        let request = RequestToSign { url: &url, headers: &headers, body };
        let signed = contain_panic(|| (sign.0)(&request))?;
        let signed = signed.map_err(|error| error.to_string())?.headers;
        let host = (!has_host).then(|| sensitive_header("host", host));
        let signed = signed.iter().map(|(name, value)| sensitive_header(name, value.expose()));
        host.into_iter().chain(signed).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// Returns the proxy if the proxy, not the server, refused the request.
    fn refusing_proxy(&self, answer: &Response<ureq::Body>) -> Option<&Proxy> {
        let is_refusal = answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        self.route.forwarder().filter(|_| is_refusal)
    }
}

/// Returns the URL of a signal. If a proxy forwards requests, ureq calls the proxy with the server's path and query.
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

/// Returns the texts that messages must not show.
fn secrets(settings: &ConnectionSettings, route: &Route) -> Secrets {
    let words = Signal::ALL.into_iter().flat_map(|signal| hidden_words(settings, signal));
    route.secrets(settings, words.collect())
}

/// Returns the headers of every request. If a proxy forwards requests, the server's host and the proxy's credentials
/// are added, unless these headers are configured: a header that occurs twice would make the request invalid.
fn headers(settings: &ConnectionSettings, forwarder: Option<&Proxy>) -> Result<Vec<Header>, SetupError> {
    let configured = settings.headers.iter().map(|(name, value)| sensitive_header(name, value.expose()));
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
fn sensitive_header(name: &str, value: &str) -> Result<Header, SetupError> {
    let name = name.to_ascii_lowercase();
    let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
    let refused = || format!("header {name}: its name or value is not allowed in HTTP");
    let (name, mut value) = header.ok_or_else(refused)?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Posts batches over one kept connection.
pub(crate) struct Http {
    spec: HttpSpec,
    agent: Agent,
    /// Secrets in the configuration. For a signed request, `spec.secrets` also contains the signature's headers.
    secrets: Arc<Secrets>,
    compressor: Compressor,
    /// The encoded request; `None` if requests are sent as protobuf.
    json: Option<Vec<u8>>,
    interrupter: Arc<Interrupter>,
    /// Status of the response to the last request. `None` without a response, or if the proxy refused the request.
    status: Option<u16>,
}

impl Http {
    /// Makes one attempt, which ends within `left`.
    fn post(&mut self, payload: &Payload<'_>, left: Duration) -> Result<Response<ureq::Body>, ureq::Error> {
        // The first request of a process initializes a static of ureq, just before ureq calls the resolver. Forks are
        // delayed until then: a child with a half initialized static would wait forever.
        let _first = first_use::begin();
        let url = &self.spec.urls[payload.signal as usize];
        let request = self.agent.post(&url.called).config().timeout_global(Some(left)).build();
        let headers = self.spec.headers.iter();
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let request = request.header(header::CONTENT_TYPE, self.spec.media_type);
        let json = self.json.as_deref().map(|json| [json]);
        let payload = Payload { body: json.as_ref().map_or(payload.body, |json| json), ..*payload };
        let compressed;
        let (body, mut request) = match self.spec.compression {
            Compression::None => (payload.body, request),
            Compression::Gzip => {
                compressed = [self.compressor.compress(payload.body)];
                (&compressed[..], request.header(header::CONTENT_ENCODING, "gzip"))
            }
        };
        if let Some(signer) = self.spec.signer.as_ref().filter(|_| demand::CREDENTIALS.is_raised()) {
            let signed = self.spec.sign(signer, url, body).map_err(|error| {
                let error = io::Error::other(format!("the request cannot be signed: {error}"));
                ureq::Error::Other(Box::new(NetworkError::Io(error)))
            })?;
            let values = signed.iter().filter_map(|(_, value)| value.to_str().ok());
            self.spec.secrets = Arc::new(Secrets::clone(&self.secrets).with(values));
            if let Some(headers) = request.headers_mut() {
                headers.extend(signed);
            }
        }
        request
            // Without a length, ureq sends the body of a reader in chunks.
            .header(header::CONTENT_LENGTH, Payload { body, ..payload }.len())
            .send(SendBody::from_reader(&mut BodyReader { rest: body, read: 0 }))
    }
}

impl SendsHeaders for Http {
    fn set_headers(&mut self, settings: &ConnectionSettings) -> Result<(), SetupError> {
        self.spec.headers = headers(settings, self.spec.route.forwarder())?;
        self.secrets = Arc::new(secrets(settings, &self.spec.route));
        self.spec.secrets = Arc::clone(&self.secrets);
        Ok(())
    }

    fn parts(&self) -> (&Interrupter, &Secrets) {
        (&self.interrupter, &self.spec.secrets)
    }
}

impl Transport for Http {
    fn encode(&mut self, payload: &Payload<'_>, max_bytes: usize) -> bool {
        self.json.as_mut().is_none_or(|json| encode_json(json, payload, max_bytes))
    }

    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        let request = format!("post {}", self.spec.urls[payload.signal as usize].shown);
        let left = deadline.saturating_duration_since(Instant::now());
        self.status = None;
        // Without this check, a connection would be opened for nothing, and the reason would be a timeout.
        if left.is_zero() {
            return Verdict::TryLater { after: None, reason: format!("{request}: no time left") };
        }
        let answer = self.post(payload, left);
        self.json.iter_mut().for_each(shrink);
        let is_broken = self.interrupter.is_broken();
        let verdict = match answer {
            Ok(answer) => match self.spec.refusing_proxy(&answer) {
                Some(proxy) => proxy.name(proxy.refusal(answer.status())).verdict(&request),
                None => {
                    self.status = Some(answer.status().as_u16());
                    let verdict = response::judge(answer, &request, &self.spec);
                    verdict.discard_connection(&self.interrupter);
                    verdict
                }
            },
            // After an interruption, the error is not the server's.
            Err(_) if is_broken => NetworkError::TimedOut.verdict(&request),
            Err(error) => response::failure_verdict(error, &request),
        };
        verdict.map_text(|text| self.spec.secrets.redact(text))
    }

    fn last_status(&self) -> Option<ResponseStatus> {
        self.status.map(ResponseStatus::Http)
    }

    fn attempts(&self) -> Option<&Arc<Interrupter>> {
        Some(&self.interrupter)
    }
}

/// Reads the pieces of a body as one stream, directly into ureq's buffer, without an intermediate copy.
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
        let mut transport = HttpSpec::new(&exporter.connection).unwrap().open(Driver::OwnThread, None);
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
