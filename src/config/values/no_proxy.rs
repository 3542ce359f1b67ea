//! `NO_PROXY`: hosts that are reached without a proxy, with the semantics of curl and Go.

use std::net::IpAddr;

use crate::config::error::{Diagnostic, Fault};
use crate::config::text::is_bare;
use crate::config::{Config, Exporter, Proxy};

/// Longest entry that a message quotes.
const MAX_SHOWN: usize = 64;
/// Maximum number of diagnostics about malformed entries.
const MAX_DIAGNOSTICS: usize = 20;
/// Variables with the proxy for https endpoints, in order of precedence.
const HTTPS_PROXIES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
/// Variables with the proxy for other endpoints, in order of precedence.
const HTTP_PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

enum Entry {
    Everything,
    /// A domain including its subdomains, or an address; at all ports unless one is given.
    Host(Host, Option<u16>),
    /// All addresses that share the first bits with this one, and the number of these bits.
    Network(IpAddr, u8),
}

#[derive(PartialEq, Eq)]
pub(crate) enum Host {
    Address(IpAddr),
    /// A name in lower case, without leading and trailing dots.
    Name(String),
}

/// Returns whether a host is reached without a proxy, because an entry matches or because the host is loopback: a proxy
/// would connect to its own machine. Entries are separated by commas or white space; malformed ones are ignored.
fn is_excepted(text: &str, host: &str, port: u16) -> bool {
    let host = Host::parse(host);
    host.is_loopback() || words(text).filter_map(Entry::parse).any(|entry| entry.covers(&host, port))
}

/// Returns the name of the variable that sets the proxy for a host, and the proxy; `None` if the host is reached
/// directly. `HTTP_PROXY` is ignored under CGI, where a client can set it by the header `Proxy` (httpoxy).
pub(crate) fn proxy_for(
    is_https: bool,
    (host, port): (&str, u16),
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    let under_cgi = variable("REQUEST_METHOD").is_some();
    let names = if is_https { HTTPS_PROXIES } else { HTTP_PROXIES };
    // On Windows, names of variables are not case-sensitive.
    let is_http_proxy = |name: &str| name == "HTTP_PROXY" || cfg!(windows) && name == "http_proxy";
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut usable = names.into_iter().filter(|name| !(under_cgi && is_http_proxy(name)));
    let found = usable.find_map(|name| Some((name, set(name)?)))?;
    let exceptions = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    (!is_excepted(&exceptions, host, port)).then_some(found)
}

/// Returns warnings about malformed entries of `NO_PROXY`, if the configuration uses a proxy.
pub(crate) fn diagnostics(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Vec<Diagnostic> {
    let is_on = |it: &Exporter| it.connection.proxy == Proxy::FromEnvironment;
    let asks = |it: &Exporter| it.connection.transport.connects() && is_on(it);
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let has_proxy = || HTTPS_PROXIES.iter().chain(&HTTP_PROXIES).any(|name| set(name).is_some());
    let is_used = config.exporters.iter().any(asks) && has_proxy();
    let exceptions = || ["no_proxy", "NO_PROXY"].into_iter().find_map(|name| Some((name, set(name)?)));
    let Some((name, text)) = is_used.then(exceptions).flatten() else { return Vec::new() };
    // A private key that was set by mistake has several entries, some of which look harmless. None of them is shown.
    let is_key = text.contains("-----BEGIN");
    let odd = words(&text).enumerate().filter(|(_, word)| Entry::parse(word).is_none()).take(MAX_DIAGNOSTICS);
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || ".:*/[]_-".contains(c);
    let is_shown = |word: &str| !is_key && word.len() <= MAX_SHOWN && word.chars().all(is_harmless);
    let fix = "write names, addresses or networks, like example.com, 10.0.0.1:4318, 10.0.0.0/8";
    odd.map(|(index, word)| {
        let shown = if is_shown(word) { format!(", {word:?},") } else { String::new() };
        Fault::new(format!("entry {}{shown} is not a host", index + 1), fix).warning(None, name)
    })
    .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty())
}

impl Entry {
    fn parse(word: &str) -> Option<Self> {
        if word == "*" {
            return Some(Self::Everything);
        }
        if let Some((address, bits)) = word.split_once('/') {
            let address: IpAddr = unbracketed(address).parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = number(bits).filter(|bits| *bits <= most)?;
            return Some(Self::Network(address, u8::try_from(bits).ok()?));
        }
        if let Ok(address) = unbracketed(word).parse() {
            return Some(Self::Host(Host::Address(address), None));
        }
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) => (host, Some(number(port).filter(|port| *port > 0)?)),
            None => (word, None),
        };
        let host = match Host::parse(host.strip_prefix('*').unwrap_or(host)) {
            Host::Name(name) if !is_host_name(&name) => return None,
            host => host,
        };
        Some(Self::Host(host, port))
    }

    fn covers(&self, wanted: &Host, wanted_port: u16) -> bool {
        match (self, wanted) {
            (Self::Everything, _) => true,
            (Self::Host(_, Some(port)), _) if *port != wanted_port => false,
            (Self::Host(Host::Name(domain), _), Host::Name(name)) => {
                let before = name.strip_suffix(domain.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            (Self::Host(host, _), wanted) => host == wanted,
            (Self::Network(address, bits), Host::Address(wanted)) => is_within(*wanted, *address, *bits),
            (Self::Network(..), Host::Name(_)) => false,
        }
    }
}

impl Host {
    /// Parses a host. An IPv6 address may be in brackets, as in a URL.
    pub(crate) fn parse(text: &str) -> Self {
        match unbracketed(text).parse::<IpAddr>() {
            Ok(address) => Self::Address(address.to_canonical()),
            Err(_) => Self::Name(text.trim_start_matches('.').trim_end_matches('.').to_ascii_lowercase()),
        }
    }

    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            // A resolver may map subdomains such as `otel.localhost` to another machine.
            Self::Name(name) => name == "localhost",
        }
    }
}

fn unbracketed(text: &str) -> &str {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text)
}

/// Parses digits only; the standard library would accept `+1`.
fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a text is a name of at most 253 characters, made of labels of at most 63.
pub(crate) fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(is_bare);
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    use IpAddr::{V4, V6};
    let (difference, most) = match (address, network.to_canonical()) {
        (V4(address), V4(network)) if bits <= 32 => ((address.to_bits() ^ network.to_bits()).into(), 32),
        (V6(address), V6(network)) => (address.to_bits() ^ network.to_bits(), 128),
        _ => return false,
    };
    difference.checked_shr(most - u32::from(bits)).unwrap_or_default() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_meant_as_curl_and_go_mean_them() {
        for (text, host, port, is_covered) in [
            ("collector, .internal", "collector", 4318, true),
            ("collector, .internal", "otel.INTERNAL", 80, true),
            ("collector, .internal", "internal", 80, true),
            ("collector, .internal", "notinternal", 80, false),
            ("a.example b.example\tc.example", "b.example", 80, true),
            ("a.example b.example\tc.example", "c.example.", 80, true),
            ("example.com", "otel.example.com", 80, true),
            ("EXAMPLE.com.", "otel.example.com", 80, true),
            ("*.example.com", "otel.example.com", 80, true),
            ("otel.example.com", "example.com", 80, false),
            ("*", "example.com", 80, true),
            ("example.com:4318", "otel.example.com", 4318, true),
            ("example.com:4318", "otel.example.com", 4317, false),
            ("10.1.2.3", "10.1.2.3", 80, true),
            ("10.1.2.3:4318", "10.1.2.3", 4318, true),
            ("10.1.2.3:4318", "10.1.2.3", 80, false),
            ("10.1.2.3", "10.1.2.33", 80, false),
            ("fd00::1", "[fd00::1]", 80, true),
            ("[fd00::1]:4318", "[fd00:0::1]", 4318, true),
            ("[fd00::1]:4318", "fd00::1", 80, false),
            ("10.0.0.0/8", "10.200.1.1", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", 80, true),
            ("192.168.4.0/22", "192.168.7.255", 80, true),
            ("192.168.4.0/22", "192.168.8.0", 80, false),
            ("10.0.0.1/32", "10.0.0.1", 80, true),
            ("0.0.0.0/0", "203.0.113.9", 80, true),
            ("0.0.0.0/0", "fd00::1", 80, false),
            ("fd00::/8", "fd12::1", 80, true),
            ("fd00::/8", "fe00::1", 80, false),
            ("::/0", "fe00::1", 80, true),
            ("10.0.0.0/8", "ten.example", 80, false),
            ("10.0.0.0/33,http://a.example", "10.0.0.1", 80, false),
            (" ,,", "example.com", 80, false),
            ("ä.example", "a.example", 80, false),
        ] {
            assert_eq!(is_excepted(text, host, port), is_covered, "{text} {host}:{port}");
        }
    }

    #[test]
    fn loopback_is_covered_whatever_is_said() {
        for host in ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "[::1]", "::ffff:127.0.0.1"] {
            assert!(is_excepted("", host, 4318), "{host}");
        }
        for host in ["localhost.example.com", "notlocalhost", "otel.localhost", "128.0.0.1", "::2"] {
            assert!(!is_excepted("", host, 4318), "{host}");
        }
    }

    fn found(environment: &[(&str, &str)], exporter: Exporter) -> Vec<String> {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        diagnostics(&Config::new().exporter(exporter), variable).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_entry_that_means_nothing_is_found() {
        let exporter = || Exporter::http("http://collector:4318");
        let fix = "write names, addresses or networks, like example.com, 10.0.0.1:4318, 10.0.0.0/8";
        let proxy = ("HTTP_PROXY", "http://proxy:3128");
        for (text, what) in [
            ("a.example,10.0.0.0/33", "entry 2, \"10.0.0.0/33\", is not a host"),
            ("http://a.example", "entry 1, \"http://a.example\", is not a host"),
            ("a.example:port", "entry 1, \"a.example:port\", is not a host"),
            ("a.example:+1", "entry 1 is not a host"),
            ("10.*", "entry 1, \"10.*\", is not a host"),
            ("a;b", "entry 1 is not a host"),
            ("user:s3cret@a.example", "entry 1 is not a host"),
        ] {
            assert_eq!(
                found(&[proxy, ("NO_PROXY", text)], exporter()),
                [format!("warning: NO_PROXY: {what}; {fix}")]
            );
            assert_eq!(found(&[("NO_PROXY", text)], exporter()), [""; 0], "there is no proxy");
            assert_eq!(found(&[proxy, ("NO_PROXY", text)], exporter().proxy(Proxy::Off)), [""; 0]);
        }
        assert_eq!(found(&[proxy, ("no_proxy", "*, .a.example 10.0.0.0/8")], exporter()), [""; 0]);
    }

    #[test]
    fn a_key_put_there_by_mistake_is_not_shown() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQ/IBADANBg/kqhkiG9w0BAQ\n-----END PRIVATE KEY-----";
        let told =
            found(&[("ALL_PROXY", "http://proxy"), ("NO_PROXY", pem)], Exporter::http("http://a")).concat();
        assert!(!told.is_empty() && !told.contains("MIIE") && !told.contains("BEGIN"), "{told}");
    }
}
