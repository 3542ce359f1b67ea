//! Endpoints: a small, strict parser for the URLs of collectors.
//!
//! Messages of this module do not quote the endpoint, because it may contain a secret.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::Transport;
use crate::config::error::{Checked, Fault};
use crate::config::text::{MASK, shortened};
use crate::config::values::no_proxy::{Host, is_host_name};
use crate::record::Signal;

/// A parsed endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(in crate::config) tls: bool,
    /// Host and port, as written.
    authority: String,
    /// True if `authority` contains a port.
    has_port: bool,
    /// Path with its leading slash; empty for the root.
    pub(in crate::config) path: String,
    /// Query with its leading question mark, or empty.
    pub(in crate::config) query: String,
    /// Path of a Unix socket, or a null character and an abstract name. The host is then `localhost`.
    pub(crate) socket: Option<String>,
}

/// Longest endpoint. Many servers refuse a longer one. A longer text is not parsed, because each of hundreds of
/// exporters may have an endpoint that was read from a large file.
const MAX_BYTES: usize = 8 << 10;
const HTTPS_PORT: u16 = 443;
/// Longest address of a Unix socket.
const MAX_SOCKET_BYTES: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };
const UNIX: &str = "unix:";
const UNIX_ABSTRACT: &str = "unix-abstract:";

/// How the path of a signal's URL is derived from the path of the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PathRule {
    /// The path of the endpoint, or the path of the signal if the endpoint has none.
    #[default]
    OwnOrSignal,
    /// The path of the endpoint, or `/` if it has none.
    Verbatim,
    /// The path of the endpoint followed by the path of the signal.
    Base,
    /// Like `Base`, but a path of any signal at the end of the endpoint is removed first.
    BaseOrSignal,
}

impl PathRule {
    /// Returns whether all signals are posted to the path of the endpoint, if it has one.
    pub(crate) fn keeps_path(self) -> bool {
        matches!(self, Self::OwnOrSignal | Self::Verbatim)
    }
}

impl Endpoint {
    /// Parses a URL, `host:port`, `host`, `unix:path` or `unix-abstract:name`.
    ///
    /// `insecure` decides whether a gRPC endpoint without a scheme is plaintext. With `None`, it is plaintext only if
    /// the address is loopback.
    pub(crate) fn parse(text: &str, transport: Transport, insecure: Option<bool>) -> Checked<Self> {
        if text.is_empty() {
            return Fault::err("is empty", format!("leave it out for {:?}", transport.default_endpoint()));
        }
        // Checked before the searches below, which take long in a long text.
        Fault::unless(!Self::is_too_long(text), "is longer than 8 KiB", "write a shorter one")?;
        let parsed = match text.split_once("://") {
            _ if text.starts_with(['"', '\'']) => Fault::err("has quotes around it", "remove them"),
            _ if text.contains(|c: char| c.is_whitespace() || c.is_control()) => {
                Fault::err("holds white space", "write a URL like \"http://localhost:4318\"")
            }
            _ if is_unix(text) => Self::parse_socket(text),
            Some((scheme, rest)) => Self::parse_url(scheme, rest),
            None => Self::parse_address(text, transport, insecure),
        };
        parsed.map_err(|fault| with_port_of(transport, fault))
    }

    /// Returns whether a text exceeds the limit for endpoints.
    pub(crate) fn is_too_long(text: &str) -> bool {
        text.len() > MAX_BYTES
    }

    /// Returns the URL for a signal.
    pub(crate) fn url(&self, signal_path: &str, rule: PathRule) -> String {
        let (scheme, authority, query) = (self.scheme(), &self.authority, &self.query);
        let base = self.path.trim_end_matches('/');
        let path = match rule {
            _ if self.socket.is_some() => signal_path.to_owned(),
            PathRule::OwnOrSignal if self.path.is_empty() => signal_path.to_owned(),
            PathRule::Verbatim if self.path.is_empty() => "/".to_owned(),
            PathRule::OwnOrSignal | PathRule::Verbatim => self.path.clone(),
            PathRule::Base => format!("{base}{signal_path}"),
            PathRule::BaseOrSignal => {
                let before = Signal::ALL.iter().find_map(|signal| base.strip_suffix(signal.path()));
                format!("{}{signal_path}", before.unwrap_or(base))
            }
        };
        format!("{scheme}://{authority}{path}{query}")
    }

    /// Returns scheme, host and port, the only parts of an endpoint that gRPC uses.
    pub(crate) fn origin(&self) -> String {
        let (host, port) = self.host_and_port();
        format!("{}://{host}:{port}", self.scheme())
    }

    /// Returns a Unix socket in the form `unix:path` or `unix-abstract:name`; `None` for other endpoints.
    pub(crate) fn shown_socket(&self) -> Option<String> {
        let socket = self.socket.as_ref()?;
        let name = socket.strip_prefix('\0');
        Some(name.map_or_else(|| format!("{UNIX}{socket}"), |name| format!("{UNIX_ABSTRACT}{name}")))
    }

    /// Returns whether the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        Host::parse(self.host_and_port().0).is_loopback()
    }

    /// Returns the host, in brackets if it is an IPv6 address, and the port to connect to.
    pub(crate) fn host_and_port(&self) -> (&str, u16) {
        match self.authority.rsplit_once(':').filter(|_| self.has_port) {
            Some((host, port)) => (host, port.parse().unwrap_or_default()),
            None => (&self.authority, if self.tls { HTTPS_PORT } else { 80 }),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    fn parse_url(scheme: &str, rest: &str) -> Checked<Self> {
        let scheme = scheme.to_ascii_lowercase();
        let fix = match &*scheme {
            "grpc" | "grpcs" => "write http:// or https://; the transport setting selects gRPC",
            _ => "write http:// or https://",
        };
        Fault::unless(matches!(&*scheme, "http" | "https"), "has an unknown scheme", fix)?;
        Fault::unless(!rest.contains('#'), "has a fragment", "remove the # and the text after it")?;
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port = check_authority(authority)?.is_some();
        check_path(path)?;
        check_path(query)?;
        let path = if path == "/" { "" } else { path };
        let [authority, path, query] = [authority, path, query].map(str::to_owned);
        Ok(Self { tls: scheme == "https", authority, has_port, path, query, socket: None })
    }

    /// Parses `unix:path`, `unix:///path` or `unix-abstract:name`, the forms that gRPC uses.
    fn parse_socket(text: &str) -> Checked<Self> {
        const EXAMPLE: &str = "write it like \"unix:/run/otel.sock\"";
        let fix = "write a URL like \"http://localhost:4318\"";
        Fault::unless(cfg!(unix), "is a Unix socket, which this system does not have", fix)?;
        let name = text.strip_prefix(UNIX_ABSTRACT);
        let is_supported = name.is_none() || cfg!(any(target_os = "linux", target_os = "android"));
        Fault::unless(is_supported, "has an abstract name, which only Linux has", EXAMPLE)?;
        let path = text.strip_prefix(UNIX).unwrap_or_default();
        let path = match path.strip_prefix("//") {
            Some(path) if !path.is_empty() && !path.starts_with('/') => {
                return Fault::err("has a host before the path of its socket", EXAMPLE);
            }
            path_of_url => path_of_url.unwrap_or(path),
        };
        let socket = name.map_or_else(|| path.to_owned(), |name| format!("\0{name}"));
        Fault::unless(!matches!(&*socket, "" | "\0"), "names no socket", EXAMPLE)?;
        let is_plain = !socket.contains(['?', '#']);
        Fault::unless(is_plain, "has a query or a fragment, which sockets do not have", EXAMPLE)?;
        let fix = format!("write at most {MAX_SOCKET_BYTES} bytes");
        let fits = socket.len() <= MAX_SOCKET_BYTES;
        Fault::unless(fits, "has a longer path or name than Unix sockets can have", fix)?;
        // The value of the header `Host` or `:authority`, which a socket does not determine.
        let authority = "localhost".to_owned();
        Ok(Self { authority, socket: Some(socket), ..Self::default() })
    }

    /// Parses `host` or `host:port`; the default is the port of OTLP. The endpoint is plaintext if `insecure` is true,
    /// or if it is `None` and the host is loopback. Otherwise, gRPC uses TLS, and HTTP uses TLS only at port 443.
    fn parse_address(text: &str, transport: Transport, insecure: Option<bool>) -> Checked<Self> {
        // Checked before the path, so that `user:password@host/path` is reported because of the password.
        refuse_user_info(text.split('/').next().unwrap_or_default())?;
        if text.contains(['/', '?', '#']) {
            let fix = match transport {
                Transport::Grpc => "gRPC has none: write \"http://localhost:4318\"",
                _ => "write it in full, like \"http://localhost:4318/v1/traces\"",
            };
            return Fault::err("has a path but no scheme", fix);
        }
        let port = check_authority(text)?;
        let authority =
            if port.is_some() { text.to_owned() } else { format!("{text}:{}", transport.default_port()) };
        let mut endpoint = Self { authority, has_port: true, ..Self::default() };
        let is_plaintext = insecure.unwrap_or_else(|| endpoint.is_loopback());
        let is_https = endpoint.host_and_port().1 == HTTPS_PORT;
        endpoint.tls = (transport == Transport::Grpc || is_https) && !is_plaintext;
        Ok(endpoint)
    }
}

/// Returns a valid endpoint for messages: without its query, which often contains a key.
pub(crate) fn shown(text: &str) -> String {
    text.find('?').map_or_else(|| text.to_owned(), |at| format!("{}?***", &text[..at]))
}

/// Returns a malformed endpoint for messages: only its scheme, because any other part may be a token.
pub(crate) fn shown_malformed(text: &str) -> String {
    format!("{}{MASK}", split_scheme(&shortened(text)).0)
}

/// Returns a [`shown`] endpoint for `Debug`. The path is masked, because it may contain a token; only the standard path
/// of a signal at its end is kept.
pub(crate) fn without_path(shown: &str) -> String {
    if is_unix(shown) {
        return shown.to_owned();
    }
    let (scheme, rest) = split_scheme(shown);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let known = Signal::ALL.map(Signal::path).into_iter().find(|it| path.ends_with(it)).unwrap_or_default();
    let hidden = if path.len() > known.len().max(1) { "/***" } else { "" };
    format!("{scheme}{authority}{hidden}{known}{query}")
}

fn is_unix(text: &str) -> bool {
    text.starts_with(UNIX) || text.starts_with(UNIX_ABSTRACT)
}

/// Splits off the scheme with its `://`, if any. In a later position, `://` may be part of a query.
fn split_scheme(text: &str) -> (&str, &str) {
    let is_scheme =
        |at: &usize| text[..*at].bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    text.split_at(text.find("://").filter(is_scheme).map_or(0, |at| at + 3))
}

pub(crate) fn is_https_proxy(proxy: &str) -> bool {
    split_scheme(proxy).0.eq_ignore_ascii_case("https://")
}

/// Returns whether a proxy's address contains a password that would be sent to another machine without encryption.
pub(crate) fn exposes_password(proxy: &str) -> bool {
    let (user, host) = split_scheme(proxy).1.rsplit_once('@').unwrap_or_default();
    let endpoint = Endpoint::parse(host.trim_end_matches('/'), Transport::Http, None);
    user.contains(':') && !is_https_proxy(proxy) && !endpoint.is_ok_and(|endpoint| endpoint.is_loopback())
}

/// Replaces the default port of HTTP in the advice of a fault with that of the transport.
fn with_port_of(transport: Transport, fault: Fault) -> Fault {
    let (http, own) = (Transport::Http.default_port().to_string(), transport.default_port().to_string());
    Fault::new(fault.what.clone(), fault.fix.replace(&http, &own))
}

const LIKE_IPV6: &str = "write it like \"http://[::1]:4318\"";

/// Checks `host` or `host:port`; returns the port, if there is one.
fn check_authority(authority: &str) -> Result<Option<u16>, Fault> {
    refuse_user_info(authority)?;
    if let Some(rest) = authority.strip_prefix('[') {
        let unclosed = || Fault::new("has an unclosed bracket", LIKE_IPV6);
        let (address, port) = rest.split_once(']').ok_or_else(unclosed)?;
        let is_address = address.parse::<Ipv6Addr>().is_ok();
        Fault::unless(is_address, "has no IPv6 address in its brackets", LIKE_IPV6)?;
        return match port.strip_prefix(':') {
            Some(port) => check_port(port).map(Some),
            None if port.is_empty() => Ok(None),
            None => Fault::err("has text after its brackets", LIKE_IPV6),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            Fault::err("has an IPv6 address without brackets, or two ports", LIKE_IPV6)
        }
        Some((host, port)) => check_host(host).and_then(|()| check_port(port)).map(Some),
        None => check_host(authority).map(|()| None),
    }
}

fn check_host(host: &str) -> Checked {
    const EXAMPLE: &str = "write a name or address, like \"http://localhost:4318\"";
    Fault::unless(!host.is_empty(), "has no host", EXAMPLE)?;
    Fault::unless(host.is_ascii(), "has a host that is not ASCII", "write its xn-- form")?;
    let name = host.strip_suffix('.').unwrap_or(host);
    Fault::unless(is_host_name(name), "has an invalid host", EXAMPLE)?;
    // URL parsers treat a host whose last label is a number as an IPv4 address, so it must be a valid one.
    let ends_in_number = name.rsplit('.').next().is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit()));
    let is_valid = !ends_in_number || name.parse::<Ipv4Addr>().is_ok();
    Fault::unless(is_valid, "has an invalid IPv4 address", "write it like \"http://127.0.0.1:4318\"")
}

fn check_port(port: &str) -> Result<u16, Fault> {
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let number = port.parse().ok().filter(|number| digits && *number > 0);
    number.ok_or_else(|| Fault::new("has an invalid port", "write 1 to 65535, usually 4318"))
}

/// Checks that a path or a query contains only characters that need no encoding.
fn check_path(path: &str) -> Checked {
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let allowed = match byte {
            b'%' => (0..2).all(|_| rest.next().is_some_and(|b| b.is_ascii_hexdigit())),
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => false,
            _ => byte.is_ascii_graphic(),
        };
        let what = "has a character in its path that URLs cannot hold";
        Fault::unless(allowed, what, "percent-encode it, like %7B for {")?;
    }
    Ok(())
}

fn refuse_user_info(authority: &str) -> Checked {
    let fix = "send them as a header: \"Authorization: Basic …\"";
    Fault::unless(!authority.contains('@'), "holds a user name or password", fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_good_form_becomes_the_url_to_post_to() {
        for (given, url) in [
            ("localhost", "http://localhost:4318/v1/traces"),
            ("localhost:9999", "http://localhost:9999/v1/traces"),
            ("127.0.0.1", "http://127.0.0.1:4318/v1/traces"),
            ("[::1]", "http://[::1]:4318/v1/traces"),
            ("[::1]:80", "http://[::1]:80/v1/traces"),
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("http://localhost", "http://localhost/v1/traces"),
            ("HTTPS://Collector.test", "https://Collector.test/v1/traces"),
            ("https://tracing.mydomain.test/v1/otel", "https://tracing.mydomain.test/v1/otel"),
            ("http://a.test/v1/traces", "http://a.test/v1/traces"),
            ("http://a.test/v1/", "http://a.test/v1/"),
            ("http://a.test//", "http://a.test//"),
            ("http://a.test/p%20q?key=1&b=%7B", "http://a.test/p%20q?key=1&b=%7B"),
            ("http://a.test?key=1", "http://a.test/v1/traces?key=1"),
            ("http://[2001:db8::1]:4318/x", "http://[2001:db8::1]:4318/x"),
            ("http://my_host.test.:1", "http://my_host.test.:1/v1/traces"),
            ("otel-collector", "http://otel-collector:4318/v1/traces"),
        ] {
            let endpoint = Endpoint::parse(given, Transport::Http, None);
            let posted_to = endpoint.map(|endpoint| endpoint.url("/v1/traces", PathRule::OwnOrSignal));
            assert_eq!(posted_to, Ok(url.to_owned()), "{given:?}");
        }
    }

    #[test]
    fn a_base_gets_the_path_of_each_signal_and_a_verbatim_endpoint_gets_none() {
        for (given, base, verbatim) in [
            ("http://a.test", "http://a.test/v1/logs", "http://a.test/"),
            ("http://a.test/", "http://a.test/v1/logs", "http://a.test/"),
            ("http://a.test/x", "http://a.test/x/v1/logs", "http://a.test/x"),
            ("http://a.test/x/", "http://a.test/x/v1/logs", "http://a.test/x/"),
            ("http://a.test/x?k=1", "http://a.test/x/v1/logs?k=1", "http://a.test/x?k=1"),
            ("a.test", "http://a.test:4318/v1/logs", "http://a.test:4318/"),
        ] {
            let endpoint = Endpoint::parse(given, Transport::Http, None).expect(given);
            assert_eq!(endpoint.url("/v1/logs", PathRule::Base), base);
            assert_eq!(endpoint.url("/v1/logs", PathRule::Verbatim), verbatim);
        }
    }

    #[test]
    fn replaces_path_of_signal_at_end_of_base() {
        for (given, posted_to) in [
            ("http://a.test", "http://a.test/v1/logs"),
            ("http://a.test/otlp", "http://a.test/otlp/v1/logs"),
            ("http://a.test/otlp/", "http://a.test/otlp/v1/logs"),
            ("http://a.test/v1/traces", "http://a.test/v1/logs"),
            ("http://a.test/otlp/v1/metrics/?k=1", "http://a.test/otlp/v1/logs?k=1"),
            ("http://a.test/v1/logs", "http://a.test/v1/logs"),
            ("http://a.test/xv1/traces", "http://a.test/xv1/traces/v1/logs"),
        ] {
            let endpoint = Endpoint::parse(given, Transport::Http, None).expect(given);
            assert_eq!(endpoint.url("/v1/logs", PathRule::BaseOrSignal), posted_to);
        }
    }

    #[test]
    fn encrypts_grpc_and_port_443_without_scheme_unless_insecure_or_loopback() {
        for (given, [unset, insecure, secure]) in [
            ("collector.example:443", [true, false, true]),
            ("localhost.example", [true, false, true]),
            ("[2001:db8::1]", [true, false, true]),
            ("LOCALHOST:4317", [false, false, true]),
            ("127.8.8.8", [false, false, true]),
            ("[::1]:99", [false, false, true]),
            ("http://collector.example", [false; 3]),
            ("https://localhost", [true; 3]),
        ] {
            let is_tls = [None, Some(true), Some(false)]
                .map(|insecure| Endpoint::parse(given, Transport::Grpc, insecure).expect(given).tls);
            assert_eq!(is_tls, [unset, insecure, secure], "{given}");
        }
        for (given, is_tls) in
            [("a.test", false), ("a.test:80", false), ("a.test:443", true), ("localhost:443", false)]
        {
            assert_eq!(Endpoint::parse(given, Transport::Http, None).expect(given).tls, is_tls, "{given}");
        }
    }

    #[test]
    fn a_password_is_exposed_on_the_way_to_a_plaintext_proxy_of_another_machine() {
        for (proxy, is_exposed) in [
            ("http://ali:sesame@proxy.example:3128", true),
            ("HTTP://ali:sesame@proxy.example/", true),
            ("ali:sesame@10.0.0.1:3128", true),
            ("http://ali:ses@me/@[2001:db8::1]", true),
            ("https://ali:sesame@proxy.example:3128", false),
            ("http://ali:sesame@127.0.0.1:3128", false),
            ("http://ali:sesame@localhost", false),
            ("http://ali:sesame@[::1]/", false),
            ("http://ali@proxy.example:3128", false),
            ("http://proxy.example:3128", false),
        ] {
            assert_eq!(exposes_password(proxy), is_exposed, "{proxy}");
        }
    }

    #[test]
    fn of_a_grpc_endpoint_only_scheme_host_and_port_remain() {
        for (given, origin) in [
            ("otel-collector:4317", "https://otel-collector:4317"),
            ("otel-collector", "https://otel-collector:4317"),
            ("[::1]", "http://[::1]:4317"),
            ("http://a.test", "http://a.test:80"),
            ("https://127.0.0.1/otel", "https://127.0.0.1:443"),
            ("https://otel-collector.example.com/v1/metrics", "https://otel-collector.example.com:443"),
            ("https://a.test:4317", "https://a.test:4317"),
        ] {
            let endpoint = Endpoint::parse(given, Transport::Grpc, None).expect(given);
            assert_eq!(endpoint.origin(), origin);
        }
    }

    #[test]
    fn every_bad_form_is_refused_with_the_reason() {
        for (given, what) in [
            ("", "is empty"),
            (" http://a.test", "holds white space"),
            ("\"http://a.test\"", "has quotes around it"),
            ("http://a.test/\r\nX: y", "holds white space"),
            ("ftp://a.test", "has an unknown scheme"),
            ("grpc://a.test", "has an unknown scheme"),
            ("://a.test", "has an unknown scheme"),
            ("http://user:password@a.test", "holds a user name or password"),
            ("user@a.test", "holds a user name or password"),
            ("user:pass@a.test/x", "holds a user name or password"),
            ("::1", "has an IPv6 address without brackets, or two ports"),
            ("http://::1:4318", "has an IPv6 address without brackets, or two ports"),
            ("http://[::1", "has an unclosed bracket"),
            ("http://[localhost]", "has no IPv6 address in its brackets"),
            ("http://[fe80::1%25eth0]", "has no IPv6 address in its brackets"),
            ("http://[::1]4318", "has text after its brackets"),
            ("http://", "has no host"),
            ("http:///v1/traces", "has no host"),
            ("http://:4318", "has no host"),
            ("http://bücher.test", "has a host that is not ASCII"),
            ("http://a..test", "has an invalid host"),
            ("http://a$b", "has an invalid host"),
            ("http://1.2.3.456", "has an invalid IPv4 address"),
            ("http://1.2.3", "has an invalid IPv4 address"),
            ("localhost:", "has an invalid port"),
            ("localhost:0", "has an invalid port"),
            ("localhost:+80", "has an invalid port"),
            ("localhost:65536", "has an invalid port"),
            ("localhost:http", "has an invalid port"),
            ("localhost/v1/traces", "has a path but no scheme"),
            ("localhost:4318/v1/traces", "has a path but no scheme"),
            ("http://a.test/x#y", "has a fragment"),
            ("http://a.test/ü", "has a character in its path that URLs cannot hold"),
            ("http://a.test/{id}", "has a character in its path that URLs cannot hold"),
            ("http://a.test/%2", "has a character in its path that URLs cannot hold"),
            ("http://a.test?q=%zz", "has a character in its path that URLs cannot hold"),
        ] {
            let fault = Endpoint::parse(given, Transport::Http, None).expect_err(given);
            assert_eq!(fault.what, what, "{given:?}");
            assert!(!fault.fix.is_empty(), "{given:?}");
        }
        let longest = format!("http://a.test/{}", "x".repeat(MAX_BYTES - "http://a.test/".len()));
        assert!(Endpoint::parse(&longest, Transport::Http, None).is_ok());
        let fault = Endpoint::parse(&(longest + "x"), Transport::Http, None).expect_err("too long");
        assert_eq!(fault.what, "is longer than 8 KiB");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_unix_sockets_as_grpc_does() {
        for (given, shown) in [
            ("unix:/run/otel.sock", "unix:/run/otel.sock"),
            ("unix:///run/otel.sock", "unix:/run/otel.sock"),
            ("unix:otel.sock", "unix:otel.sock"),
            ("unix-abstract:otel", "unix-abstract:otel"),
        ] {
            for transport in [Transport::Http, Transport::Grpc] {
                let endpoint = Endpoint::parse(given, transport, None).expect(given);
                assert_eq!(endpoint.shown_socket().as_deref(), Some(shown));
                assert!(!endpoint.tls && endpoint.is_loopback());
                for rule in [PathRule::Verbatim, PathRule::Base] {
                    assert_eq!(endpoint.url("/v1/logs", rule), "http://localhost/v1/logs");
                }
                assert_eq!(without_path(shown), shown);
            }
        }
        let longest = format!("unix:{}", "x".repeat(MAX_SOCKET_BYTES));
        assert!(Endpoint::parse(&longest, Transport::Http, None).is_ok());
        for (given, what) in [
            ("unix:", "names no socket"),
            ("unix://", "names no socket"),
            ("unix-abstract:", "names no socket"),
            ("unix://run/otel.sock", "has a host before the path of its socket"),
            ("unix:/run/otel.sock?x", "has a query or a fragment, which sockets do not have"),
            (&(longest + "x"), "has a longer path or name than Unix sockets can have"),
        ] {
            assert_eq!(Endpoint::parse(given, Transport::Http, None).expect_err(given).what, what);
        }
    }

    #[test]
    fn the_query_is_hidden_when_an_endpoint_is_shown() {
        for (given, safe) in [
            ("http://a.test:4318/v1", "http://a.test:4318/v1"),
            ("http://a.test/x?mail=me@a.test&key=hunter2", "http://a.test/x?***"),
            ("http://a.test?key=hunter2&next=http://b.test", "http://a.test?***"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(shown(given), safe, "{given:?}");
        }
    }

    #[test]
    fn hides_path_for_debug_but_for_that_of_a_signal() {
        for (shown, hidden) in [
            ("http://a.test:4318", "http://a.test:4318"),
            ("http://a.test/", "http://a.test"),
            ("http://a.test/v1/logs", "http://a.test/v1/logs"),
            ("http://a.test/hunter2", "http://a.test/***"),
            ("http://a.test/hunter2/v1/traces?***", "http://a.test/***/v1/traces?***"),
            ("a.test?***", "a.test?***"),
            ("***", "***"),
        ] {
            assert_eq!(without_path(shown), hidden, "{shown:?}");
        }
    }

    #[test]
    fn shows_only_the_scheme_of_a_malformed_endpoint() {
        for (given, shown) in [
            ("https://hunter2!/v1", "https://***"),
            ("hunter2!", "***"),
            ("http://user:hun/ter2@a.test/x", "http://***"),
            ("user:hunter2@a.test/http://b.test", "***"),
            ("http://a.test/x#hunter2", "http://***"),
            ("hunter2!/?next=http://b.test", "***"),
            ("ftp://a.test", "ftp://***"),
        ] {
            assert_eq!(shown_malformed(given), shown, "{given:?}");
        }
        assert_eq!(shown_malformed(&"x".repeat(1 << 20)), "***");
    }
}
