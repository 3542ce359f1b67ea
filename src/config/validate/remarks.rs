//! What in a configuration works, but was probably not meant?

use crate::config::endpoint::{Endpoint, PathRule};
use crate::config::error::{Diagnostic, DiagnosticSeverity, Fault};
use crate::config::settings::SettingRow;
use crate::config::settings::general::SELF_OBSERVATION;
use crate::config::settings::{
    BATCH_RECORDS, BLOCK_TIMEOUT, CA_FILE, CLIENT_CERTIFICATE_FILE, ENDPOINT, HEADERS,
};
use crate::config::text::listed;
use crate::config::{
    Config, Exporter, ProviderName, Proxy, SettingSource, Transport, WhenFull, header, proxy_for,
};
use crate::record::Signal;

type Remark = (&'static SettingRow, Fault);

const HTTPS: &str = "https://";

/// All remarks on one exporter, by the key they are about.
pub(super) fn on(
    exporter: &Exporter,
    variable: fn(&str) -> Option<String>,
) -> Vec<(DiagnosticSeverity, &'static SettingRow, Fault)> {
    if !exporter.connection.transport.connects() {
        return Vec::new();
    }
    let mut warnings = vec![idle_block_timeout(exporter), unfilled_batch(exporter)];
    let mut note = None;
    if let Ok(endpoint) = &exporter.connection.parsed() {
        warnings.push(idle_certificates(exporter, endpoint, variable));
        let of_endpoint = [clear_credentials, odd_path, ignored_path, ignored_query];
        warnings.extend(of_endpoint.map(|remark| remark(exporter, endpoint)));
        note = port_of_another(exporter, endpoint);
    }
    let warnings = warnings.into_iter().map(|remark| (DiagnosticSeverity::Warning, remark));
    let remarks = warnings.chain([(DiagnosticSeverity::Note, note)]);
    remarks.filter_map(|(severity, remark)| remark.map(|(row, fault)| (severity, row, fault))).collect()
}

/// The ledger as metrics, which no exporter sends.
pub(super) fn on_observation(config: &Config) -> Option<Diagnostic> {
    // those of an application have its telemetry alone
    let is_seen = config.exporters.iter().any(|exporter| {
        exporter.signals.contain(Signal::Metrics) && exporter.provider() != Some(ProviderName::Application)
    });
    let source = config.source(&SELF_OBSERVATION);
    (config.self_observation && !is_seen && !config.exporters.is_empty()).then(|| {
        let what = "has no effect: no exporter sends metrics";
        Fault::new(what, "add one that does, like [metrics.open-telemetry]").found(
            DiagnosticSeverity::Warning,
            source.location().cloned(),
            SELF_OBSERVATION.key,
        )
    })
}

/// Reports certificates without a TLS connection: neither the endpoint nor the proxy on the way to it is https.
fn idle_certificates(
    exporter: &Exporter,
    endpoint: &Endpoint,
    variable: fn(&str) -> Option<String>,
) -> Option<Remark> {
    let tls = &exporter.connection.tls;
    let row = match (&tls.ca, tls.client()) {
        (Some(_), _) => &CA_FILE,
        (None, Some(_)) => &CLIENT_CERTIFICATE_FILE,
        (None, None) => return None,
    };
    let is_https = |(_, proxy): (_, String)| {
        proxy.get(..HTTPS.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(HTTPS))
    };
    let proxy = proxy_for(false, endpoint.host_and_port(), variable);
    let proxy_is_https = exporter.connection.proxy == Proxy::FromEnvironment && proxy.is_some_and(is_https);
    let fault = || Fault::new("has no effect: the endpoint is not https", "write https:// or remove it");
    (!endpoint.tls && !proxy_is_https).then(|| (row, fault()))
}

/// Credentials that anyone on the way to another machine can read.
fn clear_credentials(exporter: &Exporter, endpoint: &Endpoint) -> Option<Remark> {
    let is_read_by_others = !endpoint.tls && !endpoint.is_loopback();
    let mut headers = exporter.connection.headers.iter();
    let has_credentials = exporter.connection.has_secret_header
        || headers.any(|(name, value)| header::is_credential(name, value.expose()));
    let what = "credentials are sent in clear text: the endpoint is not https";
    let fault = || Fault::new(what, "begin the endpoint with https://");
    (is_read_by_others && has_credentials).then(|| (&HEADERS, fault()))
}

/// A limit to waits that never happen, which is easily written where dropping is the default.
fn idle_block_timeout(exporter: &Exporter) -> Option<Remark> {
    let is_idle = exporter.queue.when_full == WhenFull::DropNewest && BLOCK_TIMEOUT.matters_to(exporter);
    let fix = match exporter.source(&BLOCK_TIMEOUT) {
        SettingSource::Environment(variable) => {
            format!("set {}=BLOCK", variable.replace("BLOCK_ON_QUEUE_FULL_TIMEOUT", "ON_QUEUE_FULL"))
        }
        SettingSource::File(_) => "write lossy = false, or remove it".to_owned(),
        SettingSource::Default | SettingSource::Code => return None,
    };
    is_idle.then(|| (&BLOCK_TIMEOUT, Fault::new("has no effect: no caller waits", fix)))
}

/// A path is used as it is, so it is the same for every signal.
fn shared_path(exporter: &Exporter, endpoint: &Endpoint) -> Option<Remark> {
    let signals: Vec<&str> = exporter.signals.iter().map(Signal::name).collect();
    // the variables have a warning of their own for an endpoint without a path
    let is_at_root = exporter.connection.path_rule == PathRule::Verbatim
        && exporter.source(&ENDPOINT) == SettingSource::Code;
    let is_shared = exporter.connection.path_rule.keeps_path() && (endpoint.has_path() || is_at_root);
    if !is_shared || signals.len() < 2 {
        return None;
    }
    let what = format!("{} are posted to the same path", listed(&signals, "and"));
    let fix = match exporter.location() {
        Some(_) => "leave the path out, or write one table for each",
        None => "give each signal its own endpoint",
    };
    Some((&ENDPOINT, Fault::new(what, fix)))
}

/// A path that no collector has: one signal's behind another, or that of another signal.
fn odd_path(exporter: &Exporter, endpoint: &Endpoint) -> Option<Remark> {
    if exporter.connection.transport != Transport::Http {
        return None;
    }
    let names_two = |(_, url): (Signal, String)| {
        let segments: Vec<&str> = url.split('?').next().unwrap_or_default().split('/').collect();
        let names_signal =
            |pair: &&[&str]| pair[0] == "v1" && Signal::ALL.iter().any(|signal| signal.name() == pair[1]);
        segments.windows(2).filter(names_signal).count() > 1
    };
    if exporter.endpoints().into_iter().any(names_two) {
        let fix = "leave the path out: that of each signal is added";
        return Some((&ENDPOINT, Fault::new("the path names a signal twice", fix)));
    }
    let is_of = |signal: &Signal| endpoint.path().ends_with(signal.path());
    let named = Signal::ALL.into_iter().find(is_of).filter(|signal| !exporter.signals.contain(*signal));
    match named {
        Some(named) if exporter.connection.path_rule.keeps_path() => {
            let sent = exporter.signals.iter().next()?;
            let what = format!("{} are posted to the path of {}", sent.name(), named.name());
            Some((&ENDPOINT, Fault::new(what, format!("leave the path out, or write {}", sent.path()))))
        }
        _ => shared_path(exporter, endpoint),
    }
}

/// The two transports have ports next to each other, and it is easy to take one for the other.
fn port_of_another(exporter: &Exporter, endpoint: &Endpoint) -> Option<Remark> {
    let (_, port) = endpoint.host_and_port();
    let (name, other) = match exporter.connection.transport {
        Transport::Http => ("HTTP", Transport::Grpc),
        Transport::Grpc => ("gRPC", Transport::Http),
        Transport::Console => return None,
    };
    if port != other.default_port() {
        return None;
    }
    let (usual, other) = (exporter.connection.transport.default_port(), other.name());
    let what = format!("{port} is usually the port of {other}");
    let fix = format!("for {name} it is usually {usual}; or choose {other} as the transport");
    Some((&ENDPOINT, Fault::new(what, fix)))
}

/// gRPC has no use for a path.
fn ignored_path(exporter: &Exporter, endpoint: &Endpoint) -> Option<Remark> {
    if exporter.connection.transport != Transport::Grpc || !endpoint.has_path() {
        return None;
    }
    // nothing that was put in is shown
    let fix = match exporter.connection.shown_origin() {
        Some(origin) => format!("write {origin:?}"),
        None => "remove it".to_owned(),
    };
    Some((&ENDPOINT, Fault::new("the path is ignored: gRPC has none", fix)))
}

/// Nor for a query, in which people put keys.
fn ignored_query(exporter: &Exporter, endpoint: &Endpoint) -> Option<Remark> {
    let is_ignored = exporter.connection.transport == Transport::Grpc && endpoint.has_query();
    let fault = || Fault::new("the query is ignored: gRPC has none", "send what it says as a header");
    is_ignored.then(|| (&ENDPOINT, fault()))
}

/// A batch that the queue never fills.
fn unfilled_batch(exporter: &Exporter) -> Option<Remark> {
    let (batch, queue) = (exporter.batch.records, exporter.queue.records);
    let fault = || {
        let what = format!("{batch} is more than the queue holds: a request has at most {queue} records");
        Fault::new(what, format!("write {queue} or less, or make the queue larger"))
    };
    (batch > queue && exporter.is_set(&BATCH_RECORDS)).then(|| (&BATCH_RECORDS, fault()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Application;

    #[test]
    fn certificates_are_of_use_to_an_https_proxy() {
        let idle = |endpoint: &str, proxy: Proxy, variable: fn(&str) -> Option<String>| {
            let exporter = Exporter::http(endpoint).proxy(proxy).ca_pem("-----BEGIN CERTIFICATE-----");
            let endpoint = exporter.connection.parsed().expect("a good endpoint");
            idle_certificates(&exporter, &endpoint, variable).is_some()
        };
        let https = |name: &str| (name == "http_proxy").then(|| "HTTPS://proxy:3129".to_owned());
        let http = |name: &str| (name == "http_proxy").then(|| "http://proxy:3128".to_owned());
        let excepted = |name: &str| match name {
            "http_proxy" => Some("https://proxy:3129".to_owned()),
            "no_proxy" => Some("a.test".to_owned()),
            _ => None,
        };
        for (endpoint, proxy, variable, is_idle) in [
            ("http://a.test", Proxy::FromEnvironment, https as fn(&str) -> Option<String>, false),
            ("http://a.test", Proxy::Off, https, true),
            ("http://localhost", Proxy::FromEnvironment, https, true),
            ("http://a.test", Proxy::FromEnvironment, http, true),
            ("http://a.test", Proxy::FromEnvironment, excepted, true),
            ("https://a.test", Proxy::FromEnvironment, http, false),
        ] {
            assert_eq!(idle(endpoint, proxy, variable), is_idle, "{endpoint} {proxy:?}");
        }
    }

    #[test]
    fn self_observation_that_nobody_would_see_is_told() {
        let told = |signal| {
            let exporter = Exporter::http("localhost").signals([signal]);
            let config = Config::new().exporter(exporter).self_observation(true).validate();
            config.expect("only a warning").diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(Signal::Metrics), [""; 0]);
        let application = Application::new().exporter(Exporter::http("localhost").signals([Signal::Metrics]));
        let config = Config::new().exporter(Exporter::http("localhost").signals([Signal::Traces]));
        let config = config.application(application).self_observation(true).validate();
        assert_eq!(config.expect("only a warning").diagnostics().len(), 1);
        assert_eq!(
            told(Signal::Traces),
            ["warning: self-observation: has no effect: no exporter sends metrics; \
                 add one that does, like [metrics.open-telemetry]"]
        );
    }
}
