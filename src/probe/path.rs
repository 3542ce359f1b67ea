//! Pure: what can be seen to be wrong with a path.

use super::words::Words;
use crate::record::Signal;

/// A mistake that the path of an endpoint shows by itself, for the signals that are posted there.
pub(super) fn mistake(path: &str, signals: &[Signal]) -> Option<Words> {
    let signal_paths = Signal::ALL.iter().map(|signal| path.matches(signal.path()).count()).sum::<usize>();
    if signal_paths > 1 {
        let what = format!("the path {path} names a signal twice");
        return Some(Words::new(what, "write the endpoint without what is doubled"));
    }
    let owner = Signal::ALL.into_iter().find(|signal| path.trim_end_matches('/').ends_with(signal.path()))?;
    let strangers: Vec<&str> =
        signals.iter().filter(|signal| **signal != owner).map(|signal| signal.name()).collect();
    if strangers.is_empty() {
        return None;
    }
    let what = format!("{} are posted to {path}, the path of {}", strangers.join(" and "), owner.name());
    Some(Words::new(what, "write the endpoint without a path, or give each signal an exporter of its own"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let found = mistake(path, &signals).map(|words| words.what);
            assert_eq!(found.as_deref(), expected, "{path} {signals:?}");
        }
    }
}
