//! Where an endpoint is: the parts of its URL, and which of them may be shown.

use std::net::SocketAddr;

const HIDDEN: &str = "***";

/// Host and path of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) is_tls: bool,
    /// To be used, never to be shown.
    pub(super) host: String,
    /// The host, or what stands for it.
    pub(super) shown_host: String,
    /// As the user wrote it, without the query.
    pub(super) shown_path: String,
    /// The host stands in for what should not be seen: neither should its address.
    hides_address: bool,
}

impl Place {
    /// Reads the URL that is used and its form that may be shown.
    pub(super) fn parse(url: &str, shown: &str) -> Option<Self> {
        let (scheme, authority, _) = split(url)?;
        // an endpoint that came from elsewhere as a whole has no parts that can be shown
        let (_, shown_authority, shown_path) = split(shown).unwrap_or_default();
        let (host, hides_address) = (host(authority), authority != shown_authority);
        Some(Self {
            is_tls: scheme.eq_ignore_ascii_case("https"),
            host: host.to_owned(),
            shown_host: if hides_address { HIDDEN } else { host }.to_owned(),
            shown_path: shown_path.to_owned(),
            hides_address,
        })
    }

    /// An address as it may be shown.
    pub(super) fn shown_address(&self, address: SocketAddr) -> String {
        if self.hides_address { HIDDEN.to_owned() } else { address.to_string() }
    }
}

/// Scheme, host with port, and path.
fn split(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() { None } else { Some((scheme, authority, path)) }
}

fn host(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, is_tls, host, path) in [
            ("http://localhost:4318/v1/traces", false, "localhost", "/v1/traces"),
            ("https://[::1]:4318/a?b=c", true, "::1", "/a"),
            ("HTTPS://a.example", true, "a.example", ""),
        ] {
            let place = Place::parse(url, url).expect(url);
            assert_eq!((place.is_tls, place.host.as_str(), place.shown_path.as_str()), (is_tls, host, path));
            assert_eq!(place.shown_host, host);
        }
        for no_url in ["", "localhost", "http://", "http:///v1/traces"] {
            assert_eq!(Place::parse(no_url, no_url), None, "{no_url}");
        }
    }

    #[test]
    fn an_address_is_hidden_where_the_host_is() {
        let address = "10.1.2.3:4318".parse().expect("an address");
        let open = Place::parse("http://10.1.2.3:4318/", "http://10.1.2.3:4318/").expect("a URL");
        assert_eq!(open.shown_address(address), "10.1.2.3:4318");
        let hidden = Place::parse("http://10.1.2.3:4318/", "http://%{env:HOST}%:4318/").expect("a URL");
        assert_eq!(hidden.shown_address(address), "***");
        assert_eq!(hidden.shown_host, "***");
        let whole = Place::parse("http://10.1.2.3:4318/", "%{env:ENDPOINT}%").expect("a URL");
        assert_eq!((whole.shown_host.as_str(), whole.shown_path.as_str()), ("***", ""));
    }
}
