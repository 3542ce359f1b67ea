//! The endpoints of an exporter: the parts of each URL, their displayable form, and obvious mistakes in a path.

use std::net::SocketAddr;

use super::advice::Problem;
use crate::config::Exporter;
use crate::record::Signal;

const HIDDEN: &str = "***";

/// A URL to probe, and the signals that are sent to it.
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) shown: String,
    /// Signals, at least one.
    pub(super) signals: Vec<Signal>,
}

pub(super) fn endpoints(exporter: &Exporter) -> Vec<Endpoint> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    if !exporter.connection.transport.connects() {
        return endpoints;
    }
    for (signal, shown) in exporter.endpoints() {
        let url = exporter.connection.url(signal);
        match endpoints.iter_mut().find(|endpoint| endpoint.url == url) {
            Some(endpoint) => endpoint.signals.push(signal),
            None => endpoints.push(Endpoint { url, shown, signals: vec![signal] }),
        }
    }
    endpoints
}

/// Host and path of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndpointUrl {
    pub(super) is_tls: bool,
    /// Real host, to connect to. It may be secret, so reports show `shown_host`.
    pub(super) host: String,
    /// The host, or `***`.
    pub(super) shown_host: String,
    /// Path as the user wrote it, without the query.
    pub(super) shown_path: String,
    /// Displayable address of a Unix socket; `None` for a host.
    pub(super) socket: Option<String>,
    /// True if the host comes from a secret, so that its address is not shown either.
    hides_address: bool,
}

impl EndpointUrl {
    /// Reads the real URL and its displayable form.
    pub(super) fn parse(url: &str, shown: &str) -> Option<Self> {
        let (scheme, authority, _) = split(url)?;
        let socket = shown.starts_with("unix").then(|| shown.to_owned());
        // If the whole endpoint comes from a secret, no part of it can be shown.
        let (_, shown_authority, shown_path) =
            split(if socket.is_some() { url } else { shown }).unwrap_or_default();
        let (host, hides_address) = (host(authority), authority != shown_authority);
        Some(Self {
            is_tls: scheme.eq_ignore_ascii_case("https"),
            host: host.to_owned(),
            shown_host: if hides_address { HIDDEN } else { host }.to_owned(),
            shown_path: shown_path.to_owned(),
            socket,
            hides_address,
        })
    }

    /// Returns the displayable form of an address.
    pub(super) fn shown_address(&self, address: SocketAddr) -> String {
        if self.hides_address { HIDDEN.to_owned() } else { address.to_string() }
    }
}

/// Splits a URL into scheme, host with port, and path.
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

/// Returns an obvious mistake in the path of an endpoint, for the signals that are posted there.
pub(super) fn path_mistake(path: &str, signals: &[Signal]) -> Option<Problem> {
    let signal_paths = Signal::ALL.iter().map(|signal| path.matches(signal.path()).count()).sum::<usize>();
    if signal_paths > 1 {
        let what = format!("the path {path} names a signal twice");
        return Some(Problem::new(what, "write only one signal path in the endpoint"));
    }
    let owner = Signal::ALL.into_iter().find(|signal| path.trim_end_matches('/').ends_with(signal.path()))?;
    let strangers: Vec<&str> =
        signals.iter().filter(|signal| **signal != owner).map(|signal| signal.name()).collect();
    if strangers.is_empty() {
        return None;
    }
    let what = format!("{} are posted to {path}, the path of {}", strangers.join(" and "), owner.name());
    Some(Problem::new(what, "write the endpoint without a path, or give each signal a separate exporter"))
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
            let url = EndpointUrl::parse(url, url).expect(url);
            assert_eq!((url.is_tls, url.host.as_str(), url.shown_path.as_str()), (is_tls, host, path));
            assert_eq!(url.shown_host, host);
        }
        for no_url in ["", "localhost", "http://", "http:///v1/traces"] {
            assert_eq!(EndpointUrl::parse(no_url, no_url), None, "{no_url}");
        }
    }

    #[test]
    fn an_address_is_hidden_where_the_host_is() {
        let address = "10.1.2.3:4318".parse().expect("an address");
        let open = EndpointUrl::parse("http://10.1.2.3:4318/", "http://10.1.2.3:4318/").expect("a URL");
        assert_eq!(open.shown_address(address), "10.1.2.3:4318");
        let hidden = EndpointUrl::parse("http://10.1.2.3:4318/", "http://%{env:HOST}%:4318/").expect("a URL");
        assert_eq!(hidden.shown_address(address), "***");
        assert_eq!(hidden.shown_host, "***");
        let whole = EndpointUrl::parse("http://10.1.2.3:4318/", "%{env:ENDPOINT}%").expect("a URL");
        assert_eq!((whole.shown_host.as_str(), whole.shown_path.as_str()), ("***", ""));
    }

    #[test]
    fn doubled_and_exchanged_paths_are_seen() {
        let (traces, logs, metrics) = (Signal::Traces, Signal::Logs, Signal::Metrics);
        for (path, signals, expected) in [
            ("/v1/traces", vec![traces], None),
            ("/otlp/v1/metrics/", vec![metrics], None),
            ("", vec![traces], None),
            ("/v1/otel", vec![traces, logs], None),
            (
                "/v1/traces/v1/traces",
                vec![traces],
                Some("the path /v1/traces/v1/traces names a signal twice"),
            ),
            ("/v1/traces/v1/logs", vec![logs], Some("the path /v1/traces/v1/logs names a signal twice")),
            ("/v1/traces", vec![metrics], Some("metrics are posted to /v1/traces, the path of traces")),
            (
                "/a/v1/traces",
                vec![traces, logs, metrics],
                Some("logs and metrics are posted to /a/v1/traces, the path of traces"),
            ),
        ] {
            let found = path_mistake(path, &signals).map(|problem| problem.what);
            assert_eq!(found.as_deref(), expected, "{path} {signals:?}");
        }
    }
}
