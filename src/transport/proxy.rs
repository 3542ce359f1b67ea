//! Which proxy the environment asks for.

use ureq::ProxyProtocol;

use crate::config::Proxy;

/// The proxy for this URL. `HTTP_PROXY` is ignored under CGI, where a request's `Proxy:` header sets it.
///
/// # Errors
/// When there should be a proxy that cannot be used: going past it is not what the user wants. The address is not
/// shown, as it may hold a password.
pub(super) fn choose(
    setting: Proxy,
    url: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<ureq::Proxy>, String> {
    if setting == Proxy::Off {
        return Ok(None);
    }
    let under_cgi = variable("REQUEST_METHOD").is_some();
    let names: &[&str] = match url.starts_with("https:") {
        true => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        false if under_cgi => &["http_proxy", "all_proxy", "ALL_PROXY"],
        false => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let Some((name, address)) = names.iter().find_map(|name| Some((name, set(name)?))) else {
        return Ok(None);
    };
    let exceptions = set(&"no_proxy").or_else(|| set(&"NO_PROXY")).unwrap_or_default();
    if exceptions.split(',').any(|exception| covers(exception.trim(), host(url))) {
        return Ok(None);
    }
    match ureq::Proxy::new(&address) {
        Ok(proxy) if matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) => {
            Ok(Some(proxy))
        }
        _ => Err(format!("{name} is not the address of an HTTP proxy; write it like http://proxy:3128")),
    }
}

fn host(url: &str) -> &str {
    let authority = url.split('/').nth(2).unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether an entry of `NO_PROXY` means this host: its name, a domain that it is in, or `*`.
fn covers(exception: &str, host: &str) -> bool {
    if exception == "*" {
        return true;
    }
    let domain = exception.trim_start_matches('*').trim_start_matches('.');
    let domain = domain.trim_start_matches('[').trim_end_matches(']');
    let Some(start) = host.len().checked_sub(domain.len()).filter(|_| !domain.is_empty()) else {
        return false;
    };
    // both are ASCII, or they do not match anyway
    host.is_char_boundary(start)
        && host[start..].eq_ignore_ascii_case(domain)
        && (start == 0 || host[..start].ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(url: &str, environment: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        choose(Proxy::FromEnvironment, url, variable).map(|proxy| proxy.map(|proxy| proxy.host().to_owned()))
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

    #[test]
    fn proxies_can_be_switched_off() {
        let variable = |_: &str| Some("http://proxy:3128".to_owned());
        assert_eq!(choose(Proxy::Off, "http://a/", variable), Ok(None));
        assert_eq!(chosen("http://a/", &[("ALL_PROXY", "http://proxy:3128")]), via("proxy"));
    }

    #[test]
    fn hosts_in_no_proxy_are_reached_directly() {
        for (no_proxy, url, direct) in [
            ("localhost, .internal", "http://localhost:4318/", true),
            ("localhost, .internal", "http://otel.INTERNAL/", true),
            ("localhost, .internal", "http://internal/", true),
            ("localhost, .internal", "http://notinternal/", false),
            ("example.com", "http://otel.example.com/", true),
            ("*.example.com", "http://otel.example.com/", true),
            ("otel.example.com", "http://example.com/", false),
            ("*", "http://example.com/", true),
            ("127.0.0.1,::1", "http://[::1]:4318/", true),
            ("127.0.0.1,::1", "http://127.0.0.1:4318/", true),
            (" ,,", "http://example.com/", false),
            ("ä.example", "http://a.example/", false),
        ] {
            let environment = [("http_proxy", "http://proxy:3128"), ("no_proxy", no_proxy)];
            let expected = if direct { Ok(None) } else { via("proxy") };
            assert_eq!(chosen(url, &environment), expected, "{no_proxy} {url}");
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
