//! The exporters of a configuration in a form that programs can read.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Config, Exporter, RouteName, WhenFull, header};
use crate::record::Signal;

/// What one exporter will do, without its secrets; from [`Config::summaries`]. This is what
/// `standpipe check --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The exporter's id.
    pub id: String,
    /// What is sent: of `traces`, `logs` and `metrics`.
    pub signals: Vec<&'static str>,
    /// `http`, `grpc` or `console`.
    pub transport: &'static str,
    /// Where each signal goes: the full URL that is posted to, or scheme, host and port for gRPC. A query, where
    /// people put keys, is `***`. What is printed goes to `stdout`.
    pub endpoints: BTreeMap<&'static str, String>,
    /// Whether the connection is encrypted and the server's certificate verified.
    pub tls: bool,
    /// The names of the headers, in lower case; `***` for one that looks like a value.
    pub headers: Vec<String>,
    /// The least severity that is sent; `None` if only metrics are.
    pub level: Option<String>,
    /// The shortest time between two rounds of sending; `None` if only metrics are sent.
    pub throttle_ms: Option<u64>,
    /// Whether a record that finds the queue full is dropped.
    pub lossy: bool,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// The time between two pushes; `None` if no metrics are sent.
    pub interval_ms: Option<u64>,
    /// The resource attribute `service.name`; as the file spells it where `%{…}%` is in it.
    pub service_name: String,
    /// The share of traces that begin here and are recorded, in percent.
    pub sampling: f64,
    /// `internal` or `application` where a file tells the two apart.
    pub route: Option<&'static str>,
}

impl Config {
    /// What each exporter will do, in the order of [`exporters`](Self::exporters).
    pub fn summaries(&self) -> Vec<Summary> {
        self.exporters.iter().map(|exporter| self.summary(exporter)).collect()
    }

    fn summary(&self, exporter: &Exporter) -> Summary {
        let sends = |signal| exporter.signals.contain(signal);
        let sends_records = sends(Signal::Traces) || sends(Signal::Logs);
        let route = self.route(exporter);
        let connects = exporter.http.transport.connects();
        let headers = exporter.http.headers.iter().filter(|_| connects);
        Summary {
            id: exporter.name().to_owned(),
            signals: exporter.signals.iter().map(Signal::name).collect(),
            transport: exporter.http.transport.name(),
            endpoints: exporter.endpoints().into_iter().map(|(signal, url)| (signal.name(), url)).collect(),
            tls: connects && exporter.http.parsed().is_ok_and(|endpoint| endpoint.tls),
            headers: headers.map(|(name, _)| header::shown_name(name).to_ascii_lowercase()).collect(),
            level: sends_records.then(|| exporter.level.name()),
            throttle_ms: sends_records.then(|| milliseconds(exporter.pace.throttle)),
            lossy: exporter.queue.when_full == WhenFull::DropNewest,
            timeout_ms: milliseconds(exporter.http.timeout),
            interval_ms: sends(Signal::Metrics).then(|| milliseconds(exporter.push.interval)),
            service_name: route.shown_service_name(),
            sampling: route.sampling(),
            route: exporter.route().map(RouteName::name),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
