//! Which signals share an exporter, and where each goes.

use std::time::Duration;

use crate::config::Config;
use crate::config::env::names;
use crate::config::env::tests::*;
use crate::record::Signal;

#[test]
fn signals_that_are_set_alike_share_an_exporter_and_others_have_their_own() {
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
    const LOGS: &str = "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT";
    const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT";
    const ALL: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
    for (variables, expected) in [
        (&[(ALL, "1")][..], &["otlp"][..]),
        (&[(TRACES, "1")], &["otlp.traces", "otlp"]),
        (&[(LOGS, "1")], &["otlp", "otlp.logs"]),
        (&[(METRICS, "1")], &["otlp", "otlp.metrics"]),
        (&[(TRACES, "1"), (LOGS, "1")], &["otlp", "otlp.metrics"]),
        (&[(TRACES, "1"), (LOGS, "1"), (METRICS, "1")], &["otlp"]),
        (&[(TRACES, "1"), (LOGS, "2"), (METRICS, "3")], &["otlp.traces", "otlp.logs", "otlp.metrics"]),
        (&[(ALL, "1"), (LOGS, "1")], &["otlp"]),
        // what is set to the default is set alike
        (&[(TRACES, "10000")], &["otlp"]),
        (&[("OTEL_BSP_SCHEDULE_DELAY", "1000")], &["otlp"]),
        (&[("OTEL_BSP_SCHEDULE_DELAY", "200"), ("OTEL_BLRP_SCHEDULE_DELAY", "200")], &["otlp"]),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_BLRP_MAX_QUEUE_SIZE", "10")], &["otlp"]),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "10")], &["otlp.traces", "otlp"]),
        (&[("OTEL_BLRP_MAX_QUEUE_SIZE", "10")], &["otlp", "otlp.logs"]),
        (&[("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a=1")], &["otlp", "otlp.logs"]),
        (&[("OTEL_LOGS_EXPORTER", "none")], &["otlp"]),
        (&[("OTEL_LOGS_EXPORTER", "none"), (TRACES, "1")], &["otlp.traces", "otlp.metrics"]),
        (&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "NONE"), (METRICS, "1")], &["otlp"]),
    ] {
        assert_eq!(names(&sound(variables)), expected, "{variables:?}");
    }
    let config = sound(&[(TRACES, "1"), ("OTEL_LOGS_EXPORTER", "none")]);
    let lingers: Vec<Duration> = config.exporters().iter().map(|exporter| exporter.pace.linger).collect();
    assert_eq!(lingers, [Duration::from_secs(5); 2], "only logs are in a hurry");
}

#[test]
fn the_headers_of_a_signal_replace_those_of_all() {
    let config = sound(&[
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=all,x-scope=1"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "authorization=Basic%20a%2Cb%3D,x=%25"),
    ]);
    let headers = |index: usize| -> Vec<(&str, &str)> {
        let headers = &config.exporters()[index].connection.headers;
        headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
    };
    assert_eq!(headers(0), [("authorization", "all"), ("x-scope", "1")]);
    assert_eq!(headers(1), [("authorization", "Basic a,b="), ("x", "%")]);
}

#[test]
fn a_signal_goes_where_its_exporter_says() {
    for (value, message) in [
        ("otpl", "\"otpl\" is not known; did you mean \"otlp\"?"),
        ("otlp,zipkin", "\"zipkin\" is not known; write otlp, console or none"),
    ] {
        let error = refused(&[("OTEL_TRACES_EXPORTER", value)]);
        assert_eq!(error.to_string(), format!("OTEL_TRACES_EXPORTER: {message}"));
    }
    for (value, signals, message) in [
        ("otlp", "traces, logs, metrics", None),
        ("OTLP", "traces, logs, metrics", None),
        ("none", "logs, metrics", None),
        ("console", "logs, metrics", None),
        ("otlp, console", "traces, logs, metrics", None),
        (
            "none,otlp",
            "traces, logs, metrics",
            Some("ignored: \"none\" among others; remove it, or the others"),
        ),
    ] {
        let config = sound(&[("OTEL_TRACES_EXPORTER", value)]);
        let expected: Vec<String> =
            message.iter().map(|message| format!("warning: OTEL_TRACES_EXPORTER: {message}")).collect();
        assert_eq!(diagnostics(&config), expected, "{value}");
        let line = format!("otlp: signals = {signals} (OTEL_TRACES_EXPORTER)");
        assert!(settings(&config).contains(&line), "{value}: {line}");
    }
    let printed = sound(&[("OTEL_LOGS_EXPORTER", "console"), ("OTEL_METRICS_EXPORTER", "otlp,console")]);
    assert_eq!(names(&printed), ["otlp", "console"]);
    for line in [
        "otlp: signals = traces, metrics (OTEL_LOGS_EXPORTER)",
        "console: transport = console (OTEL_LOGS_EXPORTER)",
        "console: signals = logs, metrics (OTEL_LOGS_EXPORTER)",
    ] {
        assert!(settings(&printed).contains(&line.to_owned()), "{line}: {:?}", settings(&printed));
    }
    let none = Signal::ALL.map(|signal| (names::exporter(signal), "none"));
    assert_eq!(names(&Config::from_variables(none).unwrap()), [""; 0]);
}
