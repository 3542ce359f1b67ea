//! OTLP over HTTP/1.1, through ureq.
//!
//! Layers of a connection, from the network up: `socket` (TCP with deadlines), `tls`, `forward` (request lines for a proxy
//! that forwards plain HTTP), ureq. `response` turns an answer into a verdict.

mod forward;
#[cfg(feature = "probe")]
mod probe_request;
mod response;
mod socket;
#[cfg(feature = "probe")]
mod timeline;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use ureq::unversioned::transport::Connector;
use ureq::{Agent, ProxyProtocol, SendBody};

use self::forward::Forward;
#[cfg(feature = "probe")]
pub(crate) use self::probe_request::{ProbeBody, ProbeEnd, ProbeFailure, ProbeRequest, ProbeResponse};
use self::socket::Unresolved;
use super::base64::basic_credentials;
use super::gzip::compress;
use super::happy_eyeballs::Dialer;
use super::lookup::Lookup;
use super::redact::Secrets;
use super::tcp::Interrupter;
#[cfg(feature = "tls")]
use super::tls::Handshakes;
use super::{Payload, Transport, Verdict, proxy};
use crate::config::{self, Compression, ConnectionSettings, Secret};
use crate::process::{Driver, first_use};
use crate::record::Signal;

const PROTOBUF: &str = "application/x-protobuf";
/// What is read of an answer; the rest is skipped.
const ANSWER_BYTES: u64 = 64 << 10;
/// Collectors' load balancers drop idle connections after a minute or more.
const IDLE_AGE: Duration = Duration::from_secs(50);
/// Reads are in pieces of this size, and no answer's head is longer.
const READ_BYTES: usize = 16 << 10;
/// Writes are in pieces of this size.
const WRITE_BYTES: usize = 64 << 10;

/// Everything needed to open an HTTP transport, checked.
#[derive(Debug, Clone)]
pub(crate) struct HttpSpec {
    config: ureq::config::Config,
    #[cfg(feature = "tls")]
    tls: Handshakes,
    /// Host and port of the server, or of the proxy in front of it.
    peer: (String, u16),
    /// A proxy that makes the requests itself; one that only leads to the server is in `config`.
    forwarded: Option<ureq::Proxy>,
    /// Environment variable that names the proxy. Empty without a proxy.
    proxy_variable: &'static str,
    urls: [Url; Signal::COUNT],
    headers: Vec<(HeaderName, HeaderValue)>,
    secrets: Arc<Secrets>,
    forward: Forward,
    compression: Compression,
}

/// Where a signal is posted to.
#[derive(Clone)]
struct Url {
    /// The URL that ureq is given: of the server, or of the proxy that forwards the request.
    called: String,
    /// The URL of the server without secrets, for messages.
    shown: String,
}

// Written by hand because the URL may contain a secret.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Url").field(&self.shown).finish()
    }
}

impl HttpSpec {
    /// Checks what only this transport can check: certificates and header text.
    ///
    /// # Errors
    /// What is wrong, as a message without secrets.
    pub(crate) fn new(settings: &ConnectionSettings) -> Result<Self, String> {
        let real = settings.url(Signal::Traces);
        let proxy = proxy::choose(settings.proxy, &real, |name| std::env::var(name).ok())?;
        let (proxy_variable, proxy) = proxy.unzip();
        let (server, port) = proxy::host_and_port(&real).ok_or("the endpoint cannot be read")?;
        let peer = match &proxy {
            Some(proxy) => (proxy.host().to_owned(), proxy.port()),
            None => (server.to_owned(), port),
        };
        // over a tunnel HTTP/2 can follow, which has no other way through a proxy
        let is_forwarded = settings.transport == config::Transport::Http && real.starts_with("http:");
        let (forwarded, tunnelled) = if is_forwarded { (proxy, None) } else { (None, proxy) };
        let mut headers = headers(settings)?;
        if let Some(proxy) = &forwarded {
            check_tls_to(proxy)?;
            forward::add_headers(proxy, split_target(&real).0, &mut headers)?;
        }
        let of_proxy = forwarded.as_ref().or(tunnelled.as_ref()).map(proxy_secrets).unwrap_or_default();
        let hidden_targets: Vec<String> =
            Signal::ALL.into_iter().flat_map(|signal| hidden_words(settings, signal)).collect();
        let of_headers = settings.headers.iter().map(|(_, value)| value.expose());
        let all = of_proxy.iter().map(Secret::expose).chain(hidden_targets.iter().map(String::as_str));
        let secrets = Secrets::new(all.chain(of_headers).chain(settings.hidden_texts()));
        let config = Agent::config_builder()
            .user_agent(settings.full_user_agent())
            .accept(PROTOBUF)
            // no answer is worth decompressing a bomb for
            .accept_encoding("identity")
            // an error's body has the reason
            .http_status_as_error(false)
            // a redirect would carry telemetry and credentials to wherever it points
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(tunnelled.clone())
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(IDLE_AGE)
            .output_buffer_size(WRITE_BYTES)
            .input_buffer_size(READ_BYTES)
            // a head that fills the buffer would be taken for a connection that was closed, and tried again
            .max_response_header_size(READ_BYTES - 1);
        Ok(Self {
            config: config.build(),
            #[cfg(feature = "tls")]
            tls: Handshakes::new(&settings.tls, None)?,
            peer,
            urls: Signal::ALL.map(|signal| url(settings, signal, forwarded.as_ref())),
            forward: Forward::new(forwarded.is_some().then(|| split_target(&real).0)),
            forwarded,
            proxy_variable: proxy_variable.unwrap_or_default(),
            headers,
            secrets: Arc::new(secrets),
            compression: settings.compression,
        })
    }

    /// A transport of its own; no connection is made yet.
    pub(crate) fn open(&self, driver: Driver) -> Http {
        let interrupter = Arc::new(Interrupter::default());
        let connector =
            socket::plain_connector(self.lookup(driver), Dialer::new(Arc::clone(&interrupter), driver));
        #[cfg(feature = "tls")]
        let connector = connector.chain(tls::connector(self));
        let connector = connector.chain(self.forward.clone());
        let agent = Agent::with_parts(self.config.clone(), connector, Unresolved);
        let compressed = Vec::new();
        Http { spec: self.clone(), agent, compressed, interrupter }
    }

    /// Whether it is the proxy that does not take a request, rather than the server.
    fn is_refused_by_proxy(&self, answer: &Response<ureq::Body>) -> bool {
        self.forwarded.is_some() && answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
    }

    /// Finds the peer for one agent of one process.
    fn lookup(&self, driver: Driver) -> Mutex<Lookup> {
        let (host, port) = &self.peer;
        Mutex::new(Lookup::new(host, *port, driver))
    }
}

/// # Errors
/// When the proxy wants TLS, and this build has none.
fn check_tls_to(proxy: &ureq::Proxy) -> Result<(), String> {
    match proxy.protocol() {
        ProxyProtocol::Https if !cfg!(feature = "tls") => {
            Err("this build cannot speak to an https proxy; build standpipe with its feature \"tls\""
                .to_owned())
        }
        _ => Ok(()),
    }
}

/// Where a signal is posted to. A proxy that forwards requests is called itself, with the path of the server's URL.
fn url(settings: &ConnectionSettings, signal: Signal, forwarded: Option<&ureq::Proxy>) -> Url {
    let (url, shown) = (settings.url(signal), settings.shown_url(signal));
    let called = match forwarded {
        Some(proxy) => {
            let scheme = if proxy.protocol() == ProxyProtocol::Https { "https" } else { "http" };
            format!("{scheme}://{}:{}{}", proxy.host(), proxy.port(), split_target(&url).1)
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

/// The words of a URL's target that messages do not show.
fn hidden_words(settings: &ConnectionSettings, signal: Signal) -> Vec<String> {
    let (url, shown) = (settings.url(signal), settings.shown_url(signal));
    let target = split_target(&url).1;
    let words = target.split(['/', '?', '&', ';', '=']).filter(|word| !shown.contains(word));
    words.chain(target.split_once('?').map(|(_, query)| query)).map(str::to_owned).collect()
}

/// The secrets in a proxy's credentials, which the proxy could repeat.
fn proxy_secrets(proxy: &ureq::Proxy) -> Vec<Secret> {
    let (user, password) = (proxy.username().unwrap_or_default(), proxy.password().unwrap_or_default());
    match password.is_empty() {
        true => Vec::new(),
        false => vec![Secret::new(password), Secret::new(basic_credentials(user, password))],
    }
}

fn headers(settings: &ConnectionSettings) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    settings.check_head().map_err(|error| error.to_string())?;
    let all = settings.headers.iter();
    all.map(|(name, value)| sensitive_header(&name.to_ascii_lowercase(), value.expose())).collect()
}

/// A header whose value ureq and `Debug` do not show.
fn sensitive_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
    let (name, mut value) =
        header.ok_or_else(|| format!("header {name}: its name or value is not allowed in HTTP"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Posts batches over one kept-alive connection.
#[derive(Debug)]
pub(crate) struct Http {
    spec: HttpSpec,
    agent: Agent,
    compressed: Vec<u8>,
    interrupter: Arc<Interrupter>,
}

impl Http {
    /// One attempt, which ends within `left`.
    fn post(&mut self, payload: &Payload<'_>, left: Duration) -> Result<Response<ureq::Body>, ureq::Error> {
        // the first request of a process initialises a static of ureq, just before it asks the resolver
        let _first = first_use::begin();
        let url = &self.spec.urls[payload.signal as usize];
        let request = self.agent.post(&url.called).config().timeout_global(Some(left)).build();
        let request =
            self.spec.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = request.header(header::CONTENT_TYPE, PROTOBUF);
        match self.spec.compression {
            Compression::None => request
                .header(header::CONTENT_LENGTH, payload.len())
                .send(SendBody::from_reader(&mut BodyReader { rest: payload.body, read: 0 })),
            Compression::Gzip => {
                compress(payload.body, &mut self.compressed);
                request.header(header::CONTENT_ENCODING, "gzip").send(&self.compressed[..])
            }
        }
    }
}

impl Transport for Http {
    fn forget_cut(&mut self) {
        self.interrupter.forget_cut();
    }

    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        let url = &self.spec.urls[payload.signal as usize];
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Verdict::TryLater { after: None, reason: format!("post {}: no time left", url.shown) };
        }
        let answer = self.post(payload, left);
        let is_broken = self.interrupter.is_broken();
        let (url, variable) = (&self.spec.urls[payload.signal as usize], self.spec.proxy_variable);
        let verdict = match answer {
            Ok(answer) if self.spec.is_refused_by_proxy(&answer) => {
                response::by_proxy(&response::status_text(answer.status()), variable, &url.shown)
            }
            Ok(answer) => response::judge(answer, &url.shown),
            // An error after this side ended the attempt is not the server's.
            Err(_) if is_broken => response::late(&url.shown),
            Err(error) => response::failure_verdict(&error, variable, &url.shown),
        };
        verdict.map_text(|text| self.spec.secrets.redact(text))
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        // not by the agent: whatever holds this would keep its connection open
        let interrupter = Arc::clone(&self.interrupter);
        Box::new(move || interrupter.interrupt_for_good())
    }

    fn cutter(&self) -> Box<dyn Fn() + Send + Sync> {
        let interrupter = Arc::clone(&self.interrupter);
        Box::new(move || interrupter.cut())
    }
}

/// Reads a body that lies in pieces as one: without a copy in between, straight into ureq's buffer.
#[derive(Debug)]
struct BodyReader<'a> {
    rest: &'a [&'a [u8]],
    /// What of the first piece is read already.
    read: usize,
}

impl Read for BodyReader<'_> {
    /// Fills `into` as far as there is something: each call is one write to the connection.
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
}
