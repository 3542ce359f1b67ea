//! Where calls go: host, port, TLS, and the tunnel through an HTTP proxy (`CONNECT`).

use std::io::{self, ErrorKind, Read, Write};

use ureq::{Proxy, ProxyProtocol};

use super::super::base64::basic_credentials;
use super::super::proxy;
use super::super::tls::Connector;
use crate::config::{ConnectionSettings, Secret};
use crate::record::Signal;

/// What both must agree on in a TLS handshake.
const PROTOCOL: &[u8] = b"h2";

#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port, as requests name them.
    pub(super) authority: String,
    /// For messages.
    pub(super) shown: String,
    pub(super) tls: Option<Connector>,
    pub(super) tunnel: Option<Tunnel>,
}

impl Target {
    /// # Errors
    /// What is wrong with the endpoint, the certificates or the proxy.
    pub(super) fn new(settings: &ConnectionSettings) -> Result<Self, String> {
        // all signals have the same: scheme, host and port
        let origin = settings.url(Signal::Traces);
        let unreadable = || "the endpoint cannot be read".to_owned();
        let (scheme, authority) = origin.split_once("://").ok_or_else(unreadable)?;
        let (host, port) = authority.rsplit_once(':').ok_or_else(unreadable)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match scheme {
            "https" => Some(Connector::new(&settings.tls, &host, PROTOCOL)?),
            _ => None,
        };
        let proxy = proxy::choose(settings.proxy, &origin, |name| std::env::var(name).ok())?;
        Ok(Self {
            host,
            port: port.parse().map_err(|_| unreadable())?,
            authority: authority.to_owned(),
            shown: settings.shown_url(Signal::Traces),
            tls,
            tunnel: proxy.map(|(variable, proxy)| Tunnel::new(variable, &proxy)).transpose()?,
        })
    }

    /// The same for another process: nothing that has a lock is shared.
    pub(super) fn without_sessions(&self) -> Self {
        Self { tls: self.tls.as_ref().map(Connector::without_sessions), ..self.clone() }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Whether a handshake led to HTTP/2.
pub(super) fn is_agreed(protocol: Option<&[u8]>) -> bool {
    protocol == Some(PROTOCOL)
}

/// The longest head of a proxy's response.
const MOST_HEAD_BYTES: usize = 16 << 10;

/// The way through a proxy.
#[derive(Debug, Clone)]
pub(super) struct Tunnel {
    /// Environment variable that names the proxy.
    variable: &'static str,
    pub(super) host: String,
    pub(super) port: u16,
    /// As the proxy wants them, and the password in them.
    credentials: Option<[Secret; 2]>,
}

impl Tunnel {
    /// # Errors
    /// When the proxy itself is reached over TLS.
    pub(super) fn new(variable: &'static str, proxy: &Proxy) -> Result<Self, String> {
        if proxy.protocol() != ProxyProtocol::Http {
            return Err(
                "gRPC cannot go through an https proxy; name an http one, or set proxy = \"off\"".to_owned()
            );
        }
        let credentials = proxy.username().map(|user| {
            let password = proxy.password().unwrap_or_default();
            [basic_credentials(user, password), password.to_owned()].map(Secret::new)
        });
        // an IPv6 address comes in brackets, which only URLs need
        let host = proxy.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { variable, host, port: proxy.port(), credentials })
    }

    /// What must not be shown, even if the proxy repeats it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.credentials.iter().flatten()
    }

    /// Asks the proxy for a connection to the server.
    ///
    /// # Errors
    /// `PermissionDenied` if the proxy refuses the credentials or the server; another kind if the proxy fails.
    pub(super) fn open(&self, wire: &mut (impl Read + Write), authority: &str) -> io::Result<()> {
        let credentials = match &self.credentials {
            Some([encoded, _]) => format!("proxy-authorization: Basic {}\r\n", encoded.expose()),
            None => String::new(),
        };
        let request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{credentials}\r\n");
        wire.write_all(request.as_bytes())?;
        let head = read_head(wire)?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') {
            return Ok(());
        }
        let line: String = head.lines().next().unwrap_or_default().chars().take(100).collect();
        let says = format!("the proxy says {line:?}");
        Err(match proxy::advice(self.variable, status) {
            Some(advice) => io::Error::new(ErrorKind::PermissionDenied, format!("{says}; {advice}")),
            None => io::Error::other(says),
        })
    }
}

/// Byte by byte: what follows the head is not the proxy's.
fn read_head(wire: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if wire.read(&mut byte)? == 0 || head.len() == MOST_HEAD_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "the proxy does not speak HTTP"));
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A proxy that has its answer ready.
    struct Wire {
        request: Vec<u8>,
        answer: Cursor<Vec<u8>>,
    }

    impl Read for Wire {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.answer.read(into)
        }
    }

    impl Write for Wire {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.request.write(from)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn tunnel(proxy: &str) -> Result<Tunnel, String> {
        Tunnel::new("HTTPS_PROXY", &Proxy::new(proxy).expect(proxy))
    }

    /// The request to the proxy, its outcome, and what was left unread.
    fn open(proxy: &str, answer: &[u8]) -> (String, Result<(), String>, Vec<u8>) {
        let mut wire = Wire { request: Vec::new(), answer: Cursor::new(answer.to_vec()) };
        let tunnel = tunnel(proxy).expect(proxy);
        let outcome = tunnel.open(&mut wire, "collector:4317").map_err(|error| error.to_string());
        let mut rest = Vec::new();
        wire.answer.read_to_end(&mut rest).expect("it is in memory");
        (String::from_utf8(wire.request).expect("a request is text"), outcome, rest)
    }

    #[test]
    fn a_proxy_is_asked_for_the_server_and_nothing_behind_its_answer_is_read() {
        let (request, outcome, rest) =
            open("http://proxy:3128", b"HTTP/1.1 200 Connected\r\nvia: x\r\n\r\nserver");
        assert_eq!(request, "CONNECT collector:4317 HTTP/1.1\r\nhost: collector:4317\r\n\r\n");
        assert_eq!((outcome, rest), (Ok(()), b"server".to_vec()));
    }

    #[test]
    fn credentials_go_to_the_proxy_and_nowhere_else() {
        let (request, outcome, _) = open("http://ali:open-sesame@proxy:3128", b"HTTP/1.0 204 \r\n\r\n");
        assert!(request.contains("\r\nproxy-authorization: Basic YWxpOm9wZW4tc2VzYW1l\r\n"), "{request}");
        assert_eq!(outcome, Ok(()));
        let shown = format!("{:?}", tunnel("http://ali:open-sesame@proxy:3128"));
        assert!(shown.contains("proxy") && !shown.contains("YWxp") && !shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn a_proxy_that_says_no_is_quoted() {
        let (_, outcome, _) =
            open("http://proxy:3128", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        let why = outcome.expect_err("a tunnel was opened");
        let quoted = "the proxy says \"HTTP/1.1 407 Proxy Authentication Required\"; set user and password";
        assert!(why.starts_with(quoted) && why.contains("in HTTPS_PROXY"), "{why}");
        let long = [b"HTTP/1.1 500 ", &[b'x'; 1_000][..], b"\r\n\r\n"].concat();
        let (_, outcome, _) = open("http://proxy:3128", &long);
        assert!(outcome.clone().is_err_and(|why| why.len() < 150), "{outcome:?}");
    }

    #[test]
    fn what_is_no_answer_of_a_proxy_ends_soon() {
        let endless = vec![b'x'; 64 << 10];
        for answer in [&b""[..], b"HTTP/1.1 200", b"SSH-2.0-proxy\r\n", &endless] {
            let (_, outcome, rest) = open("http://proxy:3128", answer);
            assert_eq!(outcome, Err("the proxy does not speak HTTP".to_owned()));
            assert!(answer.len() - rest.len() <= (16 << 10) + 1, "more than 16 KiB were read");
        }
    }

    #[test]
    fn an_https_proxy_is_refused_with_what_can_be_done() {
        let why = tunnel("https://proxy:3128").err();
        assert!(why.is_some_and(|why| why.contains("name an http one, or set proxy = \"off\"")));
    }

    #[test]
    fn a_proxy_may_have_an_ipv6_address() {
        let tunnel = tunnel("http://[::1]:3128").unwrap();
        assert_eq!((tunnel.host.as_str(), tunnel.port), ("::1", 3128));
    }
}
