//! HTTP proxies: selection by the environment, credentials, and tunnels (`CONNECT`).

use std::io::{self, Read, Write};

use ureq::ProxyProtocol;
use ureq::http::StatusCode;

use super::connect::NetworkError;
use super::{SetupError, base64};
use crate::config::{Proxy as Setting, proxy_for};

/// Maximum head of a proxy's response to `CONNECT`.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// A proxy, and the environment variable that names it.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    variable: &'static str,
    proxy: ureq::Proxy,
}

impl Proxy {
    /// Returns the proxy for a URL.
    ///
    /// # Errors
    /// Returns an error if the environment names a proxy that cannot be used, because the user may not want a direct
    /// connection instead. The message does not show the address, which may contain a password.
    pub(super) fn choose(
        setting: Setting,
        url: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SetupError> {
        let destination = host_and_port(url).filter(|_| setting == Setting::FromEnvironment);
        let found = destination.and_then(|to| proxy_for(url.starts_with("https:"), to, variable));
        let Some((name, address)) = found else { return Ok(None) };
        let speaks_http =
            |proxy: &ureq::Proxy| matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https);
        let proxy = ureq::Proxy::new(&address).ok().filter(speaks_http).ok_or_else(|| {
            format!("{name} is not the address of an HTTP proxy; write it like http://proxy:3128")
        })?;
        Ok(Some(Self { variable: name, proxy }))
    }

    /// Returns host and port. An IPv6 address keeps its brackets.
    pub(super) fn peer(&self) -> (&str, u16) {
        (self.proxy.host(), self.proxy.port())
    }

    pub(super) fn is_tls(&self) -> bool {
        self.proxy.protocol() == ProxyProtocol::Https
    }

    /// Returns host and port, for messages.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.proxy.host(), self.proxy.port())
    }

    /// Returns the value of the header `proxy-authorization`; `None` without user and password.
    pub(super) fn authorization(&self) -> Option<String> {
        let (user, password) = (self.proxy.username(), self.proxy.password());
        user.or(password)?;
        let credentials = format!("{}:{}", user.unwrap_or_default(), password.unwrap_or_default());
        Some(format!("Basic {}", base64::encode(credentials.as_bytes())))
    }

    /// Returns texts that no message may show, in case the proxy repeats them.
    pub(super) fn secrets(&self) -> impl Iterator<Item = String> {
        let password = self.proxy.password().filter(|password| !password.is_empty());
        // Without a password, the user name is not a secret.
        password.map(str::to_owned).into_iter().chain(self.authorization().filter(|_| password.is_some()))
    }

    /// Asks the proxy for a connection to the server.
    pub(super) fn open_tunnel(
        &self,
        wire: &mut (impl Read + Write),
        authority: &str,
    ) -> Result<(), NetworkError> {
        let credentials = self.authorization().map(|value| format!("proxy-authorization: {value}\r\n"));
        let credentials = credentials.unwrap_or_default();
        let request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{credentials}\r\n");
        wire.write_all(request.as_bytes())?;
        // No body follows a successful CONNECT. The body of a refusal is not read, because the connection is closed.
        let head = read_head(wire)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse::<StatusCode>().ok());
        match status {
            Some(status) if status.is_success() => Ok(()),
            Some(status) => Err(self.refusal(status)),
            None => Err(io::Error::other("the proxy does not speak HTTP").into()),
        }
    }

    /// Returns the error for an error status of the proxy itself, with advice for the statuses 403 and 407. The error
    /// does not quote the response, which may repeat the password.
    pub(super) fn refusal(&self, status: StatusCode) -> NetworkError {
        let variable = self.variable;
        let advice = match status.as_u16() {
            407 if self.authorization().is_some() => {
                Some(format!("the proxy refused the user and password in {variable}: correct them"))
            }
            407 => Some(format!("set user and password in {variable}: http://user:password@host:port")),
            403 => Some(format!("let the proxy in {variable} allow the collector, or list it in NO_PROXY")),
            _ => None,
        };
        NetworkError::ProxyStatus { status: status_text(status), advice }
    }

    /// Adds the address and the environment variable of the proxy to an error of the proxy or of the connection to it.
    pub(super) fn name(&self, error: NetworkError) -> NetworkError {
        let proxy = format!("proxy {} ({})", self.shown(), self.variable);
        NetworkError::AtProxy { proxy, error: Box::new(error) }
    }
}

/// Reads a response head byte by byte, because the bytes after the head belong to the server.
fn read_head(wire: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if wire.read(&mut byte)? == 0 || head.len() == MAX_HEAD_BYTES {
            return Err(io::Error::other("the proxy does not speak HTTP"));
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns a status with its name, such as `502 Bad Gateway`.
pub(super) fn status_text(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Returns the name of a status.
pub(crate) fn status_name(status: u16) -> Option<&'static str> {
    StatusCode::from_u16(status).ok()?.canonical_reason()
}

/// Returns host and port of a URL. An IPv6 address keeps its brackets.
pub(super) fn host_and_port(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let is_port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rsplit_once(':').filter(is_port) {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((authority, if scheme == "https" { 443 } else { 80 })),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Returns the host of the chosen proxy, or the error.
    fn chosen(url: &str, environment: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let chosen = Proxy::choose(Setting::FromEnvironment, url, variable);
        chosen.map(|proxy| proxy.map(|proxy| proxy.peer().0.to_owned())).map_err(|error| error.to_string())
    }

    fn via(host: &str) -> Result<Option<String>, String> {
        Ok(Some(host.to_owned()))
    }

    #[test]
    fn the_scheme_chooses_the_variable() {
        let environment = [("HTTP_PROXY", "http://plain:3128"), ("HTTPS_PROXY", "http://secure:3128")];
        assert_eq!(chosen("http://a/", &environment), via("plain"));
        assert_eq!(chosen("https://a/", &environment), via("secure"));
    }

    #[test]
    fn http_proxy_is_ignored_under_cgi() {
        let environment = [("HTTP_PROXY", "http://attacker:3128"), ("REQUEST_METHOD", "GET")];
        assert_eq!(chosen("http://a/", &environment), Ok(None));
    }

    #[cfg(windows)]
    #[test]
    fn http_proxy_is_ignored_under_cgi_however_it_is_spelled() {
        let variable = |name: &str| match name.to_ascii_uppercase().as_str() {
            "HTTP_PROXY" => Some("http://attacker:3128".to_owned()),
            "REQUEST_METHOD" => Some("GET".to_owned()),
            _ => None,
        };
        assert_eq!(
            Proxy::choose(Setting::FromEnvironment, "http://a/", variable).is_ok_and(|proxy| proxy.is_none()),
            true
        );
    }

    #[test]
    fn proxies_can_be_switched_off() {
        let variable = |_: &str| Some("http://proxy:3128".to_owned());
        assert!(Proxy::choose(Setting::Off, "http://a/", variable).is_ok_and(|proxy| proxy.is_none()));
        assert_eq!(chosen("http://a/", &[("ALL_PROXY", "http://proxy:3128")]), via("proxy"));
    }

    #[test]
    fn hosts_in_no_proxy_are_reached_directly_and_so_is_loopback() {
        for (no_proxy, url, direct) in [
            ("a.example, .internal", "http://otel.internal/", true),
            ("a.example .internal", "https://a.example", true),
            ("a.example:443", "https://a.example/", true),
            ("a.example:443", "http://a.example:4318/", false),
            ("10.0.0.0/8", "http://10.1.1.1:4318/v1/traces?a", true),
            ("fd00::/8", "http://[fd00::1]:4318/", true),
            ("fd00::/8", "http://[fe00::1]/", false),
            ("", "http://localhost:4318/", true),
            ("", "http://127.0.0.1:4318/", true),
            ("", "http://[::1]/", true),
            ("", "http://a.example/", false),
        ] {
            let all = [("all_proxy", "http://proxy:3128"), ("no_proxy", no_proxy)];
            let expected = if direct { Ok(None) } else { via("proxy") };
            assert_eq!(chosen(url, &all), expected, "{no_proxy} {url}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_unless_the_host_needs_none() {
        for address in ["socks5://proxy:1080", "http://", "nonsense://user:hunter2@proxy"] {
            let environment = [("ALL_PROXY", address), ("NO_PROXY", "localhost")];
            let error = chosen("http://collector/", &environment).expect_err(address);
            assert!(error.starts_with("ALL_PROXY is not") && !error.contains("hunter2"), "{error}");
            assert_eq!(chosen("http://localhost/", &environment), Ok(None));
        }
    }

    /// A proxy with a prepared answer.
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

    fn proxy(address: &str) -> Proxy {
        Proxy { variable: "HTTPS_PROXY", proxy: ureq::Proxy::new(address).expect(address) }
    }

    /// Opens a tunnel. Returns the request to the proxy, the outcome, and the unread bytes after the response head.
    fn open(address: &str, answer: &[u8]) -> (String, Result<(), String>, Vec<u8>) {
        let mut wire = Wire { request: Vec::new(), answer: Cursor::new(answer.to_vec()) };
        let outcome = proxy(address).open_tunnel(&mut wire, "collector:4317").map_err(|error| error.what());
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
        let shown = format!("{:?}", proxy("http://ali:open-sesame@proxy:3128"));
        assert!(shown.contains("proxy") && !shown.contains("YWxp") && !shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn reports_the_status_of_a_proxy_and_never_quotes_it() {
        for (answer, expected) in [
            (
                "HTTP/1.1 407 Not hunter2\r\n\r\n",
                "407 Proxy Authentication Required; the proxy refused the user and password in HTTPS_PROXY: correct them",
            ),
            (
                "HTTP/1.0 407 \nproxy-authenticate: Basic realm=hunter2\n\n",
                "407 Proxy Authentication Required; the proxy refused the user and password in HTTPS_PROXY: correct them",
            ),
            (
                "HTTP/1.1 403 hunter2\r\n\r\n",
                "403 Forbidden; let the proxy in HTTPS_PROXY allow the collector, or list it in NO_PROXY",
            ),
            ("HTTP/1.1 502 hunter2\r\n\r\n", "502 Bad Gateway"),
            ("HTTP/1.1 599 hunter2\r\n\r\n", "599"),
        ] {
            let (_, outcome, _) = open("http://ali:hunter2@proxy:3128", answer.as_bytes());
            assert_eq!(outcome, Err(expected.to_owned()));
        }
        let (_, outcome, _) = open("http://proxy:3128", b"HTTP/1.1 407 x\r\n\r\n");
        let advice = "set user and password in HTTPS_PROXY: http://user:password@host:port";
        assert_eq!(outcome, Err(format!("407 Proxy Authentication Required; {advice}")));
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
    fn a_proxy_may_have_an_ipv6_address() {
        assert_eq!(proxy("http://[::1]:3128").peer(), ("[::1]", 3128));
    }
}
