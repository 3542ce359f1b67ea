//! Which proxy to use, by the environment variables; the exporters' own setting can switch it off.

use ureq::ProxyProtocol;

use crate::config::{Proxy, proxy_for};

/// Returns the proxy for this URL and the variable that names it.
///
/// # Errors
/// When there should be a proxy that cannot be used: going past it is not what the user wants. The address is not
/// shown, as it may hold a password.
pub(super) fn choose(
    setting: Proxy,
    url: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<(&'static str, ureq::Proxy)>, String> {
    let destination = host_and_port(url).filter(|_| setting == Proxy::FromEnvironment);
    let Some((name, address)) = destination.and_then(|to| proxy_for(url.starts_with("https:"), to, variable))
    else {
        return Ok(None);
    };
    match ureq::Proxy::new(&address) {
        Ok(proxy) if matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) => {
            Ok(Some((name, proxy)))
        }
        _ => Err(format!("{name} is not the address of an HTTP proxy; write it like http://proxy:3128")),
    }
}

/// Returns what to change after a proxy has refused the program, or `None` if `status` (a code, maybe with its name) is not a
/// refusal.
pub(super) fn advice(variable: &str, status: &str) -> Option<String> {
    match status.get(..3)? {
        "407" => Some(format!("set user and password in {variable}: http://user:password@host:port")),
        "403" => Some(format!("let the proxy in {variable} allow the collector, or list it in NO_PROXY")),
        _ => None,
    }
}

/// Where a URL leads to; an IPv6 address is in its brackets.
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
    use super::*;

    fn chosen(url: &str, environment: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let chosen = choose(Proxy::FromEnvironment, url, variable);
        chosen.map(|proxy| proxy.map(|(_, proxy)| proxy.host().to_owned()))
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
            choose(Proxy::FromEnvironment, "http://a/", variable).map(|proxy| proxy.is_some()),
            Ok(false)
        );
    }

    #[test]
    fn proxies_can_be_switched_off() {
        let variable = |_: &str| Some("http://proxy:3128".to_owned());
        assert_eq!(choose(Proxy::Off, "http://a/", variable), Ok(None));
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
}
