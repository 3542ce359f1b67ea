//! OTLP over HTTP/1.1, through ureq.
//!
//! Layers of a connection, from the network up: `socket` (TCP with deadlines), `tls`, `masked_stream` (puts secrets into
//! requests and takes them out of responses, because ureq logs both), ureq. `mask` knows the secrets, `response` judges.

mod mask;
mod masked_stream;
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

use ureq::http::{HeaderName, HeaderValue, Response, StatusCode, Uri, header};
use ureq::{Agent, ProxyProtocol, SendBody};

use self::mask::{Forward, Mask, proxy_secrets};
#[cfg(feature = "probe")]
pub(crate) use self::probe_request::{ProbeBody, ProbeEnd, ProbeFailure, ProbeRequest, ProbeResponse};
use self::socket::UriAlias;
use super::gzip::compress;
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

/// What ureq sees of what it must not show.
const HIDDEN: &str = "***";

/// Everything needed to open an HTTP transport, checked.
#[derive(Debug, Clone)]
pub(crate) struct HttpSpec {
    config: ureq::config::Config,
    #[cfg(feature = "tls")]
    tls: Handshakes,
    /// Host and port of the server, or of the proxy in front of it.
    peer: (String, u16),
    /// The server, if ureq must not know it.
    server: Option<Uri>,
    /// A proxy that makes the requests itself; one that only leads to the server is in `config`.
    forwarded: Option<ureq::Proxy>,
    /// Environment variable that names the proxy. Empty without a proxy.
    proxy_variable: &'static str,
    urls: [Url; Signal::COUNT],
    headers: Vec<(HeaderName, HeaderValue)>,
    mask: Mask,
    compression: Compression,
}

/// Where a signal is posted to.
#[derive(Clone)]
struct Url {
    /// The path with its query.
    target: String,
    /// With a stand-in for what may be a secret.
    masked: String,
    /// For messages: without it.
    shown: String,
}

impl Url {
    /// Host and port as ureq sees them.
    #[cfg(feature = "tls")]
    fn authority(&self) -> &str {
        let rest = self.masked.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }

    /// What of the target is not shown.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let words = self.target.split(['/', '?', '&', ';', '=']);
        words
            .filter(|word| !self.shown.contains(word))
            .chain(self.target.split_once('?').map(|(_, query)| query))
    }
}

// by hand: the target may hold a secret
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
        let mut mask = Mask::default();
        let urls = Signal::ALL.map(|signal| url(settings, signal, &mut mask));
        let real = settings.url(Signal::Traces);
        let proxy = proxy::choose(settings.proxy, &real, |name| std::env::var(name).ok())?;
        let (proxy_variable, proxy) = proxy.unzip();
        let peer = match &proxy {
            Some(proxy) => (proxy.host().to_owned(), proxy.port()),
            None => {
                let (host, port) = proxy::host_and_port(&real).ok_or("the endpoint cannot be read")?;
                (host.to_owned(), port)
            }
        };
        // over a tunnel HTTP/2 can follow, which has no other way through a proxy
        let is_forwarded = settings.transport == config::Transport::Http && real.starts_with("http:");
        let (forwarded, tunnelled) = if is_forwarded { (proxy, None) } else { (None, proxy) };
        if let Some(proxy) = &forwarded {
            check_tls_to(proxy)?;
            mask.forward(Forward::new(proxy, &real));
        }
        let config = Agent::config_builder()
            .user_agent(user_agent(settings, &mut mask))
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
        let headers = headers(settings, &mut mask)?;
        let unreadable = |_| "the endpoint cannot be read".to_owned();
        let server: Option<Uri> =
            settings.hidden_authority().map(|_| real.parse().map_err(unreadable)).transpose()?;
        if let Some(authority) = server.as_ref().and_then(Uri::authority) {
            // with the port that an endpoint need not name
            mask.stand_in("host", HIDDEN, authority.as_str());
        }
        let of_proxy = forwarded.as_ref().or(tunnelled.as_ref()).map(proxy_secrets).unwrap_or_default();
        let of_targets = urls.iter().flat_map(Url::secrets);
        let of_headers = settings.headers.iter().map(|(_, value)| value.expose());
        let all = of_proxy.iter().map(Secret::expose).chain(of_targets).chain(of_headers);
        mask.redact_from_now_on(Secrets::new(all.chain(settings.hidden_texts())));
        Ok(Self {
            config: config.build(),
            #[cfg(feature = "tls")]
            tls: Handshakes::new(&settings.tls, None)?,
            peer,
            server,
            forwarded,
            proxy_variable: proxy_variable.unwrap_or_default(),
            urls,
            headers,
            mask,
            compression: settings.compression,
        })
    }

    /// A transport of its own; no connection is made yet.
    pub(crate) fn open(&self, driver: Driver) -> Http {
        let interrupter = Arc::new(Interrupter::default());
        let agent = masked_stream::agent(self, Arc::clone(&interrupter), driver);
        let compressed = Vec::new();
        Http { spec: self.clone(), agent, compressed, interrupter }
    }

    /// Whether it is the proxy that does not take a request, rather than the server.
    fn is_refused_by_proxy(&self, answer: &Response<ureq::Body>) -> bool {
        self.forwarded.is_some() && answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
    }

    /// The server's name where ureq sees another.
    fn alias(&self) -> Option<UriAlias> {
        let server = self.server.as_ref()?;
        Some(UriAlias { seen: HIDDEN.to_owned(), actual: server.clone() })
    }

    /// The peer of the TLS connection, if it is not what ureq takes for the server.
    #[cfg(feature = "tls")]
    fn tls_peer(&self) -> Option<UriAlias> {
        match &self.forwarded {
            Some(proxy) if proxy.protocol() == ProxyProtocol::Https => {
                let seen = self.urls[0].authority().to_owned();
                Some(UriAlias { seen, actual: proxy.uri().clone() })
            }
            _ => self.alias(),
        }
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

/// What a signal is posted to; a target that the user would not have shown is hidden from the log, too.
fn url(settings: &ConnectionSettings, signal: Signal, mask: &mut Mask) -> Url {
    let (url, shown) = (settings.url(signal), settings.shown_url(signal));
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url[authority..].find('/').map_or(url.len(), |at| authority + at);
    let (origin, target) = url.split_at(path);
    if url == shown {
        return Url { target: target.to_owned(), masked: url, shown };
    }
    let origin = match settings.hidden_authority() {
        Some(_) => format!("{}{HIDDEN}", &url[..authority]),
        None => origin.to_owned(),
    };
    let masked = format!("{origin}{}", mask.hide_target(target));
    Url { target: target.to_owned(), masked, shown }
}

/// The user agent, as ureq may see it.
fn user_agent(settings: &ConnectionSettings, mask: &mut Mask) -> String {
    let full = settings.full_user_agent();
    match &settings.user_agent {
        Some(product) if settings.hides_user_agent => {
            let stand_in = format!("{HIDDEN}{}", full.strip_prefix(product.as_str()).unwrap_or_default());
            mask.stand_in("user-agent", &stand_in, &full);
            stand_in
        }
        _ => full,
    }
}

fn headers(settings: &ConnectionSettings, mask: &mut Mask) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    settings.check_head()?;
    let mut headers = Vec::new();
    for (name, value) in &settings.headers {
        let name = name.to_ascii_lowercase();
        let masked = mask.hide_header(&name, value.expose());
        let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&masked).ok());
        headers
            .push(header.ok_or_else(|| format!("header {name}: its name or value is not allowed in HTTP"))?);
    }
    Ok(headers)
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
        let request = self.agent.post(&url.masked).config().timeout_global(Some(left)).build();
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
        verdict.map_text(|text| self.spec.mask.redact(text))
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
