//! What works but was probably not meant is told, with what to write instead; what is somebody else's is left alone.

use settings::{findings, tracer};
use standpipe::Config;

#[path = "support/settings.rs"]
mod settings;

fn told(text: &str) -> Vec<String> {
    findings(&Config::from_toml_str(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

#[test]
fn a_section_under_a_name_that_nobody_reads_is_told() {
    for (text, message) in [
        ("[tracers.otel]\ntype = 'otel'", "1:10: tracers.otel: {}; did you mean [tracer.otel]?"),
        ("[trace.otel]\ntransport = 'http'", "1:8: trace.otel: {}; did you mean [tracer.otel]?"),
        (
            "[metric.open-telemetry]\ntransport = 'http'",
            "1:9: metric.open-telemetry: {}; did you mean [metrics.open-telemetry]?",
        ),
        (
            "[metrics.otel]\ntransport = 'grpc'",
            "1:10: metrics.otel: {}; did you mean [metrics.open-telemetry]?",
        ),
        ("[telemetery.exporters.c]\nsampling = 1", "1:2: telemetery: {}; did you mean telemetry?"),
        ("[server.telemetrie]\nexporter = 'c'", "1:9: server.telemetrie: {}; did you mean server.telemetry?"),
    ] {
        let message = message.replace("{}", "not read: no section has this name");
        assert_eq!(told(text), [format!("warning: <toml>:{message}")], "{text}");
    }
    for text in [
        "[postgres]\nhost = 'db'",
        "[metrics.prometheus]\nenable = true",
        "[storage.blob]\ntype = 's3'\nendpoint = 'x'",
        "[trace]\nlevel = 'info'",
        "[server.http]\ntransport = 5",
        "[queue.remote]\ntype = 'smtp'\ntransport = 'http'",
    ] {
        assert_eq!(told(text), [""; 0], "{text}");
    }
}

#[test]
fn a_key_that_people_expect_is_told_by_its_right_name_or_place() {
    for (key, fix) in [
        ("enable.logs = true", "did you mean \"enable.log-exporter\"?"),
        ("enable.traces = true", "did you mean \"enable.span-exporter\"?"),
        ("service_name = 'shop'", "set it in code with Config::service_name, or as OTEL_SERVICE_NAME"),
        ("sampler = 'always_on'", "set it in code with Config::sampler, or as OTEL_TRACES_SAMPLER"),
        ("url = 'localhost'", "did you mean \"endpoint\"?"),
        ("insecure = true", "the scheme of endpoint decides: write http:// or https://"),
        ("queue_records = 5", "did you mean \"queue-records\"?"),
        ("colour = 'red'", "remove it"),
    ] {
        let told = told(&tracer(key));
        assert_eq!(told.len(), 1, "{key}: {told:?}");
        assert!(told[0].ends_with(&format!(": unknown key; {fix}")), "{key}: {told:?}");
    }
}

#[test]
fn an_endpoint_that_no_collector_has_is_told() {
    let metrics = |endpoint: &str| {
        told(&format!("[metrics.open-telemetry]\ntransport = 'http'\nendpoint = '{endpoint}'\n"))
    };
    let place = "<toml>:3:12: metrics.open-telemetry.endpoint";
    for (endpoint, message) in [
        (
            "http://localhost:4318/v1/traces",
            format!(
                "warning: {place}: metrics are posted to the path of traces; leave the path out, or write /v1/metrics"
            ),
        ),
        (
            "http://localhost:4318/v1/metrics/v1/metrics",
            format!(
                "warning: {place}: the path names a signal twice; leave the path out: that of each signal is added"
            ),
        ),
        (
            "localhost:4317",
            format!("note: {place}: 4317 is usually the port of grpc; for HTTP it is usually 4318"),
        ),
    ] {
        assert_eq!(metrics(endpoint), [message], "{endpoint}");
    }
    for endpoint in ["http://localhost:4318/v1/metrics", "http://localhost/otlp", "localhost:1"] {
        assert_eq!(metrics(endpoint), [""; 0], "{endpoint}");
    }
}
