//! Which proxy the environment asks for.

use crate::config::Proxy;

/// The proxy for this URL. `HTTP_PROXY` is ignored under CGI, where a request's `Proxy:` header sets it.
pub(super) fn choose(
    setting: Proxy,
    url: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<ureq::Proxy> {
    if setting == Proxy::Off {
        return None;
    }
    let under_cgi = variable("REQUEST_METHOD").is_some();
    let names: &[&str] = match url.starts_with("https:") {
        true => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        false if under_cgi => &["http_proxy", "all_proxy", "ALL_PROXY"],
        false => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let address = names.iter().filter_map(|name| variable(name)).find(|address| !address.is_empty())?;
    let proxy = ureq::Proxy::new(&address).ok()?;
    let mut chosen = ureq::Proxy::builder(proxy.protocol()).host(proxy.host()).port(proxy.port());
    if let Some(name) = proxy.username() {
        chosen = chosen.username(name);
    }
    if let Some(password) = proxy.password() {
        chosen = chosen.password(password);
    }
    let exceptions = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
    let exceptions = exceptions.split(',').map(str::trim).filter(|name| !name.is_empty());
    exceptions.fold(chosen, |chosen, name| chosen.no_proxy(name)).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(setting: Proxy, url: &str, environment: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        choose(setting, url, variable).map(|proxy| proxy.host().to_owned())
    }

    #[test]
    fn the_scheme_chooses_the_variable() {
        let environment = [("HTTP_PROXY", "http://plain:3128"), ("HTTPS_PROXY", "http://secure:3128")];
        assert_eq!(host(Proxy::FromEnvironment, "http://a/", &environment).as_deref(), Some("plain"));
        assert_eq!(host(Proxy::FromEnvironment, "https://a/", &environment).as_deref(), Some("secure"));
    }

    #[test]
    fn http_proxy_is_ignored_under_cgi() {
        let environment = [("HTTP_PROXY", "http://attacker:3128"), ("REQUEST_METHOD", "GET")];
        assert_eq!(host(Proxy::FromEnvironment, "http://a/", &environment), None);
    }

    #[test]
    fn proxies_can_be_switched_off() {
        let environment = [("ALL_PROXY", "http://proxy:3128")];
        assert_eq!(host(Proxy::Off, "http://a/", &environment), None);
        assert_eq!(host(Proxy::FromEnvironment, "http://a/", &environment).as_deref(), Some("proxy"));
    }

    #[test]
    fn hosts_in_no_proxy_are_reached_directly() {
        let variable = |name: &str| match name {
            "http_proxy" => Some("http://proxy:3128".to_owned()),
            "no_proxy" => Some("localhost, .internal".to_owned()),
            _ => None,
        };
        let proxy = choose(Proxy::FromEnvironment, "http://a/", variable).unwrap();
        assert!(proxy.is_no_proxy(&"http://localhost:4318/".parse().unwrap()));
        assert!(!proxy.is_no_proxy(&"http://example.com/".parse().unwrap()));
    }
}
